// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of `--stats`: what each stage cost.

use std::time::Duration;

use fsmend_engine::report::{Division, StageStats};

use crate::numbers::{bytes, duration, rate, thousands};
use crate::style::{Paint, Style};

const COLUMNS: [&str; 8] = ["stage", "time", "cpu", "memory", "read", "rate", "requests", "items"];
const GAP: &str = "  ";
/// Names of stages are never cut to less than this.
const NAME_MIN: usize = 12;

/// A row for each stage and one for the whole.
pub fn table(stages: &[StageStats], wall: Duration, style: Style) -> String {
    let mut rows: Vec<[String; 8]> = vec![COLUMNS.map(str::to_owned)];
    rows.extend(stages.iter().map(cells));
    rows.push(cells(&total(stages, wall)));
    let widest = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let mut widths: [usize; 8] = std::array::from_fn(widest);
    let others: usize = widths[1..].iter().map(|width| width + GAP.len()).sum();
    widths[0] = widths[0].min(style.width.saturating_sub(others)).max(NAME_MIN);
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let line = line(row, &widths);
        text.push_str(&if number == 0 { style.paint(Paint::Bold, &line) } else { line });
        text.push('\n');
    }
    text
}

/// How the work was divided, in a sentence or two.
pub fn division(division: &Division) -> String {
    let Division { mode, workers, waited, waited_at_once, waiting_max } = division;
    let workers = format!("Schedule {mode}, {workers} {}.", if *workers == 1 { "worker" } else { "workers" });
    let waiting = match waited {
        0 => "No entry waited to be certified.".to_owned(),
        _ => format!(
            "{} entries waited to be certified, at most {} at once (room for {}).",
            thousands(*waited),
            thousands(*waited_at_once),
            thousands(*waiting_max)
        ),
    };
    format!("{workers} {waiting}")
}

/// The first column to the left, the others to the right.
fn line(row: &[String; 8], widths: &[usize; 8]) -> String {
    let cell = |(column, (text, width)): (usize, (&String, &usize))| {
        if column == 0 { format!("{:<width$}", cut(text, *width)) } else { format!("{text:>width$}") }
    };
    row.iter().zip(widths).enumerate().map(cell).collect::<Vec<_>>().join(GAP)
}

/// `text`, or as much of it as fits, with an ellipsis for the rest.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

fn cells(stage: &StageStats) -> [String; 8] {
    let wall = Duration::from_nanos(stage.wall_ns);
    [
        stage.name.to_owned(),
        duration(wall),
        duration(Duration::from_nanos(stage.cpu_ns)),
        bytes(stage.peak_memory),
        bytes(stage.bytes_read),
        if stage.bytes_read == 0 { "-".to_owned() } else { rate(stage.bytes_read, wall) },
        thousands(stage.requests),
        thousands(stage.items),
    ]
}

/// Stages overlap, so their times do not add up to the whole; memory is the most that any of them saw.
fn total(stages: &[StageStats], wall: Duration) -> StageStats {
    let start = StageStats {
        name: "all",
        wall_ns: u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX),
        ..StageStats::default()
    };
    stages.iter().fold(start, |sum, stage| StageStats {
        cpu_ns: sum.cpu_ns.saturating_add(stage.cpu_ns),
        peak_memory: sum.peak_memory.max(stage.peak_memory),
        bytes_read: sum.bytes_read.saturating_add(stage.bytes_read),
        requests: sum.requests.saturating_add(stage.requests),
        items: sum.items.saturating_add(stage.items),
        ..sum
    })
}
