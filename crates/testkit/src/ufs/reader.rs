// SPDX-License-Identifier: MIT OR Apache-2.0
//! A reader of UFS that shares nothing with the code under test: numbers at offsets, straight from the description of the format. It believes what it reads, checks
//! no hash, and leaves out what makes no sense.

use std::collections::{BTreeMap, BTreeSet};

/// Most blocks of one file that are looked at.
const BLOCKS_MAX: usize = 1 << 16;

/// The type of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, socket or device.
    Special,
    /// The inode is not in use, or of no known type.
    Nothing,
}

/// What a name leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its inode.
    pub inode: u32,
    /// Its type.
    pub kind: Kind,
    /// Its size.
    pub size: u64,
    /// Its link count.
    pub links: u16,
    /// What a file or a link contains; holes as zeroes, blocks outside of the image not at all.
    pub contents: BTreeMap<u64, Vec<u8>>,
    /// Where it stands, as byte offset and length: its record and its indirect blocks.
    pub record: Vec<(usize, usize)>,
    /// Where its blocks of contents start.
    pub blocks: Vec<usize>,
    /// Where the chunk with its name starts; 0 for the root.
    pub chunk: usize,
}

/// What the map of an inode leads to.
#[derive(Default)]
struct Gathered {
    contents: BTreeMap<u64, Vec<u8>>,
    indirect: Vec<(usize, usize)>,
    blocks: Vec<usize>,
}

impl Node {
    /// The parts of the contents that are not zeroes.
    pub fn bytes_that_count(&self) -> Vec<(&u64, &Vec<u8>)> {
        self.contents.iter().filter(|(_, part)| part.iter().any(|byte| *byte != 0)).collect()
    }

    /// The contents in one piece, holes filled with zeroes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.size as usize];
        for (at, part) in &self.contents {
            let at = *at as usize;
            let len = part.len().min(bytes.len().saturating_sub(at));
            if len > 0 {
                bytes[at..at + len].copy_from_slice(&part[..len]);
            }
        }
        bytes
    }
}

struct Reader<'i> {
    image: &'i [u8],
    is_big: bool,
    is_second: bool,
    fragment: u64,
    block: u64,
    group_size: u64,
    table: u64,
    group_inodes: u64,
    groups: u64,
}

/// All names of an image, by their path; empty where there is no superblock that makes sense.
pub fn tree(image: &[u8]) -> BTreeMap<String, Node> {
    let mut found = BTreeMap::new();
    let Some(reader) = Reader::new(image) else { return found };
    let mut seen = BTreeSet::from([2]);
    let mut waiting = vec![(String::new(), 2)];
    found.insert("/".to_owned(), reader.node(2));
    while let Some((path, directory)) = waiting.pop() {
        for (name, inode, chunk) in reader.entries(directory) {
            let path = format!("{path}/{}", String::from_utf8_lossy(&name));
            let node = Node { chunk, ..reader.node(inode) };
            if node.kind == Kind::Directory && seen.insert(inode) {
                waiting.push((path.clone(), inode));
            }
            found.insert(path, node);
        }
    }
    found
}

impl<'i> Reader<'i> {
    fn new(image: &'i [u8]) -> Option<Reader<'i>> {
        [65536, 8192].into_iter().find_map(|at| {
            let magic = image.get(at + 1372..at + 1376)?;
            let (is_big, is_second) = match magic {
                [0x19, 0x01, 0x54, 0x19] => (false, true),
                [0x19, 0x54, 0x01, 0x19] => (true, true),
                [0x54, 0x19, 0x01, 0x00] => (false, false),
                [0x00, 0x01, 0x19, 0x54] => (true, false),
                _ => return None,
            };
            let mut reader = Reader {
                image,
                is_big,
                is_second,
                fragment: 0,
                block: 0,
                group_size: 0,
                table: 0,
                group_inodes: 0,
                groups: 0,
            };
            let field = |offset| reader.number(at + offset, 4);
            let (block, fragment) = (field(48), field(52));
            let (group_size, table, group_inodes, groups) = (field(188), field(16), field(184), field(44));
            if block == 0 || fragment == 0 || group_inodes == 0 {
                return None;
            }
            (reader.block, reader.fragment, reader.group_size) = (block, fragment, group_size);
            (reader.table, reader.group_inodes, reader.groups) = (table, group_inodes, groups);
            Some(reader)
        })
    }

    fn number(&self, at: usize, length: usize) -> u64 {
        let Some(bytes) = self.image.get(at..at + length) else { return 0 };
        let digit = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        if self.is_big { bytes.iter().fold(0, digit) } else { bytes.iter().rev().fold(0, digit) }
    }

    /// Where the inode's record is.
    fn record(&self, inode: u32) -> Option<usize> {
        let (group, index) = (u64::from(inode) / self.group_inodes, u64::from(inode) % self.group_inodes);
        let size = if self.is_second { 256 } else { 128 };
        let place = (group * self.group_size + self.table) * self.fragment + index * size;
        (group < self.groups).then_some(place as usize)
    }

    fn node(&self, inode: u32) -> Node {
        let mut node = Node {
            inode,
            kind: Kind::Nothing,
            size: 0,
            links: 0,
            contents: BTreeMap::new(),
            record: Vec::new(),
            blocks: Vec::new(),
            chunk: 0,
        };
        let Some(at) = self.record(inode) else { return node };
        node.record.push((at, if self.is_second { 256 } else { 128 }));
        node.kind = match self.number(at, 2) >> 12 {
            4 => Kind::Directory,
            8 => Kind::File,
            10 => Kind::Link,
            1 | 2 | 6 | 12 => Kind::Special,
            _ => Kind::Nothing,
        };
        node.size = self.number(at + if self.is_second { 16 } else { 8 }, 8);
        node.links = self.number(at + 2, 2) as u16;
        if node.kind == Kind::Link && node.size < if self.is_second { 120 } else { 60 } {
            let from = at + if self.is_second { 112 } else { 40 };
            let target = self.image.get(from..from + node.size as usize).unwrap_or_default();
            node.contents.insert(0, target.to_vec());
        } else if matches!(node.kind, Kind::File | Kind::Link | Kind::Directory) {
            let gathered = self.contents(at, node.size);
            (node.contents, node.blocks) = (gathered.contents, gathered.blocks);
            node.record.extend(gathered.indirect);
        }
        node
    }

    fn contents(&self, record: usize, size: u64) -> Gathered {
        let mut gathered = Gathered::default();
        let width = if self.is_second { 8 } else { 4 };
        let first = record + if self.is_second { 112 } else { 40 };
        let mut index = 0;
        for slot in 0..15 {
            let pointer = self.number(first + slot * width, width);
            let level = slot.saturating_sub(11);
            self.gather((pointer, level), &mut index, size, &mut gathered);
        }
        gathered
    }

    fn gather(&self, (pointer, level): (u64, usize), index: &mut u64, size: u64, gathered: &mut Gathered) {
        let width = if self.is_second { 8 } else { 4 };
        let pointers = self.block / width as u64;
        if index.saturating_mul(self.block) >= size || gathered.contents.len() > BLOCKS_MAX {
            return;
        }
        let place = pointer.saturating_mul(self.fragment) as usize;
        if pointer == 0 || place >= self.image.len() {
            *index += pointers.pow(level as u32);
        } else if level == 0 {
            let length = self.block.min(size - *index * self.block) as usize;
            let part = self.image.get(place..place + length).unwrap_or_default();
            gathered.contents.insert(*index * self.block, part.to_vec());
            gathered.blocks.push(place);
            *index += 1;
        } else {
            gathered.indirect.push((place, self.block as usize));
            for slot in 0..pointers as usize {
                let below = self.number(place + slot * width, width);
                self.gather((below, level - 1), index, size, gathered);
            }
        }
    }

    /// The names of a directory, without `.` and `..`, with the inodes that they lead to and the places of their chunks.
    fn entries(&self, directory: u32) -> Vec<(Vec<u8>, u32, usize)> {
        let mut entries = Vec::new();
        let Some(record) = self.record(directory) else { return entries };
        let size = self.number(record + if self.is_second { 16 } else { 8 }, 8);
        let gathered = self.contents(record, size);
        for (part, block) in gathered.contents.values().zip(gathered.blocks) {
            for (number, chunk) in part.chunks(512).enumerate() {
                let mut at = 0;
                while let Some(entry) = chunk.get(at..).filter(|rest| rest.len() >= 8) {
                    let one = Reader { image: entry, ..*self };
                    let (inode, length, name) = (one.number(0, 4), one.number(4, 2) as usize, entry[7]);
                    if length < 8 {
                        break;
                    }
                    if let Some(name) = entry.get(8..8 + usize::from(name)).filter(|_| inode != 0)
                        && name != b"."
                        && name != b".."
                    {
                        entries.push((name.to_vec(), inode as u32, block + number * 512));
                    }
                    at += length;
                }
            }
        }
        entries
    }
}
