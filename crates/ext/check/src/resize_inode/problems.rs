//! Catalogue rows of `resize_inode`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Inode 7 is used without the feature.
    NOT_CLEAR = "ext.resize.not-clear" {
        severity: Minor, evidence: Cross, preen: false,
        message: "{inode}, which is kept for resizing, maps blocks although the resize_inode feature is off",
        meaning: "The inode should be empty in a file system without that feature.",
        repair: "The inode is cleared.",
        loss: "Nothing.",
        peers: [0x00002F],
    }
    /// Inode 7 has not the map that it must have.
    INVALID = "ext.resize.invalid" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode}, which holds the blocks reserved for growth, is not as it must be: {observed}",
        meaning: "The inode has to list the reserved descriptor blocks and their backups, exactly as the layout gives them. No file depends on it.",
        repair: "The inode is written anew.",
        loss: "Nothing.",
        peers: [0x000030],
    }
}
