// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program under test, driven as users drive it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

use crate::process::{Ended, Limits, Run, run_limited};

/// Where the program is: `FSMEND_BINARY`, or what cargo builds in the test profile (built here when it has to be).
pub fn binary() -> io::Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Some(path) = std::env::var_os("FSMEND_BINARY") {
        return Ok(PathBuf::from(path));
    }
    BUILT.get_or_init(build).clone().map_err(io::Error::other)
}

fn build() -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--package", "fsmend-cli"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    match status {
        Ok(status) if status.success() => Ok(crate::target_folder().join("debug/fsmend")),
        other => Err(format!("building fsmend failed: {other:?}")),
    }
}

/// What `fsmend check --format json` said.
#[derive(Clone, Debug)]
pub struct Report {
    /// How it ended, how long it took, what it printed.
    pub run: Run,
    /// Its document, when it printed one.
    pub json: Option<Value>,
}

impl Report {
    /// The exit code, if there was one.
    pub fn code(&self) -> Option<i32> {
        match self.run.ended {
            Ended::Code(code) => Some(code),
            _ => None,
        }
    }

    /// All objects of the document that are problems, wherever they stand in it.
    pub fn problems(&self) -> Vec<&Value> {
        let mut found = Vec::new();
        if let Some(json) = &self.json {
            collect_problems(json, &mut found);
        }
        found
    }

    /// Code of every problem that counts for the verdict, sorted, each once.
    pub fn codes(&self) -> Vec<String> {
        let counting = self.problems().into_iter().filter(|problem| problem["severity"] != "note");
        let mut codes: Vec<String> =
            counting.filter_map(|problem| problem["code"].as_str().map(str::to_owned)).collect();
        codes.sort();
        codes.dedup();
        codes
    }

    /// A line for people: exit, codes, complaints.
    pub fn summary(&self) -> String {
        let stderr = String::from_utf8_lossy(&self.run.stderr);
        let stderr: String = stderr.trim().chars().take(300).collect();
        let problems = self.problems();
        let first = problems.iter().find(|problem| problem["severity"] != "note");
        let message = first.map(|problem| problem["message"].to_string()).unwrap_or_default();
        format!("{:?} {} {message} {stderr}", self.run.ended, self.codes().join(","))
    }
}

fn collect_problems<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::Array(items) if key == "problems" => found.extend(items),
                    other => collect_problems(other, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_problems(item, found)),
        _ => {}
    }
}

/// Checks `image` with further `options`, within `limits`.
pub fn check_within(image: &Path, options: &[&str], limits: Limits) -> io::Result<Report> {
    let mut command = Command::new(binary()?);
    command.args(["check", "--format", "json"]).args(options).arg(image);
    let run = run_limited(command, limits)?;
    let json = serde_json::from_slice(&run.stdout).ok();
    Ok(Report { run, json })
}

/// Checks `image` with further `options`.
pub fn check(image: &Path, options: &[&str]) -> io::Result<Report> {
    check_within(image, options, Limits { patience: Duration::from_secs(60), ..Limits::default() })
}
