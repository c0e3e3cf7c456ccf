// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of `bench neighbour` as tables, with what is expected of them.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use super::Setting;
use super::application::Speed;
use crate::bench::measure::{Sample, Spread, spread};
use crate::bench::report::machine;

/// The application may be slowed down so much.
const APPLICATION_TARGET: f64 = 1.05;
/// What sharing processors cost the paper's resource-aware checker (Figure 10 a: on a file system of its own), and how much more
/// we allow ourselves.
const PAPER_OFFLINE: f64 = 1.07;
const CHECKER_TARGET: f64 = 1.2 * PAPER_OFFLINE;

/// What was measured of one pair.
#[derive(Clone, Debug)]
pub struct Row {
    /// The checker, if there was one.
    pub checker: Option<&'static str>,
    /// Whether each had cores of its own.
    pub apart: bool,
    /// What the application did, each round.
    pub speeds: Vec<Speed>,
    /// Seconds that the checks took.
    pub checks: Vec<f64>,
}

impl Row {
    /// Nothing measured yet.
    pub fn new(checker: Option<&'static str>, apart: bool) -> Row {
        Row { checker, apart, speeds: Vec::new(), checks: Vec::new() }
    }

    fn transactions(&self) -> Spread {
        spread_of(self.speeds.iter().map(|speed| speed.transactions))
    }

    fn latency(&self) -> Spread {
        spread_of(self.speeds.iter().map(|speed| speed.latency_ms))
    }

    fn check(&self) -> Spread {
        spread_of(self.checks.iter().copied())
    }
}

fn spread_of(values: impl Iterator<Item = f64>) -> Spread {
    let samples: Vec<Sample> = values.map(|seconds| Sample { seconds, peak_kib: None }).collect();
    spread(&samples)
}

/// How many times slower the application is beside a checker than alone: the median over the rounds, in each of which both
/// were measured one after the other.
pub fn slowdown(row: &Row, alone: &Row) -> f64 {
    let pairs = alone.speeds.iter().zip(&row.speeds);
    spread_of(pairs.map(|(alone, beside)| alone.transactions / beside.transactions)).median
}

/// How many times longer a check takes than on cores of its own.
pub fn stretch(row: &Row, rows: &[Row]) -> Option<f64> {
    let family = |name: &str| name.split(' ').next().map(str::to_owned);
    let name = row.checker.and_then(family)?;
    let apart =
        rows.iter().find(|other| other.apart && other.checker.and_then(family) == Some(name.clone()))?;
    Some(row.check().median / apart.check().median)
}

/// The table of one state of the cache.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| beside it | cores | transactions/s | times slower | latency | one check | times longer | checks |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let Some(alone) = rows.iter().find(|row| row.checker.is_none()) else { return text };
    for row in rows {
        let speed = row.transactions();
        let (slower, check, longer) = match row.checker {
            None => ("1".to_owned(), "-".to_owned(), "-".to_owned()),
            Some(_) => {
                let check = row.check();
                let longer = stretch(row, rows).map_or("-".to_owned(), |times| format!("{times:.2}"));
                let check = format!(
                    "{:.0} ms ({:.0} to {:.0})",
                    check.median * 1e3,
                    check.min * 1e3,
                    check.max * 1e3
                );
                (format!("{:.3}", slowdown(row, alone)), check, longer)
            }
        };
        let _ = writeln!(
            text,
            "| {} | {} | {:.0} ({:.0} to {:.0}) | {slower} | {:.3} ms | {check} | {longer} | {} |",
            row.checker.unwrap_or("nothing"),
            if row.apart { "each its own" } else { "shared" },
            speed.median,
            speed.min,
            speed.max,
            row.latency().median,
            row.checks.len(),
        );
    }
    text
}

/// Whether our background check keeps to what is expected of it, in sentences.
pub fn verdict(rows: &[Row]) -> String {
    let ours =
        rows.iter().find(|row| !row.apart && row.checker.is_some_and(|name| name.contains("--background")));
    let alone = rows.iter().find(|row| row.checker.is_none());
    let (Some(ours), Some(alone)) = (ours, alone) else { return String::new() };
    let met = |value: f64, target: f64| if value <= target { "met" } else { "missed" };
    let slower = slowdown(ours, alone);
    let mut text = format!(
        "- the application is {slower:.3} times slower beside `fsmend check --background` than alone; target {APPLICATION_TARGET}: {}\n",
        met(slower, APPLICATION_TARGET)
    );
    if let Some(longer) = stretch(ours, rows) {
        let _ = writeln!(
            text,
            "- our check takes {longer:.2} times as long as on cores of its own; target {CHECKER_TARGET:.2} (1.2 times the paper's {PAPER_OFFLINE}): {}",
            met(longer, CHECKER_TARGET)
        );
    }
    text
}

/// What there is to be said of all tables.
pub struct About {
    /// The application and what it does.
    pub application: String,
    /// Whether cores were kept from sleeping.
    pub awake: bool,
    /// The load of the machine before.
    pub load: Option<f64>,
}

/// Writes `neighbour.md` into `folder`.
pub fn write(
    folder: &Path,
    setting: &Setting,
    tables: &[(&'static str, Vec<Row>)],
    about: &About,
) -> io::Result<()> {
    let mut text = String::from(
        "# `fsmend check --background` beside an application\n\nMade by `cargo xtask bench neighbour`; medians (smallest to largest).\n\n",
    );
    for (name, value) in machine() {
        let _ = writeln!(text, "- {name}: {value}");
    }
    let _ = writeln!(
        text,
        "- application: {}\n\
         - checked meanwhile, again and again: the benchmark image `{}`\n\
         - {} rounds of {} s for each line, one after the other in each round; load before: {}\n",
        about.application,
        setting.image,
        setting.rounds,
        setting.seconds,
        about.load.map_or("unknown".to_owned(), |load| format!("{load:.1}")),
    );
    text.push_str(
        "\"Times slower\" compares the application's transactions with those of the same round when it was alone, on all cores. \"Times longer\" compares \
         a check with the same checker on cores of its own, beside the application on the others, which is the paper's \"no CPU sharing\".\n\n\
         What the paper allows (pFSCK, FAST '21, Figure 10, and the text of 6.5): sharing processors, on a file system of its own (a), its resource-aware \
         checker takes 1.07 times as long and RocksDB 1.05 times, e2fsck 1.2 and 1.5; on the application's own file system, from an LVM snapshot (b), 1.2 and 1.2, \
         e2fsck 1.4 and 1.6. What is measured here is (a).\n",
    );
    if about.awake {
        text.push_str(
            "\nCores were kept from sleeping meanwhile (/dev/cpu_dma_latency): without that, an application is slower alone than beside a checker which \
             keeps its core awake.\n",
        );
    }
    for (state, rows) in tables {
        let _ = write!(text, "\n## Image in the page cache: {state}\n\n{}\n{}", table(rows), verdict(rows));
    }
    fs::create_dir_all(folder)?;
    fs::write(folder.join("neighbour.md"), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(checker: Option<&'static str>, apart: bool, transactions: &[f64], checks: &[f64]) -> Row {
        let speeds =
            transactions.iter().map(|transactions| Speed { transactions: *transactions, latency_ms: 1.0 });
        Row { checker, apart, speeds: speeds.collect(), checks: checks.to_vec() }
    }

    #[test]
    fn rounds_are_compared_with_themselves() {
        let rows = [
            row(None, false, &[100.0, 200.0, 400.0], &[]),
            row(Some("fsmend check --background"), true, &[90.0; 3], &[0.1, 0.1]),
            row(Some("fsmend check --background"), false, &[80.0, 160.0, 320.0], &[0.12, 0.2, 0.1]),
            row(Some("e2fsck -fn"), false, &[50.0, 100.0, 200.0], &[1.0]),
        ];
        assert_eq!((slowdown(&rows[2], &rows[0]), slowdown(&rows[3], &rows[0])), (1.25, 2.0));
        assert!((stretch(&rows[2], &rows).unwrap_or(0.0) - 1.2).abs() < 1e-9);
        assert_eq!(stretch(&rows[3], &rows), None);
        let verdict = verdict(&rows);
        assert!(verdict.contains("1.250 times slower") && verdict.contains("1.05: missed"), "{verdict}");
        assert!(verdict.contains("1.20 times as long") && verdict.contains("): met"), "{verdict}");
        assert_eq!(table(&rows).lines().count(), 6);
    }
}
