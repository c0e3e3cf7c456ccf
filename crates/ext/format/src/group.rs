// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block group descriptors: 32 bytes each, or `s_desc_size` bytes (64) with the `64bit` feature.
//!
//! Source: "ext4 Data Structures and Algorithms", block group descriptors.

use bitflags::bitflags;
use fsmend_base::width::{low_u16, low_u32};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

bitflags! {
    /// `bg_flags`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct GroupFlags: u16 {
        /// The inode table and inode bitmap are not initialised; no inode of the group is in use.
        const INODE_UNINIT = 1;
        /// The block bitmap is not initialised; only the group's own metadata is in use.
        const BLOCK_UNINIT = 2;
        /// The inode table has been zeroed.
        const INODE_ZEROED = 4;
        // All other bits: operators keep them.
        const _ = !0;
    }
}

/// A 64-byte descriptor as it lies on the disk; 32-byte descriptors are its first half.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "field names are those of the format document")]
pub struct RawGroupDesc {
    pub bg_block_bitmap_lo: U32,
    pub bg_inode_bitmap_lo: U32,
    pub bg_inode_table_lo: U32,
    pub bg_free_blocks_count_lo: U16,
    pub bg_free_inodes_count_lo: U16,
    pub bg_used_dirs_count_lo: U16,
    pub bg_flags: U16,
    pub bg_exclude_bitmap_lo: U32,
    pub bg_block_bitmap_csum_lo: U16,
    pub bg_inode_bitmap_csum_lo: U16,
    pub bg_itable_unused_lo: U16,
    pub bg_checksum: U16,
    pub bg_block_bitmap_hi: U32,
    pub bg_inode_bitmap_hi: U32,
    pub bg_inode_table_hi: U32,
    pub bg_free_blocks_count_hi: U16,
    pub bg_free_inodes_count_hi: U16,
    pub bg_used_dirs_count_hi: U16,
    pub bg_itable_unused_hi: U16,
    pub bg_exclude_bitmap_hi: U32,
    pub bg_block_bitmap_csum_hi: U16,
    pub bg_inode_bitmap_csum_hi: U16,
    pub bg_reserved: U32,
}

const _: () = assert!(size_of::<RawGroupDesc>() == 64);
const _: () = assert!(std::mem::offset_of!(RawGroupDesc, bg_flags) == 0x12);
const _: () = assert!(std::mem::offset_of!(RawGroupDesc, bg_checksum) == 0x1E);
const _: () = assert!(std::mem::offset_of!(RawGroupDesc, bg_block_bitmap_csum_hi) == 0x38);

/// What one descriptor says, with the halves joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupDesc {
    /// Block that holds the block bitmap.
    pub block_bitmap: u64,
    /// Block that holds the inode bitmap.
    pub inode_bitmap: u64,
    /// First block of the inode table.
    pub inode_table: u64,
    /// Free blocks (clusters with bigalloc) as stored.
    pub free_blocks: u32,
    /// Free inodes as stored.
    pub free_inodes: u32,
    /// Directories as stored.
    pub used_dirs: u32,
    /// `bg_flags`.
    pub flags: GroupFlags,
    /// Never-used inodes at the end of the table (the high-water mark), as stored.
    pub itable_unused: u32,
    /// Checksum of the block bitmap (16 bits valid with 32-byte descriptors).
    pub block_bitmap_csum: u32,
    /// Checksum of the inode bitmap (16 bits valid with 32-byte descriptors).
    pub inode_bitmap_csum: u32,
    /// Checksum of the descriptor itself.
    pub checksum: u16,
}

impl GroupDesc {
    /// Joins the halves; `wide` says that the second half is there (64-byte descriptors with `64bit`).
    pub fn parse(raw: &RawGroupDesc, wide: bool) -> Self {
        let high32 = |value: U32| if wide { u64::from(value.get()) << 32 } else { 0 };
        let high16 = |value: U16| if wide { u32::from(value.get()) << 16 } else { 0 };
        GroupDesc {
            block_bitmap: high32(raw.bg_block_bitmap_hi) | u64::from(raw.bg_block_bitmap_lo.get()),
            inode_bitmap: high32(raw.bg_inode_bitmap_hi) | u64::from(raw.bg_inode_bitmap_lo.get()),
            inode_table: high32(raw.bg_inode_table_hi) | u64::from(raw.bg_inode_table_lo.get()),
            free_blocks: high16(raw.bg_free_blocks_count_hi) | u32::from(raw.bg_free_blocks_count_lo.get()),
            free_inodes: high16(raw.bg_free_inodes_count_hi) | u32::from(raw.bg_free_inodes_count_lo.get()),
            used_dirs: high16(raw.bg_used_dirs_count_hi) | u32::from(raw.bg_used_dirs_count_lo.get()),
            flags: GroupFlags::from_bits_retain(raw.bg_flags.get()),
            itable_unused: high16(raw.bg_itable_unused_hi) | u32::from(raw.bg_itable_unused_lo.get()),
            block_bitmap_csum: high16(raw.bg_block_bitmap_csum_hi)
                | u32::from(raw.bg_block_bitmap_csum_lo.get()),
            inode_bitmap_csum: high16(raw.bg_inode_bitmap_csum_hi)
                | u32::from(raw.bg_inode_bitmap_csum_lo.get()),
            checksum: raw.bg_checksum.get(),
        }
    }

    /// Splits the halves again and puts them into `raw`; what a parsed descriptor does not know stays as it is.
    pub fn store(&self, raw: &mut RawGroupDesc, wide: bool) {
        raw.bg_block_bitmap_lo.set(low_u32(self.block_bitmap));
        raw.bg_inode_bitmap_lo.set(low_u32(self.inode_bitmap));
        raw.bg_inode_table_lo.set(low_u32(self.inode_table));
        raw.bg_free_blocks_count_lo.set(low_u16(self.free_blocks.into()));
        raw.bg_free_inodes_count_lo.set(low_u16(self.free_inodes.into()));
        raw.bg_used_dirs_count_lo.set(low_u16(self.used_dirs.into()));
        raw.bg_flags.set(self.flags.bits());
        raw.bg_block_bitmap_csum_lo.set(low_u16(self.block_bitmap_csum.into()));
        raw.bg_inode_bitmap_csum_lo.set(low_u16(self.inode_bitmap_csum.into()));
        raw.bg_itable_unused_lo.set(low_u16(self.itable_unused.into()));
        raw.bg_checksum.set(self.checksum);
        if wide {
            raw.bg_block_bitmap_hi.set(low_u32(self.block_bitmap >> 32));
            raw.bg_inode_bitmap_hi.set(low_u32(self.inode_bitmap >> 32));
            raw.bg_inode_table_hi.set(low_u32(self.inode_table >> 32));
            raw.bg_free_blocks_count_hi.set(low_u16((self.free_blocks >> 16).into()));
            raw.bg_free_inodes_count_hi.set(low_u16((self.free_inodes >> 16).into()));
            raw.bg_used_dirs_count_hi.set(low_u16((self.used_dirs >> 16).into()));
            raw.bg_itable_unused_hi.set(low_u16((self.itable_unused >> 16).into()));
            raw.bg_block_bitmap_csum_hi.set(low_u16((self.block_bitmap_csum >> 16).into()));
            raw.bg_inode_bitmap_csum_hi.set(low_u16((self.inode_bitmap_csum >> 16).into()));
        }
    }

    /// Whether any of `flags` is set.
    pub fn has_flag(&self, flags: GroupFlags) -> bool {
        self.flags.intersects(flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_parses_the_same() {
        let bytes: [u8; 64] = std::array::from_fn(|at| at as u8 ^ 0xA5);
        let raw: RawGroupDesc = zerocopy::transmute!(bytes);
        for wide in [false, true] {
            let desc = GroupDesc::parse(&raw, wide);
            let mut again = RawGroupDesc::default();
            desc.store(&mut again, wide);
            assert_eq!(GroupDesc::parse(&again, wide), desc);
        }
    }
}
