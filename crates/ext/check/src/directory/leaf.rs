// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks of entries as they have to be written: with the checksum record at their end, where the file system has them.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_ext_format::checksum::{self, LEAF_TAIL_SIZE, has_leaf_tail};
use fsmend_ext_format::directory::{ENTRY_HEADER_LEN, ENTRY_LEN_MIN, Entry, EntryHeader, file_type};
use fsmend_ext_format::rext3::{self, DirectoryTail};

use super::params::DirectoryParams;

/// Bytes at the end of a block of entries that hold none.
pub(super) fn tail_len(params: &DirectoryParams) -> usize {
    match (params.tail_generation, params.checksum_seed) {
        (Some(_), _) => rext3::TAIL_SIZE,
        (None, Some(_)) => LEAF_TAIL_SIZE,
        (None, None) => 0,
    }
}

/// Makes room for the tail of a rext3 in `block`, a sound chain of records up to `end`, and puts it there, without a checksum: that
/// takes the place of the block. `false` when the last record cannot make room.
pub(super) fn put_tail(block: &mut [u8], params: &DirectoryParams, end: usize, logical: u32) -> bool {
    let Some(generation) = params.tail_generation else { return true };
    if end == block.len() && !make_room(block, params, logical == 0) {
        return false;
    }
    DirectoryTail { inode: params.inode, generation, logical }.seal(0, BlockNo(0), block);
    true
}

/// Seals `block`, a sound chain of records (but for a checksum record that is there already). Where there is none, the last record
/// makes room for it; `false` when it cannot.
pub(super) fn seal(block: &mut [u8], params: &DirectoryParams, first: bool) -> bool {
    let Some(seed) = params.checksum_seed else { return true };
    if !has_leaf_tail(block) && !make_room(block, params, first) {
        return false;
    }
    checksum::seal_directory_leaf(seed, block);
    true
}

/// Shortens the last record by the length of a checksum record, or of a tail.
fn make_room(block: &mut [u8], params: &DirectoryParams, first: bool) -> bool {
    let layout = params.layout;
    let Some((at, header, index)) = last_record(block, params, first) else { return false };
    let is_dot = first && index < 2;
    let tail = tail_len(params);
    if header.rec_len == tail && header.inode == 0 && !is_dot {
        return true;
    }
    let needed = match header.inode {
        0 => ENTRY_LEN_MIN,
        _ => layout.needed_len(usize::from(header.name_len), is_dot),
    };
    let rec_len = header.rec_len.saturating_sub(tail);
    if rec_len < needed {
        return false;
    }
    EntryHeader { rec_len, ..header }.store(block, at, layout);
    true
}

/// Offset of the record that ends with the block, if it is free and named `.`: the kernel would not read the directory.
pub(super) fn free_dot(block: &[u8], params: &DirectoryParams, first: bool) -> Option<usize> {
    let (at, header, index) = last_record(block, params, first)?;
    let is_dot = header.inode == 0 && header.name_len == 1 && block.get(at + ENTRY_HEADER_LEN) == Some(&b'.');
    (is_dot && !(first && index < 2)).then_some(at)
}

/// Takes the name of the record at `at` away.
pub(super) fn take_name(block: &mut [u8], at: usize, params: &DirectoryParams) {
    if let Some(header) = EntryHeader::at(block, at, params.layout) {
        EntryHeader { name_len: 0, ..header }.store(block, at, params.layout);
    }
}

/// Offset, header and number of the record that ends with the block.
fn last_record(block: &[u8], params: &DirectoryParams, first: bool) -> Option<(usize, EntryHeader, u32)> {
    let (mut at, mut index) = (0, 0);
    loop {
        let entry = Entry::at(block, at, params.layout, first && index < 2).ok()?;
        if at + entry.header.rec_len == block.len() {
            return Some((at, entry.header, index));
        }
        at += entry.header.rec_len;
        index += 1;
    }
}

/// How many bytes of a block can hold entries.
pub(super) fn capacity(params: &DirectoryParams) -> usize {
    params.layout.block_size as usize - tail_len(params)
}

/// A block without names; the first one of a directory begins with `.` and `..`, which leads to `parent`.
pub(super) fn empty(params: &DirectoryParams, parent: Option<InodeNo>) -> Vec<u8> {
    let mut block = vec![0; params.layout.block_size as usize];
    let end = capacity(params);
    match parent {
        Some(parent) => put_dots(&mut block, params, parent, end),
        None => {
            EntryHeader { inode: 0, rec_len: end, name_len: 0, file_type: 0 }.store(
                &mut block,
                0,
                params.layout,
            );
        }
    }
    put_tail(&mut block, params, end, 0);
    if let Some(seed) = params.checksum_seed {
        checksum::seal_directory_leaf(seed, &mut block);
    }
    block
}

/// Puts `.` and `..` at the start of a block whose records end at `end`.
pub(super) fn put_dots(block: &mut [u8], params: &DirectoryParams, parent: InodeNo, end: usize) {
    let file_type = if params.file_types { file_type::DIRECTORY } else { file_type::UNKNOWN };
    let dot = EntryHeader { inode: params.inode.0, rec_len: ENTRY_LEN_MIN, name_len: 1, file_type };
    dot.store(block, 0, params.layout);
    let dot_dot = EntryHeader { inode: parent.0, rec_len: end - ENTRY_LEN_MIN, name_len: 2, file_type };
    dot_dot.store(block, ENTRY_LEN_MIN, params.layout);
    block[ENTRY_HEADER_LEN..ENTRY_LEN_MIN].copy_from_slice(b".\0\0\0");
    block[ENTRY_LEN_MIN + ENTRY_HEADER_LEN..2 * ENTRY_LEN_MIN].copy_from_slice(b"..\0\0");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::testing::params;
    use fsmend_ext_format::directory::Entries;

    #[test]
    fn an_empty_block_is_sound() {
        let params = params();
        for parent in [None, Some(InodeNo(2))] {
            let block = empty(&params, parent);
            assert!(checksum::directory_leaf(9, &block).is_some_and(|checked| checked.is_right()));
            let body = &block[..capacity(&params)];
            let names: Vec<_> = Entries::new(body, params.layout, parent.is_some()).flatten().collect();
            assert_eq!(names.len(), if parent.is_some() { 2 } else { 1 });
        }
    }

    #[test]
    fn the_last_record_makes_room_for_a_checksum() {
        let mut params = params();
        let seed = params.checksum_seed.take();
        let mut block = empty(&params, None);
        params.checksum_seed = seed;
        assert!(seal(&mut block, &params, false) && has_leaf_tail(&block));
        assert_eq!(last_record(&block[..capacity(&params)], &params, false).map(|last| last.0), Some(0));
    }

    #[test]
    fn a_long_name_makes_none() {
        let params = params();
        let mut block = vec![b'x'; 1024];
        let header = EntryHeader { inode: 12, rec_len: 768, name_len: 255, file_type: 1 };
        header.store(&mut block, 0, params.layout);
        let header = EntryHeader { inode: 12, rec_len: 256, name_len: 245, file_type: 1 };
        header.store(&mut block, 768, params.layout);
        let before = block.clone();
        assert!(!seal(&mut block, &params, false));
        assert_eq!(block, before);
    }
}
