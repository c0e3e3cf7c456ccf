// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `inline_data`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Inline data is in use, but the feature is off.
    FEATURE = "ext.inline.feature" {
        severity: Major, evidence: Local, preen: true,
        message: "{inode} has inline data, but the inline_data feature is not set",
        meaning: "The inode has INLINE_DATA_FL and the system.data attribute. The feature bit in the superblock was lost.",
        repair: "The feature is set in the superblock.",
        loss: nothing,
        peers: [0x01006F],
    }
    /// Flagged as inline, but the attribute that belongs to it is missing.
    NO_ATTRIBUTE = "ext.inline.no-attribute" {
        severity: Major, evidence: Local, preen: false,
        message: "{inode} has INLINE_DATA_FL set, but no system.data attribute",
        meaning: "Inline data always comes with that attribute. It was lost together with the data after the first 60 bytes, or the flag was set by damage.",
        repair: "INLINE_DATA_FL is cleared. A file with valid blocks keeps its data; any other file becomes empty.",
        loss: "At most the first 60 bytes of the file.",
        peers: [0x010075],
    }
    /// The data attribute leads to a place where its value cannot be.
    VALUE_MISPLACED = "ext.inline.value-misplaced" {
        severity: Major, evidence: Local, preen: true,
        message: "the inline data of {inode} after the first 60 bytes is not at its recorded offset ({stored}); {observed:byte:bytes} recovered",
        meaning: "The end of inline data is the value of the system.data attribute. The offset or length of that value was overwritten.",
        repair: "Values are stored without gaps, so the remaining gap is the place of the value. The attribute is corrected to it. If there is no gap, only the first 60 bytes are kept.",
        loss: "Nothing, or the data after the first 60 bytes.",
        peers: [0x010051, 0x010053, 0x010069],
    }
    /// The size does not fit the data in the inode.
    SIZE = "ext.inline.size" {
        severity: Major, evidence: Local, preen: true,
        message: "{inode} has i_size {stored}, but its inline data is {observed:byte:bytes} long",
        meaning: "i_size does not match the length of the inline data.",
        repair: "i_size is set to the length of the inline data.",
        loss: nothing "Nothing: there is no data beyond it.",
        peers: [0x01000C],
    }
    /// An attribute without value in an inode points nowhere.
    OFFSET = "ext.inline.attribute-offset" {
        severity: Minor, evidence: Local, preen: true,
        message: "{inode} has an empty attribute (byte {at}) whose value offset is outside the inode",
        meaning: "The offset of an empty value has no effect, but some tools and kernels then find neither inline data nor the other attributes of the inode.",
        repair: "The offset is set to zero.",
        loss: nothing,
        peers: [0x010075],
    }
    /// The entries of an inline directory do not fill a multiple of four bytes.
    DIRECTORY_SIZE = "ext.inline.directory-size" {
        severity: Major, evidence: Local, preen: false,
        message: "inline directory {inode} has {stored:byte:bytes} of entries in its attribute, which is not a multiple of 4",
        meaning: "The length of the system.data attribute was overwritten.",
        repair: "The length is rounded down to a multiple of 4.",
        loss: nothing "Nothing: the remaining bytes cannot hold an entry.",
        peers: [0x02004E],
    }
}
