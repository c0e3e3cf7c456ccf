// SPDX-License-Identifier: MIT OR Apache-2.0
//! The map of one file as it is gathered, from extents or from indirect blocks: runs, space, ends.

use std::collections::{BTreeMap, HashSet};

use fsmend_base::{BlockNo, BlockRange};

use super::MapRun;
use super::subject::Subject;
use crate::extent::problems::MISALIGNED_CLUSTER;

/// A map under construction. Memory grows with the number of runs and map blocks only.
#[derive(Default)]
pub(crate) struct Map {
    /// Runs that came in the order of the file, merged.
    runs: Vec<MapRun>,
    /// Runs that lie before an earlier one, by first logical block.
    late: BTreeMap<u64, MapRun>,
    /// Blocks of the map itself, in the order of the walk.
    pub map_blocks: Vec<u64>,
    seen: HashSet<u64>,
    /// Clusters in use, those of the map included.
    pub clusters: u64,
    /// Highest mapped block of the file.
    pub last: Option<u64>,
    /// Highest mapped block of the file that has been written.
    pub last_written: Option<u64>,
    /// Blocks that lie at the wrong place within their cluster.
    pub misaligned: Vec<BlockRange>,
    /// Whether the map has to be written anew: as a tree of extents, or on a rext3 with blocks in other places.
    pub rebuild: bool,
    /// Whether it is a tree of extents with nodes below its root.
    pub is_deep: bool,
    /// Whether the keys of such a tree do not ascend.
    pub out_of_order: bool,
    /// The run that was added last.
    previous: Option<MapRun>,
}

impl Map {
    /// A map that is known only by its last block.
    pub fn ending(last: Option<u64>) -> Map {
        Map { last, last_written: last, ..Map::default() }
    }

    /// Notes a block of the map itself; `false` when it has been noted before and must not be read again.
    pub fn add_map_block(&mut self, block: u64) -> bool {
        let new = self.seen.insert(block);
        if new {
            self.map_blocks.push(block);
            self.clusters += 1;
        }
        new
    }

    /// Takes back the block that was noted last and not taken back yet.
    pub fn drop_map_block(&mut self) {
        self.map_blocks.pop();
        self.clusters = self.clusters.saturating_sub(1);
    }

    /// Forgets that `block` was noted: another part of the map may lead to it.
    pub fn forget_map_block(&mut self, block: u64) {
        self.seen.remove(&block);
    }

    /// Whether some part of the file came behind a later one.
    pub fn is_unordered(&self) -> bool {
        self.out_of_order || !self.late.is_empty()
    }

    /// The block of the file after the last mapped one.
    pub fn end(&self) -> u64 {
        self.last.map_or(0, |last| last.saturating_add(1))
    }

    /// Whether any of `count` blocks from `logical` is mapped already.
    pub fn overlaps(&self, logical: u64, count: u64) -> bool {
        let end = logical.saturating_add(count);
        let before = self.runs.partition_point(|run| run.logical < end);
        let hit = |run: &MapRun| run.logical < end && run.logical + u64::from(run.count) > logical;
        before.checked_sub(1).and_then(|index| self.runs.get(index)).is_some_and(hit)
            || self.late.range(..end).next_back().is_some_and(|(_, run)| hit(run))
    }

    /// Adds a run of at least one block that overlaps none of the others.
    pub fn add(&mut self, subject: &mut Subject<'_, '_>, run: MapRun) {
        self.charge(subject, run);
        let last = run.logical + u64::from(run.count) - 1;
        self.last = self.last.max(Some(last));
        if !run.unwritten {
            self.last_written = self.last_written.max(Some(last));
        }
        self.previous = Some(run);
        match self.runs.last_mut() {
            Some(tail) if run.logical < tail.logical => {
                self.late.insert(run.logical, run);
            }
            Some(tail) if continues(tail, &run) => tail.count += run.count,
            _ => self.runs.push(run),
        }
    }

    /// Counts the clusters that `run` takes, and finds blocks that lie wrong within them. A cluster is counted
    /// once if the pieces of it follow each other.
    fn charge(&mut self, subject: &mut Subject<'_, '_>, run: MapRun) {
        let geometry = &subject.fs.geometry;
        let mask = u64::from(geometry.cluster_blocks) - 1;
        if mask == 0 {
            self.clusters += u64::from(run.count);
            return;
        }
        let end = run.physical + u64::from(run.count) - 1;
        if run.physical & mask != run.logical & mask {
            self.clusters += u64::from(run.count);
            return self.misplaced(subject, run, u64::from(run.count));
        }
        let cluster = geometry.cluster_of(run.physical);
        let before = self.previous.map(|previous| {
            let count = u64::from(previous.count) - 1;
            (previous.logical + count, geometry.cluster_of(previous.physical + count))
        });
        let shared = before.is_some_and(|(_, previous)| previous == cluster);
        self.clusters += geometry.cluster_of(end) - cluster + u64::from(!shared);
        let same_logical = |last: u64| run.logical & mask != 0 && last | mask == run.logical | mask;
        if before.is_some_and(|(last, previous)| same_logical(last) && previous != cluster) {
            self.misplaced(subject, run, 1);
        }
    }

    fn misplaced(&mut self, subject: &mut Subject<'_, '_>, run: MapRun, count: u64) {
        self.misaligned.push(BlockRange::new(run.physical, count));
        let problem = subject.problem(&MISALIGNED_CLUSTER).blocks(BlockNo(run.physical), count);
        subject.raise(problem.detail("logical", run.logical));
    }

    /// The runs so far, in no order.
    pub fn runs(&self) -> impl Iterator<Item = &MapRun> {
        self.runs.iter().chain(self.late.values())
    }

    /// The runs in the order of the file.
    pub fn into_runs(mut self) -> Vec<MapRun> {
        if !self.late.is_empty() {
            self.runs.extend(self.late.into_values());
            self.runs.sort_by_key(|run| run.logical);
        }
        self.runs
    }

    /// The run that holds the first block of the file, if it is mapped.
    pub fn first_run(&self) -> Option<&MapRun> {
        self.late.values().next().or(self.runs.first()).filter(|run| run.logical == 0)
    }

    /// Number of runs so far.
    pub fn run_count(&self) -> usize {
        self.runs.len() + self.late.len()
    }
}

/// Whether `run` goes on where `tail` ends, in the file and on the device.
fn continues(tail: &MapRun, run: &MapRun) -> bool {
    tail.logical + u64::from(tail.count) == run.logical
        && tail.physical + u64::from(tail.count) == run.physical
        && tail.unwritten == run.unwritten
        && tail.count.checked_add(run.count).is_some()
}
