// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slow devices: what is known ahead is asked for at once, an interrupt ends the run however long reads take, and estimates take no longer than they may.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/images.rs"]
mod images;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fsmend_mount::slow::{Asked, SlowFile, Slowness};
use fsmend_testkit::host;
use images::{Folder, code, prepared, stderr, stdout};

const DIRECTORIES: usize = 202;
/// Requests that the device serves side by side.
const DEPTH: usize = 256;
/// A run ends so soon after a signal, at least one time in a few: the machine may be busy with other tests.
const STOPS_WITHIN: Duration = Duration::from_millis(200);
const TRIES: usize = 5;

fn may_mount(test: &str) -> bool {
    let may = host::is_root() && Path::new("/dev/fuse").exists();
    if !may {
        host::skip(test, "mounting takes the superuser and /dev/fuse");
    }
    may && images::have(test, &["mke2fs", "debugfs"])
}

/// Directories that lie far apart: each has a file, which comes between it and the next.
fn scattered(folder: &Folder) -> PathBuf {
    let (image, filler, script) = (folder.path("image"), folder.path("filler"), folder.path("script"));
    std::fs::write(&filler, vec![7; 200 << 10]).unwrap();
    std::fs::File::create(&image).unwrap().set_len(128 << 20).unwrap();
    host::run("mke2fs", ["-q", "-F", "-t", "ext4", "-b", "4096", image.to_str().unwrap()]).unwrap();
    let lines = (0..DIRECTORIES).map(|at| format!("mkdir d{at}\nwrite {} d{at}/file\n", filler.display()));
    std::fs::write(&script, lines.collect::<String>()).unwrap();
    host::run("debugfs", ["-w", "-f", script.to_str().unwrap(), image.to_str().unwrap()]).unwrap();
    image
}

fn slow(image: &Path, folder: &Folder, latency: Duration, uncached: bool) -> SlowFile {
    let place = folder.path("mounted");
    std::fs::create_dir_all(&place).unwrap();
    SlowFile::mount(image, &place, Slowness { latency, depth: DEPTH, uncached }).unwrap()
}

#[test]
fn scattered_directories_are_read_at_once_and_not_one_by_one() {
    if !may_mount("scattered_directories_are_read_at_once_and_not_one_by_one") {
        return;
    }
    let folder = Folder::new("slow-depth");
    let image = scattered(&folder);
    let mut cases = vec![("raw", image.clone())];
    if host::find_program("qemu-img").is_some() {
        let qcow2 = folder.path("image.qcow2");
        let convert = ["convert", "-O", "qcow2", image.to_str().unwrap(), qcow2.to_str().unwrap()];
        host::run("qemu-img", convert).unwrap();
        cases.push(("qcow2", qcow2));
    }
    for (format, image) in cases {
        for uncached in [false, true] {
            for backend in ["auto", "uring", "pread"] {
                let slow = slow(&image, &folder, Duration::from_millis(60), uncached);
                let mut command = prepared(env!("CARGO_BIN_EXE_fsmend"));
                let output = command.args(["check", "--backend", backend]).arg(slow.path()).output().unwrap();
                let Asked { requests, most, alone, .. } = slow.asked();
                let case = format!("{format}, uncached {uncached}, {backend}");
                assert_eq!(code(&output), 0, "{case}: {}", stdout(&output));
                assert!(most >= 32, "{case}: {most} of {requests} at a time");
                // One by one, there would be one for each directory.
                assert!(alone < DIRECTORIES as u64 / 2, "{case}: {alone} of {requests} alone");
            }
        }
    }
}

/// A check of the device, under way.
fn begun(slow: &SlowFile, options: &[&str]) -> Child {
    let mut command: Command = prepared(env!("CARGO_BIN_EXE_fsmend"));
    command.args(options).arg(slow.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // The first reads are in flight.
    while slow.asked().requests == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(50));
    child
}

#[test]
fn ctrl_c_does_not_wait_for_reads_of_seconds() {
    if !may_mount("ctrl_c_does_not_wait_for_reads_of_seconds") {
        return;
    }
    let folder = Folder::new("slow-stop");
    let image = scattered(&folder);
    let latency = Duration::from_secs(8);
    for signal in ["INT", "TERM"] {
        for options in [&["check"][..], &["check", "--format", "json"], &["repair", "--dry-run"]] {
            let mut fastest = latency;
            for _ in 0..TRIES {
                let slow = slow(&image, &folder, latency, false);
                let child = begun(&slow, options);
                let interrupted = Instant::now();
                host::run("kill", ["-s", signal, &child.id().to_string()]).unwrap();
                let output = child.wait_with_output().unwrap();
                fastest = fastest.min(interrupted.elapsed());
                let told = stdout(&output) + &stderr(&output);
                assert_eq!(code(&output), 32, "{options:?}: {told}");
                assert!(told.contains("stopped"), "{options:?}: {told}");
                if fastest < STOPS_WITHIN {
                    break;
                }
            }
            assert!(fastest < STOPS_WITHIN, "{options:?}: {fastest:?} after SIG{signal}");
        }
    }
}

#[test]
fn an_estimate_of_a_slow_device_takes_a_part_of_what_it_foretells() {
    if !may_mount("an_estimate_of_a_slow_device_takes_a_part_of_what_it_foretells") {
        return;
    }
    let folder = Folder::new("slow-estimate");
    let image = scattered(&folder);
    // One request at a time: the check takes many seconds.
    let place = folder.path("mounted");
    std::fs::create_dir_all(&place).unwrap();
    let slowness = Slowness { latency: Duration::from_millis(100), depth: 1, uncached: false };
    // Requests are counted: how long they take depends on what else the machine does.
    let requests = |options: &[&str]| {
        let slow = SlowFile::mount(&image, &place, slowness).unwrap();
        let mut command = prepared(env!("CARGO_BIN_EXE_fsmend"));
        let output = command.arg("check").args(options).arg(slow.path()).output().unwrap();
        assert_eq!(code(&output), 0, "{}", stdout(&output) + &stderr(&output));
        slow.asked().requests
    };
    let (estimated, checked) = (requests(&["--estimate"]), requests(&[]));
    // As many as workers have in flight, 64 of 200, were asked for once before it was known how slow the device is.
    assert!(estimated * 4 < checked, "estimate: {estimated} requests, check: {checked}");
}
