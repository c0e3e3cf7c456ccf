// SPDX-License-Identifier: MIT OR Apache-2.0
//! The estimate before a check: does it foresee the work, and does progress end where all is done? Times are the benchmark's matter.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::PathBuf;

use fsmend_testkit::contents::Content;
use fsmend_testkit::fsmend;
use fsmend_testkit::host::skip;
use fsmend_testkit::image::{Built, Recipe, build};
use serde_json::Value;

/// File systems of many groups: one whose inodes in use are so few that all are tried, and one of which a sample is.
fn images() -> Vec<(&'static str, PathBuf)> {
    let contents =
        [Content::Basic, Content::Entries(2000), Content::Subdirectories(1500), Content::HardLinks];
    let recipe = |name, mke2fs| Recipe::new(name, 96, mke2fs).copied(&contents);
    let recipes = [
        recipe("estimate-ext4", "-t ext4 -b 1024 -g 1024 -N 12000 -O ^resize_inode"),
        recipe("estimate-ext3", "-t ext3 -b 1024 -g 1024 -N 98304 -O ^resize_inode"),
    ];
    let made = recipes.into_iter().filter_map(|recipe| match build(&recipe) {
        Ok(Built::Image(image)) => Some((recipe.name, image)),
        Ok(Built::Skipped(why)) => {
            skip(recipe.name, &why);
            None
        }
        Err(error) => panic!("{}: {error}", recipe.name),
    });
    made.collect()
}

#[test]
fn the_estimate_foresees_what_is_read() {
    for (name, image) in images() {
        let estimate = fsmend::check(&image, &["--estimate"]).unwrap().json.unwrap()["estimate"].clone();
        let checked = fsmend::check(&image, &["--stats"]).unwrap().json.unwrap();
        let stages = checked["stats"]["stages"].as_array().unwrap();
        let read: u64 = stages.iter().map(|stage| stage["bytes_read"].as_u64().unwrap()).sum();
        let foreseen = estimate["bytes"].as_u64().unwrap();
        let [low, likely, high] =
            ["seconds_low", "seconds", "seconds_high"].map(|member| estimate[member].as_f64().unwrap());
        assert!(0.0 < low && low < likely && likely < high && high < 60.0, "{name}: {estimate}");
        assert!(
            foreseen * 2 > read && foreseen < read * 2,
            "{name}: {foreseen} were foreseen, {read} were read"
        );
    }
}

#[test]
fn progress_for_programs_is_json_and_grows() {
    for (name, image) in images() {
        let said = fsmend::check(&image, &["--progress", "json", "--threads", "1"]).unwrap().run.stderr;
        let lines: Vec<Value> = String::from_utf8(said)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let elapsed: Vec<f64> = lines.iter().map(|line| line["elapsed"].as_f64().unwrap()).collect();
        assert!(elapsed.is_sorted(), "{name}: {elapsed:?}");
        assert!(lines.iter().all(|line| line["share"].as_f64().is_some_and(|share| share <= 1.0)), "{name}");
    }
}
