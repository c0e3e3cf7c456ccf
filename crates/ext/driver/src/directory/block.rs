// SPDX-License-Identifier: MIT OR Apache-2.0
//! One block of entries, as bytes: finding, inserting, removing.

use fsmend_base::width;
use fsmend_ext_format::directory::{ENTRY_HEADER_LEN, Entries, Entry, EntryHeader, EntryLayout};

/// An entry that is to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NewEntry<'a> {
    pub name: &'a [u8],
    pub inode: u32,
    /// The type byte, 0 where entries have none.
    pub file_type: u8,
}

/// Where an entry stands in its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spot {
    pub offset: usize,
    /// The entry before it in the block.
    pub before: Option<usize>,
    pub inode: u32,
    pub file_type: u8,
}

/// The entries of a block, or `None` where they cannot be followed to the end. Free records are among them.
pub(crate) fn entries(bytes: &[u8], layout: EntryLayout) -> Option<Vec<Entry<'_>>> {
    Entries::new(bytes, layout, false).collect::<Result<Vec<_>, _>>().ok()
}

/// The entry called `name`; `Err` where the block is broken.
pub(crate) fn find(bytes: &[u8], layout: EntryLayout, name: &[u8]) -> Result<Option<Spot>, ()> {
    let mut before = None;
    for entry in Entries::new(bytes, layout, false) {
        let entry = entry.map_err(|_| ())?;
        let EntryHeader { inode, file_type, .. } = entry.header;
        if inode != 0 && entry.name == name {
            return Ok(Some(Spot { offset: entry.offset, before, inode, file_type }));
        }
        before = Some(entry.offset);
    }
    Ok(None)
}

/// Puts an entry where there is room for it; returns whether there was. `Err` where the block is broken.
pub(crate) fn insert(bytes: &mut [u8], layout: EntryLayout, new: &NewEntry<'_>) -> Result<bool, ()> {
    let needed = layout.needed_len(new.name.len(), true);
    let mut place = None;
    for entry in Entries::new(bytes, layout, false) {
        let entry = entry.map_err(|_| ())?;
        let used = if entry.header.inode == 0 { 0 } else { layout.needed_len(entry.name.len(), true) };
        if entry.header.rec_len >= used + needed {
            place = Some((entry.offset, entry.header, used));
            break;
        }
    }
    let Some((offset, header, used)) = place else { return Ok(false) };
    if used > 0 {
        EntryHeader { rec_len: used, ..header }.store(bytes, offset, layout);
    }
    put(bytes, layout, offset + used, header.rec_len - used, new);
    Ok(true)
}

/// Writes an entry of `rec_len` bytes at `offset`.
pub(crate) fn put(bytes: &mut [u8], layout: EntryLayout, offset: usize, rec_len: usize, new: &NewEntry<'_>) {
    let header = EntryHeader {
        inode: new.inode,
        rec_len,
        name_len: width::len_u8(new.name.len()),
        file_type: new.file_type,
    };
    header.store(bytes, offset, layout);
    let at = offset + ENTRY_HEADER_LEN;
    if let Some(place) = bytes.get_mut(at..at + new.name.len()) {
        place.copy_from_slice(new.name);
    }
}

/// Removes the entry at `spot`: the one before it takes its room, or it becomes free.
pub(crate) fn remove(bytes: &mut [u8], layout: EntryLayout, spot: Spot) {
    let Some(header) = EntryHeader::at(bytes, spot.offset, layout) else { return };
    let before = spot.before.and_then(|at| Some((at, EntryHeader::at(bytes, at, layout)?)));
    match before {
        Some((at, before)) => {
            EntryHeader { rec_len: before.rec_len + header.rec_len, ..before }.store(bytes, at, layout);
        }
        None => EntryHeader { inode: 0, ..header }.store(bytes, spot.offset, layout),
    }
}

/// Lets an entry lead to another inode.
pub(crate) fn redirect(bytes: &mut [u8], layout: EntryLayout, offset: usize, inode: u32, file_type: u8) {
    if let Some(header) = EntryHeader::at(bytes, offset, layout) {
        EntryHeader { inode, file_type, ..header }.store(bytes, offset, layout);
    }
}

/// Fills `bytes` with these entries and no others, which have to fit.
pub(crate) fn fill(bytes: &mut [u8], layout: EntryLayout, all: &[NewEntry<'_>]) {
    bytes.fill(0);
    let mut offset = 0;
    for (index, entry) in all.iter().enumerate() {
        let is_last = index + 1 == all.len();
        let needed = layout.needed_len(entry.name.len(), true);
        let rec_len = if is_last { bytes.len().saturating_sub(offset) } else { needed };
        put(bytes, layout, offset, rec_len, entry);
        offset += needed;
    }
    if all.is_empty() {
        EntryHeader { inode: 0, rec_len: bytes.len(), name_len: 0, file_type: 0 }.store(bytes, 0, layout);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const LAYOUT: EntryLayout = EntryLayout { block_size: 1024, hash_behind_name: false };

    fn names(bytes: &[u8]) -> Vec<Vec<u8>> {
        let all = entries(bytes, LAYOUT).unwrap();
        all.iter().filter(|entry| entry.header.inode != 0).map(|entry| entry.name.to_vec()).collect()
    }

    #[test]
    fn entries_come_and_go() {
        let mut bytes = vec![0; 1024];
        fill(&mut bytes, LAYOUT, &[]);
        let mut count = 0;
        while insert(&mut bytes, LAYOUT, &NewEntry { name: b"abcd", inode: 7, file_type: 1 }).unwrap() {
            count += 1;
        }
        assert_eq!((count, names(&bytes).len()), (1024 / 12, 1024 / 12));
        let spot = find(&bytes, LAYOUT, b"abcd").unwrap().unwrap();
        assert_eq!((spot.offset, spot.before), (0, None));
        remove(&mut bytes, LAYOUT, spot);
        let next = find(&bytes, LAYOUT, b"abcd").unwrap().unwrap();
        assert_eq!((next.offset, next.before), (12, Some(0)));
        remove(&mut bytes, LAYOUT, next);
        assert!(
            insert(&mut bytes, LAYOUT, &NewEntry { name: b"0123456789", inode: 8, file_type: 2 }).unwrap()
        );
        assert_eq!(names(&bytes)[0], b"0123456789");
        assert!(find(&[0; 1024], LAYOUT, b"x").is_err());
    }
}
