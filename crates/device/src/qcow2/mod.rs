// SPDX-License-Identifier: MIT OR Apache-2.0
//! qcow2 images, with their backing files, through the crate `imago`.
//!
//! What an image may make us do is bounded before `imago` sees it ([`header::check`]: sizes; [`gate::Gate`]: length of the
//! backing chain, kinds of files), and it reads through [`storage::HostFile`], which cannot write. Writing is ours alone ([`writing`]).

mod cache;
mod gate;
mod header;
mod storage;
mod writing;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use imago::qcow2::Qcow2;
use imago::{FormatAccess, FormatDriverBuilder, Mapping};

use fsmend_base::width;

use crate::{Device, ReadError, check_bounds};
use cache::ClusterCache;
use gate::Gate;
use storage::HostFile;

pub(crate) use header::is_qcow2;
pub use writing::WritableQcow2;

/// The disk inside a qcow2 image.
pub struct Qcow2Device {
    name: String,
    image: FormatAccess<HostFile>,
    unpacked: ClusterCache,
    /// What the tables of the image and of those below it can take, and what is read ahead of their files.
    table_bytes: u64,
}

impl Qcow2Device {
    /// Opens the image at `path`, and those it is based on, for reading only.
    pub fn open(path: &Path) -> io::Result<Self> {
        Qcow2Device::over(path, HostFile::open_any(path)?)
    }

    /// The same for an image in a file that is open already. Names of others in it are resolved against `path`.
    pub(crate) fn open_in(path: &Path, device: Arc<dyn Device>) -> io::Result<Self> {
        Qcow2Device::over(path, HostFile::over(path, device)?)
    }

    fn over(path: &Path, file: HostFile) -> io::Result<Self> {
        let not_qcow2 = || io::Error::new(io::ErrorKind::InvalidData, "it is not a qcow2 image");
        let header = file.header().ok_or_else(not_qcow2)?;
        let unpacked = ClusterCache::new(header.cluster_bytes);
        let table_bytes = Arc::new(AtomicU64::new(header.table_bytes + file.memory_max()));
        let gate = Gate::new(Arc::clone(&table_bytes));
        let image = guarded(|| Qcow2::<HostFile>::builder(file).write(false).open(gate))?;
        Ok(Qcow2Device {
            name: path.display().to_string(),
            image: FormatAccess::new(image),
            unpacked,
            table_bytes: table_bytes.load(Relaxed),
        })
    }

    /// Reads within the disk; parts of compressed clusters come from the cache.
    fn read(&self, mut offset: u64, mut buf: &mut [u8]) -> io::Result<()> {
        let cluster_bytes = self.unpacked.cluster_bytes();
        if buf.len() as u64 >= cluster_bytes {
            return self.image.read(buf, offset);
        }
        while !buf.is_empty() {
            let within = width::index(offset % cluster_bytes);
            let count = buf.len().min(width::index(cluster_bytes) - within);
            let (part, rest) = buf.split_at_mut(count);
            match self.image.get_mapping(offset, count as u64)? {
                (Mapping::Special { .. }, _) => {
                    let cluster =
                        self.unpacked.get(offset / cluster_bytes, || self.unpack(offset - within as u64))?;
                    part.copy_from_slice(&cluster[within..within + count]);
                }
                _ => self.image.read(&mut *part, offset)?,
            }
            (offset, buf) = (offset + count as u64, rest);
        }
        Ok(())
    }

    /// The whole cluster at `offset`; beyond the end of the disk it reads as zeroes.
    fn unpack(&self, offset: u64) -> io::Result<Vec<u8>> {
        let mut cluster = vec![0; width::index(self.unpacked.cluster_bytes())];
        self.image.read(cluster.as_mut_slice(), offset)?;
        Ok(cluster)
    }

    /// Hands the hint on to the files in which the bytes lie; holes and compressed clusters get none.
    fn readahead_mapped(&self, mut offset: u64, mut len: u64) -> io::Result<()> {
        while len > 0 {
            let (mapping, mapped) = self.image.get_mapping(offset, len)?;
            if let Mapping::Raw { storage, offset, .. } = mapping {
                storage.readahead(offset, mapped);
            }
            // Nothing is mapped beyond the end.
            let mapped = if mapped == 0 { len } else { mapped.min(len) };
            (offset, len) = (offset + mapped, len - mapped);
        }
        Ok(())
    }
}

impl Device for Qcow2Device {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.image.size()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let len = buf.len() as u64;
        check_bounds(offset, len, self.len())?;
        guarded(|| self.read(offset, buf)).map_err(|error| ReadError::io(offset, len, error))
    }

    fn memory_max(&self) -> u64 {
        self.table_bytes + self.unpacked.memory_max()
    }

    fn readahead(&self, offset: u64, len: u64) {
        let _ = guarded(|| self.readahead_mapped(offset, len));
    }
}

/// A hostile image must not bring the process down, even where it finds an assertion in `imago` that does not hold.
/// Nothing is left half-done by such a panic: `imago` only reads, and a table that was being loaded is not cached.
fn guarded<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(io::Error::new(io::ErrorKind::InvalidData, "the qcow2 image contradicts itself"))
    })
}

#[cfg(test)]
mod tests;
