// SPDX-License-Identifier: MIT OR Apache-2.0
//! The group of a new directory, as FFS chooses it (McKusick's `dirpref`).
//!
//! Directories near the root are spread over the disk, and the deeper one lies, the nearer it comes to its parent: the children of a directory at depth `d` share a range of
//! `groups >> d` groups around it. They halve it in turn: the first one lies in the middle, the next two in the middles of the halves, then come the quarters. From there
//! on the first group is taken that has room for what a directory is expected to hold, and in which not too many directories were made in a row with no file after them.

use fsmend_base::GroupNo;
use fsmend_blockcache::policy::{DirectoryAsk, GroupUse, Groups};
use fsmend_ufs_format::geometry::Geometry;
use fsmend_ufs_format::superblock::Superblock;

/// Most directories in a row that are counted.
const ROW_MAX: u64 = 255;

#[derive(Clone, Debug)]
pub(super) struct Directories {
    group_inodes: u64,
    /// Fragments of a group.
    group_size: u64,
    /// Fragments that the files of a directory are expected to take.
    expected_fragments: u64,
    /// Files that a directory is expected to hold.
    expected_files: u64,
    /// Directories that were made in each group with no file after them.
    in_a_row: Vec<u8>,
}

/// What a group has to have.
struct Wanted {
    directories_max: u64,
    inodes_min: u64,
    blocks_min: u64,
    row_max: u64,
}

impl Wanted {
    fn suits(&self, usage: &GroupUse, in_a_row: u64) -> bool {
        u64::from(usage.directories) < self.directories_max
            && u64::from(usage.free_inodes) >= self.inodes_min
            && u64::from(usage.free_blocks) >= self.blocks_min
            && in_a_row < self.row_max
    }
}

impl Directories {
    /// What the superblock expects of files and directories.
    pub fn new(geometry: &Geometry, superblock: &Superblock) -> Self {
        let (bytes, files) = (u64::from(superblock.avgfilesize()), u64::from(superblock.avgfpdir()));
        Directories {
            group_inodes: geometry.group_inodes.into(),
            group_size: geometry.group_size,
            expected_fragments: bytes.saturating_mul(files) / geometry.fragment_size,
            expected_files: files,
            in_a_row: vec![0; geometry.groups as usize],
        }
    }

    /// An inode was made in a group.
    pub fn made(&mut self, group: GroupNo, is_directory: bool) {
        if let Some(count) = self.in_a_row.get_mut(group.0 as usize) {
            *count = if is_directory { count.saturating_add(1) } else { count.saturating_sub(1) };
        }
    }

    /// The group for a new directory.
    pub fn group_for(&self, ask: &DirectoryAsk, groups: &mut dyn Groups) -> GroupNo {
        let count = groups.count().max(1);
        let (blocks, inodes) = groups.totals();
        let share = |all: u64| all / u64::from(count);
        let first = preferred(ask, count);
        let order = (0..count).map(|step| {
            GroupNo(u32::try_from((u64::from(first) + u64::from(step)) % u64::from(count)).unwrap_or(0))
        });
        let usages: Vec<(GroupNo, GroupUse)> =
            order.filter_map(|group| Some((group, groups.usage(group)?))).collect();
        let directories = usages.iter().map(|(_, usage)| u64::from(usage.directories)).sum();
        let wanted = self.wanted(ask, (share(directories), share(inodes), share(blocks)));
        let suits = |(group, usage): &&(GroupNo, GroupUse)| {
            let in_a_row = self.in_a_row.get(group.0 as usize).copied().unwrap_or(0);
            wanted.suits(usage, in_a_row.into())
        };
        // Where room is short: any group that has its share of free inodes, or any free inode at all.
        let has = |least: u64| {
            move |(_, usage): &&(GroupNo, GroupUse)| u64::from(usage.free_inodes) >= least.max(1)
        };
        let found = usages.iter().find(suits);
        let found =
            found.or_else(|| usages.iter().find(has(share(inodes)))).or_else(|| usages.iter().find(has(1)));
        found.map_or(ask.parent_group, |(group, _)| *group)
    }

    /// What a group has to have, from the averages over all groups: directories, free inodes, free fragments.
    fn wanted(&self, ask: &DirectoryAsk, (directories, inodes, blocks): (u64, u64, u64)) -> Wanted {
        // Below the root, directories may gather; more of them the deeper they lie.
        let more = match ask.parent_depth {
            Some(depth) => 1u64.checked_shl(depth).unwrap_or(u64::MAX),
            None => self.group_inodes / 16,
        };
        let now = self.group_size.saturating_sub(blocks).checked_div(directories).unwrap_or(0);
        let fragments = self.expected_fragments.max(now);
        let by_room = blocks.checked_div(fragments).unwrap_or(0).min(ROW_MAX);
        let by_files = self.group_inodes.checked_div(self.expected_files).unwrap_or(ROW_MAX);
        let row_max = by_room.min(by_files);
        Wanted {
            directories_max: directories.saturating_add(more).min(self.group_inodes),
            inodes_min: (inodes - inodes / 4).max(1),
            blocks_min: (blocks - blocks / 4).max(1),
            row_max: row_max.max(1),
        }
    }
}

/// The group in which the search begins. Where the depth is not known, that of the parent.
fn preferred(ask: &DirectoryAsk, count: u32) -> u32 {
    let parent = ask.parent_group.0.min(count - 1);
    let Some(depth) = ask.parent_depth else { return parent };
    let range = u64::from(count.checked_shr(depth).unwrap_or(0));
    // Of 2^n parts of the range, the new directory begins an odd one: numbers with n bits, one after the other.
    let number = u64::from(ask.siblings) + 1;
    let bits = number.ilog2();
    let part = (number - (1 << bits)) * 2 + 1;
    let start = u64::from(parent) + u64::from(count) - range / 2;
    let group = (start + ((part * range) >> (bits + 1))) % u64::from(count);
    u32::try_from(group).unwrap_or(parent)
}
