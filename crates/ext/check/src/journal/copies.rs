// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies of blocks that the journal still holds from transactions that were written to their places long ago.

use fsmend_engine::Findings;
use fsmend_ext_format::journal::{JournalBlockType, LogFormat, RawJournalHeader, RawJournalSuperblock};

use super::log::Log;
use super::place;
use super::replay_overlay::ReplayOverlay;
use crate::Fs;

/// A block of the journal that is a copy of a block of the file system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct JournalCopy {
    /// Where the copy lies.
    pub place: u64,
    /// Which block it is a copy of.
    pub of: u64,
}

/// A tag of a descriptor takes no fewer bytes.
const TAG_BYTES_MIN: u32 = 8;
/// After so many times the blocks that one descriptor can tell of without a block of the journal's own, nothing was ever written: what has
/// been written has one of those before and behind the copies, even where one was overwritten by something else.
const SILENCE: u64 = 2;
/// Blocks that are read at once.
const READ_BLOCKS: u64 = 32;

/// The copies in the first `blocks_max` blocks of a journal that lies in the file system itself, whether or not they belong to a
/// transaction that counts. None if there is no such journal, or it makes no sense.
pub(crate) fn visit_copies(fs: &Fs<'_>, blocks_max: u64, visit: &mut dyn FnMut(JournalCopy, &[u8])) {
    let Ok(log) = place::find(fs, &mut ReplayOverlay::new(fs), &mut Findings::new()) else { return };
    let Some(superblock) = log.read(log.head).ok().and_then(|bytes| RawJournalSuperblock::of(&bytes)) else {
        return;
    };
    let format = LogFormat::of(&superblock);
    let mut index = log.head + 1;
    let end = log.len.min(blocks_max);
    let silence_max = SILENCE * u64::from(fs.geometry.block_size / TAG_BYTES_MIN);
    let (mut ahead, mut silence) = (Ahead::new(&log), 0);
    while index < end && silence <= silence_max {
        let block = ahead.block(index).unwrap_or_default();
        index += 1;
        let header = RawJournalHeader::of(block);
        silence = if header.is_journal_block() { 0 } else { silence + 1 };
        if !header.is_journal_block() || header.block_type() != JournalBlockType::DESCRIPTOR {
            continue;
        }
        let block = block.to_vec();
        // Who overwrites what follows a descriptor has overwritten the descriptor before. (What goes on at the start of the
        // journal is found as often as not, and never needed.)
        for tag in format.tags(&block) {
            let Some(copy) = ahead.block(index) else { break };
            if index >= end || RawJournalHeader::of(copy).is_journal_block() {
                break;
            }
            if let Some(place) = log.place(index) {
                visit(JournalCopy { place, of: tag.block }, copy);
            }
            index += 1;
        }
    }
}

/// Blocks of the journal, read several at a time.
struct Ahead<'l, 'd> {
    log: &'l Log<'d>,
    first: u64,
    bytes: Vec<u8>,
}

impl<'l, 'd> Ahead<'l, 'd> {
    fn new(log: &'l Log<'d>) -> Self {
        Ahead { log, first: 0, bytes: Vec::new() }
    }

    /// Block `index`; `None` where there is none, or it cannot be read.
    fn block(&mut self, index: u64) -> Option<&[u8]> {
        let size = self.log.block_size() as usize;
        let held = (self.bytes.len() / size) as u64;
        if !(self.first..self.first + held).contains(&index) {
            self.first = index;
            if self.log.read_stretch(index, READ_BLOCKS, &mut self.bytes).is_err() {
                self.bytes.clear();
                return None;
            }
        }
        let at = usize::try_from(index - self.first).ok()?.checked_mul(size)?;
        self.bytes.get(at..at + size)
    }
}
