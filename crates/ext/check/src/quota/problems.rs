// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `quota`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Use of one id.
    USAGE_WRONG = "ext.quota.usage-wrong" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{kind} quota for {kind} {id} is {stored}, should be {observed}",
        meaning: "The quota file records the bytes and inodes in use by each user, group or project. This record does not match the inodes.",
        repair: "The usage is updated. Limits are kept.",
        loss: nothing,
        peers: [0x060002],
    }
    /// The quota file itself.
    FILE_DAMAGED = "ext.quota.file-damaged" {
        severity: Major, evidence: Local, preen: true,
        message: "the {kind} quota file, {inode}, is corrupt: {why}",
        meaning: "Quota is stored as a tree in a hidden file. The tree cannot be read.",
        repair: "The quota file is rebuilt from the inodes.",
        loss: "Limits and grace times in the damaged part.",
        peers: [0x060002],
    }
    /// The superblock's inode number.
    INODE_NUMBER = "ext.quota.inode-number" {
        severity: Major, evidence: Local, preen: false,
        message: "the superblock has invalid inode {stored} for {kind} quota",
        meaning: "User and group quota use inodes 3 and 4, project quota a hidden inode. This number is another one, or the inode is not a quota file.",
        repair: "The number is cleared. If the quota feature is set, the quota file is rebuilt.",
        loss: "Limits, if the inode was a quota file.",
        peers: [0x00004F],
    }
}
