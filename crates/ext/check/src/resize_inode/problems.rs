// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `resize_inode`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Inode 7 is used without the feature.
    NOT_CLEAR = "ext.resize.not-clear" {
        severity: Minor, evidence: Cross, preen: false,
        message: "the resize {inode} is not empty, but the resize_inode feature is not set",
        meaning: "Without the feature the inode must be empty.",
        repair: "The inode is cleared.",
        loss: nothing,
        peers: [0x00002F],
    }
    /// Inode 7 has not the map that it must have.
    INVALID = "ext.resize.invalid" {
        severity: Major, evidence: Cross, preen: false,
        message: "the resize {inode} is invalid: {observed}",
        meaning: "The inode must list the reserved descriptor blocks and their backups. No file depends on it.",
        repair: "The inode is rebuilt.",
        loss: nothing,
        peers: [0x000030, 0x01000D, 0x01000E, 0x010010],
    }
}
