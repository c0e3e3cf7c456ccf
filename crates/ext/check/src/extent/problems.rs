// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `extent`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Root invalid.
    TREE_ROOT_INVALID = "ext.extent.root-invalid" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has EXTENTS_FL set, but holds no extent tree",
        meaning: "The root of the extent tree was overwritten.",
        repair: "The inode is cleared and the names that point to it are removed.",
        loss: "The file.",
        peers: [0x010081, 0x01000D, 0x01000C],
    }

    /// One word of the root's header wrong: the others, and the entries, prove that it is one.
    TREE_HEAD_DAMAGED = "ext.extent.root-damaged" {
        severity: Major, evidence: Local, preen: false,
        message: "the extent tree header of {inode} has one wrong field; all other fields and the tree are valid",
        meaning: "The header holds a magic number, the number of extents and the maximum. One of them was overwritten.",
        repair: "The field is corrected.",
        loss: nothing,
        peers: [0x010081, 0x01000D],
    }

    /// Header invalid.
    HEADER_INVALID = "ext.extent.header-invalid" {
        severity: Major, evidence: Local, preen: false,
        message: "{block} should be an extent tree node of {inode}, but has an invalid header",
        meaning: "The node is damaged, or the pointer to it is wrong.",
        repair: "The node is removed from the tree. The file has a hole there, which reads as zeros.",
        loss: "The part of the file that was mapped there.",
        peers: [0x01005F],
    }

    /// The depth of a node is not what its place in the tree says.
    NODE_DEPTH = "ext.extent.node-depth" {
        severity: Major, evidence: Cross, preen: false,
        message: "{block}, an extent tree node of {inode}, has the wrong eh_depth; its depth is {observed:level:levels}",
        meaning: "The depth in the header does not match the position of the node and its entries. The kernel cannot read the blocks that it maps.",
        repair: "eh_depth is corrected.",
        loss: nothing,
        peers: [],
    }

    /// Unreadable.
    NODE_UNREADABLE = "ext.extent.unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, an extent tree node of {inode}, cannot be read",
        meaning: "The device returned a read error.",
        repair: "The node is removed from the tree. The file has a hole there, which reads as zeros.",
        loss: "The part of the file that was mapped there.",
        peers: [0x010056, 0x010057],
    }

    /// Node repeated.
    NODE_REPEATED = "ext.extent.node-repeated" {
        severity: Major, evidence: Local, preen: false,
        message: "{block} is used twice in the extent tree of {inode}",
        meaning: "An index entry is damaged: each node can appear only once.",
        repair: "The second reference is removed. The file has a hole there, which reads as zeros.",
        loss: "The part of the file that was mapped there, if any.",
        peers: [],
    }

    /// Node in metadata.
    NODE_IN_METADATA = "ext.extent.node-in-metadata" {
        severity: Major, evidence: Local, preen: false,
        message: "{block}, an extent tree node of {inode}, is in use for file system metadata",
        meaning: "The pointer is damaged, or the metadata was written over the node.",
        repair: "The node is copied to a block of its own. Invalid entries in it are removed.",
        loss: "Probably parts of the file.",
        peers: [0x01000F, 0x010071],
    }

    /// Start outside.
    START_OUTSIDE = "ext.extent.start-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of {inode} (logical block {logical}, length {length}) starts at invalid block {stored}",
        meaning: "The extent entry is damaged.",
        repair: "The extent is removed from the tree. The file has a hole there, which reads as zeros.",
        loss: "The part of the file that was mapped there.",
        peers: [0x010058],
    }

    /// End outside.
    END_OUTSIDE = "ext.extent.end-outside" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of {inode} (logical block {logical}, length {length}, physical block {stored}) ends beyond the end of the file system",
        meaning: "The extent entry is damaged.",
        repair: "The extent is removed from the tree. The file has a hole there, which reads as zeros.",
        loss: "The part of the file that was mapped there.",
        peers: [0x010059],
    }

    /// Out of order.
    OUT_OF_ORDER = "ext.extent.out-of-order" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of {inode} (logical block {logical}) is out of order: it follows one for logical block {observed}",
        meaning: "The entries of an extent tree must be sorted by logical block.",
        repair: "The extent is removed from the tree. The file has a hole there, which reads as zeros.",
        loss: "The part of the file that was mapped there.",
        peers: [0x01005E],
    }

    /// An extent out of order that fits into the gap between its neighbours.
    MISPLACED = "ext.extent.misplaced" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of {inode} has logical block {logical}, should be {observed}",
        meaning: "The extents must be sorted and lie within the file. This one does not, but its length, its neighbours and the size of the file show where it belongs: only its logical block is wrong.",
        repair: "The logical block is corrected.",
        loss: nothing,
        peers: [0x01005E, 0x01000C],
    }

    /// An extent that reaches beyond the end of its file.
    BEYOND_SIZE = "ext.extent.beyond-size" {
        severity: Major, evidence: Local, preen: false,
        message: "the last extent of {inode} (logical block {logical}, length {length}) ends after the end of the file; i_size and i_blocks allow {observed:block:blocks}",
        meaning: "i_size and i_blocks agree with each other and contradict the extent. Its length was overwritten; the blocks after the end belong to other files or to none.",
        repair: "The extent is truncated to the end of the file.",
        loss: nothing "Nothing that belongs to the file.",
        peers: [0x01000C, 0x01000D, 0x010059],
    }
    /// Behind the space in use, where the size tells nothing.
    BEYOND_SPACE = "ext.extent.beyond-space" {
        severity: Major, evidence: Local, preen: false,
        message: "the last extent of {inode} (logical block {logical}, length {length}) is longer than i_blocks allows ({observed:block:blocks})",
        meaning: "One byte or bit of its length was overwritten: without that, i_blocks matches it. The blocks after that belong to other files or to none.",
        repair: "The extent is truncated to the length that i_blocks allows.",
        loss: nothing "Nothing that belongs to the file.",
        peers: [0x01000C, 0x01000D, 0x010059],
    }
    /// Behind the end of a directory, where what lies there is not its own, and the space in use tells nothing.
    DIRECTORY_BEYOND_SIZE = "ext.extent.directory-beyond-size" {
        severity: Major, evidence: Local, preen: false,
        message: "the last extent of directory {inode} (logical block {logical}, length {length}) ends after the end of the directory; i_size allows {observed:block:blocks}",
        meaning: "Most of the blocks after the end hold no directory entries, or belong to other directories. i_blocks matches neither length. The length of the extent was overwritten.",
        repair: "The extent is truncated to the end of the directory.",
        loss: nothing "Nothing that belongs to the directory.",
        peers: [0x01000C, 0x01000D],
    }
    /// Too long: it covers several entries that are in order.
    TOO_LONG = "ext.extent.too-long" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of {inode} (logical block {logical}, length {length}) overlaps several that follow; it has space for {observed}",
        meaning: "The length of the extent is damaged. The extents that follow are in order.",
        repair: "The extent is truncated where the next one begins.",
        loss: nothing "Nothing that belongs to the file.",
        peers: [0x01007D],
    }

    /// Length zero.
    LENGTH_ZERO = "ext.extent.length-zero" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of {inode} (logical block {logical}) has zero length",
        meaning: "The extent entry is damaged.",
        repair: "The extent is removed from the tree.",
        loss: "The part of the file that was mapped there, if any.",
        peers: [0x010066],
    }

    /// Beyond parent.
    BEYOND_PARENT = "ext.extent.beyond-parent" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of {inode} (logical block {logical}, length {length}) ends after block {observed}, the end of its parent node",
        meaning: "The extent, or an index entry above it, is damaged.",
        repair: "The extent is removed from the tree. The file has a hole there, which reads as zeros.",
        loss: "The part of the file that was mapped there.",
        peers: [0x01006E],
    }

    /// Overlap.
    OVERLAP = "ext.extent.overlap" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of {inode} (logical block {logical}, length {length}) overlaps another extent of the file",
        meaning: "The extent entry is damaged.",
        repair: "The extent is removed from the tree. The other extent is kept.",
        loss: "The contents of this extent. The other extent is kept.",
        peers: [0x01007D],
    }

    /// Index start.
    INDEX_START = "ext.extent.index-start" {
        severity: Minor, evidence: Local, preen: false,
        message: "{block}, an extent tree node of {inode}, starts at logical block {observed}, but its parent has {stored}",
        meaning: "The index entry must hold the first logical block of its child. Otherwise the kernel cannot find that part of the file.",
        repair: "The index entry is corrected.",
        loss: nothing,
        peers: [0x01006D],
    }

    /// Checksum wrong.
    NODE_CHECKSUM = "ext.extent.checksum-wrong" {
        severity: Minor, evidence: Local, preen: false,
        message: "{block}, an extent tree node of {inode}, has checksum {stored}, should be {observed}; its entries look valid",
        meaning: "The node was changed without updating the checksum, or a bit is wrong that no other check can detect.",
        repair: "The checksum is recomputed.",
        loss: nothing,
        peers: [0x01006A],
    }

    /// Too deep.
    TOO_DEEP = "ext.extent.too-deep" {
        severity: Minor, evidence: Local, preen: true,
        message: "the extent tree of {inode} has depth {stored}, but no file needs more than {observed}",
        meaning: "The tree is valid, but implementations refuse such depths.",
        repair: "The extent tree is rebuilt.",
        loss: nothing,
        peers: [0x01007F],
    }

    /// Directory gap.
    DIRECTORY_HOLE = "ext.extent.directory-gap" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} has a gap before its logical block {stored}, which should be block {observed}",
        meaning: "A directory must not have holes. Blocks of it were lost, or the extent is damaged.",
        repair: "The blocks after the gap are moved down.",
        loss: "Names that were in the missing blocks, if blocks were lost.",
        peers: [0x010072],
    }

    /// Directory unwritten.
    DIRECTORY_UNWRITTEN = "ext.extent.directory-unwritten" {
        severity: Minor, evidence: Local, preen: true,
        message: "an extent of directory {inode} (logical block {logical}) is marked uninitialized",
        meaning: "The blocks of a directory are always initialized.",
        repair: "The extent is marked as written. The blocks keep their contents.",
        loss: nothing,
        peers: [0x010073],
    }

    /// Unwritten not allowed.
    UNWRITTEN_NOT_ALLOWED = "ext.extent.unwritten-not-allowed" {
        severity: Minor, evidence: Local, preen: true,
        message: "an extent of {inode} (logical block {logical}) is marked uninitialized, which is not allowed for this inode",
        meaning: "Symbolic links and files of the file system itself are always initialized.",
        repair: "The extent is marked as written. The blocks keep their contents.",
        loss: nothing,
        peers: [0x010087],
    }

    /// Directory too big.
    DIRECTORY_TOO_BIG = "ext.extent.directory-too-big" {
        severity: Major, evidence: Local, preen: false,
        message: "an extent of directory {inode} (logical block {logical}, length {length}) makes the directory too big",
        meaning: "The extent is damaged, or the large_dir feature was lost.",
        repair: "The extent is removed from the tree.",
        loss: "The names in that part of the directory.",
        peers: [0x010044, 0x010043],
    }

    /// Flag without feature.
    FLAG_WITHOUT_TREE = "ext.extent.flag-without-feature" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has EXTENTS_FL set, but the file system has no extents feature and the inode no extent tree",
        meaning: "The flag is damage.",
        repair: "The inode is cleared and the names that point to it are removed.",
        loss: "The file.",
        peers: [0x01005A, 0x010081],
    }

    /// Feature missing.
    TREE_WITHOUT_FEATURE = "ext.extent.feature-missing" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} is in extent format, but the extents feature is not set",
        meaning: "The feature bit in the superblock was lost.",
        repair: "The feature is set in the superblock.",
        loss: nothing,
        peers: [0x01005B],
    }

    /// Flag missing.
    FLAG_MISSING = "ext.extent.flag-missing" {
        severity: Major, evidence: Local, preen: true,
        message: "{inode} holds an extent tree, but EXTENTS_FL is not set",
        meaning: "The flag was lost.",
        repair: "EXTENTS_FL is set.",
        loss: nothing,
        peers: [0x01005C],
    }

    /// Flag on symlink.
    FLAG_ON_FAST_SYMLINK = "ext.extent.flag-on-symlink" {
        severity: Minor, evidence: Local, preen: false,
        message: "{inode}, a fast symbolic link, has EXTENTS_FL set",
        meaning: "The target of a fast symbolic link is in the inode. It has no blocks.",
        repair: "EXTENTS_FL is cleared.",
        loss: nothing,
        peers: [0x01005D],
    }

    /// Misaligned cluster.
    MISALIGNED_CLUSTER = "ext.extent.misaligned-cluster" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} maps its logical block {logical} to {block}, which is not aligned to its cluster",
        meaning: "With bigalloc, a logical block must have the same offset in its cluster as on the disk, and all blocks of a cluster must be together.",
        repair: "The blocks are moved to other clusters.",
        loss: nothing,
        peers: [0x010074],
    }
}
