// SPDX-License-Identifier: MIT OR Apache-2.0
//! What e2fsck asks of a disk, as the kernel's block layer sees it, below the page cache and its reading ahead; and when it computes.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::checkers::State;
use super::steps::{Step, steps_in};

/// Where the kernel shows its tracing.
const TRACING: &str = "/sys/kernel/tracing";
/// The same, where only debugfs is mounted.
const TRACING_IN_DEBUGFS: &str = "/sys/kernel/debug/tracing";

/// The kernel's tracing. On a machine where it is not mounted it is mounted while this lives.
pub struct Tracing {
    folder: PathBuf,
    is_mounted_here: bool,
}

impl Tracing {
    /// Finds it, or mounts it. Fails with what is missing.
    pub fn open() -> io::Result<Self> {
        let is_there = |folder: &&str| Path::new(folder).join("instances").is_dir();
        if let Some(folder) = [TRACING, TRACING_IN_DEBUGFS].iter().find(|folder| is_there(folder)) {
            return Ok(Tracing { folder: PathBuf::from(folder), is_mounted_here: false });
        }
        let output = Command::new("mount").args(["-t", "tracefs", "tracefs", TRACING]).output()?;
        let tracing = Tracing { folder: PathBuf::from(TRACING), is_mounted_here: output.status.success() };
        if tracing.is_mounted_here && is_there(&TRACING) {
            return Ok(tracing);
        }
        Err(io::Error::other(format!(
            "what e2fsck reads is recorded by the kernel's tracing, and tracefs is not mounted on {TRACING} and cannot be: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )))
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        if self.is_mounted_here {
            let _ = Command::new("umount").arg(&self.folder).status();
        }
    }
}

/// An instance of the kernel's tracing, removed when dropped.
struct Instance(PathBuf, #[expect(dead_code, reason = "is unmounted behind the instance")] Tracing);

impl Instance {
    fn new() -> io::Result<Self> {
        let tracing = Tracing::open()?;
        let folder = tracing.folder.join("instances").join(format!("fsmend-{}", std::process::id()));
        let about = |error| io::Error::other(format!("{}: {error}", folder.display()));
        fs::create_dir(&folder).map_err(about)?;
        Ok(Instance(folder, tracing))
    }

    fn set(&self, name: &str, value: &str) -> io::Result<()> {
        fs::write(self.0.join(name), value)
    }

    /// Begins to record: the requests that the device gets, when the process has a processor, and what it reads.
    fn begin(&self, dev: u64, pid: u32) -> io::Result<()> {
        let events = [
            ("block/block_rq_issue", format!("dev=={dev}")),
            ("sched/sched_switch", format!("prev_pid=={pid}||next_pid=={pid}")),
            ("syscalls/sys_enter_pread64", format!("common_pid=={pid}")),
            ("syscalls/sys_exit_pread64", format!("common_pid=={pid}")),
        ];
        for (event, filter) in events {
            if !self.0.join("events").join(event).is_dir() {
                return Err(io::Error::other(format!("this kernel cannot record {event}")));
            }
            self.set(&format!("events/{event}/filter"), &filter)?;
            self.set(&format!("events/{event}/enable"), "1")?;
        }
        Ok(())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Nothing can be done about one that stays; the kernel forgets it at the next boot.
        let _ = fs::remove_dir(&self.0);
    }
}

/// A loop device, detached when dropped.
struct Loop(String);

impl Loop {
    fn over(image: &Path) -> io::Result<Self> {
        let output = Command::new("losetup").args(["--find", "--show", "--read-only"]).arg(image).output()?;
        let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if name.is_empty() {
            return Err(io::Error::other(format!("losetup: {}", String::from_utf8_lossy(&output.stderr))));
        }
        Ok(Loop(name))
    }

    /// Its number, as tracing writes it.
    fn number(&self) -> io::Result<String> {
        let name = self.0.trim_start_matches("/dev/");
        fs::read_to_string(format!("/sys/block/{name}/dev")).map(|text| text.trim().replace(':', ","))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// Everything that `e2fsck -fn` does to read the image when nothing is cached, in order. Needs the superuser.
pub fn steps_of_e2fsck(image: &Path, state: State) -> io::Result<Vec<Step>> {
    steps_of(Path::new("e2fsck"), image, if state == State::Sound { 0 } else { 4 })
}

/// Everything that a checker, called with `-fn`, does to read the image when nothing is cached, in order; it has to end with this code. Needs the superuser.
pub fn steps_of(checker: &Path, image: &Path, wanted: i32) -> io::Result<Vec<Step>> {
    let device = Loop::over(image)?;
    let number = device.number()?;
    let instance = Instance::new()?;
    instance.set("buffer_size_kb", "131072")?;
    let (major, minor) = number.split_once(',').ok_or_else(|| io::Error::other("no such loop device"))?;
    let number_of_kernel = |text: &str| text.parse::<u64>().map_err(io::Error::other);
    let dev = number_of_kernel(major)? << 20 | number_of_kernel(minor)?;
    // What is recorded is said by the number of the process, so it has to be there first: the shell waits for a line before it becomes e2fsck.
    let mut child = Command::new("sh")
        .args(["-c", "read line && exec \"$1\" -fn \"$0\"", &device.0])
        .arg(checker)
        .stdin(Stdio::piped())
        // What it says of its passes goes into the record, to the place where it says so.
        .stdout(File::options().write(true).open(instance.0.join("trace_marker"))?)
        .stderr(Stdio::null())
        .spawn()?;
    let pid = child.id();
    let begun = instance.begin(dev, pid).and_then(|()| match child.stdin.take() {
        Some(mut line) => line.write_all(b"\n"),
        None => Err(io::Error::other("the shell has no input")),
    });
    // Without its line, the shell ends.
    drop(child.stdin.take());
    let status = child.wait()?;
    begun?;
    instance.set("tracing_on", "0")?;
    if status.code() != Some(wanted) {
        return Err(io::Error::other(format!("{} says {status} of the driver's image", checker.display())));
    }
    let trace = fs::read_to_string(instance.0.join("trace"))?;
    if trace.lines().any(|line| line.contains("LOST")) {
        return Err(io::Error::other("the kernel has lost a part of the record"));
    }
    let steps = steps_in(&trace, &number, pid);
    if steps.is_empty() {
        return Err(io::Error::other("the kernel has recorded nothing"));
    }
    Ok(steps)
}
