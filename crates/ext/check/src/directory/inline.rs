//! Directories that live in their inode: the number of the parent in the first four bytes of `i_block`, records in the
//! rest, and more records in the value of the attribute `system.data`. `.` and `..` are not stored as records.

use fsmend_ext_format::directory::INLINE_PARENT_LEN;
use fsmend_ext_format::inode::RawInode;

use super::encryption::in_inode_attribute;

/// Attribute name index of `system.`.
const INDEX_SYSTEM: u8 = 7;

/// The contents of an inline directory.
pub(super) struct InlineData {
    /// What its first four bytes say.
    pub parent: u32,
    /// Its records.
    pub records: Vec<u8>,
    /// Its whole length in bytes.
    pub len: usize,
}

/// Gathers the contents of an inline directory from its record.
pub(super) fn gather(record: &[u8]) -> InlineData {
    let raw = RawInode::from_record(record);
    let mut records = raw.i_block[INLINE_PARENT_LEN..].to_vec();
    records.extend_from_slice(in_inode_attribute(record, INDEX_SYSTEM, b"data").unwrap_or_default());
    InlineData { parent: raw.block_word(0), len: records.len() + INLINE_PARENT_LEN, records }
}
