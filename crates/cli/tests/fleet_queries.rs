// SPDX-License-Identifier: MIT OR Apache-2.0
//! The questions of docs/fleet.md, asked by DuckDB to the records of a run.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/images.rs"]
mod images;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use fsmend_testkit::host;
use images::{Folder, code, fsmend, stderr};
use serde_json::Value;

const GUIDE: &str = include_str!("../../../docs/fleet.md");

/// Runs each statement of its standard input, and prints the rows of each as a line of JSON.
const ASK: &str = "
import duckdb, json, sys
base = duckdb.connect()
for statement in sys.stdin.read().split(';'):
    lines = [line for line in statement.splitlines() if not line.startswith('--')]
    if '\\n'.join(lines).strip():
        print(json.dumps(base.execute('\\n'.join(lines)).fetchall()))
";

/// A Python that has DuckDB, as cargo xtask test installs it.
fn python() -> Option<PathBuf> {
    let own = fsmend_testkit::target_folder().join("python/bin/python3");
    let places = [Some(own), host::find_program("python3")];
    let has_duckdb = |python: &PathBuf| {
        Command::new(python).args(["-c", "import duckdb"]).output().is_ok_and(|done| done.status.success())
    };
    let found = places.into_iter().flatten().find(has_duckdb);
    if found.is_none() {
        host::skip("fleet: queries of the guide", "duckdb (PyPI) is not installed");
    }
    found
}

#[test]
fn the_questions_of_the_guide_are_answered() {
    let Some(python) = python() else { return };
    let folder = Folder::new("fleet-queries");
    let example = fs::canonicalize("../../examples/damaged.qcow2").unwrap();
    let list: String = ["one", "two"]
        .map(|id| format!("{{\"id\":\"{id}\",\"target\":\"{}\"}}\n", example.display()))
        .concat();
    fs::write(folder.path("list.jsonl"), list + "{\"id\":\"gone\",\"target\":\"/nowhere/at/all\"}\n")
        .unwrap();
    let run = folder.path("run").to_str().unwrap().to_owned();
    let (list, records) = (folder.path("list.jsonl"), folder.path("records.jsonl"));
    for (words, wanted) in [
        (&["plan", list.to_str().unwrap(), "--shards", "2"][..], 0),
        (&["work"], 0),
        (&["merge", "--records", records.to_str().unwrap()], 4 | 8),
    ] {
        let done = fsmend(&[&["fleet"], words, &["--run", &run]].concat());
        assert_eq!(code(&done), wanted, "{words:?}: {}", stderr(&done));
    }
    let questions = GUIDE.split("```sql\n").nth(1).unwrap().split("```").next().unwrap();
    fs::write(folder.path("questions.sql"), questions).unwrap();
    let mut ask = Command::new(python);
    ask.args(["-c", ASK]).current_dir(&folder.0).stdin(fs::File::open(folder.path("questions.sql")).unwrap());
    let asked = ask.output().unwrap();
    assert!(asked.status.success(), "{}", stderr(&asked));
    let answers: Vec<Value> = String::from_utf8(asked.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), 6, "the view and five questions");
    assert_eq!((&answers[1][0][0], &answers[1][0][1]), (&"damaged".into(), &2.into()));
    assert_eq!((&answers[1][1][0], &answers[1][1][1]), (&"refused".into(), &1.into()));
    let with_code: Vec<&str> =
        answers[2].as_array().unwrap().iter().map(|row| row[0].as_str().unwrap()).collect();
    assert!(with_code.contains(&"one") && with_code.contains(&"two"), "{with_code:?}");
    assert!(answers[3].as_array().unwrap().len() >= 12);
    assert!(answers[5].as_array().unwrap().len() >= 80);
}
