//! Catalogue rows of `mmp`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// MMP block out of range.
    PLACE = "ext.mmp.place" {
        severity: Minor, evidence: Local, preen: true,
        message: "the block for multiple-mount protection is said to be {stored}, where it cannot be",
        meaning: "The block must lie inside the file system and must not belong to other metadata.",
        repair: "A new block is set up.",
        loss: "Nothing.",
        peers: [0x000042],
    }
    /// MMP block without magic number.
    MAGIC = "ext.mmp.magic" {
        severity: Minor, evidence: Local, preen: true,
        message: "the block for multiple-mount protection, {block}, has the magic number {stored} instead of {observed}",
        meaning: "The block was overwritten or never set up.",
        repair: "The block is set up anew.",
        loss: "Nothing.",
        peers: [0x000043],
    }
    /// Wrong checksum of the MMP block.
    CHECKSUM = "ext.mmp.checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the checksum of the block for multiple-mount protection, {block}, is {stored}, but its contents give {observed}",
        meaning: "The block was changed by something that did not update its checksum, or rotted.",
        repair: "The block is set up anew.",
        loss: "Nothing.",
        peers: [0x000047],
    }
    /// MMP block cannot be read.
    UNREADABLE = "ext.mmp.unreadable" {
        severity: Major, evidence: Local, preen: false,
        message: "the block for multiple-mount protection, {block}, cannot be read",
        meaning: "The medium is damaged there, or the device ends before.",
        repair: "The block is written anew.",
        loss: "Nothing.",
        peers: [],
    }
    /// Somebody else uses the file system.
    IN_USE = "ext.mmp.in-use" {
        severity: Note, evidence: Local, preen: false,
        message: "the file system is marked as {observed} on node {node} (device {device})",
        meaning: "Multiple-mount protection says that it is in use elsewhere just now, or that the node stopped without saying so. \
                  What is found while somebody writes may not be real.",
        repair: "Nothing while it is in use.",
        loss: "Nothing.",
        peers: [],
    }
}
