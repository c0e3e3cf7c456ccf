// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many inodes a group has, where the superblock says it twice and the two disagree: the inode bitmaps know. Behind the last inode of its
//! group a bitmap is filled with ones; to believe a number that is too large takes what lies behind the tables for inodes.

use fsmend_base::{BlockNo, width};
use fsmend_device::Device;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::group::GroupFlags;
use fsmend_ext_format::inode::RawInode;

use super::descriptors::{Slot, copy_of_block, read_blocks};

/// So many groups are asked.
const GROUPS_MAX: usize = 64;
/// This part of the inodes in question has to be free in a bitmap that speaks for the larger number: a few zeroes among ones may be damage.
const FREE_PART: u32 = 8;

/// The inodes of a group that a total of `total` in `groups` groups makes, where that is not what `geometry` says and the bitmaps of the groups
/// bear it out: at least one of them, and none speaks against it.
pub fn told_inodes_per_group(
    device: &dyn Device,
    geometry: &Geometry,
    (total, groups): (u64, u64),
) -> Option<u32> {
    let per_group = u32::try_from(total.checked_div(groups)?).ok()?;
    let fills_blocks =
        (u64::from(per_group) * u64::from(geometry.inode_size)).is_multiple_of(geometry.block_size.into());
    let can_be = per_group != 0
        && per_group.is_multiple_of(8)
        && per_group <= geometry.block_size.saturating_mul(8)
        && total.is_multiple_of(groups)
        && fills_blocks;
    if !can_be || per_group == geometry.inodes_per_group {
        return None;
    }
    let in_question = (per_group.min(geometry.inodes_per_group), per_group.max(geometry.inodes_per_group));
    let slots = copy_of_block(device, geometry, 0, 0)?.take(GROUPS_MAX);
    let votes: Vec<bool> =
        slots.filter_map(|(_, slot)| has_more(device, geometry, &slot, in_question)).collect();
    let is_more = per_group > geometry.inodes_per_group;
    (!votes.is_empty() && votes.iter().all(|vote| *vote == is_more)).then_some(per_group)
}

/// Whether a group has inodes from number `low` to `high` of its own; `None` where its bitmap does not tell.
fn has_more(device: &dyn Device, geometry: &Geometry, slot: &Slot, (low, high): (u32, u32)) -> Option<bool> {
    // The bitmap of a group without inodes in use need not have been written.
    let may_be_missing = geometry.features.group_csum() && slot.desc.has_flag(GroupFlags::INODE_UNINIT);
    if !slot.is_credible() || may_be_missing || slot.desc.inode_bitmap == 0 {
        return None;
    }
    let bitmap = read_blocks(device, geometry, BlockNo(slot.desc.inode_bitmap), 1)?;
    let zeroes = |from: u32, to: u32| {
        let bytes = bitmap.get(from as usize / 8..to as usize / 8).unwrap_or_default();
        bytes.iter().map(|byte| byte.count_zeros()).sum::<u32>()
    };
    if zeroes(high, geometry.block_size.saturating_mul(8)) > 0 {
        // That is no bitmap, or one of those that are not filled up.
        return None;
    }
    match zeroes(low, high) {
        0 => (!all_are_in_use(device, geometry, slot.desc.inode_table, (low, high))?).then_some(false),
        free => (free >= (high - low) / FREE_PART).then_some(true),
    }
}

/// Whether the records from number `low` to `high` of a table, as far as the first and the last block with any of them tell, all look like inodes in
/// use.
fn all_are_in_use(
    device: &dyn Device,
    geometry: &Geometry,
    table: u64,
    (low, high): (u32, u32),
) -> Option<bool> {
    let size = u64::from(geometry.inode_size);
    let block_of = |index: u32| {
        let within = u64::from(index) * size / u64::from(geometry.block_size);
        table.checked_add(within).filter(|_| table != 0)
    };
    let mut all = true;
    for block in [block_of(low)?, block_of(high - 1)?] {
        let bytes = read_blocks(device, geometry, BlockNo(block), 1)?;
        all &= bytes.chunks_exact(width::index(size)).all(is_in_use);
    }
    Some(all)
}

/// Whether a record has a type of file, and names.
fn is_in_use(record: &[u8]) -> bool {
    let raw = RawInode::from_record(record);
    let kind = raw.i_mode.get() >> 12;
    matches!(kind, 1 | 2 | 4 | 6 | 8 | 10 | 12) && raw.i_links_count.get() > 0
}
