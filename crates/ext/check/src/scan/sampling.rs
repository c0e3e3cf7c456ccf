// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a sample does differently from a check: it ends in time, and asks a device for no more than it can wait for.

use fsmend_base::width;

use super::pace::{FULL, Size};
use super::{DIRECTORIES, INODE_TABLES, MAPS, STAGES, Scan, Worker};

/// Inodes of a table, and blocks of files with maps, that are read with about one request.
const INODES_PER_REQUEST: f64 = 1024.0;
const BLOCKS_PER_REQUEST: f64 = 1024.0;

impl<'a> Scan<'a> {
    /// Nanoseconds that a sample may still take; `None` where there is no limit.
    pub(super) fn time_left(&self) -> Option<u64> {
        let (sample, clock) = (self.sample?, self.run_context.clock?);
        let longer = sample.pace.per_request(self.run_context.plan.workers).map_or(0, |each| {
            let (share, most) = sample.share;
            width::whole((each * self.requests_known() * sample.times * share).min(most))
        });
        Some(sample.end.max(sample.started.saturating_add(longer)).saturating_sub((clock.wall)()))
    }

    /// About how many requests the sample leads to, as far as its tables were read.
    fn requests_known(&self) -> f64 {
        let stage = |index: usize| self.progress.stage(STAGES[index].name);
        let (tables, found) = (stage(INODE_TABLES), stage(INODE_TABLES).announced() as f64);
        let behind =
            stage(DIRECTORIES).announced() as f64 + stage(MAPS).announced() as f64 / BLOCKS_PER_REQUEST;
        found / INODES_PER_REQUEST + behind * (found / tables.done().max(1) as f64).max(1.0)
    }

    /// How many things a worker may ask for at once: all, unless this is a sample.
    pub(super) fn at_once(&self) -> usize {
        match (self.sample, self.time_left()) {
            (Some(sample), Some(left)) => sample.pace.next(left),
            _ => usize::MAX,
        }
    }

    /// Whether read-ahead may be requested for more than is needed next: not before a sample knows that it is fast.
    pub(super) fn may_announce(&self) -> bool {
        self.at_once() >= FULL
    }

    /// Does some work that asks for `count` things at once, and notes how long that took if this is a sample.
    pub(super) fn paced<T>(
        &self,
        worker: &mut Worker<'a>,
        (count, size): (usize, Size),
        work: impl FnOnce(&mut Worker<'a>) -> T,
    ) -> T {
        let (Some(sample), Some(clock)) = (self.sample, self.run_context.clock) else { return work(worker) };
        let (missed, begun) = (worker.reader.missed(), (clock.wall)());
        let result = work(worker);
        let took = (clock.wall)().saturating_sub(begun);
        match (worker.reader.missed() - missed, size) {
            (0, _) => sample.pace.note_cached(count),
            (asked, Size::Block) => sample.pace.note(width::index(asked), took),
            (asked, Size::Large) => sample.pace.note_large(width::index(asked), took),
        }
        result
    }
}
