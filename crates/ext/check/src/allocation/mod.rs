// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bitmaps and counts against what the inodes own: what e2fsck calls pass 5.

pub(crate) mod old_counts;
pub(crate) mod problems;
pub(crate) mod repair;

use fsmend_base::{BlockNo, GroupNo, InodeNo, width};
use fsmend_engine::crosscheck::allocation::{
    AllocationMaps, Count, Difference, InUse, Observed, ReadMaps, Sum, Words, padding_is_set,
};
use fsmend_engine::format::Volume;
use fsmend_engine::{Findings, Problem, Row, Value};
use fsmend_ext_format::checksum;
use fsmend_ext_format::group::{GroupDesc, GroupFlags};
use fsmend_ext_format::superblock::RawSuperblock;

use crate::Fs;

/// Bytes of bitmaps that are read together.
const READ_TOGETHER: usize = 64 << 10;
/// The maps of a group.
const BLOCKS: usize = 0;
const INODES: usize = 1;

/// What is free and used, all groups together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Free allocation units (clusters with bigalloc, else blocks).
    pub free_units: u64,
    /// The same as the groups store it.
    pub stored_free_units: u64,
    /// Free inodes.
    pub free_inodes: u64,
    /// The same as the groups store it.
    pub stored_free_inodes: u64,
    /// Directories.
    pub directories: u64,
}

/// The counts that groups keep.
const FREE_UNITS: usize = 0;
const FREE_INODES: usize = 1;
const DIRECTORIES: usize = 2;

impl From<Vec<Sum>> for Totals {
    fn from(sums: Vec<Sum>) -> Self {
        let of = |kind: usize| sums.get(kind).copied().unwrap_or_default();
        Totals {
            free_units: of(FREE_UNITS).observed,
            stored_free_units: of(FREE_UNITS).stored,
            free_inodes: of(FREE_INODES).observed,
            stored_free_inodes: of(FREE_INODES).stored,
            directories: of(DIRECTORIES).observed,
        }
    }
}

/// The superblock's own totals as the disk has them. (Releasing orphans adds to them what becomes free, which makes no sense
/// of nonsense.)
#[derive(Clone, Copy, Debug)]
pub struct StoredTotals {
    /// Free blocks.
    pub free_blocks: u64,
    /// Free inodes.
    pub free_inodes: u64,
    /// Whether a backup says so, which stands in for the primary superblock.
    pub is_backup: bool,
}

impl StoredTotals {
    /// What `superblock`, a primary one, says.
    pub fn of(superblock: &RawSuperblock) -> Self {
        StoredTotals {
            free_blocks: superblock.free_blocks_count(),
            free_inodes: u64::from(superblock.s_free_inodes_count.get()),
            is_backup: false,
        }
    }
}

/// The totals are compared through the groups' counts: kernels let the superblock's own lag behind, which is no damage unless a backup
/// stands in. What is wrong is shown as it is `on_disk`.
pub fn check_totals(fs: &Fs<'_>, totals: &Totals, on_disk: StoredTotals, findings: &mut Findings) {
    let unit = u64::from(fs.geometry.cluster_blocks);
    let stored = StoredTotals::of(&fs.superblock);
    if totals.stored_free_units != totals.free_units {
        let problem = Problem::new(&problems::FREE_BLOCKS).stored(totals.stored_free_units * unit);
        findings.raise(problem.observed(totals.free_units * unit));
    } else if stored.free_blocks != totals.free_units * unit {
        let row = if on_disk.is_backup { &problems::FREE_BLOCKS } else { &problems::TOTALS_STALE };
        let problem = Problem::new(row).detail("what", "blocks");
        findings.raise(problem.stored(on_disk.free_blocks).observed(totals.free_units * unit));
    }
    if totals.stored_free_inodes != totals.free_inodes {
        let problem = Problem::new(&problems::FREE_INODES).stored(totals.stored_free_inodes);
        findings.raise(problem.observed(totals.free_inodes));
    } else if stored.free_inodes != totals.free_inodes {
        let row = if on_disk.is_backup { &problems::FREE_INODES } else { &problems::TOTALS_STALE };
        let problem = Problem::new(row).detail("what", "inodes");
        findings.raise(problem.stored(on_disk.free_inodes).observed(totals.free_inodes));
    }
}

impl AllocationMaps for Fs<'_> {
    fn areas(&self) -> u32 {
        self.geometry.group_count
    }

    fn maps(&self) -> usize {
        2
    }

    fn count_kinds(&self) -> usize {
        3
    }

    fn observed(&self, area: u32, map: usize, in_use: InUse<'_>) -> Observed {
        let group = GroupNo(area);
        match map {
            BLOCKS => Observed { used: used_units(self, group, in_use), directories: 0 },
            _ => used_inodes(self, group, in_use),
        }
    }

    fn stored(
        &self,
        area: u32,
        map: usize,
        (observed, read): (&Observed, &mut ReadMaps),
        findings: &mut Findings,
    ) -> Option<Words> {
        let stored = Stored { fs: self, group: GroupNo(area) };
        if map == BLOCKS {
            stored.blocks(&observed.used, read, findings)
        } else {
            stored.inodes(&observed.used, read, findings)
        }
    }

    fn counts(&self, area: u32, map: usize, observed: &Observed, count: &mut dyn FnMut(Count)) {
        let desc = &self.groups[area as usize].desc;
        let free = observed.used.len() - observed.used.count();
        if map == BLOCKS {
            let observed = free.saturating_sub(owed_units(self, desc));
            let stored = u64::from(desc.free_blocks);
            return count(Count { kind: FREE_UNITS, row: &problems::GROUP_FREE_BLOCKS, stored, observed });
        }
        let stored = u64::from(desc.free_inodes);
        count(Count { kind: FREE_INODES, row: &problems::GROUP_FREE_INODES, stored, observed: free });
        let (stored, observed) = (u64::from(desc.used_dirs), observed.directories);
        count(Count { kind: DIRECTORIES, row: &problems::GROUP_DIRECTORIES, stored, observed });
    }

    fn difference(
        &self,
        area: u32,
        map: usize,
        difference: Difference,
        (first, count): (u64, u64),
    ) -> Problem {
        let row = match (map, difference) {
            (BLOCKS, Difference::MarkedButFree) => &problems::BLOCKS_MARKED_BUT_FREE,
            (BLOCKS, Difference::UsedButFree) => &problems::BLOCKS_USED_BUT_FREE,
            (_, Difference::MarkedButFree) => &problems::INODES_MARKED_BUT_FREE,
            (_, Difference::UsedButFree) => &problems::INODES_USED_BUT_FREE,
        };
        let problem = self.at_area(row, area);
        if map == INODES {
            let first = self.geometry.inode_at(GroupNo(area), width::low_u32(first));
            let last = InodeNo(first.0 + width::low_u32(count) - 1);
            let range =
                if first == last { format!("inode {first}") } else { format!("inodes {first} to {last}") };
            return problem.detail("first", first.0).detail("last", last.0).detail("inodes", range);
        }
        let unit = self.unit_blocks();
        let start = self.geometry.cluster_of(self.geometry.group_blocks(GroupNo(area)).start.0) + first;
        problem.blocks(BlockNo(start * unit), count * unit)
    }

    fn at_area(&self, row: &'static Row, area: u32) -> Problem {
        Problem::new(row).group(GroupNo(area))
    }
}

/// The first unit of a group, and how many it has.
fn units(fs: &Fs<'_>, group: GroupNo) -> (u64, u64) {
    let blocks = fs.geometry.group_blocks(group);
    (fs.geometry.cluster_of(blocks.start.0), blocks.count.div_ceil(fs.unit_blocks()))
}

/// The units of the group that are in use.
fn used_units(fs: &Fs<'_>, group: GroupNo, in_use: InUse<'_>) -> Words {
    let (first, count) = units(fs, group);
    in_use.units(first, count)
}

/// The units of the group that hold static metadata.
fn metadata_units(fs: &Fs<'_>, group: GroupNo) -> Words {
    let (first, count) = units(fs, group);
    if fs.unit_blocks() == 1 {
        return Words::of_bitmap(&fs.metadata, first, count);
    }
    let mut units = Words::new(count);
    units
        .fill(|at| (0..64).filter(|bit| fs.is_static(first + at + bit)).fold(0, |word, bit| word | 1 << bit));
    units
}

/// The inodes of the group that are in use, reserved ones among them.
fn used_inodes(fs: &Fs<'_>, group: GroupNo, in_use: InUse<'_>) -> Observed {
    let geometry = &fs.geometry;
    let first = geometry.inode_at(group, 0).0;
    let mut used = Words::new(u64::from(geometry.inodes_per_group));
    for reserved in first..geometry.first_inode.min(first.saturating_add(geometry.inodes_per_group)) {
        used.set(u64::from(reserved - first));
    }
    let directories = in_use.add_inodes(group.0, &mut used);
    Observed { used, directories }
}

/// What a repair will take in the group for bitmaps and an inode table whose places are lost.
fn owed_units(fs: &Fs<'_>, desc: &GroupDesc) -> u64 {
    let table = u64::from(fs.geometry.inode_table_blocks());
    let pieces = [(desc.block_bitmap, 1), (desc.inode_bitmap, 1), (desc.inode_table, table)];
    let blocks: u64 = pieces.iter().filter(|(place, _)| *place == 0).map(|(_, count)| count).sum();
    blocks.div_ceil(fs.unit_blocks())
}

/// What the bitmaps of one group say.
struct Stored<'a> {
    fs: &'a Fs<'a>,
    group: GroupNo,
}

impl Stored<'_> {
    fn desc(&self) -> &GroupDesc {
        &self.fs.groups[self.group.0 as usize].desc
    }

    fn blocks(&self, used: &Words, read: &mut ReadMaps, findings: &mut Findings) -> Option<Words> {
        let (geometry, desc) = (&self.fs.geometry, self.desc());
        if geometry.features.group_csum() && desc.has_flag(GroupFlags::BLOCK_UNINIT) {
            let own = metadata_units(self.fs, self.group);
            let extra = used.count().saturating_sub(own.count());
            if extra == 0 {
                return None;
            }
            findings.raise(Problem::new(&problems::BLOCK_UNINIT_IN_USE).group(self.group).observed(extra));
            // The bitmap that such a flag stands for has only the metadata set.
            return Some(own);
        }
        let Some(stored) = self.read((BLOCKS, desc.block_bitmap), read, findings) else {
            return (desc.block_bitmap == 0).then(|| Words::new(used.len()));
        };
        let bits = geometry.blocks_per_group / geometry.cluster_blocks;
        self.check_checksum(
            &problems::BLOCK_BITMAP_CHECKSUM,
            (stored, bits),
            desc.block_bitmap_csum,
            findings,
        );
        if !padding_is_set(stored, used.len()) {
            findings.raise(Problem::new(&problems::BLOCK_BITMAP_PADDING).group(self.group));
        }
        Some(Words::from_bytes(stored, used.len()))
    }

    fn inodes(&self, used: &Words, read: &mut ReadMaps, findings: &mut Findings) -> Option<Words> {
        let (geometry, desc) = (&self.fs.geometry, self.desc());
        if geometry.features.group_csum() && desc.has_flag(GroupFlags::INODE_UNINIT) {
            let count = used.count();
            if count == 0 {
                return None;
            }
            findings.raise(Problem::new(&problems::INODE_UNINIT_IN_USE).group(self.group).observed(count));
            return Some(Words::new(used.len()));
        }
        let Some(stored) = self.read((INODES, desc.inode_bitmap), read, findings) else {
            return (desc.inode_bitmap == 0).then(|| Words::new(used.len()));
        };
        let bits = geometry.inodes_per_group;
        self.check_checksum(
            &problems::INODE_BITMAP_CHECKSUM,
            (stored, bits),
            desc.inode_bitmap_csum,
            findings,
        );
        if !padding_is_set(stored, used.len()) {
            findings.raise(Problem::new(&problems::INODE_BITMAP_PADDING).group(self.group));
        }
        Some(Words::from_bytes(stored, used.len()))
    }

    /// The bitmap in `block`; `None` (and a problem) when it cannot be read, `None` alone when its place is lost.
    fn read<'r>(
        &self,
        (map, block): (usize, u64),
        read: &'r mut ReadMaps,
        findings: &mut Findings,
    ) -> Option<&'r [u8]> {
        if block == 0 {
            return None;
        }
        let (offset, len) = (self.fs.block_offset(BlockNo(block)), self.fs.geometry.block_size as usize);
        let is_read = read.get(offset, len).is_some()
            || read.read(map, self.fs.device, (offset, self.in_a_row(block) * len))
            // Another one that cannot be read does not take it along.
            || read.read(map, self.fs.device, (offset, len));
        if !is_read {
            let problem = Problem::new(&problems::BITMAP_UNREADABLE).group(self.group);
            findings.raise(problem.block(BlockNo(block)));
        }
        read.get(offset, len)
    }

    /// How many bitmaps of this group and the next ones lie in a row from `block` on: as many as a flexible group has of one kind, or the two of a group.
    fn in_a_row(&self, block: u64) -> usize {
        let size = self.fs.geometry.block_size as usize;
        let most = (READ_TOGETHER / size).max(1);
        let groups = self.fs.groups.iter().skip(self.group.0 as usize).take(most);
        let mut places: Vec<u64> = groups
            .flat_map(|group| self.fs.stored_bitmaps(&group.desc))
            .filter(|place| *place >= block && *place - block < most as u64)
            .collect();
        places.sort_unstable();
        places.dedup();
        (block..).zip(places).take_while(|(expected, place)| expected == place).count().max(1)
    }

    fn check_checksum(
        &self,
        row: &'static Row,
        (bitmap, bits): (&[u8], u32),
        stored: u32,
        findings: &mut Findings,
    ) {
        let geometry = &self.fs.geometry;
        if !geometry.features.metadata_csum() {
            return;
        }
        let right = checksum::bitmap(geometry.checksum_seed, bitmap, bits, geometry.wide_descriptors());
        if stored != right {
            let problem = Problem::new(row).group(self.group).stored(Value::Hex(stored.into()));
            findings.raise(problem.observed(Value::Hex(right.into())));
        }
    }
}
