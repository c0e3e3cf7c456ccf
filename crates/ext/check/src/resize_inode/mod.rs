// SPDX-License-Identifier: MIT OR Apache-2.0
//! The resize inode (7): the blocks behind the descriptors that are reserved for growth.
//!
//! Its map is fixed by the geometry. Only the double indirect block is used; its entry `(desc_blocks + i) mod n` is the
//! `i`th reserved block of group 0, which in turn serves as an indirect block and lists its own copies in the groups
//! that have backups, in ascending order.

pub(crate) mod problems;
pub(crate) mod repair;
pub(crate) mod sound_map;
#[cfg(test)]
mod tests;

use fsmend_base::{BlockNo, GroupNo, InodeNo, width};
use fsmend_engine::{Findings, Layer, Problem};
use fsmend_ext_format::features::Compat;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::inode::{InodeFlags, LARGE_FILE, RawInode, mode, special};

use crate::Fs;
use crate::fast::pointers::without_zeros;
use sound_map::Extent;

/// Index of the double indirect block in `i_block`.
const DOUBLE_INDIRECT: usize = 13;
/// Number of pointers in `i_block`.
const POINTERS: usize = 15;
/// So many bytes of reserved blocks are read at a time, at most.
const RESERVED_READ: usize = 64 << 10;

/// What the resize inode leaves behind, as it will be after repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizeInode {
    /// Whether it has to be written anew.
    pub is_wrong: bool,
    /// Whether it is so long that the file system needs the feature of large files.
    pub is_large: bool,
}

/// The blocks that the resize inode has for itself (its double indirect block); the reserved blocks are static metadata.
pub fn claims(fs: &Fs<'_>) -> Vec<u64> {
    let Some(Ok(record)) = fs.read_inode(InodeNo(special::RESIZE)) else { return Vec::new() };
    let block = u64::from(RawInode::from_record(&record).block_word(DOUBLE_INDIRECT));
    let is_usable = fs.geometry.features.has_compat(Compat::RESIZE_INODE)
        && fs.is_valid_block(BlockNo(block))
        && !fs.metadata.get(block);
    if is_usable { vec![block] } else { Vec::new() }
}

/// Checks the resize inode against the geometry. Behind the scan this costs nothing where the inode's inspection found its map sound.
pub fn check(fs: &Fs<'_>, findings: &mut Findings) -> ResizeInode {
    let inode = InodeNo(special::RESIZE);
    let Some(Ok(record)) = fs.read_inode(inode) else { return ResizeInode::default() };
    let raw = RawInode::from_record(&record);
    if !fs.geometry.features.has_compat(Compat::RESIZE_INODE) {
        if (0..POINTERS).any(|index| raw.block_word(index) != 0) {
            let problem = Problem::new(&problems::NOT_CLEAR).inode(inode);
            match fs.inode_offset(inode) {
                Some(offset) => {
                    findings.raise_with_edit(problem, Layer::Amendment, offset, &vec![0; record.len()]);
                }
                None => findings.raise(problem),
            }
        }
        return ResizeInode::default();
    }
    let map = map_of(fs, &raw);
    let is_wrong = map.is_err();
    if let Err(why) = map {
        findings.raise(Problem::new(&problems::INVALID).inode(inode).observed(why));
    }
    ResizeInode { is_wrong, is_large: !is_wrong && raw.size() >= LARGE_FILE }
}

/// The extent of the resize inode; `None` when [`check`] objects to the map, which will then be written anew.
pub(crate) fn extent(fs: &Fs<'_>, raw: &RawInode) -> Option<Extent> {
    map_of(fs, raw).ok()
}

/// [`check_map`], unless it is known already that nothing is wrong.
fn map_of(fs: &Fs<'_>, raw: &RawInode) -> Result<Extent, String> {
    if let Some(extent) = fs.resize_map.of(raw) {
        return Ok(extent);
    }
    let extent = check_map(fs, raw)?;
    fs.resize_map.set(raw, extent);
    Ok(extent)
}

/// Why the map is wrong; if it is not, what it takes, which the geometry says then.
fn check_map(fs: &Fs<'_>, raw: &RawInode) -> Result<Extent, String> {
    let geometry = &fs.geometry;
    let double = BlockNo(u64::from(raw.block_word(DOUBLE_INDIRECT)));
    if raw.file_type() != mode::REGULAR {
        return Err("it is not a regular file".to_owned());
    }
    if raw.i_links_count.get() == 0 {
        return Err("it has no link".to_owned());
    }
    if raw.flags().intersects(InodeFlags::EXTENTS | InodeFlags::INLINE_DATA | InodeFlags::INDEX) {
        return Err("its flags are those of another kind of block map".to_owned());
    }
    if raw.i_file_acl_lo.get() != 0 {
        return Err("it has a block of attributes".to_owned());
    }
    if let Some(index) = (0..POINTERS).find(|index| *index != DOUBLE_INDIRECT && raw.block_word(*index) != 0)
    {
        return Err(format!("pointer {index} is in use"));
    }
    if !fs.is_valid_block(double) || fs.metadata.get(double.0) {
        return Err(format!("its double indirect block, {double}, is not valid"));
    }
    let pointers = fs.read_block(double).map_err(|error| error.to_string())?;
    refuse_foreign_blocks(fs, &pointers)?;
    let per_block = geometry.block_size / 4;
    let first = geometry.group_head(GroupNo(0)).reserved.start.0;
    let backups: Vec<u32> =
        (1..geometry.group_count).filter(|group| geometry.has_superblock(GroupNo(*group))).collect();
    let mut extent = Extent { blocks: 1, last: None };
    let mut reserved = Reserved { fs, first, bytes: Vec::new(), bytes_from: 0 };
    // Read piece by piece among what a disk was told about before, they would cost a turn each.
    let bytes = u64::from(geometry.reserved_gdt_blocks) * u64::from(geometry.block_size);
    fs.device.readahead(fs.block_offset(BlockNo(first)), bytes);
    for step in 0..geometry.reserved_gdt_blocks {
        let slot = (geometry.desc_blocks().wrapping_add(step)) % per_block;
        let expected = first + u64::from(step);
        let found = u64::from(pointer(&pointers, slot));
        if found != expected {
            return Err(format!("it lists block {found} where block {expected} is reserved"));
        }
        let copies = check_copies(fs, geometry, &backups, (expected, reserved.block(step)?))?;
        let before = 12 + u64::from(per_block) * (1 + u64::from(slot));
        extent.last = extent.last.max((before + copies).checked_sub(1).filter(|_| copies > 0));
        extent.blocks += 1 + copies;
    }
    nothing_else(&pointers, u64::from(geometry.reserved_gdt_blocks), "its double indirect block")?;
    Ok(extent)
}

/// The reserved blocks of group 0, which lie in a row, read several at a time.
struct Reserved<'f, 'd> {
    fs: &'f Fs<'d>,
    first: u64,
    bytes: Vec<u8>,
    bytes_from: u32,
}

impl Reserved<'_, '_> {
    /// The block with this number among them; asked for in ascending order.
    fn block(&mut self, step: u32) -> Result<&[u8], String> {
        let size = self.fs.geometry.block_size as usize;
        let held = width::len_u32(self.bytes.len() / size);
        if step - self.bytes_from >= held {
            let left = self.fs.geometry.reserved_gdt_blocks - step;
            let count = left.min(width::len_u32((RESERVED_READ / size).max(1)));
            let offset = self.fs.block_offset(BlockNo(self.first + u64::from(step)));
            self.bytes.resize(count as usize * size, 0);
            self.bytes_from = step;
            if self.fs.device.read_at(offset, &mut self.bytes).is_err() {
                // One of them cannot be read: not the others' fault.
                self.bytes.truncate(size);
                self.fs.device.read_at(offset, &mut self.bytes).map_err(|error| error.to_string())?;
            }
        }
        let at = (step - self.bytes_from) as usize * size;
        self.bytes.get(at..at + size).ok_or_else(|| format!("reserved block {step} was not read"))
    }
}

/// A block that has to list `expected` blocks, and lists those, may not list more.
fn nothing_else(pointers: &[u8], expected: u64, what: &str) -> Result<(), String> {
    let used = pointers.as_chunks::<4>().0.iter().filter(|pointer| **pointer != [0; 4]).count() as u64;
    if used == expected { Ok(()) } else { Err(format!("{what} lists {used} blocks instead of {expected}")) }
}

/// Reserved block `block` of group 0 has to list its copies in the groups with backups.
/// How many there are.
fn check_copies(
    fs: &Fs<'_>,
    geometry: &Geometry,
    backups: &[u32],
    (block, pointers): (u64, &[u8]),
) -> Result<u64, String> {
    let pointers = without_zeros(pointers.as_chunks().0).as_flattened();
    refuse_foreign_blocks(fs, pointers)?;
    let mut copies = 0;
    for (group, slot) in backups.iter().zip(0..geometry.block_size / 4) {
        let expected = block + u64::from(*group) * u64::from(geometry.blocks_per_group);
        let found = u64::from(pointer(pointers, slot));
        if found != expected {
            return Err(format!(
                "reserved block {block} lists block {found} as its copy in group {group} instead of {expected}"
            ));
        }
        copies += 1;
    }
    nothing_else(pointers, copies, &format!("reserved block {block}"))?;
    Ok(copies)
}

/// Whether `block` is a reserved block of group 0 that lists its copies, most of them at least: then it belongs to the resize inode, even if another owner
/// leads to it.
pub(crate) fn lists_its_copies(fs: &Fs<'_>, block: BlockNo) -> bool {
    let geometry = &fs.geometry;
    let has_copies = geometry.features.has_compat(Compat::RESIZE_INODE);
    if !has_copies || !geometry.group_head(GroupNo(0)).reserved.contains(block) {
        return false;
    }
    let Ok(pointers) = fs.read_block(block) else { return false };
    let backups = (1..geometry.group_count).filter(|group| geometry.has_superblock(GroupNo(*group)));
    let (mut all, mut right) = (0, 0);
    for (group, slot) in backups.zip(0..geometry.block_size / 4) {
        let expected = block.0 + u64::from(group) * u64::from(geometry.blocks_per_group);
        all += 1;
        right += u32::from(u64::from(pointer(&pointers, slot)) == expected);
    }
    all < 2 * right
}

/// No pointer, even an unused one, leads out of the file system.
fn refuse_foreign_blocks(fs: &Fs<'_>, pointers: &[u8]) -> Result<(), String> {
    let (words, _) = pointers.as_chunks::<4>();
    let numbers = || words.iter().map(|word| u32::from_le_bytes(*word));
    // At one look, for most blocks; 0 counts as the highest number here.
    let lowest = numbers().fold(u32::MAX, |lowest, number| lowest.min(number.wrapping_sub(1)));
    let highest = numbers().fold(0, u32::max);
    let is_valid = |block: u64| fs.is_valid_block(BlockNo(block));
    if highest == 0 || (is_valid(u64::from(lowest) + 1) && is_valid(highest.into())) {
        return Ok(());
    }
    let blocks = numbers().map(u64::from);
    match blocks.into_iter().find(|block| *block != 0 && !fs.is_valid_block(BlockNo(*block))) {
        Some(block) => Err(format!("it lists block {block}, which is not valid")),
        None => Ok(()),
    }
}

fn pointer(block: &[u8], index: u32) -> u32 {
    let at = index as usize * 4;
    block.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}
