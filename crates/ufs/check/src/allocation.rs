// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps and counts of the cylinder groups, the summary area and the totals of the superblock.

use std::sync::Arc;

use fsmend_base::{GroupNo, InodeNo, width};
use fsmend_engine::crosscheck::allocation::{
    AllocationMaps, Count, Difference, InUse, Observed, ReadMaps, Sum, Words,
};
use fsmend_engine::{Findings, Problem, Row};
use fsmend_ufs_format::geometry::ROOT;
use fsmend_ufs_format::group::{CylinderGroup, FragmentSums, bit};
use fsmend_ufs_format::summary::{COUNTS_SIZE, Counts};

use crate::{UfsFs, rows};

/// The map of fragments.
pub const FRAGMENTS: usize = 0;
/// The map of inodes.
pub const INODES: usize = 1;

/// Kinds of counts.
mod count {
    pub const BLOCKS: usize = 0;
    pub const FRAGMENTS: usize = 1;
    pub const INODES: usize = 2;
    pub const DIRECTORIES: usize = 3;
    /// The same again in the summary area: they are compared, and not added up.
    pub const SUMMARY: usize = 4;
    pub const KINDS: usize = 8;
}

impl UfsFs<'_> {
    /// A cylinder group whose header can be trusted.
    pub(crate) fn group(&self, group: u32) -> Option<Arc<CylinderGroup>> {
        let geometry = self.geometry();
        if !self.layout.is_sound(group) {
            return None;
        }
        self.layout.kept.get(group as usize, || {
            let mut bytes = vec![0; width::index(geometry.group_bytes)];
            self.device.read_at(geometry.group_place(group), &mut bytes).ok()?;
            Some(CylinderGroup::new(bytes, geometry.order))
        })
    }

    /// The counts of a group in the summary area.
    pub(crate) fn summary_counts(&self, group: u32) -> Option<Counts<i32>> {
        let mut bytes = [0; COUNTS_SIZE];
        self.device.read_at(self.summary_place(group), &mut bytes).ok()?;
        Some(Counts::parse(&bytes, self.geometry().order))
    }

    pub(crate) fn summary_place(&self, group: u32) -> u64 {
        let geometry = self.geometry();
        geometry.place(geometry.summary.0) + u64::from(group) * COUNTS_SIZE as u64
    }

    /// What the free fragments of a group add up to; `blocks` becomes the map of blocks that are free.
    pub(crate) fn sums(&self, used: &Words, blocks: &mut [u8]) -> FragmentSums {
        let geometry = self.geometry();
        FragmentSums::of(&free_map(used), (used.len(), geometry.fragments), geometry.cluster_max, blocks)
    }
}

/// The map of free fragments of what is in use.
pub(crate) fn free_map(used: &Words) -> Vec<u8> {
    let bytes = width::index(used.len().div_ceil(8));
    let mut map = used.to_bitmap(bytes);
    map.iter_mut().for_each(|byte| *byte = !*byte);
    let rest = used.len() % 8;
    if let Some(last) = map.last_mut().filter(|_| rest != 0) {
        *last &= (1 << rest) - 1;
    }
    map
}

/// A count as it is stored.
fn count(value: u64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

fn number(value: i32) -> u64 {
    // A negative count is as wrong as a huge one.
    u64::from(value.cast_unsigned())
}

impl AllocationMaps for UfsFs<'_> {
    fn areas(&self) -> u32 {
        self.geometry().groups
    }

    fn maps(&self) -> usize {
        2
    }

    fn count_kinds(&self) -> usize {
        count::KINDS
    }

    fn observed(&self, area: u32, map: usize, in_use: InUse<'_>) -> Observed {
        let geometry = self.geometry();
        if map == FRAGMENTS {
            let used = in_use.units(geometry.group_start(area), geometry.group_length(area));
            return Observed { used, directories: 0 };
        }
        let mut used = Words::new(geometry.group_inodes.into());
        let directories = in_use.add_inodes(area, &mut used);
        if area == 0 {
            (0..ROOT).for_each(|reserved| used.set(reserved.into()));
        }
        Observed { used, directories }
    }

    fn stored(
        &self,
        area: u32,
        map: usize,
        (observed, _): (&Observed, &mut ReadMaps),
        findings: &mut Findings,
    ) -> Option<Words> {
        let geometry = self.geometry();
        let group = self.group(area)?;
        let bits = observed.used.len();
        if map == INODES {
            return Some(Words::from_bytes(group.inode_map(&geometry.layout), bits));
        }
        let stored = group.fragment_map(&geometry.layout);
        let inverted: Vec<u8> = stored.iter().map(|byte| !byte).collect();
        let used = Words::from_bytes(&inverted, bits);
        // The derived tables are judged by the map that they stand beside: where that is wrong, they follow from its repair.
        let layout = &geometry.layout;
        let cluster_map = group.cluster_map(layout);
        let mut blocks = vec![0; cluster_map.len()];
        let sums = self.sums(&used, &mut blocks);
        if cluster_map != blocks {
            findings.raise(self.at_area(&rows::CLUSTER_MAP, area));
        }
        let wrong_run =
            (1..8).find(|length| number(group.fragment_sum(*length)) != u64::from(sums.runs[*length]));
        let wrong_cluster = (1..=geometry.cluster_max).find(|length| {
            number(group.cluster_sum(layout, *length)) != u64::from(sums.clusters[*length as usize])
        });
        if wrong_run.is_some() || wrong_cluster.is_some() {
            findings.raise(self.at_area(&rows::RUN_COUNTS, area));
        }
        if group.normalised(geometry, area) != *group {
            findings.raise(self.at_area(&rows::GROUP_HEADER, area));
        }
        let behind = stored.len() as u64 * 8;
        let gap = group.map_gap(layout);
        if (bits..behind).any(|index| bit(stored, index)) || gap.iter().any(|byte| *byte != 0) {
            findings.raise(self.at_area(&rows::MAP_TAIL, area));
        }
        Some(used)
    }

    fn counts(&self, area: u32, map: usize, observed: &Observed, count: &mut dyn FnMut(Count)) {
        // Of a group that is written anew, nothing stored counts.
        let (stored, summary) = (self.group(area).map(|group| group.counts()), self.summary_counts(area));
        let mut both = |kind: usize, row: &'static Row, field: fn(&Counts<i32>) -> i32, observed: u64| {
            let told = |counts: &Option<Counts<i32>>| {
                counts.as_ref().map_or(observed, |counts| number(field(counts)))
            };
            count(Count { kind, row, stored: told(&stored), observed });
            let kind = count::SUMMARY + kind;
            count(Count { kind, row: &rows::SUMMARY_COUNTS, stored: told(&summary), observed });
        };
        if map == FRAGMENTS {
            let sums = self.sums(&observed.used, &mut []);
            both(count::BLOCKS, &rows::FREE_BLOCKS, |counts| counts.free_blocks, sums.free_blocks.into());
            let row = &rows::FREE_FRAGMENTS;
            both(count::FRAGMENTS, row, |counts| counts.free_fragments, sums.free_fragments.into());
        } else {
            let free = observed.used.len() - observed.used.count();
            both(count::INODES, &rows::FREE_INODES, |counts| counts.free_inodes, free);
            let row = &rows::DIRECTORIES;
            both(count::DIRECTORIES, row, |counts| counts.directories, observed.directories);
        }
    }

    fn difference(
        &self,
        area: u32,
        map: usize,
        difference: Difference,
        (first, count): (u64, u64),
    ) -> Problem {
        let geometry = self.geometry();
        let is_leak = difference == Difference::MarkedButFree;
        let row = match (map, is_leak, is_leak && self.layout.expects_leftovers()) {
            (FRAGMENTS, _, true) => &rows::FRAGMENTS_LEFT,
            (FRAGMENTS, true, _) => &rows::FRAGMENTS_LEAKED,
            (FRAGMENTS, false, _) => &rows::FRAGMENTS_MARKED_FREE,
            (_, _, true) => &rows::INODES_LEFT,
            (_, true, _) => &rows::INODES_LEAKED,
            (_, false, _) => &rows::INODES_MARKED_FREE,
        };
        let problem = self.at_area(row, area);
        if map == FRAGMENTS {
            return crate::inode::run_of(problem, (geometry.group_start(area) + first, count))
                .detail("count", count);
        }
        let inode = area * geometry.group_inodes + width::low_u32(first);
        problem.inode(InodeNo(inode)).detail("count", count)
    }

    fn at_area(&self, row: &'static Row, area: u32) -> Problem {
        Problem::new(row).group(GroupNo(area))
    }
}

/// Compares the totals of the superblock with the sums over all groups.
pub fn check_totals(fs: &UfsFs<'_>, sums: &[Sum], findings: &mut Findings) {
    let totals = fs.layout.superblock.totals();
    let observed = |kind: usize| sums.get(kind).map_or(0, |sum| sum.observed);
    let wanted = totals_of(sums);
    for stored in fs.layout.superblock.reserved_totals().into_iter().filter(|stored| *stored != 0) {
        let problem = Problem::new(&rows::TOTALS).detail("what", "entries in a reserved field");
        findings.raise(problem.stored(stored.to_string()).observed(0u64));
    }
    if wanted == totals {
        return;
    }
    for (what, stored, kind) in [
        ("free blocks", totals.free_blocks, count::BLOCKS),
        ("free fragments", totals.free_fragments, count::FRAGMENTS),
        ("free inodes", totals.free_inodes, count::INODES),
        ("directories", totals.directories, count::DIRECTORIES),
    ] {
        if u64::try_from(stored).ok() != Some(observed(kind)) {
            let row = if fs.layout.is_clean() { &rows::TOTALS } else { &rows::TOTALS_STALE };
            let problem = Problem::new(row).detail("what", what).stored(stored.to_string());
            findings.raise(problem.observed(observed(kind)));
        }
    }
}

/// The totals that follow from the sums.
pub(crate) fn totals_of(sums: &[Sum]) -> Counts<i64> {
    let observed =
        |kind: usize| sums.get(kind).map_or(0, |sum| i64::try_from(sum.observed).unwrap_or(i64::MAX));
    Counts {
        directories: observed(count::DIRECTORIES),
        free_blocks: observed(count::BLOCKS),
        free_inodes: observed(count::INODES),
        free_fragments: observed(count::FRAGMENTS),
    }
}

/// Puts maps and counts of fragments that follow from what is in use into a group.
pub(crate) fn put_fragments(fs: &UfsFs<'_>, group: &mut CylinderGroup, observed: &Observed) -> Counts<i32> {
    let geometry = fs.geometry();
    let layout = &geometry.layout;
    let map = free_map(&observed.used);
    let place = group.fragment_map_mut(layout);
    place.fill(0);
    for (byte, free) in place.iter_mut().zip(map) {
        *byte = free;
    }
    let sums = fs.sums(&observed.used, group.cluster_map_mut(layout));
    for length in 1..8 {
        group.set_fragment_sum(length, sums.runs[length].cast_signed());
    }
    for length in 1..=geometry.cluster_max {
        group.set_cluster_sum(layout, length, sums.clusters[length as usize].cast_signed());
    }
    let mut counts = group.counts();
    counts.free_blocks = sums.free_blocks.cast_signed();
    counts.free_fragments = sums.free_fragments.cast_signed();
    group.set_counts(counts);
    counts
}

/// Puts the map and counts of inodes that follow from what is in use into a group.
pub(crate) fn put_inodes(fs: &UfsFs<'_>, group: &mut CylinderGroup, observed: &Observed) -> Counts<i32> {
    let layout = &fs.geometry().layout;
    let place = group.inode_map_mut(layout);
    let bytes = observed.used.to_bitmap(place.len());
    place.copy_from_slice(&bytes);
    let rest = observed.used.len() % 8;
    if let Some(last) = place.last_mut().filter(|_| rest != 0) {
        *last &= (1 << rest) - 1;
    }
    let mut counts = group.counts();
    counts.free_inodes = count(observed.used.len().saturating_sub(observed.used.count()));
    counts.directories = count(observed.directories);
    group.set_counts(counts);
    counts
}
