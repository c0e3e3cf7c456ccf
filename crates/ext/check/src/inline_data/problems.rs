//! Catalogue rows of `inline_data`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Inline data is in use, but the feature is off.
    FEATURE = "ext.inline.feature" {
        severity: Major, evidence: Local, preen: true,
        message: "the data of {inode} live in the inode, but the feature for that (inline_data) is off",
        meaning: "The inode has the flag and the attribute of inline data, so the feature must have been on; the bit was lost from the superblock.",
        repair: "The feature is switched on.",
        loss: "Nothing.",
        peers: [0x01006F],
    }
    /// Flagged as inline, but the attribute that belongs to it is missing.
    NO_ATTRIBUTE = "ext.inline.no-attribute" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} is flagged as holding its data itself, but the attribute that belongs to that is missing",
        meaning: "Data in an inode always come with the attribute system.data. It is gone, together with the data behind the first 60 bytes, or the flag was set by accident.",
        repair: "The flag is cleared. A file that evidently has blocks keeps its data; any other becomes empty.",
        loss: "The first bytes of the file (at most 60), which cannot be told from leftovers.",
        peers: [0x010075],
    }
    /// The data attribute leads to a place where its value cannot be.
    VALUE_MISPLACED = "ext.inline.value-misplaced" {
        severity: Major, evidence: Local, preen: true,
        message: "the data of {inode} behind the first 60 bytes cannot be where its attribute says (byte {stored}); {observed:byte:bytes} of them were found again",
        meaning: "The data of a small file or directory live in the inode itself, its end in the value of the attribute system.data. The place or the length of that value was overwritten.",
        repair: "Values are packed without gaps, so that the gap is the place, and the attribute is led there. If there is none, only the first 60 bytes stay.",
        loss: "Nothing, or what lay behind the first 60 bytes.",
        peers: [0x010051, 0x010053, 0x010069],
    }
    /// The size does not fit the data in the inode.
    SIZE = "ext.inline.size" {
        severity: Major, evidence: Local, preen: true,
        message: "{inode} says that it has {stored:byte:bytes}, but the inode holds data for {observed}",
        meaning: "The data of a small file or directory live in the inode itself. Its size does not fit the room that they take there.",
        repair: "The size is set to what the inode holds.",
        loss: "Nothing: no byte of data lies beyond.",
        peers: [0x01000C],
    }
    /// An attribute without value beside inline data points nowhere.
    OFFSET = "ext.inline.attribute-offset" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} holds its data itself, and an attribute (byte {at}) without value says that it lies outside of the inode",
        meaning: "Where a value of no bytes lies does not matter, but some tools and kernels find no data in an inode whose attributes point out of it.",
        repair: "The place is set to zero.",
        loss: "Nothing.",
        peers: [0x010075],
    }
    /// The entries of an inline directory do not fill a multiple of four bytes.
    DIRECTORY_SIZE = "ext.inline.directory-size" {
        severity: Major, evidence: Local, preen: false,
        message: "directory {inode} keeps {stored:byte:bytes} of entries in its attribute, which is not a multiple of four",
        meaning: "Directory entries take multiples of four bytes. The length of the attribute that holds them was overwritten.",
        repair: "The length is cut to a multiple of four.",
        loss: "Nothing: no entry fits into the rest.",
        peers: [0x02004E],
    }
}
