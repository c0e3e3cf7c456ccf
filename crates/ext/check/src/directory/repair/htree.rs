// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names laid out in blocks by their hashes, with an index.
//!
//! Block 0 is the root, then come the leaves, then the inner nodes, level by level from the bottom. Leaves are filled up to four
//! fifths, so that there is space for the next names.

use fsmend_base::width;
use fsmend_ext_format::directory::EntryHeader;
use fsmend_ext_format::htree::{
    INDEX_ENTRY_LEN, IndexEntry, NODE_COUNT_OFFSET, ROOT_INFO_LEN, ROOT_INFO_OFFSET, expected_limit,
    hash_version,
};
use fsmend_ext_format::{casefold, checksum};

use super::contents::Contents;
use super::linear::BlockWriter;
use crate::Fs;
use crate::directory::hashing::NameHasher;
use crate::directory::leaf;
use crate::directory::params::DirectoryParams;

/// Part of a leaf that stays free, if there is room enough.
const SPARE_PART: usize = 5;

/// The names of a directory, sorted for an index.
pub(super) struct Sorted {
    version: u8,
    /// Hashes, major and minor in one word, with the numbers of the names that have them; ascending.
    names: Vec<(u64, usize)>,
}

impl Sorted {
    /// `None` when there can be no index: no hashes.
    pub fn of(fs: &Fs<'_>, params: &DirectoryParams, contents: &Contents) -> Option<Self> {
        let version = version(fs, params);
        Some(Sorted { version, names: sorted(fs, params, contents, version)? })
    }

    /// The blocks of the directory with its index, with room in its leaves or without. `None` when there are too many names.
    pub fn blocks(
        &self,
        params: &DirectoryParams,
        contents: &Contents,
        is_roomy: bool,
    ) -> Option<Vec<Vec<u8>>> {
        let spare = if is_roomy { leaf::capacity(params) / SPARE_PART } else { 0 };
        build(params, contents, self, spare)
    }
}

/// Hashes names as new indexes do, and nearly always those that there were.
pub(super) fn hasher(fs: &Fs<'_>, params: &DirectoryParams) -> NameHasher {
    NameHasher::new(fs, version(fs, params))
}

/// The version that new indexes have.
fn version(fs: &Fs<'_>, params: &DirectoryParams) -> u8 {
    match fs.superblock.s_def_hash_version {
        _ if params.layout.hash_behind_name => hash_version::SIPHASH,
        version @ hash_version::LEGACY..=hash_version::TEA => version,
        _ => hash_version::HALF_MD4,
    }
}

fn sorted(
    fs: &Fs<'_>,
    params: &DirectoryParams,
    contents: &Contents,
    version: u8,
) -> Option<Vec<(u64, usize)>> {
    let mut hasher = NameHasher::new(fs, version);
    let mut sorted = Vec::with_capacity(contents.len());
    for (index, name) in contents.iter().enumerate() {
        if params.casefold && !params.layout.hash_behind_name && !casefold::is_valid(name.name) {
            // Kernel and tools differ in how they hash a name that cannot be folded.
            return None;
        }
        let (major, minor) = hasher.hash(params, name.name, name.hash)?;
        sorted.push((u64::from(major & !1) << 32 | u64::from(minor), index));
    }
    sorted.sort_unstable();
    Some(sorted)
}

fn build(
    params: &DirectoryParams,
    contents: &Contents,
    sorted: &Sorted,
    spare: usize,
) -> Option<Vec<Vec<u8>>> {
    let mut blocks = vec![Vec::new()];
    let mut entries = leaves(params, contents, &sorted.names, spare, &mut blocks);
    let block_size = params.layout.block_size as usize;
    let root_offset = ROOT_INFO_OFFSET + usize::from(ROOT_INFO_LEN);
    let in_root = usize::from(expected_limit(block_size, root_offset, params.index_tail));
    let in_node = usize::from(expected_limit(block_size, NODE_COUNT_OFFSET, params.index_tail));
    let mut levels = 0;
    while entries.len() > in_root {
        levels += 1;
        if levels >= params.levels_max {
            return None;
        }
        let parts = entries.len().div_ceil(in_node);
        let per_node = entries.len().div_ceil(parts);
        let mut above = Vec::with_capacity(parts);
        for part in entries.chunks(per_node) {
            above.push(IndexEntry { hash: part.first()?.hash, block: u32::try_from(blocks.len()).ok()? });
            blocks.push(node(params, part, in_node));
        }
        entries = above;
    }
    blocks[0] = root(params, contents, sorted.version, levels, &entries, (root_offset, in_root));
    Some(blocks)
}

/// Fills leaves; returns an entry for each.
fn leaves(
    params: &DirectoryParams,
    contents: &Contents,
    sorted: &[(u64, usize)],
    spare: usize,
    blocks: &mut Vec<Vec<u8>>,
) -> Vec<IndexEntry> {
    let mut entries = vec![IndexEntry { hash: 0, block: width::len_u32(blocks.len()) }];
    let mut writer = BlockWriter::new(params);
    let mut previous = None;
    for (hashes, index) in sorted {
        let (hash, name) = ((hashes >> 32) as u32, contents.name(*index));
        if !writer.push(name, spare) {
            if !writer.is_empty() {
                blocks.push(std::mem::replace(&mut writer, BlockWriter::new(params)).finish());
                // Bit 0 says that names with this hash began in the block before.
                let continued = u32::from(previous == Some(hash));
                entries.push(IndexEntry { hash: hash | continued, block: width::len_u32(blocks.len()) });
            }
            // Any name fits into an empty block.
            writer.push(name, 0);
        }
        previous = Some(hash);
    }
    blocks.push(writer.finish());
    entries
}

fn node(params: &DirectoryParams, entries: &[IndexEntry], limit: usize) -> Vec<u8> {
    let mut block = vec![0; params.layout.block_size as usize];
    let free = EntryHeader { inode: 0, rec_len: block.len(), name_len: 0, file_type: 0 };
    free.store(&mut block, 0, params.layout);
    put_entries(&mut block, NODE_COUNT_OFFSET, limit, entries);
    seal(params, &mut block, NODE_COUNT_OFFSET);
    block
}

fn root(
    params: &DirectoryParams,
    contents: &Contents,
    version: u8,
    levels: u8,
    entries: &[IndexEntry],
    (count_offset, limit): (usize, usize),
) -> Vec<u8> {
    let mut block = vec![0; params.layout.block_size as usize];
    let end = block.len();
    leaf::put_dots(&mut block, params, contents.parent, end);
    block[ROOT_INFO_OFFSET..count_offset].copy_from_slice(&[0, 0, 0, 0, version, ROOT_INFO_LEN, levels, 0]);
    put_entries(&mut block, count_offset, limit, entries);
    seal(params, &mut block, count_offset);
    block
}

fn put_entries(block: &mut [u8], count_offset: usize, limit: usize, entries: &[IndexEntry]) {
    for (entry, place) in entries.iter().zip(block[count_offset..].chunks_exact_mut(INDEX_ENTRY_LEN)) {
        place[..4].copy_from_slice(&entry.hash.to_le_bytes());
        place[4..].copy_from_slice(&entry.block.to_le_bytes());
    }
    // Limit and count stand where the first entry has no hash.
    block[count_offset..count_offset + 2].copy_from_slice(&width::len_u16(limit).to_le_bytes());
    block[count_offset + 2..count_offset + 4].copy_from_slice(&width::len_u16(entries.len()).to_le_bytes());
}

fn seal(params: &DirectoryParams, block: &mut [u8], count_offset: usize) {
    // Of an index block, the last bytes are unused: there is always room.
    let end = block.len() - leaf::tail_len(params);
    leaf::put_tail(block, params, end, 0);
    if let Some(seed) = params.checksum_seed {
        checksum::seal_htree(seed, block, count_offset);
    }
}
