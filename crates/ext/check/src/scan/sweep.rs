// SPDX-License-Identifier: MIT OR Apache-2.0
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
use crate::fast::jobs::DirectoryJob;
use crate::fast::map::{Tally, WalkItem, WalkMode};
use crate::reading::announce_all;

/// Files whose maps are walked together. Each part of a walk has something to keep for each of them.
const WALKS_PER_SWEEP: usize = 2048;
/// Directories for which read-ahead is requested together.
const DIRECTORIES_AT_ONCE: usize = 1024;
/// The share of the memory for what waits that may be gathered: one in so many.
const GATHERED_SHARE: u64 = 4;

/// Where a table leads to so few blocks of directories, read-ahead is requested for them at once. Maps wait for the sweep, however few they are: with read-ahead of those of some
/// tables and not of others, a disk makes one way for these and one more for the rest, each of them half empty. On the simulated disk one way for all of them takes a tenth
/// less on an aged ext4 of 16 GiB; on one of 4 GiB that is new, and leads to three maps a table, it takes a twentieth more.
const EARLY_BLOCKS_MAX: usize = 16;
/// Bytes of blocks for which read-ahead may be requested before their sweep: they stay in the page cache until then, and nowhere else.
const EARLY_BYTES_MAX: u64 = 64 << 20;

/// Blocks of a directory for which read-ahead is requested then.
const BLOCKS_OF_DIRECTORY: usize = 64;

/// What waits for the next sweep.
#[derive(Default)]
pub(super) struct Gathered {
    walks: Vec<WalkItem>,
    directories: Vec<DirectoryJob>,
    /// Memory that the directories hold beside their own size.
    beside: usize,
    /// Blocks of all these for which read-ahead was requested.
    early: u64,
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
        self.count_found(directories);
        if !worker.waits_for_device() {
            self.push_walks(walks, WalkMode::Claim);
            return self.push_directories(directories);
        }
        // What is gathered is still to be done, whenever that is.
        self.progress.stage(STAGES[MAPS].name).expect(weight_of(&walks));
        let of_directories = self.first_of_directories(directories);
        let (early, full) = {
            let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
            gathered.add(walks, directories);
            let early = self.taken_early(&mut gathered.early, of_directories);
            let is_full = gathered.bytes_held() > self.run_context.plan.queue_bytes / GATHERED_SHARE;
            (early, is_full.then(|| std::mem::take(&mut *gathered)))
        };
        // A disk takes them along on its way to the next tables, where it would wait for its turning otherwise.
        announce_all(self.fs, early);
        full.into_iter().for_each(|gathered| self.sweep(gathered));
    }

    /// Notes that an inode table is done. After the last one, what was gathered is swept up.
    pub(super) fn table_is_done(&self) {
        if self.tables_done.fetch_add(1, AcqRel) + 1 == self.tables.load(Relaxed) {
            let gathered = std::mem::take(&mut *self.gathered.lock().unwrap_or_else(PoisonError::into_inner));
            self.sweep(gathered);
        }
    }

    /// Those of `blocks` for which read-ahead is requested at once: all, if they are few and not too many of them wait already, or none.
    fn taken_early(&self, waiting: &mut u64, blocks: Vec<u64>) -> Vec<u64> {
        let count = *waiting + blocks.len() as u64;
        let takes = self.may_announce()
            && blocks.len() <= EARLY_BLOCKS_MAX
            && count.saturating_mul(u64::from(self.fs.geometry.block_size)) <= EARLY_BYTES_MAX;
        if !takes {
            // They are read in the order of the disk, too, with those of other tables.
            return Vec::new();
        }
        *waiting = count;
        blocks
    }

    /// The first blocks of directories.
    fn first_of_directories(&self, directories: &[DirectoryJob]) -> Vec<u64> {
        let blocks = directories.iter().flat_map(|job| {
            let alone = job.is_single().then_some(job.first_block);
            let runs = job.runs().iter().flat_map(|run| run.physical..run.physical + u64::from(run.count));
            alone.into_iter().chain(runs.take(BLOCKS_OF_DIRECTORY))
        });
        blocks.filter(|block| self.is_within(block)).collect()
    }

    fn is_within(&self, block: &u64) -> bool {
        *block < self.fs.geometry.blocks_count
    }

    fn sweep(&self, gathered: Gathered) {
        let Gathered { mut walks, mut directories, .. } = gathered;
        // What comes first is taken from the end, and its memory given back: else all would be held twice.
        walks.sort_unstable_by_key(|item| Reverse((item.first_map_block(), item.inode)));
        while !walks.is_empty() {
            let mut part = walks.split_off(walks.len().saturating_sub(self.batch(WALKS_PER_SWEEP)));
            walks.shrink_to_fit();
            part.reverse();
            self.push_expected(MAPS, weight_of(&part), Batch::Sweep(part));
        }
        directories.sort_unstable_by_key(|job| job.first_block);
        let mut directories = directories.into_iter();
        loop {
            let mut part: Vec<DirectoryJob> = directories.by_ref().take(DIRECTORIES_AT_ONCE).collect();
            if part.is_empty() {
                return;
            }
            if self.may_announce() {
                announce_directories(self.fs, &part);
            }
            // Others look at these while the device takes requests for the next.
            self.push_directories(&mut part);
        }
    }
}
