//! Who owns the blocks that were claimed more than once: all inodes are looked at again, and every owner is named.
//!
//! Contested units are worked through in ascending windows. A window is as long as its owners fit into the share of memory
//! that they have: when a worker has gathered its part of it, it moves the end of the window to the middle of what it has,
//! and what lies behind is left to another pass over the inodes. Usually one pass does.

pub mod problems;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::claims::Claims;
use fsmend_engine::inodes::{InodeTable, Kind};
use fsmend_engine::{Findings, Problem, Value, pool};

use crate::Fs;
use crate::inode;
use crate::plan::Means;
use crate::scan::units_of;

/// Groups that one worker takes at a time.
const GROUPS_PER_SLICE: usize = 1;
/// At most this many other owners are named in one problem.
const OTHERS_NAMED_MAX: usize = 8;
/// A worker gathers at least so many owners before it makes the window smaller.
const PAIRS_MIN: usize = 4096;

/// An owner of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Owner {
    /// The file system's own static structures.
    Metadata,
    /// An inode, by its map or its attribute block.
    Inode(InodeNo),
}

/// A unit, and one of its owners.
type Pair = (u64, Owner);

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
    /// Workers and memory.
    pub means: Means<'a>,
    /// Set when the user wants to stop.
    pub cancel: &'a AtomicBool,
}

impl Search<'_> {
    /// Finds the owners of all contested units and raises the problems: one for each run of blocks and inode, one for each
    /// inode. Units that turn out to have one owner or none (claims were taken back meanwhile) are no problem, and the
    /// claims of units without an owner are cleared.
    pub fn report(&self, findings: &mut Findings) {
        let contested = self.claims.contested();
        let Some(mut start) = contested.ones().next() else { return };
        let mut reporter = Reporter::new(self.fs);
        while !self.cancel.load(Relaxed) && !self.means.budget.is_exhausted() {
            let (pairs, end) = self.owners_from(start);
            self.judge(start, end, &pairs, &mut reporter, findings);
            let Some(next) = contested.ones_from(end).next() else { break };
            start = next;
        }
        reporter.finish(findings);
    }

    /// The owners of the contested units from `start` to before the unit that is returned beside them, sorted.
    fn owners_from(&self, start: u64) -> (Vec<Pair>, u64) {
        let workers = self.means.plan.workers;
        let window = Window {
            start,
            end: AtomicU64::new(self.claims.contested().len()),
            room: (self.means.plan.owners / workers).max(PAIRS_MIN),
        };
        let chunks: Vec<u32> = (0..self.inodes.chunk_count()).collect();
        let found = pool::run_slices(
            workers,
            &chunks,
            GROUPS_PER_SLICE,
            self.cancel,
            |_| Vec::new(),
            |found, part| {
                for chunk in part {
                    self.inodes.visit_chunk(*chunk, |inode, fact, _, _| {
                        if fact.kind() != Kind::Unused {
                            self.gather(inode, &window, found);
                        }
                    });
                }
            },
        );
        let end = window.end.load(Relaxed);
        let mut pairs = Vec::new();
        for mut part in found {
            part.retain(|(unit, _)| *unit < end);
            pairs.append(&mut part);
        }
        pairs.extend(self.extra.iter().filter(|(unit, _)| (start..end).contains(unit)));
        pairs.sort_unstable();
        (pairs, end)
    }

    fn gather(&self, inode: InodeNo, window: &Window, found: &mut Vec<Pair>) {
        let Some(Ok(record)) = self.fs.read_inode(inode) else { return };
        let inspection = inode::inspect(self.fs, inode, &record, &mut Findings::new());
        let contested = self.claims.contested();
        for (start, count) in units_of(&inspection, &self.fs.geometry) {
            if !contested.any(start, count) {
                continue;
            }
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

    fn judge(
        &self,
        start: u64,
        end: u64,
        pairs: &[Pair],
        reporter: &mut Reporter<'_>,
        findings: &mut Findings,
    ) {
        let unit_blocks = u64::from(self.fs.geometry.cluster_blocks);
        let mut pairs = pairs.iter().peekable();
        for unit in self.claims.contested().ones_from(start).take_while(|unit| *unit < end) {
            let mut owners = Vec::new();
            if self.fs.metadata.any(unit * unit_blocks, unit_blocks) {
                owners.push(Owner::Metadata);
            }
            while pairs.next_if(|(other, _)| *other < unit).is_some() {}
            while let Some((_, owner)) = pairs.next_if(|(other, _)| *other == unit) {
                owners.push(*owner);
            }
            self.claims.settle(unit, !owners.is_empty());
            if owners.len() > 1 {
                reporter.add(unit, owners, findings);
            }
        }
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

/// Owners of one unit, each once, in ascending order; shared by neighbouring units with the same ones.
type Owners = Rc<[Owner]>;

/// Turns owners of units, which come in ascending order, into problems.
struct Reporter<'a> {
    fs: &'a Fs<'a>,
    last: Owners,
    /// The run of each inode that may still grow: first unit, length, owners.
    runs: BTreeMap<InodeNo, (u64, u64, Owners)>,
    by_inode: BTreeMap<InodeNo, Sharing>,
}

/// What one inode shares with others.
#[derive(Default)]
struct Sharing {
    units: u64,
    others: BTreeSet<Owner>,
    /// Whether there are more others than are named.
    more: bool,
}

impl<'a> Reporter<'a> {
    fn new(fs: &'a Fs<'a>) -> Self {
        Reporter { fs, last: Rc::new([]), runs: BTreeMap::new(), by_inode: BTreeMap::new() }
    }

    fn add(&mut self, unit: u64, mut owners: Vec<Owner>, findings: &mut Findings) {
        owners.dedup();
        if *self.last != *owners {
            self.last = Rc::from(owners);
        }
        let owners = Rc::clone(&self.last);
        for owner in owners.iter() {
            let Owner::Inode(inode) = owner else { continue };
            self.by_inode.entry(*inode).or_default().add(*owner, &owners);
            match self.runs.get_mut(inode) {
                Some((start, count, with)) if *start + *count == unit && Rc::ptr_eq(with, &owners) => {
                    *count += 1
                }
                _ => {
                    if let Some(run) = self.runs.insert(*inode, (unit, 1, Rc::clone(&owners))) {
                        raise_run(self.fs, *inode, run, findings);
                    }
                }
            }
        }
    }

    fn finish(self, findings: &mut Findings) {
        for (inode, run) in self.runs {
            raise_run(self.fs, inode, run, findings);
        }
        let unit_blocks = u64::from(self.fs.geometry.cluster_blocks);
        for (inode, sharing) in self.by_inode {
            let problem = Problem::new(&problems::SHARES_BLOCKS).inode(inode);
            let mut names = names_of(inode, sharing.others.iter());
            if sharing.more {
                names.push("more".into());
            }
            let problem = problem.detail("count", sharing.units * unit_blocks);
            findings.raise(problem.detail("others", Value::List(names)));
        }
    }
}

impl Sharing {
    fn add(&mut self, own: Owner, owners: &[Owner]) {
        self.units += 1;
        // The smallest are named; whoever is not among the smallest of one unit is not among those of all units.
        for other in others_of(own, owners).take(OTHERS_NAMED_MAX + 1) {
            self.others.insert(*other);
        }
        while self.others.len() > OTHERS_NAMED_MAX {
            self.others.pop_last();
            self.more = true;
        }
    }
}

/// The owners beside `own`; an inode that is alone has the unit twice.
fn others_of(own: Owner, owners: &[Owner]) -> impl Iterator<Item = &Owner> {
    let alone = owners.len() == 1;
    owners.iter().filter(move |other| alone || **other != own)
}

fn raise_run(
    fs: &Fs<'_>,
    inode: InodeNo,
    (start, count, owners): (u64, u64, Owners),
    findings: &mut Findings,
) {
    let unit_blocks = u64::from(fs.geometry.cluster_blocks);
    let own = Owner::Inode(inode);
    let mut names = names_of(inode, others_of(own, &owners).take(OTHERS_NAMED_MAX));
    let others = if owners.len() == 1 { 1 } else { owners.len() - 1 };
    if others > OTHERS_NAMED_MAX {
        names.push(format!("{} more", others - OTHERS_NAMED_MAX).into());
    }
    let problem = Problem::new(&problems::MULTIPLY_CLAIMED).inode(inode);
    let problem = problem.blocks(BlockNo(start * unit_blocks), count * unit_blocks);
    findings.raise(problem.detail("others", Value::List(names)));
}

fn names_of<'o>(inode: InodeNo, others: impl Iterator<Item = &'o Owner>) -> Vec<Value> {
    let name = |owner: &Owner| match owner {
        Owner::Metadata => Value::from("the file system's own structures"),
        Owner::Inode(other) if *other == inode => Value::from("itself, at another place"),
        Owner::Inode(other) => Value::Inode(*other, None),
    };
    others.map(name).collect()
}
