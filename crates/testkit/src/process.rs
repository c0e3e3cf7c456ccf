// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running a program with a time limit and a memory limit.

use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// What a program may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Wall-clock time; it is killed after that.
    pub patience: Duration,
    /// Address space in bytes.
    pub address_space: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { patience: Duration::from_secs(60), address_space: None }
    }
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Code(i32),
    /// By a signal.
    Signal,
    /// Killed when its time was over.
    TimedOut,
}

/// What is left of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// How it ended.
    pub ended: Ended,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it complained about.
    pub stderr: Vec<u8>,
    /// How long it took.
    pub took: Duration,
    /// The most memory that it was seen to hold, in bytes: its high-water mark, looked at every few milliseconds.
    pub peak_memory: u64,
}

/// Runs `command` within `limits`.
pub fn run_limited(mut command: Command, limits: Limits) -> io::Result<Run> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn()?;
    if let Some(bytes) = limits.address_space {
        // Set from outside just after the start: before any image is read, and without code between fork and exec.
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        let _ = prlimit(Pid::from_raw(child.id() as i32), Resource::As, limit);
    }
    let (closed, closing) = mpsc::channel();
    let stdout = reader(child.stdout.take(), Some(closed));
    let stderr = reader(child.stderr.take(), None);
    let (ended, peak_memory) = wait(&mut child, &closing, start + limits.patience)?;
    let took = start.elapsed();
    Ok(Run {
        ended,
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
        took,
        peak_memory,
    })
}

/// Reads to the end; `closed` is dropped there.
fn reader(
    pipe: Option<impl Read + Send + 'static>,
    closed: Option<Sender<()>>,
) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        drop(closed);
        bytes
    })
}

/// Looks every few milliseconds; a program that closes its output is about to end, which is not slept through.
fn wait(child: &mut Child, closing: &Receiver<()>, deadline: Instant) -> io::Result<(Ended, u64)> {
    let mut pause = Duration::from_millis(1);
    let (mut peak, mut is_closed) = (0, false);
    loop {
        peak = peak.max(high_water_mark(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            return Ok((status.code().map_or(Ended::Signal, Ended::Code), peak));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok((Ended::TimedOut, peak));
        }
        match closing.recv_timeout(pause) {
            Err(RecvTimeoutError::Disconnected) if !is_closed => {
                (is_closed, pause) = (true, Duration::from_micros(50));
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(pause),
            _ => {}
        }
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// `VmHWM` of a process, in bytes. Nothing while it still shares the memory of this one: a child may be stopped just before
/// `execve` puts its own in place, and the mark would be that of this process. (No program is watched that is this one.)
fn high_water_mark(process: u32) -> Option<u64> {
    let program = |process: &str| std::fs::read_link(format!("/proc/{process}/exe")).ok();
    if program(&process.to_string())? == program("self")? {
        return None;
    }
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}
