// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that can be written through a shared reference, for tests and trials.

use std::sync::{PoisonError, RwLock};

use fsmend_base::width;

use super::{WritableDevice, WriteError, check_write};
use crate::{Device, ReadError, check_bounds};

/// Bytes in memory as a writable device.
pub struct WritableMemory {
    name: String,
    len: u64,
    bytes: RwLock<Vec<u8>>,
}

impl WritableMemory {
    /// A device called `name` that holds `bytes`.
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        WritableMemory { name: name.into(), len: bytes.len() as u64, bytes: RwLock::new(bytes) }
    }

    /// A copy of the bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Device for WritableMemory {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        check_bounds(offset, buf.len() as u64, self.len)?;
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        buf.copy_from_slice(&bytes[width::index(offset)..width::index(offset) + buf.len()]);
        Ok(())
    }
}

impl WritableDevice for WritableMemory {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        check_write(offset, bytes, self.len)?;
        let mut ours = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        ours[width::index(offset)..width::index(offset) + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> Result<(), WriteError> {
        Ok(())
    }
}
