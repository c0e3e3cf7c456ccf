// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver as a [`FileSystem`].

use std::sync::Arc;

use fsmend_base::width;
use fsmend_blockcache::acl::Kind;
use fsmend_blockcache::names::NAME_MAX;
use fsmend_device::WritableDevice;
use fsmend_ext_format::inode::{InodeFlags, special};
use fsmend_vfs::{
    Allocation, AttributeWrite, Attributes, Caller, DirEntry, Errno, Extent, FileFlags, FileKind, FileSystem,
    FileSystemSpace, InodeNo, NewFile, RenameFlags, Result, SetAttributes, Time, Visit,
};

use crate::inode::Inode;
use crate::inode_flags;
use crate::mount::{MountError, MountOptions};
use crate::region::RegionRoom;
use crate::volume::Volume;

/// A mounted file system of the ext family.
pub struct Ext {
    volume: Volume,
}

impl Ext {
    /// Mounts what lies on `device`. A journal that holds something is replayed, and what a crash has left is cleaned up.
    pub fn mount(
        device: Arc<dyn WritableDevice>,
        options: MountOptions,
    ) -> std::result::Result<Ext, MountError> {
        Volume::mount(device, options).map(|volume| Ext { volume })
    }

    /// What the policy is called that says where blocks are wished for.
    pub fn policy_name(&self) -> &'static str {
        self.volume.policy.name()
    }

    /// How much room there is in the indirect region of each group; empty where there are none. The first time, that reads all block bitmaps
    /// that was not needed yet.
    pub fn regions(&mut self) -> Result<Vec<RegionRoom>> {
        self.volume.check_mounted()?;
        self.volume.regions_room()
    }

    fn readable(&mut self, number: InodeNo) -> Result<Inode> {
        self.volume.check_mounted()?;
        self.volume.load(number)
    }

    fn finish(&mut self, goes_on: Option<InodeNo>, now: Time) -> Result<()> {
        goes_on.map_or(Ok(()), |number| self.volume.finish_removal(number, now))
    }
}

fn set_attributes(
    volume: &mut Volume,
    number: InodeNo,
    changes: &SetAttributes,
    now: Time,
) -> Result<(Inode, bool)> {
    let mut inode = volume.load(number)?;
    if inode.raw.has_flag(InodeFlags::IMMUTABLE) {
        return Err(Errno::NotPermitted);
    }
    let mut is_done = true;
    if let Some(size) = changes.size {
        match inode.kind() {
            Some(FileKind::Regular) => volume.check_changeable(&inode)?,
            Some(FileKind::Directory) => return Err(Errno::IsDirectory),
            _ => return Err(Errno::Invalid),
        }
        is_done = volume.resize(&mut inode, size, now)?;
    }
    if let Some(mode) = changes.mode {
        let kind = inode.raw.file_type();
        inode.raw.i_mode.set(kind | mode & 0o7777);
        volume.change_list_mode(&mut inode, mode, now)?;
    }
    let of = inode.permissions();
    volume.give_to(&mut inode, changes.uid.unwrap_or(of.uid), changes.gid.unwrap_or(of.gid))?;
    if let Some(atime) = changes.atime {
        inode.set_atime(atime.at(now));
    }
    if let Some(mtime) = changes.mtime {
        inode.set_mtime(mtime.at(now));
    }
    if let Some(crtime) = changes.crtime {
        inode.set_crtime(crtime);
    }
    inode.set_ctime(now);
    volume.save(&mut inode)?;
    Ok((inode, is_done))
}

impl FileSystem for Ext {
    fn root(&self) -> InodeNo {
        InodeNo(special::ROOT)
    }

    fn lookup(&mut self, parent: InodeNo, name: &[u8]) -> Result<Attributes> {
        self.volume.check_mounted()?;
        let number = self.volume.find(parent, name)?;
        self.getattr(number)
    }

    fn getattr(&mut self, inode: InodeNo) -> Result<Attributes> {
        let inode = self.readable(inode)?;
        self.volume.attributes(&inode)
    }

    fn setattr(&mut self, inode: InodeNo, changes: &SetAttributes, now: Time) -> Result<Attributes> {
        let (loaded, is_done) =
            self.volume.operation(now, |volume| set_attributes(volume, inode, changes, now))?;
        if !is_done {
            self.volume.finish_cut(inode, now)?;
            return self.getattr(inode);
        }
        self.volume.attributes(&loaded)
    }

    fn make(&mut self, parent: InodeNo, name: &[u8], file: &NewFile<'_>, now: Time) -> Result<Attributes> {
        let inode = self.volume.operation(now, |volume| volume.make_file(parent, name, file, now))?;
        self.volume.attributes(&inode)
    }

    fn link(&mut self, inode: InodeNo, parent: InodeNo, name: &[u8], now: Time) -> Result<Attributes> {
        let inode = self.volume.operation(now, |volume| volume.link_file(inode, parent, name, now))?;
        self.volume.attributes(&inode)
    }

    fn unlink(&mut self, parent: InodeNo, name: &[u8], now: Time) -> Result<()> {
        let goes_on = self.volume.operation(now, |volume| volume.unlink_name(parent, name, false, now))?;
        self.finish(goes_on, now)
    }

    fn rmdir(&mut self, parent: InodeNo, name: &[u8], now: Time) -> Result<()> {
        let goes_on = self.volume.operation(now, |volume| volume.unlink_name(parent, name, true, now))?;
        self.finish(goes_on, now)
    }

    fn rename(
        &mut self,
        parent: InodeNo,
        name: &[u8],
        new_parent: InodeNo,
        new_name: &[u8],
        flags: RenameFlags,
        now: Time,
    ) -> Result<()> {
        let goes_on = self.volume.operation(now, |volume| {
            volume.rename_name((parent, name), (new_parent, new_name), flags, now)
        })?;
        self.finish(goes_on, now)
    }

    fn read(&mut self, inode: InodeNo, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let inode = self.readable(inode)?;
        match inode.kind() {
            Some(FileKind::Regular) => self.volume.read_file(&inode, offset, buf),
            Some(FileKind::Directory) => Err(Errno::IsDirectory),
            _ => Err(Errno::Invalid),
        }
    }

    fn write(&mut self, inode: InodeNo, offset: u64, bytes: &[u8], now: Time) -> Result<usize> {
        self.volume.check_writable()?;
        self.volume.write_file(inode, offset, bytes, now)
    }

    fn allocate(&mut self, inode: InodeNo, offset: u64, len: u64, how: Allocation, now: Time) -> Result<()> {
        self.volume.check_writable()?;
        self.volume.allocate_range(inode, offset, len, how, now)
    }

    fn punch(&mut self, inode: InodeNo, offset: u64, len: u64, now: Time) -> Result<()> {
        self.volume.check_writable()?;
        self.volume.punch_range(inode, offset, len, now)
    }

    fn flags(&mut self, inode: InodeNo) -> Result<FileFlags> {
        let inode = self.readable(inode)?;
        Ok(inode_flags::shown(&inode))
    }

    fn set_flags(&mut self, inode: InodeNo, flags: FileFlags, now: Time) -> Result<()> {
        self.volume.operation(now, |volume| {
            let mut inode = volume.load(inode)?;
            inode_flags::set(&mut inode, flags)?;
            inode.set_ctime(now);
            volume.save(&mut inode)
        })
    }

    fn extents(&mut self, inode: InodeNo, offset: u64, max: usize) -> Result<Vec<Extent>> {
        let inode = self.readable(inode)?;
        self.volume.list_extents(&inode, offset, max)
    }

    fn readdir(
        &mut self,
        inode: InodeNo,
        cookie: u64,
        visit: &mut dyn FnMut(&DirEntry<'_>) -> Visit,
    ) -> Result<()> {
        self.volume.check_mounted()?;
        let directory = self.volume.load_directory(inode)?;
        self.volume.show(&directory, cookie, visit)
    }

    fn readlink(&mut self, inode: InodeNo) -> Result<Vec<u8>> {
        let inode = self.readable(inode)?;
        self.volume.target_of(&inode)
    }

    fn getxattr(&mut self, inode: InodeNo, name: &[u8]) -> Result<Vec<u8>> {
        let inode = self.readable(inode)?;
        self.volume.attribute(&inode, name)
    }

    fn setxattr(
        &mut self,
        inode: InodeNo,
        name: &[u8],
        value: &[u8],
        how: AttributeWrite,
        now: Time,
    ) -> Result<()> {
        self.volume.operation(now, |volume| {
            let mut inode = volume.load(inode)?;
            if inode.raw.has_flag(InodeFlags::IMMUTABLE) || inode.raw.has_flag(InodeFlags::APPEND) {
                return Err(Errno::NotPermitted);
            }
            match Kind::of_name(name) {
                Some(kind) => volume.set_list(&mut inode, kind, value, how, now)?,
                None => volume.change_attribute(&mut inode, name, Some(value), how, now)?,
            }
            volume.save(&mut inode)
        })
    }

    fn listxattr(&mut self, inode: InodeNo) -> Result<Vec<Vec<u8>>> {
        let inode = self.readable(inode)?;
        self.volume.attribute_names(&inode)
    }

    fn removexattr(&mut self, inode: InodeNo, name: &[u8], now: Time) -> Result<()> {
        self.volume.operation(now, |volume| {
            let mut inode = volume.load(inode)?;
            if inode.raw.has_flag(InodeFlags::IMMUTABLE) || inode.raw.has_flag(InodeFlags::APPEND) {
                return Err(Errno::NotPermitted);
            }
            volume.change_attribute(&mut inode, name, None, AttributeWrite::Any, now)?;
            volume.save(&mut inode)
        })
    }

    fn act_for(&mut self, caller: Caller) {
        self.volume.caller = caller;
    }

    fn statfs(&mut self) -> Result<FileSystemSpace> {
        self.volume.check_mounted()?;
        let regions_free = self.volume.regions_free()?;
        let volume = &self.volume;
        let free = volume.totals.free_blocks.saturating_sub(regions_free);
        Ok(FileSystemSpace {
            block_size: volume.geometry.block_size,
            blocks: volume.geometry.blocks_count.saturating_sub(volume.overhead),
            blocks_free: free,
            blocks_available: volume.reserve.left_of(free),
            inodes: u64::from(volume.geometry.inodes_count),
            inodes_free: volume.totals.free_inodes,
            name_len_max: width::len_u32(NAME_MAX),
            metadata_blocks: volume.regions.blocks(),
            metadata_blocks_free: regions_free,
        })
    }

    fn hold(&mut self, inode: InodeNo) -> Result<()> {
        self.volume.check_mounted()?;
        self.volume.hold(inode)
    }

    fn release(&mut self, inode: InodeNo, count: u64, now: Time) -> Result<()> {
        self.volume.check_mounted()?;
        self.volume.release(inode, count, now)
    }

    fn fsync(&mut self, inode: InodeNo, _data_only: bool, now: Time) -> Result<()> {
        self.readable(inode)?;
        self.sync(now)
    }

    fn sync(&mut self, now: Time) -> Result<()> {
        self.volume.check_mounted()?;
        if self.volume.check_writable() == Err(Errno::ReadOnly) {
            return Ok(());
        }
        self.volume.check_writable()?;
        self.volume.sync(now)
    }

    fn unmount(&mut self, now: Time) -> Result<()> {
        self.volume.unmount(now)
    }

    fn trouble(&self) -> Option<&str> {
        self.volume.cache.trouble()
    }
}
