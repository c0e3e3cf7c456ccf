//! Problems, one line each, in the shape that scripts look for: the problem, then the question with its answer, or what was
//! done.

use fsmend_engine::report::Report;
use fsmend_engine::{Problem, Severity};

use super::config::Config;
use crate::numbers::counted;
use crate::style::printable;

/// The names of the passes under which problems are told.
pub const PASSES: [&str; 5] = [
    "inodes, block maps and sizes",
    "structure of directories",
    "connections between directories",
    "numbers of links",
    "bitmaps and totals of groups",
];

/// One problem that is going to be told.
#[derive(Clone, Copy, Debug)]
pub struct Told<'r> {
    /// The problem.
    pub problem: &'r Problem,
    /// How many more of its kind there are that are not told, behind the last one that is.
    pub more: u64,
    /// Whether only the log gets it.
    pub log_only: bool,
}

impl Told<'_> {
    /// What is wrong, as a sentence.
    pub fn sentence(&self) -> String {
        let text = printable(&self.problem.message());
        let mut characters = text.chars();
        let first = characters.next().map_or_else(String::new, |first| first.to_uppercase().collect());
        format!("{first}{}.", characters.as_str())
    }

    /// The line on those of its kind that are not told; empty when there are none.
    pub fn rest(&self) -> String {
        match self.more {
            0 => String::new(),
            more => format!("({} of this kind)\n", counted(more, "more problem", "more problems")),
        }
    }
}

/// The problems of a report in the order of e2fsck's passes. Notes are no problems.
pub fn by_pass<'r>(report: &'r Report, config: &Config) -> Vec<(usize, Vec<Told<'r>>)> {
    let mut passes: Vec<(usize, Vec<Told<'r>>)> = (0..=6).map(|pass| (pass, Vec::new())).collect();
    for group in report.damage() {
        let max = config.told_max(group.row);
        let told = (group.problems.len() as u64).min(max);
        let list = &mut passes[pass_of(&group.problems[0])].1;
        for (number, problem) in (1..).zip(&group.problems) {
            let more = if number == told { group.total - told } else { 0 };
            list.push(Told { problem, more, log_only: number > told });
        }
    }
    passes
}

/// The pass in which e2fsck tells problems of this kind: the number stands in the upper half of its codes. What e2fsck does
/// not know is told where its object is.
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

/// The first problem, in the order in which they are told, that an unattended repair may not touch.
pub fn first_unsafe<'a, 'r>(passes: &'a [(usize, Vec<Told<'r>>)], config: &Config) -> Option<&'a Told<'r>> {
    passes.iter().flat_map(|(_, told)| told).find(|told| !config.preen_ok(told.problem.row))
}

/// How many problems in all are worth a repair.
pub fn count(report: &Report) -> u64 {
    report.groups.iter().filter(|group| group.row.severity > Severity::Note).map(|group| group.total).sum()
}
