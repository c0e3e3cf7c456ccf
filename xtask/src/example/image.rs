// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of an ext4 file system that is to be damaged: finds records, and makes checksums right again.
//!
//! Written apart from the checker, so that a mistake in its checksums would show. Knows only what the example image
//! has: 64-byte descriptors, metadata checksums, extents that fit into the inode, one descriptor block.

use std::io;

/// Bytes in a block of the example image.
pub const BLOCK: usize = 1024;
const SUPERBLOCK: usize = 1024;
const DESCRIPTORS: usize = 2 * BLOCK;
const DESCRIPTOR: usize = 64;
const INODE: usize = 256;
/// Where the map begins in an inode.
pub const I_BLOCK: usize = 0x28;

/// An image in memory.
pub struct Image {
    bytes: Vec<u8>,
}

impl Image {
    /// Takes the bytes of a sound image.
    pub fn new(bytes: Vec<u8>) -> Self {
        Image { bytes }
    }

    /// The bytes as they are now.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The number of the inode that `path` leads to.
    pub fn inode(&self, path: &str) -> io::Result<u32> {
        let mut inode = 2;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let (block, at) = self.entry(inode, name)?;
            inode = le32(self.block(block), at);
        }
        Ok(inode)
    }

    /// The block and the place in it of the entry called `name` in a directory.
    pub fn entry(&self, directory: u32, name: &str) -> io::Result<(u64, usize)> {
        for block in self.blocks(directory) {
            let bytes = self.block(block);
            let mut at = 0;
            while at + 8 <= BLOCK {
                let length = usize::from(bytes[at + 6]);
                if le32(bytes, at) != 0 && bytes.get(at + 8..at + 8 + length) == Some(name.as_bytes()) {
                    return Ok((block, at));
                }
                at += usize::from(le16(bytes, at + 4)).max(8);
            }
        }
        Err(io::Error::other(format!("inode {directory} has no entry {name}")))
    }

    /// The blocks of an inode, in the order of the file.
    pub fn blocks(&self, inode: u32) -> Vec<u64> {
        let record = &self.bytes[self.inode_at(inode)..][..INODE];
        let entries = usize::from(le16(record, I_BLOCK + 2));
        let run = |number: usize| {
            let at = I_BLOCK + 12 + number * 12;
            let start = u64::from(le32(record, at + 8));
            start..start + u64::from(le16(record, at + 4))
        };
        (0..entries).flat_map(run).collect()
    }

    /// A block.
    pub fn block(&self, block: u64) -> &[u8] {
        &self.bytes[block as usize * BLOCK..][..BLOCK]
    }

    /// The record of an inode.
    pub fn record(&self, inode: u32) -> &[u8] {
        &self.bytes[self.inode_at(inode)..][..INODE]
    }

    /// Changes a block as it is; no checksum is touched.
    pub fn edit_block(&mut self, block: u64, edit: impl FnOnce(&mut [u8])) {
        edit(&mut self.bytes[block as usize * BLOCK..][..BLOCK]);
    }

    /// Changes the record of an inode without telling its checksum.
    pub fn edit_inode_only(&mut self, inode: u32, edit: impl FnOnce(&mut [u8])) {
        let at = self.inode_at(inode);
        edit(&mut self.bytes[at..][..INODE]);
    }

    /// Changes the record of an inode and its checksum with it.
    pub fn edit_inode(&mut self, inode: u32, edit: impl FnOnce(&mut [u8])) {
        self.edit_inode_only(inode, edit);
        let seed = self.inode_seed(inode);
        self.edit_inode_only(inode, |record| {
            put16(record, 0x7C, 0);
            put16(record, 0x82, 0);
            let sum = crc(seed, record);
            put16(record, 0x7C, sum as u16);
            put16(record, 0x82, (sum >> 16) as u16);
        });
    }

    /// Changes a block of entries of a directory and its checksum with it.
    pub fn edit_entries(&mut self, directory: u32, block: u64, edit: impl FnOnce(&mut [u8])) {
        let seed = self.inode_seed(directory);
        self.edit_block(block, |bytes| {
            edit(bytes);
            let sum = crc(seed, &bytes[..BLOCK - 12]);
            put32(bytes, BLOCK - 4, sum);
        });
    }

    /// Changes the root of a directory's index and its checksum with it.
    pub fn edit_index_root(&mut self, directory: u32, edit: impl FnOnce(&mut [u8])) {
        let seed = self.inode_seed(directory);
        let Some(block) = self.blocks(directory).first().copied() else { return };
        self.edit_block(block, |bytes| {
            edit(bytes);
            let (limit, count) = (usize::from(le16(bytes, 0x20)), usize::from(le16(bytes, 0x22)));
            let tail = 0x20 + limit * 8;
            let sum = crc(seed, &bytes[..0x20 + count * 8]);
            let sum = crc(crc(sum, &bytes[tail..tail + 4]), &[0; 4]);
            put32(bytes, tail + 4, sum);
        });
    }

    /// Changes the descriptor of a group, and its checksum with it.
    pub fn edit_group(&mut self, group: u32, edit: impl FnOnce(&mut [u8])) {
        let seed = crc(self.seed(), &group.to_le_bytes());
        let at = DESCRIPTORS + group as usize * DESCRIPTOR;
        let descriptor = &mut self.bytes[at..][..DESCRIPTOR];
        edit(descriptor);
        put16(descriptor, 0x1E, 0);
        let sum = crc(seed, descriptor);
        put16(descriptor, 0x1E, sum as u16);
    }

    /// Changes the block bitmap of a group, and its checksum with it.
    pub fn edit_block_bitmap(&mut self, group: u32, edit: impl FnOnce(&mut [u8])) {
        let block = u64::from(le32(&self.bytes, DESCRIPTORS + group as usize * DESCRIPTOR));
        self.edit_block(block, edit);
        let sum = crc(self.seed(), self.block(block));
        self.edit_group(group, |descriptor| {
            put16(descriptor, 0x18, sum as u16);
            put16(descriptor, 0x38, (sum >> 16) as u16);
        });
    }

    /// Changes the superblock, and its checksum with it.
    pub fn edit_superblock(&mut self, edit: impl FnOnce(&mut [u8])) {
        let superblock = &mut self.bytes[SUPERBLOCK..][..1024];
        edit(superblock);
        let sum = crc(!0, &superblock[..0x3FC]);
        put32(superblock, 0x3FC, sum);
    }

    fn inode_at(&self, inode: u32) -> usize {
        let per_group = le32(&self.bytes, SUPERBLOCK + 0x28);
        let (group, index) = ((inode - 1) / per_group, (inode - 1) % per_group);
        let table = le32(&self.bytes, DESCRIPTORS + group as usize * DESCRIPTOR + 8);
        table as usize * BLOCK + index as usize * INODE
    }

    fn seed(&self) -> u32 {
        crc(!0, &self.bytes[SUPERBLOCK + 0x68..][..16])
    }

    fn inode_seed(&self, inode: u32) -> u32 {
        let generation = &self.record(inode)[0x64..0x68];
        crc(crc(self.seed(), &inode.to_le_bytes()), generation)
    }
}

/// CRC32c as ext4 chains it: without the final inversion.
pub fn crc(seed: u32, bytes: &[u8]) -> u32 {
    fsmend_ext_format::checksum::crc32c(seed, bytes)
}

/// A little-endian number of 16 bits.
pub fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// A little-endian number of 32 bits.
pub fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Writes a little-endian number of 16 bits.
pub fn put16(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + 2].copy_from_slice(&number.to_le_bytes());
}

/// Writes a little-endian number of 32 bits.
pub fn put32(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}
