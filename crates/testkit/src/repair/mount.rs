//! The kernel as a witness: it mounts what was repaired, reads all of it, and writes.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::bytes::{Reader, u32_at};
use super::image::Image;
use super::subject::{E2fsck, Scratch};
use crate::host::{LoopMount, is_root};

/// So many bytes of a file are read.
const READ_MAX: u64 = 16 << 20;

/// Mounts the image read-only and reads every file, then mounts it for writing; the inner error says what went wrong. Without the
/// superuser's rights nothing happens.
pub fn mount_and_read(image: &Image, e2fsck: &E2fsck) -> io::Result<Result<(), String>> {
    if !is_root() {
        return Ok(Ok(()));
    }
    let image: &[u8] = &image.bytes();
    let file = Scratch::with(image)?;
    let point = PathBuf::from(format!("{}.mnt", file.path().display()));
    let result = mounted(file.path(), &point, has_marked_root(image));
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

/// Whether the root directory is marked immutable or append-only, which is nobody's mistake.
fn has_marked_root(image: &[u8]) -> bool {
    let root = Reader::new(image).and_then(|reader| reader.inode(2).map(|root| root.flags()));
    root.is_some_and(|flags| flags & 0x30 != 0)
}

fn mounted(image: &Path, point: &Path, is_marked: bool) -> Result<(), String> {
    for options in ["ro", "rw"] {
        let mount = LoopMount::new(image, point, "ext4", options)
            .map_err(|error| format!("mount {options}: {}", reason(&error)))?;
        let read =
            if options == "ro" { read_all(mount.path()) } else { write_something(mount.path(), is_marked) };
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

/// Reads every directory, the start of every file, every link.
fn read_all(root: &Path) -> io::Result<()> {
    let mut ahead = vec![root.to_owned()];
    while let Some(folder) = ahead.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let kind = with_path(&path, fs::symlink_metadata(&path))?.file_type();
            if kind.is_dir() {
                ahead.push(path);
            } else if kind.is_symlink() {
                with_path(&path, fs::read_link(&path))?;
            } else if kind.is_file() {
                with_path(&path, read_file(&path))?;
            }
        }
    }
    Ok(())
}

fn with_path<T>(path: &Path, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
}

/// Reads what a file holds, and not its holes, of which there may be terabytes.
fn read_file(path: &Path) -> io::Result<()> {
    let file = fs::File::open(path)?;
    let mut buffer = vec![0; 1 << 16];
    let (mut at, mut left) = (0, READ_MAX);
    while left > 0 {
        let data = match rustix::fs::seek(&file, SeekFrom::Data(at)) {
            Ok(data) => data,
            // Nothing but a hole behind.
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(&file, SeekFrom::Hole(data))?;
        at = data;
        while at < end && left > 0 {
            let wanted = buffer.len().min((end - at) as usize);
            let got = file.read_at(&mut buffer[..wanted], at)? as u64;
            if got == 0 {
                return Ok(());
            }
            (at, left) = (at + got, left.saturating_sub(got));
        }
    }
    Ok(())
}
