// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `group`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Block bitmap placed where it cannot be.
    BLOCK_BITMAP_PLACE = "ext.group.block-bitmap-place" {
        severity: Major, evidence: Local, preen: false,
        message: "the block bitmap of {group} is at block {stored}, which is not valid",
        meaning: "The group descriptor points outside the file system, or without flex_bg outside the group. The bitmap itself may be intact.",
        repair: "The location is copied from a backup descriptor if a backup has a valid one. Otherwise a new bitmap is allocated.",
        loss: nothing "Nothing: the bitmap is rebuilt from the block maps of the files.",
        peers: [0x000001, 0x050006],
    }
    /// Inode bitmap placed where it cannot be.
    INODE_BITMAP_PLACE = "ext.group.inode-bitmap-place" {
        severity: Major, evidence: Local, preen: false,
        message: "the inode bitmap of {group} is at block {stored}, which is not valid",
        meaning: "The group descriptor points outside the file system, or without flex_bg outside the group. The bitmap itself may be intact.",
        repair: "The location is copied from a backup descriptor if a backup has a valid one. Otherwise a new bitmap is allocated.",
        loss: nothing "Nothing: the bitmap is rebuilt from the inode table.",
        peers: [0x000002, 0x05000A],
    }
    /// Inode table placed where it cannot be.
    INODE_TABLE_PLACE = "ext.group.inode-table-place" {
        severity: Critical, evidence: Local, preen: false,
        message: "the inode table of {group} is at block {stored}, which is not valid",
        meaning: "The group descriptor points outside the file system, or without flex_bg outside the group, or to something that is not an inode table. The table itself may be intact.",
        repair: "The location is copied from a backup descriptor if a backup has a valid one. Otherwise the table is searched for by its contents. If it is not found, an empty table is created.",
        loss: "Nothing if a backup is valid or the table is found; otherwise all files whose inodes are in the group.",
        peers: [0x000003],
    }
    /// Block bitmap on top of something else.
    BLOCK_BITMAP_CONFLICT = "ext.group.block-bitmap-conflict" {
        severity: Major, evidence: Cross, preen: false,
        message: "the block bitmap of {group} is at {block}, which holds {observed}",
        meaning: "Two metadata structures cannot share a block. The descriptor is wrong.",
        repair: "The location is copied from a backup descriptor if a backup has a valid one. Otherwise a new bitmap is allocated.",
        loss: nothing "Nothing: the bitmap is rebuilt from the block maps of the files.",
        peers: [0x010007],
    }
    /// Inode bitmap on top of something else.
    INODE_BITMAP_CONFLICT = "ext.group.inode-bitmap-conflict" {
        severity: Major, evidence: Cross, preen: false,
        message: "the inode bitmap of {group} is at {block}, which holds {observed}",
        meaning: "Two metadata structures cannot share a block. The descriptor is wrong.",
        repair: "The location is copied from a backup descriptor if a backup has a valid one. Otherwise a new bitmap is allocated.",
        loss: nothing "Nothing: the bitmap is rebuilt from the inode table.",
        peers: [0x010008],
    }
    /// Inode table on top of something else.
    INODE_TABLE_CONFLICT = "ext.group.inode-table-conflict" {
        severity: Critical, evidence: Cross, preen: false,
        message: "the inode table of {group} is at {block}, which holds {observed}",
        meaning: "Two metadata structures cannot share blocks. The descriptor is wrong.",
        repair: "The location is copied from a backup descriptor if a backup has a valid one. Otherwise an empty table is created.",
        loss: "Nothing if a backup is valid; otherwise all files whose inodes are in the group.",
        peers: [0x010009],
    }
    /// A backup descriptor stands in for the primary.
    FROM_BACKUP = "ext.group.from-backup" {
        severity: Note, evidence: Cross, preen: false,
        message: "the backup descriptor in {block} is used for {group}",
        meaning: "The primary descriptor of the group is damaged. The backup is valid.",
        repair: "The primary descriptor is rewritten.",
        loss: nothing "Nothing: its counts are recomputed.",
        peers: [0x05000E, 0x05000B, 0x05000C, 0x05000D, 0x05000F],
    }
    /// An inode table that was found by what stands in it.
    TABLE_FOUND = "ext.group.inode-table-found" {
        severity: Note, evidence: Cross, preen: false,
        message: "the inode table of {group} was found at {block}",
        meaning: "No descriptor holds the location of this inode table. It was found by its contents.",
        repair: "The location is written to the descriptor.",
        loss: nothing,
        peers: [],
    }
    /// Descriptors that cannot be read.
    UNREADABLE = "ext.group.unreadable" {
        severity: Critical, evidence: Local, preen: false,
        message: "the descriptor of {group} in {block} cannot be read",
        meaning: "The device returned a read error, or the device ends before this block.",
        repair: "The descriptor is restored from a backup. Without one, bitmaps and an empty inode table are created.",
        loss: "Nothing if a backup is valid; otherwise all files whose inodes are in the group.",
        peers: [],
    }
    /// Wrong descriptor checksum.
    CHECKSUM = "ext.group.checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the descriptor of {group} has checksum {stored}, should be {observed}",
        meaning: "The descriptor was changed without updating the checksum, or was damaged. Its counts and uninit flags are not trusted, so the whole group is checked.",
        repair: "The descriptor is corrected and gets a new checksum.",
        loss: nothing,
        peers: [0x000035, 0x00003E],
    }
    /// Uninitialised without checksums.
    UNINIT_WITHOUT_CHECKSUM = "ext.group.uninit-without-checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "{group} has uninit flags, but the file system has no group descriptor checksums",
        meaning: "These flags are safe only with descriptor checksums.",
        repair: "The flags are cleared.",
        loss: nothing,
        peers: [0x000036],
    }
    /// More unused inodes than there can be.
    UNUSED_TOO_MANY = "ext.group.unused-inodes" {
        severity: Minor, evidence: Local, preen: true,
        message: "{group} has an unused inodes count of {stored}, but only {observed:is:are} free",
        meaning: "A checker may skip unused inodes. This count (bg_itable_unused) is wrong, so all inodes of the group are checked.",
        repair: "The count is recomputed.",
        loss: nothing,
        peers: [0x000038],
    }
    /// Marked as having no inode in use, but something says otherwise.
    INODES_UNINIT_CONTRADICTED = "ext.group.inodes-uninit-contradicted" {
        severity: Major, evidence: Local, preen: true,
        message: "{group} has the INODE_UNINIT flag, but has inodes in use",
        meaning: "The flag says that no inode of the group is in use. The group counts inodes in use, or must hold the root directory. Trusting the flag would lose all files of the group.",
        repair: "The flag is cleared and the inodes of the group are checked.",
        loss: nothing,
        peers: [0x020046],
    }
    /// Last group without block bitmap.
    LAST_UNINIT = "ext.group.last-uninit" {
        severity: Minor, evidence: Local, preen: true,
        message: "the last group, {group}, has the BLOCK_UNINIT flag",
        meaning: "The last group may be shorter than the others, so its block bitmap must be initialized.",
        repair: "The flag is cleared and the bitmap is written.",
        loss: nothing,
        peers: [0x000039],
    }
}
