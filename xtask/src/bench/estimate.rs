// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench estimate`: how far off is `fsmend check --estimate`, and how far off the end that progress foretells at half-time?

use std::fmt::Write;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Instant;

use fsmend_testkit::host::{command, is_root};
use serde_json::Value;

use super::Options;
use super::check::build;
use super::images::make_all;
use super::measure::{drop_caches, load_average};
use crate::workspace;

/// How far off the median may be: the estimate before the run, and the end as it is foretold at half-time.
const ESTIMATE_TARGET: f64 = 0.25;
const ETA_TARGET: f64 = 0.10;
/// Cold runs take their time.
const COLD_RUNS_MAX: usize = 5;

/// One run: seconds, and what was said of them.
struct Trial {
    truth: f64,
    estimate: f64,
    /// The end as it was foretold at half-time; `None` where nothing was said.
    foretold: Option<f64>,
}

/// All runs over one image.
struct Row {
    image: &'static str,
    state: &'static str,
    trials: Vec<Trial>,
    load: Option<f64>,
}

/// Measures all images and writes `docs/bench/estimate.md` (not when only one image was wanted).
pub fn run(options: &Options) -> io::Result<()> {
    if options.build {
        build()?;
    }
    let fsmend = fsmend_testkit::target_folder().join("release/fsmend");
    let mut rows = Vec::new();
    for (image, path) in make_all(&options.cache, options.only.as_deref())? {
        trial(&fsmend, &path, false)?;
        let mut measure = |state, runs, cold| -> io::Result<()> {
            let load = load_average();
            let trials =
                (0..runs).map(|_| trial(&fsmend, &path, cold)).collect::<io::Result<Vec<Trial>>>()?;
            rows.push(Row { image: image.name, state, trials, load });
            Ok(())
        };
        measure("warm", options.runs, false)?;
        if is_root() {
            measure("cold", options.runs.min(COLD_RUNS_MAX), true)?;
        }
    }
    let text = text(&rows);
    println!("{text}");
    if options.only.is_some() {
        return Ok(());
    }
    fs::write(workspace()?.join("docs/bench/estimate.md"), text)
}

/// An estimate, then a check, each with empty caches if it is to be `cold`.
fn trial(fsmend: &Path, image: &Path, cold: bool) -> io::Result<Trial> {
    let prepare = || if cold { drop_caches() } else { Ok(()) };
    prepare()?;
    let (said, _) = timed(fsmend, image, &["--estimate", "--format", "json"])?;
    let document: Value = serde_json::from_slice(&said.stdout)?;
    let estimate = seconds_in(&document)
        .ok_or_else(|| io::Error::other(format!("no estimate for {}: {document}", image.display())))?;
    prepare()?;
    let (lines, truth) = watched(fsmend, image)?;
    Ok(Trial { truth, estimate, foretold: foretold(&lines, truth / 2.0) })
}

/// Runs a check. Returns its lines of progress, each with the seconds since the program was started, and the run time in seconds.
fn watched(fsmend: &Path, image: &Path) -> io::Result<(Vec<(f64, String)>, f64)> {
    let mut command = command(&fsmend.to_string_lossy());
    command.arg("check").args(["--progress", "json"]).arg(image).stdout(Stdio::null()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn()?;
    let mut lines = Vec::new();
    for line in child.stderr.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        lines.push((start.elapsed().as_secs_f64(), line?));
    }
    let status = child.wait()?;
    let took = start.elapsed().as_secs_f64();
    if status.success() { Ok((lines, took)) } else { Err(io::Error::other(format!("{command:?}: {status}"))) }
}

fn timed(fsmend: &Path, image: &Path, options: &[&str]) -> io::Result<(Output, f64)> {
    let mut command = command(&fsmend.to_string_lossy());
    command.arg("check").args(options).arg(image);
    let start = Instant::now();
    let output = command.output()?;
    let took = start.elapsed().as_secs_f64();
    if output.status.success() {
        return Ok((output, took));
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("{command:?}: {}: {said}", output.status)))
}

fn seconds_in(document: &Value) -> Option<f64> {
    document.pointer("/targets/0/estimate/seconds").or(document.pointer("/estimate/seconds"))?.as_f64()
}

/// When the run would end, by the line of progress that came nearest to `half`.
fn foretold(lines: &[(f64, String)], half: f64) -> Option<f64> {
    let told =
        lines.iter().filter_map(|(came, line)| Some((*came, serde_json::from_str::<Value>(line).ok()?)));
    let (came, line) = told.min_by(|a, b| (a.0 - half).abs().total_cmp(&(b.0 - half).abs()))?;
    Some(came + line["left"].as_f64()?)
}

impl Trial {
    fn estimate_error(&self) -> f64 {
        self.estimate / self.truth - 1.0
    }

    /// Nothing said is as wrong as can be.
    fn eta_error(&self) -> f64 {
        self.foretold.map_or(-1.0, |foretold| foretold / self.truth - 1.0)
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        len if len % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

/// The error that is largest, whichever way.
fn worst(values: impl Iterator<Item = f64>) -> f64 {
    values.max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0)
}

const HEAD: &str = "# How good the estimate is\n
Made by `cargo xtask bench estimate`. Before each run `fsmend check --estimate` is asked how long it will take (`seconds`), cold with empty caches of its own. The
end that is foretold at half-time is what the line of `--progress json` says that comes nearest to half of the true time, from the start of the program: the time
until then and `left` together. Errors are shares of the true time: +10 % is a run that ended sooner than was said. On a busy machine the figures say little.\n
| image | cache | truth | estimate | error, median | error, worst | end foretold at half-time: error, median | worst | load before |
|---|---|---|---|---|---|---|---|---|
";

fn text(rows: &[Row]) -> String {
    let mut text = HEAD.to_owned();
    for row in rows {
        let trials = || row.trials.iter();
        let load = row.load.map_or_else(|| "-".to_owned(), |load| format!("{load:.1}"));
        let _ = writeln!(
            text,
            "| {} | {} | {:.0} ms | {:.0} ms | {} | {} | {} | {} | {load} |",
            row.image,
            row.state,
            median(trials().map(|trial| trial.truth)) * 1e3,
            median(trials().map(|trial| trial.estimate)) * 1e3,
            percent(median(trials().map(Trial::estimate_error))),
            percent(worst(trials().map(Trial::estimate_error))),
            percent(median(trials().map(Trial::eta_error))),
            percent(worst(trials().map(Trial::eta_error))),
        );
    }
    text.push('\n');
    text.push_str(&sentence(rows, "estimate before the run", ESTIMATE_TARGET, Trial::estimate_error));
    text.push_str(&sentence(rows, "end foretold at half-time", ETA_TARGET, Trial::eta_error));
    text
}

/// The median over all runs, whether it meets the target, and the worst case by name.
fn sentence(rows: &[Row], what: &str, target: f64, error: fn(&Trial) -> f64) -> String {
    let errors = || rows.iter().flat_map(|row| row.trials.iter().map(move |trial| (row, error(trial))));
    let median = median(errors().map(|(_, error)| error.abs()));
    let verdict = if median <= target { "met" } else { "missed" };
    let worst = errors().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    let worst = worst.map_or_else(String::new, |(row, error)| {
        format!(" Worst case: {}, {}, {}.", row.image, row.state, percent(error))
    });
    let (median, target) = (median * 100.0, target * 100.0);
    format!(
        "- {what}: {median:.0} % off in the median of all runs (target: {target:.0} %, {verdict}).{worst}\n"
    )
}

fn percent(share: f64) -> String {
    format!("{:+.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_nearest_to_half_time_counts() {
        let lines =
            [(0.0, "noise"), (0.1, r#"{"left":9.0}"#), (0.52, r#"{"left":0.5}"#), (0.9, r#"{"left":null}"#)];
        let lines = lines.map(|(came, line)| (came, line.to_owned()));
        assert_eq!(foretold(&lines, 0.5), Some(1.02));
        assert_eq!(foretold(&lines, 1.0), None, "nothing was said then");
    }

    #[test]
    fn the_worst_case_is_named() {
        let trial = |estimate| Trial { truth: 1.0, estimate, foretold: Some(1.05) };
        let rows = [
            Row { image: "files", state: "warm", trials: vec![trial(1.1), trial(0.9)], load: None },
            Row { image: "dirs50", state: "cold", trials: vec![trial(0.4)], load: None },
        ];
        let text = text(&rows);
        assert!(
            text.contains(
                "10 % off in the median of all runs (target: 25 %, met). Worst case: dirs50, cold, -60 %."
            ),
            "{text}"
        );
        assert!(text.contains("| files | warm | 1000 ms | 1000 ms | +0 % |"), "{text}");
    }
}
