//! Mounts that are ending: after umount(8) returns, the process that served the folder still writes what it has in memory. Every command waits for it.

use std::path::Path;
use std::time::{Duration, Instant};

use fsmend_device::{is_served_for, read_small, writer_of};

/// The longest wait; a process that takes longer still serves open files (`umount -l`), or its device hangs.
const LONGEST: Duration = Duration::from_secs(60);
/// A wait that is longer than this is announced.
const SILENT: Duration = Duration::from_secs(2);
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits while the target at `path` is held by a `fsmend mount` that has no mount point any more, or not yet.
pub fn wait(path: &Path) {
    let begun = Instant::now();
    let mut told = false;
    while let Some(process) = writer_of(path)
        && is_mount(process)
        && !is_served_for(process, path)
        && begun.elapsed() < LONGEST
    {
        if !told && begun.elapsed() > SILENT {
            told = true;
            eprintln!("fsmend: {}: waiting for process {process}, which unmounts it.", path.display());
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether a process is a `fsmend mount`, by its command line.
fn is_mount(process: u32) -> bool {
    let line = read_small(Path::new(&format!("/proc/{process}/cmdline"))).unwrap_or_default();
    let mut words = line.split('\0');
    let program = words.next().and_then(|program| Path::new(program).file_name()?.to_str());
    program.is_some_and(|program| program.starts_with("fsmend")) && words.next() == Some("mount")
}
