// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bits of allocation maps, compared 64 at a time.

use fsmend_base::width;

use crate::claims::SharedBitmap;

/// Some bits, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    words: Vec<u64>,
    bits: u64,
}

impl Words {
    /// So many bits, all clear.
    pub fn new(bits: u64) -> Self {
        Words { words: vec![0; width::index(bits.div_ceil(64))], bits }
    }

    /// How many bits there are.
    pub fn len(&self) -> u64 {
        self.bits
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bits == 0
    }

    /// Sets in each word what `words` has set, word by word.
    pub fn join(&mut self, words: impl Iterator<Item = u64>) {
        self.words.iter_mut().zip(words).for_each(|(word, more)| *word |= more);
        self.cut();
    }

    /// Takes `bits` bits from bytes; bits that the bytes lack are clear.
    pub fn from_bytes(bytes: &[u8], bits: u64) -> Self {
        let mut words = Words::new(bits);
        let (eights, rest) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let eights = eights.iter().chain(std::iter::once(&last));
        words.words.iter_mut().zip(eights).for_each(|(word, eight)| *word = u64::from_le_bytes(*eight));
        words.cut();
        words
    }

    /// Takes `bits` bits of a bitmap, from bit `first` on.
    pub fn of_bitmap(bitmap: &SharedBitmap, first: u64, bits: u64) -> Self {
        let mut words = Words::new(bits);
        bitmap.copy_into(first, &mut words.words);
        words.cut();
        words
    }

    /// Fills each word with what `source` says for its first bit.
    pub fn fill(&mut self, source: impl Fn(u64) -> u64) {
        for (index, word) in self.words.iter_mut().enumerate() {
            *word = source(index as u64 * 64);
        }
        self.cut();
    }

    fn cut(&mut self) {
        let rest = self.bits % 64;
        if rest != 0
            && let Some(last) = self.words.last_mut()
        {
            *last &= (1 << rest) - 1;
        }
    }

    /// Sets a bit, if there is such a one.
    pub fn set(&mut self, bit: u64) {
        if bit < self.bits {
            self.words[(bit / 64) as usize] |= 1 << (bit % 64);
        }
    }

    /// Bits that are set.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Calls `visit(first, count)` for each run of bits that are set here and clear in `other`.
    pub fn runs_without(&self, other: &Words, mut visit: impl FnMut(u64, u64)) {
        let mut run: Option<(u64, u64)> = None;
        for (index, (mine, theirs)) in self.words.iter().zip(&other.words).enumerate() {
            let mut left = mine & !theirs;
            while left != 0 {
                let low = u64::from(left.trailing_zeros());
                let len = u64::from((left >> low).trailing_ones());
                let start = index as u64 * 64 + low;
                run = match run {
                    Some((first, count)) if first + count == start => Some((first, count + len)),
                    other => {
                        if let Some((first, count)) = other {
                            visit(first, count);
                        }
                        Some((start, len))
                    }
                };
                left = if low + len >= 64 { 0 } else { left & (u64::MAX << (low + len)) };
            }
        }
        if let Some((first, count)) = run {
            visit(first, count);
        }
    }

    /// One more than the highest set bit; 0 when none is set.
    pub fn top(&self) -> u64 {
        let highest = self.words.iter().rposition(|word| *word != 0);
        highest.map_or(0, |index| index as u64 * 64 + 64 - u64::from(self.words[index].leading_zeros()))
    }

    /// A bitmap of `block_size` bytes: the bits, lowest first, and ones up to the end.
    pub fn to_bitmap(&self, block_size: usize) -> Vec<u8> {
        let mut bytes = vec![0xFF; block_size];
        let whole = (self.bits / 8) as usize;
        let stored: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let len = whole.min(block_size).min(stored.len());
        bytes[..len].copy_from_slice(&stored[..len]);
        if let (Some(byte), Some(stored)) = (bytes.get_mut(whole), stored.get(whole))
            && !self.bits.is_multiple_of(8)
        {
            *byte = stored | 0xFF << (self.bits % 8);
        }
        bytes
    }
}

/// Whether all bits of a map behind the first `bits` are set, up to its last byte.
pub fn padding_is_set(bytes: &[u8], bits: u64) -> bool {
    let whole = width::index(bits.div_ceil(8));
    let partial = bits.is_multiple_of(8)
        || bytes.get(whole - 1).is_none_or(|byte| byte >> (bits % 8) == 0xFF >> (bits % 8));
    partial && bytes.get(whole..).is_none_or(|rest| rest.iter().all(|byte| *byte == 0xFF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_across_words() {
        let mut left = Words::new(200);
        (10..130).for_each(|bit| left.set(bit));
        left.set(199);
        let mut right = Words::new(200);
        right.set(20);
        let mut runs = Vec::new();
        left.runs_without(&right, |first, count| runs.push((first, count)));
        assert_eq!(runs, [(10, 10), (21, 109), (199, 1)]);
    }

    #[test]
    fn padding() {
        assert!(padding_is_set(&[0, 0xF0, 0xFF], 12));
        assert!(!padding_is_set(&[0, 0x70, 0xFF], 12));
        assert!(!padding_is_set(&[0, 0xF0, 0xFE], 12));
        assert!(padding_is_set(&[0, 0], 16));
        assert!(!padding_is_set(&[0, 0, 0], 16));
    }

    #[test]
    fn a_bitmap_is_padded_with_ones() {
        let mut words = Words::new(13);
        words.set(0);
        words.set(9);
        assert_eq!(words.to_bitmap(4), [1, 0b1110_0010, 0xFF, 0xFF]);
        assert_eq!((words.top(), Words::new(70).top()), (10, 0));
    }
}
