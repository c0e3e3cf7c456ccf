// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data that live in the inode: 60 bytes in `i_block`, the rest in the value of the `system.data` attribute.
//!
//! ```text
//! file, symlink: i_block[0..60], then the value; i_size counts both
//! directory:     i_block[0..4] parent inode, i_block[4..60] entries, then the value: more entries
//! ```

pub(crate) mod problems;
mod shape;
mod value;

use std::mem::offset_of;
use std::ops::Range;

use fsmend_base::InodeNo;
use fsmend_engine::Findings;
use fsmend_engine::problem::Problem;
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::inode::{I_BLOCK_LEN, InodeFlags, RawInode, mode};
use fsmend_ext_format::xattr::{Area, CharSign, Entry, RawXattrEntry, inode_area_start, name_index};

use crate::Fs;
use crate::xattr::{InInodeAttributes, find_value};

pub use shape::{looks_like_block_map, looks_like_extent_tree};
pub(crate) use value::find_again as find_value_again;

/// Unit of `i_blocks`.
const SECTOR: u64 = 512;
/// Where `i_block` stands in a record.
pub const I_BLOCK_RANGE: Range<usize> = 0x28..0x28 + I_BLOCK_LEN;

/// What the inspection of a flagged inode says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its data live in the inode.
    Inline(InlineData),
    /// It had no data attribute, but evidently blocks: only the flag was cleared in the record (and that of extents set,
    /// for an extent tree), and its map is left to be judged.
    Mapped,
    /// It had no data attribute: flag, size and `i_block` were cleared in the record, it is now an empty file (or a
    /// directory without blocks).
    Truncated,
    /// The file system has no inline data and the inode no data attribute: the flag is nonsense, and the caller judges
    /// the inode (e2fsck clears it).
    NotInline,
}

/// Where inline data lie in the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineData {
    /// The value of `system.data`.
    pub value: Range<usize>,
    /// Bytes of data there is room for: 60 and the length of the value.
    pub capacity: u64,
}

/// The two areas of an inline directory, as ranges of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineDirectory {
    /// The parent directory: `..` has no entry, only this number.
    pub parent: InodeNo,
    /// Entries in `i_block`.
    pub first: Range<usize>,
    /// Entries in the attribute value; empty when the value is.
    pub second: Range<usize>,
}

/// Inspects inode `ino`, which carries the inline-data flag (alone, without the extents flag) and is a regular file,
/// directory or symbolic link; `attributes` are those of its mended `record`. A regular file may be longer than its
/// data (it then ends with a hole); a symbolic link has to fill [`InlineData::capacity`], which is for the caller to check.
pub fn inspect(
    fs: &Fs<'_>,
    ino: InodeNo,
    record: &mut [u8],
    attributes: &InInodeAttributes,
    findings: &mut Findings,
) -> Outcome {
    let feature = fs.geometry.features.has_incompat(Incompat::INLINE_DATA);
    let Some(value) = attributes.inline_data.clone() else {
        if !feature {
            return Outcome::NotInline;
        }
        findings.raise(Problem::new(&problems::NO_ATTRIBUTE).inode(ino));
        return clear_flag(fs, record, attributes.charged_bytes);
    };
    if !feature {
        findings.raise(Problem::new(&problems::FEATURE).inode(ino));
    }
    let mut data = InlineData { capacity: capacity(&value), value };
    if RawInode::from_record(record).file_type() == mode::DIRECTORY {
        mend_directory_size(ino, record, &mut data, findings);
    }
    Outcome::Inline(data)
}

/// Where a value without bytes lies does not matter, but the kernel does not read such an attribute where its place makes no sense, and other tools
/// find no data in the inode.
pub(crate) fn mend_offsets(ino: InodeNo, record: &mut [u8], findings: &mut Findings) {
    let (Some(start), Some(area)) = (inode_area_start(record), Area::of_inode(record)) else { return };
    let is_stray = |entry: &Entry<'_>| {
        entry.value_size == 0 && entry.value_inode == 0 && area.value_range(entry).is_none()
    };
    let stray: Vec<usize> =
        area.entries().map_while(Result::ok).filter(is_stray).map(|entry| start + entry.at).collect();
    for at in stray {
        findings.raise(Problem::new(&problems::OFFSET).inode(ino).detail("at", at as u64));
        record[at + offset_of!(RawXattrEntry, e_value_offs)..][..2].fill(0);
    }
}

/// The areas of an inline directory by its mended record; `None` when it has no data attribute.
pub fn directory_areas(record: &[u8]) -> Option<InlineDirectory> {
    let second = find_value(record, name_index::SYSTEM, b"data")?;
    let parent = record.get(I_BLOCK_RANGE)?.first_chunk()?;
    let first = I_BLOCK_RANGE.start + size_of::<u32>()..I_BLOCK_RANGE.end;
    Some(InlineDirectory { parent: InodeNo(u32::from_le_bytes(*parent)), first, second })
}

fn capacity(value: &Range<usize>) -> u64 {
    (I_BLOCK_LEN + value.len()) as u64
}

/// Clears the flag of an inode without data attribute. Where `i_block` is an extent tree, or can be a block map and
/// more blocks are counted than its attributes can have, the flag is the mistake, and the data stay; otherwise it becomes
/// an empty file.
fn clear_flag(fs: &Fs<'_>, record: &mut [u8], charged_bytes: u64) -> Outcome {
    let mut inode = RawInode::from_record(record);
    inode.clear_flag(InodeFlags::INLINE_DATA);
    // One cluster may be the attribute block's, even if its pointer has just been cleared.
    let cluster = u64::from(fs.geometry.block_size) * u64::from(fs.geometry.cluster_blocks);
    let has_blocks = u64::from(inode.i_blocks_lo.get()) * SECTOR > cluster.saturating_add(charged_bytes);
    let outcome = if looks_like_extent_tree(&inode.i_block) {
        inode.set_flag(InodeFlags::EXTENTS);
        Outcome::Mapped
    } else if has_blocks && looks_like_block_map(fs, &inode.i_block) {
        Outcome::Mapped
    } else {
        inode.set_size(0);
        inode.i_block = [0; I_BLOCK_LEN];
        Outcome::Truncated
    };
    inode.store(record);
    outcome
}

/// The entries of a directory fill exactly what the inode holds, in multiples of four bytes.
fn mend_directory_size(ino: InodeNo, record: &mut [u8], data: &mut InlineData, findings: &mut Findings) {
    let mut inode = RawInode::from_record(record);
    let stored = inode.size();
    if stored != data.capacity {
        let problem = Problem::new(&problems::SIZE).inode(ino);
        findings.raise(problem.stored(stored).observed(data.capacity));
    }
    let excess = data.value.len() % 4;
    if excess != 0 {
        findings.raise(Problem::new(&problems::DIRECTORY_SIZE).inode(ino).stored(data.value.len() as u64));
        data.value.end -= excess;
        data.capacity = capacity(&data.value);
        shorten_value(record, data.value.len());
    }
    inode.set_size(data.capacity);
    inode.store(record);
}

/// Makes the hash of the data attribute right, if it has one, after its value was changed.
pub(crate) fn settle_hash(record: &mut [u8]) {
    if let Some(value) = find_value(record, name_index::SYSTEM, b"data") {
        shorten_value(record, value.len());
    }
}

/// Sets the length of the data attribute's value, and the entry's hash with it.
fn shorten_value(record: &mut [u8], len: usize) {
    let Some(start) = inode_area_start(record) else { return };
    let Some(area) = Area::of_inode(record) else { return };
    let Some(mut entry) = area.find(name_index::SYSTEM, b"data") else { return };
    entry.value_size = u32::try_from(len).unwrap_or_default();
    let value = area.value(&entry).unwrap_or(&[]);
    let hash = if entry.hash == 0 { 0 } else { entry.hash_with_value(value, CharSign::Unsigned) };
    let (at, size) = (start + entry.at, entry.value_size.to_le_bytes());
    record[at + offset_of!(RawXattrEntry, e_value_size)..][..4].copy_from_slice(&size);
    record[at + offset_of!(RawXattrEntry, e_hash)..][..4].copy_from_slice(&hash.to_le_bytes());
}

#[cfg(test)]
mod tests;
