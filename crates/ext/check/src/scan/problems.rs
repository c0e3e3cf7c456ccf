// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `scan`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Part of an inode table cannot be read.
    TABLE_UNREADABLE = "ext.group.inode-table-unreadable" {
        severity: Critical, evidence: Local, preen: false,
        message: "part of the inode table of {group} cannot be read ({block})",
        meaning: "The device returned a read error for these blocks, or ends before them. The files of these inodes cannot be checked.",
        repair: "The inodes are treated as free. Names that point to them are removed.",
        loss: "The files whose inodes are in these blocks. Copy the device with a rescue tool first: it may still be able to read them.",
        peers: [],
    }
}
