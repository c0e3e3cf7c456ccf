// SPDX-License-Identifier: MIT OR Apache-2.0
//! A quota file made from its entries: always of the newer version, leaves as full as can be.
//!
//! The header of a leaf is `next_free prev_free entries(16) pad(48)`: leaves with free places form a list that the file's header
//! begins (`dqi_free_entry`).

use super::{
    LEAF_HEADER, QUOTA_BLOCK_SIZE, QUOTA_TREE_DEPTH, QUOTA_TREE_ROOT, QuotaEntry, QuotaType, QuotaVersion,
    tree,
};
use fsmend_base::width::{low_u16, low_u32};

/// Bytes of an entry of version 1.
const ENTRY_SIZE: usize = 72;
const ENTRIES_PER_LEAF: usize = (QUOTA_BLOCK_SIZE - LEAF_HEADER) / ENTRY_SIZE;
/// Seconds for which a soft limit may be passed, where nothing else is said: a week.
pub const USUAL_GRACE: u32 = 7 * 24 * 3600;

/// What the header of a quota file says for all entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuotaInfo {
    /// Seconds for which the soft limit of space may be passed.
    pub space_grace: u32,
    /// Seconds for which the soft limit of inodes may be passed.
    pub inodes_grace: u32,
    /// `dqi_flags`.
    pub flags: u32,
}

impl Default for QuotaInfo {
    fn default() -> Self {
        QuotaInfo { space_grace: USUAL_GRACE, inodes_grace: USUAL_GRACE, flags: 0 }
    }
}

impl QuotaInfo {
    /// What the file that begins with `block` says, if it has a header of type `kind`.
    pub fn of(block: &[u8], kind: QuotaType) -> Option<Self> {
        super::version(block, kind)?;
        let word = |at: usize| super::le32(block, at);
        Some(QuotaInfo { space_grace: word(8)?, inodes_grace: word(12)?, flags: word(16)? })
    }
}

/// The bytes of a quota file with these entries, each id once.
pub fn build(kind: QuotaType, info: QuotaInfo, entries: &[QuotaEntry]) -> Vec<u8> {
    let mut file = File { bytes: vec![0; 2 * QUOTA_BLOCK_SIZE], last_leaf: None };
    for entry in entries {
        let (leaf, place) = file.place();
        tree::put_entry(&mut file.bytes, QuotaVersion::R1, place, entry);
        file.refer(entry.id, leaf);
    }
    let blocks = low_u32((file.bytes.len() / QUOTA_BLOCK_SIZE) as u64);
    let is_open = file.last_leaf.is_some_and(|(_, used)| used < ENTRIES_PER_LEAF);
    let free_entry = file.last_leaf.filter(|_| is_open).map_or(0, |(leaf, _)| leaf);
    let words = [kind.magic(), 1, info.space_grace, info.inodes_grace, info.flags, blocks, 0, free_entry];
    words.iter().enumerate().for_each(|(index, word)| put32(&mut file.bytes, 4 * index, *word));
    file.bytes
}

/// A file that grows.
struct File {
    bytes: Vec<u8>,
    /// The leaf that is being filled, and the number of its entries.
    last_leaf: Option<(u32, usize)>,
}

impl File {
    fn append(&mut self) -> u32 {
        let number = self.bytes.len() / QUOTA_BLOCK_SIZE;
        self.bytes.resize(self.bytes.len() + QUOTA_BLOCK_SIZE, 0);
        low_u32(number as u64)
    }

    /// A place for one more entry: its leaf, and the byte in the file.
    fn place(&mut self) -> (u32, usize) {
        let open = self.last_leaf.filter(|(_, used)| *used < ENTRIES_PER_LEAF);
        let (leaf, used) = open.unwrap_or_else(|| (self.append(), 0));
        self.last_leaf = Some((leaf, used + 1));
        let start = leaf as usize * QUOTA_BLOCK_SIZE;
        self.bytes[start + 8..start + 10].copy_from_slice(&low_u16(used as u64 + 1).to_le_bytes());
        (leaf, start + LEAF_HEADER + used * ENTRY_SIZE)
    }

    /// Makes the tree lead from `id` to `leaf`.
    fn refer(&mut self, id: u32, leaf: u32) {
        let mut block = QUOTA_TREE_ROOT;
        for level in 0..QUOTA_TREE_DEPTH {
            let index = (id >> (24 - 8 * level)) as usize & 0xFF;
            let at = block as usize * QUOTA_BLOCK_SIZE + 4 * index;
            let below = super::le32(&self.bytes, at).unwrap_or(0);
            let target = match (level + 1 == QUOTA_TREE_DEPTH, below) {
                (true, _) => leaf,
                (false, 0) => self.append(),
                (false, below) => below,
            };
            put32(&mut self.bytes, at, target);
            block = target;
        }
    }
}

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::{entries, references, version};
    use super::*;

    fn block(file: &[u8], number: u32) -> &[u8] {
        &file[number as usize * QUOTA_BLOCK_SIZE..][..QUOTA_BLOCK_SIZE]
    }

    #[test]
    fn every_id_is_found_by_its_bytes() {
        let ids = [0u32, 5, 255, 256, 70_000, 0x0102_0304, u32::MAX];
        let made: Vec<QuotaEntry> = (0..40)
            .map(|index| ids.get(index).copied().unwrap_or(1000 + index as u32))
            .map(|id| QuotaEntry { id, bytes: u64::from(id) * 3, inodes: 7, ..QuotaEntry::default() })
            .collect();
        let file = build(QuotaType::Group, QuotaInfo::default(), &made);
        assert_eq!(version(&file, QuotaType::Group), Some(QuotaVersion::R1));
        assert_eq!(QuotaInfo::of(&file, QuotaType::Group), Some(QuotaInfo::default()));
        for entry in &made {
            let mut number = QUOTA_TREE_ROOT;
            for level in 0..4 {
                let at = (entry.id >> (24 - 8 * level)) as usize & 0xFF;
                assert!(references(block(&file, number)).count() > 0);
                number = super::super::le32(block(&file, number), 4 * at).unwrap_or(0);
            }
            assert!(entries(block(&file, number), QuotaVersion::R1).any(|found| found == *entry));
        }
    }

    #[test]
    fn the_header_counts_blocks_and_names_the_open_leaf() {
        let entry = QuotaEntry { id: 9, ..QuotaEntry::default() };
        let file = build(QuotaType::User, QuotaInfo::default(), &[entry]);
        assert_eq!(file.len(), 6 * QUOTA_BLOCK_SIZE);
        assert_eq!([super::super::le32(&file, 20), super::super::le32(&file, 28)], [Some(6), Some(2)]);
        let empty = build(QuotaType::User, QuotaInfo::default(), &[]);
        assert_eq!([super::super::le32(&empty, 20), super::super::le32(&empty, 28)], [Some(2), Some(0)]);
        let empty = build(QuotaType::User, QuotaInfo::default(), &[QuotaEntry::default()]);
        assert_eq!(entries(block(&empty, 2), QuotaVersion::R1).count(), 1, "root without anything");
    }
}
