//! Attribute blocks.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::Findings;

use super::ValueReference;
use crate::Fs;

/// What an attribute block holds, as it will be after repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockAttributes {
    /// Whether the block stays. When not, every inode that points to it loses its pointer.
    pub plausible: bool,
    /// How many inodes share the block, by its own account.
    pub stored_refcount: u32,
    /// Inodes that hold values, one per entry that refers to one (and once per block, however many inodes share it).
    pub value_inodes: Vec<ValueReference>,
    /// The encryption context, if the block holds one.
    pub encryption_context: Option<Vec<u8>>,
}

/// An attribute block and its references, for [`check_refcounts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockReferences {
    /// The block.
    pub block: BlockNo,
    /// `h_refcount`.
    pub stored: u32,
    /// How many inodes point to it.
    pub observed: u32,
}

/// Judges the attribute block pointer `file_acl` of inode `ino`: `None` when there is none or it has to be cleared.
pub fn inspect_pointer(
    _fs: &Fs<'_>,
    _ino: InodeNo,
    _file_acl: u64,
    _findings: &mut Findings,
) -> Option<BlockNo> {
    None
}

/// Reads and inspects `block`, to which inode `ino` points; a block that cannot be read is not plausible.
pub fn read_and_inspect_block(
    _fs: &Fs<'_>,
    _ino: InodeNo,
    _block: BlockNo,
    _findings: &mut Findings,
) -> BlockAttributes {
    BlockAttributes::default()
}

/// Inspects the contents of attribute block `block`, to which inode `ino` points, and mends them in `bytes`.
pub fn inspect_block(
    _fs: &Fs<'_>,
    _ino: InodeNo,
    _block: BlockNo,
    _bytes: &mut [u8],
    _findings: &mut Findings,
) -> BlockAttributes {
    BlockAttributes::default()
}

/// Compares stored and observed references of all plausible attribute blocks.
pub fn check_refcounts(_blocks: impl IntoIterator<Item = BlockReferences>, _findings: &mut Findings) {}
