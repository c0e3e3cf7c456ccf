// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a repair has to do for a rext3 beside everything else: places inside and outside of regions, and directory blocks that
//! say whose they are.

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_engine::inodes::Kind;
use fsmend_engine::origins::Origin;
use fsmend_ext_format::rext3::{DirectoryTail, directory_checksum};

use crate::directory::Directory;
use crate::inode::MapRun;
use crate::repair::RepairContext;

impl RepairContext<'_> {
    /// Takes a block in a region for `inode`: in that of its own group, or else in the next one that has room, from the last one
    /// on to the first. `None` when all are full.
    pub fn allocate_in_region(&self, inode: InodeNo) -> Option<BlockNo> {
        let own = self.fs.geometry.inode_place(inode).map_or(0, |(group, _)| group.0);
        let groups = self.fs.geometry.group_count;
        let free = (own..groups).chain(0..own.min(groups)).find_map(|group| {
            let region = self.fs.regions.of_group(GroupNo(group));
            (region.start.0..region.end()).find(|block| self.is_unclaimed(*block))
        })?;
        self.claims.claim(free, 1, Origin::KNOWN);
        Some(BlockNo(free))
    }

    /// Takes a block for the map of `inode`: in a region, on a rext3, or else near `goal`.
    pub fn allocate_for_map(&self, inode: InodeNo, goal: BlockNo) -> Option<BlockNo> {
        if self.fs.regions.exist() { self.allocate_in_region(inode) } else { self.allocate_blocks(goal, 1) }
    }
}

/// Moves what lies on the wrong side of the border of a region: blocks of `inode`, and of its map. Where there is no room for them,
/// everything stays as it is.
pub(crate) fn move_displaced(context: &mut RepairContext<'_>, inode: InodeNo) {
    let Some(mut map) = context.open_map(inode) else { return };
    let is_directory = map.kind == Kind::Directory;
    let displaced: Vec<(u64, u64)> = map
        .runs
        .iter()
        .flat_map(|run| (0..u64::from(run.count)).map(|step| (run.logical + step, run.physical + step)))
        .filter(|(_, block)| !context.fs.regions.suit(is_directory, *block, 1))
        .collect();
    let mut moved = Vec::new();
    for (logical, block) in displaced {
        let at = |physical| MapRun { logical, physical, count: 1, unwritten: false };
        // While it is mapped, its place is the one that it has.
        map.runs.unmap(logical, 1);
        let to = context.place_for(&map, logical).map(|(to, _)| to);
        let Some((to, bytes)) = to.zip(context.read_block(BlockNo(block)).ok()) else {
            map.runs.map(at(block));
            continue;
        };
        context.write_block(to, &bytes);
        map.runs.map(at(to.0));
        moved.push((block, to));
    }
    let is_stored = context.store_map(map);
    for (block, to) in moved {
        match is_stored {
            true if context.is_contested(BlockNo(block)) => {}
            true => context.free_blocks(BlockNo(block), 1),
            false => context.free_blocks(to, 1),
        }
    }
}

/// Makes every directory block say whose it is. Those that were written anew or moved do not yet, for that takes their place.
pub(crate) fn seal_directories(context: &RepairContext<'_>) {
    if !context.fs.regions.exist() {
        return;
    }
    for chunk in 0..context.inodes.chunk_count() {
        let mut directories = Vec::new();
        context.inodes.visit_chunk(chunk, |inode, fact, _, _| {
            directories.extend((fact.kind() == Kind::Directory).then_some(inode));
        });
        for inode in directories {
            if let Some(directory) = Directory::open(&context.fs, inode) {
                seal(context, &directory);
            }
        }
    }
}

fn seal(context: &RepairContext<'_>, directory: &Directory) {
    let generation = fsmend_ext_format::inode::RawInode::from_record(&directory.record).i_generation.get();
    let seed = context.fs.geometry.checksum_seed;
    for run in &directory.runs {
        for step in 0..u64::from(run.count) {
            let place = BlockNo(run.physical + step);
            let Ok(logical) = u32::try_from(run.logical + step) else { return };
            let Ok(mut bytes) = context.read_block(place) else { continue };
            let right = DirectoryTail { inode: directory.inode, generation, logical };
            let found = DirectoryTail::parse(&bytes);
            let is_sealed = found == Some(right)
                && directory_checksum(seed, place, &bytes).is_some_and(|checked| checked.is_right());
            // Where there is no tail, there may be names: that is for the next round to see.
            if found.is_some() && !is_sealed && !context.is_contested(place) {
                right.seal(seed, place, &mut bytes);
                context.write_block(place, &bytes);
            }
        }
    }
}

impl RepairContext<'_> {
    /// Whether several owners still claim a block.
    fn is_contested(&self, block: BlockNo) -> bool {
        self.claims.contested().get(self.fs.geometry.cluster_of(block.0))
    }
}
