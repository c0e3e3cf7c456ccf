// SPDX-License-Identifier: MIT OR Apache-2.0
//! A window of another device: a partition, or the file system that starts at a given byte.

use std::sync::Arc;

use crate::{Device, Direct, ReadError, check_bounds};

/// `len` bytes of another device from `start`.
pub struct Slice<D: ?Sized = dyn Device> {
    name: String,
    inner: Arc<D>,
    start: u64,
    len: u64,
}

impl<D: Device + ?Sized> Slice<D> {
    /// The window of at most `len` bytes of `inner` from `start`. What of it lies beyond the end of `inner` does not
    /// count: the window of a partition on a truncated disk is as long as what is left of it.
    pub fn new(name: impl Into<String>, inner: Arc<D>, start: u64, len: u64) -> Self {
        let len = len.min(inner.len().saturating_sub(start));
        Slice { name: name.into(), inner, start, len }
    }

    /// The other device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Byte of the other device at which the window starts.
    pub fn start(&self) -> u64 {
        self.start
    }
}

impl<D: Device + ?Sized> Device for Slice<D> {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        check_bounds(offset, buf.len() as u64, self.len)?;
        // Within the window no sum can overflow: `start + len` is at most the length of `inner`.
        self.inner
            .read_at(self.start + offset, buf)
            .map_err(|error| ReadError { offset: error.offset.saturating_sub(self.start), ..error })
    }

    fn direct(&self) -> Option<Direct<'_>> {
        let direct = self.inner.direct()?;
        Some(Direct { shift: direct.shift.checked_add(self.start)?, ..direct })
    }

    fn readahead(&self, offset: u64, len: u64) {
        if offset < self.len {
            self.inner.readahead(self.start + offset, len.min(self.len - offset));
        }
    }

    fn memory_max(&self) -> u64 {
        self.inner.memory_max()
    }

    fn patch(&self, offset: u64, buf: &mut [u8]) {
        self.inner.patch(self.start.saturating_add(offset), buf);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::{any, proptest};

    use super::*;
    use crate::MemoryDevice;

    proptest! {
        #[test]
        fn a_window_shows_its_bytes_and_no_others(start in 0u64..300, len in any::<u64>(), offset in 0u64..300, want in 0usize..300) {
            let bytes: Vec<u8> = (0..=255).collect();
            let slice = Slice::new("s", Arc::new(MemoryDevice::new("m", bytes.clone())), start, len);
            let from = (start as usize).min(256);
            let window = &bytes[from..from + (256 - from).min(usize::try_from(len).unwrap_or(usize::MAX))];
            assert_eq!(slice.len(), window.len() as u64);
            let mut buf = vec![0; want];
            let result = slice.read_at(offset, &mut buf);
            match window.get(offset as usize..offset as usize + want) {
                Some(expected) => assert_eq!((result, buf.as_slice()), (Ok(()), expected)),
                None => assert_eq!(result, Err(ReadError::beyond_end(offset, want as u64))),
            }
        }
    }

    #[test]
    fn a_window_at_the_end_of_the_number_space_is_empty() {
        let slice = Slice::new("s", Arc::new(MemoryDevice::new("m", vec![0; 10])), u64::MAX, u64::MAX);
        assert!(slice.is_empty());
        slice.read_at(1, &mut [0]).unwrap_err();
    }
}
