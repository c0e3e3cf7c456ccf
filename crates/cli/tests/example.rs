// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bundled image and what is found in it, to the letter. When the report changes for good reason:
//! `FSMEND_GOLDEN=write cargo test -p fsmend-cli --test example`, and look at the difference.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::process::Command;

const GOLDEN: &str = "tests/example.txt";

/// The report without the time in its headline, which is the first paragraph.
fn without_time(report: &str) -> String {
    let (headline, rest) = report.split_once("\n\n").unwrap();
    let headline = headline.split_whitespace().collect::<Vec<_>>().join(" ");
    let (headline, _) = headline.split_once(", found in ").unwrap();
    format!("{headline}\n\n{rest}")
}

#[test]
fn the_bundled_image_gives_the_report_that_is_written_down() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(env!("CARGO_BIN_EXE_fsmend"))
        .args(["check", "--all", "examples/damaged.qcow2"])
        .current_dir(here.join("../.."))
        .env_remove("COLUMNS")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    let report = without_time(std::str::from_utf8(&output.stdout).unwrap());
    if std::env::var_os("FSMEND_GOLDEN").is_some() {
        std::fs::write(here.join(GOLDEN), &report).unwrap();
    }
    let golden = std::fs::read_to_string(here.join(GOLDEN)).unwrap();
    assert!(report == golden, "the report differs from {GOLDEN}:\n{report}");
}
