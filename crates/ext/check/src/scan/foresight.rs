// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much work the stages will have, as far as that can be estimated before they have it, and what a unit of it costs.

use fsmend_base::width;
use fsmend_engine::pool::Stage;
use fsmend_ext_format::features::Incompat;

use super::{DIRECTORIES, INODE_TABLES, MAPS, STAGES, Scan};
use crate::Fs;
use crate::fast::jobs::WEIGHT_PER_BLOCK;

/// First guesses in nanoseconds of one worker, from warm runs: an inode, a block that a map leads to, a 16th of a directory block.
/// They matter until a run has measured its own costs.
const COSTS: [u64; STAGES.len()] = [80, 7, 60];
/// Bytes of a map for a block that it leads to, where it is fragmented: a pointer.
const BYTES_PER_MAPPED_BLOCK: u64 = 4;

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
        self.progress
            .stage(STAGES[DIRECTORIES].name)
            .foresee(directories(self.fs, groups) * WEIGHT_PER_BLOCK);
        if self.sample.is_none()
            && let Some(mapped) = mapped_blocks(self.fs)
        {
            self.progress.stage(STAGES[MAPS].name).foresee(mapped);
        }
    }

    /// Once part of the tables is through, the rest will hold as many maps in proportion, and directories as large.
    pub(super) fn foresee_more(&self) {
        let tables = self.progress.stage(STAGES[INODE_TABLES].name);
        let (done, all) = (tables.done().max(1), tables.announced());
        let maps = self.progress.stage(STAGES[MAPS].name);
        if mapped_blocks(self.fs).is_none() {
            maps.foresee(width::low_u64(u128::from(maps.announced()) * u128::from(all) / u128::from(done)));
        }
    }

    /// Nothing more will come.
    pub(super) fn all_is_known(&self) {
        STAGES.iter().for_each(|stage| self.progress.stage(stage.name).foresee(0));
    }
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
