// SPDX-License-Identifier: MIT OR Apache-2.0
//! A list of runs as an extent tree. Nodes that the tree had keep the part of the file that they mapped, as far as it fits, so that
//! a small change stays small.

use std::collections::BTreeMap;

use fsmend_base::BlockNo;
use fsmend_ext_format::checksum;
use fsmend_ext_format::extent::{
    ENTRY_SIZE, Extent, ExtentHeader, ExtentIndex, MAX_DEPTH, MAX_WRITTEN_LEN, build_node, entries_max,
    extents, indexes,
};
use fsmend_ext_format::inode::I_BLOCK_LEN;

use super::{Nodes, Runs};
use crate::repair::RepairContext;

/// An entry of a node, and the first block of the file that it maps.
type Entry = (u32, [u8; ENTRY_SIZE]);

/// Builds the tree of `runs`: the bytes of `i_block`. `None` when a run cannot be mapped, or when no block is left for a node.
pub(super) fn build(
    context: &RepairContext<'_>,
    runs: &Runs,
    nodes: &mut Nodes,
    seed: Option<u32>,
) -> Option<[u8; I_BLOCK_LEN]> {
    let mut tree = Tree { old: old_levels(context, nodes), context, nodes, seed };
    let mut entries = leaf_entries(context, runs)?;
    let mut depth = 0;
    let in_root = entries_max(I_BLOCK_LEN);
    while entries.len() > in_root || !entries.is_empty() && tree.old.contains_key(&depth) {
        entries = tree.level(&entries, depth)?;
        depth += 1;
    }
    let entries: Vec<_> = entries.into_iter().map(|(_, bytes)| bytes).collect();
    build_node(I_BLOCK_LEN, depth, &entries).try_into().ok()
}

struct Tree<'t, 'm> {
    context: &'t RepairContext<'m>,
    nodes: &'t mut Nodes,
    seed: Option<u32>,
    /// The nodes of the tree as it was, by level: first block of the file, place.
    old: BTreeMap<u16, Vec<(u32, u64)>>,
}

impl Tree<'_, '_> {
    /// Puts entries into nodes of `depth`; returns the entries for those.
    fn level(&mut self, entries: &[Entry], depth: u16) -> Option<Vec<Entry>> {
        let room = entries_max(self.context.fs.geometry.block_size as usize);
        let old = self.old.remove(&depth).unwrap_or_default();
        let mut above = Vec::new();
        let mut rest = entries;
        for index in 0..old.len().max(1) {
            let end = old
                .get(index + 1)
                .map_or(rest.len(), |next| rest.partition_point(|(logical, _)| *logical < next.0));
            let (mine, others) = rest.split_at(end);
            rest = others;
            let mut place = old.get(index).map(|(_, place)| *place).filter(|_| !mine.is_empty());
            for part in mine.chunks(mine.len().div_ceil(mine.len().div_ceil(room).max(1)).max(1)) {
                let block = self.node(part, depth, place.take())?;
                let index = ExtentIndex { logical: part.first()?.0, child: block.0 };
                above.push((index.logical, index.to_bytes()));
            }
        }
        Some(above)
    }

    /// Makes one node, at `place` if it has one.
    fn node(&mut self, entries: &[Entry], depth: u16, place: Option<u64>) -> Option<BlockNo> {
        let block = match place {
            Some(place) => self.nodes.keep(place),
            None => self.nodes.take(self.context)?,
        };
        let entries: Vec<_> = entries.iter().map(|(_, bytes)| *bytes).collect();
        let mut bytes = build_node(self.context.fs.geometry.block_size as usize, depth, &entries);
        if let Some(seed) = self.seed {
            checksum::seal_extent_block(seed, &mut bytes);
        }
        self.nodes.writes.push((block, bytes));
        Some(block)
    }
}

/// The nodes that can still be told, by level, in the order of the file.
fn old_levels(context: &RepairContext<'_>, nodes: &Nodes) -> BTreeMap<u16, Vec<(u32, u64)>> {
    let mut levels: BTreeMap<u16, Vec<(u32, u64)>> = BTreeMap::new();
    for place in nodes.old() {
        let Ok(bytes) = context.read_block(BlockNo(place)) else { continue };
        let Some(header) = ExtentHeader::parse(&bytes).filter(|header| header.depth < MAX_DEPTH) else {
            continue;
        };
        let first = if header.depth > 0 {
            indexes(&bytes, &header).next().map(|index| index.logical)
        } else {
            extents(&bytes, &header).next().map(|extent| extent.logical)
        };
        levels.entry(header.depth).or_default().extend(first.map(|first| (first, place)));
    }
    levels.values_mut().for_each(|level| level.sort_unstable());
    levels.retain(|_, level| !level.is_empty());
    levels
}

/// The extents of a file; `None` when one is out of reach.
fn leaf_entries(context: &RepairContext<'_>, runs: &Runs) -> Option<Vec<Entry>> {
    let cluster_blocks = context.fs.geometry.cluster_blocks.min(u32::from(MAX_WRITTEN_LEN) / 2);
    let mut entries = Vec::new();
    for run in runs.iter() {
        let longest = u32::from(MAX_WRITTEN_LEN) - if run.unwritten { cluster_blocks } else { 0 };
        let mut done = 0;
        while done < run.count {
            let logical = u32::try_from(run.logical + u64::from(done)).ok()?;
            // Pieces end where clusters do.
            let most = longest - logical % cluster_blocks;
            let count = (run.count - done).min(most);
            let physical = run.physical + u64::from(done);
            entries.push((logical, Extent { logical, count, physical, unwritten: run.unwritten }.to_bytes()));
            done += count;
        }
    }
    Some(entries)
}
