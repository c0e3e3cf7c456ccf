// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last extent of a file that reaches too far: its length was overwritten, and what lies behind belongs to others.

use fsmend_base::BlockNo;
use fsmend_engine::Row;
use fsmend_ext_format::directory::{Entries, EntryLayout, entries_len};
use fsmend_ext_format::extent::Extent;

use super::order::before_damage;
use super::problems::{BEYOND_SIZE, BEYOND_SPACE, DIRECTORY_BEYOND_SIZE};
use crate::inode::subject::Subject;

/// So many blocks behind the end of a directory are asked whether they are its own.
const WITNESSES: u64 = 16;

/// Where a file ends whose last extent reaches further.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// The first block of the file that is none.
    pub end: u64,
    /// What is said of the extent.
    pub row: &'static Row,
}

/// Where the file ends by two witnesses, if the last of all its extents, `listed`, reaches behind that. One is the size. The other is the number
/// of `blocks` in use for extents, which is right if the last one ends there and wrong if it does not; where the size goes with none of this, the length
/// itself, of which one byte or bit was overwritten, is a witness in its place; of a directory it is, where that number is
/// wrong in both cases, what would come next: most of the next few blocks cannot be of this directory. Space is counted in clusters: where extents begin
/// within one, or both ends lie in the same, nothing is known.
pub(super) fn cut(subject: &Subject<'_, '_>, listed: &[Extent], blocks: Option<u64>) -> Option<Cut> {
    let end = subject.raw.size().div_ceil(subject.block_size());
    let (last, others) = listed.split_last()?;
    let count = u64::from(last.count);
    if let Some(cut) = cut_to_space(subject, last, others, blocks) {
        return Some(cut);
    }
    let room = end.checked_sub(u64::from(last.logical)).filter(|room| (1..count).contains(room))?;
    let cluster = u64::from(subject.fs.geometry.cluster_blocks).max(1);
    let space = |count: u64| count.next_multiple_of(cluster);
    let begins_within = listed.iter().any(|extent| !u64::from(extent.logical).is_multiple_of(cluster));
    if begins_within || space(room) == space(count) || others.iter().any(|extent| extent.logical_end() > end)
    {
        return None;
    }
    let before: u64 = others.iter().map(|extent| space(u64::from(extent.count))).sum();
    if blocks == Some(before + space(room)) {
        return Some(Cut { end, row: &BEYOND_SIZE });
    }
    let is_untold = subject.is_directory() && blocks != Some(before + space(count));
    if !is_untold {
        return None;
    }
    let next = (room..count.min(room + WITNESSES)).map(|at| last.physical.saturating_add(at));
    let (foreign, own): (Vec<u64>, Vec<u64>) = next.partition(|block| is_foreign(subject, *block));
    (foreign.len() > own.len()).then_some(Cut { end, row: &DIRECTORY_BEYOND_SIZE })
}

/// Where a file ends by the space in use and by what the length of its last extent was before one byte or bit of it was overwritten, if that is one
/// and the same, and the size goes with neither length.
fn cut_to_space(
    subject: &Subject<'_, '_>,
    last: &Extent,
    others: &[Extent],
    blocks: Option<u64>,
) -> Option<Cut> {
    if !subject.is_regular() || subject.fs.geometry.cluster_blocks > 1 {
        return None;
    }
    let size_end = subject.raw.size().div_ceil(subject.block_size());
    let before: u64 = others.iter().map(|extent| u64::from(extent.count)).sum();
    let told = blocks?.checked_sub(before).filter(|told| (1..u64::from(last.count)).contains(told))?;
    let end = u64::from(last.logical).checked_add(told)?;
    let is_untold = size_end != end && size_end != last.logical_end();
    let was = before_damage(last.count, u32::try_from(told).ok()?);
    (is_untold && was.map(u64::from) == Some(told)).then_some(Cut { end, row: &BEYOND_SPACE })
}

/// Whether a block cannot be another one than the first of this directory: it holds no chain of names, or one that a directory begins with.
/// What cannot be read tells nothing.
fn is_foreign(subject: &Subject<'_, '_>, block: u64) -> bool {
    let geometry = &subject.fs.geometry;
    if !subject.fs.is_valid_block(BlockNo(block)) || subject.fs.metadata.get(block) {
        return true;
    }
    let Ok(bytes) = subject.fs.read_block(BlockNo(block)) else { return false };
    let layout = EntryLayout { block_size: geometry.block_size, hash_behind_name: false };
    let records = bytes.get(..entries_len(&bytes, geometry.features)).unwrap_or_default();
    let mut entries = Entries::new(records, layout, false);
    match entries.next() {
        Some(Ok(first)) if first.name != b"." || first.header.inode == 0 => {
            entries.any(|entry| entry.is_err())
        }
        _ => true,
    }
}
