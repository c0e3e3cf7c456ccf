// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runs of a file, to be changed: sorted by place in the file, without overlaps.

use fsmend_base::{BlockNo, width};

use crate::inode::MapRun;

/// Runs of a file in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    list: Vec<MapRun>,
}

impl Runs {
    /// Takes runs over, in any order. Of those that overlap, the part that an earlier one in the file has is left out.
    pub fn new(mut list: Vec<MapRun>) -> Self {
        list.sort_by_key(|run| run.logical);
        let mut runs = Runs { list: Vec::with_capacity(list.len()) };
        for run in list {
            let end = runs.end();
            let skip = end.saturating_sub(run.logical);
            if skip < u64::from(run.count) {
                runs.push(skipped(run, skip));
            }
        }
        runs
    }

    /// The runs.
    pub fn iter(&self) -> impl Iterator<Item = &MapRun> {
        self.list.iter()
    }

    /// The block of the file after the last mapped one.
    pub fn end(&self) -> u64 {
        self.list.last().map_or(0, end_of)
    }

    /// Where block `logical` of the file lies.
    pub fn find(&self, logical: u64) -> Option<BlockNo> {
        let run = self.list.get(self.first_behind(logical))?;
        (run.logical <= logical).then(|| BlockNo(run.physical + (logical - run.logical)))
    }

    /// The pieces of runs within `count` blocks from `logical`.
    pub fn within(&self, logical: u64, count: u64) -> Vec<MapRun> {
        let end = logical.saturating_add(count);
        let from = self.list.iter().skip(self.first_behind(logical));
        from.take_while(|run| run.logical < end).map(|run| cut(*run, logical, end)).collect()
    }

    /// The last mapped block before block `logical` of the file: where it lies.
    pub fn before(&self, logical: u64) -> Option<BlockNo> {
        let behind = self.list.partition_point(|run| run.logical < logical);
        let run = self.list.get(behind.checked_sub(1)?)?;
        Some(BlockNo(run.physical + (logical - run.logical).min(u64::from(run.count)) - 1))
    }

    /// Unmaps `count` blocks from `logical`; returns the pieces that were mapped there.
    pub fn unmap(&mut self, logical: u64, count: u64) -> Vec<MapRun> {
        let end = logical.saturating_add(count);
        let first = self.first_behind(logical);
        let touched = self.list[first..].iter().take_while(|run| run.logical < end).count();
        let old: Vec<MapRun> = self.list[first..first + touched].to_vec();
        let left = old.first().map(|run| cut(*run, run.logical, logical));
        let right = old.last().map(|run| cut(*run, end, u64::MAX));
        let rest = left.into_iter().chain(right).filter(|run| run.count > 0);
        self.list.splice(first..first + touched, rest);
        old.into_iter().map(|run| cut(run, logical, end)).collect()
    }

    /// Maps `run`, whatever was mapped there before.
    pub fn map(&mut self, run: MapRun) {
        if run.count == 0 {
            return;
        }
        self.unmap(run.logical, u64::from(run.count));
        let at = self.first_behind(run.logical);
        self.list.insert(at, run);
        if let Some(next) = self.list.get(at + 1).copied()
            && continues(&run, &next)
        {
            self.list[at].count += next.count;
            self.list.remove(at + 1);
        }
        if let Some(before) = at.checked_sub(1)
            && continues(&self.list[before], &self.list[at])
        {
            self.list[before].count += self.list[at].count;
            self.list.remove(at);
        }
    }

    /// Maps many runs at once, whatever was mapped there before. They come in the order of the file and do not overlap.
    pub fn overlay(&mut self, over: Vec<MapRun>) {
        let mut pieces = over.clone();
        for run in std::mem::take(&mut self.list) {
            let (mut at, end) = (run.logical, end_of(&run));
            let from = over.partition_point(|other| end_of(other) <= at);
            for other in over[from..].iter().take_while(|other| other.logical < end) {
                pieces.push(cut(run, at, other.logical));
                at = end_of(other);
            }
            pieces.push(cut(run, at, end));
        }
        pieces.retain(|piece| piece.count > 0);
        pieces.sort_by_key(|piece| piece.logical);
        pieces.into_iter().for_each(|piece| self.push(piece));
    }

    /// Index of the first run that ends behind block `logical`.
    fn first_behind(&self, logical: u64) -> usize {
        self.list.partition_point(|run| end_of(run) <= logical)
    }

    fn push(&mut self, run: MapRun) {
        match self.list.last_mut() {
            Some(last) if continues(last, &run) => last.count += run.count,
            _ => self.list.push(run),
        }
    }
}

fn end_of(run: &MapRun) -> u64 {
    run.logical + u64::from(run.count)
}

/// The part of `run` within blocks `start..end` of the file; without blocks if there is none.
fn cut(run: MapRun, start: u64, end: u64) -> MapRun {
    let skip = start.saturating_sub(run.logical).min(u64::from(run.count));
    let mut piece = skipped(run, skip);
    piece.count = width::low_u32(end.saturating_sub(piece.logical).min(u64::from(piece.count)));
    piece
}

/// `run` without its first `skip` blocks, which are no more than it has.
fn skipped(run: MapRun, skip: u64) -> MapRun {
    MapRun {
        logical: run.logical + skip,
        physical: run.physical + skip,
        count: run.count - width::low_u32(skip),
        unwritten: run.unwritten,
    }
}

/// Whether `next` goes on where `run` ends, in the file and on the device.
fn continues(run: &MapRun, next: &MapRun) -> bool {
    end_of(run) == next.logical
        && run.physical + u64::from(run.count) == next.physical
        && run.unwritten == next.unwritten
        && run.count.checked_add(next.count).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(logical: u64, physical: u64, count: u32) -> MapRun {
        MapRun { logical, physical, count, unwritten: false }
    }

    fn all(runs: &Runs) -> Vec<(u64, u64, u32)> {
        runs.iter().map(|run| (run.logical, run.physical, run.count)).collect()
    }

    #[test]
    fn blocks_are_mapped_and_unmapped_anywhere() {
        let mut runs = Runs::new(vec![run(10, 100, 10), run(0, 50, 5), run(15, 200, 10)]);
        assert_eq!(all(&runs), [(0, 50, 5), (10, 100, 10), (20, 205, 5)]);
        assert_eq!(
            (runs.find(12), runs.find(7), runs.find(24)),
            (Some(BlockNo(102)), None, Some(BlockNo(209)))
        );
        assert_eq!(
            (runs.before(10), runs.before(12), runs.before(0)),
            (Some(BlockNo(54)), Some(BlockNo(101)), None)
        );
        assert_eq!(runs.end(), 25);
        assert_eq!(runs.unmap(12, 10), [run(12, 102, 8), run(20, 205, 2)]);
        assert_eq!(all(&runs), [(0, 50, 5), (10, 100, 2), (22, 207, 3)]);
        runs.map(run(12, 102, 10));
        assert_eq!(all(&runs), [(0, 50, 5), (10, 100, 12), (22, 207, 3)]);
        runs.map(run(13, 300, 1));
        assert_eq!(all(&runs), [(0, 50, 5), (10, 100, 3), (13, 300, 1), (14, 104, 8), (22, 207, 3)]);
        assert_eq!(runs.within(11, 3), [run(11, 101, 2), run(13, 300, 1)]);
        runs.map(run(13, 103, 1));
        assert_eq!(all(&runs), [(0, 50, 5), (10, 100, 12), (22, 207, 3)]);
        assert!(runs.unmap(30, 5).is_empty() && runs.unmap(5, 5).is_empty());
        runs.overlay(vec![run(2, 500, 1), run(4, 600, 7), run(21, 111, 2)]);
        let rest = [(11, 101, 12), (23, 208, 2)];
        assert_eq!(all(&runs)[..4], [(0, 50, 2), (2, 500, 1), (3, 53, 1), (4, 600, 7)]);
        assert_eq!(all(&runs)[4..], rest);
        runs.map(run(40, 1, 0));
        assert_eq!(runs.end(), 25);
    }
}
