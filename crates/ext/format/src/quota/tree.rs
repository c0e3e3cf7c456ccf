// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single entries of a quota file, found, changed and added in place: bytes of one block at a time; who reads and writes blocks is the caller's business.
//!
//! ```text
//! tree block   256 numbers of blocks, by one byte of the id
//! leaf         0 next_free  4 prev_free  8 entries(16)  10 pad(48)  16 places for entries
//! ```
//!
//! Leaves with free places form a list in both directions that begins in `dqi_free_entry` of block 0; blocks that are free altogether one in one direction
//! that begins in `dqi_free_blk`. A place of nothing but zeroes is free.

use super::{LEAF_HEADER, QUOTA_BLOCK_SIZE, QuotaEntry, QuotaVersion, entry, le32};

/// Bytes that an entry takes.
pub fn entry_size(version: QuotaVersion) -> usize {
    match version {
        QuotaVersion::R0 => 48,
        QuotaVersion::R1 => 72,
    }
}

/// Places for entries in a leaf.
pub fn places(version: QuotaVersion) -> usize {
    (QUOTA_BLOCK_SIZE - LEAF_HEADER) / entry_size(version)
}

/// Where in a tree block of `level` (0 is the root) the number of the block below stands that leads to `id`.
pub fn slot(id: u32, level: u32) -> usize {
    4 * ((id >> (24 - 8 * level.min(3))) as usize & 0xFF)
}

/// The number at a byte of a block; 0 beyond its end.
pub fn number(block: &[u8], at: usize) -> u32 {
    le32(block, at).unwrap_or(0)
}

/// Sets the number at a byte of a block; nothing happens beyond its end.
pub fn set_number(block: &mut [u8], at: usize, value: u32) {
    if let Some(place) = block.get_mut(at..at + 4) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

/// Words of block 0.
pub mod head {
    /// `dqi_blocks`: blocks that the file has.
    pub const BLOCKS: usize = 20;
    /// `dqi_free_blk`: the first free block.
    pub const FREE_BLOCK: usize = 24;
    /// `dqi_free_entry`: the first leaf with a free place.
    pub const FREE_ENTRY: usize = 28;
}

/// Words of the header of a leaf, or of a free block.
pub mod leaf {
    /// The next one on the list.
    pub const NEXT: usize = 0;
    /// The one before it on the list.
    pub const PREVIOUS: usize = 4;
}

/// How many entries a leaf says that it has.
pub fn count(leaf: &[u8]) -> u16 {
    leaf.get(8..10).map_or(0, |half| u16::from_le_bytes([half[0], half[1]]))
}

/// Sets that count.
pub fn set_count(leaf: &mut [u8], count: u16) {
    if let Some(place) = leaf.get_mut(8..10) {
        place.copy_from_slice(&count.to_le_bytes());
    }
}

fn is_free(record: &[u8]) -> bool {
    record.iter().all(|byte| *byte == 0)
}

/// Where in a leaf the entry of `id` stands.
pub fn find(leaf: &[u8], version: QuotaVersion, id: u32) -> Option<usize> {
    let size = entry_size(version);
    let records = leaf.get(LEAF_HEADER..)?.chunks_exact(size);
    let at = records.enumerate().find(|(_, record)| !is_free(record) && le32(record, 0) == Some(id))?.0;
    Some(LEAF_HEADER + at * size)
}

/// Where in a leaf there is a free place.
pub fn free_place(leaf: &[u8], version: QuotaVersion) -> Option<usize> {
    let size = entry_size(version);
    let at = leaf.get(LEAF_HEADER..)?.chunks_exact(size).position(is_free)?;
    Some(LEAF_HEADER + at * size)
}

/// The entry at a byte of a leaf.
pub fn entry_at(leaf: &[u8], version: QuotaVersion, at: usize) -> Option<QuotaEntry> {
    let mut found = entry(leaf.get(at..at + entry_size(version))?, version)?;
    // What would be a free place otherwise has a meaningless grace time.
    let mut marked = QuotaEntry::default();
    marked.limits.inodes_grace_end = 1;
    if found == marked {
        found = QuotaEntry::default();
    }
    Some(found)
}

/// Writes an entry at a byte of a leaf; tells whether it could be, for the older version has narrower limits and counts.
pub fn put_entry(leaf: &mut [u8], version: QuotaVersion, at: usize, entry: &QuotaEntry) -> bool {
    let Some(place) = leaf.get_mut(at..at + entry_size(version)) else { return false };
    let limits = &entry.limits;
    // An entry of nothing but zeroes would be a free place.
    let inodes_grace_end = if *entry == QuotaEntry::default() { 1 } else { limits.inodes_grace_end };
    let id = u64::from(entry.id);
    match version {
        QuotaVersion::R1 => {
            let words = [
                id,
                limits.inodes_hard,
                limits.inodes_soft,
                entry.inodes,
                limits.kib_hard,
                limits.kib_soft,
                entry.bytes,
                limits.kib_grace_end,
                inodes_grace_end,
            ];
            place.chunks_exact_mut(8).zip(words).for_each(|(place, word)| {
                place.copy_from_slice(&word.to_le_bytes());
            });
            true
        }
        QuotaVersion::R0 => {
            let halves =
                [id, limits.inodes_hard, limits.inodes_soft, entry.inodes, limits.kib_hard, limits.kib_soft];
            let Ok(halves) = halves.map(u32::try_from).into_iter().collect::<Result<Vec<u32>, _>>() else {
                return false;
            };
            place.chunks_exact_mut(4).zip(halves).for_each(|(place, half)| {
                place.copy_from_slice(&half.to_le_bytes());
            });
            let words = [entry.bytes, limits.kib_grace_end, inodes_grace_end];
            place[24..].chunks_exact_mut(8).zip(words).for_each(|(place, word)| {
                place.copy_from_slice(&word.to_le_bytes());
            });
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{QuotaLimits, entries};
    use super::*;

    #[test]
    fn entries_of_both_versions_come_back() {
        let limits = QuotaLimits {
            inodes_hard: 9,
            inodes_soft: 8,
            kib_hard: 7,
            kib_soft: 6,
            kib_grace_end: 5,
            inodes_grace_end: 4,
        };
        let all = [
            QuotaEntry::default(),
            QuotaEntry { id: 7, ..QuotaEntry::default() },
            QuotaEntry { id: 70_000, bytes: 1 << 40, inodes: 3, limits },
        ];
        for version in [QuotaVersion::R0, QuotaVersion::R1] {
            let mut block = [0; QUOTA_BLOCK_SIZE];
            for entry in &all {
                let at = free_place(&block, version).unwrap_or(0);
                assert!(put_entry(&mut block, version, at, entry));
                assert_eq!(find(&block, version, entry.id), Some(at));
                assert_eq!(entry_at(&block, version, at), Some(*entry));
            }
            assert_eq!(entries(&block, version).count(), 3, "also the one of zeroes");
            assert_eq!(find(&block, version, 8), None);
        }
    }

    #[test]
    fn a_leaf_has_room_for_as_many_as_it_has_places() {
        for version in [QuotaVersion::R0, QuotaVersion::R1] {
            let mut block = [0; QUOTA_BLOCK_SIZE];
            let mut id = 1;
            while let Some(at) = free_place(&block, version) {
                assert!(put_entry(&mut block, version, at, &QuotaEntry { id, ..QuotaEntry::default() }));
                id += 1;
            }
            assert_eq!(id as usize - 1, places(version));
        }
        let wide = QuotaEntry { inodes: 1 << 32, ..QuotaEntry::default() };
        assert!(!put_entry(&mut [0; QUOTA_BLOCK_SIZE], QuotaVersion::R0, 16, &wide), "too many to be said");
    }

    #[test]
    fn ids_lead_down_byte_by_byte() {
        assert_eq!([0, 1, 2, 3].map(|level| slot(0x0102_03FF, level)), [4, 8, 12, 1020]);
        let mut block = [0; 8];
        set_number(&mut block, 4, 77);
        set_number(&mut block, 6, 99);
        assert_eq!((number(&block, 4), number(&block, 8)), (77, 0));
    }
}
