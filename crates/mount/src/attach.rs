// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounting by mount(2), for those who may: so that the type in the mount table is `fuse.fsmend`, as it is when fusermount3 mounts. (By the plain type `fuse`
//! mount(8) finds another helper, which takes the source for a command.)

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::Options;
use crate::server::WRITE_BYTES_MAX;

/// The folder that is meant, as the kernel calls it. Nothing else can be mounted on: a file would be hidden by a folder.
pub fn place(dir: &Path) -> io::Result<PathBuf> {
    let place = dir.canonicalize()?;
    if !place.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a directory"));
    }
    Ok(place)
}

/// Mounts on `place`; the descriptor by which requests come. `None` where only fusermount3 may do it.
pub(crate) fn attach(place: &Path, options: &Options) -> io::Result<Option<OwnedFd>> {
    let fuse = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let others = if options.allow_other { ",allow_other" } else { "" };
    let data = format!(
        "fd={},rootmode=40000,user_id={uid},group_id={gid},default_permissions{others}",
        fuse.as_raw_fd()
    );
    let kind = format!("fuse.{}", options.kind);
    let data = CString::new(data)?;
    match rustix::mount::mount(&*options.source, place, &*kind, options.flags(), Some(&*data)) {
        Ok(()) => Ok(Some(fuse)),
        Err(Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Lets the kernel read ahead as much as one request can bring ([`WRITE_BYTES_MAX`]): a request of 128 KiB, the default, costs nearly as much. Only the
/// superuser may change it; for others it stays.
pub(crate) fn read_ahead(place: &Path) {
    let Ok(folder) = rustix::fs::stat(place) else { return };
    let (major, minor) = (rustix::fs::major(folder.st_dev), rustix::fs::minor(folder.st_dev));
    let file = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    let _ = std::fs::write(file, (WRITE_BYTES_MAX >> 10).to_string());
}

/// Gives a mount that is there other options: those that the kernel looks after (`ro`, `rw`, `exec`, `dev`, `suid`, `sync`).
pub fn remount(dir: &Path, options: &Options) -> io::Result<()> {
    Ok(rustix::mount::mount_remount(dir, options.flags(), "")?)
}
