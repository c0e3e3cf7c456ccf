// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs: the bytes of a block that differ from its before-image, each with its place in the block.
//!
//! A run is its place (2 bytes), its length (2 bytes), and the bytes.

use fsmend_base::width;

/// What stands before the bytes of a run.
const RUN_HEADER_BYTES: usize = 4;

/// The lowest, and the highest, bit of each of eight bytes.
const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = LOW_BITS << 7;

/// The runs at the start of some bytes. Ends early where they do not follow the format.
pub(crate) struct Runs<'p> {
    bytes: &'p [u8],
    left: u16,
}

impl<'p> Runs<'p> {
    /// The first `count` runs in `bytes`.
    pub fn new(bytes: &'p [u8], count: u16) -> Self {
        Runs { bytes, left: count }
    }

    /// When these have all been taken: the `count` runs behind them.
    pub fn followed_by(self, count: u16) -> Self {
        Runs { left: count, ..self }
    }

    /// The bytes behind all runs, and whether these runs are in ascending order, apart, not empty, and within a block of
    /// `block_len` bytes.
    pub fn checked(mut self, block_len: usize) -> Option<&'p [u8]> {
        let mut end = 0;
        for _ in 0..self.left {
            let (at, bytes) = self.next()?;
            if at < end || bytes.is_empty() || at + bytes.len() > block_len {
                return None;
            }
            end = at + bytes.len();
        }
        Some(self.bytes)
    }
}

impl<'p> Iterator for Runs<'p> {
    type Item = (usize, &'p [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let (header, rest) = self.bytes.split_first_chunk::<RUN_HEADER_BYTES>()?;
        let [a, b, c, d] = *header;
        let (bytes, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([c, d])))?;
        self.bytes = rest;
        Some((usize::from(u16::from_le_bytes([a, b])), bytes))
    }
}

/// Appends the runs in which `new` differs from `old` to `out` and returns how many they are. Runs that are closer to each other
/// than a header takes become one.
pub(crate) fn append_difference(old: &[u8], new: &[u8], out: &mut Vec<u8>) -> u16 {
    let mut count = 0;
    let Some(mut start) = next_difference(old, new, 0) else { return 0 };
    let mut end = difference_end(old, new, start);
    while let Some(at) = next_difference(old, new, end) {
        if at > end + RUN_HEADER_BYTES {
            append_run(start, &new[start..end], out);
            (start, count) = (at, count + 1);
        }
        end = difference_end(old, new, at);
    }
    append_run(start, &new[start..end], out);
    count + 1
}

/// The eight bytes from `at` on of both, as they differ; `None` where there are no eight any more.
fn differing_bits(old: &[u8], new: &[u8], at: usize) -> Option<u64> {
    let word = |bytes: &[u8]| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    Some(word(old)? ^ word(new)?)
}

/// The first byte from `at` on that differs.
fn next_difference(old: &[u8], new: &[u8], mut at: usize) -> Option<usize> {
    while let Some(bits) = differing_bits(old, new, at) {
        if bits != 0 {
            return Some(at + bits.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = old.iter().zip(new).skip(at).position(|(old, new)| old != new);
    rest.map(|steps| at + steps)
}

/// The first byte behind `at`, which differs, that does not.
fn difference_end(old: &[u8], new: &[u8], mut at: usize) -> usize {
    while let Some(bits) = differing_bits(old, new, at) {
        // The lowest of the bytes that are 0: of those above it, some may only seem to be.
        let equal = bits.wrapping_sub(LOW_BITS) & !bits & HIGH_BITS;
        if equal != 0 {
            return at + equal.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = old.iter().zip(new).skip(at).position(|(old, new)| old == new);
    rest.map_or(old.len().min(new.len()), |steps| at + steps)
}

/// Appends one run; a block has at most 4096 bytes, so that 16 bits hold all numbers.
pub(crate) fn append_run(at: usize, bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&width::len_u16(at).to_le_bytes());
    out.extend_from_slice(&width::len_u16(bytes.len()).to_le_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::collection::vec;
    use proptest::prelude::{any, proptest};

    use super::*;

    proptest! {
        #[test]
        fn differences_make_the_new_from_the_old(old in vec(0u8..3, 0..200), new in vec(0u8..3, 200)) {
            let new = &new[..old.len()];
            let mut bytes = Vec::new();
            let count = append_difference(&old, new, &mut bytes);
            assert_eq!(Runs::new(&bytes, count).checked(old.len()), Some([].as_slice()));
            let mut block = old.clone();
            for (at, run) in Runs::new(&bytes, count) {
                block[at..at + run.len()].copy_from_slice(run);
            }
            assert_eq!(block, new);
            assert_eq!(count == 0, old == new);
        }

        #[test]
        fn runs_are_as_long_as_they_have_to_be(
            old in vec(any::<u8>(), 0..100),
            steps in vec((0usize..100, 1u8..255), 0..60),
        ) {
            let mut new = old.clone();
            for (at, by) in steps {
                if let Some(byte) = new.get_mut(at) {
                    *byte = byte.wrapping_add(by);
                }
            }
            let mut expected: Vec<(usize, usize)> = Vec::new();
            for at in (0..old.len()).filter(|at| old[*at] != new[*at]) {
                match expected.last_mut() {
                    Some((_, end)) if at <= *end + RUN_HEADER_BYTES => *end = at + 1,
                    _ => expected.push((at, at + 1)),
                }
            }
            let mut bytes = Vec::new();
            let count = append_difference(&old, &new, &mut bytes);
            let runs: Vec<_> = Runs::new(&bytes, count).map(|(at, run)| (at, at + run.len())).collect();
            assert_eq!(runs, expected);
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in vec(any::<u8>(), 0..100), count in any::<u16>()) {
            assert!(Runs::new(&bytes, count).count() <= bytes.len());
            let _ = Runs::new(&bytes, count).checked(4096);
        }
    }

    #[test]
    fn runs_out_of_order_or_out_of_the_block_are_refused() {
        let mut bytes = Vec::new();
        append_run(10, &[1], &mut bytes);
        append_run(10, &[1], &mut bytes);
        assert!(Runs::new(&bytes, 1).checked(11).is_some());
        assert!(Runs::new(&bytes, 1).checked(10).is_none());
        assert!(Runs::new(&bytes, 2).checked(100).is_none());
        assert!(Runs::new(&bytes, 3).checked(100).is_none());
    }
}
