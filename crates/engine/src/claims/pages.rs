// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages of a bitmap that many threads set at once: allocated on first touch, small ones or, where most will be touched, large ones.

use std::ops::RangeInclusive;
use std::sync::OnceLock;

use fsmend_base::width;

use crate::Budget;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Few: where every group has metadata of its own (no flexible groups), each touches a page.
pub(super) const WORDS_PER_PAGE: usize = 64;
/// In a map of which most will be touched: pages of 32 KiB, as the system gives memory to the allocator page by page of what it is asked for, which was a twentieth of a
/// check of many extents.
pub(super) const WORDS_PER_DENSE_PAGE: usize = 4096;
/// Words in a page of the system's memory.
const WORDS_TOUCHED: usize = 512;
/// Smaller maps have small pages in any case. So have larger ones: large pages lie in the way of memory that is given back meanwhile, and a check of 320 GB from a device took
/// 8 MiB more with them.
pub(super) const DENSE_UNITS: RangeInclusive<u64> = DENSE_UNITS_MIN..=1 << 26;
pub(super) const DENSE_UNITS_MIN: u64 = 8 * 64 * WORDS_PER_DENSE_PAGE as u64;
/// What the allocator adds to a page.
const PAGE_BYTES_MORE: u64 = 16;

pub(super) type Page<const WORDS: usize> = OnceLock<Box<[AtomicU64; WORDS]>>;

/// The pages of a bitmap, each allocated on first touch.
pub(super) enum Pages {
    Small(Vec<Page<WORDS_PER_PAGE>>),
    Dense(Vec<Page<WORDS_PER_DENSE_PAGE>>),
}

impl Pages {
    /// None of which is touched, for so many bits.
    pub(super) fn small(bits: u64) -> Self {
        Pages::Small(untouched(bits))
    }

    pub(super) fn dense(bits: u64) -> Self {
        Pages::Dense(untouched(bits))
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Pages::Small(pages) => pages.len(),
            Pages::Dense(pages) => pages.len(),
        }
    }

    /// Words in a page: 1 shifted left so many times.
    #[inline]
    pub(super) fn shift(&self) -> u32 {
        match self {
            Pages::Small(_) => WORDS_PER_PAGE.trailing_zeros(),
            Pages::Dense(_) => WORDS_PER_DENSE_PAGE.trailing_zeros(),
        }
    }

    /// The words of a page that was touched.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&[AtomicU64]> {
        match self {
            Pages::Small(pages) => pages.get(number).and_then(OnceLock::get).map(|page| page.as_slice()),
            Pages::Dense(pages) => pages.get(number).and_then(OnceLock::get).map(|page| page.as_slice()),
        }
    }

    /// A word in its page, which is charged to `budget` when this is the first touch.
    #[inline]
    pub(super) fn word(&self, index: u64, budget: Option<&Budget>) -> &AtomicU64 {
        match self {
            Pages::Small(pages) => word_of(pages, index, budget),
            Pages::Dense(pages) => word_of(pages, index, budget),
        }
    }

    /// Those that were touched, from number `first` on.
    pub(super) fn touched(&self, first: usize) -> impl Iterator<Item = (usize, &[AtomicU64])> {
        (first..self.len()).filter_map(|number| Some((number, self.get(number)?)))
    }

    pub(super) fn index_bytes(&self) -> u64 {
        match self {
            Pages::Small(pages) => size_of_val(pages.as_slice()) as u64,
            Pages::Dense(pages) => size_of_val(pages.as_slice()) as u64,
        }
    }
}

fn untouched<const WORDS: usize>(bits: u64) -> Vec<Page<WORDS>> {
    let pages = usize::try_from(bits.div_ceil(64 * WORDS as u64)).unwrap_or(usize::MAX);
    std::iter::repeat_with(OnceLock::new).take(pages).collect()
}

#[inline]
fn word_of<'p, const WORDS: usize>(
    pages: &'p [Page<WORDS>],
    index: u64,
    budget: Option<&Budget>,
) -> &'p AtomicU64 {
    let page = pages[width::index(index / WORDS as u64)].get_or_init(|| {
        if let Some(budget) = budget {
            budget.charge(page_bytes(WORDS));
        }
        let page = clear_words::<WORDS>();
        if WORDS > WORDS_TOUCHED {
            // Memory that is read before it is written to is given twice: as zeroes that all share, and then as its own.
            page.iter().step_by(WORDS_TOUCHED).for_each(|word| word.store(0, Relaxed));
        }
        page
    });
    &page[width::index(index % WORDS as u64)]
}

/// Memory of a page of so many words.
pub(super) fn page_bytes(words: usize) -> u64 {
    words as u64 * 8 + PAGE_BYTES_MORE
}

/// So many words without a bit, which need not be laid on the stack before.
#[cfg(not(all(test, feature = "model")))]
fn clear_words<const WORDS: usize>() -> Box<[AtomicU64; WORDS]> {
    zerocopy::FromZeros::new_box_zeroed()
        .unwrap_or_else(|_| std::alloc::handle_alloc_error(std::alloc::Layout::new::<[AtomicU64; WORDS]>()))
}

#[cfg(all(test, feature = "model"))]
fn clear_words<const WORDS: usize>() -> Box<[AtomicU64; WORDS]> {
    Box::new([const { AtomicU64::new(0) }; WORDS])
}
