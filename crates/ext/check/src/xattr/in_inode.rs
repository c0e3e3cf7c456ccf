// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attributes behind `i_extra_isize` in an inode's own record.

use std::ops::Range;

use fsmend_base::InodeNo;
use fsmend_engine::Findings;
use fsmend_ext_format::encryption::CONTEXT_NAME;
use fsmend_ext_format::inode::RawInode;
use fsmend_ext_format::xattr::{Area, INODE_HEADER_SIZE, inode_area_start, name_index};

use super::area::{self, Owner};
use super::{ValueReference, lists, names, table_end};
use crate::{Fs, inline_data};

/// The attributes in an inode's record, as they will be after repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InInodeAttributes {
    /// Inodes that hold values, one per entry that refers to one.
    pub value_inodes: Vec<ValueReference>,
    /// Those of them that get the flag `EA_INODE` by the repair.
    pub newly_flagged: Vec<InodeNo>,
    /// Bytes that `i_blocks` of this inode counts for values in inodes of their own, in whole clusters.
    pub charged_bytes: u64,
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
    fs: &Fs<'_>,
    ino: InodeNo,
    record: &mut [u8],
    findings: &mut Findings,
) -> InInodeAttributes {
    let Some(start) = inode_area_start(record) else { return InInodeAttributes::default() };
    let generation = RawInode::from_record(record).i_generation.get();
    let owner = Owner { inode: ino, generation, block: None };
    let Some(area) = Area::of_inode(record) else { return InInodeAttributes::default() };
    let places = (area.entries_at, area.values_at);
    table_end::mend(owner, &mut record[start..], places, findings);
    names::mend(owner, &mut record[start..], places, findings);
    inline_data::find_value_again(fs, ino, record, findings);
    lists::mend(owner, &mut record[start..], places, findings);
    inline_data::mend_offsets(ino, record, findings);
    let Some(area) = Area::of_inode(record) else { return InInodeAttributes::default() };
    let verdict = area::inspect(fs, owner, area, findings);
    let kept = verdict.kept;
    if verdict.broken || (verdict.has_bad_entries() && kept == 0) {
        // Without its magic the area counts as empty.
        record[start..start + INODE_HEADER_SIZE].fill(0);
    } else {
        verdict.mend_entries(&mut record[start..]);
    }
    InInodeAttributes {
        value_inodes: verdict.value_inodes,
        newly_flagged: verdict.newly_flagged,
        charged_bytes: verdict.charged_bytes,
        inline_data: find_value(record, name_index::SYSTEM, b"data"),
        encryption_context: find_value(record, name_index::ENCRYPTION, CONTEXT_NAME),
        entries: kept,
    }
}

/// Where in `record` the value of an attribute lies; `None` when it is not there or its value lies elsewhere.
pub(crate) fn find_value(record: &[u8], name_index: u8, name: &[u8]) -> Option<Range<usize>> {
    let start = inode_area_start(record)?;
    let area = Area::of_inode(record)?;
    let entry = area.find(name_index, name)?;
    // The offset of a value without bytes need not make sense.
    let range = if entry.value_size == 0 { 0..0 } else { area.value_range(&entry)? };
    Some(start + range.start..start + range.end)
}
