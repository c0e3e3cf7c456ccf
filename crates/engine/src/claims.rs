// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who owns which block: a bitmap of claims that all workers share, and a second one of blocks claimed twice.
//!
//! Pages are allocated on first touch, so that a file system that says it is huge costs nothing until its blocks
//! are claimed. Claims are set a word at a time with one atomic operation; nothing is locked.

mod pages;

use std::ops::Range;
use std::sync::Arc;

use fsmend_base::width;

use self::pages::{DENSE_UNITS, Page, Pages, WORDS_PER_PAGE, page_bytes};
use crate::Budget;
use crate::origins::{Noted, Origin, Origins};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// So many untouched pages on each side are looked at when clear bits are asked for.
const PAGES_AROUND: usize = 8;

/// A bitmap that many threads set at once.
pub struct SharedBitmap {
    pages: Pages,
    len: u64,
    /// Whether one thread alone sets bits. Then that takes no atomic operation, of which each costs as much as twenty additions.
    is_alone: bool,
    /// Pages are charged to it as they are allocated.
    budget: Option<Arc<Budget>>,
}

impl SharedBitmap {
    /// `len` clear bits.
    pub fn new(len: u64) -> Self {
        SharedBitmap { pages: Pages::small(len), len, is_alone: false, budget: None }
    }

    /// `len` clear bits; what they take is charged to `budget`, now and as pages are touched.
    pub fn within(budget: &Arc<Budget>, len: u64) -> Self {
        SharedBitmap::new(len).charged_to(budget)
    }

    fn charged_to(mut self, budget: &Arc<Budget>) -> Self {
        budget.charge(self.bytes_held());
        self.budget = Some(Arc::clone(budget));
        self
    }

    /// Memory for `len` bits of which none has been touched.
    pub fn index_bytes(len: u64) -> u64 {
        len.div_ceil(64 * WORDS_PER_PAGE as u64).saturating_mul(size_of::<Page<WORDS_PER_PAGE>>() as u64)
    }

    /// Memory that the bitmap holds now.
    pub fn bytes_held(&self) -> u64 {
        let pages: u64 = self.pages.touched(0).map(|(_, page)| page_bytes(page.len())).sum();
        self.pages.index_bytes() + pages
    }

    fn bits_per_page(&self) -> u64 {
        64 << self.pages.shift()
    }

    /// Number of bits.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the bitmap has no bits at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn word(&self, index: u64) -> &AtomicU64 {
        self.pages.word(index, self.budget.as_deref())
    }

    /// The `index`th word of 64 bits; words of untouched pages are 0 and stay unallocated.
    #[inline]
    pub fn load_word(&self, index: u64) -> u64 {
        let (number, within) = self.place(index);
        let page = self.pages.get(number);
        page.and_then(|page| page.get(within)).map_or(0, |word| word.load(Relaxed))
    }

    /// The 64 bits from `bit` on, wherever in a word that is.
    #[inline]
    pub fn load_word_at(&self, bit: u64) -> u64 {
        let (index, shift) = (bit / 64, bit % 64);
        let low = self.load_word(index) >> shift;
        if shift == 0 { low } else { low | self.load_word(index + 1) << (64 - shift) }
    }

    /// Copies the bits from `first` on into `words`, 64 into each, page by page where they begin with a word. Bits beyond the end are clear.
    pub fn copy_into(&self, first: u64, words: &mut [u64]) {
        if !first.is_multiple_of(64) {
            for (word, bit) in words.iter_mut().zip((first..).step_by(64)) {
                *word = self.load_word_at(bit);
            }
            return;
        }
        let (mut number, mut within) = self.place(first / 64);
        let mut rest = words;
        while !rest.is_empty() {
            let (now, later) = rest.split_at_mut(rest.len().min((1 << self.pages.shift()) - within));
            match self.pages.get(number) {
                Some(page) => {
                    now.iter_mut().zip(&page[within..]).for_each(|(word, set)| *word = set.load(Relaxed));
                }
                None => now.fill(0),
            }
            (number, within, rest) = (number + 1, 0, later);
        }
    }

    /// The words of a range that have bits set, with their indexes.
    pub fn words_set(&self, range: Range<u64>) -> impl Iterator<Item = (u64, u64)> + '_ {
        let shift = self.pages.shift();
        let (first, behind) = (range.start >> shift, range.end.div_ceil(1 << shift));
        let touched = self.pages.touched(width::index(first));
        let words = touched.take_while(move |(number, _)| (*number as u64) < behind).flat_map(
            move |(number, page)| {
                ((number as u64) << shift..).zip(page.iter().map(|word| word.load(Relaxed)))
            },
        );
        words.filter(move |(index, word)| *word != 0 && range.contains(index))
    }

    /// The page of a word, and its place there.
    #[inline]
    fn place(&self, word: u64) -> (usize, usize) {
        (width::index(word >> self.pages.shift()), width::index(word & ((1 << self.pages.shift()) - 1)))
    }

    /// Sets `mask` in word `index` and returns what was set before.
    #[inline]
    pub fn set_word(&self, index: u64, mask: u64) -> u64 {
        let word = self.word(index);
        if !self.is_alone {
            return word.fetch_or(mask, Relaxed);
        }
        let before = word.load(Relaxed);
        word.store(before | mask, Relaxed);
        before
    }

    /// Clears `mask` in word `index`.
    pub fn clear_word(&self, index: u64, mask: u64) {
        if self.load_word(index) & mask != 0 {
            self.word(index).fetch_and(!mask, Relaxed);
        }
    }

    /// Whether `bit` is set; bits beyond the end are clear.
    pub fn get(&self, bit: u64) -> bool {
        bit < self.len && self.load_word(bit / 64) >> (bit % 64) & 1 == 1
    }

    /// Whether any bit of `start..start + count` is set.
    pub fn any(&self, start: u64, count: u64) -> bool {
        words_of(start, count, self.len).any(|(index, mask)| self.load_word(index) & mask != 0)
    }

    /// Bits around `bit`, `bit` among them, that are all clear: its page and those beside it, where they are untouched, or else
    /// as many whole words of its page on both sides as are clear. Empty if a bit of its own word is set.
    pub fn clear_around(&self, bit: u64) -> Range<u64> {
        if bit >= self.len {
            return 0..0;
        }
        let bits = self.bits_per_page();
        let page = width::index(bit / bits);
        if self.is_untouched(page) {
            let first =
                (page.saturating_sub(PAGES_AROUND)..page).rev().take_while(|page| self.is_untouched(*page));
            let start = page - first.count();
            let behind = (page + 1..=page + PAGES_AROUND).take_while(|page| self.is_untouched(*page));
            let end = page + 1 + behind.count();
            return start as u64 * bits..(end as u64 * bits).min(self.len);
        }
        let own = bit / 64;
        if self.load_word(own) != 0 {
            return 0..0;
        }
        let page = own >> self.pages.shift() << self.pages.shift();
        let first = (page..own).rev().take_while(|word| self.load_word(*word) == 0);
        let start = own - first.count() as u64;
        let behind =
            (own + 1..page + (1 << self.pages.shift())).take_while(|word| self.load_word(*word) == 0);
        let end = own + 1 + behind.count() as u64;
        start * 64..(end * 64).min(self.len)
    }

    /// Whether there is such a page, and no bit of it is set.
    fn is_untouched(&self, page: usize) -> bool {
        page < self.pages.len() && self.pages.get(page).is_none()
    }

    /// Number of set bits.
    pub fn count(&self) -> u64 {
        self.pages
            .touched(0)
            .flat_map(|(_, page)| page)
            .map(|word| u64::from(word.load(Relaxed).count_ones()))
            .sum()
    }

    /// The set bits in ascending order.
    pub fn ones(&self) -> impl Iterator<Item = u64> + '_ {
        self.ones_from(0)
    }

    /// The set bits that are not below `start`, in ascending order.
    pub fn ones_from(&self, start: u64) -> impl Iterator<Item = u64> + '_ {
        let first = usize::try_from(start / self.bits_per_page()).unwrap_or(usize::MAX);
        self.ones_of_pages(first).skip_while(move |bit| *bit < start)
    }

    fn ones_of_pages(&self, first: usize) -> impl Iterator<Item = u64> + '_ {
        let bits = self.bits_per_page();
        self.pages.touched(first).flat_map(move |(number, page)| {
            page.iter().enumerate().flat_map(move |(index, word)| {
                let word = word.load(Relaxed);
                let base = number as u64 * bits + index as u64 * 64;
                (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| base + bit)
            })
        })
    }
}

/// The words that `start..start + count` touches, cut at `len`, each with the mask of its bits.
pub(crate) fn words_of(start: u64, count: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = start.saturating_add(count).min(len);
    let first = start / 64;
    let last = end.div_ceil(64).max(first);
    (first..if start < end { last } else { first }).map(move |index| {
        let low = start.saturating_sub(index * 64).min(63);
        let high = (end - index * 64).min(64);
        let mask = (u64::MAX << low) & (u64::MAX >> (64 - high));
        (index, mask)
    })
}

impl Drop for SharedBitmap {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.release(self.bytes_held());
        }
    }
}

/// All claims of a run.
pub struct Claims {
    claimed: SharedBitmap,
    contested: SharedBitmap,
    /// Claims on units that were claimed before.
    repeated: AtomicU64,
    /// Where they came from, if there is memory to keep that.
    origins: Option<Origins>,
}

impl Claims {
    /// No claims yet on `units` blocks (or clusters, whatever the format allocates).
    pub fn new(units: u64) -> Self {
        Claims {
            claimed: SharedBitmap::new(units),
            contested: SharedBitmap::new(units),
            repeated: AtomicU64::new(0),
            origins: None,
        }
    }

    /// No claims yet; what they take is charged to `budget` as they are made.
    pub fn within(budget: &Arc<Budget>, units: u64) -> Self {
        let Claims { claimed, contested, repeated, origins } = Claims::new(units);
        let (claimed, contested) = (claimed.charged_to(budget), contested.charged_to(budget));
        Claims { claimed, contested, repeated, origins }
    }

    /// The same, where most units are going to be claimed, if `is_dense`. None may have been claimed yet.
    pub fn dense(mut self, is_dense: bool) -> Self {
        let units = self.claimed.len;
        if is_dense && DENSE_UNITS.contains(&units) {
            let is_alone = self.claimed.is_alone;
            let claimed = SharedBitmap { pages: Pages::dense(units), len: units, is_alone, budget: None };
            self.claimed = match &self.claimed.budget {
                Some(budget) => claimed.charged_to(budget),
                None => claimed,
            };
        }
        self
    }

    /// The same, where one thread alone makes claims.
    pub fn alone(mut self, is_alone: bool) -> Self {
        self.claimed.is_alone = is_alone;
        self
    }

    /// The same, where it is kept from which inodes claims come. None may have been made yet.
    pub fn with_origins(self, origins: Option<Origins>) -> Self {
        Claims { origins, ..self }
    }

    /// Where claims came from, if that is kept.
    pub fn origins(&self) -> Option<&Origins> {
        self.origins.as_ref()
    }

    /// The origin of what inode `inode` claims.
    #[inline]
    pub fn origin(&self, inode: u32) -> Origin {
        self.origins.as_ref().map_or(Origin::KNOWN, |origins| origins.of(inode))
    }

    /// Claims `count` units from `start`; returns whether any of them was claimed before (those are then contested).
    /// Units beyond the end are ignored. `origin` has to be that of the inode whose map this is, or it is not found when
    /// another owner claims the same.
    #[inline]
    pub fn claim(&self, start: u64, count: u64, origin: Origin) -> bool {
        if let Some(origins) = &self.origins {
            origins.note(start, count, origin);
        }
        let shift = start % 64;
        if count.wrapping_sub(1) < 64 - shift && start.saturating_add(count) <= self.claimed.len {
            // Most claims.
            return self.mark_word(start / 64, u64::MAX >> (64 - count) << shift);
        }
        let mut contested = false;
        for (index, mask) in words_of(start, count, self.claimed.len) {
            contested |= self.mark_word(index, mask);
        }
        contested
    }

    /// Claims the units of `mask` in word `index` (64 units); see [`claim`](Self::claim). A caller that claims many words for one inode
    /// keeps `noted` from one to the next.
    #[inline]
    pub fn claim_word(&self, index: u64, mask: u64, origin: Origin, noted: &mut Noted) -> bool {
        if let Some(origins) = &self.origins {
            origins.note_word(index, origin, noted);
        }
        self.mark_word(index, mask)
    }

    #[inline]
    fn mark_word(&self, index: u64, mask: u64) -> bool {
        let before = self.claimed.set_word(index, mask) & mask;
        if before != 0 {
            self.contested.set_word(index, before);
            self.repeated.fetch_add(u64::from(before.count_ones()), Relaxed);
        }
        before != 0
    }

    /// Takes a claim back. Contested units stay claimed: who still owns them is settled when owners are looked up.
    pub fn withdraw(&self, start: u64, count: u64) {
        for (index, mask) in words_of(start, count, self.claimed.len) {
            self.withdraw_word(index, mask);
        }
    }

    /// Takes back the claims of `mask` in word `index`; see [`withdraw`](Self::withdraw).
    pub fn withdraw_word(&self, index: u64, mask: u64) {
        self.claimed.clear_word(index, mask & !self.contested.load_word(index));
    }

    /// Says whether a contested unit turned out to have an owner. (A claim and the withdrawal of another that meet in
    /// the same moment may leave it either way.)
    pub fn settle(&self, unit: u64, owned: bool) {
        if owned {
            self.claimed.set_word(unit / 64, 1 << (unit % 64));
        } else {
            self.claimed.clear_word(unit / 64, 1 << (unit % 64));
        }
    }

    /// Says that a contested unit has been dealt with.
    pub fn resolve(&self, unit: u64) {
        self.contested.clear_word(unit / 64, 1 << (unit % 64));
    }

    /// How many claims there were on units that had been claimed before, those that were withdrawn since among them.
    pub fn repeated(&self) -> u64 {
        self.repeated.load(Relaxed)
    }

    /// What has been claimed.
    pub fn claimed(&self) -> &SharedBitmap {
        &self.claimed
    }

    /// What has been claimed more than once.
    pub fn contested(&self) -> &SharedBitmap {
        &self.contested
    }
}

#[cfg(test)]
mod tests {
    use super::pages::{DENSE_UNITS_MIN, WORDS_PER_DENSE_PAGE};
    use super::*;

    #[test]
    fn pages_are_charged_as_they_are_touched() {
        let budget = Arc::new(Budget::new(1 << 20));
        let claims = Claims::within(&budget, 1_000_000);
        let empty = budget.limit() - budget.free();
        claims.claim(0, 100, Origin::KNOWN);
        claims.claim(900_000, 1, Origin::KNOWN);
        assert_eq!(budget.limit() - budget.free(), empty + 2 * page_bytes(WORDS_PER_PAGE));
        drop(claims);
        assert_eq!(budget.free(), budget.limit());
    }

    const BITS_PER_PAGE: u64 = 64 * WORDS_PER_PAGE as u64;

    #[test]
    fn dense_pages_hold_the_same() {
        let (budget, len) = (Arc::new(Budget::new(1 << 20)), DENSE_UNITS_MIN + 1000);
        let (small, dense) = (Claims::new(len), Claims::within(&budget, len).dense(true));
        assert!(
            matches!(dense.claimed.pages, Pages::Dense(_)) && matches!(small.claimed.pages, Pages::Small(_))
        );
        let empty = budget.limit() - budget.free();
        assert!(empty < 2 * SharedBitmap::index_bytes(len));
        let bits = [0, 63, 4095, 4096, 300_000, 600_001, len - 1];
        for claims in [&small, &dense] {
            bits.iter().for_each(|bit| assert!(!claims.claim(*bit, 1, Origin::KNOWN)));
        }
        let words = len.div_ceil(64);
        for map in [small.claimed(), dense.claimed()] {
            assert_eq!((map.ones().collect::<Vec<_>>(), map.count()), (bits.to_vec(), 7));
            assert_eq!(map.ones_from(4097).collect::<Vec<_>>(), bits[4..]);
            let set: Vec<u64> = map.words_set(1..words).map(|(index, _)| index).collect();
            assert_eq!(set, [63, 64, 4687, 9375, words - 1]);
            assert_eq!(map.words_set(0..9375).count(), 4);
            assert_eq!(map.load_word(words) | map.load_word(u64::MAX / 64), 0, "behind the end");
            let mut copy = vec![u64::MAX; width::index(words) + 5];
            map.copy_into(0, &mut copy);
            assert!((0..).zip(&copy).all(|(index, word)| *word == map.load_word(index)));
        }
        assert_eq!(budget.limit() - budget.free(), empty + 4 * page_bytes(WORDS_PER_DENSE_PAGE));
        drop(dense);
        assert_eq!(budget.free(), budget.limit());
    }

    #[test]
    fn one_thread_claims_the_same_without_atomic_operations() {
        let [alone, side_by_side] = [true, false].map(|alone| Claims::new(10_000).alone(alone));
        for claims in [&alone, &side_by_side] {
            let claimed = [(5, 300), (100, 70), (9000, 1), (9000, 1)]
                .map(|(start, count)| claims.claim(start, count, Origin::KNOWN));
            assert_eq!(claimed, [false, true, false, true]);
            assert_eq!(
                (claims.claimed().count(), claims.contested().count(), claims.repeated()),
                (301, 71, 71)
            );
        }
    }

    #[test]
    fn copies_are_what_is_there_wherever_they_begin() {
        let bitmap = SharedBitmap::new(10 * BITS_PER_PAGE - 70);
        for word in [0, 3, 63, 64, 200, 5 * 64 + 1, 10 * 64 - 2] {
            bitmap.set_word(word, 0x8000_0000_0000_0001 | word << 8);
        }
        for first in [0, 64, 63 * 64, 1, 100, 5 * BITS_PER_PAGE, 9 * BITS_PER_PAGE + 64] {
            let mut words = vec![u64::MAX; 200];
            bitmap.copy_into(first, &mut words);
            let expected: Vec<u64> = (0..200).map(|index| bitmap.load_word_at(first + 64 * index)).collect();
            assert_eq!(words, expected, "{first}");
        }
        let set: Vec<u64> = bitmap.words_set(3..10 * 64).map(|(index, _)| index).collect();
        assert_eq!(set, [3, 63, 64, 200, 321, 638]);
        assert!(bitmap.words_set(3..200).all(|(index, word)| word == bitmap.load_word(index)));
        assert_eq!(bitmap.words_set(3..200).count(), 3);
    }

    #[test]
    fn clear_stretches_end_at_words_with_set_bits() {
        let bitmap = SharedBitmap::new(1000);
        bitmap.set_word(2, 1 << 5);
        bitmap.set_word(9, 1);
        assert_eq!(bitmap.clear_around(130), 0..0);
        assert_eq!(bitmap.clear_around(300), 192..576);
        assert_eq!(bitmap.clear_around(999), 640..1000);
        assert_eq!(bitmap.clear_around(0), 0..128);
        assert_eq!(bitmap.clear_around(1000), 0..0);
    }

    #[test]
    fn clear_stretches_end_at_pages_that_were_touched() {
        let bitmap = SharedBitmap::new(30 * BITS_PER_PAGE - 100);
        bitmap.set_word(0, 1);
        bitmap.set_word(WORDS_PER_PAGE as u64 * 4 + 3, 1);
        assert_eq!(bitmap.clear_around(2 * BITS_PER_PAGE + 7), BITS_PER_PAGE..4 * BITS_PER_PAGE);
        assert_eq!(
            bitmap.clear_around(4 * BITS_PER_PAGE + 64 * 4),
            4 * BITS_PER_PAGE + 64 * 4..5 * BITS_PER_PAGE
        );
        assert_eq!(bitmap.clear_around(20 * BITS_PER_PAGE), 12 * BITS_PER_PAGE..29 * BITS_PER_PAGE);
        assert_eq!(bitmap.clear_around(29 * BITS_PER_PAGE).end, 30 * BITS_PER_PAGE - 100);
        assert_eq!(bitmap.clear_around(0), 0..0);
    }

    #[test]
    fn ranges_across_words_and_pages() {
        let claims = Claims::new(100_000);
        assert!(!claims.claim(60, 70_000, Origin::KNOWN));
        assert_eq!(claims.claimed().count(), 70_000);
        assert!(!claims.claimed().get(59) && claims.claimed().get(60) && claims.claimed().get(70_059));
        assert!(!claims.claimed().get(70_060));
        assert!(claims.claim(70_059, 2, Origin::KNOWN));
        assert_eq!(claims.contested().ones().collect::<Vec<_>>(), [70_059]);
        assert_eq!(claims.repeated(), 1);
        assert!(!claims.claim(99_999, u64::MAX, Origin::KNOWN), "the end is respected");
        assert!(!claims.claim(500_000, 5, Origin::KNOWN));
        claims.withdraw(60, 70_000);
        assert_eq!(claims.claimed().ones().collect::<Vec<_>>(), [70_059, 70_060, 99_999]);
    }
}
