// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checksums of inode records of 256 bytes by the wide carry-less multiplications of [`fsmend_base::checksum::wide`].

use std::arch::x86_64::{_mm_crc32_u64, _mm512_alignr_epi32, _mm512_setzero_si512, _mm512_xor_si512};

use fsmend_base::InodeNo;
use fsmend_base::checksum::wide::{LINE, RECORD, first_word, load, remainder};
use fsmend_base::width::low_u32;

/// For each of `records` whether its checksum is right, added to `right`; the first one is that of inode `first`.
#[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
pub(super) fn records_are_right(seed: u32, first: InodeNo, records: &[[u8; RECORD]], right: &mut Vec<bool>) {
    let numbers = (0..).map(|at: u32| first.0.wrapping_add(at));
    right.extend(records.iter().zip(numbers).map(|(record, number)| is_right(seed, number, record)));
}

/// Whether the checksum of a record is right: the lower half stands at 0x7C; the upper one at 0x82, if the length of the extra fields
/// before it says so. Both count as zero.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
fn is_right(seed: u32, number: u32, record: &[u8; RECORD]) -> bool {
    let words = record.as_chunks::<8>().0;
    let word = |at: usize| u64::from_le_bytes(words[at / 8]);
    // The generation stands in the upper half of the word at 0x60.
    let seeds = word(0x60) & 0xFFFF_FFFF_0000_0000 | u64::from(number);
    let state = _mm_crc32_u64(u64::from(seed), seeds);
    let (low, high) = (word(0x78) & 0xFFFF << 32, word(0x80) & 0xFFFF << 16);
    let has_high = word(0x80) & 0xFFFF >= 4;
    let ignored = if has_high { high } else { 0 };
    let lines = record.as_chunks::<LINE>().0;
    // Where a stretch begins, the state that it begins with is added to it.
    let head = _mm512_xor_si512(load(&lines[0]), first_word(state));
    let last_of_second = _mm512_alignr_epi32::<2>(first_word(low), _mm512_setzero_si512());
    let second = _mm512_xor_si512(load(&lines[1]), last_of_second);
    let third = _mm512_xor_si512(load(&lines[2]), first_word(ignored));
    let computed = remainder([head, second, third, load(&lines[3])]);
    let stored = (low >> 32) as u32;
    if has_high { computed == low_u32(high) | stored } else { computed & 0xFFFF == stored }
}
