// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hashes of names in indexed directories.
//!
//! [`hash`] takes the version that a root stores (with the sign of characters settled by [`effective_version`]), the
//! seed of the superblock and a name, and gives the major hash, by which leaves are ordered, and the minor one, by which
//! names of equal major hash are. Bit 0 of a major hash is always clear, and the largest value is kept free as an end
//! mark. No allocation, one pass over the name. [`majors`] hashes sixteen names at once.
//!
//! Sources: "ext4 Data Structures and Algorithms", hash tree directories; RFC 1320 (MD4), of which the half-MD4 rounds are a
//! shortened form; Wheeler and Needham, "TEA, a Tiny Encryption Algorithm"; Aumasson and Bernstein, "SipHash".

mod half_md4;
mod lanes;
mod siphash;
mod tea;
#[cfg(target_arch = "x86_64")]
mod wide;

use crate::htree::hash_version;

pub use lanes::{LANES, NameAt, majors};
pub use siphash::siphash24;

/// The seed of a file system that stores none (all zero): the start value of MD4.
pub const DEFAULT_SEED: [u32; 4] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];

/// `s_flags`: names are hashed as unsigned characters.
pub const FLAG_UNSIGNED_HASH: u32 = 0x2;

/// The largest major hash is an end mark; a name that hashes to it is moved to the one before.
const END_MARK: u32 = 0x7FFF_FFFF << 1;

/// The version to hash with: the stored one, with unsigned characters where `s_flags` say so.
pub fn effective_version(stored: u8, s_flags: u32) -> u8 {
    if stored <= hash_version::TEA && s_flags & FLAG_UNSIGNED_HASH != 0 {
        stored + hash_version::LEGACY_UNSIGNED
    } else {
        stored
    }
}

/// Major and minor hash of `name`; `None` for versions that cannot be computed (unknown ones, and SipHash, whose key
/// is that of the encrypted directory). A seed of zeroes means [`DEFAULT_SEED`].
#[inline]
pub fn hash(version: u8, seed: &[u32; 4], name: &[u8]) -> Option<(u32, u32)> {
    let seed = effective_seed(seed);
    let (major, minor) = match version {
        hash_version::LEGACY => (legacy(name, signed), 0),
        hash_version::LEGACY_UNSIGNED => (legacy(name, unsigned), 0),
        hash_version::HALF_MD4 => half_md4::hash(seed, name, signed),
        hash_version::HALF_MD4_UNSIGNED => half_md4::hash(seed, name, unsigned),
        hash_version::TEA => tea::hash(seed, name, signed),
        hash_version::TEA_UNSIGNED => tea::hash(seed, name, unsigned),
        _ => return None,
    };
    Some((finish(major), minor))
}

fn effective_seed(seed: &[u32; 4]) -> &[u32; 4] {
    if *seed == [0; 4] { &DEFAULT_SEED } else { seed }
}

fn finish(major: u32) -> u32 {
    let major = major & !1;
    if major == END_MARK { END_MARK - 2 } else { major }
}

/// A character as a number, sign-extended.
#[inline(always)]
fn signed(byte: u8) -> u32 {
    i32::from(byte.cast_signed()).cast_unsigned()
}

/// A character as a number.
#[inline(always)]
fn unsigned(byte: u8) -> u32 {
    u32::from(byte)
}

/// The oldest hash: a two-word feedback with a multiplier.
#[inline(always)]
fn legacy(name: &[u8], number: impl Fn(u8) -> u32) -> u32 {
    const MULTIPLIER: u32 = 7_152_373;
    let (mut before, mut last) = (0x37AB_E8F9u32, 0x12A3_FE2Du32);
    for byte in name {
        let mut next = before.wrapping_add(last ^ number(*byte).wrapping_mul(MULTIPLIER));
        if next & 0x8000_0000 != 0 {
            next = next.wrapping_sub(0x7FFF_FFFF);
        }
        (before, last) = (last, next);
    }
    last << 1
}

/// Fills `words` from the start of `rest`, four characters to a word, the first one highest; what is left over is
/// padded with the length of `rest`. Characters are added, not joined, so a negative one borrows from its neighbour.
#[inline(always)]
fn load_words<const N: usize>(rest: &[u8], number: &impl Fn(u8) -> u32) -> [u32; N] {
    let len = fsmend_base::width::low_u32(rest.len() as u64);
    let pad = len | len << 8;
    let pad = pad | pad << 16;
    let mut words = [pad; N];
    let (whole, end) = rest.as_chunks::<4>();
    for (word, bytes) in words.iter_mut().zip(whole) {
        let joined = u32::from_be_bytes(*bytes);
        *word = if joined & NOT_ASCII == 0 { joined } else { add_up(0, bytes, number) };
    }
    if let Some(word) = words.get_mut(whole.len()).filter(|_| !end.is_empty()) {
        *word = add_up(pad, end, number);
    }
    words
}

/// The bits that characters have which are negative, where characters have a sign.
const NOT_ASCII: u32 = 0x8080_8080;

#[inline(always)]
fn add_up(start: u32, bytes: &[u8], number: &impl Fn(u8) -> u32) -> u32 {
    bytes.iter().fold(start, |value, byte| number(*byte).wrapping_add(value << 8))
}

#[cfg(test)]
mod tests;
