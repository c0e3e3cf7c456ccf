// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report for people: the headline first, then what happens to which file, then the problems in groups, worst first, then what the file system
//! is and how full it is.

mod files;
mod stats;
#[cfg(test)]
mod tests;

use fsmend_engine::report::{JournalUse, ProblemGroup, Report, Summary};
use fsmend_engine::{Estimate, Problem, Severity};

use self::files::files_text;
use crate::numbers::{bytes, counted, duration, percent, seconds, thousands};
use crate::online::tell;
use crate::outcome::{Answer, Checked, Outcome};
use crate::remedies::Remedies;
use crate::style::{NO_BREAK, Paint, Style, printable};

/// How many problems of a kind are listed unless all are wanted.
const LISTED: usize = 5;

/// What to show, and how.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Colours and width.
    pub style: Style,
    /// Whether every problem is listed.
    pub all: bool,
    /// Whether only headlines are wanted.
    pub quiet: bool,
    /// Whether costs are wanted.
    pub stats: bool,
    /// What is done about problems.
    pub remedies: Remedies,
}

/// The report on one target of which is known what a repair does: `repair` tells it, file by file.
pub fn report_with(outcome: &Outcome, layout: Layout, repair: &str) -> String {
    let text = match &outcome.result {
        Ok(Answer::Checked(checked)) => checked_text(outcome, checked, layout, Some(repair)),
        _ => one(outcome, layout).unwrap_or_default(),
    };
    text + &hint(std::slice::from_ref(outcome), layout)
}

/// The report on all targets. Why some were refused is left to standard error; what was found in them stands here.
pub fn report(outcomes: &[Outcome], layout: Layout) -> String {
    let parts: Vec<String> = outcomes.iter().filter_map(|outcome| one(outcome, layout)).collect();
    parts.join(if layout.quiet { "" } else { "\n" }) + &hint(outcomes, layout)
}

/// Where to read on.
fn hint(outcomes: &[Outcome], layout: Layout) -> String {
    let damaged = outcomes.iter().find_map(worst_code).filter(|_| !layout.quiet);
    damaged.map_or(String::new(), |code| format!("\nMore about a kind of problem: fsmend explain {code}\n"))
}

fn worst_code(outcome: &Outcome) -> Option<&'static str> {
    let report = match &outcome.result {
        Ok(Answer::Checked(checked)) => &checked.report,
        Ok(Answer::Estimated(_)) => return None,
        Err(_) => &outcome.found_before,
    };
    report.groups.first().map(|group| group.row.code)
}

fn one(outcome: &Outcome, layout: Layout) -> Option<String> {
    match &outcome.result {
        Ok(Answer::Checked(checked)) => Some(checked_text(outcome, checked, layout, None)),
        Ok(Answer::Estimated(estimate)) => Some(estimate_text(outcome, estimate, layout.style)),
        Err(_) if layout.quiet || outcome.found_before.groups.is_empty() => None,
        Err(_) => Some(refused_text(outcome, layout)),
    }
}

fn refused_text(outcome: &Outcome, layout: Layout) -> String {
    let name = printable(&outcome.name());
    let mut text = layout.style.wrap("", &format!("{name}: not checked. Until then this was found:"));
    text.push_str(&groups_text(&outcome.found_before, layout));
    text
}

fn groups_text(report: &Report, layout: Layout) -> String {
    let mut text = String::new();
    for group in report.damage() {
        text.push('\n');
        text.push_str(&group_text(group, layout));
    }
    let mut notes = report.notes().peekable();
    if notes.peek().is_some() {
        text.push_str("\nWorth knowing:\n");
    }
    for group in notes {
        text.push_str(&group_text(group, layout));
    }
    text
}

fn checked_text(outcome: &Outcome, checked: &Checked, layout: Layout, repair: Option<&str>) -> String {
    let mut text = headline(outcome, checked, layout);
    if layout.quiet {
        return text;
    }
    match repair {
        Some(told) => text.push_str(told),
        None => text.push_str(&files_text(&checked.report, layout)),
    }
    text.push_str(&groups_text(&checked.report, layout));
    text.push('\n');
    if let Some(online) = &outcome.online {
        text.push_str(&tell::text(online, layout.style));
    }
    text.push_str(&layout.style.wrap("", &summary(&checked.summary)));
    for sentence in &checked.degraded {
        text.push_str(&layout.style.wrap("", sentence));
    }
    if layout.stats {
        text.push('\n');
        text.push_str(&stats::table(&checked.stats, outcome.wall, layout.style));
        text.push_str(&layout.style.wrap("", &stats::division(&checked.division)));
    }
    text
}

fn headline(outcome: &Outcome, checked: &Checked, layout: Layout) -> String {
    let style = layout.style;
    let name = printable(&outcome.name());
    let took = duration(outcome.wall).replace(' ', NO_BREAK);
    let report = &checked.report;
    let (verdict, paint, rest) = if report.is_damaged() {
        let worst = report.damage().map(|group| group.row.severity).max().unwrap_or(Severity::Minor);
        let problems = counted(report.problem_count(), "problem", "problems");
        let rest = format!("{problems} ({}), found in {took}.", by_severity(checked));
        ("damaged", Paint::Severity(worst.max(Severity::Major)), rest)
    } else if let Some(count) = unconfirmed(outcome) {
        let suspicions = counted(count, "suspicion", "suspicions");
        (
            "unconfirmed",
            Paint::Severity(Severity::Minor),
            format!("{suspicions} could not be confirmed, in {took}."),
        )
    } else {
        let files = counted(checked.summary.files_used, "inode", "inodes");
        if stands_on_backup(report) {
            let rest = format!(
                "{files} checked in {took}, all by a backup of the superblock. The primary one is damaged: the file system \
                 may refuse to mount until fsmend repair has restored it."
            );
            ("sound but for its superblock", Paint::Severity(Severity::Major), rest)
        } else {
            ("sound", Paint::Good, format!("{files} checked in {took}."))
        }
    };
    let plain = format!("{name}: {verdict}. {rest}");
    // Scripts read one line per target; people read lines that fit.
    let text =
        if layout.quiet { format!("{plain}\n").replace(NO_BREAK, " ") } else { style.wrap("", &plain) };
    text.replacen(&format!(": {verdict}."), &format!(": {}.", style.paint(paint, verdict)), 1)
}

/// Whether all that was found right was read by a backup of the superblock. As with e2fsck that alone is not damage, for nothing is wrong with
/// what the backup describes; but an administrator whose server does not boot needs to see it first.
fn stands_on_backup(report: &Report) -> bool {
    report.notes().any(|group| crate::target::FAMILIES.has(|family| family.read_by_copy(), group.row))
}

/// How many suspicions were not confirmed, if there were any.
fn unconfirmed(outcome: &Outcome) -> Option<u64> {
    outcome.online.as_ref().map(|online| tell::count(&online.unconfirmed)).filter(|count| *count > 0)
}

/// `1 critical, 12 minor`.
fn by_severity(checked: &Checked) -> String {
    let severities = [Severity::Critical, Severity::Major, Severity::Minor];
    let counts = severities.map(|severity| (checked.report.count(severity), severity.word()));
    let named = counts.into_iter().filter(|(count, _)| *count > 0);
    named.map(|(count, word)| format!("{} {word}", thousands(count))).collect::<Vec<_>>().join(", ")
}

fn group_text(group: &ProblemGroup, layout: Layout) -> String {
    let style = layout.style;
    let row = group.row;
    let severity = style.paint(Paint::Severity(row.severity), row.severity.word());
    let mut text = format!("{severity}  {}", style.paint(Paint::Bold, row.code));
    if group.total > 1 {
        text.push_str(&format!("  ({})", thousands(group.total)));
    }
    text.push('\n');
    let listed = if layout.all { group.problems.len() } else { LISTED };
    for problem in group.problems.iter().take(listed) {
        text.push_str(&problem_text(problem, style));
    }
    text.push_str(&more(group, layout.all, listed));
    if row.severity > Severity::Note {
        let told = layout.remedies.of(row);
        text.push_str(&remedy(told.repair, told.loss, style));
    }
    text
}

fn problem_text(problem: &Problem, style: Style) -> String {
    style.wrap("  - ", &printable(&problem.message()))
}

/// The line that stands for problems that are not listed.
fn more(group: &ProblemGroup, all: bool, listed: usize) -> String {
    let rest = group.total.saturating_sub(listed as u64);
    match (rest, all) {
        (0, _) => String::new(),
        (_, false) => format!("    and {} more (--all lists them)\n", thousands(rest)),
        (_, true) => format!("    and {} more, which were counted but not kept\n", thousands(rest)),
    }
}

fn remedy(repair: &str, loss: &str, style: Style) -> String {
    let lost = match loss.strip_prefix("Nothing") {
        Some(".") => "Nothing is lost.".to_owned(),
        Some(rest) => format!("Lost: nothing{rest}"),
        None => format!("May be lost: {loss}"),
    };
    let text = style.wrap("    ", &format!("Repair: {repair} {lost}"));
    // Escape codes may not be wrapped over: the colour goes round every line.
    text.lines().map(|line| format!("{}\n", style.paint(Paint::Dim, line))).collect()
}

fn summary(summary: &Summary) -> String {
    let label =
        if summary.label.is_empty() { String::new() } else { format!(" \"{}\"", printable(&summary.label)) };
    let mut text = format!(
        "{}{label}: {} of {} inodes in use, {}, {} non-contiguous; {} of {} blocks of {} in use",
        summary.kind,
        thousands(summary.files_used),
        thousands(summary.files_total),
        counted(summary.directories, "directory", "directories"),
        percent(summary.non_contiguous, summary.files_used),
        thousands(summary.blocks_used),
        thousands(summary.blocks_total),
        bytes(summary.block_size),
    );
    if let Some((used, all)) = summary.metadata_regions {
        text.push_str(&format!(
            "; {} of {} blocks of the indirect regions in use",
            thousands(used),
            thousands(all)
        ));
    }
    match summary.journal {
        JournalUse::None => {}
        JournalUse::Clean => text.push_str("; journal clean"),
        JournalUse::Damaged => text.push_str("; journal damaged"),
        JournalUse::Replayed => text.push_str("; journal replayed in memory before the check"),
        JournalUse::NotReplayed => {
            text.push_str("; journal not replayed: the metadata on the disk was checked")
        }
    }
    if summary.superblock_is_backup {
        text.push_str(&format!(
            "; the backup superblock in block {} was used",
            thousands(summary.superblock)
        ));
    }
    text.push('.');
    text
}

fn estimate_text(outcome: &Outcome, estimate: &Estimate, style: Style) -> String {
    let name = printable(&outcome.name());
    let [likely, low, high] = [estimate.seconds, estimate.seconds_low, estimate.seconds_high]
        .map(|estimate| duration(seconds(estimate)));
    let time = if low == high { format!("about {low}") } else { format!("about {likely} ({low} to {high})") };
    let mut text = style.wrap(
        "",
        &format!(
            "{name}: a check would take {time} and read {} in {}.",
            bytes(estimate.bytes),
            counted(estimate.requests, "request", "requests"),
        ),
    );
    text.push_str(&style.wrap("  Basis: ", &printable(&estimate.basis)));
    text
}
