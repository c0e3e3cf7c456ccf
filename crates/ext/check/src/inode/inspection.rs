// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the inspection of an inode leaves behind.

use fsmend_base::{BlockRange, InodeNo};
use fsmend_engine::inodes::Kind;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::inode::RawInode;

/// A piece of a file's map: `count` blocks of the file from `logical` lie at `physical`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapRun {
    /// First block within the file.
    pub logical: u64,
    /// Where it lies.
    pub physical: u64,
    /// Number of blocks.
    pub count: u32,
    /// Allocated but never written (reads as zeroes).
    pub unwritten: bool,
}

/// What the inspection of one inode leaves behind. All of it describes the inode as it will be after repair.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// The mended record (`inode_size` bytes); all zero but for what a cleared inode keeps when `kind` is `Unused`.
    pub record: Vec<u8>,
    /// What it is; `Unused` when it is free or will be cleared.
    pub kind: Kind,
    /// Marks for the inode table (`engine::inodes::mark`).
    pub marks: u8,
    /// Its data blocks in the order of the file. Holes are not listed.
    pub runs: Vec<MapRun>,
    /// Blocks of its indirect blocks or extent nodes.
    pub map_blocks: Vec<u64>,
    /// How many blocks of its map were read, whatever came of them.
    pub map_reads: u64,
    /// The block of its translator, on the Hurd.
    pub translator: Option<u64>,
    /// Its attribute block, if it has one that is within the file system.
    pub xattr_block: Option<u64>,
    /// Inodes that hold attribute values of this inode, with the hash its entry stores; one per reference.
    pub value_inodes: Vec<(InodeNo, u32)>,
    /// Whether its data live in the inode.
    pub inline: bool,
    /// Its space, in sectors of 512 bytes.
    pub charged_sectors: u64,
    /// Runs that lie wrong within their clusters, and will have to be moved: contested, with or without another owner.
    pub misaligned: Vec<BlockRange>,
    /// Whether the map has to be written anew, as an extent tree of `runs`, or on a rext3 with blocks in other places. The record
    /// holds the old one.
    pub rebuild: bool,
    /// Whether anything was raised.
    pub has_problems: bool,
    /// Whether an inode in use will be cleared.
    pub cleared: bool,
}

impl Inspection {
    /// The fixed fields of the mended record.
    pub fn raw(&self) -> RawInode {
        RawInode::from_record(&self.record)
    }
}

/// How many links `record` says that it has.
pub fn links_of(record: &[u8]) -> u16 {
    RawInode::from_record(record).i_links_count.get()
}

/// The allocation units (blocks, or clusters with bigalloc) that an inspected inode owns by its map, in the order of
/// the map. With bigalloc, neighbouring runs may share a cluster, which is then owned once; whatever else is named
/// twice is contested, and so is what lies wrong within its cluster, for it has to be moved.
pub fn units_of(inspection: &Inspection, geometry: &Geometry) -> Vec<(u64, u64)> {
    let unit_run = |start: u64, count: u64| {
        let first = geometry.cluster_of(start);
        (first, geometry.cluster_of(start + count.max(1) - 1) - first + 1)
    };
    let mut units = Vec::with_capacity(inspection.runs.len() + inspection.map_blocks.len());
    let mut last_unit = None;
    for run in &inspection.runs {
        let (mut first, mut count) = unit_run(run.physical, u64::from(run.count));
        let end = first + count;
        if geometry.cluster_blocks > 1 && last_unit == Some(first) {
            (first, count) = (first + 1, count - 1);
        }
        if count > 0 {
            units.push((first, count));
        }
        last_unit = end.checked_sub(1);
    }
    let blocks = inspection.map_blocks.iter().chain(&inspection.translator);
    units.extend(blocks.map(|block| unit_run(*block, 1)));
    units.extend(inspection.misaligned.iter().map(|range| unit_run(range.start.0, range.count)));
    units
}
