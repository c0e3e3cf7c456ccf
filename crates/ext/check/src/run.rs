//! The order of things in a run. A stub for now: every target is refused.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, ReadBackend};
use fsmend_engine::report::{StageStats, Summary};
use fsmend_engine::{Findings, Progress};

use crate::Refusal;
use crate::superblock::SuperblockOptions;

/// What the caller wants of a run.
#[derive(Clone)]
pub struct CheckOptions {
    /// Workers, at least one.
    pub threads: usize,
    /// Most memory the run may hold, in bytes.
    pub memory: u64,
    /// Whether a dirty journal is replayed in memory before the check.
    pub replay: bool,
    /// Which superblock to use.
    pub superblock: SuperblockOptions,
    /// The device that holds an external journal.
    pub external_journal: Option<Arc<dyn Device>>,
    /// Seconds since the epoch.
    pub now: u64,
    /// How to read.
    pub backend: ReadBackend,
    /// Whether every kept problem needs its path, or only the first few of each kind.
    pub want_all_paths: bool,
}

/// What a run found.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Every problem.
    pub findings: Findings,
    /// What was checked.
    pub summary: Summary,
    /// What it cost.
    pub stats: Vec<StageStats>,
    /// What had to be left out or done in a poorer way to stay within the budget, in sentences.
    pub degraded: Vec<String>,
}

/// How long a run would take.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    /// Bytes that would be read.
    pub bytes: u64,
    /// Read requests.
    pub requests: u64,
    /// The run would take at least this long.
    pub seconds_low: f64,
    /// The run would take at most this long.
    pub seconds_high: f64,
    /// What the estimate rests on, in a sentence.
    pub basis: String,
}

/// Checks the file system on `device`. When `cancel` becomes true the run ends soon with a refusal whose code is
/// `cancelled`.
pub fn check(
    device: &Arc<dyn Device>,
    _options: &CheckOptions,
    _progress: &Progress,
    _cancel: &AtomicBool,
) -> Result<CheckReport, Refusal> {
    Err(not_yet(device))
}

/// Estimates how long [`check`] would take, without scanning.
pub fn estimate(device: &Arc<dyn Device>, _options: &CheckOptions) -> Result<Estimate, Refusal> {
    Err(not_yet(device))
}

fn not_yet(device: &Arc<dyn Device>) -> Refusal {
    Refusal {
        code: "not-implemented",
        message: format!("{}: the run is not put together yet", device.name()),
        way_out: "Use a later build".to_owned(),
    }
}
