// SPDX-License-Identifier: MIT OR Apache-2.0
//! The orphan file as it has to be: there when the feature is on, every block of it empty; and gone without a journal.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::inodes::{InodeFact, Kind, mark};
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::{Compat, RoCompat};
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode};
use fsmend_ext_format::orphan_file::{ORPHAN_BLOCK_MAGIC, ORPHAN_TAIL_SIZE, has_magic};

use crate::journal::map;
use crate::journal::replay_overlay::ReplayOverlay;
use crate::repair::{RepairContext, hidden};

/// Fewest and most blocks of a new orphan file.
const BLOCKS_MIN: u64 = 32;
const BLOCKS_MAX: u64 = 512;
/// A new orphan file has a block for so many blocks of the file system.
const BLOCKS_PER_BLOCK: u64 = 4096;

/// Mends the orphan file. Its entries have been released before; whatever it still holds is void.
pub(crate) fn mend(context: &mut RepairContext<'_>) {
    let features = context.fs.superblock.features();
    if !features.has_compat(Compat::ORPHAN_FILE) {
        return forget(context, None);
    }
    let inode = InodeNo(context.fs.superblock.s_orphan_file_inum.get());
    let blocks = usable_blocks(context, inode);
    if !features.has_compat(Compat::HAS_JOURNAL) {
        return forget(context, blocks.map(|_| inode));
    }
    let (inode, blocks) = match blocks {
        Some(blocks) => (inode, blocks),
        None => match remake(context) {
            Some(made) => made,
            None => return forget(context, None),
        },
    };
    context.fs.superblock.s_orphan_file_inum = inode.0.into();
    context.fs.superblock.s_feature_ro_compat &= !RoCompat::ORPHAN_PRESENT.bits();
    context.fs.geometry.features = context.fs.superblock.features();
    let Some(record) = context.read_inode(inode) else { return };
    let generation = RawInode::from_record(&record).i_generation.get();
    for block in blocks {
        empty(context, inode, generation, BlockNo(block));
    }
}

/// Switches the feature off, and frees the file in `inode` that is no longer needed.
fn forget(context: &mut RepairContext<'_>, inode: Option<InodeNo>) {
    if let Some(inode) = inode {
        hidden::give_up(context, inode);
        let record_size = context.fs.geometry.inode_size as usize;
        context.write_inode(inode, &mut vec![0; record_size]);
        context.inodes.revise(inode, InodeFact::default(), 0);
    }
    let raw = &mut context.fs.superblock;
    if raw.features().has_compat(Compat::ORPHAN_FILE) {
        raw.s_orphan_file_inum = 0.into();
        raw.s_feature_compat &= !Compat::ORPHAN_FILE.bits();
    }
    raw.s_feature_ro_compat &= !RoCompat::ORPHAN_PRESENT.bits();
    context.fs.geometry.features = raw.features();
}

/// The blocks of the orphan file in `inode`, if it can be one: a regular file without names or holes.
fn usable_blocks(context: &RepairContext<'_>, inode: InodeNo) -> Option<Vec<u64>> {
    if inode.0 < context.fs.geometry.first_inode || context.inodes.links(inode).1 > 0 {
        return None;
    }
    let raw = RawInode::from_record(&context.read_inode(inode)?);
    let block_size = u64::from(context.fs.geometry.block_size);
    let is_file = raw.i_links_count.get() > 0 && raw.file_type() == mode::REGULAR;
    if !is_file || raw.size() == 0 || !raw.size().is_multiple_of(block_size) {
        return None;
    }
    let map = map::read(&ReplayOverlay::new(&context.fs), &raw);
    let count = raw.size() / block_size;
    if map.damaged || map.unreadable.is_some() || map.solid_blocks() < count {
        return None;
    }
    (0..count).map(|index| map.find(index)).collect()
}

/// A new orphan file.
fn remake(context: &mut RepairContext<'_>) -> Option<(InodeNo, Vec<u64>)> {
    let size = u64::from(context.fs.geometry.block_size);
    let count = (context.fs.geometry.blocks_count / BLOCKS_PER_BLOCK).clamp(BLOCKS_MIN, BLOCKS_MAX);
    let old = InodeNo(context.fs.superblock.s_orphan_file_inum.get());
    let is_free = old.0 >= context.fs.geometry.first_inode
        && old.0 <= context.fs.geometry.inodes_count
        && context.inodes.kind(old) == Kind::Unused
        && context.inodes.is_scanned(old);
    let is_ours = context.inodes.fact(old).is_some_and(|fact| fact.has(mark::RESERVED))
        && context.inodes.links(old).1 == 0
        && old.0 >= context.fs.geometry.first_inode;
    let inode = if is_free || is_ours {
        hidden::give_up(context, old);
        old
    } else {
        context.allocate_inode(fsmend_base::GroupNo(0), Kind::Regular)?
    };
    match hidden::make(context, inode, count * size, InodeFlags::empty()) {
        Some(blocks) => Some((inode, blocks)),
        None => {
            context.inodes.revise(inode, InodeFact::default(), 0);
            None
        }
    }
}

/// Makes sure that a block of the file has no entries, its magic number and its checksum.
fn empty(context: &RepairContext<'_>, inode: InodeNo, generation: u32, block: BlockNo) {
    let geometry = &context.fs.geometry;
    let mut contents = vec![0; geometry.block_size as usize];
    let body = contents.len() - ORPHAN_TAIL_SIZE;
    contents[body..body + 4].copy_from_slice(&ORPHAN_BLOCK_MAGIC.to_le_bytes());
    if geometry.features.metadata_csum() {
        let seed = checksum::inode_seed(geometry.checksum_seed, inode, generation);
        checksum::seal_orphan_block(seed, block, &mut contents);
    }
    debug_assert!(has_magic(&contents));
    if context.read_block(block).ok().as_ref() != Some(&contents) {
        context.write_block(block, &contents);
    }
}
