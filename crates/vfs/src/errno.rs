// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why an operation failed: the few reasons of POSIX that a file system has.

use std::fmt;

/// What operations return.
pub type Result<T> = std::result::Result<T, Errno>;

/// Why an operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Errno {
    /// There is no such name, or no such inode.
    NotFound,
    /// The name exists already.
    Exists,
    /// It is not a directory.
    NotDirectory,
    /// It is a directory.
    IsDirectory,
    /// The directory is not empty.
    NotEmpty,
    /// The arguments make no sense, such as moving a directory into itself.
    Invalid,
    /// The name is too long.
    NameTooLong,
    /// There is no room left: no blocks, no inodes, or no room for an attribute.
    NoSpace,
    /// The quota is used up.
    OverQuota,
    /// The file would be larger than the format can say.
    TooLarge,
    /// The inode has as many names as the format can count.
    TooManyLinks,
    /// A name may not come from there to here without the file being copied (projects of quotas).
    OtherProject,
    /// The file system is mounted for reading only.
    ReadOnly,
    /// The file may not be changed (immutable, append-only).
    NotPermitted,
    /// The file system cannot do that.
    NotSupported,
    /// There is no such attribute.
    NoAttribute,
    /// An attribute value that is larger than the format can hold.
    ValueTooLarge,
    /// The device failed.
    Io,
    /// What stands on the device cannot be.
    Corrupt,
    /// The file system has been unmounted.
    NotMounted,
}

impl Errno {
    /// The number that Linux has for it.
    pub fn code(self) -> i32 {
        match self {
            Errno::NotPermitted => 1,
            Errno::NotFound => 2,
            Errno::Io | Errno::NotMounted => 5,
            Errno::Exists => 17,
            Errno::OtherProject => 18,
            Errno::NotDirectory => 20,
            Errno::IsDirectory => 21,
            Errno::Invalid => 22,
            Errno::TooLarge => 27,
            Errno::NoSpace => 28,
            Errno::ReadOnly => 30,
            Errno::TooManyLinks => 31,
            Errno::NameTooLong => 36,
            Errno::NotEmpty => 39,
            Errno::NoAttribute => 61,
            Errno::ValueTooLarge => 7,
            Errno::NotSupported => 95,
            Errno::Corrupt => 117,
            Errno::OverQuota => 122,
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Errno::NotFound => "no such file or directory",
            Errno::Exists => "file exists",
            Errno::NotDirectory => "not a directory",
            Errno::IsDirectory => "is a directory",
            Errno::NotEmpty => "directory not empty",
            Errno::Invalid => "invalid argument",
            Errno::NameTooLong => "file name too long",
            Errno::NoSpace => "no space left",
            Errno::OverQuota => "disk quota exceeded",
            Errno::OtherProject => "belongs to another project",
            Errno::TooLarge => "file too large",
            Errno::TooManyLinks => "too many links",
            Errno::ReadOnly => "read-only file system",
            Errno::NotPermitted => "operation not permitted",
            Errno::NotSupported => "not supported",
            Errno::NoAttribute => "no such attribute",
            Errno::ValueTooLarge => "attribute value too large",
            Errno::Io => "the device failed",
            Errno::Corrupt => "the file system is damaged",
            Errno::NotMounted => "not mounted any more",
        })
    }
}

impl std::error::Error for Errno {}
