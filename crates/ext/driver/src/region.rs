//! The indirect regions of a rext3: where they are, what may lie in them, and how full they are.
//!
//! Which blocks lie inside is a law of the format and no wish: `alloc` keeps to it whatever a policy names, and a map that breaks it is damaged. The bits
//! of regions stand in the ordinary block bitmaps, and nothing on the disk counts them; so they are counted when a group is first
//! asked for, and kept up to date from then on.

use std::collections::HashMap;
use std::ops::Range;

use fsmend_base::{BlockNo, BlockRange, GroupNo};
use fsmend_vfs::{Errno, Result};

use crate::policy::BlockKind;
use crate::volume::Volume;

/// The regions of a file system; none where it is no rext3.
#[derive(Default)]
pub(crate) struct Regions {
    /// By group.
    ranges: Vec<BlockRange>,
    /// Free blocks of those regions that have been counted, by group.
    free: HashMap<u32, u32>,
    /// Groups in whose regions the current operation has changed something.
    changed: Vec<u32>,
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

    /// The operation has failed: what it has changed is counted anew when somebody asks.
    pub fn take_back(&mut self) {
        for group in self.changed.drain(..) {
            self.free.remove(&group);
        }
    }

    /// Bits of a group, whose first block is `start`, have been set or cleared.
    pub fn note(&mut self, group: GroupNo, start: u64, range: &Range<u64>, are_free: bool) {
        let count = overlap(self.of(group), start, range) as u32;
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
        let free = (first..first + region.count).filter(is_free).count() as u32;
        self.regions.free.insert(group.0, free);
        Ok(free)
    }

    /// Free blocks of all regions. The first time, that reads the block bitmap of each group that has not been asked for yet.
    pub fn regions_free(&mut self) -> Result<u64> {
        if !self.regions.exist() {
            return Ok(0);
        }
        (0..self.geometry.group_count)
            .map(GroupNo)
            .try_fold(0u64, |sum, group| Ok(sum + u64::from(self.region_free(group)?)))
    }

    /// An error if a file may not have its blocks there: directories in regions only, other files outside only.
    pub fn check_place(&mut self, is_directory: bool, start: u64, count: u64) -> Result<()> {
        if !self.regions.exist() || count == 0 {
            return Ok(());
        }
        let group = |block: u64| self.geometry.group_of_block(BlockNo(block)).map_or(0, |group| group.0);
        let (first, last) = (group(start), group(start.saturating_add(count - 1)));
        let inside: u64 = (first..=last)
            .map(|group| overlap(self.regions.of(GroupNo(group)), 0, &(start..start + count)))
            .sum();
        let wanted = if is_directory { count } else { 0 };
        if inside == wanted {
            return Ok(());
        }
        let what = if is_directory { "a directory block lies outside of" } else { "data lie inside" };
        Err(self.store.corrupt(|| format!("{what} the indirect regions, at block {start}")))
    }

    /// Takes up to `max` free blocks in a row from the region of `first`, or the next one that has some: at `ideal` or behind it if that
    /// is in the region, else the first ones.
    pub fn take_in_regions(&mut self, first: GroupNo, ideal: u64, max: u64) -> Result<BlockRange> {
        let count = self.geometry.group_count;
        for step in 0..count {
            let group = GroupNo(((u64::from(first.0) + u64::from(step)) % u64::from(count)) as u32);
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
