// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend fleet`: checks of many volumes by Slurm, Kubernetes or a shell on each node. What it does is in `fsmend-fleet`; here it is asked for
//! and shown.

pub mod args;
mod show;
mod submit;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use clap::Parser;
use fsmend_fleet::divide::divide;
use fsmend_fleet::run::{ListFacts, replace, replace_with};
use fsmend_fleet::{Children, Choices, Error, Run, RunFolder, Worker};
use fsmend_fleet::{list, merge, prometheus, ranges, select, status};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::args::{Cli, Command};
use crate::common_args::PlainFormat as Format;
use crate::style::Style;
use crate::{check, exit, machine, numbers, repair, version};
use args::{FleetArgs, MergeArgs, MergeFormat, PlanArgs, StatusArgs, VolumeArgs, What, WorkArgs};

/// Runs the command and returns the exit code.
pub fn run(arguments: &FleetArgs) -> u8 {
    let done = match &arguments.what {
        What::Plan(arguments) => plan(arguments),
        What::Submit(arguments) => submit::submit(arguments),
        What::Work(arguments) => work(arguments),
        What::Status(arguments) => tell_status(arguments),
        What::Merge(arguments) => tell_merged(arguments),
        What::Volume(arguments) => return volume(arguments),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fsmend: {error}.");
            match error {
                Error::Usage(_) => exit::USAGE,
                Error::Again(_) => exit::TRY_AGAIN,
                Error::Failed(_) => exit::OPERATIONAL,
                Error::Stopped => exit::CANCELLED,
            }
        }
    }
}

fn plan(arguments: &PlanArgs) -> Result<u8, Error> {
    let name = arguments.list.display().to_string();
    let cannot_open = |error| Error::Usage(format!("{name}: {error}"));
    let items = match name.as_str() {
        "-" => list::read(io::stdin().lock(), "standard input")?,
        _ => list::read(BufReader::new(File::open(&arguments.list).map_err(cannot_open)?), &name)?,
    };
    let volumes = items.len() as u64;
    let items: Vec<_> =
        items.into_iter().filter(|item| arguments.part.is_none_or(|part| part.holds(&item.id))).collect();
    let other_parts = volumes - items.len() as u64;
    let earlier: Vec<RunFolder> =
        arguments.previous.iter().map(|path| RunFolder::open(path)).collect::<Result<_, _>>()?;
    let now = machine::seconds_since_epoch();
    let items = match arguments.outdated_after {
        Some(span) => select::outdated(items, &earlier, now.saturating_sub(span.as_secs()))?,
        None => items,
    };
    let recent = volumes - other_parts - items.len() as u64;
    let facts = ListFacts { volumes, part: arguments.part, other_parts, recent, ..ListFacts::default() };
    let shards = divide(items, arguments.shards as usize);
    let run = Run {
        options: choices(arguments),
        plans: arguments.plans,
        problems_max: arguments.problems as usize,
        ..Run::new(version::short(), now, facts, &shards)?
    };
    let (folder, is_new) = RunFolder::create(&arguments.run, &run, &shards)?;
    print(&show::planned(&folder, is_new))
}

fn choices(arguments: &PlanArgs) -> Choices {
    Choices {
        threads: arguments.threads,
        memory: arguments.memory,
        read_limit: arguments.read_limit,
        background: arguments.background,
        no_replay: arguments.no_replay,
        ..Choices::default()
    }
}

fn work(arguments: &WorkArgs) -> Result<u8, Error> {
    let folder = RunFolder::open(&arguments.run)?;
    folder.must_be_planned_by(version::short())?;
    let shards = shards(arguments, &folder)?;
    let cancel = Arc::new(AtomicBool::new(false));
    if let Err(error) = check::stop_on_signals(&cancel) {
        eprintln!("fsmend: cannot handle signals ({error}): an interrupt ends the run at once.");
    }
    let process = std::process::id();
    let node = node(arguments.only_node.as_deref());
    let checker = Children {
        // The same program, even where the file was replaced in the meantime.
        program: "/proc/self/exe".into(),
        before: ["fleet", "volume", &format!("--worker={process}"), "--"].map(str::to_owned).to_vec(),
        stamp: RunFolder::plan_name(&format!("{node}-{process}")),
        limits: granted(|name| std::env::var(name).ok()),
    };
    let worker = Worker {
        folder: &folder,
        checker: &checker,
        now: &since_epoch,
        node: &node,
        process,
        retry: arguments.retry,
        cancel: &cancel,
    };
    let written = worker.work(&shards)?;
    eprintln!("fsmend: {} checked.", numbers::counted(written, "volume", "volumes"));
    Ok(exit::CLEAN)
}

/// The shards that are asked for.
fn shards(arguments: &WorkArgs, folder: &RunFolder) -> Result<Vec<usize>, Error> {
    let facts = folder.run.shards.iter().enumerate();
    if let Some(node) = &arguments.only_node {
        let of_node: Vec<usize> =
            facts.filter(|(_, shard)| shard.node.as_ref() == Some(node)).map(|(number, _)| number).collect();
        if of_node.is_empty() {
            eprintln!("fsmend: no shard belongs to node {node}.");
        }
        return Ok(of_node);
    }
    let Some(list) = &arguments.shard else {
        let all: Vec<usize> =
            facts.filter(|(_, shard)| shard.node.is_none()).map(|(number, _)| number).collect();
        if all.len() < folder.run.shards.len() {
            eprintln!("fsmend: shards that belong to a node are left out; --node NAME works on them.");
        }
        return Ok(all);
    };
    let list = ranges::parse(list).map_err(Error::Usage)?;
    match arguments.pick {
        None => Ok(list),
        Some(index) => match list.get(index) {
            Some(shard) => Ok(vec![*shard]),
            None => Err(Error::Usage(format!(
                "--pick {index}: the list of --shard has only {} elements",
                list.len()
            ))),
        },
    }
}

/// Where a worker runs.
fn node(named: Option<&str>) -> String {
    let of_engine = || ["SLURMD_NODENAME", "NODE_NAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let of_system = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    named.map(str::to_owned).or_else(of_engine).unwrap_or_else(of_system)
}

/// What Slurm grants to a task. It may be that nothing else enforces it.
fn granted(variable: impl Fn(&str) -> Option<String>) -> Choices {
    let number =
        |name: &str| variable(name).and_then(|text| text.parse::<u64>().ok()).filter(|number| *number > 0);
    let threads = number("SLURM_CPUS_PER_TASK");
    let of_cpus = || Some(number("SLURM_MEM_PER_CPU")?.saturating_mul(threads.unwrap_or(1)));
    let mebibytes = number("SLURM_MEM_PER_NODE").or_else(of_cpus);
    Choices {
        threads: threads.and_then(|threads| u16::try_from(threads).ok()),
        // The other half is for what a check holds beside its facts, and for the worker.
        memory: mebibytes.map(|mebibytes| mebibytes.saturating_mul(1 << 20) / 2),
        ..Choices::default()
    }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn tell_status(arguments: &StatusArgs) -> Result<u8, Error> {
    let folder = RunFolder::open(&arguments.run)?;
    let status = status::status(&folder)?;
    match arguments.format {
        Format::Text => print(&show::status(&folder, &status))?,
        Format::Json => print_json(&status)?,
    };
    Ok(if status.is_complete() { exit::CLEAN } else { exit::OPERATIONAL })
}

fn tell_merged(arguments: &MergeArgs) -> Result<u8, Error> {
    let folder = RunFolder::open(&arguments.run)?;
    let merged = match &arguments.records {
        None => merge::merge(&folder, None)?,
        Some(path) => merge_with_records(&folder, path)?,
    };
    if let Some(path) = &arguments.prometheus {
        let metrics = prometheus::metrics(&merged, machine::seconds_since_epoch());
        replace(path, metrics.as_bytes()).map_err(|error| Error::io(path, &error))?;
    }
    match arguments.format {
        MergeFormat::Text => {
            print(&show::merged(&merged, Style::for_stdout(arguments.color), arguments.all))?
        }
        MergeFormat::Json => print_json(&merged)?,
        MergeFormat::Html => print(&fsmend_fleet::html::page(&merged)?)?,
    };
    Ok(merged.exit_code)
}

fn merge_with_records(folder: &RunFolder, path: &Path) -> Result<merge::Merged, Error> {
    let mut merged = Err(Error::Stopped);
    let written = replace_with(path, |file| {
        let mut out = BufWriter::new(file);
        merged = merge::merge(folder, Some(&mut out));
        out.flush()
    });
    merged.and_then(|merged| written.map(|()| merged).map_err(|error| Error::io(path, &error)))
}

/// Prints what is for standard output. A reader that has seen enough (a closed pipe) is no error.
fn print(text: &str) -> Result<u8, Error> {
    written(io::stdout().lock().write_all(text.as_bytes()))
}

fn print_json(value: &impl serde::Serialize) -> Result<u8, Error> {
    let mut out = BufWriter::new(io::stdout().lock());
    let done = serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from);
    written(done.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()))
}

fn written(done: io::Result<()>) -> Result<u8, Error> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::Failed(format!("cannot write the report: {error}")))
        }
        _ => Ok(exit::CLEAN),
    }
}

/// Checks one volume for a worker, and dies with it. Of all commands only those are taken that write to no volume.
fn volume(arguments: &VolumeArgs) -> u8 {
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    let parent = getppid().map(|process| process.as_raw_nonzero().get());
    if bound.is_err() || parent != Some(arguments.worker) {
        return exit::CANCELLED;
    }
    let words = std::iter::once("fsmend".into()).chain(arguments.arguments.iter().cloned());
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Command::Check(arguments)) if !arguments.online.online => check::run(&arguments),
        Ok(Command::Repair(arguments)) if arguments.plan.is_some() => repair::run(&arguments),
        Ok(_) => {
            eprintln!("fsmend: a worker only checks, and saves plans of repairs.");
            exit::USAGE
        }
        Err(error) => {
            let _ = error.print();
            exit::USAGE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slurm_grants_is_kept_to() {
        let of = |names: &[(&str, &str)]| {
            granted(|name| {
                names.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let both = of(&[("SLURM_CPUS_PER_TASK", "4"), ("SLURM_MEM_PER_NODE", "2048")]);
        assert_eq!((both.threads, both.memory), (Some(4), Some(1 << 30)));
        let per_cpu = of(&[("SLURM_CPUS_PER_TASK", "2"), ("SLURM_MEM_PER_CPU", "512")]);
        assert_eq!(per_cpu.memory, Some(512 << 20));
        assert!(of(&[]).is_empty() && of(&[("SLURM_MEM_PER_NODE", "0")]).is_empty());
    }
}
