// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small images made by mke2fs and damaged by debugfs, and programs run on them.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fsmend_testkit::host;

/// A folder of the test's own that goes away with it.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fsmend-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// An image of 8 MiB with a few files.
    pub fn image(&self, name: &str, options: &[&str]) -> PathBuf {
        let path = self.path(name);
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(8 << 20).unwrap();
        let mut arguments = vec!["-q", "-F", "-t", "ext4"];
        arguments.extend(options);
        arguments.push(path.to_str().unwrap());
        host::run("mke2fs", &arguments).unwrap();
        for request in ["mkdir a", "mkdir a/b", "write /etc/passwd a/one", "write /etc/passwd a/two"] {
            debugfs(&path, request);
        }
        path
    }

    /// The folder with links that have the names of e2fsck.
    pub fn links(&self) -> PathBuf {
        let folder = self.path("bin");
        if !folder.exists() {
            std::fs::create_dir(&folder).unwrap();
            for name in ["e2fsck", "fsck.ext2", "fsck.ext3", "fsck.ext4", "fsck.rext3"] {
                std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_fsmend"), folder.join(name)).unwrap();
            }
        }
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether all of `programs` are there; if not, the test is noted as skipped.
pub fn have(test: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| host::find_program(program).is_none());
    if let Some(program) = missing {
        host::skip(test, &format!("{program} is not installed"));
    }
    missing.is_none()
}

/// The same, for a test that only root can run.
pub fn have_root(test: &str, programs: &[&str]) -> bool {
    if !host::is_root() {
        host::skip(test, "needs root");
    }
    host::is_root() && have(test, programs)
}

/// Lets debugfs change an image.
pub fn debugfs(image: &Path, request: &str) {
    host::run("debugfs", ["-w", "-R", request, image.to_str().unwrap()]).unwrap();
}

/// What debugfs says to a question.
pub fn asked(image: &Path, request: &str) -> String {
    stdout(&host::run("debugfs", ["-R", request, image.to_str().unwrap()]).unwrap())
}

/// The program under test, with logs of block devices kept away from those of the machine.
pub fn fsmend(arguments: &[&str]) -> Output {
    prepared(env!("CARGO_BIN_EXE_fsmend")).args(arguments).output().unwrap()
}

/// The command line of e2fsck, run without a link.
pub fn compat(options: &str, image: &Path) -> Output {
    let mut command = prepared(env!("CARGO_BIN_EXE_fsmend"));
    command.arg("e2fsck").args(options.split_whitespace()).arg(image).output().unwrap()
}

/// The installed e2fsck.
pub fn e2fsck(options: &str, image: &Path) -> Output {
    let mut command = prepared(host::find_program("e2fsck").unwrap());
    command.args(options.split_whitespace()).arg(image).output().unwrap()
}

pub fn prepared(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .env("LC_ALL", "C")
        .env("E2FSCK_CONFIG", "/nonexistent")
        .env_remove("E2FSPROGS_UNDO_DIR")
        .env_remove("NO_COLOR")
        .env("FSMEND_STATE_DIR", std::env::temp_dir().join("fsmend-test-state"))
        .stdin(std::process::Stdio::null());
    command
}

pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
