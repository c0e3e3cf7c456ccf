// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a run divides its memory: what its facts will take, what is left for the work, and what has to be done in a poorer way
//! when that is little.
//!
//! What the facts take is foreseen from the geometry and the descriptors, and charged as it comes; the rest is divided in
//! shares that are reserved before the scan. A poorer way never changes what is found, only how long it takes and how
//! much of it is kept for the report. Where not even the facts fit, the run is refused with the least that it needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_base::width;

use crate::claims::{Claims, SharedBitmap};
use crate::options::CheckOptions;
use crate::origins::Origins;
use crate::pool::PoolConfig;
use crate::problem::KEPT_PER_ROW;
use crate::{Allowance, Budget, Clock, Refusal, Trace};
use fsmend_device::{BatchReader, ReadBackend};

/// Memory for the fact of a directory.
pub const DIRECTORY_BYTES: u64 = 12;
/// Memory for a directory when suspects and the tree are looked at: its place in lists and maps. The shares of the scan are
/// free again by then.
pub const TREE_BYTES_PER_DIRECTORY: u64 = 40;
/// The least that is left for the work of one worker, whatever else: buffers, lists, a few problems.
const WORK_BYTES_MIN: u64 = 4 << 20;
/// A problem in memory, with its operands.
const PROBLEM_BYTES: u64 = 512;
/// Sets of problems that there is room for at the least: those of eight workers, and one into which they are merged.
const PROBLEM_SETS: u64 = 9;
/// More problems than this are not kept, however much memory there is; they are counted.
const PROBLEMS_MAX: u64 = 20_000;
/// A problem when the report is made of it, by which time nothing else is held: in a document with all paths, and as text.
const TOLD_PROBLEM_BYTES: [u64; 2] = [12 << 10, 1 << 10];
/// A certification that waits: in a worker's list while that grows, and once more when the lists are merged.
const PENDING_BYTES: u64 = 16 * 5;
/// A run of contested blocks and an owner of it, in lists that grow and are merged.
pub const SHARE_BYTES: u64 = 24 * 5;
/// An inode whose map waits to be walked, when it is gathered and when it waits.
pub const WALK_BYTES: u64 = 2 * 384;
/// What one inode of a table leaves until the table is through, beside its facts: a directory to be read, an attribute block.
const CHUNK_BYTES_PER_INODE: u64 = 2 * 56;
/// The part of what is not needed for anything else that may be spent on where claims come from: one in so many.
const ORIGINS_SHARE: u64 = 8;
/// A node of a map that waits to be read.
pub const NODE_BYTES: u64 = 2 * 48;
/// Nodes of maps that wait in one worker.
const NODES_MAX: u64 = 1 << 18;
/// Below this many blocks at a time, reading block maps gets slower, which is worth a sentence.
const NODES_COMFORTABLE: u64 = 4096;
const NODES_MIN: u64 = 1 << 12;
/// Inodes of one table whose maps are walked; the others are inspected at once.
const WALKS_MIN: u64 = 64;
/// Other memory of a worker: suspects of a table, requests, the tables of one directory of ordinary size.
const WORKER_BYTES: u64 = 1 << 20;

/// One more worker for so many bytes to be read: with fewer, to start it costs more than it saves.
const BYTES_PER_WORKER: u64 = 1 << 20;
/// Up to so many bytes, requests do not wait for the device long enough for a ring to be worth its setting up.
const RING_BYTES_MIN: u64 = 2 << 20;

/// What the structures of a file system tell of the work before it begins, if they tell the truth.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    /// Claim units.
    pub units: u64,
    /// Memory for inodes, directories and pages of claims.
    pub fact_bytes: u64,
    /// Directories.
    pub directories: u64,
    /// About how many bytes of the device the scan will read.
    pub to_read: u64,
    /// Inodes of the largest chunk.
    pub chunk_inodes: u64,
    /// Inodes of small chunks that are looked at together, where there is room for that.
    pub together: u64,
}

/// What a run may take for its parts.
#[derive(Clone, Debug)]
pub struct MemoryPlan {
    /// Workers.
    pub workers: usize,
    /// Whether all of them work where fewer would do.
    pub every_worker: bool,
    /// How they read.
    pub backend: ReadBackend,
    /// Buffers of each worker's reader.
    pub reader_bytes: usize,
    /// Problems kept in all.
    pub problems: usize,
    /// Certifications that may wait in each worker.
    pub pending: usize,
    /// Memory of all batches that wait.
    pub queue_bytes: u64,
    /// Inodes of one table whose maps wait to be walked.
    pub walks: usize,
    /// Nodes of maps that wait in each worker.
    pub nodes: usize,
    /// Owners of contested blocks that are looked at in one pass.
    pub owners: usize,
    /// Memory to keep where claims come from.
    pub origins_bytes: u64,
    /// What had to be made poorer, in sentences.
    pub degraded: Vec<String>,
    /// Reserved for the scan alone.
    scan_bytes: u64,
}

/// What a stage works with.
#[derive(Clone, Copy)]
pub struct RunContext<'a> {
    /// Its shares.
    pub plan: &'a MemoryPlan,
    /// How many workers may be at work.
    pub allowance: Option<&'a Allowance>,
    /// Measures what things cost.
    pub clock: Option<Clock>,
    /// Where what happens is written down.
    pub trace: Option<&'a Trace>,
    /// What grows with what is found is charged to it.
    pub budget: &'a Arc<Budget>,
    /// Where it says what it ran short of.
    pub shortages: &'a Shortages,
    /// Set when the user wants to stop.
    pub cancel: &'a AtomicBool,
}

impl<'a> RunContext<'a> {
    /// For the stages of a run with these options, within `plan`.
    pub fn new(
        options: &'a CheckOptions,
        (plan, shortages): (&'a MemoryPlan, &'a Shortages),
        budget: &'a Arc<Budget>,
        cancel: &'a AtomicBool,
    ) -> Self {
        let (allowance, trace) = (options.allowance.as_deref(), options.trace.as_deref());
        RunContext { plan, allowance, clock: options.stage_clock, trace, budget, shortages, cancel }
    }

    /// Who does the work.
    pub fn pool(self) -> PoolConfig<'a> {
        let RunContext { allowance, clock, trace, .. } = self;
        let MemoryPlan { workers, every_worker, .. } = *self.plan;
        PoolConfig { workers, allowance, clock, trace, every_worker }
    }

    /// No claims yet, on so many units, for inodes up to this number.
    pub fn claims(self, units: u64, inodes: u32) -> Claims {
        let origins = Origins::within(self.budget, self.plan.origins_bytes, units, inodes);
        Claims::within(self.budget, units).with_origins(origins).alone(self.plan.workers <= 1)
    }
}

impl MemoryPlan {
    /// Divides what `budget` has left, and reserves it. Refuses when that is too little.
    pub fn new(expected: &Expected, options: &CheckOptions, budget: &Budget) -> Result<MemoryPlan, Refusal> {
        let Expected { units, fact_bytes, directories, to_read, chunk_inodes: chunk, together } = *expected;
        let chunk_bytes = chunk * CHUNK_BYTES_PER_INODE;
        let least = (WORK_BYTES_MIN + 2 * chunk_bytes).max(directories * TREE_BYTES_PER_DIRECTORY / 3 * 4);
        budget.make_room(fact_bytes.saturating_add(least));
        let rest = budget.free().saturating_sub(fact_bytes);
        if rest < least {
            let taken = budget.limit() - budget.free();
            return Err(too_small(budget, taken.saturating_add(fact_bytes).saturating_add(least)));
        }
        let origins_bytes = Origins::bytes_wanted(units).min((rest - least) / ORIGINS_SHARE);
        let rest = rest - origins_bytes;
        let useful = if options.schedule.every_worker { u64::MAX } else { 1 + to_read / BYTES_PER_WORKER };
        let wanted = (options.schedule.mode.workers(options.threads) as u64).min(useful);
        let worker_min = BatchReader::BUFFER_BYTES_MIN as u64
            + WORKER_BYTES / 2
            + chunk_bytes
            + NODES_MIN * NODE_BYTES
            + WALKS_MIN * WALK_BYTES;
        // A quarter for problems, three eighths for the workers, an eighth each for what waits to be read and what waits to be
        // certified, at most; an eighth stays for what cannot be foreseen, at least.
        let workers_share = rest / 8 * 3;
        let told_bytes = TOLD_PROBLEM_BYTES[usize::from(!options.want_all_paths)];
        // How many are kept must not depend on the number of workers, or the report would: each worker keeps as many, and
        // twice that before it sorts them out. So it is the workers that are fewer where memory is short.
        let set_bytes = 2 * PROBLEM_BYTES;
        let problems = (rest / 4 / set_bytes / PROBLEM_SETS).min(PROBLEMS_MAX).min(rest / told_bytes).max(1);
        let sets = (rest / 4 / (problems * set_bytes)).saturating_sub(1);
        let workers = wanted.min(workers_share / worker_min).min(sets).max(1);
        let spare = (workers_share / workers).saturating_sub(worker_min);
        let reader_bytes =
            (BatchReader::BUFFER_BYTES_MIN as u64 + spare / 2).min(BatchReader::BUFFER_BYTES as u64);
        let left = spare - (reader_bytes - BatchReader::BUFFER_BYTES_MIN as u64);
        let nodes = (NODES_MIN + left / 4 / NODE_BYTES).min(NODES_MAX);
        let walks = (WALKS_MIN + left / 2 / WALK_BYTES).min(chunk.max(together).max(WALKS_MIN));
        // Of large shares only a part can be used; the rest is for what cannot be foreseen, above all for what a repair puts in place.
        let worker_bytes = worker_min + reader_bytes - BatchReader::BUFFER_BYTES_MIN as u64
            + (nodes - NODES_MIN) * NODE_BYTES
            + walks.saturating_sub(WALKS_MIN) * WALK_BYTES;
        let problem_bytes = problems * set_bytes * (workers + 1);
        let plan = MemoryPlan {
            workers: width::index(workers),
            every_worker: options.schedule.every_worker,
            backend: match options.backend {
                ReadBackend::Auto if to_read < RING_BYTES_MIN => ReadBackend::Pread,
                backend => backend,
            },
            reader_bytes: width::index(reader_bytes),
            problems: problems as usize,
            pending: (rest / 8 / PENDING_BYTES / workers) as usize,
            queue_bytes: rest / 8,
            walks: width::index(walks),
            nodes: nodes as usize,
            owners: (rest / 2 / SHARE_BYTES) as usize,
            origins_bytes,
            degraded: Vec::new(),
            scan_bytes: workers * worker_bytes + rest / 4,
        };
        budget.charge(problem_bytes.min(rest / 4) + plan.scan_bytes);
        Ok(plan.with_sentences(wanted, chunk, budget))
    }

    /// Gives back what was reserved for the scan.
    pub fn scan_is_over(&self, budget: &Budget) {
        budget.release(self.scan_bytes);
    }

    fn with_sentences(mut self, wanted: u64, chunk: u64, budget: &Budget) -> Self {
        let limit = bytes(budget.limit());
        let full = BatchReader::BUFFER_BYTES;
        if self.reader_bytes < full {
            self.degraded.push(format!(
                "To stay within {limit} of memory, each worker reads through buffers of {} instead of {}.",
                bytes(self.reader_bytes as u64),
                bytes(full as u64)
            ));
        }
        if (self.workers as u64) < wanted {
            self.degraded.push(format!(
                "To stay within {limit} of memory, {} of {wanted} workers were used.",
                self.workers
            ));
        }
        if (self.walks as u64) < chunk || (self.nodes as u64) < NODES_COMFORTABLE {
            self.degraded.push(format!(
                "To stay within {limit} of memory, block maps were read {} blocks at a time.",
                self.nodes
            ));
        }
        self
    }
}

/// Things that happen during a run for want of memory, reported once.
#[derive(Debug, Default)]
pub struct Shortages {
    /// Certifications could not wait: their directories were inspected.
    pub pending: AtomicBool,
    /// Maps could not wait: their inodes were inspected at once.
    pub walks: AtomicBool,
    /// It was not kept where contested claims came from.
    pub origins: AtomicBool,
}

impl Shortages {
    /// What happened, in sentences.
    pub fn sentences(&self, plan: &MemoryPlan) -> Vec<String> {
        let mut sentences = Vec::new();
        if self.pending.load(Relaxed) {
            sentences.push(format!(
                "Out of memory for names of inodes not yet read ({}): their directories were read again later.",
                plan.pending.saturating_mul(plan.workers)
            ));
        }
        if self.walks.load(Relaxed) {
            sentences.push(format!(
                "Out of memory for the block maps of a group ({}): the others were read one by one.",
                plan.walks
            ));
        }
        if self.origins.load(Relaxed) {
            sentences.push(
                "Out of memory for the origins of claims: all inodes were read again to find the owners of multiply-claimed blocks."
                    .to_owned(),
            );
        }
        sentences
    }
}

/// The sentence about problems that were counted but not kept, if there were any because of the budget.
pub fn fewer_kept(kept: usize, budget: &Budget) -> Option<String> {
    (kept < KEPT_PER_ROW).then(|| {
        format!(
            "To stay within {} of memory, only the first {kept} problems of each kind are kept (instead of {KEPT_PER_ROW}); \
             the others are counted.",
            bytes(budget.limit())
        )
    })
}

/// Refuses a file system whose tables alone, of so many bytes, do not fit beside the index of bitmaps over its blocks and units, before they are read;
/// charges them.
pub fn charge_tables(tables: u64, (blocks, units): (u64, u64), budget: &Budget) -> Result<(), Refusal> {
    let bitmaps = SharedBitmap::index_bytes(blocks) + 2 * SharedBitmap::index_bytes(units);
    if !budget.try_reserve(tables) || budget.free() < bitmaps {
        return Err(too_small(budget, tables + bitmaps + WORK_BYTES_MIN));
    }
    Ok(())
}

/// The refusal of a run that needs `least` bytes.
pub fn too_small(budget: &Budget, least: u64) -> Refusal {
    let least = least.div_ceil(1 << 20);
    Refusal {
        code: "memory-too-small",
        message: format!(
            "{} of memory are too little for this file system: at least {least} MiB are needed",
            bytes(budget.limit())
        ),
        hint: format!("Allow more (--memory {least}M)"),
    }
}

/// Refuses when more was charged than there is.
pub fn stop_if_exhausted(budget: &Arc<Budget>) -> Result<(), Refusal> {
    if !budget.is_exhausted() {
        return Ok(());
    }
    // How much it would have become is unknown; half as much again is a fair next attempt.
    Err(too_small(budget, budget.peak().saturating_add(budget.limit() / 2)))
}

fn bytes(count: u64) -> String {
    match count {
        0..0x10_0000 => format!("{} KiB", count.div_ceil(1 << 10)),
        _ => format!("{:.1} MiB", count as f64 / f64::from(1 << 20)).replace(".0 ", " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_plain_numbers() {
        assert_eq!(
            (bytes(1 << 10), bytes(16 << 20), bytes(3 << 19)),
            ("1 KiB".into(), "16 MiB".into(), "1.5 MiB".into())
        );
        let refusal = too_small(&Budget::new(1 << 20), 5 << 20);
        assert!(refusal.message.contains("1 MiB") && refusal.hint.contains("5M"), "{refusal}");
    }

    #[test]
    fn what_is_kept_is_told_only_when_it_is_less() {
        assert_eq!(fewer_kept(KEPT_PER_ROW, &Budget::unlimited()), None);
        assert!(fewer_kept(7, &Budget::new(1 << 20)).is_some_and(|text| text.contains("first 7 problems")));
    }
}
