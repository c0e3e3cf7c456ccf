// SPDX-License-Identifier: MIT OR Apache-2.0
//! A list of runs as pointers and indirect blocks. Indirect blocks stay where they were.

use std::collections::BTreeMap;

use fsmend_base::{BlockNo, width};
use fsmend_ext_format::inode::{I_BLOCK_LEN, RawInode};
use fsmend_ext_format::rext3::IndirectHeader;

use super::{Nodes, Runs};
use crate::repair::RepairContext;

/// Pointers to data in the inode.
const DIRECT: u64 = 12;
/// Levels of indirection.
const LEVELS: u32 = 3;

/// Builds the map of `runs`: the bytes of `i_block`. `raw` is the inode as it was. `None` when a run cannot be mapped, or when no
/// block is left for an indirect block.
pub(super) fn build(
    context: &RepairContext<'_>,
    runs: &Runs,
    nodes: &mut Nodes,
    raw: &RawInode,
) -> Option<[u8; I_BLOCK_LEN]> {
    let shape = Shape { pointers: context.fs.geometry.pointers_per_block().into() };
    let old = old_blocks(context, nodes, raw, shape);
    let mut map = Pointers { context, nodes, shape, old, root: [0; I_BLOCK_LEN], pending: None };
    let blocks = |run: &crate::inode::MapRun| {
        let (logical, physical) = (run.logical, run.physical);
        (0..u64::from(run.count)).map(move |step| (logical + step, physical + step))
    };
    let mut above = map.level(runs.iter().flat_map(blocks), 0)?;
    for level in 1..=LEVELS {
        above = map.level(above.into_iter(), level)?;
    }
    above.is_empty().then_some(map.root)
}

/// Where things stand in a map.
#[derive(Clone, Copy)]
struct Shape {
    /// Pointers in a block.
    pointers: u64,
}

impl Shape {
    /// The first block of the file below the indirect block of `level` that the inode points to.
    fn start(self, level: u32) -> u64 {
        match level {
            0 => 0,
            1 => DIRECT,
            2 => DIRECT + self.pointers,
            3 => DIRECT + self.pointers + self.pointers.pow(2),
            _ => self.start(3) + self.pointers.pow(3),
        }
    }

    /// The level of the indirect block in the inode that block `logical` of the file stands below: 0 for none, 4 for out of reach.
    fn tree(self, logical: u64) -> u32 {
        (1..=LEVELS + 1).rfind(|level| logical >= self.start(*level)).unwrap_or(0)
    }

    /// The first block below the indirect block of `level` that block `logical` stands below, and the pointer to follow there.
    fn place(self, logical: u64, level: u32) -> (u64, usize) {
        let start = self.start(self.tree(logical));
        let within = logical - start;
        let span = self.pointers.pow(level);
        let slot = within / self.pointers.pow(level.saturating_sub(1)) % self.pointers;
        (start + within / span * span, width::index(slot))
    }
}

struct Pointers<'p, 'm> {
    context: &'p RepairContext<'m>,
    nodes: &'p mut Nodes,
    shape: Shape,
    /// Indirect blocks of the map as it was, by level and first block of the file.
    old: BTreeMap<(u32, u64), u64>,
    root: [u8; I_BLOCK_LEN],
    /// The indirect block that is being filled: first block of the file, contents.
    pending: Option<(u64, Vec<u8>)>,
}

impl Pointers<'_, '_> {
    /// Puts `children` of `level` (0: data), which are sorted, into the inode and into indirect blocks one level higher. Returns
    /// those.
    fn level(&mut self, children: impl Iterator<Item = (u64, u64)>, level: u32) -> Option<Vec<(u64, u64)>> {
        let mut above = Vec::new();
        for (logical, block) in children {
            let pointer = u32::try_from(block).ok()?.to_le_bytes();
            let tree = self.shape.tree(logical);
            if tree > LEVELS {
                return None;
            }
            if tree == level {
                let word = width::index(if level == 0 { logical } else { DIRECT + u64::from(level) - 1 });
                self.root[word * 4..word * 4 + 4].copy_from_slice(&pointer);
                continue;
            }
            let (base, slot) = self.shape.place(logical, level + 1);
            if self.pending.as_ref().is_none_or(|(other, _)| *other != base) {
                above.extend(self.flush(level + 1)?);
                self.pending = Some((base, vec![0; self.context.fs.geometry.block_size as usize]));
            }
            if let Some((_, bytes)) = &mut self.pending {
                let at = self.context.fs.geometry.indirect_header() + slot * 4;
                bytes[at..at + 4].copy_from_slice(&pointer);
            }
        }
        above.extend(self.flush(level + 1)?);
        Some(above)
    }

    /// Finishes the indirect block that is being filled; `None` when it finds no place.
    fn flush(&mut self, level: u32) -> Option<Option<(u64, u64)>> {
        let Some((base, mut bytes)) = self.pending.take() else { return Some(None) };
        let regions = &self.context.fs.regions;
        let block = match self.old.remove(&(level, base)) {
            Some(place) if !regions.exist() || regions.contain(place) => self.nodes.keep(place),
            _ => self.nodes.take(self.context).filter(|block| block.0 <= u64::from(u32::MAX))?,
        };
        let geometry = &self.context.fs.geometry;
        if geometry.rext3() {
            IndirectHeader::new(
                geometry.checksum_seed,
                block,
                self.nodes.inode,
                width::low_u8(u64::from(level)),
            )
            .store(&mut bytes);
        }
        self.nodes.writes.push((block, bytes));
        Some(Some((base, block.0)))
    }
}

/// The indirect blocks that may stay, by level and first block of the file.
fn old_blocks(
    context: &RepairContext<'_>,
    nodes: &Nodes,
    raw: &RawInode,
    shape: Shape,
) -> BTreeMap<(u32, u64), u64> {
    let mut found = BTreeMap::new();
    let mut seen = std::collections::BTreeSet::new();
    let mut open: Vec<(u32, u64, u64)> = (1..=LEVELS)
        .map(|level| {
            let word = raw.block_word(width::index(DIRECT + u64::from(level) - 1));
            (level, shape.start(level), u64::from(word))
        })
        .collect();
    while let Some((level, base, place)) = open.pop() {
        if !nodes.is_old(place) || !seen.insert(place) {
            continue;
        }
        found.insert((level, base), place);
        let Ok(bytes) = context.read_block(BlockNo(place)) else { continue };
        let header = context.fs.geometry.indirect_header();
        let pointers = if level > 1 { bytes.get(header..).unwrap_or_default() } else { &[] };
        for (slot, child) in (0..).zip(pointers.chunks_exact(4)) {
            let child = u32::from_le_bytes([child[0], child[1], child[2], child[3]]);
            open.push((level - 1, base + slot * shape.pointers.pow(level - 1), u64::from(child)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_its_pointer() {
        let shape = Shape { pointers: 256 };
        assert_eq!(
            [0, 11, 12, 267, 268, 65803, 65804].map(|logical| shape.tree(logical)),
            [0, 0, 1, 1, 2, 2, 3]
        );
        assert_eq!(shape.tree(shape.start(4)), 4);
        assert_eq!(shape.place(12, 1), (12, 0));
        assert_eq!(shape.place(267, 1), (12, 255));
        assert_eq!(shape.place(268 + 256 + 3, 1), (268 + 256, 3));
        assert_eq!(shape.place(268 + 256 + 3, 2), (268, 1));
        assert_eq!(shape.place(65804 + 65536 * 2 + 256 * 5 + 7, 3), (65804, 2));
    }
}
