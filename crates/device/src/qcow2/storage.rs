// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files under a qcow2 image, as `imago` sees them: it can read them, and nothing else.
//!
//! The trait of `imago` declares reading and writing as `unsafe fn`; that is the only reason for the word here.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use imago::io_buffers::{IoVector, IoVectorMut};
use imago::storage::drivers::CommonStorageHelper;
use imago::{Storage, StorageOpenOptions};

use fsmend_base::width;

use super::header::{self, HEADER_BYTES, Header};
use crate::{Device, FileDevice};

/// The last cluster of an image (and a compressed one) may be cut off at the end of the file; what is missing of it
/// reads as zeroes. Clusters that start later are not there at all.
const CLUSTER_BYTES_MAX: u64 = 2 << 20;

/// A file of an image, open for reading.
pub(super) struct HostFile {
    device: Arc<dyn Device>,
    /// Absolute, so that names in the image can be resolved against its directory.
    path: PathBuf,
    /// What its header says, if the file is a qcow2 image.
    header: Option<Header>,
    helper: CommonStorageHelper,
}

impl HostFile {
    /// Opens a file of any format; a qcow2 header must be a sensible one.
    pub(super) fn open_any(path: &Path) -> io::Result<Self> {
        HostFile::over(path, Arc::new(FileDevice::open(path)?))
    }

    /// The same for a file that is open already.
    pub(super) fn over(path: &Path, device: Arc<dyn Device>) -> io::Result<Self> {
        let mut start = [0; HEADER_BYTES];
        let count = width::index(device.len().min(HEADER_BYTES as u64));
        device.read_at(0, &mut start[..count]).map_err(io::Error::other)?;
        let header = if header::is_qcow2(&start) { Some(header::check(&start, device.len())?) } else { None };
        Ok(HostFile {
            device,
            path: std::path::absolute(path)?,
            header,
            helper: CommonStorageHelper::default(),
        })
    }

    /// What its header says, if the file is a qcow2 image.
    pub(super) fn header(&self) -> Option<Header> {
        self.header
    }

    /// Memory that it may come to hold.
    pub(super) fn memory_max(&self) -> u64 {
        self.device.memory_max()
    }

    /// Hints that a range will be read.
    pub(super) fn readahead(&self, offset: u64, len: u64) {
        self.device.readahead(offset, len);
    }

    /// Fills `bytes`, with zeroes where the file ends within a cluster.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let there = width::index(self.device.len().saturating_sub(offset).min(bytes.len() as u64));
        let (inside, beyond) = bytes.split_at_mut(there);
        if !beyond.is_empty() && (inside.is_empty() || beyond.len() as u64 >= CLUSTER_BYTES_MAX) {
            let text = format!("{} ends before byte {offset}", self.path.display());
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        beyond.fill(0);
        self.device.read_at(offset, inside).map_err(io::Error::other)
    }
}

impl Storage for HostFile {
    fn open(options: StorageOpenOptions) -> io::Result<Self> {
        // Whatever `options` say about writing (for a separate data file they do): files are opened for reading.
        let path = options.get_filename().ok_or(io::ErrorKind::InvalidInput)?;
        HostFile::open_any(path)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.device.len())
    }

    fn resolve_relative_path<P: AsRef<Path>>(&self, relative: P) -> io::Result<PathBuf> {
        let directory = self.path.parent().ok_or(io::ErrorKind::NotFound)?;
        Ok(directory.join(relative))
    }

    fn get_filename(&self) -> Option<PathBuf> {
        Some(self.path.clone())
    }

    unsafe fn pure_readv(&self, vector: IoVectorMut<'_>, offset: u64) -> io::Result<()> {
        let mut at = offset;
        for mut bytes in vector.into_inner() {
            self.read(at, &mut bytes)?;
            if let Some(header) = self.header {
                header::hide_writer_marks(header.version, at, &mut bytes);
            }
            at = at.saturating_add(bytes.len() as u64);
        }
        Ok(())
    }

    unsafe fn pure_writev(&self, _: IoVector<'_>, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    unsafe fn invalidate_cache(&self) -> io::Result<()> {
        Ok(())
    }

    fn get_storage_helper(&self) -> &CommonStorageHelper {
        &self.helper
    }
}

impl fmt::Debug for HostFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostFile")
            .field("path", &self.path)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for HostFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}
