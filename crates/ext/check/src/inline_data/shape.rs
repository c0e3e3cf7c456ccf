// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `i_block` looks like, when the flags of an inode contradict each other (extents and inline data at once).
//!
//! Ask in this order: extent tree, inline data, block map; an inode that is none of them is junk.

use fsmend_ext_format::extent::EXTENT_MAGIC;
use fsmend_ext_format::inode::I_BLOCK_LEN;

use crate::Fs;

/// Entries that fit into `i_block` behind a header of 12 bytes. Some writers left room for up to two.
const ROOT_ENTRIES: u16 = 4;

/// Whether `i_block` starts with a sane extent header.
pub fn looks_like_extent_tree(i_block: &[u8; I_BLOCK_LEN]) -> bool {
    let word = |at: usize| u16::from_le_bytes([i_block[at], i_block[at + 1]]);
    let (magic, entries, max) = (word(0), word(2), word(4));
    magic == EXTENT_MAGIC && entries <= max && (ROOT_ENTRIES - 2..=ROOT_ENTRIES).contains(&max)
}

/// Whether all words of `i_block` could be block numbers (or holes).
pub fn looks_like_block_map(fs: &Fs<'_>, i_block: &[u8; I_BLOCK_LEN]) -> bool {
    let (words, _) = i_block.as_chunks::<4>();
    words.iter().all(|word| u64::from(u32::from_le_bytes(*word)) < fs.geometry.blocks_count)
}
