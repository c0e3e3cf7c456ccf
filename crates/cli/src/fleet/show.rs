// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run of a fleet shows on a terminal: the plan, how far it is, and the report over all volumes, the worst volumes first.

use fsmend_base::width;
use fsmend_engine::Severity;
use fsmend_fleet::merge::{CodeTotal, Merged, Volume};
use fsmend_fleet::status::Status;
use fsmend_fleet::{RunFolder, verdict};

use crate::numbers::{bytes, counted, duration, percent, seconds, thousands};
use crate::style::{Paint, Style, printable};

/// Lines of a list, unless all of them are wanted.
const LINES: usize = 20;

/// What was planned.
pub fn planned(folder: &RunFolder, is_new: bool) -> String {
    let run = &folder.run;
    let largest = run.shards.iter().map(|shard| shard.bytes).max().unwrap_or(0);
    let word = if is_new { "Planned" } else { "Already planned:" };
    let mut text = format!(
        "{word} {} in {} of at most {}: {}\n",
        counted(run.list.planned, "volume", "volumes"),
        counted(run.shards.len() as u64, "shard", "shards"),
        bytes(largest),
        folder.path().display()
    );
    let mut left_out = Vec::new();
    if run.list.other_parts > 0 {
        left_out.push(format!("{} of other parts", thousands(run.list.other_parts)));
    }
    if run.list.recent > 0 {
        left_out.push(format!("{} recently found clean", thousands(run.list.recent)));
    }
    if !left_out.is_empty() {
        text.push_str(&format!("Left out of {}: {}\n", thousands(run.list.volumes), left_out.join(", ")));
    }
    text
}

/// How far a run is.
pub fn status(folder: &RunFolder, status: &Status) -> String {
    let mut text = format!(
        "{} of {} have a record ({}), {} of {}: {}\n",
        thousands(status.recorded),
        counted(status.planned, "volume", "volumes"),
        percent(status.recorded, status.planned),
        bytes(status.bytes_recorded),
        bytes(status.bytes_planned),
        folder.path().display()
    );
    let complete = status.shards.iter().filter(|shard| shard.recorded == shard.planned).count();
    let untouched = status.shards.iter().filter(|shard| shard.attempts == 0).count();
    let in_part = status.shards.len().saturating_sub(complete).saturating_sub(untouched);
    text.push_str(&format!(
        "{}: {} complete, {} in part, {} not begun\n",
        counted(status.shards.len() as u64, "shard", "shards"),
        thousands(complete as u64),
        thousands(in_part as u64),
        thousands(untouched as u64)
    ));
    let unchecked = status.recorded - status.checked;
    if unchecked > 0 {
        let what = counted(unchecked, "volume", "volumes");
        text.push_str(&format!("{what} could not be checked; submit --retry checks them again\n"));
    }
    if status.begun > 0 {
        text.push_str("Begun and not finished: running, or left by a worker that died:\n");
        let begun =
            status.shards.iter().flat_map(|shard| shard.begun.iter().map(|begun| (shard.shard, begun)));
        for (shard, begun) in begun.take(LINES) {
            let (id, node) = (printable(&begun.id), printable(&begun.node));
            text.push_str(&format!("  shard {shard}  {node}  {id}\n"));
        }
        more(&mut text, width::index(status.begun), LINES);
    }
    text
}

/// The report over all volumes.
pub fn merged(merged: &Merged, style: Style, all: bool) -> String {
    let lines = if all { usize::MAX } else { LINES };
    let mut text = headline(merged, style);
    for (word, title) in [
        (verdict::DAMAGED, "Damaged"),
        (verdict::CRASHED, "Checks that crashed"),
        (verdict::REFUSED, "Not checked"),
        (verdict::UNCONFIRMED, "Unconfirmed"),
    ] {
        let volumes: Vec<&Volume> = merged.volumes.iter().filter(|volume| volume.verdict == word).collect();
        if volumes.is_empty() {
            continue;
        }
        heading(&mut text, style, title, volumes.len());
        for volume in volumes.iter().take(lines) {
            text.push_str(&of_volume(volume, style));
        }
        more(&mut text, volumes.len(), lines);
    }
    if !merged.missing.is_empty() {
        heading(&mut text, style, "Without a record", merged.missing.len());
        for missing in merged.missing.iter().take(lines) {
            let begun = if missing.begun { ", begun" } else { "" };
            let id = printable(&missing.id);
            text.push_str(&format!("  {id} (shard {}{begun})\n", missing.shard));
        }
        more(&mut text, merged.missing.len(), lines);
    }
    if !merged.codes.is_empty() {
        heading(&mut text, style, "Problems by code", merged.codes.len());
        for code in merged.codes.iter().take(lines) {
            text.push_str(&of_code(code, style));
        }
        more(&mut text, merged.codes.len(), lines);
    }
    text.push_str(&times(merged, style));
    text
}

fn headline(merged: &Merged, style: Style) -> String {
    let totals = &merged.totals;
    let mut parts = vec![style.paint(Paint::Good, &format!("{} clean", thousands(totals.sound)))];
    for (count, word, severity) in [
        (totals.damaged, "damaged", Severity::Major),
        (totals.crashed, "crashed", Severity::Major),
        (totals.refused, "not checked", Severity::Minor),
        (totals.unconfirmed, "unconfirmed", Severity::Minor),
        (totals.missing, "without a record", Severity::Minor),
    ] {
        if count > 0 {
            parts.push(style.paint(Paint::Severity(severity), &format!("{} {word}", thousands(count))));
        }
    }
    let mut text = format!("{}: {}\n", counted(totals.planned, "volume", "volumes"), parts.join(", "));
    text.push_str(&format!(
        "Checked {} of the volumes and {} of the bytes; {} found\n",
        percent(totals.checked, totals.planned),
        percent(totals.bytes_checked, totals.bytes_planned),
        counted(totals.problems, "problem", "problems")
    ));
    let list = &merged.list;
    if list.other_parts + list.recent > 0 {
        text.push_str(&format!(
            "The list has {}: {} of other parts and {} recently found clean were left out\n",
            counted(list.volumes, "volume", "volumes"),
            thousands(list.other_parts),
            thousands(list.recent)
        ));
    }
    text
}

fn heading(text: &mut String, style: Style, title: &str, count: usize) {
    text.push_str(&format!(
        "\n{}\n",
        style.paint(Paint::Bold, &format!("{title} ({})", thousands(count as u64)))
    ));
}

fn more(text: &mut String, count: usize, shown: usize) {
    if count > shown {
        text.push_str(&format!("  and {} more\n", thousands((count - shown) as u64)));
    }
}

fn of_volume(volume: &Volume, style: Style) -> String {
    let partition = volume.partition.map(|number| format!(", partition {number}")).unwrap_or_default();
    let mut facts = Vec::new();
    if volume.problems > 0 {
        facts.push(counted(volume.problems, "problem", "problems"));
    }
    facts.push(format!("{}{partition} on {}", printable(&volume.target), printable(&volume.node)));
    let mut text = format!("  {}  {}\n", printable(&volume.id), facts.join(", "));
    if !volume.message.is_empty() {
        text.push_str(&style.wrap("    ", &printable(&volume.message)));
    }
    if let Some(plan) = volume.repair.as_ref().and_then(|repair| repair.plan_file.as_ref()) {
        text.push_str(&format!("    plan: {}\n", printable(plan)));
    }
    text
}

fn of_code(code: &CodeTotal, style: Style) -> String {
    let severity = match code.severity {
        "critical" => Severity::Critical,
        "major" => Severity::Major,
        "minor" => Severity::Minor,
        _ => Severity::Note,
    };
    format!(
        "  {}  {} on {}\n",
        style.paint(Paint::Severity(severity), &printable(&code.code)),
        thousands(code.problems),
        counted(code.volumes, "volume", "volumes")
    )
}

/// What the checks cost, and where.
fn times(merged: &Merged, style: Style) -> String {
    let totals = &merged.totals;
    let mut text = String::new();
    let (Some(first), Some(last)) = (totals.first_started, totals.last_ended) else { return text };
    heading(&mut text, style, "Time", merged.nodes.len());
    let sum = duration(seconds(totals.seconds));
    let span = match last.saturating_sub(first) {
        0 => String::new(),
        span => format!(" within {}", duration(std::time::Duration::from_secs(span))),
    };
    let attempts = counted(totals.attempts, "attempt", "attempts");
    text.push_str(&format!("  {sum} of checks{span}, in {attempts} at shards\n"));
    for node in merged.nodes.iter().take(LINES) {
        let (name, volumes) = (printable(&node.node), counted(node.volumes, "volume", "volumes"));
        text.push_str(&format!("  {name}: {volumes} in {}\n", duration(seconds(node.seconds))));
    }
    more(&mut text, merged.nodes.len(), LINES);
    if let Some(slow) = merged.slowest.first() {
        let (id, node) = (printable(&slow.id), printable(&slow.node));
        text.push_str(&format!("  slowest: {id} on {node}, {}\n", duration(seconds(slow.seconds))));
    }
    text
}
