// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench ufs`: `fsmend check` against FreeBSD's `fsck_ffs -n` and the floor, alternately, on a UFS2 of 1.2 million files that our driver filled. `FSMEND_UFS_PEERS` names the folder of
//! `fsck_ffs`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fsmend_testkit::host::run as run_program;

use super::check::{Programs, State};
use super::measure::{Spread, drop_caches, load_average, measure, spread};
use super::{Options, needs, populate};

const NAME: &str = "ufs2-1200k.img";
const SIZE: &str = "20G";
const ENTRIES: u32 = 1_200_000;
/// How many times faster than fsck_ffs a warm check is to be, and by how much slower than the floor it may be.
const WANTED: (f64, f64) = (5.0, 1.5);
/// Memory that a check may take, in bytes for each inode.
const INODE_BYTES: u64 = 32;

/// Measures and prints a table.
pub fn run(options: &Options) -> io::Result<()> {
    needs::superuser("it mounts images")?;
    let programs = Programs::find(options.build)?;
    let peer = std::env::var_os("FSMEND_UFS_PEERS")
        .map(|folder| PathBuf::from(folder).join("fsck_ffs"))
        .filter(|program| program.exists())
        .ok_or_else(|| io::Error::other("FSMEND_UFS_PEERS does not name the folder of fsck_ffs"))?;
    fs::create_dir_all(&options.cache)?;
    let image = options.cache.join(NAME);
    if !image.exists() {
        make(&programs.fsmend, &image)?;
    }
    for state in [State::Warm, State::Cold] {
        let load = load_average().unwrap_or(0.0);
        let [ours, theirs, floor] = compare(&programs, &peer, &image, (state, options.runs))?;
        let ratio = theirs.median / ours.median;
        println!("{state:?}, load {load:.2}: {} runs in turns, medians", options.runs);
        println!("  fsmend check   {:8.3} s  {} KiB", ours.median, ours.peak_kib.unwrap_or(0));
        println!("  fsck_ffs -n    {:8.3} s  {} KiB", theirs.median, theirs.peak_kib.unwrap_or(0));
        println!("  floor          {:8.3} s", floor.median);
        println!("  {ratio:.2} times as fast as fsck_ffs, {:.2} times the floor", ours.median / floor.median);
        if state == State::Warm {
            let most = (u64::from(ENTRIES) * INODE_BYTES) >> 10;
            println!("  wanted: {} times, {} times the floor, {most} KiB at most", WANTED.0, WANTED.1);
        }
    }
    Ok(())
}

fn compare(
    programs: &Programs,
    peer: &Path,
    image: &Path,
    (state, runs): (State, usize),
) -> io::Result<[Spread; 3]> {
    let is_cold = state == State::Cold;
    let prepare = || if is_cold { drop_caches() } else { Ok(()) };
    let (mut ours, mut theirs, mut floor) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..=runs {
        prepare()?;
        let checked = measure(&programs.fsmend, &["check".as_ref(), image.as_os_str()])?;
        prepare()?;
        let answered = measure(peer, &["-fn".as_ref(), image.as_os_str()])?;
        let bottom = programs.floor(image, is_cold)?;
        // The first round fills the cache.
        if run > 0 {
            ours.push(checked);
            theirs.push(answered);
            floor.push(bottom);
        }
    }
    Ok([spread(&ours), spread(&theirs), spread(&floor)])
}

fn make(fsmend: &Path, image: &Path) -> io::Result<()> {
    let fresh = image.with_extension("new");
    let place = image.with_extension("here");
    fs::create_dir_all(&place)?;
    let _ = fs::remove_file(&fresh);
    let (program, target, folder) =
        (fsmend.to_string_lossy(), fresh.to_string_lossy(), place.to_string_lossy());
    run_program(&program, ["mkfs", "--type", "ufs2", &target, SIZE])?;
    run_program(&program, ["mount", "--background", &target, &folder])?;
    let tree = populate::Tree { fan: vec![100, 119], entries: ENTRIES };
    let filled = populate::fill(&place, &tree, populate::Files::Written);
    run_program("umount", [&*folder])?;
    filled?;
    // The process that served the mount writes what remains; a check waits for it.
    run_program(&program, ["check", &target])?;
    fs::remove_dir(&place)?;
    fs::rename(&fresh, image)
}
