// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench hybridfs`: `fsmend check` on hybridfs and on ext4 with the same tree of a million small files, and the floors of both, alternately.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fsmend_testkit::host::run as run_program;

use super::check::{Programs, State};
use super::measure::{Spread, drop_caches, load_average, measure, spread};
use super::{Options, needs, populate};

const ENTRIES: u32 = 1_000_000;
/// Folders of the first level, and in each of them.
const FAN: [u32; 2] = [100, 99];
/// By how much slower than its floor a warm check may be.
const WANTED: f64 = 1.5;

/// A tree: its name, what its files hold, and the size and options of its file systems.
struct Case {
    name: &'static str,
    files: populate::Files,
    size: &'static str,
    hybridfs: &'static str,
    ext4: &'static str,
}

const CASES: [Case; 2] = [
    // In the inodes, as far as hybridfs is concerned.
    Case {
        name: "inline",
        files: populate::Files::Written,
        size: "12G",
        hybridfs: "log-size=2G,inodes=1200000",
        ext4: "inodes=1200000",
    },
    // Contents in the log, which a check reads.
    Case {
        name: "2000-bytes",
        files: populate::Files::Short(2000),
        size: "20G",
        hybridfs: "log-size=10G,inodes=1200000",
        ext4: "inodes=1200000",
    },
];

/// Measures and prints a table.
pub fn run(options: &Options) -> io::Result<()> {
    needs::superuser("it mounts images")?;
    let programs = Programs::find(options.build)?;
    fs::create_dir_all(&options.cache)?;
    needs::room(&options.cache, 16 << 30)?;
    for case in CASES.iter().filter(|case| options.wants(case.name)) {
        let hybridfs = image(&programs, options, case, "hybridfs", case.hybridfs)?;
        let ext4 = image(&programs, options, case, "ext4", case.ext4)?;
        for state in [State::Warm, State::Cold] {
            let load = load_average().unwrap_or(0.0);
            let [(ours, floor), (theirs, their_floor)] =
                compare(&programs, [&hybridfs, &ext4], (state, options.runs))?;
            println!("{}, {state:?}, load {load:.2}: {} runs in turns, medians", case.name, options.runs);
            println!(
                "  hybridfs {:8.3} s  {} KiB, floor {:8.3} s: {:.2} times that",
                ours.median,
                ours.peak_kib.unwrap_or(0),
                floor.median,
                ours.median / floor.median
            );
            println!(
                "  ext4     {:8.3} s  {} KiB, floor {:8.3} s: {:.2} times that",
                theirs.median,
                theirs.peak_kib.unwrap_or(0),
                their_floor.median,
                theirs.median / their_floor.median
            );
            println!("  hybridfs is {:.2} times as fast as ext4", theirs.median / ours.median);
        }
        println!("  wanted: faster than ext4 warm, {WANTED} times the floor");
    }
    Ok(())
}

fn compare(
    programs: &Programs,
    images: [&Path; 2],
    (state, runs): (State, usize),
) -> io::Result<[(Spread, Spread); 2]> {
    let is_cold = state == State::Cold;
    let mut samples = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
    for run in 0..=runs {
        for (image, (checks, floors)) in images.iter().zip(&mut samples) {
            if is_cold {
                drop_caches()?;
            }
            let checked = measure(&programs.fsmend, &["check".as_ref(), image.as_os_str()])?;
            let bottom = programs.floor(image, is_cold)?;
            // The first round fills the cache.
            if run > 0 {
                checks.push(checked);
                floors.push(bottom);
            }
        }
    }
    Ok(samples.map(|(checks, floors)| (spread(&checks), spread(&floors))))
}

/// The image of a case, made if it is not there.
fn image(
    programs: &Programs,
    options: &Options,
    case: &Case,
    kind: &str,
    extended: &str,
) -> io::Result<PathBuf> {
    let image = options.cache.join(format!("{kind}-{}-1m.img", case.name));
    if image.exists() {
        return Ok(image);
    }
    let fresh = image.with_extension("new");
    let place = image.with_extension("here");
    fs::create_dir_all(&place)?;
    let _ = fs::remove_file(&fresh);
    let (program, target, folder) =
        (programs.fsmend.to_string_lossy(), fresh.to_string_lossy(), place.to_string_lossy());
    run_program(&program, ["mkfs", "--type", kind, "-E", extended, &target, case.size])?;
    run_program(&program, ["mount", "--background", &target, &folder])?;
    let tree = populate::Tree { fan: FAN.to_vec(), entries: ENTRIES };
    let filled = populate::fill(&place, &tree, case.files);
    run_program("umount", [&*folder])?;
    filled?;
    // The process that served the mount writes what remains; a check waits for it.
    run_program(&program, ["check", &target])?;
    fs::remove_dir(&place)?;
    fs::rename(&fresh, &image)?;
    Ok(image)
}
