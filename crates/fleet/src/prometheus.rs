// SPDX-License-Identifier: MIT OR Apache-2.0
//! A merged report as numbers for Prometheus (the textfile collector of the node exporter).

use std::fmt::Write;

use crate::merge::Merged;
use crate::verdict;

/// Volumes with numbers of their own. Each costs the monitoring a series; all are counted in the sums.
const VOLUMES_MAX: usize = 1000;

/// The numbers. `now` is when they were made, in seconds since 1970.
pub fn metrics(merged: &Merged, now: u64) -> String {
    let totals = &merged.totals;
    let mut text = String::new();
    let mut metric = |name: &str, help: &str, values: Vec<(String, String)>| {
        let _ = write!(text, "# HELP fsmend_fleet_{name} {help}\n# TYPE fsmend_fleet_{name} gauge\n");
        for (labels, value) in values {
            let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
            let _ = writeln!(text, "fsmend_fleet_{name}{labels} {value}");
        }
    };
    let one = |value: String| vec![(String::new(), value)];
    metric(
        "exit_code",
        "0 clean, 4 problems, 8 not checked or missing, added up",
        one(merged.exit_code.to_string()),
    );
    let verdicts = [
        (verdict::SOUND, totals.sound),
        (verdict::DAMAGED, totals.damaged),
        (verdict::UNCONFIRMED, totals.unconfirmed),
        (verdict::REFUSED, totals.refused),
        (verdict::CRASHED, totals.crashed),
        ("missing", totals.missing),
    ];
    let volumes = verdicts.map(|(word, count)| (label("verdict", word), count.to_string()));
    metric("volumes", "Volumes of the run by verdict", volumes.to_vec());
    let states = [("planned", totals.bytes_planned), ("checked", totals.bytes_checked)];
    let bytes = states.map(|(word, bytes)| (label("state", word), bytes.to_string()));
    metric("bytes", "Bytes of volumes, from the list", bytes.to_vec());
    let codes = merged.codes.iter();
    let codes = codes.map(|code| {
        let labels = [label("code", &code.code), label("severity", code.severity)].join(",");
        (labels, code.volumes.to_string())
    });
    metric("code_volumes", "Volumes with problems of this code", codes.collect());
    let worst = merged.volumes.iter().take(VOLUMES_MAX);
    let worst = worst.map(|volume| {
        let labels =
            [label("id", &volume.id), label("node", &volume.node), label("verdict", &volume.verdict)];
        (labels.join(","), volume.problems.to_string())
    });
    metric("volume_problems", "Problems of volumes that are not sound, the worst 1000", worst.collect());
    metric("check_seconds", "Time of all checks together", one(format!("{:.3}", totals.seconds)));
    if let Some(ended) = totals.last_ended {
        metric("last_check_timestamp_seconds", "When the last check ended", one(ended.to_string()));
    }
    metric("planned_timestamp_seconds", "When the run was planned", one(merged.created.to_string()));
    metric("timestamp_seconds", "When this was written", one(now.to_string()));
    text
}

fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}
