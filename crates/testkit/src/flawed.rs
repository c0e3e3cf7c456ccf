// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device in memory with a part that cannot be read.

use std::ops::Range;

use fsmend_device::{Device, MemoryDevice, ReadError, ReadErrorKind};

/// Memory of which a part cannot be read.
pub struct Flawed {
    /// The bytes.
    pub memory: MemoryDevice,
    /// Reads that touch these fail.
    pub flaw: Range<u64>,
}

impl Device for Flawed {
    fn name(&self) -> &str {
        self.memory.name()
    }

    fn len(&self) -> u64 {
        self.memory.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let len = buf.len() as u64;
        if offset < self.flaw.end && offset + len > self.flaw.start {
            return Err(ReadError { offset, len, kind: ReadErrorKind::Io("flaw".to_owned()) });
        }
        self.memory.read_at(offset, buf)
    }
}
