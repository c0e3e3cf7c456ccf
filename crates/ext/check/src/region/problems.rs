// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `region`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Data inside: regions are for indirect blocks and directory blocks.
    DATA_INSIDE = "ext.region.data-inside" {
        severity: Major, evidence: Local, preen: false,
        message: "logical block {logical} of {inode} is at {stored}, inside an indirect region",
        meaning: "Indirect regions hold indirect blocks and directory blocks, never data. The pointer is damaged, or a driver violated the format.",
        repair: "If the block at that place belongs to another file, the pointer is cleared. Otherwise the data is moved out of the region.",
        loss: "That block of the file, if the pointer was wrong.",
        peers: [],
    }

    /// Attributes inside: regions are for indirect blocks and directory blocks.
    ATTRIBUTES_INSIDE = "ext.region.attributes-inside" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has its attribute block at {stored}, inside an indirect region",
        meaning: "Indirect regions hold indirect blocks and directory blocks, never attributes. The pointer is damaged.",
        repair: "The pointer is cleared.",
        loss: "The extended attributes in that block.",
        peers: [],
    }

    /// Map outside: indirect blocks lie in regions only.
    MAP_OUTSIDE = "ext.region.map-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, an indirect block of {inode}, is outside the indirect regions",
        meaning: "The pointer to it is damaged, or a driver violated the format.",
        repair: "If the block is marked as belonging to this file, it is moved into a region. Otherwise the pointer is cleared and the file has a hole there.",
        loss: "The blocks of the file that were mapped there, if the pointer was wrong.",
        peers: [],
    }

    /// Directory outside: directory blocks lie in regions only.
    DIRECTORY_OUTSIDE = "ext.region.directory-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "logical block {logical} of directory {inode} is at {stored}, outside the indirect regions",
        meaning: "The pointer to it is damaged, or a driver violated the format.",
        repair: "If the block is marked as belonging to this directory, it is moved into a region. Otherwise the pointer is cleared.",
        loss: "The names in that block, if the pointer was wrong.",
        peers: [],
    }

    /// Backpointer wrong: the indirect block is another file's, or belongs to another place.
    BACKPOINTER_WRONG = "ext.region.backpointer-wrong" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, an indirect block of {inode}, is marked as belonging to inode {stored}",
        meaning: "The pointer to it is damaged or stale and the block belongs to another file, or another block was written over it.",
        repair: "The file's own block takes its place where the indirect regions hold it. Otherwise the pointer is cleared and the file has a hole there.",
        loss: "The blocks of the file that were mapped there, if its own block is not found.",
        peers: [],
    }

    /// Level wrong: the indirect block belongs elsewhere in the tree.
    LEVEL_WRONG = "ext.region.level-wrong" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, an indirect block of {inode}, is marked as level {stored}, but has {observed:level:levels} below its pointer",
        meaning: "The pointer to it is damaged or stale. The block is intact and belongs elsewhere in the tree.",
        repair: "The block of the right level takes its place where the indirect regions hold it. Otherwise the pointer is cleared and the file has a hole there.",
        loss: "The blocks of the file that were mapped there, if the right block is not found.",
        peers: [],
    }

    /// Header damaged: inode number, level or check of an indirect block were overwritten.
    HEADER_DAMAGED = "ext.region.header-damaged" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, an indirect block of {inode}, has a damaged header (inode {stored}, wrong check value)",
        meaning: "The first bytes of the block were overwritten.",
        repair: "The header is rewritten.",
        loss: "Nothing, if the rest of the block is intact.",
        peers: [],
    }

    /// Tail missing: a directory block does not end with what tells whose it is.
    TAIL_MISSING = "ext.region.tail-missing" {
        severity: Major, evidence: Local, preen: false,
        message: "{block} of directory {inode} has no directory block tail",
        meaning: "The end of the block was overwritten, or the whole block.",
        repair: "The tail is rewritten.",
        loss: "The names in that block, if more than its end was overwritten.",
        peers: [],
    }

    /// Tail wrong: a directory block says that it is another one.
    TAIL_WRONG = "ext.region.tail-wrong" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, logical block {logical} of directory {inode}, is marked as {stored}, or as an older generation",
        meaning: "The pointer to it is damaged or stale, or the end of the block was overwritten.",
        repair: "The directory's own block is put there where the indirect regions hold it. Otherwise the tail is rewritten, and names that point to unused inodes are removed.",
        loss: "The names in the right block, if it is not found.",
        peers: [],
    }

    /// Tail checksum: something in a directory block was changed.
    TAIL_CHECKSUM = "ext.region.tail-checksum" {
        severity: Major, evidence: Local, preen: false,
        message: "{block} of directory {inode} has checksum {stored}, should be {observed}",
        meaning: "The block was damaged, or belongs elsewhere.",
        repair: "The checksum is recomputed.",
        loss: nothing,
        peers: [],
    }
}
