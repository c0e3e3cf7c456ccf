// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver as a [`FileSystem`].

use std::sync::Arc;

use fsmend_base::width;
use fsmend_blockcache::MountState;
use fsmend_blockcache::names::NAME_MAX;
use fsmend_device::WritableDevice;
use fsmend_ufs_format::geometry::ROOT;
use fsmend_ufs_format::inode::{InodeFlags, Stamp};
use fsmend_vfs::{
    Allocation, AttributeWrite, Attributes, Caller, DirEntry, Errno, Extent, FileFlags, FileKind, FileSystem,
    FileSystemSpace, InodeNo, NewFile, RenameFlags, Result, SetAttributes, Time, Visit,
};

use crate::flags;
use crate::inode::Inode;
use crate::mount::{MountError, MountOptions};
use crate::volume::Volume;

/// A mounted UFS1 or UFS2.
pub struct Ufs {
    volume: Volume,
}

impl Ufs {
    /// Mounts what lies on `device`.
    pub fn mount(
        device: Arc<dyn WritableDevice>,
        options: MountOptions,
    ) -> std::result::Result<Ufs, MountError> {
        Volume::mount(device, options).map(|volume| Ufs { volume })
    }

    /// What the policy is called that says where blocks are wished for.
    pub fn policy_name(&self) -> &'static str {
        self.volume.policy.name()
    }

    /// What is on the file system that this mount does not obey, or does not keep up to date: sentences without a full stop.
    pub fn notes(&mut self) -> Vec<String> {
        self.volume.notes()
    }

    fn readable(&mut self, number: InodeNo) -> Result<Inode> {
        self.volume.check_mounted()?;
        self.volume.load(number)
    }
}

fn set_attributes(volume: &mut Volume, number: InodeNo, changes: &SetAttributes, now: Time) -> Result<Inode> {
    let mut inode = volume.load(number)?;
    if inode.raw.flags().contains(InodeFlags::IMMUTABLE) {
        return Err(Errno::NotPermitted);
    }
    if let Some(size) = changes.size {
        match inode.kind() {
            Some(FileKind::Regular) => volume.check_changeable(&inode)?,
            Some(FileKind::Directory) => return Err(Errno::IsDirectory),
            _ => return Err(Errno::Invalid),
        }
        inode.touch(now);
        volume.resize(&mut inode, size)?;
    }
    if let Some(mode) = changes.mode {
        let kind = inode.raw.file_type();
        inode.raw.set_mode(kind | mode & 0o7777);
    }
    if let Some(uid) = changes.uid {
        inode.raw.set_uid(uid);
    }
    if let Some(gid) = changes.gid {
        inode.raw.set_gid(gid);
    }
    if let Some(atime) = changes.atime {
        inode.set_time(Stamp::Access, atime.at(now));
    }
    if let Some(mtime) = changes.mtime {
        inode.set_time(Stamp::Modification, mtime.at(now));
    }
    if let Some(crtime) = changes.crtime
        && volume.geometry.version == fsmend_ufs_format::Version::Ufs2
    {
        inode.set_time(Stamp::Creation, crtime);
    }
    inode.set_time(Stamp::Change, now);
    volume.save(&mut inode)?;
    Ok(inode)
}

impl FileSystem for Ufs {
    fn root(&self) -> InodeNo {
        InodeNo(ROOT)
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
        let inode = self.volume.operation(now, |volume| set_attributes(volume, inode, changes, now))?;
        self.volume.attributes(&inode)
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
        self.volume.operation(now, |volume| volume.unlink_name(parent, name, false, now))
    }

    fn rmdir(&mut self, parent: InodeNo, name: &[u8], now: Time) -> Result<()> {
        self.volume.operation(now, |volume| volume.unlink_name(parent, name, true, now))
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
        self.volume
            .operation(now, |volume| volume.rename_name((parent, name), (new_parent, new_name), flags, now))
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
        match how {
            Allocation::Claimed => self.volume.claim(inode, offset, len, now),
            // Nothing says that a block was never written.
            Allocation::Unwritten | Allocation::UnwrittenKeepSize => Err(Errno::NotSupported),
        }
    }

    fn flags(&mut self, inode: InodeNo) -> Result<FileFlags> {
        let inode = self.readable(inode)?;
        Ok(flags::shown(&inode))
    }

    fn set_flags(&mut self, inode: InodeNo, flags: FileFlags, now: Time) -> Result<()> {
        self.volume.operation(now, |volume| {
            let mut inode = volume.load(inode)?;
            flags::set(&mut inode, flags)?;
            inode.set_time(Stamp::Change, now);
            volume.save(&mut inode)
        })
    }

    fn extents(&mut self, inode: InodeNo, offset: u64, max: usize) -> Result<Vec<Extent>> {
        let inode = self.readable(inode)?;
        self.volume.extents(&inode, offset, max)
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
            volume.check_changeable(&inode)?;
            inode.set_time(Stamp::Change, now);
            volume.change_attribute(&mut inode, name, Some(value), how)
        })
    }

    fn listxattr(&mut self, inode: InodeNo) -> Result<Vec<Vec<u8>>> {
        let inode = self.readable(inode)?;
        self.volume.attribute_names(&inode)
    }

    fn removexattr(&mut self, inode: InodeNo, name: &[u8], now: Time) -> Result<()> {
        self.volume.operation(now, |volume| {
            let mut inode = volume.load(inode)?;
            volume.check_changeable(&inode)?;
            inode.set_time(Stamp::Change, now);
            volume.change_attribute(&mut inode, name, None, AttributeWrite::Any)
        })
    }

    fn act_for(&mut self, caller: Caller) {
        self.volume.caller = caller;
    }

    fn statfs(&mut self) -> Result<FileSystemSpace> {
        self.volume.check_mounted()?;
        let (free, available) = self.volume.room();
        let geometry = &self.volume.geometry;
        let number = |value: i64| u64::try_from(value).unwrap_or(0);
        Ok(FileSystemSpace {
            block_size: u32::try_from(geometry.fragment_size).unwrap_or(u32::MAX),
            blocks: number(self.volume.superblock.dsize()),
            blocks_free: free,
            blocks_available: available,
            inodes: u64::from(geometry.inode_count()).saturating_sub(ROOT.into()),
            inodes_free: number(self.volume.groups.totals.free_inodes),
            name_len_max: width::len_u32(NAME_MAX),
            metadata_blocks: 0,
            metadata_blocks_free: 0,
        })
    }

    fn hold(&mut self, inode: InodeNo) -> Result<()> {
        self.readable(inode)?;
        self.volume.held.hold(inode);
        Ok(())
    }

    fn release(&mut self, inode: InodeNo, count: u64, now: Time) -> Result<()> {
        self.volume.check_mounted()?;
        if self.volume.held.release(inode, count)? {
            return self.volume.remove_if_nameless(inode, now);
        }
        Ok(())
    }

    fn fsync(&mut self, inode: InodeNo, _data_only: bool, now: Time) -> Result<()> {
        self.readable(inode)?;
        self.sync(now)
    }

    fn sync(&mut self, now: Time) -> Result<()> {
        self.volume.check_mounted()?;
        if self.volume.mode == MountState::ReadOnly {
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
