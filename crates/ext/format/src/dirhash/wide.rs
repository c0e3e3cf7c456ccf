// SPDX-License-Identifier: MIT OR Apache-2.0
//! Half MD4 of sixteen names at once, by AVX-512, which rotates words and takes three of them in one instruction. Only for names of up to 32
//! characters, which are one block of the hash, and all of them ASCII, where the sign of characters does not matter: nearly all names.
//!
//! Each name is turned into the eight words of its block by one shuffle; then the words of all names are turned, so that a register has
//! the same word of each of them.
//!
//! # Safety
//!
//! Every function here but [`is_available`] may be called only where that says yes.
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and stands in the head of the module")]

use std::arch::x86_64::{
    __m256i, __m512i, _mm256_loadu_si256, _mm256_mask_shuffle_epi8, _mm256_movepi8_mask, _mm256_set1_epi8,
    _mm512_add_epi32, _mm512_castsi256_si512, _mm512_inserti64x4, _mm512_permutex2var_epi64,
    _mm512_rol_epi32, _mm512_set_epi64, _mm512_set1_epi32, _mm512_storeu_si512, _mm512_ternarylogic_epi32,
    _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

use fsmend_base::width::len_u32;

use super::lanes::LANES;

/// Characters in a block of the hash.
const BLOCK: usize = 32;
/// Constants of the second and the third round of MD4.
const SECOND: u32 = 0x5A82_7999;
const THIRD: u32 = 0x6ED9_EBA1;
/// For each length of a name, where in its half of the block the byte comes from that stands at a place of a word: characters are joined with the first
/// one highest, also those of a last word that is not full.
static ORDER: [[u8; BLOCK]; BLOCK + 1] = order();

const fn order() -> [[u8; BLOCK]; BLOCK + 1] {
    let (mut all, mut len) = ([[0; BLOCK]; BLOCK + 1], 0);
    while len <= BLOCK {
        let mut at = 0;
        while at < len {
            let word = at / 4 * 4;
            let last = if len - word < 4 { len - word - 1 } else { 3 };
            // In the half: below 16.
            all[len][at] = ((word + last - at % 4) % 16).to_le_bytes()[0];
            at += 1;
        }
        len += 1;
    }
    all
}

/// Whether the processor has all of the instructions.
#[inline]
pub(super) fn is_available() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vl")
}

/// The second words of the hashes of names: each is given with what stands behind it, and its length. `None` if one of them is not short, or not ASCII.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn half_md4(seed: &[u32; 4], names: &[(&[u8], usize); LANES]) -> Option<[u32; LANES]> {
    let mut blocks = [_mm256_set1_epi8(0); LANES];
    for (block, (bytes, len)) in blocks.iter_mut().zip(names) {
        *block = words_of(bytes, *len)?;
    }
    let words = turned(&blocks);
    let state = [splat(seed[0]), splat(seed[1]), splat(seed[2]), splat(seed[3])];
    let first = round::<3, 7, 11, 19, CHOOSE>(state, words);
    let [a, b, c, d, e, f, g, h] = words.map(|word| _mm512_add_epi32(word, splat(SECOND)));
    let second = round::<3, 5, 9, 13, MAJORITY>(first, [b, d, f, h, a, c, e, g]);
    let [a, b, c, d, e, f, g, h] = words.map(|word| _mm512_add_epi32(word, splat(THIRD)));
    let [_, last, _, _] = round::<3, 9, 11, 15, PARITY>(second, [d, h, c, g, b, f, a, e]);
    let mut majors = stored(_mm512_add_epi32(state[1], last));
    // No block, no step.
    majors.iter_mut().zip(names).filter(|(_, name)| name.1 == 0).for_each(|(major, _)| *major = seed[1]);
    Some(majors)
}

/// The words of the only block of a name, filled up with its length.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn words_of(bytes: &[u8], len: usize) -> Option<__m256i> {
    let order = load(ORDER.get(len)?);
    let raw = match bytes.first_chunk() {
        Some(block) => load(block),
        // The last name of a directory block.
        None => {
            let mut block = [0; BLOCK];
            block.get_mut(..bytes.len())?.copy_from_slice(bytes);
            load(&block)
        }
    };
    let of_name = u32::MAX.checked_shr(len_u32(BLOCK.abs_diff(len))).unwrap_or(0);
    let fill = _mm256_set1_epi8(len.to_le_bytes()[0].cast_signed());
    let is_ascii = _mm256_movepi8_mask(raw) & of_name == 0;
    is_ascii.then(|| _mm256_mask_shuffle_epi8(fill, of_name, raw, order))
}

/// Word by word what is given name by name.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn turned(blocks: &[__m256i; LANES]) -> [__m512i; 8] {
    let both =
        |at: usize| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(blocks[at]), blocks[at + LANES / 2]);
    // Of four names (and of the four that are eight further on): words 0 and 4, 1 and 5, 2 and 6, 3 and 7.
    let four = |at: usize| {
        let [one, two, three, four] = [both(at), both(at + 1), both(at + 2), both(at + 3)];
        let (low, low_behind) = (_mm512_unpacklo_epi32(one, two), _mm512_unpacklo_epi32(three, four));
        let (high, high_behind) = (_mm512_unpackhi_epi32(one, two), _mm512_unpackhi_epi32(three, four));
        [
            _mm512_unpacklo_epi64(low, low_behind),
            _mm512_unpackhi_epi64(low, low_behind),
            _mm512_unpacklo_epi64(high, high_behind),
            _mm512_unpackhi_epi64(high, high_behind),
        ]
    };
    let (ahead, behind) = (four(0), four(4));
    let first = _mm512_set_epi64(13, 12, 5, 4, 9, 8, 1, 0);
    let second = _mm512_set_epi64(15, 14, 7, 6, 11, 10, 3, 2);
    let joined = |at: usize, order| _mm512_permutex2var_epi64(ahead[at], order, behind[at]);
    [
        joined(0, first),
        joined(1, first),
        joined(2, first),
        joined(3, first),
        joined(0, second),
        joined(1, second),
        joined(2, second),
        joined(3, second),
    ]
}

/// What three words are mixed to, for each three of their bits: those of the second where the first is set, else of the third; what most of them are; whether
/// their number is odd.
const CHOOSE: i32 = 0xCA;
const MAJORITY: i32 = 0xE8;
const PARITY: i32 = 0x96;

/// A round with its rotations.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn round<const FIRST: i32, const SECOND: i32, const THIRD: i32, const FOURTH: i32, const MIX: i32>(
    [mut a, mut b, mut c, mut d]: [__m512i; 4],
    words: [__m512i; 8],
) -> [__m512i; 4] {
    for [one, two, three, four] in words.as_chunks::<4>().0 {
        a = _mm512_rol_epi32::<FIRST>(sum(a, _mm512_ternarylogic_epi32::<MIX>(b, c, d), *one));
        d = _mm512_rol_epi32::<SECOND>(sum(d, _mm512_ternarylogic_epi32::<MIX>(a, b, c), *two));
        c = _mm512_rol_epi32::<THIRD>(sum(c, _mm512_ternarylogic_epi32::<MIX>(d, a, b), *three));
        b = _mm512_rol_epi32::<FOURTH>(sum(b, _mm512_ternarylogic_epi32::<MIX>(c, d, a), *four));
    }
    [a, b, c, d]
}

/// The sum of three, where the second one is there last.
#[inline]
#[target_feature(enable = "avx512f")]
fn sum(state: __m512i, mixed: __m512i, word: __m512i) -> __m512i {
    _mm512_add_epi32(_mm512_add_epi32(state, word), mixed)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn splat(word: u32) -> __m512i {
    _mm512_set1_epi32(word.cast_signed())
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn load(block: &[u8; BLOCK]) -> __m256i {
    // SAFETY: so many bytes are there, and they need not be aligned.
    #[allow(unsafe_code, reason = "measured hot loop: a sixth of the time of a check of indexed directories")]
    unsafe {
        _mm256_loadu_si256(block.as_ptr().cast())
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn stored(words: __m512i) -> [u32; LANES] {
    let mut all = [0; LANES];
    // SAFETY: there is room for so many words, and they need not be aligned.
    #[allow(unsafe_code, reason = "measured hot loop: a sixth of the time of a check of indexed directories")]
    unsafe {
        _mm512_storeu_si512(all.as_mut_ptr().cast(), words);
    }
    all
}
