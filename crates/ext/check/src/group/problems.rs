//! Catalogue rows of `group`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Block bitmap placed where it cannot be.
    BLOCK_BITMAP_PLACE = "ext.group.block-bitmap-place" {
        severity: Major, evidence: Local, preen: false,
        message: "{group} places its block bitmap in block {stored}, where it cannot be",
        meaning: "The descriptor points outside of the file system, or without flex_bg outside of the group. The bitmap itself may be intact.",
        repair: "The place is taken from a backup descriptor that has it right; otherwise a new bitmap is made.",
        loss: "Nothing: the bitmap is worked out again from the files.",
        peers: [0x000001],
    }
    /// Inode bitmap placed where it cannot be.
    INODE_BITMAP_PLACE = "ext.group.inode-bitmap-place" {
        severity: Major, evidence: Local, preen: false,
        message: "{group} places its inode bitmap in block {stored}, where it cannot be",
        meaning: "The descriptor points outside of the file system, or without flex_bg outside of the group. The bitmap itself may be intact.",
        repair: "The place is taken from a backup descriptor that has it right; otherwise a new bitmap is made.",
        loss: "Nothing: the bitmap is worked out again from the inodes.",
        peers: [0x000002],
    }
    /// Inode table placed where it cannot be.
    INODE_TABLE_PLACE = "ext.group.inode-table-place" {
        severity: Critical, evidence: Local, preen: false,
        message: "{group} places its inode table in block {stored}, where it cannot be",
        meaning: "The descriptor points outside of the file system, or without flex_bg outside of the group, or to something that is no inode table. The table itself may be intact.",
        repair: "The place is taken from a backup descriptor that has it right, or the table is looked for by what stands in it; otherwise an empty one is made.",
        loss: "Nothing if a backup helps or the table is found; otherwise all files of the group.",
        peers: [0x000003],
    }
    /// Block bitmap on top of something else.
    BLOCK_BITMAP_CONFLICT = "ext.group.block-bitmap-conflict" {
        severity: Major, evidence: Cross, preen: false,
        message: "{group} places its block bitmap in {block}, which holds {observed}",
        meaning: "Two pieces of metadata cannot share a block; the descriptor is wrong.",
        repair: "The place is taken from a backup descriptor that has it right; otherwise a new bitmap is made.",
        loss: "Nothing: the bitmap is worked out again from the files.",
        peers: [0x010007],
    }
    /// Inode bitmap on top of something else.
    INODE_BITMAP_CONFLICT = "ext.group.inode-bitmap-conflict" {
        severity: Major, evidence: Cross, preen: false,
        message: "{group} places its inode bitmap in {block}, which holds {observed}",
        meaning: "Two pieces of metadata cannot share a block; the descriptor is wrong.",
        repair: "The place is taken from a backup descriptor that has it right; otherwise a new bitmap is made.",
        loss: "Nothing: the bitmap is worked out again from the inodes.",
        peers: [0x010008],
    }
    /// Inode table on top of something else.
    INODE_TABLE_CONFLICT = "ext.group.inode-table-conflict" {
        severity: Critical, evidence: Cross, preen: false,
        message: "{group} places its inode table from {block} on, where there is {observed}",
        meaning: "Two pieces of metadata cannot share blocks; the descriptor is wrong.",
        repair: "The place is taken from a backup descriptor that has it right; otherwise an empty table is made.",
        loss: "Nothing if a backup helps; otherwise all files of the group.",
        peers: [0x010009],
    }
    /// A backup descriptor stands in for the primary.
    FROM_BACKUP = "ext.group.from-backup" {
        severity: Note, evidence: Cross, preen: false,
        message: "for {group} the backup descriptor in {block} was used",
        meaning: "The primary descriptor of the group is damaged, but a backup of it is in order.",
        repair: "The primary descriptor is written anew.",
        loss: "Nothing: its counts are worked out again.",
        peers: [],
    }
    /// An inode table that was found by what stands in it.
    TABLE_FOUND = "ext.group.inode-table-found" {
        severity: Note, evidence: Cross, preen: false,
        message: "the inode table of {group} was found in {block}",
        meaning: "No descriptor says where the inode table of the group is, but its contents prove that it is there.",
        repair: "The descriptor gets this place.",
        loss: "Nothing.",
        peers: [],
    }
    /// Descriptors that cannot be read.
    UNREADABLE = "ext.group.unreadable" {
        severity: Critical, evidence: Local, preen: false,
        message: "the descriptor of {group} in {block} cannot be read",
        meaning: "The medium is damaged there, or the device ends before.",
        repair: "The descriptor is written anew from a backup; without one, bitmaps and an empty inode table are made.",
        loss: "Nothing if a backup helps; otherwise all files of the group.",
        peers: [],
    }
    /// Wrong descriptor checksum.
    CHECKSUM = "ext.group.checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the checksum of {group}'s descriptor is {stored}, but its contents give {observed}",
        meaning: "The descriptor was changed by something that did not update its checksum, or rotted. Its counts and \
                  its marks for unused parts are not trusted, so the whole group is checked.",
        repair: "The descriptor is put right and gets a new checksum.",
        loss: "Nothing.",
        peers: [0x000035, 0x00003E],
    }
    /// Uninitialised without checksums.
    UNINIT_WITHOUT_CHECKSUM = "ext.group.uninit-without-checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "{group} is marked as partly uninitialised, but the file system has no descriptor checksums",
        meaning: "Such marks are only safe when descriptors carry checksums.",
        repair: "The marks are removed.",
        loss: "Nothing.",
        peers: [0x000036],
    }
    /// More unused inodes than there can be.
    UNUSED_TOO_MANY = "ext.group.unused-inodes" {
        severity: Minor, evidence: Local, preen: true,
        message: "{group} says that the end of its table, {stored:inode:inodes}, was never used, but only {observed:is:are} free",
        meaning: "The number of never-used inodes tells a checker what it may skip; this one cannot be right, so nothing is skipped.",
        repair: "The number is worked out again.",
        loss: "Nothing.",
        peers: [0x000038],
    }
    /// Marked as having no inode in use, but something says otherwise.
    INODES_UNINIT_CONTRADICTED = "ext.group.inodes-uninit-contradicted" {
        severity: Major, evidence: Local, preen: true,
        message: "{group} is marked as having no inode in use, but it evidently has some",
        meaning: "Groups that were never used are marked, so that their inodes need not be looked at. This one counts inodes in use, or has to hold the root directory: the mark is wrong, and whoever believes it loses all files whose inodes lie there.",
        repair: "The mark is removed, and the group is scanned.",
        loss: "Nothing.",
        peers: [0x020046],
    }
    /// Last group without block bitmap.
    LAST_UNINIT = "ext.group.last-uninit" {
        severity: Minor, evidence: Local, preen: true,
        message: "the block bitmap of the last one, {group}, is marked as uninitialised",
        meaning: "The last group may be shorter than the others, so its bitmap has to be written out.",
        repair: "The mark is removed and the bitmap is written.",
        loss: "Nothing.",
        peers: [0x000039],
    }
}
