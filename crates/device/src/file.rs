// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw image files and block devices: opened for reading only, never locked, never written.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{
    Advice, AtFlags, FileType, SeekFrom, StatxAttributes, StatxFlags, fadvise, fstat, fstatfs,
    ioctl_blksszget, seek, statx,
};
use rustix::io::{Errno, pread};

use crate::cached::{cached_pages, seems_cached};
use crate::fetcher::Fetcher;
use crate::{Device, Direct, ReadError, ReadErrorKind, check_bounds};

/// How often a read that the kernel asks to repeat is repeated before it counts as failed.
const TRANSIENT_RETRIES_MAX: u32 = 16;

/// How often a read that failed on the medium is tried again: some controllers succeed the second time.
const MEDIUM_RETRIES_MAX: u32 = 1;

/// What is read in such small pieces is read for its own sake, or because a larger piece failed ([`crate::salvage`]): it gets more tries.
const PATIENT_BYTES_MAX: usize = 4096;

/// Pauses before the further tries of a small read: long enough for a cable, a controller or a network to come back.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(250)];

/// So many pauses are made in all: a disk with many bad sectors has no errors that pass.
const PAUSES_MAX: u32 = 30;

/// `f_type` of file systems that lie in memory: tmpfs and ramfs.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58F6];

/// A regular file or a block device.
#[derive(Debug)]
pub struct FileDevice {
    name: String,
    file: File,
    /// It only grows, and only by what is written here.
    len: AtomicU64,
    sector_size: Option<u32>,
    /// Whether it lies in memory, where nothing can be read ahead.
    is_in_memory: bool,
    /// Reads ahead in place of the kernel, where the page cache keeps nothing of the file.
    fetcher: Option<Fetcher>,
    /// Pauses that may still be made.
    patience: AtomicU32,
}

impl FileDevice {
    /// Opens `path` with O_RDONLY. Anything but a regular file or a block device is refused before it is opened,
    /// because opening a pipe would wait for a writer.
    pub fn open(path: &Path) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(rustix::fs::stat(path)?.st_mode);
        refuse_other_kinds(kind)?;
        FileDevice::from_file(path.display().to_string(), File::open(path)?)
    }

    pub(crate) fn from_file(name: String, file: File) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
        refuse_other_kinds(kind)?;
        // Block devices have no length in their inode; the end to which one can seek is right for both kinds.
        let len = seek(&file, SeekFrom::End(0))?;
        let sector_size = if kind == FileType::BlockDevice { ioctl_blksszget(&file).ok() } else { None };
        let is_in_memory = kind == FileType::RegularFile && is_in_memory(file.as_fd());
        let bypasses = kind == FileType::RegularFile && !is_in_memory && bypasses_page_cache(&file);
        let fetcher = if bypasses { Some(Fetcher::new(&file)?) } else { None };
        let patience = AtomicU32::new(PAUSES_MAX);
        let len = AtomicU64::new(len);
        Ok(FileDevice { name, file, len, sector_size, is_in_memory, fetcher, patience })
    }

    /// Notes that these bytes were changed, so that nothing that was read ahead of them is used.
    pub(crate) fn changed(&self, offset: u64, len: u64) {
        if let Some(fetcher) = &self.fetcher {
            fetcher.forget(offset, len);
        }
    }

    /// Notes that the file has `len` bytes at least.
    pub(crate) fn has_grown(&self, len: u64) {
        self.len.fetch_max(len, Ordering::Relaxed);
    }

    /// The open file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Logical sector size, if the operating system knows it (block devices).
    pub fn sector_size(&self) -> Option<u32> {
        self.sector_size
    }
}

/// Whether a file lies in memory: reading it never waits for a device, and asking for that not to happen is not understood there.
pub(crate) fn is_in_memory(file: BorrowedFd<'_>) -> bool {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the type differs between machines; such numbers have 32 bits"
    )]
    fstatfs(file).is_ok_and(|stat| IN_MEMORY.contains(&(stat.f_type as u32)))
}

/// Whether the page cache holds nothing of a file that was read a moment ago. Files on persistent memory (DAX) do without it as well, but need not be
/// waited for.
fn bypasses_page_cache(file: &File) -> bool {
    let page = &mut [0; 4096];
    let is_read = pread(file, page, 0).is_ok_and(|count| count > 0);
    is_read && cached_pages(file.as_fd(), 0, 1) == Some(0) && !is_dax(file)
}

fn is_dax(file: &File) -> bool {
    let stat = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
    stat.is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::DAX))
}

pub(crate) fn refuse_other_kinds(kind: FileType) -> io::Result<()> {
    match kind {
        FileType::RegularFile | FileType::BlockDevice => Ok(()),
        FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a regular file nor a block device")),
    }
}

impl Device for FileDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let len = buf.len() as u64;
        check_bounds(offset, len, self.len())?;
        let patience = if buf.len() <= PATIENT_BYTES_MAX { &self.patience } else { &AtomicU32::new(0) };
        let plainly = |at: u64, rest: &mut [u8]| read_fully(at, rest, |at, rest| pread(&self.file, rest, at));
        let read = || match &self.fetcher {
            Some(fetcher) => fetcher.read(offset, buf, plainly),
            None => plainly(offset, buf),
        };
        read_patiently(patience, std::thread::sleep, read).map_err(|kind| ReadError { offset, len, kind })
    }

    fn readahead(&self, offset: u64, len: u64) {
        if self.is_in_memory {
            return;
        }
        let len = len.min(self.len().saturating_sub(offset));
        if let Some(fetcher) = &self.fetcher {
            fetcher.announce(offset, len);
        } else if let Some(len) = NonZeroU64::new(len)
            && !seems_cached(self.file.as_fd(), offset, len.get())
        {
            let _ = fadvise(&self.file, offset, Some(len), Advice::WillNeed);
        }
    }

    fn direct(&self) -> Option<Direct<'_>> {
        Some(Direct { fd: self.file.as_fd(), shift: 0, limit: None, waits: self.fetcher.is_some() })
    }

    fn memory_max(&self) -> u64 {
        if self.fetcher.is_some() { Fetcher::MEMORY_MAX } else { 0 }
    }
}

/// Tries again after each pause, as long as there is patience left. What fails then, lasts.
fn read_patiently(
    patience: &AtomicU32,
    pause: impl Fn(Duration),
    mut read: impl FnMut() -> Result<(), ReadErrorKind>,
) -> Result<(), ReadErrorKind> {
    let mut result = read();
    for duration in PAUSES {
        let may_pass = matches!(result, Err(ReadErrorKind::Io(_)));
        let take = |left: u32| left.checked_sub(1);
        if !may_pass || patience.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            break;
        }
        pause(duration);
        result = read();
    }
    result
}

/// Fills `buf` from `offset` by calling `read` until all is there. Short reads go on, transient errors and failures
/// of the medium are tried again a bounded number of times, other errors last.
pub(crate) fn read_fully(
    offset: u64,
    buf: &mut [u8],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, Errno>,
) -> Result<(), ReadErrorKind> {
    let (mut done, mut transient, mut medium) = (0, 0, 0);
    while done < buf.len() {
        match read(offset + done as u64, &mut buf[done..]) {
            // The file has become shorter since it was opened.
            Ok(0) => return Err(ReadErrorKind::BeyondEnd),
            Ok(count) => (done, transient, medium) = (done + count, 0, 0),
            Err(Errno::INTR | Errno::AGAIN) if transient < TRANSIENT_RETRIES_MAX => transient += 1,
            Err(Errno::IO) if medium < MEDIUM_RETRIES_MAX => medium += 1,
            Err(error) => return Err(ReadErrorKind::Io(io::Error::from(error).to_string())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::testing::TempFile;

    /// Answers one read: copies up to `usize` bytes of 7s, or fails.
    fn scripted(answers: &[Result<usize, Errno>]) -> (Result<(), ReadErrorKind>, Vec<u8>, usize) {
        let (mut buf, mut calls) = (vec![0; 10], 0);
        let result = read_fully(100, &mut buf, |_, rest| {
            let answer = answers.get(calls).copied().unwrap_or(Ok(usize::MAX));
            calls += 1;
            let count = answer?.min(rest.len());
            rest[..count].fill(7);
            Ok(count)
        });
        (result, buf, calls)
    }

    #[test]
    fn short_reads_and_interruptions_go_on() {
        let (result, buf, _) = scripted(&[Ok(3), Err(Errno::INTR), Ok(1), Err(Errno::AGAIN)]);
        assert_eq!((result, buf), (Ok(()), vec![7; 10]));
    }

    #[test]
    fn the_medium_gets_a_second_chance_and_no_third() {
        assert_eq!(scripted(&[Err(Errno::IO)]).0, Ok(()));
        let (result, _, calls) = scripted(&[Err(Errno::IO); 5]);
        assert!(matches!(result, Err(ReadErrorKind::Io(_))));
        assert_eq!(calls, 2);
    }

    #[test]
    fn errors_that_pass_are_waited_for_and_lasting_ones_not_for_ever() {
        let (patience, pauses) = (AtomicU32::new(5), AtomicU32::new(0));
        let read = |failures: u32| {
            let mut left = failures;
            let pause = |_| pauses.store(pauses.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            let error = ReadErrorKind::Io("planned".to_owned());
            let result = read_patiently(&patience, pause, || match left.checked_sub(1) {
                Some(rest) => {
                    left = rest;
                    Err(error.clone())
                }
                None => Ok(()),
            });
            (result.is_ok(), pauses.swap(0, Ordering::Relaxed))
        };
        assert_eq!([read(0), read(2), read(9), read(1)], [(true, 0), (true, 2), (false, 3), (false, 0)]);
    }

    #[test]
    fn endless_interruptions_end() {
        let (result, _, calls) = scripted(&[Err(Errno::INTR); 100]);
        assert!(matches!(result, Err(ReadErrorKind::Io(_))));
        assert_eq!(calls as u32, TRANSIENT_RETRIES_MAX + 1);
    }

    #[test]
    fn a_file_that_shrinks_reads_as_beyond_the_end() {
        assert_eq!(scripted(&[Ok(5), Ok(0)]).0, Err(ReadErrorKind::BeyondEnd));
    }

    #[test]
    fn a_file_is_read_at_offsets_and_not_beyond_its_end() {
        let file = TempFile::new("file", &(0..=255).collect::<Vec<u8>>());
        let device = FileDevice::open(file.path()).unwrap();
        assert_eq!((device.len(), device.sector_size()), (256, None));
        let mut buf = [0; 4];
        device.read_at(252, &mut buf).unwrap();
        assert_eq!(buf, [252, 253, 254, 255]);
        for offset in [253, 256, u64::MAX] {
            assert_eq!(device.read_at(offset, &mut buf).unwrap_err().kind, ReadErrorKind::BeyondEnd);
        }
    }

    #[test]
    fn directories_and_character_devices_are_refused() {
        assert_eq!(FileDevice::open(Path::new("/")).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(FileDevice::open(Path::new("/dev/null")).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
