//! `fsmend check`: targets side by side within one budget of threads and memory.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use fsmend_device::{Device, ReadBackend};
use fsmend_engine::Progress;
use fsmend_engine::pool::Schedule;
use fsmend_engine::report::Report;
use fsmend_ext_check::Refusal;
use fsmend_ext_check::run::{self, CheckOptions};
use fsmend_ext_check::superblock::SuperblockOptions;

use crate::args::{Backend, CheckArgs};
use crate::outcome::{Answer, CANCELLED_CODE, Outcome};
use crate::target::{self, Volume};
use crate::ticker::Ticker;
use crate::{exit, machine, output};

/// Runs the command and returns the exit code.
pub fn run(arguments: &CheckArgs) -> u8 {
    let cancel = Arc::new(AtomicBool::new(false));
    if let Err(error) = stop_on_signals(&cancel) {
        eprintln!("fsmend: signals cannot be caught ({error}): an interrupt will end the run at once.");
    }
    let started = Instant::now();
    let volumes = target::volumes(arguments);
    output::warn(&volumes);
    let outcomes = match external_journal(arguments.journal.as_deref()) {
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

/// Opens the device of an external journal, if one was named.
pub fn external_journal(path: Option<&Path>) -> Result<Option<Arc<dyn Device>>, Refusal> {
    let Some(path) = path else { return Ok(None) };
    target::open_plain(path).map(Some).map_err(|refusal| Refusal {
        code: "journal-device",
        message: format!("the external journal {} cannot be used: {}", path.display(), refusal.message),
        way_out: refusal.way_out,
    })
}

/// Checks all volumes, as many at once as there are threads, and returns the outcomes in the order of the volumes.
fn check_all(
    arguments: &CheckArgs,
    volumes: &[Volume],
    journal: Option<Arc<dyn Device>>,
    cancel: &AtomicBool,
) -> Vec<Outcome> {
    let threads = arguments.threads.map_or_else(machine::cores, usize::from);
    let side_by_side = volumes.len().clamp(1, threads);
    let options = options(arguments, threads, side_by_side, journal);
    let progress: Vec<Progress> = volumes.iter().map(|_| Progress::new()).collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Outcome)>> = Mutex::default();
    Ticker::new(arguments.progress).run_beside(&progress, || {
        std::thread::scope(|scope| {
            for _ in 0..side_by_side {
                scope.spawn(|| {
                    while let (at, Some(volume)) = take(&next, volumes) {
                        let outcome = check_one(arguments, volume, &options, &progress[at], cancel);
                        done.lock().unwrap_or_else(PoisonError::into_inner).push((at, outcome));
                    }
                });
            }
        });
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
        meter: if arguments.stats { machine::meter } else { machine::clocks },
        stage_clock: arguments.stats.then_some(machine::STAGE_CLOCK),
        schedule: Schedule::default(),
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
        return outcome(volume, started, run::estimate(device, options).map(Answer::Estimated));
    }
    match run::check(device, options, progress, cancel) {
        Ok(report) => outcome(volume, started, Ok(Answer::Checked(Box::new(report.into())))),
        Err(refused) => Outcome {
            found_before: Report::new(*refused.findings),
            ..outcome(volume, started, Err(refused.refusal))
        },
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
