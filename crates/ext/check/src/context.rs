// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every check of one file system works with: the device, the settled geometry, the groups.

use fsmend_base::{BlockNo, GroupNo, InodeNo, width};
use fsmend_device::{Device, ReadError};
use fsmend_engine::claims::SharedBitmap;
use fsmend_engine::format::Volume;
use fsmend_engine::shared_maps::SharedMapInodes;
use fsmend_ext_format::features::RoCompat;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::group::{GroupDesc, GroupFlags};
use fsmend_ext_format::inode::special;
use fsmend_ext_format::superblock::RawSuperblock;

use crate::region::Regions;
use crate::region::homes::Homes;
use crate::resize_inode::sound_map::SoundMap;

/// One file system under check. Immutable while stages run; shared by all workers.
pub struct Fs<'d> {
    /// The device, with the journal's replay laid over it when there was one.
    pub device: &'d dyn Device,
    /// The superblock as it will be after repair.
    pub superblock: RawSuperblock,
    /// Its numbers, settled.
    pub geometry: Geometry,
    /// The groups as they will be after repair.
    pub groups: Vec<Group>,
    /// Blocks (not clusters) that hold the file system's static metadata: superblocks, descriptors, reserved
    /// descriptors, bitmaps, inode tables, the MMP block.
    pub metadata: SharedBitmap,
    /// Seconds since the epoch, passed in: checks never look at a clock.
    pub now: u64,
    /// Inodes whose maps share too much to be walked.
    pub shared_maps: SharedMapInodes,
    /// The map of the resize inode, once it was found sound.
    pub resize_map: SoundMap,
    /// Where indirect blocks and directory blocks have to lie, on a rext3.
    pub regions: Regions,
    /// Whose the blocks in them say that they are, once it was asked for.
    pub homes: Homes,
}

/// What a check knows of a file system, without the device that it was read from.
pub struct Layout {
    superblock: RawSuperblock,
    geometry: Geometry,
    groups: Vec<Group>,
    metadata: SharedBitmap,
    now: u64,
    regions: Regions,
}

impl Layout {
    /// The file system on `device`. Whose maps share too much, and whether the resize inode's is sound, has to be found out there.
    pub fn on(self, device: &dyn Device) -> Fs<'_> {
        let Layout { superblock, geometry, groups, metadata, now, regions } = self;
        let (shared_maps, resize_map) = (SharedMapInodes::default(), SoundMap::default());
        let homes = Homes::default();
        Fs { device, superblock, geometry, groups, metadata, now, shared_maps, resize_map, regions, homes }
    }
}

impl Fs<'_> {
    /// What is known of the file system, to be kept when the device goes.
    pub fn into_layout(self) -> Layout {
        let Fs { superblock, geometry, groups, metadata, now, regions, .. } = self;
        Layout { superblock, geometry, groups, metadata, now, regions }
    }

    /// The same file system, read from another device.
    pub fn over(self, device: &dyn Device) -> Fs<'_> {
        self.into_layout().on(device)
    }
}

impl Volume for Fs<'_> {
    fn device(&self) -> &dyn Device {
        self.device
    }

    fn root(&self) -> InodeNo {
        InodeNo(special::ROOT)
    }

    fn inodes_per_chunk(&self) -> u32 {
        self.geometry.inodes_per_group
    }

    fn unit_blocks(&self) -> u64 {
        u64::from(self.geometry.cluster_blocks)
    }

    fn is_static(&self, unit: u64) -> bool {
        let blocks = self.unit_blocks();
        self.metadata.any(unit * blocks, blocks)
    }
}

/// One block group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Group {
    /// The descriptor as it will be after repair. Places that cannot be believed are 0.
    pub desc: GroupDesc,
    /// How many inodes of the table have to be scanned: 0 for an uninitialised one, up to the high-water mark else.
    pub scan_inodes: u32,
}

/// Bytes that are read at once where blocks in a row are visited.
const VISITED_BYTES: usize = 128 << 10;

impl Fs<'_> {
    /// Byte offset of `block` on the device.
    pub fn block_offset(&self, block: BlockNo) -> u64 {
        block.0.saturating_mul(u64::from(self.geometry.block_size))
    }

    /// Whether `block` can hold file data or metadata at all: inside the file system, not before its first block.
    pub fn is_valid_block(&self, block: BlockNo) -> bool {
        block.0 >= u64::from(self.geometry.first_data_block)
            && block.0 != 0
            && block.0 < self.geometry.blocks_count
    }

    /// Reads one block.
    pub fn read_block(&self, block: BlockNo) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; self.geometry.block_size as usize];
        self.device.read_at(self.block_offset(block), &mut bytes)?;
        Ok(bytes)
    }

    /// Calls `visit` for each of `count` blocks from `start` on that can be read, in ascending order. They are read many at a time.
    pub fn visit_blocks(&self, start: u64, count: u64, visit: &mut dyn FnMut(u64, &[u8])) {
        let size = self.geometry.block_size as usize;
        let (end, mut at) = (start.saturating_add(count), start);
        let mut bytes = Vec::new();
        while at < end {
            let blocks = (end - at).min((VISITED_BYTES / size).max(1) as u64);
            bytes.resize(width::index(blocks) * size, 0);
            if self.device.read_at(self.block_offset(BlockNo(at)), &mut bytes).is_ok() {
                (at..).zip(bytes.chunks_exact(size)).for_each(|(block, bytes)| visit(block, bytes));
            } else {
                // One of them cannot be read, or lies behind the end: not the others' fault.
                let alone = (at..at + blocks)
                    .filter_map(|block| Some((block, self.read_block(BlockNo(block)).ok()?)));
                alone.for_each(|(block, bytes)| visit(block, &bytes));
            }
            at += blocks;
        }
    }

    /// Byte offset of the record of `inode` on the device; `None` for numbers that no inode has and for groups whose
    /// inode table is lost.
    pub fn inode_offset(&self, inode: InodeNo) -> Option<u64> {
        let (group, index) = self.geometry.inode_place(inode)?;
        let table = self.groups.get(group.0 as usize)?.desc.inode_table;
        if table == 0 {
            return None;
        }
        Some(self.block_offset(BlockNo(table)) + u64::from(index) * u64::from(self.geometry.inode_size))
    }

    /// Reads the whole record of `inode` (`inode_size` bytes); `None` as for [`inode_offset`](Self::inode_offset).
    pub fn read_inode(&self, inode: InodeNo) -> Option<Result<Vec<u8>, ReadError>> {
        let offset = self.inode_offset(inode)?;
        let mut record = vec![0; self.geometry.inode_size as usize];
        Some(self.device.read_at(offset, &mut record).map(|()| record))
    }

    /// Whether quota usage has to be added up.
    pub fn counts_quota(&self) -> bool {
        self.geometry.features.has_ro_compat(RoCompat::QUOTA)
    }

    /// Where the bitmaps of a group are stored, as far as they are stored and their places known.
    pub fn stored_bitmaps(&self, desc: &GroupDesc) -> impl Iterator<Item = u64> {
        let may_be_missing = self.geometry.features.group_csum();
        [(desc.block_bitmap, GroupFlags::BLOCK_UNINIT), (desc.inode_bitmap, GroupFlags::INODE_UNINIT)]
            .map(|(place, missing)| (place, may_be_missing && desc.has_flag(missing)))
            .into_iter()
            .filter_map(|(place, missing)| (place != 0 && !missing).then_some(place))
    }

    /// The group's state.
    pub fn group(&self, group: GroupNo) -> Option<&Group> {
        self.groups.get(group.0 as usize)
    }
}
