// SPDX-License-Identifier: MIT OR Apache-2.0
//! A reader of ext2, ext3, ext4 and rext3 that shares nothing with the code under test: numbers at offsets, straight from the format's
//! documentation. It believes what it reads, checks no checksum, and leaves out what makes no sense.

use std::collections::BTreeMap;

const EXTENTS: u32 = 0x8_0000;
const INLINE_DATA: u32 = 0x1000_0000;
/// A rext3: indirect blocks begin with two words about themselves.
const REXT3: u32 = 0x40_0000;
const XATTR_MAGIC: u32 = 0xEA02_0000;
/// Most nodes of one map that are looked at.
const NODES_MAX: usize = 20_000;
/// So many bytes of a file are compared at a time.
pub const PART_BYTES: usize = 1024;

/// Little-endian number of 16 bits; 0 where the bytes end.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// Little-endian number of 32 bits; 0 where the bytes end.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// An image with a superblock that makes sense.
pub struct Reader<'i> {
    image: &'i [u8],
    block_size: u64,
    inode_size: u64,
    inodes_count: u32,
    inodes_per_group: u32,
    desc_table: u64,
    desc_size: u64,
    /// From this block of the descriptor table on, each of its blocks lies in the groups that it describes (`meta_bg`).
    first_meta_bg: u64,
    /// Where a group begins: the first one's block, and blocks of a group.
    group_blocks: (u64, u64),
    wide: bool,
    /// Bytes of an indirect block before its pointers.
    header: u64,
}

/// The record of an inode.
#[derive(Clone, Copy)]
pub struct Record<'i> {
    /// Its bytes.
    pub bytes: &'i [u8],
    /// Where they stand in the image.
    pub at: u64,
}

/// A block of a file: its place in the file, and its bytes.
pub type Piece<'i> = (u64, &'i [u8]);

impl<'i> Record<'i> {
    /// `i_mode`.
    pub fn mode(self) -> u16 {
        u16_at(self.bytes, 0)
    }

    /// The type of file, as in `i_mode`.
    pub fn kind(self) -> u16 {
        self.mode() & 0o170_000
    }

    /// Owner, user and group.
    pub fn owner(self) -> (u32, u32) {
        let half = |low, high| u32::from(u16_at(self.bytes, low)) | u32::from(u16_at(self.bytes, high)) << 16;
        (half(2, 120), half(24, 122))
    }

    /// Length of the file.
    pub fn size(self) -> u64 {
        u64::from(u32_at(self.bytes, 4)) | u64::from(u32_at(self.bytes, 108)) << 32
    }

    /// Whether `i_blocks` says that there are some.
    pub fn has_blocks(self) -> bool {
        u32_at(self.bytes, 28) != 0
    }

    /// `i_flags`.
    pub fn flags(self) -> u32 {
        u32_at(self.bytes, 32)
    }

    /// The sixty bytes of the map, the target of a short link, or the start of what lies inline.
    pub fn map(self) -> &'i [u8] {
        self.bytes.get(40..100).unwrap_or_default()
    }

    /// Whether what the file holds lies in the inode.
    pub fn is_inline(self) -> bool {
        self.flags() & INLINE_DATA != 0
    }

    fn attribute_area(self) -> &'i [u8] {
        let start = 128 + usize::from(u16_at(self.bytes, 128));
        match self.bytes.get(start..) {
            Some(area) if self.bytes.len() > 128 && u32_at(area, 0) == XATTR_MAGIC => &area[4..],
            _ => &[],
        }
    }
}

impl<'i> Reader<'i> {
    /// Reads the superblock.
    pub fn new(image: &'i [u8]) -> Option<Self> {
        let superblock = image.get(1024..2048)?;
        let incompat = u32_at(superblock, 96);
        let wide = incompat & 0x80 != 0;
        let block_size = 1024_u64 << u32_at(superblock, 24).min(6);
        let old = u32_at(superblock, 76) == 0;
        // With clusters the first block counts as 0 even where the superblock lies in block 1.
        let first = u64::from(u32_at(superblock, 20)).max(1024 / block_size);
        let reader = Reader {
            image,
            block_size,
            inode_size: if old { 128 } else { u64::from(u16_at(superblock, 88)) },
            inodes_count: u32_at(superblock, 0),
            inodes_per_group: u32_at(superblock, 40),
            desc_table: (first + 1) * block_size,
            first_meta_bg: if incompat & 0x10 != 0 { u64::from(u32_at(superblock, 260)) } else { u64::MAX },
            group_blocks: (u64::from(u32_at(superblock, 20)), u64::from(u32_at(superblock, 32))),
            header: if incompat & REXT3 != 0 { 8 } else { 0 },
            desc_size: if wide { u64::from(u16_at(superblock, 254)).max(64) } else { 32 },
            wide,
        };
        (u16_at(superblock, 56) == 0xEF53 && reader.inodes_per_group > 0 && reader.inode_size >= 128)
            .then_some(reader)
    }

    /// The highest number that an inode can have.
    pub fn inodes_count(&self) -> u32 {
        self.inodes_count
    }

    /// The record of an inode.
    pub fn inode(&self, number: u32) -> Option<Record<'i>> {
        let index = number.checked_sub(1).filter(|_| number <= self.inodes_count)?;
        let (group, index) = (index / self.inodes_per_group, index % self.inodes_per_group);
        let desc = self.slice(self.descriptor_at(group)?, self.desc_size)?;
        let high = if self.wide { u64::from(u32_at(desc, 40)) << 32 } else { 0 };
        let table = (u64::from(u32_at(desc, 8)) | high).checked_mul(self.block_size)?;
        let at = table.checked_add(u64::from(index) * self.inode_size)?;
        Some(Record { bytes: self.slice(at, self.inode_size)?, at })
    }

    /// Where the descriptor of a group stands.
    pub fn descriptor_at(&self, group: u32) -> Option<u64> {
        let group = u64::from(group);
        let per_block = self.block_size / self.desc_size;
        let block = group.checked_div(per_block)?;
        if block < self.first_meta_bg {
            return Some(self.desc_table + group * self.desc_size);
        }
        // At the start of the group, behind a copy of the superblock where it has one: in group 0, always (any other first group of a block
        // is a multiple of a power of two, and has none with `sparse_super`).
        let first = block * per_block;
        let behind = if first == 0 {
            self.desc_table
        } else {
            let start = first.checked_mul(self.group_blocks.1)?.checked_add(self.group_blocks.0)?;
            start.checked_mul(self.block_size)?
        };
        behind.checked_add(group % per_block * self.desc_size)
    }

    /// Where a piece of the image stands in it.
    pub fn place_of(&self, piece: &[u8]) -> usize {
        (piece.as_ptr() as usize).saturating_sub(self.image.as_ptr() as usize)
    }

    fn slice(&self, start: u64, len: u64) -> Option<&'i [u8]> {
        let start = usize::try_from(start).ok()?;
        self.image.get(start..start.checked_add(len as usize)?)
    }

    fn block(&self, number: u64) -> Option<&'i [u8]> {
        self.slice(number.checked_mul(self.block_size)?, self.block_size).filter(|_| number != 0)
    }

    /// The blocks of a file that hold something, in no order. What lies inline comes as pieces whose places are bytes.
    pub fn pieces(&self, inode: Record<'i>) -> Vec<Piece<'i>> {
        if inode.is_inline() {
            let rest = self.attribute(inode, 7, b"data").unwrap_or_default();
            return vec![(0, inode.map()), (60, rest)];
        }
        let mut pieces = Vec::new();
        if inode.flags() & EXTENTS != 0 {
            self.extents(inode.map(), &mut pieces);
        } else {
            self.pointers(inode.map(), &mut pieces);
        }
        pieces
    }

    fn extents(&self, root: &'i [u8], pieces: &mut Vec<Piece<'i>>) {
        let mut nodes = vec![root];
        let mut looked_at = 0;
        while let Some(node) = nodes.pop().filter(|_| looked_at < NODES_MAX) {
            looked_at += 1;
            let entries = node.chunks_exact(12).skip(1).take(usize::from(u16_at(node, 2)));
            for entry in entries.filter(|_| u16_at(node, 0) == 0xF30A) {
                if u16_at(node, 6) > 0 {
                    nodes.extend(self.block(u64::from(u32_at(entry, 4)) | u64::from(u16_at(entry, 8)) << 32));
                    continue;
                }
                let (len, start) = (
                    u64::from(u16_at(entry, 4)),
                    u64::from(u32_at(entry, 8)) | u64::from(u16_at(entry, 6)) << 32,
                );
                // Longer ones are allocated and not written: they read as zeroes.
                for step in (0..len).filter(|_| len <= 32768) {
                    let logical = u64::from(u32_at(entry, 0)) + step;
                    pieces.extend(self.block(start + step).map(|bytes| (logical, bytes)));
                }
            }
        }
    }

    fn pointers(&self, map: &'i [u8], pieces: &mut Vec<Piece<'i>>) {
        let per_block = (self.block_size - self.header) / 4;
        let mut first = 0;
        for word in 0..15 {
            let (depth, reach) = match word {
                0..12 => (0, 1),
                deep => (deep as u32 - 11, per_block.pow(deep as u32 - 11)),
            };
            self.below(u32_at(map, word * 4), depth, first, pieces);
            first += reach;
        }
    }

    fn below(&self, pointer: u32, depth: u32, first: u64, pieces: &mut Vec<Piece<'i>>) {
        let mut nodes = vec![(pointer, depth, first)];
        let mut looked_at = 0;
        while let Some((pointer, depth, first)) = nodes.pop().filter(|_| looked_at < NODES_MAX) {
            looked_at += usize::from(depth > 0);
            let Some(block) = self.block(u64::from(pointer)) else { continue };
            if depth == 0 {
                pieces.push((first, block));
                continue;
            }
            let reach = ((self.block_size - self.header) / 4).pow(depth - 1);
            let pointers = block[self.header as usize..]
                .chunks_exact(4)
                .enumerate()
                .filter(|(_, word)| u32_at(word, 0) != 0);
            nodes.extend(pointers.map(|(at, word)| (u32_at(word, 0), depth - 1, first + at as u64 * reach)));
        }
    }

    /// What the file holds, in one number: holes and zeroes are the same, and it does not matter where the bytes lie.
    pub fn content(&self, inode: Record<'i>) -> u64 {
        self.parts(inode).values().fold(0, |sum, part| sum.wrapping_add(*part))
    }

    /// What every KiB of the file holds, in a number each; what is nothing but zeroes is left out.
    pub fn parts(&self, inode: Record<'i>) -> BTreeMap<u64, u64> {
        self.parts_at(inode, |_| true)
    }

    /// The same, of those pieces only that `counts` holds for.
    pub fn parts_at(&self, inode: Record<'i>, counts: impl Fn(&[u8]) -> bool) -> BTreeMap<u64, u64> {
        let size = inode.size();
        let unit = if inode.is_inline() { 1 } else { self.block_size };
        let mut parts: BTreeMap<u64, u64> = BTreeMap::new();
        for (at, bytes) in self.pieces(inode).into_iter().filter(|(_, bytes)| counts(bytes)) {
            let start = at.saturating_mul(unit);
            let len = size.saturating_sub(start).min(bytes.len() as u64) as usize;
            for (step, bytes) in bytes[..len].chunks(PART_BYTES).enumerate() {
                let start = start + (step * PART_BYTES) as u64;
                let sum = sum_of_words(start, bytes);
                let part = parts.entry(start / PART_BYTES as u64).or_default();
                *part = part.wrapping_add(sum);
            }
        }
        parts.retain(|_, sum| *sum != 0);
        parts
    }

    fn attribute(&self, inode: Record<'i>, index: u8, name: &[u8]) -> Option<&'i [u8]> {
        let area = inode.attribute_area();
        let entry = entries(area).into_iter().find(|entry| entry.index == index && entry.name == name)?;
        area.get(entry.offset..entry.offset.checked_add(entry.size)?)
    }

    /// All attributes, by name: what each holds in one number. What lies inline is none of them, nor is an access list in the inode that the kernel
    /// cannot read, over which it refuses to open the file.
    pub fn attributes(&self, inode: Record<'i>) -> BTreeMap<Vec<u8>, u64> {
        let block = self.block(u64::from(u32_at(inode.bytes, 104)));
        let block = block.filter(|block| u32_at(block, 0) == XATTR_MAGIC);
        let mut all = BTreeMap::new();
        let in_inode = inode.attribute_area();
        let in_block = block.map(|block| (entries(&block[32..]), block));
        for (entries, values) in [(entries(in_inode), in_inode)].into_iter().chain(in_block) {
            for entry in entries.into_iter().filter(|entry| (entry.index, entry.name) != (7, b"data")) {
                // A few bits in the end of a list: without a name (only access lists have none) the kernel neither reads nor removes it.
                if !matches!(entry.index, 2 | 3) && entry.name.is_empty() && entry.size == 0 {
                    continue;
                }
                let value = values.get(entry.offset..entry.offset.saturating_add(entry.size));
                let is_list = matches!(entry.index, 2 | 3) && entry.name.is_empty() && entry.inode == 0;
                if is_list && values.as_ptr() == in_inode.as_ptr() && !value.is_some_and(is_access_list) {
                    continue;
                }
                let value = match entry.inode {
                    0 => values
                        .get(entry.offset..entry.offset.saturating_add(entry.size))
                        .map(|value| sum_of_words(0, value)),
                    inode => self.inode(inode).map(|inode| self.content(inode)),
                };
                let name = [&[entry.index], entry.name].concat();
                // Of two with one name the kernel finds the first.
                all.entry(name).or_insert(value.unwrap_or(0).wrapping_add((entry.size as u64) << 40));
            }
        }
        all
    }

    /// Whether the kernel reads only the lower halves of owners: a default mount option (`uid16`).
    pub fn has_short_owners(&self) -> bool {
        u32_at(self.image, 1024 + 0x100) & 0x10 != 0
    }

    /// Name, inode and type of what a directory holds, `.` and `..` left out.
    pub fn names(&self, directory: Record<'i>) -> Vec<(Vec<u8>, u32)> {
        let mut names = Vec::new();
        if directory.is_inline() {
            let rest = self.attribute(directory, 7, b"data").unwrap_or_default();
            gather(directory.map().get(4..).unwrap_or_default(), &mut names);
            gather(rest, &mut names);
            return names;
        }
        let end = directory.size().div_ceil(self.block_size);
        let mut pieces = self.pieces(directory);
        pieces.sort_by_key(|(at, _)| *at);
        pieces.iter().filter(|(at, _)| *at < end).for_each(|(_, block)| gather(block, &mut names));
        names
    }
}

/// Whether the kernel can read this access list: entries of 4 bytes, those with a name of 8, up to the end.
fn is_access_list(list: &[u8]) -> bool {
    let mut at = 4;
    while at + 4 <= list.len() {
        at += match u16_at(list, at) {
            2 | 8 => 8,
            1 | 4 | 16 | 32 => 4,
            _ => return false,
        };
    }
    list.is_empty() || list.len() >= 4 && u32_at(list, 0) == 1 && at == list.len()
}

/// Entries of a directory block, for as long as they make sense.
fn gather(block: &[u8], names: &mut Vec<(Vec<u8>, u32)>) {
    let mut at = 0;
    while at + 8 <= block.len() {
        let (inode, stored) = (u32_at(block, at), usize::from(u16_at(block, at + 4)));
        let len = if block.len() == 65_536 && matches!(stored, 0 | 65_535) { 65_536 } else { stored };
        let name_len = usize::from(block[at + 6]);
        if len < 8 || at + len > block.len() || 8 + name_len > len {
            return;
        }
        let name = &block[at + 8..at + 8 + name_len];
        if inode != 0 && name != b"." && name != b".." {
            names.push((name.to_vec(), inode));
        }
        at += len;
    }
}

struct Attribute<'b> {
    index: u8,
    name: &'b [u8],
    offset: usize,
    size: usize,
    inode: u32,
}

fn entries(area: &[u8]) -> Vec<Attribute<'_>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at + 16 <= area.len() && u32_at(area, at) != 0 {
        let len = usize::from(area[at]);
        let Some(name) = area.get(at + 16..at + 16 + len) else { break };
        found.push(Attribute {
            index: area[at + 1],
            name,
            offset: usize::from(u16_at(area, at + 2)),
            size: u32_at(area, at + 8) as usize,
            inode: u32_at(area, at + 4),
        });
        at += (16 + len).next_multiple_of(4);
    }
    found
}

/// Words and their places, added up: zeroes do not count, and the order of pieces does not matter.
pub fn sum_of_words(start: u64, bytes: &[u8]) -> u64 {
    let mut sum = 0_u64;
    for (index, chunk) in bytes.chunks(4).enumerate() {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        let word = u64::from(u32::from_le_bytes(word));
        if word != 0 {
            let place = start / 4 + index as u64;
            let mixed =
                (word ^ place.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            sum = sum.wrapping_add(mixed ^ mixed >> 29);
        }
    }
    sum
}
