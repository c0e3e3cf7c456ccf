// SPDX-License-Identifier: MIT OR Apache-2.0
//! For tests: devices with planned faults, and files that vanish.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fsmend_base::SeededRandom;

use crate::{Device, Direct, ReadError, check_bounds};

/// A device that fails where the test wants it to.
pub struct FaultyDevice<D> {
    inner: D,
    faults: Vec<Fault>,
    reads: AtomicU64,
}

/// Reads that touch `range` fail, for ever or as often as `left` says.
struct Fault {
    range: Range<u64>,
    left: Option<AtomicU32>,
}

impl<D: Device> FaultyDevice<D> {
    /// A device without faults.
    pub fn new(inner: D) -> Self {
        FaultyDevice { inner, faults: Vec::new(), reads: AtomicU64::new(0) }
    }

    /// The same device, on which reads of `range` fail: the first `times` of them, or all.
    pub fn with_fault(mut self, range: Range<u64>, times: Option<u32>) -> Self {
        self.faults.push(Fault { range, left: times.map(AtomicU32::new) });
        self
    }

    /// The same device with `count` bad sectors of 512 bytes, half of them for ever, half of them for one to three
    /// reads, at places that belong to `seed`.
    pub fn with_random_faults(mut self, seed: u64, count: usize) -> Self {
        let mut random = SeededRandom::new(seed);
        for index in 0..count {
            let start = random.below(self.inner.len() / 512) * 512;
            let times = if index % 2 == 0 { None } else { Some(1 + random.below(3) as u32) };
            self = self.with_fault(start..start + 512, times);
        }
        self
    }

    /// The ranges that fail for ever.
    pub fn lasting_faults(&self) -> impl Iterator<Item = Range<u64>> {
        self.faults.iter().filter(|fault| fault.left.is_none()).map(|fault| fault.range.clone())
    }

    /// How many reads there were.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
}

impl Fault {
    fn strikes(&self, start: u64, end: u64) -> bool {
        if self.range.start >= end || self.range.end <= start {
            return false;
        }
        match &self.left {
            None => true,
            Some(left) => {
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
            }
        }
    }
}

impl<D: Device> Device for FaultyDevice<D> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let len = buf.len() as u64;
        check_bounds(offset, len, self.len())?;
        if self.faults.iter().any(|fault| fault.strikes(offset, offset + len)) {
            buf.fill(0xEE);
            return Err(ReadError::io(offset, len, "planned fault"));
        }
        self.inner.read_at(offset, buf)
    }

    /// None: a direct read would go past the faults.
    fn direct(&self) -> Option<Direct<'_>> {
        None
    }
}

/// A file in the directory for temporary files, removed when dropped.
#[derive(Debug)]
pub struct TempFile(PathBuf);

impl TempFile {
    /// A new file that holds `bytes`. `label` makes its name readable.
    ///
    /// # Panics
    /// If it cannot be written: a test cannot go on without it.
    pub fn new(label: &str, bytes: &[u8]) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fsmend-{label}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).expect("the directory for temporary files can be written");
        TempFile(path)
    }

    /// Where the file lies.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Where file systems of [`OneFamily`] have their magic number, and where a copy of it.
pub(crate) const KNOWN_AT: u64 = 1080;
/// See [`KNOWN_AT`].
pub(crate) const KNOWN_COPY_AT: u64 = 100_000;
/// Their magic number.
pub(crate) const KNOWN_MAGIC: [u8; 2] = [0x53, 0xEF];
/// What one is.
pub(crate) const KNOWN_TITLE: &str = "a known file system";

/// Knows one family, by two bytes; with a zero behind them it is a superblock that can be one.
pub(crate) struct OneFamily;

impl crate::Recognise for OneFamily {
    fn trace(&self, device: &dyn crate::Device) -> Option<(crate::Trace, &'static str)> {
        let mut bytes = [0; 3];
        let mut has = |at: u64| device.read_at(at, &mut bytes).is_ok() && bytes[..2] == KNOWN_MAGIC;
        let is_copied = has(KNOWN_COPY_AT);
        let trace = match has(KNOWN_AT) {
            true if bytes[2] == 0 => crate::Trace::Superblock,
            true => crate::Trace::Magic,
            false if is_copied => crate::Trace::Copy,
            false => return None,
        };
        Some((trace, KNOWN_TITLE))
    }
}
