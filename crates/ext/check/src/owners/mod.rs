//! Who owns the blocks that were claimed more than once: the inodes that may have claimed them are looked at again, and every owner is
//! named. Which these are is kept while claims are made ([`origins`](fsmend_engine::origins)); without that, it may be any.
//!
//! Contested units are worked through in ascending windows. A window is as long as its owners fit into the share of memory
//! that they have: when a worker has gathered its part of it, it moves the end of the window to the middle of what it has,
//! and what lies behind is left to another pass over the inodes. Usually one pass does.

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
pub use contest::{Contest, Owner, Pair};
use gather::Gatherer;
use report::Reporter;

/// Groups that one worker takes at a time.
const GROUPS_PER_SLICE: usize = 1;
/// More workers than this do not look for owners: each needs room for those that it gathers, and what one has room for is how long windows are.
const WORKERS_MAX: usize = 8;
/// A worker gathers at least so many owners before it makes the window smaller.
const PAIRS_MIN: usize = if cfg!(test) { 16 } else { 4096 };

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
    /// Owners that may be held at a time.
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
        let (pairs, end) = self.owners_from(start);
        let behind = self.extra.iter().filter(|(unit, _)| *unit >= end && self.claims.contested().get(*unit));
        Contest { start, end, pairs, extra: behind.copied().collect(), room: self.room }
    }

    /// The owners of the contested units from `start` to before the unit that is returned beside them, sorted.
    fn owners_from(&self, start: u64) -> (Vec<Pair>, u64) {
        let pool = PoolConfig { workers: self.pool.workers.clamp(1, WORKERS_MAX), ..self.pool };
        let window = Window {
            start,
            end: AtomicU64::new(self.claims.contested().len()),
            room: (self.room / pool.workers).max(PAIRS_MIN),
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
        let mut pairs = Vec::new();
        for mut part in found.into_iter().map(|gatherer| gatherer.found) {
            part.retain(|(unit, _)| *unit < end);
            pairs.append(&mut part);
        }
        pairs.sort_unstable();
        let end = self.settled_end(&mut pairs, (start, end));
        pairs.extend(self.extra.iter().filter(|(unit, _)| (start..end).contains(unit)));
        pairs.sort_unstable();
        (pairs, end)
    }

    /// Cuts a window to the units whose owners fit into the part of the room that any number of workers leaves each other: so it does not depend on
    /// who gathered what, and neither does the repair. A worker that cut the window had twice as many owners up to there, and never cuts off
    /// what is kept here.
    fn settled_end(&self, pairs: &mut Vec<Pair>, (start, end): (u64, u64)) -> u64 {
        let fit = (self.room / (2 * WORKERS_MAX)).max(PAIRS_MIN / 2);
        let Some((unit, _)) = pairs.get(fit) else { return end };
        let end = end.min((*unit).max(start + 1));
        pairs.retain(|(unit, _)| *unit < end);
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
    /// Owners that one worker may gather.
    room: usize,
}

impl Window {
    /// Adds a contested unit that `inode` owns to `found`, if the window has it.
    fn note(&self, unit: u64, inode: InodeNo, found: &mut Vec<Pair>) {
        if (self.start..self.end.load(Relaxed)).contains(&unit) {
            found.push((unit, Owner::Inode(inode)));
            if found.len() >= self.room {
                self.shrink(found);
            }
        }
    }

    /// Makes the window end at the middle of what one worker has found, and drops the rest of that. A window of one unit
    /// stays: its owners are no more than there are inodes.
    fn shrink(&self, found: &mut Vec<Pair>) {
        let end = self.end.load(Relaxed);
        if end <= self.start + 1 {
            return;
        }
        found.retain(|(unit, _)| *unit < end);
        if found.len() < self.room {
            return;
        }
        found.sort_unstable();
        let middle = found[found.len() / 2].0.max(self.start + 1);
        let end = self.end.fetch_min(middle, Relaxed).min(middle);
        found.retain(|(unit, _)| *unit < end);
    }
}
