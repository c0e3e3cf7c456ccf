// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flags of inodes that chattr and lsattr show. On the disk they have the numbers that programs see.

use fsmend_ext_format::inode::InodeFlags;
use fsmend_vfs::{Errno, FileFlags, Result};

use crate::inode::Inode;

/// `s` (secure deletion), `u` (undeletable), `c` (compressed), `t` (no tail merging): kept, without any meaning to this driver or the kernel's.
const WITHOUT_MEANING: u32 = 0x1 | 0x2 | 0x4 | 0x8000;
/// `D` (synchronous directory) and `T` (top of a directory tree).
const OF_DIRECTORIES: u32 = 0x1_0000 | 0x2_0000;
/// What users may change.
const CHANGEABLE: u32 = WITHOUT_MEANING
    | OF_DIRECTORIES
    | FileFlags::SYNC
    | FileFlags::IMMUTABLE
    | FileFlags::APPEND
    | FileFlags::NO_DUMP
    | FileFlags::NO_ATIME
    | FileFlags::PROJECT_INHERIT;
/// What users see besides.
const SHOWN: u32 = CHANGEABLE
    | InodeFlags::ENCRYPT.bits()
    | InodeFlags::INDEX.bits()
    | InodeFlags::JOURNAL_DATA.bits()
    | InodeFlags::HUGE_FILE.bits()
    | InodeFlags::EXTENTS.bits()
    | InodeFlags::VERITY.bits()
    | InodeFlags::INLINE_DATA.bits()
    | InodeFlags::CASEFOLD.bits();

/// The flags as users see them.
pub(crate) fn shown(inode: &Inode) -> FileFlags {
    FileFlags { bits: inode.raw.i_flags.get() & SHOWN, project: inode.raw.project() }
}

/// Sets what users may change. The caller saves the inode.
pub(crate) fn set(inode: &mut Inode, new: FileFlags) -> Result<()> {
    let old = inode.raw.i_flags.get();
    if (new.bits ^ old) & SHOWN & !CHANGEABLE != 0 || new.bits & !SHOWN != 0 {
        return Err(Errno::NotSupported);
    }
    // Another project would need its quota checked.
    if new.project != inode.raw.project() {
        return Err(Errno::NotSupported);
    }
    let only_directories = new.bits & OF_DIRECTORIES != 0 && !inode.is_directory();
    if only_directories {
        return Err(Errno::Invalid);
    }
    inode.raw.i_flags.set(old & !CHANGEABLE | new.bits & CHANGEABLE);
    Ok(())
}
