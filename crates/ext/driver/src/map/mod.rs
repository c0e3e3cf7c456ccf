// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which block of the device holds which block of a file. Files have a tree of pointers ([`pointers`]) or of extents ([`extents`]); everybody
//! else asks here.

mod extents;
mod pointers;

use fsmend_vfs::{Errno, Result};

use crate::inode::Inode;
use crate::policy::{Ask, BlockKind};
use crate::volume::Volume;

/// A run of blocks of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// Where it lies; `None` for a hole.
    pub physical: Option<u64>,
    /// Number of blocks, at least 1.
    pub count: u64,
    /// Reads as zeroes, whatever stands there.
    pub unwritten: bool,
}

impl Run {
    fn hole(count: u64) -> Run {
        Run { physical: None, count: count.max(1), unwritten: false }
    }
}

impl Volume {
    /// What is at `logical`, and how many blocks, at most `max`, are the continuation of that.
    pub fn map(&mut self, inode: &Inode, logical: u64, max: u64) -> Result<Run> {
        let max = max.max(1);
        let run = if inode.has_extents() {
            self.map_extents(inode, logical, max)?
        } else {
            self.map_pointers(inode, logical, max)?
        };
        if let Some(physical) = run.physical {
            let end = physical.checked_add(run.count);
            let first = u64::from(self.geometry.first_data_block);
            if physical < first || end.is_none_or(|end| end > self.geometry.blocks_count) {
                return Err(self.cache.corrupt(|| format!("inode {} has blocks outside", inode.number)));
            }
            self.check_place(inode.is_directory(), physical, run.count)?;
        }
        Ok(run)
    }

    /// Gives the hole at `logical` up to `max` blocks in a row; returns where they lie and how many they are.
    pub fn map_new(
        &mut self,
        inode: &mut Inode,
        logical: u64,
        max: u64,
        kind: BlockKind,
        unwritten: bool,
    ) -> Result<(u64, u64)> {
        if logical >= self.logical_max(inode.has_extents()) {
            return Err(Errno::TooLarge);
        }
        let ask = Ask {
            inode: inode.number,
            inode_group: self.inode_group(inode.number),
            kind,
            logical,
            previous: self.physical_before(inode, logical)?,
        };
        if inode.has_extents() {
            self.new_extent(inode, ask, max, unwritten)
        } else if self.unit() > 1 {
            // Clusters are for files with extents alone.
            Err(Errno::NotSupported)
        } else {
            self.new_pointers(inode, ask, max)
        }
    }

    fn physical_before(&mut self, inode: &Inode, logical: u64) -> Result<Option<u64>> {
        match logical.checked_sub(1) {
            Some(before) => Ok(self.map(inode, before, 1)?.physical),
            None => Ok(None),
        }
    }

    /// Blocks that a file can have at most.
    pub fn logical_max(&self, extents: bool) -> u64 {
        if extents {
            return u64::from(u32::MAX);
        }
        let pointers = u64::from(self.geometry.pointers_per_block());
        let all = 12 + pointers + pointers.pow(2) + pointers.pow(3);
        if self.has_huge_files() {
            return all.min(u64::from(u32::MAX));
        }
        // The sectors of data and map have to be counted in 32 bits: as many blocks as that, but for the map that they would need.
        let counted = u64::from(u32::MAX) / u64::from(self.geometry.block_size / 512);
        let by_three = counted.saturating_sub(12 + pointers + pointers.pow(2));
        let map = 1 + (1 + pointers) + (1 + by_three.div_ceil(pointers.pow(2)) + by_three.div_ceil(pointers));
        all.min(counted.saturating_sub(map))
    }

    /// Unwritten blocks have been written.
    pub fn mark_written(&mut self, inode: &mut Inode, logical: u64, count: u64) -> Result<()> {
        self.mark_extents_written(inode, logical, count)
    }

    /// Frees blocks of a file that are mapped from `logical` on, `count` at most: those that lie in one extent, or below one block of pointers.
    /// Returns how many they were.
    pub fn unmap(&mut self, inode: &mut Inode, logical: u64, count: u64) -> Result<u64> {
        if inode.has_extents() {
            self.unmap_extent(inode, logical, count)
        } else {
            self.unmap_pointers(inode, logical, count)
        }
    }

    /// Gives back the blocks of a file from `first` on, the last ones first. Returns whether all is done; if not, the running transaction is full, and
    /// what is left is a file that is shorter.
    pub fn cut_map(&mut self, inode: &mut Inode, first: u64) -> Result<bool> {
        if inode.has_extents() {
            return self.cut_extents(inode, first);
        }
        let is_empty = inode.raw.i_block.iter().all(|byte| *byte == 0);
        match self.unit() > 1 && !is_empty {
            true => Err(Errno::NotSupported),
            false => self.cut_pointers(inode, first),
        }
    }
}
