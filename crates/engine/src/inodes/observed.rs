// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many names lead to each inode of a chunk: 16 bits each, four to a word, so that the names of neighbours are counted by one atomic operation.
//!
//! A count must not reach into its neighbour. As long as all of a word are small, additions of one cannot: there are far fewer threads than numbers between "small" and the end. Else, and to take
//! something back, the word is replaced as a whole.

use fsmend_base::width;

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of a word.
pub(super) const LANES: usize = 4;
/// The highest bit of each count: where none is set, all are small.
const HIGH: u64 = 0x8000_8000_8000_8000;

/// The low 16 bits of each count.
#[derive(Debug, Default)]
pub(super) struct ObservedLinks {
    words: Vec<AtomicU64>,
    len: usize,
}

/// A word, and what is to be added to it: 0 or 1 to each of its counts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Ones {
    word: usize,
    ones: u64,
}

impl Ones {
    /// One for the count at `index`.
    #[inline]
    pub fn of(index: usize) -> Ones {
        Ones { word: index / LANES, ones: 1 << (16 * (index % LANES)) }
    }

    /// Takes another one in, if it is for another count of the same word.
    #[inline]
    pub fn join(&mut self, other: Ones) -> bool {
        let fits = self.word == other.word && self.ones & other.ones == 0;
        if fits {
            self.ones |= other.ones;
        }
        fits
    }
}

impl ObservedLinks {
    /// Zeroes for `len` inodes.
    pub fn new(len: usize) -> Self {
        let mut made = ObservedLinks::default();
        made.grow(len);
        made
    }

    /// Makes room for `len` inodes.
    pub fn grow(&mut self, len: usize) {
        self.words.resize_with(len.div_ceil(LANES), AtomicU64::default);
        self.len = len;
    }

    /// The count at `index`; `None` where there is none.
    #[inline]
    pub fn get(&self, index: usize) -> Option<u16> {
        let word = self.words.get(index / LANES).filter(|_| index < self.len)?;
        Some(lanes(word.load(Relaxed))[index % LANES])
    }

    /// All counts.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.words.iter().flat_map(|word| lanes(word.load(Relaxed))).take(self.len)
    }

    /// The counts of each word; those behind the end are 0.
    pub fn words(&self) -> impl Iterator<Item = [u16; LANES]> {
        self.words.iter().map(|word| lanes(word.load(Relaxed)))
    }

    /// Adds what is not behind the end. `carry` is called with the index of each count that begins anew.
    #[inline]
    pub fn add(&self, Ones { word, ones }: Ones, mut carry: impl FnMut(usize)) {
        let Some(counts) = self.words.get(word) else { return };
        if counts.load(Relaxed) & HIGH == 0 {
            counts.fetch_add(ones, Relaxed);
            return;
        }
        let before = replace(counts, |count, lane| count.wrapping_add(lanes(ones)[lane]));
        for (lane, count) in before.into_iter().enumerate() {
            if count == u16::MAX && lanes(ones)[lane] == 1 {
                carry(word * LANES + lane);
            }
        }
    }

    /// Takes one from the count at `index`. Returns whether it was 0, and is the largest now.
    pub fn take_back(&self, index: usize) -> bool {
        let Some(counts) = self.words.get(index / LANES).filter(|_| index < self.len) else { return false };
        let before = replace(counts, |count, lane| count.wrapping_sub(u16::from(lane == index % LANES)));
        before[index % LANES] == 0
    }
}

#[inline]
fn lanes(word: u64) -> [u16; LANES] {
    std::array::from_fn(|lane| width::low_u16(word >> (16 * lane)))
}

/// Replaces each count of a word by what `change` makes of it; returns what they were.
fn replace(word: &AtomicU64, change: impl Fn(u16, usize) -> u16) -> [u16; LANES] {
    let mut seen = word.load(Relaxed);
    loop {
        let counts = lanes(seen);
        let next = counts
            .iter()
            .enumerate()
            .fold(0, |next, (lane, count)| next | u64::from(change(*count, lane)) << (16 * lane));
        match word.compare_exchange_weak(seen, next, Relaxed, Relaxed) {
            Ok(_) => return counts,
            Err(other) => seen = other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_keep_out_of_their_neighbours() {
        let counts = ObservedLinks::new(6);
        let mut carried = Vec::new();
        let mut add = |ones| counts.add(ones, |index| carried.push(index));
        for _ in 0..65535 {
            add(Ones::of(1));
        }
        let mut both = Ones::of(1);
        assert!(both.join(Ones::of(2)) && !both.join(Ones::of(1)) && !both.join(Ones::of(5)));
        add(both);
        add(Ones::of(5));
        assert_eq!(counts.iter().collect::<Vec<_>>(), [0, 0, 1, 0, 0, 1]);
        assert_eq!((counts.get(2), counts.get(5), counts.get(6)), (Some(1), Some(1), None));
        assert!(counts.take_back(1) && !counts.take_back(2) && !counts.take_back(6));
        assert_eq!(counts.iter().collect::<Vec<_>>(), [0, 65535, 0, 0, 0, 1]);
        assert_eq!(carried, [1]);
    }

    #[test]
    fn threads_that_reach_the_end_together_carry_once() {
        let counts = ObservedLinks::new(4);
        let carried = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for lane in [0, 1, 1, 2] {
                let (counts, carried) = (&counts, &carried);
                scope.spawn(move || {
                    for _ in 0..40_000 {
                        counts.add(Ones::of(lane), |index| {
                            carried.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(index);
                        });
                    }
                });
            }
        });
        assert_eq!(counts.iter().collect::<Vec<_>>(), [40_000, 14_464, 40_000, 0]);
        assert_eq!(*carried.lock().unwrap_or_else(std::sync::PoisonError::into_inner), [1]);
    }
}
