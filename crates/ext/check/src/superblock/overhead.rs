// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stored overhead (`s_overhead_clusters`) against what is in use.
//!
//! mke2fs and kernels since 5.18 store how many clusters the file system's own structures take. The kernel subtracts this number from the size that statfs(2) reports, and
//! recomputes it only where it is zero or larger than the whole file system. A number between that and what is in use at all is wrong, and nothing else notices it.

use fsmend_engine::{Findings, Problem};

use super::problems::OVERHEAD_WRONG;
use crate::Fs;
use crate::allocation::Totals;
use crate::repair::RepairContext;

/// The clusters in use, if the stored overhead is more than all of them.
fn exceeded(fs: &Fs<'_>, totals: &Totals) -> Option<u64> {
    let used = fs.geometry.clusters_count().saturating_sub(totals.free_units);
    let stored = u64::from(fs.superblock.s_overhead_clusters.get());
    (stored > used).then_some(used)
}

/// Raises an overhead that cannot be.
pub(crate) fn check(fs: &Fs<'_>, totals: &Totals, findings: &mut Findings) {
    if let Some(used) = exceeded(fs, totals) {
        let stored = fs.superblock.s_overhead_clusters.get();
        findings.raise(Problem::new(&OVERHEAD_WRONG).stored(stored).observed(used));
    }
}

/// Sets an overhead that cannot be to 0: the kernel computes it on the next mount.
pub(crate) fn mend(context: &mut RepairContext<'_>) {
    if exceeded(&context.fs, &context.totals).is_some() {
        context.fs.superblock.s_overhead_clusters = 0.into();
    }
}
