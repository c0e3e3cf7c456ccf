// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text report over a fixed set of made-up findings, word for word.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_engine::report::{JournalUse, Report, StageStats, Summary};
use fsmend_engine::{Estimate, Findings, Problem};

use super::{Layout, report};
use crate::outcome::{Answer, Checked, Outcome};
use crate::remedies::Remedies;
use crate::style::Style;

fsmend_engine::problem_rows! {
    /// For the tests.
    LOST = "demo.superblock.lost" {
        severity: Critical, evidence: Local, preen: false,
        message: "the superblock in {block} is unreadable",
        meaning: "m", repair: "The backup is copied over it.", loss: "What changed since the backup.", peers: [],
    }
    /// For the tests.
    LINKS = "demo.inode.links-mismatch" {
        severity: Minor, evidence: Cross, preen: true,
        message: "{inode} says that {stored} names lead to it, but {observed} do",
        meaning: "m", repair: "The count is set to what was counted.", loss: nothing, peers: [0x040002],
    }
    /// For the tests.
    ODD = "demo.group.odd" {
        severity: Note, evidence: Local, preen: true,
        message: "{group} is odd",
        meaning: "m", repair: "r", loss: nothing, peers: [],
    }
}

fn fixed(damaged: bool) -> Outcome {
    let mut findings = Findings::new();
    if damaged {
        findings.raise(Problem::new(&LOST).block(BlockNo(1)));
        for inode in 0..1234 {
            let mut problem = Problem::new(&LINKS).inode(InodeNo(12 + inode)).stored(2u32).observed(1u32);
            problem.object.path =
                (inode % 2 == 0).then(|| format!("/users/alice/letters/2026/draft {inode}\x1b.txt"));
            findings.raise(problem);
        }
    }
    findings.raise(Problem::new(&ODD).group(GroupNo(3)));
    assert_eq!(ROWS.len(), 3);
    let summary = Summary {
        kind: "ext4",
        label: "data".to_owned(),
        block_size: 4096,
        files_used: 1_000_026,
        files_total: 2_621_440,
        blocks_used: 1_234,
        blocks_total: 10_485_760,
        directories: 10_001,
        non_contiguous: 1_000,
        journal: JournalUse::Replayed,
        superblock: 32768,
        superblock_is_backup: damaged,
        ..Summary::default()
    };
    let checked = Checked {
        report: Report::new(findings),
        summary,
        stats: stages(),
        division: Default::default(),
        degraded: Vec::new(),
        layout: None,
        shapes: None,
    };
    outcome(Ok(Answer::Checked(Box::new(checked))))
}

fn outcome(result: Result<Answer, fsmend_engine::Refusal>) -> Outcome {
    Outcome {
        target: "disk.img".to_owned(),
        partition: Some(2),
        warnings: Vec::new(),
        wall: Duration::from_millis(1250),
        result,
        found_before: Report::default(),
        online: None,
    }
}

fn stages() -> Vec<StageStats> {
    vec![StageStats {
        name: "inode tables",
        wall_ns: 500_000_000,
        cpu_ns: 900_000_000,
        peak_memory: 64 << 20,
        bytes_read: 256 << 20,
        requests: 300,
        items: 1_000_026,
    }]
}

fn told(outcome: Outcome, all: bool, quiet: bool, stats: bool) -> String {
    report(
        &[outcome],
        Layout { style: Style { color: false, width: 80 }, all, quiet, stats, remedies: Remedies::USUAL },
    )
}

/// Compares with the recorded text; with `UPDATE_GOLDEN=1` in the environment it is recorded anew.
fn golden(text: &str, name: &str, recorded: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(format!("{}/src/text/{name}", env!("CARGO_MANIFEST_DIR")), text).unwrap();
    } else {
        assert_eq!(text, recorded);
    }
}

#[test]
fn a_damaged_file_system() {
    golden(&told(fixed(true), false, false, false), "golden_damaged.txt", include_str!("golden_damaged.txt"));
}

#[test]
fn a_sound_file_system_with_stats() {
    golden(&told(fixed(false), false, false, true), "golden_sound.txt", include_str!("golden_sound.txt"));
}

#[test]
fn lines_fit_into_80_columns() {
    for line in told(fixed(true), false, false, true).lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn all_lists_all() {
    let text = told(fixed(true), true, false, false);
    // One of them critical, and one note; and each file once more at the top.
    assert_eq!(text.matches("\n  - ").count(), 1 + 1234 + 1 + 1234);
    assert!(!text.contains("--all"));
}

#[test]
fn quiet_is_one_line() {
    assert_eq!(
        told(fixed(true), false, true, false),
        "disk.img, partition 2: damaged. 1,235 problems (1 critical, 1,234 minor), found in 1.25 s.\n"
    );
}

#[test]
fn colours_are_off_unless_wanted() {
    assert!(!told(fixed(true), true, false, true).contains('\x1b'));
    let layout = Layout {
        style: Style { color: true, width: 80 },
        all: false,
        quiet: false,
        stats: false,
        remedies: Remedies::USUAL,
    };
    assert!(report(&[fixed(true)], layout).contains("\x1b[1;31mcritical\x1b[0m"));
}

#[test]
fn an_estimate() {
    let estimate = Estimate {
        bytes: 256 << 20,
        requests: 300,
        seconds: 1.0,
        seconds_low: 0.5,
        seconds_high: 2.0,
        basis: "16 probes of 1 MiB".to_owned(),
    };
    assert_eq!(
        told(outcome(Ok(Answer::Estimated(estimate))), false, false, false),
        "disk.img, partition 2: a check would take about 1.00 s (500 ms to 2.00 s) and\nread 256 MiB in 300 requests.\n  \
         Basis: 16 probes of 1 MiB\n"
    );
}
