// SPDX-License-Identifier: MIT OR Apache-2.0
//! A block device read past the page cache (O_DIRECT): what is on the medium, not what was read before.
//!
//! The page cache of a block device does not see everything that a mounted file system writes: contents of files, and with older drivers
//! symbolic links and directories, go past it. So pages that an earlier check left there may be stale. On a frozen file system everything
//! lies on the medium, and this is the way to it.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FileType, Mode, OFlags, SeekFrom, fstat, ioctl_blksszget, open, seek};
use rustix::io::pread;

use fsmend_base::width;

use crate::batch::AlignedBuffer;
use crate::file::{read_fully, refuse_other_kinds};
use crate::{Device, Direct, ReadError, check_bounds};

/// Reads start and end at multiples of this where the device allows it.
const UNIT: u64 = 4096;

/// Longest single read.
const PIECE: u64 = 1 << 20;

/// Reads of at most this many bytes bring their neighbours along, which are kept for the next ones.
const SMALL: usize = 16 << 10;

/// So much is read for a small one.
const CHUNK: u64 = 64 << 10;

/// At most so many chunks are kept: 16 MiB.
const CHUNKS_MAX: usize = 256;

/// A block device (or a file) that is read past the page cache. It keeps a little of what it has read for itself: it is opened for one look,
/// while nothing changes, and then thrown away.
#[derive(Debug)]
pub struct FreshDevice {
    name: String,
    file: File,
    len: u64,
    unit: u64,
    chunks: Mutex<HashMap<u64, Arc<[u8]>>>,
}

impl FreshDevice {
    /// Opens `path` with O_RDONLY and O_DIRECT; some kinds of files do not allow that.
    pub fn open(path: &Path) -> io::Result<Self> {
        refuse_other_kinds(FileType::from_raw_mode(rustix::fs::stat(path)?.st_mode))?;
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = File::from(open(path, flags, Mode::empty())?);
        let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
        let len = seek(&file, SeekFrom::End(0))?;
        let sector = if kind == FileType::BlockDevice { ioctl_blksszget(&file)? } else { 512 };
        let unit = if len.is_multiple_of(UNIT) { UNIT } else { u64::from(sector.max(512)) };
        let name = path.display().to_string();
        Ok(FreshDevice { name, file, len, unit, chunks: Mutex::default() })
    }

    /// The chunk with number `index`, read now or before.
    fn chunk(&self, index: u64) -> Result<Arc<[u8]>, ReadError> {
        let chunks = || self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chunk) = chunks().get(&index) {
            return Ok(Arc::clone(chunk));
        }
        let start = index * CHUNK;
        let mut bytes = vec![0; width::index(CHUNK.min(self.len - start))];
        self.read_piece(start, &mut bytes)?;
        let chunk: Arc<[u8]> = bytes.into();
        let mut chunks = chunks();
        if chunks.len() >= CHUNKS_MAX {
            chunks.clear();
        }
        chunks.insert(index, Arc::clone(&chunk));
        Ok(chunk)
    }

    /// A read from the chunks; an error if one of them cannot be read as a whole.
    fn read_small(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let chunk = self.chunk(at / CHUNK)?;
            let from = (at % CHUNK) as usize;
            let count = (chunk.len() - from).min(buf.len() - done);
            buf[done..done + count].copy_from_slice(&chunk[from..from + count]);
            done += count;
        }
        Ok(())
    }

    /// Reads the piece at `offset` together with what is around it, up to the next multiples of the unit.
    fn read_piece(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let start = offset / self.unit * self.unit;
        let end = (offset + buf.len() as u64).next_multiple_of(self.unit).min(self.len);
        let mut aligned = AlignedBuffer::new(width::index(end - start));
        let bytes = &mut aligned.as_mut_slice()[..width::index(end - start)];
        let len = buf.len() as u64;
        read_fully(start, bytes, |at, rest| pread(&self.file, rest, at)).map_err(|kind| ReadError {
            offset,
            len,
            kind,
        })?;
        let skip = width::index(offset - start);
        buf.copy_from_slice(&bytes[skip..skip + buf.len()]);
        Ok(())
    }
}

impl Device for FreshDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        check_bounds(offset, buf.len() as u64, self.len)?;
        // A bad sector in the neighbourhood is no reason not to read what was asked for.
        if buf.len() <= SMALL && self.read_small(offset, buf).is_ok() {
            return Ok(());
        }
        let mut at = offset;
        for piece in buf.chunks_mut(width::index(PIECE)) {
            self.read_piece(at, piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn direct(&self) -> Option<Direct<'_>> {
        // Reads that are not aligned fail there, and come back to `read_at`.
        Some(Direct { fd: self.file.as_fd(), shift: 0, limit: None, waits: false })
    }

    fn memory_max(&self) -> u64 {
        CHUNKS_MAX as u64 * CHUNK
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::testing::TempFile;
    use crate::{BatchReader, ReadBackend, Request};

    #[test]
    fn any_offset_and_length_can_be_read() {
        let bytes: Vec<u8> = (0..3 * 4096 + 512u32).map(|at| (at / 7) as u8).collect();
        let file = TempFile::new("fresh", &bytes);
        // Not every file system knows O_DIRECT (tmpfs of older kernels does not).
        let Ok(device) = FreshDevice::open(file.path()) else { return };
        assert_eq!(device.len(), bytes.len() as u64);
        for (offset, len) in [(0, 1), (1, 4096), (4095, 2), (100, 12_000), (12_799, 1), (512, 512), (3, 0)] {
            let mut buf = vec![0; len];
            device.read_at(offset as u64, &mut buf).unwrap();
            assert_eq!(buf, &bytes[offset..offset + len], "{len} at {offset}");
        }
        device.read_at(12_800, &mut [0]).unwrap_err();
        let requests: Vec<Request> =
            [(0, 4096), (10, 300), (4096, 8192)].map(|(offset, len)| Request { offset, len }).into();
        for backend in [ReadBackend::Auto, ReadBackend::Uring, ReadBackend::Pread] {
            let mut reader = BatchReader::new(&device, backend, 4);
            let mut seen = 0;
            reader.read(&requests, &mut |index, result| {
                let Request { offset, len } = requests[index];
                assert_eq!(result.unwrap(), &bytes[offset as usize..][..len as usize]);
                seen += 1;
            });
            assert_eq!(seen, 3);
        }
    }
}
