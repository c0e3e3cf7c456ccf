// SPDX-License-Identifier: MIT OR Apache-2.0
//! The indirect regions of a rext3: where they are, what may lie in them, and how full they are.
//!
//! Which blocks lie inside is a rule of the format and no preference: `alloc` keeps to it whatever a policy names, and a map that breaks it is damaged. The bits
//! of regions stand in the ordinary block bitmaps, and nothing on the disk counts them; so they are counted when a group is first
//! asked for, and kept up to date from then on.

use std::collections::HashMap;
use std::ops::Range;

use fsmend_base::{BlockNo, BlockRange, GroupNo, width};
use fsmend_vfs::{Errno, Result};

use crate::policy::BlockKind;
use crate::volume::Volume;

/// How much room there is in the indirect region of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionRoom {
    /// Blocks of the region; fewer than usual where the group ends before it.
    pub blocks: u32,
    /// Of these, free ones.
    pub free: u32,
}

/// The regions of a file system; none where it is no rext3.
#[derive(Default)]
pub(crate) struct Regions {
    /// By group.
    ranges: Vec<BlockRange>,
    /// Free blocks of those regions that have been counted, by group.
    free: HashMap<u32, u32>,
    /// Groups in whose regions the current operation has changed something.
    changed: Vec<u32>,
    ahead: Ahead,
}

/// Blocks of a region that are read when one of them is asked for: the maps of files that lie side by side mostly do so, too. To read a MiB takes a disk about as
/// long as the way there and back.
const AHEAD_FIRST: u64 = 256;
/// As many are read the next time if that is where the last ones end: all the rest of a region of the usual size.
const AHEAD_MAX: u64 = 512;

/// Which blocks of regions were read last, to see whether they are asked for in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    start: u64,
    end: u64,
}

impl Ahead {
    /// How many blocks from `block` on are to be read, now that it is wanted and not in memory.
    fn next(&mut self, block: u64) -> u64 {
        let last = self.end - self.start;
        let goes_on = (self.end..self.end.saturating_add(last)).contains(&block);
        let count = if goes_on { AHEAD_MAX } else { AHEAD_FIRST };
        (self.start, self.end) = (block, block.saturating_add(count));
        count
    }
}

/// How many of `range` lie in `region` of a group that begins at `start`.
fn overlap(region: BlockRange, start: u64, range: &Range<u64>) -> u64 {
    let (from, to) = (region.start.0.max(start + range.start), region.end().min(start + range.end));
    to.saturating_sub(from)
}

impl Regions {
    pub fn new(ranges: Vec<BlockRange>) -> Self {
        Regions { ranges, ..Regions::default() }
    }

    /// Whether the file system has regions, so that it matters what lies where.
    pub fn exist(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// The region of a group; empty if it has none.
    pub fn of(&self, group: GroupNo) -> BlockRange {
        self.ranges.get(group.0 as usize).copied().unwrap_or(BlockRange::new(0, 0))
    }

    /// Blocks of all regions.
    pub fn blocks(&self) -> u64 {
        self.ranges.iter().map(|range| range.count).sum()
    }

    pub fn begin(&mut self) {
        self.changed.clear();
    }

    /// The operation has failed: what it has changed is recounted on request.
    pub fn take_back(&mut self) {
        for group in self.changed.drain(..) {
            self.free.remove(&group);
        }
    }

    /// Bits of a group, whose first block is `start`, have been set or cleared.
    pub fn note(&mut self, group: GroupNo, start: u64, range: &Range<u64>, are_free: bool) {
        let count = width::low_u32(overlap(self.of(group), start, range));
        if count == 0 {
            return;
        }
        if self.changed.last() != Some(&group.0) {
            self.changed.push(group.0);
        }
        if let Some(free) = self.free.get_mut(&group.0) {
            *free = if are_free { free.saturating_add(count) } else { free.saturating_sub(count) };
        }
    }
}

impl Volume {
    /// Whether blocks of this kind lie in regions.
    pub fn lies_in_region(&self, kind: BlockKind) -> bool {
        self.regions.exist() && matches!(kind, BlockKind::Map(_) | BlockKind::Directory)
    }

    /// Free blocks of the region of a group.
    pub fn region_free(&mut self, group: GroupNo) -> Result<u32> {
        if let Some(free) = self.regions.free.get(&group.0) {
            return Ok(*free);
        }
        let region = self.regions.of(group);
        if region.count == 0 {
            return Ok(0);
        }
        let bitmap = self.block_bitmap(group)?;
        let first = region.start.0 - self.geometry.group_first_block(group);
        let is_free =
            |bit: &u64| bitmap.get((bit / 8) as usize).is_some_and(|byte| byte & 1 << (bit % 8) == 0);
        let free = width::len_u32((first..first + region.count).filter(is_free).count());
        self.regions.free.insert(group.0, free);
        Ok(free)
    }

    /// Free blocks of all regions. The first time, that reads the block bitmap of each group that has not been asked for yet.
    pub fn regions_free(&mut self) -> Result<u64> {
        Ok(self.regions_room()?.iter().map(|region| u64::from(region.free)).sum())
    }

    /// How much room there is in each region, by group; empty without regions.
    pub fn regions_room(&mut self) -> Result<Vec<RegionRoom>> {
        if !self.regions.exist() {
            return Ok(Vec::new());
        }
        let groups = self.geometry.group_count;
        let room = |group| {
            let blocks = width::low_u32(self.regions.of(group).count);
            Ok(RegionRoom { blocks, free: self.region_free(group)? })
        };
        (0..groups).map(GroupNo).map(room).collect()
    }

    /// Brings a map block of a region, which is going to be asked for, with those behind it, if it is not in memory. If that fails, the reader will find
    /// out by himself.
    pub fn bring_map_block(&mut self, block: u64) {
        let group = self.geometry.group_of_block(BlockNo(block));
        let region = group.map_or(BlockRange::new(0, 0), |group| self.regions.of(group));
        if !region.contains(BlockNo(block)) || self.cache.holds(block) {
            return;
        }
        let count = self.regions.ahead.next(block).min(region.end() - block);
        self.cache.bring(block, count);
    }

    /// An error if blocks may not lie there: those of directories and maps in regions only, others outside only.
    pub fn check_place(&mut self, belongs_inside: bool, start: u64, count: u64) -> Result<()> {
        if !self.regions.exist() || count == 0 {
            return Ok(());
        }
        let group = |block: u64| self.geometry.group_of_block(BlockNo(block)).map_or(0, |group| group.0);
        let (first, last) = (group(start), group(start.saturating_add(count - 1)));
        let inside: u64 = (first..=last)
            .map(|group| overlap(self.regions.of(GroupNo(group)), 0, &(start..start + count)))
            .sum();
        let wanted = if belongs_inside { count } else { 0 };
        if inside == wanted {
            return Ok(());
        }
        let what = if belongs_inside { "metadata lie outside of" } else { "data lie inside" };
        Err(self.cache.corrupt(|| format!("{what} the indirect regions, at block {start}")))
    }

    /// Takes up to `max` free blocks in a row from the region of `first`, or the next one that has some: at `ideal` or behind it if that
    /// is in the region, else the first ones.
    pub fn take_in_regions(&mut self, first: GroupNo, ideal: u64, max: u64) -> Result<BlockRange> {
        let count = self.geometry.group_count;
        for step in 0..count {
            let group = GroupNo(width::low_u32((u64::from(first.0) + u64::from(step)) % u64::from(count)));
            let region = self.regions.of(group);
            if self.region_free(group)? == 0 {
                continue;
            }
            let start = self.geometry.group_first_block(group);
            let (from, end) = (region.start.0 - start, region.end() - start);
            let ideal = if region.contains(BlockNo(ideal)) { ideal - start } else { from };
            let taken = self.taken_of(group)?;
            let Some(at) = taken.first_clear(ideal..end).or_else(|| taken.first_clear(from..ideal)) else {
                continue;
            };
            let count = taken.clear_run(at, end, max.max(1)).max(1);
            self.mark(group, at, count)?;
            return Ok(BlockRange::new(start + at, count));
        }
        Err(Errno::NoSpace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_read_ahead_where_blocks_are_asked_for_in_a_row() {
        let mut ahead = Ahead::default();
        assert_eq!(ahead.next(1000), 256);
        // Some of what follows was in memory.
        assert_eq!(ahead.next(1264), 512);
        assert_eq!(ahead.next(1264 + 512), 512);
        assert_eq!(ahead.next(90_000), 256, "elsewhere");
        assert_eq!(ahead.next(89_000), 256, "backwards");
        assert_eq!(ahead.next(89_000 + 512), 256, "too far");
    }

    #[test]
    fn regions_are_counted_where_ranges_meet_them() {
        let region = BlockRange::new(110, 10);
        assert_eq!(overlap(region, 100, &(0..10)), 0);
        assert_eq!(overlap(region, 100, &(5..12)), 2);
        assert_eq!(overlap(region, 100, &(12..14)), 2);
        assert_eq!(overlap(region, 100, &(0..90)), 10);
        assert_eq!(overlap(BlockRange::new(0, 0), 100, &(0..90)), 0);
        let mut regions = Regions::new(vec![region]);
        regions.free.insert(0, 7);
        regions.note(GroupNo(0), 100, &(8..12), false);
        assert_eq!((regions.free.get(&0), &regions.changed[..]), (Some(&5), &[0][..]));
        regions.note(GroupNo(0), 100, &(20..30), false);
        regions.note(GroupNo(1), 200, &(0..30), false);
        assert_eq!((regions.free.get(&0), regions.changed.len()), (Some(&5), 1));
        regions.take_back();
        assert!(regions.free.is_empty() && regions.changed.is_empty());
    }
}
