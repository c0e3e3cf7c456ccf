// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask test`: everything that has to hold before a change lands, with a summary at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fsmend_engine::problem::witness;
use fsmend_testkit::host::{SKIP_LOG, unmount_below};

use crate::{minimum, package, packages, tidy, workspace};

/// One step and how it went.
struct Step {
    name: &'static str,
    passed: bool,
    took: Duration,
}

/// Runs all steps, whatever comes of each; fails when one of them failed.
pub fn run() -> io::Result<()> {
    let root = workspace()?;
    let skip_log = root.join("target/skipped-tests.txt");
    let raised_log = root.join("target/raised-rows.txt");
    for log in [&skip_log, &raised_log] {
        let _ = fs::remove_file(log);
    }
    let start = Instant::now();
    let missing = packages::provide();
    clean_up();
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.args(arguments).current_dir(&root);
        command.env(SKIP_LOG, &skip_log).env(witness::LOG, &raised_log);
        command
    };
    let passes = |mut command: Command| command.status().is_ok_and(|status| status.success());
    let mut totals = Totals::default();
    let steps = [
        step("formatting", || passes(cargo(&["fmt", "--all", "--check"]))),
        step("tidy", || tidy::run().inspect_err(|error| eprintln!("{error}")).is_ok()),
        step("lints", || passes(cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))),
        step("documentation", || {
            let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
            doc.env("RUSTDOCFLAGS", "-D warnings");
            passes(doc)
        }),
        // Of the whole workspace: with the features that the tests are built with, so that nothing is built twice.
        step("build of fsmend", || passes(cargo(&["build", "--workspace", "--bin", "fsmend"]))),
        step("tests", || {
            let followed = totals.follow(cargo(&["test", "--workspace", "--no-fail-fast"]));
            followed.inspect_err(|error| eprintln!("cargo test: {error}")).unwrap_or(false)
        }),
        step("catalogue", || every_row_was_raised(&raised_log)),
        step("model checker", || {
            let model =
                ["test", "--package", "fsmend-engine", "--features", "model", "--lib", "--", "pool", "model"];
            let followed = totals.follow(cargo(&model));
            followed.inspect_err(|error| eprintln!("cargo test: {error}")).unwrap_or(false)
        }),
        step("ready to publish", || {
            let crates = ["package", "--workspace", "--exclude", "fsmend-testkit", "--exclude", "xtask"];
            passes(cargo(&[&crates[..], &["--no-verify", "--allow-dirty", "--quiet"]].concat()))
        }),
        step("oldest Rust", || {
            minimum::check(&root, &skip_log).inspect_err(|error| eprintln!("{error}")).is_ok()
        }),
        step("package", || package::try_it(&skip_log).inspect_err(|error| eprintln!("{error}")).is_ok()),
    ];
    clean_up();
    summarise(&steps, &missing, &skip_log);
    let failed = steps.iter().filter(|step| !step.passed).count();
    println!("\n{}", totals.line(failed == 0, start.elapsed()));
    match failed {
        0 => Ok(()),
        failed => Err(io::Error::other(format!("{failed} of {} steps failed", steps.len()))),
    }
}

/// Whether the tests raised every row of the catalogue; names those that they did not.
fn every_row_was_raised(log: &Path) -> bool {
    let raised = fs::read_to_string(log).unwrap_or_default();
    let raised: BTreeSet<&str> = raised.lines().collect();
    let rows = fsmend::FAMILIES.catalogue();
    let missing: Vec<&str> = rows.iter().map(|row| row.code).filter(|code| !raised.contains(code)).collect();
    missing.iter().for_each(|code| eprintln!("no test raises {code}"));
    missing.is_empty()
}

/// Unmounts images that a killed run left mounted; their loop devices go with them.
fn clean_up() {
    for point in unmount_below(&fsmend_testkit::target_folder()) {
        println!("unmounted {}, left by a run that was killed", point.display());
    }
}

fn step(name: &'static str, work: impl FnOnce() -> bool) -> Step {
    println!("== {name}");
    let start = Instant::now();
    let passed = work();
    Step { name, passed, took: start.elapsed() }
}

/// What the test programs said of themselves, added up.
#[derive(Default)]
struct Totals {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Totals {
    /// Runs `cargo test`, passes on what it prints, and adds its results up.
    fn follow(&mut self, mut command: Command) -> io::Result<bool> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        if let Some(stdout) = child.stdout.take() {
            for line in BufReader::new(stdout).split(b'\n') {
                let line = line?;
                let line = String::from_utf8_lossy(&line);
                println!("{line}");
                self.add(&line);
            }
        }
        let status = child.wait()?;
        if status.code().is_none() {
            println!("cargo test was ended by a signal: {status}");
        }
        Ok(status.success())
    }

    fn add(&mut self, line: &str) {
        let Some(results) = line.strip_prefix("test result: ") else { return };
        let count = |what: &str| -> u64 {
            let words: Vec<&str> = results.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
            let at = words.iter().position(|word| *word == what).and_then(|at| at.checked_sub(1));
            at.and_then(|at| words[at].parse().ok()).unwrap_or(0)
        };
        self.passed += count("passed");
        self.failed += count("failed");
        self.ignored += count("ignored");
    }

    /// The closing line, in the words of a test program.
    fn line(&self, all_passed: bool, took: Duration) -> String {
        let word = if all_passed && self.failed == 0 { "ok" } else { "FAILED" };
        let Totals { passed, failed, ignored } = self;
        format!(
            "test result: {word}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; 0 filtered out; finished in {:.2}s",
            took.as_secs_f64()
        )
    }
}

fn summarise(steps: &[Step], missing: &[String], skip_log: &Path) {
    println!("\n== summary");
    for step in steps {
        let word = if step.passed { "passed" } else { "FAILED" };
        println!("{word}  {:<16} {:>6.1} s", step.name, step.took.as_secs_f64());
    }
    for line in missing {
        println!("note    {line}");
    }
    let skipped = fs::read_to_string(skip_log).unwrap_or_default();
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    skipped.lines().for_each(|line| *times.entry(line).or_default() += 1);
    for (line, times) in times {
        match times {
            1 => println!("skipped {line}"),
            _ => println!("skipped {line} ({times} times)"),
        }
    }
    if skipped.is_empty() && steps.iter().all(|step| step.passed) {
        println!("nothing was skipped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_add_up() {
        let mut totals = Totals::default();
        for line in [
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test some::thing ... ok",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 9.08s",
        ] {
            totals.add(line);
        }
        let line = totals.line(true, Duration::from_secs(2));
        assert!(line.starts_with("test result: FAILED. 15 passed; 2 failed; 1 ignored;"), "{line}");
        assert!(Totals::default().line(false, Duration::ZERO).contains("FAILED"));
    }
}
