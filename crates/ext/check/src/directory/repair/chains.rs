// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changing the records of a directory on the overlay, chain by chain.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_ext_format::checksum::{self, LEAF_TAIL_SIZE, has_leaf_tail};
use fsmend_ext_format::directory::{ENTRY_LEN_MIN, Entry, EntryHeader, entries_len, file_type};
use fsmend_ext_format::htree::RootInfo;

use crate::Fs;
use crate::directory::params::DirectoryParams;
use crate::directory::{Directory, inline, leaf};
use crate::inline_data::{I_BLOCK_RANGE, settle_hash};
use crate::repair::{RepairContext, Writes, seal_inode};

/// Calls `change` for the records of each block (or each part of the inode) of `directory`, with whether they begin with `.` and
/// `..`; it says whether it changed any. Where it did, they are written.
pub(super) fn change(
    context: &RepairContext<'_>,
    directory: &Directory,
    params: &DirectoryParams,
    change: &mut dyn FnMut(&mut [u8], bool) -> bool,
) {
    for (place, bytes) in changed(&context.fs, directory, params, change) {
        context.overlay.put(place, bytes);
    }
}

/// The same; what has to be written is returned.
pub(super) fn changed(
    fs: &Fs<'_>,
    directory: &Directory,
    params: &DirectoryParams,
    change: &mut dyn FnMut(&mut [u8], bool) -> bool,
) -> Writes {
    let mut writes = Writes::new();
    if directory.inline {
        let mut record = directory.record.clone();
        let Some(data) = inline::gather(&record) else { return writes };
        let mut changed = false;
        for (_, area) in data.filled() {
            changed |= record.get_mut(area).is_some_and(|bytes| change(bytes, false));
        }
        if changed {
            settle_hash(&mut record);
            put_record(fs, directory.inode, record, &mut writes);
        }
        return writes;
    }
    for run in &directory.runs {
        for within in 0..u64::from(run.count) {
            let block = BlockNo(run.physical.saturating_add(within));
            change_block(fs, params, (block, run.logical + within == 0), change, &mut writes);
        }
    }
    writes
}

/// Puts the right checksum into a record that was changed, which is to be written.
fn put_record(fs: &Fs<'_>, inode: InodeNo, mut record: Vec<u8>, writes: &mut Writes) {
    seal_inode(fs, inode, &mut record);
    writes.extend(fs.inode_offset(inode).map(|place| (place, record)));
}

fn change_block(
    fs: &Fs<'_>,
    params: &DirectoryParams,
    (block, first): (BlockNo, bool),
    change: &mut dyn FnMut(&mut [u8], bool) -> bool,
    writes: &mut Writes,
) {
    let place = fs.block_offset(block);
    // A map that is wrong may lead to one block twice.
    let changed_before = writes.get(&place).cloned();
    let Some(mut bytes) = changed_before.or_else(|| fs.read_block(block).ok()) else { return };
    let is_root = first && params.index_flag;
    let has_tail = !is_root && params.checksum_seed.is_some() && has_leaf_tail(&bytes);
    let end = match params.tail_generation {
        Some(_) if !is_root => entries_len(&bytes, fs.geometry.features),
        _ => bytes.len() - if has_tail { LEAF_TAIL_SIZE } else { 0 },
    };
    if !change(&mut bytes[..end], first) {
        return;
    }
    match (params.checksum_seed, RootInfo::parse(&bytes)) {
        (Some(seed), Some(info)) if is_root => checksum::seal_htree(seed, &mut bytes, info.count_offset()),
        _ => {
            leaf::seal(&mut bytes, params, first);
        }
    }
    writes.insert(place, bytes);
}

/// What has to be written to make `..` lead to `parent`.
pub(super) fn with_parent(fs: &Fs<'_>, inode: InodeNo, parent: InodeNo) -> Writes {
    let mut writes = Writes::new();
    let Some(mut directory) = Directory::open(fs, inode) else { return writes };
    if directory.inline {
        directory.record[I_BLOCK_RANGE.start..I_BLOCK_RANGE.start + 4]
            .copy_from_slice(&parent.0.to_le_bytes());
        put_record(fs, inode, directory.record, &mut writes);
        return writes;
    }
    let params = DirectoryParams::of(fs, &directory);
    let layout = params.layout;
    directory.runs.truncate(1);
    directory.runs.iter_mut().for_each(|run| run.count = run.count.min(1));
    changed(fs, &directory, &params, &mut |bytes, first| {
        let at = EntryHeader::at(bytes, 0, layout).map_or(ENTRY_LEN_MIN, |dot| dot.rec_len);
        let is_there = first && Entry::at(bytes, at, layout, true).is_ok_and(|entry| entry.name == b"..");
        let Some(header) = EntryHeader::at(bytes, at, layout).filter(|_| is_there) else { return false };
        let file_type = if params.file_types { file_type::DIRECTORY } else { file_type::UNKNOWN };
        EntryHeader { inode: parent.0, file_type, ..header }.store(bytes, at, layout);
        true
    })
}
