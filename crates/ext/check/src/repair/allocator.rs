// SPDX-License-Identifier: MIT OR Apache-2.0
//! Free blocks and inodes for what a repair has to recreate: always the first free one from a goal on, so that the same
//! repair takes the same places at any number of threads.

use std::ops::Range;

use fsmend_base::{BlockNo, BlockRange, GroupNo, InodeNo};
use fsmend_engine::inodes::Kind;
use fsmend_engine::origins::Origin;
use fsmend_ext_format::group::GroupFlags;

use super::RepairContext;

impl RepairContext<'_> {
    /// Takes `count` blocks in one piece from free space, from the group of `goal` on and then anywhere; `None` when there is no
    /// such piece. What lies behind the end of a device that is too short is not free. With clusters, whole clusters are taken, and
    /// the piece starts with one.
    pub fn allocate_blocks(&self, goal: BlockNo, count: u64) -> Option<BlockNo> {
        let geometry = &self.fs.geometry;
        let unit_blocks = u64::from(geometry.cluster_blocks);
        let units = count.div_ceil(unit_blocks);
        let first = geometry.cluster_of(u64::from(geometry.first_data_block));
        let start = geometry.cluster_of(goal.0).max(first);
        let on_device = self.fs.device.len() / u64::from(geometry.block_size);
        let end = (geometry.blocks_count.min(on_device) / unit_blocks).min(self.claims.claimed().len());
        let unit = self.free_run(start, end, units).or_else(|| self.free_run(first, end, units))?;
        self.claims.claim(unit, units, Origin::KNOWN);
        Some(BlockNo(unit * unit_blocks))
    }

    /// Takes `count` blocks in one piece from free space within `range`, as [`allocate_blocks`](Self::allocate_blocks) does.
    pub fn allocate_within(&self, range: BlockRange, count: u64) -> Option<BlockNo> {
        let geometry = &self.fs.geometry;
        let unit_blocks = u64::from(geometry.cluster_blocks);
        let units = count.div_ceil(unit_blocks);
        let first = geometry.cluster_of(u64::from(geometry.first_data_block));
        let start = range.start.0.div_ceil(unit_blocks).max(first);
        let end = range.end().min(geometry.blocks_count) / unit_blocks;
        let unit = self.free_run(start, end, units)?;
        self.claims.claim(unit, units, Origin::KNOWN);
        Some(BlockNo(unit * unit_blocks))
    }

    /// How many units are free to take.
    pub fn free_units(&self) -> u64 {
        let geometry = &self.fs.geometry;
        let first = geometry.cluster_of(u64::from(geometry.first_data_block));
        let on_device = self.fs.device.len() / u64::from(geometry.block_size);
        let blocks = geometry.blocks_count.min(on_device);
        let end = (blocks / u64::from(geometry.cluster_blocks)).min(self.claims.claimed().len());
        let free_of = |word: u64| {
            let low = first.saturating_sub(word * 64).min(64) as u32;
            let high = end.saturating_sub(word * 64).min(64) as u32;
            let wanted = u64::MAX.checked_shl(low).unwrap_or(0) & !u64::MAX.checked_shl(high).unwrap_or(0);
            u64::from((!self.taken_word(word) & wanted).count_ones())
        };
        (first / 64..end.div_ceil(64)).map(free_of).sum()
    }

    /// The first run of `units` free units within `start..end`.
    fn free_run(&self, start: u64, end: u64, units: u64) -> Option<u64> {
        first_clear_run(|word| self.taken_word(word), start..end, units)
    }

    /// The units of a word that nothing may be put into.
    fn taken_word(&self, word: u64) -> u64 {
        let claimed = self.claims.claimed().load_word(word);
        let (first, regions) = (word * 64, &self.fs.regions);
        if claimed == u64::MAX || (self.repair_input.bad_blocks.is_empty() && !regions.touch(first, 64)) {
            return claimed;
        }
        let free = (0..64).filter(|bit| claimed >> bit & 1 == 0);
        free.filter(|bit| !self.is_takeable(first + bit)).fold(claimed, |taken, bit| taken | 1 << bit)
    }

    /// Whether anything but indirect blocks and directory blocks of a rext3 may be put there.
    fn is_takeable(&self, unit: u64) -> bool {
        !self.fs.regions.contain(unit) && self.is_unclaimed(unit)
    }

    /// Whether a unit has no owner and no bad block in it.
    pub(crate) fn is_unclaimed(&self, unit: u64) -> bool {
        let unit_blocks = u64::from(self.fs.geometry.cluster_blocks);
        let bad = &self.repair_input.bad_blocks;
        let from = bad.partition_point(|block| *block < unit * unit_blocks);
        !self.claims.claimed().get(unit)
            && bad.get(from).is_none_or(|block| *block >= (unit + 1) * unit_blocks)
    }

    /// Gives `count` blocks from `start` back.
    pub fn free_blocks(&self, start: BlockNo, count: u64) {
        let geometry = &self.fs.geometry;
        for unit in geometry.cluster_of(start.0)..=geometry.cluster_of(start.0 + count.max(1) - 1) {
            self.claims.settle(unit, false);
        }
    }

    /// Takes a free inode, from `group` on, and makes its facts known as `kind` (its record is for the caller to write).
    pub fn allocate_inode(&mut self, group: GroupNo, kind: Kind) -> Option<InodeNo> {
        let groups = self.fs.geometry.group_count;
        let inode = (0..groups).find_map(|step| self.free_inode(GroupNo((group.0 + step) % groups)))?;
        self.know_inode(inode, kind);
        Some(inode)
    }

    fn free_inode(&self, group: GroupNo) -> Option<InodeNo> {
        let geometry = &self.fs.geometry;
        if self.fs.group(group)?.desc.inode_table == 0 {
            return None;
        }
        let inodes = (0..geometry.inodes_per_group).map(|index| geometry.inode_at(group, index));
        inodes
            .filter(|inode| inode.0 >= geometry.first_inode && inode.0 <= geometry.inodes_count)
            .find(|inode| self.inodes.fact(*inode).is_none_or(|fact| fact.0 == 0))
    }

    /// Makes the facts of a new inode known, even in the never-used tail of its table. The never-used inodes before it are wiped:
    /// from now on they count as used ones that are free.
    pub fn know_inode(&mut self, inode: InodeNo, kind: Kind) {
        let Some((group, index)) = self.fs.geometry.inode_place(inode) else { return };
        let scanned = (0..=index).find(|at| !self.inodes.is_scanned(self.fs.geometry.inode_at(group, *at)));
        self.inodes.extend(group.0, index as usize + 1);
        let wiped = vec![0; self.fs.geometry.inode_size as usize];
        for fresh in scanned.into_iter().flat_map(|first| first..=index) {
            self.write_inode(self.fs.geometry.inode_at(group, fresh), &mut wiped.clone());
        }
        self.fs.groups[group.0 as usize].desc.flags &= !GroupFlags::INODE_UNINIT;
        self.inodes.revise(inode, fsmend_engine::inodes::InodeFact::new(kind, 0), 0);
        if kind == Kind::Directory {
            self.inodes.add_directory(inode);
        }
    }
}

/// The first run of `count` clear bits within `range`, in words of 64 bits. It goes by words because most of what is free lies in runs that are too
/// short, and a repair of many files asks thousands of times.
fn first_clear_run(word: impl Fn(u64) -> u64, range: Range<u64>, count: u64) -> Option<u64> {
    let (mut at, mut run) = (range.start, range.start);
    while at < range.end {
        let bit = at % 64;
        // What is shifted in above the last bit is clear, and not looked at.
        let set = word(at / 64) >> bit;
        let clear = u64::from(set.trailing_zeros()).min(64 - bit);
        if (at + clear).min(range.end) - run >= count {
            return Some(run);
        }
        at += clear;
        if clear < 64 - bit {
            at += u64::from((set >> clear).trailing_ones());
            run = at;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use fsmend_base::SeededRandom;

    use super::first_clear_run;

    #[test]
    fn the_first_run_that_is_long_enough_is_found() {
        let mut random = SeededRandom::new(5);
        for case in 0..3000 {
            // Words from nearly empty to nearly full, with runs across their ends.
            let word = |random: &mut SeededRandom| match (case + random.below(3)) % 5 {
                0 => 0,
                1 => u64::MAX,
                2 => random.next_u64() & random.next_u64() & random.next_u64(),
                3 => random.next_u64() | random.next_u64() | random.next_u64(),
                _ => u64::MAX << random.below(64),
            };
            let words: Vec<u64> = (0..6).map(|_| word(&mut random)).collect();
            let is_clear = |bit: u64| words[(bit / 64) as usize] >> (bit % 64) & 1 == 0;
            let (start, end) = (random.below(200), random.below(385));
            let longest = 1 + random.below(130);
            let count = 1 + random.below(longest);
            let expected = (start..end).find(|run| run + count <= end && (*run..run + count).all(is_clear));
            let found = first_clear_run(|index| words[index as usize], start..end, count);
            assert_eq!(found, expected, "{words:x?} {start}..{end} {count}");
        }
    }
}
