// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `allocation`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// A block is marked in use that nothing owns.
    BLOCKS_MARKED_BUT_FREE = "ext.allocation.blocks-marked-but-free" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{block} of {group} marked in use in the block bitmap, but owned by nothing",
        meaning: "No file and no metadata uses these blocks, so their space is wasted. Often a consequence of other damage.",
        repair: "The bits are cleared in the block bitmap. No file is changed.",
        loss: nothing,
        peers: [0x050004, 0x050014, 0x050006],
    }
    /// A block is in use but marked free.
    BLOCKS_USED_BUT_FREE = "ext.allocation.blocks-used-but-unmarked" {
        severity: Major, evidence: Cross, preen: true,
        message: "{block} of {group} marked free in the block bitmap, but in use",
        meaning: "Files or metadata use these blocks. A mounted file system could allocate them again and overwrite the data in them.",
        repair: "The bits are set in the block bitmap. No file is changed.",
        loss: nothing,
        peers: [0x050005, 0x050015, 0x050006],
    }
    /// Bits behind the end of the group are clear.
    BLOCK_BITMAP_PADDING = "ext.allocation.block-bitmap-padding" {
        severity: Minor, evidence: Local, preen: true,
        message: "the block bitmap of {group} has clear bits after the last block",
        meaning: "The unused end of a block bitmap must be filled with ones, so that no block beyond the end is allocated.",
        repair: "The bits are set.",
        loss: nothing,
        peers: [0x050002],
    }
    /// An inode is marked in use that is free.
    INODES_MARKED_BUT_FREE = "ext.allocation.inodes-marked-but-free" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inodes} of {group} marked in use in the inode bitmap, but free",
        meaning: "The inodes are free, or this repair clears them because of another problem.",
        repair: "The bits are cleared in the inode bitmap. No file is changed.",
        loss: nothing,
        peers: [0x050008, 0x050016, 0x05000A],
    }
    /// An inode in use is marked free.
    INODES_USED_BUT_FREE = "ext.allocation.inodes-used-but-unmarked" {
        severity: Major, evidence: Cross, preen: true,
        message: "{inodes} of {group} marked free in the inode bitmap, but in use",
        meaning: "A mounted file system could allocate these inodes again and overwrite the files.",
        repair: "The bits are set in the inode bitmap. No file is changed.",
        loss: nothing,
        peers: [0x050009, 0x050017, 0x05000A],
    }
    /// Bits behind the last inode are clear.
    INODE_BITMAP_PADDING = "ext.allocation.inode-bitmap-padding" {
        severity: Minor, evidence: Local, preen: true,
        message: "the inode bitmap of {group} has clear bits after the last inode",
        meaning: "The unused end of an inode bitmap must be filled with ones, so that no inode beyond the end is allocated.",
        repair: "The bits are set.",
        loss: nothing,
        peers: [0x050001],
    }
    /// Checksum of a block bitmap.
    BLOCK_BITMAP_CHECKSUM = "ext.allocation.block-bitmap-checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the block bitmap of {group} has checksum {stored}, should be {observed}",
        meaning: "The bitmap or its checksum was not written, or was damaged.",
        repair: "The bitmap is rebuilt from the block maps of the files and gets a new checksum.",
        loss: nothing,
        peers: [0x05001B],
    }
    /// Checksum of an inode bitmap.
    INODE_BITMAP_CHECKSUM = "ext.allocation.inode-bitmap-checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the inode bitmap of {group} has checksum {stored}, should be {observed}",
        meaning: "The bitmap or its checksum was not written, or was damaged.",
        repair: "The bitmap is rebuilt from the inode table and gets a new checksum.",
        loss: nothing,
        peers: [0x05001A],
    }
    /// A bitmap that cannot be read.
    BITMAP_UNREADABLE = "ext.allocation.bitmap-unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, a bitmap of {group}, cannot be read",
        meaning: "The device returned a read error, or the device ends before this block.",
        repair: "The bitmap is rebuilt from the files and the inode table, in another block if this one cannot be written.",
        loss: nothing,
        peers: [0x050006, 0x05000A],
    }
    /// Blocks in use in a group whose bitmap is flagged as never written.
    BLOCK_UNINIT_IN_USE = "ext.allocation.block-uninit-in-use" {
        severity: Major, evidence: Cross, preen: true,
        message: "{group} has the BLOCK_UNINIT flag, but {observed} of its blocks are in use",
        meaning: "The flag says that only the metadata of the group is in use. Files use other blocks of it.",
        repair: "The flag is cleared and the block bitmap is written.",
        loss: nothing,
        peers: [0x050018],
    }
    /// Inodes in use in a group flagged as having none.
    INODE_UNINIT_IN_USE = "ext.allocation.inode-uninit-in-use" {
        severity: Major, evidence: Cross, preen: true,
        message: "{group} has the INODE_UNINIT flag, but {observed} of its inodes are in use",
        meaning: "The flag says that no inode of the group is in use.",
        repair: "The flag is cleared and the inode bitmap is written.",
        loss: nothing,
        peers: [0x050019],
    }
    /// Free blocks of a group.
    GROUP_FREE_BLOCKS = "ext.allocation.group-free-blocks" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group} counts {stored:free block:free blocks}, but {observed:is:are} free",
        meaning: "The free blocks count in the group descriptor is wrong. It goes stale when the system stops without unmounting.",
        repair: "The count is corrected.",
        loss: nothing,
        peers: [0x05000E],
    }
    /// Free inodes of a group.
    GROUP_FREE_INODES = "ext.allocation.group-free-inodes" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group} counts {stored:free inode:free inodes}, but {observed:is:are} free",
        meaning: "The free inodes count in the group descriptor is wrong.",
        repair: "The count is corrected.",
        loss: nothing,
        peers: [0x05000B],
    }
    /// Directories of a group.
    GROUP_DIRECTORIES = "ext.allocation.group-directories" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group} counts {stored:directory:directories}, but has {observed}",
        meaning: "The directories count in the group descriptor is wrong.",
        repair: "The count is corrected.",
        loss: nothing,
        peers: [0x05000C],
    }
    /// All free blocks.
    FREE_BLOCKS = "ext.allocation.free-blocks" {
        severity: Minor, evidence: Cross, preen: true,
        message: "the superblock counts {stored:free block:free blocks}, but {observed:is:are} free",
        meaning: "The free blocks count in the superblock is wrong.",
        repair: "The count is corrected.",
        loss: nothing,
        peers: [0x05000F],
    }
    /// All free inodes.
    FREE_INODES = "ext.allocation.free-inodes" {
        severity: Minor, evidence: Cross, preen: true,
        message: "the superblock counts {stored:free inode:free inodes}, but {observed:is:are} free",
        meaning: "The free inodes count in the superblock is wrong.",
        repair: "The count is corrected.",
        loss: nothing,
        peers: [0x05000D],
    }
    /// The totals in the superblock lag behind the groups' counts.
    TOTALS_STALE = "ext.allocation.totals-stale" {
        severity: Note, evidence: Cross, preen: true,
        message: "the free {what} count in the superblock is {stored}, but the groups add up to {observed}",
        meaning: "The kernel writes these counts only on unmount, and recomputes them on every mount. After a crash they are stale. This is not damage.",
        repair: "The count is set to the sum over all groups.",
        loss: nothing,
        peers: [0x05000D, 0x05000F],
    }
}
