// SPDX-License-Identifier: MIT OR Apache-2.0
//! rext3: ext3 whose indirect blocks and directory blocks live in regions of their own and say whose they are
//! (`docs/formats/rext3.md` has it byte by byte).
//!
//! ```text
//! indirect block   0 inode   4 check << 8 | level   8 pointers ...
//! directory block  ... records, tail: 0 | 32 | 0, 0xDF | magic | inode | generation | logical | 0 | crc32c
//! ```
//!
//! Nothing here allocates, and no bytes whatsoever lead out of bounds.
//!
//! Source: Ma et al., "ffsck: The Fast File System Checker", §4.2; what goes beyond it is ours, and said so in the document.

use fsmend_base::width::low_u8;
use fsmend_base::{BlockNo, InodeNo};

use crate::checksum::{Checked, crc32c};
use crate::features::{Compat, Features, Incompat, RoCompat};

/// `s_rext3_magic`: "rex3".
pub const SUPERBLOCK_MAGIC: u32 = u32::from_le_bytes(*b"rex3");
/// The magic number in the tail of a directory block: "rdir".
pub const TAIL_MAGIC: u32 = u32::from_le_bytes(*b"rdir");
/// Bytes of inode number, level and check at the start of an indirect block.
pub const HEADER_SIZE: usize = 8;
/// Bytes of the tail of a directory block.
pub const TAIL_SIZE: usize = 32;
/// The file type byte of the tail, which looks like a free record.
pub const TAIL_TYPE: u8 = 0xDF;
/// Most levels of indirection.
pub const LEVELS_MAX: u8 = 3;
/// Blocks that the inode itself points to.
pub const DIRECT_BLOCKS: u64 = 12;

/// Features that a rext3 may have beside its own: those of ext3.
const ALLOWED: Features = Features {
    compat: Compat::HAS_JOURNAL.union(Compat::EXT_ATTR).union(Compat::DIR_INDEX),
    incompat: Incompat::FILETYPE.union(Incompat::RECOVER).union(Incompat::REXT3),
    ro_compat: RoCompat::SPARSE_SUPER
        .union(RoCompat::LARGE_FILE)
        .union(RoCompat::EXTRA_ISIZE)
        .union(RoCompat::DIR_NLINK),
};

/// Blocks of a region that mkfs makes when nothing else is asked for: a 64th of a group, 2 MiB where blocks have 4 KiB and groups
/// are as large as they can be.
pub fn region_blocks_default(blocks_per_group: u32) -> u32 {
    (blocks_per_group / 64).max(1)
}

/// What of `features` a rext3 cannot have.
pub fn excluded(features: Features) -> Features {
    Features {
        compat: features.compat & !ALLOWED.compat,
        incompat: features.incompat & !ALLOWED.incompat,
        ro_compat: features.ro_compat & !ALLOWED.ro_compat,
    }
}

/// Blocks that a file can have at the most by its map: 12 direct ones, and three trees of `block_size / 4 - 2` pointers a block.
pub fn file_blocks_max(block_size: u32) -> u64 {
    let pointers = (u64::from(block_size) - HEADER_SIZE as u64) / 4;
    DIRECT_BLOCKS + pointers + pointers.pow(2) + pointers.pow(3)
}

/// What an indirect block says about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndirectHeader {
    /// Whose it is.
    pub inode: InodeNo,
    /// 1 where its pointers lead to data, 2 or 3 where they lead to indirect blocks one level lower.
    pub level: u8,
    /// The check of both, and of its place: 24 bits.
    pub check: u32,
}

impl IndirectHeader {
    /// A header with the right check, for the block at `place`. `seed` is the file system's.
    pub fn new(seed: u32, place: BlockNo, inode: InodeNo, level: u8) -> Self {
        let mut header = IndirectHeader { inode, level, check: 0 };
        header.check = header.right_check(seed, place);
        header
    }

    /// The header of `block`, whatever it says; `None` if `block` is too short for one.
    #[inline]
    pub fn parse(block: &[u8]) -> Option<Self> {
        let words: &[u8; HEADER_SIZE] = block.first_chunk()?;
        let second = u32::from_le_bytes([words[4], words[5], words[6], words[7]]);
        let inode = InodeNo(u32::from_le_bytes([words[0], words[1], words[2], words[3]]));
        Some(IndirectHeader { inode, level: words[4], check: second >> 8 })
    }

    /// The check that belongs to inode and level in a block at `place`.
    #[inline]
    pub fn right_check(&self, seed: u32, place: BlockNo) -> u32 {
        let mut bytes = [0; 13];
        bytes[..8].copy_from_slice(&place.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.inode.0.to_le_bytes());
        bytes[12] = self.level;
        crc32c(seed, &bytes) >> 8
    }

    /// Whether it can be what a driver wrote for the block at `place`.
    #[inline]
    pub fn is_right(&self, seed: u32, place: BlockNo) -> bool {
        (1..=LEVELS_MAX).contains(&self.level)
            && self.inode.0 != 0
            && self.check == self.right_check(seed, place)
    }

    /// Whether inode and level are possible ones in a file system of `inodes_count` inodes, be the check right or not.
    pub fn names_an_inode(&self, inodes_count: u32) -> bool {
        (1..=inodes_count).contains(&self.inode.0) && (1..=LEVELS_MAX).contains(&self.level)
    }

    /// Writes it at the start of `block`, if there is room.
    pub fn store(&self, block: &mut [u8]) {
        if let Some(words) = block.first_chunk_mut::<HEADER_SIZE>() {
            words[..4].copy_from_slice(&self.inode.0.to_le_bytes());
            words[4..].copy_from_slice(&(self.check << 8 | u32::from(self.level)).to_le_bytes());
        }
    }
}

/// What a directory block says about itself, in its last 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectoryTail {
    /// Whose it is.
    pub inode: InodeNo,
    /// The generation of that inode.
    pub generation: u32,
    /// Which block of the directory it is.
    pub logical: u32,
}

impl DirectoryTail {
    /// The tail of `block`; `None` unless the fixed fields are what they always are.
    #[inline]
    pub fn parse(block: &[u8]) -> Option<Self> {
        let tail: &[u8; TAIL_SIZE] = block.last_chunk()?;
        let word = |at: usize| u32::from_le_bytes([tail[at], tail[at + 1], tail[at + 2], tail[at + 3]]);
        let is_one = tail[..8] == record() && word(8) == TAIL_MAGIC && word(24) == 0;
        is_one.then(|| DirectoryTail { inode: InodeNo(word(12)), generation: word(16), logical: word(20) })
    }

    /// Writes the tail of `block`, which lies at `place`, with the checksum over all of it. Nothing happens where there is no
    /// room for one. `seed` is the file system's.
    pub fn seal(&self, seed: u32, place: BlockNo, block: &mut [u8]) {
        let Some(tail) = block.last_chunk_mut::<TAIL_SIZE>() else { return };
        tail[..8].copy_from_slice(&record());
        let words = [TAIL_MAGIC, self.inode.0, self.generation, self.logical, 0];
        for (place, word) in tail[8..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        if let Some(checked) = directory_checksum(seed, place, block)
            && let Some(field) = block.last_chunk_mut::<4>()
        {
            *field = checked.computed.to_le_bytes();
        }
    }
}

/// The first 8 bytes of a tail: a free record of 32 bytes with a type that no entry has.
const fn record() -> [u8; 8] {
    [0, 0, 0, 0, low_u8(TAIL_SIZE as u64), 0, 0, TAIL_TYPE]
}

/// The checksum in the last four bytes of a directory block that lies at `place`: over its number and everything before.
#[inline]
pub fn directory_checksum(seed: u32, place: BlockNo, block: &[u8]) -> Option<Checked> {
    let (body, stored) = block.split_last_chunk::<4>()?;
    let computed = crc32c(crc32c(seed, &place.0.to_le_bytes()), body);
    Some(Checked { stored: u32::from_le_bytes(*stored), computed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_bound_to_their_place() {
        let mut block = [0xFF; 1024];
        let header = IndirectHeader::new(7, BlockNo(100), InodeNo(12), 2);
        header.store(&mut block);
        assert_eq!(block[..5], [12, 0, 0, 0, 2]);
        assert_eq!(IndirectHeader::parse(&block), Some(header));
        assert!(header.is_right(7, BlockNo(100)));
        assert!(!header.is_right(7, BlockNo(101)) && !header.is_right(8, BlockNo(100)));
        assert!(!IndirectHeader { level: 1, ..header }.is_right(7, BlockNo(100)));
        assert!(!IndirectHeader::new(7, BlockNo(100), InodeNo(12), 4).is_right(7, BlockNo(100)));
        assert!(!IndirectHeader::new(7, BlockNo(100), InodeNo(0), 1).is_right(7, BlockNo(100)));
        assert_eq!(IndirectHeader::parse(&block[..7]), None);
        header.store(&mut block[..7]);
    }

    #[test]
    fn tails_are_told_from_anything_else() {
        let mut block = [0x55; 1024];
        assert_eq!(DirectoryTail::parse(&block), None);
        let tail = DirectoryTail { inode: InodeNo(2), generation: 9, logical: 3 };
        tail.seal(7, BlockNo(50), &mut block);
        assert_eq!(DirectoryTail::parse(&block), Some(tail));
        assert_eq!(block[..992], [0x55; 992]);
        assert_eq!(block[992..1000], [0, 0, 0, 0, 32, 0, 0, 0xDF]);
        assert!(directory_checksum(7, BlockNo(50), &block).is_some_and(Checked::is_right));
        assert!(!directory_checksum(7, BlockNo(51), &block).is_some_and(Checked::is_right));
        block[0] ^= 1;
        assert!(!directory_checksum(7, BlockNo(50), &block).is_some_and(Checked::is_right));
        block[1000] ^= 1;
        assert_eq!(DirectoryTail::parse(&block), None);
        assert_eq!(DirectoryTail::parse(&block[..31]), None);
        tail.seal(7, BlockNo(50), &mut block[..31]);
    }

    #[test]
    fn largest_files() {
        let blocks = [1024, 2048, 4096].map(file_blocks_max);
        assert_eq!(blocks, [16_451_846, 132_911_622, 1_068_508_166]);
        assert_eq!([8, 8192, 16_384, 32_768].map(region_blocks_default), [1, 128, 256, 512]);
    }

    #[test]
    fn features_of_ext4_are_excluded() {
        let ext3 = Features::from_words(0x2C, 0x40_0006, 0x3);
        assert_eq!(excluded(ext3), Features::default());
        let ext4 = Features::from_words(0x3C, 0x40_02C2, 0x46B);
        assert_eq!(excluded(ext4), Features::from_words(0x10, 0x2C0, 0x408));
    }
}
