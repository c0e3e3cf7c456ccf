// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions over a real pseudo-terminal: single keys, and the terminal as it was afterwards.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/images.rs"]
mod images;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use images::{Folder, code, compat, debugfs, e2fsck, have, prepared, stdout};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

/// Answers take no longer than this on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program on a terminal of its own.
struct Terminal {
    ours: File,
    theirs: OwnedFd,
    child: Child,
    seen: String,
}

impl Terminal {
    fn run(mut command: Command) -> Terminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let open = || File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        command.stdin(Stdio::from(open())).stdout(Stdio::from(open())).stderr(Stdio::from(open()));
        let child = command.spawn().unwrap();
        rustix::io::ioctl_fionbio(&ours, true).unwrap();
        Terminal { ours: File::from(ours), theirs: OwnedFd::from(open()), child, seen: String::new() }
    }

    fn read(&mut self) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = self.ours.read(&mut bytes) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    /// Waits until `text` was printed so often.
    fn wait_for(&mut self, text: &str, times: usize) {
        let start = Instant::now();
        while self.seen.matches(text).count() < times {
            assert!(start.elapsed() < PATIENCE, "{text:?} does not come: {}", self.seen);
            std::thread::sleep(Duration::from_millis(5));
            self.read();
        }
    }

    fn type_keys(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    /// Whether the terminal hands out lines and echoes, as it does at first.
    fn is_as_before(&self) -> bool {
        tcgetattr(&self.theirs).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// The exit code and all that was printed.
    fn end(mut self) -> (i32, String) {
        let start = Instant::now();
        let status = loop {
            self.read();
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > PATIENCE {
                self.child.kill().unwrap();
                panic!("it does not end: {}", self.seen);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        self.read();
        assert!(self.is_as_before(), "the terminal is put back");
        (status.code().unwrap_or(-1), self.seen)
    }
}

fn two_problems(folder: &Folder) -> PathBuf {
    let image = folder.image("x.img", &[]);
    debugfs(&image, "sif a/one links_count 7");
    debugfs(&image, "sif a/two links_count 9");
    image
}

fn step(image: &Path) -> Terminal {
    let mut command = prepared(env!("CARGO_BIN_EXE_fsmend"));
    command.args(["repair", "--step", "--no-undo", "--color", "never"]).arg(image);
    Terminal::run(command)
}

fn as_e2fsck(image: &Path) -> Terminal {
    let mut command = prepared(env!("CARGO_BIN_EXE_fsmend"));
    command.args(["e2fsck", "-f"]).arg(image);
    Terminal::run(command)
}

#[test]
fn single_keys_answer_step_by_step() {
    if !have("questions: step", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("questions-step");
    let image = two_problems(&folder);
    let mut terminal = step(&image);
    terminal.wait_for("Repair? [y/n/a/q/?]", 1);
    assert!(!terminal.is_as_before(), "no Enter is needed");
    terminal.type_keys("?");
    terminal.wait_for("Repair? [y/n/a/q/?]", 2);
    assert!(terminal.seen.contains("Meaning") && terminal.seen.contains("Lost"), "{}", terminal.seen);
    terminal.type_keys("n");
    terminal.wait_for("Repair? [y/n/a/q/?]", 3);
    terminal.type_keys("y");
    let (code_, text) = terminal.end();
    assert_eq!(code_, 4, "{text}");
    assert!(text.contains("partly repaired"), "{text}");
    // What is told last is what was written, not what was proposed.
    let (_, told) = text.split_once("without what was declined").unwrap();
    assert!(told.contains("/a/two") && told.contains("metadata corrected"), "{told}");
    assert!(!told.contains("/a/one"), "{told}");
    let left = stdout(&compat("-fn", &image));
    assert!(left.contains("/a/one") && !left.contains("/a/two"), "{left}");
}

#[test]
fn quitting_writes_nothing() {
    if !have("questions: quit", &["mke2fs", "debugfs"]) {
        return;
    }
    let folder = Folder::new("questions-quit");
    let image = two_problems(&folder);
    let before = std::fs::read(&image).unwrap();
    let mut terminal = step(&image);
    terminal.wait_for("Repair?", 1);
    terminal.type_keys("y");
    terminal.wait_for("Repair?", 2);
    terminal.type_keys("q");
    let (code_, text) = terminal.end();
    assert_eq!(code_, 32, "{text}");
    assert!(text.contains("nothing was written"), "{text}");
    let mut terminal = as_e2fsck(&image);
    terminal.wait_for("Fix<y>?", 1);
    terminal.type_keys("q");
    let (code_, text) = terminal.end();
    assert_eq!(code_, 32, "{text}");
    assert_eq!(std::fs::read(&image).unwrap(), before, "nothing was written");
}

#[test]
fn a_signal_at_a_question_leaves_the_terminal_as_it_was() {
    if !have("questions: signals", &["mke2fs", "debugfs"]) {
        return;
    }
    let folder = Folder::new("questions-signal");
    let image = two_problems(&folder);
    let before = std::fs::read(&image).unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        let mut terminal = step(&image);
        terminal.wait_for("Repair?", 1);
        assert!(!terminal.is_as_before());
        kill_process(Pid::from_child(&terminal.child), signal).unwrap();
        let (code_, text) = terminal.end();
        assert_eq!(code_, 32, "{text}");
    }
    assert_eq!(std::fs::read(&image).unwrap(), before);
}

#[test]
fn e2fsck_asks_with_the_keys_of_e2fsck() {
    if !have("questions: e2fsck", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("questions-e2fsck");
    let image = two_problems(&folder);
    let mut terminal = as_e2fsck(&image);
    terminal.wait_for("Fix<y>?", 1);
    // The space bar stands for the default.
    terminal.type_keys("? ");
    terminal.wait_for("Fix<y>?", 3);
    terminal.type_keys("a");
    let (code_, text) = terminal.end();
    assert_eq!(code_, 1, "{text}");
    assert!(text.contains("FILE SYSTEM WAS MODIFIED") && text.contains("Meaning"), "{text}");
    assert_eq!(code(&e2fsck("-fn", &image)), 0);
}

#[test]
fn questions_without_a_terminal_if_the_environment_wants_them() {
    if !have("questions: forced", &["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = Folder::new("questions-forced");
    let image = two_problems(&folder);
    let asked = |forced: bool, keys: &str| {
        let mut command = prepared(env!("CARGO_BIN_EXE_fsmend"));
        command.args(["e2fsck", "-f"]).arg(&image);
        if forced {
            command.env("E2FSCK_FORCE_INTERACTIVE", "1");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(keys.as_bytes());
        child.wait_with_output().unwrap()
    };
    assert_eq!(code(&asked(false, "yy")), 8, "no terminal to ask at");
    assert_eq!(code(&asked(true, "nn")), 4);
    assert_eq!(code(&asked(true, "yy")), 1);
    assert_eq!(code(&e2fsck("-fn", &image)), 0);
}
