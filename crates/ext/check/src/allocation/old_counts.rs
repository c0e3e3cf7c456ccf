// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counts of a backup that stands in for something, against what is in use.
//!
//! Where a descriptor or the superblock comes from a backup, e2fsck takes all descriptors and the superblock from there, and then finds those counts
//! wrong that the backup does not keep up to date. Which ones these are is all that is worked out here, for the numbers that the finding lists: we take
//! what is damaged from the backup and nothing else.

use fsmend_base::GroupNo;
use fsmend_engine::crosscheck::allocation::{AllocationMaps, InUse};
use fsmend_engine::{Findings, Row};

use super::{BLOCKS, INODES, Totals, problems};
use crate::Fs;
use crate::group::{self, problems::FROM_BACKUP};
use crate::superblock::{self, problems::PRIMARY_REPLACED};

/// Blocks of descriptors that are compared at most: counts that differ show in the first ones.
const DESC_BLOCKS_MAX: u32 = 64;
/// The counts of groups and the totals, each with the row of one that is wrong.
const COUNTS: [&Row; 5] = [
    &problems::GROUP_FREE_BLOCKS,
    &problems::GROUP_FREE_INODES,
    &problems::GROUP_DIRECTORIES,
    &problems::FREE_BLOCKS,
    &problems::FREE_INODES,
];

/// Which of the [`COUNTS`] differ.
type Differing = [bool; 5];

/// Lets findings that name a backup list the counts that differ in it, and no others.
pub(crate) fn name(fs: &Fs<'_>, in_use: InUse<'_>, totals: &Totals, findings: &mut Findings) {
    if ![&FROM_BACKUP, &PRIMARY_REPLACED].into_iter().any(|row| findings.has(row)) {
        return;
    }
    let mut known: Option<(GroupNo, Differing)> = None;
    for problem in findings.rows_mut().flatten() {
        if *problem.row != FROM_BACKUP && *problem.row != PRIMARY_REPLACED {
            continue;
        }
        let Some(host) = problem.object.block.and_then(|block| fs.geometry.group_of_block(block)) else {
            continue;
        };
        let differing = match known {
            Some((of, differing)) if of == host => differing,
            _ => differing_in(fs, host, in_use, totals),
        };
        known = Some((host, differing));
        let wrong = || COUNTS.iter().zip(differing).filter_map(|(row, differs)| differs.then_some(row));
        problem.keep_peers(|peer| wrong().any(|row| row.peers.contains(&peer)));
    }
}

/// Which counts of the backup in group `host` are not what is in use.
fn differing_in(fs: &Fs<'_>, host: GroupNo, in_use: InUse<'_>, totals: &Totals) -> Differing {
    let mut differing = Differing::default();
    let head = fs.geometry.group_head(host).superblock;
    if let Some(stored) = head.and_then(|block| superblock::totals_in(fs.device, &fs.geometry, block)) {
        let free_blocks = totals.free_units.saturating_mul(u64::from(fs.geometry.cluster_blocks));
        differing[3] = stored.free_blocks != free_blocks;
        differing[4] = stored.free_inodes != totals.free_inodes;
    }
    let descriptors = (0..fs.geometry.desc_blocks().min(DESC_BLOCKS_MAX))
        .flat_map(|index| group::descriptors_in(fs.device, &fs.geometry, index, host));
    for (number, desc) in descriptors {
        let blocks = fs.observed(number, BLOCKS, in_use).used;
        let inodes = fs.observed(number, INODES, in_use);
        differing[0] |= u64::from(desc.free_blocks) != blocks.len() - blocks.count();
        differing[1] |= u64::from(desc.free_inodes) != inodes.used.len() - inodes.used.count();
        differing[2] |= u64::from(desc.used_dirs) != inodes.directories;
        if differing[..3] == [true; 3] {
            break;
        }
    }
    differing
}
