// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extent trees: inspection of one inode's map.
//!
//! A tree is walked from its root in `i_block`, every node once. An entry that makes no sense is taken out; the rest
//! of the tree stays. Depth is bounded by the root's depth field, each child has to be one level lower, and no node
//! is entered twice, so that the work is bounded by the nodes that are really there.

mod depth;
pub(crate) mod head;
mod leaves;
mod order;
pub(crate) mod problems;
pub(crate) mod repair;
mod root;
mod tail;
#[cfg(test)]
mod tests;

use fsmend_base::{BlockNo, width};
use fsmend_engine::problem::Mark;
use fsmend_engine::{Layer, Problem, Value};
use fsmend_ext_format::checksum;
use fsmend_ext_format::extent::{
    Extent, ExtentHeader, ExtentIndex, RawEntry, extents, indexes, raw_entries, set_entries,
};
use fsmend_ext_format::inode::InodeFlags;

use crate::context::Fs;
use crate::inode::MapRun;
use crate::inode::map::Map;
use crate::inode::size;
use crate::inode::subject::Subject;
use problems::{
    BEYOND_PARENT, DIRECTORY_HOLE, DIRECTORY_TOO_BIG, DIRECTORY_UNWRITTEN, END_OUTSIDE, HEADER_INVALID,
    INDEX_START, LENGTH_ZERO, MISPLACED, NODE_CHECKSUM, NODE_DEPTH, NODE_IN_METADATA, NODE_REPEATED,
    NODE_UNREADABLE, OUT_OF_ORDER, OVERLAP, START_OUTSIDE, TOO_DEEP, TOO_LONG, TREE_HEAD_DAMAGED,
    TREE_ROOT_INVALID, UNWRITTEN_NOT_ALLOWED,
};
pub(crate) use root::{is_enabled, is_root};

/// A greater depth is no depth: five levels map every file.
const DEPTH_MAX: u16 = 16;

/// The last block that a file may have: its number and the number behind it have 32 bits. (The kernel refuses a file with one more.)
pub(crate) const LAST_BLOCK: u64 = u32::MAX as u64 - 1;

/// Walks the extent tree in `i_block` and mends it: the root in the subject, nodes by edits.
/// `may_be_unwritten` says whether unwritten extents are allowed. `None` when there is no tree, and the inode has to be cleared.
pub(crate) fn walk(subject: &mut Subject<'_, '_>, may_be_unwritten: bool) -> Option<Map> {
    if ExtentHeader::parse(&subject.raw.i_block).is_none() {
        let mended = head::mended(subject);
        let row = if mended.is_some() { &TREE_HEAD_DAMAGED } else { &TREE_ROOT_INVALID };
        let problem = subject.problem(row);
        subject.raise(problem);
        subject.raw.i_block = mended?;
    }
    let mut root = subject.raw.i_block;
    let mut header = ExtentHeader::parse(&root)?;
    let depth_needed = deepest_useful(subject.fs.geometry.block_size);
    // A tree of nothing has no levels: the kernel refuses a file whose root says otherwise.
    let depth_possible = if header.entries == 0 { 0 } else { depth_needed };
    let too_deep = header.depth > depth_possible;
    if too_deep {
        let problem = subject.problem(&TOO_DEEP).stored(header.depth).observed(depth_possible);
        subject.raise(problem);
    }
    if header.depth > DEPTH_MAX {
        header.depth = likely_depth(subject, &root, &header);
    }
    let seed = subject.fs.geometry.features.metadata_csum().then(|| {
        checksum::inode_seed(subject.fs.geometry.checksum_seed, subject.inode, subject.raw.i_generation.get())
    });
    let cluster = u64::from(subject.fs.geometry.cluster_blocks);
    let nodes = nodes_of_only_leaf(&header);
    // What the extents have together, if the space in use is right. A node takes a cluster.
    let blocks = nodes.and_then(|nodes| size::told_of_map(subject)?.checked_sub(nodes * cluster));
    let has_only_leaf = nodes.is_some();
    let leaves = leaves::below_root(&root, &header);
    let map = Map::default();
    let mut walk =
        Walk { subject, map, seed, may_be_unwritten, has_only_leaf, blocks, leaves, here: BlockNo(0) };
    // An extent of a directory moves up to the others.
    let end = if walk.subject.is_directory() { u64::from(u32::MAX) } else { LAST_BLOCK };
    let node = walk.entries(&root, &header, 0, end);
    if walk.subject.is_given_up {
        return None;
    }
    let mut map = walk.map;
    let depth = if node.kept.is_empty() { 0 } else { header.depth };
    map.is_deep = depth > 0;
    if node.changed || too_deep {
        set_entries(&mut root, depth, &node.kept);
        subject.raw.i_block = root;
    }
    map.rebuild = depth > depth_needed || map.is_unordered();
    Some(map)
}

/// How many nodes in blocks there are where one leaf holds all extents: the leaf itself, if it is not in the inode. `None` where there may be
/// more leaves.
fn nodes_of_only_leaf(header: &ExtentHeader) -> Option<u64> {
    match (header.depth, header.entries) {
        (0, _) => Some(0),
        (1, 1) => Some(1),
        _ => None,
    }
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

/// Whether an extent may be a witness for where the others stand.
fn could_stand(fs: &Fs<'_>, extent: &Extent, start: u64, end: u64) -> bool {
    let is_within = (start..=end).contains(&u64::from(extent.logical));
    is_within && extent.count > 0 && fs.is_valid_block(BlockNo(extent.physical))
}

struct Walk<'s, 'a, 'd> {
    subject: &'s mut Subject<'a, 'd>,
    map: Map,
    /// Seed of the checksums of nodes, if they have some.
    seed: Option<u32>,
    may_be_unwritten: bool,
    /// All extents stand in one leaf.
    has_only_leaf: bool,
    /// How many blocks the only leaf maps, as the space in use says.
    blocks: Option<u64>,
    /// The leaves, where there are several right below the root.
    leaves: Vec<BlockNo>,
    /// The node that is walked.
    here: BlockNo,
}

/// What is left of the entries of a node.
#[derive(Default)]
struct Node {
    /// The entries that stay, as they will be.
    kept: Vec<RawEntry>,
    /// Whether those are others than the stored ones.
    changed: bool,
    /// Whether all entries were in order, but for the keys of children. (Those raise their own problems.)
    in_order: bool,
}

impl Walk<'_, '_, '_> {
    /// Goes through the entries of a node that is to map blocks `start..=end`.
    fn entries(&mut self, node: &[u8], header: &ExtentHeader, start: u64, end: u64) -> Node {
        let mut left = if header.depth > 0 {
            self.interior(node, header, start, end)
        } else {
            self.leaf(node, header, start, end)
        };
        left.changed = left.kept != raw_entries(node, header);
        left
    }

    fn interior(&mut self, node: &[u8], header: &ExtentHeader, start: u64, end: u64) -> Node {
        let mut left = Node { in_order: true, ..Node::default() };
        let mut rest = indexes(node, header).zip(raw_entries(node, header)).peekable();
        let mut last_key = None;
        while let Some((index, raw)) = rest.next() {
            let next = rest.peek().map(|(next, _)| u64::from(next.logical));
            match self.child(index, header.depth, start, end, next) {
                Ok(key) => {
                    if last_key.is_some_and(|last| key <= last) {
                        // It stays: the tree is written anew, in the order of the file.
                        let problem = self.place(&OUT_OF_ORDER, key, 0).observed(last_key.unwrap_or(0));
                        self.subject.raise(problem);
                        self.map.out_of_order = true;
                    }
                    last_key = last_key.max(Some(key));
                    let mended = ExtentIndex { logical: key, ..index };
                    left.kept.push(if key == index.logical { *raw } else { mended.to_bytes() });
                }
                Err(Dropped::Wrong) => left.in_order = false,
                Err(Dropped::Empty) => {}
            }
        }
        left
    }

    /// Follows an interior entry; returns the key that it has to have, if it stays.
    fn child(
        &mut self,
        index: ExtentIndex,
        depth: u16,
        start: u64,
        end: u64,
        next: Option<u64>,
    ) -> Result<u32, Dropped> {
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
        if self.subject.is_given_up || !self.subject.may_read_map_block(block.0) {
            return Err(Dropped::Wrong);
        }
        if self.subject.fs.metadata.get(block.0) {
            let problem = self.subject.problem(&NODE_IN_METADATA).block(block);
            self.subject.raise(problem);
        }
        let dropped = match self.node(block, index, depth - 1, (start, end), next) {
            Ok(key) => return Ok(key),
            Err(dropped) => dropped,
        };
        self.map.drop_map_block();
        Err(dropped)
    }

    /// Enters the node in `block`. Returns its key; none when it is no node, or nothing in it stays.
    fn node(
        &mut self,
        block: BlockNo,
        index: ExtentIndex,
        depth: u16,
        (start, end): (u64, u64),
        next: Option<u64>,
    ) -> Result<u32, Dropped> {
        let mark = self.subject.findings.mark();
        let Ok(mut bytes) = self.subject.fs.read_block(block) else {
            let problem = self.subject.problem(&NODE_UNREADABLE).block(block);
            return self.refuse(problem);
        };
        let told = depth::told(self.subject.fs, &bytes, index, depth);
        let header = ExtentHeader::parse(&bytes).filter(|header| header.depth == depth && header.entries > 0);
        let Some(header) = header.or(told) else {
            let problem = self.subject.problem(&HEADER_INVALID).block(block);
            return self.refuse(problem);
        };
        if told.is_some() {
            let problem = self.subject.problem(&NODE_DEPTH).block(block).observed(depth);
            self.subject.raise(problem);
        }
        let first = first_logical(&bytes, &header).unwrap_or(index.logical);
        if first != index.logical {
            let problem = self.subject.problem(&INDEX_START).block(block);
            self.subject.raise(problem.stored(index.logical).observed(first));
        }
        // The key may be the wrong one of the two, or the first entry: where only the key goes with its neighbours, it is believed.
        let goes = |key: u32| {
            u64::from(key) >= start && next.map_or(u64::from(key) <= end, |next| u64::from(key) < next)
        };
        let second = extents(&bytes, &header).nth(1).filter(|_| depth == 0);
        let leads = second.is_none_or(|second| first < second.logical || index.logical >= second.logical);
        let is_wrong = !goes(first) || !leads;
        let first = u64::from(if goes(index.logical) && is_wrong { index.logical } else { first });
        let end = next.filter(|next| *next > first).map_or(end, |next| end.min(next - 1));
        self.here = block;
        let left = self.entries(&bytes, &header, first, end);
        let Some(key) = left.kept.first().map(key_of) else { return Err(Dropped::Empty) };
        let stale = left.in_order && !self.has_right_checksum(block, &bytes);
        if left.changed || stale || told.is_some() {
            set_entries(&mut bytes, depth, &left.kept);
            self.edit(mark, block, &mut bytes);
        }
        Ok(key)
    }

    /// Keeps the mended node for the repair.
    fn edit(&mut self, mark: Mark, block: BlockNo, bytes: &mut [u8]) {
        if let Some(seed) = self.seed {
            checksum::seal_extent_block(seed, bytes);
        }
        let offset = self.subject.fs.block_offset(block);
        self.subject.findings.edit_since(mark, Layer::Block, offset, bytes);
    }

    /// Compares the checksum of a node that made sense. (One that did not is written anew anyway.)
    fn has_right_checksum(&mut self, block: BlockNo, bytes: &[u8]) -> bool {
        let checked = self.seed.and_then(|seed| checksum::extent_block(seed, bytes));
        let Some(checked) = checked.filter(|checked| !checked.is_right()) else { return true };
        let problem = self.subject.problem(&NODE_CHECKSUM).block(block);
        let stored = Value::Hex(u64::from(checked.stored));
        let problem = problem.stored(stored).observed(Value::Hex(u64::from(checked.computed)));
        self.subject.raise(problem);
        false
    }

    fn leaf(&mut self, node: &[u8], header: &ExtentHeader, start: u64, end: u64) -> Node {
        let mut left = Node { in_order: true, ..Node::default() };
        let mut floor = start;
        let mut listed: Vec<Extent> = extents(node, header).collect();
        let last = self.has_only_leaf.then(|| tail::cut(self.subject, &listed, self.blocks)).flatten();
        let moved = self.bring_home(&mut listed, start, end);
        left.in_order = moved.is_empty();
        let fs = self.subject.fs;
        let mut settled = order::settle(&listed, |extent| could_stand(fs, extent, start, end));
        let is_cut = listed.iter().zip(&settled).any(|(extent, length)| *length != Some(extent.count));
        let among_others =
            || is_cut.then(|| leaves::blocks_of(self.subject, &self.leaves, self.here)).flatten();
        if let Some(blocks) = self.blocks.or_else(among_others) {
            let cluster = u64::from(self.subject.fs.geometry.cluster_blocks);
            order::fit(&listed, &mut settled, blocks, cluster);
        }
        let listed = listed.into_iter().zip(raw_entries(node, header)).zip(settled).enumerate();
        for (at, ((extent, raw), length)) in listed {
            let Some(fitting) = self.cut(extent, length, (floor, last)).filter(|extent| {
                let problem = self.judge(extent, floor, end);
                let stays = problem.is_none();
                problem.into_iter().for_each(|problem| self.subject.raise(problem));
                stays
            }) else {
                left.in_order = false;
                continue;
            };
            floor = fitting.logical_end() - 1;
            let kept = self.keep(fitting);
            left.in_order &= kept == extent;
            left.kept.push(if kept == extent && !moved.contains(&at) { *raw } else { kept.to_bytes() });
        }
        left
    }

    /// Puts entries that stand in the wrong place where they belong, if that is known, and tells which these are.
    fn bring_home(&mut self, listed: &mut [Extent], start: u64, end: u64) -> Vec<usize> {
        let raw = &self.subject.raw;
        // What shows that a file is genuine lies behind its end. And an extent of a directory moves up to the others.
        let binds = !raw.has_flag(InodeFlags::VERITY) && !self.subject.is_directory();
        let file_end = raw.size().div_ceil(self.subject.block_size()).min(end.saturating_add(1));
        let mut moved = if binds { order::overwritten(listed, start, file_end) } else { Vec::new() };
        self.move_home(listed, &moved);
        let astray = order::astray(listed, start, file_end, binds);
        self.move_home(listed, &astray);
        moved.extend(astray);
        moved.into_iter().map(|(at, _)| at).collect()
    }

    fn move_home(&mut self, listed: &mut [Extent], homes: &[(usize, u32)]) {
        for (at, home) in homes {
            let Some(extent) = listed.get_mut(*at) else { continue };
            let problem = self.place(&MISPLACED, extent.logical, extent.count).observed(*home);
            extent.logical = *home;
            self.subject.raise(problem);
        }
    }

    /// The extent with the length that its neighbours leave it, and the last block of the file where that is known; none when it stands in the wrong place.
    fn cut(
        &mut self,
        extent: Extent,
        length: Option<u32>,
        (floor, last): (u64, Option<tail::Cut>),
    ) -> Option<Extent> {
        let Some(count) = length else {
            let problem = self.place(&OUT_OF_ORDER, extent.logical, extent.count).observed(floor);
            self.subject.raise(problem);
            return None;
        };
        if count < extent.count {
            let problem = self.place(&TOO_LONG, extent.logical, extent.count).observed(count);
            self.subject.raise(problem);
        }
        let room = |cut: tail::Cut| Some((cut.end.checked_sub(u64::from(extent.logical))?, cut.row));
        let room = last.and_then(room).filter(|(room, _)| (1..u64::from(count)).contains(room));
        let Some((room, row)) = room else { return Some(Extent { count, ..extent }) };
        let problem = self.place(row, extent.logical, count).observed(room);
        self.subject.raise(problem);
        Some(Extent { count: width::low_u32(room), ..extent })
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
        let is_too_far =
            self.subject.is_directory() && extent.logical_end() > self.subject.directory_blocks_max();
        if is_too_far && !self.has_place_in_front(extent) {
            return Some(problem(&DIRECTORY_TOO_BIG));
        }
        self.map.overlaps(logical, count).then(|| problem(&OVERLAP))
    }

    /// Adds an extent to the map, mended where it may stay with a change; returns it as it will be.
    fn keep(&mut self, mut extent: Extent) -> Extent {
        let directory = self.subject.is_directory();
        if extent.unwritten && !self.may_be_unwritten {
            let row = if directory { &DIRECTORY_UNWRITTEN } else { &UNWRITTEN_NOT_ALLOWED };
            let problem = self.place(row, extent.logical, extent.count);
            self.subject.raise(problem);
            extent.unwritten = false;
        }
        if directory && let Some(place) = self.place_without_gap(&extent) {
            let problem = self.subject.problem(&DIRECTORY_HOLE).stored(extent.logical).observed(place);
            self.subject.raise(problem);
            extent.logical = place;
        }
        let Extent { logical, count, physical, unwritten } = extent;
        self.map.add(self.subject, MapRun { logical: u64::from(logical), physical, count, unwritten });
        extent
    }

    /// Where an extent of a directory that leaves a gap has to move.
    fn place_without_gap(&self, extent: &Extent) -> Option<u32> {
        let mut place = self.map.end();
        let mask = u64::from(self.subject.fs.geometry.cluster_blocks) - 1;
        if u64::from(extent.logical) <= place {
            return None;
        }
        if mask != 0 {
            place = (place.saturating_add(mask) & !mask) | extent.physical & mask;
        }
        u32::try_from(place).ok().filter(|place| *place < extent.logical)
    }

    /// Whether an extent of a directory fits right behind the others by the directory's size.
    fn has_place_in_front(&self, extent: &Extent) -> bool {
        let blocks = self.subject.raw.size().div_ceil(self.subject.block_size());
        let end = |place: u32| u64::from(place) + u64::from(extent.count);
        self.place_without_gap(extent).is_some_and(|place| end(place) <= blocks)
    }

    fn place(&self, row: &'static fsmend_engine::Row, logical: u32, length: u32) -> Problem {
        self.subject.problem(row).detail("logical", logical).detail("length", length)
    }

    /// Raises what is wrong with an entry that goes.
    fn refuse(&mut self, problem: Problem) -> Result<u32, Dropped> {
        self.subject.raise(problem);
        Err(Dropped::Wrong)
    }
}

/// Why an interior entry goes.
enum Dropped {
    /// It is wrong itself.
    Wrong,
    /// Nothing is left below it.
    Empty,
}

/// The first file block of an entry of either kind.
fn key_of(entry: &RawEntry) -> u32 {
    u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]])
}

/// The first file block that a node maps.
fn first_logical(node: &[u8], header: &ExtentHeader) -> Option<u32> {
    if header.depth > 0 {
        indexes(node, header).next().map(|index| index.logical)
    } else {
        extents(node, header).next().map(|extent| extent.logical)
    }
}
