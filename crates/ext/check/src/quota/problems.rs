//! Catalogue rows of `quota`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// Use of one id.
    USAGE_WRONG = "ext.quota.usage-wrong" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{kind} quota counts {stored} for {kind} {id}, which really uses {observed}",
        meaning: "The quota file keeps how many bytes and inodes each user, group or project has. This sum is not what the inodes add up to.",
        repair: "The quota file is brought up to date; limits stay.",
        loss: "Nothing.",
        peers: [0x060002],
    }
    /// The quota file itself.
    FILE_DAMAGED = "ext.quota.file-damaged" {
        severity: Major, evidence: Local, preen: true,
        message: "the {kind} quota file ({inode}) is damaged: {why}",
        meaning: "Quota is kept in a hidden file with a small tree inside. That file cannot be followed.",
        repair: "The quota file is written anew from what the inodes add up to.",
        loss: "Limits and grace times that stood in the damaged part.",
        peers: [0x060002],
    }
    /// The superblock's inode number.
    INODE_NUMBER = "ext.quota.inode-number" {
        severity: Major, evidence: Local, preen: false,
        message: "the superblock names inode {stored} for {kind} quota, which cannot hold it",
        meaning: "User and group quota live in inodes 3 and 4, project quota in an ordinary hidden inode. This number is none of them, or that of a file which is no quota file.",
        repair: "The number is cleared; where the feature is on, the quota file is made anew.",
        loss: "Limits, if that was a quota file.",
        peers: [0x00004F],
    }
}
