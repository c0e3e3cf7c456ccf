// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fast path for attributes in an inode's own record: security labels and small access lists, which on many systems
//! every inode has.

use std::ops::Range;

use fsmend_ext_format::xattr::{Area, CharSign, Entry, name_index, padded};

/// Areas with more entries than this are inspected.
const ENTRIES_MAX: usize = 8;

/// Whether the attribute area in `record`, if there is one, has nothing about it that inspection would look into:
/// every entry and value in its place, nothing overlapping, hashes right, no value in an inode of its own, and nothing
/// that changes how the file is checked (inline data, an encryption context).
pub fn are_ordinary(record: &[u8]) -> bool {
    let Some(area) = Area::of_inode(record) else { return true };
    let mut values: [Range<usize>; ENTRIES_MAX] = [const { 0..0 }; ENTRIES_MAX];
    let (mut count, mut values_start) = (0, area.bytes.len());
    let mut entries = area.entries();
    for entry in entries.by_ref() {
        let Some(range) = entry.ok().and_then(|entry| ordinary_value(area, &entry)) else { return false };
        let overlaps = |other: &Range<usize>| range.start < other.end && other.start < range.end;
        if count == ENTRIES_MAX || values[..count].iter().any(overlaps) {
            return false;
        }
        if !range.is_empty() {
            values_start = values_start.min(range.start);
        }
        values[count] = range;
        count += 1;
    }
    // Four bytes of zeroes end the table.
    entries.position() + 4 <= values_start
}

/// Where the value of an ordinary entry lies, padding included.
fn ordinary_value(area: Area<'_>, entry: &Entry<'_>) -> Option<Range<usize>> {
    let changes_checks = matches!(entry.name_index, name_index::ENCRYPTION | name_index::SYSTEM);
    let is_list = matches!(entry.name_index, name_index::POSIX_ACL_ACCESS | name_index::POSIX_ACL_DEFAULT);
    if entry.value_inode != 0 || changes_checks || is_list || entry.name.is_empty() || entry.name.contains(&0)
    {
        return None;
    }
    let range = area.value_range(entry).map(|range| if range.is_empty() { 0..0 } else { range })?;
    let range = range.start..range.start + padded(range.len());
    let value = area.bytes.get(range.clone())?;
    let hash_is_right = entry.hash == 0
        || [CharSign::Unsigned, CharSign::Signed]
            .map(|sign| entry.hash_with_value(value, sign))
            .contains(&entry.hash);
    hash_is_right.then_some(range)
}
