// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far a file itself bears out what its map claims.
//!
//! Length of a run, size and space in use are three witnesses. Where the first says more than both of the others, inspection has shortened the
//! run. Where all three disagree, inspection cannot tell, and follows the map; here it is known what that costs: what lies behind
//! the part that size and space in use tell of may be what many other files live in. Those are not copied.

use fsmend_base::InodeNo;
use fsmend_engine::inodes::Kind;
use fsmend_ext_format::inode::InodeFlags;

use crate::inode::{self, Inspection};
use crate::repair::RepairContext;

/// The file block from which on the map of `inode` has both its size and its space in use against it, as they stood before inspection set
/// them right; none where one of them agrees with the map, or where there is no telling.
pub(super) fn limit(context: &RepairContext<'_>, inode: InodeNo, found: &Inspection) -> Option<u64> {
    if found.kind != Kind::Regular || found.inline || context.fs.geometry.hurd {
        return None;
    }
    // One extent is too long, and it is the last. Pointers that lead astray stand anywhere among right ones, which count for the same space.
    let last = found.runs.iter().max_by_key(|run| run.logical)?;
    let end = last.logical + u64::from(last.count);
    if !found.raw().has_flag(InodeFlags::EXTENTS) {
        return None;
    }
    let raw = context.inode_before(inode)?;
    let block_size = u64::from(context.fs.geometry.block_size);
    let used = found.charged_sectors / (block_size / 512);
    let told = inode::size::told(&context.fs, &raw);
    let by_size = raw.size().div_ceil(block_size);
    if told == Some(used) || by_size == end {
        return None;
    }
    let data: u64 = found.runs.iter().map(|run| u64::from(run.count)).sum();
    let by_space =
        told.map_or(end, |told| end_of_first(found, told.saturating_sub(used.saturating_sub(data))));
    let unit = u64::from(context.fs.geometry.cluster_blocks);
    Some(by_size.min(by_space).next_multiple_of(unit)).filter(|limit| (last.logical + 1..end).contains(limit))
}

/// The file block behind the first `count` that are mapped.
fn end_of_first(found: &Inspection, count: u64) -> u64 {
    let (mut left, mut end) = (count, 0);
    for run in &found.runs {
        if left == 0 {
            break;
        }
        let taken = left.min(u64::from(run.count));
        (left, end) = (left - taken, run.logical + taken);
    }
    end
}
