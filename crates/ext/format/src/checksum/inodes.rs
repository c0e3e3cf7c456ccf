// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checksums of many inode records at once.
//!
//! One record of 256 bytes is too short for the wide carry-less multiply to pay, and the CRC instruction works on one
//! record for three cycles a word although it could begin one every cycle. So four records are worked on side by side. Where
//! the processor multiplies 64 bytes at once, records of 256 bytes, which nearly all are, go that way ([`wide`](super::wide)).

use fsmend_base::InodeNo;
use fsmend_base::width::{low_u16, low_u32};

use super::inode;
#[cfg(target_arch = "x86_64")]
use super::wide;
#[cfg(target_arch = "x86_64")]
use fsmend_base::checksum::wide::{RECORD, is_available};

/// Records that are worked on side by side.
const LANES: usize = 4;
/// Word that holds the low half of the checksum, and the bits of it that count as zero.
const LOW_WORD: (usize, u64) = (0x78 / 8, 0xFFFF << 32);
/// Word that holds the high half of the checksum, and the bits of it that count as zero.
const HIGH_WORD: (usize, u64) = (0x80 / 8, 0xFFFF << 16);

/// CRC32C of the eight bytes of one little-endian word, by the processor's instruction; `None` where it has none.
#[inline]
pub(super) fn crc32c_of_word(seed: u32, word: u64) -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction, as asked above.
        #[allow(unsafe_code, reason = "measured hot loop: the seed of every directory")]
        return Some(low_u32(unsafe { std::arch::x86_64::_mm_crc32_u64(u64::from(seed), word) }));
    }
    let _ = (seed, word);
    None
}

/// For each of `records` (`inode_size` bytes each, the first one that of inode `first`) whether its checksum is right,
/// into `right`. What a free record of zeroes stores is not right.
pub fn inodes_are_right(seed: u32, first: InodeNo, records: &[u8], inode_size: usize, right: &mut Vec<bool>) {
    right.clear();
    let mut rest = records;
    #[cfg(target_arch = "x86_64")]
    if inode_size == RECORD && is_available() {
        let records = rest.as_chunks().0;
        // SAFETY: the processor has the instructions, as asked above.
        #[allow(unsafe_code, reason = "measured hot loop: a tenth of the time of a check of many files")]
        return unsafe { wide::records_are_right(seed, first, records, right) };
    }
    #[cfg(target_arch = "x86_64")]
    if inode_size >= 136 && inode_size.is_multiple_of(8) && std::arch::is_x86_feature_detected!("sse4.2") {
        while let Some((four, after)) = rest.split_at_checked(LANES * inode_size) {
            let first = InodeNo(first.0.wrapping_add(low_u32(right.len() as u64)));
            // SAFETY: the processor has the instructions, as asked above.
            #[allow(unsafe_code, reason = "measured hot loop: a fifth of the time of a check of many files")]
            right.extend(unsafe { side_by_side(seed, first, four, inode_size) });
            rest = after;
        }
    }
    for record in rest.chunks_exact(inode_size) {
        let number = InodeNo(first.0.wrapping_add(low_u32(right.len() as u64)));
        right.push(inode(seed, number, record).is_some_and(|checked| checked.is_right()));
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn side_by_side(seed: u32, first: InodeNo, four: &[u8], inode_size: usize) -> [bool; LANES] {
    use std::arch::x86_64::_mm_crc32_u64;

    let mut lanes: [&[[u8; 8]]; LANES] = [&[]; LANES];
    for (lane, record) in lanes.iter_mut().zip(four.chunks_exact(inode_size)) {
        *lane = record.as_chunks::<8>().0;
    }
    let word = |lane: usize, at: usize| u64::from_le_bytes(lanes[lane][at]);
    // The generation stands in the upper half of the word at 0x60.
    let number = |lane: usize| u64::from(first.0.wrapping_add(low_u32(lane as u64)));
    let mut crc = [0, 1, 2, 3].map(|lane| {
        let seeds = word(lane, 0x60 / 8) & 0xFFFF_FFFF_0000_0000 | number(lane);
        _mm_crc32_u64(u64::from(seed), seeds)
    });
    // Where the extra fields do not reach behind the high half, it is no checksum and counts as it is.
    let has_high = [0, 1, 2, 3].map(|lane| word(lane, HIGH_WORD.0) & 0xFFFF >= 4);
    for at in 0..inode_size / 8 {
        for lane in 0..LANES {
            let ignored = match at {
                _ if at == LOW_WORD.0 => LOW_WORD.1,
                _ if at == HIGH_WORD.0 && has_high[lane] => HIGH_WORD.1,
                _ => 0,
            };
            crc[lane] = _mm_crc32_u64(crc[lane], word(lane, at) & !ignored);
        }
    }
    [0, 1, 2, 3].map(|lane| {
        let low = low_u16(word(lane, LOW_WORD.0) >> 32);
        let high = low_u16(word(lane, HIGH_WORD.0) >> 16);
        let computed = low_u32(crc[lane]);
        if has_high[lane] {
            computed == u32::from(high) << 16 | u32::from(low)
        } else {
            low_u16(computed.into()) == low
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsmend_base::SeededRandom;

    #[test]
    fn the_instruction_agrees_with_the_general_way() {
        for word in [0, 1, u64::MAX, 0x0123_4567_89AB_CDEF] {
            let general = super::super::crc32c(77, &word.to_le_bytes());
            assert_eq!(crc32c_of_word(77, word).unwrap_or(general), general);
        }
    }

    #[test]
    fn many_at_once_agree_with_one_by_one() {
        let mut random = SeededRandom::new(7);
        for inode_size in [128usize, 136, 256, 512, 1024] {
            let mut records: Vec<u8> = (0..13 * inode_size).map(|_| random.next_u64() as u8).collect();
            for (index, record) in records.chunks_exact_mut(inode_size).enumerate() {
                if inode_size > 128 && index % 3 > 0 {
                    record[0x80..0x82].copy_from_slice(&(4 * (index as u16 % 3 - 1)).to_le_bytes());
                }
                if index % 2 == 0 {
                    let number = InodeNo(100 + index as u32);
                    let computed = inode(9, number, record).map_or(0, |checked| checked.computed);
                    record[0x7C..0x7E].copy_from_slice(&(computed as u16).to_le_bytes());
                    if inode_size > 128 && u16::from_le_bytes([record[0x80], record[0x81]]) >= 4 {
                        record[0x82..0x84].copy_from_slice(&((computed >> 16) as u16).to_le_bytes());
                    }
                }
            }
            let one_by_one: Vec<bool> = records
                .chunks_exact(inode_size)
                .enumerate()
                .map(|(index, record)| {
                    inode(9, InodeNo(100 + index as u32), record).is_some_and(|c| c.is_right())
                })
                .collect();
            let mut right = Vec::new();
            inodes_are_right(9, InodeNo(100), &records, inode_size, &mut right);
            assert_eq!(right, one_by_one, "records of {inode_size} bytes");
            #[cfg(target_arch = "x86_64")]
            if inode_size > 128 && std::arch::is_x86_feature_detected!("sse4.2") {
                let fours = records.chunks_exact(LANES * inode_size).enumerate();
                // SAFETY: the processor has the instructions, as asked above.
                #[allow(unsafe_code, reason = "to call what is tested")]
                let side = fours.flat_map(|(at, four)| unsafe {
                    side_by_side(9, InodeNo(100 + (LANES * at) as u32), four, inode_size)
                });
                assert_eq!(side.collect::<Vec<_>>(), one_by_one[..12], "{inode_size} bytes, side by side");
            }
            assert!(right.iter().any(|is| *is) && right.iter().any(|is| !*is));
        }
    }
}
