// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mends that stay inside one inode group are worked out side by side, and the plan is the same at any number of threads: where several groups
//! have something to be mended, where directories of two groups name the same third one, where thousands of mends lie in one group
//! and none beside it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use fsmend_base::SeededRandom;
use fsmend_device::{Device, MemoryDevice};
use fsmend_engine::clock::Clock;
use fsmend_engine::trace::Kind;
use fsmend_engine::{Progress, Trace};
use fsmend_ext_check::repair::{self, RepairOptions, RepairPolicy};
use fsmend_testkit::contents::Content;
use fsmend_testkit::damage::{Damage, Survey};
use fsmend_testkit::host::skip;
use fsmend_testkit::image::{Built, Recipe, build};
use fsmend_testkit::within::{Manner, options};

/// What a repair came to, for comparison: what is written, what was found at first and later, how often it was looked at.
#[derive(PartialEq)]
struct Outcome {
    changes: Vec<(u64, Vec<u8>)>,
    counts: BTreeMap<&'static str, u64>,
    found: Vec<String>,
    later: Vec<String>,
    rounds: u32,
}

/// A clock that only tells before from after.
fn ticks() -> u64 {
    static TICKS: AtomicU64 = AtomicU64::new(0);
    TICKS.fetch_add(1, Relaxed)
}

/// Works out a repair, which has to be a clean one; and how many batches of each kind of work workers have done.
fn plan(image: &[u8], threads: usize) -> (Outcome, BTreeMap<&'static str, usize>) {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("groups", image.to_vec()));
    let trace = Arc::new(Trace::new(Clock { wall: ticks, thread_cpu: ticks }));
    let mut check = options(Manner { threads, ..Manner::default() });
    check.trace = Some(Arc::clone(&trace));
    let options = RepairOptions { check, policy: RepairPolicy::default() };
    let repair = repair::plan(&device, &options, &Progress::new(), &AtomicBool::new(false))
        .unwrap_or_else(|refused| panic!("{refused}"))
        .written_out(&device)
        .unwrap();
    assert!(repair.is_clean(), "{:?}", repair.left.findings.counts());
    let told = |findings: fsmend_engine::Findings| {
        let problems = findings.into_sorted();
        problems.iter().map(|problem| format!("{} {}", problem.row.code, problem.message())).collect()
    };
    let outcome = Outcome {
        changes: repair.changes,
        counts: repair.found.findings.counts(),
        found: told(repair.found.findings),
        later: told(repair.later),
        rounds: repair.rounds,
    };
    let mut batches = BTreeMap::new();
    for event in trace.events().iter().filter(|event| event.kind == Kind::Batch) {
        *batches.entry(event.name).or_default() += 1;
    }
    (outcome, batches)
}

/// The same at any number of threads; returns how much was found of each kind, and the batches of two workers.
fn planned_alike(image: &[u8]) -> (BTreeMap<&'static str, u64>, BTreeMap<&'static str, usize>) {
    let (one, _) = plan(image, 1);
    let mut batches = BTreeMap::new();
    for threads in [2, 7, 64] {
        let (other, done) = plan(image, threads);
        assert!(other.changes == one.changes, "{threads} threads: another plan");
        assert_eq!(other.found, one.found, "{threads} threads");
        assert_eq!(other.counts, one.counts, "{threads} threads");
        assert_eq!(other.later, one.later, "{threads} threads");
        assert_eq!(other.rounds, one.rounds, "{threads} threads");
        if threads == 2 {
            batches = done;
        }
    }
    (one.counts, batches)
}

fn survey(recipe: &Recipe) -> Option<Survey> {
    match build(recipe).unwrap() {
        Built::Image(path) => Some(Survey::of(&path).unwrap()),
        Built::Skipped(reason) => {
            skip("mends group by group", &reason);
            None
        }
    }
}

/// Twelve small groups, most of them with directories and files in them.
fn many_groups() -> Option<Survey> {
    let contents =
        &[Content::Basic, Content::Entries(300), Content::Subdirectories(1400), Content::Nested(40)];
    let mke2fs = "-t ext4 -b 1024 -g 2048 -N 3072 -O ^flex_bg,^has_journal,metadata_csum";
    survey(&Recipe::new("mended-groups", 24, mke2fs).copied(contents))
}

/// Gives a field of every `step`th inode whose kind begins with `kind` another value; how many there are.
fn set(survey: &mut Survey, kind: &str, step: usize, (field, value): (&str, u64)) -> usize {
    let inodes = survey.structures.iter().filter(|structure| structure.kind.starts_with(kind));
    let wrong: Vec<_> =
        inodes.skip(30).step_by(step).flat_map(|inode| inode.with(survey, &[(field, value)])).collect();
    for patch in &wrong {
        survey.image[patch.offset as usize..][..patch.new.len()].copy_from_slice(&patch.new);
    }
    wrong.len()
}

#[test]
fn groups_are_mended_side_by_side_and_the_plan_is_the_same() {
    let Some(mut survey) = many_groups() else { return };
    let sound = survey.image.clone();
    for seed in [1, 2] {
        survey.image.copy_from_slice(&sound);
        let mut random = SeededRandom::new(seed);
        for _ in 0..150 {
            let seed = random.next_u64();
            let damage = match random.below(4) {
                0 => Damage::of_a_field(&survey, seed),
                _ => Damage::of_a_name(&survey, seed),
            };
            if !damage.is_nothing() {
                damage.apply_to_bytes(&mut survey.image);
            }
        }
        set(&mut survey, "inode of", 5, ("i_links_count", 9));
        // Extents, and an index that is not there.
        set(&mut survey, "inode of a directory", 7, ("i_flags", 0x8_1000));
        let (found, batches) = planned_alike(&survey.image);
        let kinds = [
            ("suspect directories", 3),
            ("link counts", 3),
            ("parent entries", 3),
            ("nameless inodes", 2),
            ("names that go", 1),
            ("directories rewritten", 3),
        ];
        for (name, least) in kinds {
            let done = batches.get(name).copied().unwrap_or(0);
            assert!(done >= least, "seed {seed}: {name} in {done} parts only: {batches:?}");
        }
        let twice = found.get("ext.directory.named-twice").copied().unwrap_or(0);
        assert!(twice > 3, "seed {seed}: only {twice} directories have a name in two others");
    }
}

#[test]
fn a_group_with_thousands_of_mends_lies_beside_empty_ones() {
    let mke2fs = "-t ext4 -b 1024 -g 8192 -N 16384 -O ^flex_bg,^has_journal,metadata_csum";
    let contents = &[Content::Subdirectories(3000)];
    let Some(mut survey) = survey(&Recipe::new("mended-one-group", 32, mke2fs).copied(contents)) else {
        return;
    };
    let wrong = set(&mut survey, "inode of", 1, ("i_links_count", 9));
    let (found, batches) = planned_alike(&survey.image);
    let counts = found.get("ext.inode.links-mismatch").copied().unwrap_or(0);
    assert!(wrong > 2000 && counts > 2000, "{wrong} counts were made wrong, {counts} were found to be");
    assert!(batches.get("link counts").is_some_and(|parts| *parts > 20), "{batches:?}");
}
