// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who repairs: ours, within this process, or e2fsck, on a copy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use fsmend_device::{Device, FileDevice};
use fsmend_engine::{Progress, Severity};
use fsmend_ext_check::repair::{Repair, RepairOptions, RepairPolicy, plan};

use super::image::Image;
use super::scratch;
use crate::host::command;
use crate::oracle::complains;
use crate::process::{Ended, Limits, Run, run_limited};
use crate::within::{Manner, options};

/// A repair that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a repair ended.
pub enum Outcome {
    /// With this image, and nothing that it knows of left.
    Repaired(Image),
    /// It would not, or could not: one word (a code) and a sentence.
    GaveUp(String, String),
    /// It crashed or hung.
    Fell(String),
}

/// Something that repairs.
pub trait Subject: Sync {
    /// Repairs an image, with a number of threads where that means anything.
    fn repair(&self, image: &Image, threads: usize) -> Outcome;

    /// Whether a second repair must change no byte, and any number of threads must come to the same bytes. Of the same image it makes the
    /// same thing each time.
    fn is_exact(&self) -> bool {
        false
    }
}

/// Ours.
pub struct Fsmend {
    /// Seconds since the epoch.
    pub now: u64,
}

impl Subject for Fsmend {
    fn repair(&self, image: &Image, threads: usize) -> Outcome {
        match self.plan(image.device(), threads) {
            Ok(Ok(repair)) if repair.is_clean() => Outcome::Repaired(with_changes(image, &repair.changes)),
            Ok(Ok(repair)) => {
                let codes: Vec<&str> = repair.left.findings.counts().into_keys().collect();
                let problems = repair.left.findings.into_sorted();
                let counts = problems.iter().find(|problem| problem.row.severity != Severity::Note);
                let (code, message) =
                    counts.map(|first| (first.row.code, first.message())).unwrap_or_default();
                let why = format!("{} rounds, {message} (all: {})", repair.rounds, codes.join(" "));
                Outcome::GaveUp(format!("not clean: {code}"), why)
            }
            Ok(Err(refused)) => {
                Outcome::GaveUp(format!("refused: {}", refused.refusal.code), refused.to_string())
            }
            Err(fell) => Outcome::Fell(fell),
        }
    }

    fn is_exact(&self) -> bool {
        true
    }
}

impl Fsmend {
    /// Works out a repair; the outer error says that it panicked or hung.
    pub fn plan(
        &self,
        device: Arc<dyn Device>,
        threads: usize,
    ) -> Result<Result<Repair, fsmend_ext_check::run::Refused>, String> {
        let mut check = options(Manner { threads, ..Manner::default() });
        check.now = self.now;
        // What is written is held twice. (A tenth of the bytes of a large image may be broken.)
        check.memory = check.memory.max(2 * device.len());
        let options = RepairOptions { check, policy: RepairPolicy::default() };
        let (done, result) = mpsc::channel();
        let cancel = Arc::new(AtomicBool::new(false));
        let cancelled = Arc::clone(&cancel);
        let worker = thread::spawn(move || {
            let planned = plan(&device, &options, &Progress::new(), &cancelled);
            let written_out = |repair: Repair| {
                repair.written_out(&device).expect("what was read from memory can be read again")
            };
            let _ = done.send(planned.map(written_out));
        });
        match result.recv_timeout(PATIENCE) {
            Ok(result) => {
                let _ = worker.join();
                Ok(result)
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                cancel.store(true, Relaxed);
                Err("hang".to_owned())
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(match worker.join() {
                Err(why) => panic_message(why.as_ref()),
                Ok(()) => "no result".to_owned(),
            }),
        }
    }
}

fn panic_message(why: &(dyn std::any::Any + Send)) -> String {
    let text =
        why.downcast_ref::<String>().map(String::as_str).or_else(|| why.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("without a word"))
}

fn with_changes(image: &Image, changes: &[(u64, Vec<u8>)]) -> Image {
    let mut image = image.clone();
    changes.iter().for_each(|(offset, bytes)| image.write(*offset, bytes));
    image
}

/// Bytes of an image with changes written into them.
pub fn laid_over(image: &[u8], changes: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut image = image.to_vec();
    for (offset, bytes) in changes {
        let at = *offset as usize;
        if let Some(place) = image.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
    image
}

/// What our repair would write to an image in a file.
pub fn changes_of_repair(path: &Path) -> io::Result<Vec<(u64, Vec<u8>)>> {
    let device: Arc<dyn Device> = Arc::new(FileDevice::open(path)?);
    let mut check = options(Manner { threads: 2, ..Manner::default() });
    check.now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    check.memory = 1 << 30;
    let options = RepairOptions { check, policy: RepairPolicy::default() };
    let repair = plan(&device, &options, &Progress::new(), &AtomicBool::new(false));
    let repair = repair.map_err(|refused| io::Error::other(refused.to_string()))?;
    Ok(repair.written_out(&device).map_err(|error| io::Error::other(error.to_string()))?.changes)
}

/// e2fsck, which answers yes to everything.
pub struct E2fsck {
    /// Seconds since the epoch, as it shall think.
    pub now: u64,
}

impl Subject for E2fsck {
    fn repair(&self, image: &Image, _threads: usize) -> Outcome {
        match self.repaired(image) {
            Ok(outcome) => outcome,
            Err(error) => Outcome::GaveUp("no e2fsck".to_owned(), error.to_string()),
        }
    }
}

impl E2fsck {
    fn repaired(&self, image: &Image) -> io::Result<Outcome> {
        let (run, left) = scratch::with_file_to_write(image, |path| {
            let run = self.run("-fy", path)?;
            // Some damage takes it two runs.
            if matches!(run.ended, Ended::Code(code) if code & 4 != 0) {
                self.run("-fy", path)
            } else {
                Ok(run)
            }
        })?;
        Ok(match run.ended {
            Ended::Code(0..=3) => Outcome::Repaired(left),
            Ended::Code(code) => Outcome::GaveUp(format!("exit code {code}"), said(&run)),
            Ended::Signal => Outcome::Fell("a signal".to_owned()),
            Ended::TimedOut => Outcome::Fell("hang".to_owned()),
        })
    }

    /// Runs it with one option.
    pub fn run(&self, option: &str, image: &Path) -> io::Result<Run> {
        let mut command = command("e2fsck");
        command.env("E2FSCK_TIME", self.now.to_string()).arg(option).arg(image);
        run_limited(command, Limits { patience: PATIENCE, ..Limits::default() })
    }

    /// What it says about an image that it may not change: nothing, or its first complaint.
    pub fn complaint(&self, image: &Image) -> io::Result<Option<String>> {
        scratch::with_file(image, |path| self.complaint_about(path))
    }

    /// The same of bytes.
    pub fn complaint_about_bytes(&self, image: &[u8]) -> io::Result<Option<String>> {
        self.complaint_about(Scratch::with(image)?.path())
    }

    /// The same of an image in a file.
    pub fn complaint_about(&self, path: &Path) -> io::Result<Option<String>> {
        let run = self.run("-fn", path)?;
        Ok(match run.ended {
            // A clock that is a few hours off is no defect, and it says so itself.
            Ended::Code(0) if !complains(&run.stdout) || said(&run).contains("by less than a day") => None,
            Ended::Code(code) => Some(format!("exit code {code}: {}", said(&run))),
            Ended::Signal => Some("died of a signal".to_owned()),
            Ended::TimedOut => Some("hang".to_owned()),
        })
    }
}

/// The first complaints of a run.
fn said(run: &Run) -> String {
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    let matters =
        |line: &&str| !line.is_empty() && !line.starts_with("Pass ") && !line.starts_with("e2fsck 1.");
    let lines: Vec<&str> = said
        .lines()
        .map(str::trim)
        .filter(matters)
        .filter(|line| !line.starts_with("/dev/shm/"))
        .take(3)
        .collect();
    lines.join(" | ").chars().take(300).collect()
}

/// A file in memory, where there is such a thing, for one image; it is gone afterwards.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A file that holds `image`.
    pub fn with(image: &[u8]) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let memory = PathBuf::from("/dev/shm");
        let folder = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let number = NUMBER.fetch_add(1, Relaxed);
        let path = folder.join(format!("fsmend-repair-{}-{number}.img", std::process::id()));
        let scratch = Scratch(path);
        fs::write(&scratch.0, image)?;
        Ok(scratch)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
