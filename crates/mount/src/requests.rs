// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel asks for, request by request.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use fsmend_base::width;
use fsmend_vfs::{FileSystem, FileSystemSpace, NewKind, SetAttributes, Time};
use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use crate::allocate::fallocate;
use crate::attributes::{how_to_write, list, sized, value_of};
use crate::convert::{file_type, new_kind, no_attributes, set_time};
use crate::privileges::{after_change, drop_privileges};
use crate::seek::{entries, next_data, next_hole};
use crate::server::{Answer, BELIEVE, Opens, Server, WISHES, WRITE_BYTES_MAX};
use crate::{Event, flags};

// lseek(2), whose numbers reach us as they are.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

thread_local! {
    /// What is read goes through here: at most as many bytes as one request can ask for.
    static CONTENTS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn empty(answer: Answer<()>, reply: ReplyEmpty) {
    match answer {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // What the kernel does not know it goes without.
        let _ = config.set_max_write(WRITE_BYTES_MAX);
        for wish in WISHES {
            let _ = config.add_capabilities(wish);
        }
        // Both or none: the umask must not be applied where a default list is.
        self.obeys_lists =
            config.add_capabilities(InitFlags::FUSE_POSIX_ACL | InitFlags::FUSE_DONT_MASK).is_ok();
        // Otherwise it asks for an attribute (`security.capability`) before each write, and for the mode before each change of owner.
        self.drops_privileges = config.add_capabilities(InitFlags::FUSE_HANDLE_KILLPRIV_V2).is_ok();
        self.late_writes =
            self.wants_late_writes && config.add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE).is_ok();
        // It holds what it has looked up, so that it need not tell us what it opens: fewer requests.
        self.opens = Opens {
            files: !config.capabilities().contains(InitFlags::FUSE_NO_OPEN_SUPPORT),
            directories: !config.capabilities().contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT),
        };
        Ok(())
    }

    fn destroy(&mut self) {
        // The caller may be gone.
        let _ = self.events.send(Event::Gone);
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.inode(parent).and_then(|parent| {
            self.look(|fs| {
                let found = fs.lookup(parent, name.as_bytes())?;
                fs.hold(found.inode)?;
                Ok(found)
            })
        });
        match found {
            Err(error) if error.code() == Errno::ENOENT.code() => {
                reply.entry(&BELIEVE, &no_attributes(), Generation(0));
            }
            found => self.entry(found, reply),
        }
    }

    fn forget(&self, _: &Request, node: INodeNo, count: u64) {
        // There is no answer to it. What goes wrong with the file is noted as trouble.
        let _ = self.let_go(node, count);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.inode(node).and_then(|inode| self.look(|fs| fs.getattr(inode))) {
            Ok(of) => reply.attr(&BELIEVE, &self.attr(&of)),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        who: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = SetAttributes {
            mode: mode.map(|mode| (mode & 0o7777) as u16),
            uid,
            gid,
            size,
            atime: atime.map(set_time),
            mtime: mtime.map(set_time),
            crtime: None,
        };
        let changed = self.inode(node).and_then(|inode| {
            self.change_for(who, |fs, now| {
                let changes = match self.drops_privileges {
                    true => after_change(fs, inode, changes, who.uid())?,
                    false => changes,
                };
                fs.setattr(inode, &changes, now)
            })
        });
        match changed {
            Ok(of) => reply.attr(&BELIEVE, &self.attr(&of)),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        match self.inode(node).and_then(|inode| self.look(|fs| fs.readlink(inode))) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        who: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let made = match new_kind(mode, rdev) {
            Some(kind) => self.make(who, parent, name, kind, (mode, umask)),
            None => Err(Errno::EINVAL),
        };
        self.entry(made, reply);
    }

    fn mkdir(&self, who: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        self.entry(self.make(who, parent, name, NewKind::Directory, (mode, umask)), reply);
    }

    fn symlink(&self, who: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = NewKind::Symlink(target.as_os_str().as_bytes());
        self.entry(self.make(who, parent, name, target, (0o777, 0)), reply);
    }

    fn unlink(&self, who: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let gone = self
            .inode(parent)
            .and_then(|parent| self.change_for(who, |fs, now| fs.unlink(parent, name.as_bytes(), now)));
        empty(gone, reply);
    }

    fn rmdir(&self, who: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let gone = self
            .inode(parent)
            .and_then(|parent| self.change_for(who, |fs, now| fs.rmdir(parent, name.as_bytes(), now)));
        empty(gone, reply);
    }

    fn rename(
        &self,
        who: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = || {
            let how = if flags.is_empty() {
                fsmend_vfs::RenameFlags::Replace
            } else if flags == RenameFlags::RENAME_NOREPLACE {
                fsmend_vfs::RenameFlags::NoReplace
            } else if flags == RenameFlags::RENAME_EXCHANGE {
                fsmend_vfs::RenameFlags::Exchange
            } else if flags == RenameFlags::RENAME_WHITEOUT {
                fsmend_vfs::RenameFlags::Whiteout
            } else {
                return Err(Errno::EINVAL);
            };
            let (from, to) = (self.inode(parent)?, self.inode(new_parent)?);
            self.change_for(who, |fs, now| {
                fs.rename(from, name.as_bytes(), to, new_name.as_bytes(), how, now)
            })
        };
        empty(renamed(), reply);
    }

    fn link(&self, who: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked = || {
            let (inode, parent) = (self.inode(node)?, self.inode(parent)?);
            self.change_for(who, |fs, now| {
                let linked = fs.link(inode, parent, name.as_bytes(), now)?;
                fs.hold(inode)?;
                Ok(linked)
            })
        };
        self.entry(linked(), reply);
    }

    fn open(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.open_file(node, self.opens.files, reply);
    }

    fn create(
        &self,
        who: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        if !self.opens.files {
            // It uses mknod from now on, and tells us nothing when it closes the file.
            return reply.error(Errno::ENOSYS);
        }
        let made = self.make(who, parent, name, NewKind::Regular, (mode, umask)).and_then(|of| {
            self.look(|fs| fs.hold(of.inode))?;
            Ok(of)
        });
        match made {
            Ok(of) => {
                let generation = Generation(u64::from(of.generation));
                let flags = FopenFlags::FOPEN_KEEP_CACHE;
                reply.created(&BELIEVE, &self.attr(&of), generation, FileHandle(0), flags);
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        CONTENTS.with_borrow_mut(|room| {
            let size = size as usize;
            if room.len() < size {
                room.resize(size, 0);
            }
            let bytes = &mut room[..size];
            match self.inode(node).and_then(|inode| self.look(|fs| fs.read(inode, offset, bytes))) {
                Ok(read) => reply.data(bytes.get(..read).unwrap_or_default()),
                Err(error) => reply.error(error),
            }
        });
    }

    fn write(
        &self,
        who: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        how: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.inode(node).and_then(|inode| {
            self.change_for(who, |fs, now| {
                if how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
                    drop_privileges(fs, inode, now)?;
                }
                fs.write(inode, offset, bytes, now)
            })
        });
        match written {
            // As many as came in one request, which are few.
            Ok(written) => reply.written(width::len_u32(written)),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Nothing is to be done when a file is closed; the kernel will not ask again.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        empty(self.let_go(node, 1), reply);
    }

    fn fsync(&self, _: &Request, node: INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let durable =
            self.inode(node).and_then(|inode| self.change(|fs, now| fs.fsync(inode, data_only, now)));
        empty(durable, reply);
    }

    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.open_file(node, self.opens.directories, reply);
    }

    fn readdir(&self, _: &Request, node: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        match self.inode(node).and_then(|inode| self.look(|fs| entries(fs, inode, offset))) {
            Ok(entries) => {
                for entry in entries {
                    let name = OsStr::from_bytes(&entry.name);
                    if reply.add(INodeNo(entry.number), entry.cookie, file_type(entry.kind), name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let added = self.inode(node).and_then(|inode| {
            self.look(|fs| {
                for entry in entries(fs, inode, offset)? {
                    if !self.add_with_attributes(fs, &entry, &mut reply)? {
                        break;
                    }
                }
                Ok(())
            })
        });
        match added {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(&self, _: &Request, node: INodeNo, _: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        empty(self.let_go(node, 1), reply);
    }

    fn fsyncdir(&self, who: &Request, node: INodeNo, file: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.fsync(who, node, file, data_only, reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.look(|fs| fs.statfs()) {
            Ok(space) => {
                let FileSystemSpace { block_size, blocks, blocks_free, blocks_available, .. } = space;
                let (inodes, inodes_free, name_len) = (space.inodes, space.inodes_free, space.name_len_max);
                reply.statfs(
                    blocks,
                    blocks_free,
                    blocks_available,
                    inodes,
                    inodes_free,
                    block_size,
                    name_len,
                    block_size,
                );
            }
            Err(error) => reply.error(error),
        }
    }

    fn setxattr(
        &self,
        who: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let set = || {
            let name = name.as_bytes();
            let how = how_to_write(name, flags, self.obeys_lists)?;
            let inode = self.inode(node)?;
            self.change_for(who, |fs, now| fs.setxattr(inode, name, value, how, now))
        };
        empty(set(), reply);
    }

    fn getxattr(&self, _: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let value = self.inode(node).and_then(|inode| self.look(|fs| fs.getxattr(inode, name.as_bytes())));
        sized(value_of(name.as_bytes(), value), size, reply);
    }

    fn listxattr(&self, _: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.inode(node).and_then(|inode| self.look(|fs| fs.listxattr(inode)));
        sized(names.map(list), size, reply);
    }

    fn removexattr(&self, who: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self
            .inode(node)
            .and_then(|inode| self.change_for(who, |fs, now| fs.removexattr(inode, name.as_bytes(), now)));
        empty(removed, reply);
    }

    fn fallocate(
        &self,
        who: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let allocated = self.inode(node).and_then(|inode| {
            self.change_for(who, |fs, now| fallocate(fs, inode, (offset, length), mode, now))
        });
        empty(allocated, reply);
    }

    fn ioctl(
        &self,
        who: &Request,
        node: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        request: u32,
        argument: &[u8],
        _room: u32,
        reply: ReplyIoctl,
    ) {
        let answered = self.inode(node).and_then(|inode| {
            let answer =
                |fs: &mut dyn FileSystem, now| flags::answer(fs, inode, request, argument, now).transpose();
            match flags::is_change(request) {
                true => self.change_for(who, answer),
                false => self.look(|fs| answer(fs, Time::default())),
            }
        });
        match answered {
            Ok(Some(bytes)) => reply.ioctl(0, &bytes),
            Ok(None) => reply.error(Errno::ENOTTY),
            Err(error) => reply.error(error),
        }
    }

    fn lseek(&self, _: &Request, node: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        if self.late_writes {
            // What the kernel has not sent yet is data too; it takes the whole file for data from now on.
            return reply.error(Errno::ENOSYS);
        }
        let found = || {
            let inode = self.inode(node)?;
            let from = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
            let found = match whence {
                SEEK_DATA => self.look(|fs| next_data(fs, inode, from))?,
                SEEK_HOLE => self.look(|fs| next_hole(fs, inode, from))?,
                _ => return Err(Errno::EINVAL),
            };
            found.and_then(|found| i64::try_from(found).ok()).ok_or(Errno::ENXIO)
        };
        match found() {
            Ok(found) => reply.offset(found),
            Err(error) => reply.error(error),
        }
    }
}
