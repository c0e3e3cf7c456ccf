// SPDX-License-Identifier: MIT OR Apache-2.0
//! What goes in and out of the operations.

use fsmend_base::InodeNo;

/// A moment: seconds since 1970 (negative before), and nanoseconds after that, below 1 000 000 000.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Time {
    /// Seconds since the beginning of 1970, UTC.
    pub seconds: i64,
    /// Nanoseconds after the second.
    pub nanoseconds: u32,
}

impl Time {
    /// The beginning of a second.
    pub fn at(seconds: i64) -> Self {
        Time { seconds, nanoseconds: 0 }
    }
}

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl FileKind {
    /// The bits of `st_mode` that mean it.
    pub fn mode_bits(self) -> u16 {
        match self {
            FileKind::Fifo => 0o010000,
            FileKind::CharDevice => 0o020000,
            FileKind::Directory => 0o040000,
            FileKind::BlockDevice => 0o060000,
            FileKind::Regular => 0o100000,
            FileKind::Symlink => 0o120000,
            FileKind::Socket => 0o140000,
        }
    }

    /// The kind that the type bits of `mode` mean, if there is such a kind.
    pub fn of_mode(mode: u16) -> Option<FileKind> {
        [
            FileKind::Fifo,
            FileKind::CharDevice,
            FileKind::Directory,
            FileKind::BlockDevice,
            FileKind::Regular,
            FileKind::Symlink,
            FileKind::Socket,
        ]
        .into_iter()
        .find(|kind| kind.mode_bits() == mode & 0o170000)
    }
}

/// The number of a device node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct DeviceNumber {
    /// Which driver.
    pub major: u32,
    /// Which of its devices.
    pub minor: u32,
}

/// Owner and permission bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Permissions {
    /// The low twelve bits of the mode: permissions, set-user-id, set-group-id, sticky.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// A file to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewFile<'a> {
    /// What it is.
    pub kind: NewKind<'a>,
    /// Whose it is.
    pub of: Permissions,
}

/// What a file to be made is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewKind<'a> {
    /// An empty regular file.
    Regular,
    /// An empty directory.
    Directory,
    /// A symbolic link to there.
    Symlink(&'a [u8]),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice(DeviceNumber),
    /// A block device.
    BlockDevice(DeviceNumber),
}

impl NewKind<'_> {
    /// The kind without its contents.
    pub fn kind(&self) -> FileKind {
        match self {
            NewKind::Regular => FileKind::Regular,
            NewKind::Directory => FileKind::Directory,
            NewKind::Symlink(_) => FileKind::Symlink,
            NewKind::Fifo => FileKind::Fifo,
            NewKind::Socket => FileKind::Socket,
            NewKind::CharDevice(_) => FileKind::CharDevice,
            NewKind::BlockDevice(_) => FileKind::BlockDevice,
        }
    }
}

/// What is known about an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Its number.
    pub inode: InodeNo,
    /// Counted up when a number is used again.
    pub generation: u32,
    /// What it is.
    pub kind: FileKind,
    /// Whose it is, and who may do what.
    pub of: Permissions,
    /// Names that lead to it.
    pub links: u32,
    /// Length in bytes.
    pub size: u64,
    /// Room that it takes, maps and attributes included, in units of 512 bytes.
    pub blocks_512: u64,
    /// The device, for device nodes.
    pub device: DeviceNumber,
    /// Last read.
    pub atime: Time,
    /// Last written.
    pub mtime: Time,
    /// Last changed in any way.
    pub ctime: Time,
    /// When it was made, where the format says so.
    pub crtime: Option<Time>,
}

/// A time to be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTime {
    /// To the time of the operation.
    Now,
    /// To this one.
    To(Time),
}

impl SetTime {
    /// The time that an operation at `now` sets.
    pub fn at(self, now: Time) -> Time {
        match self {
            SetTime::Now => now,
            SetTime::To(time) => time,
        }
    }
}

/// What is to be changed about an inode; `None` leaves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetAttributes {
    /// The low twelve bits of the mode.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length; regular files only.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<SetTime>,
    /// Last written.
    pub mtime: Option<SetTime>,
    /// When it was made, where the format can say so (ignored elsewhere).
    pub crtime: Option<Time>,
}

/// What is to happen when a rename meets a file under the new name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RenameFlags {
    /// It is replaced, where kinds allow: files by files, empty directories by directories.
    #[default]
    Replace,
    /// The rename fails ([`Errno::Exists`](crate::Errno::Exists)).
    NoReplace,
    /// Both change names; both have to exist.
    Exchange,
    /// It is replaced, and a character device 0:0 takes the old name (overlay file systems hide a lower file that way).
    Whiteout,
}

/// How blocks without data are to be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// They read as zeroes; the file becomes as long as the range reaches if it was shorter. [`Errno::NotSupported`](crate::Errno::NotSupported) where
    /// the format cannot say that a block was never written.
    Unwritten,
    /// The same, but the length of the file stays.
    UnwrittenKeepSize,
    /// They count as written although nothing was: what is read is what happens to stand on the device. For laboratories, which
    /// fill terabytes in minutes that way, and for no other use.
    Claimed,
}

/// A run of a file that lies in one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First byte of the file.
    pub offset: u64,
    /// First byte on the device; 0 if the driver has not chosen a place yet.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    /// Allocated, but never written: reads as zeroes.
    pub unwritten: bool,
}

/// How an attribute is to be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AttributeWrite {
    /// Whether there is one or not.
    #[default]
    Any,
    /// Only if there is none.
    Create,
    /// Only if there is one.
    Replace,
}

/// An entry of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirEntry<'a> {
    /// Where it leads to.
    pub inode: InodeNo,
    /// What that is, where the entry says so.
    pub kind: Option<FileKind>,
    /// Its name.
    pub name: &'a [u8],
    /// Begin here to see what follows it.
    pub cookie: u64,
}

/// Whether the visitor of a directory wants more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visit {
    /// The entry was taken; the next one, please.
    More,
    /// The entry was not taken, and that is all.
    Full,
}

/// On whose behalf something is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// User; 0 is the superuser.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits that new files do not get, unless the directory has a default access control list.
    pub umask: u16,
}

impl Caller {
    /// May do everything.
    pub const SUPERUSER: Caller = Caller { uid: 0, gid: 0, umask: 0 };
}

/// Flags of an inode that users see and change (chattr, lsattr), with the project it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileFlags {
    /// The bits of `FS_IOC_GETFLAGS`, such as [`FileFlags::IMMUTABLE`].
    pub bits: u32,
    /// The project for quotas; 0 where the format has none.
    pub project: u32,
}

impl FileFlags {
    /// Writes are synchronous.
    pub const SYNC: u32 = 0x8;
    /// Nothing of the file may be changed.
    pub const IMMUTABLE: u32 = 0x10;
    /// Data can only be appended.
    pub const APPEND: u32 = 0x20;
    /// Backups leave the file out.
    pub const NO_DUMP: u32 = 0x40;
    /// The access time is not updated.
    pub const NO_ATIME: u32 = 0x80;
    /// What is made in the directory belongs to its project.
    pub const PROJECT_INHERIT: u32 = 0x2000_0000;
}

/// How much room there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileSystemSpace {
    /// Bytes in a block.
    pub block_size: u32,
    /// Blocks for files, without what the format itself takes.
    pub blocks: u64,
    /// Of these, free ones.
    pub blocks_free: u64,
    /// Of the free ones, those that others than the superuser may take.
    pub blocks_available: u64,
    /// Inodes.
    pub inodes: u64,
    /// Of these, free ones.
    pub inodes_free: u64,
    /// Longest name in bytes.
    pub name_len_max: u32,
    /// Blocks that are set apart for maps and directories, where the format sets some apart; else 0. They are not among
    /// `blocks`, nor are free ones among them among `blocks_free`. Where they are used up, there is no space for what needs one of them.
    pub metadata_blocks: u64,
    /// Of these, free ones.
    pub metadata_blocks_free: u64,
}
