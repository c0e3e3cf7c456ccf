// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hundred thousand volumes: what merging them takes.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/images.rs"]
mod images;

use std::process::Command;

use fsmend_testkit::fleet::{Shape, write_list, write_records};
use fsmend_testkit::process::{Ended, Limits, run_limited};
use images::{Folder, code, fsmend, stderr};
use serde_json::Value;

const VOLUMES: usize = 100_000;

/// The most memory that a merge may hold.
const MEMORY: u64 = 256 << 20;

#[test]
fn a_hundred_thousand_records_merge_within_256_mib() {
    let folder = Folder::new("fleet-size");
    let (list, run) = (folder.path("list.jsonl"), folder.path("run"));
    write_list(&list, VOLUMES).unwrap();
    let words = ["fleet", "plan", list.to_str().unwrap(), "--shards", "100", "--run", run.to_str().unwrap()];
    let planned = fsmend(&words);
    assert_eq!(code(&planned), 0, "{}", stderr(&planned));
    // The worst case for memory: nothing is sound, so every volume is listed.
    let all: &[&str] = &["json", "html", "text"];
    for (damaged_one_in, damaged, formats) in
        [(1, VOLUMES as u64..=VOLUMES as u64, all), (100, 800..=1200, &all[..1])]
    {
        write_records(&run, Shape { damaged_one_in, problems: 2, twice_one_in: 50 }, 7).unwrap();
        for format in formats {
            let mut command = Command::new(env!("CARGO_BIN_EXE_fsmend"));
            command.args(["fleet", "merge", "--format", format, "--all", "--run"]).arg(&run);
            command.arg("--records").arg(folder.path("records.jsonl"));
            let merge = run_limited(command, Limits::default()).unwrap();
            assert_eq!(merge.ended, Ended::Code(4), "{}", String::from_utf8_lossy(&merge.stderr));
            let mebibytes = merge.peak_memory >> 20;
            assert!(
                merge.peak_memory <= MEMORY,
                "{format}, one in {damaged_one_in} damaged: {mebibytes} MiB"
            );
            if *format == "json" {
                let merged: Value = serde_json::from_slice(&merge.stdout).unwrap();
                assert!(
                    damaged.contains(&merged["totals"]["damaged"].as_u64().unwrap()),
                    "{}",
                    merged["totals"]
                );
                assert_eq!(
                    (&merged["totals"]["planned"], &merged["totals"]["missing"]),
                    (&VOLUMES.into(), &0.into())
                );
                assert!(merged["totals"]["duplicates"].as_u64().unwrap() > 1000);
            }
        }
    }
}
