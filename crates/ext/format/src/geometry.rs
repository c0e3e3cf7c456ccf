// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shape of one file system, settled: numbers that have been checked and can be computed with.
//!
//! Everything downstream of the superblock check takes a [`Geometry`], never raw superblock fields, so that a
//! division by zero or a shift by 77 cannot be written.

use fsmend_base::width::low_u32;
use fsmend_base::{BlockNo, BlockRange, GroupNo, InodeNo};

use crate::features::{Compat, Features, Incompat, RoCompat};
use crate::rext3;

/// Numbers that a superblock check has accepted. Invariants: `block_size` is a power of two from 1024 to 65536;
/// `cluster_blocks` is a power of two; `blocks_per_group`, `inodes_per_group`, `group_count` are not zero;
/// `inodes_count == group_count * inodes_per_group` fits 32 bits; `inode_size` is a power of two from 128 to
/// `block_size`; `desc_size` is at least 32 and at most `block_size`; `blocks_count > first_data_block`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes in a block.
    pub block_size: u32,
    /// Blocks in a cluster (1 without bigalloc).
    pub cluster_blocks: u32,
    /// Blocks of the file system, counted from block 0.
    pub blocks_count: u64,
    /// First block of group 0 (1 with 1 KiB blocks and no bigalloc, else 0).
    pub first_data_block: u32,
    /// Blocks in a group (the last group may have fewer).
    pub blocks_per_group: u32,
    /// Inodes in a group.
    pub inodes_per_group: u32,
    /// Number of groups.
    pub group_count: u32,
    /// All inodes.
    pub inodes_count: u32,
    /// Bytes in an inode record.
    pub inode_size: u32,
    /// First inode that is not reserved.
    pub first_inode: u32,
    /// Bytes in a group descriptor.
    pub desc_size: u32,
    /// Blocks reserved behind the descriptors for growth.
    pub reserved_gdt_blocks: u32,
    /// First meta block group (counts only with `meta_bg`).
    pub first_meta_bg: u32,
    /// Groups with superblock backups under `sparse_super2`.
    pub backup_groups: [u32; 2],
    /// Feature words.
    pub features: Features,
    /// `s_rev_level`.
    pub revision: u32,
    /// Seed of all metadata checksums (crc32c of the UUID, or the stored seed).
    pub checksum_seed: u32,
    /// UUID, for descriptor checksums of the older kind.
    pub uuid: [u8; 16],
    /// Whether the creator is the Hurd (which uses `osd1`, `osd2` in its own way).
    pub hurd: bool,
    /// Blocks of the indirect region behind each inode table; 0 where there are none. (Not 0 only on a rext3.)
    pub region_blocks: u32,
}

impl Geometry {
    /// Whether descriptors have their second half.
    pub fn wide_descriptors(&self) -> bool {
        self.features.has_incompat(Incompat::BIT64) && self.desc_size >= 64
    }

    /// Whether clusters are larger than blocks.
    pub fn bigalloc(&self) -> bool {
        self.features.has_ro_compat(RoCompat::BIGALLOC)
    }

    /// Whether it is a rext3: indirect blocks and directory blocks have regions of their own.
    #[inline]
    pub fn rext3(&self) -> bool {
        self.region_blocks != 0
    }

    /// Bytes at the start of an indirect block that are no pointers.
    #[inline]
    pub fn indirect_header(&self) -> usize {
        if self.rext3() { rext3::HEADER_SIZE } else { 0 }
    }

    /// Pointers in an indirect block.
    #[inline]
    pub fn pointers_per_block(&self) -> u32 {
        (self.block_size - low_u32(self.indirect_header() as u64)) / 4
    }

    /// The indirect region of `group`, whose inode table begins at `inode_table`: right behind that, cut at the end of the
    /// group. Empty without regions, and where the place of the table is lost (0).
    pub fn region(&self, group: GroupNo, inode_table: u64) -> BlockRange {
        let start = inode_table.saturating_add(u64::from(self.inode_table_blocks()));
        let own = self.group_blocks(group);
        if !self.rext3() || inode_table == 0 || start < own.start.0 || start >= own.end() {
            return BlockRange::new(0, 0);
        }
        BlockRange::new(start, u64::from(self.region_blocks).min(own.end() - start))
    }

    /// The cluster that `block` lies in (the block itself without bigalloc). Clusters are the unit of the block bitmap.
    pub fn cluster_of(&self, block: u64) -> u64 {
        block >> self.cluster_blocks.trailing_zeros()
    }

    /// Number of clusters, the last one perhaps cut short.
    pub fn clusters_count(&self) -> u64 {
        self.blocks_count.div_ceil(u64::from(self.cluster_blocks))
    }

    /// First block of `group`.
    pub fn group_first_block(&self, group: GroupNo) -> u64 {
        u64::from(self.first_data_block) + u64::from(group.0) * u64::from(self.blocks_per_group)
    }

    /// The blocks of `group`; the last group ends with the file system.
    pub fn group_blocks(&self, group: GroupNo) -> BlockRange {
        let start = self.group_first_block(group).min(self.blocks_count);
        let end = (start + u64::from(self.blocks_per_group)).min(self.blocks_count);
        BlockRange::new(start, end - start)
    }

    /// The group that `block` lies in, `None` outside the file system.
    pub fn group_of_block(&self, block: BlockNo) -> Option<GroupNo> {
        if block.0 >= self.blocks_count || block.0 < u64::from(self.first_data_block) {
            return None;
        }
        let group = (block.0 - u64::from(self.first_data_block)) / u64::from(self.blocks_per_group);
        u32::try_from(group).ok().map(GroupNo)
    }

    /// The group that holds `inode`, and its index in that group's table; `None` for 0 and beyond the last.
    pub fn inode_place(&self, inode: InodeNo) -> Option<(GroupNo, u32)> {
        if inode.0 == 0 || inode.0 > self.inodes_count {
            return None;
        }
        let index = inode.0 - 1;
        Some((GroupNo(index / self.inodes_per_group), index % self.inodes_per_group))
    }

    /// The inode at `index` of `group`'s table.
    pub fn inode_at(&self, group: GroupNo, index: u32) -> InodeNo {
        InodeNo(group.0 * self.inodes_per_group + index + 1)
    }

    /// Blocks that one inode table takes.
    pub fn inode_table_blocks(&self) -> u32 {
        let bytes = u64::from(self.inodes_per_group) * u64::from(self.inode_size);
        low_u32(bytes.div_ceil(u64::from(self.block_size)))
    }

    /// Descriptors in one block.
    pub fn descs_per_block(&self) -> u32 {
        self.block_size / self.desc_size
    }

    /// Blocks that all descriptors take.
    pub fn desc_blocks(&self) -> u32 {
        self.group_count.div_ceil(self.descs_per_block())
    }

    /// Whether `group` holds a superblock (the primary or a backup) by the rules of the sparse features.
    pub fn has_superblock(&self, group: GroupNo) -> bool {
        let group = group.0;
        if group == 0 {
            return true;
        }
        if self.features.has_compat(Compat::SPARSE_SUPER2) {
            return self.backup_groups.contains(&group);
        }
        if group <= 1 || !self.features.has_ro_compat(RoCompat::SPARSE_SUPER) {
            return true;
        }
        group % 2 == 1 && [3, 5, 7].iter().any(|base| is_power_of(group, *base))
    }

    /// The block that a superblock of `group` lies in, if the group has one. In group 0 with 1 KiB blocks and bigalloc
    /// that is the second block: the first holds boot code.
    pub fn group_head_start(&self, group: GroupNo) -> u64 {
        let start = self.group_first_block(group);
        if start == 0 && self.block_size == 1024 { 1 } else { start }
    }

    /// Descriptor blocks that are kept at the start of every group with a superblock (all but those of meta block groups).
    pub fn old_desc_blocks(&self) -> u32 {
        if self.features.has_incompat(Incompat::META_BG) {
            self.first_meta_bg.min(self.desc_blocks())
        } else {
            self.desc_blocks()
        }
    }

    /// The blocks at the start of `group` that hold superblock, descriptors and reserved descriptors, as up to two
    /// runs: superblock with old-style descriptors and reserve, or superblock and one meta_bg descriptor block.
    pub fn group_head(&self, group: GroupNo) -> GroupHead {
        let start = self.group_head_start(group);
        let has_super = self.has_superblock(group);
        let mut head = GroupHead { superblock: has_super.then_some(BlockNo(start)), ..GroupHead::default() };
        if !self.in_meta_bg(group) {
            if has_super {
                let old = u64::from(self.old_desc_blocks());
                let meta_bg = self.features.has_incompat(Incompat::META_BG);
                let reserved = if meta_bg { 0 } else { u64::from(self.reserved_gdt_blocks) };
                head.descriptors = BlockRange::new(start + 1, old);
                head.reserved = BlockRange::new(start + 1 + old, reserved);
            }
        } else {
            let within = group.0 % self.descs_per_block();
            if within == 0 || within == 1 || within == self.descs_per_block() - 1 {
                head.descriptors = BlockRange::new(start + u64::from(has_super), 1);
            }
        }
        head
    }

    /// Whether the descriptor of `group` is kept within its own meta block group.
    pub fn in_meta_bg(&self, group: GroupNo) -> bool {
        self.features.has_incompat(Incompat::META_BG)
            && group.0 / self.descs_per_block() >= self.first_meta_bg
    }

    /// Where the copies of descriptor block `index` lie, the primary first, at most `max` of them.
    pub fn descriptor_copies(&self, index: u32, max: usize) -> Vec<BlockNo> {
        let first = u64::from(index) * u64::from(self.descs_per_block());
        let Some(first) = u32::try_from(first).ok().filter(|first| *first < self.group_count) else {
            return Vec::new();
        };
        if self.in_meta_bg(GroupNo(first)) {
            let last = first.saturating_add(self.descs_per_block() - 1);
            let mut groups = vec![first, first.saturating_add(1), last];
            groups.retain(|group| *group < self.group_count);
            groups.dedup();
            return groups
                .into_iter()
                .map(|group| self.group_head(GroupNo(group)).descriptors.start)
                .collect();
        }
        let groups = (0..self.group_count).filter(|group| self.has_superblock(GroupNo(*group)));
        let places = groups.filter(|group| !self.in_meta_bg(GroupNo(*group)) || *group == 0);
        places
            .take(max)
            .map(|group| BlockNo(self.group_head_start(GroupNo(group)) + 1 + u64::from(index)))
            .collect()
    }
}

/// The metadata at the start of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHead {
    /// Block that holds the superblock or a backup.
    pub superblock: Option<BlockNo>,
    /// Descriptor blocks.
    pub descriptors: BlockRange,
    /// Blocks reserved for descriptors to come.
    pub reserved: BlockRange,
}

impl Default for GroupHead {
    fn default() -> Self {
        GroupHead { superblock: None, descriptors: BlockRange::new(0, 0), reserved: BlockRange::new(0, 0) }
    }
}

fn is_power_of(mut value: u32, base: u32) -> bool {
    while value > 1 && value.is_multiple_of(base) {
        value /= base;
    }
    value == 1
}
