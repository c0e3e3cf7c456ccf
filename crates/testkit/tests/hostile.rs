// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hostile images: whatever they claim, a check ends within seconds, in bounded memory, with a verdict or a refusal.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsmend_testkit::damage::Survey;
use fsmend_testkit::host::skip;
use fsmend_testkit::hostile::{containers, of_any};
use fsmend_testkit::image::{Built, build, matrix};
use fsmend_testkit::process::Limits;
use fsmend_testkit::{fsmend, target_folder};

/// Generous: the test profile is slow, and the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(20);
/// Address space, which counts the stacks of threads and the program itself too.
const ADDRESS_SPACE: u64 = 2 << 30;
/// Allowed to the run, and what the process may hold beside it (see `tests/memory.rs`).
const BUDGET: &str = "32M";
const PEAK: u64 = (32 + 16) << 20;

fn base(name: &str) -> Option<PathBuf> {
    let recipe = matrix::all().into_iter().find(|recipe| recipe.name == name).unwrap();
    match build(&recipe).unwrap() {
        Built::Image(image) => Some(image),
        Built::Skipped(reason) => {
            skip(&format!("hostile images from {name}"), &reason);
            None
        }
    }
}

fn survive(image: &Path, name: &str) -> Result<(), String> {
    let limits = Limits { patience: PATIENCE, address_space: Some(ADDRESS_SPACE) };
    let report = fsmend::check_within(image, &["--threads", "2", "--memory", BUDGET], limits).unwrap();
    match report.code() {
        Some(0 | 4 | 8) if report.run.peak_memory <= PEAK => Ok(()),
        Some(0 | 4 | 8) => Err(format!("{name}: held {} KiB", report.run.peak_memory >> 10)),
        _ => Err(format!("{name}: {} after {:.1} s", report.summary(), report.run.took.as_secs_f64())),
    }
}

fn survive_all(name: &str) {
    let Some(base) = base(name) else { return };
    let survey = Survey::of(&base).unwrap();
    let image = target_folder().join(format!("hostile-{name}-{}.img", std::process::id()));
    let mut failures = Vec::new();
    for hostile in of_any(&survey) {
        hostile.write(&base, &image).unwrap();
        failures.extend(survive(&image, &hostile.name).err());
    }
    fs::remove_file(&image).unwrap();
    assert!(failures.is_empty(), "{name}:\n{}", failures.join("\n"));
}

#[test]
fn images_with_indirect_maps() {
    survive_all("indirect-1k");
}

#[test]
fn images_with_large_indirect_maps() {
    survive_all("indirect-4k");
}

#[test]
fn images_with_deep_extent_trees() {
    survive_all("extents-deep-1k");
}

#[test]
fn images_with_indexed_directories() {
    survive_all("deep-htree-1k");
}

#[test]
fn containers_that_are_none() {
    let folder = target_folder().join(format!("hostile-containers-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let image = folder.join("container.img");
    let mut failures = Vec::new();
    for (name, bytes) in containers() {
        fs::write(&image, bytes).unwrap();
        failures.extend(survive(&image, name).err());
    }
    fs::remove_dir_all(&folder).unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
