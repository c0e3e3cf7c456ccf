// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal's superblock against itself and against the file system.

use fsmend_device::ReadError;
use fsmend_ext_format::journal::{
    CHECKSUM_CRC32C, JOURNAL_BLOCKS_MIN, JOURNAL_MAGIC, JournalBlockType, JournalCompat, JournalIncompat,
    RawJournalSuperblock,
};
use zerocopy::FromZeros;

use super::log::Log;

/// What came of loading the journal's superblock.
pub(crate) enum Loaded {
    /// It can be worked with.
    Usable(Box<LogBounds>),
    /// The block is no journal superblock at all.
    NotAJournal,
    /// It is damaged, for this reason.
    Damaged(&'static str),
    /// It has incompatible (first) or read-only compatible features that are not known here.
    UnknownFeatures(u32, u32),
    /// Its kind is not known.
    UnknownKind(u32),
    /// It is shared by so many file systems.
    Shared(u32),
    /// It cannot be read.
    Unreadable(ReadError),
}

/// More unknown features than this are no features.
const FEATURES_UNKNOWN_MAX: u32 = 4;
/// A number of a kind above this is none, and neither is 0.
const KIND_MAX: u32 = 16;

impl Loaded {
    /// Whether what is not known cannot be something newer than this program, either.
    pub fn is_rubbish(&self) -> bool {
        match self {
            Loaded::UnknownFeatures(incompat, ro_compat) => {
                incompat.count_ones().max(ro_compat.count_ones()) > FEATURES_UNKNOWN_MAX
            }
            Loaded::UnknownKind(kind) => !(1..=KIND_MAX).contains(kind),
            _ => false,
        }
    }

    /// Whether it says something that is not known here.
    pub fn is_strange(&self) -> bool {
        matches!(self, Loaded::UnknownFeatures(..) | Loaded::UnknownKind(_))
    }
}

/// The journal's superblock, and the numbers to follow the log by.
pub(crate) struct LogBounds {
    /// As it is stored, fields that its version does not have zeroed.
    pub raw: RawJournalSuperblock,
    /// First block of the log.
    pub first: u64,
    /// Block behind the log; it goes on at `first`.
    pub last: u64,
    /// Block behind the fast commits, which begin one block behind `last`.
    pub end: u64,
    /// Whether fields that its version does not have were filled in.
    pub had_v2_fields: bool,
}

/// Loads and judges the superblock of `log`.
pub(crate) fn load(log: &Log<'_>, block_size: u32) -> Loaded {
    let block = match log.read(log.head) {
        Ok(block) => block,
        Err(error) => return Loaded::Unreadable(error),
    };
    let Some(mut raw) = RawJournalSuperblock::of(&block) else { return Loaded::NotAJournal };
    if !raw.s_header.is_journal_block() {
        return Loaded::NotAJournal;
    }
    let had_v2_fields = match raw.s_header.block_type() {
        JournalBlockType::SUPERBLOCK_V1 => has_v2_fields(&raw),
        JournalBlockType::SUPERBLOCK_V2 => log.internal && raw.s_nr_users.get() > 1,
        JournalBlockType::DESCRIPTOR | JournalBlockType::COMMIT | JournalBlockType::REVOKE => {
            return Loaded::Damaged("it is another type of journal block");
        }
        JournalBlockType(_) if has_wrong_checksum(&raw) => return Loaded::Damaged("its checksum is wrong"),
        JournalBlockType(kind) => return Loaded::UnknownKind(kind),
    };
    if had_v2_fields {
        clear_v2_fields(&mut raw);
    }
    if raw.is_version2() && raw.s_nr_users.get() > 1 {
        return Loaded::Shared(raw.s_nr_users.get());
    }
    let first = u64::from(raw.s_first.get());
    match judge(raw, had_v2_fields, log.len, block_size) {
        // A new log begins at `first`, and the kernel does not mount where that leaves too few blocks.
        Loaded::Usable(bounds)
            if log.internal && first > 1 && first + JOURNAL_BLOCKS_MIN > bounds.end + 1 =>
        {
            Loaded::Damaged("its log begins too close to its end")
        }
        loaded => loaded,
    }
}

/// Whether the superblock has a checksum, whatever version it says it is, and that is wrong: then what is unknown in it is
/// damage, not a newer format.
fn has_wrong_checksum(raw: &RawJournalSuperblock) -> bool {
    let has_checksum = raw.incompat().intersects(JournalIncompat::CSUM_V2 | JournalIncompat::CSUM_V3)
        && raw.s_checksum_type == CHECKSUM_CRC32C;
    has_checksum && raw.s_checksum.get() != raw.computed_checksum()
}

/// The superblock of an empty journal of `len` blocks that counts its transactions from `sequence` on: what a damaged one is replaced
/// with. `None` for a journal too short to be one. Checksums and other features are for the kernel to switch on with the next mount.
pub(crate) fn fresh(
    len: u64,
    block_size: u32,
    uuid: [u8; 16],
    sequence: u32,
) -> Option<RawJournalSuperblock> {
    if len < JOURNAL_BLOCKS_MIN {
        return None;
    }
    let mut raw = RawJournalSuperblock::new_zeroed();
    raw.s_header.h_magic = JOURNAL_MAGIC.into();
    raw.s_header.h_blocktype = JournalBlockType::SUPERBLOCK_V2.0.into();
    raw.s_blocksize = block_size.into();
    raw.s_maxlen = u32::try_from(len).unwrap_or(u32::MAX).into();
    raw.s_first = 1.into();
    raw.s_sequence = sequence.max(1).into();
    raw.s_nr_users = 1.into();
    raw.s_uuid = uuid;
    Some(raw)
}

fn has_v2_fields(raw: &RawJournalSuperblock) -> bool {
    let words = [raw.s_feature_compat, raw.s_feature_incompat, raw.s_feature_ro_compat, raw.s_nr_users];
    words.iter().any(|word| word.get() != 0)
}

/// Zeroes everything behind `s_errno`.
fn clear_v2_fields(raw: &mut RawJournalSuperblock) {
    let kept = raw.clone();
    raw.zero();
    raw.s_header = kept.s_header;
    raw.s_blocksize = kept.s_blocksize;
    raw.s_maxlen = kept.s_maxlen;
    raw.s_first = kept.s_first;
    raw.s_sequence = kept.s_sequence;
    raw.s_start = kept.s_start;
    raw.s_errno = kept.s_errno;
}

fn judge(raw: RawJournalSuperblock, had_v2_fields: bool, len: u64, block_size: u32) -> Loaded {
    let unknown =
        (raw.s_feature_incompat.get() & !JournalIncompat::all().bits(), raw.s_feature_ro_compat.get());
    if raw.is_version2() && unknown != (0, 0) {
        if has_wrong_checksum(&raw) {
            return Loaded::Damaged("its checksum is wrong");
        }
        return Loaded::UnknownFeatures(unknown.0, unknown.1);
    }
    if raw.has_incompat(JournalIncompat::CSUM_V2) && raw.has_incompat(JournalIncompat::CSUM_V3) {
        return Loaded::Damaged("it has two types of checksums");
    }
    if raw.has_csum() && raw.has_compat(JournalCompat::CHECKSUM) {
        return Loaded::Damaged("it has two types of checksums");
    }
    if raw.has_csum() && raw.s_checksum_type != CHECKSUM_CRC32C {
        return Loaded::Damaged("its checksum type is unknown");
    }
    if raw.has_csum() && raw.s_checksum.get() != raw.computed_checksum() {
        return Loaded::Damaged("its checksum is wrong");
    }
    if raw.s_blocksize.get() != block_size {
        return Loaded::Damaged("its block size is not the file system's");
    }
    let end = u64::from(raw.s_maxlen.get());
    if end > len {
        return Loaded::Damaged("the journal is shorter than it says");
    }
    let last = end.saturating_sub(u64::from(raw.fast_commit_blocks()));
    let first = u64::from(raw.s_first.get());
    if raw.fast_commit_blocks() > 0 && last < JOURNAL_BLOCKS_MIN {
        return Loaded::Damaged("fast commits leave no room for the log");
    }
    let start = u64::from(raw.s_start.get());
    // The kernel refuses to mount a journal whose log begins outside, be it empty or not.
    if first == 0 || first >= last || (start != 0 && (start < first || start >= last)) {
        return Loaded::Damaged("its log begins outside the journal");
    }
    Loaded::Usable(Box::new(LogBounds { raw, first, last, end, had_v2_fields }))
}
