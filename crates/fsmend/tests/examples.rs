// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examples do what they say, with the image that comes with the project.

#![allow(clippy::unwrap_used, dead_code)]

use std::path::PathBuf;

#[path = "../examples/check.rs"]
mod check;
#[path = "../examples/plan_repair.rs"]
mod plan_repair;

fn image() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/damaged.qcow2")
}

#[test]
fn the_check_finds_what_is_damaged() {
    let problems = check::problems(&image()).unwrap();
    assert!(problems.len() > 3, "{problems:?}");
}

#[test]
fn the_plan_tells_of_files_and_writes_nothing() {
    let before = std::fs::read(image()).unwrap();
    let lines = plan_repair::plan(&image()).unwrap();
    assert!(lines.iter().any(|line| line.starts_with('/')), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("write ")), "{lines:?}");
    assert!(std::fs::read(image()).unwrap() == before);
}
