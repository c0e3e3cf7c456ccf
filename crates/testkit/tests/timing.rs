// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is found does not depend on timing: on the number of workers, on who takes what and when, on batch sizes, on the way
//! of reading. Batches are taken in orders drawn from seeds, so that a failure can be had again.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fsmend_base::SeededRandom;
use fsmend_device::{Device, MemoryDevice, OpenOptions, ReadBackend};
use fsmend_engine::pool::{Mode, Schedule};
use fsmend_testkit::contents::Content;
use fsmend_testkit::damage::{Damage, Survey};
use fsmend_testkit::host::skip;
use fsmend_testkit::image::{After, Built, Recipe, build};
use fsmend_testkit::target_folder;
use fsmend_testkit::within::{Manner, found_on};

/// Time for all bases together; `FSMEND_TIMING_SECONDS` asks for more.
fn seconds() -> f64 {
    std::env::var("FSMEND_TIMING_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(30.0)
}

/// The first seed; a failure names its own.
fn first_seed() -> u64 {
    std::env::var("FSMEND_TIMING_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// Many small groups, so that names and parent entries cross them, and maps that are walked after their inodes are known.
fn bases() -> Vec<Recipe> {
    let contents = &[
        Content::Basic,
        Content::Entries(250),
        Content::Nested(12),
        Content::Subdirectories(150),
        Content::Fragmented,
        Content::HardLinks,
        Content::Symlinks,
        Content::Attributes,
        Content::Acls,
    ];
    let base = |name, mke2fs| Recipe::new(name, 12, mke2fs).mounted(contents);
    vec![
        base("crossing", "-t ext4 -b 1024 -g 1024 -N 1600 -O ^flex_bg,^has_journal"),
        base("crossing-ext2", "-t ext2 -b 1024 -g 1024 -N 1600"),
        base("crossing-no-types", "-t ext2 -b 1024 -g 1024 -N 1600 -O ^filetype,^resize_inode"),
        base("crossing-uninit", "-t ext4 -b 1024 -g 1024 -N 1600 -O ^metadata_csum,uninit_bg -J size=1")
            .after(After::Tune2fs("-O quota")),
    ]
}

/// A sound image with between one and eight things wrong, most of them in directories.
fn damaged(sound: &Survey, survey: &mut Survey, seed: u64) -> Vec<String> {
    let mut random = SeededRandom::new(seed);
    survey.image.copy_from_slice(&sound.image);
    (0..1 + random.below(8))
        .map(|_| {
            let seed = random.next_u64();
            let damage = match random.below(8) {
                0 => Damage::of_bytes(survey, seed),
                1..4 => Damage::of_a_field(survey, seed),
                _ => Damage::of_a_name(survey, seed),
            };
            damage.apply_to_bytes(&mut survey.image);
            damage.label
        })
        .collect()
}

/// Ways to go about it: first what users get, then orders that only chance could bring about.
fn manners(random: &mut SeededRandom) -> Vec<Manner> {
    let mut manners: Vec<Manner> =
        [2, 7, 64].into_iter().map(|threads| Manner { threads, ..Manner::default() }).collect();
    // Every mode, with unfavourable batches.
    let shares = Mode::Pipeline(1 + random.below(4) as u16, 1 + random.below(4) as u16);
    for mode in [Mode::Serial, Mode::Data, Mode::PipelineEqual, shares, Mode::ResourceAware] {
        let schedule =
            Schedule { mode, batch_max: 1 + random.below(8) as usize, ..Manner::default().schedule };
        manners.push(Manner { threads: 2 + random.below(4) as usize, schedule, ..Manner::default() });
    }
    for batch_max in [1, 2, 16, usize::MAX] {
        let schedule = Schedule { shuffle: Some(random.next_u64()), batch_max, ..Manner::default().schedule };
        let threads = 1 + random.below(3) as usize;
        manners.push(Manner { threads, schedule, ..Manner::default() });
    }
    manners
}

#[test]
fn what_is_found_does_not_depend_on_timing() {
    let bases = bases();
    let (mut failures, mut cases) = (Vec::new(), 0);
    for recipe in &bases {
        let Some(sound) = survey_of(recipe) else { continue };
        let mut survey = Survey::of_bytes(sound.image.clone()).unwrap();
        let end = Instant::now() + Duration::from_secs_f64(seconds() / bases.len() as f64);
        for seed in first_seed().. {
            let what = damaged(&sound, &mut survey, seed);
            let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("timing", survey.image.clone()));
            let expected = found_on(&device, Manner::default());
            let mut random = SeededRandom::new(seed);
            for manner in manners(&mut random) {
                let found = found_on(&device, manner);
                if found != expected {
                    let difference = first_difference(&expected, &found);
                    let place = format!("{} seed {seed}", recipe.name);
                    failures.push(format!("{place}: {what:?}\n    {manner:?}\n    {difference}"));
                }
            }
            cases += 1;
            if Instant::now() > end || failures.len() > 10 {
                break;
            }
        }
    }
    assert!(failures.is_empty(), "of {cases} images, these differ:\n{}", failures.join("\n"));
}

#[test]
fn what_is_found_does_not_depend_on_the_way_of_reading() {
    for recipe in &bases()[..2] {
        let Some(sound) = survey_of(recipe) else { continue };
        let mut survey = Survey::of_bytes(sound.image.clone()).unwrap();
        let path = target_folder().join(format!("timing-{}-{}.img", recipe.name, std::process::id()));
        for seed in 1..=12 {
            let what = damaged(&sound, &mut survey, seed);
            // What is cut off cannot be read: in each backend, exactly that.
            let cut = if seed % 3 == 0 { survey.image.len() / 10 } else { 0 };
            fs::write(&path, &survey.image[..survey.image.len() - cut]).unwrap();
            let opened = fsmend_device::open(&path, &OpenOptions::default(), &fsmend::FAMILIES).unwrap();
            let device: Arc<dyn Device> = Arc::clone(&opened.targets[0].device);
            let expected = found_on(&device, Manner::default());
            for backend in [ReadBackend::Auto, ReadBackend::Uring, ReadBackend::Pread] {
                let found = found_on(&device, Manner { threads: 2, backend, ..Manner::default() });
                let difference = first_difference(&expected, &found);
                assert!(found == expected, "{} seed {seed} {backend:?}: {what:?}\n{difference}", recipe.name);
            }
        }
        fs::remove_file(&path).unwrap();
    }
}

fn survey_of(recipe: &Recipe) -> Option<Survey> {
    match build(recipe).unwrap() {
        Built::Image(image) => Some(Survey::of(&image).unwrap()),
        Built::Skipped(reason) => {
            skip(&format!("timing on {}", recipe.name), &reason);
            None
        }
    }
}

fn first_difference(one: &[String], other: &[String]) -> String {
    let more = |lines: &[String], than: &[String]| -> String {
        lines
            .iter()
            .filter(|line| !than.contains(line))
            .take(4)
            .fold(String::new(), |all, line| all + line + "\n      ")
    };
    format!("one thread: {}\n    else: {}", more(one, other), more(other, one))
}
