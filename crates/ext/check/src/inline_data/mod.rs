//! Data that live in the inode: 60 bytes in `i_block`, the rest in the value of the `system.data` attribute.
//!
//! ```text
//! file, symlink: i_block[0..60], then the value; i_size counts both
//! directory:     i_block[0..4] parent inode, i_block[4..60] entries, then the value: more entries
//! ```

pub mod problems;
mod shape;

use std::ops::Range;

use fsmend_base::InodeNo;
use fsmend_engine::Findings;

use crate::Fs;
use crate::xattr::InInodeAttributes;

pub use shape::{looks_like_block_map, looks_like_extent_tree, looks_like_inline};

/// Where `i_block` stands in a record.
pub const I_BLOCK_RANGE: Range<usize> = 0x28..0x28 + 60;

/// What the inspection of a flagged inode says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its data live in the inode.
    Inline(InlineData),
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
/// directory or symbolic link; `attributes` are those of its mended `record`.
pub fn inspect(
    _fs: &Fs<'_>,
    _ino: InodeNo,
    _record: &mut [u8],
    _attributes: &InInodeAttributes,
    _findings: &mut Findings,
) -> Outcome {
    Outcome::NotInline
}

/// The areas of an inline directory by its mended record; `None` when it has no data attribute.
pub fn directory_areas(_record: &[u8]) -> Option<InlineDirectory> {
    None
}
