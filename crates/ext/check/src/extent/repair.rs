//! Maps written anew as extent trees: trees that are deeper than any file needs or out of order, and block maps where files have to
//! be mapped by extents. The nodes take the blocks that the old map had, as far as it had some.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::Findings;
use fsmend_ext_format::checksum;
use fsmend_ext_format::extent::{
    Extent, ExtentIndex, MAX_WRITTEN_LEN, RawEntry, format_node, room, set_entries,
};
use fsmend_ext_format::inode::{I_BLOCK_LEN, RawInode, flags};
use zerocopy::transmute;

use super::key_of;
use crate::inode::{self, Inspection, MapRun};
use crate::repair::{Mender, seed_of};

/// Writes the maps that have to be written anew, in the order of the inodes.
pub(crate) fn mend(mender: &mut Mender<'_>) {
    for inode in std::mem::take(&mut mender.remains.rebuilds) {
        rebuild(mender, inode);
    }
}

/// Writes the map of `inode` anew. Where the blocks for it cannot be had, everything stays as it is.
fn rebuild(mender: &mut Mender<'_>, inode: InodeNo) {
    let Some(record) = mender.read_inode(inode) else { return };
    let inspection = inode::inspect(&mender.fs, inode, &record, &mut Findings::new());
    if !inspection.rebuild {
        return;
    }
    let Some(tree) = Tree::of(mender, inode, &inspection) else { return };
    let mut record = inspection.record;
    let mut raw = RawInode::from_record(&record);
    raw.set_flag(flags::EXTENTS);
    raw.i_block = tree.root;
    raw.store(&mut record);
    for (block, bytes) in &tree.nodes {
        mender.write_block(*block, bytes);
    }
    for block in tree.spare {
        mender.free_blocks(block, 1);
    }
    // The other look counts the blocks of the new tree.
    let mut counted = inode::inspect(&mender.fs, inode, &record, &mut Findings::new()).record;
    mender.write_inode(inode, &mut counted);
}

/// A new tree.
struct Tree {
    root: [u8; I_BLOCK_LEN],
    nodes: Vec<(BlockNo, Vec<u8>)>,
    /// Blocks of the old map that it does not need.
    spare: Vec<BlockNo>,
}

impl Tree {
    fn of(mender: &Mender<'_>, inode: InodeNo, inspection: &Inspection) -> Option<Tree> {
        let geometry = &mender.fs.geometry;
        let per_node = room(geometry.block_size as usize);
        let mut level: Vec<RawEntry> = inspection.runs.iter().flat_map(entries_of).collect();
        let mut places = Places::new(mender, inspection, nodes_needed(level.len(), per_node))?;
        let seed = seed_of(&mender.fs, inode, &inspection.record);
        let (mut nodes, mut depth) = (Vec::new(), 0);
        while level.len() > room(I_BLOCK_LEN) {
            let mut above = Vec::new();
            for part in level.chunks(per_node) {
                let block = places.next()?;
                let mut bytes = vec![0; geometry.block_size as usize];
                fill(&mut bytes, depth, part);
                seed.inspect(|seed| checksum::seal_extent_block(*seed, &mut bytes));
                let logical = part.first().map_or(0, key_of);
                above.push(transmute!(ExtentIndex { logical, child: block.0 }.to_raw()));
                nodes.push((block, bytes));
            }
            (level, depth) = (above, depth + 1);
        }
        let mut root = [0; I_BLOCK_LEN];
        fill(&mut root, depth, &level);
        Some(Tree { root, nodes, spare: places.own.collect() })
    }
}

fn fill(node: &mut [u8], depth: u16, entries: &[RawEntry]) {
    format_node(node);
    set_entries(node, depth, entries);
}

/// The entries that map a run: one, but for runs that are longer than one can say.
fn entries_of(run: &MapRun) -> Vec<RawEntry> {
    let most = u32::from(MAX_WRITTEN_LEN) - u32::from(run.unwritten);
    let piece = |at: u32| Extent {
        logical: run.logical as u32 + at,
        count: most.min(run.count - at),
        physical: run.physical + u64::from(at),
        unwritten: run.unwritten,
    };
    (0..run.count).step_by(most as usize).map(|at| transmute!(piece(at).to_raw())).collect()
}

/// Nodes outside of the inode that a tree of so many extents needs.
fn nodes_needed(mut entries: usize, per_node: usize) -> usize {
    let mut nodes = 0;
    while entries > room(I_BLOCK_LEN) {
        entries = entries.div_ceil(per_node);
        nodes += entries;
    }
    nodes
}

/// Where the nodes go.
struct Places {
    own: std::vec::IntoIter<BlockNo>,
    new: std::vec::IntoIter<BlockNo>,
}

impl Places {
    /// Places for `needed` nodes; `None`, and nothing is taken, when there are not so many.
    fn new(mender: &Mender<'_>, inspection: &Inspection, needed: usize) -> Option<Places> {
        let geometry = &mender.fs.geometry;
        let blocks = inspection.map_blocks.iter().map(|block| BlockNo(*block));
        let own: Vec<_> =
            blocks.filter(|block| !mender.claims.contested().get(geometry.cluster_of(block.0))).collect();
        let goal = inspection.runs.first().map_or(0, |run| run.physical);
        let mut new = Vec::new();
        while own.len() + new.len() < needed {
            let Some(block) = mender.allocate_blocks(BlockNo(goal), 1) else {
                new.iter().for_each(|block| mender.free_blocks(*block, 1));
                return None;
            };
            new.push(block);
        }
        Some(Places { own: own.into_iter(), new: new.into_iter() })
    }

    fn next(&mut self) -> Option<BlockNo> {
        self.own.next().or_else(|| self.new.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_take_several_entries() {
        let run = MapRun { logical: 5, physical: 1000, count: 70_000, unwritten: false };
        assert_eq!(entries_of(&run).len(), 3);
        let keys: Vec<u32> = entries_of(&MapRun { unwritten: true, ..run }).iter().map(key_of).collect();
        assert_eq!(keys, [5, 5 + 32767, 5 + 2 * 32767]);
    }

    #[test]
    fn nodes_are_counted() {
        let counts = [0, 4, 5, 84, 85, 4 * 84, 4 * 84 + 1].map(|entries| nodes_needed(entries, 84));
        assert_eq!(counts, [0, 0, 1, 1, 2, 4, 6]);
    }
}
