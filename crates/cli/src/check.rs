//! `fsmend check`: targets side by side within one budget of threads and memory.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use fsmend_device::{Device, ReadBackend, ReadLimit};
use fsmend_engine::Progress;
use fsmend_engine::pool::Schedule;
use fsmend_engine::report::Report;
use fsmend_ext_check::Refusal;
use fsmend_ext_check::run::{self, CheckOptions, Estimate};
use fsmend_ext_check::superblock::SuperblockOptions;

use crate::args::{Backend, CheckArgs};
use crate::outcome::{Answer, CANCELLED_CODE, Outcome};
use crate::target::{self, Volume};
use crate::ticker::Ticker;
use crate::{background, exit, machine, numbers, output};

/// Runs the command and returns the exit code.
pub fn run(arguments: &CheckArgs) -> u8 {
    let cancel = Arc::new(AtomicBool::new(false));
    if let Err(error) = stop_on_signals(&cancel) {
        eprintln!("fsmend: signals cannot be caught ({error}): an interrupt will end the run at once.");
    }
    let started = Instant::now();
    let limit = read_limit(arguments.read_limit, &cancel);
    let volumes = target::volumes(arguments, limit.as_ref());
    output::warn(&volumes);
    let outcomes = match external_journal(arguments.journal.as_deref(), limit.as_ref()) {
        Ok(journal) => check_all(arguments, &volumes, journal, &cancel),
        Err(refusal) => {
            volumes.iter().map(|volume| outcome(volume, Instant::now(), Err(refusal.clone()))).collect()
        }
    };
    match output::print(arguments, &outcomes, started.elapsed()) {
        Ok(()) => outcomes.iter().fold(exit::CLEAN, |bits, outcome| bits | outcome.exit_code()),
        Err(error) => {
            eprintln!("fsmend: the report cannot be written: {error}");
            exit::OPERATIONAL
        }
    }
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

/// The limit that all targets share, if there is to be one. Once `cancel` is set nobody waits for it.
pub fn read_limit(bytes_per_second: Option<u64>, cancel: &Arc<AtomicBool>) -> Option<Arc<ReadLimit>> {
    bytes_per_second.map(|rate| Arc::new(ReadLimit::new(rate, machine::RealTime).until(cancel)))
}

/// Opens the device of an external journal, if one was named.
pub fn external_journal(
    path: Option<&Path>,
    limit: Option<&Arc<ReadLimit>>,
) -> Result<Option<Arc<dyn Device>>, Refusal> {
    let Some(path) = path else { return Ok(None) };
    target::open_plain(path).map(|device| Some(target::limited(device, limit))).map_err(|refusal| Refusal {
        code: "journal-device",
        message: format!("the external journal {} cannot be used: {}", path.display(), refusal.message),
        way_out: refusal.way_out,
    })
}

/// Checks all volumes, as many at once as there are threads, and returns the outcomes in the order of the volumes. In the
/// background it is one at a time: what the budget allows is allowed once.
fn check_all(
    arguments: &CheckArgs,
    volumes: &[Volume],
    journal: Option<Arc<dyn Device>>,
    cancel: &AtomicBool,
) -> Vec<Outcome> {
    let threads = arguments.threads.map_or_else(machine::default_threads, usize::from);
    let side_by_side = if arguments.background { 1 } else { volumes.len().clamp(1, threads) };
    let mut options = options(arguments, threads, side_by_side, journal);
    let progress: Vec<Progress> = volumes.iter().map(|_| Progress::new()).collect();
    let mut outcomes = Vec::new();
    let work =
        |options: &CheckOptions| check_beside(arguments, volumes, (side_by_side, options), &progress, cancel);
    Ticker::new(arguments.progress).limited(arguments.read_limit).run_beside(&progress, || {
        outcomes = match arguments.background {
            false => work(&options),
            true => background::run(threads, |allowance| {
                options.allowance = Some(allowance);
                work(&options)
            }),
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
    std::thread::scope(|scope| {
        for _ in 0..side_by_side {
            scope.spawn(|| {
                while let (at, Some(volume)) = take(&next, volumes) {
                    let outcome = check_one(arguments, volume, options, &progress[at], cancel);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

fn take<'v>(next: &AtomicUsize, volumes: &'v [Volume]) -> (usize, Option<&'v Volume>) {
    let at = next.fetch_add(1, Relaxed);
    (at, volumes.get(at))
}

fn options(
    arguments: &CheckArgs,
    threads: usize,
    side_by_side: usize,
    external_journal: Option<Arc<dyn Device>>,
) -> CheckOptions {
    let memory = arguments.memory.unwrap_or_else(machine::default_memory);
    CheckOptions {
        threads: (threads / side_by_side).max(1),
        memory: memory / side_by_side as u64,
        replay: !arguments.no_replay,
        superblock: SuperblockOptions { block: arguments.superblock, block_size: arguments.block_size },
        external_journal,
        now: machine::seconds_since_epoch(),
        backend: match arguments.backend {
            Backend::Auto => ReadBackend::Auto,
            Backend::Uring => ReadBackend::Uring,
            Backend::Pread => ReadBackend::Pread,
        },
        repair: None,
        meter: machine::meter,
        stage_clock: arguments.stats.then_some(machine::STAGE_CLOCK),
        schedule: Schedule::default(),
        allowance: None,
        want_all_paths: arguments.all || arguments.format == crate::args::Format::Json,
    }
}

fn check_one(
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
        return outcome(volume, started, Err(cancelled()));
    }
    if arguments.estimate {
        let estimate = run::estimate(device, options).map(|estimate| within(estimate, arguments.read_limit));
        return outcome(volume, started, estimate.map(Answer::Estimated));
    }
    match run::check(device, options, progress, cancel) {
        Ok(report) => outcome(volume, started, Ok(Answer::Checked(Box::new(report.into())))),
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
        seconds_low: estimate.seconds_low.max(least),
        seconds_high: estimate.seconds_high.max(least),
        basis: format!("{}, of at most {}/s", estimate.basis, numbers::bytes(limit)),
        ..estimate
    }
}

fn cancelled() -> Refusal {
    Refusal {
        code: CANCELLED_CODE,
        message: "stopped before it was checked".to_owned(),
        way_out: "Run it again".to_owned(),
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
    }
}
