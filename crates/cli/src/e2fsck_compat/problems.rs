// SPDX-License-Identifier: MIT OR Apache-2.0
//! Problems, one line each, in the shape that scripts look for: the problem, then the question with its answer, or what was
//! done.

use fsmend_engine::report::Report;
use fsmend_engine::{Findings, Problem, Row, Severity};

use super::config::Config;
use crate::numbers::counted;
use crate::style::printable;

/// The names of the passes under which problems are printed.
pub const PASSES: [&str; 5] = [
    "inodes, block maps and sizes",
    "structure of directories",
    "connections between directories",
    "numbers of links",
    "bitmaps and totals of groups",
];

/// Codes of e2fsck for problems that its `-n` tells and does not count as errors.
const NOT_COUNTED: [u32; 19] = [
    0x00_001A, 0x00_0031, 0x00_0032, 0x00_0043, 0x00_0046, 0x00_0047, 0x00_0048, 0x00_004B, 0x01_0030,
    0x01_0033, 0x01_0076, 0x01_007F, 0x01_0082, 0x02_0024, 0x02_0027, 0x04_0001, 0x05_000D, 0x05_000F,
    0x06_000D,
];
/// Codes of e2fsck for problems that it mends without a word when it preens: the bookkeeping of pass 5.
const UNSPOKEN: [u32; 15] = [
    0x05_0004, 0x05_0005, 0x05_0006, 0x05_0008, 0x05_0009, 0x05_000A, 0x05_000B, 0x05_000C, 0x05_000D,
    0x05_000E, 0x05_000F, 0x05_0014, 0x05_0015, 0x05_0016, 0x05_0017,
];

/// The code that says that a backup stands in for the superblock.
const PRIMARY_REPLACED: &str = "ext.superblock.primary-replaced";

/// One problem that is going to be told.
#[derive(Clone, Copy, Debug)]
pub struct Rendered<'r> {
    /// The problem.
    pub problem: &'r Problem,
    /// How many more of its kind there are that are not printed, behind the last one that is.
    pub more: u64,
    /// Whether only the log gets it.
    pub log_only: bool,
}

/// Whether the journal, or what says that there is one, is damaged.
pub fn has_broken_journal(findings: &Findings) -> bool {
    let is_of_journal = |problem: &Problem| problem.row.code.starts_with("ext.journal.");
    findings.iter().any(|problem| is_of_journal(problem) && problem.row.severity > Severity::Note)
}

impl Rendered<'_> {
    /// What is wrong, as a sentence.
    pub fn sentence(&self) -> String {
        let text = printable(&self.problem.message());
        let mut characters = text.chars();
        let first = characters.next().map_or_else(String::new, |first| first.to_uppercase().collect());
        format!("{first}{}.", characters.as_str())
    }

    /// The line on those of its kind that are not printed; empty when there are none.
    pub fn rest(&self) -> String {
        match self.more {
            0 => String::new(),
            more => format!("({} of this kind)\n", counted(more, "more problem", "more problems")),
        }
    }
}

/// The problems of a report in the order of e2fsck's passes. Notes are no problems.
pub fn by_pass<'r>(report: &'r Report, config: &Config) -> Vec<(usize, Vec<Rendered<'r>>)> {
    let mut passes: Vec<(usize, Vec<Rendered<'r>>)> = (0..=6).map(|pass| (pass, Vec::new())).collect();
    for group in report.damage() {
        let max = config.told_max(group.row);
        let told = (group.problems.len() as u64).min(max);
        let list = &mut passes[pass_of(&group.problems[0])].1;
        for (number, problem) in (1..).zip(&group.problems) {
            let more = if number == told { group.total - told } else { 0 };
            list.push(Rendered { problem, more, log_only: number > told });
        }
    }
    passes
}

/// The pass in which e2fsck tells problems of this kind: the number stands in the upper half of its codes. What e2fsck does
/// not know is printed where its object is.
fn pass_of(problem: &Problem) -> usize {
    let known = problem.row.peers.iter().map(|code| (code >> 16) as usize).find(|pass| *pass <= 6);
    known.unwrap_or_else(|| match problem.row.code.split('.').nth(1) {
        Some("superblock" | "group" | "journal" | "orphan" | "mmp") => 0,
        Some("directory" | "htree") => 2,
        Some("links") => 4,
        Some("bitmap" | "allocation") => 5,
        Some("quota") => 6,
        _ => 1,
    })
}

/// The first problem, in the order in which they are printed, that an unattended repair may not touch.
pub fn first_unsafe<'a, 'r>(
    passes: &'a [(usize, Vec<Rendered<'r>>)],
    config: &Config,
) -> Option<&'a Rendered<'r>> {
    passes.iter().flat_map(|(_, told)| told).find(|told| !config.preen_ok(told.problem.row))
}

/// Whether a file system that keeps these problems counts as one with errors. Where a backup stands in for the superblock, all problems count: it does
/// not mount, and e2fsck, which takes old descriptors along with the old superblock, finds counts and bitmaps wrong.
pub fn leaves_errors(report: &Report) -> bool {
    let is_replaced = report.groups.iter().any(|group| group.row.code == PRIMARY_REPLACED);
    report.damage().any(|group| is_replaced || !all_among(group.row.peers, &NOT_COUNTED))
}

/// Whether an unattended repair keeps silent about problems of this kind.
pub fn is_unspoken(row: &Row) -> bool {
    all_among(row.peers, &UNSPOKEN)
}

fn all_among(peers: &[u32], codes: &[u32]) -> bool {
    !peers.is_empty() && peers.iter().all(|peer| codes.contains(peer))
}

/// How many problems in all are worth a repair.
pub fn count(report: &Report) -> u64 {
    report.groups.iter().filter(|group| group.row.severity > Severity::Note).map(|group| group.total).sum()
}

#[cfg(test)]
mod tests {
    use fsmend_engine::Findings;
    use fsmend_ext_check::catalogue;

    use super::*;

    fn row(code: &str) -> &'static Row {
        catalogue::find(code).expect("the row is in the catalogue")
    }

    fn report(codes: &[&str]) -> Report {
        let problems: Vec<Problem> = codes.iter().map(|code| Problem::new(row(code))).collect();
        let counts = codes.iter().map(|code| (row(code).code, 1)).collect();
        Report::new(Findings::from_parts(problems, counts))
    }

    #[test]
    fn stale_totals_are_no_errors() {
        assert!(!leaves_errors(&report(&["ext.allocation.totals-stale"])));
        assert!(leaves_errors(&report(&["ext.allocation.totals-stale", "ext.inode.links-mismatch"])));
        assert!(leaves_errors(&report(&[PRIMARY_REPLACED, "ext.allocation.free-blocks"])));
        assert!(!leaves_errors(&report(&[PRIMARY_REPLACED])), "a backup that is up to date");
        assert!(
            is_unspoken(row("ext.allocation.totals-stale")) && !is_unspoken(row("ext.inode.links-mismatch"))
        );
    }

    #[test]
    fn problems_are_told_in_the_order_of_passes() {
        let report =
            report(&["ext.allocation.free-blocks", "ext.inode.links-mismatch", "ext.directory.unconnected"]);
        let passes = by_pass(&report, &Config::default());
        let told: Vec<(usize, &str)> = passes
            .iter()
            .flat_map(|(pass, told)| told.iter().map(|told| (*pass, told.problem.row.code)))
            .collect();
        assert_eq!(
            told,
            [
                (3, "ext.directory.unconnected"),
                (4, "ext.inode.links-mismatch"),
                (5, "ext.allocation.free-blocks")
            ]
        );
        assert!(first_unsafe(&passes, &Config::default()).is_some());
    }
}
