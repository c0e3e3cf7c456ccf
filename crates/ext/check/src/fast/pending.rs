// SPDX-License-Identifier: MIT OR Apache-2.0
//! Claims of the maps of many inodes, gathered word by word before they are made.
//!
//! Files that were written side by side have their runs in turn: one map visits a word of 64 blocks once, for a few blocks, and the next map the
//! same word for the blocks beside them. Each visit cost an atomic operation and a look at where claims come from, which was half the time of a
//! check of fragmented files. So words wait here, in a table without locks that belongs to one worker, until another word needs
//! their place or the walk ends.
//!
//! What is claimed twice is found all the same: a bit that waits already sends the word on before it is set again.

use fsmend_base::width;
use fsmend_engine::claims::{Claims, SharedBitmap};
use fsmend_engine::origins::{Noted, Origin};

/// Words that wait at most: 65 536 blocks, and 32 KiB of memory.
const SLOTS: usize = 1024;
/// Longer runs are claimed at once.
const GATHERED_MAX: u64 = 128;

/// Blocks of one word that were claimed for inodes of one origin.
#[derive(Clone, Copy)]
struct Slot {
    word: u64,
    mask: u64,
    /// Static metadata in the word.
    metadata: u64,
    origin: Origin,
}

/// Claims that wait. They are made at the latest when this is dropped.
pub(super) struct PendingClaims<'a> {
    claims: &'a Claims,
    metadata: &'a SharedBitmap,
    /// By the lower digits of the number of the word; empty until the first claim.
    slots: Vec<Slot>,
}

impl<'a> PendingClaims<'a> {
    pub(super) fn new(claims: &'a Claims, metadata: &'a SharedBitmap) -> Self {
        PendingClaims { claims, metadata, slots: Vec::new() }
    }

    /// Claims `count` blocks from `start`; returns whether static metadata is among them.
    #[inline]
    pub(super) fn claim(&mut self, start: u64, count: u64, origin: Origin) -> bool {
        let (word, shift) = (start / 64, start % 64);
        if count.wrapping_sub(1) < 64 - shift {
            return self.set(word, u64::MAX >> (64 - count) << shift, origin);
        }
        self.claim_across(start, count, origin)
    }

    /// Claims what does not lie in one word.
    fn claim_across(&mut self, start: u64, count: u64, origin: Origin) -> bool {
        if count > GATHERED_MAX {
            return self.claims.claim(start, count, origin) && self.metadata.any(start, count);
        }
        let (end, mut at, mut hit) = (start.saturating_add(count), start, false);
        while at < end {
            let part = (64 - at % 64).min(end - at);
            hit |= self.set(at / 64, u64::MAX >> (64 - part) << (at % 64), origin);
            at += part;
        }
        hit
    }

    #[inline]
    fn set(&mut self, word: u64, bits: u64, origin: Origin) -> bool {
        let index = width::index(word) % SLOTS;
        match self.slots.get_mut(index) {
            Some(slot) if slot.word == word && slot.origin == origin && slot.mask & bits == 0 => {
                slot.mask |= bits;
                slot.metadata & bits != 0
            }
            _ => self.replace(index, word, bits, origin),
        }
    }

    /// Makes the claims that wait in a slot, and puts others there.
    #[inline(never)]
    fn replace(&mut self, index: usize, word: u64, mask: u64, origin: Origin) -> bool {
        if self.slots.is_empty() {
            self.slots = vec![Slot { word: u64::MAX, mask: 0, metadata: 0, origin: Origin::KNOWN }; SLOTS];
        }
        let slot = &mut self.slots[index];
        make(self.claims, slot);
        let metadata = self.metadata.load_word(word);
        *slot = Slot { word, mask, metadata, origin };
        metadata & mask != 0
    }
}

fn make(claims: &Claims, slot: &Slot) {
    if slot.mask != 0 {
        claims.claim_word(slot.word, slot.mask, slot.origin, &mut Noted::default());
    }
}

impl Drop for PendingClaims<'_> {
    fn drop(&mut self) {
        self.slots.iter().for_each(|slot| make(self.claims, slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsmend_base::SeededRandom;

    /// Runs at random, some of them over each other and over metadata, claimed at once and in a table.
    #[test]
    fn what_waits_comes_to_the_same_as_what_is_claimed_at_once() {
        let (blocks, mut random) = (400_000, SeededRandom::new(11));
        let metadata = SharedBitmap::new(blocks);
        for word in (0..blocks / 64).step_by(97) {
            metadata.set_word(word, 0xF0);
        }
        let claimed = || {
            let claims = Claims::new(blocks);
            for block in metadata.ones() {
                claims.claim(block, 1, Origin::KNOWN);
            }
            claims
        };
        let (at_once, gathered) = (claimed(), claimed());
        let mut pending = PendingClaims::new(&gathered, &metadata);
        for _ in 0..50_000 {
            let count = match random.below(50) {
                0 => 1 + random.below(300),
                _ => 1 + random.below(12),
            };
            let start = random.below(blocks - count);
            at_once.claim(start, count, Origin::KNOWN);
            let hit = pending.claim(start, count, Origin::KNOWN);
            assert_eq!(hit, metadata.any(start, count), "{start} {count}");
        }
        drop(pending);
        for index in 0..blocks / 64 {
            let words =
                |claims: &Claims| [claims.claimed(), claims.contested()].map(|map| map.load_word(index));
            assert_eq!(words(&at_once), words(&gathered), "{index}");
        }
        assert_eq!(at_once.repeated(), gathered.repeated());
        assert!(at_once.contested().count() > 1000);
    }

    #[test]
    fn a_block_beyond_the_end_is_left_out() {
        let (claims, metadata) = (Claims::new(100), SharedBitmap::new(100));
        let mut pending = PendingClaims::new(&claims, &metadata);
        assert!(!pending.claim(90, 5, Origin::KNOWN));
        drop(pending);
        assert_eq!(claims.claimed().ones().collect::<Vec<_>>(), [90, 91, 92, 93, 94]);
    }
}
