// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys of names, from SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF").

use std::ops::Range;

use fsmend_base::width::low_u8;

use crate::directory::TIES;

/// Bits of a key that tell names of one pattern apart.
const MEMBER_BITS: u32 = 9;
/// Bits of a key that are the hash of the pattern.
const PATTERN_BITS: u32 = 50;
/// What [`split`] adds to the last byte of a name without digits, so that it is no number.
const NOT_A_NUMBER: u64 = 1 << 8;

/// The lowest key that a name can have; the others with its hash follow.
///
/// A key begins with the hash of the *pattern*, the name with the last two digits of its last number blanked, and ends with those digits. So names that count up are neighbours
/// in a directory, and making or removing them in their order changes few of its blocks.
pub fn name_key(hash_key: &[u8; 16], name: &[u8]) -> u64 {
    NameKeys::new(hash_key).key(name)
}

/// The keys of names one after the other. Neighbours in a directory mostly have the same pattern, which is hashed once.
#[derive(Clone, Debug)]
pub struct NameKeys<'k> {
    hash_key: &'k [u8; 16],
    /// The last pattern; no name is empty.
    pattern: Vec<u8>,
    /// Which bytes of names with digits the last pattern has as zeroes.
    number: Option<Range<usize>>,
    hash: u64,
}

impl<'k> NameKeys<'k> {
    /// With the hash key of a file system.
    pub fn new(hash_key: &'k [u8; 16]) -> Self {
        NameKeys { hash_key, pattern: Vec::new(), number: None, hash: siphash(hash_key, &[]) }
    }

    /// The [`name_key`] of a name.
    #[inline]
    pub fn key(&mut self, name: &[u8]) -> u64 {
        let member = self.next_number(name).unwrap_or_else(|| self.take_pattern(name));
        let hash = self.hash & ((1 << PATTERN_BITS) - 1);
        (hash << MEMBER_BITS | member).max(1) * TIES
    }

    /// The number of a name that has the last pattern, where that is one of names with digits. It is: where the last one has its number, this one has digits, and all
    /// else is the same, so there are no digits behind it either, nor one before it where it is a single one.
    #[inline]
    fn next_number(&self, name: &[u8]) -> Option<u64> {
        let Range { start, end } = self.number.clone().filter(|_| self.pattern.len() == name.len())?;
        let is_same = are_same(self.pattern.get(..start)?, name.get(..start)?)
            && are_same(self.pattern.get(end..)?, name.get(end..)?);
        let digits = name.get(start..end).filter(|_| is_same)?;
        digits.iter().all(u8::is_ascii_digit).then(|| number(digits))
    }

    /// Takes the pattern of a name, and returns which name of it that is.
    fn take_pattern(&mut self, name: &[u8]) -> u64 {
        let (blank, member) = split(name);
        self.pattern.clear();
        self.pattern.extend_from_slice(name);
        self.pattern[blank.clone()].fill(0);
        self.number = Some(blank).filter(|_| member < NOT_A_NUMBER);
        self.hash = siphash(self.hash_key, &self.pattern);
        member
    }
}

/// Whether two pieces of names, of one length, are the same: they are short, and comparing them here takes less than calling for it.
#[inline]
fn are_same(one: &[u8], other: &[u8]) -> bool {
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let half = |bytes: Option<&[u8; 4]>| bytes.map(|bytes| u32::from_le_bytes(*bytes));
    one.len() == other.len()
        && match (one.last_chunk(), other.last_chunk()) {
            (Some(last), Some(last_of_other)) => {
                let words = one.as_chunks().0.iter().zip(other.as_chunks().0);
                word(last) == word(last_of_other)
                    && words.into_iter().all(|(one, other)| word(one) == word(other))
            }
            _ if one.len() >= 4 => {
                half(one.first_chunk()) == half(other.first_chunk())
                    && half(one.last_chunk()) == half(other.last_chunk())
            }
            _ => one.iter().zip(other).all(|(one, other)| one == other),
        }
}

/// What one or two digits say.
#[inline]
fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

/// Which bytes of a name are zero in its pattern, and which name of that pattern it is. Without digits, it is the last byte.
fn split(name: &[u8]) -> (Range<usize>, u64) {
    let Some(last) = name.iter().rposition(u8::is_ascii_digit) else {
        let byte = name.last().copied().unwrap_or(0);
        return (name.len().saturating_sub(1)..name.len(), NOT_A_NUMBER + u64::from(byte));
    };
    let is_alone = last == 0 || !name[last - 1].is_ascii_digit();
    let first = if is_alone { last } else { last - 1 };
    (first..last + 1, number(&name[first..=last]))
}

fn siphash(key: &[u8; 16], bytes: &[u8]) -> u64 {
    let (low, high) = (crate::bytes::get_u64(key, 0), crate::bytes::get_u64(key, 8));
    let mut v = [
        low ^ 0x736f_6d65_7073_6575,
        high ^ 0x646f_7261_6e64_6f6d,
        low ^ 0x6c79_6765_6e65_7261,
        high ^ 0x7465_6462_7974_6573,
    ];
    let mut take = |word: u64| {
        v[3] ^= word;
        round(&mut v);
        round(&mut v);
        v[0] ^= word;
    };
    let chunks = bytes.chunks_exact(8);
    let rest = chunks.remainder();
    chunks.for_each(|chunk| take(crate::bytes::get_u64(chunk, 0)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = low_u8(bytes.len() as u64);
    take(u64::from_le_bytes(last));
    v[2] ^= 0xFF;
    (0..4).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_count_up_are_neighbours() {
        let key = |name: &str| name_key(&[7; 16], name.as_bytes());
        for (low, high) in [("f1200", "f1299"), ("IMG_4100.jpg", "IMG_4199.jpg"), ("xaa", "xaz"), ("0", "9")]
        {
            let between = key(high).abs_diff(key(low));
            assert!(between < TIES << MEMBER_BITS && key(low) < key(high), "{low} {high}");
        }
        assert!(key("f1299").abs_diff(key("f1300")) > TIES << MEMBER_BITS, "another pattern");
    }

    #[test]
    fn a_name_is_told_by_its_pattern_and_its_number() {
        let names: [&[u8]; 13] = [
            b"a1", b"a01", b"a\x01", b"a\x31b", b"ab", b"a", b"1", b"01", b"\x01", b"a1b1", b"a1b2", b"a2b1",
            b"101",
        ];
        let pattern = |name: &&[u8]| {
            let (blank, member) = split(name);
            let mut pattern = name.to_vec();
            pattern[blank].fill(0);
            (pattern, member)
        };
        let split: std::collections::BTreeSet<_> = names.iter().map(pattern).collect();
        assert_eq!(split.len(), names.len());
        assert_eq!(super::split(b""), (0..0, NOT_A_NUMBER));
        // Whatever name came before.
        let mut keys = NameKeys::new(&[7; 16]);
        for (one, other) in names.iter().flat_map(|one| names.iter().map(move |other| (one, other))) {
            assert_eq!(keys.key(one), name_key(&[7; 16], one));
            assert_eq!(keys.key(other), name_key(&[7; 16], other), "{other:?} after {one:?}");
        }
    }

    #[test]
    fn pieces_are_the_same_if_all_their_bytes_are() {
        for len in 0..40 {
            let one = vec![b'x'; len];
            assert!(are_same(&one, &one) && !are_same(&one, &vec![b'x'; len + 1]));
            for at in 0..len {
                let mut other = one.clone();
                other[at] = b'y';
                assert!(!are_same(&one, &other), "byte {at} of {len}");
            }
        }
    }

    #[test]
    fn the_hash_is_that_of_its_inventors() {
        // The example of the paper: key 00..0f, bytes 00..0e.
        let key: Vec<u8> = (0..16).collect();
        let bytes: Vec<u8> = (0..15).collect();
        let key = key.first_chunk().expect("sixteen bytes");
        assert_eq!(siphash(key, &bytes), 0xa129_ca61_49be_45e5);
    }
}
