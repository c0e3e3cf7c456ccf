// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contestants: checkers that run again and again beside the application.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use fsmend_testkit::host::{command, find_program, run};

/// Seconds after which a check is ended. On a machine that has no core to spare, one in the background takes for ever; what was
/// ended counts as having taken this long.
const PATIENCE: &str = "20";
/// How `timeout` says that it had to.
const TIMED_OUT: i32 = 124;

/// One way to check.
#[derive(Clone)]
pub struct Checker {
    /// What to call it.
    pub name: &'static str,
    words: Vec<OsString>,
}

/// The contestants.
pub struct Checkers {
    /// `e2fsck -fn`.
    pub e2fsck: Checker,
    /// The same as an administrator would soften it.
    pub e2fsck_nice: Checker,
    /// `fsmend check`, which takes what it can get.
    pub fsmend: Checker,
    /// `fsmend check --background`.
    pub background: Checker,
}

impl Checkers {
    /// Those that are installed, and ours in the release profile.
    pub fn find(image: &Path) -> io::Result<Checkers> {
        let missing = || io::Error::other("e2fsck is not installed (Debian package e2fsprogs)");
        let e2fsck = find_program("e2fsck").ok_or_else(missing)?;
        let fsmend = fsmend_testkit::target_folder().join("release/fsmend");
        let checker = |name, before: &[&str], program: &PathBuf, options: &[&str]| {
            let mut words: Vec<OsString> = before.iter().map(OsString::from).collect();
            words.push(program.into());
            words.extend(options.iter().map(OsString::from));
            words.push(image.into());
            Checker { name, words }
        };
        let nice = ["nice", "-n", "19", "ionice", "-c", "3"];
        Ok(Checkers {
            e2fsck: checker("e2fsck -fn", &[], &e2fsck, &["-fn"]),
            e2fsck_nice: checker("e2fsck -fn, nice 19, ionice idle", &nice, &e2fsck, &["-fn"]),
            fsmend: checker("fsmend check", &[], &fsmend, &["check"]),
            background: checker("fsmend check --background", &[], &fsmend, &["check", "--background"]),
        })
    }
}

impl Checker {
    /// Checks once, on `cores` (all, when none is named), and says how long it took.
    pub fn once(&self, cores: &[usize]) -> io::Result<f64> {
        let mut checker = self.command(cores);
        let start = Instant::now();
        let status = checker.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        match status.code() {
            Some(0 | TIMED_OUT) => Ok(start.elapsed().as_secs_f64()),
            _ => Err(io::Error::other(format!("{checker:?}: {status}"))),
        }
    }

    fn command(&self, cores: &[usize]) -> Command {
        let list: Vec<String> = cores.iter().map(usize::to_string).collect();
        let mut words = self.words.clone();
        if !list.is_empty() {
            words.splice(0..0, ["taskset", "-c", &list.join(",")].map(OsString::from));
        }
        words.splice(0..0, ["timeout", PATIENCE].map(OsString::from));
        let mut checker = command(&words[0].to_string_lossy());
        checker.args(&words[1..]);
        checker
    }

    /// Checks again and again until `stop`; each time, when it is to be `cold`, with what was read before forgotten. Returns how
    /// long each check took; one that was cut off by the end does not count if there are others.
    pub fn again_and_again(
        &self,
        image: &Path,
        cold: bool,
        cores: &[usize],
        stop: &AtomicBool,
    ) -> io::Result<Vec<f64>> {
        let mut times = Vec::new();
        loop {
            if cold {
                forget(image)?;
            }
            let seconds = self.once(cores)?;
            if !stop.load(Relaxed) || times.is_empty() {
                times.push(seconds);
            }
            if stop.load(Relaxed) {
                return Ok(times);
            }
        }
    }
}

/// Takes the image out of the page cache, and nothing else; by the lowest priority, for this is no part of what is measured.
pub fn forget(image: &Path) -> io::Result<()> {
    let mut from = OsString::from("if=");
    from.push(image);
    let words = ["-i", "0", "dd", "iflag=nocache", "count=0", "status=none"].map(OsString::from);
    run("chrt", words.iter().chain([&from])).map(drop)
}
