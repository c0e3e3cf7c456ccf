//! The built binary, as a user meets it: exit codes, streams, documents.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/schema.rs"]
mod schema;

use std::path::PathBuf;
use std::process::{Command, Output};

use schema::valid_report;

fn fsmend(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fsmend")).args(arguments).env_remove("NO_COLOR").output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// A file of the test's own that goes away with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("fsmend-cli-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Scratch(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn usage_errors_exit_16() {
    let wrong: [&[&str]; 12] = [
        &[],
        &["frobnicate"],
        &["check"],
        &["check", "--threads", "0", "x"],
        &["check", "--threads", "many", "x"],
        &["check", "--memory", "lots", "x"],
        &["check", "--format", "xml", "x"],
        &["check", "--no-such-option", "x"],
        &["check", "--block-size", "4096", "x"],
        &["check", "-b", "32768", "-B", "3000", "x"],
        &["check", "--partition", "1", "--offset", "1M", "x"],
        &["explain"],
    ];
    for arguments in wrong {
        let output = fsmend(arguments);
        assert_eq!(code(&output), 16, "{arguments:?}: {}", stderr(&output));
        assert!(stdout(&output).is_empty() && !stderr(&output).is_empty(), "{arguments:?}");
    }
}

#[test]
fn help_and_version_exit_0() {
    for arguments in
        [&["--help"] as &[&str], &["help"], &["help", "check"], &["check", "--help"], &["--version"]]
    {
        let output = fsmend(arguments);
        assert_eq!(code(&output), 0, "{arguments:?}");
        assert!(!stdout(&output).is_empty() && stderr(&output).is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_missing_target_exits_8_and_says_so() {
    let output = fsmend(&["check", "/no/such/image"]);
    assert_eq!(code(&output), 8);
    assert!(stdout(&output).is_empty());
    assert!(stderr(&output).contains("/no/such/image"), "{}", stderr(&output));
}

#[test]
fn a_refusal_is_a_valid_document() {
    let output = fsmend(&["check", "--format", "json", "/no/such/image"]);
    assert_eq!(code(&output), 8);
    let document = valid_report(stdout(&output));
    assert_eq!(document["verdict"], "refused");
    assert_eq!(document["target"], "/no/such/image");
    assert!(document["problems"].as_array().unwrap().is_empty());
    assert!(!document["error"]["message"].as_str().unwrap().is_empty());
}

#[test]
fn what_is_no_file_system_is_refused() {
    let noise: Vec<u8> = (0..200_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (name, bytes) in
        [("empty", &[] as &[u8]), ("short", &[1; 100]), ("zeroes", &[0; 100_000]), ("noise", &noise)]
    {
        let file = Scratch::new(name, bytes);
        let output = fsmend(&["check", "--format", "json", file.path()]);
        assert_eq!(code(&output), 8, "{name}");
        assert_eq!(valid_report(stdout(&output))["verdict"], "refused", "{name}");
    }
}

#[test]
fn several_targets_are_told_in_order_and_their_bits_are_joined() {
    let (first, second) = (Scratch::new("first", &[0; 50_000]), Scratch::new("second", &[0; 50_000]));
    let output =
        fsmend(&["check", "--format", "json", "--threads", "1", first.path(), "/no/such", second.path()]);
    assert_eq!(code(&output), 8);
    let document = valid_report(stdout(&output));
    let named: Vec<_> =
        document["targets"].as_array().unwrap().iter().map(|one| one["target"].clone()).collect();
    assert_eq!(named, [first.path(), "/no/such", second.path()]);
}

#[test]
fn a_missing_external_journal_refuses_every_target() {
    let file = Scratch::new("journal", &[0; 50_000]);
    let output = fsmend(&["check", "--format", "json", "-j", "/no/such/journal", file.path()]);
    assert_eq!(code(&output), 8);
    let document = valid_report(stdout(&output));
    assert!(document["error"]["message"].as_str().unwrap().contains("/no/such/journal"));
}

#[test]
fn unknown_codes_exit_16_and_offer_others() {
    for wanted in ["ext.no.such-thing", "0xffffff", "links"] {
        let output = fsmend(&["explain", wanted]);
        assert_eq!(code(&output), 16, "{wanted}");
        assert!(stderr(&output).contains("fsmend explain --list"), "{wanted}");
    }
}

#[test]
fn every_listed_code_can_be_explained() {
    let list = fsmend(&["explain", "--list"]);
    assert_eq!(code(&list), 0);
    let codes: Vec<&str> = stdout(&list).lines().filter_map(|line| line.split_whitespace().next()).collect();
    for some in codes.chunks(50) {
        let output = fsmend(&[&["explain"], some].concat());
        assert_eq!(code(&output), 0);
        some.iter().for_each(|code| assert!(stdout(&output).contains(code), "{code}"));
    }
}

#[test]
fn colours_stay_out_of_pipes() {
    let output = fsmend(&["explain", "--list"]);
    assert!(!stdout(&output).contains('\x1b'));
}
