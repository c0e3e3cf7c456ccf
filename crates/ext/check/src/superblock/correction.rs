// SPDX-License-Identifier: MIT OR Apache-2.0
//! One damaged field of a superblock, found with the help of its checksum.
//!
//! A CRC is a bijection of any 32-bit word at a known place: for each place there is exactly one word that makes the checksum right.
//! If only one place was damaged, the word for it is the one that stood there; those for other places are random. Random words are told
//! apart by being neither small nor close to what is there now, and by giving no superblock that makes sense; only words that
//! something hangs on are tried.

use fsmend_ext_format::checksum::{self, crc32c};
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_SIZE};
use zerocopy::{FromBytes, IntoBytes};

/// Offsets of the words that are tried: counts and sizes, magic number and state, creator and revision, inodes, features, reserved
/// descriptors, special inodes, descriptor size, high halves, extra sizes, flexible groups, backup groups, seed.
const PLACES: [usize; 33] = [
    0x00, 0x04, 0x14, 0x18, 0x1C, 0x20, 0x24, 0x28, 0x38, 0x48, 0x4C, 0x54, 0x58, 0x5C, 0x60, 0x64, 0xCC,
    0xE0, 0xE4, 0xE8, 0xFC, 0x104, 0x150, 0x15C, 0x160, 0x174, 0x240, 0x244, 0x24C, 0x250, 0x26C, 0x270,
    0x280,
];
/// Where the checksum stands.
const CHECKSUM: usize = SUPERBLOCK_SIZE - 4;
/// The generator polynomial of CRC32C, reflected.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// What was set right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Correction {
    /// Byte offset in the superblock.
    pub(super) offset: usize,
    /// The 32-bit word that stands there.
    pub(super) stored: u32,
    /// The word that stood there.
    pub(super) right: u32,
}

/// Looks for the one place of `raw` at which another word makes its checksum right and gives a superblock that `accepts`. `None` when
/// the checksum is right, when there is no such place, and when there are several.
pub(super) fn find(
    raw: &RawSuperblock,
    accepts: impl Fn(&RawSuperblock) -> bool,
) -> Option<(RawSuperblock, Correction)> {
    let checked = checksum::superblock(raw);
    if checked.is_right() || checked.stored == 0 {
        return None;
    }
    let bytes = raw.as_bytes();
    let mut found = None;
    for offset in PLACES {
        let stored = u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?);
        let right = word_for(bytes, offset, checked.stored);
        if !is_likely(stored, right) {
            continue;
        }
        let mut corrected = bytes.to_vec();
        corrected[offset..offset + 4].copy_from_slice(&right.to_le_bytes());
        let Ok(corrected) = RawSuperblock::read_from_bytes(&corrected) else { continue };
        if accepts(&corrected) {
            if found.is_some() {
                return None;
            }
            found = Some((corrected, Correction { offset, stored, right }));
        }
    }
    found
}

/// Whether `right` is a number as fields have them, or differs from `stored` in one half, or in one bit.
fn is_likely(stored: u32, right: u32) -> bool {
    let difference = stored ^ right;
    right <= 0xFFFF || difference & 0xFFFF == 0 || difference >> 16 == 0 || difference.is_power_of_two()
}

/// The word at `offset` with which the bytes before the checksum give `target`.
fn word_for(bytes: &[u8], offset: usize, target: u32) -> u32 {
    let before = crc32c(u32::MAX, &bytes[..offset]);
    let behind = backwards(target, &bytes[offset + 4..CHECKSUM]);
    // A word is added to the register before its bits are worked through.
    backwards(behind, &[0; 4]) ^ before
}

/// The register before `bytes`, if it is `register` behind them.
fn backwards(register: u32, bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(register, |mut register, byte| {
        for _ in 0..8 {
            let carry = register >> 31;
            register = (register ^ (POLYNOMIAL * carry)) << 1 | carry;
        }
        register ^ u32::from(*byte)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::superblock::problems;
    use crate::superblock::testing::Image;

    fn sound() -> RawSuperblock {
        RawSuperblock::read_from_bytes(&Image::with_checksums().bytes[1024..2048]).unwrap()
    }

    #[test]
    fn the_word_for_every_place_of_a_sound_superblock_is_the_one_that_stands_there() {
        let raw = sound();
        for offset in PLACES {
            let stored = u32::from_le_bytes(*raw.as_bytes()[offset..].first_chunk().unwrap());
            assert_eq!(word_for(raw.as_bytes(), offset, raw.s_checksum.get()), stored, "{offset:#x}");
        }
    }

    #[test]
    fn one_damaged_field_is_set_right() {
        type Damage = fn(&mut RawSuperblock);
        let damages: [Damage; 6] = [
            |raw| raw.s_magic = 0x1234.into(),
            |raw| raw.s_feature_incompat ^= 0x8000_0000,
            |raw| raw.s_blocks_count_lo = u32::MAX.into(),
            |raw| raw.s_inodes_per_group = 0.into(),
            |raw| raw.s_log_block_size = 0x7777_7777.into(),
            |raw| raw.s_rev_level = u32::MAX.into(),
        ];
        for damage in damages {
            let mut image = Image::with_checksums().without_backups();
            let right = image.bytes[1024..2048].to_vec();
            let mut raw = sound();
            damage(&mut raw);
            image.bytes[1024..2048].copy_from_slice(raw.as_bytes());
            let (settled, codes) = image.settle();
            let settled = settled.ok().unwrap();
            assert_eq!(settled.superblock.as_bytes(), right);
            assert!(settled.is_corrected, "what comes next works on the corrected one");
            assert!(codes.contains(&problems::FIELD_CORRECTED.code), "{codes:?}");
        }
    }

    #[test]
    fn a_damaged_checksum_changes_nothing_else() {
        let mut raw = sound();
        for checksum in [0, 1, 0x1234_5678, u32::MAX] {
            raw.s_checksum = checksum.into();
            let same = |other: &RawSuperblock| other.features() == raw.features();
            assert_eq!(find(&raw, same).map(|found| found.1), None);
        }
    }
}
