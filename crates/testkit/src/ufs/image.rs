// SPDX-License-Identifier: MIT OR Apache-2.0
//! An image in memory, to be looked at and changed: each change seals what it touches, so that it is seen for what it is.

use std::collections::BTreeMap;

use fsmend_ufs_format::group::CylinderGroup;
use fsmend_ufs_format::inode::Inode;
use fsmend_ufs_format::superblock::{Hashes, SUPERBLOCK_MAX, Superblock};
use fsmend_ufs_format::{Geometry, directory};

/// An image, and what is known of it.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its geometry.
    pub geometry: Geometry,
    /// The inode of each path, as far as it is known without a look.
    pub inodes: BTreeMap<String, u32>,
}

impl Image {
    /// The image with these bytes, which has a superblock where it belongs.
    pub fn open(bytes: Vec<u8>) -> Option<Image> {
        let superblock = [65536, 8192].into_iter().find_map(|at| {
            Superblock::parse(bytes.get(at..at + SUPERBLOCK_MAX)?)
                .filter(|found| found.sblockloc() == at as i64)
        })?;
        let (geometry, _) = Geometry::of(&superblock).ok()?;
        Some(Image { bytes, geometry, inodes: BTreeMap::new() })
    }

    /// The inode of a path.
    pub fn inode(&self, path: &str) -> u32 {
        self.inodes.get(path).copied().unwrap_or_else(|| self.find(path).0)
    }

    /// Byte offset of an inode.
    pub fn record_at(&self, inode: u32) -> usize {
        self.geometry.inode_place(inode).expect("the inode exists") as usize
    }

    /// The record of an inode.
    pub fn record(&self, inode: u32) -> Inode<Vec<u8>> {
        let at = self.record_at(inode);
        let bytes = self.bytes[at..at + self.geometry.version.inode_size()].to_vec();
        Inode::new(bytes, self.geometry.order, self.geometry.version)
    }

    /// Changes the record of the inode of `path`, and makes its check hash right.
    pub fn amend(&mut self, path: &str, change: impl FnOnce(&mut Inode<Vec<u8>>)) {
        self.amend_inode(self.inode(path), change);
    }

    /// Changes the record of an inode, and makes its check hash right.
    pub fn amend_inode(&mut self, inode: u32, change: impl FnOnce(&mut Inode<Vec<u8>>)) {
        let mut record = self.record(inode);
        change(&mut record);
        if self.geometry.hashes.contains(Hashes::INODES) {
            record.seal();
        }
        let at = self.record_at(inode);
        let bytes = record.into_bytes();
        self.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
    }

    /// Changes the superblock, and makes its check hash right.
    pub fn amend_superblock(&mut self, change: impl FnOnce(&mut Superblock)) {
        let at = self.geometry.superblock_place as usize;
        let mut superblock = Superblock::parse(&self.bytes[at..at + SUPERBLOCK_MAX]).expect("it is there");
        change(&mut superblock);
        superblock.seal();
        self.bytes[at..at + superblock.covered().len()].copy_from_slice(superblock.covered());
    }

    /// Changes a cylinder group, and makes its check hash right.
    pub fn amend_group(&mut self, group: u32, change: impl FnOnce(&mut CylinderGroup, &Geometry)) {
        let at = self.geometry.group_place(group) as usize;
        let bytes = self.bytes[at..at + self.geometry.group_bytes as usize].to_vec();
        let mut made = CylinderGroup::new(bytes, self.geometry.order);
        change(&mut made, &self.geometry);
        made.seal(&self.geometry);
        self.bytes[at..at + made.bytes().len()].copy_from_slice(made.bytes());
    }

    /// Byte offset of block `index` (of the direct ones) of a path's file.
    pub fn block_at(&self, path: &str, index: usize) -> usize {
        self.geometry.place(self.record(self.inode(path)).pointer(index)) as usize
    }

    /// Byte offset of an entry in the first block of a directory.
    pub fn entry_at(&self, directory: &str, name: &str) -> usize {
        let block = self.block_at(directory, 0);
        let size =
            (self.record(self.inode(directory)).size() as usize).min(self.geometry.block_size as usize);
        let chunks = (block..block + size).step_by(directory::CHUNK);
        let found = chunks.into_iter().find_map(|at| {
            let chunk = &self.bytes[at..at + directory::CHUNK];
            let mut entries = directory::Entries::new(chunk, self.geometry.order).flatten();
            let entry = entries.find(|entry| entry.inode != 0 && entry.name == name.as_bytes())?;
            Some(at + entry.offset)
        });
        found.expect("the name is there")
    }

    /// Byte offset of the entry in the directory that its inode says, as journals count: from the start of the directory.
    pub fn entry_offset(&self, directory: &str, name: &str) -> u64 {
        (self.entry_at(directory, name) - self.block_at(directory, 0)) as u64
    }

    /// Takes a name out of a directory, in its first block.
    pub fn remove_name(&mut self, directory: &str, name: &str) {
        let at = self.entry_at(directory, name);
        let offset = at % directory::CHUNK;
        let start = at - offset;
        directory::remove(&mut self.bytes[start..start + directory::CHUNK], self.geometry.order, offset);
    }

    /// The bytes of fragments.
    pub fn fragments(&mut self, first: u64, count: u64) -> &mut [u8] {
        let (at, len) = (self.geometry.place(first) as usize, (count * self.geometry.fragment_size) as usize);
        &mut self.bytes[at..at + len]
    }

    /// The inode of a path, and the byte offset of the entry that leads to it.
    pub fn find(&self, path: &str) -> (u32, usize) {
        let mut at = (2, 0);
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = self.entry(at.0, name.as_bytes()).unwrap_or_else(|| panic!("there is no {path}"));
        }
        at
    }

    /// The inode that an entry of a directory leads to, and where the entry is.
    pub fn entry(&self, directory: u32, name: &[u8]) -> Option<(u32, usize)> {
        let record = self.record(directory);
        let blocks = record.size().div_ceil(self.geometry.block_size);
        (0..blocks.min(12)).find_map(|index| {
            let start = self.geometry.place(record.pointer(index as usize)) as usize;
            let len =
                (record.size() - index * self.geometry.block_size).min(self.geometry.block_size) as usize;
            self.bytes[start..start + len].chunks(directory::CHUNK).enumerate().find_map(|(number, chunk)| {
                let mut entries = directory::Entries::new(chunk, self.geometry.order).flatten();
                let found = entries.find(|entry| entry.inode != 0 && entry.name == name)?;
                Some((found.inode, start + number * directory::CHUNK + found.offset))
            })
        })
    }
}
