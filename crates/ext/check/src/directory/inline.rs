// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories that live in their inode: the number of the parent in the first four bytes of `i_block`, records in the
//! rest, and more records in the value of the attribute `system.data`. `.` and `..` are not stored as records.

use std::ops::Range;

use fsmend_base::InodeNo;

use crate::inline_data::directory_areas;

/// Where the contents of an inline directory lie.
pub(super) struct InlineEntries {
    /// What its first four bytes say.
    pub parent: InodeNo,
    /// Where its records stand in the record of the inode: two chains, each by itself.
    pub areas: [Range<usize>; 2],
}

impl InlineEntries {
    /// The areas that are not empty, with their numbers.
    pub fn filled(&self) -> impl Iterator<Item = (u32, Range<usize>)> {
        (0..).zip(self.areas.clone()).filter(|(_, area)| !area.is_empty())
    }
}

/// The contents of an inline directory by its record; `None` when it has none.
pub(super) fn gather(record: &[u8]) -> Option<InlineEntries> {
    let areas = directory_areas(record)?;
    record.get(areas.first.clone())?;
    let second = areas.second.start..areas.second.start + (areas.second.len() & !3);
    record.get(second.clone())?;
    Some(InlineEntries { parent: areas.parent, areas: [areas.first, second] })
}
