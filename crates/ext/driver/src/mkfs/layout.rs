// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the metadata of each group lies. All such decisions are made here: also that a rext3's regions stand right behind inode tables.

use fsmend_base::{GroupNo, width};
use fsmend_ext_format::geometry::Geometry;

/// The metadata of one group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Place {
    pub block_bitmap: u64,
    pub inode_bitmap: u64,
    /// First block of the inode table.
    pub inode_table: u64,
}

/// Lays metadata down one behind the other, past superblocks and descriptors.
struct Cursor<'g> {
    geometry: &'g Geometry,
    at: u64,
}

impl Cursor<'_> {
    /// The next `count` free blocks in a row.
    fn take(&mut self, count: u64) -> Option<u64> {
        loop {
            let end = self.at.checked_add(count)?;
            if end > self.geometry.blocks_count {
                return None;
            }
            match self.head_in(self.at, end) {
                Some(behind) => self.at = behind,
                None => {
                    let start = self.at;
                    self.at = end;
                    return Some(start);
                }
            }
        }
    }

    /// The block behind the superblock and descriptors that lie in `start..end`, if some do.
    fn head_in(&self, start: u64, end: u64) -> Option<u64> {
        let first = self.geometry.group_of_block(fsmend_base::BlockNo(start))?;
        let last = self.geometry.group_of_block(fsmend_base::BlockNo(end - 1))?;
        (first.0..=last.0).find_map(|group| {
            let (from, to) = head(self.geometry, GroupNo(group));
            (from < end && start < to).then_some(to)
        })
    }
}

/// Superblock, descriptors and reserved descriptors of a group, as one run.
fn head(geometry: &Geometry, group: GroupNo) -> (u64, u64) {
    let start = geometry.group_head_start(group);
    let head = geometry.group_head(group);
    let superblock = head.superblock.map_or(start, |block| block.0 + 1);
    let ends =
        [head.descriptors, head.reserved].map(|range| if range.count > 0 { range.end() } else { start });
    (start, superblock.max(ends[0]).max(ends[1]))
}

/// Places for the metadata of all groups: `groups_per_flex` groups together at the start of the first of them (1: each its own). `None` where
/// there is too little room.
pub(super) fn plan(geometry: &Geometry, groups_per_flex: u32) -> Option<Vec<Place>> {
    let flex = groups_per_flex.max(1);
    // With the region, which is the group's although its blocks are free.
    let table = u64::from(geometry.inode_table_blocks()) + u64::from(geometry.region_blocks);
    let mut places = vec![Place::default(); geometry.group_count as usize];
    for (index, places) in places.chunks_mut(flex as usize).enumerate() {
        let first = GroupNo(width::len_u32(index) * flex);
        let mut cursor = Cursor { geometry, at: geometry.group_first_block(first) };
        for place in places.iter_mut() {
            place.block_bitmap = cursor.take(1)?;
        }
        for place in places.iter_mut() {
            place.inode_bitmap = cursor.take(1)?;
        }
        for place in places.iter_mut() {
            place.inode_table = cursor.take(table)?;
        }
        // Nothing of one lot may reach into the next.
        let next = geometry.group_first_block(GroupNo(first.0.saturating_add(flex)));
        if cursor.at > next.min(geometry.blocks_count) {
            return None;
        }
    }
    Some(places)
}

/// Blocks of a group that its own metadata takes if it lies in the group, the region included.
pub(super) fn own_blocks(geometry: &Geometry, group: GroupNo) -> u64 {
    let (start, end) = head(geometry, group);
    end - start + 2 + u64::from(geometry.inode_table_blocks()) + u64::from(geometry.region_blocks)
}
