// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend check`: targets side by side within one budget of threads and memory.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use fsmend_device::{Device, ReadBackend, ReadLimit};
use fsmend_engine::options::{CheckOptions, SuperblockOptions};
use fsmend_engine::pool::Mode;
use fsmend_engine::report::Report;
use fsmend_engine::{Estimate, Progress, Refusal, Trace};

use fsmend_session::check_options;
use fsmend_session::interrupted::refuse as refuse_interrupted;

use crate::check_args::CheckArgs;
use crate::common_args::{Backend, Common, Format};
use crate::outcome::{self, Answer, Checked, Outcome};
use crate::target::{self, Volume};
use crate::ticker::{self, Ticker};
use crate::{background, exit, machine, numbers, online, output, stopping, trace};

/// Runs the command and returns the exit code.
pub fn run(arguments: &CheckArgs) -> u8 {
    let cancel = Arc::new(AtomicBool::new(false));
    if let Err(error) = stop_on_signals(&cancel) {
        eprintln!("fsmend: cannot handle signals ({error}): an interrupt ends the run at once.");
    }
    let started = Instant::now();
    // What an online check has frozen or made has to be thawed or removed.
    let outcomes = match arguments.online.online {
        true => outcomes(arguments, &cancel),
        false => stopping::watched(last_words(arguments, started), || outcomes(arguments, &cancel)),
    };
    let kept = online::keep::keep(&arguments.online, &outcomes);
    let told = output::print(arguments, &outcomes, started.elapsed());
    match kept.and(told) {
        Ok(()) => outcomes.iter().fold(exit::CLEAN, |bits, outcome| bits | outcome.exit_code()),
        Err(error) => {
            eprintln!("fsmend: cannot write the report: {error}");
            exit::OPERATIONAL
        }
    }
}

/// Says of every target that it was not checked to the end.
fn last_words(arguments: &CheckArgs, started: Instant) -> impl FnOnce() + Send + 'static {
    let arguments = arguments.clone();
    move || {
        let stopped = |target: &PathBuf| Outcome {
            target: target.display().to_string(),
            partition: None,
            warnings: Vec::new(),
            wall: started.elapsed(),
            result: Err(Refusal::stopped()),
            found_before: Report::default(),
            online: None,
        };
        ticker::clear_line(arguments.common.progress);
        let outcomes: Vec<Outcome> = arguments.targets.iter().map(stopped).collect();
        let _ = output::print(&arguments, &outcomes, started.elapsed());
    }
}

fn outcomes(arguments: &CheckArgs, cancel: &Arc<AtomicBool>) -> Vec<Outcome> {
    if arguments.online.online {
        return online::check_all(arguments, &wanted(arguments, None), cancel);
    }
    let limit = read_limit(arguments.common.read_limit, cancel);
    let volumes = target::volumes(arguments, limit.as_ref());
    output::warn(&volumes);
    let outcomes = match external_journal(arguments.common.journal.as_deref(), limit.as_ref()) {
        Ok(journal) => check_all(arguments, &volumes, journal, cancel),
        Err(refusal) => {
            volumes.iter().map(|volume| outcome(volume, Instant::now(), Err(refusal.clone()))).collect()
        }
    };
    output::warn_of_unreadable(&volumes);
    outcomes
}

/// Makes SIGINT and SIGTERM set `cancel`; a second one ends the process at once.
pub fn stop_on_signals(cancel: &Arc<AtomicBool>) -> std::io::Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(exit::CANCELLED),
            Arc::clone(cancel),
        )?;
        signal_hook::flag::register(signal, Arc::clone(cancel))?;
    }
    Ok(())
}

/// The limit that all targets share, if there is to be one. Once `cancel` is set no reader waits for it.
pub fn read_limit(bytes_per_second: Option<u64>, cancel: &Arc<AtomicBool>) -> Option<Arc<ReadLimit>> {
    bytes_per_second.map(|rate| Arc::new(ReadLimit::new(rate, machine::RealTime).until(cancel)))
}

/// Opens the device of an external journal, if one was named.
pub fn external_journal(
    path: Option<&Path>,
    limit: Option<&Arc<ReadLimit>>,
) -> Result<Option<Arc<dyn Device>>, Refusal> {
    let Some(path) = path else { return Ok(None) };
    target::plain(path)
        .map(|device| Some(target::limited(device, limit)))
        .map_err(|refusal| target::unusable_part(path, refusal))
}

/// Checks all volumes, as many at once as there are threads, and returns the outcomes in the order of the volumes. Where
/// their number follows idle cores it is one at a time: what the budget allows is allowed once.
fn check_all(
    arguments: &CheckArgs,
    volumes: &[Volume],
    journal: Option<Arc<dyn Device>>,
    cancel: &AtomicBool,
) -> Vec<Outcome> {
    let common = &arguments.common;
    let all = wanted(arguments, journal);
    let schedule = all.schedule;
    let by_default = || schedule.mode.workers_by_default(machine::default_threads());
    let threads = common.threads.map_or_else(by_default, usize::from);
    let alone = common.background || schedule.mode == Mode::ResourceAware;
    let side_by_side = if alone { 1 } else { volumes.len().clamp(1, threads) };
    let mut options = CheckOptions {
        threads: (threads / side_by_side).max(1),
        memory: all.memory / side_by_side as u64,
        ..all
    };
    let progress: Vec<Progress> =
        volumes.iter().map(|_| Progress::timed(machine::STAGE_CLOCK.wall)).collect();
    let mut outcomes = Vec::new();
    let work =
        |options: &CheckOptions| check_beside(arguments, volumes, (side_by_side, options), &progress, cancel);
    let ticker = Ticker::new(common.progress).limited(common.read_limit).reading(&arguments.targets);
    ticker.run_beside(&progress, || {
        let within = |allowance| {
            options.allowance = Some(allowance);
            work(&options)
        };
        outcomes = match schedule.mode {
            _ if common.background => background::run(threads, within),
            Mode::ResourceAware => background::follow_idle(threads, within),
            _ => work(&options),
        };
    });
    outcomes
}

/// Checks all volumes, so many side by side.
fn check_beside(
    arguments: &CheckArgs,
    volumes: &[Volume],
    (side_by_side, options): (usize, &CheckOptions),
    progress: &[Progress],
    cancel: &AtomicBool,
) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Outcome)>> = Mutex::default();
    let traces: Vec<_> = volumes.iter().map(|_| Arc::new(Trace::new(machine::STAGE_CLOCK))).collect();
    std::thread::scope(|scope| {
        for _ in 0..side_by_side {
            scope.spawn(|| {
                while let (at, Some(volume)) = take(&next, volumes) {
                    let trace = arguments.trace.as_ref().map(|_| Arc::clone(&traces[at]));
                    let options = CheckOptions { trace, ..options.clone() };
                    let outcome = check_one(arguments, volume, &options, &progress[at], cancel);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, outcome));
                }
            });
        }
    });
    write_trace(arguments, volumes, traces);
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Writes the trace file, if one is wanted. A check is no worse for a trace that cannot be written.
fn write_trace(arguments: &CheckArgs, volumes: &[Volume], traces: Vec<Arc<Trace>>) {
    let Some(path) = &arguments.trace else { return };
    let names = volumes.iter().map(|volume| volume.target.clone());
    if let Err(error) = trace::write(path, &names.zip(traces).collect::<Vec<_>>()) {
        eprintln!("fsmend: cannot write the trace {}: {error}", path.display());
    }
}

fn take<'v>(next: &AtomicUsize, volumes: &'v [Volume]) -> (usize, Option<&'v Volume>) {
    let at = next.fetch_add(1, Relaxed);
    (at, volumes.get(at))
}

/// How `check` is to check, as its command line says.
fn wanted(arguments: &CheckArgs, external_journal: Option<Arc<dyn Device>>) -> CheckOptions {
    let common = &arguments.common;
    let is_page = common.format == Format::Html;
    CheckOptions {
        schedule: machine::schedule(arguments.schedule, common.background),
        meter: if arguments.stats || arguments.estimate || is_page {
            machine::meter
        } else {
            machine::clocks
        },
        want_all_paths: common.all || common.format != Format::Text,
        ..options(common, external_journal)
    }
}

/// How to check, as the options say that a check and a repair have in common.
pub fn options(common: &Common, external_journal: Option<Arc<dyn Device>>) -> CheckOptions {
    let plain = plain_options(common.superblock_options(), external_journal);
    CheckOptions {
        threads: common.threads.map_or(plain.threads, usize::from),
        memory: common.memory.unwrap_or(plain.memory),
        replay: !common.no_replay,
        backend: match common.backend {
            Backend::Auto => ReadBackend::Auto,
            Backend::Uring => ReadBackend::Uring,
            Backend::Pread => ReadBackend::Pread,
        },
        ..plain
    }
}

/// How to check when nothing else is said: with all cores and a share of the memory, and every path told.
pub fn plain_options(
    superblock: SuperblockOptions,
    external_journal: Option<Arc<dyn Device>>,
) -> CheckOptions {
    let (threads, memory) = (machine::default_threads(), machine::default_memory());
    CheckOptions {
        superblock,
        external_journal,
        meter: machine::clocks,
        stage_clock: Some(machine::STAGE_CLOCK),
        schedule: machine::schedule(None, false),
        ..check_options(threads, memory, machine::seconds_since_epoch())
    }
}

/// Checks one volume.
pub fn check_one(
    arguments: &CheckArgs,
    volume: &Volume,
    options: &CheckOptions,
    progress: &Progress,
    cancel: &AtomicBool,
) -> Outcome {
    let started = Instant::now();
    let device = match &volume.device {
        Ok(device) => device,
        Err(refusal) => return outcome(volume, started, Err(refusal.clone())),
    };
    if cancel.load(Relaxed) {
        return outcome(volume, started, Err(outcome::cancelled()));
    }
    let environment = target::environment();
    if let Err(refusal) = refuse_interrupted(&environment, &volume.path, volume.start, device.as_ref()) {
        return outcome(volume, started, Err(refusal));
    }
    if arguments.estimate {
        let estimate = environment
            .families
            .of(device)
            .estimate(device, options, cancel)
            .map(|estimate| within(estimate, arguments.common.read_limit));
        return outcome(volume, started, estimate.map(Answer::Estimated));
    }
    let found = volume
        .journal
        .as_ref()
        .map(|journal| CheckOptions { external_journal: Some(Arc::clone(journal)), ..options.clone() });
    let family = environment.families.of(device);
    let options = found.as_ref().unwrap_or(options);
    match family.check(device, options, progress, cancel) {
        Ok(report) => {
            let mut checked = Checked::from(report);
            if arguments.common.format == Format::Html {
                checked.set_map(family.layout(device, options, true), family.shapes(device, options));
            }
            outcome(volume, started, Ok(Answer::Checked(Box::new(checked))))
        }
        Err(refused) => Outcome {
            found_before: Report::new(*refused.findings),
            ..outcome(volume, started, Err(refused.refusal))
        },
    }
}

/// The estimate when no more than `limit` bytes a second are read.
fn within(estimate: Estimate, limit: Option<u64>) -> Estimate {
    let Some(limit) = limit else { return estimate };
    let least = estimate.bytes as f64 / limit.max(1) as f64;
    Estimate {
        seconds: estimate.seconds.max(least),
        seconds_low: estimate.seconds_low.max(least),
        seconds_high: estimate.seconds_high.max(least),
        basis: format!("{}, of at most {}/s", estimate.basis, numbers::bytes(limit)),
        ..estimate
    }
}

fn outcome(volume: &Volume, started: Instant, result: Result<Answer, Refusal>) -> Outcome {
    Outcome {
        target: volume.target.clone(),
        partition: volume.partition,
        warnings: volume.warnings.clone(),
        wall: started.elapsed(),
        result,
        found_before: Report::default(),
        online: None,
    }
}
