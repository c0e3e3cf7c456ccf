// SPDX-License-Identifier: MIT OR Apache-2.0
//! What files and directories without a name were called: a format tells where something still names them, and the names stand in the problems that are about them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::InodeNo;

use super::Checkable;
use super::scan::Scanned;
use crate::budget::Reservation;
use crate::names::paths::Paths;
use crate::names::report::NAMED_PER_ROW;
use crate::pool::PoolConfig;
use crate::problem::Value;
use crate::{Budget, Findings};

/// Memory of a search, and for each inode that is looked for.
const SEARCH_BYTES: u64 = 2 << 20;
const FORMER_BYTES: u64 = 4096;

/// Puts former names into the problems about what has no name: into all of them, or the first of each kind.
pub fn tell<V: Checkable>(
    (volume, scanned): (&V, &Scanned),
    mut findings: Findings,
    all: bool,
    budget: &Arc<Budget>,
    pool: (PoolConfig<'_>, &AtomicBool),
    degraded: &mut Vec<String>,
) -> Findings {
    let rows = [volume.link_rows().unattached, volume.tree_rows().unconnected];
    if rows.iter().all(|row| !findings.has(row)) {
        return findings;
    }
    findings.settle();
    let most = if all { usize::MAX } else { NAMED_PER_ROW };
    let of_row = |row| findings.iter().filter(move |problem| problem.row == row);
    let wanted: BTreeSet<InodeNo> = rows
        .into_iter()
        .flat_map(|row| of_row(row).filter_map(|problem| problem.object.inode).take(most))
        .collect();
    let bytes = SEARCH_BYTES + wanted.len() as u64 * FORMER_BYTES;
    if !budget.try_reserve(bytes) {
        degraded.push(format!(
            "The former names of {} unattached inodes were not searched: not enough memory.",
            wanted.len()
        ));
        return findings;
    }
    let _held = Reservation::of(budget, bytes);
    let Some(traces) = volume.traces(&wanted, (&scanned.inodes, &scanned.claims)) else { return findings };
    let parent = |inode| {
        let entry = scanned.inodes.directory(inode)?.parent_entry.load(Relaxed);
        (entry != 0).then_some(InodeNo(entry))
    };
    let mut holders: BTreeSet<InodeNo> = traces.holders().collect();
    holders.extend(wanted.iter().filter_map(|inode| parent(*inode)));
    let holders: Vec<InodeNo> = holders.into_iter().collect();
    let paths = Paths::gather(volume, &scanned.inodes, &holders, 1, pool);
    let mut told = traces.told(&wanted, &paths, parent);
    for problem in findings.rows_mut().flatten().filter(|problem| rows.contains(&problem.row)) {
        if let Some(names) = problem.object.inode.and_then(|inode| told.remove(&inode)) {
            let names = names.into_iter().map(Value::Former).collect();
            problem.details.push(("former_names", Value::List(names)));
        }
    }
    findings
}
