// SPDX-License-Identifier: MIT OR Apache-2.0
//! e2fsck as the differential oracle.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::host::command;
use crate::process::{Ended, Limits, run_limited};

/// What e2fsck makes of an image that it may not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Exit code 0, and not a word about anything.
    Sound,
    /// Exit code 0, but with complaints: defects that `-n` passes over. Both verdicts are right.
    Either,
    /// Exit code 4, or 12: it found something, and could not go on without repairing it.
    Damaged,
    /// It gave up, crashed or hung: no oracle here.
    None(String),
}

/// Runs `e2fsck -fn`; returns its verdict and what it printed.
pub fn e2fsck(image: &Path, patience: Duration) -> io::Result<(Verdict, String)> {
    e2fsck_with(image, None, patience)
}

/// The same for a file system whose journal may lie elsewhere.
pub fn e2fsck_with(
    image: &Path,
    journal: Option<&Path>,
    patience: Duration,
) -> io::Result<(Verdict, String)> {
    let mut command = command("e2fsck");
    if let Some(journal) = journal {
        command.arg("-j").arg(journal);
    }
    command.arg("-fn").arg(image).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = run_limited(command, Limits { patience, ..Limits::default() })?;
    let verdict = match run.ended {
        Ended::Code(0) if complains(&run.stdout) => Verdict::Either,
        Ended::Code(0) => Verdict::Sound,
        Ended::Code(4) => Verdict::Damaged,
        Ended::Code(12) if complains(&run.stdout) => Verdict::Damaged,
        other => Verdict::None(format!("{other:?}")),
    };
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    Ok((verdict, said))
}

/// Whether anything is printed but the names of the passes and the summary. That a tree could be flatter is no complaint.
pub fn complains(stdout: &[u8]) -> bool {
    let said = String::from_utf8_lossy(stdout);
    // With multiple-mount protection it says how long it is going to wait.
    let notices = ["Pass ", "MMP interval is "];
    let expected = |line: &str| {
        line.is_empty() || line.contains(" files (") || notices.iter().any(|notice| line.starts_with(notice))
    };
    said.lines().map(str::trim).any(|line| !expected(line) && !line.contains("Optimize?"))
}
