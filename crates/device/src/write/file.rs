// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw image files and block devices, opened for writing: block devices exclusively, files with an advisory lock.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::path::Path;

use rustix::fs::{
    Advice, FallocateFlags, FileType, FlockOperation, OFlags, SeekFrom, fadvise, fallocate, fcntl_lock,
    flock, fstat, fsync, seek,
};
use rustix::io::{Errno, pwrite};

use super::{WritableDevice, WriteError, WriteErrorKind, check_write};
use crate::{Device, Direct, FileDevice, ReadError, Usage};

/// How often a request that the kernel asks to repeat is repeated before it counts as failed.
const TRANSIENT_RETRIES_MAX: u32 = 16;

/// How often a write that failed on the medium is tried again: a disk that has to move a sector may succeed then.
const MEDIUM_RETRIES_MAX: u32 = 1;

/// A regular file or a block device that no other process writes as long as this lives, as far as they ask.
#[derive(Debug)]
pub struct WritableFile {
    inner: FileDevice,
}

impl WritableFile {
    /// Opens `path` for reading and writing. A block device is opened with O_EXCL, so that it is refused (EBUSY) while it or a
    /// part of it is mounted; `shared` does without, for a root file system that is mounted for reading only. A regular file
    /// is locked, and refused (EWOULDBLOCK) while another process has locked it, be it QEMU or another fsmend. A device that is
    /// write-protected is refused (EROFS): the kernel would open it, and fail every write.
    pub fn open(path: &Path, shared: bool) -> io::Result<Self> {
        let stat = rustix::fs::stat(path)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        crate::file::refuse_other_kinds(kind)?;
        if kind == FileType::BlockDevice && is_protected(stat.st_rdev) {
            return Err(Errno::ROFS.into());
        }
        let mut flags = OFlags::RDWR | OFlags::CLOEXEC;
        if kind == FileType::BlockDevice && !shared {
            flags |= OFlags::EXCL;
        }
        let file = File::from(rustix::fs::open(path, flags, rustix::fs::Mode::empty())?);
        match kind {
            FileType::RegularFile => lock(&file)?,
            // It says which process has the device; that the device is ours alone, O_EXCL sees to. (flock is what udev takes while it looks at devices.)
            _ => drop(fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)),
        }
        Ok(WritableFile { inner: FileDevice::from_file(path.display().to_string(), file)? })
    }

    /// Logical sector size, if the operating system knows it (block devices).
    pub fn sector_size(&self) -> Option<u32> {
        self.inner.sector_size()
    }
}

/// Whether block device `number` is write-protected, as far as the kernel tells.
fn is_protected(number: u64) -> bool {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let told = crate::read_small(Path::new(&format!("/sys/dev/block/{major}:{minor}/ro")));
    told.is_ok_and(|told| told.trim() == "1")
}

/// Takes both kinds of lock that Linux knows. A file system that knows neither is no reason to refuse.
fn lock(file: &File) -> io::Result<()> {
    // QEMU takes the second kind; ours goes when the process closes any descriptor of the file, the first kind stays.
    for taken in [
        flock(file, FlockOperation::NonBlockingLockExclusive),
        fcntl_lock(file, FlockOperation::NonBlockingLockExclusive),
    ] {
        if let Err(Errno::AGAIN | Errno::ACCESS) = taken {
            return Err(Errno::AGAIN.into());
        }
    }
    Ok(())
}

/// A target that is only read, but that no process may write as long as this lives.
#[derive(Debug)]
pub struct ReadHold {
    _file: File,
}

impl ReadHold {
    /// Takes hold of `path`: an image by a lock that several readers can have, a block device with O_EXCL. A block device that is mounted for reading only, as
    /// `usage` says, is held by that mount. Refused (EWOULDBLOCK, EBUSY) while another process may write it.
    pub fn open(path: &Path, usage: &[Usage]) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(rustix::fs::stat(path)?.st_mode);
        crate::file::refuse_other_kinds(kind)?;
        let mut flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let is_held = usage.iter().any(|usage| matches!(usage, Usage::Mounted { .. }));
        if kind == FileType::BlockDevice && !is_held {
            flags |= OFlags::EXCL;
        }
        let file = File::from(rustix::fs::open(path, flags, rustix::fs::Mode::empty())?);
        if kind == FileType::RegularFile
            && let Err(Errno::AGAIN) = flock(&file, FlockOperation::NonBlockingLockShared)
        {
            return Err(Errno::AGAIN.into());
        }
        Ok(ReadHold { _file: file })
    }
}

impl Device for WritableFile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.inner.read_at(offset, buf)
    }

    fn readahead(&self, offset: u64, len: u64) {
        self.inner.readahead(offset, len);
    }

    fn direct(&self) -> Option<Direct<'_>> {
        self.inner.direct()
    }

    fn memory_max(&self) -> u64 {
        self.inner.memory_max()
    }
}

impl WritableDevice for WritableFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        check_write(offset, bytes, self.len())?;
        let written = write_fully(offset, bytes, |at, rest| pwrite(self.inner.file(), rest, at));
        self.inner.changed(offset, bytes.len() as u64);
        written
    }

    fn sync(&self) -> Result<(), WriteError> {
        sync_file(self.inner.file())
    }

    fn discard(&self, offset: u64, len: u64) -> bool {
        let is_within = offset.checked_add(len).is_some_and(|end| end <= self.len());
        // The kernel passes it on to block devices that can do it, and makes holes in files.
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let discarded = is_within && len > 0 && fallocate(self.inner.file(), how, offset, len).is_ok();
        self.inner.changed(offset, len);
        discarded
    }

    fn len_now(&self) -> Option<u64> {
        let file = self.inner.file();
        let stat = fstat(file).ok()?;
        // A name that leads nowhere is no reason to stop: the file may have been deleted on purpose, or lie in another namespace.
        if let Ok(named) = rustix::fs::stat(self.inner.name()) {
            let is_same = match FileType::from_raw_mode(stat.st_mode) {
                FileType::BlockDevice => named.st_rdev == stat.st_rdev,
                _ => (named.st_dev, named.st_ino) == (stat.st_dev, stat.st_ino),
            };
            if !is_same {
                return None;
            }
        }
        seek(file, SeekFrom::End(0)).ok()
    }

    fn forget(&self, offset: u64, len: u64) {
        self.inner.changed(offset, len);
        if let Some(len) = NonZeroU64::new(len) {
            let _ = fadvise(self.inner.file(), offset, Some(len), Advice::DontNeed);
        }
    }
}

/// A file that holds an image: it grows where it is written beyond its end. A block device does not.
#[derive(Debug)]
pub struct GrowingFile(WritableFile);

impl GrowingFile {
    /// The same file, which grows from now on.
    pub fn new(file: WritableFile) -> Self {
        GrowingFile(file)
    }
}

impl Device for GrowingFile {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at(offset, buf)
    }

    fn readahead(&self, offset: u64, len: u64) {
        self.0.readahead(offset, len);
    }

    fn memory_max(&self) -> u64 {
        self.0.memory_max()
    }
}

impl WritableDevice for GrowingFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        let inner = &self.0.inner;
        if inner.sector_size().is_some() {
            return self.0.write_at(offset, bytes);
        }
        write_fully(offset, bytes, |at, rest| pwrite(inner.file(), rest, at))?;
        inner.changed(offset, bytes.len() as u64);
        inner.has_grown(offset.saturating_add(bytes.len() as u64));
        Ok(())
    }

    fn sync(&self) -> Result<(), WriteError> {
        self.0.sync()
    }

    fn len_now(&self) -> Option<u64> {
        self.0.len_now()
    }

    fn forget(&self, offset: u64, len: u64) {
        self.0.forget(offset, len);
    }
}

/// Writes all of `bytes` by calling `write` until nothing is left. Short writes go on, transient errors and failures of the
/// medium are tried again a bounded number of times, other errors last.
pub(crate) fn write_fully(
    offset: u64,
    bytes: &[u8],
    mut write: impl FnMut(u64, &[u8]) -> Result<usize, Errno>,
) -> Result<(), WriteError> {
    let (mut done, mut transient, mut medium) = (0, 0, 0);
    let failed = |kind| WriteError { offset, len: bytes.len() as u64, kind };
    while done < bytes.len() {
        match write(offset + done as u64, &bytes[done..]) {
            Ok(0) => return Err(failed(WriteErrorKind::NoSpace)),
            Ok(count) => (done, transient, medium) = (done + count, 0, 0),
            Err(Errno::INTR | Errno::AGAIN) if transient < TRANSIENT_RETRIES_MAX => transient += 1,
            Err(Errno::IO) if medium < MEDIUM_RETRIES_MAX => medium += 1,
            Err(Errno::NOSPC | Errno::DQUOT) => return Err(failed(WriteErrorKind::NoSpace)),
            Err(error) => return Err(failed(WriteErrorKind::Io(io::Error::from(error).to_string()))),
        }
    }
    Ok(())
}

/// An error is not tried again: the kernel may have forgotten by then what it could not write.
pub(crate) fn sync_file(file: &File) -> Result<(), WriteError> {
    for _ in 0..TRANSIENT_RETRIES_MAX {
        match fsync(file) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::NOSPC | Errno::DQUOT) => {
                return Err(WriteError { offset: 0, len: 0, kind: WriteErrorKind::NoSpace });
            }
            Err(error) => return Err(WriteError::io(0, 0, io::Error::from(error))),
        }
    }
    Err(WriteError::io(0, 0, "interrupted again and again"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::testing::TempFile;

    /// Answers each write with the next of `answers`, and then with success.
    fn scripted(answers: &[Result<usize, Errno>]) -> (Result<(), WriteError>, Vec<u8>, usize) {
        let (mut written, mut calls) = (Vec::new(), 0);
        let result = write_fully(100, &[7; 10], |at, rest| {
            let answer = answers.get(calls).copied().unwrap_or(Ok(usize::MAX));
            calls += 1;
            let count = answer?.min(rest.len());
            assert_eq!(at, 100 + written.len() as u64);
            written.extend_from_slice(&rest[..count]);
            Ok(count)
        });
        (result, written, calls)
    }

    #[test]
    fn short_writes_and_interruptions_go_on() {
        let (result, written, _) =
            scripted(&[Ok(3), Err(Errno::INTR), Ok(1), Err(Errno::AGAIN), Err(Errno::IO)]);
        assert_eq!((result, written), (Ok(()), vec![7; 10]));
    }

    #[test]
    fn the_medium_gets_a_second_chance_and_no_third() {
        let (result, _, calls) = scripted(&[Err(Errno::IO); 5]);
        assert!(matches!(result.unwrap_err().kind, WriteErrorKind::Io(_)));
        assert_eq!(calls, 2);
    }

    #[test]
    fn a_full_file_system_is_told_apart() {
        for answer in [Ok(0), Err(Errno::NOSPC), Err(Errno::DQUOT)] {
            assert_eq!(scripted(&[Ok(3), answer]).0.unwrap_err().kind, WriteErrorKind::NoSpace);
        }
    }

    #[test]
    fn endless_interruptions_end() {
        let (result, _, calls) = scripted(&[Err(Errno::INTR); 100]);
        assert!(result.is_err());
        assert_eq!(calls as u32, TRANSIENT_RETRIES_MAX + 1);
    }

    #[test]
    fn a_file_is_written_in_place_and_locked() {
        let file = TempFile::new("writable", &[0; 4096]);
        let device = WritableFile::open(file.path(), false).unwrap();
        device.write_at(100, &[1, 2, 3]).unwrap();
        device.sync().unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap()[99..104], [0, 1, 2, 3, 0]);
        device.write_at(4095, &[1, 2]).unwrap_err();
        let refused = WritableFile::open(file.path(), false).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        assert!(ReadHold::open(file.path(), &[]).is_err());
        drop(device);
        WritableFile::open(file.path(), false).unwrap();
    }

    #[test]
    fn readers_hold_a_file_together_and_no_writer_gets_it() {
        let file = TempFile::new("held", &[0; 4096]);
        let one = ReadHold::open(file.path(), &[]).unwrap();
        let other = ReadHold::open(file.path(), &[]).unwrap();
        assert!(WritableFile::open(file.path(), false).is_err());
        drop(one);
        assert!(WritableFile::open(file.path(), false).is_err());
        drop(other);
        WritableFile::open(file.path(), false).unwrap();
    }
}
