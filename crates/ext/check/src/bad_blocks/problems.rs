// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `bad_blocks`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Fields of inode 1 that must be zero.
    INVALID_INODE = "ext.badblocks.invalid-inode" {
        severity: Major, evidence: Local, preen: false,
        message: "the bad blocks inode, {inode}, is invalid: {observed}",
        meaning: "The inode of the bad block list must have no owner, no mode and no links. It was overwritten.",
        repair: "The list is cleared. Run badblocks(8) if the device is known to have bad blocks.",
        loss: "The list of bad blocks.",
        peers: [0x010065],
    }
    /// The list has a block outside the file system.
    ILLEGAL_BLOCK = "ext.badblocks.illegal-block" {
        severity: Minor, evidence: Local, preen: false,
        message: "the bad block list contains block {stored}, which is outside the file system",
        meaning: "An entry of the bad block list is damaged.",
        repair: "The entry is removed from the list.",
        loss: nothing,
        peers: [0x010012, 0x010013],
    }
    /// An indirect block of the list is bad or belongs to another owner.
    BAD_MAP_BLOCK = "ext.badblocks.bad-map-block" {
        severity: Major, evidence: Cross, preen: false,
        message: "{block}, an indirect block of the bad block list, is itself on the list or used twice",
        meaning: "The list cannot be trusted from that block on.",
        repair: "That part of the list is dropped. Run badblocks(8) if the device is known to have bad blocks.",
        loss: "Part of the list of bad blocks.",
        peers: [0x010015, 0x010016],
    }
    /// An indirect block of the list overlaps metadata.
    MAP_BLOCK_IN_METADATA = "ext.badblocks.map-block-in-metadata" {
        severity: Major, evidence: Cross, preen: false,
        message: "{block}, an indirect block of the bad block list, is in use for file system metadata",
        meaning: "The pointer to that part of the list is damaged.",
        repair: "That part of the list is dropped. Run badblocks(8) if the device is known to have bad blocks.",
        loss: "Part of the list of bad blocks.",
        peers: [0x01004D],
    }
    /// The list names the block that it starts in.
    LIST_IN_BAD_BLOCK = "ext.badblocks.list-in-bad-block" {
        severity: Major, evidence: Cross, preen: false,
        message: "the bad block list contains {block}, which holds the inode of the list itself",
        meaning: "If that block were bad, the list could not be read. The list is damaged.",
        repair: "The list is cleared. Run badblocks(8) if the device is known to have bad blocks.",
        loss: "The list of bad blocks.",
        peers: [0x01007B],
    }
    /// A bitmap lies on a bad block.
    BLOCK_BITMAP = "ext.badblocks.block-bitmap" {
        severity: Major, evidence: Cross, preen: false,
        message: "the block bitmap of {group} is in {block}, which is on the bad block list",
        meaning: "A bad block cannot hold a bitmap.",
        repair: "The bitmap is rebuilt in another block.",
        loss: nothing "Nothing: the bitmap is rebuilt from the block maps of the files.",
        peers: [0x01000A],
    }
    /// An inode bitmap lies on a bad block.
    INODE_BITMAP = "ext.badblocks.inode-bitmap" {
        severity: Major, evidence: Cross, preen: false,
        message: "the inode bitmap of {group} is in {block}, which is on the bad block list",
        meaning: "A bad block cannot hold a bitmap.",
        repair: "The bitmap is rebuilt in another block.",
        loss: nothing "Nothing: the bitmap is rebuilt from the inode table.",
        peers: [0x01000B],
    }
    /// The primary superblock is listed as bad.
    PRIMARY_SUPERBLOCK = "ext.badblocks.primary-superblock" {
        severity: Major, evidence: Cross, preen: false,
        message: "{block}, which holds the primary superblock, is on the bad block list",
        meaning: "The superblock was read from this block. The list is damaged, or the device is failing.",
        repair: "The entry is removed from the list.",
        loss: nothing,
        peers: [0x010017, 0x010018, 0x010019],
    }
    /// A block of the primary group descriptors is listed as bad.
    PRIMARY_DESCRIPTORS = "ext.badblocks.primary-descriptors" {
        severity: Major, evidence: Cross, preen: false,
        message: "{block}, which holds group descriptors, is on the bad block list",
        meaning: "The group descriptors were read from this block. The list is damaged, or the device is failing.",
        repair: "The entry is removed from the list.",
        loss: nothing,
        peers: [0x010017, 0x010018, 0x01001A],
    }
    /// A backup of superblock or descriptors lies on a bad block.
    BACKUP = "ext.badblocks.backup" {
        severity: Note, evidence: Cross, preen: true,
        message: "{block}, which holds a backup superblock or backup descriptors in {group}, is on the bad block list",
        meaning: "That backup cannot be used.",
        repair: "None needed.",
        loss: nothing,
        peers: [0x01001B, 0x01001C],
    }
}
