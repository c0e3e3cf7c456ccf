// SPDX-License-Identifier: MIT OR Apache-2.0
//! Backups of superblock and descriptors, brought up to date where they would be of no use.
//!
//! Counts, times and states of backups lag behind by design; identity, features and layout must not.

use fsmend_base::{BlockNo, GroupNo, width};
use fsmend_ext_format::features::{Compat, Incompat, RoCompat};
use fsmend_ext_format::superblock::{EXT_MAGIC, RawSuperblock, SuperblockState};
use zerocopy::{FromBytes, IntoBytes};

use super::repair::seal;
use crate::repair::RepairContext;

/// More groups than this are not searched for backups that lag behind.
const GROUPS_MAX: u32 = 4096;

/// Writes the backups that lag behind: all of them when places or checksums have changed.
pub(super) fn refresh(context: &RepairContext<'_>) {
    let geometry = &context.fs.geometry;
    let last = if context.backups_lag { geometry.group_count } else { geometry.group_count.min(GROUPS_MAX) };
    let mut any = context.backups_lag;
    for group in (1..last).map(GroupNo).filter(|group| geometry.has_superblock(*group)) {
        if context.backups_lag || lags(context, group) {
            any = true;
            write_superblock(context, group);
            write_descriptors(context, group);
        }
    }
    if any {
        write_meta_groups(context);
    }
}

fn read(context: &RepairContext<'_>, group: GroupNo) -> Option<RawSuperblock> {
    let bytes = context.read_block(BlockNo(context.fs.geometry.group_head_start(group))).ok()?;
    RawSuperblock::read_from_prefix(&bytes).ok().map(|(raw, _)| raw)
}

fn lags(context: &RepairContext<'_>, group: GroupNo) -> bool {
    let Some(stored) = read(context, group) else { return true };
    let has_right_checksum =
        !stored.features().metadata_csum() || fsmend_ext_format::checksum::superblock(&stored).is_right();
    stored.s_magic.get() != EXT_MAGIC
        || !has_right_checksum
        || essence(&stored) != essence(&context.fs.superblock)
}

/// What a backup has to have in common with the primary.
fn essence(raw: &RawSuperblock) -> ([u32; 18], [u8; 16]) {
    // Kernels switch these on in the primary alone.
    let lazy = RoCompat::ORPHAN_PRESENT | RoCompat::LARGE_FILE;
    let numbers = [
        raw.s_inodes_count.get(),
        raw.s_blocks_count_lo.get(),
        raw.s_blocks_count_hi.get(),
        raw.s_first_data_block.get(),
        raw.s_log_block_size.get(),
        raw.s_log_cluster_size.get(),
        raw.s_blocks_per_group.get(),
        raw.s_inodes_per_group.get(),
        raw.s_rev_level.get(),
        raw.s_first_ino.get(),
        u32::from(raw.s_inode_size.get()) << 16 | u32::from(raw.s_desc_size.get()),
        raw.s_feature_compat.get() & !Compat::FAST_COMMIT.bits(),
        raw.s_feature_incompat.get() & !Incompat::RECOVER.bits(),
        raw.s_feature_ro_compat.get() & !lazy.bits(),
        u32::from(raw.s_reserved_gdt_blocks.get()),
        raw.s_first_meta_bg.get(),
        raw.s_checksum_seed.get(),
        raw.s_journal_inum.get(),
    ];
    (numbers, raw.s_uuid)
}

fn write_superblock(context: &RepairContext<'_>, group: GroupNo) {
    let mut raw = context.fs.superblock.clone();
    raw.s_block_group_nr = width::low_u16(u64::from(group.0)).into();
    raw.s_feature_incompat &= !Incompat::RECOVER.bits();
    raw.set_state(raw.state() & !SuperblockState::VALID);
    seal(&mut raw);
    let block = BlockNo(context.fs.geometry.group_head_start(group));
    // In a block of its own, zeroes follow.
    let mut bytes = vec![0; context.fs.geometry.block_size as usize];
    if let Some(place) = bytes.get_mut(..raw.as_bytes().len()) {
        place.copy_from_slice(raw.as_bytes());
    }
    put(context, block, &bytes);
}

/// The descriptors that are kept behind every backup of the superblock.
fn write_descriptors(context: &RepairContext<'_>, group: GroupNo) {
    let geometry = &context.fs.geometry;
    if geometry.in_meta_bg(group) {
        return;
    }
    let start = geometry.group_head_start(group) + 1;
    for index in 0..geometry.old_desc_blocks() {
        copy(context, index, BlockNo(start + u64::from(index)));
    }
}

/// The copies of descriptors that are kept within meta block groups.
fn write_meta_groups(context: &RepairContext<'_>) {
    let geometry = &context.fs.geometry;
    for index in geometry.old_desc_blocks()..geometry.desc_blocks() {
        for block in geometry.descriptor_copies(index, usize::MAX).into_iter().skip(1) {
            copy(context, index, block);
        }
    }
}

/// Copies block `index` of the primary descriptors to `block`.
fn copy(context: &RepairContext<'_>, index: u32, block: BlockNo) {
    let Some(&primary) = context.fs.geometry.descriptor_copies(index, 1).first() else { return };
    if let Ok(bytes) = context.read_block(primary) {
        put(context, block, &bytes);
    }
}

fn put(context: &RepairContext<'_>, block: BlockNo, bytes: &[u8]) {
    if context.read_block(block).ok().as_deref() != Some(bytes) {
        context.write_block(block, bytes);
    }
}
