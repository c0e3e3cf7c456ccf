// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounts that are ending: after umount(8) returns, the process that served the folder still writes what it has in memory. Every command waits for it.

use std::path::Path;
use std::time::Duration;

use fsmend_device::{Pace, is_served_for, read_small, writer_of};

/// The longest wait; a process that takes longer still serves open files (`umount -l`), or its device hangs.
const LONGEST: Duration = Duration::from_secs(60);
/// A wait that is longer than this is announced.
const SILENT: Duration = Duration::from_secs(2);
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits while the target at `path` is held by a `fsmend mount` that has no mount point any more, or not yet. `announce` is given the
/// number of the process when it takes long.
pub fn wait(path: &Path, pace: &dyn Pace, announce: &mut dyn FnMut(u32)) {
    let begun = pace.now_ns();
    let elapsed = || Duration::from_nanos(pace.now_ns().saturating_sub(begun));
    let mut told = false;
    while let Some(process) = writer_of(path)
        && is_mount(process)
        && !is_served_for(process, path)
        && elapsed() < LONGEST
    {
        if !told && elapsed() > SILENT {
            told = true;
            announce(process);
        }
        pace.wait(PAUSE);
    }
}

/// Whether a process is a `fsmend mount`, by its command line.
fn is_mount(process: u32) -> bool {
    let line = read_small(Path::new(&format!("/proc/{process}/cmdline"))).unwrap_or_default();
    let mut words = line.split('\0');
    let program = words.next().and_then(|program| Path::new(program).file_name()?.to_str());
    program.is_some_and(|program| program.starts_with("fsmend")) && words.next() == Some("mount")
}
