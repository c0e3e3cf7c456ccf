// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shape of the document over made-up outcomes.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, SystemTime};

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_engine::pool::Mode;
use fsmend_engine::report::{Division, Report, StageStats, Summary};
use fsmend_engine::{Estimate, Findings, Problem, Refusal, Value};
use serde_json::json;

use super::schema::valid_report;
use super::write;
use crate::online::{Online, View};
use crate::outcome::{Answer, CANCELLED_CODE, Checked, Outcome};

fsmend_engine::problem_rows! {
    /// For the tests.
    WRONG = "demo.thing.wrong" {
        severity: Major, evidence: Cross, preen: false,
        message: "{inode} is wrong at {block} in {group}: {stored}, not {observed} ({why})",
        meaning: "m", repair: "r", loss: "l", peers: [0x010007, 0x05_0014],
    }
}

fn problem() -> Problem {
    let mut problem = Problem::new(ROWS[0]).inode(InodeNo(12)).blocks(BlockNo(7), 3).group(GroupNo(0));
    problem.object.path = Some("/a \"b\"\\x0a".to_owned());
    problem.stored(1u32).observed(Value::Hex(31)).detail("why", "so")
}

fn checked(problems: u64) -> Outcome {
    let mut findings = Findings::new();
    for _ in 0..problems {
        findings.raise(problem());
    }
    let summary = Summary { kind: "ext4", features: "extent 64bit".to_owned(), ..Summary::default() };
    let stats = vec![StageStats { name: "directories", ..StageStats::default() }];
    let checked = Checked {
        report: Report::new(findings),
        summary,
        stats,
        division: division(),
        degraded: vec!["Less.".to_owned()],
        layout: None,
        shapes: None,
    };
    outcome(Ok(Answer::Checked(Box::new(checked))))
}

fn division() -> Division {
    Division { mode: Mode::Data, workers: 2, waited: 7, waited_at_once: 7, waiting_max: 1000 }
}

fn outcome(result: Result<Answer, Refusal>) -> Outcome {
    let warnings = vec!["It is mounted.".to_owned()];
    Outcome {
        target: "disk".to_owned(),
        partition: Some(3),
        warnings,
        wall: Duration::from_millis(5),
        result,
        found_before: Report::default(),
        online: None,
    }
}

fn refused(code: &'static str) -> Outcome {
    outcome(Err(Refusal { code, message: "no".to_owned(), hint: "try".to_owned() }))
}

fn document(outcomes: &[Outcome], wall: Option<Duration>) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes, outcomes, wall).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_problem_has_all_its_members() {
    let report = valid_report(&document(&[checked(2)], None));
    assert_eq!(report["verdict"], "damaged");
    assert_eq!(report["counts"], json!({"demo.thing.wrong": 2}));
    assert_eq!(
        report["problems"][0],
        json!({
            "code": "demo.thing.wrong", "severity": "major", "evidence": "cross-check", "preen": false,
            "message": "/a \"b\"\\x0a (inode 12) is wrong at blocks 7 to 9 in group 0: 1, not 0x1f (so)",
            "object": {"inode": 12, "path": "/a \"b\"\\x0a", "block": 7, "blocks": 3, "group": 0},
            "stored": 1, "observed": "0x1f", "details": {"why": "so"},
            "e2fsck": ["0x010007", "0x050014"],
        })
    );
}

#[test]
fn every_verdict_is_valid() {
    let estimate = Answer::Estimated(Estimate { seconds_low: 0.5, ..Estimate::default() });
    let cases = [
        (checked(0), "sound"),
        (refused("not-ext"), "refused"),
        (refused(CANCELLED_CODE), "cancelled"),
        (outcome(Ok(estimate)), "estimated"),
    ];
    for (outcome, verdict) in cases {
        assert_eq!(valid_report(&document(&[outcome], None))["verdict"], verdict);
    }
}

#[test]
fn a_check_of_something_in_use_tells_of_its_view() {
    let mut findings = Findings::new();
    findings.raise(problem());
    let online = |unconfirmed| Online {
        view: View::FrozenRecords,
        of: Some("vg/lv".to_owned()),
        at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        frozen: Some(Duration::from_millis(12)),
        unconfirmed,
        reason: Some("why".to_owned()),
        tried: vec!["No.".to_owned()],
        marked: Some(Ok(())),
    };
    let doubtful = Outcome { online: Some(online(Report::new(findings))), ..checked(0) };
    assert_eq!(doubtful.exit_code(), crate::exit::OPERATIONAL);
    let report = valid_report(&document(&[doubtful], None));
    assert_eq!(
        (&report["verdict"], &report["online"]["view"]),
        (&json!("unconfirmed"), &json!("frozen-records"))
    );
    assert_eq!(
        (&report["online"]["as_of"], &report["online"]["frozen_ns"]),
        (&json!(1_800_000_000), &json!(12_000_000))
    );
    assert_eq!(report["online"]["unconfirmed"][0]["code"], "demo.thing.wrong");
    let sound = Outcome { online: Some(online(Report::default())), ..checked(0) };
    assert_eq!(valid_report(&document(&[sound], None))["verdict"], "sound");
    let damaged = Outcome { online: Some(online(Report::default())), ..checked(1) };
    assert_eq!(damaged.exit_code(), crate::exit::PROBLEMS);
}

#[test]
fn times_are_there_only_when_wanted() {
    let wall = Some(Duration::from_secs(1));
    assert!(!document(&[checked(1)], None).contains("_ns"));
    assert_eq!(valid_report(&document(&[checked(1)], wall))["stats"]["stages"][0]["name"], "directories");
    assert_eq!(valid_report(&document(&[checked(1), checked(0)], wall))["wall_ns"], 1_000_000_000);
}

#[test]
fn several_targets_are_listed() {
    let report = valid_report(&document(&[checked(1), refused("not-ext")], None));
    assert_eq!(report["targets"][0]["verdict"], "damaged");
    assert_eq!(report["targets"][1]["error"]["code"], "not-ext");
    assert!(report.get("verdict").is_none());
}
