//! Who owns the blocks that were claimed more than once: the inodes that may have claimed them are looked at again, and every owner is
//! named. Which these are is kept while claims are made ([`origins`](fsmend_engine::origins)); without that, it may be any.
//!
//! Contested units are worked through in ascending windows. A window is as long as its owners fit into the room in memory
//! that they have: when a worker has gathered its part of it, it moves the end of the window to the middle of what it has,
//! and what lies behind is left to another pass over the inodes. Usually one pass does. What one inode owns is kept as runs of units, so that
//! files that share all of a large map take little room, wherever its blocks lie.

//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | the search |
//! | `contest.rs` | contested units and their owners |
//! | `gather.rs` | what one inode owns of contested units |
//! | `records.rs` | the inodes that are looked at |
//! | `report.rs` | problems |
//! | `repair.rs` | the order in which contested units are dealt with |
//! | `keepers.rs` | who keeps what is contested |
//! | `borne_out.rs` | which claims a file's own size and space in use speak against |
//! | `relocate.rs` | places of their own for the others |
//! | `copy_room.rs` | what these share |
//! | `names.rs` | names of files that are not to keep them |

mod borne_out;
pub(crate) mod contest;
mod copy_room;
mod gather;
mod keepers;
mod names;
pub mod problems;
mod records;
mod relocate;
pub(crate) mod repair;
mod report;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use fsmend_base::InodeNo;
use fsmend_engine::Findings;
use fsmend_engine::claims::Claims;
use fsmend_engine::inodes::{InodeTable, Kind};
use fsmend_engine::origins::Bands;
use fsmend_engine::pool::{self, PoolConfig, Stage};

use crate::Fs;
pub use contest::{Contest, Owner, Pair, Share};
use gather::Gatherer;
use report::Reporter;

/// Groups that one worker takes at a time.
const GROUPS_PER_SLICE: usize = 1;
/// More workers than this do not look for owners: each needs room for those that it gathers, and what one has room for is how long windows are.
const WORKERS_MAX: usize = 8;
/// A worker gathers at least so many shares before it makes the window smaller.
const SHARES_MIN: usize = if cfg!(test) { 16 } else { 4096 };

/// What the search for owners works with.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    /// The file system.
    pub fs: &'a Fs<'a>,
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
    /// Set when the user wants to stop.
    pub cancel: &'a AtomicBool,
}

impl Search<'_> {
    /// Finds the owners of all contested units and raises the problems: one for each run of blocks and inode, one for each
    /// inode. Units that turn out to have one owner or none (claims were taken back meanwhile) are no problem, and contested no longer; the
    /// claims of units without an owner are cleared. Returns the first window, for the repair.
    pub fn report(&self, is_exhausted: impl Fn() -> bool, findings: &mut Findings) -> Option<Contest> {
        let contested = self.claims.contested();
        let mut start = contested.ones().next()?;
        let mut reporter = Reporter::new(self.fs);
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
            window.visit_owners(self.fs, self.claims, |unit, owners| {
                if owners.len() == 1 && !is_spared(unit) {
                    self.claims.resolve(unit);
                }
            });
            next = contested.ones_from(window.end).next();
        }
    }

    /// The owners of the contested units from `start` on, as far as there is room for.
    fn window(&self, start: u64) -> Contest {
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
            room: (self.room / pool.workers).max(SHARES_MIN),
        };
        let bands = self.claims.origins().map(|origins| origins.bands(self.claims.contested(), start));
        let chunks = self.chunks(bands.as_ref());
        let found = pool::run_slices(
            pool,
            &[Stage { name: "owners", pass: 0 }],
            &chunks,
            GROUPS_PER_SLICE,
            self.cancel,
            |_| Gatherer::new(self, &window),
            |gatherer, part| {
                for chunk in part {
                    let mut wanted = Vec::new();
                    self.inodes.visit_chunk(*chunk, |inode, fact, _, _| {
                        let may_own = bands.as_ref().is_none_or(|bands| bands.contains(inode.0));
                        wanted.extend((fact.kind() != Kind::Unused && may_own).then_some(inode));
                    });
                    gatherer.take(&wanted);
                }
            },
        );
        let end = window.end.load(Relaxed);
        let mut shares = Vec::new();
        for part in found.into_iter().map(|gatherer| gatherer.found) {
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
        let units_max = (self.room / 2).max(SHARES_MIN);
        contested.ones_from(start).nth(units_max).unwrap_or(contested.len())
    }

    /// Cuts a window to the units whose owners fit into the part of the room that any number of workers leaves each other: so it does not depend on
    /// who gathered what, and neither does the repair. A worker that cut the window had twice as many owners up to there, and never cuts off
    /// what is kept here.
    fn settled_end(&self, shares: &mut Vec<Share>, (start, end): (u64, u64)) -> u64 {
        let fit = (self.room / (2 * WORKERS_MAX)).max(SHARES_MIN / 2);
        let Some(share) = shares.get(fit) else { return end };
        let end = end.min(share.start.max(start + 1));
        *shares = shares.drain(..).filter_map(|share| share.before(end)).collect();
        end
    }

    /// The chunks of inodes that are looked at: those with inodes of `bands`.
    fn chunks(&self, bands: Option<&Bands>) -> Vec<u32> {
        let per_chunk = self.fs.geometry.inodes_per_group;
        let may_own = |chunk: &u32| {
            let first = chunk.saturating_mul(per_chunk).saturating_add(1);
            bands.is_none_or(|bands| bands.touch(first..first.saturating_add(per_chunk)))
        };
        (0..self.inodes.chunk_count()).filter(may_own).collect()
    }

    fn judge(&self, window: &Contest, reporter: &mut Reporter<'_>, findings: &mut Findings) {
        window.visit_owners(self.fs, self.claims, |unit, owners| {
            self.claims.settle(unit, !owners.is_empty());
            if owners.len() > 1 {
                reporter.add(unit, owners, findings);
            } else {
                self.claims.resolve(unit);
            }
        });
    }
}

/// The units that one pass looks at.
pub(super) struct Window {
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
        search: &Search<'_>,
        inode: InodeNo,
        units: impl Iterator<Item = (u64, u64)>,
        found: &mut Vec<Share>,
    ) {
        for (start, count) in self.runs(search, units) {
            let share = Share { start, count, owner: Owner::Inode(inode) };
            found.extend(share.before(self.end.load(Relaxed)));
            if found.len() >= self.room {
                self.shrink(found);
            }
        }
    }

    /// The contested ones within the window among `units`, as runs as long as can be. Units that are there twice are in two runs.
    fn runs(&self, search: &Search<'_>, units: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
        let (contested, end) = (search.claims.contested(), self.end.load(Relaxed));
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
