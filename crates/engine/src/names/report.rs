// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names for what is reported: which path leads to an inode.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::paths::{Directories, Paths};
use crate::budget::Reservation;
use crate::inodes::InodeTable;
use crate::pool::PoolConfig;
use crate::report::Naming;
use crate::{Budget, Findings, Row};

/// Problems of a kind that get a path when not all are wanted.
pub const NAMED_PER_ROW: usize = 5;
/// Memory for a path, and as much for the names that it is made of while they are looked up.
const PATH_BYTES: u64 = 1024;

/// Fills in the paths of every problem's inodes, where a name leads to it; for the first few problems of each kind, or
/// for all of them.
pub fn name_objects<V: Directories>(
    (volume, inodes): (&V, &InodeTable),
    mut findings: Findings,
    (naming, all): (Naming, bool),
    budget: &Arc<Budget>,
    pool: (PoolConfig<'_>, &AtomicBool),
    degraded: &mut Vec<String>,
) -> Findings {
    let is_wanted = |row: &Row| naming == Naming::All || row.loses;
    let mut wanted = BTreeSet::new();
    let mut mentions = 0;
    let most = if all { usize::MAX } else { NAMED_PER_ROW };
    findings.settle();
    let named = findings.rows_mut().filter(|row| row.first().is_some_and(|first| is_wanted(first.row)));
    for problem in named.flat_map(|row| row.iter_mut().take(most)) {
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
    if !budget.try_reserve(bytes) {
        degraded.push(format!(
            "{} inodes are shown by number only: not enough memory to look up their paths.",
            wanted.len()
        ));
    } else if !wanted.is_empty() {
        let _held = Reservation::of(budget, bytes);
        let wanted: Vec<_> = wanted.into_iter().collect();
        let paths = Paths::gather(volume, inodes, &wanted, 1, pool);
        for problem in findings.rows_mut().flatten() {
            problem.object.path = problem.object.inode.and_then(|inode| paths.path_of(inode));
            for (_, value) in &mut problem.details {
                value.visit_inodes(&mut |inode, path| *path = paths.path_of(inode));
            }
        }
    }
    findings
}
