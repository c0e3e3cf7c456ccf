//! Catalogue rows of `orphan`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Orphans after a crash.
    WAITING = "ext.orphan.waiting" {
        severity: Note, evidence: Local, preen: true,
        message: "{stored} deleted or truncated files were still open when the system stopped; they are taken as released",
        meaning: "A file that is deleted or truncated while it is open stays until it is closed. After a crash the next mount finishes the work.",
        repair: "Deleted files are freed; truncated ones are cut to their size.",
        loss: "Nothing that was not deleted already.",
        peers: [0x000020],
    }
    /// Orphans in a file system that was left cleanly.
    UNRELEASED = "ext.orphan.unreleased" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{stored} deleted or truncated files are still waiting to be released, although the file system was left cleanly",
        meaning: "Files that were deleted or truncated while open are recorded until that is finished. Whoever unmounted the file system should have finished it.",
        repair: "Deleted files are freed; truncated ones are cut to their size.",
        loss: "Nothing that was not deleted already.",
        peers: [0x000020],
    }
    /// The list is not followed because the file system has errors.
    NOT_TRUSTED = "ext.orphan.not-trusted" {
        severity: Note, evidence: Local, preen: true,
        message: "the superblock says that errors were met, so its list of orphans (from {inode} on) is not followed",
        meaning: "In a file system with known errors the list of orphans cannot be trusted. What is on it is judged inode by inode.",
        repair: "The list is emptied.",
        loss: "Nothing.",
        peers: [],
    }
    /// The head of the list.
    HEAD_ILLEGAL = "ext.orphan.head-illegal" {
        severity: Major, evidence: Local, preen: false,
        message: "the list of orphans begins with inode {stored}, which no file can have",
        meaning: "The superblock names the first file that was deleted or truncated while open. This number is reserved or beyond the last inode.",
        repair: "The list is emptied; orphans are found by the other checks.",
        loss: "Nothing.",
        peers: [0x000023],
    }
    /// A link of the list.
    LINK_ILLEGAL = "ext.orphan.link-illegal" {
        severity: Major, evidence: Local, preen: false,
        message: "the list of orphans leads from {inode} to inode {stored}, which cannot be on it",
        meaning: "Each orphan names the next one in the place of its deletion time. This one names a number that no file can have, or one that was on the list before.",
        repair: "The list ends there; further orphans are found by the other checks.",
        loss: "Nothing.",
        peers: [0x000024],
    }
    /// A block of an orphan.
    BLOCK_ILLEGAL = "ext.orphan.block-illegal" {
        severity: Major, evidence: Local, preen: false,
        message: "the block list of {inode}, an orphan, is damaged",
        meaning: "A file that is waiting to be released names blocks outside the file system, or its map cannot be followed.",
        repair: "It is not released with the list, but judged like any other inode.",
        loss: "Nothing that was not deleted already.",
        peers: [0x000021],
    }
    /// A block of an orphan that is free.
    BLOCK_FREE = "ext.orphan.block-free" {
        severity: Major, evidence: Cross, preen: false,
        message: "{block} of {inode}, an orphan, is already free",
        meaning: "A file that is waiting to be released names blocks that the block bitmap says are free. Either it was released before, or another file may get the same blocks.",
        repair: "It is not released with the list, but judged like any other inode.",
        loss: "Nothing that was not deleted already.",
        peers: [0x000022],
    }
    /// Inodes that carry links of a broken list.
    REFUGEES = "ext.orphan.refugees" {
        severity: Minor, evidence: Cross, preen: false,
        message: "{stored:inode looks like a part:inodes look like parts} of a list of orphans, but on none",
        meaning: "Their deletion time is too small to be one; it is an inode number. The list that they were on was cut.",
        repair: "The deletion times are set right, or to nothing where the file is in use.",
        loss: "Nothing.",
        peers: [0x010037],
    }
    /// The orphan file itself.
    FILE_UNUSABLE = "ext.orphan.file-unusable" {
        severity: Major, evidence: Local, preen: true,
        message: "{inode} is named as the orphan file but cannot be one: {why}",
        meaning: "The feature orphan_file keeps orphans in a file of its own. The inode that the superblock names is free, no regular file, or its block list is damaged.",
        repair: "A new, empty orphan file is made.",
        loss: "Nothing.",
        peers: [0x060009],
    }
    /// The orphan file's size.
    FILE_SIZE = "ext.orphan.file-size" {
        severity: Major, evidence: Local, preen: true,
        message: "the orphan file ({inode}) has {stored:byte:bytes}, which is no whole number of blocks",
        meaning: "The orphan file consists of whole blocks. Its size was overwritten.",
        repair: "A new, empty orphan file is made.",
        loss: "Nothing.",
        peers: [0x000055, 0x06000F],
    }
    /// A hole in the orphan file.
    FILE_HOLE = "ext.orphan.file-hole" {
        severity: Major, evidence: Local, preen: true,
        message: "the orphan file ({inode}) has a hole at its block {stored}",
        meaning: "All blocks of the orphan file are allocated when it is made, so that recording an orphan never needs room.",
        repair: "A new, empty orphan file is made.",
        loss: "Nothing.",
        peers: [0x000052, 0x060010],
    }
    /// Magic number of an orphan file block.
    FILE_MAGIC = "ext.orphan.file-magic" {
        severity: Major, evidence: Local, preen: true,
        message: "{block} of the orphan file ({inode}) lacks its magic number",
        meaning: "Every block of the orphan file ends with a magic number and a checksum. This one was overwritten.",
        repair: "A new, empty orphan file is made.",
        loss: "Nothing.",
        peers: [0x000053, 0x060009],
    }
    /// Checksum of an orphan file block.
    FILE_CHECKSUM = "ext.orphan.file-checksum" {
        severity: Major, evidence: Local, preen: true,
        message: "{block} of the orphan file ({inode}) stores checksum {stored}, but {observed} fits its contents",
        meaning: "Every block of the orphan file ends with a magic number and a checksum. This one was damaged.",
        repair: "A new, empty orphan file is made.",
        loss: "Nothing.",
        peers: [0x000054, 0x060009],
    }
    /// Entries in the orphan file without the feature.
    FILE_DIRTY = "ext.orphan.file-dirty" {
        severity: Minor, evidence: Cross, preen: true,
        message: "the orphan file ({inode}) holds {stored:entry:entries}, but the superblock says that it holds none",
        meaning: "The feature orphan_present is switched on while the orphan file may hold entries. It is off, but there are some.",
        repair: "The entries are cleared.",
        loss: "Nothing.",
        peers: [0x06000C],
    }
    /// orphan_present with an empty file.
    PRESENT_CLEAN = "ext.orphan.present-without-entries" {
        severity: Minor, evidence: Cross, preen: true,
        message: "the superblock says that the orphan file holds entries, but it is empty, and the file system was left cleanly",
        meaning: "The feature orphan_present stays on while the file system is mounted; it should have been switched off at the end.",
        repair: "The feature is switched off.",
        loss: "Nothing.",
        peers: [0x06000D],
    }
    /// orphan_present without the file.
    PRESENT_WITHOUT_FILE = "ext.orphan.present-without-file" {
        severity: Minor, evidence: Local, preen: true,
        message: "the superblock says that the orphan file holds entries, but also that there is no such file",
        meaning: "The feature orphan_present is on while orphan_file is off.",
        repair: "The feature orphan_present is switched off.",
        loss: "Nothing.",
        peers: [0x06000E],
    }
    /// The orphan file without a journal.
    FILE_WITHOUT_JOURNAL = "ext.orphan.file-without-journal" {
        severity: Minor, evidence: Local, preen: true,
        message: "there is an orphan file, but no journal",
        meaning: "An orphan file makes sense only with a journal.",
        repair: "The orphan file is removed.",
        loss: "Nothing.",
        peers: [0x060007],
    }
}
