//! Directories that live in their inode: the number of the parent in the first four bytes of `i_block`, records in the
//! rest, and more records in the value of the attribute `system.data`. `.` and `..` are not stored as records.

use fsmend_base::InodeNo;

use crate::inline_data::directory_areas;

/// The contents of an inline directory.
pub(super) struct InlineEntries {
    /// What its first four bytes say.
    pub parent: InodeNo,
    /// Its records.
    pub records: Vec<u8>,
}

/// Gathers the contents of an inline directory from its record; `None` when it has none.
pub(super) fn gather(record: &[u8]) -> Option<InlineEntries> {
    let areas = directory_areas(record)?;
    let mut records = record.get(areas.first)?.to_vec();
    records.extend_from_slice(record.get(areas.second)?);
    records.truncate(records.len() & !3);
    Some(InlineEntries { parent: areas.parent, records })
}
