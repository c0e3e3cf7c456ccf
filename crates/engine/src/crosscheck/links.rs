// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stored link counts against the names that were found.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use fsmend_base::{InodeNo, width};

use crate::format::Volume;
use crate::inodes::{InodeFact, InodeTable, Kind};
use crate::pool::{self, PoolConfig, Stage};
use crate::{Findings, Problem, Row};

/// Chunks of inodes that one worker compares in one go, where they are large.
const CHUNKS_PER_SLICE: usize = 4;
/// Inodes of small chunks that one worker compares in one go: to take a slice costs more than to compare a few.
const INODES_PER_SLICE: u32 = 1 << 14;
/// One more worker for so many inodes: to start one takes about as long as to compare them.
const INODES_PER_WORKER: u64 = 1 << 16;

/// Changes to the numbers of names by repairs of the tree, e.g. a directory that is reconnected to lost+found.
pub type Adjustments = BTreeMap<InodeNo, i64>;

/// A count that is not the number of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongCount {
    /// The inode, which is in use and ought to have names.
    pub inode: InodeNo,
    /// What is known of it.
    pub fact: InodeFact,
    /// The count that it stores.
    pub stored: u16,
    /// The number of names.
    pub observed: u64,
}

/// What the comparison of link counts needs of a format.
pub trait LinkRules: Volume {
    /// The catalogue rows.
    fn link_rows(&self) -> LinkRows;

    /// Whether names are expected to lead to an inode in use at all. The root has one.
    fn has_names(&self, inode: InodeNo, fact: InodeFact) -> bool {
        let _ = (inode, fact);
        true
    }

    /// Whether there is nothing in a file without a name that could be kept: it is freed, and not reconnected.
    fn is_worthless(&self, inode: InodeNo) -> bool;

    /// The count to be stored for so many names, at least one. What the format lacks to say it is raised.
    fn count_for(&self, wrong: &WrongCount, findings: &mut Findings) -> u64 {
        let _ = findings;
        wrong.observed
    }

    /// The count that is stored, for the report: what the facts have, but where a format puts something else there.
    fn stored(&self, wrong: &WrongCount) -> u16 {
        wrong.stored
    }

    /// The row for a count that has to be changed; [`LinkRows::mismatch`] but where the format knows better.
    fn mismatch_row(&self, wrong: &WrongCount) -> &'static Row {
        let _ = wrong;
        self.link_rows().mismatch
    }
}

/// The catalogue rows of link counts.
#[derive(Clone, Copy, Debug)]
pub struct LinkRows {
    /// A count that is not the number of names: `stored`, `observed`.
    pub mismatch: &'static Row,
    /// A file with contents and no name.
    pub unattached: &'static Row,
    /// A file without contents and without a name.
    pub unattached_empty: &'static Row,
}

/// Compares the counts of all inodes in use, of which about `scanned` were scanned. Returns how many files without a name have to go to lost+found.
pub fn check(
    rules: &impl LinkRules,
    (inodes, scanned): (&InodeTable, u64),
    adjustments: &Adjustments,
    (pool, cancel): (PoolConfig<'_>, &AtomicBool),
    findings: &mut Findings,
) -> u64 {
    let chunks: Vec<u32> = (0..inodes.chunk_count()).collect();
    let compare_chunk = |wrong: &mut Vec<WrongCount>, chunk: u32| {
        let compare_one = |inode, fact: InodeFact, stored: u16, observed: u32| {
            let change = adjustments.get(&inode).copied().unwrap_or(0);
            let observed = (i64::from(observed) + change).max(0).cast_unsigned();
            if fact.kind() != Kind::Unused && u64::from(stored) != observed && rules.has_names(inode, fact) {
                wrong.push(WrongCount { inode, fact, stored, observed });
            }
        };
        match adjustments.is_empty() {
            true => inodes.visit_unequal(chunk, compare_one),
            false => inodes.visit_chunk(chunk, compare_one),
        }
    };
    let lists = pool::run_slices(
        pool.for_work(width::index(1 + scanned / INODES_PER_WORKER)),
        &[Stage { name: "links", pass: 0 }],
        &chunks,
        CHUNKS_PER_SLICE.max((INODES_PER_SLICE / inodes.per_chunk()) as usize),
        cancel,
        |_worker| Vec::new(),
        |wrong, part| part.iter().for_each(|chunk| compare_chunk(wrong, *chunk)),
    );
    let mut wrong = lists.concat();
    wrong.sort_unstable_by_key(|wrong| wrong.inode);
    wrong.into_iter().map(|wrong| u64::from(report(rules, wrong, findings))).sum()
}

/// Raises what is wrong with one count; returns whether the inode has to be attached.
fn report(rules: &impl LinkRules, mut wrong: WrongCount, findings: &mut Findings) -> bool {
    let (rows, inode) = (rules.link_rows(), wrong.inode);
    let attach = wrong.observed == 0 && inode != rules.root() && wrong.fact.kind() != Kind::Directory;
    if attach {
        if rules.is_worthless(inode) {
            findings.raise(Problem::new(rows.unattached_empty).inode(inode));
            return false;
        }
        findings.raise(Problem::new(rows.unattached).inode(inode));
        wrong.observed = 1;
    }
    wrong.observed = rules.count_for(&wrong, findings);
    if u64::from(wrong.stored) != wrong.observed {
        let problem = Problem::new(rules.mismatch_row(&wrong)).inode(inode);
        findings.raise(problem.stored(rules.stored(&wrong)).observed(wrong.observed));
    }
    attach
}

/// The counts of one chunk of inodes that are not the number of names.
pub fn wrong_of_chunk(rules: &impl LinkRules, inodes: &InodeTable, chunk: u32, wrong: &mut Vec<WrongCount>) {
    inodes.visit_chunk(chunk, |inode, fact, stored, observed| {
        let is_used = fact.kind() != Kind::Unused && rules.has_names(inode, fact);
        if is_used && u32::from(stored) != observed {
            wrong.push(WrongCount { inode, fact, stored, observed: u64::from(observed) });
        }
    });
}

/// Files without a name, directories not among them: for a repair that gives them one.
pub fn nameless(rules: &impl LinkRules, inodes: &InodeTable) -> Vec<InodeNo> {
    let mut nameless = Vec::new();
    for chunk in 0..inodes.chunk_count() {
        inodes.visit_chunk(chunk, |inode, fact, _, observed| {
            let is_file = !matches!(fact.kind(), Kind::Unused | Kind::Directory);
            if is_file && observed == 0 && rules.has_names(inode, fact) {
                nameless.push(inode);
            }
        });
    }
    nameless
}
