// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel as a witness: it mounts what was repaired, reads all of it, and writes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::bytes::{Reader, u32_at};
use super::image::Image;
use super::scratch;
use super::seen::compare;
use super::subject::{E2fsck, Scratch};
use super::tree::Tree;
use crate::host::{LoopMount, is_root};

/// How often a busy mount is tried again, and how long to wait in between.
const UNMOUNT_TRIES: u32 = 1000;
const UNMOUNT_PAUSE: Duration = Duration::from_micros(500);

/// Mounts the image read-only and compares every file with its record. `None` where the kernel shows what the image holds, and nothing at all
/// happens without the superuser's rights.
pub fn complaint(image: &Image, tree: &Tree) -> io::Result<Option<String>> {
    if !is_root() {
        return Ok(None);
    }
    let before = errors_noted(image);
    let (said, left) = scratch::with_loop(image, |device, point| shown(device, point, tree))?;
    let errors = errors_noted(&left);
    let noted = || format!("the kernel noted {errors} errors in the superblock");
    Ok(said.err().or_else(|| (errors > before).then(noted)))
}

/// `s_error_count`.
fn errors_noted(image: &Image) -> u32 {
    image.read(1024 + 0x194, 4).map_or(0, |bytes| u32_at(&bytes, 0))
}

fn shown(device: &Path, point: &Path, tree: &Tree) -> io::Result<Result<(), String>> {
    if let Err(error) = mount(device, point, "ext4", MountFlags::RDONLY, None) {
        return Ok(Err(format!("mount ro: {error}")));
    }
    let said = compare(point, tree);
    released(point)?;
    Ok(said)
}

/// Unmounts. Another thread that is just starting a program may hold copies of open files for a moment.
fn released(point: &Path) -> io::Result<()> {
    for _ in 0..UNMOUNT_TRIES {
        match unmount(point, UnmountFlags::empty()) {
            Err(Errno::BUSY) => thread::sleep(UNMOUNT_PAUSE),
            done => return Ok(done?),
        }
    }
    Ok(unmount(point, UnmountFlags::DETACH)?)
}

/// Mounts the image read-only and compares all of it, then mounts it for writing; the inner error says what went wrong. Without the
/// superuser's rights nothing happens.
pub fn mount_and_read(image: &Image, e2fsck: &E2fsck) -> io::Result<Result<(), String>> {
    if !is_root() {
        return Ok(Ok(()));
    }
    let image: &[u8] = &image.bytes();
    let file = Scratch::with(image)?;
    let point = PathBuf::from(format!("{}.mnt", file.path().display()));
    let Some(tree) = Tree::of(image) else { return Ok(Err("no root directory".to_owned())) };
    let result = mounted(file.path(), &point, &tree, has_marked_root(image));
    let _ = fs::remove_dir(&point);
    if result.is_err() {
        return Ok(result);
    }
    let after = fs::read(file.path())?;
    // s_error_count: what the kernel noticed on the way.
    let errors = u32_at(&after, 1024 + 0x194);
    if errors > u32_at(image, 1024 + 0x194) {
        return Ok(Err(format!("the kernel noted {errors} errors in the superblock")));
    }
    // The kernel writes the time of today; the image may be older.
    let written = u64::from(u32_at(&after, 1024 + 0x30));
    let e2fsck = E2fsck { now: e2fsck.now.max(written) };
    Ok(match e2fsck.complaint_about(file.path())? {
        Some(complaint) => Err(format!("after use: {complaint}")),
        None => Ok(()),
    })
}

/// Whether the root directory is marked immutable or append-only, which is not a mistake.
fn has_marked_root(image: &[u8]) -> bool {
    let root = Reader::new(image).and_then(|reader| reader.inode(2).map(|root| root.flags()));
    root.is_some_and(|flags| flags & 0x30 != 0)
}

fn mounted(image: &Path, point: &Path, tree: &Tree, is_marked: bool) -> Result<(), String> {
    for options in ["ro", "rw"] {
        let mount = LoopMount::new(image, point, "ext4", options)
            .map_err(|error| format!("mount {options}: {}", reason(&error)))?;
        let read = match options {
            "ro" => compare(mount.path(), tree),
            _ => write_something(mount.path(), is_marked).map_err(|error| error.to_string()),
        };
        let gone = mount.unmount();
        read.map_err(|error| format!("{options}: {error}"))?;
        gone.map_err(|error| format!("unmount: {error}"))?;
    }
    Ok(())
}

/// What mount(8) says, without the command line.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let said = text.rsplit("mount: ").next().unwrap_or_default();
    said.lines().next().unwrap_or_default().split_once(": ").map_or(said, |(_, said)| said).to_owned()
}

fn write_something(root: &Path, is_marked: bool) -> io::Result<()> {
    let path = root.join("written-after-repair");
    match fs::write(&path, b"something") {
        Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            return Ok(());
        }
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_marked => return Ok(()),
        written => written?,
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_marked => Ok(()),
        removed => removed,
    }
}
