// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small rext3 images, byte by byte after `docs/formats/rext3.md`, with no code of what is tested: no other tool makes such images yet.
//!
//! The same [`Shape`] gives the same bytes. An [`Image`] says where its indirect blocks and directory blocks lie, for tests that
//! damage them, and can make their checks right again.

mod bytes;
pub mod fields;
mod writer;

use std::collections::BTreeMap;

use writer::Writer;

/// Root directory.
pub const ROOT: u32 = 2;
/// The journal.
pub const JOURNAL: u32 = 8;
/// `lost+found`.
pub const LOST_FOUND: u32 = 11;
/// A file of five blocks.
pub const PLAIN: u32 = 12;
/// A file with one indirect block.
pub const ONE: u32 = 13;
/// A file with a double indirect block and two below it.
pub const TWO: u32 = 14;
/// A sparse file with a block below its triple indirect block.
pub const DEEP: u32 = 15;
/// A sparse file.
pub const HOLES: u32 = 16;
/// A directory of so many blocks that it has an indirect block.
pub const MANY: u32 = 17;
/// A directory of two blocks.
pub const SUB: u32 = 18;
/// A link whose target stands in a block.
pub const LINK: u32 = 19;
/// The first of the files that fill the first region: with an indirect block each.
pub const CROWD: u32 = 20;

/// The numbers of an image.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// 1024, 2048 or 4096.
    pub block_size: u32,
    /// Groups.
    pub groups: u32,
    /// Blocks in each.
    pub blocks_per_group: u32,
    /// Inodes in each; no less than 64.
    pub inodes_per_group: u32,
    /// Blocks of each region.
    pub region_blocks: u32,
    /// Blocks of the journal; 0 for none.
    pub journal_blocks: u32,
    /// How many files with an indirect block each there are in the first group, beside the others.
    pub crowd: u32,
    /// Blocks of the directory with many names.
    pub many_blocks: u32,
}

impl Default for Shape {
    /// 6 MiB with blocks of 1 KiB. The first region is full, and the rest of its indirect blocks lies in the second one.
    fn default() -> Self {
        Shape {
            block_size: 1024,
            groups: 6,
            blocks_per_group: 1024,
            inodes_per_group: 64,
            region_blocks: 48,
            journal_blocks: 1024,
            crowd: 30,
            many_blocks: 16,
        }
    }
}

impl Shape {
    /// The same with blocks of `block_size` bytes and few files.
    pub fn with_blocks_of(block_size: u32) -> Self {
        Shape { block_size, crowd: 3, many_blocks: 13, ..Shape::default() }
    }
}

/// A block that says whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// An indirect block of this level.
    Indirect(u8),
    /// This block of a directory.
    Directory(u32),
}

/// An image, and where things lie in it.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its numbers.
    pub shape: Shape,
    /// The blocks in regions: whose, and what.
    pub owned: BTreeMap<u64, (u32, Role)>,
}

/// Makes an image.
pub fn build(shape: Shape) -> Image {
    let mut writer = Writer::new(shape);
    let pointers = u64::from(shape.block_size / 4 - 2);
    writer.directory(ROOT, ROOT, &root_names(shape), 1);
    writer.directory(LOST_FOUND, ROOT, &[], 3);
    let plain_links: Vec<(u32, u8, String)> = (0..names_in(shape))
        .map(|at| (PLAIN, 1, format!("another name of the plain file, {at:06}")))
        .collect();
    writer.directory(MANY, ROOT, &plain_links, shape.many_blocks);
    writer.directory(SUB, ROOT, &[(ONE, 1, "the other name".to_owned())], 2);
    writer.file(PLAIN, 0..5, 5 * u64::from(shape.block_size) - 7, 1 + plain_links.len() as u16);
    writer.file(ONE, 0..100, 100 * u64::from(shape.block_size), 2);
    let two = 12 + pointers + pointers + 40;
    writer.file(TWO, 0..two, two * u64::from(shape.block_size) - 1, 1);
    let deep = 12 + pointers + pointers * pointers + 3 * pointers + 5;
    writer.file(DEEP, [0, deep].into_iter(), (deep + 2) * u64::from(shape.block_size), 1);
    let holes = [3, 14, 12 + pointers + 7];
    writer.file(HOLES, holes.into_iter(), (holes[2] + 9) * u64::from(shape.block_size), 1);
    writer.symlink(LINK, &"far away/".repeat(12));
    for at in 0..shape.crowd {
        writer.file(CROWD + at, 0..13, 13 * u64::from(shape.block_size), 1);
    }
    if shape.journal_blocks > 0 {
        writer.journal(JOURNAL);
    }
    writer.finish()
}

fn root_names(shape: Shape) -> Vec<(u32, u8, String)> {
    let fixed = [
        (LOST_FOUND, 2, "lost+found"),
        (PLAIN, 1, "plain"),
        (ONE, 1, "one"),
        (TWO, 1, "two"),
        (DEEP, 1, "deep"),
        (HOLES, 1, "holes"),
        (MANY, 2, "many"),
        (SUB, 2, "sub"),
        (LINK, 7, "link"),
    ];
    let fixed = fixed.into_iter().map(|(inode, kind, name)| (inode, kind, name.to_owned()));
    fixed.chain((0..shape.crowd).map(|at| (CROWD + at, 1, format!("c{at:02}")))).collect()
}

/// How many names of 37 bytes the directory with many names needs to fill its blocks, but for the last one.
fn names_in(shape: Shape) -> u32 {
    let per_block = (shape.block_size - 32) / 48;
    per_block * (shape.many_blocks - 1)
}

impl Image {
    /// Bytes of a block.
    pub fn block_size(&self) -> usize {
        self.shape.block_size as usize
    }

    /// Where block `number` begins.
    pub fn at(&self, number: u64) -> usize {
        number as usize * self.block_size()
    }

    /// The bytes of block `number`.
    pub fn block(&mut self, number: u64) -> &mut [u8] {
        let (from, len) = (self.at(number), self.block_size());
        &mut self.bytes[from..from + len]
    }

    /// The word at byte `at`.
    pub fn word(&self, at: usize) -> u32 {
        bytes::word(&self.bytes, at)
    }

    /// Changes the word at byte `at`.
    pub fn set_word(&mut self, at: usize, value: u32) {
        bytes::put(&mut self.bytes, at, value);
    }

    /// Where the record of `inode` begins.
    pub fn inode_at(&self, inode: u32) -> usize {
        let (group, index) =
            ((inode - 1) / self.shape.inodes_per_group, (inode - 1) % self.shape.inodes_per_group);
        self.at(self.table(group)) + index as usize * bytes::INODE_SIZE
    }

    /// The first block of the inode table of `group`.
    pub fn table(&self, group: u32) -> u64 {
        u64::from(self.word(self.descriptor_at(group) + 8))
    }

    /// The block bitmap of `group`.
    pub fn block_bitmap(&self, group: u32) -> u64 {
        u64::from(self.word(self.descriptor_at(group)))
    }

    /// Where the descriptor of `group` begins.
    pub fn descriptor_at(&self, group: u32) -> usize {
        let first = if self.shape.block_size == 1024 { 2 } else { 1 };
        self.at(first) + group as usize * 32
    }

    /// The region of `group`: its first block, and how many there are.
    pub fn region(&self, group: u32) -> (u64, u64) {
        let table = (self.shape.inodes_per_group as usize * bytes::INODE_SIZE).div_ceil(self.block_size());
        (self.table(group) + table as u64, u64::from(self.shape.region_blocks))
    }

    /// The pointers in the record of `inode`.
    pub fn pointer_at(&self, inode: u32, index: usize) -> usize {
        self.inode_at(inode) + 0x28 + index * 4
    }

    /// The blocks of `inode` with this role.
    pub fn of(&self, inode: u32, role: Role) -> Vec<u64> {
        let is_one = |(_, owner): &(&u64, &(u32, Role))| **owner == (inode, role);
        self.owned.iter().filter(is_one).map(|(block, _)| *block).collect()
    }

    /// The bit of `block` in its bitmap: a byte, and a mask.
    pub fn bit_of(&self, block: u64) -> (usize, u8) {
        let first = u64::from(self.shape.block_size == 1024);
        let per_group = u64::from(self.shape.blocks_per_group);
        let (group, within) = ((block - first) / per_group, (block - first) % per_group);
        (self.at(self.block_bitmap(group as u32)) + within as usize / 8, 1 << (within % 8))
    }

    /// A block of `group` that is free, behind its region.
    pub fn free_block(&self, group: u32) -> u64 {
        let (start, count) = self.region(group);
        let is_free = |block: &u64| {
            let (at, mask) = self.bit_of(*block);
            self.bytes[at] & mask == 0
        };
        (start + count..).find(is_free).expect("a group is not full")
    }

    /// Makes what block `number` says about itself right for `inode` and `role`, as its own driver would.
    pub fn seal(&mut self, number: u64, inode: u32, role: Role) {
        let generation = match role {
            Role::Directory(_) => self.generation_of(inode),
            // Says nothing of it, and may name an inode that there cannot be.
            Role::Indirect(_) => 0,
        };
        self.seal_for(number, (inode, generation), role);
    }

    /// The generation of an inode, as its record says; the image has to be sound as far as the way there.
    pub fn generation_of(&self, inode: u32) -> u32 {
        self.word(self.inode_at(inode) + 0x64)
    }

    /// The same for an inode and its generation, whatever the image has become.
    pub fn seal_for(&mut self, number: u64, (inode, generation): (u32, u32), role: Role) {
        let seed = bytes::seed();
        match role {
            Role::Indirect(level) => bytes::seal_indirect(seed, number, inode, level, self.block(number)),
            Role::Directory(logical) => {
                bytes::seal_directory(seed, number, (inode, generation, logical), self.block(number));
            }
        }
    }
}
