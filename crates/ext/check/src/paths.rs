//! Names for what is reported: which path leads to an inode.

use std::collections::{BTreeMap, BTreeSet};

use fsmend_engine::Findings;
use fsmend_engine::budget::Reservation;

use crate::crosscheck::CrossCheck;
use crate::directory::paths::Paths;

/// Problems per kind that get a path when not all are wanted.
const NAMED_PER_ROW: usize = 5;
/// Memory for a path, and as much for the names that it is made of while they are looked up.
const PATH_BYTES: u64 = 1024;

/// Fills in the paths of every problem's inodes, where a name leads to it; for the first few problems of each kind, or
/// for all of them.
pub fn name_objects(
    cross: &CrossCheck<'_>,
    findings: Findings,
    all: bool,
    degraded: &mut Vec<String>,
) -> Findings {
    let mut wanted = BTreeSet::new();
    let mut mentions = 0;
    let mut per_row: BTreeMap<&str, usize> = BTreeMap::new();
    let counts = findings.counts();
    let mut problems = findings.into_sorted();
    for problem in &mut problems {
        let named = per_row.entry(problem.row.code).or_default();
        *named += 1;
        if !all && *named > NAMED_PER_ROW {
            continue;
        }
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
    if !cross.means.budget.try_reserve(bytes) {
        degraded.push(format!(
            "{} inodes are named by their numbers only: there was too little memory to look up their paths.",
            wanted.len()
        ));
    } else if !wanted.is_empty() {
        let _held = Reservation::of(cross.means.budget, bytes);
        let wanted: Vec<_> = wanted.into_iter().collect();
        let paths = Paths::gather(cross.fs, &cross.inodes, &wanted, 1, (cross.means.crew(), cross.cancel));
        for problem in &mut problems {
            problem.object.path = problem.object.inode.and_then(|inode| paths.path_of(inode));
            for (_, value) in &mut problem.details {
                value.visit_inodes(&mut |inode, path| *path = paths.path_of(inode));
            }
        }
    }
    Findings::from_parts(problems, counts)
}
