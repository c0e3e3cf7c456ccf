// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who owns the blocks that were claimed more than once: the inodes that may have claimed them are looked at again, and every owner is
//! named. Which these are is kept while claims are made ([`origins`](crate::origins)); without that, it may be any.
//!
//! Contested units are worked through in ascending windows. A window is as long as its owners fit into the share of memory
//! that they have: when a worker has gathered its part of it, it moves the end of the window to the middle of what it has,
//! and what lies behind is left to another pass over the inodes. Usually one pass does. What one inode owns is kept as runs of units, so that
//! files that have all of a large map in common take little room, wherever its blocks lie.

mod contest;
mod keeper;
mod report;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use fsmend_base::InodeNo;

use crate::claims::{Claims, SharedBitmap};
use crate::format::Volume;
use crate::inodes::{InodeTable, Kind};
use crate::origins::Bands;
use crate::pool::{self, PoolConfig, Stage};
use crate::{Findings, Row};

pub use contest::{Contest, Owner, Pair, Share};
pub use keeper::GivenUp;
use report::Reporter;

/// What the search for owners needs of a format.
pub trait ClaimLookup: Volume {
    /// What one worker keeps while it looks at inodes: buffers, maps that wait to be walked.
    type Gatherer<'s>: Gather + Send
    where
        Self: 's;

    /// A worker's, for a search among `claims`.
    fn gatherer<'s>(&'s self, claims: &'s Claims, cancel: &'s AtomicBool) -> Self::Gatherer<'s>;

    /// The catalogue rows.
    fn owner_rows(&self) -> OwnerRows;
}

/// Tells what inodes claim.
pub trait Gather {
    /// Looks at these inodes of one chunk, which are in use and in ascending order, and notes for each every unit that it claims, once for each time.
    fn take(&mut self, inodes: &[InodeNo], found: &mut Found<'_>);
}

/// The catalogue rows of multiply claimed units.
#[derive(Clone, Copy, Debug)]
pub struct OwnerRows {
    /// A run of blocks that others claim, too. Detail: `others`.
    pub multiply_claimed: &'static Row,
    /// An inode with such blocks. Details: `count`, `others`.
    pub shares: &'static Row,
}

/// Chunks that one worker takes at a time.
const CHUNKS_PER_SLICE: usize = 1;
/// More workers than this do not look for owners: each needs room for those that it gathers, and what one has room for is how long windows are.
const WORKERS_MAX: usize = 8;
/// A worker gathers at least so many shares before it makes the window smaller.
pub const SHARES_MIN: usize = 4096;

/// What the search for owners works with.
#[derive(Clone, Copy)]
pub struct Search<'a, V> {
    /// The file system.
    pub volume: &'a V,
    /// Facts of all inodes.
    pub inodes: &'a InodeTable,
    /// Claims on all blocks.
    pub claims: &'a Claims,
    /// Owners that no inode's map knows of (attribute blocks).
    pub extra: &'a [(u64, Owner)],
    /// Workers that may be used.
    pub pool: PoolConfig<'a>,
    /// Shares that may be held at a time.
    pub room: usize,
    /// Shares that one worker gathers at least, however little room there is: [`SHARES_MIN`] but in tests.
    pub shares_min: usize,
    /// Set when the user wants to stop.
    pub cancel: &'a AtomicBool,
}

impl<V: ClaimLookup> Search<'_, V> {
    /// Finds the owners of all contested units and raises the problems: one for each run of blocks and inode, one for each
    /// inode. Units that turn out to have one owner or none (claims were taken back meanwhile) are no problem, and contested no longer; the
    /// claims of units without an owner are cleared. Returns the first window, for the repair.
    pub fn report(&self, is_exhausted: impl Fn() -> bool, findings: &mut Findings) -> Option<Contest> {
        let contested = self.claims.contested();
        let mut start = contested.ones().next()?;
        let mut reporter = Reporter::new(self.volume.owner_rows(), self.volume.unit_blocks());
        let mut first = None;
        while !self.cancel.load(Relaxed) && !is_exhausted() {
            let window = self.window(start);
            self.judge(&window, &mut reporter, findings);
            let end = window.end;
            if findings.gathers_edits() {
                first.get_or_insert(window);
            }
            let Some(next) = contested.ones_from(end).next() else { break };
            start = next;
        }
        reporter.finish(findings);
        first
    }

    /// Takes out of what is contested the units that a single inode's map claims: what else claimed them was taken back. Those that `is_spared` are left
    /// alone: they may have owners that no map knows of.
    pub fn drop_spurious(&self, is_spared: impl Fn(u64) -> bool) {
        let contested = self.claims.contested();
        let mut next = contested.ones().next();
        while let Some(start) = next.filter(|_| !self.cancel.load(Relaxed)) {
            let window = self.window(start);
            window.visit_owners(self.volume, self.claims, |unit, owners| {
                if owners.len() == 1 && !is_spared(unit) {
                    self.claims.resolve(unit);
                }
            });
            next = contested.ones_from(window.end).next();
        }
    }

    /// The owners of the contested units from `start` on, as far as there is room for.
    pub fn window(&self, start: u64) -> Contest {
        let (shares, end) = self.owners_from(start);
        let behind = self.extra.iter().filter(|(unit, _)| *unit >= end && self.claims.contested().get(*unit));
        Contest { start, end, shares, extra: behind.copied().collect(), room: self.room }
    }

    /// The owners of the contested units from `start` to before the unit that is returned beside them, sorted.
    fn owners_from(&self, start: u64) -> (Vec<Share>, u64) {
        let pool = PoolConfig { workers: self.pool.workers.clamp(1, WORKERS_MAX), ..self.pool };
        let window = Window {
            start,
            end: AtomicU64::new(self.end_of_units(start)),
            room: (self.room / pool.workers).max(self.shares_min),
        };
        let bands = self.claims.origins().map(|origins| origins.bands(self.claims.contested(), start));
        let chunks = self.chunks(bands.as_ref());
        let found = pool::run_slices(
            pool,
            &[Stage { name: "owners", pass: 0 }],
            &chunks,
            CHUNKS_PER_SLICE,
            self.cancel,
            |_| (self.volume.gatherer(self.claims, self.cancel), Vec::new()),
            |(gatherer, found), part| {
                for chunk in part {
                    let mut wanted = Vec::new();
                    self.inodes.visit_chunk(*chunk, |inode, fact, _, _| {
                        let may_own = bands.as_ref().is_none_or(|bands| bands.contains(inode.0));
                        wanted.extend((fact.kind() != Kind::Unused && may_own).then_some(inode));
                    });
                    gatherer.take(
                        &wanted,
                        &mut Found { window: &window, contested: self.claims.contested(), shares: found },
                    );
                }
            },
        );
        let end = window.end.load(Relaxed);
        let mut shares = Vec::new();
        for (_, part) in found {
            shares.extend(part.into_iter().filter_map(|share| share.before(end)));
        }
        shares.sort_unstable();
        let end = self.settled_end(&mut shares, (start, end));
        let extra = self.extra.iter().filter(|(unit, _)| (start..end).contains(unit));
        shares.extend(extra.map(|(unit, owner)| Share { start: *unit, count: 1, owner: *owner }));
        shares.sort_unstable();
        (shares, end)
    }

    /// Where a window from `start` on ends whatever its owners are: a repair keeps what it knows of each contested unit.
    fn end_of_units(&self, start: u64) -> u64 {
        let contested = self.claims.contested();
        let units_max = (self.room / 2).max(self.shares_min);
        contested.ones_from(start).nth(units_max).unwrap_or(contested.len())
    }

    /// Cuts a window to the units whose owners fit into the part of the room that any number of workers leaves each other: so it does not depend on
    /// who gathered what, and neither does the repair. A worker that cut the window had twice as many owners up to there, and never cuts off
    /// what is kept here.
    fn settled_end(&self, shares: &mut Vec<Share>, (start, end): (u64, u64)) -> u64 {
        let fit = (self.room / (2 * WORKERS_MAX)).max(self.shares_min / 2);
        let Some(share) = shares.get(fit) else { return end };
        let end = end.min(share.start.max(start + 1));
        *shares = shares.drain(..).filter_map(|share| share.before(end)).collect();
        end
    }

    /// The chunks of inodes that are looked at: those with inodes of `bands`.
    fn chunks(&self, bands: Option<&Bands>) -> Vec<u32> {
        let per_chunk = self.volume.inodes_per_chunk();
        let may_own = |chunk: &u32| {
            let first = chunk.saturating_mul(per_chunk).saturating_add(self.volume.first_inode());
            bands.is_none_or(|bands| bands.touch(first..first.saturating_add(per_chunk)))
        };
        (0..self.inodes.chunk_count()).filter(may_own).collect()
    }

    fn judge(&self, window: &Contest, reporter: &mut Reporter, findings: &mut Findings) {
        window.visit_owners(self.volume, self.claims, |unit, owners| {
            self.claims.settle(unit, !owners.is_empty());
            if owners.len() > 1 {
                reporter.add(unit, owners, findings);
            } else {
                self.claims.resolve(unit);
            }
        });
    }
}

/// What one worker has found in one pass.
pub struct Found<'w> {
    window: &'w Window,
    contested: &'w SharedBitmap,
    shares: &'w mut Vec<Share>,
}

impl Found<'_> {
    /// How many runs of units a worker may hold at a time.
    pub fn room(&self) -> usize {
        self.window.room
    }

    /// Notes which of these runs of units, which are all that `inode` claims, are contested.
    pub fn note_runs(&mut self, inode: InodeNo, runs: impl Iterator<Item = (u64, u64)>) {
        self.window.note(self.contested, inode, runs, self.shares);
    }
}

/// The units that one pass looks at.
struct Window {
    start: u64,
    end: AtomicU64,
    /// Shares that one worker may gather.
    room: usize,
}

impl Window {
    /// Adds what `inode` owns of contested units to `found`, as far as the window has it: all of it at once, so that its shares are as long as
    /// they will ever be.
    fn note(
        &self,
        contested: &SharedBitmap,
        inode: InodeNo,
        units: impl Iterator<Item = (u64, u64)>,
        found: &mut Vec<Share>,
    ) {
        for (start, count) in self.runs(contested, units) {
            let share = Share { start, count, owner: Owner::Inode(inode) };
            found.extend(share.before(self.end.load(Relaxed)));
            if found.len() >= self.room {
                self.shrink(found);
            }
        }
    }

    /// The contested ones within the window among `units`, as runs as long as can be. Units that are there twice are in two runs.
    fn runs(&self, contested: &SharedBitmap, units: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
        let end = self.end.load(Relaxed);
        let mut pieces: Vec<(u64, u64)> = Vec::new();
        for (start, count) in units {
            let (first, last) = (start.max(self.start), start.saturating_add(count).min(end));
            if first >= last || !contested.any(first, last - first) {
                continue;
            }
            for unit in (first..last).filter(|unit| contested.get(*unit)) {
                match pieces.last_mut() {
                    Some((start, count)) if *start + *count == unit => *count += 1,
                    _ => pieces.push((unit, 1)),
                }
            }
        }
        pieces.sort_unstable();
        joined(&pieces)
    }

    /// Makes the window end at the middle of what one worker has found, and drops the rest of that. A window of one unit
    /// stays: its owners are no more than there are inodes.
    fn shrink(&self, found: &mut Vec<Share>) {
        let end = self.end.load(Relaxed);
        if end <= self.start + 1 {
            return;
        }
        *found = found.drain(..).filter_map(|share| share.before(end)).collect();
        if found.len() < self.room {
            return;
        }
        found.sort_unstable();
        let middle = found[found.len() / 2].start.max(self.start + 1);
        let end = self.end.fetch_min(middle, Relaxed).min(middle);
        *found = found.drain(..).filter_map(|share| share.before(end)).collect();
    }
}

/// Pieces, which ascend, with those that follow each other made one.
fn joined(pieces: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    // Those that a piece to come may follow.
    let mut open: Vec<usize> = Vec::new();
    for (start, count) in pieces {
        open.retain(|index| runs[*index].0 + runs[*index].1 >= *start);
        match open.iter().find(|index| runs[**index].0 + runs[**index].1 == *start) {
            Some(index) => runs[*index].1 += count,
            None => {
                open.push(runs.len());
                runs.push((*start, *count));
            }
        }
    }
    runs
}
