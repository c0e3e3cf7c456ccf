// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `journal`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// The journal inode is no journal.
    INODE_BAD = "ext.journal.inode-bad" {
        severity: Critical, evidence: Local, preen: true,
        message: "the journal {inode} is invalid: {why}",
        meaning: "The inode is free, is not a regular file, is too short, has holes or blocks outside the file system, or is encrypted. The backup of its block list in the superblock does not help either.",
        repair: "The journal is deleted and a new, empty one is created.",
        loss: "Changes that were only in the journal: those of the last seconds before the system stopped.",
        peers: [0x00000F],
    }
    /// The journal's first block is something else.
    SUPERBLOCK_MISSING = "ext.journal.superblock-missing" {
        severity: Critical, evidence: Local, preen: true,
        message: "the journal {inode} has no journal superblock in its first block",
        meaning: "The first block of the journal must hold a superblock with a magic number. Without it nothing in the journal can be found.",
        repair: "The journal is deleted, its blocks are freed, and a new, empty one is created.",
        loss: "Changes that were only in the journal: those of the last seconds before the system stopped.",
        peers: [0x00000F, 0x000016],
    }
    /// The new journal that takes the place of a dropped one.
    RECREATED = "ext.journal.recreated" {
        severity: Note, evidence: Local, preen: true,
        message: "a new, empty journal must be created to replace the deleted one",
        meaning: "The old journal was unusable.",
        repair: "A new journal is created from free blocks.",
        loss: nothing,
        peers: [0x060001],
    }
    /// The copy of the journal's block list had to be used.
    BACKUP_USED = "ext.journal.inode-from-backup" {
        severity: Major, evidence: Local, preen: true,
        message: "the journal {inode} is damaged ({why}), but the backup of its block list in the superblock is valid",
        meaning: "The inode of the journal, or its number in the superblock (s_journal_inum), was overwritten. The superblock holds a backup of its block list and size.",
        repair: "The inode of the journal is restored from the backup, and s_journal_inum is set.",
        loss: nothing,
        peers: [0x00000F],
    }
    /// The journal superblock is damaged.
    SUPERBLOCK_BAD = "ext.journal.superblock-bad" {
        severity: Critical, evidence: Local, preen: true,
        message: "the journal superblock is corrupt: {why}",
        meaning: "The first block of the journal describes its layout and the start of the log. It contradicts itself, its checksum or the file system.",
        repair: "The journal superblock is reset, which empties the journal. The whole file system is checked.",
        loss: "Changes that were only in the journal: those of the last seconds before the system stopped.",
        peers: [0x000015],
    }
    /// Journal fields without the feature.
    WITHOUT_FEATURE = "ext.journal.without-feature" {
        severity: Major, evidence: Local, preen: true,
        message: "the superblock has journal {inode}, but the has_journal feature is not set",
        meaning: "The journal fields of the superblock are set, and a journal exists.",
        repair: "The journal fields are cleared. The blocks of the old journal are freed.",
        loss: "Changes that were only in the journal.",
        peers: [0x000016],
    }
    /// A journal in the file system, and a UUID of one elsewhere.
    STRAY_UUID = "ext.journal.stray-uuid" {
        severity: Major, evidence: Cross, preen: true,
        message: "the superblock refers to a journal on another device, but the journal is {inode}",
        meaning: "s_journal_uuid is for an external journal. It is set although the journal is internal. Other tools search for that device and give up.",
        repair: "s_journal_uuid is cleared.",
        loss: nothing,
        peers: [],
    }
    /// needs_recovery without a journal.
    RECOVERY_WITHOUT_JOURNAL = "ext.journal.recovery-without-journal" {
        severity: Major, evidence: Local, preen: true,
        message: "the needs_recovery feature is set, but the file system has no journal",
        meaning: "needs_recovery without has_journal is invalid. The superblock was overwritten.",
        repair: "The needs_recovery feature is cleared.",
        loss: "Nothing by this repair. If there was a journal, changes that were only in it are lost already.",
        peers: [0x000017],
    }
    /// Transactions in the journal although the flag is off.
    RECOVERY_NOT_FLAGGED = "ext.journal.recovery-not-flagged" {
        severity: Major, evidence: Cross, preen: false,
        message: "the journal holds transactions (from sequence {stored}), but the needs_recovery feature is not set",
        meaning: "Journal and superblock disagree about a clean unmount. Usually the superblock was restored from a backup, which never has the flag.",
        repair: "The journal is replayed.",
        loss: "If the file system was changed after the flag was lost, the replay overwrites newer metadata with older.",
        peers: [0x000018],
    }
    /// Version 2 fields in a version 1 journal superblock.
    V2_FIELDS = "ext.journal.v2-fields" {
        severity: Minor, evidence: Local, preen: false,
        message: "the journal superblock has values in fields that its version does not have",
        meaning: "Features and users exist only in version 2 of the journal superblock. Old tools that converted version 1 to 2 left garbage in these fields.",
        repair: "The fields are cleared.",
        loss: nothing,
        peers: [0x00002A],
    }
    /// A transaction fails its checksum.
    TRANSACTION_CORRUPT = "ext.journal.transaction-corrupt" {
        severity: Major, evidence: Local, preen: false,
        message: "journal transaction {stored} has a wrong checksum; this transaction and all later ones are not replayed",
        meaning: "The transaction was not written completely, or the journal was damaged.",
        repair: "The journal is replayed up to the transaction before. The rest is discarded.",
        loss: "The changes of that transaction and of all later ones.",
        peers: [0x00003A],
    }
    /// The scan of the log met a bad checksum; nothing is replayed.
    LOG_CORRUPT = "ext.journal.log-corrupt" {
        severity: Note, evidence: Local, preen: true,
        message: "a descriptor or revoke block of journal transaction {stored} has a wrong checksum; nothing is replayed",
        meaning: "The log cannot be trusted. e2fsck and the kernel do not replay it either. The metadata on the disk is checked as it is.",
        repair: "The journal is emptied and the whole file system is checked.",
        loss: "Changes that were only in the journal.",
        peers: [],
    }
    /// A data block of the log is damaged.
    DATA_CORRUPT = "ext.journal.data-corrupt" {
        severity: Note, evidence: Local, preen: true,
        message: "the journal copy of {block} in transaction {stored} has a wrong checksum and is not replayed",
        meaning: "One block of the log was damaged. All other blocks are replayed. Inconsistencies that result from the missing one are reported by the other checks.",
        repair: "The rest of the journal is replayed.",
        loss: "The change to that one block.",
        peers: [],
    }
    /// The log ends where it should not.
    LOG_BROKEN = "ext.journal.log-broken" {
        severity: Major, evidence: Local, preen: false,
        message: "the journal cannot be followed at journal block {stored}: {why}",
        meaning: "The log leads outside the journal, or has no end. Nothing in it is trusted.",
        repair: "The journal is emptied and the whole file system is checked.",
        loss: "Changes that were only in the journal.",
        peers: [],
    }
    /// The log wants to write where no metadata can be.
    BLOCK_OUTSIDE = "ext.journal.block-outside" {
        severity: Major, evidence: Cross, preen: false,
        message: "the journal holds a copy of {block}, which {why}; it is not replayed",
        meaning: "The journal was damaged, or it belongs to a file system of another size.",
        repair: "The rest of the journal is replayed.",
        loss: nothing "Nothing that belongs to this file system.",
        peers: [],
    }
    /// The journal cannot be read.
    UNREADABLE = "ext.journal.unreadable" {
        severity: Critical, evidence: Local, preen: false,
        message: "journal block {stored} cannot be read ({why}); the journal cannot be replayed completely",
        meaning: "The device returned a read error for a block of the journal. Its contents are not known.",
        repair: "None while the block cannot be read. Copy the device to a good one first.",
        loss: "Changes that are only in the journal.",
        peers: [],
    }
    /// The journal recorded an error.
    ERRNO = "ext.journal.error-recorded" {
        severity: Note, evidence: Local, preen: true,
        message: "the journal was aborted (error {stored})",
        meaning: "The kernel met an error and stopped using the journal. The whole file system is checked now.",
        repair: "The error is cleared.",
        loss: nothing,
        peers: [],
    }
    /// The journal will be replayed.
    REPLAYED = "ext.journal.replayed" {
        severity: Note, evidence: Local, preen: true,
        message: "the file system was not unmounted cleanly; its journal ({stored:transaction:transactions}, {observed:block:blocks}) was replayed in memory and the result was checked",
        meaning: "After a crash or a power failure, the last changes are only in the journal. The next mount writes them to their places.",
        repair: "The journal is replayed.",
        loss: nothing,
        peers: [],
    }
    /// The journal has to be replayed, and is empty.
    NOTHING_TO_REPLAY = "ext.journal.nothing-to-replay" {
        severity: Note, evidence: Cross, preen: true,
        message: "the file system was not unmounted cleanly; its journal is empty",
        meaning: "The system stopped while the file system was mounted, but nothing had changed since the journal was last emptied.",
        repair: "The needs_recovery feature is cleared.",
        loss: nothing,
        peers: [],
    }
    /// The journal was left alone.
    NOT_REPLAYED = "ext.journal.not-replayed" {
        severity: Note, evidence: Local, preen: true,
        message: "the file system was not unmounted cleanly; its journal was not replayed and the metadata on the disk was checked",
        meaning: "The last changes are only in the journal. Without them, inconsistent metadata is expected.",
        repair: "The journal is replayed.",
        loss: nothing,
        peers: [],
    }
    /// A fast commit could not be applied as a whole.
    FAST_COMMIT_UNAPPLIED = "ext.journal.fast-commit-unapplied" {
        severity: Note, evidence: Cross, preen: true,
        message: "a fast commit changes {inode} in a way that cannot be computed in memory ({why}); problems near it may disappear after a real replay",
        meaning: "Fast commits record changes of files instead of blocks. This one needs structures that only a real replay allocates.",
        repair: "The journal is replayed.",
        loss: nothing,
        peers: [],
    }
    /// The fast commit area is damaged.
    FAST_COMMIT_CORRUPT = "ext.journal.fast-commit-corrupt" {
        severity: Note, evidence: Local, preen: true,
        message: "the fast commits in the journal are corrupt ({why}) and are not replayed",
        meaning: "The fast commit area belongs to the current transaction, but its records or its checksum are wrong.",
        repair: "The journal is emptied and the whole file system is checked.",
        loss: "Changes that were only in the fast commits.",
        peers: [],
    }
    /// The external journal's superblock checksum.
    EXTERNAL_CHECKSUM = "ext.journal.external-checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the superblock of the journal device has checksum {stored}, should be {observed}",
        meaning: "The superblock on the external journal device was changed without updating its checksum.",
        repair: "The checksum is recomputed.",
        loss: nothing,
        peers: [0x00004A],
    }
    /// A journal in the file system, and the number of a device for one.
    EXTERNAL_HINT = "ext.journal.external-hint" {
        severity: Major, evidence: Cross, preen: true,
        message: "the superblock has s_journal_dev {stored}, but the journal is {inode}",
        meaning: "s_journal_dev is for an external journal. It is set although the journal is internal. The kernel refuses to mount such a file system.",
        repair: "s_journal_dev is cleared.",
        loss: nothing,
        peers: [0x000033],
    }
    /// Fast commits in a journal without room for them.
    NO_ROOM_FOR_FAST_COMMITS = "ext.journal.no-room-for-fast-commits" {
        severity: Major, evidence: Cross, preen: true,
        message: "the journal is too short for the fast_commit feature: {stored:block:blocks}, {observed} needed",
        meaning: "The feature reserves blocks at the end of the journal, and the rest must be long enough for a log. The kernel refuses to mount the file system.",
        repair: "The fast_commit feature is cleared.",
        loss: nothing,
        peers: [],
    }
}
