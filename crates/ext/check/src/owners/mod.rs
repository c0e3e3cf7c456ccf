//! Who owns the blocks that were claimed more than once: all inodes are looked at again, and every owner is named.
//!
//! Contested units are worked through in ascending windows. A window is as long as its owners fit into the share of memory
//! that they have: when a worker has gathered its part of it, it moves the end of the window to the middle of what it has,
//! and what lies behind is left to another pass over the inodes. Usually one pass does.

//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | the search |
//! | `hulls.rs` | which inodes need not be looked at |
//! | `records.rs` | the inodes that are looked at |
//! | `report.rs` | problems |
//! | `repair.rs` | the order in which contested units are dealt with |
//! | `keepers.rs` | who keeps what is contested |
//! | `relocate.rs` | places of their own for the others |
//! | `names.rs` | names of files that are not to keep them |

pub mod hulls;
mod keepers;
mod names;
pub mod problems;
mod records;
mod relocate;
pub(crate) mod repair;
mod report;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use fsmend_base::InodeNo;
use fsmend_engine::Findings;
use fsmend_engine::claims::Claims;
use fsmend_engine::inodes::{InodeTable, Kind};
use fsmend_engine::pool::{self, Crew, Stage};

use crate::Fs;
use crate::fast::inode::{InodeProver, Proof, Verdict};
use crate::inode;
use crate::scan::units_of;
use hulls::{Hull, Hulls};
use records::Records;
use report::Reporter;

/// Groups that one worker takes at a time.
const GROUPS_PER_SLICE: usize = 1;
/// A worker gathers at least so many owners before it makes the window smaller.
const PAIRS_MIN: usize = if cfg!(test) { 16 } else { 4096 };

/// An owner of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Owner {
    /// The file system's own static structures.
    Metadata,
    /// An inode, by its map or its attribute block.
    Inode(InodeNo),
}

/// A unit, and one of its owners.
pub type Pair = (u64, Owner);

/// What the search for owners works with.
pub struct Search<'a> {
    /// The file system.
    pub fs: &'a Fs<'a>,
    /// Facts of all inodes.
    pub inodes: &'a InodeTable,
    /// Claims on all blocks.
    pub claims: &'a Claims,
    /// Owners that no inode's map knows of (attribute blocks).
    pub extra: &'a [(u64, Owner)],
    /// What the scan knows of innocent inodes, ascending. Nothing may have been written since.
    pub hulls: &'a [Hull],
    /// Workers that may be used.
    pub crew: Crew<'a>,
    /// Owners that may be held at a time.
    pub room: usize,
    /// Set when the user wants to stop.
    pub cancel: &'a AtomicBool,
}

impl Search<'_> {
    /// Finds the owners of all contested units and raises the problems: one for each run of blocks and inode, one for each
    /// inode. Units that turn out to have one owner or none (claims were taken back meanwhile) are no problem, and the
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

    /// The owners of the contested units from `start` on, as far as there is room for.
    fn window(&self, start: u64) -> Contest {
        let (pairs, end) = self.owners_from(start);
        let behind = self.extra.iter().filter(|(unit, _)| *unit >= end && self.claims.contested().get(*unit));
        Contest { start, end, pairs, extra: behind.copied().collect(), room: self.room }
    }

    /// The owners of the contested units from `start` to before the unit that is returned beside them, sorted.
    fn owners_from(&self, start: u64) -> (Vec<Pair>, u64) {
        let window = Window {
            start,
            end: AtomicU64::new(self.claims.contested().len()),
            room: (self.room / self.crew.workers.max(1)).max(PAIRS_MIN),
        };
        let hulls = Hulls::beside(self.hulls, self.claims.contested());
        let chunks: Vec<u32> = (0..self.inodes.chunk_count()).collect();
        let found = pool::run_slices(
            self.crew,
            &[Stage { name: "owners", pass: 0 }],
            &chunks,
            GROUPS_PER_SLICE,
            self.cancel,
            |_| Gatherer::new(self.fs),
            |gatherer, part| {
                for chunk in part {
                    self.inodes.visit_chunk(*chunk, |inode, fact, _, _| {
                        if fact.kind() != Kind::Unused && gatherer.may_own(&hulls, inode) {
                            self.gather(inode, &window, gatherer);
                        }
                    });
                }
            },
        );
        let end = window.end.load(Relaxed);
        let mut pairs = Vec::new();
        for mut part in found.into_iter().map(|gatherer| gatherer.found) {
            part.retain(|(unit, _)| *unit < end);
            pairs.append(&mut part);
        }
        pairs.extend(self.extra.iter().filter(|(unit, _)| (start..end).contains(unit)));
        pairs.sort_unstable();
        (pairs, end)
    }

    fn gather(&self, inode: InodeNo, window: &Window, gatherer: &mut Gatherer<'_>) {
        gatherer.take_units(self.fs, inode);
        let Gatherer { units, found, .. } = gatherer;
        let contested = self.claims.contested();
        for &(start, count) in units.iter().filter(|(start, count)| contested.any(*start, *count)) {
            for unit in (start.max(window.start)..start + count).filter(|unit| contested.get(*unit)) {
                if unit >= window.end.load(Relaxed) {
                    break;
                }
                found.push((unit, Owner::Inode(inode)));
                if found.len() >= window.room {
                    window.shrink(found);
                }
            }
        }
    }

    fn judge(&self, window: &Contest, reporter: &mut Reporter<'_>, findings: &mut Findings) {
        for (unit, owners) in window.owners(self.fs, self.claims) {
            self.claims.settle(unit, !owners.is_empty());
            if owners.len() > 1 {
                reporter.add(unit, owners, findings);
            }
        }
    }
}

/// A worker that gathers owners.
struct Gatherer<'f> {
    prover: InodeProver<'f>,
    proof: Proof,
    records: Records,
    /// What the inode that is looked at owns.
    units: Vec<(u64, u64)>,
    found: Vec<Pair>,
    /// Inodes that all may, or all cannot, own something contested.
    decided: (Range<u32>, bool),
}

impl<'f> Gatherer<'f> {
    fn new(fs: &'f Fs<'_>) -> Self {
        let (records, proof) = (Records::default(), Proof::default());
        let (units, found, decided) = (Vec::new(), Vec::new(), (0..0, true));
        Gatherer { prover: InodeProver::new(fs), proof, records, units, found, decided }
    }

    /// Whether `inode` has to be looked at.
    fn may_own(&mut self, hulls: &Hulls<'_>, inode: InodeNo) -> bool {
        if !self.decided.0.contains(&inode.0) {
            self.decided = hulls.may_own(inode);
        }
        self.decided.1
    }

    /// Fills `units` with what `inode` owns by its map. Most inodes are innocent, with a map that lies in them: no need to inspect those.
    fn take_units(&mut self, fs: &Fs<'_>, inode: InodeNo) {
        self.units.clear();
        let Some(record) = self.records.record(fs, inode) else { return };
        if self.prover.prove(inode, record, &mut self.proof) == Verdict::Innocent && !self.proof.needs_walk {
            // Nobody is innocent where units are more than a block.
            self.units.extend(self.proof.runs.iter().map(|run| (run.physical, u64::from(run.count))));
        } else {
            self.units = units_of(&inode::inspect(fs, inode, record, &mut Findings::new()), &fs.geometry);
        }
    }
}

/// Contested units in ascending order, as many as there was room for, and who owns them.
#[derive(Clone, Debug, Default)]
pub struct Contest {
    /// The first unit.
    pub start: u64,
    /// The unit behind the last one that was looked at.
    pub end: u64,
    /// Units and the inodes that own them, sorted. An inode with two claims on a unit stands there twice.
    pub pairs: Vec<Pair>,
    /// Owners of contested units behind the end that no inode's map knows of.
    pub extra: Vec<Pair>,
    /// Owners that may be held at a time.
    pub room: usize,
}

impl Contest {
    /// Every contested unit with its owners, ascending; an owner with two claims on it stands there twice.
    fn owners<'c>(
        &'c self,
        fs: &'c Fs<'_>,
        claims: &'c Claims,
    ) -> impl Iterator<Item = (u64, Vec<Owner>)> + 'c {
        let unit_blocks = u64::from(fs.geometry.cluster_blocks);
        let mut pairs = self.pairs.iter().peekable();
        let units = claims.contested().ones_from(self.start).take_while(|unit| *unit < self.end);
        units.map(move |unit| {
            let mut owners = Vec::new();
            if fs.metadata.any(unit * unit_blocks, unit_blocks) {
                owners.push(Owner::Metadata);
            }
            while pairs.next_if(|(other, _)| *other < unit).is_some() {}
            while let Some((_, owner)) = pairs.next_if(|(other, _)| *other == unit) {
                owners.push(*owner);
            }
            (unit, owners)
        })
    }
}

/// The units that one pass looks at.
struct Window {
    start: u64,
    end: AtomicU64,
    /// Owners that one worker may gather.
    room: usize,
}

impl Window {
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
