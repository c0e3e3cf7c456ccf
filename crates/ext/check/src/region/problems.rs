//! Catalogue rows of `region`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Data inside: regions are for indirect blocks and directory blocks.
    DATA_INSIDE = "ext.region.data-inside" {
        severity: Major, evidence: Local, preen: false,
        message: "block {logical} of {inode} lies at {stored}, inside an indirect region",
        meaning: "Indirect regions hold indirect blocks and directory blocks, never data. The pointer is damaged, or a driver has broken the rules of the format.",
        repair: "Where the block at that place says that it is another file's, the pointer is cleared. Otherwise the data get a block outside.",
        loss: "That block of the file, if the pointer was wrong.",
        peers: [],
    }

    /// Attributes inside: regions are for indirect blocks and directory blocks.
    ATTRIBUTES_INSIDE = "ext.region.attributes-inside" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has its attribute block at {stored}, inside an indirect region",
        meaning: "Indirect regions hold indirect blocks and directory blocks, never attributes. The pointer is damaged.",
        repair: "The pointer is cleared.",
        loss: "The extended attributes of the file that stood in that block.",
        peers: [],
    }

    /// Map outside: indirect blocks lie in regions only.
    MAP_OUTSIDE = "ext.region.map-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, an indirect block of {inode}, lies outside of the indirect regions",
        meaning: "The pointer to it is damaged, or a driver has broken the rules of the format.",
        repair: "If the block says that it is this file's, it moves into a region. Otherwise the pointer is cleared: the file gets a hole there.",
        loss: "The blocks of the file that it mapped, if the pointer was wrong.",
        peers: [],
    }

    /// Directory outside: directory blocks lie in regions only.
    DIRECTORY_OUTSIDE = "ext.region.directory-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "block {logical} of directory {inode} lies at {stored}, outside of the indirect regions",
        meaning: "The pointer to it is damaged, or a driver has broken the rules of the format.",
        repair: "If the block says that it is this directory's, it moves into a region. Otherwise the pointer is cleared.",
        loss: "The names in that block, if the pointer was wrong.",
        peers: [],
    }

    /// Backpointer wrong: the indirect block is another file's, or belongs to another place.
    BACKPOINTER_WRONG = "ext.region.backpointer-wrong" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, an indirect block of {inode}, says that it is one of inode {stored}",
        meaning: "The pointer to it is damaged or stale, and the block is another file's, or was; or another block was written to its place.",
        repair: "The pointer is cleared: the file gets a hole there.",
        loss: "The blocks of the file that were mapped there, if any.",
        peers: [],
    }

    /// Level wrong: the indirect block belongs elsewhere in the tree.
    LEVEL_WRONG = "ext.region.level-wrong" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, an indirect block of {inode} with {observed:level:levels} below the pointer to it, says that it is of level {stored}",
        meaning: "The pointer to it is damaged or stale: the block is intact and belongs to another place in the tree.",
        repair: "The pointer is cleared: the file gets a hole there.",
        loss: "The blocks of the file that were mapped there, if any.",
        peers: [],
    }

    /// Header damaged: inode number, level or check of an indirect block were overwritten.
    HEADER_DAMAGED = "ext.region.header-damaged" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, an indirect block of {inode}, does not say whose it is (inode {stored}, but the check is wrong)",
        meaning: "The first bytes of the block were overwritten.",
        repair: "They are written anew, as the tree of the file has them.",
        loss: "Nothing, if the rest of the block is intact.",
        peers: [],
    }

    /// Tail missing: a directory block does not end with what tells whose it is.
    TAIL_MISSING = "ext.region.tail-missing" {
        severity: Major, evidence: Local, preen: false,
        message: "{block} of directory {inode} does not say whose it is: the tail of directory blocks is not there",
        meaning: "The end of the block was overwritten, or all of it.",
        repair: "The tail is written anew.",
        loss: "Names that stood in that block, if more than its end was overwritten.",
        peers: [],
    }

    /// Tail wrong: a directory block says that it is another one.
    TAIL_WRONG = "ext.region.tail-wrong" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, block {logical} of directory {inode}, says that it is {stored}, or is of an older generation",
        meaning: "The pointer to it is damaged or stale, or the end of the block was overwritten.",
        repair: "The tail is written anew; names that lead nowhere are removed.",
        loss: "Names that stood in the block that belongs here, if the pointer was wrong.",
        peers: [],
    }

    /// Tail checksum: something in a directory block was changed.
    TAIL_CHECKSUM = "ext.region.tail-checksum" {
        severity: Major, evidence: Local, preen: false,
        message: "{block} of directory {inode} has a wrong checksum ({stored} instead of {observed})",
        meaning: "Something in the block was changed that should not have been, or the block belongs elsewhere.",
        repair: "The checksum is computed anew.",
        loss: "Nothing.",
        peers: [],
    }
}
