// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contents that live in the inode itself: the first 60 bytes in `i_block`, the rest in the value of the attribute `system.data`. That of the entries of small
//! directories is in `directory/inline`.
//!
//! A file begins there when it is first written to, and its contents move to blocks when they need more room than attributes leave; they never move back. The value
//! is as long as the contents say. Its entry has no hash: the kernel changes the value without changing the entry.

use fsmend_ext_format::extent::ExtentHeader;
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::inode::{I_BLOCK_LEN, InodeFlags};
use fsmend_ext_format::xattr::{Area, name_index};
use fsmend_vfs::{Errno, Result};

use crate::inode::Inode;
use crate::policy::BlockKind;
use crate::volume::Volume;

impl Volume {
    /// Whether contents may live in inodes.
    pub fn has_inline_data(&self) -> bool {
        self.geometry.features.has_incompat(Incompat::INLINE_DATA)
    }

    /// The contents that live in an inode: what `i_block` holds, and behind that the attribute. May be shorter or longer than the file says.
    pub fn inline_data(&self, inode: &Inode) -> Vec<u8> {
        let mut bytes = inode.raw.i_block.to_vec();
        if let Some(area) = Area::of_inode(&inode.record)
            && let Some(entry) = area.find(name_index::SYSTEM, b"data")
        {
            bytes.extend_from_slice(area.value(&entry).unwrap_or(&[]));
        }
        bytes
    }

    /// Bytes that could live in an inode beside its attributes; `None` where there is not even room for the attribute.
    fn inline_room(&mut self, inode: &Inode) -> Result<Option<u64>> {
        Ok(self.data_room(inode)?.map(|room| (I_BLOCK_LEN + room) as u64))
    }

    /// Lets these be all contents of an inode, and live in it.
    pub fn put_inline(&mut self, inode: &mut Inode, bytes: &[u8]) -> Result<()> {
        let (near, value) = bytes.split_at(bytes.len().min(I_BLOCK_LEN));
        self.set_data(inode, Some(value))?;
        inode.raw.i_block.fill(0);
        inode.raw.i_block[..near.len()].copy_from_slice(near);
        inode.raw.clear_flag(InodeFlags::EXTENTS);
        inode.raw.set_flag(InodeFlags::INLINE_DATA);
        inode.raw.set_size(bytes.len() as u64);
        Ok(())
    }

    /// Contents do not live in an inode any more; it has an empty map instead. Its length stays.
    pub fn leave_inode(&mut self, inode: &mut Inode) -> Result<()> {
        self.set_data(inode, None)?;
        inode.raw.clear_flag(InodeFlags::INLINE_DATA);
        inode.raw.i_block.fill(0);
        self.start_extents(inode);
        Ok(())
    }

    /// Whether a file has nothing at all, and could begin in its inode.
    fn may_begin_inline(&self, inode: &Inode) -> bool {
        let is_unmapped = if inode.has_extents() {
            ExtentHeader::parse(&inode.raw.i_block).is_some_and(|root| root.entries == 0)
        } else {
            inode.raw.i_block.iter().all(|byte| *byte == 0)
        };
        self.has_inline_data() && inode.is_regular() && inode.raw.size() == 0 && is_unmapped
    }

    /// Writes to a file whose contents live in its inode, or can from now on; returns whether that was possible. If not, they live in blocks now.
    pub fn write_inline(&mut self, inode: &mut Inode, offset: u64, bytes: &[u8]) -> Result<bool> {
        if !inode.has_inline_data() && !self.may_begin_inline(inode) {
            return Ok(false);
        }
        let end = offset.checked_add(bytes.len() as u64).ok_or(Errno::TooLarge)?;
        if !self.resize_inline(inode, end.max(inode.raw.size()))? {
            return Ok(false);
        }
        let mut contents = self.inline_data(inode);
        contents.truncate(usize::try_from(inode.raw.size()).unwrap_or(usize::MAX));
        let place = usize::try_from(offset).ok().and_then(|at| contents.get_mut(at..at + bytes.len()));
        place.ok_or(Errno::Corrupt)?.copy_from_slice(bytes);
        self.put_inline(inode, &contents)?;
        Ok(true)
    }

    /// Makes contents that live in an inode, or are to begin there, as long as `size`; returns whether they have room. If not, they live in blocks now, and are as long
    /// as before.
    pub fn resize_inline(&mut self, inode: &mut Inode, size: u64) -> Result<bool> {
        if self.inline_room(inode)?.is_none_or(|room| size > room) {
            self.unfold_file(inode)?;
            return Ok(false);
        }
        let mut contents = if inode.has_inline_data() { self.inline_data(inode) } else { Vec::new() };
        // What stands behind the end is not to be seen when the file grows.
        contents.truncate(usize::try_from(inode.raw.size()).unwrap_or(usize::MAX));
        contents.resize(usize::try_from(size).map_err(|_| Errno::TooLarge)?, 0);
        self.put_inline(inode, &contents)?;
        Ok(true)
    }

    /// Moves contents that live in an inode to a block.
    pub fn unfold_file(&mut self, inode: &mut Inode) -> Result<()> {
        if !inode.has_inline_data() {
            return Ok(());
        }
        let mut contents = self.inline_data(inode);
        contents.truncate(usize::try_from(inode.raw.size()).unwrap_or(usize::MAX));
        self.leave_inode(inode)?;
        if contents.is_empty() {
            return Ok(());
        }
        // An inode is never larger than a block.
        contents.resize(self.geometry.block_size as usize, 0);
        let (place, _) = self.map_new(inode, 0, 1, BlockKind::Data, false)?;
        self.cache.write_data(place, 0, &contents)
    }

    /// Where contents that live in an inode begin on the device.
    pub fn inline_place(&mut self, inode: &Inode) -> Result<u64> {
        let (block, at) = self.inode_place(inode.number)?;
        let within = at + std::mem::offset_of!(fsmend_ext_format::inode::RawInode, i_block);
        Ok(block.saturating_mul(u64::from(self.geometry.block_size)).saturating_add(within as u64))
    }
}
