// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hashed directory indexes: block 0 is the root, other blocks are inner nodes or leaves (ordinary entry blocks).
//!
//! To code that does not know the index, root and nodes look like entry blocks without entries:
//!
//! ```text
//! root:  "." (12 bytes)  ".." (12 bytes, rec_len covers the rest)  info (8 bytes)  limit, count, block | hash, block | ...
//! node:  free record (8 bytes, rec_len covers the block)                           limit, count, block | hash, block | ...
//! ```
//!
//! The first index entry has no hash: limit and count stand in its place. With `metadata_csum` 8 bytes behind the last
//! possible entry hold the checksum ([`crate::checksum::htree`]).
//!
//! Source: "ext4 Data Structures and Algorithms", hash tree directories.

use crate::features::{Features, Incompat};
use crate::rext3;

/// Where the root's info stands.
pub const ROOT_INFO_OFFSET: usize = 24;
/// Length of the root's info as all implementations write it.
pub const ROOT_INFO_LEN: u8 = 8;
/// Where limit and count stand in a node.
pub const NODE_COUNT_OFFSET: usize = 8;
/// Bytes of an index entry.
pub const INDEX_ENTRY_LEN: usize = 8;
/// Bytes of the checksum behind the entries.
pub const INDEX_TAIL_LEN: usize = 8;
/// Bits of an index entry's block field that are a block number.
pub const BLOCK_MASK: u32 = 0x0FFF_FFFF;
/// `unused_flags`: bits that mean something this implementation does not know.
pub const FLAGS_INCOMPAT: u8 = 0x01;
/// Most levels of nodes (root included) any implementation knows.
pub const LEVELS_MAX: u8 = 3;

/// Hash versions as stored in a root.
pub mod hash_version {
    /// The oldest.
    pub const LEGACY: u8 = 0;
    /// Half MD4.
    pub const HALF_MD4: u8 = 1;
    /// TEA.
    pub const TEA: u8 = 2;
    /// The oldest, with unsigned characters (never stored).
    pub const LEGACY_UNSIGNED: u8 = 3;
    /// Half MD4 with unsigned characters (never stored).
    pub const HALF_MD4_UNSIGNED: u8 = 4;
    /// TEA with unsigned characters (never stored).
    pub const TEA_UNSIGNED: u8 = 5;
    /// SipHash, for encrypted case-insensitive directories only.
    pub const SIPHASH: u8 = 6;
}

/// Most levels of nodes, root included, that the features allow.
pub fn levels_max(features: Features) -> u8 {
    if features.has_incompat(Incompat::LARGEDIR) { LEVELS_MAX } else { LEVELS_MAX - 1 }
}

/// The info of a root block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RootInfo {
    /// Always zero.
    pub reserved_zero: u32,
    /// One of [`hash_version`].
    pub hash_version: u8,
    /// Always 8.
    pub info_length: u8,
    /// Levels of nodes below the root, not counting leaves.
    pub indirect_levels: u8,
    /// Flags.
    pub unused_flags: u8,
}

impl RootInfo {
    /// The info in `block`.
    pub fn parse(block: &[u8]) -> Option<RootInfo> {
        let info: &[u8; 8] = block.get(ROOT_INFO_OFFSET..)?.first_chunk()?;
        Some(RootInfo {
            reserved_zero: u32::from_le_bytes([info[0], info[1], info[2], info[3]]),
            hash_version: info[4],
            info_length: info[5],
            indirect_levels: info[6],
            unused_flags: info[7],
        })
    }

    /// Where limit and count of the root stand.
    pub fn count_offset(&self) -> usize {
        ROOT_INFO_OFFSET + usize::from(self.info_length)
    }
}

/// Whether a hash version may be stored in a root.
pub fn is_known_hash_version(version: u8) -> bool {
    matches!(
        version,
        hash_version::LEGACY | hash_version::HALF_MD4 | hash_version::TEA | hash_version::SIPHASH
    )
}

/// One entry of a root or node: names whose hash is at least `hash` stand below `block`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexEntry {
    /// Smallest hash; bit 0 says that names with this very hash began in the block before.
    pub hash: u32,
    /// Block of the directory.
    pub block: u32,
}

/// The index part of a root or node.
#[derive(Clone, Copy, Debug)]
pub struct IndexBlock<'a> {
    /// How many entries there is room for, as stored.
    pub limit: u16,
    /// How many there are, as stored.
    pub count: u16,
    entries: &'a [u8],
}

impl<'a> IndexBlock<'a> {
    /// The index part of `block` with limit and count at `count_offset`.
    pub fn parse(block: &'a [u8], count_offset: usize) -> Option<IndexBlock<'a>> {
        let entries = block.get(count_offset..)?;
        let head: &[u8; INDEX_ENTRY_LEN] = entries.first_chunk()?;
        let limit = u16::from_le_bytes([head[0], head[1]]);
        let count = u16::from_le_bytes([head[2], head[3]]);
        Some(IndexBlock { limit, count, entries })
    }

    /// The entries, as many as `count` says and the block holds. The first one's hash is 0.
    pub fn entries(&self) -> impl Iterator<Item = IndexEntry> + use<'a> {
        let (records, _) = self.entries.as_chunks::<INDEX_ENTRY_LEN>();
        records.iter().take(usize::from(self.count)).enumerate().map(|(index, record)| IndexEntry {
            hash: if index == 0 {
                0
            } else {
                u32::from_le_bytes([record[0], record[1], record[2], record[3]])
            },
            block: u32::from_le_bytes([record[4], record[5], record[6], record[7]]) & BLOCK_MASK,
        })
    }
}

/// Bytes at the end of index blocks that hold no entries: a checksum, the tail of a rext3, or none.
pub fn tail_len(features: Features) -> usize {
    match features {
        _ if features.rext3() => rext3::TAIL_SIZE,
        _ if features.metadata_csum() => INDEX_TAIL_LEN,
        _ => 0,
    }
}

/// The only right limit of a root or node with limit and count at `count_offset`, whose last `tail` bytes hold no entries.
pub fn expected_limit(block_size: usize, count_offset: usize, tail: usize) -> u16 {
    let room = block_size.saturating_sub(tail).saturating_sub(count_offset);
    u16::try_from(room / INDEX_ENTRY_LEN).unwrap_or(u16::MAX)
}

/// Whether `block` has the shape of a node: one free record over the whole block and the limit of a node.
pub fn looks_like_node(block: &[u8], layout: crate::directory::EntryLayout, tail: usize) -> bool {
    let free = crate::directory::EntryHeader::at(block, 0, layout)
        .is_some_and(|header| header.inode == 0 && header.name_len == 0 && header.rec_len == block.len());
    free && IndexBlock::parse(block, NODE_COUNT_OFFSET)
        .is_some_and(|index| index.limit == expected_limit(block.len(), NODE_COUNT_OFFSET, tail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::EntryLayout;

    #[test]
    fn a_node_is_told_by_its_limit() {
        let layout = EntryLayout { block_size: 1024, hash_behind_name: false };
        let mut block = vec![0; 1024];
        block[4..6].copy_from_slice(&1024u16.to_le_bytes());
        assert!(!looks_like_node(&block, layout, 0));
        block[8..10].copy_from_slice(&127u16.to_le_bytes());
        assert!(looks_like_node(&block, layout, 0) && !looks_like_node(&block, layout, INDEX_TAIL_LEN));
        block[10] = 2;
        block[16..20].copy_from_slice(&0x8000u32.to_le_bytes());
        block[20] = 5;
        let index = IndexBlock::parse(&block, NODE_COUNT_OFFSET);
        let entries: Vec<_> = index.iter().flat_map(IndexBlock::entries).collect();
        assert_eq!(entries, [IndexEntry { hash: 0, block: 0 }, IndexEntry { hash: 0x8000, block: 5 }]);
    }

    #[test]
    fn a_count_beyond_the_block_is_cut() {
        let mut block = [0u8; 64];
        block[10] = 200;
        let index = IndexBlock::parse(&block, NODE_COUNT_OFFSET);
        assert_eq!(index.iter().flat_map(IndexBlock::entries).count(), 7);
        assert!(IndexBlock::parse(&block, 60).is_none());
        assert_eq!(expected_limit(16, 600, INDEX_TAIL_LEN), 0);
    }
}
