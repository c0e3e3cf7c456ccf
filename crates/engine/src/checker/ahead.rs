// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks that records lead to, read many at a time and in the order of the disk.
//!
//! A format looks at a record and reads what it leads to as if that were in memory. On an [`Ahead`] such a read fails if the block is not there yet, and is noted; what all records
//! of a chunk have asked for is then fetched at once, and the same records are looked at again. A map of three levels takes four turns.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fsmend_base::width;
use fsmend_device::{BatchReader, Device, ReadError, Request, coalesce};

use super::limit::Effort;

/// Reads over gaps up to this many bytes.
const GAP: u32 = 16 << 10;
/// Largest read.
const READ_MAX: u32 = 256 << 10;
/// More turns than any map takes.
const TURNS_MAX: usize = 8;

/// A device that has some blocks in memory, and notes what else is asked for.
pub struct Ahead<'d> {
    below: &'d dyn Device,
    effort: &'d Effort<'d>,
    /// Whether reads go to the device.
    is_through: AtomicBool,
    /// Reads that were noted: beside the lock, since it is asked for around every record.
    misses: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Where in `bytes` the block of a place is; `None` where it cannot be read.
    blocks: BTreeMap<u64, Option<Range<usize>>>,
    /// All blocks, one behind the other.
    bytes: Vec<u8>,
    wanted: Vec<Request>,
    wanted_bytes: u64,
}

impl State {
    fn clear(&mut self) {
        self.blocks.clear();
        self.bytes.clear();
        self.forget_wanted();
    }

    fn forget_wanted(&mut self) {
        self.wanted.clear();
        self.wanted_bytes = 0;
    }
}

impl<'d> Ahead<'d> {
    /// Nothing of `below` is in memory.
    pub fn of(below: &'d dyn Device, effort: &'d Effort<'d>) -> Self {
        let (is_through, misses) = (AtomicBool::new(false), AtomicU64::new(0));
        Ahead { below, effort, is_through, misses, state: Mutex::default() }
    }

    /// Calls `look`, which reads from the device whatever it asks for.
    pub fn through<T>(&self, look: impl FnOnce() -> T) -> T {
        self.is_through.store(true, Relaxed);
        let seen = look();
        self.is_through.store(false, Relaxed);
        seen
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many reads have been noted so far, also those of a block that was noted before.
    pub fn misses(&self) -> u64 {
        self.misses.load(Relaxed)
    }

    /// Calls `look` for each of `items`, again and again until it reads nothing that is not there. Its argument says where an item has to read for itself: that takes more than `room` bytes,
    /// or too many turns.
    pub fn settle<T>(
        &self,
        reader: &mut BatchReader<'_>,
        mut items: &[T],
        room: u64,
        look: &mut dyn FnMut(&T, bool),
    ) {
        let misses = |item: &T, look: &mut dyn FnMut(&T, bool)| {
            let before = self.misses();
            look(item, false);
            self.misses() > before
        };
        while !items.is_empty() {
            self.state().clear();
            // As many as there is room for; their first looks note what they want.
            let mut waiting: Vec<&T> = Vec::new();
            let mut taken = 0;
            for item in items {
                taken += 1;
                if misses(item, look) {
                    waiting.push(item);
                }
                if self.state().wanted_bytes > room / 2 {
                    break;
                }
            }
            items = &items[taken..];
            let mut turns = 0;
            while !waiting.is_empty() {
                turns += 1;
                if turns > TURNS_MAX || !self.has_room(room) {
                    waiting.drain(..).for_each(|item| look(item, true));
                    break;
                }
                self.fetch(reader);
                waiting.retain(|item| misses(item, look));
            }
        }
        self.state().clear();
    }

    /// Whether what was noted fits beside what is there.
    fn has_room(&self, room: u64) -> bool {
        let state = self.state();
        (state.bytes.len() as u64).saturating_add(state.wanted_bytes) <= room
    }

    /// Reads what was noted.
    fn fetch(&self, reader: &mut BatchReader<'_>) {
        let mut wanted = std::mem::take(&mut self.state().wanted);
        self.state().forget_wanted();
        wanted.sort_unstable();
        wanted.dedup();
        let reads = coalesce(&wanted, GAP, READ_MAX);
        let requests: Vec<Request> = reads.iter().map(|read| read.request).collect();
        let mut failed = Vec::new();
        reader.read(&requests, &mut |index, result| {
            let (start, members) = (requests[index].offset, reads[index].members.clone());
            let Ok(bytes) = result else {
                failed.extend(members);
                return;
            };
            for member in &wanted[members] {
                let from = width::index(member.offset - start);
                self.keep(member.offset, bytes.get(from..from + member.len as usize));
            }
        });
        for member in failed.into_iter().filter_map(|index| wanted.get(index)) {
            let mut bytes = vec![0; member.len as usize];
            let is_read = self.below.read_at(member.offset, &mut bytes).is_ok();
            self.keep(member.offset, is_read.then_some(&bytes));
        }
    }

    fn keep(&self, offset: u64, bytes: Option<&[u8]>) {
        let mut state = self.state();
        let start = state.bytes.len();
        state.bytes.extend_from_slice(bytes.unwrap_or_default());
        let end = state.bytes.len();
        state.blocks.insert(offset, bytes.map(|_| start..end));
    }
}

impl Device for Ahead<'_> {
    fn name(&self) -> &str {
        self.below.name()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let len = buf.len() as u64;
        if offset.checked_add(len).is_none_or(|end| end > self.len()) {
            return Err(ReadError::beyond_end(offset, len));
        }
        if self.is_through.load(Relaxed) {
            self.effort.read(buf.len());
            return self.below.read_at(offset, buf);
        }
        let mut state = self.state();
        let failed = || ReadError::io(offset, len, "not read yet");
        match state.blocks.get(&offset) {
            Some(Some(place)) if place.len() >= buf.len() => {
                self.effort.read(buf.len());
                buf.copy_from_slice(&state.bytes[place.start..place.start + buf.len()]);
                Ok(())
            }
            Some(None) => Err(failed()),
            _ => {
                let request = Request { offset, len: u32::try_from(buf.len()).unwrap_or(u32::MAX) };
                state.wanted.push(request);
                self.misses.fetch_add(1, Relaxed);
                state.wanted_bytes += u64::from(request.len);
                Err(failed())
            }
        }
    }
}
