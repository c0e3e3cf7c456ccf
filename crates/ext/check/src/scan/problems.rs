//! Catalogue rows of `scan`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Part of an inode table cannot be read.
    TABLE_UNREADABLE = "ext.group.inode-table-unreadable" {
        severity: Critical, evidence: Local, preen: false,
        message: "part of the inode table of {group} cannot be read ({block})",
        meaning: "The device reports an error for these blocks, or ends before them. The inodes in them are lost to the check: their files cannot be seen.",
        repair: "The inodes are treated as free; names that lead to them are removed.",
        loss: "The files whose inodes stood there, unless the device can be made to read them: copy it with a rescue tool first.",
        peers: [],
    }
}
