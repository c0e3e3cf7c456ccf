// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inodes with a role of their own: root, journal, quota files, orphan file, and the rest below the first ordinary one.

use fsmend_base::BlockNo;
use fsmend_engine::{Row, Value};
use fsmend_ext_format::features::{Compat, RoCompat};
use fsmend_ext_format::inode::{InodeFlags, mode, special};

use super::fields;
use super::problems::{
    JOURNAL_MODE, JOURNAL_NOT_CLEAR, ORPHAN_FILE_MODE, ORPHAN_FILE_NOT_CLEAR, QUOTA_MODE, QUOTA_NOT_CLEAR,
    QUOTA_NOT_HIDDEN, RESERVED_MODE, RESERVED_REMAINS, ROOT_DELETION_TIME, ROOT_NOT_DIRECTORY,
};
use super::subject::Subject;
use crate::extent;

/// What an inode is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Belongs to users (the root directory does, too).
    Ordinary,
    /// A file of the file system's own, in use without a name.
    System,
    /// Reserved and empty, or looked after by another check (bad blocks, resize inode).
    Neutral,
    /// To be cleared, which has been raised.
    Cleared,
}

/// Finds the role of the inode and checks what goes with it.
pub(crate) fn settle(subject: &mut Subject<'_, '_>) -> Role {
    let number = subject.inode.0;
    let superblock = &subject.fs.superblock;
    let (features, journal) = (subject.fs.geometry.features, superblock.s_journal_inum.get());
    let orphan_file = superblock.s_orphan_file_inum.get();
    match number {
        special::BAD_BLOCKS => Role::Neutral,
        special::ROOT => root(subject),
        special::RESIZE => resize(subject),
        special::JOURNAL if features.has_compat(Compat::HAS_JOURNAL) && journal == number => {
            system_file(subject, &JOURNAL_MODE)
        }
        special::JOURNAL => must_be_clear(subject, &JOURNAL_NOT_CLEAR),
        _ if is_quota_file(subject) => {
            hidden(subject);
            system_file(subject, &QUOTA_MODE)
        }
        special::USER_QUOTA | special::GROUP_QUOTA => must_be_clear(subject, &QUOTA_NOT_CLEAR),
        _ if number == orphan_file && features.has_compat(Compat::ORPHAN_FILE) => orphan_file_role(subject),
        _ if number == orphan_file && number != 0 => must_be_clear(subject, &ORPHAN_FILE_NOT_CLEAR),
        _ if number < subject.fs.geometry.first_inode => reserved(subject),
        _ => Role::Ordinary,
    }
}

fn is_quota_file(subject: &Subject<'_, '_>) -> bool {
    let superblock = &subject.fs.superblock;
    let numbers = [superblock.s_usr_quota_inum, superblock.s_grp_quota_inum, superblock.s_prj_quota_inum];
    let is_named = numbers.iter().any(|number| number.get() == subject.inode.0);
    is_named && subject.has_ro_compat(RoCompat::QUOTA)
}

/// User and group quota have inodes reserved for them.
fn hidden(subject: &mut Subject<'_, '_>) {
    let superblock = &subject.fs.superblock;
    let number = subject.inode.0;
    let is_project = superblock.s_prj_quota_inum.get() == number;
    if !is_project && number != special::USER_QUOTA && number != special::GROUP_QUOTA {
        let problem = subject.problem(&QUOTA_NOT_HIDDEN);
        subject.raise(problem);
    }
}

fn mode_value(subject: &Subject<'_, '_>) -> Value {
    Value::Text(format!("{:#o}", subject.raw.i_mode.get()))
}

fn root(subject: &mut Subject<'_, '_>) -> Role {
    if !subject.is_directory() {
        let problem = subject.problem(&ROOT_NOT_DIRECTORY).stored(mode_value(subject));
        subject.raise(problem);
        return Role::Cleared;
    }
    if subject.raw.i_dtime.get() != 0 && subject.raw.i_links_count.get() != 0 {
        let problem = subject.problem(&ROOT_DELETION_TIME).stored(subject.raw.i_dtime.get());
        subject.raise(problem);
        subject.raw.i_dtime.set(0);
    }
    Role::Ordinary
}

/// The map of the resize inode is the resize check's; here only its mode.
fn resize(subject: &mut Subject<'_, '_>) -> Role {
    if subject.raw.i_mode.get() != 0 && !subject.is_regular() {
        clear_mode(subject);
    }
    Role::Neutral
}

fn reserved(subject: &mut Subject<'_, '_>) -> Role {
    if subject.inode.0 == special::BOOT_LOADER {
        if subject.is_directory() {
            clear_mode(subject);
        }
        return if subject.is_regular() { Role::System } else { Role::Neutral };
    }
    if subject.raw.i_mode.get() != 0 {
        clear_mode(subject);
    }
    Role::Neutral
}

/// What a reserved inode that holds nothing cannot have either: an attribute block, whose references would have to be counted, the flag of
/// indexed directories, that of a kind of maps that the file system does not know, and two flags that exclude each other. (The journal's, and those of quota, are looked at with the files that they may hold.)
pub(crate) fn repair_input(subject: &mut Subject<'_, '_>) {
    let number = subject.inode.0;
    let is_looked_after = matches!(number, special::JOURNAL | special::USER_QUOTA | special::GROUP_QUOTA);
    if is_looked_after || number >= subject.fs.geometry.first_inode {
        return;
    }
    fields::index_flag(subject);
    let block = subject.file_acl();
    let has_attributes = subject.fs.geometry.features.has_compat(Compat::EXT_ATTR);
    if has_attributes && subject.fs.is_valid_block(BlockNo(block)) {
        let problem = subject.problem(&RESERVED_REMAINS).stored(block);
        subject.raise(problem.detail("what", "an attribute block"));
        subject.raw.i_file_acl_lo.set(0);
        subject.raw.i_file_acl_high.set(0);
    }
    let (has_extents, is_known) = (subject.raw.has_flag(InodeFlags::EXTENTS), extent::is_enabled(subject));
    if has_extents && subject.raw.has_flag(InodeFlags::INLINE_DATA) && is_known {
        flag_remains(subject, "inline data beside its extents", InodeFlags::INLINE_DATA);
    }
    if has_extents && !is_known {
        flag_remains(subject, "a map by extents", InodeFlags::EXTENTS);
    }
}

fn flag_remains(subject: &mut Subject<'_, '_>, what: &'static str, flag: InodeFlags) {
    let stored = Value::Hex(u64::from(subject.raw.i_flags.get()));
    let problem = subject.problem(&RESERVED_REMAINS).stored(stored);
    subject.raise(problem.detail("what", what));
    subject.raw.clear_flag(flag);
}

fn clear_mode(subject: &mut Subject<'_, '_>) {
    let problem = subject.problem(&RESERVED_MODE).stored(mode_value(subject));
    subject.raise(problem);
    subject.raw.i_mode.set(0);
    // What has no mode has no attributes, either: their block would not be counted.
    subject.raw.i_file_acl_lo.set(0);
    subject.raw.i_file_acl_high.set(0);
}

/// A file that the file system uses for itself has to be a regular one.
fn system_file(subject: &mut Subject<'_, '_>, row: &'static Row) -> Role {
    let raw = &subject.raw;
    if raw.i_mode.get() == 0 && raw.i_links_count.get() == 0 && raw.i_blocks_lo.get() == 0 {
        // There is no such file: that is for the check of what it should hold.
        return Role::Neutral;
    }
    if !subject.is_regular() {
        let problem = subject.problem(row).stored(mode_value(subject));
        subject.raise(problem);
        subject.raw.i_mode.set(mode::REGULAR | 0o600);
    }
    Role::System
}

fn orphan_file_role(subject: &mut Subject<'_, '_>) -> Role {
    if !subject.is_regular() {
        let problem = subject.problem(&ORPHAN_FILE_MODE).stored(mode_value(subject));
        subject.raise(problem);
        return Role::Cleared;
    }
    Role::System
}

/// An inode whose use was given up has to be empty.
fn must_be_clear(subject: &mut Subject<'_, '_>, row: &'static Row) -> Role {
    let raw = &subject.raw;
    let in_use = raw.i_links_count.get() != 0 || raw.i_blocks_lo.get() != 0 || raw.block_word(0) != 0;
    if in_use {
        let problem = subject.problem(row);
        subject.raise(problem);
        return Role::Cleared;
    }
    Role::Neutral
}
