//! Catalogue rows of `allocation`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// A block is marked in use that nothing owns.
    BLOCKS_MARKED_BUT_FREE = "ext.allocation.blocks-marked-but-free" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{block} of {group} marked in use, but owned by nothing",
        meaning: "The block bitmap says that these blocks are in use, but nothing owns them. Space is lost until the bits are cleared; often a knock-on effect of other damage.",
        repair: "The bits are cleared.",
        loss: "Nothing.",
        peers: [0x050004, 0x050014, 0x050006],
    }
    /// A block is in use but marked free.
    BLOCKS_USED_BUT_FREE = "ext.allocation.blocks-used-but-unmarked" {
        severity: Major, evidence: Cross, preen: true,
        message: "{block} of {group} marked free, but in use",
        meaning: "The block bitmap says that these blocks are free although files or structures own them. A mounted file system would give them out again and overwrite what is there.",
        repair: "The bits are set.",
        loss: "Nothing.",
        peers: [0x050005, 0x050015, 0x050006],
    }
    /// Bits behind the end of the group are clear.
    BLOCK_BITMAP_PADDING = "ext.allocation.block-bitmap-padding" {
        severity: Minor, evidence: Local, preen: true,
        message: "the block bitmap of {group} has clear bits behind the last block",
        meaning: "The unused end of a block bitmap has to be filled with ones, so that nobody takes blocks that do not exist.",
        repair: "The bits are set.",
        loss: "Nothing.",
        peers: [0x050002],
    }
    /// An inode is marked in use that is free.
    INODES_MARKED_BUT_FREE = "ext.allocation.inodes-marked-but-free" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inodes} of {group} marked in use, but free",
        meaning: "The inode bitmap says that these inodes are in use, but they are free (or will be cleared for other reasons).",
        repair: "The bits are cleared.",
        loss: "Nothing.",
        peers: [0x050008, 0x050016, 0x05000A],
    }
    /// An inode in use is marked free.
    INODES_USED_BUT_FREE = "ext.allocation.inodes-used-but-unmarked" {
        severity: Major, evidence: Cross, preen: true,
        message: "{inodes} of {group} marked free, but in use",
        meaning: "The inode bitmap says that these inodes are free although they are in use. A mounted file system would give them out again.",
        repair: "The bits are set.",
        loss: "Nothing.",
        peers: [0x050009, 0x050017, 0x05000A],
    }
    /// Bits behind the last inode are clear.
    INODE_BITMAP_PADDING = "ext.allocation.inode-bitmap-padding" {
        severity: Minor, evidence: Local, preen: true,
        message: "the inode bitmap of {group} has clear bits behind the last inode",
        meaning: "The unused end of an inode bitmap has to be filled with ones, so that nobody takes inodes that do not exist.",
        repair: "The bits are set.",
        loss: "Nothing.",
        peers: [0x050001],
    }
    /// Checksum of a block bitmap.
    BLOCK_BITMAP_CHECKSUM = "ext.allocation.block-bitmap-checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the checksum of the block bitmap of {group} is {stored}, should be {observed}",
        meaning: "The block bitmap and its checksum do not belong together: one of them was not written, or was damaged.",
        repair: "The bitmap is rebuilt from what the files own and gets a new checksum.",
        loss: "Nothing.",
        peers: [0x05001B],
    }
    /// Checksum of an inode bitmap.
    INODE_BITMAP_CHECKSUM = "ext.allocation.inode-bitmap-checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the checksum of the inode bitmap of {group} is {stored}, should be {observed}",
        meaning: "The inode bitmap and its checksum do not belong together: one of them was not written, or was damaged.",
        repair: "The bitmap is rebuilt from the inode table and gets a new checksum.",
        loss: "Nothing.",
        peers: [0x05001A],
    }
    /// A bitmap that cannot be read.
    BITMAP_UNREADABLE = "ext.allocation.bitmap-unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "a bitmap of {group} cannot be read ({block})",
        meaning: "The device reports an error for this block, or the device ends before it. The bitmap says which blocks or inodes are free.",
        repair: "The bitmap is rebuilt from the files and the inode table, on another block where this one cannot be written.",
        loss: "Nothing.",
        peers: [0x050006, 0x05000A],
    }
    /// Blocks in use in a group whose bitmap is flagged as never written.
    BLOCK_UNINIT_IN_USE = "ext.allocation.block-uninit-in-use" {
        severity: Major, evidence: Cross, preen: true,
        message: "{group} is flagged as having no block in use, but it has {observed} in use",
        meaning: "The group's block bitmap is flagged as uninitialised, which means that only the group's own structures are in use; but files own blocks there.",
        repair: "The flag is removed and the bitmap written.",
        loss: "Nothing.",
        peers: [0x050018],
    }
    /// Inodes in use in a group flagged as having none.
    INODE_UNINIT_IN_USE = "ext.allocation.inode-uninit-in-use" {
        severity: Major, evidence: Cross, preen: true,
        message: "{group} is flagged as having no inode in use, but it has {observed} in use",
        meaning: "The group's inode table is flagged as uninitialised; but inodes of it are in use.",
        repair: "The flag is removed and the inode bitmap written.",
        loss: "Nothing.",
        peers: [0x050019],
    }
    /// Free blocks of a group.
    GROUP_FREE_BLOCKS = "ext.allocation.group-free-blocks" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group} counts {stored:free block:free blocks}, but {observed:is:are} free",
        meaning: "The group's count of free blocks does not match its blocks. Counts go stale when a system stops without unmounting.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [0x05000E],
    }
    /// Free inodes of a group.
    GROUP_FREE_INODES = "ext.allocation.group-free-inodes" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group} counts {stored:free inode:free inodes}, but {observed:is:are} free",
        meaning: "The group's count of free inodes does not match its inode table.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [0x05000B],
    }
    /// Directories of a group.
    GROUP_DIRECTORIES = "ext.allocation.group-directories" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{group} counts {stored:directory:directories}, but has {observed}",
        meaning: "The group's count of directories does not match its inode table.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [0x05000C],
    }
    /// All free blocks.
    FREE_BLOCKS = "ext.allocation.free-blocks" {
        severity: Minor, evidence: Cross, preen: true,
        message: "the file system counts {stored:free block:free blocks}, but {observed:is:are} free",
        meaning: "The total of free blocks does not match what is free.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [0x05000F],
    }
    /// All free inodes.
    FREE_INODES = "ext.allocation.free-inodes" {
        severity: Minor, evidence: Cross, preen: true,
        message: "the file system counts {stored:free inode:free inodes}, but {observed:is:are} free",
        meaning: "The total of free inodes does not match what is free.",
        repair: "The count is corrected.",
        loss: "Nothing.",
        peers: [0x05000D],
    }
    /// The totals in the superblock lag behind the groups' counts.
    TOTALS_STALE = "ext.allocation.totals-stale" {
        severity: Note, evidence: Cross, preen: true,
        message: "the superblock's total of free {what} ({stored}) lags behind the groups' ({observed})",
        meaning: "Kernels write the totals only when they unmount; after a crash they are old. Every mount computes them anew, so this is no damage.",
        repair: "The total is set to the sum of the groups' counts.",
        loss: "Nothing.",
        peers: [0x05000D, 0x05000F],
    }
}
