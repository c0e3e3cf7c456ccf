// SPDX-License-Identifier: MIT OR Apache-2.0
//! Claims of a map, gathered before they are made.

use fsmend_base::InodeNo;
use fsmend_engine::claims::{Claims, SharedBitmap};
use fsmend_engine::origins::{Noted, Origin};

use super::map::WalkMode;

/// Gathers claims on neighbouring blocks into one word, so that a fragmented map costs one atomic operation for up to
/// 64 blocks, however many runs they are.
pub(crate) struct Claimer<'a> {
    claims: &'a Claims,
    metadata: &'a SharedBitmap,
    mode: WalkMode,
    /// Of the inode whose claims these are.
    origin: Origin,
    noted: Noted,
    word: u64,
    mask: u64,
    collision: bool,
    /// What is contested among them, if that is what is looked for.
    contested: Vec<u64>,
}

impl<'a> Claimer<'a> {
    pub(crate) fn new(
        claims: &'a Claims,
        metadata: &'a SharedBitmap,
        mode: WalkMode,
        inode: InodeNo,
    ) -> Self {
        Claimer {
            claims,
            metadata,
            mode,
            origin: claims.origin(inode.0),
            noted: Noted::default(),
            word: 0,
            mask: 0,
            collision: false,
            contested: Vec::new(),
        }
    }

    pub(crate) fn claim_one(&mut self, block: u64) {
        let (word, bit) = (block / 64, 1 << (block % 64));
        if word != self.word || self.mask & bit != 0 {
            self.flush();
            self.word = word;
        }
        self.mask |= bit;
    }

    pub(super) fn claim(&mut self, start: u64, count: u64) {
        let (word, shift) = (start / 64, start % 64);
        if count == 0 {
            return;
        }
        if count <= 64 - shift {
            let bits = u64::MAX >> (64 - count) << shift;
            if word != self.word || self.mask & bits != 0 {
                self.flush();
                self.word = word;
            }
            self.mask |= bits;
            return;
        }
        self.collision |= match self.mode {
            // Static metadata is claimed before anything else.
            WalkMode::Claim => {
                self.claims.claim(start, count, self.origin) && self.metadata.any(start, count)
            }
            WalkMode::Withdraw => {
                self.claims.withdraw(start, count);
                self.metadata.any(start, count)
            }
            WalkMode::Look => self.metadata.any(start, count),
            WalkMode::Search => {
                self.search(start, count);
                self.metadata.any(start, count)
            }
        };
    }

    fn flush(&mut self) {
        if self.mask == 0 {
            return;
        }
        let hits_metadata = || self.metadata.load_word(self.word) & self.mask != 0;
        self.collision |= match self.mode {
            WalkMode::Claim => {
                self.claims.claim_word(self.word, self.mask, self.origin, &mut self.noted) && hits_metadata()
            }
            WalkMode::Withdraw => {
                self.claims.withdraw_word(self.word, self.mask);
                hits_metadata()
            }
            WalkMode::Look => hits_metadata(),
            WalkMode::Search => {
                let contested = self.claims.contested().load_word(self.word) & self.mask;
                let base = self.word * 64;
                self.contested.extend((0..64).filter(|bit| contested >> bit & 1 == 1).map(|bit| base + bit));
                hits_metadata()
            }
        };
        self.mask = 0;
    }

    fn search(&mut self, start: u64, count: u64) {
        let contested = self.claims.contested();
        let end = start.saturating_add(count);
        if contested.any(start, count) {
            self.contested.extend(contested.ones_from(start).take_while(|unit| *unit < end));
        }
    }

    /// Whether static metadata was hit. What was looked for is added to `contested`.
    pub(crate) fn finish(mut self, contested: &mut Vec<u64>) -> bool {
        self.flush();
        contested.append(&mut self.contested);
        self.collision
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_claimed_twice_in_one_word_is_contested() {
        let (claims, metadata) = (Claims::new(1000), SharedBitmap::new(1000));
        metadata.set_word(3, 1);
        claims.claim(192, 1, Origin::KNOWN);
        let mut claimer = Claimer::new(&claims, &metadata, WalkMode::Claim, InodeNo(12));
        [100, 101, 100].into_iter().for_each(|block| claimer.claim_one(block));
        claimer.claim(10, 3);
        assert!(!claimer.finish(&mut Vec::new()), "no metadata was hit");
        assert_eq!(claims.contested().ones().collect::<Vec<_>>(), [100]);
        assert_eq!(claims.claimed().ones().collect::<Vec<_>>(), [10, 11, 12, 100, 101, 192]);
        let mut claimer = Claimer::new(&claims, &metadata, WalkMode::Claim, InodeNo(12));
        claimer.claim_one(192);
        assert!(claimer.finish(&mut Vec::new()));
        let mut claimer = Claimer::new(&claims, &metadata, WalkMode::Claim, InodeNo(12));
        claimer.claim(190, 3);
        assert!(claimer.finish(&mut Vec::new()));
    }
    #[test]
    fn a_search_finds_what_is_contested_and_changes_nothing() {
        let (claims, metadata) = (Claims::new(1000), SharedBitmap::new(1000));
        for (start, count) in [(90, 30), (100, 10), (700, 2), (701, 3)] {
            claims.claim(start, count, Origin::KNOWN);
        }
        let mut claimer = Claimer::new(&claims, &metadata, WalkMode::Search, InodeNo(12));
        [108, 109, 110, 108, 500].into_iter().for_each(|block| claimer.claim_one(block));
        claimer.claim(600, 200);
        let mut found = Vec::new();
        assert!(!claimer.finish(&mut found));
        found.sort_unstable();
        assert_eq!(found, [108, 108, 109, 701], "what is claimed twice is found twice");
        assert_eq!((claims.claimed().count(), claims.contested().count()), (34, 11));
    }
}
