// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the blocks of a file lie, for files that are needed before inodes are inspected (journal, orphans, quota).
//! Tolerant: what cannot be believed is left out and makes the map incomplete; nothing is raised.
//!
//! Bounded: no map block is visited twice in one map, so that cycles end.

use std::collections::BTreeSet;

use fsmend_base::BlockNo;
use fsmend_device::ReadError;
use fsmend_ext_format::extent::EXTENT_MAGIC;
use fsmend_ext_format::inode::{InodeFlags, RawInode};
use fsmend_ext_format::rext3::IndirectHeader;

use super::replay_overlay::ReplayOverlay;
use crate::inode::MapRun;

const EXTENT_DEPTH_MAX: u16 = 5;
/// Lengths above this mark unwritten extents.
const EXTENT_LEN_MAX: u16 = 0x8000;
const DIRECT_BLOCKS: usize = 12;

/// The map of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileMap {
    /// Its data blocks in the order of the file; holes are not listed.
    pub runs: Vec<MapRun>,
    /// Its indirect blocks or extent nodes.
    pub map_blocks: Vec<u64>,
    /// Whether something in it could not be believed.
    pub damaged: bool,
    /// A map block that could not be read.
    pub unreadable: Option<ReadError>,
}

impl FileMap {
    /// The device block of block `logical` of the file.
    pub fn find(&self, logical: u64) -> Option<u64> {
        let index = self.runs.partition_point(|run| run.logical <= logical).checked_sub(1)?;
        let run = self.runs.get(index)?;
        let within = logical - run.logical;
        (within < u64::from(run.count)).then(|| run.physical.saturating_add(within))
    }

    /// How many blocks from the start are mapped without a hole.
    pub fn solid_blocks(&self) -> u64 {
        let mut next = 0;
        for run in &self.runs {
            if run.logical > next {
                break;
            }
            next = next.max(run.logical.saturating_add(u64::from(run.count)));
        }
        next
    }

    fn push(&mut self, run: MapRun) {
        if let Some(last) = self.runs.last_mut() {
            let follows = last.logical + u64::from(last.count) == run.logical
                && last.physical + u64::from(last.count) == run.physical
                && last.unwritten == run.unwritten;
            if let (true, Some(count)) = (follows, last.count.checked_add(run.count)) {
                last.count = count;
                return;
            }
        }
        self.runs.push(run);
    }
}

/// Reads the map of the file with this record.
pub(crate) fn read(overlay: &ReplayOverlay<'_>, inode: &RawInode) -> FileMap {
    let mut walk = Walk { overlay, map: FileMap::default(), seen: BTreeSet::new() };
    if inode.has_flag(InodeFlags::INLINE_DATA) {
        return walk.map;
    }
    if inode.has_flag(InodeFlags::EXTENTS) {
        walk.extent_node(&inode.i_block, None);
    } else {
        walk.indirect(inode);
    }
    // Overlapping or unordered extents: all readers look blocks up in the order of the file.
    if !walk.map.runs.is_sorted_by_key(|run| run.logical) {
        walk.map.damaged = true;
        walk.map.runs.sort_by_key(|run| run.logical);
    }
    walk.map
}

struct Walk<'a, 'd> {
    overlay: &'a ReplayOverlay<'d>,
    map: FileMap,
    seen: BTreeSet<u64>,
}

impl Walk<'_, '_> {
    fn is_valid(&self, block: u64) -> bool {
        block != 0 && self.overlay.geometry.group_of_block(BlockNo(block)).is_some()
    }

    /// Reads a map block unless it is outside or was seen before.
    fn node(&mut self, block: u64) -> Option<Vec<u8>> {
        if !self.is_valid(block) || !self.seen.insert(block) {
            self.map.damaged = true;
            return None;
        }
        self.map.map_blocks.push(block);
        match self.overlay.read(block) {
            Ok(contents) => Some(contents),
            Err(error) => {
                self.map.unreadable.get_or_insert(error);
                None
            }
        }
    }

    /// One node of an extent tree; `depth` is what its parent expects (nothing for the root). Recursion is at most
    /// `EXTENT_DEPTH_MAX` deep.
    fn extent_node(&mut self, node: &[u8], depth: Option<u16>) {
        let own = le16(node, 6);
        let entries = usize::from(le16(node, 2));
        let believable = le16(node, 0) == EXTENT_MAGIC
            && own <= EXTENT_DEPTH_MAX
            && depth.is_none_or(|depth| depth == own)
            && 12 + 12 * entries <= node.len();
        if !believable {
            self.map.damaged = true;
            return;
        }
        for entry in node[12..12 + 12 * entries].chunks_exact(12) {
            if own == 0 {
                self.extent(entry);
            } else {
                let child = u64::from(le16(entry, 8)) << 32 | u64::from(le32(entry, 4));
                if let Some(contents) = self.node(child) {
                    self.extent_node(&contents, Some(own - 1));
                }
            }
        }
    }

    fn extent(&mut self, entry: &[u8]) {
        let length = le16(entry, 4);
        let unwritten = length > EXTENT_LEN_MAX;
        let count = u32::from(if unwritten { length - EXTENT_LEN_MAX } else { length });
        let physical = u64::from(le16(entry, 6)) << 32 | u64::from(le32(entry, 8));
        let last = physical.saturating_add(u64::from(count)).saturating_sub(1);
        if count == 0 || !self.is_valid(physical) || !self.is_valid(last) {
            self.map.damaged = true;
            return;
        }
        self.map.push(MapRun { logical: u64::from(le32(entry, 0)), physical, count, unwritten });
    }

    fn indirect(&mut self, inode: &RawInode) {
        let per_block = u64::from(self.overlay.geometry.pointers_per_block());
        for index in 0..DIRECT_BLOCKS {
            self.data(inode.block_word(index), index as u64);
        }
        let mut logical = DIRECT_BLOCKS as u64;
        for level in 1..=3 {
            self.indirect_block(inode.block_word(DIRECT_BLOCKS - 1 + level as usize), level, logical);
            logical += per_block.pow(level);
        }
    }

    /// An indirect block `level` steps above the data. Recursion is at most three deep.
    fn indirect_block(&mut self, block: u32, level: u32, logical: u64) {
        if block == 0 {
            return;
        }
        let Some(contents) = self.node(u64::from(block)) else { return };
        let geometry = &self.overlay.geometry;
        let header = IndirectHeader::parse(&contents).filter(|header| u32::from(header.level) == level);
        if geometry.rext3()
            && !header.is_some_and(|header| header.is_right(geometry.checksum_seed, BlockNo(block.into())))
        {
            self.map.damaged = true;
            return;
        }
        let span = u64::from(geometry.pointers_per_block()).pow(level - 1);
        let pointers = contents.get(geometry.indirect_header()..).unwrap_or_default();
        if level > 1 {
            self.overlay.announce(pointers.chunks_exact(4).map(|word| u64::from(le32(word, 0))));
        }
        for (index, word) in pointers.chunks_exact(4).enumerate() {
            let (number, place) = (le32(word, 0), logical + index as u64 * span);
            if level == 1 {
                self.data(number, place);
            } else {
                self.indirect_block(number, level - 1, place);
            }
        }
    }

    fn data(&mut self, block: u32, logical: u64) {
        if block == 0 {
            return;
        }
        if !self.is_valid(u64::from(block)) {
            self.map.damaged = true;
            return;
        }
        self.map.push(MapRun { logical, physical: u64::from(block), count: 1, unwritten: false });
    }
}

fn le16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |part| u16::from_le_bytes([part[0], part[1]]))
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |part| u32::from_le_bytes([part[0], part[1], part[2], part[3]]))
}
