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

/// Reads `count` entries, or all there are; they have to be in order.
pub fn parse_entries(mut bytes: &[u8], count: Option<u32>) -> Parsed<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    while count.map_or(!bytes.is_empty(), |count| (entries.len() as u64) < u64::from(count)) {
        let len = usize::from(get_u8(bytes, 17));
        let name = bytes.get(FIXED..FIXED + len).ok_or(Wrong::Short)?;
        let entry = Entry {
            key: get_u64(bytes, 0),
            inode: get_u32(bytes, 8),
            generation: get_u32(bytes, 12),
            kind: get_u8(bytes, 16),
            name: name.to_vec(),
        };
        if entry.key < KEYS_RESERVED || entries.last().is_some_and(|last| last.key >= entry.key) {
            return Err(Wrong::Value("order of entries"));
        }
        if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
            return Err(Wrong::Value("name of an entry"));
        }
        bytes = bytes.get(FIXED + len..).unwrap_or_default();
        entries.push(entry);
    }
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
