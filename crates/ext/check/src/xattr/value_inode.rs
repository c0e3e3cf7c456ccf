//! Inodes that hold attribute values.

use fsmend_base::InodeNo;
use fsmend_engine::Findings;

use crate::Fs;

/// Judges all inodes flagged `EA_INODE` after every inode has been inspected. `flagged` yields each of them with its
/// mended record, `references` the number of entries that refer to it. Returns those that nobody refers to: they are
/// ordinary files whose flag is spurious, and need a name like any other file.
pub fn check_value_inodes(
    _fs: &Fs<'_>,
    _flagged: impl IntoIterator<Item = (InodeNo, Vec<u8>)>,
    _references: impl Fn(InodeNo) -> u64,
    _findings: &mut Findings,
) -> Vec<InodeNo> {
    Vec::new()
}
