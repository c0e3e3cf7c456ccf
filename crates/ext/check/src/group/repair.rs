// SPDX-License-Identifier: MIT OR Apache-2.0
//! New places for bitmaps and inode tables that have lost theirs.
//!
//! As near as can be: in the group itself, else in its flexible group, else (where that is allowed at all) anywhere. A bitmap is
//! worked out and written later, with those of all other groups; an inode table starts empty.

use fsmend_base::{BlockNo, BlockRange, GroupNo};
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::group::GroupFlags;

use super::descriptors::{self, Slot};
use super::mark;
use super::places::{KINDS, Kind};
use crate::Group;
use crate::repair::RepairContext;

/// Gives every place that is lost a new one. Where there is no room it stays lost, which the next look says.
pub(crate) fn mend(context: &mut RepairContext<'_>) {
    context.backups_lag |= backups_are_wrong(context);
    for group in (0..context.fs.geometry.group_count).map(GroupNo) {
        for kind in KINDS {
            if context.fs.group(group).is_some_and(|group| kind.place(&group.desc) == 0) {
                relocate(context, group, kind);
            }
        }
    }
}

/// Whether there is an inode table that was found where no descriptor says that it is, no backup either.
fn backups_are_wrong(context: &RepairContext<'_>) -> bool {
    let (device, geometry) = (context.fs.device, &context.fs.geometry);
    let slots = descriptors::read_primary(device, geometry);
    let moved = |(slot, group): (&Slot, &Group)| {
        let place = group.desc.inode_table;
        (place != 0 && place != slot.desc.inode_table).then_some(place)
    };
    let mut moves = slots.iter().zip(&context.fs.groups).map(moved).zip(0..);
    moves.any(|(place, number)| {
        let backups = || descriptors::backups(device, geometry, GroupNo(number));
        place.is_some_and(|place| backups().iter().all(|backup| backup.desc.inode_table != place))
    })
}

fn relocate(context: &mut RepairContext<'_>, group: GroupNo, kind: Kind) {
    let geometry = &context.fs.geometry;
    let count = if kind == Kind::InodeTable { u64::from(geometry.inode_table_blocks()) } else { 1 };
    let near = allowed(context, group).into_iter();
    let Some(start) = near.filter_map(|range| context.allocate_within(range, count)).next() else { return };
    let taken = BlockRange::new(start.0, count);
    settle_in(context, taken);
    if kind == Kind::InodeTable {
        let block = vec![0; context.fs.geometry.block_size as usize];
        (taken.start.0..taken.end()).for_each(|at| context.write_block(BlockNo(at), &block));
    }
    let has_marks = context.fs.geometry.features.group_csum();
    let desc = &mut context.fs.groups[group.0 as usize].desc;
    kind.set_place(desc, start.0);
    if kind == Kind::InodeTable && has_marks {
        desc.flags = desc.flags & !GroupFlags::INODE_UNINIT | GroupFlags::INODE_ZEROED;
        desc.itable_unused = 0;
    }
    context.backups_lag = true;
}

/// Makes it known that `taken` holds static metadata from now on.
pub(crate) fn settle_in(context: &mut RepairContext<'_>, taken: BlockRange) {
    mark::set(&context.fs.metadata, taken);
    // A bitmap that was never written stands for the structures that the usual rules place in its group.
    let geometry = &context.fs.geometry;
    let first = geometry.group_of_block(taken.start).map_or(0, |group| group.0);
    let last = geometry.group_of_block(BlockNo(taken.end() - 1)).map_or(first, |group| group.0);
    for host in first..=last {
        context.fs.groups[host as usize].desc.flags &= !GroupFlags::BLOCK_UNINIT;
    }
}

/// Where the structures of `group` may lie, the best first.
fn allowed(context: &RepairContext<'_>, group: GroupNo) -> Vec<BlockRange> {
    let geometry = &context.fs.geometry;
    let mut ranges = vec![geometry.group_blocks(group)];
    if geometry.features.has_incompat(Incompat::FLEX_BG) {
        let groups = 1u32.checked_shl(context.fs.superblock.s_log_groups_per_flex.into()).unwrap_or(u32::MAX);
        let first = group.0 - group.0 % groups.max(1);
        let start = geometry.group_first_block(GroupNo(first));
        let end = geometry
            .group_blocks(GroupNo(first.saturating_add(groups - 1).min(geometry.group_count - 1)))
            .end();
        ranges.push(BlockRange::new(start, end - start));
        let first = u64::from(geometry.first_data_block);
        ranges.push(BlockRange::new(first, geometry.blocks_count - first));
    }
    ranges
}
