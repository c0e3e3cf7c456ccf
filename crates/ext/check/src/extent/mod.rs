//! Extent trees: inspection of one inode's map.
//!
//! A tree is walked from its root in `i_block`, every node once. An entry that makes no sense is taken out; the rest
//! of the tree stays. Depth is bounded by the root's depth field, each child has to be one level lower, and no node
//! is entered twice, so that the work is bounded by the nodes that are really there.

pub mod problems;
#[cfg(test)]
mod tests;

use fsmend_base::BlockNo;
use fsmend_engine::{Problem, Value};
use fsmend_ext_format::checksum;
use fsmend_ext_format::extent::{Extent, ExtentHeader, ExtentIndex, extents, indexes};
use fsmend_ext_format::features::incompat;

use crate::inode::MapRun;
use crate::inode::map::Map;
use crate::inode::subject::Subject;
use problems::{
    BEYOND_PARENT, DIRECTORY_HOLE, DIRECTORY_TOO_BIG, DIRECTORY_UNWRITTEN, END_OUTSIDE, HEADER_INVALID,
    INDEX_START, LENGTH_ZERO, NODE_CHECKSUM, NODE_IN_METADATA, NODE_REPEATED, NODE_UNREADABLE, OUT_OF_ORDER,
    OVERLAP, START_OUTSIDE, TOO_DEEP, TREE_ROOT_INVALID, UNWRITTEN_NOT_ALLOWED,
};

/// A greater depth is no depth: five levels map every file.
const DEPTH_MAX: u16 = 16;

/// Walks the extent tree in `i_block`. `may_be_unwritten` says whether unwritten extents are allowed.
/// `None` when there is no tree, and the inode has to be cleared.
pub(crate) fn walk(subject: &mut Subject<'_, '_>, may_be_unwritten: bool) -> Option<Map> {
    let root = subject.raw.i_block;
    let Some(mut header) = ExtentHeader::parse(&root) else {
        let problem = subject.problem(&TREE_ROOT_INVALID);
        subject.raise(problem);
        return None;
    };
    let depth_needed = deepest_useful(subject.fs.geometry.block_size);
    if header.depth > depth_needed {
        let problem = subject.problem(&TOO_DEEP).stored(header.depth).observed(depth_needed);
        subject.raise(problem);
    }
    if header.depth > DEPTH_MAX {
        header.depth = likely_depth(subject, &root, &header);
    }
    let seed = subject.fs.geometry.features.metadata_csum().then(|| {
        checksum::inode_seed(subject.fs.geometry.checksum_seed, subject.inode, subject.raw.i_generation.get())
    });
    let mut walk = Walk { subject, map: Map::default(), seed, may_be_unwritten };
    walk.entries(&root, &header, 0, u64::from(u32::MAX));
    Some(walk.map)
}

/// The depth of a root whose own word about it is nonsense: one more than what its first child says, or 0 when that is no
/// child.
fn likely_depth(subject: &Subject<'_, '_>, root: &[u8], header: &ExtentHeader) -> u16 {
    let child = indexes(root, header).next().map(|index| BlockNo(index.child));
    child
        .filter(|block| subject.fs.is_valid_block(*block) && !subject.fs.metadata.get(block.0))
        .and_then(|block| subject.fs.read_block(block).ok())
        .and_then(|bytes| ExtentHeader::parse(&bytes))
        .filter(|child| child.depth < DEPTH_MAX)
        .map_or(0, |child| child.depth + 1)
}

/// Levels below the root that map the largest file in extents of one block each.
fn deepest_useful(block_size: u32) -> u16 {
    let per_node = u64::from(block_size - 12) / 12;
    let (mut reach, mut depth) = (4, 0);
    while reach <= u64::from(u32::MAX) {
        reach *= per_node;
        depth += 1;
    }
    depth
}

struct Walk<'s, 'a, 'd> {
    subject: &'s mut Subject<'a, 'd>,
    map: Map,
    /// Seed of the checksums of nodes, if they have some.
    seed: Option<u32>,
    may_be_unwritten: bool,
}

impl Walk<'_, '_, '_> {
    /// Goes through the entries of a node that is to map blocks `start..=end`. Returns whether all were in order
    /// (those of this node; children raise their own problems).
    fn entries(&mut self, node: &[u8], header: &ExtentHeader, start: u64, end: u64) -> bool {
        if header.depth > 0 {
            self.interior(node, header, start, end)
        } else {
            self.leaf(node, header, start, end)
        }
    }

    fn interior(&mut self, node: &[u8], header: &ExtentHeader, start: u64, end: u64) -> bool {
        let mut in_order = true;
        let mut rest = indexes(node, header).peekable();
        while let Some(index) = rest.next() {
            let next = rest.peek().map(|next| u64::from(next.logical));
            in_order &= self.child(index, header.depth, start, end, next);
        }
        in_order
    }

    /// Follows an interior entry; `false` when the entry is wrong.
    fn child(&mut self, index: ExtentIndex, depth: u16, start: u64, end: u64, next: Option<u64>) -> bool {
        let block = BlockNo(index.child);
        if !self.subject.fs.is_valid_block(block) {
            let problem = self.place(&START_OUTSIDE, index.logical, 0).stored(index.child);
            return self.refuse(problem);
        }
        if u64::from(index.logical) < start {
            let problem = self.place(&OUT_OF_ORDER, index.logical, 0).observed(start);
            return self.refuse(problem);
        }
        if !self.map.add_map_block(block.0) {
            let problem = self.subject.problem(&NODE_REPEATED).block(block);
            return self.refuse(problem);
        }
        if self.subject.fs.metadata.get(block.0) {
            let problem = self.subject.problem(&NODE_IN_METADATA).block(block);
            self.subject.raise(problem);
        }
        self.node(block, index, depth - 1, end, next)
    }

    /// Enters the node in `block`; `false` when it is none.
    fn node(&mut self, block: BlockNo, index: ExtentIndex, depth: u16, end: u64, next: Option<u64>) -> bool {
        let Ok(bytes) = self.subject.fs.read_block(block) else {
            return self.drop_node(&NODE_UNREADABLE, block);
        };
        let header = ExtentHeader::parse(&bytes).filter(|header| header.depth == depth && header.entries > 0);
        let Some(header) = header else {
            return self.drop_node(&HEADER_INVALID, block);
        };
        let first = first_logical(&bytes, &header).unwrap_or(index.logical);
        if first != index.logical {
            let problem = self.subject.problem(&INDEX_START).block(block);
            self.subject.raise(problem.stored(index.logical).observed(first));
        }
        let first = u64::from(first);
        let end = next.filter(|next| *next > first).map_or(end, |next| end.min(next - 1));
        let in_order = self.entries(&bytes, &header, first, end);
        if in_order {
            self.compare_checksum(block, &bytes);
        }
        true
    }

    /// Raises that `block` is no node, and takes it out of the map again.
    fn drop_node(&mut self, row: &'static fsmend_engine::Row, block: BlockNo) -> bool {
        self.map.map_blocks.pop();
        self.map.clusters = self.map.clusters.saturating_sub(1);
        let problem = self.subject.problem(row).block(block);
        self.refuse(problem)
    }

    /// Compares the checksum of a node that made sense. (One that did not is written anew anyway.)
    fn compare_checksum(&mut self, block: BlockNo, bytes: &[u8]) {
        let Some(checked) = self.seed.and_then(|seed| checksum::extent_block(seed, bytes)) else { return };
        if !checked.is_right() {
            let problem = self.subject.problem(&NODE_CHECKSUM).block(block);
            let stored = Value::Hex(u64::from(checked.stored));
            let problem = problem.stored(stored).observed(Value::Hex(u64::from(checked.computed)));
            self.subject.raise(problem);
        }
    }

    fn leaf(&mut self, node: &[u8], header: &ExtentHeader, start: u64, end: u64) -> bool {
        let mut in_order = true;
        let mut floor = start;
        for extent in extents(node, header) {
            match self.judge(&extent, floor, end) {
                Some(problem) => in_order = self.refuse(problem),
                None => {
                    let stored_end = extent.logical_end();
                    in_order &= self.keep(extent);
                    floor = stored_end - 1;
                }
            }
        }
        in_order
    }

    /// What is wrong with an extent of a leaf, if it has to go. Blocks before `floor` belong to earlier entries.
    fn judge(&self, extent: &Extent, floor: u64, end: u64) -> Option<Problem> {
        let (logical, count) = (u64::from(extent.logical), u64::from(extent.count));
        let fs = self.subject.fs;
        let problem = |row| self.place(row, extent.logical, extent.count);
        if !fs.is_valid_block(BlockNo(extent.physical)) {
            return Some(problem(&START_OUTSIDE).stored(extent.physical));
        }
        if logical < floor {
            return Some(problem(&OUT_OF_ORDER).observed(floor));
        }
        if count == 0 {
            return Some(problem(&LENGTH_ZERO));
        }
        if extent.logical_end() - 1 > end {
            return Some(problem(&BEYOND_PARENT).observed(end));
        }
        if extent.physical_end() > fs.geometry.blocks_count {
            return Some(problem(&END_OUTSIDE).stored(extent.physical));
        }
        if self.subject.is_directory() && extent.logical_end() > self.subject.directory_blocks_max() {
            return Some(problem(&DIRECTORY_TOO_BIG));
        }
        self.map.overlaps(logical, count).then(|| problem(&OVERLAP))
    }

    /// Adds an extent to the map, mended where it may stay with a change; `false` when there was one.
    fn keep(&mut self, mut extent: Extent) -> bool {
        let directory = self.subject.is_directory();
        let mut unchanged = true;
        if extent.unwritten && !self.may_be_unwritten {
            let row = if directory { &DIRECTORY_UNWRITTEN } else { &UNWRITTEN_NOT_ALLOWED };
            let problem = self.place(row, extent.logical, extent.count);
            unchanged = self.refuse(problem);
            extent.unwritten = false;
        }
        let mut logical = u64::from(extent.logical);
        if directory && let Some(place) = self.place_without_gap(&extent) {
            let problem = self.subject.problem(&DIRECTORY_HOLE).stored(logical).observed(place);
            unchanged = self.refuse(problem);
            logical = place;
        }
        let (physical, count) = (extent.physical, extent.count);
        self.map.add(self.subject, MapRun { logical, physical, count, unwritten: extent.unwritten });
        unchanged
    }

    /// Where an extent of a directory that leaves a gap has to move.
    fn place_without_gap(&self, extent: &Extent) -> Option<u64> {
        let mut place = self.map.end();
        let mask = u64::from(self.subject.fs.geometry.cluster_blocks) - 1;
        if u64::from(extent.logical) <= place {
            return None;
        }
        if mask != 0 {
            place = (place.saturating_add(mask) & !mask) | extent.physical & mask;
        }
        (place < u64::from(extent.logical)).then_some(place)
    }

    fn place(&self, row: &'static fsmend_engine::Row, logical: u32, length: u32) -> Problem {
        self.subject.problem(row).detail("logical", logical).detail("length", length)
    }

    /// Raises what is wrong with an entry; always `false`.
    fn refuse(&mut self, problem: Problem) -> bool {
        self.subject.raise(problem);
        false
    }
}

/// The first file block that a node maps.
fn first_logical(node: &[u8], header: &ExtentHeader) -> Option<u32> {
    if header.depth > 0 {
        indexes(node, header).next().map(|index| index.logical)
    } else {
        extents(node, header).next().map(|extent| extent.logical)
    }
}

/// Whether `i_block` holds the root of an extent tree.
pub(crate) fn is_root(subject: &Subject<'_, '_>) -> bool {
    ExtentHeader::parse(&subject.raw.i_block).is_some()
}

/// Whether the file system has extents.
pub(crate) fn is_enabled(subject: &Subject<'_, '_>) -> bool {
    subject.has_incompat(incompat::EXTENTS)
}
