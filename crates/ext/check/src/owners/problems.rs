//! Catalogue rows of `owners`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Blocks that several owners claim.
    MULTIPLY_CLAIMED = "ext.block.multiply-claimed" {
        severity: Major, evidence: Cross, preen: false,
        message: "{block} of {inode} also claimed by {others}",
        meaning: "Two owners say that the same block is theirs: one of the maps is wrong, or a block was given out twice. At most one of the owners has its right contents there.",
        repair: "Every file gets a copy of the block of its own.",
        loss: "Which of the files has the right contents cannot be told; the others hold foreign data in these blocks.",
        peers: [0x011002, 0x011008],
    }
    /// An inode with blocks that others claim, too.
    SHARES_BLOCKS = "ext.inode.shares-blocks" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} shares {count:block:blocks} with {others}",
        meaning: "The file and other owners claim the same blocks. Whoever wrote last has the right contents there. A block in the midst of a directory that holds what directories hold is no file's: instead of a copy the file gets zeroes.",
        repair: "The file gets copies of the shared blocks. On request (`--duplicates`) it is moved to lost+found, zeroed or deleted instead.",
        loss: "The shared blocks may hold another file's data.",
        peers: [0x013006, 0x013007],
    }
    /// No room for copies of shared blocks.
    NO_ROOM = "ext.inode.no-room-for-copies" {
        severity: Major, evidence: Cross, preen: false,
        message: "no room is left for copies of {count:block:blocks} of {inode}",
        meaning: "Several files claim the same blocks, and not all of them can have copies, because the file system is full.",
        repair: "The file keeps everything else; the blocks become a hole in it.",
        loss: "What the file had in these blocks, if it was the file that they belonged to.",
        peers: [0x013008],
    }
    /// Blocks of others that a file claims against its own size and space in use.
    GIVEN_UP = "ext.inode.claims-given-up" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} claims {count:block:blocks}, many of them owned by others, of which neither its size nor its space in use tells",
        meaning: "The map of the file is damaged: it goes on where other files live, further than the file itself says that it reaches. There is no room for copies of all that is shared.",
        repair: "The file gives these blocks up, and gets no copies of them. What size and space in use tell of stays.",
        loss: "What lay in these blocks and belonged to the file, if anything did.",
        peers: [],
    }
    /// Shared blocks that cannot be read.
    COPY_UNREADABLE = "ext.inode.copy-unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "{count:block:blocks} of {inode} cannot be read, and so not be copied",
        meaning: "The file had to move out of these blocks, and the device does not give their contents back.",
        repair: "The file gets blocks of zeroes in their place.",
        loss: "The contents of these blocks.",
        peers: [],
    }
}
