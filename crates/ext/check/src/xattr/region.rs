// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which bytes of an attribute area are taken.

/// One bit for each byte of an area.
pub(super) struct Region {
    words: Vec<u64>,
    len: usize,
}

impl Region {
    /// `len` free bytes.
    pub(super) fn new(len: usize) -> Self {
        Region { words: vec![0; len.div_ceil(64)], len }
    }

    /// Takes `len` bytes from `start`; `false`, and nothing is taken, when one of them is taken already or lies behind the
    /// end. Taking costs one step for each 64 bytes, and what was taken cannot be taken again: a whole area costs
    /// no more than its size.
    pub(super) fn take(&mut self, start: usize, len: usize) -> bool {
        let Some(end) = start.checked_add(len).filter(|end| *end <= self.len) else { return false };
        if len == 0 {
            return true;
        }
        let span = start / 64..end.div_ceil(64);
        let mask = |index: usize| {
            let low = start.saturating_sub(index * 64).min(63);
            let high = (end - index * 64).min(64);
            (u64::MAX << low) & (u64::MAX >> (64 - high))
        };
        if span.clone().any(|index| self.words[index] & mask(index) != 0) {
            return false;
        }
        span.for_each(|index| self.words[index] |= mask(index));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_plain_array() {
        let mut random = fsmend_base::SeededRandom::new(9);
        for _ in 0..200 {
            let len = random.below(300) as usize;
            let (mut region, mut plain) = (Region::new(len), vec![false; len]);
            for _ in 0..20 {
                let (start, count) = (random.below(320) as usize, random.below(90) as usize);
                let free = start + count <= len && !plain[start..start + count].contains(&true);
                assert_eq!(region.take(start, count), free);
                if free {
                    plain[start..start + count].fill(true);
                }
            }
        }
        assert!(!Region::new(5).take(usize::MAX, 2));
    }
}
