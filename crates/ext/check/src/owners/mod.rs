//! Who owns the blocks that were claimed more than once: all inodes are looked at again, and every owner is named.

pub mod problems;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::claims::Claims;
use fsmend_engine::inodes::{InodeTable, Kind};
use fsmend_engine::{Findings, Problem, Value, pool};

use crate::Fs;
use crate::inode;
use crate::scan::units_of;

/// Groups that one worker takes at a time.
const GROUPS_PER_SLICE: usize = 1;
/// At most this many other owners are named in one problem.
const OTHERS_NAMED_MAX: usize = 32;

/// An owner of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Owner {
    /// The file system's own static structures.
    Metadata,
    /// An inode, by its map or its attribute block.
    Inode(InodeNo),
}

/// The owners of each contested unit that really has several, the units in ascending order.
pub type Owners = BTreeMap<u64, Vec<Owner>>;

/// Finds the owners of all contested units. Units that turn out to have one owner or none (claims were taken back
/// meanwhile) are left out; units with an owner are claimed afterwards, and those without are not. `extra` are owners that no inode's
/// map knows of (attribute blocks).
pub fn find(
    fs: &Fs<'_>,
    inodes: &InodeTable,
    claims: &Claims,
    extra: &[(u64, Owner)],
    workers: usize,
    cancel: &AtomicBool,
) -> Owners {
    let mut owners: Owners = claims.contested().ones().map(|unit| (unit, Vec::new())).collect();
    if owners.is_empty() {
        return owners;
    }
    let chunks: Vec<u32> = (0..inodes.chunk_count()).collect();
    let found = pool::run_slices(
        workers,
        &chunks,
        GROUPS_PER_SLICE,
        cancel,
        |_| Vec::new(),
        |found, part| {
            for chunk in part {
                inodes.visit_chunk(*chunk, |inode, fact, _, _| {
                    if fact.kind() != Kind::Unused {
                        contested_units_of(fs, claims, inode, found);
                    }
                });
            }
        },
    );
    for (unit, owner) in found.into_iter().flatten().chain(extra.iter().copied()) {
        if let Some(list) = owners.get_mut(&unit) {
            list.push(owner);
        }
    }
    let unit_blocks = u64::from(fs.geometry.cluster_blocks);
    for (unit, list) in &mut owners {
        if fs.metadata.any(unit * unit_blocks, unit_blocks) {
            list.push(Owner::Metadata);
        }
        list.sort_unstable();
        claims.settle(*unit, !list.is_empty());
    }
    owners.retain(|_, list| list.len() > 1);
    owners
}

fn contested_units_of(fs: &Fs<'_>, claims: &Claims, inode: InodeNo, found: &mut Vec<(u64, Owner)>) {
    let Some(Ok(record)) = fs.read_inode(inode) else { return };
    let inspection = inode::inspect(fs, inode, &record, &mut Findings::new());
    for (start, count) in units_of(&inspection, &fs.geometry) {
        if claims.contested().any(start, count) {
            let contested = (start..start + count).filter(|unit| claims.contested().get(*unit));
            found.extend(contested.map(|unit| (unit, Owner::Inode(inode))));
        }
    }
}

/// Who else claims a block: the first few, and whether there are more. A crowd on one block costs no more than a pair.
#[derive(Clone, Default, PartialEq, Eq)]
struct Others(BTreeSet<Owner>);

impl Others {
    /// Among all `owners` of a unit, those beside `owner`; itself if it is there alone (at several places).
    fn of(owner: Owner, owners: &BTreeSet<Owner>) -> Self {
        let alone = owners.len() == 1;
        let beside = owners.iter().copied().filter(|other| alone || *other != owner);
        Others(beside.take(OTHERS_NAMED_MAX + 1).collect())
    }

    fn extend(&mut self, others: &Others) {
        self.0.extend(&others.0);
        while self.0.len() > OTHERS_NAMED_MAX + 1 {
            self.0.pop_last();
        }
    }

    fn names(&self, inode: InodeNo) -> Value {
        let name = |owner: &Owner| match owner {
            Owner::Metadata => Value::from("the file system's own structures"),
            Owner::Inode(other) if *other == inode => Value::from("itself, at another place"),
            Owner::Inode(other) => Value::Inode(*other, None),
        };
        let mut names: Vec<Value> = self.0.iter().take(OTHERS_NAMED_MAX).map(name).collect();
        if self.0.len() > OTHERS_NAMED_MAX {
            names.push("more".into());
        }
        Value::List(names)
    }
}

/// Raises the problems: one for each run of blocks and inode, one for each inode.
pub fn report(fs: &Fs<'_>, owners: &Owners, findings: &mut Findings) {
    let mut by_inode: BTreeMap<InodeNo, (u64, Others)> = BTreeMap::new();
    let mut runs: BTreeMap<InodeNo, (u64, u64, Others)> = BTreeMap::new();
    for (unit, list) in owners {
        let distinct: BTreeSet<Owner> = list.iter().copied().collect();
        for owner in &distinct {
            let Owner::Inode(inode) = owner else { continue };
            let others = Others::of(*owner, &distinct);
            let entry = by_inode.entry(*inode).or_default();
            entry.0 += 1;
            entry.1.extend(&others);
            match runs.get_mut(inode) {
                Some((start, count, with)) if *start + *count == *unit && *with == others => *count += 1,
                _ => {
                    if let Some((start, count, with)) = runs.insert(*inode, (*unit, 1, others)) {
                        raise_run(fs, *inode, start, count, &with, findings);
                    }
                }
            }
        }
    }
    for (inode, (start, count, with)) in runs {
        raise_run(fs, inode, start, count, &with, findings);
    }
    let unit_blocks = u64::from(fs.geometry.cluster_blocks);
    for (inode, (count, others)) in by_inode {
        let problem =
            Problem::new(&problems::SHARES_BLOCKS).inode(inode).detail("count", count * unit_blocks);
        findings.raise(problem.detail("others", others.names(inode)));
    }
}

fn raise_run(fs: &Fs<'_>, inode: InodeNo, start: u64, count: u64, with: &Others, findings: &mut Findings) {
    let unit_blocks = u64::from(fs.geometry.cluster_blocks);
    let problem = Problem::new(&problems::MULTIPLY_CLAIMED).inode(inode);
    let problem = problem.blocks(BlockNo(start * unit_blocks), count * unit_blocks);
    findings.raise(problem.detail("others", with.names(inode)));
}
