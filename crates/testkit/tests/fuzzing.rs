// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the body of every fuzz target over seeded inputs, so that they are compiled and tried on every machine.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use fsmend_base::SeededRandom;
use fsmend_testkit::fuzzing::{TARGETS, base, outcome};
use fsmend_testkit::host::skip;

/// Time for each target; `FSMEND_FUZZ_SECONDS` asks for more.
fn seconds() -> f64 {
    std::env::var("FSMEND_FUZZ_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(1.5)
}

/// Bytes as damage makes them: few values, some of them at the edges.
fn input(seed: u64) -> Vec<u8> {
    let mut random = SeededRandom::new(seed);
    let len = match random.below(4) {
        0 => random.below(16),
        1 => random.below(64),
        2 => random.below(300),
        _ => random.below(5000),
    };
    let mut byte = || match random.below(4) {
        0 => 0,
        1 => [1, 2, 4, 12, 0x7F, 0x80, 0xFE, 0xFF][random.below(8) as usize],
        _ => random.next_u64() as u8,
    };
    (0..len).map(|_| byte()).collect()
}

#[test]
fn no_body_panics_or_hangs() {
    if base().is_none() {
        skip("bodies of fuzz targets", "their base image cannot be made here");
        return;
    }
    let wanted = std::env::var("FSMEND_FUZZ_TARGET").unwrap_or_default();
    let first = std::env::var("FSMEND_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let mut failures = Vec::new();
    for target in TARGETS.iter().filter(|target| target.name.contains(&wanted)) {
        let end = Instant::now() + Duration::from_secs_f64(seconds());
        let mut seed = first;
        while Instant::now() < end && failures.len() < 20 {
            let data = input(seed);
            let start = Instant::now();
            if catch_unwind(AssertUnwindSafe(|| (target.body)(&data))).is_err() {
                failures.push(format!("{} panics with seed {seed}", target.name));
            }
            if start.elapsed() > Duration::from_secs(3) {
                failures.push(format!("{} takes {:?} with seed {seed}", target.name, start.elapsed()));
            }
            seed += 1;
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_base_image_is_sound() {
    let Some(base) = base() else { return };
    let report = outcome(base.image.clone()).unwrap_or_else(|refusal| panic!("refused: {refusal}"));
    assert!(!report.findings.is_damaged(), "{:?}", report.findings.counts());
    assert!(report.summary.files_used > 60, "the check saw next to nothing");
}

#[test]
fn the_base_image_has_something_for_every_target() {
    let Some(base) = base() else { return };
    let kinds = base.kinds();
    for kind in [
        "group",
        "extent index",
        "indirect pointer",
        "directory entry",
        "htree root",
        "attribute in block",
        "attribute in inode",
        "journal superblock",
        "quota info",
    ] {
        assert!(kinds.contains(&kind), "{kind} is missing among {kinds:?}");
    }
}
