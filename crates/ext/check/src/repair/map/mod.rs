// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changing the map of an inode on the overlay: which blocks its contents lie in.
//!
//! [`RepairContext::open_map`] reads the runs of an inode as mended, whatever its tree looks like. They are changed with the methods of
//! [`FileMap`] and [`RepairContext`], and [`RepairContext::store_map`] writes them as the inode's tree or indirect blocks: nodes are taken and
//! given back as needed, checksums, `i_blocks`, a wrong size and the sums for quota follow. For the usual single steps there are
//! [`RepairContext::append_block`], [`RepairContext::insert_block`] and [`RepairContext::replace_block`].

mod extents;
mod pointers;
mod runs;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::Findings;
use fsmend_engine::inodes::Kind;
use fsmend_ext_format::inode::{InodeFlags, RawInode};

use super::{RepairContext, seed_of};
use crate::inode::{self, Inspection, MapRun};
use crate::quota::{self, bytes_of};

pub use runs::Runs;

/// The map of one inode, read for a change.
#[derive(Clone, Debug)]
pub struct FileMap {
    /// Whose map it is.
    pub inode: InodeNo,
    /// What it is.
    pub kind: Kind,
    /// The mended record.
    pub record: Vec<u8>,
    /// Where the contents lie.
    pub runs: Runs,
    /// Blocks of the map itself. Those that are left when the map is stored are used again, or given back; who takes one out
    /// answers for it.
    pub nodes: Vec<u64>,
    /// The attribute block.
    pub xattr_block: Option<u64>,
}

impl FileMap {
    /// A map of an inode whose record does not have one yet, or is to get another.
    pub fn new(inode: InodeNo, kind: Kind, record: Vec<u8>, runs: Runs) -> Self {
        FileMap { inode, kind, record, runs, nodes: Vec::new(), xattr_block: None }
    }

    /// The map that an inspection found; `None` for inodes that are free, that will be cleared, or whose data do not lie in blocks.
    pub fn of(inode: InodeNo, found: Inspection) -> Option<Self> {
        let raw = found.raw();
        let has_map = match found.kind {
            Kind::Regular | Kind::Directory => !found.inline,
            Kind::Symlink => !found.runs.is_empty(),
            _ => false,
        };
        let map = FileMap {
            inode,
            kind: found.kind,
            record: found.record,
            runs: Runs::new(found.runs),
            nodes: found.map_blocks,
            xattr_block: found.xattr_block,
        };
        (has_map && !raw.has_flag(InodeFlags::INLINE_DATA)).then_some(map)
    }

    /// The fixed fields of the record.
    pub fn raw(&self) -> RawInode {
        RawInode::from_record(&self.record)
    }

    /// Sets the size.
    pub fn set_size(&mut self, size: u64) {
        let mut raw = self.raw();
        raw.set_size(size);
        raw.store(&mut self.record);
    }

    /// The units (blocks, or clusters) that the data of the file lie in.
    fn units(&self, context: &RepairContext<'_>) -> BTreeSet<u64> {
        let geometry = &context.fs.geometry;
        let units = |run: &MapRun| {
            let last = run.physical + u64::from(run.count) - 1;
            geometry.cluster_of(run.physical)..=geometry.cluster_of(last)
        };
        self.runs.iter().flat_map(units).collect()
    }
}

/// Blocks of a map that is being written.
pub(super) struct Nodes {
    /// Blocks of the map as it was that have found no use.
    old: BTreeSet<u64>,
    /// Blocks taken for it.
    taken: Vec<BlockNo>,
    goal: BlockNo,
    inode: InodeNo,
    /// Contents.
    writes: Vec<(BlockNo, Vec<u8>)>,
}

impl Nodes {
    fn old(&self) -> impl Iterator<Item = u64> + '_ {
        self.old.iter().copied()
    }

    fn is_old(&self, place: u64) -> bool {
        self.old.contains(&place)
    }

    /// Uses a block again.
    fn keep(&mut self, place: u64) -> BlockNo {
        self.old.remove(&place);
        BlockNo(place)
    }

    /// Takes a new one.
    fn take(&mut self, context: &RepairContext<'_>) -> Option<BlockNo> {
        let block = context.allocate_for_map(self.inode, self.goal)?;
        self.taken.push(block);
        Some(block)
    }
}

impl RepairContext<'_> {
    /// Reads the map of `inode` as it is on the overlay, mended. `None` for inodes that are free, that will be cleared, or whose data
    /// do not lie in blocks.
    pub fn open_map(&self, inode: InodeNo) -> Option<FileMap> {
        FileMap::of(inode, self.inspect_inode(inode)?)
    }

    /// Inspects `inode` as it is on the overlay, and says nothing about what is wrong.
    pub fn inspect_inode(&self, inode: InodeNo) -> Option<Inspection> {
        let record = self.read_inode(inode)?;
        Some(inode::inspect(&self.fs, inode, &record, &mut Findings::new()))
    }

    /// Writes a map: as an extent tree where the record has the flag for it, else as indirect blocks. `false`, and nothing is
    /// changed, when it cannot be written because no block is left, or because it is out of reach.
    pub fn store_map(&mut self, map: FileMap) -> bool {
        let goal = map.runs.before(u64::MAX).unwrap_or_else(|| self.goal_of(map.inode));
        let old = map.nodes.iter().copied().collect();
        let mut nodes = Nodes { old, taken: Vec::new(), goal, inode: map.inode, writes: Vec::new() };
        let mut raw = map.raw();
        let built = if raw.has_flag(InodeFlags::EXTENTS) {
            extents::build(self, &map.runs, &mut nodes, seed_of(&self.fs, map.inode, &map.record))
        } else {
            pointers::build(self, &map.runs, &mut nodes, &raw)
        };
        let Some(root) = built else {
            nodes.taken.iter().for_each(|block| self.free_blocks(*block, 1));
            return false;
        };
        for (block, bytes) in &nodes.writes {
            self.put_block(*block, bytes);
        }
        nodes.old.iter().for_each(|place| self.free_blocks(BlockNo(*place), 1));
        let before = self.read_inode(map.inode);
        raw.i_block = root;
        let mut record = map.record;
        raw.store(&mut record);
        self.write_inode(map.inode, &mut record);
        self.settle_record(map.inode, &record, before.as_deref());
        true
    }

    /// Appends a block with `bytes` to a directory (or file) that ends with its last mapped block, and makes it longer by that.
    /// Returns where it lies; `None`, and nothing is changed, when there is no room, or its data do not lie in blocks.
    pub fn append_block(&mut self, inode: InodeNo, bytes: &[u8]) -> Option<BlockNo> {
        let end = self.open_map(inode)?.runs.end();
        self.insert_block(inode, end, bytes)
    }

    /// Puts a block with `bytes` into a hole of a file or directory, or behind its end, which moves then. Returns where it lies;
    /// `None`, and nothing is changed, when there is no room, or no hole.
    pub fn insert_block(&mut self, inode: InodeNo, logical: u64, bytes: &[u8]) -> Option<BlockNo> {
        let mut map = self.open_map(inode)?;
        if map.runs.find(logical).is_some() {
            return None;
        }
        let (block, is_new) = self.place_for(&map, logical)?;
        map.runs.map(MapRun { logical, physical: block.0, count: 1, unwritten: false });
        let end = logical.saturating_add(1).saturating_mul(u64::from(self.fs.geometry.block_size));
        if map.raw().size() < end {
            map.set_size(end);
        }
        if !self.store_map(map) {
            if is_new {
                self.free_blocks(block, 1);
            }
            return None;
        }
        self.write_block(block, bytes);
        Some(block)
    }

    /// Makes block `logical` of a file or directory lie at `to`, which the caller has taken (and whose place within its cluster is
    /// right). Contents are not copied, and the old block is not given back. `false` when that cannot be.
    pub fn replace_block(&mut self, inode: InodeNo, logical: u64, to: BlockNo) -> bool {
        let Some(mut map) = self.open_map(inode) else { return false };
        let [old] = map.runs.within(logical, 1)[..] else { return false };
        map.runs.map(MapRun { physical: to.0, ..old });
        self.store_map(map)
    }

    /// Takes `count` blocks from `logical` out of a map, and gives those back that no other owner claims. The map has to be stored
    /// afterwards.
    pub fn remove_blocks(&self, map: &mut FileMap, logical: u64, count: u64) {
        let removed = map.runs.unmap(logical, count);
        let kept = if self.fs.geometry.cluster_blocks > 1 { map.units(self) } else { BTreeSet::new() };
        for run in removed {
            let last = run.physical + u64::from(run.count) - 1;
            for unit in self.fs.geometry.cluster_of(run.physical)..=self.fs.geometry.cluster_of(last) {
                if !kept.contains(&unit) && !self.claims.contested().get(unit) {
                    self.claims.settle(unit, false);
                }
            }
        }
    }

    /// A place for block `logical` of a file: where its cluster lies already, or in a cluster that is taken for it. Says whether it
    /// was taken.
    pub fn place_for(&self, map: &FileMap, logical: u64) -> Option<(BlockNo, bool)> {
        if self.fs.regions.exist() && map.kind == Kind::Directory {
            return self.allocate_in_region(map.inode).map(|block| (block, true));
        }
        let mask = u64::from(self.fs.geometry.cluster_blocks) - 1;
        let within = logical & mask;
        let mates = map.runs.within(logical - within, mask + 1);
        let aligned = mates.iter().find(|run| run.physical & mask == run.logical & mask);
        if let Some(mate) = aligned {
            return Some((BlockNo((mate.physical & !mask) + within), false));
        }
        let goal = map.runs.before(logical).map(|block| BlockNo(block.0 + 1));
        let start = self.allocate_blocks(goal.unwrap_or_else(|| self.goal_of(map.inode)), 1)?;
        Some((BlockNo(start.0 + within), true))
    }

    /// Writes a block, if it differs from what is there.
    fn put_block(&self, block: BlockNo, bytes: &[u8]) {
        if self.read_block(block).ok().as_deref() != Some(bytes) {
            self.write_block(block, bytes);
        }
    }

    /// The first block of the group that `inode` stands in.
    pub(crate) fn goal_of(&self, inode: InodeNo) -> BlockNo {
        let group = self.fs.geometry.inode_place(inode).map(|(group, _)| group).unwrap_or_default();
        BlockNo(self.fs.geometry.group_first_block(group))
    }

    /// Sets space and size of an inode as its map, which has been written, has them.
    fn settle_record(&mut self, inode: InodeNo, record: &[u8], before: Option<&[u8]>) {
        let found = inode::inspect(&self.fs, inode, record, &mut Findings::new());
        if found.kind == Kind::Unused {
            return;
        }
        let mut settled = found.record;
        if settled != record {
            self.write_inode(inode, &mut settled);
        }
        let Some(before) = before.filter(|_| self.fs.counts_quota()) else { return };
        let (old, new) = (RawInode::from_record(before), RawInode::from_record(&settled));
        if quota::counts(&self.fs, inode, new.flags()) {
            let geometry = &self.fs.geometry;
            let owner = quota::owner_of(&new);
            self.repair_input.quota.recharge(owner, bytes_of(geometry, &old), bytes_of(geometry, &new));
        }
    }
}
