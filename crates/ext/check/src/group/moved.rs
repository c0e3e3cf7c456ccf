// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inode tables that a descriptor places where one may be, and where it is not: every inode of the group would be another one, or none. A right
//! checksum of the descriptor does not prove the place, and without checksums it is one word against another: the backups and the layout
//! tell of a place, and what is there and here proves which one it is.
//!
//! On a sound file system nothing is read for it, but for a few backups where tables do not lie in rows (tools that enlarge a file system move them).

use std::collections::BTreeMap;

use fsmend_base::{BlockNo, GroupNo, width};
use fsmend_engine::{Findings, Problem};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::group::{GroupDesc, GroupFlags};

use super::descriptors::{self, Slot};
use super::lost_table::Finder;
use super::places::{KINDS, Kind, Occupied, Owner};
use super::problems;

/// Blocks of backup descriptors that are read at most because tables do not lie where their neighbours let expect.
const BACKUP_BLOCKS_MAX: usize = 64;
/// The backups that are asked: the first one, and another where that one says nothing that can be believed.
const BACKUPS: [usize; 2] = [1, 2];

/// Takes the places of inode tables from backups that say otherwise, or from the layout where there are none, where what stands in both
/// places proves the descriptor wrong. `others_are_damaged`: some descriptor is, so that without checksums none is above doubt.
pub(super) fn take_back(
    finder: &mut Finder<'_>,
    slots: &mut [Slot],
    others_are_damaged: bool,
    findings: &mut Findings,
) {
    let geometry = finder.geometry;
    let everywhere = others_are_damaged && !geometry.features.group_csum();
    let mut asked: BTreeMap<u32, Vec<GroupNo>> = BTreeMap::new();
    for group in (0..width::len_u32(slots.len())).map(GroupNo) {
        if everywhere || !is_in_row(finder, slots, group) {
            asked.entry(group.0 / geometry.descs_per_block()).or_default().push(group);
        }
    }
    let blocks_max = if everywhere { usize::MAX } else { BACKUP_BLOCKS_MAX };
    let mut occupied = None;
    for (index, groups) in asked.into_iter().take(blocks_max) {
        let mut copies = BACKUPS.map(|copy| Copy { index, copy, slots: None });
        for group in groups {
            let backups: Vec<Slot> = copies.iter_mut().filter_map(|copy| copy.of(finder, group)).collect();
            let Some((place, how)) = better_place(finder, slots, group, &backups, &mut occupied) else {
                continue;
            };
            let Some(slot) = slots.get_mut(group.0 as usize) else { continue };
            let stored = slot.desc.inode_table;
            if let Some(occupied) = &mut occupied {
                let owner = Owner::Place(group, Kind::InodeTable);
                occupied.give_back(Kind::InodeTable.range(geometry, &slot.desc), owner);
                slot.desc.inode_table = place;
                // It is free: that was asked.
                let _ = occupied.take(Kind::InodeTable.range(geometry, &slot.desc), owner);
            }
            findings.raise(Problem::new(&problems::INODE_TABLE_PLACE).group(group).stored(stored));
            findings.raise(how);
        }
    }
}

/// A copy of a block of descriptors, read on request.
struct Copy {
    index: u32,
    copy: usize,
    slots: Option<BTreeMap<u32, Slot>>,
}

impl Copy {
    /// The descriptor of `group` in it, if it can be believed.
    fn of(&mut self, finder: &Finder<'_>, group: GroupNo) -> Option<Slot> {
        let slots = self.slots.get_or_insert_with(|| {
            let slots = descriptors::copy_of_block(finder.device, finder.geometry, self.index, self.copy);
            slots.into_iter().flatten().filter(|(_, slot)| slot.is_credible()).collect()
        });
        slots.get(&group.0).copied()
    }
}

/// Where the table of `group` is, if that is proven to be another place than its descriptor says, and how that is known. `occupied` is filled
/// when it is needed.
fn better_place(
    finder: &mut Finder<'_>,
    slots: &[Slot],
    group: GroupNo,
    backups: &[Slot],
    occupied: &mut Option<Occupied>,
) -> Option<(u64, Problem)> {
    let geometry = finder.geometry;
    let backup = backups.first();
    let slot = slots.get(group.0 as usize).filter(|slot| slot.is_readable)?;
    let stored = slot.desc.inode_table;
    let is_confirmed = backup.is_some_and(|backup| backup.desc.inode_table == stored);
    let is_unused =
        group.0 > 0 && geometry.features.group_csum() && slot.desc.has_flag(GroupFlags::INODE_UNINIT);
    if stored == 0 || is_confirmed || is_unused {
        return None;
    }
    let here = finder.evidence(group, stored);
    if here.is_convincing(finder.witnesses_needed()) {
        return None;
    }
    // The second inode of all is the root directory.
    let is_contradicted = here.contradicts() || group.0 == 0 && finder.has_root(stored) == Some(false);
    let occupied = occupied.get_or_insert_with(|| occupied_by_all(geometry, slots));
    if let Some(backup) = backup {
        let place = backup.desc.inode_table;
        let is_free = Kind::InodeTable.is_allowed(geometry, group, &backup.desc)
            && occupied
                .owner(Kind::InodeTable.range(geometry, &backup.desc))
                .is_none_or(|owner| owner == Owner::Place(group, Kind::InodeTable));
        if !is_free {
            return None;
        }
        let there = finder.evidence(group, place);
        // A group that has no inodes in use shows nothing, but what is here may be file data.
        let is_empty = is_contradicted && there.says_nothing() && lies_in_row(finder, slots, group, place);
        // Two agree against one, whose checksum does not confirm it, nor does what stands there.
        let is_agreed = backups.iter().all(|other| other.desc.inode_table == place)
            && backups.len() > 1
            && slot.checked.is_none();
        let is_better = there.is_convincing(finder.witnesses_needed())
            || is_empty
            || is_agreed && there.is_no_worse_than(here);
        return is_better
            .then(|| (place, Problem::new(&problems::FROM_BACKUP).group(group).block(backup.block)));
    }
    if !is_contradicted {
        return None;
    }
    let others = |number: u32| slots.get(number as usize).map(|slot| slot.desc);
    let place = finder.find(group, &others, occupied, true).filter(|place| *place != stored)?;
    Some((place, Problem::new(&problems::TABLE_FOUND).group(group).block(BlockNo(place))))
}

/// Whether the table of `group` lies where the usual layouts put it.
fn is_in_row(finder: &Finder<'_>, slots: &[Slot], group: GroupNo) -> bool {
    let table = slots.get(group.0 as usize).map_or(0, |slot| slot.desc.inode_table);
    table == 0 || lies_in_row(finder, slots, group, table)
}

/// Whether a table at `table` would lie where the usual layouts put that of `group`: behind its bitmaps, or in a row with a neighbour's.
fn lies_in_row(finder: &Finder<'_>, slots: &[Slot], group: GroupNo, table: u64) -> bool {
    let Some(GroupDesc { block_bitmap, inode_bitmap, .. }) =
        slots.get(group.0 as usize).map(|slot| slot.desc)
    else {
        return false;
    };
    // In a flexible group, the first one's bitmaps lie as many blocks apart as it has groups, and so does its table.
    let is_behind = if finder.is_flexible() {
        inode_bitmap > block_bitmap && Some(table) == inode_bitmap.checked_add(inode_bitmap - block_bitmap)
    } else {
        Some(table) == inode_bitmap.checked_add(1)
    };
    let step = finder.step();
    let other = |number: Option<u32>| Some(slots.get(number? as usize)?.desc.inode_table);
    is_behind
        || other(group.0.checked_sub(1)).is_some_and(|below| below.checked_add(step) == Some(table))
        || other(group.0.checked_add(1)).is_some_and(|above| table.checked_add(step) == Some(above))
}

/// What belongs to the heads of groups, and what their descriptors place.
fn occupied_by_all(geometry: &Geometry, slots: &[Slot]) -> Occupied {
    let mut occupied = Occupied::default();
    occupied.take_heads(geometry);
    for (slot, number) in slots.iter().zip(0..) {
        for kind in KINDS.into_iter().filter(|kind| kind.place(&slot.desc) != 0) {
            let _ = occupied.take(kind.range(geometry, &slot.desc), Owner::Place(GroupNo(number), kind));
        }
    }
    occupied
}
