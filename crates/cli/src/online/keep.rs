// SPDX-License-Identifier: MIT OR Apache-2.0
//! What unattended checks leave behind: the latest report on each target, and numbers for Prometheus.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::args::OnlineArgs;
use super::tell;
use crate::json;
use crate::machine;
use crate::outcome::{Answer, Outcome};

/// Writes what was asked for.
pub fn keep(arguments: &OnlineArgs, outcomes: &[Outcome]) -> io::Result<()> {
    if let Some(folder) = &arguments.report_dir {
        fs::create_dir_all(folder)?;
        for outcome in outcomes {
            let mut document = Vec::new();
            json::write(&mut document, std::slice::from_ref(outcome), None)?;
            replace(&folder.join(file_name(outcome)), &document)?;
        }
    }
    match &arguments.prometheus {
        Some(file) => replace(file, metrics(outcomes, machine::seconds_since_epoch()).as_bytes()),
        None => Ok(()),
    }
}

/// The name of the report: the target's, with `-` for `/`.
fn file_name(outcome: &Outcome) -> PathBuf {
    let partition = outcome.partition.map_or_else(String::new, |number| format!("-part{number}"));
    let name = outcome.target.trim_matches('/').replace('/', "-");
    let name = if name.is_empty() { "root".to_owned() } else { name };
    format!("{name}{partition}.json").into()
}

/// Puts a whole new file in the place of an old one: a reader never sees a part.
fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let builder = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let mut file = fs::File::create(&builder)?;
    let written =
        file.write_all(contents).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&builder, path));
    if written.is_err() {
        let _ = fs::remove_file(&builder);
    }
    written
}

/// The numbers in the text format of Prometheus.
fn metrics(outcomes: &[Outcome], now: u64) -> String {
    let mut text = String::new();
    let mut metric = |name: &str, help: &str, values: Vec<(String, String)>| {
        text.push_str(&format!("# HELP fsmend_check_{name} {help}\n# TYPE fsmend_check_{name} gauge\n"));
        for (labels, value) in values {
            text.push_str(&format!("fsmend_check_{name}{{{labels}}} {value}\n"));
        }
    };
    let each = |value: fn(&Outcome) -> String| -> Vec<(String, String)> {
        outcomes.iter().map(|outcome| (labels(outcome), value(outcome))).collect()
    };
    metric(
        "exit_code",
        "0 clean, 4 problems, 8 not or not completely checked",
        each(|one| one.exit_code().to_string()),
    );
    metric("problems", "Problems left uncorrected", each(|one| problems(one).to_string()));
    metric(
        "unconfirmed",
        "Suspected problems that could not be confirmed",
        each(|one| unconfirmed(one).to_string()),
    );
    metric(
        "duration_seconds",
        "How long the check took",
        each(|one| format!("{:.3}", one.wall.as_secs_f64())),
    );
    metric(
        "frozen_seconds",
        "For how long the file system was frozen",
        each(|one| format!("{:.3}", frozen(one))),
    );
    let times = outcomes.iter().map(|outcome| (labels(outcome), now.to_string())).collect();
    metric("timestamp_seconds", "When the check ended", times);
    text
}

fn problems(outcome: &Outcome) -> u64 {
    match &outcome.result {
        Ok(Answer::Checked(checked)) => checked.report.problem_count(),
        Ok(Answer::Estimated(_)) => 0,
        Err(_) => outcome.found_before.problem_count(),
    }
}

fn unconfirmed(outcome: &Outcome) -> u64 {
    outcome.online.as_ref().map_or(0, |online| tell::count(&online.unconfirmed))
}

fn frozen(outcome: &Outcome) -> f64 {
    outcome.online.as_ref().and_then(|online| online.frozen).map_or(0.0, |span| span.as_secs_f64())
}

/// The target as a label.
fn labels(outcome: &Outcome) -> String {
    let target = outcome.target.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    match outcome.partition {
        Some(number) => format!("target=\"{target}\",partition=\"{number}\""),
        None => format!("target=\"{target}\""),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use fsmend_engine::Refusal;
    use fsmend_engine::report::Report;

    use super::*;

    fn refused(target: &str, partition: Option<u32>) -> Outcome {
        let refusal = Refusal { code: "not-ext", message: "no".to_owned(), hint: "none".to_owned() };
        Outcome {
            target: target.to_owned(),
            partition,
            warnings: Vec::new(),
            wall: Duration::from_millis(1250),
            result: Err(refusal),
            found_before: Report::default(),
            online: None,
        }
    }

    #[test]
    fn names_of_reports() {
        let name = |target, partition| file_name(&refused(target, partition)).display().to_string();
        assert_eq!(name("/", None), "root.json");
        assert_eq!(name("/srv/data", None), "srv-data.json");
        assert_eq!(name("disk.img", Some(2)), "disk.img-part2.json");
    }

    #[test]
    fn numbers_for_prometheus() {
        let text = metrics(&[refused("/a\"b", None), refused("/c", Some(1))], 7);
        assert!(
            text.contains(
                "# TYPE fsmend_check_exit_code gauge\nfsmend_check_exit_code{target=\"/a\\\"b\"} 8\n"
            )
        );
        assert!(text.contains("fsmend_check_timestamp_seconds{target=\"/c\",partition=\"1\"} 7\n"));
        assert!(text.contains("fsmend_check_duration_seconds{target=\"/c\",partition=\"1\"} 1.250\n"));
        assert!(text.lines().all(|line| line.starts_with("# ") || line.starts_with("fsmend_check_")));
    }

    #[test]
    fn a_report_replaces_the_last_one() {
        let folder = std::env::temp_dir().join(format!("fsmend-keep-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for contents in [b"one".as_slice(), b"two"] {
            replace(&folder.join("a.json"), contents).unwrap();
        }
        assert_eq!(fs::read(folder.join("a.json")).unwrap(), b"two");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }
}
