// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that hold a zero byte: the kernel refuses all attributes beside such a one, and a file whose data are kept there. And names of access lists,
//! which have none, access lists under a prefix that takes a name, and names whose length is 0.
//!
//! Either the length of the name was overwritten, so that the entry swallows padding, the end mark or entries behind it, or leaves its name to
//! be taken for the next entry: then it gets the length with which the table goes on best. Or letters were: they are replaced by others, and the
//! value can be reached again.

use std::mem::offset_of;
use std::ops::RangeInclusive;

use fsmend_base::width;
use fsmend_engine::Findings;
use fsmend_ext_format::xattr::{
    Area, CharSign, ENTRY_SIZE, Entry, RawXattrEntry, entry_len, name_index, prefix,
};

use super::area::Owner;
use super::problems::{LIST_PREFIX, LIST_WITH_NAME, NAME_LENGTH, NAME_OVERWRITTEN, NAME_WITH_ZERO};
use super::{acl, table_end};

/// Stands for a lost letter.
const UNKNOWN: u8 = b'_';
/// Entries stand at multiples of this.
const UNIT: usize = 4;
/// Prefixes under which programs name attributes as they like.
const NAMED: [u8; 3] = [name_index::USER, name_index::TRUSTED, name_index::SECURITY];
/// The numbers of prefixes that there are.
const PREFIXES: RangeInclusive<u8> = 1..=10;

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
        let has_lost_name = entry.name.is_empty() && prefix(entry.name_index).ends_with('.');
        if !entry.name.contains(&0) && !has_lost_name && (!is_list(&entry) || entry.name.is_empty()) {
            continue;
        }
        let tables = tables.get_or_insert_with(|| tables_from(area));
        let (start, stored) = (entry.at, entry.name.len());
        if has_lost_name {
            let Some(name) = lost_name(owner, area, &entry, (tables, values)) else { continue };
            let problem = owner.problem_with(&NAME_LENGTH, &Entry { name, ..entry });
            findings.raise(problem.detail("at", start as u64).observed(name.len() as u64));
            at = start + entry_len(width::len_u8(name.len()));
            bytes[start + offset_of!(RawXattrEntry, e_name_len)] = width::len_u8(name.len());
            changed = true;
            continue;
        }
        match right_len(owner, area, &entry, (tables, values)) {
            Some(len) => {
                let cut = Entry { name: entry.name.get(..len).unwrap_or_default(), ..entry };
                findings.raise(owner.problem_with(&NAME_WITH_ZERO, &cut).stored(stored as u64));
                bytes[start + offset_of!(RawXattrEntry, e_name_len)] = width::len_u8(len);
                at = start + entry_len(width::len_u8(len));
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
        let place = entry.at + entry_len(width::len_u8(len));
        let is_end = || is_list(entry) && table_end::is_bare_mark(area.bytes, place, values);
        table_at(tables, place).or_else(|| is_end().then_some(0))
    };
    let lengths = match is_list(entry) {
        true => 0..=0,
        false => lengths_before(entry.name.iter().position(|byte| *byte == 0)?),
    };
    let is_right = |len: &usize| {
        let name = entry.name.get(..*len).unwrap_or_default();
        is_padded(area, entry, *len) && has_right_hash(owner, area, &Entry { name, ..*entry })
    };
    let candidates = lengths.filter(is_right);
    let (count, len) = candidates.filter_map(|len| Some((table_behind(len)?, len))).max()?;
    // Where only letters are wrong, the table goes on behind the name as it is.
    (is_list(entry) || table_behind(entry.name.len()).is_none_or(|as_it_is| as_it_is <= count)).then_some(len)
}

/// The name of an entry whose name length is 0, if only one can be: letters that go with the hash, and behind which the table goes on. Without a
/// hash it is the name behind which there are most entries, and more than there would be without it.
fn lost_name<'a>(
    owner: Owner,
    area: Area<'a>,
    entry: &Entry<'_>,
    (tables, values): (&[Option<u32>], usize),
) -> Option<&'a [u8]> {
    let start = entry.at + ENTRY_SIZE;
    let behind = area.bytes.get(start..values)?;
    let zero = behind.iter().position(|byte| *byte == 0).unwrap_or(behind.len());
    let candidates = lengths_before(zero).filter_map(|len| {
        let name = behind.get(..len)?;
        let is_right = is_padded(area, entry, len) && has_right_hash(owner, area, &Entry { name, ..*entry });
        Some((table_at(tables, entry.at + entry_len(width::len_u8(len)))?, name)).filter(|_| is_right)
    });
    let candidates: Vec<(u32, &[u8])> = candidates.collect();
    let most = candidates.iter().map(|(count, _)| *count).max()?;
    let mut names = candidates.iter().filter(|(count, _)| *count == most).map(|(_, name)| *name);
    let name = names.next().filter(|_| names.next().is_none())?;
    let is_hashed = entry.hash != 0 && entry.value_inode == 0 && area.value(entry).is_some();
    (is_hashed || table_at(tables, start).is_none_or(|unnamed| unnamed < most)).then_some(name)
}

/// The lengths that a name can have whose first zero, in or behind it, is at `zero`. The next entry holds a zero, too: in the number of its EA inode if
/// nowhere before. So few hashes are computed for an entry, whatever it holds.
fn lengths_before(zero: usize) -> RangeInclusive<usize> {
    zero.saturating_sub(offset_of!(RawXattrEntry, e_value_size)).max(1)..=zero.min(u8::MAX.into())
}

/// How many entries make a table from `place`; `None` where that is no table.
fn table_at(tables: &[Option<u32>], place: usize) -> Option<u32> {
    tables.get(place / UNIT).copied().flatten()
}

/// Whether only zeroes stand between the name of an entry, if it has `len` bytes, and the next entry.
fn is_padded(area: Area<'_>, entry: &Entry<'_>, len: usize) -> bool {
    let padding = area.bytes.get(entry.at + ENTRY_SIZE + len..entry.at + entry_len(width::len_u8(len)));
    padding.is_some_and(|padding| padding.iter().all(|byte| *byte == 0))
}

/// Whether the name goes with the hash of the entry, as far as that can be told here.
fn has_right_hash(owner: Owner, area: Area<'_>, entry: &Entry<'_>) -> bool {
    if entry.value_inode != 0 || (entry.hash == 0 && owner.block.is_none()) {
        return true;
    }
    let Some(value) = area.value(entry) else { return true };
    [CharSign::Unsigned, CharSign::Signed]
        .iter()
        .any(|sign| entry.hash_with_value(value, *sign) == entry.hash)
}
