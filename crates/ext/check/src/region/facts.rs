// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the scan keeps of a file with indirect blocks, and of each indirect block, until both are compared.

use fsmend_base::{InodeNo, width};
use fsmend_engine::budget::growing;

use crate::fast::map::{Tally, WalkItem};

const COUNT_BITS: u32 = 14;
const COUNT_MASK: u32 = (1 << COUNT_BITS) - 1;
const LEVEL_SHIFT: u32 = 2 * COUNT_BITS;
const GAP: u32 = 1 << 30;
const SUSPECT: u32 = 1 << 31;

/// What is kept of an indirect block: 16 bytes. (A block has at most 16382 pointers, those of 64 KiB.)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct IndirectFact {
    /// Whose it says that it is.
    pub inode: u32,
    /// Where it lies.
    pub block: u32,
    /// Above the lowest level, where its last pointer leads to; on the lowest, where its first one does. 0 without pointers.
    pub edge: u32,
    bits: u32,
}

/// What a look at an indirect block gathers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gathered {
    /// Pointers that are not 0.
    pub count: u32,
    /// Place of the last one.
    pub last: u32,
    /// Where the first or the last one leads to: see [`IndirectFact::edge`].
    pub edge: u32,
    /// Whether blocks of data do not lie in one piece.
    pub gap: bool,
    /// Whether something about it asks for a walk.
    pub suspect: bool,
    /// Above the lowest level: the sum of [`mark_of`] over its pointers.
    pub children: u64,
}

impl IndirectFact {
    /// The fact of the block at `block` with what was gathered there.
    pub fn new(inode: InodeNo, block: u32, level: u8, gathered: &Gathered) -> Self {
        let Gathered { count, last, edge, gap, suspect, .. } = *gathered;
        let flags = if gap { GAP } else { 0 } | if suspect { SUSPECT } else { 0 };
        let numbers = (count & COUNT_MASK) | (last & COUNT_MASK) << COUNT_BITS;
        let bits = numbers | u32::from(level & 3) << LEVEL_SHIFT | flags;
        IndirectFact { inode: inode.0, block, edge, bits }
    }

    /// Pointers that are not 0.
    pub fn count(self) -> u64 {
        u64::from(self.bits & COUNT_MASK)
    }

    /// Place of the last of them.
    pub fn last(self) -> u64 {
        u64::from(self.bits >> COUNT_BITS & COUNT_MASK)
    }

    /// 1 where its pointers lead to data, 2 or 3 above.
    pub fn level(self) -> u8 {
        (self.bits >> LEVEL_SHIFT & 3) as u8
    }

    /// Whether its blocks of data do not lie in one piece.
    pub fn has_gap(self) -> bool {
        self.bits & GAP != 0
    }

    /// Whether something about it asks for a walk.
    pub fn is_suspect(self) -> bool {
        self.bits & SUSPECT != 0
    }
}

/// What is kept of a file with indirect blocks, whose record is clean: 44 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileFact {
    /// Which one.
    pub inode: u32,
    /// Blocks that `i_blocks` stands for.
    pub charged_blocks: u32,
    size: [u32; 2],
    /// Attribute block, 0 without one.
    pub xattr_block: u32,
    /// The indirect, the double and the triple indirect block, 0 without one.
    pub trees: [u32; 3],
    /// The lowest and the highest block of data that the inode itself points to; 0 and 0 without any.
    pub reach: [u32; 2],
    /// How many such blocks there are.
    pub direct: u8,
    /// The block of the file behind the last of them.
    pub direct_end: u8,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Whether blocks that the inode points to do not lie in one piece, or something about them asks for a walk.
    flags: u8,
}

impl FileFact {
    /// What to keep of a file, whose own pointers came to `tally`. `None` for what no rext3 can have.
    pub fn new(item: &WalkItem, is_directory: bool, tally: &Tally) -> Option<Self> {
        let (low, high) = tally.reach.unwrap_or((0, 0));
        Some(FileFact {
            inode: item.inode.0,
            charged_blocks: u32::try_from(item.charged_blocks).ok()?,
            size: [width::low_u32(item.size), (item.size >> 32) as u32],
            xattr_block: u32::try_from(item.xattr_block).ok()?,
            trees: [12, 13, 14].map(|index| item.block_word(index)),
            reach: [u32::try_from(low).ok()?, u32::try_from(high).ok()?],
            direct: u8::try_from(tally.data_blocks).ok()?,
            direct_end: u8::try_from(tally.written_end).ok()?,
            is_directory,
            flags: u8::from(tally.gap) | u8::from(tally.suspect) << 1,
        })
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        u64::from(self.size[1]) << 32 | u64::from(self.size[0])
    }

    /// Whether blocks that the inode points to do not lie in one piece.
    pub fn has_gap(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Whether something about them asks for a walk.
    pub fn is_suspect(&self) -> bool {
        self.flags & 2 != 0
    }
}

const _: () = assert!(size_of::<IndirectFact>() == 16 && size_of::<FileFact>() == 44);

/// A number that stands for `block` in sums over many blocks: two different sets of blocks have the same sum by chance once
/// in 2^64 times. (A plain sum of block numbers, as the paper has it, does not change when one block moves up as far as another
/// one moves down.)
#[inline]
pub fn mark_of(block: u32) -> u64 {
    let mut word = u64::from(block).wrapping_add(0x9E37_79B9_7F4A_7C15);
    word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}

/// What one worker, or all of them, keep of regions.
#[derive(Debug, Default)]
pub struct RegionFacts {
    /// Files.
    pub files: Vec<FileFact>,
    /// Indirect blocks.
    pub indirect: Vec<IndirectFact>,
    /// Indirect blocks above the lowest level, with the sums over their pointers.
    pub children: Vec<(u32, u64)>,
}

impl RegionFacts {
    /// Memory of the lists.
    pub fn bytes_held(&self) -> u64 {
        growing::<FileFact>(self.files.len())
            + growing::<IndirectFact>(self.indirect.len())
            + growing::<(u32, u64)>(self.children.len())
    }

    /// Takes over what another worker has gathered.
    pub fn absorb(&mut self, mut other: RegionFacts) {
        self.files.append(&mut other.files);
        self.indirect.append(&mut other.indirect);
        self.children.append(&mut other.children);
    }

    /// Sorts everything: files and indirect blocks by inode, then by place.
    pub fn sort(&mut self) {
        self.files.sort_unstable_by_key(|file| file.inode);
        self.indirect.sort_unstable();
        self.children.sort_unstable();
    }

    /// The indirect blocks that say that they are of `inode`, by place; sorted before.
    pub fn of(&self, inode: u32) -> &[IndirectFact] {
        let from = self.indirect.partition_point(|fact| fact.inode < inode);
        let count = self.indirect[from..].partition_point(|fact| fact.inode == inode);
        &self.indirect[from..from + count]
    }

    /// The sum over the pointers of the block at `place`, where it is above the lowest level; sorted before.
    pub fn children_of(&self, place: u32) -> Option<u64> {
        let at = self.children.binary_search_by_key(&place, |(block, _)| *block).ok()?;
        self.children.get(at).map(|(_, sum)| *sum)
    }
}
