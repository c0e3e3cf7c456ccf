// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checksums of all metadata but the journal's.
//!
//! With `metadata_csum` everything carries CRC32C (Castagnoli, reflected, no inversion at either end), seeded with
//! [`Geometry::checksum_seed`](crate::geometry::Geometry::checksum_seed); what belongs to an inode is seeded further with
//! the inode's number and generation ([`inode_seed`]). With `uninit_bg` (`GDT_CSUM`) only the group descriptors carry one:
//! CRC16 (ANSI, reflected) seeded with the UUID.
//!
//! Functions for structures that hold their own checksum return a [`Checked`]: what is there and what should.
//! They take any bytes; where a structure is too short or its own counts point outside of it, the answer is `None`.
//!
//! Source: "ext4 Data Structures and Algorithms", checksums.

mod inodes;
mod seal;
#[cfg(target_arch = "x86_64")]
mod wide;

#[cfg(target_arch = "x86_64")]
use fsmend_base::checksum::wide::{is_available, leaf};
use fsmend_base::width::{low_u8, low_u16, low_u32};
use fsmend_base::{BlockNo, GroupNo, InodeNo};

use crate::features::{Features, Incompat, RoCompat};
use crate::superblock::{RawSuperblock, SUPERBLOCK_SIZE};
use zerocopy::IntoBytes;

pub use fsmend_base::crc32c;
pub use inodes::inodes_are_right;
pub use seal::{
    seal_directory_leaf, seal_extent_block, seal_group_desc, seal_htree, seal_inode, seal_mmp_block,
    seal_orphan_block, seal_superblock, seal_xattr_block,
};

/// Seed of checksums that start from nothing.
pub const NO_SEED: u32 = u32::MAX;

/// A stored checksum beside the right one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checked {
    /// What stands on the disk.
    pub stored: u32,
    /// What should stand there.
    pub computed: u32,
}

impl Checked {
    /// Whether the stored checksum is right.
    #[inline]
    pub fn is_right(self) -> bool {
        self.stored == self.computed
    }
}

/// CRC16 (polynomial 0x8005, reflected) of `bytes` continued from `seed`.
pub fn crc16(seed: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(seed, |crc, byte| crc >> 8 ^ CRC16_TABLE[usize::from(low_u8(crc.into()) ^ byte)])
}

const CRC16_TABLE: [u16; 256] = crc16_table();

const fn crc16_table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (low_u16(byte as u64), 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xA001 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// The seed of all other checksums of a file system without a stored seed.
pub fn uuid_seed(uuid: &[u8; 16]) -> u32 {
    crc32c(NO_SEED, uuid)
}

/// The superblock's checksum: all bytes before the checksum itself, from no seed.
pub fn superblock(superblock: &RawSuperblock) -> Checked {
    let computed = crc32c(NO_SEED, &superblock.as_bytes()[..SUPERBLOCK_SIZE - 4]);
    Checked { stored: superblock.s_checksum.get(), computed }
}

const DESC_CHECKSUM: usize = 0x1E;

/// The checksum of a group descriptor (`desc_size` bytes), of the kind that `features` ask for; `None` with neither.
pub fn group_desc(
    features: Features,
    seed: u32,
    uuid: &[u8; 16],
    group: GroupNo,
    desc: &[u8],
) -> Option<Checked> {
    let (head, stored, tail) = around(desc, DESC_CHECKSUM)?;
    let number = group.0.to_le_bytes();
    let computed = if features.has_ro_compat(RoCompat::METADATA_CSUM) {
        let crc = crc32c(crc32c(crc32c(seed, &number), head), &[0, 0]);
        low_u16(crc32c(crc, tail).into())
    } else if features.has_ro_compat(RoCompat::GDT_CSUM) {
        let crc = crc16(crc16(crc16(u16::MAX, uuid), &number), head);
        if features.has_incompat(Incompat::BIT64) { crc16(crc, tail) } else { crc }
    } else {
        return None;
    };
    Some(Checked { stored: u32::from(stored), computed: u32::from(computed) })
}

/// `bytes` before, at and after a 16-bit checksum at `offset`.
fn around(bytes: &[u8], offset: usize) -> Option<(&[u8], u16, &[u8])> {
    let (head, rest) = bytes.split_at_checked(offset)?;
    let (field, tail) = rest.split_first_chunk::<2>()?;
    Some((head, u16::from_le_bytes(*field), tail))
}

/// The checksum of a block bitmap or an inode bitmap whose first `bits` bits count (`clusters per group`,
/// `inodes_per_group`). Descriptors of less than 64 bytes store only its low 16 bits: see `wide`.
pub fn bitmap(seed: u32, bitmap: &[u8], bits: u32, wide: bool) -> u32 {
    let len = (bits / 8) as usize;
    let crc = crc32c(seed, bitmap.get(..len).unwrap_or(bitmap));
    if wide { crc } else { crc & 0xFFFF }
}

/// The seed of everything that belongs to one inode.
#[inline]
pub fn inode_seed(seed: u32, inode: InodeNo, generation: u32) -> u32 {
    let word = u64::from(generation) << 32 | u64::from(inode.0);
    inodes::crc32c_of_word(seed, word).unwrap_or_else(|| crc32c(seed, &word.to_le_bytes()))
}

const INODE_GENERATION: usize = 0x64;
const INODE_CHECKSUM_LO: usize = 0x7C;
const INODE_EXTRA_SIZE: usize = 0x80;
const INODE_CHECKSUM_HI: usize = 0x82;

/// The checksum of an inode record (`inode_size` bytes). Its two fields count as zero; the upper one exists only
/// where `i_extra_isize` reaches behind it, otherwise only 16 bits are stored and compared.
pub fn inode(seed: u32, inode: InodeNo, record: &[u8]) -> Option<Checked> {
    let generation = u32_at(record, INODE_GENERATION)?;
    let (head, low, tail) = around(record, INODE_CHECKSUM_LO)?;
    let (osd2, extra) = tail.split_at_checked(INODE_EXTRA_SIZE - INODE_CHECKSUM_LO - 2)?;
    let mut crc = inode_seed(seed, inode, generation);
    crc = crc32c(crc32c(crc32c(crc, head), &[0, 0]), osd2);
    if extra.is_empty() {
        return Some(Checked { stored: u32::from(low), computed: crc & 0xFFFF });
    }
    let (extra_size, high, rest) = around(extra, INODE_CHECKSUM_HI - INODE_EXTRA_SIZE)?;
    if u16::from_le_bytes([extra_size[0], extra_size[1]]) >= 4 {
        crc = crc32c(crc32c(crc32c(crc, extra_size), &[0, 0]), rest);
        Some(Checked { stored: u32::from(high) << 16 | u32::from(low), computed: crc })
    } else {
        Some(Checked { stored: u32::from(low), computed: crc32c(crc, extra) & 0xFFFF })
    }
}

/// The seed of the file system with which the stored checksum of an inode record is right; `None` where not all 32 bits of it are stored. The
/// record may of course be wrong itself.
pub fn seed_of_inode(inode: InodeNo, record: &[u8]) -> Option<u32> {
    let generation = u32_at(record, INODE_GENERATION)?;
    let (head, low, tail) = around(record, INODE_CHECKSUM_LO)?;
    let (osd2, extra) = tail.split_at_checked(INODE_EXTRA_SIZE - INODE_CHECKSUM_LO - 2)?;
    let (extra_size, high, rest) = around(extra, INODE_CHECKSUM_HI - INODE_EXTRA_SIZE)?;
    if u16::from_le_bytes([*extra_size.first()?, *extra_size.get(1)?]) < 4 {
        return None;
    }
    let parts: [&[u8]; 8] =
        [&inode.0.to_le_bytes(), &generation.to_le_bytes(), head, &[0, 0], osd2, extra_size, &[0, 0], rest];
    let stored = u32::from(high) << 16 | u32::from(low);
    Some(parts.iter().rev().fold(stored, |crc, part| uncrc32c(crc, part)))
}

/// The seed from which [`crc32c`] of `bytes` comes to `crc`.
fn uncrc32c(crc: u32, bytes: &[u8]) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|byte| crc32c(low_u32(byte as u64), &[0]));
    bytes.iter().rev().fold(crc, |crc, byte| {
        // Each entry of the table has an upper byte of its own.
        let index = table.iter().position(|entry| entry >> 24 == crc >> 24).unwrap_or_default();
        (crc ^ table[index]) << 8 | (low_u32(index as u64) ^ u32::from(*byte))
    })
}

/// The checksum behind the entries of an extent block; `None` when its `eh_max` leaves no room for it.
pub fn extent_block(inode_seed: u32, block: &[u8]) -> Option<Checked> {
    let max = usize::from(u16_at(block, 4)?);
    let offset = 12 + 12 * max;
    Some(Checked { stored: u32_at(block, offset)?, computed: crc32c(inode_seed, block.get(..offset)?) })
}

/// Size of the tail of a directory leaf block: a record of length 12, name length 0, type 0xDE.
pub const LEAF_TAIL_SIZE: usize = 12;

/// The checksum in the last four bytes of a directory leaf block. Whether the tail is one at all
/// ([`has_leaf_tail`]) is for the caller to ask first.
#[inline]
pub fn directory_leaf(inode_seed: u32, block: &[u8]) -> Option<Checked> {
    let body = &block[..block.len().checked_sub(LEAF_TAIL_SIZE)?];
    let computed = leaf_by_width(inode_seed, body).unwrap_or_else(|| crc32c(inode_seed, body));
    Some(Checked { stored: u32_at(block, block.len() - 4)?, computed })
}

/// The CRC32C of a leaf block's entries by the widest instructions; `None` where the processor has none, or not for such a length.
#[inline]
fn leaf_by_width(seed: u32, body: &[u8]) -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    if is_available() {
        // SAFETY: the processor has the instructions, as asked above.
        #[allow(
            unsafe_code,
            reason = "measured hot loop: a tenth of the time of a check of many directories"
        )]
        return unsafe { leaf(seed, body) };
    }
    let _ = (seed, body);
    None
}

/// Whether `block` ends with a leaf tail: inode 0, length 12, name length 0, type 0xDE.
#[inline]
pub fn has_leaf_tail(block: &[u8]) -> bool {
    let Some(body) = block.len().checked_sub(LEAF_TAIL_SIZE) else { return false };
    block[body..].starts_with(&[0, 0, 0, 0, 12, 0, 0, 0xDE])
}

/// The checksum behind the index entries of an htree root or node. `count_offset` is where limit and count stand
/// (0x20 in a root, 8 in a node, more where the root has no standard header); `None` when they leave no room.
pub fn htree(inode_seed: u32, block: &[u8], count_offset: usize) -> Option<Checked> {
    let limit = usize::from(u16_at(block, count_offset)?);
    let count = usize::from(u16_at(block, count_offset + 2)?);
    let tail = count_offset + 8 * limit;
    let entries = block.get(..count_offset + 8 * count)?;
    let reserved = block.get(tail..tail + 4)?;
    let computed = crc32c(crc32c(crc32c(inode_seed, entries), reserved), &[0; 4]);
    Some(Checked { stored: u32_at(block, tail + 4)?, computed })
}

const XATTR_CHECKSUM: usize = 0x10;

/// The checksum in the header of an attribute block that lies at `number`.
pub fn xattr_block(seed: u32, number: BlockNo, block: &[u8]) -> Option<Checked> {
    let stored = u32_at(block, XATTR_CHECKSUM)?;
    let crc = crc32c(crc32c(seed, &number.0.to_le_bytes()), &block[..XATTR_CHECKSUM]);
    Some(Checked { stored, computed: crc32c(crc32c(crc, &[0; 4]), &block[XATTR_CHECKSUM + 4..]) })
}

const MMP_CHECKSUM: usize = 0x3FC;

/// The checksum at the end of the MMP structure, the first 1024 bytes of its block.
pub fn mmp_block(seed: u32, block: &[u8]) -> Option<Checked> {
    Some(Checked { stored: u32_at(block, MMP_CHECKSUM)?, computed: crc32c(seed, &block[..MMP_CHECKSUM]) })
}

/// The checksum in the last four bytes of a block of the orphan file that lies at `number`.
/// `inode_seed` is that of the orphan file's inode.
pub fn orphan_block(inode_seed: u32, number: BlockNo, block: &[u8]) -> Option<Checked> {
    let body = block.len().checked_sub(8)?;
    let crc = crc32c(inode_seed, &number.0.to_le_bytes());
    Some(Checked { stored: u32_at(block, body + 4)?, computed: crc32c(crc, &block[..body]) })
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|field| u16::from_le_bytes(*field))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|field| u32::from_le_bytes(*field))
}

#[cfg(test)]
mod tests;
