// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device that counts what is read from it, for statistics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{Device, Direct, ReadError};

/// Counts the reads of the device under it, the direct ones among them (each is reported by [`Device::patch`]).
#[derive(Debug)]
pub struct Counted<D> {
    inner: D,
    bytes: AtomicU64,
    requests: AtomicU64,
}

impl<D: Device> Counted<D> {
    /// Nothing read yet.
    pub fn new(inner: D) -> Self {
        Counted { inner, bytes: AtomicU64::new(0), requests: AtomicU64::new(0) }
    }

    /// Bytes and requests so far.
    pub fn total(&self) -> (u64, u64) {
        (self.bytes.load(Relaxed), self.requests.load(Relaxed))
    }

    fn count(&self, len: usize) {
        self.bytes.fetch_add(len as u64, Relaxed);
        self.requests.fetch_add(1, Relaxed);
    }
}

impl<D: Device> Device for Counted<D> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.count(buf.len());
        self.inner.read_at(offset, buf)
    }

    fn memory_max(&self) -> u64 {
        self.inner.memory_max()
    }

    fn is_at_rest(&self, offset: u64, len: u64) -> bool {
        self.inner.is_at_rest(offset, len)
    }

    fn direct(&self) -> Option<Direct<'_>> {
        self.inner.direct()
    }

    fn readahead(&self, offset: u64, len: u64) {
        self.inner.readahead(offset, len);
    }

    fn patch(&self, offset: u64, buf: &mut [u8]) {
        self.count(buf.len());
        self.inner.patch(offset, buf);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::Counted;
    use crate::{Device, MemoryDevice};

    #[test]
    fn every_read_counts_once() {
        let device = Counted::new(MemoryDevice::new("m", vec![7; 4096]));
        device.read_at(0, &mut [0; 100]).unwrap();
        device.patch(0, &mut [0; 28]);
        assert_eq!(device.total(), (128, 2));
        assert_eq!((device.name(), device.len(), device.is_empty()), ("m", 4096, false));
        assert!(device.direct().is_none());
        device.readahead(0, 4096);
        assert_eq!(device.total(), (128, 2));
    }
}
