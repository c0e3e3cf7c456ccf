// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file system as a replay leaves it: the device with changed blocks over it, in memory. Replay, fast commits and the
//! release of orphans work on it; what changed is laid over the device for the checks that follow.
//!
//! Invariant: whatever is changed here keeps its checksum right if it was right before.

use std::collections::BTreeMap;

use fsmend_base::{BlockNo, GroupNo, InodeNo, width};
use fsmend_device::{Device, ReadError, ReadErrorKind, Request, coalesce};
use fsmend_engine::repair::Changes;
use fsmend_ext_format::checksum;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::group::{GroupDesc, GroupFlags, RawGroupDesc};
use fsmend_ext_format::superblock::{EXT_MAGIC, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use crate::Fs;

/// Changed blocks: file-system block number, contents.
type Blocks = BTreeMap<u64, Box<[u8]>>;

/// Longest stretch that is announced in one go, in bytes.
const ANNOUNCED_MAX: u32 = 1 << 20;
/// Memory for a changed block beside its contents: its places in this overlay and in that of the run.
const CHANGED_BLOCK_BYTES: u64 = 128;

/// The device with changes over it.
pub(crate) struct ReplayOverlay<'d> {
    device: &'d dyn Device,
    /// The numbers of the file system.
    pub geometry: Geometry,
    settled: RawSuperblock,
    /// Block bitmap, inode bitmap and inode table of every group, as settled.
    places: Vec<[u64; 3]>,
    writes: Blocks,
    /// Blocks that the log gives to files, first and last, sorted by the first: never handed out by `allocate`.
    promised: Vec<(u64, u64)>,
}

/// Why an edit could not be made.
#[derive(Debug)]
pub(crate) enum EditError {
    /// A block could not be read.
    Read(ReadError),
    /// The place does not exist, or what is there cannot be edited without knowing more.
    Impossible,
}

impl From<ReadError> for EditError {
    fn from(error: ReadError) -> Self {
        EditError::Read(error)
    }
}

impl<'d> ReplayOverlay<'d> {
    /// An overlay of `fs` without changes.
    pub fn new(fs: &Fs<'d>) -> Self {
        ReplayOverlay {
            device: fs.device,
            geometry: fs.geometry.clone(),
            settled: fs.superblock.clone(),
            places: fs
                .groups
                .iter()
                .map(|group| [group.desc.block_bitmap, group.desc.inode_bitmap, group.desc.inode_table])
                .collect(),
            writes: Blocks::new(),
            promised: Vec::new(),
        }
    }

    /// Keeps [`ReplayOverlay::allocate`] from handing out `ranges` (first and last block). Their bits in the bitmaps may still be clear.
    pub fn promise(&mut self, ranges: impl Iterator<Item = (u64, u64)>) {
        let mut sorted: Vec<(u64, u64)> = ranges.collect();
        sorted.sort_unstable();
        // Each range reaches as far as any before it, so that the last one that begins before a block tells.
        let mut reach = 0;
        for (_, last) in &mut sorted {
            reach = reach.max(*last);
            *last = reach;
        }
        self.promised = sorted;
    }

    fn is_promised(&self, first: u64, last: u64) -> bool {
        let begun = self.promised.partition_point(|(start, _)| *start <= last);
        begun.checked_sub(1).and_then(|at| self.promised.get(at)).is_some_and(|(_, reach)| *reach >= first)
    }

    /// Tells the device that these blocks will be read, as far as they can be blocks of the file system.
    pub fn announce(&self, blocks: impl Iterator<Item = u64>) {
        let size = self.geometry.block_size;
        let is_valid = |block: &u64| *block != 0 && self.geometry.group_of_block(BlockNo(*block)).is_some();
        let mut requests: Vec<Request> = blocks
            .filter(is_valid)
            .map(|block| Request { offset: block.saturating_mul(size.into()), len: size })
            .collect();
        requests.sort_unstable();
        for part in coalesce(&requests, 0, ANNOUNCED_MAX) {
            self.device.readahead(part.request.offset, part.request.len.into());
        }
    }

    /// What has changed.
    pub fn into_changes(self) -> Changes {
        let size = u64::from(self.geometry.block_size);
        let place = |block: u64| block.saturating_mul(size);
        self.writes.into_iter().map(|(block, contents)| (place(block), contents.into_vec())).collect()
    }

    /// Memory that the changes take.
    pub fn bytes_held(&self) -> u64 {
        self.writes.len() as u64 * (u64::from(self.geometry.block_size) + CHANGED_BLOCK_BYTES)
    }

    /// The contents of `block`.
    pub fn read(&self, block: u64) -> Result<Vec<u8>, ReadError> {
        if let Some(contents) = self.writes.get(&block) {
            return Ok(contents.to_vec());
        }
        let mut bytes = vec![0; self.geometry.block_size as usize];
        let offset = block.saturating_mul(u64::from(self.geometry.block_size));
        if block >= self.geometry.blocks_count {
            return Err(ReadError { offset, len: bytes.len() as u64, kind: ReadErrorKind::BeyondEnd });
        }
        self.device.read_at(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Replaces the contents of `block`.
    pub fn put(&mut self, block: u64, contents: Vec<u8>) {
        self.writes.insert(block, contents.into_boxed_slice());
    }

    /// Replaces the bytes at `offset` of `block`.
    fn patch(&mut self, block: u64, offset: usize, bytes: &[u8]) -> Result<(), EditError> {
        let mut contents = self.read(block)?;
        let place = contents.get_mut(offset..offset + bytes.len()).ok_or(EditError::Impossible)?;
        if place != bytes {
            place.copy_from_slice(bytes);
            self.put(block, contents);
        }
        Ok(())
    }

    fn superblock_place(&self) -> (u64, usize) {
        let size = u64::from(self.geometry.block_size);
        (SUPERBLOCK_OFFSET / size, width::index(SUPERBLOCK_OFFSET % size))
    }

    /// The primary superblock as it stands; the settled one where the primary is lost.
    pub fn superblock(&self) -> RawSuperblock {
        let (block, offset) = self.superblock_place();
        let stored = self.read(block).ok().and_then(|contents| {
            RawSuperblock::read_from_bytes(contents.get(offset..offset + SUPERBLOCK_SIZE)?).ok()
        });
        stored.filter(|raw| raw.s_magic.get() == EXT_MAGIC).unwrap_or_else(|| self.settled.clone())
    }

    /// Changes the primary superblock. Its checksum follows if it was right.
    pub fn edit_superblock(&mut self, edit: impl FnOnce(&mut RawSuperblock)) -> Result<(), EditError> {
        let mut superblock = self.superblock();
        let was_right = checksum::superblock(&superblock).is_right();
        edit(&mut superblock);
        if was_right && self.geometry.features.metadata_csum() {
            superblock.s_checksum = U32::new(checksum::superblock(&superblock).computed);
        }
        let (block, offset) = self.superblock_place();
        self.patch(block, offset, superblock.as_bytes())
    }

    /// Block and byte within it of the descriptor of `group`.
    fn desc_place(&self, group: GroupNo) -> Option<(u64, usize)> {
        let geometry = &self.geometry;
        if group.0 >= geometry.group_count {
            return None;
        }
        let index = group.0 / geometry.descs_per_block();
        let leader = GroupNo(index * geometry.descs_per_block());
        let in_meta_group = geometry.group_head(leader).descriptors;
        let meta_bg = geometry.features.has_incompat(fsmend_ext_format::features::Incompat::META_BG);
        // With 1 KiB blocks and bigalloc, block 0 is the boot block and the superblock is in block 1.
        let shift = u64::from(geometry.first_data_block == 0 && geometry.block_size == 1024);
        let block = if meta_bg && index >= geometry.first_meta_bg {
            in_meta_group.start.0 + if leader.0 == 0 { shift } else { 0 }
        } else {
            u64::from(geometry.first_data_block) + shift + 1 + u64::from(index)
        };
        Some((block, (group.0 % geometry.descs_per_block() * geometry.desc_size) as usize))
    }

    /// The descriptor of `group` as it stands.
    pub fn desc(&self, group: GroupNo) -> Result<RawGroupDesc, EditError> {
        let (block, offset) = self.desc_place(group).ok_or(EditError::Impossible)?;
        let contents = self.read(block)?;
        let len = (self.geometry.desc_size as usize).min(size_of::<RawGroupDesc>());
        let mut raw = RawGroupDesc::default();
        let stored = contents.get(offset..offset + len).ok_or(EditError::Impossible)?;
        raw.as_mut_bytes()[..len].copy_from_slice(stored);
        Ok(raw)
    }

    /// The descriptor of `group`, with the settled places: those on the device may be wrong. Places that a replay has changed are as
    /// the replay leaves them, if they can be.
    fn parsed_desc(&self, group: GroupNo) -> Result<GroupDesc, EditError> {
        let parse = |raw: &RawGroupDesc| GroupDesc::parse(raw, self.geometry.wide_descriptors());
        let mut desc = parse(&self.desc(group)?);
        let below = self.desc_below(group).map(|raw| parse(&raw)).unwrap_or_default();
        let before = [below.block_bitmap, below.inode_bitmap, below.inode_table];
        let settled = self.places.get(group.0 as usize).copied().unwrap_or_default();
        let places = [&mut desc.block_bitmap, &mut desc.inode_bitmap, &mut desc.inode_table];
        for ((place, before), settled) in places.into_iter().zip(before).zip(settled) {
            if *place == before || self.geometry.group_of_block(BlockNo(*place)).is_none() {
                *place = settled;
            }
        }
        Ok(desc)
    }

    /// The descriptor of `group` as it lies on the device.
    fn desc_below(&self, group: GroupNo) -> Option<RawGroupDesc> {
        let (block, offset) = self.desc_place(group)?;
        let len = (self.geometry.desc_size as usize).min(size_of::<RawGroupDesc>());
        let mut raw = RawGroupDesc::default();
        let start = block.checked_mul(u64::from(self.geometry.block_size))?.checked_add(offset as u64)?;
        self.device.read_at(start, &mut raw.as_mut_bytes()[..len]).ok()?;
        Some(raw)
    }

    /// Stores the descriptor of `group` with its checksum.
    fn put_desc(&mut self, group: GroupNo, raw: &RawGroupDesc) -> Result<(), EditError> {
        let (block, offset) = self.desc_place(group).ok_or(EditError::Impossible)?;
        let size = self.geometry.desc_size as usize;
        let mut contents = self.read(block)?;
        let place = contents.get_mut(offset..offset + size).ok_or(EditError::Impossible)?;
        let len = size.min(size_of::<RawGroupDesc>());
        place[..len].copy_from_slice(&raw.as_bytes()[..len]);
        let geometry = &self.geometry;
        let checked =
            checksum::group_desc(geometry.features, geometry.checksum_seed, &geometry.uuid, group, place);
        if let Some(checked) = checked {
            place[0x1E..0x20].copy_from_slice(&width::low_u16(u64::from(checked.computed)).to_le_bytes());
        }
        self.put(block, contents);
        Ok(())
    }

    /// Block and byte within it of the record of `inode`.
    fn inode_place(&self, inode: InodeNo) -> Result<(u64, usize), EditError> {
        let (group, index) = self.geometry.inode_place(inode).ok_or(EditError::Impossible)?;
        let table = self.parsed_desc(group)?.inode_table;
        let byte = u64::from(index) * u64::from(self.geometry.inode_size);
        let size = u64::from(self.geometry.block_size);
        let block = table.checked_add(byte / size).filter(|_| table != 0).ok_or(EditError::Impossible)?;
        Ok((block, width::index(byte % size)))
    }

    /// The record of `inode`.
    pub fn inode(&self, inode: InodeNo) -> Result<Vec<u8>, EditError> {
        let (block, offset) = self.inode_place(inode)?;
        let contents = self.read(block)?;
        let size = self.geometry.inode_size as usize;
        Ok(contents.get(offset..offset + size).ok_or(EditError::Impossible)?.to_vec())
    }

    /// Stores the record of `inode` with its checksum.
    pub fn put_inode(&mut self, inode: InodeNo, record: &mut [u8]) -> Result<(), EditError> {
        let (block, offset) = self.inode_place(inode)?;
        if self.geometry.features.metadata_csum()
            && let Some(checked) = checksum::inode(self.geometry.checksum_seed, inode, record)
        {
            let bytes = checked.computed.to_le_bytes();
            record[0x7C..0x7E].copy_from_slice(&bytes[..2]);
            let has_high = record.len() > 0x84 && u16::from_le_bytes([record[0x80], record[0x81]]) >= 4;
            if has_high {
                record[0x82..0x84].copy_from_slice(&bytes[2..]);
            }
        }
        self.patch(block, offset, record)
    }

    fn cluster_place(&self, block: u64) -> Result<(GroupNo, u32), EditError> {
        let group = self.geometry.group_of_block(BlockNo(block)).ok_or(EditError::Impossible)?;
        let within = block - self.geometry.group_first_block(group);
        Ok((group, width::low_u32(within / u64::from(self.geometry.cluster_blocks))))
    }

    /// Marks the clusters of `count` blocks from `start` in use or free, with the counts of their groups. Tells how
    /// many clusters that changed.
    pub fn mark_blocks(&mut self, start: u64, count: u64, in_use: bool) -> Result<u64, EditError> {
        let end = start.checked_add(count).ok_or(EditError::Impossible)?;
        let (mut next, mut changed) = (start, 0);
        while next < end {
            let (group, _) = self.cluster_place(next)?;
            let group_end = self.geometry.group_blocks(group).end().min(end);
            changed += self.mark_in_group(group, next, group_end, in_use)?;
            next = group_end;
        }
        Ok(changed)
    }

    /// The part of [`mark_blocks`](Self::mark_blocks) that lies in one group.
    fn mark_in_group(
        &mut self,
        group: GroupNo,
        start: u64,
        end: u64,
        in_use: bool,
    ) -> Result<u64, EditError> {
        let mut raw = self.desc(group)?;
        let desc = self.parsed_desc(group)?;
        let mut bitmap = self.block_bitmap(group, &desc)?;
        let (first, last) = (self.cluster_place(start)?.1, self.cluster_place(end - 1)?.1);
        let changed = width::len_u32((first..=last).filter(|bit| set_bit(&mut bitmap, *bit, in_use)).count());
        if changed == 0 {
            return Ok(0);
        }
        let free = if in_use {
            desc.free_blocks.saturating_sub(changed)
        } else {
            desc.free_blocks.saturating_add(changed)
        };
        (raw.bg_free_blocks_count_lo, raw.bg_free_blocks_count_hi) = halves(free);
        raw.bg_flags = U16::new((desc.flags & !GroupFlags::BLOCK_UNINIT).bits());
        if self.geometry.features.metadata_csum() {
            let bits = self.geometry.blocks_per_group / self.geometry.cluster_blocks;
            let sum = checksum::bitmap(self.geometry.checksum_seed, &bitmap, bits, true);
            (raw.bg_block_bitmap_csum_lo, raw.bg_block_bitmap_csum_hi) = halves(sum);
        }
        self.put(desc.block_bitmap, bitmap);
        self.put_desc(group, &raw)?;
        Ok(u64::from(changed))
    }

    fn block_bitmap(&self, group: GroupNo, desc: &GroupDesc) -> Result<Vec<u8>, EditError> {
        if desc.has_flag(GroupFlags::BLOCK_UNINIT) && self.geometry.features.group_csum() {
            return self.fresh_block_bitmap(group);
        }
        if self.geometry.group_of_block(BlockNo(desc.block_bitmap)).is_none() {
            return Err(EditError::Impossible);
        }
        Ok(self.read(desc.block_bitmap)?)
    }

    /// Finds a free block that is not promised, first in `group` and behind it, marks it in use and returns it.
    pub fn allocate(&mut self, group: GroupNo) -> Result<u64, EditError> {
        let groups = self.geometry.group_count;
        for step in 0..groups {
            let group = GroupNo((group.0 + step) % groups);
            let desc = self.parsed_desc(group)?;
            if desc.free_blocks == 0 {
                continue;
            }
            let bitmap = self.block_bitmap(group, &desc)?;
            let blocks = self.geometry.group_blocks(group);
            let cluster = u64::from(self.geometry.cluster_blocks);
            let place = |bit: u64| blocks.start.0 + bit * cluster;
            let is_free = |bit: &u64| {
                let block = place(*bit);
                !get_bit(&bitmap, width::low_u32(*bit)) && !self.is_promised(block, block + (cluster - 1))
            };
            if let Some(bit) = (0..blocks.count.div_ceil(cluster)).find(is_free) {
                let block = place(bit);
                self.mark_blocks(block, 1, true)?;
                return Ok(block);
            }
        }
        Err(EditError::Impossible)
    }

    /// Marks `inode` in use or free, with the counts of its group. Tells whether that changed anything.
    pub fn mark_inode(&mut self, inode: InodeNo, in_use: bool, directory: bool) -> Result<bool, EditError> {
        let (group, index) = self.geometry.inode_place(inode).ok_or(EditError::Impossible)?;
        let mut raw = self.desc(group)?;
        let desc = self.parsed_desc(group)?;
        let uninit = desc.has_flag(GroupFlags::INODE_UNINIT) && self.geometry.features.group_csum();
        if self.geometry.group_of_block(BlockNo(desc.inode_bitmap)).is_none() {
            return Err(EditError::Impossible);
        }
        let mut bitmap = if uninit { self.fresh_inode_bitmap() } else { self.read(desc.inode_bitmap)? };
        if !set_bit(&mut bitmap, index, in_use) {
            return Ok(false);
        }
        let free = step(desc.free_inodes, !in_use);
        let directories = if directory { step(desc.used_dirs, in_use) } else { desc.used_dirs };
        let unused = if in_use {
            desc.itable_unused.min(self.geometry.inodes_per_group - 1 - index)
        } else {
            desc.itable_unused
        };
        (raw.bg_free_inodes_count_lo, raw.bg_free_inodes_count_hi) = halves(free);
        (raw.bg_used_dirs_count_lo, raw.bg_used_dirs_count_hi) = halves(directories);
        (raw.bg_itable_unused_lo, raw.bg_itable_unused_hi) = halves(unused);
        raw.bg_flags = U16::new((desc.flags & !GroupFlags::INODE_UNINIT).bits());
        if self.geometry.features.metadata_csum() {
            let bits = self.geometry.inodes_per_group;
            let sum = checksum::bitmap(self.geometry.checksum_seed, &bitmap, bits, true);
            (raw.bg_inode_bitmap_csum_lo, raw.bg_inode_bitmap_csum_hi) = halves(sum);
        }
        self.put(desc.inode_bitmap, bitmap);
        self.put_desc(group, &raw)?;
        Ok(true)
    }

    /// The inode bitmap of a group without inodes: bits behind the last inode are set.
    fn fresh_inode_bitmap(&self) -> Vec<u8> {
        let mut bitmap = vec![0; self.geometry.block_size as usize];
        (self.geometry.inodes_per_group..self.geometry.block_size * 8).for_each(|bit| {
            set_bit(&mut bitmap, bit, true);
        });
        bitmap
    }

    /// The block bitmap of a group in which only metadata is in use.
    fn fresh_block_bitmap(&self, group: GroupNo) -> Result<Vec<u8>, EditError> {
        let mut bitmap = vec![0; self.geometry.block_size as usize];
        let blocks = self.geometry.group_blocks(group);
        let cluster = u64::from(self.geometry.cluster_blocks);
        let mut mark = |start: u64, count: u64| {
            let end = start.saturating_add(count).min(blocks.start.0 + blocks.count);
            for block in start.max(blocks.start.0)..end {
                set_bit(&mut bitmap, width::low_u32((block - blocks.start.0) / cluster), true);
            }
        };
        let head = self.geometry.group_head(group);
        head.superblock.iter().for_each(|block| mark(block.0, 1));
        mark(head.descriptors.start.0, head.descriptors.count);
        mark(head.reserved.start.0, head.reserved.count);
        for other in 0..self.geometry.group_count {
            let desc = self.parsed_desc(GroupNo(other))?;
            mark(desc.block_bitmap, 1);
            mark(desc.inode_bitmap, 1);
            mark(desc.inode_table, u64::from(self.geometry.inode_table_blocks()));
        }
        (width::low_u32(blocks.count.div_ceil(cluster))..self.geometry.block_size * 8).for_each(|bit| {
            set_bit(&mut bitmap, bit, true);
        });
        Ok(bitmap)
    }
}

fn halves(value: u32) -> (U16, U16) {
    (U16::new(width::low_u16(u64::from(value))), U16::new((value >> 16) as u16))
}

fn step(count: u32, up: bool) -> u32 {
    if up { count.saturating_add(1) } else { count.saturating_sub(1) }
}

fn get_bit(bitmap: &[u8], bit: u32) -> bool {
    bitmap.get(bit as usize / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
}

/// Sets or clears a bit and tells whether it changed; bits beyond the end never change.
fn set_bit(bitmap: &mut [u8], bit: u32, value: bool) -> bool {
    let Some(byte) = bitmap.get_mut(bit as usize / 8) else { return false };
    let before = *byte;
    *byte = if value { before | 1 << (bit % 8) } else { before & !(1 << (bit % 8)) };
    *byte != before
}
