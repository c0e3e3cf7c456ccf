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

/// The README's picture shows the words of this version; `cargo xtask picture` draws it anew.
#[test]
fn the_picture_shows_what_is_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO_BIN_EXE_fsmend"))
        .args(["check", "examples/damaged.qcow2"])
        .current_dir(&root)
        .env_remove("COLUMNS")
        .output()
        .unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    let (headline, rest) = report.split_once("\n\n").unwrap();
    let problems = headline.split(',').next().unwrap();
    let svg = std::fs::read_to_string(root.join("docs/run.svg")).unwrap();
    let (_, drawn) = svg.split_once("</style>").unwrap();
    let drawn: Vec<String> = drawn.lines().map(without_tags).filter(|line| !line.trim().is_empty()).collect();
    assert!(drawn[0].ends_with("check examples/damaged.qcow2"), "{}", drawn[0]);
    assert!(drawn[1].starts_with(problems), "{}", drawn[1]);
    // What follows the headline, which tells the time, up to the ellipsis.
    let first = drawn.iter().position(|line| line.starts_with("Files and directories")).unwrap();
    let shown = &drawn[first..drawn.len() - 1];
    let printed: Vec<&str> = rest.lines().filter(|line| !line.trim().is_empty()).take(shown.len()).collect();
    assert!(shown.len() > 20);
    assert_eq!(shown, printed);
}

/// The text of a line of the picture.
fn without_tags(line: &str) -> String {
    let mut text = String::new();
    for part in line.split('<') {
        text.push_str(part.split_once('>').map_or("", |(_, text)| text));
    }
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").trim_end().to_owned()
}
