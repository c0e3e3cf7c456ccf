// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of numbers of 32 bits, as disks have them, looked at many at a time: whether each is the neighbour of the one before, and whether they are in
//! range. By AVX-512 where the processor has it; else in plain loops, which compilers turn into vector instructions.

/// Numbers that are compared at once: there is a bit for each of them in a word.
pub const TOGETHER: usize = 64;

/// One bit for each pair that does not lead from a number to the next higher one.
#[inline]
pub fn breaks(these: &[[u8; 4]; TOGETHER], next: &[[u8; 4]; TOGETHER]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if wide::is_available() {
        // SAFETY: the processor has the instructions, as asked above.
        #[allow(unsafe_code, reason = "measured hot loop: the pointers of all indirect blocks")]
        return unsafe { wide::breaks(these, next) };
    }
    plain_breaks(these, next)
}

/// Whether all of them are at least `low` and at most `room` above it.
#[inline]
pub fn are_in_range(words: &[[u8; 4]], low: u32, room: u32) -> bool {
    #[cfg(target_arch = "x86_64")]
    if wide::is_available() {
        // SAFETY: the processor has the instructions, as asked above.
        #[allow(unsafe_code, reason = "measured hot loop: the pointers of all indirect blocks")]
        return unsafe { wide::are_in_range(words, low, room) };
    }
    plain_in_range(words, low, room)
}

fn plain_breaks(these: &[[u8; 4]; TOGETHER], next: &[[u8; 4]; TOGETHER]) -> u64 {
    let mut flags = [0u8; TOGETHER];
    for ((flag, this), next) in flags.iter_mut().zip(these).zip(next) {
        *flag = u8::from(u32::from_le_bytes(*this).wrapping_add(1) != u32::from_le_bytes(*next));
    }
    let (eights, _) = flags.as_chunks::<8>();
    // Each byte is 0 or 1; the product has byte number i at bit 56 + i, and no two of its terms meet.
    let bits = |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    eights.iter().rev().fold(0, |all, eight| all << 8 | bits(eight))
}

#[inline]
fn plain_in_range(words: &[[u8; 4]], low: u32, room: u32) -> bool {
    let outside = |word: &[u8; 4]| u32::from(u32::from_le_bytes(*word).wrapping_sub(low) > room);
    words.iter().fold(0, |any, word| any | outside(word)) == 0
}

#[cfg(target_arch = "x86_64")]
mod wide {
    //! # Safety
    //!
    //! Every function here but [`is_available`] may be called only where that says yes.

    use std::arch::x86_64::{
        __m512i, _mm512_add_epi32, _mm512_cmpgt_epu32_mask, _mm512_cmpneq_epu32_mask, _mm512_max_epu32,
        _mm512_set1_epi32, _mm512_setzero_si512, _mm512_sub_epi32,
    };

    use super::{TOGETHER, plain_in_range};
    use crate::checksum::wide::{LINE, load};

    /// Numbers in a register.
    const LANES: usize = LINE / 4;

    /// Whether the processor has all of the instructions.
    #[inline]
    pub(super) fn is_available() -> bool {
        std::arch::is_x86_feature_detected!("avx512f")
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn breaks(these: &[[u8; 4]; TOGETHER], next: &[[u8; 4]; TOGETHER]) -> u64 {
        let lines = these.as_flattened().as_chunks::<LINE>().0.iter();
        let pairs = lines.zip(next.as_flattened().as_chunks::<LINE>().0);
        let mut bits = 0;
        for (at, (these, next)) in pairs.enumerate() {
            let expected = _mm512_add_epi32(load(these), splat(1));
            bits |= u64::from(_mm512_cmpneq_epu32_mask(expected, load(next))) << (LANES * at);
        }
        bits
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn are_in_range(words: &[[u8; 4]], low: u32, room: u32) -> bool {
        let (lines, _) = words.as_flattened().as_chunks::<LINE>();
        let (low_of_all, mut highest) = (splat(low), _mm512_setzero_si512());
        for line in lines {
            highest = _mm512_max_epu32(highest, _mm512_sub_epi32(load(line), low_of_all));
        }
        let rest = words.get(lines.len() * LANES..).unwrap_or_default();
        _mm512_cmpgt_epu32_mask(highest, splat(room)) == 0 && plain_in_range(rest, low, room)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn splat(word: u32) -> __m512i {
        _mm512_set1_epi32(word.cast_signed())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::SeededRandom;

    fn words(numbers: &[u32]) -> Vec<[u8; 4]> {
        numbers.iter().map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn breaks_are_where_no_neighbour_follows() {
        let mut random = SeededRandom::new(5);
        for _ in 0..500 {
            let mut number = u32::MAX - 20;
            let numbers: Vec<u32> = (0..=TOGETHER)
                .map(|_| {
                    number = number.wrapping_add(1 + (random.below(4) / 3) as u32);
                    number
                })
                .collect();
            let all = words(&numbers);
            let (these, next) = (all.first_chunk().unwrap(), all[1..].first_chunk().unwrap());
            let pairs = numbers.windows(2).rev();
            let expected =
                pairs.fold(0, |bits, pair| bits << 1 | u64::from(pair[0].wrapping_add(1) != pair[1]));
            assert_eq!(breaks(these, next), expected);
            assert_eq!(plain_breaks(these, next), expected);
        }
    }

    #[test]
    fn one_number_out_of_range_is_noticed_wherever_it_stands() {
        for len in [1, 15, 16, 17, 40, 128] {
            for (low, room) in [(0, 10), (5, 0), (100, u32::MAX - 100), (1, 1 << 31)] {
                let mut numbers = vec![low; len];
                numbers[len / 2] = low + room;
                let judge = |numbers: &[u32]| {
                    let words = words(numbers);
                    let judged = are_in_range(&words, low, room);
                    assert_eq!(judged, plain_in_range(&words, low, room));
                    judged
                };
                assert!(judge(&numbers));
                for at in 0..len {
                    let mut wrong = numbers.clone();
                    wrong[at] = (low + room).wrapping_add(1);
                    assert_eq!(judge(&wrong), wrong[at].wrapping_sub(low) <= room, "{len} {low} {room}");
                }
            }
        }
        assert!(are_in_range(&[], 5, 5));
    }
}
