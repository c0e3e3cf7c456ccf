// SPDX-License-Identifier: MIT OR Apache-2.0
//! Putting right checksums in place, the other side of what the parent module compares. Each function leaves bytes alone that
//! have no room for their checksum.

use fsmend_base::width::{low_u8, low_u16};
use fsmend_base::{BlockNo, GroupNo, InodeNo};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use super::{
    Checked, DESC_CHECKSUM, INODE_CHECKSUM_HI, INODE_CHECKSUM_LO, INODE_EXTRA_SIZE, LEAF_TAIL_SIZE,
    MMP_CHECKSUM, XATTR_CHECKSUM,
};
use crate::features::Features;
use crate::superblock::RawSuperblock;

/// Seals a superblock.
pub fn seal_superblock(superblock: &mut RawSuperblock) {
    superblock.s_checksum = U32::new(super::superblock(superblock).computed);
}

/// Seals a group descriptor (`desc_size` bytes), where the features ask for it.
pub fn seal_group_desc(features: Features, seed: u32, uuid: &[u8; 16], group: GroupNo, desc: &mut [u8]) {
    if let Some(Checked { computed, .. }) = super::group_desc(features, seed, uuid, group, desc) {
        put16(desc, DESC_CHECKSUM, low_u16(computed.into()));
    }
}

/// Seals an inode record (`inode_size` bytes).
pub fn seal_inode(seed: u32, inode: InodeNo, record: &mut [u8]) {
    let Some(Checked { computed, .. }) = super::inode(seed, inode, record) else { return };
    put16(record, INODE_CHECKSUM_LO, low_u16(computed.into()));
    let extra = record
        .get(INODE_EXTRA_SIZE..INODE_EXTRA_SIZE + 2)
        .map_or(0, |size| u16::from_le_bytes([size[0], size[1]]));
    if extra >= 4 {
        put16(record, INODE_CHECKSUM_HI, low_u16((computed >> 16).into()));
    }
}

/// Seals an extent block.
pub fn seal_extent_block(inode_seed: u32, block: &mut [u8]) {
    let Some(Checked { computed, .. }) = super::extent_block(inode_seed, block) else { return };
    let max = usize::from(super::u16_at(block, 4).unwrap_or(0));
    put32(block, 12 + 12 * max, computed);
}

/// Puts a leaf tail at the end of a directory block and seals it. The entries have to end before it.
pub fn seal_directory_leaf(inode_seed: u32, block: &mut [u8]) {
    let Some(body) = block.len().checked_sub(LEAF_TAIL_SIZE) else { return };
    block[body..].copy_from_slice(&[0, 0, 0, 0, low_u8(LEAF_TAIL_SIZE as u64), 0, 0, 0xDE, 0, 0, 0, 0]);
    if let Some(Checked { computed, .. }) = super::directory_leaf(inode_seed, block) {
        put32(block, body + 8, computed);
    }
}

/// Seals an htree root or node whose limit and count stand at `count_offset`.
pub fn seal_htree(inode_seed: u32, block: &mut [u8], count_offset: usize) {
    let Some(Checked { computed, .. }) = super::htree(inode_seed, block, count_offset) else { return };
    let limit = usize::from(super::u16_at(block, count_offset).unwrap_or(0));
    put32(block, count_offset + 8 * limit + 4, computed);
}

/// Seals an attribute block that lies at `number`.
pub fn seal_xattr_block(seed: u32, number: BlockNo, block: &mut [u8]) {
    if let Some(Checked { computed, .. }) = super::xattr_block(seed, number, block) {
        put32(block, XATTR_CHECKSUM, computed);
    }
}

/// Seals an MMP block.
pub fn seal_mmp_block(seed: u32, block: &mut [u8]) {
    if let Some(Checked { computed, .. }) = super::mmp_block(seed, block) {
        put32(block, MMP_CHECKSUM, computed);
    }
}

/// Seals a block of the orphan file that lies at `number`.
pub fn seal_orphan_block(inode_seed: u32, number: BlockNo, block: &mut [u8]) {
    if let Some(Checked { computed, .. }) = super::orphan_block(inode_seed, number, block) {
        let at = block.len() - 4;
        put32(block, at, computed);
    }
}

fn put16(bytes: &mut [u8], offset: usize, value: u16) {
    if let Some(field) = bytes.get_mut(offset..offset + 2) {
        field.copy_from_slice(value.as_bytes());
    }
}

fn put32(bytes: &mut [u8], offset: usize, value: u32) {
    if let Some(field) = bytes.get_mut(offset..offset + 4) {
        field.copy_from_slice(value.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    const SEED: u32 = 0x1234_5678;

    #[test]
    fn what_is_sealed_is_right() {
        let mut superblock = RawSuperblock::new_zeroed();
        seal_superblock(&mut superblock);
        assert!(super::super::superblock(&superblock).is_right());
        for extra in [0, 32] {
            let mut record = [7; 256];
            record[INODE_EXTRA_SIZE] = extra;
            record[INODE_EXTRA_SIZE + 1] = 0;
            seal_inode(SEED, InodeNo(12), &mut record);
            assert!(super::super::inode(SEED, InodeNo(12), &record).is_some_and(Checked::is_right));
        }
        let mut old = [7; 128];
        seal_inode(SEED, InodeNo(12), &mut old);
        assert!(super::super::inode(SEED, InodeNo(12), &old).is_some_and(Checked::is_right));
    }

    #[test]
    fn blocks_are_sealed_where_there_is_room() {
        let mut block = vec![3; 1024];
        block[4..6].copy_from_slice(&84u16.to_le_bytes());
        seal_extent_block(SEED, &mut block);
        assert!(super::super::extent_block(SEED, &block).is_some_and(Checked::is_right));
        seal_directory_leaf(SEED, &mut block);
        assert!(super::super::has_leaf_tail(&block));
        assert!(super::super::directory_leaf(SEED, &block).is_some_and(Checked::is_right));
        seal_xattr_block(SEED, BlockNo(9), &mut block);
        assert!(super::super::xattr_block(SEED, BlockNo(9), &block).is_some_and(Checked::is_right));
        block[8..12].copy_from_slice(&[126, 0, 5, 0]);
        seal_htree(SEED, &mut block, 8);
        assert!(super::super::htree(SEED, &block, 8).is_some_and(Checked::is_right));
        seal_mmp_block(SEED, &mut block);
        assert!(super::super::mmp_block(SEED, &block).is_some_and(Checked::is_right));
        seal_orphan_block(SEED, BlockNo(9), &mut block);
        assert!(super::super::orphan_block(SEED, BlockNo(9), &block).is_some_and(Checked::is_right));
        let mut short = vec![0xFF; 20];
        seal_extent_block(SEED, &mut short);
        seal_htree(SEED, &mut short, 8);
        assert_eq!(short, [0xFF; 20]);
    }
}
