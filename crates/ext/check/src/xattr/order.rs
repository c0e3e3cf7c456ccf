// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of the entries in an attribute block: the kernel searches only as far as the place where the name would be.

use fsmend_engine::Findings;
use fsmend_ext_format::xattr::{Area, Entry};

use super::area::Owner;
use super::problems::BLOCK_ORDER;

/// By what entries are sorted.
fn key<'e>(entry: &Entry<'e>) -> (u8, usize, &'e [u8]) {
    (entry.name_index, entry.name.len(), entry.name)
}

/// Sorts the entries in `bytes`, an attribute block whose layout is sound; returns whether they were out of order.
pub(super) fn mend(owner: Owner, bytes: &mut [u8], findings: &mut Findings) -> bool {
    let area = Area::of_block(bytes);
    let start = area.entries_at;
    let mut entries: Vec<Entry<'_>> = area.entries().map_while(Result::ok).collect();
    let late = entries.iter().zip(entries.iter().skip(1)).find(|(first, second)| key(first) > key(second));
    let Some((_, late)) = late else { return false };
    findings.raise(owner.problem_with(&BLOCK_ORDER, late));
    entries.sort_by(|one, other| key(one).cmp(&key(other)));
    let records = entries.iter().filter_map(|entry| bytes.get(entry.at..entry.at + entry.table_len()));
    let table = records.collect::<Vec<_>>().concat();
    if let Some(place) = bytes.get_mut(start..start + table.len()) {
        place.copy_from_slice(&table);
    }
    true
}
