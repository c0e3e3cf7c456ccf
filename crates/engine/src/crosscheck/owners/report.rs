// SPDX-License-Identifier: MIT OR Apache-2.0
//! Owners as problems: one for each run of blocks and inode, one for each inode.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::{Owner, OwnerRows};
use crate::{Findings, Problem, Value};
use fsmend_base::{BlockNo, InodeNo};

/// At most this many other owners are named in one problem.
const OTHERS_NAMED_MAX: usize = 8;

/// Owners of one unit, each once, in ascending order; shared by neighbouring units with the same ones.
type Owners = Rc<[Owner]>;

/// Turns owners of units, which come in ascending order, into problems.
pub(super) struct Reporter {
    rows: OwnerRows,
    unit_blocks: u64,
    last: Owners,
    /// The units with these owners that have come, and are not counted yet: the first, and how many in a row.
    waiting: (u64, u64),
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
    /// The owners of the last unit, the inode among them.
    last: Owners,
}

impl Reporter {
    pub fn new(rows: OwnerRows, unit_blocks: u64) -> Self {
        Reporter {
            rows,
            unit_blocks,
            last: Rc::new([]),
            waiting: (0, 0),
            runs: BTreeMap::new(),
            by_inode: BTreeMap::new(),
        }
    }

    pub fn add(&mut self, unit: u64, owners: &mut Vec<Owner>, findings: &mut Findings) {
        owners.dedup();
        let (first, count) = self.waiting;
        if *self.last == **owners && first + count == unit {
            self.waiting.1 += 1;
            return;
        }
        self.count_waiting(findings);
        self.waiting = (unit, 1);
        if *self.last != **owners {
            self.last = Rc::from(owners.as_slice());
        }
    }

    /// Counts the units that wait, for each of their owners.
    fn count_waiting(&mut self, findings: &mut Findings) {
        let (first, more) = std::mem::take(&mut self.waiting);
        if more == 0 {
            return;
        }
        let owners = Rc::clone(&self.last);
        for owner in owners.iter() {
            let Owner::Inode(inode) = owner else { continue };
            self.by_inode.entry(*inode).or_default().add(*owner, more, &owners);
            match self.runs.get_mut(inode) {
                Some((start, count, with)) if *start + *count == first && Rc::ptr_eq(with, &owners) => {
                    *count += more
                }
                _ => {
                    if let Some(run) = self.runs.insert(*inode, (first, more, Rc::clone(&owners))) {
                        raise_run((&self.rows, self.unit_blocks), *inode, run, findings);
                    }
                }
            }
        }
    }

    pub fn finish(mut self, findings: &mut Findings) {
        self.count_waiting(findings);
        for (inode, run) in self.runs {
            raise_run((&self.rows, self.unit_blocks), inode, run, findings);
        }
        for (inode, sharing) in self.by_inode {
            let problem = Problem::new(self.rows.shares).inode(inode);
            if findings.passes_over(self.rows.shares, &problem.object) {
                continue;
            }
            let mut names = names_of(inode, sharing.others.iter());
            if sharing.more {
                names.push("more".into());
            }
            let problem = problem.detail("count", sharing.units * self.unit_blocks);
            findings.raise(problem.detail("others", Value::List(names)));
        }
    }
}

impl Sharing {
    fn add(&mut self, own: Owner, units: u64, owners: &Owners) {
        self.units += units;
        if Rc::ptr_eq(&self.last, owners) {
            return;
        }
        self.last = Rc::clone(owners);
        // The smallest are named; an owner that is not among the smallest of one unit is not among those of all units.
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
    (rows, unit_blocks): (&OwnerRows, u64),
    inode: InodeNo,
    (start, count, owners): (u64, u64, Owners),
    findings: &mut Findings,
) {
    let problem = Problem::new(rows.multiply_claimed).inode(inode);
    let problem = problem.blocks(BlockNo(start * unit_blocks), count * unit_blocks);
    if findings.passes_over(rows.multiply_claimed, &problem.object) {
        return;
    }
    let own = Owner::Inode(inode);
    let mut names = names_of(inode, others_of(own, &owners).take(OTHERS_NAMED_MAX));
    let others = if owners.len() == 1 { 1 } else { owners.len() - 1 };
    if others > OTHERS_NAMED_MAX {
        names.push(format!("{} more", others - OTHERS_NAMED_MAX).into());
    }
    findings.raise(problem.detail("others", Value::List(names)));
}

fn names_of<'o>(inode: InodeNo, others: impl Iterator<Item = &'o Owner>) -> Vec<Value> {
    let name = |owner: &Owner| match owner {
        Owner::Metadata => Value::from("the file system's own structures"),
        Owner::Inode(other) if *other == inode => Value::from("itself, at another logical block"),
        Owner::Inode(other) => Value::Inode(*other, None),
    };
    others.map(name).collect()
}
