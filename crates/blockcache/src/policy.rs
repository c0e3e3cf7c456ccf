// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where blocks ought to lie. A policy only proposes: it names an ideal place. The driver's allocation owns the bitmaps and takes what is
//! free near that place (with a [`FreeMap`](crate::FreeMap)), never the same block twice, whatever was wished for. So a policy cannot damage anything.
//!
//! (The separation is that of the Fast File System, as McKusick tells it in "Improving the Performance of fsck in FreeBSD", ;login: 2013.)
//!
//! A block is here the smallest unit that the format addresses (a fragment, where blocks consist of those), and a group the part of the disk with maps of its
//! own (a block group, a cylinder group).

use fsmend_base::{BlockRange, GroupNo, InodeNo, width};

/// What a block is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockKind {
    /// Contents of a file, or the target of a symbolic link.
    Data,
    /// A block of a file's map: 1 points to data, 2 to those, and so on (extent trees: a leaf is 1).
    Map(u8),
    /// A block of a directory.
    Directory,
    /// A block of extended attributes.
    Attributes,
}

impl BlockKind {
    /// Whether the block goes through the journal.
    pub fn is_metadata(self) -> bool {
        self != BlockKind::Data
    }
}

/// A request for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The inode it is for.
    pub inode: InodeNo,
    /// The group that the inode lies in.
    pub inode_group: GroupNo,
    /// What it is for.
    pub kind: BlockKind,
    /// Which block of the file, or the first one that a map block is for.
    pub logical: u64,
    /// The block that was written to the file just before it, in the order of the file: of the same kind or not.
    pub previous: Option<u64>,
}

/// A request for the group of a new directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectoryAsk {
    /// The group that the parent lies in.
    pub parent_group: GroupNo,
    /// How deep the parent lies: 0 for the root, `None` where that is not known.
    pub parent_depth: Option<u32>,
    /// Directories that the parent has already.
    pub siblings: u32,
}

/// What a policy may know of the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Number of groups.
    pub groups: u32,
    /// Blocks in a group.
    pub blocks_per_group: u32,
    /// First block of group 0.
    pub first_data_block: u32,
    /// Blocks of the file system.
    pub blocks_count: u64,
}

impl Layout {
    /// The blocks of a group; none beyond the last.
    pub fn blocks_of(&self, group: GroupNo) -> BlockRange {
        let start = u64::from(self.first_data_block) + u64::from(group.0) * u64::from(self.blocks_per_group);
        let start = start.min(self.blocks_count);
        BlockRange::new(start, u64::from(self.blocks_per_group).min(self.blocks_count - start))
    }

    /// The group of a block.
    pub fn group_of(&self, block: u64) -> GroupNo {
        let index =
            block.saturating_sub(u64::from(self.first_data_block)) / u64::from(self.blocks_per_group.max(1));
        GroupNo(u32::try_from(index).unwrap_or(u32::MAX).min(self.groups.saturating_sub(1)))
    }
}

/// How full a group is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupUse {
    /// Free blocks.
    pub free_blocks: u32,
    /// Free inodes.
    pub free_inodes: u32,
    /// Directories.
    pub directories: u32,
    /// First block behind the metadata of the group, if that lies at its start; else the group's first block.
    pub first_free_for_files: u64,
    /// The part of the group that the format reserves for map blocks and directory blocks; empty where the format has none.
    pub region: BlockRange,
}

/// Proposals for places.
pub trait Policy: Send {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// The ideal block. Any number is fine: the driver takes the free block nearest to it.
    fn ideal(&mut self, ask: &Ask, layout: &Layout, own_group: &GroupUse) -> u64;

    /// The part of a group in which such a block is looked for before the rest of the group is.
    fn area(&mut self, ask: &Ask, group: BlockRange, own: &GroupUse) -> BlockRange {
        let _ = (ask, own);
        group
    }

    /// The group for a new directory. The default spreads what stands in the root directory, and keeps the rest near its parent.
    fn directory_group(&mut self, ask: &DirectoryAsk, groups: &mut dyn Groups) -> GroupNo {
        spread_or_near(ask, groups)
    }

    /// An inode was made in a group. Some policies remember that.
    fn made(&mut self, group: GroupNo, is_directory: bool) {
        let _ = (group, is_directory);
    }
}

/// How full the groups are.
pub trait Groups {
    /// Number of groups.
    fn count(&self) -> u32;

    /// How full a group is; `None` where that cannot be read.
    fn usage(&mut self, group: GroupNo) -> Option<GroupUse>;

    /// Free blocks and inodes of all groups.
    fn totals(&self) -> (u64, u64);
}

/// Directories in the root are spread: the group with the fewest directories among those with no fewer free inodes and blocks than the average.
/// Others go to the parent's group, or the next one that is neither short of room nor crowded with directories.
fn spread_or_near(ask: &DirectoryAsk, groups: &mut dyn Groups) -> GroupNo {
    let (parent_group, in_root) = (ask.parent_group, ask.parent_depth == Some(0));
    let count = groups.count().max(1);
    let (blocks, inodes) = groups.totals();
    let (blocks, inodes) = (blocks / u64::from(count), inodes / u64::from(count));
    let share = if in_root { 1 } else { 2 };
    let mut best: Option<(u32, GroupNo)> = None;
    for step in 0..count {
        let group = GroupNo(width::low_u32((u64::from(parent_group.0) + u64::from(step)) % u64::from(count)));
        let Some(usage) = groups.usage(group).filter(|usage| usage.free_inodes > 0) else { continue };
        let is_roomy =
            u64::from(usage.free_blocks) >= blocks / share && u64::from(usage.free_inodes) >= inodes / share;
        if !is_roomy {
            continue;
        }
        if !in_root {
            return group;
        }
        if best.is_none_or(|(fewest, _)| usage.directories < fewest) {
            best = Some((usage.directories, group));
        }
    }
    best.map_or(parent_group, |(_, group)| group)
}

/// McKusick's way: the first blocks behind the inode table of each group are for map blocks, directories and attributes, everything else goes behind them. That
/// is a hint and no law: where one part is full, the other is taken, group by group.
#[derive(Clone, Copy, Debug)]
pub struct MetaclusterPolicy {
    /// How many of a thousand blocks of a group are meant for metadata; McKusick takes 40.
    pub per_mille: u32,
    /// Whether the first map block of a file stays between its data, so that files which barely need one are read without a seek.
    /// The ffsck paper has it in the area like the others.
    pub first_map_in_line: bool,
}

impl Default for MetaclusterPolicy {
    fn default() -> Self {
        MetaclusterPolicy { per_mille: 40, first_map_in_line: true }
    }
}

impl MetaclusterPolicy {
    fn is_for_area(&self, ask: &Ask) -> bool {
        match ask.kind {
            BlockKind::Data => false,
            // The first map block is the one that maps what the inode itself has no room for.
            BlockKind::Map(1) => !(self.first_map_in_line && ask.logical <= 12),
            BlockKind::Map(_) | BlockKind::Directory | BlockKind::Attributes => true,
        }
    }

    fn cut(&self, group: BlockRange, own: &GroupUse) -> u64 {
        let start = own.first_free_for_files.clamp(group.start.0, group.end());
        let wanted = group.count.saturating_mul(u64::from(self.per_mille)) / 1000;
        start.saturating_add(wanted).min(group.end())
    }
}

impl Policy for MetaclusterPolicy {
    fn name(&self) -> &'static str {
        "metacluster"
    }

    fn ideal(&mut self, ask: &Ask, layout: &Layout, own_group: &GroupUse) -> u64 {
        let group = layout.blocks_of(ask.inode_group);
        if self.is_for_area(ask) {
            return own_group.first_free_for_files.clamp(group.start.0, group.end());
        }
        match ask.previous {
            Some(previous) => previous.saturating_add(1),
            None => self.cut(group, own_group),
        }
    }

    fn area(&mut self, ask: &Ask, group: BlockRange, own: &GroupUse) -> BlockRange {
        let cut = self.cut(group, own);
        if self.is_for_area(ask) {
            BlockRange::new(group.start.0, cut - group.start.0)
        } else {
            BlockRange::new(cut, group.end() - cut)
        }
    }
}
