// SPDX-License-Identifier: MIT OR Apache-2.0
//! The phases of fsck_ffs, and to which of them a problem belongs.

use fsmend_engine::report::Report;
use fsmend_engine::{Problem, Severity};

/// The phases as scripts know them; what is wrong with superblocks comes before the first.
pub const PHASES: [&str; 6] = [
    "1 - Check Blocks and Sizes",
    RESCAN,
    "2 - Check Pathnames",
    "3 - Check Connectivity",
    "4 - Check Reference Counts",
    "5 - Check Cyl groups",
];

/// The phase of blocks with several owners.
pub const RESCAN: &str = "1b - Rescan For More DUPS";

/// The problems of each phase of `report`: those before the first phase, then those of [`PHASES`].
pub fn by_phase(report: &Report) -> [Vec<&Problem>; 7] {
    let mut phases: [Vec<&Problem>; 7] = Default::default();
    let problems = report.damage().flat_map(|group| &group.problems);
    for problem in problems {
        phases[phase(problem.row.code)].push(problem);
    }
    phases
}

/// The first problem that keeps an unattended repair from being written.
pub fn first_unsafe<'r>(reports: &[&'r Report]) -> Option<&'r Problem> {
    let problems = reports.iter().flat_map(|report| report.damage().flat_map(|group| &group.problems));
    problems.into_iter().find(|problem| !problem.row.preen && problem.row.severity > Severity::Note)
}

fn phase(code: &str) -> usize {
    let mut words = code.split('.').skip(1);
    let (object, what) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match (object, what) {
        ("superblock", "totals" | "totals-stale") | ("group", _) => 6,
        ("superblock", _) => 0,
        ("block", _) | ("inode", "shares-blocks") => 2,
        ("root", _) => 3,
        ("directory", "unconnected" | "unconnected-left" | "looped") => 4,
        ("directory", _) => 3,
        ("inode", "links" | "links-left" | "unattached" | "unattached-left" | "unreferenced" | "no-room") => {
            5
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_stand_in_their_phases() {
        let codes =
            ["ufs.superblock.hash", "ufs.inode.type", "ufs.block.multiply-claimed", "ufs.directory.dot"];
        assert_eq!(codes.map(phase), [0, 1, 2, 3]);
        assert_eq!(
            ["ufs.directory.unconnected", "ufs.inode.links", "ufs.group.free-blocks"].map(phase),
            [4, 5, 6]
        );
    }
}
