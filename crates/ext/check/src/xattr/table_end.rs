// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mark at the end of a table, overwritten: what is there looks like one more entry, which reaches into the values, and for which
//! none of the others could be believed.

use std::ops::Range;

use fsmend_engine::Findings;
use fsmend_ext_format::xattr::{Area, ENTRY_SIZE, Entry, padded, prefix};

use super::area::Owner;
use super::problems::END_OVERWRITTEN;

/// Bytes of the mark that ends a table.
const END_MARK: usize = 4;

/// Whether what stands at `at` is an overwritten mark and nothing more: behind it there are only zeroes up to `values`, where the values begin or the
/// area ends, and for an entry there are too many of them: it would have neither name nor value.
pub(super) fn is_bare_mark(bytes: &[u8], at: usize, values: usize) -> bool {
    let is_zero =
        |range: Range<usize>| bytes.get(range).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0));
    values >= at.saturating_add(ENTRY_SIZE) && !is_zero(at..at + END_MARK) && is_zero(at + END_MARK..values)
}

/// Ends the table in `bytes`, the bytes of an area whose entries and values are counted from `places`, where the first thing stands that can
/// be no entry and that reaches into values of entries before it, or out of the area; whether that was so. The entries before it have to be
/// in order: each in its place and its value apart from them and the others.
pub(super) fn mend(
    owner: Owner,
    bytes: &mut [u8],
    (entries_at, values_at): (usize, usize),
    findings: &mut Findings,
) -> bool {
    let end = overwritten(Area { bytes, entries_at, values_at });
    end.is_some_and(|end| put(owner, bytes, end, findings))
}

/// Ends the table at `end`; whether there is room for the mark.
pub(super) fn put(owner: Owner, bytes: &mut [u8], end: usize, findings: &mut Findings) -> bool {
    let Some(mark) = bytes.get_mut(end..end + END_MARK) else { return false };
    mark.fill(0);
    findings.raise(owner.problem(&END_OVERWRITTEN).detail("at", end as u64));
    true
}

/// Where the table has to end, if it is that which is wrong.
fn overwritten(area: Area<'_>) -> Option<usize> {
    let mut values: Vec<Range<usize>> = Vec::new();
    let mut entries = area.entries();
    loop {
        let at = entries.position();
        let entry = entries.next()?;
        let reach = entry.as_ref().map_or(usize::MAX, |entry| entry.at + entry.table_len());
        if values.iter().any(|value| value.start < reach) || reach == usize::MAX {
            // There is room for the mark, and it is not the place of a value that is wrong.
            let is_apart = values.iter().all(|value| at + END_MARK <= value.start);
            let is_none = entry.ok().is_none_or(|entry| !can_be(area, &entry));
            return (at > area.entries_at && is_apart && is_none).then_some(at);
        }
        let entry = entry.ok().filter(|entry| can_be(area, entry) && !entry.name.contains(&0))?;
        if entry.value_inode == 0 && entry.value_size > 0 {
            let value = area.value_range(&entry)?;
            let value = value.start..value.start + padded(value.len());
            if values.iter().any(|other| value.start < other.end && other.start < value.end) {
                return None;
            }
            values.push(value);
        }
    }
}

/// Whether this can be an entry, though its name may have to be mended: its prefix is one that there is, it has a name where that is not all
/// of it, and a value.
fn can_be(area: Area<'_>, entry: &Entry<'_>) -> bool {
    let prefix = prefix(entry.name_index);
    let is_named = !prefix.is_empty() && prefix.ends_with('.') != entry.name.is_empty();
    is_named && (entry.value_inode != 0 || area.value_range(entry).is_some())
}
