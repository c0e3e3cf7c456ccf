// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--memory` is kept to: with little of it the same problems are found, and the process holds no more than it may.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use fsmend_testkit::host::{find_program, run, skip};
use fsmend_testkit::process::Limits;
use fsmend_testkit::{fsmend, target_folder};
use serde_json::Value;

/// What the process holds beside its budget: the program itself (by far the most, in the test profile), stacks, what the
/// allocator keeps. A run that is refused at once, and so holds nothing else, takes 14 MiB.
const OVERHEAD: u64 = 16 << 20;
/// The tightest is just what the facts about 400 000 inodes leave room for.
const BUDGETS: [u64; 5] = [10, 12, 16, 32, 64];

/// A file system of 400 000 inodes that all have to be read, 6000 of them files, with `damages` of two kinds each: wrong link
/// counts, and a block that many files share.
fn image(name: &str, damages: u32) -> Option<PathBuf> {
    if find_program("mke2fs").is_none() || find_program("debugfs").is_none() {
        skip(name, "it takes mke2fs and debugfs");
        return None;
    }
    let folder = target_folder().join(format!("memory-{name}-{}", std::process::id()));
    let tree = folder.join("tree");
    for directory in 0..200 {
        let directory = tree.join(format!("d{directory}"));
        fs::create_dir_all(&directory).unwrap();
        (0..30).for_each(|file| fs::write(directory.join(format!("f{file}")), "x").unwrap());
    }
    let image = folder.join("image");
    fs::File::create(&image).unwrap().set_len(600 << 20).unwrap();
    let options = ["-q", "-F", "-t", "ext2", "-b", "1024", "-N", "400000", "-d"];
    run("mke2fs", options.iter().map(Path::new).chain([tree.as_path(), image.as_path()])).unwrap();
    let mut commands = String::new();
    for inode in 300..300 + damages {
        writeln!(commands, "set_inode_field <{inode}> links_count 7").unwrap();
        writeln!(commands, "set_inode_field <{}> block[0] 9999", inode + 3000).unwrap();
    }
    let script = folder.join("commands");
    fs::write(&script, commands).unwrap();
    run("debugfs", [Path::new("-w"), Path::new("-f"), &script, &image]).unwrap();
    Some(image)
}

fn check(image: &Path, budget: Option<u64>) -> (Value, u64) {
    let memory = budget.map(|mebibytes| format!("{mebibytes}M"));
    let mut options = vec!["--threads", "2"];
    options.extend(memory.iter().flat_map(|memory| ["--memory", memory.as_str()]));
    let report = fsmend::check_within(image, &options, Limits::default()).unwrap();
    assert_eq!(report.code(), Some(4), "{budget:?}: {}", report.summary());
    (report.json.unwrap(), report.run.peak_memory)
}

fn assert_within(peak: u64, mebibytes: u64) {
    let most = (mebibytes << 20) + OVERHEAD;
    assert!(peak <= most, "with {mebibytes} MiB allowed, {} KiB were held", peak >> 10);
}

#[test]
fn the_same_problems_at_any_budget() {
    let Some(image) = image("few", 20) else { return };
    let (whole, _) = check(&image, None);
    assert!(whole.get("degraded").is_none(), "{whole}");
    for budget in BUDGETS {
        let (report, peak) = check(&image, Some(budget));
        for member in ["problems", "counts", "summary"] {
            assert_eq!(report[member], whole[member], "{member} with {budget} MiB");
        }
        assert!(report["degraded"].as_array().is_some_and(|sentences| !sentences.is_empty()));
        assert_within(peak, budget);
    }
    fs::remove_dir_all(image.parent().unwrap()).unwrap();
}

#[test]
fn many_problems_are_counted_at_any_budget() {
    let Some(image) = image("many", 2500) else { return };
    let (whole, _) = check(&image, None);
    for budget in BUDGETS {
        let (report, peak) = check(&image, Some(budget));
        for member in ["counts", "summary"] {
            assert_eq!(report[member], whole[member], "{member} with {budget} MiB");
        }
        assert!(report["degraded"].to_string().contains("problems of each kind"), "{}", report["degraded"]);
        assert_within(peak, budget);
    }
    fs::remove_dir_all(image.parent().unwrap()).unwrap();
}

#[test]
fn too_little_is_refused_with_what_is_needed() {
    let Some(image) = image("refused", 1) else { return };
    let report = fsmend::check(&image, &["--memory", "4M"]).unwrap();
    let json = report.json.as_ref().unwrap();
    assert_eq!((report.code(), &json["error"]["code"]), (Some(8), &Value::from("memory-too-small")));
    let hint = json["error"]["hint"].as_str().unwrap();
    let least: u64 = hint.split("--memory ").nth(1).unwrap().trim_end_matches("M)").parse().unwrap();
    assert!(report.run.peak_memory <= OVERHEAD, "{} KiB", report.run.peak_memory >> 10);
    let (_, peak) = check(&image, Some(least));
    assert_within(peak, least);
    fs::remove_dir_all(image.parent().unwrap()).unwrap();
}
