// SPDX-License-Identifier: MIT OR Apache-2.0
//! The image as it will be: bytes in memory over a device that stays as it is.
//!
//! What was written is kept as runs of bytes that neither overlap nor are empty, in a map sorted by address, so that
//! a lookup where nothing was written costs one search. Reading asks the device below only for what no run covers: an
//! overlaid block hides a bad sector. A copy of what lies elsewhere on that device is kept as a reference to it, which takes no memory
//! for the bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use fsmend_base::width;

use crate::{Device, Direct, ReadError, check_bounds};

/// What the map takes for a run beside its bytes.
const RUN_BYTES: u64 = 64;

/// Bytes that are to be copied within a device, as they are before anything is written to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BlockCopy {
    /// Byte offset to which they go.
    pub to: u64,
    /// Byte offset from which they come.
    pub from: u64,
    /// How many.
    pub len: u64,
}

impl BlockCopy {
    /// The first byte behind the place to which they go.
    pub fn end(&self) -> u64 {
        self.to.saturating_add(self.len)
    }

    /// The part of it that goes to `start..end`, if there is one.
    pub fn part(&self, start: u64, end: u64) -> Option<BlockCopy> {
        let (to, end) = (self.to.max(start), self.end().min(end));
        (to < end).then(|| BlockCopy { to, from: self.from + (to - self.to), len: end - to })
    }
}

/// Copy-on-write bytes over another device.
pub struct Overlay<D> {
    inner: D,
    runs: BTreeMap<u64, Vec<u8>>,
    bytes_held: u64,
    /// By the place to which they go. None overlaps another, or a run.
    copies: BTreeMap<u64, BlockCopy>,
}

impl<D: Device> Overlay<D> {
    /// An overlay in which nothing has been written yet. `inner` may be borrowed (`&dyn Device`) or shared
    /// (`Arc<dyn Device>`).
    pub fn new(inner: D) -> Self {
        Overlay { inner, runs: BTreeMap::new(), bytes_held: 0, copies: BTreeMap::new() }
    }

    /// The device below.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Puts `bytes` at `offset`. Fails only where the device ends.
    pub fn write<'b>(&mut self, offset: u64, bytes: impl Into<Cow<'b, [u8]>>) -> Result<(), ReadError> {
        let bytes = bytes.into();
        let len = bytes.len() as u64;
        check_bounds(offset, len, self.inner.len())?;
        if len == 0 || self.write_in_place(offset, &bytes) {
            return Ok(());
        }
        self.cut(offset, offset + len);
        self.runs.insert(offset, bytes.into_owned());
        self.bytes_held += len;
        Ok(())
    }

    /// Puts what the device below holds at one place at another, too. Fails only where the device ends.
    pub fn copy(&mut self, copy: BlockCopy) -> Result<(), ReadError> {
        let BlockCopy { to, from, len } = copy;
        check_bounds(to, len, self.inner.len())?;
        check_bounds(from, len, self.inner.len())?;
        if len == 0 {
            return Ok(());
        }
        self.cut(to, copy.end());
        let before = self.copies.range_mut(..to).next_back().map(|(_, before)| before);
        match before.filter(|before| before.end() == to && before.from + before.len == from) {
            Some(before) => before.len += len,
            None => {
                self.copies.insert(to, copy);
            }
        }
        Ok(())
    }

    /// Whether nothing has been written.
    pub fn is_unchanged(&self) -> bool {
        self.runs.is_empty() && self.copies.is_empty()
    }

    /// Whether a part of `len` bytes from `offset` on was written.
    pub fn covers(&self, offset: u64, len: u64) -> bool {
        let end = offset.saturating_add(len);
        self.overlapping(offset, end).next().is_some() || self.copies_within(offset, end).next().is_some()
    }

    /// Number of bytes that lie over the device.
    pub fn bytes_held(&self) -> u64 {
        self.bytes_held
    }

    /// The overlaid runs, in address order; they do not overlap, but may touch.
    pub fn runs(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.runs.iter().map(|(offset, bytes)| (*offset, bytes.as_slice()))
    }

    /// The copies, in the order of the addresses to which they go.
    pub fn copies(&self) -> impl Iterator<Item = BlockCopy> {
        self.copies.values().copied()
    }

    /// The overlaid runs, and the copies, taken out.
    pub fn into_runs(self) -> (impl Iterator<Item = (u64, Vec<u8>)>, Vec<BlockCopy>) {
        (self.runs.into_iter(), self.copies.into_values().collect())
    }

    /// Overwrites within one run: the usual case when a block is written again.
    fn write_in_place(&mut self, offset: u64, bytes: &[u8]) -> bool {
        let Some((start, run)) = self.runs.range_mut(..=offset).next_back() else { return false };
        let within = usize::try_from(offset - start).unwrap_or(usize::MAX);
        match within.checked_add(bytes.len()).and_then(|end| run.get_mut(within..end)) {
            Some(place) => {
                place.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }

    /// Removes `start..end` from all runs and copies; what one has left and right of it stays.
    fn cut(&mut self, start: u64, end: u64) {
        let cut: Vec<BlockCopy> = self.copies_within(start, end).collect();
        for copy in cut {
            self.copies.remove(&copy.to);
            let rest = [copy.part(0, start), copy.part(end, u64::MAX)];
            self.copies.extend(rest.into_iter().flatten().map(|part| (part.to, part)));
        }
        let touched: Vec<u64> = self.overlapping(start, end).map(|(at, _)| at).collect();
        for at in touched {
            let Some(mut run) = self.runs.remove(&at) else { continue };
            self.bytes_held -= run.len() as u64;
            if at + run.len() as u64 > end {
                let right = run.split_off(width::index(end - at));
                self.bytes_held += right.len() as u64;
                self.runs.insert(end, right);
            }
            if at < start {
                run.truncate(width::index(start - at));
                self.bytes_held += run.len() as u64;
                self.runs.insert(at, run);
            }
        }
    }

    /// The copies that go to `start..end`, whole ones, in address order.
    fn copies_within(&self, start: u64, end: u64) -> impl Iterator<Item = BlockCopy> {
        let before = self.copies.range(..start).next_back().filter(|(_, copy)| copy.end() > start);
        let within = (start < end).then(|| self.copies.range(start..end)).into_iter().flatten();
        before.into_iter().chain(within).map(|(_, copy)| *copy)
    }

    /// Fills `buf` from `offset` on, where no run lies.
    fn read_between(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let end = offset + buf.len() as u64;
        let mut done = offset;
        for copy in self.copies_within(offset, end).filter_map(|copy| copy.part(offset, end)) {
            self.inner
                .read_at(done, &mut buf[width::index(done - offset)..width::index(copy.to - offset)])?;
            done = copy.end();
            self.inner
                .read_at(copy.from, &mut buf[width::index(copy.to - offset)..width::index(done - offset)])?;
        }
        if done < end { self.inner.read_at(done, &mut buf[width::index(done - offset)..]) } else { Ok(()) }
    }

    /// The runs that have bytes in `start..end`, in address order.
    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let before = self.runs.range(..start).next_back().filter(|(at, run)| *at + run.len() as u64 > start);
        let within = (start < end).then(|| self.runs.range(start..end)).into_iter().flatten();
        before.into_iter().chain(within).map(|(at, run)| (*at, run.as_slice()))
    }
}

impl<D: Device> Device for Overlay<D> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        check_bounds(offset, buf.len() as u64, self.len())?;
        let end = offset + buf.len() as u64;
        let mut done = offset;
        for (at, run) in self.overlapping(offset, end) {
            if done < at {
                self.read_between(done, &mut buf[width::index(done - offset)..width::index(at - offset)])?;
            }
            copy_run(at, run, offset, buf);
            done = at + run.len() as u64;
        }
        if done < end { self.read_between(done, &mut buf[width::index(done - offset)..]) } else { Ok(()) }
    }

    /// What is copied has to be read from elsewhere, which may fail: a patch cannot say so.
    fn direct(&self) -> Option<Direct<'_>> {
        if self.copies.is_empty() { self.inner.direct() } else { None }
    }

    fn readahead(&self, offset: u64, len: u64) {
        self.inner.readahead(offset, len);
    }

    fn memory_max(&self) -> u64 {
        let runs = (self.runs.len() + self.copies.len()) as u64;
        self.inner.memory_max() + self.bytes_held + runs * RUN_BYTES
    }

    fn is_at_rest(&self, offset: u64, len: u64) -> bool {
        !self.covers(offset, len) && self.inner.is_at_rest(offset, len)
    }

    fn patch(&self, offset: u64, buf: &mut [u8]) {
        self.inner.patch(offset, buf);
        if self.runs.is_empty() {
            return;
        }
        for (at, run) in self.overlapping(offset, offset.saturating_add(buf.len() as u64)) {
            copy_run(at, run, offset, buf);
        }
    }
}

/// Copies what `run`, which starts at `at`, has of the bytes that `buf`, which starts at `offset`, shows.
fn copy_run(at: u64, run: &[u8], offset: u64, buf: &mut [u8]) {
    let skip = width::index(offset.saturating_sub(at));
    let place = width::index(at.saturating_sub(offset));
    let (Some(run), Some(buf)) = (run.get(skip..), buf.get_mut(place..)) else { return };
    let count = run.len().min(buf.len());
    buf[..count].copy_from_slice(&run[..count]);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::collection::vec;
    use proptest::prelude::{any, proptest};

    use super::*;
    use crate::MemoryDevice;
    use crate::testing::FaultyDevice;

    proptest! {
        #[test]
        fn an_overlay_equals_a_plain_buffer(
            writes in vec((0usize..520, vec(any::<u8>(), 0..80), proptest::option::of(0usize..512)), 0..40),
            reads in vec((0usize..512, 0usize..512), 1..20),
        ) {
            let mut model: Vec<u8> = (0..512).map(|i| i as u8).collect();
            let (before, below) = (model.clone(), MemoryDevice::new("m", model.clone()));
            let mut overlay = Overlay::new(&below);
            let mut has_copies = false;
            for (offset, bytes, from) in writes {
                let fits = offset.max(from.unwrap_or(0)) + bytes.len() <= model.len();
                let (to, len) = (offset as u64, bytes.len() as u64);
                match from {
                    Some(from) => {
                        let copied = overlay.copy(BlockCopy { to, from: from as u64, len });
                        assert_eq!(copied.is_ok(), fits);
                        has_copies |= fits && len > 0;
                    }
                    None => assert_eq!(overlay.write(to, &bytes).is_ok(), fits),
                }
                if fits {
                    let bytes = from.map_or(bytes.as_slice(), |from| &before[from..from + bytes.len()]);
                    model[offset..offset + bytes.len()].copy_from_slice(bytes);
                    assert!(len == 0 || overlay.covers(to, len));
                }
            }
            for (offset, len) in reads {
                let expected = &model[offset..(offset + len).min(512)];
                let mut buf = vec![0; expected.len()];
                overlay.read_at(offset as u64, &mut buf).unwrap();
                assert_eq!(buf, expected);
                if has_copies {
                    continue;
                }
                below.read_at(offset as u64, &mut buf).unwrap();
                overlay.patch(offset as u64, &mut buf);
                assert_eq!(buf, expected, "a direct read and a patch give the same");
            }
            let (mut last_end, mut held) = (0, 0);
            for (at, run) in overlay.runs() {
                assert!(at >= last_end && !run.is_empty(), "runs are sorted, apart and not empty");
                assert_eq!(run, &model[at as usize..at as usize + run.len()]);
                last_end = at + run.len() as u64;
                held += run.len() as u64;
            }
            assert_eq!(held, overlay.bytes_held());
            let mut last_end = 0;
            for copy in overlay.copies() {
                assert!(copy.to >= last_end && copy.len > 0, "copies are sorted, apart and not empty");
                assert!(overlay.overlapping(copy.to, copy.end()).next().is_none(), "no run lies over a copy");
                last_end = copy.end();
            }
        }
    }

    #[test]
    fn copies_take_no_memory_for_their_bytes() {
        let below = MemoryDevice::new("m", (0..1 << 20).map(|at: u32| (at >> 10) as u8).collect());
        let mut overlay = Overlay::new(&below);
        for block in 0..256 {
            overlay.copy(BlockCopy { to: 524_288 + block * 1024, from: block * 1024, len: 1024 }).unwrap();
        }
        assert_eq!(overlay.copies().count(), 1, "neighbours are one copy");
        assert_eq!((overlay.bytes_held(), overlay.memory_max()), (0, RUN_BYTES));
        overlay.write(524_288 + 512, &[255; 1024]).unwrap();
        let mut buf = [0; 4096];
        overlay.read_at(524_288, &mut buf).unwrap();
        assert_eq!((buf[511], buf[512], buf[1535], buf[1536], buf[4095]), (0, 255, 255, 1, 3));
        assert!(overlay.direct().is_none());
    }

    #[test]
    fn an_overlaid_block_hides_a_bad_sector() {
        let below = FaultyDevice::new(MemoryDevice::new("m", vec![1; 4096])).with_fault(1024..2048, None);
        let mut overlay = Overlay::new(below);
        let mut buf = [0; 4096];
        overlay.read_at(0, &mut buf).unwrap_err();
        overlay.write(1024, &[2; 1024]).unwrap();
        overlay.read_at(0, &mut buf).unwrap();
        assert_eq!((buf[1023], buf[1024], buf[2048]), (1, 2, 1));
    }
}
