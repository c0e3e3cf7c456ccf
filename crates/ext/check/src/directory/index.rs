// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hash tree of an indexed directory.
//!
//! Each block leaves a [`BlockFact`]; when all have been seen, [`Index::check`] walks the tree from its root: every block
//! has to be referenced once, at the right level, and the hashes of a leaf's names have to lie in its range. A broken
//! index is rebuilt by a repair; no name hangs on it.

use fsmend_engine::{Findings, Problem, Row, Value};
use fsmend_ext_format::checksum;
use fsmend_ext_format::htree::{
    FLAGS_INCOMPAT, IndexBlock, IndexEntry, LEVELS_MAX, NODE_COUNT_OFFSET, RootInfo, expected_limit,
    hash_version, is_known_hash_version, looks_like_node,
};

use super::hashing::NameHasher;
use super::params::DirectoryParams;
use super::problems as rows;
use crate::Fs;

/// What a block of an indexed directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// Root or inner node.
    Node(Vec<IndexEntry>),
    /// Entries.
    Leaf,
}

/// What one block leaves behind.
#[derive(Clone, Debug)]
struct BlockFact {
    logical: u32,
    kind: BlockKind,
    /// Smallest and largest hash of its names, if it has any.
    hashes: Option<(u32, u32)>,
    references: u32,
}

/// The index of one directory, as its blocks come by.
#[derive(Debug)]
pub(super) struct Index {
    hasher: NameHasher,
    levels: u8,
    count_offset: usize,
    blocks: Vec<BlockFact>,
    broken: bool,
}

impl Index {
    /// Opens the index whose root is `block`, the directory's first; `None`, and a problem, when it cannot be one.
    pub fn open(
        fs: &Fs<'_>,
        params: &DirectoryParams,
        root: Option<&[u8]>,
        findings: &mut Findings,
    ) -> Option<Index> {
        let info = root.and_then(RootInfo::parse);
        if let Some((row, stored)) = root_problem(params, info) {
            let problem = Problem::new(row).inode(params.inode);
            findings.raise(match stored {
                Some(value) => problem.stored(value),
                None => problem,
            });
            return None;
        }
        let info = info?;
        if info.indirect_levels >= params.levels_max {
            findings.raise(Problem::new(&rows::LARGE_DIR_MISSING).inode(params.inode));
        }
        Some(Index {
            hasher: NameHasher::new(fs, info.hash_version),
            levels: info.indirect_levels,
            count_offset: info.count_offset(),
            blocks: Vec::new(),
            broken: false,
        })
    }

    /// Takes up a block; returns whether it is a leaf. Index blocks are checked by themselves here. `blocks_count` is
    /// the length of the directory in blocks.
    pub fn add_block(
        &mut self,
        params: &DirectoryParams,
        logical: u32,
        block: &[u8],
        blocks_count: u64,
        findings: &mut Findings,
    ) -> bool {
        let count_offset = if logical == 0 {
            Some(self.count_offset)
        } else {
            looks_like_node(block, params.layout, params.index_tail).then_some(NODE_COUNT_OFFSET)
        };
        let kind = match count_offset {
            Some(at) => BlockKind::Node(self.check_node(params, logical, block, at, blocks_count, findings)),
            None => BlockKind::Leaf,
        };
        let is_leaf = kind == BlockKind::Leaf;
        self.blocks.push(BlockFact { logical, kind, hashes: None, references: 0 });
        is_leaf
    }

    /// Whether it has more levels than the file system's features allow.
    pub fn is_too_deep(&self, params: &DirectoryParams) -> bool {
        self.levels >= params.levels_max
    }

    /// Where limit and count stand in the index block that has just been added.
    pub fn count_offset(&self, logical: u32) -> usize {
        if logical == 0 { self.count_offset } else { NODE_COUNT_OFFSET }
    }

    /// Takes up a block that is not there: a leaf without names.
    pub fn add_hole(&mut self, logical: u32) {
        self.blocks.push(BlockFact { logical, kind: BlockKind::Leaf, hashes: None, references: 0 });
    }

    /// Takes up a name of the block that was added last.
    pub fn add_name(&mut self, params: &DirectoryParams, name: &[u8], stored_hash: Option<(u32, u32)>) {
        let hash = self.hasher.hash(params, name, stored_hash);
        if let (Some((hash, _)), Some(block)) = (hash, self.blocks.last_mut()) {
            let (low, high) = block.hashes.unwrap_or((hash, hash));
            block.hashes = Some((low.min(hash), high.max(hash)));
        }
    }

    fn check_node(
        &mut self,
        params: &DirectoryParams,
        logical: u32,
        block: &[u8],
        count_offset: usize,
        blocks_count: u64,
        findings: &mut Findings,
    ) -> Vec<IndexEntry> {
        let Some(index) = IndexBlock::parse(block, count_offset) else { return Vec::new() };
        let entries: Vec<IndexEntry> = index.entries().collect();
        let limit = expected_limit(block.len(), count_offset, params.index_tail);
        let problem = |row| Problem::new(row).inode(params.inode).detail("at", logical);
        let shape = || {
            if index.limit != limit {
                return Some(problem(&rows::LIMIT_WRONG).stored(index.limit).observed(limit));
            }
            if index.count > limit || index.count == 0 {
                return Some(problem(&rows::COUNT_WRONG).stored(index.count).observed(limit));
            }
            if let Some(entry) = entries.iter().find(|entry| u64::from(entry.block) >= blocks_count) {
                let problem = problem(&rows::BLOCK_OUT_OF_RANGE).stored(entry.block);
                return Some(problem.observed(blocks_count));
            }
            let ascending = entries.is_sorted_by_key(|entry| entry.hash & !1);
            (!ascending).then(|| problem(&rows::HASHES_NOT_ASCENDING))
        };
        let shape = shape();
        // A node with nothing but a wrong checksum is sealed again.
        self.broken |= shape.is_some();
        if let Some(problem) = checksum_problem(params, logical, block, count_offset).or(shape) {
            findings.raise(problem);
        }
        entries
    }

    /// Walks the tree. Raises what is wrong with it as a whole, and returns whether it is in order.
    pub fn check(mut self, params: &DirectoryParams, findings: &mut Findings) -> bool {
        if self.broken {
            return false;
        }
        let mut raised = Vec::new();
        self.walk(params, &mut raised);
        for fact in &self.blocks {
            if fact.references == 0 {
                raised.push(block_problem(&rows::NOT_REFERENCED, params, fact.logical));
            }
        }
        let sound = raised.is_empty();
        raised.into_iter().for_each(|problem| findings.raise(problem));
        if !sound {
            findings.raise(Problem::new(&rows::REBUILD).inode(params.inode));
        }
        sound
    }

    fn place(&self, logical: u32) -> Option<usize> {
        self.blocks.binary_search_by_key(&logical, |fact| fact.logical).ok()
    }

    /// Goes down from the root. Every node is entered once, so the walk ends.
    fn walk(&mut self, params: &DirectoryParams, raised: &mut Vec<Problem>) {
        let Some(root) = self.place(0) else { return };
        self.blocks[root].references = 1;
        let mut todo = vec![Reach { place: root, level: 0, low: 0, high: !1 }];
        while let Some(reach) = todo.pop() {
            let fact = &self.blocks[reach.place];
            let at_leaves = reach.level == u32::from(self.levels) + 1;
            match &fact.kind {
                BlockKind::Leaf => {
                    raised.extend(
                        (!at_leaves).then(|| block_problem(&rows::DEPTH_WRONG, params, fact.logical)),
                    );
                    raised.extend(range_problems(params, fact, reach));
                }
                BlockKind::Node(_) if at_leaves => {
                    raised.push(block_problem(&rows::DEPTH_WRONG, params, fact.logical));
                }
                BlockKind::Node(entries) => {
                    let children = children(entries, reach);
                    self.descend(params, children, &mut todo, raised);
                }
            }
        }
    }

    fn descend(
        &mut self,
        params: &DirectoryParams,
        children: Vec<(u32, Reach)>,
        todo: &mut Vec<Reach>,
        raised: &mut Vec<Problem>,
    ) {
        for (logical, reach) in children {
            let Some(place) = self.place(logical) else { continue };
            self.blocks[place].references += 1;
            match self.blocks[place].references {
                1 => todo.push(Reach { place, ..reach }),
                2 => {
                    raised.push(block_problem(&rows::REFERENCED_TWICE, params, logical));
                    raised.extend(range_problems(params, &self.blocks[place], reach));
                }
                _ => {}
            }
        }
    }
}

/// A block within the tree: its level (the root is 0) and the hashes that may stand below it.
#[derive(Clone, Copy)]
struct Reach {
    place: usize,
    level: u32,
    low: u32,
    high: u32,
}

fn children(entries: &[IndexEntry], reach: Reach) -> Vec<(u32, Reach)> {
    let lows = entries.iter().enumerate().map(|(at, e)| if at == 0 { reach.low } else { e.hash & !1 });
    let highs = entries.iter().skip(1).map(|entry| entry.hash & !1).chain([reach.high]);
    let ranges = lows.zip(highs).map(|(low, high)| Reach { place: 0, level: reach.level + 1, low, high });
    entries.iter().map(|entry| entry.block).zip(ranges).collect()
}

fn range_problems(
    params: &DirectoryParams,
    fact: &BlockFact,
    reach: Reach,
) -> impl Iterator<Item = Problem> + use<> {
    let problem = |row, bound: u32, hash: u32| {
        let problem = Problem::new(row).inode(params.inode).stored(Value::Hex(u64::from(bound)));
        problem.observed(Value::Hex(u64::from(hash))).detail("at", fact.logical)
    };
    let (low, high) = fact.hashes.unwrap_or((reach.low, reach.low));
    let below = (low < reach.low).then(|| problem(&rows::HASH_TOO_SMALL, reach.low, low));
    let above = (high > reach.high).then(|| problem(&rows::HASH_TOO_LARGE, reach.high, high));
    below.into_iter().chain(above)
}

fn block_problem(row: &'static Row, params: &DirectoryParams, logical: u32) -> Problem {
    Problem::new(row).inode(params.inode).stored(logical)
}

/// What is wrong with the root's info, and the value that is.
fn root_problem(params: &DirectoryParams, info: Option<RootInfo>) -> Option<(&'static Row, Option<u64>)> {
    let Some(info) = info else { return Some((&rows::ROOT_MALFORMED, None)) };
    let version = Some(u64::from(info.hash_version));
    let is_siphash = info.hash_version == hash_version::SIPHASH;
    if info.reserved_zero != 0 || info.info_length < 8 || info.info_length % 4 != 0 {
        Some((&rows::ROOT_MALFORMED, None))
    } else if !is_known_hash_version(info.hash_version) {
        Some((&rows::HASH_UNKNOWN, version))
    } else if params.layout.hash_behind_name && !is_siphash {
        Some((&rows::NEEDS_SIPHASH, version))
    } else if !params.layout.hash_behind_name && is_siphash {
        Some((&rows::CANNOT_SIPHASH, None))
    } else if info.unused_flags & FLAGS_INCOMPAT != 0 {
        Some((&rows::FLAGS_UNKNOWN, Some(u64::from(info.unused_flags))))
    } else if info.indirect_levels >= LEVELS_MAX
        || (info.indirect_levels >= params.levels_max && !params.is_huge)
    {
        Some((&rows::TOO_DEEP, Some(u64::from(info.indirect_levels))))
    } else {
        None
    }
}

fn checksum_problem(
    params: &DirectoryParams,
    logical: u32,
    block: &[u8],
    count_offset: usize,
) -> Option<Problem> {
    let seed = params.checksum_seed?;
    let row = if logical == 0 { &rows::ROOT_CHECKSUM } else { &rows::NODE_CHECKSUM };
    let problem = Problem::new(row).inode(params.inode).detail("at", logical);
    match checksum::htree(seed, block, count_offset) {
        Some(checked) if checked.is_right() => None,
        Some(checked) => Some(
            problem
                .stored(Value::Hex(u64::from(checked.stored)))
                .observed(Value::Hex(u64::from(checked.computed))),
        ),
        None => Some(problem.stored("no room for one").observed("none")),
    }
}
