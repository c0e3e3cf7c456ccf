// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal (jbd2): every block is big-endian and begins with a 12-byte header; a transaction is descriptor
//! blocks with the blocks they announce, revoke blocks, and one commit block.
//!
//! ```text
//! superblock | descriptor | data ... data | revoke | commit | descriptor | ...      (cyclic from s_first)
//!
//! tag        0 t_blocknr  4 t_checksum(16) 6 t_flags(16) [8 t_blocknr_high]  8 or 12 bytes, 2 more with checksum v2
//! tag v3     0 t_blocknr  4 t_flags(32)    8 t_blocknr_high  12 t_checksum   16 bytes
//! ```
//! A tag without `SAME_UUID` is followed by a 16-byte UUID. Source: "ext4 Data Structures and Algorithms", journal.

use bitflags::bitflags;
use fsmend_base::width::low_u32;
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::crc32c;

/// `h_magic` of every journal block but data.
pub const JOURNAL_MAGIC: u32 = 0xC03B_3998;
/// A journal with fewer blocks is not one.
pub const JOURNAL_BLOCKS_MIN: u64 = 1024;
/// Size of the journal superblock in bytes.
pub const JOURNAL_SUPERBLOCK_SIZE: usize = 1024;
/// Fast-commit blocks when `s_num_fc_blocks` is 0.
pub const FAST_COMMIT_BLOCKS_DEFAULT: u32 = 256;
/// `s_checksum_type`: CRC32C, the only kind there is.
pub const CHECKSUM_CRC32C: u8 = 4;
/// `h_chksum_type` of a commit block under the first kind of checksums.
pub const COMMIT_CHECKSUM_CRC32: u8 = 1;

/// What a journal block is (`h_blocktype`); unknown numbers stay as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalBlockType(pub u32);

impl JournalBlockType {
    /// Announces the data blocks that follow it.
    pub const DESCRIPTOR: Self = Self(1);
    /// Ends a transaction.
    pub const COMMIT: Self = Self(2);
    /// Superblock of the first version.
    pub const SUPERBLOCK_V1: Self = Self(3);
    /// Superblock of the second version.
    pub const SUPERBLOCK_V2: Self = Self(4);
    /// Names blocks that must not be replayed from earlier transactions.
    pub const REVOKE: Self = Self(5);
}

bitflags! {
    /// `s_feature_compat` of the journal.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct JournalCompat: u32 {
        /// Commit blocks carry a CRC32 of their transaction.
        const CHECKSUM = 0x1;
    }

    /// `s_feature_incompat` of the journal: all bits that we know.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct JournalIncompat: u32 {
        /// There may be revoke blocks.
        const REVOKE = 0x1;
        /// 64-bit block numbers.
        const BIT64 = 0x2;
        /// A commit block may reach the disk before its data.
        const ASYNC_COMMIT = 0x4;
        /// CRC32C on everything, 16 bits of it in tags.
        const CSUM_V2 = 0x8;
        /// CRC32C on everything, all of it in tags.
        const CSUM_V3 = 0x10;
        /// An area for fast commits at the end of the journal.
        const FAST_COMMIT = 0x20;
    }

    /// `t_flags`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct TagFlags: u32 {
        /// The block began with the journal's magic number, which was zeroed in the log.
        const ESCAPE = 1;
        /// No UUID follows the tag.
        const SAME_UUID = 2;
        /// The block was deleted by this transaction (never written).
        const DELETED = 4;
        /// The last tag of its descriptor.
        const LAST = 8;
    }
}

/// The header of every journal block but data.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "field names are those of the format document")]
pub struct RawJournalHeader {
    pub h_magic: U32,
    pub h_blocktype: U32,
    pub h_sequence: U32,
}

/// The journal superblock as it lies on the disk.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "field names are those of the format document")]
pub struct RawJournalSuperblock {
    pub s_header: RawJournalHeader,
    pub s_blocksize: U32,
    pub s_maxlen: U32,
    pub s_first: U32,
    pub s_sequence: U32,
    pub s_start: U32,
    pub s_errno: U32,
    pub s_feature_compat: U32,
    pub s_feature_incompat: U32,
    pub s_feature_ro_compat: U32,
    pub s_uuid: [u8; 16],
    pub s_nr_users: U32,
    pub s_dynsuper: U32,
    pub s_max_transaction: U32,
    pub s_max_trans_data: U32,
    pub s_checksum_type: u8,
    pub s_padding2: [u8; 3],
    pub s_num_fc_blocks: U32,
    pub s_head: U32,
    pub s_padding: [U32; 40],
    pub s_checksum: U32,
    pub s_users: [u8; 768],
}

/// A commit block; the rest of its block is zero.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "field names are those of the format document")]
pub struct RawCommit {
    pub header: RawJournalHeader,
    pub h_chksum_type: u8,
    pub h_chksum_size: u8,
    pub h_padding: U16,
    pub h_chksum: [U32; 8],
    pub h_commit_sec: U64,
    pub h_commit_nsec: U32,
}

const _: () = assert!(size_of::<RawJournalSuperblock>() == JOURNAL_SUPERBLOCK_SIZE);
const _: () = assert!(std::mem::offset_of!(RawJournalSuperblock, s_uuid) == 0x30);
const _: () = assert!(std::mem::offset_of!(RawJournalSuperblock, s_num_fc_blocks) == 0x54);
const _: () = assert!(std::mem::offset_of!(RawJournalSuperblock, s_checksum) == 0xFC);
const _: () = assert!(size_of::<RawCommit>() == 60);

/// Where the checksum of a commit block stands.
const COMMIT_CHECKSUM: usize = 0x10;
/// Bytes that the checksum takes at the end of descriptor and revoke blocks.
const TAIL_SIZE: usize = 4;

impl RawJournalHeader {
    /// The header of `block`; all zero when the block is too short.
    pub fn of(block: &[u8]) -> Self {
        Self::read_from_prefix(block).map(|(header, _)| header).unwrap_or_default()
    }

    /// Whether the magic number is right.
    pub fn is_journal_block(&self) -> bool {
        self.h_magic.get() == JOURNAL_MAGIC
    }

    /// What the block is.
    pub fn block_type(&self) -> JournalBlockType {
        JournalBlockType(self.h_blocktype.get())
    }
}

impl RawJournalSuperblock {
    /// The superblock at the start of `block`, `None` when the block is too short.
    pub fn of(block: &[u8]) -> Option<Self> {
        Self::read_from_prefix(block).ok().map(|(superblock, _)| superblock)
    }

    /// Whether it is of the second version, the first that has features.
    pub fn is_version2(&self) -> bool {
        self.s_header.block_type() == JournalBlockType::SUPERBLOCK_V2
    }

    /// `s_feature_incompat`, also the bits that we do not know.
    pub fn incompat(&self) -> JournalIncompat {
        JournalIncompat::from_bits_retain(self.s_feature_incompat.get())
    }

    /// Whether one of the incompatible `features` is on.
    pub fn has_incompat(&self, features: JournalIncompat) -> bool {
        self.is_version2() && self.incompat().intersects(features)
    }

    /// Whether one of the compatible `features` is on.
    pub fn has_compat(&self, features: JournalCompat) -> bool {
        self.is_version2()
            && JournalCompat::from_bits_retain(self.s_feature_compat.get()).intersects(features)
    }

    /// Whether blocks carry CRC32C (second or third kind of checksums).
    pub fn has_csum(&self) -> bool {
        self.has_incompat(JournalIncompat::CSUM_V2 | JournalIncompat::CSUM_V3)
    }

    /// Number of blocks set aside for fast commits; 0 without the feature.
    pub fn fast_commit_blocks(&self) -> u32 {
        if self.has_incompat(JournalIncompat::FAST_COMMIT) { self.fast_commit_blocks_if_on() } else { 0 }
    }

    /// The blocks that fast commits would have if they were switched on.
    pub fn fast_commit_blocks_if_on(&self) -> u32 {
        match self.s_num_fc_blocks.get() {
            0 => FAST_COMMIT_BLOCKS_DEFAULT,
            count => count,
        }
    }

    /// The checksum that it should store.
    pub fn computed_checksum(&self) -> u32 {
        let mut copy = self.clone();
        copy.s_checksum = U32::new(0);
        crc32c(u32::MAX, copy.as_bytes())
    }
}

/// How the blocks of one journal are laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogFormat {
    /// 64-bit block numbers.
    pub wide: bool,
    /// CRC32C of the second kind.
    pub csum_v2: bool,
    /// CRC32C of the third kind.
    pub csum_v3: bool,
    /// Seed of CRC32C checksums.
    pub seed: u32,
}

/// One tag of a descriptor block: a block of the file system that lies in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockTag {
    /// Where the block belongs.
    pub block: u64,
    /// `t_flags`, also the bits that we do not know.
    pub flags: TagFlags,
    /// Stored checksum (16 bits of it with the second kind).
    pub checksum: u32,
}

impl LogFormat {
    /// What `superblock` says about the layout.
    pub fn of(superblock: &RawJournalSuperblock) -> Self {
        LogFormat {
            wide: superblock.has_incompat(JournalIncompat::BIT64),
            csum_v2: superblock.has_incompat(JournalIncompat::CSUM_V2),
            csum_v3: superblock.has_incompat(JournalIncompat::CSUM_V3),
            seed: crc32c(u32::MAX, &superblock.s_uuid),
        }
    }

    /// Whether blocks carry CRC32C.
    pub fn has_csum(&self) -> bool {
        self.csum_v2 || self.csum_v3
    }

    /// Bytes of one tag, without the UUID that may follow it.
    pub fn tag_size(&self) -> usize {
        if self.csum_v3 {
            return 16;
        }
        8 + if self.csum_v2 { 2 } else { 0 } + if self.wide { 4 } else { 0 }
    }

    /// The tags of a descriptor block, up to the last one or the end of the block.
    pub fn tags(&self, block: &[u8]) -> Vec<BlockTag> {
        let end = block.len().saturating_sub(if self.has_csum() { TAIL_SIZE } else { 0 });
        let mut tags = Vec::new();
        let mut at = size_of::<RawJournalHeader>();
        while let Some(bytes) = block.get(at..at + self.tag_size()).filter(|_| at + self.tag_size() <= end) {
            let tag = self.tag(bytes);
            tags.push(tag);
            if tag.flags.contains(TagFlags::LAST) {
                break;
            }
            at += self.tag_size() + if tag.flags.contains(TagFlags::SAME_UUID) { 0 } else { 16 };
        }
        tags
    }

    fn tag(&self, bytes: &[u8]) -> BlockTag {
        let word = |at: usize| be32(bytes, at);
        let half = |at: usize| be32(bytes, at) >> 16;
        let (flags, checksum) =
            if self.csum_v3 { (word(4), word(12)) } else { (u32::from(be16(bytes, 6)), half(4)) };
        let high = if self.wide { word(8) } else { 0 };
        let flags = TagFlags::from_bits_retain(flags);
        BlockTag { block: u64::from(high) << 32 | u64::from(word(0)), flags, checksum }
    }

    /// Whether the checksum of `tag` fits `data`, its block as it lies in the log of transaction `sequence`.
    pub fn tag_fits(&self, tag: BlockTag, sequence: u32, data: &[u8]) -> bool {
        let computed = || crc32c(crc32c(self.seed, &sequence.to_be_bytes()), data);
        match (self.csum_v3, self.csum_v2) {
            (true, _) => tag.checksum == computed(),
            (false, true) => tag.checksum == computed() & 0xFFFF,
            (false, false) => true,
        }
    }

    /// Whether the checksum at the end of a descriptor or revoke block is right (or there is none).
    pub fn tail_fits(&self, block: &[u8]) -> bool {
        let Some(split) = block.len().checked_sub(TAIL_SIZE) else { return false };
        !self.has_csum() || be32(block, split) == crc32c(crc32c(self.seed, &block[..split]), &[0; TAIL_SIZE])
    }

    /// Whether the CRC32C of a commit block is right (or there is none). A block of several sectors may be torn by a power cut; what follows the
    /// header is zero, so that a header which fits zeroes behind it is as good as the whole block.
    pub fn commit_fits(&self, block: &[u8]) -> bool {
        let header = size_of::<RawCommit>();
        let torn = || match block.get(..header) {
            Some(head) => self.commit_sum_fits(&[head, &vec![0; block.len() - header]].concat()),
            None => false,
        };
        self.commit_sum_fits(block) || torn()
    }

    fn commit_sum_fits(&self, block: &[u8]) -> bool {
        let Some(rest) = block.get(COMMIT_CHECKSUM + 4..) else { return false };
        let head = crc32c(crc32c(self.seed, &block[..COMMIT_CHECKSUM]), &[0; 4]);
        !self.has_csum() || be32(block, COMMIT_CHECKSUM) == crc32c(head, rest)
    }

    /// The blocks that a revoke block names; `None` when its length cannot be.
    pub fn revoked(&self, block: &[u8]) -> Option<Vec<u64>> {
        let width = if self.wide { 8 } else { 4 };
        let room = block.len().saturating_sub(if self.has_csum() { TAIL_SIZE } else { 0 });
        let used = be32(block, size_of::<RawJournalHeader>()) as usize;
        if used > room {
            return None;
        }
        let records = block.get(size_of::<RawJournalHeader>() + 4..used).unwrap_or(&[]);
        Some(
            records
                .chunks_exact(width)
                .map(|record| if self.wide { be64(record) } else { u64::from(be32(record, 0)) })
                .collect(),
        )
    }
}

impl RawCommit {
    /// The commit block at the start of `block`.
    pub fn of(block: &[u8]) -> Option<Self> {
        Self::read_from_prefix(block).ok().map(|(commit, _)| commit)
    }
}

/// The checksum of the first kind: CRC32, most significant bit first, not inverted, continued from `seed`
/// (a transaction begins with all ones).
pub fn crc32_be(seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |crc, byte| crc << 8 ^ CRC32_BE[usize::from((crc >> 24) as u8 ^ byte)])
}

static CRC32_BE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = low_u32(index as u64) << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000_0000 != 0 { crc << 1 ^ 0x04C1_1DB7 } else { crc << 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

fn be16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |part| u16::from_be_bytes([part[0], part[1]]))
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |part| u32::from_be_bytes([part[0], part[1], part[2], part[3]]))
}

fn be64(bytes: &[u8]) -> u64 {
    u64::from(be32(bytes, 0)) << 32 | u64::from(be32(bytes, 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: LogFormat = LogFormat { wide: false, csum_v2: false, csum_v3: false, seed: 0 };

    #[test]
    fn tags_of_every_size() {
        let sizes = [
            (false, false, false, 8),
            (true, false, false, 12),
            (false, true, false, 10),
            (true, true, false, 14),
            (false, false, true, 16),
        ];
        for (wide, csum_v2, csum_v3, size) in sizes {
            assert_eq!(LogFormat { wide, csum_v2, csum_v3, seed: 0 }.tag_size(), size);
        }
    }

    #[test]
    fn tags_end_with_the_last_one_and_skip_uuids() {
        let mut block = vec![0; 64];
        block[12..20].copy_from_slice(&[0, 0, 0, 7, 0xAB, 0xCD, 0, 0]);
        block[36..44].copy_from_slice(&[0, 0, 0, 9, 0, 0, 0, 2 | 8]);
        let tags = PLAIN.tags(&block);
        assert_eq!(
            tags.iter().map(|tag| (tag.block, tag.flags.bits())).collect::<Vec<_>>(),
            [(7, 0), (9, 10)]
        );
        assert_eq!(tags[0].checksum, 0xABCD);
    }

    #[test]
    fn a_descriptor_without_a_last_tag_ends_with_the_block() {
        assert_eq!(PLAIN.tags(&[0; 44]).len(), 2);
        assert!(PLAIN.tags(&[0; 5]).is_empty());
    }

    #[test]
    fn revoke_records() {
        let mut block = vec![0; 32];
        block[15] = 24;
        block[19] = 5;
        block[23] = 6;
        assert_eq!(PLAIN.revoked(&block), Some(vec![5, 6]));
        assert_eq!(LogFormat { wide: true, ..PLAIN }.revoked(&block), Some(vec![5 << 32 | 6]));
        block[12] = 1;
        assert_eq!(PLAIN.revoked(&block), None, "longer than the block");
    }

    #[test]
    fn crc32_of_the_first_kind() {
        assert_eq!(crc32_be(u32::MAX, b"123456789"), 0x0376_E6E7, "CRC-32/MPEG-2");
    }

    #[test]
    fn features_count_only_in_version_2() {
        let mut superblock = RawJournalSuperblock::of(&[0; 1024]).unwrap_or_else(|| unreachable!());
        superblock.s_feature_incompat =
            U32::new((JournalIncompat::CSUM_V3 | JournalIncompat::FAST_COMMIT).bits());
        superblock.s_header.h_blocktype = U32::new(3);
        assert!(!superblock.has_csum());
        superblock.s_header.h_blocktype = U32::new(4);
        assert!(superblock.has_csum());
        assert_eq!(superblock.fast_commit_blocks(), FAST_COMMIT_BLOCKS_DEFAULT);
    }
}
