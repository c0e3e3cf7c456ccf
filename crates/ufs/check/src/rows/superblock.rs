// SPDX-License-Identifier: MIT OR Apache-2.0
//! Problems of superblocks and journals.

fsmend_engine::problem_rows! {
    /// `ufs.superblock.field`.
    SUPERBLOCK_FIELD = "ufs.superblock.field" {
        severity: Critical, evidence: Local, preen: false,
        message: "the superblock field fs_{field} holds {stored}{observed?, expected }",
        meaning: "The superblock describes the shape of the file system. This value cannot be right, so the superblock cannot be used.",
        repair: "The superblock is restored from a copy.",
        loss: "Settings that tunefs has changed since the copy was written.",
        peers: [], messages: ["superblock failed"],
    }
    /// `ufs.superblock.hint`.
    SUPERBLOCK_HINT = "ufs.superblock.hint" {
        severity: Minor, evidence: Local, preen: true,
        message: "the superblock field fs_{field} holds {stored}{observed?, expected }",
        meaning: "The value is out of range. It is a hint for allocation, or a relic of disks with cylinders; the layout does not depend on it.",
        repair: "The field gets its expected value, or its default.",
        loss: "Nothing.",
        peers: [], messages: ["superblock failed"],
    }
    /// `ufs.superblock.data-size`.
    DATA_SIZE = "ufs.superblock.data-size" {
        severity: Minor, evidence: Local, preen: true,
        message: "the superblock says that {stored} fragments are for data, but there are {observed}",
        meaning: "The number follows from the shape of the file system. What df shows, and how much is held back for the superuser, is worked out from it. Older versions of growfs left a wrong one.",
        repair: "The number is corrected.",
        loss: "Nothing.",
        peers: [], messages: [],
    }
    /// `ufs.superblock.hash`.
    SUPERBLOCK_HASH = "ufs.superblock.hash" {
        severity: Minor, evidence: Local, preen: true,
        message: "the check hash of the superblock is wrong",
        meaning: "The values make sense and agree with the copy in the first cylinder group. Only the hash does not match.",
        repair: "The hash is recomputed.",
        loss: "Nothing.",
        peers: [], messages: ["CORRECT CHECK HASH"],
    }
    /// `ufs.superblock.replaced`.
    SUPERBLOCK_REPLACED = "ufs.superblock.replaced" {
        severity: Critical, evidence: Local, preen: false,
        message: "the primary superblock cannot be used; the copy in sector {sector} is used instead",
        meaning: "The primary superblock is overwritten or damaged. Copies are in every cylinder group. The kernel refuses to mount the file system until the primary one is restored.",
        repair: "The copy is written to the place of the primary superblock; its counts are recomputed.",
        loss: "Settings that tunefs has changed since the copy was written.",
        peers: [], messages: ["Attempted recovery for standard superblock", "SEARCH FOR ALTERNATE SUPER-BLOCK FAILED"],
    }
    /// `ufs.superblock.not-clean`.
    NOT_CLEAN = "ufs.superblock.not-clean" {
        severity: Note, evidence: Local, preen: true,
        message: "the file system was not unmounted cleanly",
        meaning: "The system stopped while the file system was mounted, or it is mounted now.",
        repair: "The file system is marked clean.",
        loss: "Nothing.",
        peers: [], messages: [],
    }
    /// `ufs.superblock.copy`.
    COPY_WRONG = "ufs.superblock.copy" {
        severity: Note, evidence: Cross, preen: true,
        message: "{group}: the copy of the superblock is damaged, or is that of another file system",
        meaning: "Each cylinder group has a copy of the superblock. It is read when the primary one is lost, and written when the file system is made, tuned or grown.",
        repair: "The copy is rewritten.",
        loss: "Nothing.",
        peers: [], messages: [],
    }
    /// `ufs.superblock.snapshot-list`.
    SNAPSHOT_LIST = "ufs.superblock.snapshot-list" {
        severity: Minor, evidence: Local, preen: false,
        message: "the superblock lists inode {stored} as a snapshot, but it is none",
        meaning: "The superblock keeps the inode numbers of active snapshots. The kernel writes old contents of blocks to them.",
        repair: "The number is taken off the list.",
        loss: "Nothing.",
        peers: [], messages: ["Removing non-snapshot inode"],
    }
    /// `ufs.superblock.snapshot-blocks`.
    SNAPSHOT_BLOCKS = "ufs.superblock.snapshot-blocks" {
        severity: Major, evidence: Local, preen: false,
        message: "snapshot {inode}: block {stored} is missing in its list of blocks that were copied at the start",
        meaning: "A snapshot ends with a list of blocks that were copied when it was taken, among them those of all cylinder groups. FreeBSD does not use a snapshot whose list is damaged.",
        repair: "The snapshot is taken off the list of active snapshots. Its file stays.",
        loss: "The snapshot can no longer be mounted.",
        peers: [], messages: ["improper block list length", "block list"],
    }
    /// `ufs.journal.dropped`.
    JOURNAL_DROPPED = "ufs.journal.dropped" {
        severity: Note, evidence: Local, preen: true,
        message: "the journal of soft updates is not used: {why}",
        meaning: "The file system was not unmounted cleanly, and its journal cannot tell what was on its way to the disk. A full check needs no journal.",
        repair: "The journal is ignored; everything is checked, and the file system is marked clean.",
        loss: "Nothing. A file that was being removed may appear in lost+found.",
        peers: [], messages: ["Skipping journal, falling through to full fsck"],
    }
    /// `ufs.superblock.recovery-record`.
    RECOVERY_RECORD = "ufs.superblock.recovery-record" {
        severity: Minor, evidence: Local, preen: true,
        message: "the record that leads to copies of the superblock is wrong",
        meaning: "UFS2 keeps a short record in front of the superblock, so that copies can be found when the superblock is lost. It does not match the superblock.",
        repair: "The record is rewritten.",
        loss: "Nothing.",
        peers: [], messages: ["SAVE DATA TO FIND ALTERNATE SUPERBLOCKS"],
    }
    /// `ufs.superblock.totals`.
    TOTALS = "ufs.superblock.totals" {
        severity: Minor, evidence: Cross, preen: true,
        message: "the superblock counts {stored} {what}, but there are {observed}",
        meaning: "The totals of the superblock are the sums over all cylinder groups.",
        repair: "The total is corrected.",
        loss: "Nothing.",
        peers: [], messages: ["SUMMARY BLK COUNT(S) WRONG IN SUPERBLK"],
    }
    /// `ufs.superblock.totals-stale`.
    TOTALS_STALE = "ufs.superblock.totals-stale" {
        severity: Note, evidence: Cross, preen: true,
        message: "the superblock counts {stored} {what}, but there are {observed}",
        meaning: "The totals are written when the file system is unmounted. After a crash they are stale; the kernel computes them anew.",
        repair: "The total is corrected.",
        loss: "Nothing.",
        peers: [], messages: ["SUMMARY BLK COUNT(S) WRONG IN SUPERBLK"],
    }
}
