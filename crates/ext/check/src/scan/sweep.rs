//! Sweeps over a device that has to be waited for: what inode tables lead to is gathered over as many tables as memory allows, and then read in the order of the
//! disk.
//!
//! A disk with heads takes milliseconds for a block that lies by itself, and half as many where it can choose among dozens. What hangs on a single table is
//! too little for that: before the next one, the disk would run out of work. What the page cache holds goes on at once, as long as it is in the
//! processor's caches. Nothing that is found depends on the order.

use std::cmp::Reverse;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use fsmend_engine::budget::growing;

use super::directories::announce_directories;
use super::maps::weight_of;
use super::{Batch, MAPS, STAGES, Scan, Worker};
use crate::fast::ledger::DirectoryJob;
use crate::fast::map::{Tally, WalkItem, WalkMode};
use crate::reading::announce_all;

/// Files whose maps are walked together. Each part of a walk has something to keep for each of them.
const WALKS_PER_SWEEP: usize = 2048;
/// The share of the memory for what waits that may be gathered: one in so many.
const GATHERED_SHARE: u64 = 4;

/// Where a table leads to so few blocks, the device is told about them at once. Among more of them, those of one table would take the places in a disk's queue in which it looks for what
/// lies on its way: with ext3, where there is one for each file, that cost up to a tenth.
const EARLY_BLOCKS_MAX: usize = 16;
/// Bytes of blocks that a device may be told about before their sweep: they stay in the page cache until then, and nowhere else.
const EARLY_BYTES_MAX: u64 = 64 << 20;

/// Blocks of a directory that it is told about then.
const BLOCKS_OF_DIRECTORY: usize = 64;

/// What waits for the next sweep.
#[derive(Default)]
pub(super) struct Gathered {
    walks: Vec<WalkItem>,
    directories: Vec<DirectoryJob>,
    /// Memory that the directories hold beside their own size.
    beside: usize,
    /// Blocks of all these that the device has been told about.
    early: u64,
    /// Whether there are others, too.
    has_late: bool,
}

impl Gathered {
    /// Memory that it holds, and that walking will take for each file.
    fn bytes_held(&self) -> u64 {
        growing::<WalkItem>(self.walks.len())
            + (self.walks.len() * size_of::<Tally>()) as u64
            + growing::<DirectoryJob>(self.directories.len())
            + 2 * self.beside as u64
    }

    fn add(&mut self, mut walks: Vec<WalkItem>, directories: &mut Vec<DirectoryJob>) {
        self.walks.append(&mut walks);
        self.beside += directories.iter().map(DirectoryJob::bytes_beside).sum::<usize>();
        self.directories.append(directories);
    }
}

impl Worker<'_> {
    /// Whether it had to wait for the device so far, as memory did not hold what it read.
    pub(super) fn waits_for_device(&self) -> bool {
        self.reader.missed() > 0
    }
}

impl<'a> Scan<'a> {
    /// Hands on what an inode table leads to: at once, or with the next sweep. Leaves `directories` empty.
    pub(super) fn hand_over(
        &self,
        worker: &Worker<'a>,
        walks: Vec<WalkItem>,
        directories: &mut Vec<DirectoryJob>,
    ) {
        if !worker.waits_for_device() {
            self.push_walks(walks, WalkMode::Claim);
            return self.push_directories(directories);
        }
        // What is gathered is still to be done, whenever that is.
        self.progress.stage(STAGES[MAPS].name).expect(weight_of(&walks));
        let early = self.first_blocks(&walks, directories);
        let (announces, full) = {
            let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
            gathered.add(walks, directories);
            let bytes = (gathered.early + early.len() as u64) * u64::from(self.fs.geometry.block_size);
            let announces = early.len() <= EARLY_BLOCKS_MAX && bytes <= EARLY_BYTES_MAX;
            gathered.has_late |= !announces;
            gathered.early += if announces { early.len() as u64 } else { 0 };
            let is_full = gathered.bytes_held() > self.means.plan.queue_bytes / GATHERED_SHARE;
            (announces, is_full.then(|| std::mem::take(&mut *gathered)))
        };
        if announces {
            // A disk takes them along on its way to the next tables, where it would wait for its turning otherwise.
            announce_all(self.fs, early);
        }
        full.into_iter().for_each(|gathered| self.sweep(gathered));
    }

    /// Notes that an inode table is done. After the last one, what was gathered is swept up.
    pub(super) fn table_is_done(&self) {
        if self.tables_done.fetch_add(1, AcqRel) + 1 == self.tables.load(Relaxed) {
            let gathered = std::mem::take(&mut *self.gathered.lock().unwrap_or_else(PoisonError::into_inner));
            self.sweep(gathered);
        }
    }

    /// What is read first for these: the blocks that inodes lead to themselves.
    fn first_blocks(&self, walks: &[WalkItem], directories: &[DirectoryJob]) -> Vec<u64> {
        let of_walks = walks.iter().flat_map(WalkItem::first_map_blocks);
        let of_directories = directories.iter().flat_map(|job| {
            let alone = job.is_single().then_some(job.first_block);
            let runs = job.runs().iter().flat_map(|run| run.physical..run.physical + u64::from(run.count));
            alone.into_iter().chain(runs.take(BLOCKS_OF_DIRECTORY))
        });
        of_walks.chain(of_directories).filter(|block| *block < self.fs.geometry.blocks_count).collect()
    }

    fn sweep(&self, gathered: Gathered) {
        let Gathered { mut walks, mut directories, has_late, .. } = gathered;
        // What comes first is taken from the end, and its memory given back: else all would be held twice.
        walks.sort_unstable_by_key(|item| Reverse((item.first_map_block(), item.inode)));
        while !walks.is_empty() {
            let mut part = walks.split_off(walks.len().saturating_sub(self.batch(WALKS_PER_SWEEP)));
            walks.shrink_to_fit();
            part.reverse();
            let (weight, batch) = (weight_of(&part), Batch::Sweep(part, has_late));
            self.queues().push_large(MAPS, weight, batch.bytes_held(), batch);
        }
        directories.sort_unstable_by_key(|job| job.first_block);
        announce_directories(self.fs, &directories);
        self.push_directories(&mut directories);
    }
}
