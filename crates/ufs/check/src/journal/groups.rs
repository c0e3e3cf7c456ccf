// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cylinder groups in which a replay frees inodes and fragments. Their counts are added up from the maps at the end.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use fsmend_base::width;
use fsmend_ufs_format::Geometry;
use fsmend_ufs_format::group::{CylinderGroup, FragmentSums, GROUP_MAGIC, HEADER_SIZE, bit, set_bit};
use fsmend_ufs_format::summary::{COUNTS_SIZE, Counts};

use super::Unusable;
use super::disk::Disk;

/// The groups that the replay has changed.
pub(super) struct Groups<'d> {
    geometry: &'d Geometry,
    changed: BTreeMap<u32, CylinderGroup>,
    pub freed_inodes: u64,
    pub freed_fragments: u64,
}

impl<'d> Groups<'d> {
    pub fn new(geometry: &'d Geometry) -> Groups<'d> {
        Groups { geometry, changed: BTreeMap::new(), freed_inodes: 0, freed_fragments: 0 }
    }

    fn group(&mut self, disk: &mut Disk<'_>, number: u32) -> Result<&mut CylinderGroup, Unusable> {
        match self.changed.entry(number) {
            Entry::Occupied(group) => Ok(group.into_mut()),
            Entry::Vacant(place) => {
                let length = usize::try_from(self.geometry.group_bytes).map_err(|_| Unusable::Impossible)?;
                let bytes = disk.read(self.geometry.group_place(number), length)?;
                let group = CylinderGroup::new(bytes, self.geometry.order);
                let is_sound =
                    group.flaw(self.geometry, number).is_none() && group.hash_is_right(self.geometry);
                if !is_sound {
                    return Err(Unusable::Group(number));
                }
                Ok(place.insert(group))
            }
        }
    }

    /// Inodes of a group that were ever written.
    pub fn initialised(&self, disk: &mut Disk<'_>, number: u32) -> Result<u32, Unusable> {
        match self.changed.get(&number) {
            Some(group) => Ok(group.initialised(self.geometry)),
            None => Ok(self.header(disk, number)?.initialised(self.geometry)),
        }
    }

    fn header(&self, disk: &mut Disk<'_>, number: u32) -> Result<CylinderGroup, Unusable> {
        let bytes = disk.read(self.geometry.group_place(number), width::index(HEADER_SIZE))?;
        let header = CylinderGroup::new(bytes, self.geometry.order);
        let is_sound = header.magic() == GROUP_MAGIC && header.cgx() == number;
        is_sound.then_some(header).ok_or(Unusable::Group(number))
    }

    /// Frees those of a run of fragments that are in use; how many these were.
    pub fn free(&mut self, disk: &mut Disk<'_>, first: u64, count: u64) -> Result<u64, Unusable> {
        if !self.geometry.may_be_data(first, count) {
            return Ok(0);
        }
        let number = self.geometry.group_of(first);
        let start = first - self.geometry.group_start(number);
        let layout = self.geometry.layout;
        let map = self.group(disk, number)?.fragment_map_mut(&layout);
        let mut freed = 0;
        for index in start..start + count {
            freed += u64::from(!bit(map, index));
            set_bit(map, index, true);
        }
        self.freed_fragments += freed;
        Ok(freed)
    }

    /// Marks an inode free in the map.
    pub fn free_inode(
        &mut self,
        disk: &mut Disk<'_>,
        inode: u32,
        is_directory: bool,
    ) -> Result<(), Unusable> {
        let (number, index) = self.geometry.inode_group(inode);
        let layout = self.geometry.layout;
        let group = self.group(disk, number)?;
        let map = group.inode_map_mut(&layout);
        if !bit(map, index.into()) {
            return Ok(());
        }
        set_bit(map, index.into(), false);
        if is_directory {
            let counts = group.counts();
            group.set_counts(Counts { directories: counts.directories.saturating_sub(1), ..counts });
        }
        self.freed_inodes += 1;
        Ok(())
    }

    /// Writes the groups and the summary area; the counts of all.
    pub fn finish(mut self, disk: &mut Disk<'_>) -> Result<Counts<i64>, Unusable> {
        for (number, group) in &mut self.changed {
            recount(group, self.geometry, *number);
            disk.write(self.geometry.group_place(*number), group.bytes().to_vec())?;
        }
        let (first, length) = self.geometry.summary;
        let length = usize::try_from(length).map_err(|_| Unusable::Impossible)?;
        let mut area = disk.read(self.geometry.place(first), length)?;
        let mut totals = Counts::default();
        for (number, place) in (0..self.geometry.groups).zip(area.chunks_exact_mut(COUNTS_SIZE)) {
            let counts = match self.changed.get(&number) {
                Some(group) => group.counts(),
                None => self.header(disk, number)?.counts(),
            };
            counts.store(place, self.geometry.order);
            totals.add(counts);
        }
        disk.write(self.geometry.place(first), area)?;
        Ok(totals)
    }
}

/// Adds up the maps of a group, and puts what follows from them.
fn recount(group: &mut CylinderGroup, geometry: &Geometry, number: u32) {
    let layout = geometry.layout;
    let fragments = group.fragment_map(&layout).to_vec();
    let mut clusters = vec![0; group.cluster_map(&layout).len()];
    let extent = (geometry.group_length(number), geometry.fragments);
    let sums = FragmentSums::of(&fragments, extent, geometry.cluster_max, &mut clusters);
    group.cluster_map_mut(&layout).copy_from_slice(&clusters);
    for (length, count) in sums.runs.iter().enumerate().skip(1) {
        group.set_fragment_sum(length, count.cast_signed());
    }
    for (length, count) in (0..).zip(&sums.clusters).skip(1) {
        group.set_cluster_sum(&layout, length, count.cast_signed());
    }
    let map = group.inode_map(&layout);
    let used = (0..u64::from(geometry.group_inodes)).filter(|index| bit(map, *index)).count();
    let free_inodes = i32::try_from(u64::from(geometry.group_inodes) - used as u64).unwrap_or(i32::MAX);
    group.set_counts(Counts {
        directories: group.counts().directories,
        free_blocks: sums.free_blocks.cast_signed(),
        free_inodes,
        free_fragments: sums.free_fragments.cast_signed(),
    });
    group.seal(geometry);
}
