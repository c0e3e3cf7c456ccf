// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names for what is reported: which path leads to an inode.

use std::collections::BTreeSet;

use fsmend_base::InodeNo;
use fsmend_engine::budget::Reservation;
use fsmend_engine::names::report::NAMED_PER_ROW;
use fsmend_engine::{Findings, Problem, Row, Value};

use crate::allocation::problems::BLOCKS_MARKED_BUT_FREE;
use crate::crosscheck::CrossCheck;
use crate::directory::former::Search;
use crate::directory::problems::UNCONNECTED;
use crate::links::problems::{UNATTACHED, UNATTACHED_EMPTY};

/// Problems of what has no name.
const NAMELESS: [&Row; 3] = [&UNCONNECTED, &UNATTACHED, &UNATTACHED_EMPTY];
/// Memory for the former names of one of those, and for looking for them.
const FORMER_BYTES: u64 = 2048;
const SEARCH_BYTES: u64 = 4 << 20;

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
