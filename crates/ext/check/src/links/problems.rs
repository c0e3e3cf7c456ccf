// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `links`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Stored link count differs from the names found.
    MISMATCH = "ext.inode.links-mismatch" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inode} has link count {stored}, but {observed:name points:names point} to it",
        meaning: "If the link count is too low, deleting one name deletes the file. If it is too high, its space is never freed.",
        repair: "The link count is set to the number of names.",
        loss: nothing,
        peers: [0x040003],
    }
    /// No name leads to an inode with contents.
    UNATTACHED = "ext.inode.unattached" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} is in use, but no name points to it{former_names?; it was probably }",
        meaning: "Its directory entry was lost, or the file was being deleted when the system stopped.",
        repair: "The file is reconnected to lost+found as '#' and its inode number. Any recoverable name is reported.",
        loss: "Its name.",
        peers: [0x040002, 0x040003],
    }
    /// No name leads to an inode without contents.
    UNATTACHED_EMPTY = "ext.inode.unattached-empty" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inode} is empty and no name points to it{former_names?; it was probably }",
        meaning: "The file has no name and no contents.",
        repair: "The inode is cleared.",
        loss: "An empty file without a name.",
        peers: [0x040001],
    }
    /// A count of one that stood for too many subdirectories, no longer needed.
    SATURATED_WITHOUT_NEED = "ext.inode.links-saturated" {
        severity: Note, evidence: Cross, preen: true,
        message: "directory {inode} has link count 1, which means \"too many\", but has only {observed}",
        meaning: "A directory with more than 65,000 subdirectories has link count 1. This one now has fewer, which is legal.",
        repair: "The link count is set to the number of names.",
        loss: nothing,
        peers: [0x040007],
    }
    /// More subdirectories than a count can say, without the feature for it.
    NLINK_FEATURE_MISSING = "ext.superblock.dir-nlink-missing" {
        severity: Minor, evidence: Cross, preen: true,
        message: "directory {inode} has {observed} links, but the dir_nlink feature is not set",
        meaning: "Without dir_nlink, a directory has at most 65,000 links.",
        repair: "The feature is set in the superblock.",
        loss: nothing,
        peers: [0x040006],
    }
}
