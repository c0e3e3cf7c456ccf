// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small file system made by hand, for the tests of superblock, groups and the inodes that belong to them:
//! 1 KiB blocks, four groups of 512 blocks, each with bitmaps and inode table right behind its head.

#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_device::MemoryDevice;
use fsmend_engine::Findings;
use fsmend_engine::claims::SharedBitmap;
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::{Compat, Incompat, RoCompat};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::group::RawGroupDesc;
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_SIZE};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::{Settled, SuperblockOptions, settle};
use crate::{Fs, Group, Refusal, group};

pub(crate) const NOW: u64 = 1_700_000_000;
const BLOCK_SIZE: usize = 1024;

/// An image that can be damaged and then looked at.
pub(crate) struct Image {
    pub(crate) bytes: Vec<u8>,
    pub(crate) geometry: Geometry,
}

impl Image {
    /// Revision 1, sparse superblocks, resize inode with two reserved blocks, no checksums.
    pub(crate) fn plain() -> Image {
        Image::new(|_| {})
    }

    /// As [`plain`](Self::plain), with checksums on all metadata.
    pub(crate) fn with_checksums() -> Image {
        Image::new(|raw| {
            raw.s_feature_ro_compat += RoCompat::METADATA_CSUM.bits();
            raw.s_checksum_type = 1;
        })
    }

    /// As [`plain`](Self::plain), with `change` made to the superblock first. Everything is laid out accordingly.
    pub(crate) fn new(change: impl Fn(&mut RawSuperblock)) -> Image {
        let mut raw = superblock();
        change(&mut raw);
        let len = raw.blocks_count() as usize * BLOCK_SIZE;
        let geometry = Geometry::from_superblock(&raw, len as u64).unwrap();
        let mut image = Image { bytes: vec![0; len], geometry };
        for number in 0..image.geometry.group_count {
            image.put_superblock(GroupNo(number), &raw);
        }
        let descs: Vec<RawGroupDesc> =
            (0..image.geometry.group_count).map(|number| image.desc(GroupNo(number))).collect();
        for (number, desc) in (0..).zip(descs) {
            image.put_desc(GroupNo(number), desc, true);
        }
        image.put_resize_inode();
        image
    }

    fn put_superblock(&mut self, group: GroupNo, raw: &RawSuperblock) {
        let Some(block) = self.geometry.group_head(group).superblock else { return };
        let mut raw = raw.clone();
        raw.s_block_group_nr = (group.0 as u16).into();
        raw.s_checksum = checksum::superblock(&raw).computed.into();
        self.block(block)[..SUPERBLOCK_SIZE].copy_from_slice(raw.as_bytes());
    }

    /// Where things stand in a sound image.
    pub(crate) fn desc(&self, group: GroupNo) -> RawGroupDesc {
        let head = self.geometry.group_head(group);
        let start = self.geometry.group_head_start(group) + u64::from(head.superblock.is_some());
        let end = head.reserved.end().max(head.descriptors.end()).max(start);
        let mut desc = RawGroupDesc::new_zeroed();
        desc.bg_block_bitmap_lo = (end as u32).into();
        desc.bg_inode_bitmap_lo = (end as u32 + 1).into();
        desc.bg_inode_table_lo = (end as u32 + 2).into();
        desc.bg_free_blocks_count_lo = 400.into();
        desc.bg_free_inodes_count_lo = if group.0 == 0 { 20.into() } else { 32.into() };
        desc
    }

    /// Writes a descriptor with a right checksum, into the backups too if `everywhere`.
    pub(crate) fn put_desc(&mut self, group: GroupNo, mut desc: RawGroupDesc, everywhere: bool) {
        let geometry = self.geometry.clone();
        let size = geometry.desc_size as usize;
        let (features, seed) = (geometry.features, geometry.checksum_seed);
        let bytes = &desc.as_bytes()[..size];
        if let Some(checked) = checksum::group_desc(features, seed, &geometry.uuid, group, bytes) {
            desc.bg_checksum = (checked.computed as u16).into();
        }
        let index = group.0 / geometry.descs_per_block();
        let at = (group.0 % geometry.descs_per_block()) as usize * size;
        for block in geometry.descriptor_copies(index, if everywhere { usize::MAX } else { 1 }) {
            self.block(block)[at..at + size].copy_from_slice(&desc.as_bytes()[..size]);
        }
    }

    fn put_resize_inode(&mut self) {
        let geometry = self.geometry.clone();
        if !geometry.features.has_compat(Compat::RESIZE_INODE) {
            return;
        }
        let double = self.free_block();
        let first = geometry.group_head(GroupNo(0)).reserved.start.0 as u32;
        let record = self.inode(InodeNo(7));
        record[0..2].copy_from_slice(&0o100600u16.to_le_bytes());
        record[26] = 1;
        record[0x28 + 13 * 4..][..4].copy_from_slice(&(double.0 as u32).to_le_bytes());
        let copies: Vec<u32> =
            (1..geometry.group_count).filter(|group| geometry.has_superblock(GroupNo(*group))).collect();
        for step in 0..geometry.reserved_gdt_blocks {
            self.put_pointer(double, geometry.desc_blocks() + step, first + step);
            for (group, slot) in copies.iter().zip(0..) {
                self.put_pointer(
                    BlockNo(u64::from(first + step)),
                    slot,
                    first + step + group * geometry.blocks_per_group,
                );
            }
        }
    }

    /// A block of group 0 that nothing uses.
    pub(crate) fn free_block(&self) -> BlockNo {
        BlockNo(500)
    }

    /// Writes pointer `index` of an indirect block.
    pub(crate) fn put_pointer(&mut self, block: BlockNo, index: u32, pointer: u32) {
        self.block(block)[index as usize * 4..][..4].copy_from_slice(&pointer.to_le_bytes());
    }

    /// A block.
    pub(crate) fn block(&mut self, block: BlockNo) -> &mut [u8] {
        &mut self.bytes[block.0 as usize * BLOCK_SIZE..][..BLOCK_SIZE]
    }

    /// The record of an inode of group 0.
    pub(crate) fn inode(&mut self, inode: InodeNo) -> &mut [u8] {
        let table = self.desc(GroupNo(0)).bg_inode_table_lo.get() as usize;
        &mut self.bytes[table * BLOCK_SIZE + (inode.0 as usize - 1) * 128..][..128]
    }

    /// The primary superblock, to be changed; its checksum is set right afterwards.
    pub(crate) fn change_superblock(&mut self, change: impl Fn(&mut RawSuperblock)) {
        let mut raw = RawSuperblock::read_from_bytes(&self.bytes[1024..2048]).unwrap();
        change(&mut raw);
        raw.s_checksum = checksum::superblock(&raw).computed.into();
        self.bytes[1024..2048].copy_from_slice(raw.as_bytes());
    }

    /// Makes `inode` a directory whose one block, `block`, names it.
    pub(crate) fn put_directory(&mut self, inode: InodeNo, block: BlockNo) {
        let record = self.inode(inode);
        record[..2].copy_from_slice(&0o040_755u16.to_le_bytes());
        record[26] = 2;
        record[0x28..0x2C].copy_from_slice(&(block.0 as u32).to_le_bytes());
        let dot = [&inode.0.to_le_bytes()[..], &[12, 0, 1, 2], b".\0\0\0"].concat();
        self.block(block)[..12].copy_from_slice(&dot);
    }

    /// Wipes out all backups of the superblock.
    pub(crate) fn without_backups(mut self) -> Image {
        for number in 1..self.geometry.group_count {
            if let Some(block) = self.geometry.group_head(GroupNo(number)).superblock {
                self.block(block).fill(0);
            }
        }
        self
    }

    /// Settles the superblock; returns what was found, by code.
    pub(crate) fn settle(&self) -> (Result<Settled, Refusal>, Vec<&'static str>) {
        let mut findings = Findings::new();
        let device = MemoryDevice::new("image", self.bytes.clone());
        let settled = settle(&device, SuperblockOptions::default(), NOW, &mut findings);
        (settled, codes(&findings))
    }

    /// Loads the groups; returns them with what was found, superblock included.
    pub(crate) fn load(&self) -> (Vec<Group>, Vec<&'static str>) {
        self.with_fs(|fs, findings| (fs.groups.clone(), codes(findings)))
    }

    /// Opens the image and calls `look` with it and with all that was found so far.
    pub(crate) fn with_fs<T>(&self, look: impl FnOnce(&mut Fs<'_>, &mut Findings) -> T) -> T {
        let mut findings = Findings::new();
        let device = MemoryDevice::new("image", self.bytes.clone());
        let settled = settle(&device, SuperblockOptions::default(), NOW, &mut findings).unwrap();
        let groups = group::load(&device, &settled, &mut findings);
        let metadata = SharedBitmap::new(settled.geometry.blocks_count);
        group::mark_metadata(&settled, &groups, &metadata, &mut findings);
        let Settled { superblock, geometry, .. } = settled;
        let mut fs = Fs {
            device: &device,
            superblock,
            geometry,
            groups,
            metadata,
            now: NOW,
            shared_maps: Default::default(),
            resize_map: Default::default(),
            regions: Default::default(),
            homes: Default::default(),
        };
        look(&mut fs, &mut findings)
    }
}

/// The codes that were raised, each once, sorted.
pub(crate) fn codes(findings: &Findings) -> Vec<&'static str> {
    findings.counts().into_keys().collect()
}

fn superblock() -> RawSuperblock {
    let mut raw = RawSuperblock::new_zeroed();
    raw.s_inodes_count = 128.into();
    raw.s_blocks_count_lo = 2048.into();
    raw.s_free_blocks_count_lo = 1600.into();
    raw.s_free_inodes_count = 116.into();
    raw.s_first_data_block = 1.into();
    raw.s_blocks_per_group = 512.into();
    raw.s_clusters_per_group = 512.into();
    raw.s_inodes_per_group = 32.into();
    raw.s_wtime = (NOW as u32 - 1000).into();
    raw.s_magic = 0xEF53.into();
    raw.s_state = 1.into();
    raw.s_rev_level = 1.into();
    raw.s_first_ino = 11.into();
    raw.s_inode_size = 128.into();
    raw.s_feature_compat = Compat::RESIZE_INODE.bits().into();
    raw.s_feature_incompat = Incompat::FILETYPE.bits().into();
    raw.s_feature_ro_compat = RoCompat::SPARSE_SUPER.bits().into();
    raw.s_uuid = *b"0123456789abcdef";
    raw.s_reserved_gdt_blocks = 2.into();
    raw
}
