// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names laid out in blocks, one after the other.

use fsmend_base::width;
use fsmend_ext_format::directory::{ENTRY_HEADER_LEN, ENTRY_LEN_MIN, EntryHeader};

use super::contents::{Contents, NameRef};
use crate::directory::leaf;
use crate::directory::params::DirectoryParams;

/// A block that is being filled with names.
pub(super) struct BlockWriter<'n> {
    params: &'n DirectoryParams,
    block: Vec<u8>,
    /// Where the next record begins.
    at: usize,
    /// Where the last one began.
    last: Option<usize>,
}

impl<'n> BlockWriter<'n> {
    /// An empty block.
    pub fn new(params: &'n DirectoryParams) -> Self {
        let block = vec![0; params.layout.block_size as usize];
        BlockWriter { params, block, at: 0, last: None }
    }

    /// A first block: `.` and `..` stand in it.
    pub fn first(params: &'n DirectoryParams, contents: &Contents) -> Self {
        let mut writer = BlockWriter::new(params);
        leaf::put_dots(&mut writer.block, params, contents.parent, 2 * ENTRY_LEN_MIN);
        BlockWriter { at: 2 * ENTRY_LEN_MIN, last: Some(ENTRY_LEN_MIN), ..writer }
    }

    /// Whether no name stands in it.
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Adds a name, where `spare` bytes stay free; `false` when there is no room.
    pub fn push(&mut self, name: NameRef<'_>, spare: usize) -> bool {
        let layout = self.params.layout;
        let rec_len = layout.needed_len(name.name.len(), false);
        if self.at + rec_len + spare > leaf::capacity(self.params) {
            return false;
        }
        let header = EntryHeader {
            inode: name.inode,
            rec_len,
            name_len: width::len_u8(name.name.len()),
            file_type: if self.params.file_types { name.file_type } else { 0 },
        };
        header.store(&mut self.block, self.at, layout);
        let start = self.at + ENTRY_HEADER_LEN;
        self.block[start..start + name.name.len()].copy_from_slice(name.name);
        if let (true, Some((major, minor))) = (layout.hash_behind_name, name.hash) {
            let place = self.at + layout.needed_len(name.name.len(), true);
            self.block[place..place + 4].copy_from_slice(&major.to_le_bytes());
            self.block[place + 4..place + 8].copy_from_slice(&minor.to_le_bytes());
        }
        self.last = Some(self.at);
        self.at += rec_len;
        true
    }

    /// The block, whose last record takes what is left, sealed.
    pub fn finish(mut self) -> Vec<u8> {
        let (layout, end) = (self.params.layout, leaf::capacity(self.params));
        let Some(last) = self.last else { return leaf::empty(self.params, None) };
        if let Some(header) = EntryHeader::at(&self.block, last, layout) {
            EntryHeader { rec_len: end - last, ..header }.store(&mut self.block, last, layout);
        }
        leaf::put_tail(&mut self.block, self.params, end, 0);
        if let Some(seed) = self.params.checksum_seed {
            fsmend_ext_format::checksum::seal_directory_leaf(seed, &mut self.block);
        }
        self.block
    }
}

/// The blocks of a directory without index.
pub(super) fn blocks(params: &DirectoryParams, contents: &Contents) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    let mut writer = BlockWriter::first(params, contents);
    for name in contents.iter() {
        if !writer.push(name, 0) {
            blocks.push(std::mem::replace(&mut writer, BlockWriter::new(params)).finish());
            // Any name fits into an empty block.
            writer.push(name, 0);
        }
    }
    blocks.push(writer.finish());
    blocks
}

/// How many blocks those are.
pub(super) fn blocks_count(params: &DirectoryParams, contents: &Contents) -> usize {
    let (mut count, mut at) = (1, 2 * ENTRY_LEN_MIN);
    for name in contents.iter() {
        let rec_len = params.layout.needed_len(name.name.len(), false);
        if at + rec_len > leaf::capacity(params) {
            (count, at) = (count + 1, 0);
        }
        at += rec_len;
    }
    count
}
