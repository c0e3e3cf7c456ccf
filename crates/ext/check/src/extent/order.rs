// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which entries of a leaf are out of order: as few as can be.
//!
//! One wrong entry must not take its sound neighbours along. If the entries do not ascend, the longest run of them that does is
//! believed. And an entry that covers the starts of several others that are in order among themselves is too long: it is cut. So is one
//! that reaches over its neighbour both in the file and on the disk: no wrong start of the neighbour would do both.

use fsmend_ext_format::extent::Extent;

/// Blocks of the longest extent.
const LENGTH_MAX: u32 = 1 << 15;

/// What becomes of the entries: their lengths, `None` for those that stand in the wrong place. Entries that `counts` does not hold for
/// are left to be judged by themselves.
pub(super) fn settle(entries: &[Extent], counts: impl Fn(&Extent) -> bool) -> Vec<Option<u32>> {
    let mut lengths: Vec<Option<u32>> = entries.iter().map(|entry| Some(entry.count)).collect();
    let candidates: Vec<usize> = (0..entries.len()).filter(|at| counts(&entries[*at])).collect();
    let starts: Vec<u32> = candidates.iter().map(|at| entries[*at].logical).collect();
    let chosen = if starts.is_sorted() { (0..starts.len()).collect() } else { longest_ascending(&starts) };
    for place in (0..candidates.len()).filter(|place| chosen.binary_search(place).is_err()) {
        lengths[candidates[place]] = None;
    }
    let mut on_disk = None;
    for (nth, place) in chosen.iter().enumerate() {
        let entry = &entries[candidates[*place]];
        let next = chosen.get(nth + 1).map(|place| starts[*place]);
        let after = chosen.get(nth + 2).map(|place| u64::from(starts[*place]));
        let covers = |start: u64| start < entry.logical_end();
        let Some(room) = next.filter(|next| covers((*next).into())).map(|next| next - entry.logical) else {
            continue;
        };
        let on_disk = on_disk.get_or_insert_with(|| starts_on_disk(&candidates, entries));
        let free = room_on_disk(entry, on_disk);
        if after.is_some_and(covers) || (room > 0 && free.is_some()) {
            let length = free.map_or(room, |free| free.min(room));
            lengths[candidates[*place]] = Some(length).filter(|length| *length > 0);
        }
    }
    lengths
}

/// Entries that stand in the wrong place, and the places that they belong to: what their neighbours leave free between `start` and `end` is as
/// long as they are, and these neighbours go with the ones behind them. Left out is where that could be said of two. Behind the end may only lie
/// what is not written yet, if the end `binds`.
pub(super) fn astray(entries: &[Extent], start: u64, end: u64, binds: bool) -> Vec<(usize, u32)> {
    let begins = |at: usize| entries.get(at).map_or(end, |entry| u64::from(entry.logical));
    let ends = |at: Option<usize>| at.and_then(|at| entries.get(at)).map_or(start, Extent::logical_end);
    let may_be =
        |at: usize| at == entries.len() && entries.last().is_none_or(|last| last.unwritten || !binds);
    let follows = |at: usize| begins(at) >= ends(at.checked_sub(1)) || may_be(at);
    let home = |at: usize| {
        let gap = begins(at + 1).checked_sub(ends(at.checked_sub(1)))?;
        let before = at.checked_sub(1).is_none_or(follows);
        let after = at + 2 >= entries.len() || follows(at + 2);
        let fits = gap > 0 && gap == u64::from(entries.get(at)?.count);
        let home = u32::try_from(ends(at.checked_sub(1))).ok()?;
        (before && after && fits && !would_be_part(entries, at, home)).then_some((at, home))
    };
    let mut found: Vec<(usize, u32)> = Vec::new();
    for wrong in (0..=entries.len()).filter(|at| !follows(*at)) {
        let mut homes = [wrong.checked_sub(1), Some(wrong)].into_iter().flatten().filter_map(home);
        if let (Some(only), None) = (homes.next(), homes.next())
            && found.last() != Some(&only)
        {
            found.push(only);
        }
    }
    found
}

/// Whether an entry, if it began at block `home` of the file, would go on where its neighbour ends, in the file and on the disk: the two would have been
/// written as one.
fn would_be_part(entries: &[Extent], at: usize, home: u32) -> bool {
    let Some(entry) = entries.get(at).map(|entry| Extent { logical: home, ..*entry }) else { return false };
    let goes_on = |one: &Extent, next: &Extent| {
        one.logical_end() == u64::from(next.logical)
            && one.physical.checked_add(one.count.into()) == Some(next.physical)
            && one.unwritten == next.unwritten
            && one.count.saturating_add(next.count) < LENGTH_MAX
    };
    let before = at.checked_sub(1).and_then(|before| entries.get(before));
    before.is_some_and(|before| goes_on(before, &entry))
        || entries.get(at + 1).is_some_and(|next| goes_on(&entry, next))
}

/// Entries that do not go with the others between `start` and `end`, and the places that they belong to, where their numbers differ from those in one byte only:
/// one value of that byte has to fit between the neighbours that are believed. Behind the last of these, where it may be the end that is wrong, only
/// the upper two bytes count, unless the entry then ends where the file does, and all entries there have to get a place. Behind the end may only lie what is not written yet.
pub(super) fn overwritten(entries: &[Extent], start: u64, end: u64) -> Vec<(usize, u32)> {
    let is_behind = |entry: &Extent| !entry.unwritten && u64::from(entry.logical) >= end;
    let within: Vec<usize> = (0..entries.len()).filter(|at| !is_behind(&entries[*at])).collect();
    let starts: Vec<u32> = within.iter().map(|at| entries[*at].logical).collect();
    if within.len() == entries.len() && starts.is_sorted_by(|a, b| a < b) {
        return Vec::new();
    }
    let mut believed = longest_ascending(&starts).into_iter().map(|place| within[place]).peekable();
    let (mut found, mut floor, mut of_tail) = (Vec::new(), start, None);
    for (at, entry) in entries.iter().enumerate() {
        if believed.next_if_eq(&at).is_some() {
            let next = believed.peek().map(|next| u64::from(entries[*next].logical));
            let ends = entry.logical_end();
            floor = if next.is_some_and(|next| next < ends) { u64::from(entry.logical) + 1 } else { ends };
            continue;
        }
        let next = believed.peek().map(|next| u64::from(entries[*next].logical));
        if next.is_none() {
            of_tail.get_or_insert(found.len());
        }
        let room = next.unwrap_or(end).min(end).checked_sub(u64::from(entry.count).max(1));
        let lowest = if next.is_some() { 1 } else { 2 };
        let fitting = room.and_then(|room| with_another_byte(entry.logical, lowest, (floor, room)));
        // Two that agree need no third: the file ends with this entry if its second byte was wrong.
        let ends_file = || with_another_byte(entry.logical, 1, (room?, room?));
        let is_last = next.is_none() && room.is_some_and(|room| room >= floor);
        let home = fitting.or_else(|| if is_last { ends_file() } else { None });
        let home = home.filter(|home| !would_be_part(entries, at, *home));
        match home {
            Some(home) => {
                found.push((at, home));
                floor = u64::from(home).saturating_add(u64::from(entry.count));
            }
            None if next.is_none() => {
                found.truncate(of_tail.unwrap_or_default());
                break;
            }
            None => {}
        }
    }
    found
}

/// The only number between `least` and `most` that differs from `number` in one byte, which is the `lowest` one or a higher one.
fn with_another_byte(number: u32, lowest: u32, (least, most): (u64, u64)) -> Option<u32> {
    let mut found = None;
    for shift in (lowest..4).map(|byte| 8 * byte) {
        let others = u64::from(number & !(0xFF << shift));
        let first = least.saturating_sub(others).div_ceil(1 << shift);
        let Some(last) = most.checked_sub(others).map(|room| (room >> shift).min(0xFF)) else { continue };
        if first > last {
            continue;
        }
        if first != last || found.is_some() {
            return None;
        }
        found = u32::try_from(others + (first << shift)).ok();
    }
    found
}

/// Where entries were cut, and what the others leave of `blocks`, the space that all of them have together, is less than their room: of one alone
/// that is its length. Of several, each but one has to be told by its own number, in which one bit or the upper byte was overwritten, and all
/// of them have to go with the space. (Those in the wrong place took their space, too, and so did one whose length is 0 now.) Space is counted in
/// clusters of `cluster` blocks; where entries begin within one, nothing is known.
pub(super) fn fit(entries: &[Extent], lengths: &mut [Option<u32>], blocks: u64, cluster: u64) {
    let cluster = cluster.max(1);
    if entries.iter().any(|entry| !u64::from(entry.logical).is_multiple_of(cluster)) {
        return;
    }
    let with_emptied = fitting(entries, lengths, blocks, (cluster, true));
    let told = with_emptied.or_else(|| fitting(entries, lengths, blocks, (cluster, false)));
    for (at, length) in told.unwrap_or_default() {
        if let (Some(place), Some(entry)) = (lengths.get_mut(at), entries.get(at)) {
            *place = Some(length.min(entry.count));
        }
    }
}

/// The entries that were cut with their lengths. `counts_emptied`: those without a length had one.
fn fitting(
    entries: &[Extent],
    lengths: &[Option<u32>],
    blocks: u64,
    (cluster, counts_emptied): (u64, bool),
) -> Option<Vec<(usize, u32)>> {
    let space = |length: u32| u64::from(length).next_multiple_of(cluster);
    let mut cut: Vec<(usize, u32, u32)> = Vec::new();
    let mut taken = 0;
    for (at, (entry, length)) in entries.iter().zip(lengths.iter()).enumerate() {
        match length.filter(|length| *length < entry.count) {
            Some(room) => cut.push((at, entry.count, room)),
            None if counts_emptied && *length == Some(0) => {
                let next = entries.get(at + 1).map_or(u32::MAX, |next| next.logical);
                cut.push((at, 0, next.saturating_sub(entry.logical)));
            }
            None => taken += space(entry.count),
        }
    }
    let rooms: u64 = cut.iter().map(|(_, _, room)| space(*room)).sum();
    let mut left = blocks.checked_sub(taken).filter(|left| *left < rooms)?;
    let mut told: Vec<(usize, u32)> = Vec::new();
    let mut untold: Option<(usize, u32)> = None;
    for (at, count, room) in &cut {
        match before_damage(*count, *room).filter(|_| cut.len() > 1) {
            Some(length) => told.push((*at, length)),
            None if untold.is_none() => untold = Some((*at, *room)),
            None => return None,
        }
    }
    left = left.checked_sub(told.iter().map(|(_, length)| space(*length)).sum())?;
    match untold {
        Some((at, room)) if (1..=space(room)).contains(&left) => {
            told.push((at, u32::try_from(left).map_or(room, |left| left.min(room))));
        }
        None if left == 0 => {}
        _ => return None,
    }
    Some(told)
}

/// The length before one bit of it, or its upper byte, was overwritten: the largest that there is room for.
pub(super) fn before_damage(count: u32, room: u32) -> Option<u32> {
    let without_a_bit = (0..16).map(|bit| count & !(1 << bit)).filter(|length| *length != count);
    without_a_bit.chain([count & 0xFF]).filter(|length| (1..=room).contains(length)).max()
}

/// Where entries start on the disk, ascending.
fn starts_on_disk(candidates: &[usize], entries: &[Extent]) -> Vec<u64> {
    let mut starts: Vec<u64> =
        candidates.iter().filter_map(|at| entries.get(*at)).map(|entry| entry.physical).collect();
    starts.sort_unstable();
    starts
}

/// The length at which an entry runs into the start of another one on the disk, if it does.
fn room_on_disk(entry: &Extent, starts: &[u64]) -> Option<u32> {
    let next = starts.get(starts.partition_point(|start| *start <= entry.physical))?;
    u32::try_from(next - entry.physical).ok().filter(|room| *room < entry.count)
}

/// Places of the longest strictly ascending subsequence; of several, the one that believes the earlier entries.
pub(super) fn longest_ascending(numbers: &[u32]) -> Vec<usize> {
    // `starts[len]` is the place of the largest number that begins a sequence of `len + 1`.
    let mut starts: Vec<usize> = Vec::new();
    let mut after = vec![None; numbers.len()];
    for (place, number) in numbers.iter().enumerate().rev() {
        let len = starts.partition_point(|start| numbers[*start] > *number);
        after[place] = len.checked_sub(1).map(|last| starts[last]);
        match starts.get_mut(len) {
            Some(start) => *start = place,
            None => starts.push(place),
        }
    }
    std::iter::successors(starts.last().copied(), |place| after[*place]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(entries: &[(u32, u32)]) -> Vec<Option<u32>> {
        settled_at(&entries.iter().map(|(logical, count)| (*logical, *count, 100)).collect::<Vec<_>>())
    }

    fn settled_at(entries: &[(u32, u32, u64)]) -> Vec<Option<u32>> {
        let extent = |&(logical, count, physical): &(u32, u32, u64)| Extent {
            logical,
            count,
            physical,
            unwritten: false,
        };
        settle(&entries.iter().map(extent).collect::<Vec<_>>(), |extent| extent.count > 0)
    }

    #[test]
    fn one_stray_entry_goes_and_its_neighbours_stay() {
        assert_eq!(settled(&[(0, 4), (9000, 4), (8, 4), (12, 4)]), [Some(4), None, Some(4), Some(4)]);
        assert_eq!(settled(&[(0, 4), (4, 4), (1, 2), (12, 4)]), [Some(4), Some(4), None, Some(4)]);
        assert_eq!(settled(&[(0, 4), (4, 4)]), [Some(4), Some(4)]);
        assert_eq!(settled(&[]), []);
    }

    #[test]
    fn an_entry_that_fits_a_gap_belongs_there() {
        assert_eq!(found_astray(&[(32768, 3), (3, 5)], 8), [(0, 0)], "the first");
        assert_eq!(found_astray(&[(1, 3), (3, 5)], 8), [(0, 0)], "a little");
        assert_eq!(found_astray(&[(0, 4), (9000, 4), (8, 4), (12, 4)], 16), [(1, 4)]);
        assert_eq!(found_astray(&[(0, 4), (4, 4), (1, 4), (12, 4)], 16), [(2, 8)]);
        assert_eq!(found_astray(&[(0, 4), (4, 4), (2, 4)], 12), [(2, 8)], "the last");
        assert_eq!(found_astray(&[(0, 4), (4, 4), (2, 4)], 13), [], "a hole would stay");
        assert_eq!(found_astray(&[(0, 4), (9000, 4), (9, 4)], 13), [], "a gap that is longer");
        assert_eq!(
            found_astray(&[(0, 4), (9000, 4), (8, 4), (7, 2)], 14),
            [],
            "two beside each other are wrong"
        );
        assert_eq!(found_astray(&[(4, 4), (0, 4)], 8), [], "which?");
        assert_eq!(found_astray(&[(0, 4), (4, 4)], 8), []);
        assert_eq!(found_astray(&[], 8), []);
    }

    #[test]
    fn several_entries_may_be_astray_each_with_a_gap_of_its_own() {
        let two = [(0, 4), (9000, 4), (8, 4), (12, 4), (1, 2), (18, 2)];
        assert_eq!(found_astray(&two, 20), [(1, 4), (4, 16)]);
        // Either of the last two is out of order; only the first of them fits.
        let near = [(0, 3), (13_500, 4), (7, 4), (11, 4), (66, 4), (19, 2)];
        assert_eq!(found_astray(&near, 21), [(1, 3), (4, 15)]);
    }

    #[test]
    fn an_entry_behind_the_end_belongs_before_it_if_it_fits_there() {
        assert_eq!(found_astray(&[(0, 4), (4, 4), (9000, 2)], 10), [(2, 8)]);
        assert_eq!(found_astray(&[(0, 4), (4, 4), (9000, 2)], 11), [], "the end may be wrong as well");
        let later = Extent { logical: 9000, count: 2, physical: 100, unwritten: true };
        let entries = [Extent { logical: 0, count: 4, unwritten: false, ..later }, later];
        assert_eq!(astray(&entries, 0, 6, true), [], "space that was reserved");
    }

    #[test]
    fn numbers_of_which_a_byte_was_overwritten_are_known_by_their_neighbours_and_the_end() {
        let found = |entries: &[(u32, u32)], end| {
            let extent = |&(logical, count)| Extent { logical, count, physical: 100, unwritten: false };
            overwritten(&entries.iter().map(extent).collect::<Vec<_>>(), 0, end)
        };
        let tail = [(4, 4), (0x1000_000C, 4), (0x9200_0014, 4), (0x2000_001C, 4)];
        assert_eq!(found(&tail, 32), [(1, 12), (2, 20), (3, 28)]);
        assert_eq!(found(&tail, 30), [], "the last one has no room: the end may be wrong");
        assert_eq!(found(&[(4, 4), (0x0003_000C, 4), (20, 4)], 32), [(1, 12)]);
        assert_eq!(found(&[(4, 4), (0x0003_010C, 4), (20, 4)], 32), [], "two bytes");
        assert_eq!(found(&[(4, 4), (0x0003_0006, 4), (20, 4)], 32), [], "it would be over its neighbour");
        assert_eq!(found(&[(0x908, 1), (0xD810, 1), (0x918, 1)], 0x1000), [(1, 0x910)]);
        assert_eq!(found(&[(0x908, 1), (0x110, 1), (0x918, 1)], 0x1000), [(1, 0x910)], "too low");
        assert_eq!(found(&[(0x008, 1), (0xD810, 1), (0x918, 1)], 0x1000), [], "several values would fit");
        assert_eq!(
            found(&[(0x908, 1), (0x900, 1), (0x918, 1)], 0x1000),
            [],
            "the lowest byte: anything would fit"
        );
        assert_eq!(found(&[(4, 4), (44, 4)], 32), [], "a file that is longer than it says");
        assert_eq!(found(&[(4, 4), (0x108, 4)], 32), [], "likewise");
        assert_eq!(found(&[(0x908, 1), (0xD810, 1)], 0x911), [(1, 0x910)], "there the file ends");
        assert_eq!(found(&[(0x908, 1), (0xD810, 1)], 0x912), [], "it ends a block later");
        assert_eq!(found(&[(4, 9000), (0x1000_000C, 4), (20, 4)], 32), [(1, 12)], "a length is wrong, too");
        let reserved = Extent { logical: 0x1000_000C, count: 4, physical: 100, unwritten: true };
        assert_eq!(overwritten(&[reserved], 0, 32), [], "space that was reserved");
    }

    fn found_astray(entries: &[(u32, u32)], end: u64) -> Vec<(usize, u32)> {
        let extent = |&(logical, count)| Extent { logical, count, physical: 100, unwritten: false };
        astray(&entries.iter().map(extent).collect::<Vec<_>>(), 0, end, true)
    }

    #[test]
    fn an_entry_over_several_others_is_cut() {
        assert_eq!(settled(&[(0, 21), (4, 4), (8, 4), (12, 4)]), [Some(4), Some(4), Some(4), Some(4)]);
        assert_eq!(
            settled(&[(0, 6), (4, 4), (8, 4)]),
            [Some(6), Some(4), Some(4)],
            "one of two is wrong: which?"
        );
    }

    #[test]
    fn an_entry_is_cut_where_another_one_starts_on_the_disk() {
        let holes = [(0, 18, 100), (8, 1, 101), (16, 1, 102)];
        assert_eq!(settled_at(&holes), [Some(1), Some(1), Some(1)], "what lay between them were holes");
        let one = [(0, 6, 100), (4, 4, 104), (8, 4, 120)];
        assert_eq!(settled_at(&one), [Some(4), Some(4), Some(4)], "over its neighbour in both");
        let twice = [(0, 4, 100), (0, 4, 102)];
        assert_eq!(settled_at(&twice), [Some(4), Some(4)], "nothing would be left of the first");
    }

    #[test]
    fn the_space_in_use_tells_the_length_of_an_entry_that_is_cut() {
        let extent = |(logical, count)| Extent { logical, count, physical: 100, unwritten: false };
        let entries = [(0, 4), (8, 6660), (16, 4), (24, 4)].map(extent);
        let fitted = |blocks| {
            let mut lengths = settle(&entries, |_| true);
            fit(&entries, &mut lengths, blocks, 1);
            lengths[1]
        };
        assert_eq!((fitted(16), fitted(20), fitted(24)), (Some(4), Some(8), Some(8)));
        assert_eq!((fitted(12), fitted(3)), (Some(8), Some(8)), "what leaves it nothing is wrong itself");
    }

    #[test]
    fn clusters_in_use_tell_the_length_of_an_entry_that_is_cut() {
        // A file of 4 blocks in every other cluster of 4: one length lost its upper byte, and covered holes that others own on the disk.
        let extent = |(logical, count)| Extent { logical, count, physical: 100, unwritten: false };
        let entries = [(0, 4), (8, 18_436), (16, 4), (24, 3)].map(extent);
        let fitted = |entries: &[Extent], blocks| {
            let mut lengths = settle(entries, |_| true);
            fit(entries, &mut lengths, blocks, 4);
            lengths[1]
        };
        assert_eq!((fitted(&entries, 16), fitted(&entries, 20)), (Some(4), Some(8)));
        let within = [(0, 4), (8, 18_436), (16, 4), (26, 2)].map(extent);
        assert_eq!(fitted(&within, 16), Some(8), "who shares a cluster with whom is not told");
    }

    #[test]
    fn of_two_entries_that_are_cut_one_tells_its_length_itself() {
        let extent = |(logical, count)| Extent { logical, count, physical: 100, unwritten: false };
        let fitted = |second, third, blocks| {
            let entries = [(0, 4), (8, second), (16, third), (24, 4), (32, 4), (40, 4)].map(extent);
            let mut lengths = settle(&entries, |_| true);
            fit(&entries, &mut lengths, blocks, 1);
            (lengths[1], lengths[2])
        };
        // 4100 is 4 with another upper byte; 43 could have been anything.
        assert_eq!(fitted(43, 4100, 24), (Some(4), Some(4)));
        assert_eq!(fitted(43, 4100, 22), (Some(2), Some(4)));
        assert_eq!(fitted(1026, 4100, 22), (Some(2), Some(4)));
        assert_eq!(fitted(1026, 4100, 24), (Some(8), Some(8)), "the space contradicts both");
        assert_eq!(fitted(43, 27, 24), (Some(8), Some(8)), "neither tells");
        assert_eq!(fitted(43, 4100, 32), (Some(8), Some(8)), "there is space for all of it");
    }

    #[test]
    fn an_entry_in_the_wrong_place_has_taken_its_space() {
        let extent = |(logical, count)| Extent { logical, count, physical: 100, unwritten: false };
        let entries = [(0, 4), (8, 6660), (16, 4), (9000, 4), (24, 4), (32, 4)].map(extent);
        let mut lengths = settle(&entries, |_| true);
        assert_eq!((lengths[1], lengths[3]), (Some(8), None));
        fit(&entries, &mut lengths, 24, 1);
        assert_eq!(lengths, [Some(4), Some(4), Some(4), None, Some(4), Some(4)]);
    }

    #[test]
    fn an_entry_without_a_length_had_one() {
        let extent = |(logical, count)| Extent { logical, count, physical: 100, unwritten: false };
        let fitted = |blocks| {
            // 24836 is 4 with another upper byte.
            let entries = [(0, 4), (8, 24_836), (16, 4), (24, 0), (32, 4)].map(extent);
            let mut lengths = settle(&entries, |_| true);
            fit(&entries, &mut lengths, blocks, 1);
            lengths
        };
        assert_eq!(
            fitted(20),
            [Some(4), Some(4), Some(4), Some(0), Some(4)],
            "4 of the 8 left were of another one"
        );
        assert_eq!(fitted(28)[1], Some(8), "there is space for all of it");
    }

    #[test]
    fn no_entry_is_moved_to_where_it_would_be_part_of_its_neighbour() {
        let at = |(logical, physical)| Extent { logical, count: 1, physical, unwritten: false };
        // Every other block of a file, and one start that became that of the next.
        let entries = [(90, 1321), (94, 1322), (94, 1323), (96, 1324)].map(at);
        assert!(astray(&entries, 90, 97, true).is_empty());
        let entries = [(90, 1321), (94, 1322), (94, 1333), (96, 1324)].map(at);
        assert_eq!(astray(&entries, 90, 97, true), [(2, 95)]);
        let second = |physical| [(0, 100), (0x1_0001, physical), (8, 120)].map(at);
        assert!(overwritten(&second(101), 0, 9).is_empty());
        assert_eq!(overwritten(&second(111), 0, 9), [(1, 1)]);
    }

    #[test]
    fn what_is_wrong_by_itself_disturbs_nothing_else() {
        assert_eq!(settled(&[(0, 4), (9000, 0), (8, 4)]), [Some(4), Some(0), Some(4)]);
    }
}
