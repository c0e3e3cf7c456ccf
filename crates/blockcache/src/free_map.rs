// SPDX-License-Identifier: MIT OR Apache-2.0
//! The units of one group that may be taken, and the search among them. Which of several free places is a good one, a
//! [policy](crate::policy) says; here only free ones are found.

use fsmend_base::width;
use std::ops::Range;

/// Units behind the ideal one that are as good as it.
const NEAR: u64 = 64;

/// The units of one group that may not be taken, as words of bits; those beyond the group's end are set.
///
/// A unit is what one bit of the format's map stands for: a block, a cluster of blocks, or a fragment of one.
pub struct FreeMap {
    words: Vec<u64>,
    len: u64,
}

impl FreeMap {
    /// From a map in which a set bit is a unit in use, lowest bit first. What `bitmap` is too short for counts as used.
    pub fn from_used(bitmap: &[u8], len: u64) -> Self {
        let mut words: Vec<u64> = bitmap
            .chunks(8)
            .take(width::index(len.div_ceil(64)))
            .map(|bytes| {
                let mut word = [0xFF; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(word)
            })
            .collect();
        words.resize(width::index(len.div_ceil(64)), u64::MAX);
        if !len.is_multiple_of(64)
            && let Some(last) = words.last_mut()
        {
            *last |= u64::MAX << (len % 64);
        }
        FreeMap { words, len }
    }

    /// From a map in which a set bit is a free unit.
    pub fn from_free(bitmap: &[u8], len: u64) -> Self {
        let used: Vec<u8> = bitmap.iter().map(|byte| !byte).collect();
        FreeMap::from_used(&used, len)
    }

    /// These units may not be taken.
    pub fn set(&mut self, range: Range<u64>) {
        for bit in range.start..range.end.min(self.len) {
            if let Some(word) = self.words.get_mut((bit / 64) as usize) {
                *word |= 1 << (bit % 64);
            }
        }
    }

    /// The units of these words may not be taken (see [`PendingFrees`](crate::PendingFrees)).
    pub fn set_words(&mut self, words: &[u64]) {
        self.words.iter_mut().zip(words).for_each(|(word, more)| *word |= more);
    }

    /// The first clear bit of `range`.
    pub fn first_clear(&self, range: Range<u64>) -> Option<u64> {
        let end = range.end.min(self.len);
        let mut at = range.start;
        while at < end {
            let word = self.words.get((at / 64) as usize)?;
            let free = !word >> (at % 64);
            if free != 0 {
                let found = at + u64::from(free.trailing_zeros());
                return (found < end).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// The first eight clear bits of `range` that begin at a multiple of eight.
    fn first_clear_eight(&self, range: Range<u64>) -> Option<u64> {
        let end = range.end.min(self.len);
        let mut at = range.start.next_multiple_of(8);
        while at + 8 <= end {
            let word = self.words.get((at / 64) as usize)?;
            if *word == u64::MAX {
                at = (at / 64 + 1) * 64;
                continue;
            }
            if word >> (at % 64) & 0xFF == 0 {
                return Some(at);
            }
            at += 8;
        }
        None
    }

    /// How many bits are clear from `at` on, at most `max`.
    pub fn clear_run(&self, at: u64, end: u64, max: u64) -> u64 {
        let end = end.min(self.len).min(at.saturating_add(max));
        let mut reached = at;
        while reached < end {
            let Some(word) = self.words.get((reached / 64) as usize) else { break };
            let run = u64::from((word >> (reached % 64)).trailing_zeros()).min(64 - reached % 64);
            reached += run;
            if run == 0 || !reached.is_multiple_of(64) {
                break;
            }
        }
        reached.min(end).saturating_sub(at)
    }

    /// The best bit in `area` for a wish at `ideal`: `ideal` itself or the first clear one close behind it, the first eight in a row behind it, any behind it, and then
    /// the same from the start of the area.
    pub fn nearest(&self, area: Range<u64>, ideal: u64) -> Option<u64> {
        let behind = ideal.max(area.start)..area.end;
        if ideal >= area.start
            && let Some(near) = self.first_clear(ideal..area.end.min(ideal.saturating_add(NEAR)))
        {
            return Some(near);
        }
        self.first_clear_eight(behind.clone())
            .or_else(|| self.first_clear(behind))
            .or_else(|| self.first_clear_eight(area.clone()))
            .or_else(|| self.first_clear(area))
    }

    /// The first `units` clear bits in a row, from `ideal` to the end of `area` and then from its start, that lie within one block of `per_block` units: with
    /// `units == per_block` a whole free block, with fewer the end of a file in fragments. A fit in a block that is partly used is taken before
    /// a whole free block is broken up.
    pub fn nearest_in_block(&self, area: Range<u64>, ideal: u64, units: u64, per_block: u64) -> Option<u64> {
        let per_block = per_block.max(1);
        let area = area.start.next_multiple_of(per_block)..area.end.min(self.len);
        let ideal = ideal.clamp(area.start, area.end.max(area.start)) / per_block * per_block;
        let mut whole = None;
        for start in (ideal..area.end)
            .step_by(width::index(per_block))
            .chain((area.start..ideal).step_by(width::index(per_block)))
        {
            let end = start.saturating_add(per_block).min(area.end);
            if self.clear_run(start, end, per_block) == per_block && units < per_block {
                whole = whole.or(Some(start));
                continue;
            }
            if let Some(at) = self.run_in(start..end, units) {
                return Some(at);
            }
        }
        whole
    }

    /// The first `units` clear bits in a row of a range.
    fn run_in(&self, range: Range<u64>, units: u64) -> Option<u64> {
        let mut at = self.first_clear(range.clone())?;
        loop {
            let run = self.clear_run(at, range.end, units);
            if run >= units {
                return Some(at);
            }
            at = self.first_clear(at + run + 1..range.end)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_clear_bit_is_found_and_none_beyond_the_end() {
        let mut map = FreeMap::from_used(&[0xFF, 0x0F, 0x00, 0xFF, 0x00], 38);
        assert_eq!(map.first_clear(0..100), Some(12));
        assert_eq!(map.nearest(0..38, 13), Some(13));
        assert_eq!(map.nearest(24..38, 0), Some(32), "the preferred part wins over the wish");
        assert_eq!(map.clear_run(12, 38, 100), 12);
        assert_eq!(map.clear_run(32, 38, 100), 6, "bits beyond the end are used");
        map.set(12..38);
        assert_eq!(map.nearest(0..38, 0), None);
    }

    #[test]
    fn both_kinds_of_maps_say_the_same() {
        let (used, free) = ([0xA5, 0x0F], [0x5A, 0xF0]);
        let (used, free) = (FreeMap::from_used(&used, 16), FreeMap::from_free(&free, 16));
        for at in 0..16 {
            assert_eq!(used.clear_run(at, 16, 16), free.clear_run(at, 16, 16), "{at}");
        }
    }

    #[test]
    fn fragments_fill_used_blocks_before_they_break_up_free_ones() {
        // Blocks of eight fragments: free, five and two free ones, two free ones, free.
        let map = FreeMap::from_free(&[0xFF, 0b0110_1111, 0b1100_0000, 0xFF], 32);
        assert_eq!(map.nearest_in_block(0..32, 0, 2, 8), Some(8));
        assert_eq!(map.nearest_in_block(0..32, 16, 2, 8), Some(22));
        assert_eq!(map.nearest_in_block(0..32, 0, 3, 8), Some(8));
        assert_eq!(
            map.nearest_in_block(0..32, 8, 6, 8),
            Some(24),
            "breaks up the block nearest behind the wish"
        );
        assert_eq!(map.nearest_in_block(0..32, 8, 8, 8), Some(24));
        assert_eq!(map.nearest_in_block(0..24, 8, 8, 8), Some(0), "and goes round to the start");
        assert_eq!(map.nearest_in_block(8..24, 8, 8, 8), None);
    }
}
