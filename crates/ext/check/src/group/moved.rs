//! Inode tables that a descriptor without a checksum places where one may be, and where it is not: a few blocks further every inode gets
//! the number of another one. The backups tell the place, and what stands there proves it.

use fsmend_base::GroupNo;
use fsmend_engine::{Findings, Problem};

use super::descriptors::{self, Slot};
use super::lost_table::Finder;
use super::places::{Kind, Occupied, Owner};
use super::problems;

/// Takes the places of inode tables from backups that say otherwise, where what stands there proves a backup right and the descriptor wrong.
/// To be called when other descriptors are damaged: backups of all groups are read for it.
pub(super) fn take_back(
    finder: &mut Finder<'_>,
    slots: &mut [Slot],
    occupied: &mut Occupied,
    findings: &mut Findings,
) {
    if finder.geometry.features.group_csum() {
        return;
    }
    for index in 0..finder.geometry.desc_blocks() {
        let Some(backups) = descriptors::copy_of_block(finder.device, finder.geometry, index, 1) else {
            continue;
        };
        for (number, backup) in backups {
            let Some(slot) = slots.get_mut(number as usize).filter(|slot| slot.is_readable) else { continue };
            let (group, stored, place) = (GroupNo(number), slot.desc.inode_table, backup.desc.inode_table);
            let is_possible = stored != place
                && stored != 0
                && Kind::InodeTable.is_allowed(finder.geometry, group, &backup.desc);
            if !is_possible || finder.is_proven(group, stored) || !finder.is_proven(group, place) {
                continue;
            }
            let owner = Owner::Place(group, Kind::InodeTable);
            occupied.give_back(Kind::InodeTable.range(finder.geometry, &slot.desc), owner);
            if occupied.take(Kind::InodeTable.range(finder.geometry, &backup.desc), owner).is_err() {
                let _ = occupied.take(Kind::InodeTable.range(finder.geometry, &slot.desc), owner);
                continue;
            }
            slot.desc.inode_table = place;
            findings.raise(Problem::new(&problems::INODE_TABLE_PLACE).group(group).stored(stored));
            findings.raise(Problem::new(&problems::FROM_BACKUP).group(group).block(backup.block));
        }
    }
}
