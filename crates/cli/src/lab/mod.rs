// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend lab`: a laboratory. It makes file systems from a seed, fills and ages them, runs workloads, and says how long these took, by the clock or on a
//! simulated disk. What is done is `fsmend_lab`'s business; here are the words.

pub mod args;
mod show;
mod work;

use std::sync::Arc;

use fsmend_device::{OpenOptions, WritableDevice, WriteOptions};
use fsmend_disksim::DRIVES;
use fsmend_session::interrupted::left_half_written;

use crate::common_args::PlainFormat as Format;
use crate::{exit, json, mkfs, numbers, target};
use args::{FillArgs, LabArgs, MakeArgs, RunArgs, What};
use show::{Result as Measured, Said};
use work::Site;

/// Runs the command and returns the exit code.
pub fn run(arguments: &LabArgs) -> u8 {
    let (format, done) = match &arguments.what {
        What::Make(arguments) => (arguments.telling.format, make(arguments)),
        What::Fill(arguments) => (arguments.telling.format, fill(arguments)),
        What::Run(arguments) => (arguments.telling.format, run_workload(arguments)),
        What::Disks => {
            DRIVES.iter().for_each(|(name, what)| println!("{name:<10} {what}"));
            return exit::CLEAN;
        }
    };
    match done {
        Ok(said) => {
            println!("{said}");
            exit::CLEAN
        }
        Err((code, why)) => {
            eprintln!("fsmend: {why}.");
            if format == Format::Json {
                tell_programs(code, &why);
            }
            code
        }
    }
}

/// The same as a document: programs that ask for JSON read the reason there.
fn tell_programs(code: u8, why: &str) {
    let out = &mut std::io::stdout().lock();
    // A closed standard output changes nothing about the exit code.
    let _ = match code {
        exit::USAGE => json::write_usage_error(out, why),
        _ => json::write_refusal(out, "lab-failed", why, "Choose another target or other options"),
    };
}

/// An exit code, and why.
type Refused = (u8, String);

fn failed(path: &std::path::Path) -> impl Fn(String) -> Refused + '_ {
    move |why| (exit::OPERATIONAL, format!("{}: {why}", path.display()))
}

fn make(arguments: &MakeArgs) -> Result<String, Refused> {
    let MakeArgs { target, size, kind, extended, metadata_area, telling } = arguments;
    let failed = failed(target);
    let wanted = mkfs::MkfsArgs {
        target: target.clone(),
        size: Some(*size),
        kind,
        block_size: None,
        fragment_size: None,
        inode_ratio: None,
        extended: extended.clone(),
        metadata_area: *metadata_area,
        label: String::new(),
        force: false,
    };
    let writer =
        mkfs::writer(&wanted, &mkfs::Luck::seeded(telling.seed)).map_err(|why| (exit::USAGE, why))?;
    mkfs::make_blank(target, *size, &*writer).map_err(&failed)?;
    let said = Said::new("make", target, telling.seed).with("type", *kind).with("bytes", *size);
    let text =
        format!("{}: {} of {}, from seed {}.", target.display(), kind, numbers::bytes(*size), telling.seed);
    Ok(said.told(telling.format, text))
}

fn fill(arguments: &FillArgs) -> Result<String, Refused> {
    let failed = failed(&arguments.target);
    let site = Site::new(open(&arguments.target).map_err(&failed)?, &arguments.mounting)?;
    let filled = work::fill(&site, arguments).map_err(&failed)?;
    let report = filled.report;
    let said = Said::new("fill", &arguments.target, arguments.telling.seed)
        .with("policy", site.policy_name())
        .with("disk", site.disk_name())
        .with("utilisation", filled.utilisation)
        .with("made", report.made)
        .with("lengthened", report.lengthened)
        .with("cut", report.cut)
        .with("deleted", report.deleted)
        .with("refused", report.refused)
        .with("seconds", filled.time.as_secs_f64());
    let text = format!(
        "{}: {:.1}% full. {} files made, {} lengthened, {} cut, {} deleted, in {}{}.{}",
        arguments.target.display(),
        filled.utilisation * 100.0,
        numbers::thousands(report.made),
        numbers::thousands(report.lengthened),
        numbers::thousands(report.cut),
        numbers::thousands(report.deleted),
        numbers::duration(filled.time),
        site.on_which_disk(),
        without_room(report.refused)
    );
    Ok(said.told(arguments.telling.format, text))
}

/// What there is to say when the file system was full.
fn without_room(refused: u64) -> String {
    match refused {
        0 => String::new(),
        refused => {
            let operations = numbers::counted(refused, "operation", "operations");
            format!("\n{operations} found no room, or not enough: the file system is full.")
        }
    }
}

fn run_workload(arguments: &RunArgs) -> Result<String, Refused> {
    let failed = failed(&arguments.target);
    let site = Site::new(open(&arguments.target).map_err(&failed)?, &arguments.mounting)?;
    let results = work::run(&site, arguments).map_err(&failed)?;
    let said = Said::new("run", &arguments.target, arguments.telling.seed)
        .with("workload", arguments.workload.name())
        .with("policy", site.policy_name())
        .with("disk", site.disk_name())
        .with("results", results.iter().map(Measured::as_json).collect::<Vec<_>>())
        .with("refused", site.refused());
    let head =
        format!("{}: {}{}", arguments.target.display(), arguments.workload.name(), site.on_which_disk());
    let lines: Vec<String> = std::iter::once(head).chain(results.iter().map(Measured::as_text)).collect();
    let text = lines.join("\n") + &without_room(site.refused());
    Ok(said.told(arguments.telling.format, text))
}

/// Opens the target so that no other process uses it meanwhile; what an interrupted repair has left is in the way.
fn open(path: &std::path::Path) -> Result<Arc<dyn WritableDevice>, String> {
    let whole = OpenOptions { offset: Some(0), partition: None };
    let mut holds = target::hold(path, &whole, WriteOptions::without_image_formats())
        .map_err(|error| target::refusal(&error).to_string())?;
    let only = holds.pop().filter(|_| holds.is_empty()).ok_or("there are several file systems on it")?;
    match left_half_written(&target::environment(), path, only.target.start, &*only.target.device) {
        Some(told) => Err(told),
        None => Ok(only.target.device),
    }
}
