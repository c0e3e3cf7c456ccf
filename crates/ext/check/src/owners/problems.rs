// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `owners`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Blocks that several owners claim.
    MULTIPLY_CLAIMED = "ext.block.multiply-claimed" {
        severity: Major, evidence: Cross, preen: false,
        message: "{block} of {inode} also claimed by {others}",
        meaning: "Two owners claim the same blocks: a block map is damaged, or the blocks were allocated twice. At most one owner has its own data there.",
        repair: "Each file gets its own copy of the blocks.",
        loss: "The files may hold data of another file in these blocks. It is not known which file has the right data.",
        peers: [0x011002, 0x011008],
    }
    /// An inode with blocks that others claim, too.
    SHARES_BLOCKS = "ext.inode.shares-blocks" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} shares {count:block:blocks} with {others}",
        meaning: "The file and other owners claim the same blocks. The last writer has its data there. If such a block is inside a directory and holds directory entries, it is not file data: the file gets zeros instead of a copy.",
        repair: "The file gets copies of the shared blocks. With --duplicates it is moved to lost+found, zeroed or deleted instead.",
        loss: "The shared blocks may hold data of another file.",
        peers: [0x013006, 0x013007],
    }
    /// No room for copies of shared blocks.
    NO_ROOM = "ext.inode.no-room-for-copies" {
        severity: Major, evidence: Cross, preen: false,
        message: "there is no space to copy {count:block:blocks} of {inode}",
        meaning: "Several files claim the same blocks, and the file system does not have enough free blocks to copy them for every file.",
        repair: "The file gets a hole in place of these blocks, which reads as zeros. The rest of the file is kept.",
        loss: "The data in these blocks, if it was the data of this file.",
        peers: [0x013008],
    }
    /// Blocks of others that a file claims against its own size and space in use.
    GIVEN_UP = "ext.inode.claims-given-up" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} claims {count:block:blocks} that neither i_size nor i_blocks accounts for; many of them belong to other files",
        meaning: "The block map of the file is damaged and continues into blocks of other files. There is no space to copy all shared blocks.",
        repair: "These blocks are removed from the file without a copy. The part that i_size and i_blocks account for is kept.",
        loss: "The data in these blocks, if any of it was the data of this file.",
        peers: [],
    }
    /// Shared blocks that cannot be read.
    COPY_UNREADABLE = "ext.inode.copy-unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "{count:block:blocks} of {inode} cannot be read and cannot be copied",
        meaning: "The file must move out of these blocks, but the device returned read errors for them.",
        repair: "The file gets blocks of zeros instead.",
        loss: "The contents of these blocks.",
        peers: [],
    }
}
