//! Catalogue rows of `links`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Stored link count differs from the names found.
    MISMATCH = "ext.inode.links-mismatch" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inode} stores a link count of {stored}, but {observed:name leads:names lead} to it",
        meaning: "The inode says how many names lead to it. Too low a count lets the file vanish when one of its names is deleted; too high a count keeps its space in use for ever.",
        repair: "The count is set to the number of names.",
        loss: "Nothing.",
        peers: [0x040003],
    }
    /// No name leads to an inode with contents.
    UNATTACHED = "ext.inode.unattached" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} is in use, but no name leads to it{former_names?; it was probably }",
        meaning: "A file exists without a name: the directory entry was lost, or the file was being deleted when the system stopped.",
        repair: "The file gets a name in lost+found: a hash sign and its number. What still tells its former name is told.",
        loss: "Its name.",
        peers: [0x040002, 0x040003],
    }
    /// No name leads to an inode without contents.
    UNATTACHED_EMPTY = "ext.inode.unattached-empty" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inode} is empty, and no name leads to it{former_names?; it was probably }",
        meaning: "An empty file without a name; there is nothing in it that could be kept.",
        repair: "The inode is freed.",
        loss: "An empty file without a name.",
        peers: [0x040001],
    }
    /// A count of one that stood for too many subdirectories, no longer needed.
    SATURATED_WITHOUT_NEED = "ext.inode.links-saturated" {
        severity: Note, evidence: Cross, preen: true,
        message: "directory {inode} stores a link count of 1 for \"too many\", but has only {observed}",
        meaning: "A directory with more than 65,000 subdirectories stores 1 instead of a count. This one has fewer again, which is legal.",
        repair: "The count is set to the number of names.",
        loss: "Nothing.",
        peers: [0x040007],
    }
    /// More subdirectories than a count can say, without the feature for it.
    NLINK_FEATURE_MISSING = "ext.superblock.dir-nlink-missing" {
        severity: Minor, evidence: Cross, preen: true,
        message: "directory {inode} has {observed} links, more than the file system's features allow",
        meaning: "A directory may have more than 65,000 subdirectories only where the superblock has the dir_nlink feature; here it is missing.",
        repair: "The feature is switched on.",
        loss: "Nothing.",
        peers: [0x040006],
    }
}
