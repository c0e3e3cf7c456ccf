// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pointers of an indirect block, all at once: whether they are in range, and which runs of blocks they lead to. Written for the vector units
//! of the processor: a branch for each pointer is mispredicted at the end of each run.

use fsmend_base::neighbours::{self, TOGETHER, breaks};

/// Pointers behind the end of a file that are passed over together.
const ZEROS_TOGETHER: usize = 16;

/// Whether all of them lead to blocks from `low` on and below `high`.
pub(super) fn are_in_range(words: &[[u8; 4]], low: u64, high: u64) -> bool {
    let highest = high.min(1 << 32).saturating_sub(1);
    let (Ok(low), Ok(room)) = (u32::try_from(low), u32::try_from(highest.saturating_sub(low))) else {
        return words.is_empty();
    };
    highest >= u64::from(low) && neighbours::are_in_range(words, low, room)
}

/// The pointers up to the last one that is not 0.
pub(crate) fn without_zeros(words: &[[u8; 4]]) -> &[[u8; 4]] {
    let is_zero = |part: &&[[u8; 4]]| part.iter().fold(0, |any, word| any | u32::from_le_bytes(*word)) == 0;
    let zeros = words.rchunks(ZEROS_TOGETHER).take_while(is_zero).map(<[_]>::len).sum();
    let words = &words[..words.len().saturating_sub(zeros)];
    let used = words.iter().rposition(|word| *word != [0; 4]).map_or(0, |last| last + 1);
    &words[..used]
}

/// Calls `visit` with the first block and the length of each run, in the order of the pointers.
#[inline]
pub(super) fn each_run(words: &[[u8; 4]], mut visit: impl FnMut(u32, u64)) {
    let mut start = 0;
    for base in (0..words.len()).step_by(TOGETHER) {
        let mut ends = ends_of_runs(&words[base..]);
        while ends != 0 {
            let end = base + ends.trailing_zeros() as usize;
            visit(u32::from_le_bytes(words[start]), (end - start + 1) as u64);
            start = end + 1;
            ends &= ends - 1;
        }
    }
}

/// One bit for each of the first pointers that is the last one of its run.
#[inline]
fn ends_of_runs(words: &[[u8; 4]]) -> u64 {
    if let (Some(these), Some(next)) =
        (words.first_chunk(), words.get(1..).and_then(<[_]>::first_chunk::<TOGETHER>))
    {
        return breaks(these, next);
    }
    let (mut these, mut next) = ([[0; 4]; TOGETHER], [[0; 4]; TOGETHER]);
    let Some(last) = words.len().checked_sub(1).filter(|last| *last < TOGETHER) else { return 0 };
    these[..=last].copy_from_slice(words);
    next[..last].copy_from_slice(&words[1..]);
    breaks(&these, &next) & ((1 << last) - 1) | 1 << last
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsmend_base::SeededRandom;

    fn words(blocks: &[u32]) -> Vec<[u8; 4]> {
        blocks.iter().map(|block| block.to_le_bytes()).collect()
    }

    fn runs(blocks: &[u32]) -> Vec<(u32, u64)> {
        let mut runs = Vec::new();
        each_run(&words(blocks), |first, count| runs.push((first, count)));
        runs
    }

    #[test]
    fn runs_of_pointers() {
        assert_eq!(runs(&[]), []);
        assert_eq!(runs(&[7]), [(7, 1)]);
        assert_eq!(runs(&[7, 8, 9]), [(7, 3)]);
        assert_eq!(runs(&[7, 7, 8, 3]), [(7, 1), (7, 2), (3, 1)]);
        assert_eq!(runs(&[u32::MAX, 0]), [(u32::MAX, 2)], "out of range, as are_in_range says");
    }

    #[test]
    fn runs_go_on_from_word_to_word() {
        let mut random = SeededRandom::new(7);
        for len in [63, 64, 65, 127, 128, 129, 191, 192, 193, 1024] {
            let (mut blocks, mut expected, mut next) = (Vec::new(), Vec::new(), 1000u32);
            while blocks.len() < len {
                let count = (1 + random.below(90) as usize).min(len - blocks.len());
                blocks.extend(next..next + count as u32);
                expected.push((next, count as u64));
                next += count as u32 + 1 + random.below(3) as u32;
            }
            assert_eq!(runs(&blocks), expected, "{len}");
        }
    }

    #[test]
    fn zeros_behind_the_last_pointer_are_left_out() {
        for used in [0, 1, 15, 16, 17, 40, 41] {
            for len in [used, used + 1, used + 15, used + 16, used + 70] {
                let mut blocks = vec![0; len];
                blocks[..used].fill(9);
                blocks[..used.saturating_sub(1)].fill(0);
                assert_eq!(without_zeros(&words(&blocks)).len(), used, "{used} of {len}");
            }
        }
    }

    #[test]
    fn ranges_of_pointers() {
        let inside = |blocks: &[u32], low, high| are_in_range(&words(blocks), low, high);
        assert!(inside(&[], 1, 10) && inside(&[1, 9], 1, 10) && inside(&[u32::MAX], 1, 1 << 40));
        assert!(!inside(&[0], 1, 10) && !inside(&[5, 10], 1, 10) && !inside(&[u32::MAX], 1, 1 << 31));
        assert!(!inside(&[5], 10, 10) && !inside(&[5], 1, 0) && !inside(&[10], 10, 10));
    }
}
