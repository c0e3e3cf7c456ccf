// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks that hold entries and that no directory leads to: those of lost directories, and older copies in the journal.

use std::collections::BTreeSet;
use std::ops::Range;

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_ext_format::checksum::{directory_leaf, has_leaf_tail, inode_seed};
use fsmend_ext_format::directory::{Entries, Entry, EntryLayout, entries_len};
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode};

use super::layout;
use crate::Fs;
use crate::directory::entry::has_invalid_character;
use crate::journal::copies::visit_copies;
use crate::journal::map;
use crate::journal::replay_overlay::ReplayOverlay;

/// Blocks that are read of each kind at most: what nothing owns, the journal, lost directories.
const READS_MAX: u64 = 16_384;
/// `eh_depth` in `i_block`.
const EXTENT_DEPTH: Range<usize> = 6..8;
/// Bytes of `i_block` that name data blocks, in a map without extents.
const DIRECT_BYTES: usize = 12 * 4;

/// A block that looks as if it belonged to a directory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Copy {
    /// Where it lies.
    pub block: u64,
    /// Which block it is an older copy of, in the journal.
    pub of: Option<u64>,
    /// The directory, if that is known.
    pub own: Option<InodeNo>,
}

/// What the first records of a block say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Opening {
    /// Who `.` leads to, in a first block.
    pub own: Option<InodeNo>,
}

/// What the beginning of `bytes` says, if they are a block of a directory: one that begins with `.` and `..`, or a sound chain with
/// names in it.
pub(super) fn opening(fs: &Fs<'_>, bytes: &[u8]) -> Option<Opening> {
    let layout = layout(fs);
    let end = entries_len(bytes, fs.geometry.features);
    let is_inode = |number: u32| number != 0 && number <= fs.geometry.inodes_count;
    let mut entries = Entries::new(bytes, layout, true).flatten();
    if let (Some(dot), Some(dot_dot)) = (entries.next(), entries.next())
        && (dot.name, dot_dot.name) == (b".", b"..")
        && is_inode(dot.header.inode)
        && is_inode(dot_dot.header.inode)
    {
        return Some(Opening { own: Some(InodeNo(dot.header.inode)) });
    }
    let can_be = |entry: &Entry<'_>| {
        entry.header.inode == 0
            || is_inode(entry.header.inode) && !entry.name.is_empty() && !has_invalid_character(entry.name)
    };
    let mut names = 0;
    for entry in Entries::new(bytes.get(..end)?, layout, false) {
        let entry = entry.ok().filter(can_be)?;
        names += u32::from(entry.header.inode != 0);
    }
    (names > 0).then_some(Opening { own: None })
}

/// Blocks of directories among `runs` (first block and number), which nothing owns though they are marked in use.
pub(super) fn unowned(fs: &Fs<'_>, runs: &[(u64, u64)], found: &mut BTreeSet<Copy>) {
    let mut left = READS_MAX;
    for (start, count) in runs {
        let count = (*count).min(left);
        left -= count;
        fs.visit_blocks(*start, count, &mut |block, bytes| {
            if let Some(Opening { own }) = opening(fs, bytes) {
                found.insert(Copy { block, of: None, own });
            }
        });
    }
}

/// Blocks of directories in the journal.
pub(super) fn journaled(fs: &Fs<'_>, found: &mut BTreeSet<Copy>) {
    visit_copies(fs, READS_MAX, &mut |copy, bytes| {
        if let Some(Opening { own }) = opening(fs, bytes) {
            found.insert(Copy { block: copy.place, of: Some(copy.of), own });
        }
    });
}

/// Blocks of `directories` that will be none after the repair, as far as their records alone still tell them. (Deeper maps would take
/// reads without end where many records are garbage; what they lead to has no owner, and found as that.)
pub(super) fn of_lost(fs: &Fs<'_>, directories: &BTreeSet<InodeNo>, found: &mut BTreeSet<Copy>) {
    let (mut left, overlay) = (READS_MAX, ReplayOverlay::new(fs));
    for inode in directories {
        let Some(Ok(record)) = fs.read_inode(*inode) else { continue };
        let mut raw = RawInode::from_record(&record);
        let is_mapped = !raw.has_flag(InodeFlags::INLINE_DATA) && raw.file_type() != mode::SYMLINK;
        if !is_mapped || left == 0 {
            continue;
        }
        if raw.has_flag(InodeFlags::EXTENTS) && raw.i_block.get(EXTENT_DEPTH) != Some(&[0, 0]) {
            continue;
        }
        if !raw.has_flag(InodeFlags::EXTENTS) {
            raw.i_block[DIRECT_BYTES..].fill(0);
        }
        let runs = map::read(&overlay, &raw).runs;
        let mut blocks = runs.iter().flat_map(|run| (0..u64::from(run.count)).map(|at| run.physical + at));
        let is_own = |block: u64| {
            let bytes = fs.read_block(BlockNo(block)).ok()?;
            (opening(fs, &bytes)?.own? == *inode).then_some(())
        };
        left -= 1;
        let Some(first) = blocks.next().filter(|first| is_own(*first).is_some()) else { continue };
        for block in std::iter::once(first).chain(blocks).take(width::index(left)) {
            left -= 1;
            let Ok(bytes) = fs.read_block(BlockNo(block)) else { continue };
            if opening(fs, &bytes).is_some() {
                found.insert(Copy { block, of: None, own: Some(*inode) });
            }
        }
    }
}

/// Whose block `bytes` is by its checksum, among `directories`. `left` is how many may still be tried.
pub(super) fn owner_by_checksum(
    fs: &Fs<'_>,
    bytes: &[u8],
    directories: &BTreeSet<InodeNo>,
    left: &mut usize,
) -> Option<InodeNo> {
    if !fs.geometry.features.metadata_csum() || !has_leaf_tail(bytes) {
        return None;
    }
    for inode in directories {
        *left = left.checked_sub(1)?;
        let record = fs.read_inode(*inode)?.unwrap_or_default();
        let generation = RawInode::from_record(&record).i_generation.get();
        let seed = inode_seed(fs.geometry.checksum_seed, *inode, generation);
        if directory_leaf(seed, bytes).is_some_and(|checked| checked.is_right()) {
            return Some(*inode);
        }
    }
    None
}

/// Whether a first block is the root of an index: behind `..` stand no names, not even deleted ones.
pub(super) fn is_index_root(bytes: &[u8], layout: EntryLayout) -> bool {
    let mut entries = Entries::new(bytes, layout, true).flatten();
    let reaches_end = entries.nth(1).is_some_and(|entry| entry.offset + entry.header.rec_len == bytes.len());
    reaches_end && bytes.get(24..28) == Some(&[0; 4]) && bytes.get(29) == Some(&8)
}
