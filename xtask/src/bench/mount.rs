// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench mount`: an ext4 in use, mounted by `fsmend mount` (also with `-o idle=poll` and `-o writeback_cache`), by the kernel from a loop device, and by
//! fuse2fs, with the same workloads one after the other. Each round makes the images anew; figures are medians of rounds, and so are the ratios of the times
//! of one round. A second table has everything on one processor: there no request wakes an idle one, so that the figures are those of the programs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsmend_base::SeededRandom;
use fsmend_testkit::host::{command, find_program, run as run_program};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Options;
use super::check::build;
use super::needs;

const IMAGE_BYTES: u64 = 3 << 30;
const SMALL_FILES: usize = 50_000;
const SMALL_BYTES: usize = 1024;
const FOLDERS: usize = 50;
/// The tree that is unpacked.
const TREE_FILES: usize = 8_000;
const SEQUENTIAL_BYTES: usize = 512 << 20;
const PIECE_BYTES: usize = 1 << 20;
const APPENDS: usize = 50_000;
const APPEND_BYTES: usize = 100;

/// What is measured, in this order.
const WORKLOADS: [&str; 6] = [
    "50 000 files of 1 KiB",
    "untar 8 000 files",
    "rm -r of both",
    "write 512 MiB, fsync",
    "read them",
    "50 000 appends of 100 bytes",
];

/// What mounts the image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contender {
    Kernel,
    Fsmend,
    /// With `-o idle=poll`.
    Poll,
    /// With `-o writeback_cache`.
    Late,
    Fuse2fs,
}

impl Contender {
    const ALL: [Contender; 5] =
        [Contender::Kernel, Contender::Fsmend, Contender::Poll, Contender::Late, Contender::Fuse2fs];

    fn name(self) -> &'static str {
        match self {
            Contender::Kernel => "kernel",
            Contender::Fsmend => "fsmend",
            Contender::Poll => "`idle=poll`",
            Contender::Late => "`writeback_cache`",
            Contender::Fuse2fs => "fuse2fs",
        }
    }

    fn mount(self, fsmend: &Path, image: &Path, place: &Path) -> io::Result<()> {
        let (image, place) = (image.to_string_lossy(), place.to_string_lossy());
        match self {
            Contender::Kernel => run_program("mount", ["-o", "loop,noatime", &image, &place]),
            Contender::Fsmend | Contender::Poll | Contender::Late => {
                let option = match self {
                    Contender::Poll => "idle=poll",
                    Contender::Late => "writeback_cache",
                    _ => "rw",
                };
                let mount = ["mount", "--background", "-o", option, &image, &place];
                run_program(&fsmend.to_string_lossy(), mount)
            }
            Contender::Fuse2fs => run_program("fuse2fs", [&*image, &place]),
        }
        .map(|_| ())
    }
}

/// Measures and prints a table.
pub fn run(options: &Options) -> io::Result<()> {
    needs::superuser("it mounts images")?;
    needs::programs(&["mke2fs", "mount", "umount", "tar"])?;
    if options.build {
        build()?;
    }
    let fsmend = fsmend_testkit::target_folder().join("release/fsmend");
    let folder = options.cache.join(format!("mount-{}", std::process::id()));
    fs::create_dir_all(folder.join("here"))?;
    let result = measure_all(&fsmend, &folder, options);
    let _ = run_program("umount", [folder.join("here")]);
    let _ = fs::remove_dir_all(&folder);
    result
}

fn measure_all(fsmend: &Path, folder: &Path, options: &Options) -> io::Result<()> {
    let archive = make_archive(folder)?;
    let has_fuse2fs = find_program("fuse2fs").is_some();
    let contenders: Vec<Contender> = Contender::ALL
        .into_iter()
        .filter(|contender| *contender != Contender::Fuse2fs || has_fuse2fs)
        .collect();
    if !has_fuse2fs {
        println!("fuse2fs (Debian package fuse2fs) is not installed: left out");
    }
    println!("As the scheduler places callers and servers:\n");
    table(&contenders, fsmend, folder, &archive, options.runs)?;
    // What is started from here on inherits it.
    let all = sched_getaffinity(None)?;
    let Some(first) = (0..CpuSet::MAX_CPU).find(|processor| all.is_set(*processor)) else { return Ok(()) };
    let mut only = CpuSet::new();
    only.set(first);
    sched_setaffinity(None, &only)?;
    println!("\nEverything on one processor:\n");
    let measured = table(&contenders, fsmend, folder, &archive, options.runs);
    sched_setaffinity(None, &all)?;
    measured
}

/// Measures all contenders, one after the other in each round, and prints a table.
fn table(
    contenders: &[Contender],
    fsmend: &Path,
    folder: &Path,
    archive: &Path,
    runs: usize,
) -> io::Result<()> {
    let mut samples = vec![vec![Vec::new(); WORKLOADS.len()]; contenders.len()];
    for round in 0..runs {
        for turn in 0..contenders.len() {
            let at = (round + turn) % contenders.len();
            let took = once(contenders[at], fsmend, folder, archive)?;
            for (all, took) in samples[at].iter_mut().zip(took) {
                all.push(took.as_secs_f64());
            }
        }
    }
    let names: Vec<&str> = contenders.iter().map(|contender| contender.name()).collect();
    println!("| workload | kernel s | {} |", names[1..].join(" | "));
    println!("|---|{}", "--:|".repeat(contenders.len()));
    for (index, name) in WORKLOADS.iter().enumerate() {
        let kernel = &samples[0][index];
        // Of the same round, so that what else the machine does weighs on both.
        let ratio = |of: &Vec<Vec<f64>>| {
            median(of[index].iter().zip(kernel).map(|(took, kernel)| took / kernel).collect())
        };
        let ratios: Vec<String> = samples[1..].iter().map(|of| format!("{:.1}", ratio(of))).collect();
        println!("| {name} | {:.3} | {} |", median(kernel.clone()), ratios.join(" | "));
    }
    Ok(())
}

/// The middle of some values; not a number if there are none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A tree as sources have it, packed.
fn make_archive(folder: &Path) -> io::Result<PathBuf> {
    let (tree, archive) = (folder.join("tree"), folder.join("tree.tar"));
    let mut random = SeededRandom::new(1);
    for number in 0..TREE_FILES {
        let place = tree.join(format!("part{}/folder{}", number % 20, number % 400));
        fs::create_dir_all(&place)?;
        let bytes = vec![b'x'; 500 + random.below(20_000) as usize];
        fs::write(place.join(format!("source-file-{number}.c")), bytes)?;
    }
    run_program("tar", ["-C", &*tree.to_string_lossy(), "-cf", &*archive.to_string_lossy(), "."])?;
    fs::remove_dir_all(&tree)?;
    Ok(archive)
}

/// One round of all workloads.
fn once(contender: Contender, fsmend: &Path, folder: &Path, archive: &Path) -> io::Result<Vec<Duration>> {
    let (image, place) = (folder.join("image"), folder.join("here"));
    let _ = fs::remove_file(&image);
    File::create(&image)?.set_len(IMAGE_BYTES)?;
    run_program(
        "mke2fs",
        ["-q", "-t", "ext4", "-E", "lazy_itable_init=0,lazy_journal_init=0", &*image.to_string_lossy()],
    )?;
    rustix::fs::sync();
    contender.mount(fsmend, &image, &place)?;
    let mut took = Vec::new();
    took.push(timed(|| small_files(&place))?);
    took.push(timed(|| untar(archive, &place))?);
    took.push(timed(|| remove(&place))?);
    let large = place.join("large");
    took.push(timed(|| write_large(&large))?);
    // What the kernel keeps in memory of the files goes; the image stays in its page cache.
    run_program("umount", [&place])?;
    mount_again(contender, fsmend, &image, &place)?;
    took.push(timed(|| read_large(&large))?);
    took.push(timed(|| append(&place.join("log")))?);
    run_program("umount", [&place])?;
    wait_until_free(&image)?;
    Ok(took)
}

/// A server may still be writing when its folder is gone.
fn mount_again(contender: Contender, fsmend: &Path, image: &Path, place: &Path) -> io::Result<()> {
    wait_until_free(image)?;
    contender.mount(fsmend, image, place)
}

/// Waits until no process has the image open.
fn wait_until_free(image: &Path) -> io::Result<()> {
    for _ in 0..600 {
        if !is_open(image)? {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(io::Error::other("the image is still open a minute after it was unmounted"))
}

fn is_open(image: &Path) -> io::Result<bool> {
    for process in fs::read_dir("/proc")?.flatten() {
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else { continue };
        if descriptors.flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target == image)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn small_files(place: &Path) -> io::Result<()> {
    let bytes = [7; SMALL_BYTES];
    for folder in 0..FOLDERS {
        let folder = place.join(format!("small/{folder}"));
        fs::create_dir_all(&folder)?;
        for number in 0..SMALL_FILES / FOLDERS {
            fs::write(folder.join(format!("file-{number}")), bytes)?;
        }
    }
    Ok(())
}

fn untar(archive: &Path, place: &Path) -> io::Result<()> {
    let tree = place.join("tree");
    fs::create_dir(&tree)?;
    run_program("tar", ["-C", &*tree.to_string_lossy(), "-xf", &*archive.to_string_lossy()]).map(|_| ())
}

fn remove(place: &Path) -> io::Result<()> {
    let removed = command("rm").arg("-r").args([place.join("small"), place.join("tree")]).status()?;
    if removed.success() { Ok(()) } else { Err(io::Error::other("rm -r failed")) }
}

fn write_large(path: &Path) -> io::Result<()> {
    let file = File::create(path)?;
    let piece = vec![9; PIECE_BYTES];
    for at in (0..SEQUENTIAL_BYTES).step_by(PIECE_BYTES) {
        file.write_all_at(&piece, at as u64)?;
    }
    file.sync_all()
}

fn read_large(path: &Path) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = SEQUENTIAL_BYTES;
    while left > 0 {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Err(io::Error::other("the file is shorter than it was written"));
        }
        left -= read;
    }
    Ok(())
}

fn append(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    (0..APPENDS).try_for_each(|_| file.write_all(&[b'l'; APPEND_BYTES]))
}
