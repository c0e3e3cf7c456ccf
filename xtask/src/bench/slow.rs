// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench slow`: devices on which each request takes 20 ms. What is known ahead has to go out at once: counted are the requests, the most of them
//! that were in flight, and those that were alone, on every way to the bytes. The counts depend on no machine.
//!
//! Block devices are loop devices over such a file. Requests reach the file below them one after the other, with direct I/O or without, however
//! many wait in the queue of the device. So for these the most that waited there counts (`queued`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use fsmend_mount::slow::{Asked, SlowFile, Slowness};
use fsmend_testkit::host::{command, run as run_program};

use super::Options;
use super::check::build;

const LATENCY: Duration = Duration::from_millis(20);
/// Requests that the device serves side by side: more than one reader of ours has in flight.
const DEPTH: usize = 64;
/// Directories, and files with a block of pointers, each far from the next.
const SCATTERED: usize = 202;

/// Runs over all images, kinds of devices and ways to read, and prints what was counted.
pub fn run(options: &Options) -> io::Result<()> {
    if options.build {
        build()?;
    }
    let fsmend = fsmend_testkit::target_folder().join("release/fsmend");
    let folder = std::env::temp_dir().join(format!("fsmend-slow-{}", std::process::id()));
    let mounted = folder.join("mounted");
    fs::create_dir_all(&mounted)?;
    let result = measure_all(&fsmend, &folder, &mounted, options);
    let _ = fs::remove_dir_all(&folder);
    result
}

fn measure_all(fsmend: &Path, folder: &Path, mounted: &Path, options: &Options) -> io::Result<()> {
    println!("| image | device | backend | ms | requests | in flight | alone | queued |");
    println!("|---|---|---|--:|--:|--:|--:|--:|");
    for kind in ["ext4", "ext3"] {
        let image = make(folder, kind)?;
        for (format, path) in [("raw", image.clone()), ("qcow2", in_qcow2(&image)?)] {
            for device in DEVICES {
                let name = format!("{kind} {format}");
                if !options.wants(kind) || (format == "qcow2" && device.is_loop()) {
                    continue;
                }
                for backend in ["auto", "uring", "pread"] {
                    let (took, Asked { requests, most, alone, .. }, queued) =
                        once(fsmend, &path, mounted, device, backend)?;
                    println!(
                        "| {name} | {} | {backend} | {} | {requests} | {most} | {alone} | {} |",
                        device.name(),
                        took.as_millis(),
                        queued.map_or_else(String::new, |queued| queued.to_string())
                    );
                }
            }
        }
    }
    Ok(())
}

/// What the file is to the check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// A file that the page cache holds.
    Cached,
    /// A file whose reads all go past the page cache.
    Uncached,
    /// A loop device that reads the file through the page cache.
    Loop,
    /// A loop device with direct I/O.
    LoopDirect,
}

const DEVICES: [Target; 4] = [Target::Cached, Target::Uncached, Target::Loop, Target::LoopDirect];

impl Target {
    fn name(self) -> &'static str {
        match self {
            Target::Cached => "cached",
            Target::Uncached => "uncached",
            Target::Loop => "loop",
            Target::LoopDirect => "loop, direct",
        }
    }

    fn is_loop(self) -> bool {
        matches!(self, Target::Loop | Target::LoopDirect)
    }
}

/// How long a check took, what it asked for, and how many requests waited in the queue of a loop device at most.
fn once(
    fsmend: &Path,
    image: &Path,
    mounted: &Path,
    target: Target,
    backend: &str,
) -> io::Result<(Duration, Asked, Option<u64>)> {
    let uncached = target == Target::Uncached;
    let slow = SlowFile::mount(image, mounted, Slowness { latency: LATENCY, depth: DEPTH, uncached })?;
    let looped =
        target.is_loop().then(|| Loop::new(&slow.path(), target == Target::LoopDirect)).transpose()?;
    let path = looped.as_ref().map_or_else(|| slow.path(), |looped| looped.0.clone());
    let before = slow.asked();
    let is_over = AtomicBool::new(false);
    let mut command = command(&fsmend.to_string_lossy());
    command.args(["check", "--threads", "8", "--backend", backend]).arg(path);
    let (output, took, queued) = thread::scope(|scope| {
        let watch = scope.spawn(|| looped.as_ref().map(|looped| looped.most_queued(&is_over)));
        let started = Instant::now();
        let output = command.output();
        let took = started.elapsed();
        is_over.store(true, Relaxed);
        (output, took, watch.join().ok().flatten())
    });
    let output = output?;
    if !output.status.success() {
        return Err(io::Error::other(format!(
            "{command:?}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stdout)
        )));
    }
    let asked = slow.asked();
    let requests = asked.requests.saturating_sub(before.requests);
    Ok((took, Asked { requests, ..asked }, queued))
}

/// A loop device, which is detached when this is dropped.
struct Loop(PathBuf);

impl Loop {
    fn new(file: &Path, direct: bool) -> io::Result<Loop> {
        let direct = if direct { "--direct-io=on" } else { "--direct-io=off" };
        let words = ["--find", "--show", "--read-only", direct, &file.to_string_lossy()];
        let output = run_program("losetup", words)?;
        Ok(Loop(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())))
    }

    /// The most requests that were in its queue or with it at a time, until `is_over`.
    fn most_queued(&self, is_over: &AtomicBool) -> u64 {
        let name = self.0.file_name().unwrap_or_default();
        let place = Path::new("/sys/block").join(name).join("inflight");
        let mut most = 0;
        while !is_over.load(Relaxed) {
            let text = fs::read_to_string(&place).unwrap_or_default();
            let numbers = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
            most = most.max(numbers.sum());
            thread::sleep(Duration::from_millis(1));
        }
        most
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run_program("losetup", ["--detach", &self.0.to_string_lossy()]);
    }
}

/// Directories with a file each: what is in it keeps them apart, and has a block of pointers where there are no extents.
fn make(folder: &Path, kind: &str) -> io::Result<PathBuf> {
    let (image, filler, script) = (folder.join(kind), folder.join("filler"), folder.join("script"));
    fs::write(&filler, vec![7; 200 << 10])?;
    fs::File::create(&image)?.set_len(512 << 20)?;
    run_program("mke2fs", ["-q", "-F", "-t", kind, "-b", "4096", &image.to_string_lossy()])?;
    let lines = (0..SCATTERED).map(|at| format!("mkdir d{at}\nwrite {} d{at}/file\n", filler.display()));
    fs::write(&script, lines.collect::<String>())?;
    run_program("debugfs", ["-w", "-f", &script.to_string_lossy(), &image.to_string_lossy()])?;
    Ok(image)
}

fn in_qcow2(image: &Path) -> io::Result<PathBuf> {
    let path = image.with_extension("qcow2");
    let (from, to) = (image.to_string_lossy(), path.to_string_lossy());
    run_program("qemu-img", ["convert", "-O", "qcow2", &from, &to])?;
    Ok(path)
}
