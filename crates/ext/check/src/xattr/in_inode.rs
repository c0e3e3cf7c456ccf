//! The attributes behind `i_extra_isize` in an inode's own record.

use std::ops::Range;

use fsmend_base::InodeNo;
use fsmend_engine::Findings;

use super::ValueReference;
use crate::Fs;

/// The attributes in an inode's record, as they will be after repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InInodeAttributes {
    /// Inodes that hold values, one per entry that refers to one.
    pub value_inodes: Vec<ValueReference>,
    /// Where in the record the value of `system.data` lies (possibly empty), the part of inline data behind `i_block`.
    pub inline_data: Option<Range<usize>>,
    /// Where in the record the encryption context lies.
    pub encryption_context: Option<Range<usize>>,
    /// Number of entries that stay.
    pub entries: usize,
}

/// Inspects the attributes in `record` of inode `ino` and mends them there: a bad entry is taken out, an area
/// whose layout is broken is cleared. To be called when `i_extra_isize` has been mended.
pub fn inspect_in_inode(
    _fs: &Fs<'_>,
    _ino: InodeNo,
    _record: &mut [u8],
    _findings: &mut Findings,
) -> InInodeAttributes {
    InInodeAttributes::default()
}
