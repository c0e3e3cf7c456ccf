//! Catalogue rows of `indirect`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Pointer outside: the pointer is damaged.
    POINTER_OUTSIDE = "ext.blockmap.pointer-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} maps its block {logical} to {stored}, outside of the file system",
        meaning: "The pointer is damaged.",
        repair: "The pointer is cleared: the file gets a hole there.",
        loss: "That block of the file.",
        peers: [0x01000E, 0x010010],
    }

    /// Map pointer outside: the pointer is damaged.
    MAP_POINTER_OUTSIDE = "ext.blockmap.map-pointer-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has an indirect block ({levels:level:levels}, from file block {logical}) at {stored}, outside of the file system",
        meaning: "The pointer is damaged.",
        repair: "The pointer is cleared: the file gets a hole there.",
        loss: "The blocks of the file that it mapped.",
        peers: [0x01000E, 0x010010],
    }

    /// Map in metadata: the pointer is damaged, or the metadata have overwritten the indirect block.
    MAP_IN_METADATA = "ext.blockmap.map-in-metadata" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, an indirect block of {inode}, lies within the file system's own metadata",
        meaning: "The pointer is damaged, or the metadata have overwritten the indirect block.",
        repair: "The indirect block gets a block of its own; pointers in it that make no sense are cleared. Where the block proves to be one that \
                 is reserved for descriptors, the pointer to it is cleared.",
        loss: "Parts of the file, most likely.",
        peers: [0x01000F, 0x010071],
    }

    /// Map is something else: most pointers in an indirect block make no sense.
    MAP_FOREIGN = "ext.blockmap.map-foreign" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, an indirect block of {inode}, holds {observed} pointers that lead out of the file system, and {stored} others: it is something else",
        meaning: "The pointer to it is damaged, or it was overwritten.",
        repair: "The pointer to it is cleared: the file gets a hole there.",
        loss: "The blocks of the file that it mapped, if it ever did.",
        peers: [0x01000E, 0x01000F, 0x010010, 0x010011, 0x010071],
    }

    /// Map repeated: a pointer is damaged: an indirect block can stand in one place only.
    MAP_REPEATED = "ext.blockmap.map-repeated" {
        severity: Major, evidence: Local, preen: false,
        message: "{block} occurs twice as an indirect block of {inode}",
        meaning: "A pointer is damaged: an indirect block can stand in one place only.",
        repair: "The second pointer is cleared: the file gets a hole there.",
        loss: "The blocks of the file that were mapped there, if any.",
        peers: [],
    }

    /// Unreadable: the device reported an error.
    MAP_UNREADABLE = "ext.blockmap.unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, an indirect block of {inode}, cannot be read",
        meaning: "The device reported an error.",
        repair: "The pointer to it is cleared: the file gets a hole there.",
        loss: "The blocks of the file that it mapped.",
        peers: [0x010029],
    }

    /// Hopeless: the inode or an indirect block was overwritten with something else.
    HOPELESS = "ext.blockmap.hopeless" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has {observed} wrong block pointers and {stored} that could be right, so that its map is not a map",
        meaning: "The inode or an indirect block was overwritten with something else.",
        repair: "The inode is cleared.",
        loss: "The file.",
        peers: [0x010011],
    }

    /// Pointer behind end: size and space in use agree with each other, and the pointer with neither.
    POINTER_BEHIND_END = "ext.blockmap.pointer-behind-end" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} maps block {stored} from its block {logical} on, which lies behind its end, and has all its space in use without it",
        meaning: "The size of the file and the number of blocks that it has in use agree with each other, and the pointer with neither: it was overwritten, and leads to what belongs to others or to nobody.",
        repair: "The pointer is cleared.",
        loss: "Nothing that belongs to the file.",
        peers: [],
    }

    /// Directory too big: the pointer is damaged: it stands where no pointer should be.
    DIRECTORY_TOO_BIG = "ext.blockmap.directory-too-big" {
        severity: Major, evidence: Local, preen: false,
        message: "block {logical} of directory {inode} (at {stored}) makes the directory larger than directories can be",
        meaning: "The pointer is damaged: it stands where no pointer should be.",
        repair: "The pointer is cleared.",
        loss: "Nothing that could be reached.",
        peers: [0x010044, 0x010043],
    }

    /// File too big: the pointer is damaged: it stands where no pointer should be.
    FILE_TOO_BIG = "ext.blockmap.file-too-big" {
        severity: Major, evidence: Local, preen: false,
        message: "block {logical} of {inode} (at {stored}) makes the file larger than files can be",
        meaning: "The pointer is damaged: it stands where no pointer should be.",
        repair: "The pointer is cleared.",
        loss: "Nothing that could be reached.",
        peers: [0x010045, 0x010043],
    }

    /// Symlink too big: the pointer is damaged: it stands where no pointer should be.
    SYMLINK_TOO_BIG = "ext.blockmap.symlink-too-big" {
        severity: Major, evidence: Local, preen: false,
        message: "symbolic link {inode} has a block {logical} (at {stored}); the target of a link fits one block",
        meaning: "The pointer is damaged: it stands where no pointer should be.",
        repair: "The pointer is cleared.",
        loss: "Nothing that could be reached.",
        peers: [0x010046, 0x010043],
    }

    /// Not by extents: the kernel cannot add to such a file.
    NOT_BY_EXTENTS = "ext.blockmap.not-by-extents" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has a block map, but where space is allocated in clusters files have to be mapped by extents",
        meaning: "The kernel cannot add to such a file.",
        repair: "The map is rewritten as an extent tree.",
        loss: "Nothing.",
        peers: [0x010080],
    }
}
