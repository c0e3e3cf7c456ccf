// SPDX-License-Identifier: MIT OR Apache-2.0
//! A new journal in the place of one that could not be used, and the copy of its block list in the superblock.

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_ext_format::features::Compat;
use fsmend_ext_format::inode::{InodeFlags, RawInode, special};
use fsmend_ext_format::superblock::RawSuperblock;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use super::superblock::fresh;
use crate::repair::{RepairContext, hidden};

/// `s_jnl_backup_type` when `s_jnl_blocks` holds the journal's block list.
const BACKUP_OF_BLOCKS: u8 = 1;

/// Journal blocks that go with file systems of up to so many blocks, as the usual tools choose them.
const SIZES: [(u64, u64); 8] = [
    (32_768, 1024),
    (1 << 18, 4096),
    (1 << 19, 8192),
    (1 << 22, 16_384),
    (1 << 23, 32_768),
    (1 << 24, 65_536),
    (1 << 25, 131_072),
    (u64::MAX, 262_144),
];
/// A file system of fewer blocks has no journal.
const BLOCKS_MIN: u64 = 2048;

/// Makes a new, empty journal if the old one was dropped and there is room for one; a smaller one if there is little.
pub(crate) fn mend(context: &mut RepairContext<'_>) {
    let blocks = context.fs.geometry.blocks_count;
    if !context.repair_input.journal_dropped || blocks < BLOCKS_MIN {
        return;
    }
    let wanted = SIZES.iter().find(|(most, _)| blocks < *most).map_or(1024, |(_, size)| *size);
    let mut sizes = SIZES.iter().rev().map(|(_, size)| *size).filter(|size| *size <= wanted);
    let block_size = u64::from(context.fs.geometry.block_size);
    let inode = InodeNo(special::JOURNAL);
    let Some(places) =
        sizes.find_map(|size| hidden::make(context, inode, size * block_size, InodeFlags::empty()))
    else {
        return;
    };
    // What lay in these blocks before may look like a log: the new one counts from a number that cannot be guessed.
    let seed = context.fs.superblock.s_hash_seed.as_bytes().to_vec();
    let sequence = fsmend_ext_format::checksum::crc32c(width::low_u32(context.fs.now), &seed);
    let uuid = context.fs.superblock.s_uuid;
    if let (Some(&head), Some(raw)) =
        (places.first(), fresh(places.len() as u64, context.fs.geometry.block_size, uuid, sequence))
    {
        let mut contents = raw.as_bytes().to_vec();
        contents.resize(width::index(block_size), 0);
        context.write_block(BlockNo(head), &contents);
    }
    let raw = &mut context.fs.superblock;
    raw.s_feature_compat |= Compat::HAS_JOURNAL.bits();
    raw.s_journal_inum = special::JOURNAL.into();
    context.fs.geometry.features = raw.features();
}

/// Brings the copy of the journal's block list in the superblock up to date.
pub(crate) fn copy_block_list(context: &mut RepairContext<'_>) {
    let raw = &context.fs.superblock;
    let inode = InodeNo(raw.s_journal_inum.get());
    if inode.0 != special::JOURNAL || !raw.features().has_compat(Compat::HAS_JOURNAL) {
        return;
    }
    let Some(record) = context.read_inode(inode) else { return };
    put_block_list(&mut context.fs.superblock, &RawInode::from_record(&record));
}

fn put_block_list(raw: &mut RawSuperblock, inode: &RawInode) {
    for (index, word) in raw.s_jnl_blocks.iter_mut().take(15).enumerate() {
        *word = U32::new(inode.block_word(index));
    }
    raw.s_jnl_blocks[15] = inode.i_size_high;
    raw.s_jnl_blocks[16] = inode.i_size_lo;
    raw.s_jnl_backup_type = BACKUP_OF_BLOCKS;
}
