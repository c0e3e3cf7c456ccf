// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a mounted file system can do, for those who use one without asking which it is: a FUSE server, a workload laboratory, tests.
//!
//! Drivers implement [`FileSystem`]. It is a small trait on purpose:
//!
//! - Files are named by inode numbers; paths are the caller's business, and so are permissions ([`NewFile`] says who owns what is made).
//! - One thread at a time: everything that may change something takes `&mut self`. Reading does too, since it fills caches.
//! - Time is passed in ([`Time`]); a driver never looks at a clock. Reading changes no access time: a caller who wants that says so
//!   by [`FileSystem::setattr`].
//! - An operation has happened entirely, or failed and changed nothing; only [`FileSystem::write`] and [`FileSystem::allocate`] may have done a part.
//! - An inode lives as long as it has a name or is [held](FileSystem::hold).
//! - What was done is durable after [`FileSystem::sync`], [`FileSystem::fsync`] or [`FileSystem::unmount`], and in the order in which it was done before
//!   that, as far as the format has a journal.
//!
//! Names and attribute names are bytes, as on the disk.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod errno;
mod types;

pub use errno::{Errno, Result};
pub use types::{
    Allocation, AttributeWrite, Attributes, Caller, DeviceNumber, DirEntry, Extent, FileFlags, FileKind,
    FileSystemSpace, NewFile, NewKind, Permissions, RenameFlags, SetAttributes, SetTime, Time, Visit,
};

pub use fsmend_base::InodeNo;

/// A mounted file system.
pub trait FileSystem {
    /// The inode of the root directory.
    fn root(&self) -> InodeNo;

    /// The inode that `name` of the directory `parent` leads to. `.` and `..` are names like others.
    fn lookup(&mut self, parent: InodeNo, name: &[u8]) -> Result<Attributes>;

    /// What is known about an inode.
    fn getattr(&mut self, inode: InodeNo) -> Result<Attributes>;

    /// Changes what `changes` names and nothing else, but for the change time; a new size cuts the file or leaves a hole behind its end.
    fn setattr(&mut self, inode: InodeNo, changes: &SetAttributes, now: Time) -> Result<Attributes>;

    /// Makes a file of any kind under a name that must not exist. In a directory with the set-group-id bit the file gets the directory's
    /// group, and a directory the bit as well.
    fn make(&mut self, parent: InodeNo, name: &[u8], file: &NewFile<'_>, now: Time) -> Result<Attributes>;

    /// Makes an empty regular file.
    fn create(&mut self, parent: InodeNo, name: &[u8], of: Permissions, now: Time) -> Result<Attributes> {
        self.make(parent, name, &NewFile { kind: NewKind::Regular, of }, now)
    }

    /// Makes an empty directory.
    fn mkdir(&mut self, parent: InodeNo, name: &[u8], of: Permissions, now: Time) -> Result<Attributes> {
        self.make(parent, name, &NewFile { kind: NewKind::Directory, of }, now)
    }

    /// Makes a symbolic link that leads to `target`.
    fn symlink(
        &mut self,
        parent: InodeNo,
        name: &[u8],
        target: &[u8],
        of: Permissions,
        now: Time,
    ) -> Result<Attributes> {
        self.make(parent, name, &NewFile { kind: NewKind::Symlink(target), of }, now)
    }

    /// Gives a file that is no directory one more name.
    fn link(&mut self, inode: InodeNo, parent: InodeNo, name: &[u8], now: Time) -> Result<Attributes>;

    /// Takes a name away from a file that is no directory. The file goes with its last name, or when it is no longer held.
    fn unlink(&mut self, parent: InodeNo, name: &[u8], now: Time) -> Result<()>;

    /// Removes an empty directory.
    fn rmdir(&mut self, parent: InodeNo, name: &[u8], now: Time) -> Result<()>;

    /// Moves a name, over one that exists if `flags` do not say otherwise.
    fn rename(
        &mut self,
        parent: InodeNo,
        name: &[u8],
        new_parent: InodeNo,
        new_name: &[u8],
        flags: RenameFlags,
        now: Time,
    ) -> Result<()>;

    /// Reads from `offset` of a regular file; returns how many bytes, fewer than asked for only at the end of the file. Holes are zeroes.
    fn read(&mut self, inode: InodeNo, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Writes at `offset` of a regular file, which grows where it has to; returns how many bytes were written. That is
    /// fewer than asked for where the space ran out on the way, and never 0 for a write of something.
    fn write(&mut self, inode: InodeNo, offset: u64, bytes: &[u8], now: Time) -> Result<usize>;

    /// Gives a range of a regular file blocks without writing data, see [`Allocation`].
    fn allocate(&mut self, inode: InodeNo, offset: u64, len: u64, how: Allocation, now: Time) -> Result<()>;

    /// Makes a hole in a regular file: its blocks are free again, and it reads as zeroes. The length stays.
    /// [`Errno::NotSupported`] where the driver cannot do that.
    fn punch(&mut self, inode: InodeNo, offset: u64, len: u64, now: Time) -> Result<()> {
        let _ = (inode, offset, len, now);
        Err(Errno::NotSupported)
    }

    /// The flags of an inode.
    fn flags(&mut self, inode: InodeNo) -> Result<FileFlags> {
        let _ = inode;
        Err(Errno::NotSupported)
    }

    /// Sets the flags of an inode. Those that only the driver changes stay as they are; [`Errno::NotSupported`] for what the driver cannot keep.
    fn set_flags(&mut self, inode: InodeNo, flags: FileFlags, now: Time) -> Result<()> {
        let _ = (inode, flags, now);
        Err(Errno::NotSupported)
    }

    /// Where the contents of a file lie on the device, from byte `offset` of the file on, in order, at most `max` of them. Holes are left out. Contents that
    /// live among the metadata of the file are one run that begins where they do.
    fn extents(&mut self, inode: InodeNo, offset: u64, max: usize) -> Result<Vec<Extent>>;

    /// Shows the entries of a directory to `visit`, `.` and `..` among them, until it has seen enough. `cookie` is 0 to begin with, or that of the last entry
    /// seen, and stays good while entries come and go: what was there all the time is shown exactly once.
    fn readdir(
        &mut self,
        inode: InodeNo,
        cookie: u64,
        visit: &mut dyn FnMut(&DirEntry<'_>) -> Visit,
    ) -> Result<()>;

    /// Where a symbolic link leads to.
    fn readlink(&mut self, inode: InodeNo) -> Result<Vec<u8>>;

    /// The value of an extended attribute; `name` includes the prefix (`user.`). [`Errno::NoAttribute`] if there is none.
    fn getxattr(&mut self, inode: InodeNo, name: &[u8]) -> Result<Vec<u8>>;

    /// Sets an extended attribute.
    fn setxattr(
        &mut self,
        inode: InodeNo,
        name: &[u8],
        value: &[u8],
        how: AttributeWrite,
        now: Time,
    ) -> Result<()>;

    /// The names of all extended attributes, prefixes included.
    fn listxattr(&mut self, inode: InodeNo) -> Result<Vec<Vec<u8>>>;

    /// Removes an extended attribute.
    fn removexattr(&mut self, inode: InodeNo, name: &[u8], now: Time) -> Result<()>;

    /// From now on, operations are on behalf of `caller`: that decides on reserved room, and on the umask of new files. Until the first call, they are on
    /// behalf of the superuser. (Permissions have been checked before.)
    fn act_for(&mut self, caller: Caller) {
        let _ = caller;
    }

    /// How much room there is.
    fn statfs(&mut self) -> Result<FileSystemSpace>;

    /// Keeps an inode alive even without names (a program has it open, or remembers its number), until as many calls of
    /// [`FileSystem::release`] have followed.
    fn hold(&mut self, inode: InodeNo) -> Result<()>;

    /// Takes back `count` calls of [`FileSystem::hold`]. With the last one goes a file without names.
    fn release(&mut self, inode: InodeNo, count: u64, now: Time) -> Result<()>;

    /// Returns when the file's contents are durable, and everything about it that is needed to reach them; `data_only` lets times wait.
    fn fsync(&mut self, inode: InodeNo, data_only: bool, now: Time) -> Result<()>;

    /// Returns when everything is durable.
    fn sync(&mut self, now: Time) -> Result<()>;

    /// Makes everything durable and leaves the file system clean. Every call after it fails with [`Errno::NotMounted`], but for this one, which
    /// does nothing then. Files that are held without a name are removed.
    fn unmount(&mut self, now: Time) -> Result<()>;

    /// What went wrong first on the medium or in its contents, in words; [`Errno::Corrupt`] and [`Errno::Io`] say no more than that something did.
    fn trouble(&self) -> Option<&str>;
}
