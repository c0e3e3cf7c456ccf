//! Which entries of a leaf are out of order: as few as can be.
//!
//! One wrong entry must not take its sound neighbours along. If the entries do not ascend, the longest run of them that does is
//! believed. And an entry that covers the starts of several others that are in order among themselves is too long: it is cut. So is one
//! that reaches over its neighbour both in the file and on the disk: no wrong start of the neighbour would do both.

use fsmend_ext_format::extent::Extent;

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
        (before && after && fits).then_some((at, home))
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

/// Where one entry alone was cut, and what the others leave of `blocks`, the space that all of them have together, is even less than its
/// room: that is its length. (Those in the wrong place took their space, too.)
pub(super) fn fit(entries: &[Extent], lengths: &mut [Option<u32>], blocks: u64) {
    let is_cut =
        |(entry, length): &(&Extent, &mut Option<u32>)| length.is_some_and(|length| length < entry.count);
    let others: u64 = entries
        .iter()
        .zip(lengths.iter())
        .filter(|(entry, length)| length.is_none_or(|length| length == entry.count))
        .map(|(entry, _)| u64::from(entry.count))
        .sum();
    let mut cut = entries.iter().zip(lengths).filter(is_cut);
    if let (Some((_, Some(length))), None) = (cut.next(), cut.next())
        && let Some(left) = blocks.checked_sub(others).filter(|left| (1..u64::from(*length)).contains(left))
    {
        *length = left as u32;
    }
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
            fit(&entries, &mut lengths, blocks);
            lengths[1]
        };
        assert_eq!((fitted(16), fitted(20), fitted(24)), (Some(4), Some(8), Some(8)));
        assert_eq!((fitted(12), fitted(3)), (Some(8), Some(8)), "what leaves it nothing is wrong itself");
    }

    #[test]
    fn an_entry_in_the_wrong_place_has_taken_its_space() {
        let extent = |(logical, count)| Extent { logical, count, physical: 100, unwritten: false };
        let entries = [(0, 4), (8, 6660), (16, 4), (9000, 4), (24, 4), (32, 4)].map(extent);
        let mut lengths = settle(&entries, |_| true);
        assert_eq!((lengths[1], lengths[3]), (Some(8), None));
        fit(&entries, &mut lengths, 24);
        assert_eq!(lengths, [Some(4), Some(4), Some(4), None, Some(4), Some(4)]);
    }

    #[test]
    fn what_is_wrong_by_itself_disturbs_nobody() {
        assert_eq!(settled(&[(0, 4), (9000, 0), (8, 4)]), [Some(4), Some(0), Some(4)]);
    }
}
