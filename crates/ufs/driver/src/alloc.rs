// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which fragments are taken. A policy proposes a place; what is taken is a run of free fragments inside one block, near that place:
//!
//! 1. in the group of the proposed place, in the part that the policy prefers, then in the rest of the group;
//! 2. in the next groups in the same way, until all have been asked.
//!
//! Runs shorter than a block fill blocks that are in use in part before they break up free ones.

use fsmend_base::{GroupNo, width};
use fsmend_ufs_format::geometry::ROOT;
use fsmend_vfs::{Errno, Result};

use crate::groups::Usage;
use crate::inode::Inode;
use crate::policy::{Ask, BlockKind, DirectoryAsk};
use crate::volume::Volume;

impl Volume {
    fn free_fragments(&self) -> u64 {
        let totals = &self.groups.totals;
        let number = |value: i64| u64::try_from(value).unwrap_or(0);
        number(totals.free_blocks) * self.geometry.fragments + number(totals.free_fragments)
    }

    /// Free fragments, and how many of them unprivileged users may take.
    pub fn room(&self) -> (u64, u64) {
        let percent = u64::try_from(self.superblock.minfree()).unwrap_or(0).min(99);
        let data = u64::try_from(self.superblock.dsize()).unwrap_or(0);
        let free = self.free_fragments();
        (free, free.saturating_sub(data / 100 * percent + data % 100 * percent / 100))
    }

    /// Takes `count` free fragments in a row inside one block: a whole block, or the end of a file.
    pub fn take_fragments(&mut self, ask: &Ask, count: u64) -> Result<u64> {
        if self.caller.uid != 0 && self.room().1 < count {
            return Err(Errno::NoSpace);
        }
        let usage = Usage { table: &self.groups, geometry: &self.geometry };
        let own = usage.of(ask.inode_group).ok_or(Errno::Corrupt)?;
        let ideal = self.policy.ideal(ask, &self.layout, &own).min(self.geometry.size - 1);
        let home = self.geometry.group_of(ideal);
        let groups = self.geometry.groups;
        for step in 0..groups {
            let group = u32::try_from((u64::from(home) + u64::from(step)) % u64::from(groups)).unwrap_or(0);
            let wish = (step == 0).then_some(ideal);
            if let Some(found) = self.take_in_group(ask, group, wish, count)? {
                return Ok(found);
            }
        }
        Err(Errno::NoSpace)
    }

    fn take_in_group(&mut self, ask: &Ask, group: u32, wish: Option<u64>, count: u64) -> Result<Option<u64>> {
        let per_block = self.geometry.fragments;
        let Some(counts) = self.groups.counts.get(group as usize) else { return Ok(None) };
        let has_parts = count < per_block && i64::from(counts.free_fragments) >= width::signed(count);
        if counts.free_blocks <= 0 && !has_parts {
            return Ok(None);
        }
        let usage = Usage { table: &self.groups, geometry: &self.geometry };
        let Some(own) = usage.of(GroupNo(group)) else { return Ok(None) };
        let blocks = self.layout.blocks_of(GroupNo(group));
        let area = self.policy.area(ask, blocks, &own);
        let (start, end) = (blocks.start.0, blocks.end());
        let area = area.start.0.clamp(start, end)..area.end().clamp(start, end);
        let from = own.first_free_for_files.clamp(start, end);
        let ideal = wish.unwrap_or(area.start.max(from)).clamp(start, end) - start;
        let parts = [area.start..area.end, area.end..end, start..area.start];
        // Without parts of blocks that would do, a whole block is broken up at once.
        let units = if has_parts { count } else { per_block };
        let free = &self.group(group)?.free;
        let found = parts.into_iter().filter(|part| part.start < part.end).find_map(|part| {
            free.nearest_in_block(part.start - start..part.end - start, ideal, units, per_block)
        });
        if let Some(at) = found {
            self.mark_taken(group, at, count);
        }
        Ok(found.map(|at| start + at))
    }

    /// Takes the fragments behind a run, so that it becomes `count` long, if they are free.
    pub fn extend_run(&mut self, first: u64, had: u64, count: u64) -> Result<bool> {
        let per_block = self.geometry.fragments;
        if first % per_block + count > per_block {
            return Ok(false);
        }
        let group = self.geometry.group_of(first);
        let start = self.geometry.group_start(group);
        let (from, wanted) = (first + had - start, count - had);
        let is_free = self.group(group)?.free.clear_run(from, from + wanted, wanted) == wanted;
        if is_free {
            self.mark_taken(group, from, wanted);
        }
        Ok(is_free)
    }

    /// The group for a new inode.
    pub fn group_for(&mut self, parent: &Inode, is_directory: bool) -> GroupNo {
        let parent_group = self.group_of_inode(parent.number);
        let group = if is_directory {
            let depth = parent.raw.depth();
            let parent_depth = (depth != 0 || parent.number.0 == ROOT).then_some(depth);
            // Each has a `..` that counts; the parent itself has a name and a `.`.
            let siblings = u32::from(parent.raw.links()).saturating_sub(2);
            let ask = DirectoryAsk { parent_group, parent_depth, siblings };
            let mut usage = Usage { table: &self.groups, geometry: &self.geometry };
            self.policy.directory_group(&ask, &mut usage)
        } else {
            parent_group
        };
        self.policy.made(group, is_directory);
        group
    }

    /// A request for a block of a file.
    pub fn ask(&self, inode: &Inode, kind: BlockKind, logical: u64, previous: Option<u64>) -> Ask {
        Ask { inode: inode.number, inode_group: self.group_of_inode(inode.number), kind, logical, previous }
    }
}
