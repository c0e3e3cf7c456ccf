// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flags of inodes, which chattr and lsattr reach by ioctl(2).

use fsmend_base::InodeNo;
use fsmend_vfs::{Errno, FileFlags, FileSystem, Result, Time};

// Requests of ioctl(2), as `linux/fs.h` computes them; those with another size of the argument come from 32-bit programs.
const GET_FLAGS: [u32; 2] = [0x8008_6601, 0x8004_6601];
const SET_FLAGS: [u32; 2] = [0x4008_6602, 0x4004_6602];
const GET_VERSION: [u32; 2] = [0x8008_7601, 0x8004_7601];
const GET_XATTR: u32 = 0x801c_581f;
const SET_XATTR: u32 = 0x401c_5820;

/// `struct fsxattr`: five words and padding.
const XATTR_SIZE: usize = 28;
/// Where `fsx_projid` stands in it.
const PROJECT_AT: usize = 12;

/// Flags of inodes, and the bits that mean the same in `fsx_xflags`.
const SAME: [(u32, u32); 6] = [
    (FileFlags::IMMUTABLE, 0x8),
    (FileFlags::APPEND, 0x10),
    (FileFlags::SYNC, 0x20),
    (FileFlags::NO_ATIME, 0x40),
    (FileFlags::NO_DUMP, 0x80),
    (FileFlags::PROJECT_INHERIT, 0x200),
];
/// `FS_XFLAG_HASATTR`, which is only shown.
const HAS_ATTRIBUTES: u32 = 0x8000_0000;

/// Whether a request changes something.
pub(crate) fn is_change(request: u32) -> bool {
    SET_FLAGS.contains(&request) || request == SET_XATTR
}

/// Answers a request; `None` if it is none that a file system of this kind answers.
pub(crate) fn answer(
    fs: &mut dyn FileSystem,
    inode: InodeNo,
    request: u32,
    argument: &[u8],
    now: Time,
) -> Option<Result<Vec<u8>>> {
    Some(match request {
        _ if GET_FLAGS.contains(&request) => fs.flags(inode).map(|flags| word(flags.bits)),
        _ if SET_FLAGS.contains(&request) => set_flags(fs, inode, argument, now),
        _ if GET_VERSION.contains(&request) => fs.getattr(inode).map(|of| word(of.generation)),
        GET_XATTR => fs.flags(inode).map(shown),
        SET_XATTR => set_shown(fs, inode, argument, now),
        _ => return None,
    })
}

fn word(value: u32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

fn word_at(argument: &[u8], at: usize) -> Result<u32> {
    let bytes = argument.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map(|bytes| u32::from_ne_bytes(*bytes)).ok_or(Errno::Invalid)
}

fn set_flags(fs: &mut dyn FileSystem, inode: InodeNo, argument: &[u8], now: Time) -> Result<Vec<u8>> {
    let old = fs.flags(inode)?;
    let bits = word_at(argument, 0)?;
    fs.set_flags(inode, FileFlags { bits, ..old }, now).map(|()| Vec::new())
}

fn shown(flags: FileFlags) -> Vec<u8> {
    let xflags = SAME.iter().filter(|(bit, _)| flags.bits & bit != 0).fold(0, |all, (_, same)| all | same);
    let mut bytes = vec![0; XATTR_SIZE];
    bytes[..4].copy_from_slice(&xflags.to_ne_bytes());
    bytes[PROJECT_AT..PROJECT_AT + 4].copy_from_slice(&flags.project.to_ne_bytes());
    bytes
}

fn set_shown(fs: &mut dyn FileSystem, inode: InodeNo, argument: &[u8], now: Time) -> Result<Vec<u8>> {
    let (xflags, extent_size) = (word_at(argument, 0)?, word_at(argument, 4)?);
    let known = SAME.iter().fold(HAS_ATTRIBUTES, |all, (_, same)| all | same);
    if xflags & !known != 0 || extent_size != 0 {
        return Err(Errno::NotSupported);
    }
    let old = fs.flags(inode)?;
    let bits = SAME.iter().fold(old.bits, |bits, (bit, same)| match xflags & same {
        0 => bits & !bit,
        _ => bits | bit,
    });
    fs.set_flags(inode, FileFlags { bits, project: word_at(argument, PROJECT_AT)? }, now).map(|()| Vec::new())
}
