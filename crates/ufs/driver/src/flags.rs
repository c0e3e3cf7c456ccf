// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flags of files, as chattr and lsattr know them and as FreeBSD's chflags does.

use fsmend_ufs_format::inode::InodeFlags;
use fsmend_vfs::{Errno, FileFlags, Result};

use crate::inode::Inode;

/// The owner's flags that forbid changes: immutable, append-only.
pub(crate) const USER_FIXED: InodeFlags = InodeFlags::USER_IMMUTABLE.union(InodeFlags::USER_APPEND);

/// Pairs that mean the same.
const PAIRS: [(u32, InodeFlags); 3] = [
    (FileFlags::IMMUTABLE, InodeFlags::IMMUTABLE),
    (FileFlags::APPEND, InodeFlags::APPEND),
    (FileFlags::NO_DUMP, InodeFlags::NO_DUMP),
];

/// The flags of an inode.
pub(crate) fn shown(inode: &Inode) -> FileFlags {
    let stored = inode.raw.flags();
    let bits = PAIRS.iter().filter(|(_, own)| stored.intersects(*own)).map(|(shown, _)| shown);
    FileFlags { bits: bits.fold(0, |all, bit| all | bit), project: 0 }
}

/// Sets those flags of an inode that both sides know; the others stay. The caller saves it.
pub(crate) fn set(inode: &mut Inode, wanted: FileFlags) -> Result<()> {
    let known = PAIRS.iter().fold(0, |all, (shown, _)| all | shown);
    if wanted.bits & !known != 0 || wanted.project != 0 {
        return Err(Errno::NotSupported);
    }
    let mut stored = inode.raw.flags();
    for (shown, own) in PAIRS {
        stored.set(own, wanted.bits & shown != 0);
    }
    inode.raw.set_flags(stored);
    Ok(())
}
