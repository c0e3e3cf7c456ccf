// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of the toy format.
//!
//! | block | what |
//! |---|---|
//! | 0 | superblock: magic, blocks, inodes, free blocks, free inodes, checksum |
//! | 1 | a bit for each block in use |
//! | 2 | a bit for each inode in use |
//! | 3 and on | the table of inodes, 64 bytes each |
//! | the rest | contents of files and directories |
//!
//! All numbers are little-endian. A directory is a list of entries of 32 bytes: inode, kind, length of the name, name; the first one is `..`. An entry with inode 0 is free.

use crc_fast::CrcAlgorithm::Crc32Iscsi;

/// Bytes of a block.
pub const BLOCK: usize = 512;
/// Bytes of the record of an inode.
pub const RECORD: usize = 64;
/// Bytes of a directory entry.
pub const ENTRY: usize = 32;
/// The longest name.
pub const NAME_MAX: usize = 26;
/// The first block of the table of inodes.
pub const TABLE: u64 = 3;
/// Blocks that a file can have.
pub const POINTERS: usize = 12;
/// The root directory.
pub const ROOT: u32 = 1;
/// How a superblock begins.
pub const MAGIC: &[u8; 8] = b"TOYFS\0\0\x01";
/// Kinds of inodes, as records and entries have them.
pub const FILE: u8 = 1;
/// See [`FILE`].
pub const DIRECTORY: u8 = 2;

fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(Crc32Iscsi, bytes) as u32
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// The superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Blocks of the file system.
    pub blocks: u32,
    /// Inodes; the first has the number 1.
    pub inodes: u32,
    /// Blocks not in use.
    pub free_blocks: u32,
    /// Inodes not in use.
    pub free_inodes: u32,
}

impl Superblock {
    /// Reads one, and says whether its checksum is right; `None` without the magic number, or with impossible sizes.
    pub fn parse(bytes: &[u8]) -> Option<(Superblock, bool)> {
        let [blocks, inodes, free_blocks, free_inodes, sum] = [8, 12, 16, 20, 24].map(|at| number(bytes, at));
        let bits = (BLOCK * 8) as u32;
        let superblock = Superblock { blocks, inodes, free_blocks, free_inodes };
        let is_possible = (1..=bits).contains(&blocks)
            && (1..=bits).contains(&inodes)
            && superblock.first_data() < u64::from(blocks)
            && bytes.get(..8) == Some(MAGIC);
        is_possible.then(|| (superblock, sum == checksum(&bytes[..24])))
    }

    /// Its bytes.
    pub fn store(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for field in [self.blocks, self.inodes, self.free_blocks, self.free_inodes] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(checksum(&bytes).to_le_bytes());
        bytes
    }

    /// The first block behind the table of inodes.
    pub fn first_data(&self) -> u64 {
        TABLE + (u64::from(self.inodes) * RECORD as u64).div_ceil(BLOCK as u64)
    }
}

/// The record of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// 0 when free.
    pub kind: u8,
    /// Names that lead to it.
    pub links: u16,
    /// Bytes of contents.
    pub size: u32,
    /// Its blocks; 0 is a hole.
    pub blocks: [u32; POINTERS],
}

impl Record {
    /// Reads one, and says whether its checksum is right. A free record is all zeroes.
    pub fn parse(bytes: &[u8]) -> (Record, bool) {
        let (links, size) = (number(bytes, 2) as u16, number(bytes, 4));
        let blocks = std::array::from_fn(|at| number(bytes, 8 + at * 4));
        let record = Record { kind: bytes[0], links, size, blocks };
        let is_free = bytes.iter().all(|byte| *byte == 0);
        (record, is_free || number(bytes, 60) == checksum(&bytes[..60]))
    }

    /// Its bytes.
    pub fn store(&self) -> Vec<u8> {
        if self.kind == 0 {
            return vec![0; RECORD];
        }
        let mut bytes = vec![self.kind, 0];
        bytes.extend(self.links.to_le_bytes());
        bytes.extend(self.size.to_le_bytes());
        self.blocks.iter().for_each(|block| bytes.extend(block.to_le_bytes()));
        bytes.resize(60, 0);
        bytes.extend(checksum(&bytes).to_le_bytes());
        bytes
    }
}

/// A directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it leads to; 0 when free.
    pub inode: u32,
    /// What it says that is.
    pub kind: u8,
    /// The name.
    pub name: Vec<u8>,
}

impl Entry {
    /// Reads one; `None` where the length of the name is impossible.
    pub fn parse(bytes: &[u8]) -> Option<Entry> {
        let len = usize::from(bytes[5]);
        let is_free = number(bytes, 0) == 0;
        let name = bytes.get(6..6 + len).filter(|name| is_free || !name.is_empty())?;
        Some(Entry { inode: number(bytes, 0), kind: bytes[4], name: name.to_vec() })
    }

    /// Its bytes; names that are too long are cut.
    pub fn store(&self) -> Vec<u8> {
        let name = &self.name[..self.name.len().min(NAME_MAX)];
        let mut bytes = self.inode.to_le_bytes().to_vec();
        bytes.extend([self.kind, name.len() as u8]);
        bytes.extend(name);
        bytes.resize(ENTRY, 0);
        bytes
    }
}
