// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inodes: 128 bytes that every revision has, then `i_extra_isize` bytes of more, then in-inode attributes.
//!
//! Source: "ext4 Data Structures and Algorithms", index nodes.

use bitflags::bitflags;
use fsmend_base::width::low_u32;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The largest link count that an inode may store.
pub const LINKS_MAX: u16 = 65_000;
/// The longest target of a symbolic link that stands in the inode.
pub const FAST_SYMLINK_MAX: u64 = 59;

/// Files of this size (bytes) and more need the feature `large_file`.
pub const LARGE_FILE: u64 = 1 << 31;

/// Reserved inode numbers.
pub mod special {
    /// List of bad blocks.
    pub const BAD_BLOCKS: u32 = 1;
    /// Root directory.
    pub const ROOT: u32 = 2;
    /// User quota file.
    pub const USER_QUOTA: u32 = 3;
    /// Group quota file.
    pub const GROUP_QUOTA: u32 = 4;
    /// Boot loader (unused by Linux).
    pub const BOOT_LOADER: u32 = 5;
    /// Undelete directory (never used).
    pub const UNDELETE_DIR: u32 = 6;
    /// Reserved group descriptor blocks.
    pub const RESIZE: u32 = 7;
    /// Journal.
    pub const JOURNAL: u32 = 8;
    /// Exclude bitmap (never shipped upstream).
    pub const EXCLUDE: u32 = 9;
    /// Replica (never shipped).
    pub const REPLICA: u32 = 10;
}

/// File type bits of `i_mode`.
pub mod mode {
    /// Mask of the file type.
    pub const TYPE_MASK: u16 = 0o170000;
    /// Socket.
    pub const SOCKET: u16 = 0o140000;
    /// Symbolic link.
    pub const SYMLINK: u16 = 0o120000;
    /// Regular file.
    pub const REGULAR: u16 = 0o100000;
    /// Block device.
    pub const BLOCK_DEVICE: u16 = 0o060000;
    /// Directory.
    pub const DIRECTORY: u16 = 0o040000;
    /// Character device.
    pub const CHAR_DEVICE: u16 = 0o020000;
    /// Named pipe.
    pub const FIFO: u16 = 0o010000;
}

bitflags! {
    /// `i_flags`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct InodeFlags: u32 {
        /// May not be changed.
        const IMMUTABLE = 0x10;
        /// May only be appended to.
        const APPEND = 0x20;
        /// Encrypted.
        const ENCRYPT = 0x800;
        /// Directory with a hashed index.
        const INDEX = 0x1000;
        /// AFS "imagic".
        const IMAGIC = 0x2000;
        /// Data is journalled.
        const JOURNAL_DATA = 0x4000;
        /// `i_blocks` counts file-system blocks.
        const HUGE_FILE = 0x4_0000;
        /// Mapped by extents.
        const EXTENTS = 0x8_0000;
        /// fs-verity file: Merkle tree behind the end of the data.
        const VERITY = 0x10_0000;
        /// Holds an attribute value.
        const EA_INODE = 0x20_0000;
        /// Blocks are allocated behind the end of the file on purpose (obsolete).
        const EOFBLOCKS = 0x40_0000;
        /// Snapshot file (never shipped upstream).
        const SNAPFILE = 0x0100_0000;
        /// Data lives in the inode.
        const INLINE_DATA = 0x1000_0000;
        /// Children inherit the project id.
        const PROJECT_INHERIT = 0x2000_0000;
        /// Names compare without case.
        const CASEFOLD = 0x4000_0000;
        // All other bits: operators keep them.
        const _ = !0;
    }
}

/// Number of bytes in `i_block`.
pub const I_BLOCK_LEN: usize = 60;

/// The first 160 bytes of an inode as they lie on the disk (Linux creator; Hurd differs in `osd2`).
/// With 128-byte inodes only the part before `i_extra_isize` is there: see [`RawInode::from_record`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "field names are those of the format document")]
pub struct RawInode {
    pub i_mode: U16,
    pub i_uid: U16,
    pub i_size_lo: U32,
    pub i_atime: U32,
    pub i_ctime: U32,
    pub i_mtime: U32,
    pub i_dtime: U32,
    pub i_gid: U16,
    pub i_links_count: U16,
    pub i_blocks_lo: U32,
    pub i_flags: U32,
    pub i_version: U32,
    pub i_block: [u8; I_BLOCK_LEN],
    pub i_generation: U32,
    pub i_file_acl_lo: U32,
    pub i_size_high: U32,
    pub i_faddr: U32,
    /// Linux: high half of `i_blocks`. Hurd: `h_i_frag`, `h_i_fsize`.
    pub i_blocks_high: U16,
    /// Linux: high half of `i_file_acl`. Hurd: `h_i_mode_high`.
    pub i_file_acl_high: U16,
    pub i_uid_high: U16,
    pub i_gid_high: U16,
    /// Linux: low half of the checksum. Hurd: low half of `h_i_author`.
    pub i_checksum_lo: U16,
    pub i_reserved: U16,
    pub i_extra_isize: U16,
    pub i_checksum_hi: U16,
    pub i_ctime_extra: U32,
    pub i_mtime_extra: U32,
    pub i_atime_extra: U32,
    pub i_crtime: U32,
    pub i_crtime_extra: U32,
    pub i_version_hi: U32,
    pub i_projid: U32,
}

const _: () = assert!(size_of::<RawInode>() == 160);
const _: () = assert!(std::mem::offset_of!(RawInode, i_block) == 0x28);
const _: () = assert!(std::mem::offset_of!(RawInode, i_file_acl_lo) == 0x68);
const _: () = assert!(std::mem::offset_of!(RawInode, i_blocks_high) == 0x74);
const _: () = assert!(std::mem::offset_of!(RawInode, i_extra_isize) == 0x80);
const _: () = assert!(std::mem::offset_of!(RawInode, i_projid) == 0x9C);

/// Size of the part of an inode that every revision has.
pub const BASE_INODE_SIZE: usize = 128;

impl RawInode {
    /// Copies the fields out of an inode record of 128 bytes or more; fields that a short record lacks are zero.
    /// A record shorter than 128 bytes is filled up with zeroes.
    pub fn from_record(record: &[u8]) -> Self {
        let mut bytes = [0; size_of::<RawInode>()];
        let len = record.len().min(bytes.len());
        bytes[..len].copy_from_slice(&record[..len]);
        zerocopy::transmute!(bytes)
    }

    /// Writes the fields back into a record, as far as the record reaches.
    pub fn store(&self, record: &mut [u8]) {
        let len = record.len().min(size_of::<RawInode>());
        record[..len].copy_from_slice(&self.as_bytes()[..len]);
    }

    /// Whether names may lead to it: deleted and free inodes have no links.
    pub fn is_in_use(&self) -> bool {
        self.i_links_count.get() > 0
    }

    /// The file type bits of `i_mode`.
    pub fn file_type(&self) -> u16 {
        self.i_mode.get() & mode::TYPE_MASK
    }

    /// `i_flags`.
    pub fn flags(&self) -> InodeFlags {
        InodeFlags::from_bits_retain(self.i_flags.get())
    }

    /// Sets all of `i_flags`.
    pub fn set_flags(&mut self, flags: InodeFlags) {
        self.i_flags.set(flags.bits());
    }

    /// Whether all bits of `mask` are set in `i_flags`.
    pub fn has_flag(&self, mask: InodeFlags) -> bool {
        self.flags().contains(mask)
    }

    /// `i_size` with its high half.
    pub fn size(&self) -> u64 {
        u64::from(self.i_size_high.get()) << 32 | u64::from(self.i_size_lo.get())
    }

    /// Sets `i_size`, both halves.
    pub fn set_size(&mut self, size: u64) {
        self.i_size_lo.set(low_u32(size));
        self.i_size_high.set(low_u32(size >> 32));
    }

    /// The owner's user number, with its high half.
    pub fn uid(&self) -> u32 {
        u32::from(self.i_uid_high.get()) << 16 | u32::from(self.i_uid.get())
    }

    /// The owner's group number, with its high half.
    pub fn gid(&self) -> u32 {
        u32::from(self.i_gid_high.get()) << 16 | u32::from(self.i_gid.get())
    }

    /// The project number; 0 where the record has no room for one.
    pub fn project(&self) -> u32 {
        if self.has_extra(std::mem::offset_of!(RawInode, i_projid) + 4) { self.i_projid.get() } else { 0 }
    }

    /// Whether `i_extra_isize` says that the fixed fields reach up to byte `end` of the record.
    pub fn has_extra(&self, end: usize) -> bool {
        BASE_INODE_SIZE + usize::from(self.i_extra_isize.get()) >= end
    }

    /// `i_file_acl`: the block that holds attributes; its high half counts only with the `64bit` feature.
    pub fn file_acl(&self, wide: bool) -> u64 {
        let high = if wide { u64::from(self.i_file_acl_high.get()) << 32 } else { 0 };
        high | u64::from(self.i_file_acl_lo.get())
    }

    /// Clears the set bits of `mask` in `i_flags`.
    pub fn clear_flag(&mut self, mask: InodeFlags) {
        self.set_flags(self.flags() - mask);
    }

    /// Sets the bits of `mask` in `i_flags`.
    pub fn set_flag(&mut self, mask: InodeFlags) {
        self.set_flags(self.flags() | mask);
    }

    /// Sets the `index`th 32-bit word of `i_block`; there is no word behind 14.
    pub fn set_block_word(&mut self, index: usize, value: u32) {
        if let Some(bytes) = self.i_block.get_mut(index * 4..index * 4 + 4) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// The `index`th 32-bit word of `i_block` (0 to 14).
    pub fn block_word(&self, index: usize) -> u32 {
        match self.i_block.get(index * 4..index * 4 + 4) {
            Some(bytes) => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            None => 0,
        }
    }
}
