// SPDX-License-Identifier: MIT OR Apache-2.0
//! What in a directory block can be read as a name of a wanted inode, whatever became of the record that it stands in.

use std::ops::Range;

use fsmend_base::InodeNo;
use fsmend_engine::Witness;
use fsmend_ext_format::directory::{ENTRY_HEADER_LEN, Entries, EntryHeader, EntryLayout};

use crate::directory::entry::has_invalid_character;

/// A record that names an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mention<'b> {
    /// Who is named.
    pub inode: InodeNo,
    /// The name.
    pub name: &'b [u8],
    /// The type byte.
    pub file_type: u8,
    /// How well the record stands.
    pub witness: Witness,
}

/// Calls `visit` for every record in `bytes` whose inode and type byte `fits`, in the order of the bytes: whether it stands, was
/// deleted, or lies behind a place where the chain is broken. `first` says that the block begins with `.` and `..`.
pub(super) fn visit<'b>(
    bytes: &'b [u8],
    (layout, first): (EntryLayout, bool),
    fits: &dyn Fn(InodeNo, u8) -> bool,
    visit: &mut dyn FnMut(Mention<'b>),
) {
    let mut sound_end = 0;
    let mut taken = 0;
    for (at, entry) in Entries::new(bytes, layout, first).map_while(Result::ok).enumerate() {
        let is_dot = first && at < 2;
        if entry.header.inode != 0 && !is_dot {
            read(bytes, entry.offset, layout, fits).into_iter().for_each(&mut *visit);
        }
        let own = layout.needed_len(usize::from(entry.header.name_len).max(1), is_dot);
        // What is left of a longer name may reach beyond the record that was put over its beginning.
        taken = taken.max(entry.offset + own);
        sound_end = entry.offset + entry.header.rec_len;
        remains(bytes, taken..sound_end, Witness::DeletedEntry, layout, fits, visit);
    }
    remains(bytes, sound_end..bytes.len(), Witness::BrokenEntry, layout, fits, visit);
}

/// Records in `range` that no chain leads to.
fn remains<'b>(
    bytes: &'b [u8],
    range: Range<usize>,
    witness: Witness,
    layout: EntryLayout,
    fits: &dyn Fn(InodeNo, u8) -> bool,
    visit: &mut dyn FnMut(Mention<'b>),
) {
    let Some(part) = bytes.get(..range.end) else { return };
    let mut at = range.start;
    while at + ENTRY_HEADER_LEN < range.end {
        match read(part, at, layout, fits) {
            Some(mention) => {
                at += layout.needed_len(mention.name.len(), false);
                visit(Mention { witness, ..mention });
            }
            None => at += 4,
        }
    }
}

/// The record at `at`, if it can be a name of an inode that `fits`. (Its length is not asked: it may be what is broken.)
fn read<'b>(
    bytes: &'b [u8],
    at: usize,
    layout: EntryLayout,
    fits: &dyn Fn(InodeNo, u8) -> bool,
) -> Option<Mention<'b>> {
    let header = EntryHeader::at(bytes, at, layout)?;
    let inode = InodeNo(header.inode);
    // Nearly all are other inodes.
    if inode.0 == 0 || !fits(inode, header.file_type) {
        return None;
    }
    let start = at + ENTRY_HEADER_LEN;
    let name = bytes.get(start..start + usize::from(header.name_len))?;
    let is_name = !matches!(name, b"" | b"." | b"..") && !has_invalid_character(name);
    is_name.then_some(Mention { inode, name, file_type: header.file_type, witness: Witness::Entry })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: EntryLayout = EntryLayout { block_size: 1024, hash_behind_name: false };

    fn record(inode: u32, rec_len: u16, name: &str, len: usize) -> Vec<u8> {
        let mut bytes = inode.to_le_bytes().to_vec();
        bytes.extend_from_slice(&rec_len.to_le_bytes());
        bytes.extend_from_slice(&[name.len() as u8, 1]);
        bytes.extend_from_slice(name.as_bytes());
        bytes.resize(len, 0);
        bytes
    }

    fn found(records: &[Vec<u8>], first: bool) -> Vec<(u32, String, Witness)> {
        let bytes = records.concat();
        let mut all = Vec::new();
        visit(
            &bytes,
            (LAYOUT, first),
            &|inode, file_type| (10..20).contains(&inode.0) && file_type == 1,
            &mut |mention| {
                all.push((
                    mention.inode.0,
                    String::from_utf8_lossy(mention.name).into_owned(),
                    mention.witness,
                ));
            },
        );
        all
    }

    #[test]
    fn records_are_told_by_how_they_stand() {
        let records = [
            record(12, 12, "a", 12),
            // Two deleted ones in the slack of this one, and what is no name.
            record(99, 60, "other", 16),
            record(13, 16, "gone", 16),
            record(0, 0, "", 8),
            record(14, 20, "older", 20),
            // From here on the chain is broken.
            record(15, 7, "lost", 12),
            record(16, 12, "f", 12),
            record(17, 12, "g/", 12),
            record(18, 12, "..", 12),
        ];
        let told = |inode, name: &str, witness| (inode, name.to_owned(), witness);
        assert_eq!(
            found(&records, false),
            [
                told(12, "a", Witness::Entry),
                told(13, "gone", Witness::DeletedEntry),
                told(14, "older", Witness::DeletedEntry),
                told(15, "lost", Witness::BrokenEntry),
                told(16, "f", Witness::BrokenEntry),
            ]
        );
    }

    #[test]
    fn a_free_record_hides_its_own_remains_only() {
        let records = [record(0, 40, "", 12), record(13, 12, "x", 28)];
        assert_eq!(found(&records, false), [(13, "x".to_owned(), Witness::DeletedEntry)]);
        assert!(found(&[record(0, 12, "y", 12)], false).is_empty(), "it leads nowhere");
    }

    #[test]
    fn dots_are_no_names() {
        let records = [record(12, 12, ".", 12), record(13, 12, "..", 12), record(14, 12, "c", 12)];
        assert_eq!(found(&records, true), [(14, "c".to_owned(), Witness::Entry)]);
    }

    #[test]
    fn any_bytes_are_read_within_bounds() {
        let mut random = fsmend_base::SeededRandom::new(11);
        for _ in 0..2000 {
            let len = random.below(300) as usize;
            let bytes: Vec<u8> = (0..len).map(|_| random.below(24) as u8).collect();
            found(&[bytes], random.below(2) == 0);
        }
    }
}
