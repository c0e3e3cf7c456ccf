// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine that the tests run on: which programs it has, how they are run, what we may do on it.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Whether we run as the superuser, and so may mount images.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Where `program` is, looking into the administrator's folders too (they may not be in `PATH`).
pub fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let extra = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(extra).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// A command for `program`, in plain C locale and without a terminal to ask questions on.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(find_program(program).unwrap_or_else(|| PathBuf::from(program)));
    command.env("LC_ALL", "C").env("E2FSPROGS_LIBMAGIC_SUPPRESS", "1").stdin(Stdio::null());
    command
}

/// Runs `program` to its end; an exit code other than 0 is an error that carries what it printed.
pub fn run<S: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = S>) -> io::Result<Output> {
    let mut command = command(program);
    command.args(arguments);
    let output = command.output().map_err(|error| io::Error::other(format!("{program}: {error}")))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let said = String::from_utf8_lossy(&said);
    Err(io::Error::other(format!("{command:?}: {}: {}", output.status, said.trim())))
}

/// A file attached to a loop device; detached, and seen to be, when dropped.
pub struct LoopDevice(String);

impl LoopDevice {
    /// Attaches `file`.
    pub fn new(file: &Path) -> io::Result<Self> {
        let output = run("losetup", ["-f".as_ref(), "--show".as_ref(), file.as_os_str()])?;
        Ok(LoopDevice(String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    }

    /// The device, e.g. `/dev/loop3`.
    pub fn path(&self) -> &str {
        &self.0
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = run("losetup", ["-d", &self.0]);
        // A program that looks at all block devices just now, in another test, holds it for a moment. The next user of the number has another file.
        let attached = format!("/sys/class/block/{}/loop/backing_file", self.0.trim_start_matches("/dev/"));
        let Ok(file) = std::fs::read_to_string(&attached) else { return };
        for _ in 0..1000 {
            if std::fs::read_to_string(&attached).ok().as_ref() != Some(&file) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// An image mounted through a loop device, unmounted when dropped.
pub struct LoopMount {
    point: PathBuf,
    mounted: bool,
}

impl LoopMount {
    /// Mounts `image` on `point` (made when missing) as file system `kind` with further mount `options`.
    pub fn new(image: &Path, point: &Path, kind: &str, options: &str) -> io::Result<Self> {
        std::fs::create_dir_all(point)?;
        let options = if options.is_empty() { "loop".to_owned() } else { format!("loop,{options}") };
        let arguments: [&OsStr; 6] =
            ["-t".as_ref(), kind.as_ref(), "-o".as_ref(), options.as_ref(), image.as_ref(), point.as_ref()];
        run("mount", arguments)?;
        Ok(LoopMount { point: point.to_owned(), mounted: true })
    }

    /// What is mounted on `point` already.
    pub fn of(point: &Path) -> Self {
        LoopMount { point: point.to_owned(), mounted: true }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.point
    }

    /// Unmounts it and says whether that went well.
    pub fn unmount(mut self) -> io::Result<()> {
        self.mounted = false;
        unmount(&self.point)?;
        let _ = std::fs::remove_dir(&self.point);
        Ok(())
    }
}

impl Drop for LoopMount {
    fn drop(&mut self) {
        if self.mounted {
            let _ = unmount(&self.point);
        }
    }
}

/// How often a busy mount is tried again, and how long to wait in between.
const UNMOUNT_TRIES: u32 = 50;
const UNMOUNT_PAUSE: Duration = Duration::from_millis(100);

/// Unmounts. A mount may be busy for a moment although it is not in use: another test that is just starting a program holds
/// copies of all open files until the program runs. What stays busy is unmounted when its last user is gone, which is
/// an error all the same.
pub fn unmount(point: impl AsRef<Path>) -> io::Result<()> {
    let point = point.as_ref();
    let mut last = run("umount", [point]);
    for _ in 0..UNMOUNT_TRIES {
        if last.is_ok() {
            return Ok(());
        }
        std::thread::sleep(UNMOUNT_PAUSE);
        last = run("umount", [point]);
    }
    if last.is_err() {
        run("umount", ["-l".as_ref(), point.as_os_str()])?;
    }
    last.map(|_| ())
}

/// Unmounts everything that is mounted below `folder`; returns what that was.
pub fn unmount_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(folder) = folder.canonicalize() else { return Vec::new() };
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    points.filter(|point| point.starts_with(&folder) && unmount(point).is_ok()).collect()
}

/// Environment variable that names the file in which skipped tests are noted for the summary of `cargo xtask test`.
pub const SKIP_LOG: &str = "FSMEND_SKIP_LOG";

/// Notes that `test` was skipped, and why. A skipped test passes, but never silently: it is said on standard error, which the test harness
/// does not take (it takes what `eprintln!` writes).
pub fn skip(test: &str, why: &str) {
    let _ = io::Write::write_all(&mut io::stderr().lock(), format!("skipped: {test}: {why}\n").as_bytes());
    let Some(log) = std::env::var_os(SKIP_LOG) else { return };
    if let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(log) {
        let _ = io::Write::write_all(&mut file, format!("{test}: {why}\n").as_bytes());
    }
}
