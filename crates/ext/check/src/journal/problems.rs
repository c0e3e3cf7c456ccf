//! Catalogue rows of `journal`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// The journal inode is no journal.
    INODE_BAD = "ext.journal.inode-bad" {
        severity: Critical, evidence: Local, preen: true,
        message: "{inode} is named as the journal but cannot be one: {why}",
        meaning: "The superblock says which inode holds the journal. That inode is free, is not a regular file, is too short, has holes or blocks outside the file system, or is encrypted; the copy of its block list in the superblock does not help either.",
        repair: "The journal is dropped and a new, empty one is made.",
        loss: "Changes that were only in the journal, that is, those of the last seconds before the system stopped.",
        peers: [0x00000F],
    }
    /// The journal's first block is something else.
    SUPERBLOCK_MISSING = "ext.journal.superblock-missing" {
        severity: Critical, evidence: Local, preen: true,
        message: "{inode} is named as the journal, but its first block is no journal superblock",
        meaning: "The first block of the journal carries a magic number and says how the journal is laid out. Something else stands there, so nothing in the journal can be found.",
        repair: "The journal is dropped, its blocks become free, and a new, empty one is made.",
        loss: "Changes that were only in the journal, that is, those of the last seconds before the system stopped.",
        peers: [0x00000F, 0x000016],
    }
    /// The new journal that takes the place of a dropped one.
    RECREATED = "ext.journal.recreated" {
        severity: Note, evidence: Local, preen: true,
        message: "a new, empty journal has to be made in place of the one that was dropped",
        meaning: "The old journal could not be used, and a file system with a journal should keep having one.",
        repair: "Free blocks are made into a new journal.",
        loss: "Nothing.",
        peers: [0x060001],
    }
    /// The copy of the journal's block list had to be used.
    BACKUP_USED = "ext.journal.inode-from-backup" {
        severity: Major, evidence: Local, preen: true,
        message: "{inode}, the journal, is damaged ({why}), but the copy of its block list in the superblock is good",
        meaning: "The journal's inode, or its number in the superblock, was overwritten. The superblock keeps a copy of its block list and size for this case.",
        repair: "The journal's inode is written anew from the copy, and the superblock names it.",
        loss: "Nothing.",
        peers: [0x00000F],
    }
    /// The journal superblock is damaged.
    SUPERBLOCK_BAD = "ext.journal.superblock-bad" {
        severity: Critical, evidence: Local, preen: true,
        message: "the journal's superblock cannot be right: {why}",
        meaning: "The first block of the journal says how the journal is laid out and where the log begins. It contradicts itself, its checksum, or the file system.",
        repair: "The journal's superblock is reset, which empties the journal; the whole file system is checked.",
        loss: "Changes that were only in the journal, that is, those of the last seconds before the system stopped.",
        peers: [0x000015],
    }
    /// Journal fields without the feature.
    WITHOUT_FEATURE = "ext.journal.without-feature" {
        severity: Major, evidence: Local, preen: true,
        message: "the superblock names a journal ({inode}), but says that the file system has none",
        meaning: "The feature has_journal is off, but the superblock's journal fields are filled in, and a journal is there.",
        repair: "The journal fields are cleared; the old journal's blocks become free.",
        loss: "Changes that were only in the journal.",
        peers: [0x000016],
    }
    /// A journal in the file system, and a UUID of one elsewhere.
    STRAY_UUID = "ext.journal.stray-uuid" {
        severity: Major, evidence: Cross, preen: true,
        message: "the superblock names a journal on another device, but the journal is {inode}",
        meaning: "The superblock has room for the UUID of a journal on a device of its own. Here it is filled in although the file system has its journal in itself: other tools look for that device and give up.",
        repair: "The UUID is cleared.",
        loss: "Nothing.",
        peers: [],
    }
    /// needs_recovery without a journal.
    RECOVERY_WITHOUT_JOURNAL = "ext.journal.recovery-without-journal" {
        severity: Major, evidence: Local, preen: true,
        message: "the superblock says that the journal has to be replayed, but there is no journal",
        meaning: "The feature needs_recovery is on while has_journal is off. No system leaves a file system like that; something was overwritten.",
        repair: "The feature needs_recovery is switched off.",
        loss: "Nothing.",
        peers: [0x000017],
    }
    /// Transactions in the journal although the flag is off.
    RECOVERY_NOT_FLAGGED = "ext.journal.recovery-not-flagged" {
        severity: Major, evidence: Cross, preen: false,
        message: "the journal holds transactions (from sequence {stored} on), but the superblock does not say that it has to be replayed",
        meaning: "Journal and superblock disagree on whether the file system was left cleanly. Most often the superblock came from a backup, which never carries the flag.",
        repair: "The journal is replayed.",
        loss: "If the file system was changed after the flag went, the replay puts older metadata over newer.",
        peers: [0x000018],
    }
    /// needs_recovery, and nothing to be replayed.
    RECOVERY_FLAG_IDLE = "ext.journal.recovery-flag-idle" {
        severity: Note, evidence: Cross, preen: true,
        message: "the superblock says that the journal has to be replayed, but nothing waits in it",
        meaning: "The file system was not unmounted, and nothing had been written since it was mounted. Any mount for writing clears the flag; some programs refuse a file system that has it.",
        repair: "The feature needs_recovery is switched off.",
        loss: "Nothing.",
        peers: [],
    }
    /// Version 2 fields in a version 1 journal superblock.
    V2_FIELDS = "ext.journal.v2-fields" {
        severity: Minor, evidence: Local, preen: false,
        message: "the journal's superblock has values in fields that its version does not have",
        meaning: "Features and users exist from the second version of the journal's superblock on; in this one the fields behind the first version hold rubbish. Old tools that turned version 1 into 2 left it behind.",
        repair: "The fields are zeroed.",
        loss: "Nothing.",
        peers: [0x00002A],
    }
    /// A transaction fails its checksum.
    TRANSACTION_CORRUPT = "ext.journal.transaction-corrupt" {
        severity: Major, evidence: Local, preen: false,
        message: "transaction {stored} in the journal fails its checksum; it and all later ones are not replayed",
        meaning: "The commit block of the transaction does not fit. Either the transaction never reached the disk as a whole, or the journal was damaged.",
        repair: "The journal is replayed up to the transaction before; the rest is dropped.",
        loss: "The changes of that transaction and of all later ones.",
        peers: [0x00003A],
    }
    /// The scan of the log met a bad checksum; nothing is replayed.
    LOG_CORRUPT = "ext.journal.log-corrupt" {
        severity: Note, evidence: Local, preen: true,
        message: "a descriptor or revoke block of transaction {stored} in the journal fails its checksum; nothing is replayed",
        meaning: "The log cannot be trusted, so the established tools replay none of it. The metadata on the disk are checked as they are.",
        repair: "The journal is emptied; the whole file system is checked.",
        loss: "Changes that were only in the journal.",
        peers: [],
    }
    /// A data block of the log is damaged.
    DATA_CORRUPT = "ext.journal.data-corrupt" {
        severity: Note, evidence: Local, preen: true,
        message: "the journal's copy of {block} in transaction {stored} fails its checksum and is left out of the replay",
        meaning: "One block in the log was damaged. The other blocks of the log are replayed; this one stays as it is on the disk, and what does not fit together then is found by the other checks.",
        repair: "The rest of the journal is replayed.",
        loss: "The change to that one block.",
        peers: [],
    }
    /// The log ends where it should not.
    LOG_BROKEN = "ext.journal.log-broken" {
        severity: Major, evidence: Local, preen: false,
        message: "the journal cannot be followed at its block {stored}: {why}",
        meaning: "The log leads outside the journal, or it never ends. What it says up to there is not trusted.",
        repair: "The journal is emptied; the whole file system is checked.",
        loss: "Changes that were only in the journal.",
        peers: [],
    }
    /// The log wants to write where no metadata can be.
    BLOCK_OUTSIDE = "ext.journal.block-outside" {
        severity: Major, evidence: Cross, preen: false,
        message: "the journal holds a copy of {block}, which {why}; it is left out of the replay",
        meaning: "The log names a block that it must not replay. The journal was damaged, or it belongs to a file system of another size.",
        repair: "The rest of the journal is replayed.",
        loss: "Nothing that had a place.",
        peers: [],
    }
    /// The journal cannot be read.
    UNREADABLE = "ext.journal.unreadable" {
        severity: Critical, evidence: Local, preen: false,
        message: "the journal cannot be read at its block {stored} ({why}); it cannot be replayed as a whole",
        meaning: "The device reports an error for a block of the journal. What the journal says there is not known, which is not the same as nothing.",
        repair: "None, as long as the device does not deliver the block: copy the device to a good one first.",
        loss: "Changes that are only in the journal.",
        peers: [],
    }
    /// The journal recorded an error.
    ERRNO = "ext.journal.error-recorded" {
        severity: Note, evidence: Local, preen: true,
        message: "the journal says that it was aborted (error {stored})",
        meaning: "The system met an error that made it stop using the journal, and left a mark. The file system has to be checked as a whole, which is what happens here.",
        repair: "The mark is cleared.",
        loss: "Nothing.",
        peers: [],
    }
    /// The journal will be replayed.
    REPLAYED = "ext.journal.replayed" {
        severity: Note, evidence: Local, preen: true,
        message: "the file system was not left cleanly; its journal ({stored:transaction:transactions}, {observed:block:blocks}) was replayed in memory, and the result was checked",
        meaning: "After a crash or a pulled plug the last changes are in the journal only, and the next mount puts them in place.",
        repair: "The journal is replayed.",
        loss: "Nothing.",
        peers: [],
    }
    /// The journal was left alone.
    NOT_REPLAYED = "ext.journal.not-replayed" {
        severity: Note, evidence: Local, preen: true,
        message: "the file system was not left cleanly, and its journal was not replayed; what lies on the disk was checked",
        meaning: "The last changes are in the journal only. Without them, metadata that do not fit together are to be expected.",
        repair: "The journal is replayed.",
        loss: "Nothing.",
        peers: [],
    }
    /// A fast commit could not be applied as a whole.
    FAST_COMMIT_UNAPPLIED = "ext.journal.fast-commit-unapplied" {
        severity: Note, evidence: Cross, preen: true,
        message: "a fast commit changes {inode} in a way that cannot be worked out in memory ({why}); what is found around it may go away with a real replay",
        meaning: "Fast commits record changes of files instead of blocks. This one needs room in structures that only a real replay makes.",
        repair: "The journal is replayed.",
        loss: "Nothing.",
        peers: [],
    }
    /// The fast commit area is damaged.
    FAST_COMMIT_CORRUPT = "ext.journal.fast-commit-corrupt" {
        severity: Note, evidence: Local, preen: true,
        message: "the fast commits in the journal are damaged ({why}) and are not replayed",
        meaning: "The area of fast commits behind the log begins like one of the current transaction, but its records or its checksum are wrong.",
        repair: "The journal is emptied; the whole file system is checked.",
        loss: "Changes that were only in the fast commits.",
        peers: [],
    }
    /// The external journal's superblock checksum.
    EXTERNAL_CHECKSUM = "ext.journal.external-checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the superblock of the journal device stores checksum {stored}, but {observed} fits its contents",
        meaning: "The ext superblock on the separate journal device was changed without its checksum.",
        repair: "The checksum is set.",
        loss: "Nothing.",
        peers: [0x00004A],
    }
    /// The hint where the external journal is.
    EXTERNAL_HINT = "ext.journal.external-hint" {
        severity: Note, evidence: Cross, preen: true,
        message: "the superblock remembers device number {stored} for its journal, but names no journal by UUID",
        meaning: "The superblock keeps the device number of a separate journal device as a hint; the UUID is what counts.",
        repair: "The hint is set right.",
        loss: "Nothing.",
        peers: [0x000033],
    }
}
