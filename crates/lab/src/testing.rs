// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file system that only counts, for the tests of workloads.

use std::collections::BTreeMap;

use fsmend_vfs::{
    Allocation, AttributeWrite, Attributes, DeviceNumber, DirEntry, Errno, Extent, FileKind, FileSystem,
    FileSystemSpace, InodeNo, NewFile, RenameFlags, Result, SetAttributes, Time, Visit,
};

const BLOCK: u64 = 4096;

/// Names, lengths and free blocks, and a log of what was done.
pub(crate) struct Fake {
    blocks: u64,
    used: u64,
    next: u32,
    names: BTreeMap<(u32, Vec<u8>), u32>,
    lens: BTreeMap<u32, u64>,
    /// One line for each change and each read.
    pub log: Vec<String>,
}

impl Fake {
    pub fn new(blocks: u64) -> Self {
        Fake { blocks, used: 0, next: 10, names: BTreeMap::new(), lens: BTreeMap::new(), log: Vec::new() }
    }

    fn attributes(&self, inode: InodeNo) -> Result<Attributes> {
        let size = *self.lens.get(&inode.0).ok_or(Errno::NotFound)?;
        Ok(Attributes {
            inode,
            generation: 0,
            kind: FileKind::Regular,
            of: Default::default(),
            links: 1,
            size,
            blocks_512: size.div_ceil(512),
            device: DeviceNumber::default(),
            atime: Time::default(),
            mtime: Time::default(),
            ctime: Time::default(),
            crtime: None,
        })
    }

    /// Gives a file a length; that which there was room for.
    fn resize(&mut self, inode: InodeNo, len: u64) -> Result<u64> {
        let old = *self.lens.get(&inode.0).ok_or(Errno::NotFound)?;
        let room = (self.blocks - self.used + old.div_ceil(BLOCK)) * BLOCK;
        let len = len.min(room);
        self.used = self.used + len.div_ceil(BLOCK) - old.div_ceil(BLOCK);
        self.lens.insert(inode.0, len);
        self.log.push(format!("{} is {len}", inode.0));
        Ok(len)
    }
}

impl FileSystem for Fake {
    fn root(&self) -> InodeNo {
        InodeNo(2)
    }

    fn lookup(&mut self, parent: InodeNo, name: &[u8]) -> Result<Attributes> {
        let inode = *self.names.get(&(parent.0, name.to_vec())).ok_or(Errno::NotFound)?;
        self.attributes(InodeNo(inode))
    }

    fn getattr(&mut self, inode: InodeNo) -> Result<Attributes> {
        self.attributes(inode)
    }

    fn setattr(&mut self, inode: InodeNo, changes: &SetAttributes, _now: Time) -> Result<Attributes> {
        if let Some(size) = changes.size {
            self.resize(inode, size)?;
        }
        self.attributes(inode)
    }

    fn make(&mut self, parent: InodeNo, name: &[u8], _file: &NewFile<'_>, _now: Time) -> Result<Attributes> {
        let inode = self.next;
        if self.names.insert((parent.0, name.to_vec()), inode).is_some() {
            return Err(Errno::Exists);
        }
        self.next += 1;
        self.lens.insert(inode, 0);
        self.log.push(format!("{} in {}", String::from_utf8_lossy(name), parent.0));
        self.attributes(InodeNo(inode))
    }

    fn link(&mut self, _: InodeNo, _: InodeNo, _: &[u8], _: Time) -> Result<Attributes> {
        Err(Errno::NotSupported)
    }

    fn unlink(&mut self, parent: InodeNo, name: &[u8], _now: Time) -> Result<()> {
        let inode = self.names.remove(&(parent.0, name.to_vec())).ok_or(Errno::NotFound)?;
        self.log.push(format!("{} out of {}", String::from_utf8_lossy(name), parent.0));
        self.resize(InodeNo(inode), 0)?;
        self.lens.remove(&inode);
        Ok(())
    }

    fn rmdir(&mut self, _: InodeNo, _: &[u8], _: Time) -> Result<()> {
        Err(Errno::NotSupported)
    }

    fn rename(&mut self, _: InodeNo, _: &[u8], _: InodeNo, _: &[u8], _: RenameFlags, _: Time) -> Result<()> {
        Err(Errno::NotSupported)
    }

    fn read(&mut self, inode: InodeNo, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let size = self.attributes(inode)?.size;
        self.log.push(format!("read {} at {offset}", inode.0));
        Ok(size.saturating_sub(offset).min(buf.len() as u64) as usize)
    }

    fn write(&mut self, inode: InodeNo, offset: u64, bytes: &[u8], _now: Time) -> Result<usize> {
        let end = offset + bytes.len() as u64;
        let size = self.attributes(inode)?.size;
        if end <= size {
            return Ok(bytes.len());
        }
        let got = self.resize(inode, end)?;
        if got <= offset { Err(Errno::NoSpace) } else { Ok((got - offset) as usize) }
    }

    fn allocate(&mut self, inode: InodeNo, offset: u64, len: u64, _: Allocation, _: Time) -> Result<()> {
        // As writing would do it, in pieces.
        let mut at = offset;
        while at < offset + len {
            let to = (at + crate::bench::PIECE as u64).min(offset + len);
            if self.resize(inode, to)? < to {
                return Err(Errno::NoSpace);
            }
            at = to;
        }
        Ok(())
    }

    fn extents(&mut self, _: InodeNo, _: u64, _: usize) -> Result<Vec<Extent>> {
        Err(Errno::NotSupported)
    }

    fn readdir(&mut self, _: InodeNo, _: u64, _: &mut dyn FnMut(&DirEntry<'_>) -> Visit) -> Result<()> {
        Err(Errno::NotSupported)
    }

    fn readlink(&mut self, _: InodeNo) -> Result<Vec<u8>> {
        Err(Errno::NotSupported)
    }

    fn getxattr(&mut self, _: InodeNo, _: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::NotSupported)
    }

    fn setxattr(&mut self, _: InodeNo, _: &[u8], _: &[u8], _: AttributeWrite, _: Time) -> Result<()> {
        Err(Errno::NotSupported)
    }

    fn listxattr(&mut self, _: InodeNo) -> Result<Vec<Vec<u8>>> {
        Err(Errno::NotSupported)
    }

    fn removexattr(&mut self, _: InodeNo, _: &[u8], _: Time) -> Result<()> {
        Err(Errno::NotSupported)
    }

    fn statfs(&mut self) -> Result<FileSystemSpace> {
        Ok(FileSystemSpace {
            block_size: BLOCK as u32,
            blocks: self.blocks,
            blocks_free: self.blocks - self.used,
            blocks_available: self.blocks - self.used,
            inodes: 1 << 30,
            inodes_free: 1 << 29,
            name_len_max: 255,
            ..FileSystemSpace::default()
        })
    }

    fn hold(&mut self, _: InodeNo) -> Result<()> {
        Ok(())
    }

    fn release(&mut self, _: InodeNo, _: u64, _: Time) -> Result<()> {
        Ok(())
    }

    fn fsync(&mut self, inode: InodeNo, _: bool, _: Time) -> Result<()> {
        self.log.push(format!("fsync {}", inode.0));
        Ok(())
    }

    fn sync(&mut self, _: Time) -> Result<()> {
        self.log.push("sync".to_owned());
        Ok(())
    }

    fn unmount(&mut self, _: Time) -> Result<()> {
        Ok(())
    }

    fn trouble(&self) -> Option<&str> {
        None
    }
}
