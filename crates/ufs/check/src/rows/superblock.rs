// SPDX-License-Identifier: MIT OR Apache-2.0
//! Problems of superblocks and journals.

fsmend_engine::problem_rows! {
    /// `ufs.superblock.field`.
    SUPERBLOCK_FIELD = "ufs.superblock.field" {
        severity: Critical, evidence: Local, preen: false,
        message: "the superblock has invalid fs_{field} {stored}{observed?, expected }",
        meaning: "The layout of the file system depends on this field, so this superblock cannot be used as it is.",
        repair: "The superblock is restored from a copy, or the field from the cylinder groups.",
        loss: "Settings changed with tunefs since the copy was written.",
        peers: [], messages: ["superblock failed"],
    }
    /// `ufs.superblock.hint`.
    SUPERBLOCK_HINT = "ufs.superblock.hint" {
        severity: Minor, evidence: Local, preen: true,
        message: "the superblock has invalid fs_{field} {stored}{observed?, expected }",
        meaning: "The field is a hint for allocation, or describes disks with cylinders. The layout does not depend on it.",
        repair: "The field is set to the expected value, or to its default.",
        loss: nothing,
        peers: [], messages: ["superblock failed"],
    }
    /// `ufs.superblock.data-size`.
    DATA_SIZE = "ufs.superblock.data-size" {
        severity: Minor, evidence: Local, preen: true,
        message: "the superblock has {stored} data fragments (fs_dsize), should be {observed}",
        meaning: "The number follows from the layout. df and the reserve for the superuser use it. Older versions of growfs stored a wrong one.",
        repair: "The number is corrected.",
        loss: nothing,
        peers: [], messages: [],
    }
    /// `ufs.superblock.hash`.
    SUPERBLOCK_HASH = "ufs.superblock.hash" {
        severity: Minor, evidence: Local, preen: true,
        message: "the superblock has a wrong check hash",
        meaning: "The fields are valid and match the copy in the first cylinder group. Only the hash is wrong.",
        repair: "The hash is recomputed.",
        loss: nothing,
        peers: [], messages: ["CORRECT CHECK HASH"],
    }
    /// `ufs.superblock.replaced`.
    SUPERBLOCK_REPLACED = "ufs.superblock.replaced" {
        severity: Critical, evidence: Local, preen: false,
        message: "the primary superblock is damaged; the copy in sector {sector} is used instead",
        meaning: "Every cylinder group has a copy of the superblock. The kernel refuses to mount the file system until the primary superblock is restored.",
        repair: "The primary superblock is restored from the copy. Its counts are recomputed.",
        loss: "Settings changed with tunefs since the copy was written.",
        peers: [], messages: ["Attempted recovery for standard superblock", "SEARCH FOR ALTERNATE SUPER-BLOCK FAILED"],
    }
    /// `ufs.superblock.rebuilt`.
    SUPERBLOCK_REBUILT = "ufs.superblock.rebuilt" {
        severity: Critical, evidence: Cross, preen: false,
        message: "no superblock and no copy of one can be used; the layout is taken from the cylinder groups",
        meaning: "The headers of the cylinder groups tell where everything is, and directories were found where they should be.",
        repair: "The superblock and all its copies are made again.",
        loss: "Settings made with newfs and tunefs, where nothing is left of them: the label, soft updates and journaling, access control lists, the reserve. No files.",
        peers: [], messages: [],
    }
    /// `ufs.superblock.not-clean`.
    NOT_CLEAN = "ufs.superblock.not-clean" {
        severity: Note, evidence: Local, preen: true,
        message: "the file system was not unmounted cleanly",
        meaning: "It is mounted now, or the system stopped without unmounting it.",
        repair: "The file system is marked clean.",
        loss: nothing,
        peers: [], messages: [],
    }
    /// `ufs.superblock.copy`.
    COPY_WRONG = "ufs.superblock.copy" {
        severity: Note, evidence: Cross, preen: true,
        message: "the superblock copy of cylinder {group} is damaged or belongs to another file system",
        meaning: "Each cylinder group has a copy of the superblock, which is needed if the primary one is lost. newfs, tunefs and growfs write the copies.",
        repair: "The copy is rewritten from the primary superblock.",
        loss: nothing,
        peers: [], messages: [],
    }
    /// `ufs.superblock.snapshot-list`.
    SNAPSHOT_LIST = "ufs.superblock.snapshot-list" {
        severity: Minor, evidence: Local, preen: false,
        message: "the superblock lists inode {stored} as a snapshot, but it is not one",
        meaning: "The superblock holds the inode numbers of active snapshots (fs_snapinum). The kernel writes old contents of blocks to them.",
        repair: "The number is removed from the list.",
        loss: nothing,
        peers: [], messages: ["Removing non-snapshot inode"],
    }
    /// `ufs.superblock.snapshot-blocks`.
    SNAPSHOT_BLOCKS = "ufs.superblock.snapshot-blocks" {
        severity: Major, evidence: Local, preen: false,
        message: "snapshot {inode} lacks block {stored} in its list of preallocated blocks",
        meaning: "A snapshot ends with a list of the blocks that were copied when it was taken, among them those of all cylinder groups. FreeBSD does not use a snapshot with a damaged list.",
        repair: "The snapshot is removed from the list of active snapshots. Its file is kept.",
        loss: "The snapshot can no longer be mounted.",
        peers: [], messages: ["improper block list length", "block list"],
    }
    /// `ufs.journal.dropped`.
    JOURNAL_DROPPED = "ufs.journal.dropped" {
        severity: Note, evidence: Local, preen: true,
        message: "the soft updates journal is not used: {why}",
        meaning: "The file system was not unmounted cleanly, and its journal cannot be used. A full check does not need it.",
        repair: "The journal is ignored. The whole file system is checked and marked clean.",
        loss: "Nothing. A file that was being removed may appear in lost+found.",
        peers: [], messages: ["Skipping journal, falling through to full fsck"],
    }
    /// `ufs.superblock.recovery-record`.
    RECOVERY_RECORD = "ufs.superblock.recovery-record" {
        severity: Minor, evidence: Local, preen: true,
        message: "the recovery record before the superblock is wrong",
        meaning: "UFS2 stores a short record in front of the superblock, with which the copies are found if the superblock is lost. It does not match the superblock.",
        repair: "The record is rewritten.",
        loss: nothing,
        peers: [], messages: ["SAVE DATA TO FIND ALTERNATE SUPERBLOCKS"],
    }
    /// `ufs.superblock.totals`.
    TOTALS = "ufs.superblock.totals" {
        severity: Minor, evidence: Cross, preen: true,
        message: "the superblock counts {stored} {what}, but there are {observed}",
        meaning: "The totals in the superblock are the sums over all cylinder groups.",
        repair: "The total is corrected.",
        loss: nothing,
        peers: [], messages: ["SUMMARY BLK COUNT(S) WRONG IN SUPERBLK"],
    }
    /// `ufs.superblock.totals-stale`.
    TOTALS_STALE = "ufs.superblock.totals-stale" {
        severity: Note, evidence: Cross, preen: true,
        message: "the superblock counts {stored} {what}, but there are {observed}",
        meaning: "The totals are written on unmount. After a crash they are stale. This is not damage: the kernel recomputes them on the next mount.",
        repair: "The total is corrected.",
        loss: nothing,
        peers: [], messages: ["SUMMARY BLK COUNT(S) WRONG IN SUPERBLK"],
    }
}
