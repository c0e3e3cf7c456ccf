// SPDX-License-Identifier: MIT OR Apache-2.0
//! What small reads have brought, remembered: repeated looks at the same records do not ask the operating system each time.
//!
//! A repair looks at every damaged record a dozen times: to inspect it, to find its names, to mend it, to look at it once more. What is read
//! in large pieces is read once, and passed on.

use std::sync::{Mutex, PoisonError};

use fsmend_base::width;

use crate::{Device, Direct, ReadError};

/// Bytes that are remembered together.
const PAGE_BYTES: usize = 4096;

/// A device that is not written below: what was read once stays so.
pub struct Remembered<D> {
    inner: D,
    /// Each page has one slot in which it can be.
    slots: Box<[Mutex<Slot>]>,
}

/// What a slot holds: the number of a page, and its bytes. A page that could not be read has none, and is not tried again as a whole.
#[derive(Default)]
struct Slot(Option<(u64, Vec<u8>)>);

impl<D: Device> Remembered<D> {
    /// Remembers at most `memory` bytes of `inner`.
    pub fn new(inner: D, memory: u64) -> Self {
        let pages = memory.min(inner.len()) / PAGE_BYTES as u64;
        let slots = (0..pages).map(|_| Mutex::default()).collect();
        Remembered { inner, slots }
    }

    /// The slot of a page; `None` if nothing is remembered.
    fn slot(&self, page: u64) -> Option<&Mutex<Slot>> {
        let index = page.checked_rem(self.slots.len() as u64)?;
        self.slots.get(width::index(index))
    }

    /// Copies the part of `page` from `at` on into `buf`; whether that could be done.
    fn copy(&self, page: u64, at: usize, buf: &mut [u8]) -> bool {
        let start = page * PAGE_BYTES as u64;
        // The page at the end of the device may be a part of one: it is not remembered.
        let is_whole = start + PAGE_BYTES as u64 <= self.inner.len();
        let Some(slot) = self.slot(page).filter(|_| is_whole) else { return false };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.0.as_ref().is_none_or(|(number, _)| *number != page) {
            let mut bytes = slot.0.take().map(|(_, bytes)| bytes).unwrap_or_default();
            bytes.resize(PAGE_BYTES, 0);
            if self.inner.read_at(start, &mut bytes).is_err() {
                bytes.clear();
            }
            slot.0 = Some((page, bytes));
        }
        let part = slot.0.as_ref().and_then(|(_, bytes)| bytes.get(at..at + buf.len()));
        part.map(|part| buf.copy_from_slice(part)).is_some()
    }
}

impl<D: Device> Device for Remembered<D> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let (page, at) = (offset / PAGE_BYTES as u64, width::index(offset % PAGE_BYTES as u64));
        let is_in_one_page = !buf.is_empty() && at + buf.len() <= PAGE_BYTES;
        if is_in_one_page && self.copy(page, at, buf) { Ok(()) } else { self.inner.read_at(offset, buf) }
    }

    fn memory_max(&self) -> u64 {
        self.inner.memory_max() + (self.slots.len() * (PAGE_BYTES + size_of::<Mutex<Slot>>())) as u64
    }

    /// That is what this device is for.
    fn is_at_rest(&self, _offset: u64, _len: u64) -> bool {
        true
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
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::testing::FaultyDevice;
    use crate::{Counted, MemoryDevice};

    fn device() -> MemoryDevice {
        MemoryDevice::new("m", (0..40_000u32).map(|at| (at / 100) as u8).collect())
    }

    #[test]
    fn what_was_read_once_is_not_read_again() {
        let (counted, plain) = (Counted::new(device()), device());
        let remembered = Remembered::new(&counted, 1 << 20);
        let read = |offset: u64, len: usize| {
            let (mut buf, mut expected) = (vec![0; len], vec![0; len]);
            let result = remembered.read_at(offset, &mut buf);
            assert_eq!(result, plain.read_at(offset, &mut expected));
            assert!(result.is_err() || buf == expected, "{len} bytes from {offset}");
            counted.total().1
        };
        assert_eq!(read(5000, 100), 1);
        assert_eq!(read(4096, 4096), 1);
        assert_eq!(read(8191, 2), 2, "two pages are no small read");
        assert_eq!(read(39_000, 10), 3, "the last page is not whole");
        assert_eq!(read(39_000, 10), 4);
        assert_eq!(read(39_999, 10), 5);
        assert_eq!((read(0, 0), read(40_000, 0)), (6, 7));
    }

    #[test]
    fn pages_that_share_a_slot_replace_each_other() {
        let counted = Counted::new(device());
        let remembered = Remembered::new(&counted, 2 * 4096);
        for (offset, requests) in [(0, 1), (8192, 2), (0, 3), (4096, 4), (0, 4), (4096, 4)] {
            let mut buf = [0; 8];
            remembered.read_at(offset, &mut buf).unwrap();
            assert_eq!((buf[0], counted.total().1), ((offset / 100) as u8, requests));
        }
        let none = Remembered::new(&counted, 4095);
        none.read_at(0, &mut [0; 8]).unwrap();
        assert_eq!((counted.total().1, none.memory_max()), (5, 0));
    }

    #[test]
    fn around_a_bad_sector_what_is_asked_for_is_read() {
        let faulty = FaultyDevice::new(device()).with_fault(4096..4608, None);
        let remembered = Remembered::new(&faulty, 1 << 20);
        let mut buf = [0; 100];
        remembered.read_at(5000, &mut buf).unwrap();
        assert_eq!((buf[0], faulty.reads()), (50, 2));
        remembered.read_at(5000, &mut buf).unwrap();
        assert_eq!(faulty.reads(), 3, "the whole page is not tried again");
        remembered.read_at(4500, &mut buf).unwrap_err();
    }
}
