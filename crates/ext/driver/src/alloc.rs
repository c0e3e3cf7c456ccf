// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who owns which block: the bitmaps, and the search in them.
//!
//! A policy proposes a place; here it is decided what is taken. A block is taken only if its bit is clear, the running transaction has not freed it, and
//! no metadata of a group lies there, whatever a damaged bitmap says of that. On a rext3, indirect and
//! directory blocks come from regions (`region`), and nothing else does. The search for a proposed place at block `b` of group `g`:
//!
//! 1. `b` itself, the first free block in the 64 behind it, the first eight free blocks in a row (aligned) behind it, any free block
//!    behind it: each time within the part of the group that the policy prefers;
//! 2. the preferred part from its start;
//! 3. the rest of the group, in the same way;
//! 4. the next groups, from the start of the preferred part, until all have been asked.
//!
//! Bitmaps, and the counts of groups, count units: blocks, or with bigalloc clusters of them. Everybody outside of `alloc` and `group` counts blocks; what is taken
//! and given back are whole units all the same.

use fsmend_base::{BlockNo, BlockRange, GroupNo, width};
use fsmend_blockcache::FreeMap;
use fsmend_ext_format::superblock::RawSuperblock;
use fsmend_vfs::{Caller, Errno, Result};

use crate::policy::{Ask, GroupUse};
use crate::volume::Volume;

/// Blocks that are kept for the superuser, and for one user or group whom the superblock names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserve {
    blocks: u64,
    uid: u32,
    gid: u32,
}

impl Reserve {
    /// What a superblock says.
    pub fn of(superblock: &RawSuperblock) -> Self {
        Reserve {
            blocks: superblock.reserved_blocks_count(),
            uid: u32::from(superblock.s_def_resuid.get()),
            gid: u32::from(superblock.s_def_resgid.get()),
        }
    }

    /// Whether the caller may take them. (The group 0 is what a superblock says that names none.)
    fn is_open_to(&self, caller: Caller) -> bool {
        caller.uid == 0 || caller.uid == self.uid || (self.gid != 0 && caller.gid == self.gid)
    }

    /// How many of `free` blocks unprivileged users may take.
    pub fn left_of(&self, free: u64) -> u64 {
        free.saturating_sub(self.blocks)
    }
}

impl Volume {
    /// Takes free blocks in a row for `ask`, near the place that the policy proposes: up to `max`, and to the end of the last one's cluster.
    pub fn take_blocks(&mut self, ask: &Ask, max: u64) -> Result<BlockRange> {
        let own = self.group_use(ask.inode_group)?;
        let ideal = self.policy.ideal(ask, &self.layout, &own);
        if self.lies_in_region(ask.kind) {
            return self.take_in_regions(ask.inode_group, ideal, max);
        }
        let max = self.allowed(max)?;
        let first = u64::from(self.geometry.first_data_block);
        let ideal = ideal.clamp(first, self.geometry.blocks_count - 1);
        let home = self.layout.group_of(ideal);
        let count = self.geometry.group_count;
        for step in 0..count {
            let group = GroupNo(width::low_u32((u64::from(home.0) + u64::from(step)) % u64::from(count)));
            let wish = if step == 0 { Some(ideal) } else { None };
            if let Some(found) = self.take_in_group(ask, group, wish, max)? {
                return Ok(found);
            }
        }
        Err(Errno::NoSpace)
    }

    /// How many of `max` blocks the caller may take, of those outside of regions; an error if it is none.
    fn allowed(&mut self, max: u64) -> Result<u64> {
        let max = max.max(1);
        let reserve = self.reserve;
        // Free blocks of regions are counted block by block only where it matters.
        let at_least = self.totals.free_blocks.saturating_sub(self.regions.blocks());
        if reserve.is_open_to(self.caller) || reserve.left_of(at_least) >= max {
            return Ok(max);
        }
        let free = self.totals.free_blocks.saturating_sub(self.regions_free()?);
        match reserve.left_of(free) {
            0 => Err(Errno::NoSpace),
            left => Ok(left.min(max)),
        }
    }

    fn take_in_group(
        &mut self,
        ask: &Ask,
        group: GroupNo,
        wish: Option<u64>,
        max: u64,
    ) -> Result<Option<BlockRange>> {
        let usage = self.group_use(group)?;
        if usage.free_blocks == 0 || usage.free_blocks <= self.region_free(group)? {
            return Ok(None);
        }
        let blocks = self.geometry.group_blocks(group);
        let area = self.policy.area(ask, blocks, &usage);
        let (start, len) = (blocks.start.0, blocks.count);
        let unit = self.unit();
        let area_start = (area.start.0.clamp(start, start + len) - start) / unit;
        let area_end = (area.end().clamp(start, start + len) - start) / unit;
        let area = area_start..area_end.max(area_start);
        let mut taken = self.taken_of(group)?;
        let region = usage.region;
        taken.set(region.start.0.saturating_sub(start)..region.end().saturating_sub(start));
        let ideal = wish.map_or(area.start, |block| block.saturating_sub(start) / unit);
        let parts = [area.clone(), area.end..len / unit, 0..area.start];
        for part in parts {
            if let Some(at) = taken.nearest(part.clone(), ideal) {
                let count = taken.clear_run(at, part.end, max.div_ceil(unit).max(1)).max(1);
                self.mark(group, at, count)?;
                return Ok(Some(BlockRange::new(start + at * unit, count * unit)));
            }
        }
        Ok(None)
    }

    /// What of a group may not be taken, but for its region, which is for some.
    pub fn taken_of(&mut self, group: GroupNo) -> Result<FreeMap> {
        // A cluster that the file system has not all of is not used.
        let len = self.geometry.group_blocks(group).count / self.unit();
        let bitmap = self.block_bitmap(group)?;
        let mut taken = FreeMap::from_used(&bitmap, len);
        taken.set_words(self.freed.of_group(group.0));
        for range in self.own_metadata(group)? {
            taken.set(self.units_of(&range));
        }
        Ok(taken)
    }

    /// Blocks in a unit of allocation.
    pub fn unit(&self) -> u64 {
        u64::from(self.geometry.cluster_blocks)
    }

    /// The units that hold some of the blocks of a group.
    pub fn units_of(&self, blocks: &std::ops::Range<u64>) -> std::ops::Range<u64> {
        blocks.start / self.unit()..blocks.end.div_ceil(self.unit())
    }

    /// Sets bits of a group that are clear.
    pub fn mark(&mut self, group: GroupNo, at: u64, count: u64) -> Result<()> {
        let place = self.block_bitmap_for_change(group)?;
        let bitmap = self.cache.change(place)?;
        for bit in at..at + count {
            let byte = bitmap.get_mut((bit / 8) as usize).ok_or(Errno::Corrupt)?;
            *byte |= 1 << (bit % 8);
        }
        let mut desc = self.desc(group)?;
        let count32 = u32::try_from(count).map_err(|_| Errno::Corrupt)?;
        let Some(left) = desc.free_blocks.checked_sub(count32) else {
            return Err(self.cache.corrupt(|| format!("group {group} has more free blocks than it says")));
        };
        desc.free_blocks = left;
        self.set_desc(group, &desc)?;
        self.totals.free_blocks = self.totals.free_blocks.saturating_sub(count * self.unit());
        self.regions.note(group, self.geometry.group_first_block(group), &(at..at + count), false);
        Ok(())
    }

    /// Gives blocks back, and all of the units they lie in. `metadata` blocks are forgotten, so that no log brings them back.
    pub fn free_blocks(&mut self, start: u64, count: u64, metadata: bool) -> Result<()> {
        let mut at = start;
        let end = start.checked_add(count).ok_or(Errno::Corrupt)?;
        while at < end {
            let Some(group) = self.geometry.group_of_block(BlockNo(at)) else {
                return Err(self
                    .cache
                    .corrupt(|| format!("block {at} of a file is outside the file system")));
            };
            let blocks = self.geometry.group_blocks(group);
            let part = end.min(blocks.end());
            let units = self.units_of(&(at - blocks.start.0..part - blocks.start.0));
            self.clear(group, units.start, units.end - units.start)?;
            at = part;
        }
        if metadata {
            (start..end).for_each(|block| self.cache.forget(block));
        }
        Ok(())
    }

    fn clear(&mut self, group: GroupNo, at: u64, count: u64) -> Result<()> {
        let reserved = self.own_metadata(group)?;
        let mut reserved = reserved.iter().map(|range| self.units_of(range));
        if reserved.any(|range| range.start < at + count && at < range.end) {
            return Err(self.cache.corrupt(|| format!("a file claims metadata of group {group}")));
        }
        let place = self.block_bitmap_for_change(group)?;
        let bitmap = self.cache.change(place)?;
        let mut are_set = true;
        for bit in at..at + count {
            let byte = bitmap.get_mut((bit / 8) as usize).ok_or(Errno::Corrupt)?;
            are_set &= *byte & 1 << (bit % 8) != 0;
            *byte &= !(1 << (bit % 8));
        }
        if !are_set {
            return Err(self.cache.corrupt(|| format!("a file has blocks in group {group} that are free")));
        }
        let mut desc = self.desc(group)?;
        let limit = self.geometry.group_blocks(group).count.div_ceil(self.unit());
        desc.free_blocks = width::low_u32(u64::from(desc.free_blocks).saturating_add(count).min(limit));
        self.set_desc(group, &desc)?;
        self.totals.free_blocks =
            self.totals.free_blocks.saturating_add(count * self.unit()).min(self.geometry.blocks_count);
        self.regions.note(group, self.geometry.group_first_block(group), &(at..at + count), true);
        if self.log.is_some() {
            self.freed.add(group.0, at, count);
        }
        Ok(())
    }

    /// How full a group is.
    pub fn group_use(&mut self, group: GroupNo) -> Result<GroupUse> {
        let at = group.0 as usize;
        if let Some(known) = self.uses.get(at).copied().flatten() {
            return Ok(known);
        }
        let usage = self.group_use_from_desc(group)?;
        if self.uses.len() <= at {
            self.uses.resize(at + 1, None);
        }
        if let Some(place) = self.uses.get_mut(at) {
            *place = Some(usage);
        }
        Ok(usage)
    }

    fn group_use_from_desc(&mut self, group: GroupNo) -> Result<GroupUse> {
        let desc = self.desc(group)?;
        let blocks = self.geometry.group_blocks(group);
        let table_end = desc.inode_table.saturating_add(u64::from(self.geometry.inode_table_blocks()));
        let starts = blocks.contains(BlockNo(desc.inode_table)) && table_end <= blocks.end();
        let region = self.regions.of(group);
        Ok(GroupUse {
            free_blocks: desc.free_blocks.saturating_mul(self.geometry.cluster_blocks),
            free_inodes: desc.free_inodes,
            directories: desc.used_dirs,
            first_free_for_files: match starts {
                true => table_end.max(region.end()),
                false => blocks.start.0,
            },
            region,
        })
    }
}
