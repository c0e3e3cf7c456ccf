// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `orphan`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Orphans after a crash.
    WAITING = "ext.orphan.waiting" {
        severity: Note, evidence: Local, preen: true,
        message: "{stored:deleted or truncated file was:deleted or truncated files were} still open when the system stopped; checked as released",
        meaning: "A file that is deleted or truncated while open stays until it is closed. After a crash, the next mount finishes the operation.",
        repair: "Deleted files are freed. Truncated files are cut to i_size.",
        loss: nothing "Nothing that was not already deleted.",
        peers: [0x000020],
    }
    /// Orphans in a file system that was left cleanly.
    UNRELEASED = "ext.orphan.unreleased" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{stored:deleted or truncated file is:deleted or truncated files are} not released, but the file system was unmounted cleanly",
        meaning: "Files that are deleted or truncated while open are recorded until they are released. The unmount should have released them.",
        repair: "Deleted files are freed. Truncated files are cut to i_size.",
        loss: nothing "Nothing that was not already deleted.",
        peers: [0x000020],
    }
    /// The list is not followed because the file system has errors.
    NOT_TRUSTED = "ext.orphan.not-trusted" {
        severity: Note, evidence: Local, preen: true,
        message: "the superblock records errors, so deleted inodes on its orphaned inode list (from {inode}) are not freed",
        meaning: "On a file system with known errors the list cannot be trusted. Each deleted inode on it is checked like any other. Truncated files are cut to i_size.",
        repair: "The list is emptied.",
        loss: nothing "Nothing that was not already truncated.",
        peers: [],
    }
    /// The head of the list.
    HEAD_ILLEGAL = "ext.orphan.head-illegal" {
        severity: Major, evidence: Local, preen: false,
        message: "the orphaned inode list begins with inode {stored}, which is invalid",
        meaning: "s_last_orphan is the first file that was deleted or truncated while open. The number is reserved or larger than the last inode.",
        repair: "The list is emptied. Orphaned inodes are found by the other checks.",
        loss: nothing,
        peers: [0x000023],
    }
    /// A link of the list.
    LINK_ILLEGAL = "ext.orphan.link-illegal" {
        severity: Major, evidence: Local, preen: false,
        message: "the orphaned inode list goes from {inode} to inode {stored}, which is invalid",
        meaning: "Each orphaned inode holds the number of the next one in dtime. This number is invalid, or was on the list before.",
        repair: "The list ends there. Other orphaned inodes are found by the other checks.",
        loss: nothing,
        peers: [0x000024],
    }
    /// A block of an orphan.
    BLOCK_ILLEGAL = "ext.orphan.block-illegal" {
        severity: Major, evidence: Local, preen: false,
        message: "the block map of orphaned {inode} is damaged",
        meaning: "A file that is to be released has blocks outside the file system, or its block map cannot be followed.",
        repair: "A truncated file is cut to i_size. A deleted one is not freed with the list; it is checked like any other inode.",
        loss: nothing "Nothing that was not already deleted.",
        peers: [0x000021],
    }
    /// A block of an orphan that is free.
    BLOCK_FREE = "ext.orphan.block-free" {
        severity: Major, evidence: Cross, preen: false,
        message: "{block} of orphaned {inode} is already free",
        meaning: "A file that is to be released has blocks that are free in the block bitmap. It was released before, or another file may get the same blocks.",
        repair: "A truncated file is cut to i_size. A deleted one is not freed with the list; it is checked like any other inode.",
        loss: nothing "Nothing that was not already deleted.",
        peers: [0x000022],
    }
    /// Inodes that carry links of a broken list.
    REFUGEES = "ext.orphan.refugees" {
        severity: Minor, evidence: Cross, preen: false,
        message: "{stored:inode was:inodes were} part of a corrupted orphaned inode list",
        meaning: "Their dtime is too small to be a time. It is the number of the next inode on a list that is broken.",
        repair: "The dtime is set, or cleared if the file is in use.",
        loss: nothing,
        peers: [0x010037],
    }
    /// The orphan file itself.
    FILE_UNUSABLE = "ext.orphan.file-unusable" {
        severity: Major, evidence: Local, preen: true,
        message: "the orphan file, {inode}, is invalid: {why}",
        meaning: "The inode is free, is not a regular file, or its block map is damaged.",
        repair: "The orphan file is replaced by a new, empty one.",
        loss: nothing,
        peers: [0x060009],
    }
    /// The orphan file's size.
    FILE_SIZE = "ext.orphan.file-size" {
        severity: Major, evidence: Local, preen: true,
        message: "the orphan file, {inode}, has i_size {stored}, which is not a multiple of the block size",
        meaning: "i_size was overwritten.",
        repair: "The orphan file is replaced by a new, empty one.",
        loss: nothing,
        peers: [0x000055, 0x06000F],
    }
    /// A hole in the orphan file.
    FILE_HOLE = "ext.orphan.file-hole" {
        severity: Major, evidence: Local, preen: true,
        message: "the orphan file, {inode}, has a hole at its block {stored}",
        meaning: "All blocks of the orphan file are allocated when it is created.",
        repair: "The orphan file is replaced by a new, empty one.",
        loss: nothing,
        peers: [0x000052, 0x060010],
    }
    /// Magic number of an orphan file block.
    FILE_MAGIC = "ext.orphan.file-magic" {
        severity: Major, evidence: Local, preen: true,
        message: "{block} of the orphan file, {inode}, has no magic number",
        meaning: "Every block of the orphan file ends with a magic number and a checksum. This block was overwritten.",
        repair: "The orphan file is replaced by a new, empty one.",
        loss: nothing,
        peers: [0x000053, 0x060009],
    }
    /// Checksum of an orphan file block.
    FILE_CHECKSUM = "ext.orphan.file-checksum" {
        severity: Major, evidence: Local, preen: true,
        message: "{block} of the orphan file, {inode}, has checksum {stored}, should be {observed}",
        meaning: "The block was damaged.",
        repair: "The orphan file is replaced by a new, empty one.",
        loss: nothing,
        peers: [0x000054, 0x060009],
    }
    /// Entries in the orphan file without the feature.
    FILE_DIRTY = "ext.orphan.file-dirty" {
        severity: Minor, evidence: Cross, preen: true,
        message: "the orphan file, {inode}, holds {stored:entry:entries}, but the orphan_present feature is not set",
        meaning: "orphan_present is set while the orphan file may have entries.",
        repair: "The entries are cleared.",
        loss: nothing,
        peers: [0x06000C],
    }
    /// orphan_present with an empty file.
    PRESENT_CLEAN = "ext.orphan.present-without-entries" {
        severity: Minor, evidence: Cross, preen: true,
        message: "the orphan_present feature is set, but the orphan file is empty and the file system was unmounted cleanly",
        meaning: "orphan_present is set while the file system is mounted. The unmount should have cleared it.",
        repair: "The orphan_present feature is cleared.",
        loss: nothing,
        peers: [0x06000D],
    }
    /// orphan_present without the file.
    PRESENT_WITHOUT_FILE = "ext.orphan.present-without-file" {
        severity: Minor, evidence: Local, preen: true,
        message: "the orphan_present feature is set, but the file system has no orphan file",
        meaning: "orphan_present is invalid without the orphan_file feature.",
        repair: "The orphan_present feature is cleared.",
        loss: nothing,
        peers: [0x06000E],
    }
    /// The orphan file without a journal.
    FILE_WITHOUT_JOURNAL = "ext.orphan.file-without-journal" {
        severity: Minor, evidence: Local, preen: true,
        message: "the file system has an orphan file but no journal",
        meaning: "The orphan_file feature needs a journal.",
        repair: "The orphan file is removed.",
        loss: nothing,
        peers: [0x060007],
    }
}
