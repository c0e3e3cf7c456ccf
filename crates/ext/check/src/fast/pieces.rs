// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of a map that lead to data or names: leaves of extent trees and blocks of pointers. What they lead to is gathered in a
//! [`Tally`] and handed to whatever [`Takes`] runs of blocks.

use fsmend_engine::origins::Origin;

use crate::fast::claimer::Claimer;
use crate::fast::inode::{push_block, run_of};
use crate::fast::map::Tally;
use crate::fast::pending::PendingClaims;
use crate::fast::pointers::{are_in_range, each_run, without_zeros};
use crate::region::Regions;

/// What is done with the runs of blocks that a piece leads to.
pub(super) trait Takes {
    /// Takes `count` blocks from `start`.
    fn take(&mut self, start: u64, count: u64);
}

/// Claims what it takes, some time later.
pub(super) struct Claiming<'p, 'a> {
    pub(super) pending: &'p mut PendingClaims<'a>,
    pub(super) origin: Origin,
    /// Whether static metadata was hit.
    pub(super) hit: bool,
}

impl Takes for Claiming<'_, '_> {
    #[inline]
    fn take(&mut self, start: u64, count: u64) {
        // Hardly ever: there is nothing to write down for each run.
        if self.pending.claim(start, count, self.origin) {
            self.hit = true;
        }
    }
}

impl Takes for Claimer<'_> {
    fn take(&mut self, start: u64, count: u64) {
        self.claim(start, count);
    }
}

/// A piece of a map.
pub(super) trait Piece {
    /// Adds what it leads to.
    fn gather(&self, tally: &mut Tally, taker: &mut impl Takes);
}

/// The entries of a leaf of an extent tree.
pub(super) struct Leaf<'c> {
    pub(super) entries: &'c [[u8; 12]],
    /// The lowest block that a file may own, and the one behind the last.
    pub(super) blocks: (u64, u64),
    /// The blocks of the file that the leaf is for.
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) is_directory: bool,
}

impl Piece for Leaf<'_> {
    fn gather(&self, tally: &mut Tally, taker: &mut impl Takes) {
        let (low, high) = self.blocks;
        let (mut next_logical, mut written_end, mut blocks) = (self.first, 0, 0);
        let (mut suspect, mut gap) = (false, false);
        // Where the leaf begins, and the block behind the run before; 0 for none.
        let (mut start, mut expected) = (0, 0);
        for entry in self.entries {
            let run = run_of(entry);
            let (count, end) = (u64::from(run.count), run.logical + u64::from(run.count));
            // One branch for all that may be wrong: nearly always nothing is.
            let is_wrong = (count == 0)
                | (run.logical < next_logical)
                | (end > self.end)
                | (run.physical < low)
                | (run.physical + count > high)
                | (run.unwritten & self.is_directory);
            if is_wrong {
                suspect = true;
                continue;
            }
            next_logical = end;
            gap |= expected != 0 && expected != run.physical;
            start = if expected == 0 { run.physical } else { start };
            expected = run.physical + count;
            taker.take(run.physical, count);
            blocks += count;
            written_end = if run.unwritten { written_end } else { end };
            if self.is_directory {
                tally.runs.push(run);
            }
        }
        tally.blocks += blocks;
        tally.data_blocks += blocks;
        tally.written_end = tally.written_end.max(written_end);
        tally.suspect |= suspect;
        tally.gap |= gap;
        if blocks > 0 {
            // Without a gap, the last one is the highest.
            tally.stretch(start, expected - 1);
        }
    }
}

/// The pointers of an indirect block, or those in the inode.
pub(super) struct Pointers<'c, 'r> {
    pub(super) words: &'c [[u8; 4]],
    /// The lowest block that a file may own, and the one behind the last.
    pub(super) blocks: (u64, u64),
    /// The block of the file that the first one is for.
    pub(super) first: u64,
    /// The indirect block that the first block follows, where they stand in line.
    pub(super) in_line: Option<u64>,
    pub(super) is_directory: bool,
    pub(super) regions: &'r Regions,
}

impl Piece for Pointers<'_, '_> {
    fn gather(&self, tally: &mut Tally, taker: &mut impl Takes) {
        // What comes behind the end of the file is 0.
        let words = without_zeros(self.words);
        if !self.is_directory && are_in_range(words, self.blocks.0, self.blocks.1) {
            self.dense(words, tally, taker);
        } else {
            self.mixed(words, tally, taker);
        }
    }
}

impl Pointers<'_, '_> {
    /// Pointers without a hole, each of them in range.
    fn dense(&self, words: &[[u8; 4]], tally: &mut Tally, taker: &mut impl Takes) {
        let (Some(first), Some(last)) = (words.first(), words.last()) else { return };
        let [first, last] = [first, last].map(|word| u64::from(u32::from_le_bytes(*word)));
        let (mut runs, mut in_region) = (0u32, false);
        let regions = Some(self.regions).filter(|regions| regions.exist());
        each_run(words, |start, count| {
            runs += 1;
            in_region |= regions.is_some_and(|regions| regions.touch(start.into(), count));
            taker.take(start.into(), count);
        });
        let count = words.len() as u64;
        tally.blocks += count;
        tally.data_blocks += count;
        tally.written_end = tally.written_end.max(self.first + count);
        tally.suspect |= in_region;
        tally.gap |= runs > 1 || self.in_line.is_some_and(|before| first != before + 1);
        // Without a gap, the last one is the highest.
        tally.stretch(first, last);
    }

    fn mixed(&self, words: &[[u8; 4]], tally: &mut Tally, taker: &mut impl Takes) {
        let (low, high) = self.blocks;
        let (mut count, mut last, mut suspect) = (0u64, None, false);
        // In line with its indirect block, if it has one; 0 stands for none.
        let (mut lowest, mut previous, mut gap) = (u64::MAX, self.in_line.unwrap_or(0), false);
        for (at, word) in words.iter().enumerate() {
            let block = u64::from(u32::from_le_bytes(*word));
            if block == 0 {
                continue;
            }
            if block < low || block >= high {
                suspect = true;
                continue;
            }
            suspect |= !self.regions.suit(self.is_directory, block, 1);
            taker.take(block, 1);
            count += 1;
            last = Some(at);
            gap |= previous != 0 && block != previous + 1;
            lowest = lowest.min(block);
            previous = block;
            if self.is_directory {
                push_block(&mut tally.runs, self.first + at as u64, block);
            }
        }
        tally.blocks += count;
        tally.data_blocks += count;
        if let Some(last) = last {
            tally.written_end = tally.written_end.max(self.first + last as u64 + 1);
        }
        tally.suspect |= suspect;
        tally.gap |= gap;
        if count > 0 {
            // Without a gap, the last one is the highest.
            tally.stretch(lowest, previous);
        }
    }
}
