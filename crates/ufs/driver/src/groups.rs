// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cylinder groups in memory: their maps as they will be once everything is durable, what may be taken now, and how they are written.
//!
//! Two states of a map are kept apart. The maps in memory show what was given back as free. On the device that may be said only when nothing points there any more, so
//! [`Volume::write_groups`] leaves out what is still pending, and a search leaves it out, too.

use std::collections::{BTreeMap, BTreeSet};

use fsmend_base::{GroupNo, width};
use fsmend_blockcache::policy::{GroupUse, Groups, Layout};
use fsmend_blockcache::{FreeMap, PendingFrees};
use fsmend_ufs_format::geometry::Geometry;
use fsmend_ufs_format::group::{CylinderGroup, bit, set_bit};
use fsmend_ufs_format::order::Version;
use fsmend_ufs_format::summary::Counts;
use fsmend_vfs::{Errno, InodeNo, Result, Time};

use crate::mkfs::settle_counts;
use crate::volume::Volume;

/// A cylinder group.
pub(crate) struct Group {
    pub cg: CylinderGroup,
    /// What may be taken now.
    pub free: FreeMap,
}

/// What an operation has done to maps, so that it can be taken back.
enum Note {
    /// Fragments of a group, from the first one on, have become free or not.
    Fragments { group: u32, start: u64, count: u64, freed: bool },
    /// An inode has become free or not.
    Inode { inode: u32, is_directory: bool, freed: bool },
}

/// All cylinder groups.
#[derive(Default)]
pub(crate) struct GroupTable {
    loaded: BTreeMap<u32, Group>,
    /// Counts of all groups as they will be.
    pub counts: Vec<Counts<i32>>,
    /// Groups that differ from the device.
    dirty: BTreeSet<u32>,
    /// Fragments that may not be taken before the next commit.
    pub freed: PendingFrees,
    with_freed: BTreeSet<u32>,
    /// The same for inodes.
    pub freed_inodes: BTreeSet<u32>,
    notes: Vec<Note>,
    pub totals: Counts<i64>,
}

impl GroupTable {
    /// With the counts of the summary area.
    pub fn new(counts: Vec<Counts<i32>>) -> Self {
        let mut totals = Counts::default();
        counts.iter().for_each(|group| totals.add(*group));
        GroupTable { counts, totals, ..GroupTable::default() }
    }

    /// Whether anything was given back since the last commit.
    pub fn has_freed(&self) -> bool {
        !self.freed.is_empty() || !self.freed_inodes.is_empty()
    }

    /// Whether a group differs from the device.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// An operation begins.
    pub fn begin(&mut self) {
        self.notes.clear();
        self.freed.begin();
    }

    /// The operation has succeeded.
    pub fn finish(&mut self) {
        self.notes.clear();
        self.freed.finish();
    }

    /// The operation has failed: maps and counts are as before.
    pub fn take_back(&mut self, geometry: &Geometry) {
        self.freed.take_back();
        for note in std::mem::take(&mut self.notes).into_iter().rev() {
            match note {
                Note::Fragments { group, start, count, freed } => {
                    self.mark(geometry, group, start, count, !freed);
                    self.refresh(geometry, group);
                }
                Note::Inode { inode, is_directory, freed } => {
                    self.mark_inode(geometry, inode, is_directory, !freed);
                    if freed {
                        self.freed_inodes.remove(&inode);
                    }
                }
            }
        }
    }

    /// Everything that was given back may be taken again.
    pub fn committed(&mut self, geometry: &Geometry) {
        self.freed.clear();
        self.freed_inodes.clear();
        for group in std::mem::take(&mut self.with_freed) {
            self.refresh(geometry, group);
        }
    }

    fn refresh(&mut self, geometry: &Geometry, group: u32) {
        if let Some(loaded) = self.loaded.get_mut(&group) {
            loaded.free = free_map(&loaded.cg, geometry, group);
            loaded.free.set_words(self.freed.of_group(group));
        }
    }

    /// Sets the bits of a map, with its counts.
    fn mark(&mut self, geometry: &Geometry, group: u32, start: u64, count: u64, free: bool) {
        let Some(loaded) = self.loaded.get_mut(&group) else { return };
        let per_block = geometry.fragments;
        let map = loaded.cg.fragment_map_mut(&geometry.layout);
        let first = start / per_block * per_block;
        for block in (first..start + count).step_by(width::index(per_block)) {
            let free_in =
                |map: &[u8]| (block..block + per_block).map(|at| i64::from(bit(map, at))).sum::<i64>();
            let before = free_in(map);
            for at in block.max(start)..(block + per_block).min(start + count) {
                set_bit(map, at, free);
            }
            let after = free_in(map);
            let (blocks, fragments) = (
                i64::from(after == width::signed(per_block)) - i64::from(before == width::signed(per_block)),
                after % width::signed(per_block) - before % width::signed(per_block),
            );
            if let Some(counts) = self.counts.get_mut(group as usize) {
                counts.free_blocks = plus(counts.free_blocks, blocks);
                counts.free_fragments = plus(counts.free_fragments, fragments);
            }
            self.totals.free_blocks += blocks;
            self.totals.free_fragments += fragments;
        }
        self.dirty.insert(group);
    }

    fn mark_inode(&mut self, geometry: &Geometry, inode: u32, is_directory: bool, free: bool) {
        let (group, index) = geometry.inode_group(inode);
        let Some(loaded) = self.loaded.get_mut(&group) else { return };
        set_bit(loaded.cg.inode_map_mut(&geometry.layout), index.into(), !free);
        let (sign, sign_directory) = if free { (1, -1) } else { (-1, 1) };
        let directories = if is_directory { sign_directory } else { 0 };
        if let Some(counts) = self.counts.get_mut(group as usize) {
            counts.free_inodes = counts.free_inodes.saturating_add(sign);
            counts.directories = counts.directories.saturating_add(directories);
        }
        self.totals.free_inodes += i64::from(sign);
        self.totals.directories += i64::from(directories);
        self.dirty.insert(group);
    }
}

/// A count of a group after a change; the nearest that can be stored where a damaged count leaves the range.
fn plus(count: i32, change: i64) -> i32 {
    let limit = if change < 0 { i32::MIN } else { i32::MAX };
    i32::try_from(i64::from(count).saturating_add(change)).unwrap_or(limit)
}

fn free_map(cg: &CylinderGroup, geometry: &Geometry, group: u32) -> FreeMap {
    let length = geometry.group_length(group);
    let mut free = FreeMap::from_free(cg.fragment_map(&geometry.layout), length);
    // Whatever a damaged map says.
    let (start, end) = geometry.reserved(group);
    let base = geometry.group_start(group);
    free.set(start.saturating_sub(base)..end.saturating_sub(base));
    let (summary, count) = geometry.summary_run();
    if geometry.group_of(summary) == group {
        free.set(summary - base..summary - base + count);
    }
    free
}

/// How full groups are, for policies.
pub(crate) struct Usage<'t> {
    pub table: &'t GroupTable,
    pub geometry: &'t Geometry,
}

impl Usage<'_> {
    /// How full a group is.
    pub fn of(&self, group: GroupNo) -> Option<GroupUse> {
        let counts = self.table.counts.get(group.0 as usize)?;
        let number = |value: i32| u32::try_from(value).unwrap_or(0);
        let blocks = number(counts.free_blocks).saturating_mul(width::low_u32(self.geometry.fragments));
        Some(GroupUse {
            free_blocks: blocks.saturating_add(number(counts.free_fragments)),
            free_inodes: number(counts.free_inodes),
            directories: number(counts.directories),
            first_free_for_files: self.geometry.structures(group.0) + self.geometry.data,
            region: fsmend_base::BlockRange::new(0, 0),
        })
    }
}

impl Groups for Usage<'_> {
    fn count(&self) -> u32 {
        self.geometry.groups
    }

    fn usage(&mut self, group: GroupNo) -> Option<GroupUse> {
        self.of(group)
    }

    fn totals(&self) -> (u64, u64) {
        let totals = &self.table.totals;
        let number = |value: i64| u64::try_from(value).unwrap_or(0);
        let blocks = number(totals.free_blocks) * self.geometry.fragments;
        (blocks + number(totals.free_fragments), number(totals.free_inodes))
    }
}

/// What policies know of the file system.
pub(crate) fn layout(geometry: &Geometry) -> Layout {
    Layout {
        groups: geometry.groups,
        blocks_per_group: u32::try_from(geometry.group_size).unwrap_or(u32::MAX),
        first_data_block: 0,
        blocks_count: geometry.size,
    }
}

impl Volume {
    /// A cylinder group, read if it was not yet.
    pub fn group(&mut self, group: u32) -> Result<&mut Group> {
        if !self.groups.loaded.contains_key(&group) {
            let loaded = self.read_group(group)?;
            self.groups.loaded.insert(group, loaded);
        }
        self.groups.loaded.get_mut(&group).ok_or(Errno::Io)
    }

    fn read_group(&mut self, group: u32) -> Result<Group> {
        let geometry = self.geometry.clone();
        let mut bytes = vec![0; usize::try_from(geometry.group_bytes).unwrap_or(0)];
        self.read_place(geometry.group_place(group), &mut bytes)?;
        let cg = CylinderGroup::new(bytes, geometry.order);
        if let Some((field, ..)) = cg.flaw(&geometry, group) {
            return Err(self.cache.corrupt(|| format!("cylinder group {group}: {field} is wrong")));
        }
        if !cg.hash_is_right(&geometry) {
            return Err(self.cache.corrupt(|| format!("cylinder group {group} has a wrong check hash")));
        }
        let free = free_map(&cg, &geometry, group);
        Ok(Group { cg, free })
    }

    /// Takes fragments of a group that [`Group::free`] has shown as free.
    pub fn mark_taken(&mut self, group: u32, start: u64, count: u64) {
        self.groups.mark(&self.geometry, group, start, count, false);
        if let Some(loaded) = self.groups.loaded.get_mut(&group) {
            loaded.free.set(start..start + count);
        }
        self.groups.notes.push(Note::Fragments { group, start, count, freed: false });
    }

    /// Gives fragments back; they can be taken again after the next commit. What may have been metadata goes from memory.
    pub fn give_back(&mut self, first: u64, count: u64, is_metadata: bool) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        if !self.geometry.may_be_data(first, count) {
            return Err(self.cache.corrupt(|| format!("fragment {first} belongs to no file")));
        }
        let group = self.geometry.group_of(first);
        let start = first - self.geometry.group_start(group);
        let layout = self.geometry.layout;
        let map = self.group(group)?.cg.fragment_map(&layout);
        if (start..start + count).any(|at| bit(map, at)) {
            return Err(self.cache.corrupt(|| format!("fragment {first} is free already")));
        }
        self.groups.mark(&self.geometry, group, start, count, true);
        self.groups.freed.add(group, start, count);
        self.groups.with_freed.insert(group);
        self.groups.notes.push(Note::Fragments { group, start, count, freed: true });
        if is_metadata {
            (first..first + count).for_each(|fragment| self.cache.forget(fragment));
        }
        Ok(())
    }

    /// Takes a free inode in `group` or one of the next ones.
    pub fn take_inode(&mut self, group: GroupNo, is_directory: bool) -> Result<InodeNo> {
        let count = self.geometry.groups;
        for step in 0..count {
            let at = u32::try_from((u64::from(group.0) + u64::from(step)) % u64::from(count)).unwrap_or(0);
            if self.groups.counts.get(at as usize).is_none_or(|counts| counts.free_inodes <= 0) {
                continue;
            }
            let Some(index) = self.free_inode_of(at)? else { continue };
            self.initialise_inodes(at, index)?;
            let inode = at * self.geometry.group_inodes + index;
            self.groups.mark_inode(&self.geometry, inode, is_directory, false);
            self.groups.notes.push(Note::Inode { inode, is_directory, freed: false });
            return Ok(InodeNo(inode));
        }
        Err(Errno::NoSpace)
    }

    fn free_inode_of(&mut self, group: u32) -> Result<Option<u32>> {
        let (layout, inodes) = (self.geometry.layout, self.geometry.group_inodes);
        let first = group * inodes;
        let loaded = self.group(group)?;
        let mut used = FreeMap::from_used(loaded.cg.inode_map(&layout), inodes.into());
        for inode in self.groups.freed_inodes.range(first..first.saturating_add(inodes)) {
            used.set((inode - first).into()..(inode - first + 1).into());
        }
        // Numbers below 3 are not for files, whatever a map says.
        let from = if group == 0 { 3 } else { 0 };
        Ok(used.first_clear(from..inodes.into()).and_then(|index| u32::try_from(index).ok()))
    }

    /// UFS2 writes inodes before they are used for the first time, a block of them ahead of need. The zeroes are on the device before the group
    /// says that they are inodes.
    fn initialise_inodes(&mut self, group: u32, index: u32) -> Result<()> {
        if self.geometry.version == Version::Ufs1 {
            return Ok(());
        }
        let (geometry, per_block) = (self.geometry.clone(), self.geometry.block_inodes);
        let mut ready = self.group(group)?.cg.initialised(&geometry);
        while ready < geometry.group_inodes && index.saturating_add(per_block) > ready {
            let first = group * geometry.group_inodes + ready;
            let place = geometry.inode_place(first).ok_or(Errno::Corrupt)?;
            let fragment = place / geometry.fragment_size;
            let zeroes = vec![0; width::index(geometry.block_size)];
            self.cache.write_data(fragment, 0, &zeroes)?;
            ready = ready.saturating_add(per_block).min(geometry.group_inodes);
            self.group(group)?.cg.set_initediblk(ready);
            self.groups.dirty.insert(group);
        }
        Ok(())
    }

    /// Whether an inode was ever written.
    pub fn is_initialised(&mut self, inode: u32) -> Result<bool> {
        let geometry = self.geometry.clone();
        let (group, index) = geometry.inode_group(inode);
        Ok(group < geometry.groups && index < self.group(group)?.cg.initialised(&geometry))
    }

    /// Gives an inode back; its number can be taken again after the next commit.
    pub fn give_back_inode(&mut self, inode: InodeNo, is_directory: bool) -> Result<()> {
        let (group, index) = self.geometry.inode_group(inode.0);
        let layout = self.geometry.layout;
        if !bit(self.group(group)?.cg.inode_map(&layout), index.into()) {
            return Err(self.cache.corrupt(|| format!("inode {inode} is free already")));
        }
        self.groups.mark_inode(&self.geometry, inode.0, is_directory, true);
        self.groups.freed_inodes.insert(inode.0);
        self.groups.notes.push(Note::Inode { inode: inode.0, is_directory, freed: true });
        Ok(())
    }

    /// Writes the groups that have changed. Those of which something is pending say that it is used, and stay to be written again.
    pub fn write_groups(&mut self, now: Time) -> Result<()> {
        let geometry = self.geometry.clone();
        let mut left = BTreeSet::new();
        for group in std::mem::take(&mut self.groups.dirty) {
            let Some(loaded) = self.groups.loaded.get(&group) else { continue };
            let mut cg = loaded.cg.clone();
            let counts = self.groups.counts.get(group as usize).copied().unwrap_or_default();
            let number = |value: i32| u32::try_from(value).unwrap_or(0);
            let (mut free_inodes, directories) = (number(counts.free_inodes), number(counts.directories));
            let first = group * geometry.group_inodes;
            for inode in self.groups.freed_inodes.range(first..first.saturating_add(geometry.group_inodes)) {
                set_bit(cg.inode_map_mut(&geometry.layout), (inode - first).into(), true);
                free_inodes = free_inodes.saturating_sub(1);
                left.insert(group);
            }
            let words = self.groups.freed.of_group(group);
            let map = cg.fragment_map_mut(&geometry.layout);
            for (byte, pending) in map.iter_mut().zip(words.iter().flat_map(|word| word.to_le_bytes())) {
                *byte &= !pending;
            }
            if words.iter().any(|word| *word != 0) {
                left.insert(group);
            }
            settle_counts(&mut cg, &geometry, group, (free_inodes, directories));
            match geometry.version {
                Version::Ufs1 => {
                    cg.set_old_time(width::low_u32(now.seconds.clamp(0, i32::MAX.into()).cast_unsigned()))
                }
                Version::Ufs2 => cg.set_time(now.seconds),
            }
            cg.seal(&geometry);
            self.write_place(geometry.group_place(group), cg.bytes())?;
        }
        self.groups.dirty = left;
        Ok(())
    }
}
