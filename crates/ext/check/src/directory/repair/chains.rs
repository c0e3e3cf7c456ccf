//! Changing the records of a directory on the draft, chain by chain.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_ext_format::checksum::{self, LEAF_TAIL_SIZE, has_leaf_tail};
use fsmend_ext_format::directory::{ENTRY_LEN_MIN, Entry, EntryHeader, entries_len, file_type};
use fsmend_ext_format::htree::RootInfo;

use crate::directory::nature::Nature;
use crate::directory::{Directory, inline, leaf};
use crate::inline_data::{I_BLOCK_RANGE, settle_hash};
use crate::repair::Mender;

/// Calls `change` for the records of each block (or each part of the inode) of `directory`, with whether they begin with `.` and
/// `..`; it says whether it changed any. Where it did, they are written.
pub(super) fn change(
    mender: &Mender<'_>,
    directory: &Directory,
    nature: &Nature,
    change: &mut dyn FnMut(&mut [u8], bool) -> bool,
) {
    if directory.inline {
        let mut record = directory.record.clone();
        let Some(data) = inline::gather(&record) else { return };
        let mut changed = false;
        for (_, area) in data.filled() {
            changed |= record.get_mut(area).is_some_and(|bytes| change(bytes, false));
        }
        if changed {
            settle_hash(&mut record);
            mender.write_inode(directory.inode, &mut record);
        }
        return;
    }
    for run in &directory.runs {
        for within in 0..u64::from(run.count) {
            let block = BlockNo(run.physical.saturating_add(within));
            change_block(mender, nature, block, run.logical + within == 0, change);
        }
    }
}

fn change_block(
    mender: &Mender<'_>,
    nature: &Nature,
    block: BlockNo,
    first: bool,
    change: &mut dyn FnMut(&mut [u8], bool) -> bool,
) {
    let Ok(mut bytes) = mender.read_block(block) else { return };
    let is_root = first && nature.index_flag;
    let has_tail = !is_root && nature.checksum_seed.is_some() && has_leaf_tail(&bytes);
    let end = match nature.tail_generation {
        Some(_) if !is_root => entries_len(&bytes, mender.fs.geometry.features),
        _ => bytes.len() - if has_tail { LEAF_TAIL_SIZE } else { 0 },
    };
    if !change(&mut bytes[..end], first) {
        return;
    }
    match (nature.checksum_seed, RootInfo::parse(&bytes)) {
        (Some(seed), Some(info)) if is_root => checksum::seal_htree(seed, &mut bytes, info.count_offset()),
        _ => {
            leaf::seal(&mut bytes, nature, first);
        }
    }
    mender.write_block(block, &bytes);
}

/// Makes `..` lead to `parent`.
pub(super) fn set_parent(mender: &Mender<'_>, inode: InodeNo, parent: InodeNo) {
    let Some(mut directory) = Directory::open(&mender.fs, inode) else { return };
    if directory.inline {
        directory.record[I_BLOCK_RANGE.start..I_BLOCK_RANGE.start + 4]
            .copy_from_slice(&parent.0.to_le_bytes());
        mender.write_inode(inode, &mut directory.record);
        return;
    }
    let nature = Nature::of(&mender.fs, &directory);
    let layout = nature.layout;
    directory.runs.truncate(1);
    directory.runs.iter_mut().for_each(|run| run.count = run.count.min(1));
    change(mender, &directory, &nature, &mut |bytes, first| {
        let at = EntryHeader::at(bytes, 0, layout).map_or(ENTRY_LEN_MIN, |dot| dot.rec_len);
        let is_there = first && Entry::at(bytes, at, layout, true).is_ok_and(|entry| entry.name == b"..");
        let Some(header) = EntryHeader::at(bytes, at, layout).filter(|_| is_there) else { return false };
        let file_type = if nature.file_types { file_type::DIRECTORY } else { file_type::UNKNOWN };
        EntryHeader { inode: parent.0, file_type, ..header }.store(bytes, at, layout);
        true
    });
}
