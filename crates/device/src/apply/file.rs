// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file in which a log is kept.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::{Errno, pread, pwrite};

use super::layout::MAGIC;
use crate::file::read_fully;
use crate::plan::sync_folder_of;
use crate::write::{sync_file, write_fully};
use crate::{Device, ReadError, WritableDevice, WriteError, check_bounds};

/// A file that grows when it is written beyond its end. Its existence, too, has to be made durable.
pub trait LogFile: WritableDevice {
    /// Returns when the file itself, that is its entry in its folder, will survive a power cut.
    fn sync_entry(&self) -> Result<(), WriteError>;

    /// Removes the file, and returns when it will not come back.
    fn remove(&self) -> Result<(), WriteError>;
}

impl<T: LogFile + ?Sized> LogFile for Arc<T> {
    fn sync_entry(&self) -> Result<(), WriteError> {
        (**self).sync_entry()
    }

    fn remove(&self) -> Result<(), WriteError> {
        (**self).remove()
    }
}

/// A log in a regular file, locked as long as this lives.
#[derive(Debug)]
pub struct LogOnDisk {
    path: PathBuf,
    name: String,
    file: File,
    len: AtomicU64,
}

impl LogOnDisk {
    /// A new, empty log, for the owner's eyes only. Fails where there is a file of that name.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        LogOnDisk::open_with(options.read(true).write(true).create_new(true).mode(0o600), path)
    }

    /// A log that is there. Fails with `WouldBlock` while another process holds it.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Opening a pipe would wait for the other side.
        let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits();
        LogOnDisk::open_with(File::options().read(true).write(true).custom_flags(flags.cast_signed()), path)
    }

    fn open_with(options: &fs::OpenOptions, path: &Path) -> io::Result<Self> {
        let file = options.open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        if let Err(Errno::AGAIN) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            return Err(Errno::AGAIN.into());
        }
        let (name, len) = (path.display().to_string(), AtomicU64::new(metadata.len()));
        Ok(LogOnDisk { path: path.to_owned(), name, file, len })
    }

    /// Whether `start`, the first bytes of a file, are those of a log.
    pub fn is_log(start: &[u8]) -> bool {
        start.starts_with(MAGIC)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Device for LogOnDisk {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let len = buf.len() as u64;
        check_bounds(offset, len, self.len())?;
        read_fully(offset, buf, |at, rest| pread(&self.file, rest, at)).map_err(|kind| ReadError {
            offset,
            len,
            kind,
        })
    }
}

impl WritableDevice for LogOnDisk {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        write_fully(offset, bytes, |at, rest| pwrite(&self.file, rest, at))?;
        self.len.fetch_max(offset.saturating_add(bytes.len() as u64), Ordering::Relaxed);
        Ok(())
    }

    fn sync(&self) -> Result<(), WriteError> {
        sync_file(&self.file)
    }
}

impl LogFile for LogOnDisk {
    fn sync_entry(&self) -> Result<(), WriteError> {
        sync_folder_of(&self.path).map_err(|error| WriteError::io(0, 0, error))
    }

    fn remove(&self) -> Result<(), WriteError> {
        fs::remove_file(&self.path).map_err(|error| WriteError::io(0, 0, error))?;
        self.sync_entry()
    }
}
