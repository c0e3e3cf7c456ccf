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

/// The one entry that stands in the wrong place, and the place that it belongs to: all others are in order, and what its neighbours leave
/// free between `start` and `end` is as long as it is. None where all are in order, or where that could be said of two.
pub(super) fn astray(entries: &[Extent], start: u64, end: u64) -> Option<(usize, u32)> {
    let begins = |at: usize| entries.get(at).map_or(end, |entry| u64::from(entry.logical));
    let ends = |at: Option<usize>| at.and_then(|at| entries.get(at)).map_or(start, Extent::logical_end);
    let wrong = (0..entries.len()).find(|at| begins(*at) < ends(at.checked_sub(1)))?;
    let home = |at: usize| {
        let gap = begins(at + 1).checked_sub(ends(at.checked_sub(1)))?;
        let (before, after) = (entries.get(..at)?, entries.get(at + 1..)?);
        let is_only_one = is_ascending(before, start) && is_ascending(after, start);
        let fits = gap > 0 && gap == u64::from(entries.get(at)?.count);
        let home = u32::try_from(ends(at.checked_sub(1))).ok()?;
        (is_only_one && fits).then_some((at, home))
    };
    let mut homes = [wrong.checked_sub(1), Some(wrong)].into_iter().flatten().filter_map(home);
    homes.next().filter(|_| homes.next().is_none())
}

/// Whether each of the entries begins behind the one before, and the first not before `start`.
fn is_ascending(entries: &[Extent], start: u64) -> bool {
    let mut floor = start;
    entries.iter().all(|entry| {
        let begins = u64::from(entry.logical) >= floor;
        floor = entry.logical_end();
        begins
    })
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
fn longest_ascending(numbers: &[u32]) -> Vec<usize> {
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
        let astray = |entries: &[(u32, u32)], end| {
            let extent = |&(logical, count)| Extent { logical, count, physical: 100, unwritten: false };
            super::astray(&entries.iter().map(extent).collect::<Vec<_>>(), 0, end)
        };
        assert_eq!(astray(&[(32768, 3), (3, 5)], 8), Some((0, 0)), "the first");
        assert_eq!(astray(&[(1, 3), (3, 5)], 8), Some((0, 0)), "a little");
        assert_eq!(astray(&[(0, 4), (9000, 4), (8, 4), (12, 4)], 16), Some((1, 4)));
        assert_eq!(astray(&[(0, 4), (4, 4), (1, 4), (12, 4)], 16), Some((2, 8)));
        assert_eq!(astray(&[(0, 4), (4, 4), (2, 4)], 12), Some((2, 8)), "the last");
        assert_eq!(astray(&[(0, 4), (4, 4), (2, 4)], 13), None, "a hole would stay");
        assert_eq!(astray(&[(0, 4), (9000, 4), (9, 4)], 13), None, "a gap that is longer");
        assert_eq!(astray(&[(0, 4), (9000, 4), (8, 4), (7, 2)], 14), None, "two are wrong");
        assert_eq!(astray(&[(4, 4), (0, 4)], 8), None, "which?");
        assert_eq!(astray(&[(0, 4), (4, 4)], 8), None);
        assert_eq!(astray(&[], 8), None);
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
