//! `cargo xtask test`: everything that has to hold before a change lands, with a summary at the end.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fsmend_testkit::host::SKIP_LOG;

use crate::{packages, tidy, workspace};

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
    let _ = fs::remove_file(&skip_log);
    let missing = packages::provide();
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.args(arguments).current_dir(&root).env(SKIP_LOG, &skip_log);
        command.status().is_ok_and(|status| status.success())
    };
    let steps = [
        step("formatting", || cargo(&["fmt", "--all", "--check"])),
        step("tidy", || tidy::run().inspect_err(|error| eprintln!("{error}")).is_ok()),
        step("lints", || cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
        step("build of fsmend", || cargo(&["build", "--package", "fsmend-cli"])),
        step("tests", || cargo(&["test", "--workspace", "--no-fail-fast"])),
    ];
    summarise(&steps, &missing, &skip_log);
    match steps.iter().filter(|step| !step.passed).count() {
        0 => Ok(()),
        failed => Err(io::Error::other(format!("{failed} of {} steps failed", steps.len()))),
    }
}

fn step(name: &'static str, work: impl FnOnce() -> bool) -> Step {
    println!("== {name}");
    let start = Instant::now();
    let passed = work();
    Step { name, passed, took: start.elapsed() }
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
    for line in fs::read_to_string(skip_log).unwrap_or_default().lines() {
        println!("skipped {line}");
    }
}
