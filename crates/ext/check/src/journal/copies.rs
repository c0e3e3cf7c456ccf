//! Copies of blocks that the journal still holds from transactions that were written to their places long ago.

use fsmend_engine::Findings;
use fsmend_ext_format::journal::{JournalBlockType, LogFormat, RawJournalHeader, RawJournalSuperblock};

use super::draft::Draft;
use super::place;
use crate::Fs;

/// A block of the journal that is a copy of a block of the file system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct JournalCopy {
    /// Where the copy lies.
    pub place: u64,
    /// Which block it is a copy of.
    pub of: u64,
}

/// The copies in the first `blocks_max` blocks of a journal that lies in the file system itself, whether or not they belong to a
/// transaction that counts. None if there is no such journal, or it makes no sense.
pub(crate) fn visit_copies(fs: &Fs<'_>, blocks_max: u64, visit: &mut dyn FnMut(JournalCopy, &[u8])) {
    let Ok(log) = place::find(fs, &mut Draft::new(fs), &mut Findings::new()) else { return };
    let Some(superblock) = log.read(log.head).ok().and_then(|bytes| RawJournalSuperblock::of(&bytes)) else {
        return;
    };
    let format = LogFormat::of(&superblock);
    let mut index = log.head + 1;
    let end = log.len.min(blocks_max);
    while index < end {
        let block = log.read(index).unwrap_or_default();
        index += 1;
        let header = RawJournalHeader::of(&block);
        if !header.is_journal_block() || header.block_type() != JournalBlockType::DESCRIPTOR {
            continue;
        }
        // Who overwrites what follows a descriptor has overwritten the descriptor before. (What goes on at the start of the
        // journal is found as often as not, and never needed.)
        for tag in format.tags(&block) {
            let Ok(copy) = log.read(index) else { break };
            if index >= end || RawJournalHeader::of(&copy).is_journal_block() {
                break;
            }
            if let Some(place) = log.place(index) {
                visit(JournalCopy { place, of: tag.block }, &copy);
            }
            index += 1;
        }
    }
}
