// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file against the indirect blocks that say that they are its own: no tree is walked, and no block read.
//!
//! Indirect blocks are found by the bitmap, which may be wrong: then a block is missing here, or a stale one is there. So for each
//! level what should be there (by the pointers one level higher) is compared with what is there: number and sum of marks. If both
//! agree for all levels, every block that was found is pointed to by exactly one of those above, up to the inode, and every
//! pointer leads to one that was found: they are the tree. If they do not, the tree has to be walked.
//!
//! Source: Ma et al., "ffsck: The Fast File System Checker", §4.3.2; their layers are counted from the inode down, ours are the
//! levels that the blocks themselves tell.

use fsmend_base::width;
use fsmend_ext_format::rext3::DIRECT_BLOCKS;

use super::Regions;
use super::facts::{FileFact, IndirectFact, RegionFacts, mark_of};

const LEVELS: usize = 3;

/// What the blocks of a file come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tree {
    /// Blocks of data, or of names.
    pub data_blocks: u64,
    /// Indirect blocks.
    pub map_blocks: u64,
    /// The block of the file behind the last mapped one.
    pub end: u64,
    /// Whether the data do not lie in one piece.
    pub is_scattered: bool,
}

/// The tree of `file`; `None` where only a walk can tell. `pointers` is how many there are in an indirect block.
pub fn tree(file: &FileFact, facts: &RegionFacts, regions: &Regions, pointers: u64) -> Option<Tree> {
    let own = facts.of(file.inode);
    let fits = |fact: &IndirectFact| {
        let is_suspect = fact.is_suspect() || fact.count() == 0;
        // On the lowest level, all pointers lead into regions, or none does: that was seen to when the block came by.
        !is_suspect && (fact.level() > 1 || regions.contain(fact.edge.into()) == file.is_directory)
    };
    if file.is_suspect() || !own.iter().all(fits) || !layers_agree(file, own, facts) {
        return None;
    }
    let leaves = || own.iter().filter(|fact| fact.level() == 1);
    let data_blocks = u64::from(file.direct) + leaves().map(|fact| fact.count()).sum::<u64>();
    let end = end(file, own, pointers)?;
    Some(Tree {
        data_blocks,
        map_blocks: own.len() as u64,
        end,
        is_scattered: is_scattered(file, own, data_blocks),
    })
}

/// Number and sum of marks of the blocks of each level, as pointers have them and as blocks say themselves.
fn layers_agree(file: &FileFact, own: &[IndirectFact], facts: &RegionFacts) -> bool {
    let mut expected = [(0u64, 0u64); LEVELS];
    let mut found = [(0u64, 0u64); LEVELS];
    for (level, block) in file.trees.iter().enumerate().filter(|(_, block)| **block != 0) {
        add(&mut expected, level, 1, mark_of(*block));
    }
    for fact in own {
        let level = usize::from(fact.level()).saturating_sub(1);
        add(&mut found, level, 1, mark_of(fact.block));
        if level > 0 {
            let Some(children) = facts.children_of(fact.block) else { return false };
            add(&mut expected, level - 1, fact.count(), children);
        }
    }
    expected == found
}

fn add(layers: &mut [(u64, u64); LEVELS], level: usize, count: u64, sum: u64) {
    if let Some((blocks, marks)) = layers.get_mut(level) {
        *blocks += count;
        *marks = marks.wrapping_add(sum);
    }
}

/// The block of the file behind its last mapped one, by the last pointer of the inode and the last ones below it.
pub fn end(file: &FileFact, own: &[IndirectFact], pointers: u64) -> Option<u64> {
    let Some(last) = file.trees.iter().rposition(|block| *block != 0) else {
        return Some(file.direct_end.into());
    };
    let mut first = DIRECT_BLOCKS + (1..=width::len_u32(last)).map(|level| pointers.pow(level)).sum::<u64>();
    let mut block = file.trees[last];
    for level in (1..=width::len_u32(last) + 1).rev() {
        let at = own.binary_search_by_key(&block, |fact| fact.block).ok()?;
        let fact = own.get(at).filter(|fact| u32::from(fact.level()) == level && fact.count() > 0)?;
        first += fact.last() * pointers.pow(level - 1);
        block = fact.edge;
    }
    Some(first + 1)
}

/// Pieces without gaps that fill their reach, whatever their order: close enough to lying in one piece.
fn is_scattered(file: &FileFact, own: &[IndirectFact], data_blocks: u64) -> bool {
    let leaves = || own.iter().filter(|fact| fact.level() == 1);
    if file.has_gap() || leaves().any(|fact| fact.has_gap()) {
        return true;
    }
    let direct = (file.direct > 0).then(|| (u64::from(file.reach[0]), u64::from(file.reach[1])));
    let pieces =
        leaves().map(|fact| (u64::from(fact.edge), u64::from(fact.edge) + fact.count().saturating_sub(1)));
    let (low, high) = direct
        .into_iter()
        .chain(pieces)
        .fold((u64::MAX, 0), |(low, high), piece| (low.min(piece.0), high.max(piece.1)));
    data_blocks > 0 && high.saturating_sub(low) + 1 != data_blocks
}
