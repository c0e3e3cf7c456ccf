// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bad-blocks inode (1): a list of blocks that the medium has lost, kept as the block map of an inode that is
//! nothing else.

mod mend;
pub(crate) mod problems;
mod read_test;
mod relist;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_engine::{Findings, Layer, Problem};
use fsmend_ext_format::checksum;
use fsmend_ext_format::inode::{InodeFlags, RawInode, special};

use crate::inode::seal::seal_inode;
use crate::{Fs, Group};

pub use read_test::read_test;
pub(crate) use relist::relist;

/// Number of direct pointers in `i_block`.
const DIRECT: usize = 12;
/// Number of pointers in `i_block`.
const POINTERS: usize = 15;

/// What the bad-blocks inode leaves behind, as it will be after repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadBlocks {
    /// All bad blocks, sorted, those in inode tables and backups included.
    pub blocks: Vec<u64>,
    /// The bad blocks that are not static metadata: what inode 1 claims besides `map_blocks`. Sorted.
    pub claims: Vec<u64>,
    /// Indirect blocks of the list, sorted.
    pub map_blocks: Vec<u64>,
    /// Groups whose block bitmap lies on a bad block and will be made anew elsewhere.
    pub lost_block_bitmaps: Vec<GroupNo>,
    /// Groups whose inode bitmap lies on a bad block and will be made anew elsewhere.
    pub lost_inode_bitmaps: Vec<GroupNo>,
}

impl BadBlocks {
    /// Whether `block` is bad.
    pub fn contains(&self, block: BlockNo) -> bool {
        self.blocks.binary_search(&block.0).is_ok()
    }

    /// Sets the places of lost bitmaps to 0, "to be allocated anew".
    pub fn apply(&self, groups: &mut [Group]) {
        for group in &self.lost_block_bitmaps {
            if let Some(group) = groups.get_mut(group.0 as usize) {
                group.desc.block_bitmap = 0;
            }
        }
        for group in &self.lost_inode_bitmaps {
            if let Some(group) = groups.get_mut(group.0 as usize) {
                group.desc.inode_bitmap = 0;
            }
        }
    }
}

/// Checks the bad-blocks inode.
pub fn check(fs: &Fs<'_>, findings: &mut Findings) -> BadBlocks {
    let mut subject = findings.for_subject();
    let bad = examine(fs, &mut subject);
    findings.merge(subject);
    bad
}

fn examine(fs: &Fs<'_>, findings: &mut Findings) -> BadBlocks {
    let inode = InodeNo(special::BAD_BLOCKS);
    let Some(Ok(record)) = fs.read_inode(inode) else { return BadBlocks::default() };
    let raw = RawInode::from_record(&record);
    if let Some(why) = stray_field(&raw) {
        findings.raise(Problem::new(&problems::INVALID_INODE).inode(inode).observed(why));
        store(fs, &mut vec![0; record.len()], findings);
        return BadBlocks::default();
    }
    if fs.geometry.features.metadata_csum() && record.iter().any(|byte| *byte != 0) {
        let checked = checksum::inode(fs.geometry.checksum_seed, inode, &record);
        if checked.is_some_and(|checked| !checked.is_right()) {
            findings
                .raise(Problem::new(&problems::INVALID_INODE).inode(inode).observed("its checksum is wrong"));
            store(fs, &mut record.clone(), findings);
        }
    }
    let mut found = Findings::new();
    let walk = walk(fs, &raw, &mut found);
    let own = fs.inode_offset(inode).map(|offset| offset / u64::from(fs.geometry.block_size));
    if let Some(own) = own.filter(|own| walk.listed.contains(own)) {
        findings.raise(Problem::new(&problems::LIST_IN_BAD_BLOCK).block(BlockNo(own)));
        store(fs, &mut vec![0; record.len()], findings);
        return BadBlocks::default();
    }
    findings.merge(found);
    let bad = settle(fs, walk, findings);
    if findings.gathers_edits() {
        mend::mend(fs, record, &bad, findings);
    }
    bad
}

/// Keeps the record of the inode for the repair.
fn store(fs: &Fs<'_>, record: &mut [u8], findings: &mut Findings) {
    let inode = InodeNo(special::BAD_BLOCKS);
    seal_inode(fs, inode, record);
    if let Some(offset) = fs.inode_offset(inode) {
        findings.edit(Layer::Amendment, offset, record);
    }
}

/// What an inode that is only a list cannot have.
fn stray_field(raw: &RawInode) -> Option<&'static str> {
    let attributes = raw.i_file_acl_lo.get() != 0;
    let mapped = raw.has_flag(InodeFlags::INLINE_DATA) || raw.has_flag(InodeFlags::EXTENTS);
    [
        (raw.i_mode.get() != 0, "it has a mode"),
        (raw.i_uid.get() != 0 || raw.i_gid.get() != 0, "it has an owner"),
        (raw.i_links_count.get() != 0, "it has links"),
        (mapped, "it is not mapped by indirect blocks"),
        (attributes, "it has an attribute block"),
    ]
    .into_iter()
    .find_map(|(is_wrong, why)| is_wrong.then_some(why))
}

/// The list as it was walked.
#[derive(Default)]
struct Walk {
    listed: BTreeSet<u64>,
    map_blocks: BTreeSet<u64>,
}

fn walk(fs: &Fs<'_>, raw: &RawInode, findings: &mut Findings) -> Walk {
    let mut walk = Walk::default();
    for index in 0..POINTERS {
        let levels = index.saturating_sub(DIRECT - 1);
        follow(fs, raw.block_word(index), levels, &mut walk, findings);
    }
    walk
}

/// Follows one pointer. Every map block is read once, so the work is bounded by what is read.
fn follow(fs: &Fs<'_>, pointer: u32, levels: usize, walk: &mut Walk, findings: &mut Findings) {
    if pointer == 0 {
        return;
    }
    let block = BlockNo(u64::from(pointer));
    if block.0 < u64::from(fs.geometry.first_data_block) || block.0 >= fs.geometry.blocks_count {
        findings.raise(Problem::new(&problems::ILLEGAL_BLOCK).stored(block.0));
        return;
    }
    if levels == 0 {
        walk.listed.insert(block.0);
        return;
    }
    if fs.metadata.get(block.0) {
        findings.raise(Problem::new(&problems::MAP_BLOCK_IN_METADATA).block(block));
        return;
    }
    if !walk.map_blocks.insert(block.0) {
        findings.raise(Problem::new(&problems::BAD_MAP_BLOCK).block(block));
        return;
    }
    let Ok(bytes) = fs.read_block(block) else {
        findings.raise(Problem::new(&problems::BAD_MAP_BLOCK).block(block));
        return;
    };
    let pointers = bytes.get(fs.geometry.indirect_header()..).unwrap_or_default();
    for pointer in pointers.chunks_exact(4) {
        let pointer = u32::from_le_bytes([pointer[0], pointer[1], pointer[2], pointer[3]]);
        follow(fs, pointer, levels - 1, walk, findings);
    }
}

/// Sorts out which bad blocks hit what.
fn settle(fs: &Fs<'_>, walk: Walk, findings: &mut Findings) -> BadBlocks {
    let mut bad = BadBlocks { map_blocks: walk.map_blocks.iter().copied().collect(), ..BadBlocks::default() };
    let mut bitmaps: Vec<(u64, GroupNo, bool)> = Vec::new();
    let is_hit = |block: u64| block != 0 && walk.listed.contains(&block);
    for (group, number) in fs.groups.iter().zip(0..) {
        for (place, is_block_bitmap) in [(group.desc.block_bitmap, true), (group.desc.inode_bitmap, false)] {
            if is_hit(place) {
                bitmaps.push((place, GroupNo(number), is_block_bitmap));
            }
        }
    }
    for (place, group, is_block_bitmap) in bitmaps {
        let row = if is_block_bitmap { &problems::BLOCK_BITMAP } else { &problems::INODE_BITMAP };
        findings.raise(Problem::new(row).group(group).block(BlockNo(place)));
        let list = if is_block_bitmap { &mut bad.lost_block_bitmaps } else { &mut bad.lost_inode_bitmaps };
        list.push(group);
    }
    for block in walk.listed {
        if walk.map_blocks.contains(&block) {
            findings.raise(Problem::new(&problems::BAD_MAP_BLOCK).block(BlockNo(block)));
            continue;
        }
        if fs.metadata.get(block) {
            if keep_in_metadata(fs, block, findings) {
                bad.blocks.push(block);
            }
        } else {
            bad.blocks.push(block);
            bad.claims.push(block);
        }
    }
    bad
}

/// Whether a bad block within static metadata stays on the list: not in the primary superblock and descriptors.
fn keep_in_metadata(fs: &Fs<'_>, block: u64, findings: &mut Findings) -> bool {
    let number = BlockNo(block);
    let Some(group) = fs.geometry.group_of_block(number) else { return true };
    let head = fs.geometry.group_head(group);
    let is_super = head.superblock == Some(number);
    if !is_super && !head.descriptors.contains(number) {
        return true;
    }
    let row = match (group.0, is_super) {
        (0, true) => &problems::PRIMARY_SUPERBLOCK,
        (0, false) => &problems::PRIMARY_DESCRIPTORS,
        _ => &problems::BACKUP,
    };
    findings.raise(Problem::new(row).group(group).block(number));
    group.0 != 0
}
