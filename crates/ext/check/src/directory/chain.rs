// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of one block as a chain: where it is broken, it is mended so that as many entries as possible stay.
//!
//! After [`mend`] the bytes are a sound chain of records from start to end, whatever they were before. The work is
//! linear in the number of bytes.

use std::cell::OnceCell;

use fsmend_base::width;
use fsmend_ext_format::directory::{
    BrokenRecord, ENTRY_HEADER_LEN, ENTRY_LEN_MIN, Entry, EntryHeader, EntryLayout,
};

/// A place where the chain was broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Break {
    /// Where the broken record began.
    pub offset: usize,
    /// The length that it stored, 0 where there was no room for one.
    pub stored_len: usize,
    /// What was the matter.
    pub why: BrokenRecord,
}

/// How a broken record is mended.
enum Remedy {
    /// It is a bare header: what follows moves over it, this many bytes up.
    MoveUp(usize),
    /// Its length is cut to this.
    CutTo(usize),
    /// The record before it takes over this many bytes.
    Absorb(usize),
    /// There is no record before it, but its length can be believed: it becomes free.
    Free(usize),
    /// Nothing behind can be followed: one free record takes the rest.
    FreeRest,
}

/// What mending needs to know of the file system.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChainRules {
    /// How records are laid out.
    pub layout: EntryLayout,
    /// Highest inode number; a record that claims a higher one is not worth saving.
    pub inodes_count: u32,
    /// Whether the chain begins with `.` and `..`.
    pub first: bool,
}

/// Mends the chain of records that fills `bytes`. Calls `report` for each place where it was broken.
pub(super) fn mend(bytes: &mut [u8], rules: ChainRules, report: &mut dyn FnMut(Break)) {
    let layout = rules.layout;
    let (mut offset, mut previous, mut index) = (0, None, 0u32);
    let mut sound = SoundPlaces::default();
    while offset < bytes.len() {
        let is_dot = rules.first && index < 2;
        match Entry::at(bytes, offset, layout, is_dot) {
            Ok(entry) => {
                previous = Some(offset);
                offset += entry.header.rec_len;
                index += 1;
            }
            Err(why) => {
                let stored_len = EntryHeader::at(bytes, offset, layout).map_or(0, |header| header.rec_len);
                report(Break { offset, stored_len, why });
                let remedy = remedy(bytes, rules, &sound, offset, previous.is_some(), is_dot);
                if let Remedy::MoveUp(_) = remedy {
                    sound = SoundPlaces::default();
                }
                offset = apply(bytes, layout, offset, previous, remedy);
            }
        }
    }
}

/// Applies the remedy and returns where to go on.
fn apply(
    bytes: &mut [u8],
    layout: EntryLayout,
    offset: usize,
    previous: Option<usize>,
    remedy: Remedy,
) -> usize {
    let room = bytes.len() - offset;
    match (remedy, previous) {
        (Remedy::MoveUp(by), _) => {
            bytes.copy_within(offset + by.., offset);
            let len = bytes.len();
            bytes[len - by..].fill(0);
            offset
        }
        (Remedy::CutTo(len), _) => {
            set_len(bytes, offset, layout, len);
            offset
        }
        (Remedy::Absorb(len), Some(previous)) => {
            set_len(bytes, previous, layout, offset + len - previous);
            offset + len
        }
        (Remedy::FreeRest, Some(previous)) => {
            set_len(bytes, previous, layout, bytes.len() - previous);
            bytes.len()
        }
        (Remedy::Free(len), _) => free(bytes, offset, layout, len),
        (Remedy::Absorb(_) | Remedy::FreeRest, None) => free(bytes, offset, layout, room),
    }
}

/// Makes a free record of `len` bytes; returns where it ends.
fn free(bytes: &mut [u8], offset: usize, layout: EntryLayout, len: usize) -> usize {
    EntryHeader { inode: 0, rec_len: len, name_len: 0, file_type: 0 }.store(bytes, offset, layout);
    offset + len
}

fn remedy(
    bytes: &[u8],
    rules: ChainRules,
    sound: &SoundPlaces,
    offset: usize,
    has_previous: bool,
    is_dot: bool,
) -> Remedy {
    let layout = rules.layout;
    let room = bytes.len() - offset;
    let Some(header) = EntryHeader::at(bytes, offset, layout) else { return Remedy::Absorb(room) };
    let len = header.rec_len;
    let is_bare = len == ENTRY_HEADER_LEN && room - len >= layout.needed_len(1, is_dot);
    if is_bare && has_previous {
        return Remedy::Absorb(len);
    }
    if is_bare {
        return Remedy::MoveUp(bare_headers(bytes, offset, layout));
    }
    let leads_on = len % 4 == 0 && len <= room && len >= layout.needed_len(1, is_dot);
    match (leads_on, has_previous) {
        (true, true) => Remedy::Absorb(len),
        (true, false) => Remedy::Free(len),
        _ => astray(bytes, (rules, sound), offset, header, (has_previous, is_dot)),
    }
}

/// What to do about a record whose length cannot be: it reaches to where sound records begin again that lead to the end. Where none
/// do, a record that reaches beyond the end is cut. The name is kept if it can be one.
fn astray(
    bytes: &[u8],
    (rules, sound): (ChainRules, &SoundPlaces),
    offset: usize,
    header: EntryHeader,
    (has_previous, is_dot): (bool, bool),
) -> Remedy {
    let (layout, room) = (rules.layout, bytes.len() - offset);
    let name_len = usize::from(header.name_len);
    let name = bytes.get(offset + ENTRY_HEADER_LEN..offset + ENTRY_HEADER_LEN + name_len);
    let is_whole = name.is_some_and(|name| !name.contains(&0)) && header.inode <= rules.inodes_count;
    let needed = layout.needed_len(name_len.max(1), is_dot);
    let next = if is_whole { sound.from(bytes, rules, offset + needed) } else { None };
    if let Some(next) = next.filter(|_| name_len > 0) {
        return Remedy::CutTo(next - offset);
    }
    let shortest = if has_previous { ENTRY_HEADER_LEN } else { layout.needed_len(1, is_dot) };
    if let Some(next) = sound.from(bytes, rules, offset + shortest) {
        return if has_previous { Remedy::Absorb(next - offset) } else { Remedy::Free(next - offset) };
    }
    let has_room = needed <= room && room.is_multiple_of(4);
    let is_last = || name_len > 0 && header.inode != 0 && is_zero_from(bytes, offset + needed);
    let could_be_cut = has_room && (header.rec_len > room || is_last());
    if could_be_cut && is_whole { Remedy::CutTo(room) } else { Remedy::FreeRest }
}

/// Whether nothing but zeroes is in `bytes` from `at` on.
fn is_zero_from(bytes: &[u8], at: usize) -> bool {
    bytes.get(at..).is_none_or(|rest| rest.iter().all(|byte| *byte == 0))
}

/// Where sound records with names that can be begin that lead to the end of the block. Found out once, when it is first asked for: mending
/// goes from the start to the end, and what lies behind the broken record stays as it is until the mending gets there (but when it is moved up).
#[derive(Default)]
struct SoundPlaces(OnceCell<Vec<u32>>);

/// The highest number of a type of file.
const TYPE_MAX: u8 = 7;
/// No place.
const NOWHERE: u32 = u32::MAX;

impl SoundPlaces {
    /// The first of them from `start` on.
    fn from(&self, bytes: &[u8], rules: ChainRules, start: usize) -> Option<usize> {
        let nearest = self.0.get_or_init(|| nearest_sound(bytes, rules));
        nearest.get(start.div_ceil(4)).filter(|place| **place != NOWHERE).map(|place| *place as usize)
    }
}

/// For every fourth byte: the first place there or behind from which sound records lead to the end. A record is sound for that, too, if nothing but
/// its length cannot be, and others go on behind its name, where it will be cut, or it is the last one. (Where two lengths are wrong, the names between
/// them stay.)
fn nearest_sound(bytes: &[u8], rules: ChainRules) -> Vec<u32> {
    let mut nearest = vec![NOWHERE; bytes.len() / 4];
    let mut next = NOWHERE;
    let zeroes = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    // From the last place to the first: where a record leads to is known by then.
    for place in (0..nearest.len()).rev() {
        let at = 4 * place;
        let Some(header) = EntryHeader::at(bytes, at, rules.layout) else { continue };
        let is_sound = |end: usize| end == bytes.len() || nearest.get(end / 4) == Some(&width::len_u32(end));
        // Nearly all places lead nowhere, so that this is asked first.
        let leads_on = is_sound(at + header.rec_len) && is_plausible(bytes, rules, at);
        let reaches_out = header.rec_len > bytes.len() - at;
        let goes_on = |end: usize| is_sound(end) || end >= zeroes || reaches_out;
        if leads_on || cut_end(bytes, rules, at, header).is_some_and(goes_on) {
            next = width::len_u32(at);
        }
        nearest[place] = next;
    }
    nearest
}

/// The end of a record that is cut to its name, where its length cannot be and all else can.
fn cut_end(bytes: &[u8], rules: ChainRules, at: usize, header: EntryHeader) -> Option<usize> {
    let room = bytes.len() - at;
    let is_dot_dot = rules.first && at == ENTRY_LEN_MIN;
    let name_len = usize::from(header.name_len);
    let needed = rules.layout.needed_len(name_len, is_dot_dot);
    let can_be = header.rec_len.is_multiple_of(4) && (needed..=room).contains(&header.rec_len);
    let is_named = header.inode != 0 && header.inode <= rules.inodes_count && header.file_type <= TYPE_MAX;
    if can_be || !is_named || name_len == 0 || needed > room {
        return None;
    }
    let name = bytes.get(at + ENTRY_HEADER_LEN..at + ENTRY_HEADER_LEN + name_len)?;
    (!name.contains(&0)).then_some(at + needed)
}

/// Whether a sound record is at `at`, free or with a name that can be.
fn is_plausible(bytes: &[u8], rules: ChainRules, at: usize) -> bool {
    let is_dot_dot = rules.first && at == ENTRY_LEN_MIN;
    Entry::at(bytes, at, rules.layout, is_dot_dot).is_ok_and(|entry| {
        let name_can_be = !entry.name.is_empty() && !entry.name.contains(&0);
        entry.header.inode == 0 || entry.header.inode <= rules.inodes_count && name_can_be
    })
}

/// How many bytes the run of bare headers at `offset` takes. (They are removed at once: moving the rest of the block up
/// for each of them would take time that grows with the square of their number.)
fn bare_headers(bytes: &[u8], offset: usize, layout: EntryLayout) -> usize {
    let mut end = offset;
    while bytes.len() - end >= 2 * ENTRY_HEADER_LEN
        && EntryHeader::at(bytes, end, layout).is_some_and(|header| header.rec_len == ENTRY_HEADER_LEN)
    {
        end += ENTRY_HEADER_LEN;
    }
    (end - offset).max(ENTRY_HEADER_LEN)
}

fn set_len(bytes: &mut [u8], offset: usize, layout: EntryLayout, rec_len: usize) {
    if let Some(header) = EntryHeader::at(bytes, offset, layout) {
        EntryHeader { rec_len, ..header }.store(bytes, offset, layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsmend_ext_format::directory::Entries;

    const LAYOUT: EntryLayout = EntryLayout { block_size: 1024, hash_behind_name: false };
    const RULES: ChainRules = ChainRules { layout: LAYOUT, inodes_count: 100, first: false };

    fn record(inode: u32, rec_len: u16, name: &[u8], len: usize) -> Vec<u8> {
        let mut bytes = inode.to_le_bytes().to_vec();
        bytes.extend_from_slice(&rec_len.to_le_bytes());
        bytes.extend_from_slice(&[name.len() as u8, 1]);
        bytes.extend_from_slice(name);
        bytes.resize(len, 0);
        bytes
    }

    fn mended(records: &[Vec<u8>]) -> (usize, Vec<(u32, Vec<u8>)>) {
        let mut bytes = records.concat();
        let mut breaks = 0;
        mend(&mut bytes, RULES, &mut |_| breaks += 1);
        let entries: Vec<_> = Entries::new(&bytes, LAYOUT, false).flatten().collect();
        let end = entries.last().map(|entry| entry.offset + entry.header.rec_len);
        assert_eq!(end, Some(bytes.len()), "the chain is sound to its end");
        let named = entries.iter().filter(|e| e.header.inode != 0);
        (breaks, named.map(|entry| (entry.header.inode, entry.name.to_vec())).collect())
    }

    fn names(list: &[(u32, &str)]) -> Vec<(u32, Vec<u8>)> {
        list.iter().map(|(inode, name)| (*inode, name.as_bytes().to_vec())).collect()
    }

    #[test]
    fn a_sound_chain_stays() {
        let found = mended(&[record(12, 12, b"a", 12), record(13, 500, b"b", 500)]);
        assert_eq!(found, (0, names(&[(12, "a"), (13, "b")])));
    }

    #[test]
    fn a_record_beyond_the_end_is_cut() {
        let found = mended(&[record(12, 12, b"a", 12), record(13, 600, b"b", 500)]);
        assert_eq!(found, (1, names(&[(12, "a"), (13, "b")])));
    }

    #[test]
    fn bare_headers_are_closed_up() {
        let bare = || record(9, 8, b"", 8);
        let found = mended(&[bare(), bare(), record(13, 12, b"b", 12), bare(), record(14, 40, b"c", 40)]);
        assert_eq!(found.1, names(&[(13, "b"), (14, "c")]));
    }

    #[test]
    fn a_name_beyond_its_record_costs_one_entry() {
        let found =
            mended(&[record(12, 12, b"a", 12), record(13, 12, b"longer", 12), record(14, 12, b"c", 12)]);
        assert_eq!(found, (1, names(&[(12, "a"), (14, "c")])));
    }

    #[test]
    fn a_first_record_that_holds_no_name_costs_one_entry() {
        let found =
            mended(&[record(12, 12, b"longer", 12), record(13, 12, b"b", 12), record(14, 40, b"c", 40)]);
        assert_eq!(found, (1, names(&[(13, "b"), (14, "c")])));
    }

    #[test]
    fn sound_records_behind_a_broken_one_are_found_again() {
        let rest = || [record(14, 12, b"c", 12), record(15, 40, b"d", 40)].concat();
        for len in [0, 7, 9000] {
            let found = mended(&[record(12, 12, b"a", 12), record(13, len, b"b", 12), rest()]);
            assert_eq!(found, (1, names(&[(12, "a"), (13, "b"), (14, "c"), (15, "d")])), "{len}");
            let found = mended(&[record(13, len, b"b", 12), rest()]);
            assert_eq!(found, (1, names(&[(13, "b"), (14, "c"), (15, "d")])), "{len}");
            let found = mended(&[record(12, 12, b"a", 12), record(1300, len, b"b", 12), rest()]);
            assert_eq!(found, (1, names(&[(12, "a"), (14, "c"), (15, "d")])), "{len}");
        }
    }

    #[test]
    fn names_between_two_wrong_lengths_stay() {
        for (first, second) in [(0, 0), (9000, 1040), (10, 6), (2000, 13)] {
            let records = [
                record(12, first, b"a", 12),
                record(13, 16, b"bbbb", 16),
                record(14, 16, b"ccccc", 16),
                record(15, second, b"dddd", 12),
                record(16, 12, b"e", 12),
                record(17, second, b"ff", 12),
                record(18, 40, b"g", 40),
            ];
            let all =
                [(12, "a"), (13, "bbbb"), (14, "ccccc"), (15, "dddd"), (16, "e"), (17, "ff"), (18, "g")];
            assert_eq!(mended(&records), (3, names(&all)), "{first} {second}");
        }
    }

    #[test]
    fn names_between_a_wrong_length_and_the_wrong_length_of_the_last_one_stay() {
        for (first, last) in [(0xB40C, 0xB820), (7, 7), (0, 0xB820), (9000, 6)] {
            let records =
                [record(12, first, b"a", 12), record(13, 12, b"b", 12), record(14, last, b"c", 400)];
            let rules = ChainRules { first: true, ..RULES };
            let dots = [record(12, first, b".", 12), record(2, 12, b"..", 12), record(14, last, b"c", 400)];
            assert_eq!(mended(&records), (2, names(&[(12, "a"), (13, "b"), (14, "c")])), "{first} {last}");
            let mut bytes = dots.concat();
            mend(&mut bytes, rules, &mut |_| ());
            assert_eq!(Entries::new(&bytes, LAYOUT, true).flatten().count(), 3, "{first} {last}");
        }
    }

    #[test]
    fn a_wrong_length_does_not_bring_back_what_was_free() {
        // What was removed lies in the room behind a name, with zeroes around it.
        let free = [vec![0; 24], record(30, 12, b"old", 12), vec![0; 12]].concat();
        let behind = [record(13, 9, b"b", 12), record(14, 40, b"c", 40)].concat();
        let whole = record(12, 60, b"a", 12);
        let found = mended(&[record(11, 6, b"z", 12), whole, free, behind]);
        assert_eq!(found, (2, names(&[(11, "z"), (12, "a"), (13, "b"), (14, "c")])));
    }

    #[test]
    fn broken_dots_cost_nothing() {
        let rules = ChainRules { first: true, ..RULES };
        let records = [record(12, 12, b".", 12), record(2, 12, b"..", 12), record(14, 40, b"c", 40)];
        for broken in [4, 16] {
            for len in [0u16, 7, 9000] {
                let mut bytes = records.concat();
                bytes[broken..broken + 2].copy_from_slice(&len.to_le_bytes());
                mend(&mut bytes, rules, &mut |_| ());
                assert_eq!(bytes, records.concat(), "{broken} {len}");
            }
        }
    }

    #[test]
    fn nonsense_becomes_free() {
        assert_eq!(mended(&[vec![0; 64]]), (1, vec![]));
        assert_eq!(mended(&[record(12, 12, b"a", 12), vec![0xA5; 64]]), (1, names(&[(12, "a")])));
    }

    #[test]
    fn any_bytes_become_a_sound_chain() {
        let mut random = fsmend_base::SeededRandom::new(7);
        for _ in 0..2000 {
            let len = 4 * (3 + random.below(60) as usize);
            let small = random.below(2) == 0;
            let bytes =
                (0..len).map(|_| if small { random.below(24) as u8 } else { random.next_u64() as u8 });
            mended(&[bytes.collect()]);
        }
    }
}
