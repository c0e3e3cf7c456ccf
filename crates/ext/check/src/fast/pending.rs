// SPDX-License-Identifier: MIT OR Apache-2.0
//! Claims of the maps of many inodes, gathered area by area before they are made.
//!
//! Files that were written side by side have their runs in turn: one map visits a word of 64 blocks once, for a few blocks, and the next map the
//! same word for the blocks beside them. Each visit cost an atomic operation and a look at where claims come from, which was half the time of a
//! check of fragmented files. So areas wait here, in a table without locks that belongs to one worker, until another area needs
//! their place or the walk ends.
//!
//! A run of up to 64 blocks lies in a word or in two neighbours, and which of both cannot be foretold: a branch for that is mispredicted in each tenth run.
//! So both words are set in any case, the second one often to what it was.
//!
//! What is claimed twice is found all the same: a bit that waits already sends the area on before it is set again.

use fsmend_base::width;
use fsmend_engine::claims::{Claims, SharedBitmap};
use fsmend_engine::origins::{Noted, Origin};

/// Words in an area, and blocks.
const WORDS: usize = 8;
const BLOCKS: u64 = WORDS as u64 * 64;
/// Areas that wait at most: 65 536 blocks, and 12 KiB of memory.
const SLOTS: usize = 128;
/// Longer runs are claimed at once.
const GATHERED_MAX: u64 = 64;

/// Blocks of one area that were claimed for inodes of one origin.
#[derive(Clone, Copy)]
struct Slot {
    area: u64,
    origin: Origin,
    /// What cannot be claimed without a closer look: static metadata, and what was claimed already. Behind the last word is one that stays clear.
    taken: [u64; WORDS + 1],
}

/// Claims that wait. They are made at the latest when this is dropped.
pub(super) struct PendingClaims<'a> {
    claims: &'a Claims,
    metadata: &'a SharedBitmap,
    /// By the lower digits of the number of the area; empty until the first claim.
    slots: Option<Box<[Slot; SLOTS]>>,
}

impl<'a> PendingClaims<'a> {
    pub(super) fn new(claims: &'a Claims, metadata: &'a SharedBitmap) -> Self {
        PendingClaims { claims, metadata, slots: None }
    }

    /// Claims `count` blocks from `start`; returns whether static metadata is among them.
    #[inline]
    pub(super) fn claim(&mut self, start: u64, count: u64, origin: Origin) -> bool {
        let (area, within) = (start / BLOCKS, start % BLOCKS);
        if count.wrapping_sub(1) < GATHERED_MAX
            && within + count <= BLOCKS
            && let Some(slots) = &mut self.slots
            && let slot = &mut slots[width::index(area) % SLOTS]
            && slot.area == area
            && slot.origin == origin
            && slot.take(within, count)
        {
            return false;
        }
        self.claim_slowly(start, count, origin)
    }

    /// Claims what does not lie in one area that waits, or cannot be claimed without a closer look.
    #[inline(never)]
    fn claim_slowly(&mut self, start: u64, count: u64, origin: Origin) -> bool {
        let (end, mut at, mut hit) = (start.saturating_add(count), start, false);
        if count > GATHERED_MAX {
            return self.claim_at_once(start, count, origin);
        }
        while at < end {
            let (area, within) = (at / BLOCKS, at % BLOCKS);
            let part = (BLOCKS - within).min(end - at);
            if !self.slot_for(area, origin).take(within, part) {
                hit |= self.claim_at_once(at, part, origin);
            }
            at += part;
        }
        hit
    }

    fn claim_at_once(&self, start: u64, count: u64, origin: Origin) -> bool {
        self.claims.claim(start, count, origin) && self.metadata.any(start, count)
    }

    /// The slot of an area, after the claims that waited there, if it was another one's.
    fn slot_for(&mut self, area: u64, origin: Origin) -> &mut Slot {
        let none = Slot { area: u64::MAX, origin: Origin::KNOWN, taken: [0; WORDS + 1] };
        let slots = self.slots.get_or_insert_with(|| Box::new([none; SLOTS]));
        let slot = &mut slots[width::index(area) % SLOTS];
        if slot.area != area || slot.origin != origin {
            make(self.claims, self.metadata, slot);
            (slot.area, slot.origin) = (area, origin);
            self.metadata.copy_into(area * BLOCKS, &mut slot.taken[..WORDS]);
        }
        slot
    }
}

impl Slot {
    /// Notes a claim of up to 64 blocks that lie in the area, unless one of them is taken.
    #[inline]
    fn take(&mut self, within: u64, count: u64) -> bool {
        let (word, shift) = (width::index(within / 64), within % 64);
        let bits = u64::MAX >> (64 - count);
        // A shift by 64 is none.
        let (low, high) = (bits << shift, bits >> 1 >> (63 - shift));
        let Some([first, second]) = self.taken.get_mut(word..).and_then(<[u64]>::first_chunk_mut) else {
            return false;
        };
        if *first & low | *second & high != 0 {
            return false;
        }
        *first |= low;
        *second |= high;
        true
    }
}

/// Makes the claims that wait in a slot.
fn make(claims: &Claims, metadata: &SharedBitmap, slot: &Slot) {
    if slot.area == u64::MAX {
        return;
    }
    let (mut own, mut noted) = ([0; WORDS], Noted::default());
    metadata.copy_into(slot.area * BLOCKS, &mut own);
    for ((index, taken), own) in (slot.area * WORDS as u64..).zip(&slot.taken[..WORDS]).zip(own) {
        let mask = taken & !own;
        if mask != 0 {
            claims.claim_word(index, mask, slot.origin, &mut noted);
        }
    }
}

impl Drop for PendingClaims<'_> {
    fn drop(&mut self) {
        self.slots
            .iter()
            .flat_map(|slots| slots.iter())
            .for_each(|slot| make(self.claims, self.metadata, slot));
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
