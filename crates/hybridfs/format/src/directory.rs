// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entries of directories.

use crate::bytes::{get_u8, get_u32, get_u64};
use crate::{Parsed, Wrong};

const FIXED: usize = 18;
/// Keys below this are no names'.
pub const KEYS_RESERVED: u64 = 16;
/// Names that can have the same hash.
pub const TIES: u64 = 16;

/// An entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Hash of the name, and a number that tells equal ones apart.
    pub key: u64,
    /// Where it leads to.
    pub inode: u32,
    /// The generation of that.
    pub generation: u32,
    /// High four bits of its mode.
    pub kind: u8,
    /// The name.
    pub name: Vec<u8>,
}

impl Entry {
    /// Bytes that it takes.
    pub fn stored_len(&self) -> usize {
        FIXED + self.name.len()
    }
}

/// An entry in the bytes where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryView<'b> {
    /// As [`Entry::key`].
    pub key: u64,
    /// As [`Entry::inode`].
    pub inode: u32,
    /// As [`Entry::generation`].
    pub generation: u32,
    /// As [`Entry::kind`].
    pub kind: u8,
    /// As [`Entry::name`].
    pub name: &'b [u8],
}

impl EntryView<'_> {
    /// Bytes that it takes.
    pub fn stored_len(&self) -> usize {
        FIXED + self.name.len()
    }

    fn to_entry(self) -> Entry {
        let EntryView { key, inode, generation, kind, name } = self;
        Entry { key, inode, generation, kind, name: name.to_vec() }
    }
}

/// Shows `count` entries, or all there are, to `visit`; they have to be in order. Those before the first that is not are shown.
#[inline]
pub fn visit_entries<'b>(
    mut bytes: &'b [u8],
    count: Option<u32>,
    mut visit: impl FnMut(EntryView<'b>),
) -> Parsed<()> {
    let (mut seen, mut last) = (0, KEYS_RESERVED - 1);
    while count.map_or(!bytes.is_empty(), |count| seen < count) {
        let (fixed, rest) = bytes.split_first_chunk::<FIXED>().ok_or(Wrong::Short)?;
        let (name, rest) = rest.split_at_checked(usize::from(fixed[17])).ok_or(Wrong::Short)?;
        let entry = EntryView {
            key: get_u64(fixed, 0),
            inode: get_u32(fixed, 8),
            generation: get_u32(fixed, 12),
            kind: get_u8(fixed, 16),
            name,
        };
        if entry.key <= last {
            return Err(Wrong::Value("order of entries"));
        }
        if name.is_empty() || has_forbidden_byte(name) {
            return Err(Wrong::Value("name of an entry"));
        }
        visit(entry);
        (bytes, seen, last) = (rest, seen + 1, entry.key);
    }
    Ok(())
}

/// Whether a slash or a zero is among the bytes of a name, eight at a time.
#[inline]
fn has_forbidden_byte(name: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 0xFF;
    const TOPS: u64 = ONES << 7;
    const SLASHES: u64 = ONES * 0x2F;
    // Not zero if and only if a byte of the word is zero.
    let zeroes = |word: u64| word.wrapping_sub(ONES) & !word & TOPS;
    let is_found = |word: u64| zeroes(word) | zeroes(word ^ SLASHES) != 0;
    let words = name.as_chunks::<8>().0;
    match name.last_chunk::<8>() {
        Some(last) => {
            words.iter().any(|word| is_found(u64::from_le_bytes(*word)))
                || is_found(u64::from_le_bytes(*last))
        }
        None => name.iter().any(|byte| matches!(byte, b'/' | 0)),
    }
}

/// Reads `count` entries, or all there are; they have to be in order.
pub fn parse_entries(bytes: &[u8], count: Option<u32>) -> Parsed<Vec<Entry>> {
    let mut entries = Vec::new();
    visit_entries(bytes, count, |entry| entries.push(entry.to_entry()))?;
    Ok(entries)
}

/// Their bytes.
pub fn store_entries(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.extend_from_slice(&entry.key.to_le_bytes());
        bytes.extend_from_slice(&entry.inode.to_le_bytes());
        bytes.extend_from_slice(&entry.generation.to_le_bytes());
        bytes.push(entry.kind);
        bytes.push(u8::try_from(entry.name.len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(&entry.name);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_and_zeroes_are_found_wherever_they_are() {
        for len in 1..40 {
            // Bytes that differ from those in question by one, or by the top bit.
            for other in [b'a', 1, b'.', b'0', 0x80, 0xAF, 0xFF] {
                let mut name = vec![other; len];
                assert!(!has_forbidden_byte(&name), "{name:?}");
                for at in 0..len {
                    for byte in [0, b'/'] {
                        name[at] = byte;
                        assert!(has_forbidden_byte(&name), "{name:?}");
                        name[at] = other;
                    }
                }
            }
        }
    }
}
