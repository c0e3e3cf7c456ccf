// SPDX-License-Identifier: MIT OR Apache-2.0
//! The value of `system.data` whose place was overwritten: where it lies can be told from the others.

use std::mem::offset_of;
use std::ops::Range;

use fsmend_base::InodeNo;
use fsmend_engine::{Findings, Problem};
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::inode::{I_BLOCK_LEN, InodeFlags, RawInode};
use fsmend_ext_format::xattr::{Area, CharSign, Entry, RawXattrEntry, inode_area_start, name_index, padded};

use super::problems::VALUE_MISPLACED;
use crate::Fs;

/// Bytes of the mark that ends a table.
const END_MARK: usize = 4;

/// Leads the data attribute in `record` to its value again, if it leads to a place where no value can be. Values are packed from the end of the
/// inode on without gaps, so that the gap is the place. Where there is none, what lies in `i_block` stays.
pub(crate) fn find_again(fs: &Fs<'_>, ino: InodeNo, record: &mut [u8], findings: &mut Findings) {
    let inode = RawInode::from_record(record);
    if !inode.has_flag(InodeFlags::INLINE_DATA) || !fs.geometry.features.has_incompat(Incompat::INLINE_DATA) {
        return;
    }
    let (Some(start), Some(area)) = (inode_area_start(record), Area::of_inode(record)) else { return };
    let Some(values) = Values::of(area).filter(|values| !values.is_right()) else { return };
    let by_size = inode.size().checked_sub(I_BLOCK_LEN as u64).and_then(|len| u32::try_from(len).ok());
    let lens = [Some(values.data.value_size), by_size].into_iter().flatten();
    let (offset, len) = lens.into_iter().find_map(|len| values.entry_at_gap(len)).unwrap_or_default();
    let hash = if len == 0 { 0 } else { values.data.hash };
    let problem = Problem::new(&VALUE_MISPLACED).inode(ino).observed(len);
    findings.raise(problem.stored(u32::from(values.data.value_offset)));
    let at = start + values.data.at;
    record[at + offset_of!(RawXattrEntry, e_value_offs)..][..2].copy_from_slice(&offset.to_le_bytes());
    record[at + offset_of!(RawXattrEntry, e_value_size)..][..4].copy_from_slice(&len.to_le_bytes());
    record[at + offset_of!(RawXattrEntry, e_hash)..][..4].copy_from_slice(&hash.to_le_bytes());
}

/// The data attribute, and where the values of the others lie.
struct Values<'a> {
    area: Area<'a>,
    data: Entry<'a>,
    others: Vec<Range<usize>>,
    table_end: usize,
}

impl<'a> Values<'a> {
    /// `None` where there is no data attribute, or the table is broken.
    fn of(area: Area<'a>) -> Option<Self> {
        let mut entries = area.entries();
        let (mut data, mut others) = (None, Vec::new());
        for entry in entries.by_ref() {
            let entry = entry.ok()?;
            if (entry.name_index, entry.name) == (name_index::SYSTEM, b"data") {
                data = data.or(Some(entry));
            } else if entry.value_inode == 0 && entry.value_size > 0 {
                others.extend(
                    area.value_range(&entry).map(|range| range.start..range.start + padded(range.len())),
                );
            }
        }
        let data = data.filter(|data| data.value_inode == 0 && data.value_size > 0)?;
        Some(Values { area, data, others, table_end: entries.position() + END_MARK })
    }

    /// Whether the value lies where one can.
    fn is_right(&self) -> bool {
        let Some(range) = self.area.value_range(&self.data) else { return false };
        let range = range.start..range.start + padded(range.len());
        let is_free = |other: &Range<usize>| other.end <= range.start || range.end <= other.start;
        range.start >= self.table_end && range.end <= self.area.bytes.len() && self.others.iter().all(is_free)
    }

    /// Offset and length that the entry has to have if its value has `len` bytes; `None` where the others leave no room for that, or the
    /// hash says that it is something else.
    fn entry_at_gap(&self, len: u32) -> Option<(u16, u32)> {
        let start = self.gap(len)?;
        let value_offset = u16::try_from(start.checked_sub(self.area.values_at)?).ok()?;
        let entry = Entry { value_offset, value_size: len, ..self.data };
        let value = self.area.bytes.get(start..start + padded(usize::try_from(len).ok()?))?;
        let signs = [CharSign::Unsigned, CharSign::Signed];
        let is_right =
            entry.hash == 0 || signs.iter().any(|sign| entry.hash_with_value(value, *sign) == entry.hash);
        is_right.then_some((value_offset, len))
    }

    /// Where a value of `len` bytes lies that the others leave room for.
    fn gap(&self, len: u32) -> Option<usize> {
        let len = padded(usize::try_from(len).ok()?);
        let mut others = self.others.clone();
        others.sort_unstable_by_key(|range| std::cmp::Reverse(range.end));
        let mut end = self.area.bytes.len();
        let mut below = self.table_end;
        for other in others {
            if other.end < end {
                below = below.max(other.end);
                break;
            }
            end = end.min(other.start);
        }
        end.checked_sub(len).filter(|start| *start >= below)
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of values, of which some have one")]
mod tests {
    use super::*;

    /// Where a value of `len` bytes is placed beside others, in an area of 96 bytes whose table ends at 32.
    fn gap(others: &[Range<usize>], len: u32) -> Option<usize> {
        let area = Area { bytes: &[0; 96], entries_at: 0, values_at: 0 };
        let data = Entry {
            at: 0,
            name: b"data",
            name_index: name_index::SYSTEM,
            value_offset: 0,
            value_inode: 0,
            value_size: len,
            hash: 0,
        };
        Values { area, data, others: others.to_vec(), table_end: 32 }.gap(len)
    }

    #[test]
    fn alone_a_value_lies_at_the_end() {
        assert_eq!(gap(&[], 8), Some(88));
        assert_eq!(gap(&[], 5), Some(88), "values are as long as their padding");
        assert_eq!(gap(&[], 64), Some(32), "as long as there is room");
        assert_eq!(gap(&[], 65), None);
        assert_eq!(gap(&[], u32::MAX), None);
    }

    #[test]
    fn values_are_packed_from_the_end_and_the_gap_is_where_that_stops() {
        assert_eq!(gap(&[88..96], 8), Some(80), "below all others");
        assert_eq!(gap(&[64..80], 16), Some(80), "above all others");
        assert_eq!(gap(&[88..96, 64..80], 8), Some(80), "between two");
        assert_eq!(gap(&[64..80, 88..96], 8), Some(80), "in whatever order they stand in the table");
        assert_eq!(gap(&[88..96, 72..88], 8), Some(64), "below two that touch");
    }

    #[test]
    fn a_value_that_the_gap_does_not_hold_lies_nowhere() {
        assert_eq!(gap(&[88..96, 64..80], 9), None, "it would reach into the one below");
        assert_eq!(gap(&[88..96, 40..88], 8), Some(32), "down to the table");
        assert_eq!(gap(&[88..96, 40..88], 9), None);
        assert_eq!(gap(&[32..96], 1), None, "others take everything");
    }

    #[test]
    fn others_that_lie_over_each_other_count_as_one() {
        assert_eq!(gap(&[72..96, 80..96], 8), Some(64));
        assert_eq!(gap(&[80..96, 72..88], 8), Some(64));
        assert_eq!(gap(&[88..100], 8), Some(80), "padding may reach behind the end");
    }
}
