// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much work the stages will have, as far as that can be estimated before they have it, and what a unit of it costs.

use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::width;
use fsmend_engine::pool::Stage;
use fsmend_ext_format::features::Incompat;

use super::{DIRECTORIES, INODE_TABLES, MAPS, STAGES, Scan};
use crate::Fs;
use crate::fast::jobs::{DirectoryJob, WEIGHT_PER_BLOCK};

/// First guesses in nanoseconds of one worker, from warm runs: an inode, a block that a map leads to, a 16th of a directory block.
/// They matter until a run has measured its own costs.
const COSTS: [u64; STAGES.len()] = [80, 7, 60];
/// Bytes of a map for a block that it leads to, where it is fragmented: a pointer.
const BYTES_PER_MAPPED_BLOCK: u64 = 4;
/// As if so many directories of one block had been found: the first table may hold the largest one.
const TAKEN_FOR_SMALL: u64 = 16;

impl Scan<'_> {
    /// Says what is known before the scan of `groups`: descriptors count directories; without extents, whatever is in use has a
    /// place in some map.
    pub(super) fn foresee(&self, groups: &[u32]) {
        let workers = self.run_context.plan.workers;
        let geometry = &self.fs.geometry;
        let bytes = [
            u64::from(geometry.inode_size),
            BYTES_PER_MAPPED_BLOCK,
            u64::from(geometry.block_size) / WEIGHT_PER_BLOCK,
        ];
        for ((Stage { name, .. }, cost), bytes) in STAGES.iter().zip(COSTS).zip(bytes) {
            let stage = self.progress.stage(name);
            stage.guess_cost(cost, workers);
            stage.guess_bytes(bytes);
        }
        let counted = directories(self.fs, groups);
        self.directories_counted.store(counted, Relaxed);
        self.progress.stage(STAGES[DIRECTORIES].name).foresee(counted * WEIGHT_PER_BLOCK);
        if self.sample.is_none()
            && let Some(mapped) = mapped_blocks(self.fs)
        {
            self.progress.stage(STAGES[MAPS].name).foresee(mapped);
        }
    }

    /// Once part of the tables is through, the rest will hold as many maps in proportion, and directories as large.
    pub(super) fn foresee_more(&self) {
        let tables = self.progress.stage(STAGES[INODE_TABLES].name);
        let maps = self.progress.stage(STAGES[MAPS].name);
        if mapped_blocks(self.fs).is_none() {
            maps.foresee(in_proportion(maps.announced(), tables.announced(), tables.done()));
        }
        let [found, weight, all] = [&self.directories_found, &self.weight_found, &self.directories_counted]
            .map(|count| count.load(Relaxed));
        let directories = self.progress.stage(STAGES[DIRECTORIES].name);
        directories.foresee(weight_of_directories(all, found, weight));
    }

    /// Notes directories that a table has led to.
    pub(super) fn count_found(&self, directories: &[DirectoryJob]) {
        self.directories_found.fetch_add(directories.len() as u64, Relaxed);
        self.weight_found.fetch_add(directories.iter().map(DirectoryJob::weight).sum(), Relaxed);
    }

    /// Nothing more will come.
    pub(super) fn all_is_known(&self) {
        STAGES.iter().for_each(|stage| self.progress.stage(stage.name).foresee(0));
    }
}

/// What `all` directories weigh of which those found so far have this weight: the others are taken to be as large, and before many are found, to
/// have a block each.
fn weight_of_directories(all: u64, found: u64, weight: u64) -> u64 {
    let mean = (weight + TAKEN_FOR_SMALL * WEIGHT_PER_BLOCK) / (found + TAKEN_FOR_SMALL);
    weight.saturating_add(all.saturating_sub(found).saturating_mul(mean))
}

/// What all of them come to, if `done` come to `amount`.
fn in_proportion(amount: u64, all: u64, done: u64) -> u64 {
    width::low_u64(u128::from(amount) * u128::from(all) / u128::from(done.max(1)))
}

/// Directories in `groups`, as their descriptors count them.
pub fn directories(fs: &Fs<'_>, groups: &[u32]) -> u64 {
    groups.iter().map(|group| u64::from(fs.groups[*group as usize].desc.used_dirs)).sum()
}

/// Blocks that maps lead to, where all files are mapped by pointers; not known where there are extents, most of which stand in the inode.
pub fn mapped_blocks(fs: &Fs<'_>) -> Option<u64> {
    let geometry = &fs.geometry;
    if geometry.features.has_incompat(Incompat::EXTENTS) {
        return None;
    }
    let free: u64 = fs.groups.iter().map(|group| u64::from(group.desc.free_blocks)).sum();
    let tables = u64::from(geometry.inode_table_blocks()) + 2;
    let metadata = tables.saturating_mul(u64::from(geometry.group_count));
    Some(geometry.blocks_count.saturating_sub(free).saturating_sub(metadata))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directories were taken to have one block until their turn came: where they are large, the end was told too early.
    #[test]
    fn how_large_directories_are_is_foreseen_from_those_that_were_found() {
        let blocks = |all, found, blocks| {
            weight_of_directories(all, found, blocks * WEIGHT_PER_BLOCK) / WEIGHT_PER_BLOCK
        };
        assert_eq!(blocks(1000, 0, 0), 1000, "before any was found");
        assert_eq!(blocks(1000, 500, 500), 1000);
        assert!((9700..=10_000).contains(&blocks(1000, 500, 5000)), "{}", blocks(1000, 500, 5000));
        assert!(blocks(1000, 1, 1000) < 61_000, "the first one tells little of the others");
        assert_eq!(blocks(3, 500, 5000), 5000, "the descriptors counted too few");
        assert_eq!(weight_of_directories(u64::MAX, 0, 0), u64::MAX);
    }
}
