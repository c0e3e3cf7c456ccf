// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that hold a zero byte: the kernel refuses all attributes beside such a one, and a file whose data are kept there. And names of access lists,
//! which have none, and access lists under a prefix that takes a name.
//!
//! Either the length of the name was overwritten, so that the entry swallows padding, the end mark or entries behind it: then it is cut to
//! the length with which the table goes on best. Or letters were: they are replaced by others, and the value can be reached again.

use std::mem::offset_of;

use fsmend_engine::Findings;
use fsmend_ext_format::xattr::{Area, CharSign, ENTRY_SIZE, Entry, RawXattrEntry, entry_len, name_index};

use super::area::Owner;
use super::problems::{LIST_PREFIX, LIST_WITH_NAME, NAME_OVERWRITTEN, NAME_WITH_ZERO};
use super::{acl, table_end};

/// Stands for a lost letter.
const UNKNOWN: u8 = b'_';
/// Entries stand at multiples of this.
const UNIT: usize = 4;
/// Prefixes under which programs name attributes as they like.
const NAMED: [u8; 3] = [name_index::USER, name_index::TRUSTED, name_index::SECURITY];
/// The numbers of prefixes that there are.
const PREFIXES: std::ops::RangeInclusive<u8> = 1..=10;

/// Mends the names in `bytes`, the bytes of an area whose entries and values are counted from `places`; whether any was wrong.
pub(super) fn mend(
    owner: Owner,
    bytes: &mut [u8],
    (entries_at, values_at): (usize, usize),
    findings: &mut Findings,
) -> bool {
    let mut changed = false;
    let mut at = entries_at;
    let mut tables = None;
    // Where the first of the values begins.
    let mut values = bytes.len();
    while let Some(Ok(entry)) = (Area { bytes, entries_at: at, values_at }).entries().next() {
        at += entry.table_len();
        let value =
            Area { bytes, entries_at, values_at }.value_range(&entry).filter(|value| !value.is_empty());
        values = value.map_or(values, |value| value.start.min(values));
        let area = Area { bytes, entries_at, values_at };
        if let Some(index) = list_prefix(area, &entry) {
            let problem = owner.problem_with(&LIST_PREFIX, &Entry { name_index: index, ..entry });
            findings.raise(problem.detail("at", entry.at as u64));
            bytes[entry.at + offset_of!(RawXattrEntry, e_name_index)] = index;
            changed = true;
            continue;
        }
        if !entry.name.contains(&0) && (!is_list(&entry) || entry.name.is_empty()) {
            continue;
        }
        let tables = tables.get_or_insert_with(|| tables_from(area));
        let (start, stored) = (entry.at, entry.name.len());
        match right_len(owner, area, &entry, (tables, values)) {
            Some(len) => {
                let cut = Entry { name: entry.name.get(..len).unwrap_or_default(), ..entry };
                findings.raise(owner.problem_with(&NAME_WITH_ZERO, &cut).stored(stored as u64));
                bytes[start + offset_of!(RawXattrEntry, e_name_len)] = len as u8;
                at = start + entry_len(len as u8);
                if table_end::is_bare_mark(bytes, at, values) {
                    table_end::put(owner, bytes, at, findings);
                    return true;
                }
            }
            None if !entry.name.contains(&0) => {
                let index = likely_prefix(area, start);
                let problem = owner.problem_with(&LIST_WITH_NAME, &Entry { name_index: index, ..entry });
                findings.raise(problem.detail("at", start as u64));
                bytes[start + offset_of!(RawXattrEntry, e_name_index)] = index;
            }
            None => {
                let name: Vec<u8> =
                    entry.name.iter().map(|byte| if *byte == 0 { UNKNOWN } else { *byte }).collect();
                let problem = owner.problem_with(&NAME_OVERWRITTEN, &Entry { name: &name, ..entry });
                findings.raise(problem.detail("at", start as u64));
                bytes[start + ENTRY_SIZE..][..stored].copy_from_slice(&name);
            }
        }
        changed = true;
    }
    changed
}

/// For every place where an entry could stand: how many make a table from there to an end mark; `None` where that is no table.
fn tables_from(area: Area<'_>) -> Vec<Option<u32>> {
    let places = area.bytes.len() / UNIT;
    let mut tables = vec![None; places];
    for place in (0..places).rev() {
        let mut entries = Area { entries_at: place * UNIT, ..area }.entries();
        tables[place] = match entries.next() {
            None => Some(0),
            Some(Ok(entry)) if is_plausible(area, &entry) => {
                let behind = tables.get(entries.position() / UNIT).copied().flatten();
                behind.map(|count| count + 1)
            }
            Some(_) => None,
        };
    }
    tables
}

/// Whether an entry has no name, although its prefix takes one.
pub(super) fn is_unnamed(entry: &Entry<'_>) -> bool {
    NAMED.contains(&entry.name_index) && entry.name.is_empty()
}

/// The prefix of an access list, where one stands under a prefix that takes a name: the list of the file, or the default list if there is one
/// of the file already.
fn list_prefix(area: Area<'_>, entry: &Entry<'_>) -> Option<u8> {
    let value = area.value(entry).filter(|_| is_unnamed(entry) && entry.value_inode == 0)?;
    if acl::complete_len(value) != Some(value.len()) {
        return None;
    }
    let has = |index| area.entries().map_while(Result::ok).any(|other| other.name_index == index);
    [name_index::POSIX_ACL_ACCESS, name_index::POSIX_ACL_DEFAULT].into_iter().find(|index| !has(*index))
}

/// The prefix of an entry at `start` that has that of an access list, and a name: what the other entries have, if they agree.
fn likely_prefix(area: Area<'_>, start: usize) -> u8 {
    let others = area.entries().map_while(Result::ok).filter(|other| other.at != start && !is_list(other));
    let mut prefixes = others.map(|other| other.name_index).filter(|index| NAMED.contains(index));
    let first = prefixes.next().unwrap_or(name_index::USER);
    if prefixes.all(|other| other == first) { first } else { name_index::USER }
}

/// Whether this is an access list, whose prefix is the whole name: with more letters the kernel does not find it.
fn is_list(entry: &Entry<'_>) -> bool {
    matches!(entry.name_index, name_index::POSIX_ACL_ACCESS | name_index::POSIX_ACL_DEFAULT)
}

/// Whether this can be an entry, though its name may have to be mended.
fn is_plausible(area: Area<'_>, entry: &Entry<'_>) -> bool {
    let has_value = entry.value_inode != 0 || area.value_range(entry).is_some();
    (!entry.name.is_empty() || is_list(entry)) && PREFIXES.contains(&entry.name_index) && has_value
}

/// The length that the name has to have, if it is that which is wrong: the table behind has to be one, and to hold as many entries as can
/// be; of several lengths, the largest.
fn right_len(
    owner: Owner,
    area: Area<'_>,
    entry: &Entry<'_>,
    (tables, values): (&[Option<u32>], usize),
) -> Option<usize> {
    let table_behind = |len: usize| {
        let place = entry.at + entry_len(len as u8);
        let is_end = || is_list(entry) && table_end::is_bare_mark(area.bytes, place, values);
        tables.get(place / UNIT).copied().flatten().or_else(|| is_end().then_some(0))
    };
    let lengths = match is_list(entry) {
        true => 0..=0,
        false => 1..=entry.name.iter().position(|byte| *byte == 0)?,
    };
    let is_padded = |len: usize| {
        let name = entry.at + ENTRY_SIZE;
        let padding = area.bytes.get(name + len..entry.at + entry_len(len as u8));
        padding.is_some_and(|padding| padding.iter().all(|byte| *byte == 0))
    };
    let candidates = lengths.filter(|len| is_padded(*len) && has_right_hash(owner, area, entry, *len));
    let (count, len) = candidates.filter_map(|len| Some((table_behind(len)?, len))).max()?;
    // Where only letters are wrong, the table goes on behind the name as it is.
    (is_list(entry) || table_behind(entry.name.len()).is_none_or(|as_it_is| as_it_is <= count)).then_some(len)
}

/// Whether the name, if it ends there, goes with the hash of the entry, as far as that can be told here.
fn has_right_hash(owner: Owner, area: Area<'_>, entry: &Entry<'_>, len: usize) -> bool {
    if entry.value_inode != 0 || (entry.hash == 0 && owner.block.is_none()) {
        return true;
    }
    let cut = Entry { name: entry.name.get(..len).unwrap_or_default(), ..*entry };
    let Some(value) = area.value(entry) else { return true };
    [CharSign::Unsigned, CharSign::Signed].iter().any(|sign| cut.hash_with_value(value, *sign) == entry.hash)
}
