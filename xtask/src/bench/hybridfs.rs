// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench hybridfs`: `fsmend check` on hybridfs and on ext4 with the same tree of a million small files, and the floors of both, alternately.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fsmend_device::{WritableDevice, WritableFile};
use fsmend_ext_driver::{Ext, mkfs as ext};
use fsmend_hybridfs_driver::{Hybrid, mkfs as hybrid};
use fsmend_vfs::{Errno, FileSystem, Permissions, Time};

use super::check::{Programs, State};
use super::measure::{Spread, drop_caches, load_average, measure, spread};
use super::{Options, needs};

/// Folders in the root, folders in each of them, and files in each of those: a million inodes.
const TREE: [u32; 3] = [100, 100, 99];
const INODES: u32 = 1_200_000;
const UUID: [u8; 16] = *b"fsmend a million";
/// By how much slower than its floor a warm check may be.
const WANTED: f64 = 1.5;

/// A tree: its name, the length of its files, and the sizes of the file systems and of the log.
struct Case {
    name: &'static str,
    file: usize,
    bytes: u64,
    log: u64,
}

const CASES: [Case; 2] = [
    // In the inodes, as far as hybridfs is concerned.
    Case { name: "inline", file: 200, bytes: 12 << 30, log: 2 << 30 },
    // Contents in the log, which a check reads.
    Case { name: "2000-bytes", file: 2000, bytes: 20 << 30, log: 10 << 30 },
];

/// Measures and prints a table.
pub fn run(options: &Options) -> io::Result<()> {
    needs::superuser("it drops caches")?;
    let programs = Programs::find(options.build)?;
    fs::create_dir_all(&options.cache)?;
    needs::room(&options.cache, 16 << 30)?;
    for case in CASES.iter().filter(|case| options.wants(case.name)) {
        let hybridfs = image(options, case, "hybridfs", hybridfs)?;
        let ext4 = image(options, case, "ext4", ext4)?;
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

type Mounted = io::Result<Box<dyn FileSystem>>;

fn now() -> Time {
    Time::at(1_700_000_000)
}

fn failed(what: Errno) -> io::Error {
    io::Error::other(what.to_string())
}

fn hybridfs(device: Arc<dyn WritableDevice>, case: &Case) -> Mounted {
    let options = hybrid::Options {
        log_bytes: Some(case.log),
        inodes: Some(INODES.into()),
        ..hybrid::Options::new(UUID, now())
    };
    hybrid::mkfs(Arc::clone(&device), &options).map_err(io::Error::other)?;
    let options = fsmend_hybridfs_driver::MountOptions::new(now());
    Ok(Box::new(Hybrid::mount(device, options).map_err(io::Error::other)?))
}

fn ext4(device: Arc<dyn WritableDevice>, _: &Case) -> Mounted {
    let options = ext::Options { inodes: Some(INODES), ..ext::Options::new(ext::Kind::Ext4, UUID, now()) };
    ext::mkfs(Arc::clone(&device), &options).map_err(io::Error::other)?;
    let options =
        fsmend_ext_driver::MountOptions { bulk: true, ..fsmend_ext_driver::MountOptions::new(now()) };
    Ok(Box::new(Ext::mount(device, options).map_err(io::Error::other)?))
}

/// The image of a case, made if it is not there.
fn image(
    options: &Options,
    case: &Case,
    kind: &str,
    make: fn(Arc<dyn WritableDevice>, &Case) -> Mounted,
) -> io::Result<PathBuf> {
    let image = options.cache.join(format!("{kind}-{}-1m.img", case.name));
    if image.exists() {
        return Ok(image);
    }
    let fresh = image.with_extension("new");
    File::create(&fresh)?.set_len(case.bytes)?;
    let device = Arc::new(WritableFile::open(&fresh, false)?);
    let mut fs = make(device, case)?;
    fill(&mut *fs, &vec![b'x'; case.file]).map_err(failed)?;
    fs.unmount(now()).map_err(failed)?;
    fs::rename(&fresh, &image)?;
    Ok(image)
}

fn fill(fs: &mut dyn FileSystem, contents: &[u8]) -> fsmend_vfs::Result<()> {
    let of = Permissions { mode: 0o755, uid: 0, gid: 0 };
    let root = fs.root();
    for top in 0..TREE[0] {
        let top = fs.mkdir(root, format!("top-{top:04}").as_bytes(), of, now())?.inode;
        for folder in 0..TREE[1] {
            let folder = fs.mkdir(top, format!("directory-{folder:04}").as_bytes(), of, now())?.inode;
            for file in 0..TREE[2] {
                let file = fs.create(folder, format!("file-{file:05}.dat").as_bytes(), of, now())?.inode;
                fs.write(file, 0, contents, now())?;
            }
        }
    }
    Ok(())
}
