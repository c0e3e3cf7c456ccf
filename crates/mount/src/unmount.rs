// SPDX-License-Identifier: MIT OR Apache-2.0
//! Taking a mount away: by ourselves, or by fusermount3 for those who may not.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

/// Unmounts the folder. Fails while it is in use.
pub fn unmount(place: &Path) -> io::Result<()> {
    by_whom_it_may_be(place, UnmountFlags::empty(), &["-u"])
}

/// Whether it is still in use.
pub fn is_busy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy
}

/// Has the kernel send all that it still has, and takes the mount out of everybody's sight although it is in use.
pub fn detach(place: &Path) -> io::Result<()> {
    let root = File::open(place)?;
    rustix::fs::syncfs(&root)?;
    by_whom_it_may_be(place, UnmountFlags::DETACH, &["-u", "-z"])
}

fn by_whom_it_may_be(place: &Path, flags: UnmountFlags, options: &[&str]) -> io::Result<()> {
    match rustix::mount::unmount(place, flags) {
        Err(Errno::PERM) => fusermount(place, options),
        result => Ok(result?),
    }
}

fn fusermount(place: &Path, options: &[&str]) -> io::Result<()> {
    let program = std::env::var_os("FUSERMOUNT_PATH").unwrap_or_else(|| "fusermount3".into());
    let output = Command::new(program).args(options).arg("--").arg(place).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    // Its exit code is the same for all reasons.
    let kind = if said.contains("busy") { io::ErrorKind::ResourceBusy } else { io::ErrorKind::Other };
    Err(io::Error::new(kind, said))
}
