// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields that stand for themselves: times, flags without a meaning here, fields that have to be zero.

use fsmend_base::width;
use fsmend_engine::{Row, Value};
use fsmend_ext_format::features::{Compat, Incompat, RoCompat};
use fsmend_ext_format::inode::{BASE_INODE_SIZE, InodeFlags, mode};
use fsmend_ext_format::xattr::{INODE_HEADER_SIZE, XATTR_MAGIC};

use super::problems::{
    ATTRIBUTE_POINTER_HIGH, CASEFOLD_NOT_DIRECTORY, CASEFOLD_WITHOUT_FEATURE, DELETION_TIME_IN_USE,
    DELETION_TIME_MISSING, DIRECTORY_SIZE_HIGH, EXTRA_SIZE_WRONG, FRAGMENT_ADDRESS, FRAGMENT_NUMBER,
    FRAGMENT_SIZE, IMAGIC_WITHOUT_FEATURE, INDEX_NOT_DIRECTORY, ORPHAN_REMAINS, SECTORS_HIGH, TIMESTAMP_ERA,
    VALUE_HOLDER_NOT_REGULAR, VALUE_HOLDER_TYPE, VERITY_WITHOUT_FEATURE,
};
use super::subject::Subject;
use crate::xattr::holds_value;

/// Fields from `i_extra_isize` to `i_checksum_hi`: less makes no sense.
const EXTRA_SIZE_MIN: u16 = 4;

/// A deletion time that is an inode number: what is left of a broken list of orphans.
pub(crate) fn orphan_remains(subject: &mut Subject<'_, '_>) {
    let dtime = subject.raw.i_dtime.get();
    if dtime == 0 || dtime >= subject.fs.geometry.inodes_count || !clock_was_set(subject) {
        return;
    }
    let problem = subject.problem(&ORPHAN_REMAINS).stored(dtime);
    subject.raise(problem);
    let in_use = subject.raw.i_links_count.get() != 0;
    subject.raw.i_dtime.set(if in_use { 0 } else { width::low_u32(subject.fs.now) });
}

/// Without a clock, small deletion times are just that.
fn clock_was_set(subject: &Subject<'_, '_>) -> bool {
    let superblock = &subject.fs.superblock;
    let inodes = subject.fs.geometry.inodes_count;
    // A file system that was never mounted has no time of it.
    let fits = |time: u32| time == 0 || time >= inodes;
    superblock.s_wtime.get() >= inodes && fits(superblock.s_mtime.get()) && fits(superblock.s_mkfs_time.get())
}

/// A free inode without a deletion time.
pub(crate) fn free_inode(subject: &mut Subject<'_, '_>) {
    let mode = subject.raw.i_mode.get();
    if subject.raw.i_dtime.get() == 0 && mode != 0 {
        let problem = subject.problem(&DELETION_TIME_MISSING).stored(Value::Text(format!("{mode:#o}")));
        subject.raise(problem);
        subject.raw.i_dtime.set(width::low_u32(subject.fs.now));
    }
}

/// An inode in use with a deletion time.
pub(crate) fn deletion_time(subject: &mut Subject<'_, '_>) {
    let dtime = subject.raw.i_dtime.get();
    if dtime != 0 {
        let problem = subject.problem(&DELETION_TIME_IN_USE).stored(dtime);
        subject.raise(problem);
        subject.raw.i_dtime.set(0);
    }
}

/// `i_extra_isize`, which says where attributes in the inode begin.
pub(crate) fn extra_size(subject: &mut Subject<'_, '_>) {
    if subject.record.len() <= BASE_INODE_SIZE {
        return;
    }
    let room = u16::try_from(subject.record.len() - BASE_INODE_SIZE).unwrap_or(u16::MAX);
    let stored = subject.raw.i_extra_isize.get();
    if stored == 0 || (EXTRA_SIZE_MIN..=room).contains(&stored) && stored.is_multiple_of(4) {
        return;
    }
    let in_range = (EXTRA_SIZE_MIN..=room).contains(&stored);
    let wanted = subject.fs.superblock.s_want_extra_isize.get();
    let usual = if (EXTRA_SIZE_MIN..=room).contains(&wanted) && wanted.is_multiple_of(4) {
        wanted
    } else {
        room.min(32)
    };
    let mended = if in_range { (stored.saturating_add(3) & !3).min(room & !3) } else { usual };
    let problem = subject.problem(&EXTRA_SIZE_WRONG).stored(stored).observed(mended);
    subject.raise(problem);
    subject.raw.i_extra_isize.set(mended);
}

/// Dates before 1970 that an old kernel stored as ones far in the future: negative seconds with the highest era. e2fsck looks at these fields
/// also where `i_extra_isize` leaves them out; unless attributes begin there, losing the era does no harm.
pub(crate) fn timestamps(subject: &mut Subject<'_, '_>) {
    const ERA: u32 = 3;
    const LAST_DOUBTFUL_NOW: u64 = 2 << 32;
    let raw = &mut subject.raw;
    if subject.record.len() <= BASE_INODE_SIZE || subject.fs.now >= LAST_DOUBTFUL_NOW {
        return;
    }
    let extra_end = BASE_INODE_SIZE + usize::from(raw.i_extra_isize.get());
    let behind = subject.record.get(extra_end..extra_end + INODE_HEADER_SIZE);
    let has_attributes = behind == Some(&XATTR_MAGIC.to_le_bytes()[..]);
    let has = |end: usize| raw.has_extra(end) || !has_attributes && end <= subject.record.len();
    let (has_ctime, has_mtime, has_atime, has_crtime) = (has(0x88), has(0x8C), has(0x90), has(0x98));
    let pairs = [
        (has_ctime, raw.i_ctime.get(), &mut raw.i_ctime_extra),
        (has_mtime, raw.i_mtime.get(), &mut raw.i_mtime_extra),
        (has_atime, raw.i_atime.get(), &mut raw.i_atime_extra),
        (has_crtime, raw.i_crtime.get(), &mut raw.i_crtime_extra),
    ];
    let mut wrong = false;
    for (present, seconds, extra) in pairs {
        if present && seconds >> 31 == 1 && extra.get() & ERA == ERA {
            extra.set(extra.get() & !ERA);
            wrong = true;
        }
    }
    if wrong {
        let problem = subject.problem(&TIMESTAMP_ERA);
        subject.raise(problem);
    }
}

/// A type that the holder of an attribute's value cannot have, where the hash of what it holds proves that it is one.
pub(crate) fn value_holder_type(subject: &mut Subject<'_, '_>) {
    if subject.raw.has_flag(InodeFlags::EA_INODE)
        && !subject.is_regular()
        && holds_value(subject.fs, &subject.raw)
    {
        let stored = subject.raw.i_mode.get();
        let problem = subject.problem(&VALUE_HOLDER_TYPE).stored(Value::Text(format!("{stored:#o}")));
        subject.raise(problem);
        subject.raw.i_mode.set(stored & !mode::TYPE_MASK | mode::REGULAR);
    }
}

/// Flags that this kind of inode, or this file system, cannot have.
pub(crate) fn impossible_flags(subject: &mut Subject<'_, '_>) {
    let (directory, regular) = (subject.is_directory(), subject.is_regular());
    let casefold = subject.has_incompat(Incompat::CASEFOLD);
    refuse_flag(subject, InodeFlags::CASEFOLD, !directory, &CASEFOLD_NOT_DIRECTORY);
    refuse_flag(subject, InodeFlags::CASEFOLD, !casefold, &CASEFOLD_WITHOUT_FEATURE);
    refuse_flag(subject, InodeFlags::EA_INODE, !regular, &VALUE_HOLDER_NOT_REGULAR);
}

/// The flag of files whose contents can be proved. The kernel checks that of regular files only.
pub(crate) fn verity_flag(subject: &mut Subject<'_, '_>) {
    let is_wrong = subject.is_regular() && !subject.has_ro_compat(RoCompat::VERITY);
    refuse_flag(subject, InodeFlags::VERITY, is_wrong, &VERITY_WITHOUT_FEATURE);
}

/// The flag of an extension for AFS, where it is not in use.
pub(crate) fn imagic_flag(subject: &mut Subject<'_, '_>) {
    let imagic = subject.fs.geometry.features.has_compat(Compat::IMAGIC_INODES);
    refuse_flag(subject, InodeFlags::IMAGIC, !imagic, &IMAGIC_WITHOUT_FEATURE);
}

/// The flag of indexed directories on something else.
pub(crate) fn index_flag(subject: &mut Subject<'_, '_>) {
    refuse_flag(subject, InodeFlags::INDEX, !subject.is_directory(), &INDEX_NOT_DIRECTORY);
}

fn refuse_flag(subject: &mut Subject<'_, '_>, flag: InodeFlags, impossible: bool, row: &'static Row) {
    if impossible && subject.raw.has_flag(flag) {
        let problem = subject.problem(row);
        subject.raise(problem);
        subject.raw.clear_flag(flag);
    }
}

/// Fields that have to be zero: fragments, and high halves without the feature that they belong to.
pub(crate) fn zero_fields(subject: &mut Subject<'_, '_>) {
    let wide_blocks = subject.has_incompat(Incompat::BIT64);
    let huge_file = subject.has_ro_compat(RoCompat::HUGE_FILE);
    let large_dir = subject.has_incompat(Incompat::LARGEDIR);
    let raw = subject.raw;
    if raw.i_faddr.get() != 0 {
        zero(subject, &FRAGMENT_ADDRESS, raw.i_faddr.get());
        subject.raw.i_faddr.set(0);
    }
    if subject.fs.geometry.hurd {
        fragments(subject);
    } else {
        if !huge_file && raw.i_blocks_high.get() != 0 {
            zero(subject, &SECTORS_HIGH, u32::from(raw.i_blocks_high.get()));
            subject.raw.i_blocks_high.set(0);
        }
        if !wide_blocks && raw.i_file_acl_high.get() != 0 {
            zero(subject, &ATTRIBUTE_POINTER_HIGH, u32::from(raw.i_file_acl_high.get()));
            subject.raw.i_file_acl_high.set(0);
        }
    }
    if subject.is_directory() && !large_dir && raw.i_size_high.get() != 0 {
        zero(subject, &DIRECTORY_SIZE_HIGH, raw.i_size_high.get());
        subject.raw.i_size_high.set(0);
    }
}

/// The Hurd's fragment fields share their place with the high half of `i_blocks`.
fn fragments(subject: &mut Subject<'_, '_>) {
    let [number, size] = subject.raw.i_blocks_high.get().to_le_bytes();
    if number != 0 {
        zero(subject, &FRAGMENT_NUMBER, u32::from(number));
    }
    if size != 0 {
        zero(subject, &FRAGMENT_SIZE, u32::from(size));
    }
    subject.raw.i_blocks_high.set(0);
}

fn zero(subject: &mut Subject<'_, '_>, row: &'static Row, stored: u32) {
    let problem = subject.problem(row).stored(stored);
    subject.raise(problem);
}
