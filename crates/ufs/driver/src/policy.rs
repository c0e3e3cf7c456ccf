// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where blocks are wished for: FreeBSD's stock layout, and the one with an area for metadata that makes checks fast.
//!
//! A block is here a fragment, as [`fsmend_blockcache::policy`] has it for all formats: the number of a fragment is what UFS addresses.
//!
//! Source: McKusick, "Improving the Performance of fsck in FreeBSD".

mod directories;

use fsmend_base::{BlockRange, GroupNo};
pub use fsmend_blockcache::policy::{Ask, BlockKind, DirectoryAsk, GroupUse, Groups, Layout, Policy};
use fsmend_ufs_format::geometry::{DIRECT, Geometry};
use fsmend_ufs_format::superblock::Superblock;

use directories::Directories;

/// What both policies know of a file system.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Fragments of a block.
    fragments: u64,
    /// Block pointers of a block.
    pointers: u64,
    /// Blocks of one file that may follow each other in a group; 0: all.
    blocks_in_group_max: u64,
}

impl Shape {
    fn of(geometry: &Geometry, superblock: &Superblock) -> Shape {
        Shape {
            fragments: geometry.fragments,
            pointers: geometry.pointers,
            blocks_in_group_max: u64::try_from(superblock.maxbpg()).unwrap_or(0),
        }
    }

    /// Behind the block that was written before. A file that has filled its share of a group does not go on there.
    fn behind(&self, ask: &Ask) -> Option<u64> {
        let share = self.blocks_in_group_max;
        if share > 0 && ask.kind == BlockKind::Data && ask.logical > 0 && ask.logical.is_multiple_of(share) {
            return None;
        }
        ask.previous.map(|previous| previous.saturating_add(self.fragments))
    }

    /// The group for data that follows nothing: that of the inode for what direct pointers and the first indirect block reach, then the next ones in turn.
    fn group(&self, ask: &Ask, layout: &Layout) -> GroupNo {
        if ask.kind != BlockKind::Data
            || ask.logical < DIRECT + self.pointers
            || self.blocks_in_group_max == 0
        {
            return ask.inode_group;
        }
        let turns = ask.logical / self.blocks_in_group_max;
        let group = (u64::from(ask.inode_group.0) + turns) % u64::from(layout.groups.max(1));
        GroupNo(u32::try_from(group).unwrap_or(0))
    }
}

/// The stock layout of the Fast File System: files near their inodes, a block behind the one before it, indirect blocks between the data that they map, large
/// files in pieces over the groups.
#[derive(Clone, Debug)]
pub struct FfsPolicy {
    shape: Shape,
    directories: Directories,
}

impl FfsPolicy {
    /// For a file system with this superblock.
    pub fn new(geometry: &Geometry, superblock: &Superblock) -> Self {
        FfsPolicy {
            shape: Shape::of(geometry, superblock),
            directories: Directories::new(geometry, superblock),
        }
    }
}

impl Policy for FfsPolicy {
    fn name(&self) -> &'static str {
        "ffs"
    }

    fn ideal(&mut self, ask: &Ask, layout: &Layout, own_group: &GroupUse) -> u64 {
        self.shape.behind(ask).unwrap_or_else(|| start(self.shape.group(ask, layout), ask, layout, own_group))
    }

    fn directory_group(&mut self, ask: &DirectoryAsk, groups: &mut dyn Groups) -> GroupNo {
        self.directories.group_for(ask, groups)
    }

    fn made(&mut self, group: GroupNo, is_directory: bool) {
        self.directories.made(group, is_directory);
    }
}

/// First fragment for files in a group. That of other groups than the inode's is guessed to lie as far from their start.
fn start(group: GroupNo, ask: &Ask, layout: &Layout, own_group: &GroupUse) -> u64 {
    let own_start = layout.blocks_of(ask.inode_group).start.0;
    let offset = own_group.first_free_for_files.saturating_sub(own_start);
    layout.blocks_of(group).start.0.saturating_add(offset)
}

/// The layout with an area for metadata at the start of each group's data: directories and indirect blocks of the second level and above lie there, the first indirect
/// block of a file between its data. What does not fit goes to the other side, in the same group.
#[derive(Clone, Debug)]
pub struct MetaspacePolicy {
    shape: Shape,
    directories: Directories,
    /// Fragments of the area.
    area: u64,
    /// Whether directories lie there too.
    with_directories: bool,
}

impl MetaspacePolicy {
    /// For a file system with this superblock, which says how large the area is.
    pub fn new(geometry: &Geometry, superblock: &Superblock) -> Self {
        MetaspacePolicy {
            shape: Shape::of(geometry, superblock),
            directories: Directories::new(geometry, superblock),
            area: geometry.metadata_area,
            with_directories: true,
        }
    }

    /// The same with directories among the data: the first step of the article, which measures both.
    pub fn without_directories(self) -> Self {
        MetaspacePolicy { with_directories: false, ..self }
    }

    fn is_for_area(&self, ask: &Ask) -> bool {
        match ask.kind {
            BlockKind::Data | BlockKind::Attributes => false,
            BlockKind::Map(1) => ask.logical > DIRECT || ask.previous.is_none(),
            BlockKind::Map(_) => true,
            BlockKind::Directory => self.with_directories,
        }
    }

    fn cut(&self, group: BlockRange, own: &GroupUse) -> u64 {
        own.first_free_for_files.clamp(group.start.0, group.end()).saturating_add(self.area).min(group.end())
    }
}

impl Policy for MetaspacePolicy {
    fn name(&self) -> &'static str {
        "metaspace"
    }

    fn ideal(&mut self, ask: &Ask, layout: &Layout, own_group: &GroupUse) -> u64 {
        if self.is_for_area(ask) {
            return start(ask.inode_group, ask, layout, own_group);
        }
        let behind = self.shape.behind(ask);
        behind.unwrap_or_else(|| {
            start(self.shape.group(ask, layout), ask, layout, own_group).saturating_add(self.area)
        })
    }

    fn area(&mut self, ask: &Ask, group: BlockRange, own: &GroupUse) -> BlockRange {
        let cut = self.cut(group, own);
        if self.is_for_area(ask) {
            let from = own.first_free_for_files.clamp(group.start.0, cut);
            BlockRange::new(from, cut - from)
        } else {
            BlockRange::new(cut, group.end() - cut)
        }
    }

    fn directory_group(&mut self, ask: &DirectoryAsk, groups: &mut dyn Groups) -> GroupNo {
        self.directories.group_for(ask, groups)
    }

    fn made(&mut self, group: GroupNo, is_directory: bool) {
        self.directories.made(group, is_directory);
    }
}

#[cfg(test)]
mod tests;
