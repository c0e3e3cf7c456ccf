// SPDX-License-Identifier: MIT OR Apache-2.0
//! FreeBSD's own programs, built for Linux. The project cannot ship them: `FSMEND_UFS_PEERS` names the folder that they are in.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::{fs, io};

/// The environment variable.
pub const FOLDER: &str = "FSMEND_UFS_PEERS";

/// The program called `name`; `None` where it is not there.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(FOLDER)?).join(name);
    path.is_file().then_some(path)
}

/// What fsck_ffs asks about an image, each question in its own words, and whether it gave up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// Its questions, in their order. An offer to track the depth of directories is none.
    pub questions: Vec<String>,
    /// Whether it could not work on the image at all, or wants to be run again.
    pub gave_up: bool,
    /// All that it printed.
    pub printed: String,
}

impl Answer {
    /// Whether it found nothing wrong.
    pub fn is_clean(&self) -> bool {
        self.questions.is_empty() && !self.gave_up
    }
}

/// Runs fsck_ffs with `options` (e.g. `-fn`) on `image`, which it may change. `None` without the program.
pub fn fsck(options: &[&str], image: &Path) -> io::Result<Option<Answer>> {
    let Some(program) = program("fsck_ffs") else { return Ok(None) };
    let output = Command::new(program).args(options).arg(image).stdin(Stdio::null()).output()?;
    let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let is_question = |line: &&str| {
        (line.ends_with("? no") || line.ends_with("? yes")) && !line.starts_with("UPDATE FILESYSTEM TO TRACK")
    };
    let questions = printed.lines().filter(is_question).map(str::to_owned).collect();
    let gave_up = !matches!(output.status.code(), Some(0));
    Ok(Some(Answer { questions, gave_up, printed }))
}

/// What fsck_ffs finds in the image with these bytes; the file is made in `folder`.
pub fn finds(bytes: &[u8], folder: &Path) -> io::Result<Option<Answer>> {
    if program("fsck_ffs").is_none() {
        return Ok(None);
    }
    // Tests run side by side.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let path = folder.join(format!("judged-{}.img", NUMBER.fetch_add(1, Relaxed)));
    fs::write(&path, bytes)?;
    let answer = fsck(&["-fn"], &path);
    fs::remove_file(&path)?;
    answer
}
