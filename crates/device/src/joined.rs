// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two devices as one: a stretch in the middle of the first is another device, and what follows it there comes behind that.

use crate::{Device, ReadError, WritableDevice, WriteError, check_bounds};

/// A device with another one put into it.
pub struct Joined<A, B> {
    outer: A,
    inner: B,
    /// Where the other one begins, and how much of it there is.
    start: u64,
    len: u64,
}

/// A part of a range: in which device, from where, and where in the range.
struct Part {
    is_inner: bool,
    offset: u64,
    range: std::ops::Range<usize>,
}

impl<A: Device, B: Device> Joined<A, B> {
    /// `len` bytes of `inner` at `start` of `outer`; none where one of them is too short for that.
    pub fn new(outer: A, inner: B, (start, len): (u64, u64)) -> Option<Self> {
        let is_possible =
            start <= outer.len() && len <= inner.len() && outer.len().checked_add(len).is_some();
        is_possible.then_some(Joined { outer, inner, start, len })
    }

    fn parts(&self, offset: u64, len: usize) -> impl Iterator<Item = Part> {
        let (start, middle) = (self.start, self.len);
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset + done as u64;
            let (is_inner, offset, room) = match at.checked_sub(start) {
                None => (false, at, start - at),
                Some(within) if within < middle => (true, within, middle - within),
                Some(_) => (false, at - middle, u64::MAX),
            };
            let count = usize::try_from(room).unwrap_or(usize::MAX).min(len - done);
            let part = Part { is_inner, offset, range: done..done + count };
            done += count;
            (count > 0).then_some(part)
        })
    }
}

impl<A: Device, B: Device> Device for Joined<A, B> {
    fn name(&self) -> &str {
        self.outer.name()
    }

    fn len(&self) -> u64 {
        self.outer.len() + self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        check_bounds(offset, buf.len() as u64, self.len())?;
        for Part { is_inner, offset: at, range } in self.parts(offset, buf.len()) {
            let (begin, buf) = (range.start as u64, &mut buf[range]);
            let read = if is_inner { self.inner.read_at(at, buf) } else { self.outer.read_at(at, buf) };
            read.map_err(|error| ReadError { offset: offset + begin, ..error })?;
        }
        Ok(())
    }

    fn readahead(&self, offset: u64, len: u64) {
        for Part { is_inner, offset, range } in self.parts(offset, usize::try_from(len).unwrap_or(0)) {
            let len = range.len() as u64;
            if is_inner { self.inner.readahead(offset, len) } else { self.outer.readahead(offset, len) }
        }
    }

    fn memory_max(&self) -> u64 {
        self.outer.memory_max().saturating_add(self.inner.memory_max())
    }
}

impl<A: WritableDevice, B: WritableDevice> WritableDevice for Joined<A, B> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        if check_bounds(offset, bytes.len() as u64, self.len()).is_err() {
            return Err(WriteError { offset, len: bytes.len() as u64, kind: crate::WriteErrorKind::NoSpace });
        }
        for Part { is_inner, offset: at, range } in self.parts(offset, bytes.len()) {
            let (begin, bytes) = (range.start as u64, &bytes[range]);
            let wrote =
                if is_inner { self.inner.write_at(at, bytes) } else { self.outer.write_at(at, bytes) };
            wrote.map_err(|error| WriteError { offset: offset + begin, ..error })?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), WriteError> {
        self.outer.sync()?;
        self.inner.sync()
    }

    fn forget(&self, offset: u64, len: u64) {
        for Part { is_inner, offset, range } in self.parts(offset, usize::try_from(len).unwrap_or(0)) {
            let len = range.len() as u64;
            if is_inner { self.inner.forget(offset, len) } else { self.outer.forget(offset, len) }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{MemoryDevice, WritableMemory};

    #[test]
    fn the_other_one_is_in_the_middle() {
        let outer = MemoryDevice::new("outer", vec![1, 2, 3, 4]);
        let joined = Joined::new(outer, MemoryDevice::new("inner", vec![7, 8, 9]), (1, 2)).unwrap();
        let mut all = [0; 6];
        joined.read_at(0, &mut all).unwrap();
        assert_eq!(all, [1, 7, 8, 2, 3, 4]);
        let mut some = [0; 2];
        joined.read_at(2, &mut some).unwrap();
        assert_eq!(some, [8, 2]);
        joined.read_at(5, &mut some).unwrap_err();
        joined.readahead(0, 6);
        let none = |place| {
            Joined::new(MemoryDevice::new("a", vec![0; 4]), MemoryDevice::new("b", vec![0; 3]), place)
                .is_none()
        };
        assert!(none((5, 1)) && none((0, 4)) && none((0, u64::MAX)));
    }

    #[test]
    fn both_are_written() {
        let (outer, inner) =
            (WritableMemory::new("outer", vec![0; 4]), WritableMemory::new("inner", vec![0; 2]));
        let joined = Joined::new(&outer, &inner, (2, 2)).unwrap();
        joined.write_at(1, &[1, 2, 3, 4, 5]).unwrap();
        joined.write_at(3, &[6]).unwrap();
        joined.write_at(5, &[7, 8]).unwrap_err();
        joined.sync().unwrap();
        joined.forget(0, 6);
        assert_eq!((outer.bytes(), inner.bytes()), (vec![0, 1, 4, 5], vec![2, 6]));
    }
}
