// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of the file system's own (journal, quota, orphan file), recreated: no name, one link, every block there.

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_engine::inodes::{InodeFact, Kind, mark};
use fsmend_ext_format::checksum;
use fsmend_ext_format::extent::EXTENT_MAGIC;
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::inode::{I_BLOCK_LEN, InodeFlags, RawInode, mode};
use fsmend_ext_format::rext3::IndirectHeader;

use super::RepairContext;
use crate::journal::map;
use crate::journal::replay_overlay::ReplayOverlay;

/// Blocks that an inode names itself, without extents.
const DIRECT: usize = 12;
/// Longest extent.
const EXTENT_MAX: u64 = 0x8000;
/// Extents in an inode.
const ROOT_EXTENTS: usize = 4;
/// Extra bytes of an inode that hold times and project.
const EXTRA_SIZE: u16 = 32;

/// A run of blocks in a row.
type Piece = (u64, u64);

/// Makes `inode` a regular file of `size` bytes without holes, with `extra_flags`; whatever was there before is forgotten (see
/// [`give_up`]). Returns its blocks in the order of the file; `None`, with nothing changed, when there is no room.
pub(crate) fn make(
    context: &mut RepairContext<'_>,
    inode: InodeNo,
    size: u64,
    extra_flags: InodeFlags,
) -> Option<Vec<u64>> {
    let geometry = &context.fs.geometry;
    let goal = geometry.inode_place(inode).map(|(group, _)| BlockNo(geometry.group_first_block(group)))?;
    let count = size.div_ceil(u64::from(geometry.block_size));
    let pieces = take(context, goal, count)?;
    let has_extents = geometry.features.has_incompat(Incompat::EXTENTS);
    let map = if has_extents {
        extent_map(context, inode, goal, &pieces)
    } else {
        indirect_map(context, (inode, goal), &pieces)
    };
    let Some((i_block, map_blocks)) = map else {
        give_back(context, &pieces);
        return None;
    };
    let mut record = vec![0; context.fs.geometry.inode_size as usize];
    let mut raw = new_inode(
        context,
        size,
        extra_flags | if has_extents { InodeFlags::EXTENTS } else { InodeFlags::empty() },
    );
    raw.i_block = i_block;
    let unit = u64::from(context.fs.geometry.cluster_blocks);
    let blocks: u64 = pieces.iter().map(|piece| piece.1.next_multiple_of(unit)).sum();
    let sectors = (blocks + map_blocks * unit) * u64::from(context.fs.geometry.block_size / 512);
    raw.i_blocks_lo.set(width::low_u32(sectors));
    raw.i_blocks_high.set(width::low_u16(sectors >> 32));
    raw.store(&mut record);
    context.know_inode(inode, Kind::Regular);
    context.inodes.revise(inode, InodeFact::new(Kind::Regular, mark::RESERVED), 1);
    context.write_inode(inode, &mut record);
    Some(blocks_of(&pieces).collect())
}

/// Gives back the blocks of `inode`, as far as its map can be followed and no other owner claims them.
pub(crate) fn give_up(context: &RepairContext<'_>, inode: InodeNo) {
    let Some(record) = context.read_inode(inode) else { return };
    let raw = RawInode::from_record(&record);
    if raw.i_links_count.get() == 0 || raw.file_type() != mode::REGULAR {
        return;
    }
    let map = map::read(&ReplayOverlay::new(&context.fs), &raw);
    let data = map.runs.iter().flat_map(|run| run.physical..run.physical + u64::from(run.count));
    for block in data.chain(map.map_blocks.iter().copied()) {
        let unit = context.fs.geometry.cluster_of(block);
        if !context.claims.contested().get(unit) && !context.fs.metadata.get(block) {
            context.claims.settle(unit, false);
        }
    }
}

fn new_inode(context: &RepairContext<'_>, size: u64, flags: InodeFlags) -> RawInode {
    let mut raw = RawInode::from_record(&[]);
    raw.i_mode.set(mode::REGULAR | 0o600);
    raw.i_links_count.set(1);
    raw.set_flags(flags);
    raw.set_size(size);
    let now = width::low_u32(context.fs.now);
    for time in [&mut raw.i_atime, &mut raw.i_ctime, &mut raw.i_mtime, &mut raw.i_crtime] {
        time.set(now);
    }
    if context.fs.geometry.inode_size > 128 {
        raw.i_extra_isize.set(EXTRA_SIZE);
    }
    raw
}

fn blocks_of(pieces: &[Piece]) -> impl Iterator<Item = u64> + '_ {
    pieces.iter().flat_map(|(start, count)| *start..start + count)
}

/// Takes `count` free blocks in as few pieces as can be had by halving.
fn take(context: &RepairContext<'_>, goal: BlockNo, count: u64) -> Option<Vec<Piece>> {
    let unit = u64::from(context.fs.geometry.cluster_blocks);
    let (mut pieces, mut left, mut size) = (Vec::new(), count, count);
    while left > 0 {
        size = size.min(left);
        match context.allocate_blocks(goal, size) {
            Some(start) => {
                pieces.push((start.0, size));
                left -= size;
            }
            None if size > unit => size = (size / 2).next_multiple_of(unit).min(size - 1).max(1),
            None => {
                give_back(context, &pieces);
                return None;
            }
        }
    }
    Some(pieces)
}

fn give_back(context: &RepairContext<'_>, pieces: &[Piece]) {
    pieces.iter().for_each(|(start, count)| context.free_blocks(BlockNo(*start), *count));
}

/// `i_block` with extents for `pieces`, over one leaf block if need be, and the number of such blocks.
fn extent_map(
    context: &RepairContext<'_>,
    inode: InodeNo,
    goal: BlockNo,
    pieces: &[Piece],
) -> Option<([u8; I_BLOCK_LEN], u64)> {
    let mut extents = Vec::new();
    let mut logical = 0;
    for (start, count) in pieces {
        for done in (0..*count).step_by(width::index(EXTENT_MAX)) {
            extents.push((logical, start + done, (count - done).min(EXTENT_MAX)));
            logical += (count - done).min(EXTENT_MAX);
        }
    }
    let mut root = [0; I_BLOCK_LEN];
    if extents.len() <= ROOT_EXTENTS {
        fill_node(&mut root, ROOT_EXTENTS, &extents);
        return Some((root, 0));
    }
    let block_size = context.fs.geometry.block_size as usize;
    let room = (block_size - 12) / 12;
    if extents.len() > room {
        return None;
    }
    let leaf = context.allocate_blocks(goal, 1)?;
    let mut node = vec![0; block_size];
    fill_node(&mut node, room, &extents);
    if context.fs.geometry.features.metadata_csum() {
        // A new inode has generation 0.
        let seed = checksum::inode_seed(context.fs.geometry.checksum_seed, inode, 0);
        checksum::seal_extent_block(seed, &mut node);
    }
    context.write_block(leaf, &node);
    fill_header(&mut root, ROOT_EXTENTS, 1, 1);
    root[16..20].copy_from_slice(&width::low_u32(leaf.0).to_le_bytes());
    root[20..22].copy_from_slice(&width::low_u16(leaf.0 >> 32).to_le_bytes());
    Some((root, 1))
}

fn fill_header(node: &mut [u8], room: usize, entries: usize, depth: u16) {
    let words = [EXTENT_MAGIC, width::len_u16(entries), width::len_u16(room), depth];
    for (place, word) in node.chunks_exact_mut(2).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

fn fill_node(node: &mut [u8], room: usize, extents: &[(u64, u64, u64)]) {
    fill_header(node, room, extents.len(), 0);
    for (place, (logical, start, count)) in node[12..].chunks_exact_mut(12).zip(extents) {
        place[..4].copy_from_slice(&width::low_u32(*logical).to_le_bytes());
        place[4..6].copy_from_slice(&width::low_u16(*count).to_le_bytes());
        place[6..8].copy_from_slice(&width::low_u16(start >> 32).to_le_bytes());
        place[8..12].copy_from_slice(&width::low_u32(*start).to_le_bytes());
    }
}

/// `i_block` with an indirect map of `pieces`, up to the second level, and the number of map blocks.
fn indirect_map(
    context: &RepairContext<'_>,
    place: (InodeNo, BlockNo),
    pieces: &[Piece],
) -> Option<([u8; I_BLOCK_LEN], u64)> {
    let per_block = context.fs.geometry.pointers_per_block() as usize;
    let data: Vec<u64> = blocks_of(pieces).collect();
    let (direct, rest) = data.split_at(data.len().min(DIRECT));
    let (single, rest) = rest.split_at(rest.len().min(per_block));
    if rest.len() > per_block * per_block || data.iter().any(|block| *block > u64::from(u32::MAX)) {
        return None;
    }
    let mut taken = Vec::new();
    let mut root = direct.to_vec();
    root.resize(DIRECT + 3, 0);
    let done = (|| {
        if !single.is_empty() {
            root[DIRECT] = pointer_block(context, place, (1, single), &mut taken)?;
        }
        if !rest.is_empty() {
            let below: Option<Vec<u64>> = rest
                .chunks(per_block)
                .map(|chunk| pointer_block(context, place, (1, chunk), &mut taken))
                .collect();
            root[DIRECT + 1] = pointer_block(context, place, (2, &below?), &mut taken)?;
        }
        Some(())
    })();
    if done.is_none() {
        give_back(context, &taken);
        return None;
    }
    let mut i_block = [0; I_BLOCK_LEN];
    fill_pointers(&mut i_block, &root);
    Some((i_block, taken.len() as u64))
}

/// Writes an indirect block of `inode` near `goal`.
fn pointer_block(
    context: &RepairContext<'_>,
    (inode, goal): (InodeNo, BlockNo),
    (level, targets): (u8, &[u64]),
    taken: &mut Vec<Piece>,
) -> Option<u64> {
    let block = context.allocate_for_map(inode, goal)?;
    taken.push((block.0, 1));
    u32::try_from(block.0).ok()?;
    let geometry = &context.fs.geometry;
    let mut bytes = vec![0; geometry.block_size as usize];
    if geometry.rext3() {
        IndirectHeader::new(geometry.checksum_seed, block, inode, level).store(&mut bytes);
    }
    fill_pointers(bytes.get_mut(geometry.indirect_header()..).unwrap_or_default(), targets);
    context.write_block(block, &bytes);
    Some(block.0)
}

/// Stores pointers that fit in 32 bits.
fn fill_pointers(bytes: &mut [u8], targets: &[u64]) {
    for (place, target) in bytes.chunks_exact_mut(4).zip(targets) {
        place.copy_from_slice(&width::low_u32(*target).to_le_bytes());
    }
}
