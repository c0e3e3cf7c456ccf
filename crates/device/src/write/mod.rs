// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices that can be written. Only the writing protocol ([`crate::apply`]) and its tests write; checks take a [`Device`].

mod file;
mod memory;
mod open;

use std::fmt;
use std::sync::Arc;

use crate::{Device, ReadError, Slice, check_bounds};

pub use file::{GrowingFile, ReadHold, WritableFile};
pub(crate) use file::{sync_file, write_fully};
pub use memory::WritableMemory;
pub use open::{OpenedForWriting, WritableTarget, WriteOptions, open_writable};

/// A device that can be written, too. What was written may be lost, in any order and in pieces of a sector, until
/// [`WritableDevice::sync`] has returned.
pub trait WritableDevice: Device {
    /// Writes all of `bytes` at `offset`, or fails; then any part of them may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError>;

    /// Returns when everything that was written will survive a power cut.
    fn sync(&self) -> Result<(), WriteError>;

    /// Makes sure that these ranges (offset and length) can be written in place, wherever they lie. What is read stays the same, also if this is
    /// interrupted. Writing does it by itself; for many ranges at once it takes far less.
    fn prepare(&self, _ranges: &[(u64, u64)]) -> Result<(), WriteError> {
        Ok(())
    }

    /// Tells the device that `len` bytes from `offset` are not needed any more: they may read as zeroes from now on. Only a
    /// service to the device; returns whether the device can do that.
    fn discard(&self, _offset: u64, _len: u64) -> bool {
        false
    }

    /// The length that the device has now, which may differ from [`Device::len`] where it changes meanwhile; `None` when its name
    /// leads to something else by now.
    fn len_now(&self) -> Option<u64> {
        Some(self.len())
    }

    /// Has the next read of `len` bytes from `offset` ask the medium itself, as far as the system can be made to drop what it has read
    /// or written before. What has not been synced is kept.
    fn forget(&self, _offset: u64, _len: u64) {}
}

/// A write or a synchronisation that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    /// First byte of the failed request.
    pub offset: u64,
    /// Length of the failed request; 0 for a synchronisation.
    pub len: u64,
    /// Why it failed.
    pub kind: WriteErrorKind,
}

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteErrorKind {
    /// The request reaches beyond the end of the device.
    BeyondEnd,
    /// The file system on which the file lies is full, or a quota is.
    NoSpace,
    /// The operating system reported an error.
    Io(String),
}

impl WriteError {
    /// A request that the operating system could not fulfil.
    pub fn io(offset: u64, len: u64, why: impl fmt::Display) -> Self {
        WriteError { offset, len, kind: WriteErrorKind::Io(why.to_string()) }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WriteError { offset, len, kind } = self;
        match kind {
            WriteErrorKind::BeyondEnd => {
                write!(f, "bytes {offset} to {} are beyond the end", offset.saturating_add(*len))
            }
            WriteErrorKind::NoSpace => write!(f, "writing {len} bytes at {offset} failed: no space left"),
            WriteErrorKind::Io(why) if *len == 0 => {
                write!(f, "cannot sync the data that was written: {why}")
            }
            WriteErrorKind::Io(why) => write!(f, "writing {len} bytes at {offset} failed: {why}"),
        }
    }
}

impl std::error::Error for WriteError {}

/// What points at a writable device is one.
macro_rules! forward {
    ($($pointer:ty),*) => { $(
        impl<T: WritableDevice + ?Sized> WritableDevice for $pointer {
            fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
                (**self).write_at(offset, bytes)
            }

            fn sync(&self) -> Result<(), WriteError> {
                (**self).sync()
            }

            fn prepare(&self, ranges: &[(u64, u64)]) -> Result<(), WriteError> {
                (**self).prepare(ranges)
            }

            fn discard(&self, offset: u64, len: u64) -> bool {
                (**self).discard(offset, len)
            }

            fn len_now(&self) -> Option<u64> {
                (**self).len_now()
            }

            fn forget(&self, offset: u64, len: u64) {
                (**self).forget(offset, len);
            }
        }
    )* };
}

forward!(&T, Arc<T>);

/// A window of a writable device can be written.
impl<D: WritableDevice + ?Sized> WritableDevice for Slice<D> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        check_write(offset, bytes, self.len())?;
        // Within the window no sum can overflow: its end lies within the device.
        self.inner()
            .write_at(self.start() + offset, bytes)
            .map_err(|error| WriteError { offset: error.offset.saturating_sub(self.start()), ..error })
    }

    fn sync(&self) -> Result<(), WriteError> {
        self.inner().sync()
    }

    fn prepare(&self, ranges: &[(u64, u64)]) -> Result<(), WriteError> {
        let mut moved = Vec::with_capacity(ranges.len());
        for (offset, len) in ranges {
            let beyond = |_| WriteError { offset: *offset, len: *len, kind: WriteErrorKind::BeyondEnd };
            check_bounds(*offset, *len, self.len()).map_err(beyond)?;
            moved.push((self.start() + offset, *len));
        }
        self.inner().prepare(&moved)
    }

    fn discard(&self, offset: u64, len: u64) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.len())
            && self.inner().discard(self.start() + offset, len)
    }

    fn len_now(&self) -> Option<u64> {
        let inner = self.inner().len_now()?;
        Some(inner.saturating_sub(self.start()).min(self.len()))
    }

    fn forget(&self, offset: u64, len: u64) {
        if offset < self.len() {
            self.inner().forget(self.start() + offset, len.min(self.len() - offset));
        }
    }
}

/// Whether `bytes` fit at `offset` of a device of `device_len` bytes.
pub(crate) fn check_write(offset: u64, bytes: &[u8], device_len: u64) -> Result<(), WriteError> {
    let len = bytes.len() as u64;
    check_bounds(offset, len, device_len).map_err(|ReadError { .. }| WriteError {
        offset,
        len,
        kind: WriteErrorKind::BeyondEnd,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_window_writes_its_bytes_and_no_others() {
        let memory = Arc::new(WritableMemory::new("m", vec![0; 64]));
        let slice = Slice::new("s", Arc::clone(&memory), 16, 8);
        slice.write_at(2, &[1, 2, 3]).unwrap();
        assert_eq!(slice.write_at(6, &[1, 2, 3]).unwrap_err().kind, WriteErrorKind::BeyondEnd);
        assert_eq!(slice.write_at(u64::MAX, &[1]).unwrap_err().kind, WriteErrorKind::BeyondEnd);
        let bytes = memory.bytes();
        assert_eq!(bytes[18..21], [1, 2, 3]);
        assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 3);
    }
}
