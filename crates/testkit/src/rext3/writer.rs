// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes an image: blocks and inodes are given out in order, first fit, and bitmaps and counts follow from that.

use std::collections::BTreeMap;

use super::bytes::{INODE_SIZE, UUID, put, put16, seal_directory, seal_indirect, seed};
use super::{Image, LOST_FOUND, Role, Shape};

/// Seconds since the epoch that all times say.
const TIME: u32 = 1_700_000_000;

/// An image that is being written.
pub struct Writer {
    shape: Shape,
    bytes: Vec<u8>,
    first: u64,
    used: Vec<bool>,
    inodes: Vec<bool>,
    directories: Vec<u16>,
    owned: BTreeMap<u64, (u32, Role)>,
}

impl Writer {
    /// An image without files: static metadata have their places.
    pub fn new(shape: Shape) -> Self {
        let first = u64::from(shape.block_size == 1024);
        let blocks = first + u64::from(shape.groups) * u64::from(shape.blocks_per_group);
        let mut writer = Writer {
            shape,
            bytes: vec![0; blocks as usize * shape.block_size as usize],
            first,
            used: vec![false; blocks as usize],
            inodes: vec![false; shape.groups as usize * shape.inodes_per_group as usize],
            directories: vec![0; shape.groups as usize],
            owned: BTreeMap::new(),
        };
        writer.used[0] = true;
        for group in 0..shape.groups {
            let end = writer.region(group).0;
            (writer.start(group)..end).for_each(|block| writer.used[block as usize] = true);
        }
        writer.inodes[..LOST_FOUND as usize - 1].fill(true);
        writer
    }

    fn block_size(&self) -> usize {
        self.shape.block_size as usize
    }

    fn blocks_count(&self) -> u64 {
        self.used.len() as u64
    }

    fn start(&self, group: u32) -> u64 {
        self.first + u64::from(group) * u64::from(self.shape.blocks_per_group)
    }

    fn has_superblock(group: u32) -> bool {
        matches!(group, 0 | 1 | 3 | 5 | 7 | 9)
    }

    /// The block bitmap; the inode bitmap and the table follow.
    fn bitmap(&self, group: u32) -> u64 {
        self.start(group) + if Self::has_superblock(group) { 2 } else { 0 }
    }

    fn table_blocks(&self) -> u64 {
        (self.shape.inodes_per_group as usize * INODE_SIZE).div_ceil(self.block_size()) as u64
    }

    fn region(&self, group: u32) -> (u64, u64) {
        (self.bitmap(group) + 2 + self.table_blocks(), u64::from(self.shape.region_blocks))
    }

    fn group_of(&self, inode: u32) -> u32 {
        (inode - 1) / self.shape.inodes_per_group
    }

    fn take(&mut self, block: u64) -> u64 {
        self.used[block as usize] = true;
        block
    }

    /// The first free block of the region of `group`, or of those behind it.
    fn take_in_region(&mut self, group: u32) -> u64 {
        let groups = (group..self.shape.groups).chain(0..group);
        let blocks = groups.flat_map(|group| {
            let (start, count) = self.region(group);
            start..start + count
        });
        let free =
            blocks.into_iter().find(|block| !self.used[*block as usize]).expect("regions are not full");
        self.take(free)
    }

    /// The first free block behind the region of `group`, or of those behind it.
    fn take_for_data(&mut self, group: u32) -> u64 {
        let groups = (group..self.shape.groups).chain(0..group);
        let blocks = groups.flat_map(|group| {
            let (start, count) = self.region(group);
            start + count..self.start(group + 1)
        });
        let free =
            blocks.into_iter().find(|block| !self.used[*block as usize]).expect("there is room for data");
        self.take(free)
    }

    fn write(&mut self, block: u64, contents: &[u8]) {
        let at = block as usize * self.block_size();
        self.bytes[at..at + contents.len()].copy_from_slice(contents);
    }

    fn generation(inode: u32) -> u32 {
        inode.wrapping_mul(0x9E37_79B9)
    }

    /// Writes the record of an inode whose blocks are `map`, by their places in the file.
    fn inode(&mut self, inode: u32, mode: u16, (size, links): (u64, u16), map: &BTreeMap<u64, u64>) {
        let words = self.tree(inode, map);
        let indirect =
            self.owned.values().filter(|(owner, role)| *owner == inode && matches!(role, Role::Indirect(_)));
        let blocks = (map.len() + indirect.count()) as u32;
        let mut record = [0; INODE_SIZE];
        put16(&mut record, 0, mode);
        put(&mut record, 4, size as u32);
        for at in [8, 0xC, 0x10] {
            put(&mut record, at, TIME);
        }
        put16(&mut record, 0x1A, links);
        put(&mut record, 0x1C, blocks * (self.shape.block_size / 512));
        for (at, word) in words.iter().enumerate() {
            put(&mut record, 0x28 + at * 4, *word);
        }
        put(&mut record, 0x64, Self::generation(inode));
        put(&mut record, 0x6C, (size >> 32) as u32);
        self.store(inode, &record);
    }

    fn store(&mut self, inode: u32, record: &[u8]) {
        let group = self.group_of(inode);
        let index = ((inode - 1) % self.shape.inodes_per_group) as usize;
        let at = (self.bitmap(group) + 2) as usize * self.block_size() + index * INODE_SIZE;
        self.bytes[at..at + INODE_SIZE].copy_from_slice(record);
        self.inodes[inode as usize - 1] = true;
    }

    /// Writes the indirect blocks of a map; returns the pointers in the inode.
    fn tree(&mut self, inode: u32, map: &BTreeMap<u64, u64>) -> [u32; 15] {
        let pointers = u64::from(self.shape.block_size / 4 - 2);
        let mut words = [0; 15];
        for (logical, block) in map.range(..12) {
            words[*logical as usize] = *block as u32;
        }
        let mut start = 12;
        for level in 1..=3u8 {
            let span = pointers.pow(level.into());
            let part: BTreeMap<u64, u64> =
                map.range(start..start + span).map(|(logical, block)| (logical - start, *block)).collect();
            if !part.is_empty() {
                words[11 + usize::from(level)] = self.node(inode, level, &part) as u32;
            }
            start += span;
        }
        words
    }

    /// Writes an indirect block and those below it.
    fn node(&mut self, inode: u32, level: u8, part: &BTreeMap<u64, u64>) -> u64 {
        let pointers = u64::from(self.shape.block_size / 4 - 2);
        let place = self.take_in_region(self.group_of(inode));
        self.owned.insert(place, (inode, Role::Indirect(level)));
        let mut contents = vec![0; self.block_size()];
        if level == 1 {
            for (logical, block) in part {
                put(&mut contents, 8 + *logical as usize * 4, *block as u32);
            }
        } else {
            let span = pointers.pow(u32::from(level) - 1);
            for slot in 0..pointers {
                let from = slot * span;
                let below: BTreeMap<u64, u64> =
                    part.range(from..from + span).map(|(logical, block)| (logical - from, *block)).collect();
                if !below.is_empty() {
                    let child = self.node(inode, level - 1, &below);
                    put(&mut contents, 8 + slot as usize * 4, child as u32);
                }
            }
        }
        seal_indirect(seed(), place, inode, level, &mut contents);
        self.write(place, &contents);
        place
    }

    /// A file whose blocks `logicals` are mapped.
    pub fn file(&mut self, inode: u32, logicals: impl Iterator<Item = u64>, size: u64, links: u16) {
        let group = self.group_of(inode);
        let mut map = BTreeMap::new();
        for logical in logicals {
            let block = self.take_for_data(group);
            let contents = format!("block {logical} of inode {inode}\n");
            self.write(block, contents.as_bytes());
            map.insert(logical, block);
        }
        self.inode(inode, 0o100_644, (size, links), &map);
    }

    /// A link with a long target.
    pub fn symlink(&mut self, inode: u32, target: &str) {
        let block = self.take_for_data(self.group_of(inode));
        self.write(block, target.as_bytes());
        self.inode(inode, 0o120_777, (target.len() as u64, 1), &BTreeMap::from([(0, block)]));
    }

    /// A directory of `blocks` blocks with these names.
    pub fn directory(&mut self, inode: u32, parent: u32, names: &[(u32, u8, String)], blocks: u32) {
        let group = self.group_of(inode);
        let end = self.block_size() - 32;
        let mut map = BTreeMap::new();
        let mut waiting = names.iter().peekable();
        for logical in 0..blocks {
            let mut contents = vec![0; self.block_size()];
            let (mut at, mut last) = (0, 0);
            if logical == 0 {
                record(&mut contents, 0, (inode, 2, "."), 12);
                record(&mut contents, 12, (parent, 2, ".."), 12);
                (at, last) = (24, 12);
            }
            while let Some((target, kind, name)) = waiting.peek() {
                let len = (8 + name.len()).next_multiple_of(4);
                if at + len > end {
                    break;
                }
                record(&mut contents, at, (*target, *kind, name), len);
                (last, at) = (at, at + len);
                waiting.next();
            }
            put16(&mut contents, last + 4, (end - last) as u16);
            let place = self.take_in_region(group);
            seal_directory(seed(), place, (inode, Self::generation(inode), logical), &mut contents);
            self.write(place, &contents);
            self.owned.insert(place, (inode, Role::Directory(logical)));
            map.insert(u64::from(logical), place);
        }
        assert!(waiting.next().is_none(), "the names fit into the blocks");
        let links =
            2 + if inode == parent { names.iter().filter(|name| name.1 == 2).count() as u16 } else { 0 };
        self.directories[group as usize] += 1;
        let size = u64::from(blocks) * self.block_size() as u64;
        self.inode(inode, 0o040_755, (size, links), &map);
    }

    /// An empty journal.
    pub fn journal(&mut self, inode: u32) {
        let blocks = u64::from(self.shape.journal_blocks);
        let map: BTreeMap<u64, u64> = (0..blocks).map(|logical| (logical, self.take_for_data(1))).collect();
        let mut head = vec![0; 1024];
        let words = [0xC03B_3998, 4, 0, self.shape.block_size, self.shape.journal_blocks, 1, 1, 0];
        for (at, word) in words.into_iter().enumerate() {
            head[at * 4..at * 4 + 4].copy_from_slice(&u32::to_be_bytes(word));
        }
        head[0x30..0x40].copy_from_slice(&UUID);
        head[0x40..0x44].copy_from_slice(&1u32.to_be_bytes());
        let first = map.values().next().copied().expect("a journal has blocks");
        self.write(first, &head);
        self.inode(inode, 0o100_600, (blocks * self.block_size() as u64, 1), &map);
    }

    /// Bitmaps, descriptors and superblocks.
    pub fn finish(mut self) -> Image {
        let shape = self.shape;
        let mut descriptors = vec![0; shape.groups as usize * 32];
        let (mut free_blocks, mut free_inodes) = (0, 0);
        for group in 0..shape.groups {
            let (start, bitmap) = (self.start(group), self.bitmap(group));
            let blocks: Vec<bool> = self.used[start as usize..self.start(group + 1) as usize].to_vec();
            let first = (group * shape.inodes_per_group) as usize;
            let inodes = self.inodes[first..first + shape.inodes_per_group as usize].to_vec();
            let free = [&blocks, &inodes].map(|bits| bits.iter().filter(|bit| !**bit).count() as u32);
            (free_blocks, free_inodes) = (free_blocks + free[0], free_inodes + free[1]);
            let at = group as usize * 32;
            for (nth, place) in (0..3).zip([bitmap, bitmap + 1, bitmap + 2]) {
                put(&mut descriptors, at + nth * 4, place as u32);
            }
            let counts = [free[0] as u16, free[1] as u16, self.directories[group as usize]];
            for (nth, count) in counts.into_iter().enumerate() {
                put16(&mut descriptors, at + 12 + nth * 2, count);
            }
            let block_size = self.block_size();
            self.write(bitmap, &packed(&blocks, block_size));
            self.write(bitmap + 1, &packed(&inodes, block_size));
        }
        let superblock = self.superblock(free_blocks, free_inodes);
        for group in (0..shape.groups).filter(|group| Self::has_superblock(*group)) {
            let mut copy = superblock.clone();
            put16(&mut copy, 0x5A, group as u16);
            let block = self.start(group);
            let at = block as usize * self.block_size() + if block == 0 { 1024 } else { 0 };
            self.bytes[at..at + 1024].copy_from_slice(&copy);
            self.write(block + 1, &descriptors);
        }
        Image { bytes: self.bytes, shape, owned: self.owned }
    }

    fn superblock(&self, free_blocks: u32, free_inodes: u32) -> Vec<u8> {
        let shape = self.shape;
        let mut bytes = vec![0; 1024];
        let log = shape.block_size.trailing_zeros() - 10;
        let journal = u32::from(shape.journal_blocks > 0);
        let words = [
            (0x00, shape.groups * shape.inodes_per_group),
            (0x04, self.blocks_count() as u32),
            (0x0C, free_blocks),
            (0x10, free_inodes),
            (0x14, self.first as u32),
            (0x18, log),
            (0x1C, log),
            (0x20, shape.blocks_per_group),
            (0x24, shape.blocks_per_group),
            (0x28, shape.inodes_per_group),
            (0x2C, TIME),
            (0x30, TIME),
            (0x34, 0xFFFF_0000),
            (0x38, 0x0001_EF53),
            (0x3C, 1),
            (0x40, TIME),
            (0x4C, 1),
            (0x54, LOST_FOUND),
            (0x58, INODE_SIZE as u32),
            // has_journal, ext_attr; filetype, rext3; sparse_super, large_file.
            (0x5C, 0x8 | journal << 2),
            (0x60, 0x40_0002),
            (0x64, 0x3),
            (0xE0, journal * super::JOURNAL),
            (0xEC, 1),
            (0xFC, 1),
            (0x108, TIME),
            (0x160, 1),
            (0x3F8, shape.region_blocks),
        ];
        for (at, value) in words {
            put(&mut bytes, at, value);
        }
        bytes[0x68..0x78].copy_from_slice(&UUID);
        bytes[0x3F4..0x3F8].copy_from_slice(b"rex3");
        bytes
    }
}

/// A record of a directory.
fn record(bytes: &mut [u8], at: usize, (inode, kind, name): (u32, u8, &str), len: usize) {
    put(bytes, at, inode);
    put16(bytes, at + 4, len as u16);
    bytes[at + 6..at + 8].copy_from_slice(&[name.len() as u8, kind]);
    bytes[at + 8..at + 8 + name.len()].copy_from_slice(name.as_bytes());
}

/// A bitmap; what lies behind its bits counts as used.
fn packed(bits: &[bool], len: usize) -> Vec<u8> {
    let mut bytes = vec![0xFF; len];
    for (at, bit) in bits.iter().enumerate().filter(|(_, bit)| !**bit) {
        debug_assert!(!bit);
        bytes[at / 8] &= !(1 << (at % 8));
    }
    bytes
}
