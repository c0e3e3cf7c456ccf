// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files with problems, those first of which a repair may lose something: what most people want to know before any detail.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fsmend_base::InodeNo;
use fsmend_engine::report::Report;
use fsmend_engine::{Problem, Severity};

use super::{LISTED, Layout};
use crate::numbers::thousands;
use crate::style::printable;

/// What is known of a file.
struct File<'r> {
    path: Option<&'r str>,
    worst: Severity,
    loses: bool,
    codes: Vec<&'static str>,
}

/// The section, or nothing where no problem is about a file.
pub(super) fn files_text(report: &Report, layout: Layout) -> String {
    let mut files: BTreeMap<InodeNo, File<'_>> = BTreeMap::new();
    for problem in report.damage().flat_map(|group| &group.problems) {
        add(&mut files, problem, layout);
    }
    if files.is_empty() {
        return String::new();
    }
    let all_kept = report.damage().all(|group| group.total == group.problems.len() as u64);
    let least = if all_kept { "" } else { "at least " };
    let mut text =
        format!("\nFiles and directories with problems ({least}{}):\n", thousands(files.len() as u64));
    let mut order: Vec<(InodeNo, File<'_>)> = files.into_iter().collect();
    order.sort_by_key(|(inode, file)| (Reverse(file.loses), Reverse(file.worst), *inode));
    let listed = if layout.all { order.len() } else { LISTED };
    for (inode, file) in order.iter().take(listed) {
        let name = match file.path {
            Some(path) => format!("{} (inode {})", printable(path), inode.0),
            None => format!("inode {}", inode.0),
        };
        let lost = if file.loses { "something may be lost" } else { "nothing is lost" };
        let codes = file.codes.join(", ");
        text.push_str(&layout.style.wrap("  - ", &format!("{name}: {lost} [{codes}]")));
    }
    if order.len() > listed {
        let rest = thousands((order.len() - listed) as u64);
        text.push_str(&format!("    and {rest} more (--all lists them)\n"));
    }
    text
}

fn add<'r>(files: &mut BTreeMap<InodeNo, File<'r>>, problem: &'r Problem, layout: Layout) {
    let Some(inode) = problem.object.inode else { return };
    let severity = problem.row.severity;
    let new = || File { path: None, worst: severity, loses: false, codes: Vec::new() };
    let file = files.entry(inode).or_insert_with(new);
    file.path = file.path.or(problem.object.path.as_deref());
    file.worst = file.worst.max(severity);
    file.loses |= layout.remedies.of(problem.row).loses;
    if !file.codes.contains(&problem.row.code) {
        file.codes.push(problem.row.code);
    }
}
