// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups: descriptors, bitmaps, and the inodes that are taken and given back in them.

use std::collections::HashMap;
use std::ops::Range;

use fsmend_base::{BlockNo, GroupNo, width};
use fsmend_blockcache::{Block, FreeMap};
use fsmend_ext_format::checksum;
use fsmend_ext_format::group::{GroupDesc, GroupFlags, RawGroupDesc};
use fsmend_vfs::{Errno, InodeNo, Result};
use zerocopy::{FromZeros, IntoBytes};

use crate::policy::{DirectoryAsk, GroupUse, Groups};
use crate::region::Regions;
use crate::volume::Volume;

impl Volume {
    fn desc_place(&self, group: GroupNo) -> Result<(u64, usize)> {
        let per_block = self.geometry.descs_per_block().max(1);
        let block = self.desc_places.get((group.0 / per_block) as usize).ok_or(Errno::Corrupt)?;
        Ok((*block, (group.0 % per_block * self.geometry.desc_size) as usize))
    }

    fn raw_desc(&mut self, group: GroupNo) -> Result<RawGroupDesc> {
        let (block, at) = self.desc_place(group)?;
        let len = (self.geometry.desc_size as usize).min(size_of::<RawGroupDesc>());
        let bytes = self.cache.get(block)?;
        let mut raw = RawGroupDesc::new_zeroed();
        let part = bytes.get(at..at + len).ok_or(Errno::Corrupt)?;
        raw.as_mut_bytes()[..len].copy_from_slice(part);
        Ok(raw)
    }

    /// What the descriptor of a group says.
    pub fn desc(&mut self, group: GroupNo) -> Result<GroupDesc> {
        let wide = self.geometry.wide_descriptors();
        Ok(GroupDesc::parse(&self.raw_desc(group)?, wide))
    }

    /// Changes the descriptor of a group. Its checksum follows when the transaction is sealed.
    pub fn set_desc(&mut self, group: GroupNo, desc: &GroupDesc) -> Result<()> {
        let mut raw = self.raw_desc(group)?;
        desc.store(&mut raw, self.geometry.wide_descriptors());
        let (block, at) = self.desc_place(group)?;
        let len = (self.geometry.desc_size as usize).min(size_of::<RawGroupDesc>());
        let bytes = self.cache.change(block)?;
        let place = bytes.get_mut(at..at + len).ok_or(Errno::Corrupt)?;
        place.copy_from_slice(&raw.as_bytes()[..len]);
        self.touched.insert(group.0);
        if let Some(known) = self.uses.get_mut(group.0 as usize) {
            *known = None;
        }
        Ok(())
    }

    /// Puts the right checksums of a group's bitmaps and descriptor in place.
    pub fn seal_group(&mut self, group: GroupNo) -> Result<()> {
        let mut desc = self.desc(group)?;
        if self.geometry.features.metadata_csum() {
            if !desc.has_flag(GroupFlags::BLOCK_UNINIT) {
                let bitmap = self.cache.get(desc.block_bitmap)?;
                desc.block_bitmap_csum = self.bitmap_sum(&bitmap, self.units_per_group());
            }
            if !desc.has_flag(GroupFlags::INODE_UNINIT) {
                let bitmap = self.cache.get(desc.inode_bitmap)?;
                desc.inode_bitmap_csum = self.bitmap_sum(&bitmap, self.geometry.inodes_per_group);
            }
            self.set_desc(group, &desc)?;
            self.touched.remove(&group.0);
        }
        if self.geometry.features.group_csum() {
            let (features, seed, uuid) =
                (self.geometry.features, self.geometry.checksum_seed, self.geometry.uuid);
            let (block, at) = self.desc_place(group)?;
            let len = self.geometry.desc_size as usize;
            let bytes = self.cache.change(block)?;
            let place = bytes.get_mut(at..at + len).ok_or(Errno::Corrupt)?;
            checksum::seal_group_desc(features, seed, &uuid, group, place);
        }
        Ok(())
    }

    /// Bits of a block bitmap that count.
    fn units_per_group(&self) -> u32 {
        self.geometry.blocks_per_group / self.geometry.cluster_blocks
    }

    fn bitmap_sum(&self, bitmap: &[u8], bits: u32) -> u32 {
        checksum::bitmap(self.geometry.checksum_seed, bitmap, bits, self.geometry.wide_descriptors())
    }

    fn checked_bitmap(&mut self, place: u64, bits: u32, stored: u32, what: &str) -> Result<Block> {
        let (seed, wide) = (self.geometry.checksum_seed, self.geometry.wide_descriptors());
        let has_sum = self.geometry.features.metadata_csum();
        self.cache.get_checked(place, what, |bytes| {
            !has_sum
                || checksum::bitmap(seed, bytes, bits, wide) == if wide { stored } else { stored & 0xFFFF }
        })
    }

    /// The block bitmap of a group, whether it stands on the device or not.
    pub fn block_bitmap(&mut self, group: GroupNo) -> Result<Block> {
        let desc = self.desc(group)?;
        if desc.has_flag(GroupFlags::BLOCK_UNINIT) && self.geometry.features.group_csum() {
            return Ok(self.fresh_block_bitmap(group).into());
        }
        self.checked_bitmap(
            desc.block_bitmap,
            self.units_per_group(),
            desc.block_bitmap_csum,
            "a block bitmap",
        )
    }

    /// What the bitmap of a group without files would hold.
    pub fn fresh_block_bitmap(&self, group: GroupNo) -> Vec<u8> {
        let mut bitmap = vec![0u8; self.geometry.block_size as usize];
        let len = self.geometry.group_blocks(group).count.div_ceil(self.unit());
        let behind = len..u64::from(self.geometry.block_size) * 8;
        let own = self.own.get(&group.0).map_or(&[][..], Vec::as_slice);
        own.iter()
            .map(|range| self.units_of(range))
            .chain([behind])
            .for_each(|range| set_bits(&mut bitmap, range));
        bitmap
    }

    /// Where the block bitmap of a group stands, which is to be changed: from now on it does stand there.
    pub fn block_bitmap_for_change(&mut self, group: GroupNo) -> Result<u64> {
        let mut desc = self.desc(group)?;
        if desc.has_flag(GroupFlags::BLOCK_UNINIT) && self.geometry.features.group_csum() {
            let fresh = self.fresh_block_bitmap(group);
            self.cache.create(desc.block_bitmap)?.copy_from_slice(&fresh);
            desc.flags &= !GroupFlags::BLOCK_UNINIT;
            self.set_desc(group, &desc)?;
        }
        self.touched.insert(group.0);
        Ok(desc.block_bitmap)
    }

    /// Blocks of a group, counted from its first, that belong to groups themselves.
    pub fn own_metadata(&self, group: GroupNo) -> Result<Vec<Range<u64>>> {
        Ok(self.own.get(&group.0).cloned().unwrap_or_default())
    }

    /// Reads all descriptors once: where the metadata of groups and the regions lie, and how much is free. Places that cannot be are an error.
    pub fn survey_groups(&mut self) -> Result<()> {
        let mut ranges: HashMap<u32, Vec<Range<u64>>> = HashMap::new();
        let mut regions = Vec::new();
        let (mut free_blocks, mut free_inodes) = (0u64, 0u64);
        let table = u64::from(self.geometry.inode_table_blocks());
        for group in (0..self.geometry.group_count).map(GroupNo) {
            self.check_desc(group)?;
            let desc = self.desc(group)?;
            free_blocks += u64::from(desc.free_blocks) * self.unit();
            free_inodes += u64::from(desc.free_inodes);
            let places = [(desc.block_bitmap, 1), (desc.inode_bitmap, 1), (desc.inode_table, table)];
            for (start, count) in places {
                self.add_own(&mut ranges, start, count).ok_or_else(|| {
                    self.cache.corrupt(|| format!("metadata of group {group} is outside the file system"))
                })?;
            }
            if self.geometry.rext3() {
                regions.push(self.geometry.region(group, desc.inode_table));
            }
            let head = self.geometry.group_head(group);
            let sb = head.superblock.map_or(0..0, |block| block.0..block.0 + 1);
            for range in [sb, bounds(head.descriptors), bounds(head.reserved)] {
                let len = range.end - range.start;
                self.add_own(&mut ranges, range.start, len).ok_or(Errno::Corrupt)?;
            }
        }
        // Block 0 in front of the first data block belongs to no group.
        for list in ranges.values_mut() {
            list.sort_by_key(|range| range.start);
            list.dedup_by(|next, before| {
                let touches = next.start <= before.end;
                if touches {
                    before.end = before.end.max(next.end);
                }
                touches
            });
        }
        self.own = ranges;
        self.regions = Regions::new(regions);
        self.uses.clear();
        (self.totals.free_blocks, self.totals.free_inodes) = (free_blocks, free_inodes);
        Ok(())
    }

    fn add_own(&self, ranges: &mut HashMap<u32, Vec<Range<u64>>>, start: u64, count: u64) -> Option<()> {
        let end = start.checked_add(count)?;
        let mut at = start;
        while at < end {
            let group = self.geometry.group_of_block(BlockNo(at))?;
            let blocks = self.geometry.group_blocks(group);
            let part = end.min(blocks.end());
            ranges.entry(group.0).or_default().push(at - blocks.start.0..part - blocks.start.0);
            at = part;
        }
        Some(())
    }

    fn check_desc(&mut self, group: GroupNo) -> Result<()> {
        let (block, at) = self.desc_place(group)?;
        let bytes = self.cache.get(block)?;
        let part = bytes.get(at..at + self.geometry.desc_size as usize).ok_or(Errno::Corrupt)?;
        let geometry = &self.geometry;
        let sum =
            checksum::group_desc(geometry.features, geometry.checksum_seed, &geometry.uuid, group, part);
        if sum.is_some_and(|sum| !sum.is_right()) {
            return Err(self
                .cache
                .corrupt(|| format!("the descriptor of group {group} has a wrong checksum")));
        }
        Ok(())
    }

    fn inode_bitmap(&mut self, group: GroupNo) -> Result<Block> {
        let desc = self.desc(group)?;
        let bits = self.geometry.inodes_per_group;
        if desc.has_flag(GroupFlags::INODE_UNINIT) && self.geometry.features.group_csum() {
            return Ok(fresh_inode_bitmap(self.geometry.block_size, bits).into());
        }
        self.checked_bitmap(desc.inode_bitmap, bits, desc.inode_bitmap_csum, "an inode bitmap")
    }

    /// Whether the inode bitmap says that an inode is in use.
    pub fn is_inode_in_use(&mut self, inode: InodeNo) -> Result<bool> {
        let (group, index) = self.geometry.inode_place(inode).ok_or(Errno::NotFound)?;
        let bitmap = self.inode_bitmap(group)?;
        Ok(bitmap.get((index / 8) as usize).is_some_and(|byte| byte & 1 << (index % 8) != 0))
    }

    /// Takes a free inode, in `near` or the next group that has one.
    pub fn take_inode(&mut self, near: GroupNo, is_directory: bool) -> Result<InodeNo> {
        let count = self.geometry.group_count;
        for step in 0..count {
            let group = GroupNo(width::low_u32((u64::from(near.0) + u64::from(step)) % u64::from(count)));
            if self.desc(group)?.free_inodes == 0 {
                continue;
            }
            if let Some(inode) = self.take_inode_in(group, is_directory)? {
                return Ok(inode);
            }
        }
        Err(Errno::NoSpace)
    }

    fn take_inode_in(&mut self, group: GroupNo, is_directory: bool) -> Result<Option<InodeNo>> {
        let per_group = self.geometry.inodes_per_group;
        let bitmap = self.inode_bitmap(group)?;
        let reserved =
            if group.0 == 0 { self.geometry.first_inode.saturating_sub(1).min(per_group) } else { 0 };
        let taken = FreeMap::from_used(&bitmap, u64::from(per_group));
        let Some(bit) = taken.first_clear(u64::from(reserved)..u64::from(per_group)) else {
            return Ok(None);
        };
        let index = u32::try_from(bit).map_err(|_| Errno::Corrupt)?;
        drop(bitmap);
        self.mark_inode(group, index, is_directory)?;
        Ok(Some(self.geometry.inode_at(group, index)))
    }

    /// Notes that an inode is in use; the first time that its block of the table is used, it becomes one of zeroes.
    pub fn mark_inode(&mut self, group: GroupNo, index: u32, is_directory: bool) -> Result<()> {
        let mut desc = self.desc(group)?;
        let has_sums = self.geometry.features.group_csum();
        if desc.has_flag(GroupFlags::INODE_UNINIT) && has_sums {
            let fresh = fresh_inode_bitmap(self.geometry.block_size, self.geometry.inodes_per_group);
            self.cache.create(desc.inode_bitmap)?.copy_from_slice(&fresh);
            desc.flags &= !GroupFlags::INODE_UNINIT;
            self.set_desc(group, &desc)?;
        }
        if has_sums && desc.has_flag(GroupFlags::BLOCK_UNINIT) {
            // A caller that uses inodes of a group sees its blocks, too.
            self.set_desc(group, &desc)?;
            self.block_bitmap_for_change(group)?;
            desc = self.desc(group)?;
        }
        let bitmap = self.cache.change(desc.inode_bitmap)?;
        *bitmap.get_mut((index / 8) as usize).ok_or(Errno::Corrupt)? |= 1 << (index % 8);
        if has_sums {
            let used = self.geometry.inodes_per_group.saturating_sub(desc.itable_unused);
            let per_block = self.geometry.block_size / self.geometry.inode_size;
            let block_start = index / per_block * per_block;
            if block_start >= used {
                self.cache.create(desc.inode_table.saturating_add(u64::from(index / per_block)))?;
            }
            desc.itable_unused = desc.itable_unused.min(self.geometry.inodes_per_group - index - 1);
        }
        desc.free_inodes = desc.free_inodes.saturating_sub(1);
        desc.used_dirs = desc.used_dirs.saturating_add(u32::from(is_directory));
        self.totals.free_inodes = self.totals.free_inodes.saturating_sub(1);
        self.set_desc(group, &desc)
    }

    /// Gives an inode back.
    pub fn free_inode(&mut self, inode: InodeNo, is_directory: bool) -> Result<()> {
        let (group, index) = self.geometry.inode_place(inode).ok_or(Errno::Corrupt)?;
        if !self.is_inode_in_use(inode)? {
            return Err(self.cache.corrupt(|| format!("inode {inode} is removed, but free already")));
        }
        let mut desc = self.desc(group)?;
        let bitmap = self.cache.change(desc.inode_bitmap)?;
        *bitmap.get_mut((index / 8) as usize).ok_or(Errno::Corrupt)? &= !(1 << (index % 8));
        desc.free_inodes = desc.free_inodes.saturating_add(1).min(self.geometry.inodes_per_group);
        desc.used_dirs = desc.used_dirs.saturating_sub(u32::from(is_directory));
        self.totals.free_inodes =
            self.totals.free_inodes.saturating_add(1).min(u64::from(self.geometry.inodes_count));
        self.set_desc(group, &desc)
    }

    /// The group for the inode of a new file.
    pub fn group_for(&mut self, parent: InodeNo, is_directory: bool, in_root: bool) -> Result<GroupNo> {
        let (parent_group, _) = self.geometry.inode_place(parent).ok_or(Errno::Corrupt)?;
        if !is_directory {
            return Ok(parent_group);
        }
        let mut policy = std::mem::replace(&mut self.policy, Box::new(crate::policy::Ext3Policy));
        // ext keeps no depth: only the root is known.
        let ask = DirectoryAsk { parent_group, parent_depth: in_root.then_some(0), siblings: 0 };
        let group = policy.directory_group(&ask, self);
        self.policy = policy;
        Ok(GroupNo(group.0.min(self.geometry.group_count - 1)))
    }
}

impl Groups for Volume {
    fn count(&self) -> u32 {
        self.geometry.group_count
    }

    fn usage(&mut self, group: GroupNo) -> Option<GroupUse> {
        self.group_use(group).ok()
    }

    fn totals(&self) -> (u64, u64) {
        (self.totals.free_blocks, self.totals.free_inodes)
    }
}

fn bounds(range: fsmend_base::BlockRange) -> Range<u64> {
    range.start.0..range.end()
}

/// Sets bits of a bitmap, as far as it reaches.
pub(crate) fn set_bits(bitmap: &mut [u8], range: Range<u64>) {
    for bit in range {
        if let Some(byte) = bitmap.get_mut((bit / 8) as usize) {
            *byte |= 1 << (bit % 8);
        }
    }
}

/// An inode bitmap without inodes: only what lies behind the last one is set.
pub(crate) fn fresh_inode_bitmap(block_size: u32, inodes: u32) -> Vec<u8> {
    let mut bitmap = vec![0; block_size as usize];
    set_bits(&mut bitmap, u64::from(inodes)..u64::from(block_size) * 8);
    bitmap
}
