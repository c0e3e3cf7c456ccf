// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench slow`: devices on which each request takes 20 ms. What is known ahead has to go out at once: counted are the requests, the most of them
//! that were in flight, and those that were alone, on every way to the bytes. The counts depend on no machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
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
    println!("| image | device | backend | ms | requests | in flight | alone |");
    println!("|---|---|---|--:|--:|--:|--:|");
    for kind in ["ext4", "ext3"] {
        let image = make(folder, kind)?;
        for (format, path) in [("raw", image.clone()), ("qcow2", in_qcow2(&image)?)] {
            for (device, uncached) in [("cached", false), ("uncached", true)] {
                let name = format!("{kind} {format}");
                if !options.wants(kind) {
                    continue;
                }
                for backend in ["auto", "uring", "pread"] {
                    let slowness = Slowness { latency: LATENCY, depth: DEPTH, uncached };
                    let (took, asked) = once(fsmend, &path, mounted, slowness, backend)?;
                    let Asked { requests, most, alone, .. } = asked;
                    println!(
                        "| {name} | {device} | {backend} | {} | {requests} | {most} | {alone} |",
                        took.as_millis()
                    );
                }
            }
        }
    }
    Ok(())
}

fn once(
    fsmend: &Path,
    image: &Path,
    mounted: &Path,
    slowness: Slowness,
    backend: &str,
) -> io::Result<(Duration, Asked)> {
    let slow = SlowFile::mount(image, mounted, slowness)?;
    let started = Instant::now();
    let mut command = command(&fsmend.to_string_lossy());
    command.args(["check", "--threads", "8", "--backend", backend]).arg(slow.path());
    let output = command.output()?;
    let took = started.elapsed();
    if !output.status.success() {
        return Err(io::Error::other(format!(
            "{command:?}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stdout)
        )));
    }
    Ok((took, slow.asked()))
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
