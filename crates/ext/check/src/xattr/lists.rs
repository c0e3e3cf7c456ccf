// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access lists in inodes whose entries lead elsewhere: the place or the length was overwritten, and the kernel cannot read the list. A list shows where
//! it ends, so it is found again where only one can be meant.

use std::mem::offset_of;

use fsmend_engine::Findings;
use fsmend_ext_format::xattr::{Area, Entry, RawXattrEntry};

use super::acl;
use super::area::{Owner, is_free_of_others};
use super::problems::ACL_ASTRAY;

/// Values begin at multiples of this.
const UNIT: usize = 4;

/// Leads entries in `bytes`, an area in an inode whose entries and values are counted from `places`, to their lists.
pub(super) fn mend(owner: Owner, bytes: &mut [u8], places: (usize, usize), findings: &mut Findings) {
    let area = Area { bytes, entries_at: places.0, values_at: places.1 };
    let lists: Vec<Entry<'_>> = area.entries().map_while(Result::ok).filter(acl::is_suspect_list).collect();
    let mut found = Vec::new();
    for entry in lists {
        let Some((offset, size)) = right_place(area, &entry) else { continue };
        let problem =
            owner.problem_with(&ACL_ASTRAY, &entry).stored(entry.value_size).observed(u32::from(size));
        findings
            .raise(problem.detail("at", u64::from(entry.value_offset)).detail("right", u64::from(offset)));
        found.push((entry.at, offset, size));
    }
    for (at, offset, size) in found {
        bytes[at + offset_of!(RawXattrEntry, e_value_offs)..][..2].copy_from_slice(&offset.to_le_bytes());
        bytes[at + offset_of!(RawXattrEntry, e_value_size)..][..4]
            .copy_from_slice(&u32::from(size).to_le_bytes());
    }
}

/// Offset and size of the list, where those of the entry are wrong: the list at that offset, else the only one of that size.
fn right_place(area: Area<'_>, entry: &Entry<'_>) -> Option<(u16, u16)> {
    let stored = area.value(entry).unwrap_or_default();
    if !stored.is_empty() && (acl::is_readable(stored) || acl::restored(stored).is_some()) {
        return None;
    }
    let complete = |offset: u16| {
        let start = area.values_at + usize::from(offset);
        let len = acl::complete_len(area.bytes.get(start..)?)?;
        is_free_of_others(area, entry, &(start..start + len)).then_some((offset, u16::try_from(len).ok()?))
    };
    if let Some(place) = complete(entry.value_offset) {
        return Some(place);
    }
    let offsets = (0..area.bytes.len().saturating_sub(area.values_at)).step_by(UNIT);
    let mut places = offsets
        .filter_map(|offset| complete(u16::try_from(offset).ok()?))
        .filter(|(_, size)| u32::from(*size) == entry.value_size);
    places.next().filter(|_| places.next().is_none())
}
