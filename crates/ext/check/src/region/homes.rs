// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which blocks of regions name which inode: where a block that is not found in its place may be.
//!
//! Pointers that changed places, and blocks that were written to each other's places, can be told by what the blocks say themselves. The blocks in use
//! of all regions are read once, when the first such block is looked for.

use std::sync::OnceLock;

use fsmend_base::{BlockNo, GroupNo, InodeNo, width};
use fsmend_ext_format::rext3::{DirectoryTail, HEADER_SIZE, IndirectHeader, LEVELS_MAX, directory_checksum};

use crate::Fs;

/// Regions of more blocks are not searched: an entry takes 16 bytes, and 4 GiB with blocks of 4 KiB is much to read.
const BLOCKS_MAX: u64 = 1 << 20;

/// The blocks in use of all regions, by the inode that they name; read when first asked for.
#[derive(Debug, Default)]
pub struct Homes(OnceLock<Vec<Named>>);

/// What a block of a region says that it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Part {
    /// An indirect block of this level.
    Map(u8),
    /// This block of the directory.
    Names(u32),
}

/// A block of a region that names an inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Named {
    inode: u32,
    part: Part,
    block: u32,
}

impl Fs<'_> {
    /// The blocks of the region of `group` that its bitmap says are in use, ascending; none where it cannot be read.
    pub(crate) fn used_in_region(&self, group: GroupNo) -> Vec<u64> {
        let region = self.regions.of_group(group);
        let first = self.geometry.group_first_block(group);
        let bitmap = self.group(group).map_or(0, |group| group.desc.block_bitmap);
        let Some(bitmap) = (bitmap != 0).then(|| self.read_block(BlockNo(bitmap)).ok()).flatten() else {
            return Vec::new();
        };
        let is_used = |block: &u64| {
            let bit = block - first;
            bitmap.get((bit / 8) as usize).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
        };
        (region.start.0..region.end()).filter(is_used).collect()
    }

    /// What was in the indirect block at `place` with the header `right` before something else was written there, if it lies in another block of a region.
    pub(crate) fn moved_map_block(&self, right: IndirectHeader, place: BlockNo) -> Option<Vec<u8>> {
        let others = self.naming(right.inode, Part::Map(right.level)).filter(|block| *block != place);
        let mut found = others.filter_map(|block| self.read_block(block).ok());
        found.find(|bytes| IndirectHeader::parse(bytes) == Some(right))
    }

    /// The indirect block of `inode` with this level that nothing in its map leads to. `roots` are the pointers of the inode to its trees, lowest
    /// level first. `None` where there is none, or more than one.
    pub(crate) fn detached_map_block(&self, inode: InodeNo, level: u8, roots: [u32; 3]) -> Option<BlockNo> {
        let seed = self.geometry.checksum_seed;
        let read = |block: BlockNo| {
            let bytes = self.read_block(block).ok()?;
            IndirectHeader::parse(&bytes)?.is_right(seed, block).then_some(bytes)
        };
        let mut own: Vec<u32> =
            self.naming(inode, Part::Map(level)).map(|block| width::low_u32(block.0)).collect();
        let root = usize::from(level).checked_sub(1).and_then(|index| roots.get(index)).copied();
        own.retain(|block| Some(*block) != root);
        for above in self.naming(inode, Part::Map(level + 1)) {
            let Some(bytes) = read(above).filter(|_| !own.is_empty()) else { continue };
            let mut children = pointers(&bytes).collect::<Vec<_>>();
            children.sort_unstable();
            own.retain(|block| children.binary_search(block).is_err());
        }
        own.retain(|block| read(BlockNo(u64::from(*block))).is_some());
        match own.as_slice() {
            [block] => Some(BlockNo(u64::from(*block))),
            _ => None,
        }
    }

    /// What belongs into the directory block `tail` at `place`, if it lies in another block of a region: written there by mistake, or led to by a
    /// pointer that changed places with the one to `place`.
    pub(crate) fn moved_directory_block(&self, tail: DirectoryTail, place: BlockNo) -> Option<Vec<u8>> {
        let seed = self.geometry.checksum_seed;
        let is_sealed_for = |block, bytes: &[u8]| {
            directory_checksum(seed, block, bytes).is_some_and(|checked| checked.is_right())
        };
        let others = self.naming(tail.inode, Part::Names(tail.logical)).filter(|block| *block != place);
        let mut found: Option<Vec<u8>> = None;
        for block in others {
            let Ok(bytes) = self.read_block(block) else { continue };
            if DirectoryTail::parse(&bytes) != Some(tail) {
                continue;
            }
            if is_sealed_for(place, &bytes) {
                return Some(bytes);
            }
            if found.is_none() && is_sealed_for(block, &bytes) {
                found = Some(bytes);
            }
        }
        found
    }

    /// Whether all pointers in a block, of which there is one at least, lead to what `inode` has below an indirect block of `level`.
    pub(crate) fn leads_to_parts_of(
        &self,
        inode: InodeNo,
        is_directory: bool,
        level: u8,
        bytes: &[u8],
    ) -> bool {
        let seed = self.geometry.checksum_seed;
        let is_part = |pointer: u32| {
            let block = BlockNo(pointer.into());
            if !self.is_valid_block(block) || self.metadata.get(block.0) {
                return false;
            }
            if level == 1 && !is_directory {
                return !self.regions.contain(block.0);
            }
            let Ok(below) = self.read_block(block) else { return false };
            match level {
                1 => DirectoryTail::parse(&below).is_some_and(|tail| tail.inode == inode),
                _ => {
                    let header = IndirectHeader::parse(&below).filter(|header| header.is_right(seed, block));
                    header.is_some_and(|header| header.inode == inode && header.level == level - 1)
                }
            }
        };
        let mut pointers = pointers(bytes).peekable();
        pointers.peek().is_some() && pointers.all(is_part)
    }

    /// The blocks of regions that say that they are this part of `inode`, ascending.
    fn naming(&self, inode: InodeNo, part: Part) -> impl Iterator<Item = BlockNo> {
        let named = self.homes.0.get_or_init(|| self.named_blocks());
        let from = named.partition_point(|named| (named.inode, named.part) < (inode.0, part));
        let rest = named.get(from..).unwrap_or_default().iter();
        rest.take_while(move |named| named.inode == inode.0 && named.part == part)
            .map(|named| BlockNo(named.block.into()))
    }

    fn named_blocks(&self) -> Vec<Named> {
        let mut named = Vec::new();
        if self.regions.blocks() > BLOCKS_MAX {
            return named;
        }
        for group in 0..self.geometry.group_count {
            for range in in_a_row(&self.used_in_region(GroupNo(group))) {
                self.visit_blocks(range.0, range.1, &mut |block, bytes| {
                    named.extend(u32::try_from(block).ok().and_then(|block| named_by(block, bytes)));
                });
            }
        }
        named.sort_unstable();
        named
    }
}

/// The pointers of an indirect block that are no holes.
fn pointers(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let words = bytes.get(HEADER_SIZE..).unwrap_or_default().as_chunks::<4>().0;
    words.iter().map(|word| u32::from_le_bytes(*word)).filter(|pointer| *pointer != 0)
}

/// What a block says that it is, whether or not it is in its place.
fn named_by(block: u32, bytes: &[u8]) -> Option<Named> {
    if let Some(tail) = DirectoryTail::parse(bytes) {
        return Some(Named { inode: tail.inode.0, part: Part::Names(tail.logical), block });
    }
    let header = IndirectHeader::parse(bytes)?;
    let is_one = header.inode.0 != 0 && (1..=LEVELS_MAX).contains(&header.level);
    is_one.then_some(Named { inode: header.inode.0, part: Part::Map(header.level), block })
}

/// Ascending numbers as first ones and counts of those that follow each other.
fn in_a_row(blocks: &[u64]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for block in blocks {
        match ranges.last_mut() {
            Some((first, count)) if *first + *count == *block => *count += 1,
            _ => ranges.push((*block, 1)),
        }
    }
    ranges
}
