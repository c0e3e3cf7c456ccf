// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a mere crash of the kernel leaves, row by row: such a file system is sound, so each of these rows is a note (exit status 0). All other notes, and all objects that
//! rows above a note are about, stand here with the reason why a crash does not leave them. `cli/tests/power_cut.rs` cuts the power in earnest.

use std::collections::{BTreeMap, BTreeSet};

use fsmend_engine::problem::Severity;
use fsmend_ext_check::catalogue::all;

/// Rows, and what of a crash raises them.
const OF_A_CRASH: &[(&str, &str)] = &[
    ("ext.journal.replayed", "committed transactions are not at home yet"),
    ("ext.journal.nothing-to-replay", "all of them are, and the recover flag goes at unmount only"),
    ("ext.journal.not-replayed", "either of these, looked at without a replay"),
    ("ext.journal.fast-commit-unapplied", "fast commits wait for the replay of the kernel"),
    ("ext.orphan.waiting", "files were open when their last name went, or were being truncated"),
    ("ext.allocation.totals-stale", "the kernel counts in memory and writes the totals at unmount"),
    ("ext.superblock.not-clean", "without a journal the valid flag comes back at unmount only"),
    ("ext.mmp.in-use", "the machine that crashed did not give the MMP block back"),
];

/// Other notes, and why a crash is not enough for them.
const OTHER_NOTES: &[(&str, &str)] = &[
    ("ext.journal.recreated", "follows from a journal that had to be deleted"),
    ("ext.journal.log-corrupt", "a commit block goes out behind a barrier: a torn log ends before it"),
    ("ext.journal.data-corrupt", "the same"),
    ("ext.journal.error-recorded", "the kernel aborted the journal: an error came before the crash"),
    (
        "ext.journal.fast-commit-corrupt",
        "a torn fast commit has no valid tail, and ends the replay in silence",
    ),
    ("ext.orphan.not-trusted", "the kernel found errors before the crash"),
    ("ext.superblock.errors-recorded", "the same"),
    ("ext.group.from-backup", "descriptors are written through the journal"),
    ("ext.group.inode-table-found", "the same"),
    ("ext.superblock.primary-replaced", "a torn superblock fails its checksum and is not replaced"),
    ("ext.superblock.backup-differs", "only resizing and tuning write backups"),
    ("ext.superblock.overhead-wrong", "written when the file system is made or resized"),
    ("ext.superblock.unknown-feature", "a matter of the program that made it"),
    ("ext.superblock.creator", "the same"),
    ("ext.superblock.revision-features", "the same"),
    ("ext.superblock.no-uuid", "the same"),
    ("ext.superblock.test-flag", "the same"),
    ("ext.superblock.future-mount", "the clock was wrong"),
    ("ext.superblock.future-write", "the same"),
    ("ext.directory.file-type-missing", "older kernels wrote names without a type"),
    ("ext.directory.lost-found-missing", "a user removed it"),
    ("ext.directory.lost-found-impossible", "the same"),
    ("ext.inode.links-saturated", "a directory that had 65 000 subdirectories"),
    ("ext.badblocks.backup", "a user listed the block"),
];

/// What rows above a note are about, and why a crash does not leave such a thing wrong where there is a journal, or that this is damage.
const LOGGED: &[(&str, &str)] = &[
    (
        "allocation",
        "bitmaps and the counts of groups are changed in one transaction with what they count, with uninit_bg too",
    ),
    ("badblocks", "the kernel never writes the list"),
    ("block", "an owner and the bitmap change in one transaction"),
    ("blockmap", "inodes and indirect blocks are metadata; preallocated blocks are mapped"),
    ("directory", "names, link counts and inodes change in one transaction"),
    ("extent", "trees are metadata; preallocated extents are unwritten, behind the size too"),
    ("group", "descriptors are metadata; tables that are not zeroed yet are marked so"),
    ("htree", "an index is split in one transaction"),
    ("inline", "contents of inodes are metadata"),
    ("inode", "records are metadata; times and sizes may lag, which is no fault"),
    ("journal", "its own superblock is one sector, and its blocks are ordered by barriers"),
    ("mmp", "a torn block fails its checksum, and the kernel refuses to mount it: damage"),
    (
        "orphan",
        "the list changes in one transaction with the links; its file has checksums of its own in the log",
    ),
    ("quota", "quota files of the quota feature are journalled with what they count"),
    ("region", "the kernel does not write rext3"),
    ("resize", "a resize goes group by group, each in one transaction"),
    (
        "superblock",
        "it is in the log. Torn when it is written outside of that, it fails its checksum, and the kernel refuses to mount it: damage",
    ),
    ("xattr", "attribute blocks, their hashes and counts change in one transaction"),
];

#[test]
fn every_row_says_whether_a_crash_leaves_it() {
    let rows: BTreeMap<&str, Severity> = all().iter().map(|row| (row.code, row.severity)).collect();
    for (code, why) in OF_A_CRASH {
        assert_eq!(rows.get(code), Some(&Severity::Note), "{code}: {why}");
    }
    let listed: Vec<&str> = OF_A_CRASH.iter().chain(OTHER_NOTES).map(|(code, _)| *code).collect();
    let set: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(set.len(), listed.len(), "one line each");
    let is_note = |(_, severity): &(&&str, &Severity)| **severity == Severity::Note;
    let notes: BTreeSet<&str> = rows.iter().filter(is_note).map(|(code, _)| *code).collect();
    assert_eq!(set, notes, "left: what this table says; right: the notes of the catalogue");
    let object = |code: &'static str| code.split('.').nth(1).unwrap_or_default();
    let damaged: BTreeSet<&str> =
        all().iter().filter(|row| row.severity > Severity::Note).map(|row| object(row.code)).collect();
    let reasons: BTreeSet<&str> = LOGGED.iter().map(|(object, _)| *object).collect();
    assert_eq!(reasons, damaged, "left: what this table says; right: the objects of the catalogue");
}
