// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file system as the repair under way leaves it: bytes laid over the device, read back by whatever is mended next.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

use fsmend_base::width;
use fsmend_device::{BlockCopy, Device, Direct, Overlay, ReadError};

use super::changes::Changes;
use super::mends::Mend;
use crate::Edit;
use crate::edits::{Cause, Part};
use crate::pool::{self, PoolConfig, Stage};

/// The work of comparing what was written with what lay there.
const COMPARISON: &[Stage; 1] = &[Stage { name: "changes", pass: 0 }];
/// So many runs are one batch of it: fewer are not worth a thread.
const RUNS_PER_SLICE: usize = 256;
/// Neighbours are read together as long as they are not more bytes than these.
const BYTES_AT_ONCE: usize = 256 << 10;

/// An overlay that is written through a shared reference, so that the checks' own functions can read what has been mended.
/// Only one thread writes, in a fixed order.
pub struct RepairOverlay<'d> {
    below: &'d dyn Device,
    laid: RwLock<Laid<'d>>,
}

struct Laid<'d> {
    overlay: Overlay<&'d dyn Device>,
    /// What is being mended.
    part: Option<Part>,
    mends: Vec<Mend>,
}

impl Laid<'_> {
    fn put<'b>(&mut self, offset: u64, bytes: impl Into<Cow<'b, [u8]>>) {
        let bytes = bytes.into();
        let len = bytes.len() as u64;
        let result = self.overlay.write(offset, bytes);
        self.note(offset, len, result);
    }

    /// Notes what `len` bytes at `offset` are for, if they were laid: nothing is laid behind the end.
    fn note(&mut self, offset: u64, len: u64, result: Result<(), ReadError>) {
        if result.is_ok()
            && let Some(part) = self.part
        {
            Mend::add(&mut self.mends, Mend { offset, len, cause: Cause::Part(part) });
        }
    }
}

/// A device that is written in memory only.
pub trait WritableOverlay: Device {
    /// Says what is mended by what is written from now on.
    fn mending(&self, part: Option<Part>);

    /// Says what some of the bytes that were written are for.
    fn note(&self, mend: Mend);

    /// Puts `bytes` at `offset`. What lies behind the end of the device is left out: nothing could be written there, and the next
    /// look says what is wrong.
    fn write(&self, offset: u64, bytes: &[u8]);

    /// The same, for bytes that are not needed any more: they are not copied.
    fn put(&self, offset: u64, bytes: Vec<u8>);

    /// Puts `bytes`, which were read at `from`, at `to`. They take no memory where they lie at `from` for good.
    fn put_copy(&self, _from: u64, to: u64, bytes: Vec<u8>) {
        self.put(to, bytes);
    }

    /// Memory that what was written takes.
    fn bytes_written(&self) -> u64;

    /// Reads what was there before anything was written.
    fn read_before(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError>;
}

impl WritableOverlay for RepairOverlay<'_> {
    fn mending(&self, part: Option<Part>) {
        self.laid().part = part;
    }

    fn note(&self, mend: Mend) {
        Mend::add(&mut self.laid().mends, mend);
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        self.laid().put(offset, bytes);
    }

    fn put(&self, offset: u64, bytes: Vec<u8>) {
        self.laid().put(offset, bytes);
    }

    fn put_copy(&self, from: u64, to: u64, bytes: Vec<u8>) {
        let (mut laid, len) = (self.laid(), bytes.len() as u64);
        if !laid.overlay.is_at_rest(from, len) {
            return laid.put(to, bytes);
        }
        let result = laid.overlay.copy(BlockCopy { to, from, len });
        laid.note(to, len, result);
    }

    fn bytes_written(&self) -> u64 {
        self.memory_max() - self.below.memory_max()
    }

    fn read_before(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.below.read_at(offset, buf)
    }
}

impl<'d> RepairOverlay<'d> {
    /// Nothing written yet.
    pub fn new(below: &'d dyn Device) -> Self {
        let laid = Laid { overlay: Overlay::new(below), part: None, mends: Vec::new() };
        RepairOverlay { below, laid: RwLock::new(laid) }
    }

    /// Lays edits down, in their order.
    pub fn lay(&self, edits: Vec<Edit>) {
        let mut laid = self.laid();
        for Edit { offset, bytes, mends, .. } in edits {
            let len = bytes.len() as u64;
            // As in `put`.
            if laid.overlay.write(offset, bytes.into_vec()).is_ok() {
                Mend::add(&mut laid.mends, Mend { offset, len, cause: mends });
            }
        }
    }

    /// What has been written so far, and what for.
    pub fn take_mends(&self) -> Vec<Mend> {
        std::mem::take(&mut self.laid().mends)
    }

    fn laid(&self) -> RwLockWriteGuard<'_, Laid<'d>> {
        self.laid.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has been written and differs from what lay there, in ascending order, and the copies of which that is true. The `pool` compares.
    pub fn into_changes(self, pool: PoolConfig<'_>) -> (Changes, Vec<BlockCopy>) {
        let Laid { overlay, .. } = self.laid.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (runs, mut copies) = overlay.into_runs();
        let mut runs: Changes = runs.collect();
        let numbers: Vec<usize> = (0..runs.len()).collect();
        let compare = |equal: &mut Vec<usize>, part: &[usize]| {
            let part = part.iter().filter_map(|number| Some((*number, runs.get(*number)?)));
            note_equal(self.below, &part.collect::<Vec<_>>(), equal);
        };
        let cancel = AtomicBool::new(false);
        let equal =
            pool::run_slices(pool, COMPARISON, &numbers, RUNS_PER_SLICE, &cancel, |_| Vec::new(), compare);
        let equal: HashSet<usize> = equal.into_iter().flatten().collect();
        let mut numbers = numbers.into_iter();
        runs.retain(|_| numbers.next().is_none_or(|number| !equal.contains(&number)));
        copies.retain(|copy| changes_something(self.below, *copy));
        (runs, copies)
    }
}

/// Whether what `copy` brings is not there already.
fn changes_something(below: &dyn Device, copy: BlockCopy) -> bool {
    let mut buffers = [const { Vec::new() }; 2];
    let mut done = 0;
    while done < copy.len {
        let len = (copy.len - done).min(BYTES_AT_ONCE as u64);
        let [from, to] = &mut buffers;
        for (place, buf) in [(copy.from, &mut *from), (copy.to, &mut *to)] {
            buf.resize(width::index(len), 0);
            if below.read_at(place + done, buf).is_err() {
                return true;
            }
        }
        if from != to {
            return true;
        }
        done += len;
    }
    false
}

/// Adds the numbers of those of `runs` to `equal` that are what lies on `below`. Neighbours are read together.
fn note_equal(below: &dyn Device, runs: &[(usize, &(u64, Vec<u8>))], equal: &mut Vec<usize>) {
    let mut before: Vec<u8> = Vec::new();
    let touches = |a: &(u64, Vec<u8>), b: &(u64, Vec<u8>)| a.0 + a.1.len() as u64 == b.0;
    for mut neighbours in runs.chunk_by(|a, b| touches(a.1, b.1)) {
        while let Some((_, (start, _))) = neighbours.first() {
            let mut len = 0;
            let fits = |run: &&(usize, &(u64, Vec<u8>))| {
                len += run.1.1.len();
                len <= BYTES_AT_ONCE
            };
            let (part, behind) = neighbours.split_at(neighbours.iter().take_while(fits).count().max(1));
            neighbours = behind;
            let len: usize = part.iter().map(|(_, (_, bytes))| bytes.len()).sum();
            before.resize(before.len().max(len), 0);
            let is_read = below.read_at(*start, &mut before[..len]).is_ok();
            let mut at = 0;
            for (number, (offset, bytes)) in part {
                let place = &mut before[at..at + bytes.len()];
                at += bytes.len();
                let is_known = is_read || below.read_at(*offset, place).is_ok();
                equal.extend((is_known && place == bytes.as_slice()).then_some(*number));
            }
        }
    }
}

impl Device for RepairOverlay<'_> {
    fn name(&self) -> &str {
        self.below.name()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.laid.read().unwrap_or_else(PoisonError::into_inner).overlay.read_at(offset, buf)
    }

    fn direct(&self) -> Option<Direct<'_>> {
        self.laid.read().unwrap_or_else(PoisonError::into_inner).overlay.direct().and(self.below.direct())
    }

    fn readahead(&self, offset: u64, len: u64) {
        self.below.readahead(offset, len);
    }

    fn patch(&self, offset: u64, buf: &mut [u8]) {
        self.laid.read().unwrap_or_else(PoisonError::into_inner).overlay.patch(offset, buf);
    }

    fn memory_max(&self) -> u64 {
        self.laid.read().unwrap_or_else(PoisonError::into_inner).overlay.memory_max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsmend_device::{MemoryDevice, Remembered};

    #[test]
    fn what_is_written_is_read_back_and_only_differences_are_changes() {
        let below = MemoryDevice::new("below", vec![7; 4096]);
        let overlay = RepairOverlay::new(&below);
        overlay.write(10, &[1, 2]);
        overlay.write(100, &[7, 7]);
        overlay.write(4095, &[1, 2]);
        let mut buf = [0; 4];
        assert!(overlay.read_at(9, &mut buf).is_ok());
        assert_eq!(buf, [7, 1, 2, 7]);
        assert!(overlay.read_before(9, &mut buf).is_ok());
        assert_eq!(buf, [7; 4]);
        assert!(overlay.bytes_written() >= 5);
        assert_eq!(overlay.into_changes(PoolConfig::of(1)).0, [(10, vec![1, 2])]);
    }

    #[test]
    fn a_copy_takes_memory_only_where_its_source_is_not_there_for_good() {
        let device = Remembered::new(MemoryDevice::new("below", (0..4096).map(|at| at as u8).collect()), 0);
        let mut round: Overlay<&dyn Device> = Overlay::new(&device);
        assert!(round.write(1000, &[9; 10]).is_ok());
        let overlay = RepairOverlay::new(&round);
        overlay.write(2000, &[8; 10]);
        let before = overlay.bytes_written();
        overlay.mending(Some(Part::FileSystem));
        for (from, to) in [(0, 2400), (500, 2700), (990, 3000), (1999, 3300)] {
            let mut bytes = vec![0; 300];
            assert!(overlay.read_at(from, &mut bytes).is_ok());
            overlay.put_copy(from, to, bytes);
        }
        // The same lies there.
        overlay.put_copy(300, 300 + 13 * 256, (300..600).map(|at| at as u8).collect());
        assert!((600..1000).contains(&(overlay.bytes_written() - before)), "two of them are bytes");
        assert_eq!(overlay.take_mends().iter().map(|mend| mend.len).sum::<u64>(), 1500);
        let (changes, copies) = overlay.into_changes(PoolConfig::of(1));
        assert_eq!(changes.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), [2000, 3000, 3300]);
        let expected =
            [BlockCopy { to: 2400, from: 0, len: 300 }, BlockCopy { to: 2700, from: 500, len: 300 }];
        assert_eq!(copies, expected);
    }

    /// A device of which 64 bytes cannot be read.
    struct Faulty(MemoryDevice);

    const BAD: u64 = 6400;

    impl Device for Faulty {
        fn name(&self) -> &str {
            self.0.name()
        }

        fn len(&self) -> u64 {
            self.0.len()
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
            if offset < BAD + 64 && BAD < offset + buf.len() as u64 {
                return Err(ReadError::beyond_end(offset, buf.len() as u64));
            }
            self.0.read_at(offset, buf)
        }
    }

    #[test]
    fn of_many_runs_those_that_change_something_are_left_at_any_thread_count() {
        let block = |number: u64| vec![(number % 251) as u8; 64];
        let bytes: Vec<u8> = (0..4000).flat_map(block).collect();
        let below = Faulty(MemoryDevice::new("below", bytes));
        let changes = |workers| {
            let overlay = RepairOverlay::new(&below);
            for number in (0..4000).filter(|number| number % 97 != 5) {
                overlay
                    .put(number * 64, if number.is_multiple_of(3) { vec![255; 64] } else { block(number) });
            }
            overlay.into_changes(PoolConfig::of(workers)).0
        };
        let found = changes(1);
        // Block 100 cannot be read: what it holds is not known to be the same.
        let changed = |number: &u64| number % 97 != 5 && (number.is_multiple_of(3) || *number == 100);
        let expected: Vec<u64> = (0..4000).filter(changed).map(|number| number * 64).collect();
        assert_eq!(found.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), expected);
        for workers in [2, 7, 64] {
            assert_eq!(changes(workers), found);
        }
    }
}
