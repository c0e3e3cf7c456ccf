// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one read has brought, as a device: a directory is looked at in the buffer where its blocks are.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_device::{Device, ReadError, Request, coalesce};

use super::limit::Effort;

/// Blocks of a directory are read together over gaps up to this many bytes.
pub const GAP: u32 = 16 << 10;
/// Largest read.
pub const READ_MAX: u32 = 256 << 10;

/// Bytes of a device from an offset on. Of the others, nothing can be read.
pub struct Window<'w> {
    below: &'w dyn Device,
    effort: &'w Effort<'w>,
    start: u64,
    bytes: &'w [u8],
    is_left: AtomicBool,
}

impl<'w> Window<'w> {
    /// `bytes` are those of `below` from `start` on.
    pub fn new(below: &'w dyn Device, effort: &'w Effort<'w>, (start, bytes): (u64, &'w [u8])) -> Self {
        Window { below, effort, start, bytes, is_left: AtomicBool::new(false) }
    }

    /// Whether something else was asked for since this was called last.
    pub fn was_left(&self) -> bool {
        self.is_left.swap(false, Relaxed)
    }
}

impl Device for Window<'_> {
    fn name(&self) -> &str {
        self.below.name()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn borrow(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(from..from.checked_add(len)?)?;
        self.effort.read(len);
        Some(bytes)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let len = buf.len();
        if let Some(bytes) = self.borrow(offset, len) {
            buf.copy_from_slice(bytes);
            return Ok(());
        }
        self.is_left.store(true, Relaxed);
        Err(ReadError::io(offset, len as u64, "not read yet"))
    }
}

/// The read that brings all of `blocks`, if they lie near each other.
pub fn span(blocks: &mut [Request]) -> Option<Request> {
    blocks.sort_unstable();
    match blocks {
        [block] => (block.len <= READ_MAX).then_some(*block),
        _ => match coalesce(blocks, GAP, READ_MAX).as_slice() {
            [all] => Some(all.request),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_far_from_each_other_are_not_read_together() {
        let block = |offset| Request { offset, len: 4096 };
        assert_eq!(span(&mut [block(4096)]), Some(block(4096)));
        let near = span(&mut [block(20_000), block(4096)]);
        assert_eq!(near, Some(Request { offset: 4096, len: 20_000 }));
        assert_eq!(span(&mut [block(0), block(100_000)]), None);
        assert_eq!(span(&mut [Request { offset: 0, len: READ_MAX + 1 }]), None);
        assert_eq!(span(&mut []), None);
    }
}
