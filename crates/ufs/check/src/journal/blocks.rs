// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of blocks and of truncations.

use std::collections::{BTreeMap, BTreeSet};

use fsmend_base::width;
use fsmend_ufs_format::geometry::DIRECT;
use fsmend_ufs_format::inode::{ATTRIBUTE_BLOCKS, INDIRECT, Path, mode};
use fsmend_ufs_format::{Geometry, SECTOR};

use super::Unusable;
use super::disk::{Disk, Record};
use super::groups::Groups;
use crate::blocks::power;

/// Fragments were allocated or freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlockRecord {
    pub is_freed: bool,
    pub inode: u32,
    pub fragment: u64,
    /// The block of the file; negative for attributes and indirect blocks.
    pub index: i64,
    pub count: u64,
}

impl BlockRecord {
    /// Whether it names a run that a file may have.
    pub fn is_possible(&self, geometry: &Geometry) -> bool {
        self.count != 0 && geometry.may_be_data(self.fragment, self.count)
    }

    /// Its fragments as bits of the block that they are in.
    fn mask(&self, geometry: &Geometry) -> u8 {
        mask(geometry, self.fragment, self.count)
    }
}

/// A run of fragments within one block as bits.
fn mask(geometry: &Geometry, fragment: u64, count: u64) -> u8 {
    let shift = (fragment % geometry.fragments).min(7);
    width::low_u8(((1 << count.min(8)) - 1) << shift)
}

/// What a block number of a record means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Data(u64),
    Attributes(usize),
    /// An indirect block: the first block of the file below it, and 0 where its pointers lead to data.
    Indirect {
        first: u64,
        level: usize,
    },
}

impl Place {
    /// Of a file system with so many pointers in a block. Indirect blocks have the negated number of the first block below, less their level.
    fn of(index: i64, pointers: u64) -> Option<Place> {
        if let Ok(data) = u64::try_from(index) {
            return Some(Place::Data(data));
        }
        let negated = index.unsigned_abs();
        if negated <= ATTRIBUTE_BLOCKS as u64 {
            return Some(Place::Attributes(width::index(negated) - 1));
        }
        let level = negated.checked_sub(DIRECT)? % pointers;
        let first = negated.checked_sub(level)?;
        (level < INDIRECT as u64).then_some(Place::Indirect { first, level: width::index(level) })
    }

    /// The run of fragments that an inode has there; `None` where it has none.
    fn run(self, disk: &mut Disk<'_>, record: &Record) -> Result<Option<(u64, u64)>, Unusable> {
        let geometry = disk.geometry;
        if !disk.has_map(record) && !matches!(self, Place::Attributes(_)) {
            return Ok(None);
        }
        let (pointer, count) = match self {
            Place::Data(index) => {
                (disk.pointer(record, (index, INDIRECT))?, geometry.block_fragments(record.size(), index))
            }
            Place::Attributes(index) => {
                let count = geometry.block_fragments(record.attributes_size().into(), index as u64);
                (record.attribute_block(index), count)
            }
            Place::Indirect { first, level } => {
                let Some(path) = Path::to(first, geometry.pointers) else { return Ok(None) };
                let Some(depth) = path.levels.checked_sub(level + 1) else { return Ok(None) };
                (disk.pointer(record, (first, depth))?, geometry.fragments)
            }
        };
        Ok((pointer != 0 && count != 0).then_some((pointer, count)))
    }
}

/// Frees what records speak of and no file has at the place that they name. `records` are sorted by block, each block's in the order of the journal.
pub(super) fn settle(
    disk: &mut Disk<'_>,
    groups: &mut Groups<'_>,
    records: &BTreeMap<u64, Vec<BlockRecord>>,
) -> Result<(), Unusable> {
    let mut kept = BTreeMap::new();
    for (block, records) in records {
        let mut bits = 0;
        for record in records {
            bits |= used(disk, groups, *block, record)?;
        }
        kept.insert(*block, bits);
    }
    for (block, records) in records {
        free_block(disk, groups, (*block, records), &kept)?;
    }
    Ok(())
}

/// The fragments of a block that the inode of a record has at the place that the record names.
fn used(disk: &mut Disk<'_>, groups: &Groups<'_>, block: u64, record: &BlockRecord) -> Result<u8, Unusable> {
    let geometry = disk.geometry;
    let Some(place) = Place::of(record.index, geometry.pointers) else { return Err(Unusable::Impossible) };
    let Some(inode) = disk.inode(groups, record.inode)? else { return Ok(0) };
    let run = place.run(disk, &inode)?.filter(|(first, _)| first - first % geometry.fragments == block);
    Ok(run.map_or(0, |(first, count)| mask(geometry, first, count)))
}

/// Frees the fragments of a block that its records name and that are not kept. What a freed indirect block leads to becomes free with it, unless the block was used
/// for something else since.
fn free_block(
    disk: &mut Disk<'_>,
    groups: &mut Groups<'_>,
    (block, records): (u64, &[BlockRecord]),
    kept: &BTreeMap<u64, u8>,
) -> Result<(), Unusable> {
    let geometry = disk.geometry;
    let keep = kept.get(&block).copied().unwrap_or(0);
    if keep == 0
        && let Some(last) = records.last().filter(|last| last.is_freed)
        && let Some(Place::Indirect { level, .. }) = Place::of(last.index, geometry.pointers)
    {
        return disk.visit_tree(block, level, &mut |disk, first, count| {
            let block = first - first % geometry.fragments;
            let keep = kept.get(&block).copied().unwrap_or(0);
            // What is free already was freed by the kernel, with all below it.
            Ok(free_but(disk, groups, block, mask(geometry, first, count) & !keep)? != 0)
        });
    }
    let named = records.iter().fold(0, |bits, record| bits | record.mask(geometry));
    free_but(disk, groups, block, named & !keep).map(|_| ())
}

/// Frees the fragments of a block whose bits are set; how many of them were in use.
fn free_but(disk: &mut Disk<'_>, groups: &mut Groups<'_>, block: u64, bits: u8) -> Result<u64, Unusable> {
    let mut freed = 0;
    for index in (0..disk.geometry.fragments).filter(|index| bits >> index & 1 == 1) {
        freed += groups.free(disk, block + index, 1)?;
    }
    Ok(freed)
}

/// Frees an inode and all that it holds.
pub(super) fn free_inode(disk: &mut Disk<'_>, groups: &mut Groups<'_>, inode: u32) -> Result<(), Unusable> {
    let Some(record) = disk.inode(groups, inode)? else {
        return groups.free_inode(disk, inode, false);
    };
    disk.visit(&record, &mut |disk, first, count| Ok(groups.free(disk, first, count)? != 0))?;
    let is_directory = record.file_type() == mode::DIRECTORY;
    let generation = record.generation();
    let mut cleared = Record::new(vec![0; record.bytes().len()], disk.geometry.order, disk.geometry.version);
    cleared.set_generation(generation);
    disk.put_inode(inode, cleared)?;
    groups.free_inode(disk, inode, is_directory)
}

/// Finishes a truncation: nothing is left behind the new size.
pub(super) fn truncate(
    disk: &mut Disk<'_>,
    groups: &mut Groups<'_>,
    inode: u32,
    size: u64,
) -> Result<(), Unusable> {
    let Some(mut record) = disk.inode(groups, inode)? else { return Ok(()) };
    if !matches!(record.file_type(), mode::REGULAR | mode::DIRECTORY | mode::LINK) || !disk.has_map(&record) {
        return Ok(());
    }
    let keep = disk.geometry.block_count(size);
    for index in 0..DIRECT {
        cut_direct(disk, groups, &mut record, (index, size))?;
    }
    let mut first = DIRECT;
    for level in 0..INDIRECT {
        let slot = width::index(DIRECT) + level;
        let root = record.pointer(slot);
        if root != 0 && !cut_tree(disk, groups, (root, level), (first, keep))? {
            record.set_pointer(slot, 0);
        }
        first = first.saturating_add(disk.geometry.pointers.saturating_pow(power(level + 1)));
    }
    record.set_size(record.size().min(size));
    let sectors = sectors(disk, &record)?;
    record.set_sectors(sectors);
    disk.put_inode(inode, record)
}

/// Frees what a direct pointer has behind the new size.
fn cut_direct(
    disk: &mut Disk<'_>,
    groups: &mut Groups<'_>,
    record: &mut Record,
    (index, size): (u64, u64),
) -> Result<(), Unusable> {
    let geometry = disk.geometry;
    let slot = width::index(index);
    let pointer = record.pointer(slot);
    let had = geometry.block_fragments(record.size(), index);
    let has = geometry.block_fragments(size.min(record.size()), index);
    if pointer == 0 || had <= has {
        return Ok(());
    }
    groups.free(disk, pointer.saturating_add(has), had - has)?;
    if has == 0 {
        record.set_pointer(slot, 0);
    }
    Ok(())
}

/// Frees what an indirect block has from block `keep` of the file on; its first block is `first`. Whether anything of it is left.
fn cut_tree(
    disk: &mut Disk<'_>,
    groups: &mut Groups<'_>,
    (block, level): (u64, usize),
    (first, keep): (u64, u64),
) -> Result<bool, Unusable> {
    if first >= keep {
        disk.visit_tree(block, level, &mut |disk, first, count| Ok(groups.free(disk, first, count)? != 0))?;
        return Ok(false);
    }
    let span = disk.geometry.pointers.saturating_pow(power(level));
    let mut pointers = disk.pointers(block)?;
    let before = pointers.clone();
    let mut start = first;
    for pointer in &mut pointers {
        let end = start.saturating_add(span);
        if *pointer != 0 && end > keep {
            let stays = match level.checked_sub(1) {
                Some(below) => cut_tree(disk, groups, (*pointer, below), (start, keep))?,
                None => {
                    groups.free(disk, *pointer, disk.geometry.fragments)?;
                    false
                }
            };
            *pointer = if stays { *pointer } else { 0 };
        }
        start = end;
    }
    if pointers != before {
        disk.put_pointers(block, &pointers)?;
    }
    Ok(true)
}

/// Puts the counts of blocks of the inodes that records of blocks name.
pub(super) fn count(
    disk: &mut Disk<'_>,
    groups: &mut Groups<'_>,
    records: &BTreeMap<u64, Vec<BlockRecord>>,
) -> Result<(), Unusable> {
    let inodes: BTreeSet<u32> = records.values().flatten().map(|record| record.inode).collect();
    for inode in inodes {
        let Some(mut record) = disk.inode(groups, inode)? else { continue };
        let sectors = sectors(disk, &record)?;
        if sectors != record.sectors() {
            record.set_sectors(sectors);
            disk.put_inode(inode, record)?;
        }
    }
    Ok(())
}

/// The sectors that an inode holds.
fn sectors(disk: &mut Disk<'_>, record: &Record) -> Result<u64, Unusable> {
    let mut fragments = 0u64;
    disk.visit(record, &mut |_, _, count| {
        fragments = fragments.saturating_add(count);
        Ok(true)
    })?;
    Ok(fragments.saturating_mul(disk.geometry.fragment_size / SECTOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_indirect_blocks_are_told_apart() {
        let pointers = 4096;
        let place = |index| Place::of(index, pointers as u64);
        assert_eq!(place(7), Some(Place::Data(7)));
        assert_eq!(place(-2), Some(Place::Attributes(1)));
        assert_eq!(place(-5), None);
        assert_eq!(place(-12), Some(Place::Indirect { first: 12, level: 0 }));
        let double = 12 + pointers;
        assert_eq!(place(-double), Some(Place::Indirect { first: double as u64, level: 0 }));
        assert_eq!(place(-double - 1), Some(Place::Indirect { first: double as u64, level: 1 }));
        assert_eq!(place(-double - 3), None);
    }
}
