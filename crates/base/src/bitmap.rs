// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plain bitmap of fixed length, for one thread.

/// `len` bits, all clear at first. Bit `i` is bit `i % 64` of word `i / 64`, which is also the order in which
/// File systems store their bitmaps in little-endian bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bitmap {
    words: Vec<u64>,
    len: u64,
}

impl Bitmap {
    /// A bitmap of `len` clear bits.
    pub fn new(len: u64) -> Self {
        Bitmap { words: vec![0; usize::try_from(len.div_ceil(64)).unwrap_or(usize::MAX)], len }
    }

    /// Number of bits.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the bitmap has no bits at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `bit` is set; bits beyond the end are clear.
    pub fn get(&self, bit: u64) -> bool {
        bit < self.len && self.words[(bit / 64) as usize] >> (bit % 64) & 1 == 1
    }

    /// Sets `bit` and tells whether it was set before; a bit beyond the end is ignored.
    pub fn set(&mut self, bit: u64) -> bool {
        if bit >= self.len {
            return false;
        }
        let word = &mut self.words[(bit / 64) as usize];
        let before = *word >> (bit % 64) & 1 == 1;
        *word |= 1 << (bit % 64);
        before
    }

    /// Clears `bit`; a bit beyond the end is ignored.
    pub fn clear(&mut self, bit: u64) {
        if bit < self.len {
            self.words[(bit / 64) as usize] &= !(1 << (bit % 64));
        }
    }

    /// Number of set bits.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The set bits in ascending order.
    pub fn ones(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().enumerate().filter(|(_, word)| **word != 0).flat_map(|(index, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index as u64 * 64 + bit)
        })
    }

    /// The words behind the bits; bits beyond `len` are clear.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_clear_and_count() {
        let mut map = Bitmap::new(130);
        assert!(!map.set(0) && !map.set(64) && !map.set(129));
        assert!(map.set(64), "a second set reports the first");
        assert!(!map.set(130), "bits beyond the end are ignored");
        assert_eq!(map.ones().collect::<Vec<_>>(), [0, 64, 129]);
        map.clear(64);
        assert_eq!(map.count(), 2);
        assert!(!map.get(64) && map.get(129) && !map.get(500));
    }
}
