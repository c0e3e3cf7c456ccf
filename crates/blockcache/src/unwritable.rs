// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device that refuses writes, for file systems that are mounted read-only.

use fsmend_device::{Device, ReadError, WritableDevice, WriteError};

/// Passes reads on and refuses writes.
pub struct Unwritable<D>(
    /// The device that is read.
    pub D,
);

impl<D: Device> Device for Unwritable<D> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at(offset, buf)
    }
}

impl<D: Device> WritableDevice for Unwritable<D> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        Err(WriteError::io(offset, bytes.len() as u64, "opened for reading only"))
    }

    fn sync(&self) -> Result<(), WriteError> {
        Err(WriteError::io(0, 0, "opened for reading only"))
    }
}
