// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a caller may ask of a check and of a repair, for every format. A format refuses, or passes over, what it does not have.

use std::sync::Arc;

use fsmend_device::{Device, ReadBackend};

use crate::pool::{PoolConfig, Schedule};
use crate::{Allowance, Clock, Trace};

/// What the caller wants of a run.
#[derive(Clone)]
pub struct CheckOptions {
    /// Workers, at least one.
    pub threads: usize,
    /// Most memory the run may hold, in bytes: a hard budget. With little the run does some things in a poorer way and says
    /// so ([`degraded`](crate::report::CheckReport::degraded)); with too little it is refused.
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
    /// Set when what is wrong has to be repaired as well: the check then keeps the facts for that.
    pub repair: Option<RepairPolicy>,
    /// Reads the clocks; checks never do it themselves.
    pub meter: fn() -> Meter,
    /// Clocks that measure what batches cost, by which workers are divided between the stages. Without them, all things
    /// are taken to cost the same, and the costs of the stages that run side by side stay unknown.
    pub stage_clock: Option<Clock>,
    /// How workers are divided between the stages, and in which order work is taken.
    pub schedule: Schedule,
    /// How many of the workers may be at work, when that is decided while the run goes on.
    pub allowance: Option<Arc<Allowance>>,
    /// Where what happens when is written down, if that is wanted.
    pub trace: Option<Arc<Trace>>,
}

impl CheckOptions {
    /// Who works out mends.
    pub fn repair_pool(&self) -> PoolConfig<'_> {
        PoolConfig {
            workers: self.threads,
            allowance: self.allowance.as_deref(),
            clock: self.stage_clock,
            trace: self.trace.as_deref(),
            every_worker: self.schedule.every_worker,
        }
    }
}

/// The clocks of the process at one moment, all counted from any fixed point.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    /// Nanoseconds gone by.
    pub wall_ns: u64,
    /// Nanoseconds of processor time used by all threads.
    pub cpu_ns: u64,
    /// Most memory held so far, in bytes.
    pub peak_memory: u64,
    /// Bytes that the process has had fetched from devices so far, where that is known.
    pub fetched: Option<u64>,
}

/// What the caller wants of the superblock search.
#[derive(Clone, Copy, Debug, Default)]
pub struct SuperblockOptions {
    /// Use the superblock in this block only (`-b`), instead of the primary and the ladder of backups.
    pub block: Option<u64>,
    /// With `block`: the block size that goes with it (`-B`); tried from 1 KiB to 64 KiB when not given.
    pub block_size: Option<u32>,
}

/// How the user wants things to be repaired.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RepairPolicy {
    /// What becomes of blocks that several files claim.
    pub duplicates: Duplicates,
    /// Whether a file system whose files share blocks on purpose (`shared_blocks`) is to be made an ordinary one. Without this
    /// option such a file system is not repaired at all.
    pub unshare: bool,
    /// The list of bad blocks as it is to be, before anything is checked.
    pub bad_blocks: Option<BadBlockOption>,
    /// What is to be made better, once nothing is wrong.
    pub improvements: Improvements,
    /// Whether names in `lost+found` have the former name behind the number, where something still tells it.
    pub former_names: bool,
}

/// What becomes of blocks that several files claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Duplicates {
    /// Every file but the first gets a copy.
    #[default]
    Clone,
    /// Every file but the first gets zeroes.
    Zero,
    /// The files get copies and move to lost+found.
    LostFound,
    /// The files are deleted.
    Delete,
}

/// Blocks that are to stand on the list of bad blocks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BadBlockOption {
    /// The blocks.
    pub blocks: Arc<[u64]>,
    /// Whether those that stand there already stay.
    pub keeps: bool,
}

/// What is to be made better though it is not wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Improvements {
    /// All directories are written anew, without gaps and with an index.
    pub directories: bool,
    /// Files mapped by indirect blocks get extents, where the file system has those.
    pub extents: bool,
    /// Extent trees that have more blocks than they need are written anew.
    pub trees: bool,
}

impl Improvements {
    /// Whether there is anything to be done.
    pub fn any(self) -> bool {
        self.directories || self.extents || self.trees
    }
}

/// How to look for a repair.
#[derive(Clone)]
pub struct RepairOptions {
    /// How to check.
    pub check: CheckOptions,
    /// How to mend.
    pub policy: RepairPolicy,
}
