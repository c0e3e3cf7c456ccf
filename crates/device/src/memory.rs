// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device in memory, for tests and fuzzing.

use fsmend_base::width;

use crate::{Device, ReadError, check_bounds};

/// Bytes in memory as a device.
pub struct MemoryDevice {
    name: String,
    bytes: Vec<u8>,
}

impl MemoryDevice {
    /// A device called `name` that holds `bytes`.
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        MemoryDevice { name: name.into(), bytes }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes, to be damaged.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl Device for MemoryDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        check_bounds(offset, buf.len() as u64, self.len())?;
        buf.copy_from_slice(&self.bytes[width::index(offset)..width::index(offset) + buf.len()]);
        Ok(())
    }
}
