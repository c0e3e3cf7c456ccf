// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks that records lead to, read many at a time and in the order of the disk.
//!
//! A format looks at a record and reads what it leads to as if that were in memory. On an [`Ahead`] such a read fails if the block is not there yet, and is noted; what all records
//! of a chunk have asked for is then fetched at once, and the same records are looked at again. A map of three levels takes four turns.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fsmend_device::{BatchReader, Device, ReadError, Request, coalesce};

/// Reads over gaps up to this many bytes.
const GAP: u32 = 16 << 10;
/// Largest read.
const READ_MAX: u32 = 256 << 10;
/// More turns than any map takes.
const TURNS_MAX: usize = 8;

/// A device that has some blocks in memory, and notes what else is asked for.
pub struct Ahead<'d> {
    below: &'d dyn Device,
    /// Reads that were noted: beside the lock, since it is asked for around every record.
    misses: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Blocks by their place; `None` where they cannot be read.
    blocks: BTreeMap<u64, Option<Vec<u8>>>,
    held: u64,
    wanted: Vec<Request>,
    wanted_bytes: u64,
}

impl State {
    fn clear(&mut self) {
        self.blocks.clear();
        self.held = 0;
        self.forget_wanted();
    }

    fn forget_wanted(&mut self) {
        self.wanted.clear();
        self.wanted_bytes = 0;
    }
}

impl<'d> Ahead<'d> {
    /// Nothing of `below` is in memory.
    pub fn of(below: &'d dyn Device) -> Self {
        Ahead { below, misses: AtomicU64::new(0), state: Mutex::default() }
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
        state.held.saturating_add(state.wanted_bytes) <= room
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
                let from = (member.offset - start) as usize;
                self.keep(member.offset, bytes.get(from..from + member.len as usize).map(<[u8]>::to_vec));
            }
        });
        for member in failed.into_iter().filter_map(|index| wanted.get(index)) {
            let mut bytes = vec![0; member.len as usize];
            let is_read = self.below.read_at(member.offset, &mut bytes).is_ok();
            self.keep(member.offset, is_read.then_some(bytes));
        }
    }

    fn keep(&self, offset: u64, bytes: Option<Vec<u8>>) {
        let mut state = self.state();
        state.held += bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
        state.blocks.insert(offset, bytes);
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
        let mut state = self.state();
        let failed = || ReadError::io(offset, len, "not read yet");
        match state.blocks.get(&offset) {
            Some(Some(bytes)) if bytes.len() >= buf.len() => {
                buf.copy_from_slice(&bytes[..buf.len()]);
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
