//! Who owns which block: the bitmaps, and the search in them.
//!
//! A policy wishes for a place; here it is decided what is taken. A block is taken only if its bit is clear, the running transaction has not freed it, and
//! no metadata of a group lies there, whatever a damaged bitmap says of that. On a rext3, indirect and
//! directory blocks come from regions (`region`), and nothing else does. The search for a wish at block `b` of group `g`:
//!
//! 1. `b` itself, the first free block in the 64 behind it, the first eight free blocks in a row (aligned) behind it, any free block
//!    behind it: each time within the part of the group that the policy prefers;
//! 2. the preferred part from its start;
//! 3. the rest of the group, in the same way;
//! 4. the next groups, from the start of the preferred part, until all have been asked.
//!
//! Bitmaps, and the counts of groups, count units: blocks, or with bigalloc clusters of them. Everybody outside of `alloc` and `group` counts blocks; what is taken
//! and given back are whole units all the same.

use std::collections::HashMap;

use fsmend_base::{BlockNo, BlockRange, GroupNo};
use fsmend_ext_format::superblock::RawSuperblock;
use fsmend_vfs::{Caller, Errno, Result};

use crate::policy::{Ask, GroupUse};
use crate::volume::Volume;

/// Blocks behind the ideal one that are as good as it.
const NEAR: u64 = 64;

/// Units that the running transaction has freed, by group.
#[derive(Default)]
pub(crate) struct Freed {
    groups: HashMap<u32, Vec<u64>>,
    /// What the current operation has added.
    noted: Vec<(u32, u64, u64)>,
    is_noting: bool,
}

impl Freed {
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub fn clear(&mut self) {
        self.groups.clear();
    }

    pub fn begin(&mut self) {
        self.noted.clear();
        self.is_noting = true;
    }

    pub fn finish(&mut self) {
        self.is_noting = false;
    }

    pub fn take_back(&mut self) {
        self.is_noting = false;
        for (group, start, count) in std::mem::take(&mut self.noted) {
            let Some(words) = self.groups.get_mut(&group) else { continue };
            for bit in start..start + count {
                if let Some(word) = words.get_mut((bit / 64) as usize) {
                    *word &= !(1 << (bit % 64));
                }
            }
            if words.iter().all(|word| *word == 0) {
                self.groups.remove(&group);
            }
        }
    }

    fn add(&mut self, group: u32, start: u64, count: u64) {
        let words = self.groups.entry(group).or_default();
        let needed = ((start + count).div_ceil(64)) as usize;
        if words.len() < needed {
            words.resize(needed, 0);
        }
        for bit in start..start + count {
            words[(bit / 64) as usize] |= 1 << (bit % 64);
        }
        if self.is_noting {
            self.noted.push((group, start, count));
        }
    }
}

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

    /// Whether somebody may take them. (The group 0 is what a superblock says that names none.)
    fn is_open_to(&self, caller: Caller) -> bool {
        caller.uid == 0 || caller.uid == self.uid || (self.gid != 0 && caller.gid == self.gid)
    }

    /// How many of `free` blocks everybody may take.
    pub fn left_of(&self, free: u64) -> u64 {
        free.saturating_sub(self.blocks)
    }
}

/// The units of one group that may not be taken, as words of bits; those beyond the group's end are set.
pub(crate) struct Taken {
    words: Vec<u64>,
    len: u64,
}

impl Taken {
    pub(crate) fn new(bitmap: &[u8], len: u64) -> Self {
        let mut words: Vec<u64> = bitmap
            .chunks(8)
            .take(len.div_ceil(64) as usize)
            .map(|bytes| {
                let mut word = [0xFF; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(word)
            })
            .collect();
        words.resize(len.div_ceil(64) as usize, u64::MAX);
        if !len.is_multiple_of(64)
            && let Some(last) = words.last_mut()
        {
            *last |= u64::MAX << (len % 64);
        }
        Taken { words, len }
    }

    fn set(&mut self, range: std::ops::Range<u64>) {
        for bit in range {
            if let Some(word) = self.words.get_mut((bit / 64) as usize) {
                *word |= 1 << (bit % 64);
            }
        }
    }

    /// The first clear bit of `range`.
    pub(crate) fn first_clear(&self, range: std::ops::Range<u64>) -> Option<u64> {
        let end = range.end.min(self.len);
        let mut at = range.start;
        while at < end {
            let word = self.words.get((at / 64) as usize)?;
            let free = !word >> (at % 64);
            if free != 0 {
                let found = at + u64::from(free.trailing_zeros());
                return (found < end).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// The first eight clear bits of `range` that begin at a multiple of eight.
    fn first_clear_eight(&self, range: std::ops::Range<u64>) -> Option<u64> {
        let end = range.end.min(self.len);
        let mut at = range.start.next_multiple_of(8);
        while at + 8 <= end {
            let word = self.words.get((at / 64) as usize)?;
            if *word == u64::MAX {
                at = (at / 64 + 1) * 64;
                continue;
            }
            if word >> (at % 64) & 0xFF == 0 {
                return Some(at);
            }
            at += 8;
        }
        None
    }

    /// How many bits are clear from `at` on, at most `max`.
    pub(crate) fn clear_run(&self, at: u64, end: u64, max: u64) -> u64 {
        let end = end.min(self.len).min(at.saturating_add(max));
        let mut reached = at;
        while reached < end {
            let Some(word) = self.words.get((reached / 64) as usize) else { break };
            let run = u64::from((word >> (reached % 64)).trailing_zeros()).min(64 - reached % 64);
            reached += run;
            if run == 0 || !reached.is_multiple_of(64) {
                break;
            }
        }
        reached.min(end) - at
    }

    /// The best bit in `area` for a wish at `ideal`.
    fn nearest(&self, area: std::ops::Range<u64>, ideal: u64) -> Option<u64> {
        let behind = ideal.max(area.start)..area.end;
        if ideal >= area.start
            && let Some(near) = self.first_clear(ideal..area.end.min(ideal.saturating_add(NEAR)))
        {
            return Some(near);
        }
        self.first_clear_eight(behind.clone())
            .or_else(|| self.first_clear(behind))
            .or_else(|| self.first_clear_eight(area.clone()))
            .or_else(|| self.first_clear(area))
    }
}

impl Volume {
    /// Takes free blocks in a row for `ask`, near to where the policy wishes: up to `max`, and to the end of the last one's cluster.
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
            let group = GroupNo(((u64::from(home.0) + u64::from(step)) % u64::from(count)) as u32);
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
    pub fn taken_of(&mut self, group: GroupNo) -> Result<Taken> {
        // A cluster that the file system has not all of is not used.
        let len = self.geometry.group_blocks(group).count / self.unit();
        let bitmap = self.block_bitmap(group)?;
        let mut taken = Taken::new(&bitmap, len);
        if let Some(freed) = self.freed.groups.get(&group.0) {
            taken.words.iter_mut().zip(freed).for_each(|(word, freed)| *word |= freed);
        }
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
        let bitmap = self.store.change(place)?;
        for bit in at..at + count {
            let byte = bitmap.get_mut((bit / 8) as usize).ok_or(Errno::Corrupt)?;
            *byte |= 1 << (bit % 8);
        }
        let mut desc = self.desc(group)?;
        let count32 = u32::try_from(count).map_err(|_| Errno::Corrupt)?;
        let Some(left) = desc.free_blocks.checked_sub(count32) else {
            return Err(self.store.corrupt(|| format!("group {group} has more free blocks than it says")));
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
                return Err(self.store.corrupt(|| format!("block {at} of a file lies outside")));
            };
            let blocks = self.geometry.group_blocks(group);
            let part = end.min(blocks.end());
            let units = self.units_of(&(at - blocks.start.0..part - blocks.start.0));
            self.clear(group, units.start, units.end - units.start)?;
            at = part;
        }
        if metadata {
            (start..end).for_each(|block| self.store.forget(block));
        }
        Ok(())
    }

    fn clear(&mut self, group: GroupNo, at: u64, count: u64) -> Result<()> {
        let reserved = self.own_metadata(group)?;
        let mut reserved = reserved.iter().map(|range| self.units_of(range));
        if reserved.any(|range| range.start < at + count && at < range.end) {
            return Err(self.store.corrupt(|| format!("a file claims metadata of group {group}")));
        }
        let place = self.block_bitmap_for_change(group)?;
        let bitmap = self.store.change(place)?;
        let mut are_set = true;
        for bit in at..at + count {
            let byte = bitmap.get_mut((bit / 8) as usize).ok_or(Errno::Corrupt)?;
            are_set &= *byte & 1 << (bit % 8) != 0;
            *byte &= !(1 << (bit % 8));
        }
        if !are_set {
            return Err(self.store.corrupt(|| format!("a file has blocks in group {group} that are free")));
        }
        let mut desc = self.desc(group)?;
        let limit = self.geometry.group_blocks(group).count.div_ceil(self.unit());
        desc.free_blocks = u64::from(desc.free_blocks).saturating_add(count).min(limit) as u32;
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
