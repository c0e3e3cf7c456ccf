// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend lab`, as users call it: the same seed does the same, what it leaves is sound, simulated time is the same everywhere.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn fsmend(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fsmend")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs it, which has to go well; what it said.
fn done(arguments: &[&str]) -> String {
    let output = fsmend(arguments);
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}{wrong}");
    said.into_owned()
}

/// An image that goes with the test.
struct Image(PathBuf);

impl Image {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fsmend-lab-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        Image(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn made(name: &str, kind: &str, size: &str) -> Self {
        let image = Image::new(name);
        done(&["lab", "make", image.path(), size, "-t", kind]);
        image
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn what_a_command_itself_refuses_is_json_for_programs_that_asked_for_json() {
    let image = Image::made("refused", "ext2", "8M");
    for (arguments, exit, code) in [
        (["fill", image.path(), "--disk=zork"], 16, "usage"),
        (["make", image.path(), "--extended=zork"], 16, "usage"),
        (["fill", "/nowhere/x", "--age=1"], 8, "lab-failed"),
    ] {
        let size: &[&str] = if arguments[0] == "make" { &["8M"] } else { &[] };
        let output =
            fsmend(&[&["lab"], &arguments[..2], size, &arguments[2..], &["--format", "json"]].concat());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {said}");
        let document: Value = serde_json::from_str(&said).unwrap();
        assert_eq!((&document["verdict"], &document["error"]["code"]), (&"refused".into(), &code.into()));
    }
}

#[test]
fn an_aged_image_of_any_type_is_sound_and_the_same_each_time() {
    for kind in ["ext2", "ext3", "ext4", "rext3", "ufs1", "ufs2"] {
        let aged = |name: &str, seed: &str| {
            let image = Image::made(&format!("{kind}-{name}"), kind, "150M");
            let said =
                done(&["lab", "fill", image.path(), "--utilisation", "85", "--age", "10", "--seed", seed]);
            assert!(said.contains("% full"), "{said}");
            image
        };
        let (one, again, other) = (aged("one", "7"), aged("again", "7"), aged("other", "8"));
        assert!(fs::read(&one.0).unwrap() == fs::read(&again.0).unwrap(), "{kind}: the same seed");
        assert!(fs::read(&one.0).unwrap() != fs::read(&other.0).unwrap(), "{kind}: another seed");
        done(&["check", one.path()]);
    }
}

#[test]
fn a_simulated_disk_takes_the_same_time_everywhere_and_an_nvme_less() {
    let seconds = |disk: &str, name: &str| -> (f64, Value) {
        let image = Image::made(name, "ext3", "200M");
        let said = done(&[
            "lab",
            "run",
            image.path(),
            "random",
            "--size",
            "64M",
            "--count",
            "50",
            "--disk",
            disk,
            "--format",
            "json",
        ]);
        let document: Value = serde_json::from_str(&said).unwrap();
        done(&["check", image.path()]);
        let read = document["results"].as_array().unwrap().iter().find(|result| result["what"] == "read");
        (read.unwrap()["seconds"].as_f64().unwrap(), document)
    };
    let (one, document) = seconds("barracuda", "time-one");
    let (again, mut same) = seconds("barracuda", "time-again");
    assert_eq!(one, again);
    assert_eq!(document["disk"], "barracuda");
    same["target"] = document["target"].clone();
    assert_eq!(document, same);
    assert!((0.1..2.0).contains(&one), "50 reads, and their map blocks: {one} s");
    assert!(seconds("nvme", "time-nvme").0 < one / 20.0);
}

#[test]
fn every_workload_runs_and_leaves_a_sound_file_system() {
    for kind in ["rext3", "ufs1", "ufs2", "hybridfs"] {
        for (workload, more) in [
            ("sequential", &["--size", "20M"][..]),
            ("random", &["--size", "20M", "--count", "20"]),
            ("strided", &["--size", "20M"]),
            ("postmark", &["--files", "20", "--count", "40"]),
            ("file-server", &["--files", "50", "--count", "20"]),
            ("web-proxy", &["--files", "50", "--count", "20"]),
            ("mail-server", &["--files", "50", "--count", "20"]),
        ] {
            let image = Image::made(&format!("workload-{kind}-{workload}"), kind, "200M");
            let words = ["lab", "run", image.path(), workload, "--disk", "ssd"];
            let said = done(&words.iter().chain(more).copied().collect::<Vec<_>>());
            assert!(said.contains("simulated disk ssd") && said.contains("MB/s"), "{kind}: {said}");
            done(&["check", image.path()]);
        }
    }
}

#[test]
fn the_workloads_of_the_paper_on_hfs_run_on_each_of_its_contestants() {
    for kind in ["ext3", "ext4", "ufs1", "hybridfs"] {
        for (workload, more, unit) in [
            ("postmark-small", &["--files", "200", "--count", "40"][..], "transactions"),
            ("kernel", &["--files", "60"], "objects built"),
            ("archive", &["--files", "20"], "removed"),
            ("mix", &["--count", "200"], "files deleted"),
        ] {
            let image = Image::made(&format!("hfs-{kind}-{workload}"), kind, "200M");
            let words = ["lab", "run", image.path(), workload, "--disk", "barracuda-iv"];
            let said = done(&words.iter().chain(more).copied().collect::<Vec<_>>());
            assert!(said.contains(unit) && !said.contains("no room"), "{kind}: {said}");
            done(&["check", image.path()]);
        }
    }
}

#[test]
fn a_workload_that_finds_the_file_system_full_says_so() {
    let run = |name: &str, files: &str, format: &str| {
        let image = Image::made(name, "ext3", "40M");
        let path = image.path();
        let words = ["lab", "run", path, "file-server", "--files", files, "--count", "5", "--format", format];
        let said = done(&words);
        done(&["check", path]);
        said
    };
    let said = run("room", "20", "text");
    assert!(!said.contains("no room"), "{said}");
    let said = run("full", "600", "text");
    assert!(said.contains("found no room, or not enough: the file system is full"), "{said}");
    let refused = |said: &str| serde_json::from_str::<Value>(said).unwrap()["refused"].as_u64();
    assert_eq!(refused(&run("room-json", "20", "json")), Some(0));
    assert!(refused(&run("full-json", "600", "json")) > Some(100));
}

#[test]
fn what_cannot_be_is_refused() {
    let image = Image::made("refused", "ext3", "100M");
    let code = |arguments: &[&str]| fsmend(arguments).status.code();
    assert_eq!(code(&["lab", "make", image.path(), "100M"]), Some(8), "it is there already");
    assert_eq!(code(&["lab", "fill", image.path(), "--disk", "tape"]), Some(16));
    assert_eq!(code(&["lab", "fill", "/nowhere/at/all"]), Some(8));
    assert_eq!(code(&["lab", "make", "/tmp/x.img", "100M", "-E", "colour=red"]), Some(16));
    assert!(done(&["lab", "disks"]).contains("barracuda"));
}
