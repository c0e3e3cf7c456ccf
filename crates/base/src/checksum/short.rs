// SPDX-License-Identifier: MIT OR Apache-2.0
//! CRC32C of what is too short for the general way to be fast, by carry-less multiplications of 256 bits: inode records, whose own checksum counts as zero, directory blocks,
//! contents of small files. A record of 512 bytes takes 26 ns, and 95 ns the general way. How it works stands in [`wide`](super::wide); fewer processors have the multiplications
//! of 512 bits that it needs.
//!
//! # Safety
//!
//! [`record_without`] and [`stretch`] may be called only where [`is_available`] says yes.
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and stands in the head of the module")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "words of registers have no sign, and counts of bits are known when this is built"
)]

use std::arch::x86_64::{
    __m256i, _mm_crc32_u8, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_extract_epi64, _mm_xor_si128,
    _mm256_and_si256, _mm256_castsi256_si128, _mm256_clmulepi64_epi128, _mm256_extracti128_si256,
    _mm256_loadu_si256, _mm256_setzero_si256, _mm256_xor_si256, _mm256_zextsi128_si256,
};

use super::wide::factors;

/// Bytes of a register.
const HALF: usize = 32;
/// Registers that are worked on side by side.
const ROW: usize = 8;
const ROW_BITS: i32 = (8 * HALF * ROW) as i32;
/// [`stretch`] pays from this length on.
const SHORTEST: usize = HALF * ROW;
/// Up to this length it pays in any case; beyond, where the general way has no multiplications of 512 bits.
const LONGEST: usize = 2048;
/// What the registers of a row are multiplied with, so that they stand in the place of the last 128 bits of the row.
static TO_THE_END: [[u64; 4]; ROW] = to_the_end();
/// What a register is multiplied with, so that it stands a row further on.
static ONE_ROW_ON: [u64; 4] = twice(factors(ROW_BITS), factors(ROW_BITS));

const fn twice([a, b]: [u64; 2], [c, d]: [u64; 2]) -> [u64; 4] {
    [a, b, c, d]
}

const fn to_the_end() -> [[u64; 4]; ROW] {
    let (mut all, mut at) = ([[0; 4]; ROW], 0);
    while at < ROW {
        let behind = 2 * (ROW - 1 - at) as i32;
        all[at] = twice(factors(128 * (behind + 1)), factors(128 * behind));
        at += 1;
    }
    all
}

/// Whether the processor has all of the instructions.
#[inline]
pub fn is_available() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("vpclmulqdq")
        && std::arch::is_x86_feature_detected!("sse4.2")
}

/// Whether [`stretch`] is available, and faster than the general way for so many bytes: 29 against 91 ns for 508, 177 against 343 ns for 4096.
#[inline]
pub fn suits(len: usize) -> bool {
    len >= SHORTEST && is_available() && (len <= LONGEST || !std::arch::is_x86_feature_detected!("avx512f"))
}

/// CRC32C of a record with zeroes in the place of its word `WORD` of 32 bits, continued from `seed`. Its length is a multiple of 256.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq,sse4.2")]
pub fn record_without<const WORD: usize, const LEN: usize>(seed: u32, record: &[u8; LEN]) -> u32 {
    const { assert!(LEN >= HALF * ROW && LEN.is_multiple_of(HALF * ROW) && WORD < LEN / 4) };
    let halves = record.as_chunks::<HALF>().0;
    let mut sums = [_mm256_setzero_si256(); ROW];
    for (at, half) in halves.iter().enumerate() {
        let mut half = load(half);
        if at == WORD / (HALF / 4) {
            half = _mm256_and_si256(half, load(&without::<WORD>()));
        }
        if at == 0 {
            half = _mm256_xor_si256(half, first_word(seed));
        }
        let sum = &mut sums[at % ROW];
        *sum = if at < ROW { half } else { _mm256_xor_si256(product(*sum, factor(&ONE_ROW_ON)), half) };
    }
    remainder(&sums)
}

/// CRC32C of a stretch of at least 32 bytes, continued from `seed`.
#[target_feature(enable = "avx2,vpclmulqdq,sse4.2")]
pub fn stretch(seed: u32, bytes: &[u8]) -> u32 {
    let (odd, bytes) = bytes.split_at(bytes.len() % HALF);
    let halves = bytes.as_chunks::<HALF>().0;
    // Zeroes in front change nothing as long as the seed comes behind them. So the last row is whole.
    let missing = halves.len().wrapping_neg() % ROW;
    let (first, rows) = halves.split_at(ROW - missing);
    let mut sums = [_mm256_setzero_si256(); ROW];
    for (sum, half) in sums[missing..].iter_mut().zip(first) {
        *sum = load(half);
    }
    sums[missing] = _mm256_xor_si256(sums[missing], first_word(few(seed, odd)));
    let on = factor(&ONE_ROW_ON);
    for row in rows.as_chunks::<ROW>().0 {
        for (sum, half) in sums.iter_mut().zip(row) {
            *sum = _mm256_xor_si256(product(*sum, on), load(half));
        }
    }
    remainder(&sums)
}

/// CRC32C of a few bytes.
#[inline]
#[target_feature(enable = "sse4.2")]
fn few(seed: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = |sum, word: &[u8; 8]| _mm_crc32_u64(sum, u64::from_le_bytes(*word));
    let sum = words.iter().fold(u64::from(seed), sum) as u32;
    rest.iter().fold(sum, |sum, byte| _mm_crc32_u8(sum, *byte))
}

/// All bits but those of a word of a record, in its register.
const fn without<const WORD: usize>() -> [u8; HALF] {
    let (mut mask, at) = ([0xFF; HALF], 4 * WORD % HALF);
    (mask[at], mask[at + 1], mask[at + 2], mask[at + 3]) = (0, 0, 0, 0);
    mask
}

/// A register of which only the first word is not zero.
#[inline]
#[target_feature(enable = "avx2")]
fn first_word(word: u32) -> __m256i {
    _mm256_zextsi128_si256(_mm_cvtsi64_si128(i64::from(word)))
}

/// The sum of the products of the lower and of the upper halves of each 128 bits.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq")]
fn product(half: __m256i, factor: __m256i) -> __m256i {
    let low = _mm256_clmulepi64_epi128::<0x00>(half, factor);
    _mm256_xor_si256(low, _mm256_clmulepi64_epi128::<0x11>(half, factor))
}

/// The CRC of a row, from no seed.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq,sse4.2")]
fn remainder(row: &[__m256i; ROW]) -> u32 {
    let mut sum = _mm256_setzero_si256();
    for (half, end) in row.iter().zip(&TO_THE_END) {
        sum = _mm256_xor_si256(sum, product(*half, factor(end)));
    }
    let last = _mm_xor_si128(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
    let low = _mm_crc32_u64(0, _mm_extract_epi64::<0>(last) as u64);
    _mm_crc32_u64(low, _mm_extract_epi64::<1>(last) as u64) as u32
}

/// Bytes in a register.
#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; HALF]) -> __m256i {
    // SAFETY: so many bytes are there, and they need not be aligned.
    #[allow(unsafe_code, reason = "measured hot loop: checksums of all inodes")]
    unsafe {
        _mm256_loadu_si256(bytes.as_ptr().cast())
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn factor(words: &[u64; 4]) -> __m256i {
    // SAFETY: so many bytes are there, and they need not be aligned.
    #[allow(unsafe_code, reason = "measured hot loop: checksums of all inodes")]
    unsafe {
        _mm256_loadu_si256(words.as_ptr().cast())
    }
}

#[cfg(test)]
mod tests {
    use crate::SeededRandom;

    use super::*;

    fn bytes<const LEN: usize>(random: &mut SeededRandom) -> [u8; LEN] {
        std::array::from_fn(|_| random.next_u64() as u8)
    }

    #[test]
    fn records_without_their_checksums_agree_with_the_general_way() {
        fn compare<const WORD: usize, const LEN: usize>(random: &mut SeededRandom) {
            let record: [u8; LEN] = bytes(random);
            let mut cleared = record;
            cleared[4 * WORD..4 * WORD + 4].fill(0);
            for seed in [0, !0, 77] {
                let expected = crate::crc32c(seed, &cleared);
                let found = crate::crc32c_of_record_without::<WORD, LEN>(seed, &record);
                assert_eq!(found, expected, "word {WORD} of {LEN} bytes");
                if is_available() {
                    // SAFETY: the processor has the instructions, as asked above.
                    #[allow(unsafe_code, reason = "to call what is tested, where a wider way is taken")]
                    let found = unsafe { record_without::<WORD, LEN>(seed, &record) };
                    assert_eq!(found, expected, "word {WORD} of {LEN} bytes");
                }
                assert_eq!(crate::checksum::without_word(seed, &record, WORD), expected);
            }
        }
        let mut random = SeededRandom::new(7);
        compare::<0, 256>(&mut random);
        compare::<61, 256>(&mut random);
        compare::<63, 256>(&mut random);
        compare::<0, 512>(&mut random);
        compare::<64, 512>(&mut random);
        compare::<127, 512>(&mut random);
        compare::<100, 1024>(&mut random);
    }

    #[test]
    fn stretches_of_all_lengths_agree_with_the_general_way() {
        if !is_available() {
            return;
        }
        let mut random = SeededRandom::new(8);
        let bytes: [u8; 5000] = bytes(&mut random);
        for len in (HALF..1200).chain([2000, 2047, 2048, 4032, 4084, 4096, 5000]) {
            for (start, seed) in [(0, !0), (bytes.len() - len, 77)] {
                let bytes = &bytes[start..start + len];
                // SAFETY: the processor has the instructions, as asked above.
                #[allow(unsafe_code, reason = "to call what is tested")]
                let found = unsafe { stretch(seed, bytes) };
                assert_eq!(found, crate::checksum::general(seed, bytes), "{len} bytes");
            }
        }
    }
}
