// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `indirect`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Pointer outside.
    POINTER_OUTSIDE = "ext.blockmap.pointer-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} maps its logical block {logical} to {stored}, outside the file system",
        meaning: "The pointer is damaged.",
        repair: "The pointer is cleared. The file has a hole there, which reads as zeros.",
        loss: "That block of the file.",
        peers: [0x01000E, 0x010010],
    }

    /// Map pointer outside.
    MAP_POINTER_OUTSIDE = "ext.blockmap.map-pointer-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has an indirect block ({levels:level:levels}, from logical block {logical}) at {stored}, outside the file system",
        meaning: "The pointer is damaged.",
        repair: "The pointer is cleared. The file has a hole there, which reads as zeros.",
        loss: "The blocks of the file that it mapped.",
        peers: [0x01000E, 0x010010],
    }

    /// Map in metadata.
    MAP_IN_METADATA = "ext.blockmap.map-in-metadata" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, an indirect block of {inode}, is in use for file system metadata",
        meaning: "The pointer is damaged, or the metadata was written over the indirect block.",
        repair: "The indirect block is copied to a block of its own and invalid pointers in it are cleared. If the block is reserved for group descriptors, the pointer to it is cleared instead.",
        loss: "Probably parts of the file.",
        peers: [0x01000F, 0x010071],
    }

    /// Map is something else: most pointers in an indirect block make no sense.
    MAP_FOREIGN = "ext.blockmap.map-foreign" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, an indirect block of {inode}, has {observed} invalid pointers and {stored} others: it is not an indirect block",
        meaning: "The pointer to it is damaged, or the block was overwritten.",
        repair: "The pointer to it is cleared. The file has a hole there, which reads as zeros.",
        loss: "The blocks of the file that it mapped, if it ever did.",
        peers: [0x01000E, 0x01000F, 0x010010, 0x010011, 0x010071],
    }

    /// Map repeated.
    MAP_REPEATED = "ext.blockmap.map-repeated" {
        severity: Major, evidence: Local, preen: false,
        message: "{block} is used twice as an indirect block of {inode}",
        meaning: "A pointer is damaged: each indirect block can appear only once.",
        repair: "One of the two pointers is cleared, the second one if the size of the file does not tell which. The file has a hole there, which reads as zeros.",
        loss: "The blocks of the file that were mapped there, if any.",
        peers: [],
    }

    /// Unreadable.
    MAP_UNREADABLE = "ext.blockmap.unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, an indirect block of {inode}, cannot be read",
        meaning: "The device returned a read error.",
        repair: "The pointer to it is cleared. The file has a hole there, which reads as zeros.",
        loss: "The blocks of the file that it mapped.",
        peers: [0x010029],
    }

    /// Hopeless.
    HOPELESS = "ext.blockmap.hopeless" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has {observed} invalid block pointers and {stored} possible ones: its block map is garbage",
        meaning: "The inode or an indirect block was overwritten with something else.",
        repair: "The inode is cleared and the names that point to it are removed.",
        loss: "The file.",
        peers: [0x010011],
    }

    /// Pointer behind end: size and space in use agree with each other, and the pointer with neither.
    POINTER_BEHIND_END = "ext.blockmap.pointer-behind-end" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} maps block {stored} at logical block {logical}, after its end; i_blocks does not count it",
        meaning: "i_size and i_blocks agree with each other and contradict the pointer. The pointer was overwritten; the block belongs to another file or to none.",
        repair: "The pointer is cleared.",
        loss: nothing "Nothing that belongs to the file.",
        peers: [0x01000C, 0x01000D],
    }

    /// Pointer to a block that is surely something else, where size or space in use say that there is a hole.
    POINTER_FALSE = "ext.blockmap.pointer-false" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} maps block {stored} at logical block {logical}, but that block is {observed}",
        meaning: "i_size or i_blocks contradicts the pointer, and what it points to is in use for something else. The pointer was overwritten: there was a hole.",
        repair: "The pointer is cleared. The file has a hole there, which reads as zeros.",
        loss: nothing "Nothing that belongs to the file.",
        peers: [0x011002, 0x010071],
    }

    /// Directory too big.
    DIRECTORY_TOO_BIG = "ext.blockmap.directory-too-big" {
        severity: Major, evidence: Local, preen: false,
        message: "logical block {logical} (physical block {stored}) makes directory {inode} too big",
        meaning: "The pointer is damaged: no pointer is allowed there.",
        repair: "The pointer is cleared.",
        loss: nothing "Nothing that was reachable.",
        peers: [0x010044, 0x010043],
    }

    /// File too big.
    FILE_TOO_BIG = "ext.blockmap.file-too-big" {
        severity: Major, evidence: Local, preen: false,
        message: "logical block {logical} of {inode} (physical block {stored}) makes the file too big",
        meaning: "The pointer is damaged: no pointer is allowed there.",
        repair: "The pointer is cleared.",
        loss: nothing "Nothing that was reachable.",
        peers: [0x010045, 0x010043],
    }

    /// Symlink too big.
    SYMLINK_TOO_BIG = "ext.blockmap.symlink-too-big" {
        severity: Major, evidence: Local, preen: false,
        message: "symbolic link {inode} has a logical block {logical} (physical block {stored}); a symbolic link has at most one block",
        meaning: "The pointer is damaged: no pointer is allowed there.",
        repair: "The pointer is cleared.",
        loss: nothing "Nothing that was reachable.",
        peers: [0x010046, 0x010043],
    }

    /// Not by extents.
    NOT_BY_EXTENTS = "ext.blockmap.not-by-extents" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has a block map, but files must use extents on a bigalloc file system",
        meaning: "The kernel cannot allocate blocks for such a file.",
        repair: "The block map is converted to an extent tree.",
        loss: nothing,
        peers: [0x010080],
    }
}
