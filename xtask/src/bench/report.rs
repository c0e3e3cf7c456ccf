// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures as a table for people, and as JSON.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::check::{Figures, State};
use super::images::Targets;
use super::measure::Spread;

/// Memory beyond 1.3 times e2fsck's (the ratio of pFSCK's paper) that we allow ourselves.
const MEMORY_TARGET_KIB: u64 = 32 << 10;
/// Share of the floor's rate of reading that a cold run has to reach.
const RATE_TARGET: f64 = 0.85;

/// One line of the table.
pub struct Row {
    /// Image.
    pub image: &'static str,
    /// What it holds.
    pub what: &'static str,
    /// What is wanted.
    pub targets: Targets,
    /// What the page cache held.
    pub state: State,
    /// The figures.
    pub figures: Figures,
    /// Load average of the minute before: above 0.5 or so, other work was measured too.
    pub load: Option<f64>,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.figures.e2fsck.median / self.figures.fsmend.median
    }

    fn wanted(&self) -> f64 {
        if self.state == State::Warm { self.targets.warm } else { self.targets.cold }
    }

    fn fast_enough(&self) -> bool {
        self.ratio() >= self.wanted()
    }

    /// Both read the same extents, so that rates are to each other as times are.
    fn reads_fast_enough(&self) -> bool {
        self.state == State::Warm || self.figures.floor.median / self.figures.fsmend.median >= RATE_TARGET
    }

    fn small_enough(&self) -> bool {
        match (self.figures.fsmend.peak_kib, self.figures.e2fsck.peak_kib) {
            (Some(ours), Some(theirs)) => ours <= theirs * 13 / 10 + MEMORY_TARGET_KIB,
            _ => true,
        }
    }

    fn shortfalls(&self) -> String {
        let tests = [
            (self.fast_enough(), "too slow"),
            (self.reads_fast_enough(), "reads too slowly"),
            (self.small_enough(), "too large"),
        ];
        let missed: Vec<&str> = tests.iter().filter(|(met, _)| !met).map(|(_, what)| *what).collect();
        if missed.is_empty() { "met".to_owned() } else { missed.join(", ") }
    }
}

/// The Markdown table.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| image | cache | e2fsck -fn | fsmend check | times faster | wanted | floor | fsmend / floor | xfs_repair -n | peak e2fsck | peak fsmend | load before | targets |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let Figures { e2fsck, fsmend, floor, xfs } = &row.figures;
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {:.1} | {:.1} | {} | {:.1} | {} | {} | {} | {} | {} |",
            row.image,
            state(row),
            times(e2fsck),
            times(fsmend),
            row.ratio(),
            row.wanted(),
            times(floor),
            fsmend.median / floor.median,
            xfs.as_ref().map_or("-".to_owned(), times),
            memory(e2fsck),
            memory(fsmend),
            row.load.map_or("unknown".to_owned(), |load| format!("{load:.1}")),
            row.shortfalls(),
        );
    }
    text
}

fn state(row: &Row) -> &'static str {
    if row.state == State::Warm { "warm" } else { "cold" }
}

fn times(spread: &Spread) -> String {
    let ms = |seconds: f64| format!("{:.0}", seconds * 1000.0);
    format!("{} ms ({} to {})", ms(spread.median), ms(spread.min), ms(spread.max))
}

fn memory(spread: &Spread) -> String {
    spread.peak_kib.map_or("unknown".to_owned(), |kib| format!("{:.1} MiB", kib as f64 / 1024.0))
}

/// Writes `check.md` and `check.json` into `folder`.
pub fn write(folder: &Path, rows: &[Row], runs: usize) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let facts = machine();
    let mut text = String::from(
        "# `fsmend check` against e2fsck\n\nMade by `cargo xtask bench check`; medians (fastest to slowest).\n\n",
    );
    for (name, value) in &facts {
        let _ = writeln!(text, "- {name}: {value}");
    }
    let _ = writeln!(text, "- runs: {runs}, alternating between the contestants\n");
    for row in rows.iter().filter(|row| row.state == State::Warm) {
        let _ = writeln!(text, "- **{}**: {}", row.image, row.what);
    }
    let _ = writeln!(
        text,
        "\nTargets: so many times faster than e2fsck as the column *wanted* says; cold at least {:.0} % of the floor's rate of reading; peak memory \
         at most 1.3 times e2fsck's plus {} MiB. The floor only reads inode tables, directory blocks and map blocks in large requests on all \
         cores, runs CRC32c over each record and steps over the entries. xfs_repair checks the same tree in XFS (files of one allocated block).\n",
        RATE_TARGET * 100.0,
        MEMORY_TARGET_KIB >> 10
    );
    text.push_str(&table(rows));
    fs::write(folder.join("check.md"), text)?;
    let facts: serde_json::Map<String, Value> =
        facts.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    let document = json!({ "version": 1, "machine": facts, "runs": runs, "rows": rows.iter().map(row_json).collect::<Vec<_>>() });
    fs::write(folder.join("check.json"), serde_json::to_string_pretty(&document)? + "\n")
}

fn row_json(row: &Row) -> Value {
    let spread = |spread: &Spread| json!({ "median_s": spread.median, "min_s": spread.min, "max_s": spread.max, "peak_kib": spread.peak_kib });
    json!({
        "load_before": row.load, "image": row.image, "what": row.what, "cache": state(row), "wanted": row.wanted(), "xfs_repair": row.figures.xfs.as_ref().map(spread), "reads_fast_enough": row.reads_fast_enough(),
        "e2fsck": spread(&row.figures.e2fsck), "fsmend": spread(&row.figures.fsmend), "floor": spread(&row.figures.floor),
        "times_faster": row.ratio(), "fast_enough": row.fast_enough(), "small_enough": row.small_enough(),
    })
}

/// What matters about the machine, without its name.
pub fn machine() -> Vec<(&'static str, String)> {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let e2fsck =
        fsmend_testkit::host::command("e2fsck").arg("-V").output().map(|output| first_line(&output.stderr));
    let kernel = fs::read_to_string("/proc/sys/kernel/ostype").unwrap_or_default().trim().to_owned()
        + " "
        + fs::read_to_string("/proc/sys/kernel/osrelease")
            .unwrap_or_default()
            .split('-')
            .next()
            .unwrap_or_default()
            .trim();
    let commit = Command::new("git")
        .args(["rev-parse", "--short", "HEAD"])
        .output()
        .map(|output| first_line(&output.stdout));
    vec![
        ("processor", format!("{} ({cores} cores)", model.trim_start_matches([' ', '\t', ':']).trim())),
        ("memory", memory.trim().to_owned()),
        ("kernel", kernel),
        ("e2fsck", e2fsck.unwrap_or_default()),
        ("fsmend", commit.unwrap_or_default()),
    ]
}

fn first_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().trim().to_owned()
}
