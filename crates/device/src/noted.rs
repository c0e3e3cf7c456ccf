// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device that remembers where it could not be read, so that the sectors can be reported.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::{Device, Direct, ReadError, ReadErrorKind};

/// Sectors are counted in these, as the kernel and most tools do.
const SECTOR_BYTES: u64 = 512;
/// A failed read of at most so many bytes tells where the bad place is (what reads around bad places asks for no less); a larger one only that
/// there is one in it.
const EXACT_BYTES_MAX: u64 = 4096;
/// So many places are remembered.
const PLACES_MAX: usize = 10_000;

/// Remembers the failed reads of the device under it. Direct reads that fail are repeated through [`Device::read_at`], and so are seen.
#[derive(Debug)]
pub struct Noted<D> {
    inner: D,
    /// First byte and length.
    failed: Mutex<BTreeSet<(u64, u64)>>,
}

impl<D: Device> Noted<D> {
    /// Nothing has failed yet.
    pub fn new(inner: D) -> Self {
        Noted { inner, failed: Mutex::default() }
    }

    /// The sectors (of 512 bytes) that could not be read, counted from the beginning of the file or block device if that is known,
    /// else of this device. In order, neighbours joined. All of a small read that fails counts, for the kernel reads no less than a page.
    pub fn sectors(&self) -> Vec<Range<u64>> {
        let shift = self.inner.direct().map_or(0, |direct| direct.shift);
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (small, large): (Vec<_>, Vec<_>) =
            failed.into_iter().partition(|(_, len)| *len <= EXACT_BYTES_MAX);
        let range = |(start, len): (u64, u64)| start..start.saturating_add(len);
        let mut exact = joined(small.into_iter().map(range).collect());
        // Of a large one the bad part is known, if it was looked for.
        let is_explained = |large: &Range<u64>| {
            let next = exact.partition_point(|part| part.end <= large.start);
            exact.get(next).is_some_and(|part| part.start < large.end)
        };
        let unexplained: Vec<_> = large.into_iter().map(range).filter(|range| !is_explained(range)).collect();
        exact.extend(unexplained);
        let sector = |byte: u64| byte.saturating_add(shift) / SECTOR_BYTES;
        let last = |end: u64| end.saturating_add(shift).div_ceil(SECTOR_BYTES);
        let sectors = exact.into_iter().map(|range| sector(range.start)..last(range.end));
        joined(sectors.collect())
    }

    fn note(&self, error: &ReadError) {
        if error.kind == ReadErrorKind::BeyondEnd {
            return;
        }
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.len() < PLACES_MAX {
            failed.insert((error.offset, error.len));
        }
    }
}

/// In order, what touches in one piece.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

impl<D: Device> Device for Noted<D> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.inner.read_at(offset, buf).inspect_err(|error| {
            self.note(&ReadError { offset, len: buf.len() as u64, kind: error.kind.clone() });
        })
    }

    fn memory_max(&self) -> u64 {
        self.inner.memory_max()
    }

    fn direct(&self) -> Option<Direct<'_>> {
        self.inner.direct()
    }

    fn readahead(&self, offset: u64, len: u64) {
        self.inner.readahead(offset, len);
    }

    fn patch(&self, offset: u64, buf: &mut [u8]) {
        self.inner.patch(offset, buf);
    }
}

#[cfg(test)]
mod tests {
    // A range that is an element, and no list of numbers, is what is meant.
    #![allow(clippy::single_range_in_vec_init)]

    use super::*;
    use crate::MemoryDevice;
    use crate::salvage;
    use crate::testing::FaultyDevice;

    fn with_bad_sectors(sectors: &[u64]) -> FaultyDevice<MemoryDevice> {
        let sound = FaultyDevice::new(MemoryDevice::new("m", vec![9; 64 << 10]));
        sectors.iter().fold(sound, |device, sector| device.with_fault(sector * 512..sector * 512 + 512, None))
    }

    #[test]
    fn what_cannot_be_read_is_told_by_sector() {
        let device = Noted::new(with_bad_sectors(&[17, 100, 105]));
        assert!(device.sectors().is_empty());
        assert_eq!(salvage(&device, 0, &mut vec![0; 64 << 10]).len(), 2);
        assert_eq!(device.sectors(), [16..24, 96..112], "the page around each");
        assert!(device.read_at(17 * 512, &mut [0; 512]).is_err());
        assert_eq!(device.sectors(), [16..24, 96..112], "and once");
    }

    #[test]
    fn a_large_read_counts_as_long_as_nothing_better_is_known() {
        let device = Noted::new(with_bad_sectors(&[20]));
        assert!(device.read_at(8192, &mut [0; 8192]).is_err());
        assert_eq!(device.sectors(), [16..32]);
        assert!(device.read_at(20 * 512, &mut [0; 512]).is_err());
        assert_eq!(device.sectors(), [20..21]);
        assert!(device.read_at(64 << 10, &mut [0; 1]).is_err());
        assert_eq!(device.sectors(), [20..21], "beyond the end there are no sectors");
    }
}
