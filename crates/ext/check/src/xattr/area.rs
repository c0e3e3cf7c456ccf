// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inspection of an area of attributes, in an inode or in a block: the layout of its table and values, and every entry.

use std::mem::offset_of;
use std::ops::Range;

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::Findings;
use fsmend_engine::problem::{Problem, Row, Value};
use fsmend_ext_format::xattr::{Area, CharSign, Entry, RawXattrEntry, Truncated, name_index, padded};

use super::region::Region;
use super::value_inode::{self, Reference};
use super::{ValueReference, acl, names, problems};
use crate::Fs;

/// Whose attributes are inspected.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) inode: InodeNo,
    pub(super) generation: u32,
    /// The attribute block; `None` for the area in the inode.
    pub(super) block: Option<BlockNo>,
}

impl Owner {
    pub(super) fn problem(self, row: &'static Row) -> Problem {
        let problem = Problem::new(row).inode(self.inode);
        match self.block {
            Some(block) => problem.block(block),
            None => problem,
        }
    }

    /// A problem with one attribute, named in it.
    pub(super) fn problem_with(self, row: &'static Row, entry: &Entry<'_>) -> Problem {
        self.problem(row).detail("name", Value::name(&entry.full_name()))
    }

    fn rows(self) -> &'static Rows {
        if self.block.is_some() { &IN_BLOCK } else { &IN_INODE }
    }
}

/// The catalogue rows that differ between the two places.
struct Rows {
    overlap: &'static Row,
    name_outside: &'static Row,
    value_outside: &'static Row,
    value_size: &'static Row,
}

static IN_INODE: Rows = Rows {
    overlap: &problems::INODE_OVERLAP,
    name_outside: &problems::INODE_NAME_OUTSIDE,
    value_outside: &problems::INODE_VALUE_OUTSIDE,
    value_size: &problems::VALUE_SIZE,
};

static IN_BLOCK: Rows = Rows {
    overlap: &problems::BLOCK_OVERLAP,
    name_outside: &problems::BLOCK_OVERLAP,
    value_outside: &problems::BLOCK_VALUE_OUTSIDE,
    value_size: &problems::BLOCK_VALUE_OUTSIDE,
};

/// What was found about an area.
#[derive(Default)]
pub(super) struct Verdict {
    /// The layout is broken: nothing in the area can be believed.
    pub(super) broken: bool,
    /// Number of entries that stay.
    pub(super) kept: usize,
    /// Where in the area the table ends.
    table_end: usize,
    /// Where in the table the entries stand that have to go, in ascending order.
    bad: Vec<Range<usize>>,
    /// Where in the table the entries stand whose values lie beside them, whatever inode they name.
    astray: Vec<usize>,
    /// Where in the table the entries stand whose values have another length, and that length.
    resized: Vec<(usize, u32)>,
    /// Where in the area the tags of access lists stand that have to be others, and these.
    tags: Vec<(usize, u16)>,
    /// Whether a value that lies in an inode of its own was read: one for each area, whatever it claims.
    has_read_value: bool,
    pub(super) value_inodes: Vec<ValueReference>,
    pub(super) newly_flagged: Vec<InodeNo>,
    pub(super) charged_bytes: u64,
}

impl Verdict {
    /// Whether entries have to be taken out.
    pub(super) fn has_bad_entries(&self) -> bool {
        !self.bad.is_empty()
    }

    /// Whether entries have to be changed or taken out.
    pub(super) fn changes_entries(&self) -> bool {
        self.has_bad_entries() || !self.astray.is_empty() || !self.resized.is_empty() || !self.tags.is_empty()
    }

    /// Leads entries to the values beside them, sets their lengths and the tags of access lists right, and takes the bad ones out of the table in `bytes`, the area's own. Their values become
    /// free space.
    pub(super) fn mend_entries(&self, bytes: &mut [u8]) {
        for at in &self.astray {
            bytes[at + offset_of!(RawXattrEntry, e_value_inum)..][..4].fill(0);
        }
        for (at, size) in &self.resized {
            bytes[at + offset_of!(RawXattrEntry, e_value_size)..][..4].copy_from_slice(&size.to_le_bytes());
        }
        for (at, tag) in &self.tags {
            bytes[*at..][..2].copy_from_slice(&tag.to_le_bytes());
        }
        let mut end = self.table_end;
        for range in self.bad.iter().rev() {
            bytes.copy_within(range.end..end, range.start);
            let gone = range.len();
            bytes[end - gone..end].fill(0);
            end -= gone;
        }
    }
}

/// Inspects all entries of `area`. Stops where the layout is broken.
pub(super) fn inspect(fs: &Fs<'_>, owner: Owner, area: Area<'_>, findings: &mut Findings) -> Verdict {
    let mut verdict = Verdict::default();
    let mut region = Region::new(area.bytes.len());
    let mut entries = area.entries();
    region.take(0, area.entries_at);
    for entry in entries.by_ref() {
        let fault = match entry {
            Ok(entry) if !region.take(entry.at, entry.table_len()) => {
                Some(owner.problem(owner.rows().overlap).detail("at", entry.at as u64))
            }
            Ok(entry) => inspect_entry(fs, owner, area, &entry, &mut region, &mut verdict, findings),
            Err(truncated) => Some(truncated_problem(owner, truncated)),
        };
        if let Some(problem) = fault {
            findings.raise(problem);
            return Verdict { broken: true, ..Verdict::default() };
        }
    }
    verdict.table_end = entries.position();
    if !region.take(verdict.table_end, 4) {
        findings.raise(owner.problem(owner.rows().overlap).detail("at", verdict.table_end as u64));
        return Verdict { broken: true, ..Verdict::default() };
    }
    verdict
}

fn truncated_problem(owner: Owner, truncated: Truncated) -> Problem {
    let rows = owner.rows();
    match truncated.name_len {
        Some(len) => owner.problem(rows.name_outside).stored(len),
        None => owner.problem(rows.overlap),
    }
    .detail("at", truncated.at as u64)
}

/// Whether there is neither a name nor a value: a few bits where zeroes should be. The kernel lists it, and cannot read it.
fn is_nameless(entry: &Entry<'_>) -> bool {
    const LISTED: [u8; 5] = [
        name_index::USER,
        name_index::POSIX_ACL_ACCESS,
        name_index::POSIX_ACL_DEFAULT,
        name_index::TRUSTED,
        name_index::SECURITY,
    ];
    LISTED.contains(&entry.name_index)
        && entry.name.is_empty()
        && entry.value_size == 0
        && entry.value_inode == 0
}

/// Inspects one entry whose place in the table is free. Returns what breaks the layout, if it does.
fn inspect_entry(
    fs: &Fs<'_>,
    owner: Owner,
    area: Area<'_>,
    entry: &Entry<'_>,
    region: &mut Region,
    verdict: &mut Verdict,
    findings: &mut Findings,
) -> Option<Problem> {
    let mut problem = None;
    if owner.block.is_some() && entry.name_index == 0 {
        problem = Some(owner.problem_with(&problems::BLOCK_NAME, entry).detail("at", entry.at as u64));
    }
    if problem.is_none() && is_nameless(entry) {
        problem = Some(owner.problem_with(&problems::NAMELESS, entry).detail("at", entry.at as u64));
    } else if problem.is_none() && names::is_unnamed(entry) {
        let unnamed = owner.problem_with(&problems::UNNAMED, entry).detail("at", entry.at as u64);
        problem = Some(unnamed.stored(entry.value_size));
    }
    if problem.is_none() && entry.value_inode == 0 {
        match inspect_value(owner, area, entry, region) {
            ValueFault::None => {}
            ValueFault::Layout => {
                return Some(owner.problem_with(owner.rows().overlap, entry).detail("at", entry.at as u64));
            }
            ValueFault::Entry(found) => problem = Some(*found),
        }
    }
    if problem.is_none() && entry.value_inode != 0 {
        match value_inode::inspect_reference(fs, owner, entry, &mut verdict.has_read_value, findings) {
            Reference::Good { newly_flagged, charged_bytes, size } => {
                let inode = InodeNo(entry.value_inode);
                verdict.resized.extend((size != entry.value_size).then_some((entry.at, size)));
                verdict.value_inodes.push((inode, entry.hash));
                verdict.newly_flagged.extend(newly_flagged.then_some(inode));
                verdict.charged_bytes = verdict.charged_bytes.saturating_add(charged_bytes);
            }
            Reference::Bad(_) if is_beside(area, entry, owner.block.is_some(), region) => {
                let problem = owner.problem_with(&problems::VALUE_INODE_ASTRAY, entry);
                findings.raise(problem.stored(entry.value_inode));
                verdict.astray.push(entry.at);
            }
            Reference::Bad(found) => problem = Some(*found),
        }
    }
    if problem.is_none() && is_unreadable_list(owner, area, entry) {
        problem = Some(owner.problem_with(&problems::ACL_UNREADABLE, entry));
    }
    match problem {
        None => {
            verdict.kept += 1;
            verdict.tags.extend(wrong_tag(owner, area, entry, findings));
        }
        Some(problem) => {
            findings.raise(problem);
            verdict.bad.push(entry.at..entry.at + entry.table_len());
        }
    }
    None
}

/// Whether an access list cannot be read, nor be restored.
fn is_unreadable_list(owner: Owner, area: Area<'_>, entry: &Entry<'_>) -> bool {
    let is_suspect = owner.block.is_none() && acl::is_suspect_list(entry);
    let range = area.value_range(entry).filter(|_| is_suspect);
    let list = range.and_then(|range| area.bytes.get(range));
    list.is_some_and(|list| !acl::is_readable(list) && acl::restored(list).is_none())
}

/// The tag that an access list has to have, and where in the area, if there is one that cannot be read and can be restored.
fn wrong_tag(
    owner: Owner,
    area: Area<'_>,
    entry: &Entry<'_>,
    findings: &mut Findings,
) -> Option<(usize, u16)> {
    // Of those in blocks, the hash has proved that they are as they were written.
    let is_suspect = owner.block.is_none() && acl::is_suspect_list(entry);
    let range = area.value_range(entry).filter(|_| is_suspect)?;
    let list = area.bytes.get(range.clone())?;
    let (at, tag) = acl::restored(list)?;
    let stored = list.get(at..at + 2)?.first_chunk().copied().map(u16::from_le_bytes)?;
    let problem = owner.problem_with(&problems::ACL_TAG, entry).stored(Value::Hex(stored.into()));
    findings.raise(problem.observed(Value::Hex(tag.into())));
    Some((range.start + at, tag))
}

/// What is wrong with a value.
enum ValueFault {
    None,
    /// It overlaps something: the layout is broken.
    Layout,
    /// Only this entry is wrong.
    Entry(Box<Problem>),
}

/// Inspects a value that lies in the area.
fn inspect_value(owner: Owner, area: Area<'_>, entry: &Entry<'_>, region: &mut Region) -> ValueFault {
    let fault = |row, stored: u32| ValueFault::Entry(Box::new(owner.problem_with(row, entry).stored(stored)));
    let behind_entry = area.bytes.len().saturating_sub(entry.at + entry.table_len());
    if entry.value_size as usize > behind_entry {
        return fault(owner.rows().value_size, entry.value_size);
    }
    let in_block = owner.block.is_some();
    let Some(range) = area.value_range(entry) else {
        // In an inode the place of a value without bytes has been set right before.
        if entry.value_size == 0 && !in_block {
            return check_hash(owner, entry, &[]);
        }
        return fault(owner.rows().value_outside, u32::from(entry.value_offset));
    };
    if !range.is_empty() && !region.take(range.start, padded(range.len())) {
        return ValueFault::Layout;
    }
    // The hash covers the padding, which is zero unless another writer filled it.
    let with_padding = area.bytes.get(range.start..range.start + padded(range.len()));
    check_hash(owner, entry, with_padding.unwrap_or(&area.bytes[range]))
}

/// Whether the value of `entry` lies in the area, and nothing else does there: the one that its hash was made of, or, in an inode, where
/// attributes may have no hash, what stands between the table and the other values at the place that the entry tells. (An entry whose
/// value has an inode of its own tells none.)
fn is_beside(area: Area<'_>, entry: &Entry<'_>, in_block: bool, region: &mut Region) -> bool {
    let entry = Entry { value_inode: 0, ..*entry };
    let Some(range) = area.value_range(&entry).filter(|range| !range.is_empty()) else { return false };
    let range = range.start..range.start + padded(range.len());
    let Some(value) = area.bytes.get(range.clone()) else { return false };
    let signs = [CharSign::Unsigned, CharSign::Signed];
    let is_clean = match entry.hash {
        0 => !in_block && entry.value_offset != 0 && is_free_of_others(area, &entry, &range),
        hash => signs.iter().any(|sign| entry.hash_with_value(value, *sign) == hash),
    };
    is_clean && region.take(range.start, range.len())
}

/// Whether `range` lies behind the table of the area, and holds nothing of the values of other entries than `entry`.
pub(super) fn is_free_of_others(area: Area<'_>, entry: &Entry<'_>, range: &Range<usize>) -> bool {
    let mut entries = area.entries();
    let is_apart =
        |other: Range<usize>| other.is_empty() || other.end <= range.start || range.end <= other.start;
    let is_free = entries.by_ref().all(|other| {
        other.is_ok_and(|other| {
            other.at == entry.at || other.value_inode != 0 || area.value_range(&other).is_none_or(&is_apart)
        })
    });
    is_free && range.start >= entries.position().saturating_add(4)
}

fn check_hash(owner: Owner, entry: &Entry<'_>, value: &[u8]) -> ValueFault {
    // Attributes in inodes carried no hash once; in blocks they always did.
    if entry.hash == 0 && owner.block.is_none() {
        return ValueFault::None;
    }
    let unsigned = entry.hash_with_value(value, CharSign::Unsigned);
    if entry.hash == unsigned || entry.hash == entry.hash_with_value(value, CharSign::Signed) {
        return ValueFault::None;
    }
    let problem = owner.problem_with(&problems::HASH, entry).stored(Value::Hex(u64::from(entry.hash)));
    ValueFault::Entry(Box::new(problem.observed(Value::Hex(u64::from(unsigned)))))
}
