// SPDX-License-Identifier: MIT OR Apache-2.0
//! A limit on how fast is read, over all devices that share it: a bucket of tokens, one for each byte.
//!
//! The bucket holds what may be read in [`BURST_NS`]; it is full at first and fills at the limit's rate. A read is paid for before
//! its bytes are used, and waits until the bucket has enough (a read that is larger than the bucket, until it has been paid for in
//! full). So within any span of time no more is read than the rate allows, and one bucket. Instead of tokens, what is
//! kept is the moment at which the bucket will be full again; that takes one number and no thread that fills it.
//!
//! All reads count, also those that the page cache answers: it is not known which a plain read will be.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::{Device, Direct, ReadError};

/// How long the bucket takes to fill.
const BURST_NS: u64 = 100_000_000;

/// A wait checks this often whether the run was cancelled.
const SLICE_NS: u64 = 100_000_000;

/// Tells the time and lets it pass. The real one is the caller's; tests bring their own.
pub trait Pace: Send + Sync {
    /// Nanoseconds since any fixed point.
    fn now_ns(&self) -> u64;

    /// Waits.
    fn wait(&self, span: Duration);
}

/// So many bytes a second, and what has been used of them. Shared by all readers.
pub struct ReadLimit {
    bytes_per_second: u64,
    pace: Box<dyn Pace>,
    /// When the bucket will be full, if nothing else is read.
    full_at: Mutex<u64>,
    stop: Arc<AtomicBool>,
}

impl ReadLimit {
    /// A limit of `bytes_per_second` (at least 1).
    pub fn new(bytes_per_second: u64, pace: impl Pace + 'static) -> Self {
        ReadLimit {
            bytes_per_second: bytes_per_second.max(1),
            pace: Box::new(pace),
            full_at: Mutex::new(0),
            stop: Arc::default(),
        }
    }

    /// The same limit; reads no longer wait once `stop` is set.
    pub fn until(self, stop: &Arc<AtomicBool>) -> Self {
        ReadLimit { stop: Arc::clone(stop), ..self }
    }

    /// The limit.
    pub fn bytes_per_second(&self) -> u64 {
        self.bytes_per_second
    }

    /// Takes `bytes` from the bucket, and waits until they are there.
    pub fn take(&self, bytes: u64) {
        let due = self.book(bytes);
        while !self.stop.load(Relaxed) {
            let left = due.saturating_sub(self.pace.now_ns());
            if left == 0 {
                return;
            }
            self.pace.wait(Duration::from_nanos(left.min(SLICE_NS)));
        }
    }

    /// Books `bytes` and says from when on they may be read.
    fn book(&self, bytes: u64) -> u64 {
        let cost = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.bytes_per_second));
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        *full_at = (*full_at).max(self.pace.now_ns()).saturating_add(cost);
        full_at.saturating_sub(BURST_NS)
    }
}

impl fmt::Debug for ReadLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadLimit").field("bytes_per_second", &self.bytes_per_second).finish_non_exhaustive()
    }
}

/// A device whose reads keep to a limit.
#[derive(Debug)]
pub struct Limited<D> {
    inner: D,
    limit: Arc<ReadLimit>,
}

impl<D: Device> Limited<D> {
    /// `inner`, read no faster than `limit` allows.
    pub fn new(inner: D, limit: Arc<ReadLimit>) -> Self {
        Limited { inner, limit }
    }
}

impl<D: Device> Device for Limited<D> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.limit.take(buf.len() as u64);
        self.inner.read_at(offset, buf)
    }

    fn direct(&self) -> Option<Direct<'_>> {
        self.inner.direct().map(|direct| Direct { limit: Some(&self.limit), ..direct })
    }

    /// Nothing: what is read ahead would be read past the limit.
    fn readahead(&self, _offset: u64, _len: u64) {}

    fn patch(&self, offset: u64, buf: &mut [u8]) {
        self.inner.patch(offset, buf);
    }

    fn memory_max(&self) -> u64 {
        self.inner.memory_max()
    }
}

#[cfg(test)]
mod tests;
