// SPDX-License-Identifier: MIT OR Apache-2.0
//! The resize inode, rewritten from the geometry.

use fsmend_base::{BlockNo, GroupNo, InodeNo, width};
use fsmend_ext_format::inode::{RawInode, mode, special};

use super::{DOUBLE_INDIRECT, extent};
use crate::repair::RepairContext;

/// Fixed fields behind the first 128 bytes, where the record has room for them.
const EXTRA_SIZE: u16 = 32;

/// Writes the resize inode and what it maps, if it is not as it must be. Files that lie in its blocks have copies by now.
pub(crate) fn mend(context: &mut RepairContext<'_>) {
    if !context.repair_input.resize_is_wrong {
        return;
    }
    let inode = InodeNo(special::RESIZE);
    let Some(stored) = context.read_inode(inode) else { return };
    let raw = RawInode::from_record(&stored);
    let Some(double) = double_indirect(context, u64::from(raw.block_word(DOUBLE_INDIRECT))) else { return };
    write_map(context, double);
    let mut record = vec![0; stored.len()];
    describe(context, double).store(&mut record);
    context.write_inode(inode, &mut record);
}

/// The double indirect block: the one that it has, if no other owner claims it; a new one else, which a pointer of 32 bits can name.
fn double_indirect(context: &RepairContext<'_>, stored: u64) -> Option<BlockNo> {
    let unit = context.fs.geometry.cluster_of(stored);
    let is_own = context.fs.is_valid_block(BlockNo(stored))
        && !context.fs.metadata.get(stored)
        && context.claims.claimed().get(unit)
        && !context.claims.contested().get(unit);
    if is_own {
        return Some(BlockNo(stored));
    }
    let new = context.allocate_blocks(BlockNo(u64::from(context.fs.geometry.first_data_block)), 1)?;
    if u32::try_from(new.0).is_err() {
        context.free_blocks(new, 1);
        return None;
    }
    Some(new)
}

/// Writes the double indirect block and the reserved blocks of group 0, which list their copies.
fn write_map(context: &RepairContext<'_>, double: BlockNo) {
    let geometry = &context.fs.geometry;
    let first = geometry.group_head(GroupNo(0)).reserved.start.0;
    let mut pointers = vec![0; geometry.block_size as usize];
    for step in 0..geometry.reserved_gdt_blocks {
        let block = first + u64::from(step);
        let slot = geometry.desc_blocks().wrapping_add(step) % (geometry.block_size / 4);
        put(&mut pointers, slot, block);
        let mut copies = vec![0; geometry.block_size as usize];
        let groups = (1..geometry.group_count).filter(|group| geometry.has_superblock(GroupNo(*group)));
        for (group, slot) in groups.zip(0..geometry.block_size / 4) {
            put(&mut copies, slot, block + u64::from(group) * u64::from(geometry.blocks_per_group));
        }
        context.write_block(BlockNo(block), &copies);
    }
    context.write_block(double, &pointers);
}

fn put(pointers: &mut [u8], slot: u32, block: u64) {
    let at = slot as usize * 4;
    if let Some(place) = pointers.get_mut(at..at + 4) {
        place.copy_from_slice(&width::low_u32(block).to_le_bytes());
    }
}

/// The fixed fields of the inode. It is as long as if its last pointer were in use.
fn describe(context: &RepairContext<'_>, double: BlockNo) -> RawInode {
    let geometry = &context.fs.geometry;
    let mut raw = RawInode::from_record(&[]);
    raw.i_mode.set(mode::REGULAR | 0o600);
    raw.i_links_count.set(1);
    raw.set_block_word(DOUBLE_INDIRECT, width::low_u32(double.0));
    let now = width::low_u32(context.fs.now);
    [&mut raw.i_atime, &mut raw.i_ctime, &mut raw.i_mtime].into_iter().for_each(|time| time.set(now));
    if geometry.inode_size >= 128 + u32::from(EXTRA_SIZE) {
        raw.i_extra_isize.set(EXTRA_SIZE);
    }
    let pointers = u64::from(geometry.block_size / 4);
    raw.set_size((12 + pointers + pointers * pointers).saturating_mul(u64::from(geometry.block_size)));
    let blocks = extent(&context.fs, &raw).map_or(0, |extent| extent.blocks);
    let sectors = blocks * u64::from(geometry.cluster_blocks) * u64::from(geometry.block_size / 512);
    raw.i_blocks_lo.set(width::low_u32(sectors));
    raw
}
