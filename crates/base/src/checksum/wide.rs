// SPDX-License-Identifier: MIT OR Apache-2.0
//! CRC32C by the carry-less multiplications of AVX-512, for shapes of which a check sees millions: inode records of 256
//! bytes ([`remainder`]) and of multiples of it ([`record_without`]: 4 ns for 256, where registers of half the width take 8), and directory blocks without a tail of [`MISSING`] bytes.
//!
//! A CRC is the remainder of a polynomial, so each 128 bits of what is summed up may be replaced by their product with the power of x
//! that says how far from the end they stand. In a record all sixteen of these products are independent of each other: nothing has to be waited for,
//! where the CRC instruction waits for its last result at every word (6 ns for a record, and 10 ns for the best order of such instructions;
//! a directory block takes 87 ns, and 115 ns by the general way).
//!
//! # Safety
//!
//! Every function here but [`is_available`] may be called only where that says yes.
//!
//! Source: Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009).
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and stands in the head of the module")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "words of registers have no sign, and counts of bits are known when this is built"
)]

use std::arch::x86_64::{
    __m512i, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_extract_epi64, _mm_set_epi32, _mm_xor_si128,
    _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_xor_si256, _mm512_alignr_epi32,
    _mm512_castsi512_si256, _mm512_clmulepi64_epi128, _mm512_extracti64x4_epi64, _mm512_loadu_si512,
    _mm512_maskz_mov_epi32, _mm512_setzero_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
    _mm512_zextsi128_si512,
};

/// Bytes of a record, and those that are taken in at once of a longer stretch.
pub const RECORD: usize = 256;
/// Bytes of a line, which one register holds.
pub const LINE: usize = 64;
/// How much is missing to a multiple of [`RECORD`] where a directory block has its tail.
pub const MISSING: usize = 12;
/// CRC32C's polynomial, without x^32; the highest power in the lowest bit, as in all numbers here.
const POLYNOMIAL: u32 = 0x82F6_3B78;
/// What four lines are multiplied with, so that they stand in the place of their last 128 bits.
static TO_THE_END: [[u64; 8]; 4] = to_the_end();
/// What a line is multiplied with, so that it stands [`RECORD`] bytes further on.
static ONE_RECORD_ON: [u64; 8] = four_times(factors(8 * RECORD as i32));

/// Whether the processor has all of the instructions.
#[inline]
pub fn is_available() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("vpclmulqdq")
        && std::arch::is_x86_feature_detected!("sse4.2")
}

/// x^`exponent`, which may be negative, modulo the polynomial.
const fn power(exponent: i32) -> u32 {
    let (mut power, mut at) = (1 << 31, 0);
    while at < exponent {
        power = power >> 1 ^ if power & 1 == 1 { POLYNOMIAL } else { 0 };
        at += 1;
    }
    while at > exponent {
        power = if power >> 31 == 1 { (power ^ POLYNOMIAL) << 1 | 1 } else { power << 1 };
        at -= 1;
    }
    power
}

/// What both halves of 128 bits are multiplied with, so that they stand so many bits further on. (A product of two such words has one
/// bit less than its register, and the factors stand in the lower halves of theirs: that makes the 33.)
pub(super) const fn factors(bits: i32) -> [u64; 2] {
    [power(bits + 64 - 33) as u64, power(bits - 33) as u64]
}

const fn four_times([low, high]: [u64; 2]) -> [u64; 8] {
    [low, high, low, high, low, high, low, high]
}

const fn to_the_end() -> [[u64; 8]; 4] {
    let (mut all, mut at) = ([[0; 8]; 4], 0);
    while at < 16 {
        let [low, high] = factors(128 * (15 - at as i32));
        all[at / 4][at % 4 * 2] = low;
        all[at / 4][at % 4 * 2 + 1] = high;
        at += 1;
    }
    all
}

/// CRC32C of a stretch that is as long as a directory block without its tail; `None` for other lengths.
#[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
pub fn leaf(seed: u32, bytes: &[u8]) -> Option<u32> {
    // Zeroes in front change nothing as long as the seed comes behind them. With twelve of them, all lines are whole.
    let (lines, rest) = bytes.get(LINE - MISSING..)?.as_chunks::<LINE>();
    let (first, fours) = lines.split_first_chunk::<3>()?;
    let (fours, odd) = fours.as_chunks::<4>();
    if !rest.is_empty() || !odd.is_empty() {
        return None;
    }
    let head = _mm512_alignr_epi32::<{ 16 - MISSING as i32 / 4 }>(
        load(bytes.first_chunk()?),
        _mm512_setzero_si512(),
    );
    let seed = _mm512_zextsi128_si512(_mm_set_epi32(seed as i32, 0, 0, 0));
    let mut sum = [_mm512_xor_si512(head, seed), load(&first[0]), load(&first[1]), load(&first[2])];
    let on = factor(&ONE_RECORD_ON);
    for four in fours {
        for (sum, line) in sum.iter_mut().zip(four) {
            let [low, high] = products(*sum, on);
            *sum = xor3(low, high, load(line));
        }
    }
    Some(remainder(sum))
}

/// CRC32C of a record with zeroes in the place of its word `WORD` of 32 bits, continued from `seed`. Its length is a multiple of 256.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
pub fn record_without<const WORD: usize, const LEN: usize>(seed: u32, record: &[u8; LEN]) -> u32 {
    const { assert!(LEN >= RECORD && LEN.is_multiple_of(RECORD) && WORD < LEN / 4) };
    let on = factor(&ONE_RECORD_ON);
    let mut sums = [_mm512_setzero_si512(); 4];
    for (at, line) in record.as_chunks::<LINE>().0.iter().enumerate() {
        let mut line = load(line);
        if at == WORD / 16 {
            line = _mm512_maskz_mov_epi32(!(1 << (WORD % 16)), line);
        }
        if at == 0 {
            line = _mm512_xor_si512(line, first_word(seed.into()));
        }
        let sum = &mut sums[at % 4];
        let [low, high] = products(*sum, on);
        *sum = if at < 4 { line } else { xor3(low, high, line) };
    }
    remainder(sums)
}

/// The CRC of four lines, from no seed.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
pub fn remainder([one, two, three, four]: [__m512i; 4]) -> u32 {
    let [a, b] = products(one, factor(&TO_THE_END[0]));
    let [c, d] = products(two, factor(&TO_THE_END[1]));
    let [e, f] = products(three, factor(&TO_THE_END[2]));
    let [g, h] = products(four, factor(&TO_THE_END[3]));
    let sum = xor3(xor3(a, b, c), xor3(d, e, f), _mm512_xor_si512(g, h));
    let half = _mm256_xor_si256(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum));
    let last = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
    let low = _mm_crc32_u64(0, _mm_extract_epi64::<0>(last) as u64);
    _mm_crc32_u64(low, _mm_extract_epi64::<1>(last) as u64) as u32
}

/// The products of the lower and of the upper halves of each 128 bits.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn products(line: __m512i, factor: __m512i) -> [__m512i; 2] {
    [_mm512_clmulepi64_epi128::<0x00>(line, factor), _mm512_clmulepi64_epi128::<0x11>(line, factor)]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor3(one: __m512i, two: __m512i, three: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0x96>(one, two, three)
}

/// A line of which only the first word is not zero.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn first_word(word: u64) -> __m512i {
    _mm512_zextsi128_si512(_mm_cvtsi64_si128(word as i64))
}

/// A line in a register.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn load(line: &[u8; LINE]) -> __m512i {
    // SAFETY: so many bytes are there, and they need not be aligned.
    #[allow(unsafe_code, reason = "measured hot loop: checksums of all inodes and directories")]
    unsafe {
        _mm512_loadu_si512(line.as_ptr().cast())
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn factor(words: &[u64; 8]) -> __m512i {
    // SAFETY: so many bytes are there, and they need not be aligned.
    #[allow(unsafe_code, reason = "measured hot loop: checksums of all inodes and directories")]
    unsafe {
        _mm512_loadu_si512(words.as_ptr().cast())
    }
}

#[cfg(test)]
mod tests {
    use crate::SeededRandom;

    use super::*;

    #[test]
    fn powers_are_those_that_others_use() {
        // Folding by 512 bits, in published tables of constants.
        assert_eq!(factors(512), [0x740E_EF02, 0x9E4A_DDF8]);
        assert_eq!((power(0), power(32)), (1 << 31, POLYNOMIAL));
        assert_eq!(power(-33 + 33), power(0));
    }

    #[test]
    fn leaves_of_all_lengths_agree_with_the_general_way() {
        if !is_available() {
            return;
        }
        let mut random = SeededRandom::new(5);
        let bytes: Vec<u8> = (0..65536).map(|_| random.next_u64() as u8).collect();
        for len in (0..1024).chain([1012, 2036, 4084, 65524]) {
            // SAFETY: the processor has the instructions, as asked above.
            #[allow(unsafe_code, reason = "to call what is tested")]
            let found = unsafe { leaf(77, &bytes[..len]) };
            let expected = crate::crc32c(77, &bytes[..len]);
            assert_eq!(found, (len % 256 == 244).then_some(expected), "{len} bytes");
        }
    }
}
