//! Catalogue rows of `bad_blocks`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Fields of inode 1 that must be zero.
    INVALID_INODE = "ext.badblocks.invalid-inode" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode}, the list of bad blocks, is not as it must be: {observed}",
        meaning: "The inode has no owner, no mode and no links; one that has was overwritten by something.",
        repair: "The list is cleared. Have the device tested for bad blocks if it is known to have some.",
        loss: "The list of bad blocks.",
        peers: [0x010065],
    }
    /// The list has a block outside the file system.
    ILLEGAL_BLOCK = "ext.badblocks.illegal-block" {
        severity: Minor, evidence: Local, preen: false,
        message: "the list of bad blocks names block {stored}, which is outside of the file system",
        meaning: "An entry of the list is wrong.",
        repair: "The entry is removed.",
        loss: "Nothing.",
        peers: [0x010012, 0x010013],
    }
    /// An indirect block of the list is bad or belongs to somebody else.
    BAD_MAP_BLOCK = "ext.badblocks.bad-map-block" {
        severity: Major, evidence: Cross, preen: false,
        message: "{block}, in which the list of bad blocks is kept, is on the list itself or used twice",
        meaning: "What the list says from there on cannot be believed.",
        repair: "That part of the list is dropped. Have the device tested for bad blocks if it is known to have some.",
        loss: "Part of the list of bad blocks.",
        peers: [0x010015, 0x010016],
    }
    /// An indirect block of the list overlaps metadata.
    MAP_BLOCK_IN_METADATA = "ext.badblocks.map-block-in-metadata" {
        severity: Major, evidence: Cross, preen: false,
        message: "{block}, in which the list of bad blocks is kept, belongs to the file system's own metadata",
        meaning: "The pointer to that part of the list is wrong.",
        repair: "That part of the list is dropped. Have the device tested for bad blocks if it is known to have some.",
        loss: "Part of the list of bad blocks.",
        peers: [0x01004D],
    }
    /// The list names the block that it starts in.
    LIST_IN_BAD_BLOCK = "ext.badblocks.list-in-bad-block" {
        severity: Major, evidence: Cross, preen: false,
        message: "the list of bad blocks names {block}, which holds the list's own inode",
        meaning: "If the block were bad the list could not be read; so the list is wrong.",
        repair: "The list is cleared. Have the device tested for bad blocks if it is known to have some.",
        loss: "The list of bad blocks.",
        peers: [0x01007B],
    }
    /// A bitmap lies on a bad block.
    BLOCK_BITMAP = "ext.badblocks.block-bitmap" {
        severity: Major, evidence: Cross, preen: false,
        message: "the block bitmap of {group} lies in {block}, which is on the list of bad blocks",
        meaning: "A bad block cannot hold a bitmap.",
        repair: "The bitmap is made anew in another block.",
        loss: "Nothing: the bitmap is worked out again from the files.",
        peers: [0x01000A],
    }
    /// An inode bitmap lies on a bad block.
    INODE_BITMAP = "ext.badblocks.inode-bitmap" {
        severity: Major, evidence: Cross, preen: false,
        message: "the inode bitmap of {group} lies in {block}, which is on the list of bad blocks",
        meaning: "A bad block cannot hold a bitmap.",
        repair: "The bitmap is made anew in another block.",
        loss: "Nothing: the bitmap is worked out again from the inodes.",
        peers: [0x01000B],
    }
    /// The primary superblock is listed as bad.
    PRIMARY_SUPERBLOCK = "ext.badblocks.primary-superblock" {
        severity: Major, evidence: Cross, preen: false,
        message: "{block}, which holds the primary superblock, is on the list of bad blocks",
        meaning: "The superblock was read from there, so the list is wrong, or the device is failing.",
        repair: "The entry is removed from the list.",
        loss: "Nothing.",
        peers: [0x010017, 0x010018, 0x010019],
    }
    /// A block of the primary group descriptors is listed as bad.
    PRIMARY_DESCRIPTORS = "ext.badblocks.primary-descriptors" {
        severity: Major, evidence: Cross, preen: false,
        message: "{block}, which holds group descriptors, is on the list of bad blocks",
        meaning: "The primary descriptors were read from there, so the list is wrong, or the device is failing.",
        repair: "The entry is removed from the list.",
        loss: "Nothing.",
        peers: [0x010017, 0x010018, 0x01001A],
    }
    /// A backup of superblock or descriptors lies on a bad block.
    BACKUP = "ext.badblocks.backup" {
        severity: Note, evidence: Cross, preen: true,
        message: "{block}, which holds a backup of superblock or descriptors in {group}, is on the list of bad blocks",
        meaning: "That backup cannot be used.",
        repair: "Nothing has to be done.",
        loss: "Nothing.",
        peers: [0x01001B, 0x01001C],
    }
}
