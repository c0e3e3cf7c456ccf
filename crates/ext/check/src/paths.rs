//! Names for what is reported: which path leads to an inode.

use std::collections::BTreeSet;

use fsmend_base::InodeNo;
use fsmend_engine::budget::Reservation;
use fsmend_engine::report::Naming;
use fsmend_engine::{Findings, Problem, Row, Value};

use crate::allocation::problems::BLOCKS_MARKED_BUT_FREE;
use crate::crosscheck::CrossCheck;
use crate::directory::former::Search;
use crate::directory::problems::UNCONNECTED;
use crate::links::problems::{UNATTACHED, UNATTACHED_EMPTY};
use fsmend_engine::names::paths::Paths;

/// Problems per kind that get a path when not all are wanted.
const NAMED_PER_ROW: usize = 5;
/// Memory for a path, and as much for the names that it is made of while they are looked up.
const PATH_BYTES: u64 = 1024;
/// Problems of what has no name.
const NAMELESS: [&Row; 3] = [&UNCONNECTED, &UNATTACHED, &UNATTACHED_EMPTY];
/// Memory for the former names of one of those, and for looking for them.
const FORMER_BYTES: u64 = 2048;
const SEARCH_BYTES: u64 = 4 << 20;

/// Fills in the paths of every problem's inodes, where a name leads to it; for the first few problems of each kind, or
/// for all of them.
pub fn name_objects(
    cross: &CrossCheck<'_>,
    mut findings: Findings,
    (naming, all): (Naming, bool),
    degraded: &mut Vec<String>,
) -> Findings {
    let is_told = |row: &Row| naming == Naming::All || row.loses_something();
    let mut wanted = BTreeSet::new();
    let mut mentions = 0;
    let most = if all { usize::MAX } else { NAMED_PER_ROW };
    findings.settle();
    let told = findings.rows_mut().filter(|row| row.first().is_some_and(|first| is_told(first.row)));
    for problem in told.flat_map(|row| row.iter_mut().take(most)) {
        wanted.extend(problem.object.inode);
        mentions += u64::from(problem.object.inode.is_some());
        for (_, value) in &mut problem.details {
            value.visit_inodes(&mut |inode, _| {
                wanted.insert(inode);
                mentions += 1;
            });
        }
    }
    let bytes = (wanted.len() as u64 + mentions) * PATH_BYTES / 2;
    if !cross.run_context.budget.try_reserve(bytes) {
        degraded.push(format!(
            "{} inodes are shown by number only: not enough memory to look up their paths.",
            wanted.len()
        ));
    } else if !wanted.is_empty() {
        let _held = Reservation::of(cross.run_context.budget, bytes);
        let wanted: Vec<_> = wanted.into_iter().collect();
        let paths =
            Paths::gather(cross.fs, &cross.inodes, &wanted, 1, (cross.run_context.pool(), cross.cancel));
        for problem in findings.rows_mut().flatten() {
            problem.object.path = problem.object.inode.and_then(|inode| paths.path_of(inode));
            for (_, value) in &mut problem.details {
                value.visit_inodes(&mut |inode, path| *path = paths.path_of(inode));
            }
        }
    }
    findings
}

/// Says of every problem about something without a name what that was called before, as far as anything still tells; of the first few
/// problems of each kind, or of all.
pub fn name_nameless(
    cross: &CrossCheck<'_>,
    mut findings: Findings,
    all: bool,
    degraded: &mut Vec<String>,
) -> Findings {
    if NAMELESS.iter().all(|row| !findings.has(row)) {
        return findings;
    }
    // In order again: paths were put in.
    findings.settle();
    let mut unowned: Vec<(u64, u64)> = findings
        .iter()
        .filter(|problem| *problem.row == BLOCKS_MARKED_BUT_FREE)
        .filter_map(|problem| Some((problem.object.block?.0, problem.object.block_count.unwrap_or(1))))
        .collect();
    unowned.sort_unstable();
    let mut wanted: BTreeSet<InodeNo> = BTreeSet::new();
    for row in NAMELESS {
        let inodes = findings.iter().filter(|problem| problem.row == row).filter_map(|one| one.object.inode);
        wanted.extend(inodes.take(if all { usize::MAX } else { NAMED_PER_ROW }));
    }
    let bytes = SEARCH_BYTES + wanted.len() as u64 * FORMER_BYTES;
    if !cross.run_context.budget.try_reserve(bytes) {
        degraded.push(format!(
            "The former names of {} unattached inodes were not searched: not enough memory.",
            wanted.len()
        ));
        return findings;
    }
    let _held = Reservation::of(cross.run_context.budget, bytes);
    let search = Search {
        fs: cross.fs,
        inodes: &cross.inodes,
        unowned: &unowned,
        pool: cross.run_context.pool(),
        cancel: cross.cancel,
    };
    let mut names = search.names_of(&wanted);
    let is_nameless = |problem: &&mut Problem| NAMELESS.contains(&problem.row);
    for problem in findings.rows_mut().flatten().filter(is_nameless) {
        if let Some(names) = problem.object.inode.and_then(|inode| names.remove(&inode)) {
            let names = names.into_iter().map(Value::Former).collect();
            problem.details.push(("former_names", Value::List(names)));
        }
    }
    findings
}
