// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checker, called within the test's own process: for tests that need thousands of runs, or what no user can ask for.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, ReadBackend};
use fsmend_engine::Progress;
use fsmend_engine::pool::Schedule;
use fsmend_ext_check::run::{CheckOptions, CheckReport, Meter, Refused, check};
use fsmend_ext_check::superblock::SuperblockOptions;

/// How one run goes about its work. Nothing of it may show in what is found.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Workers.
    pub threads: usize,
    /// How they read.
    pub backend: ReadBackend,
    /// In which order they take their work.
    pub schedule: Schedule,
}

impl Default for Manner {
    fn default() -> Self {
        // The images of tests are small; what several workers do shall be seen all the same.
        let schedule = Schedule { every_worker: true, ..Schedule::default() };
        Manner { threads: 1, backend: ReadBackend::Pread, schedule }
    }
}

/// Other ways to go about it than one worker: two, very many, and three that take small batches in an order drawn from `seed`.
pub fn other_manners(seed: u64) -> [Manner; 3] {
    let of = |threads| Manner { threads, ..Manner::default() };
    let schedule = Schedule { shuffle: Some(seed), batch_max: 2, ..Manner::default().schedule };
    [of(2), of(64), Manner { schedule, ..of(3) }]
}

/// Checks `device`.
pub fn checked(device: &Arc<dyn Device>, manner: Manner) -> Result<CheckReport, Refused> {
    check(device, &options(manner), &Progress::new(), &AtomicBool::new(false))
}

/// What a run in this manner is asked for.
pub fn options(manner: Manner) -> CheckOptions {
    CheckOptions {
        threads: manner.threads,
        memory: 64 << 20,
        replay: true,
        superblock: SuperblockOptions::default(),
        external_journal: None,
        now: 1_700_000_000,
        backend: manner.backend,
        want_all_paths: true,
        meter: Meter::default,
        schedule: manner.schedule,
        allowance: None,
        trace: None,
        stage_clock: None,
        repair: None,
    }
}

/// Checks `device`. Returns everything that was found, line by line: problems, their numbers, the summary; or the
/// refusal.
pub fn found_on(device: &Arc<dyn Device>, manner: Manner) -> Vec<String> {
    let report = match checked(device, manner) {
        Ok(report) => report,
        Err(refused) => return vec![refused.to_string()],
    };
    let mut lines = vec![format!("{:?}", report.summary), format!("{:?}", report.findings.counts())];
    let problems = report.findings.into_sorted();
    lines.extend(problems.iter().map(|problem| {
        let path = problem.object.path.as_deref().unwrap_or("-");
        format!("{} {path} {}", problem.row.code, problem.message())
    }));
    lines
}

/// What was found, in words: code and message of each problem, sorted.
pub fn told(report: &CheckReport) -> Vec<String> {
    let problems =
        report.findings.iter().map(|problem| format!("{}: {}", problem.row.code, problem.message()));
    let mut problems: Vec<String> = problems.collect();
    problems.sort();
    problems
}
