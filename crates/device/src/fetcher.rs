// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads ahead without the page cache.
//!
//! Some files bypass the page cache: FUSE files opened with direct I/O, 9p without a cache, some cluster file systems. There fadvise(2) does nothing,
//! RWF_NOWAIT waits, and an io_uring submits one read after the other. For such files, threads of our own read what is announced, up to
//! [`FLIGHTS_MAX`] requests at a time, into bounded memory. A read takes what was fetched, waits for what is in flight, and fetches the rest itself.
//!
//! Announced pieces are fetched in order, as far as memory allows. Each piece is dropped when all of it has been read. A reader that needs a piece
//! which has not been started makes room by dropping the oldest fetched one, so pieces that are never read do not stop the others.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::pread;

use fsmend_base::width;

use crate::ReadErrorKind;
use crate::file::read_fully;

/// Most reads in flight.
const FLIGHTS_MAX: usize = 64;
/// Longest read.
const PIECE_BYTES: u64 = 256 << 10;
/// Memory for what was fetched or is in flight.
const HELD_BYTES_MAX: u64 = 16 << 20;
/// Announced pieces that may wait; further ones are ignored.
const QUEUE_MAX: usize = 1 << 16;
/// Threads end after so long without work.
const IDLE_MAX: Duration = Duration::from_secs(2);
/// They call pread(2) and little else.
const STACK_BYTES: usize = 128 << 10;

/// Reads one file ahead.
#[derive(Debug)]
pub(crate) struct Fetcher {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    file: File,
    state: Mutex<State>,
    /// There is something to fetch, or room for it.
    work: Condvar,
    /// A read has ended.
    landed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// By their first byte; they do not overlap.
    pieces: BTreeMap<u64, Piece>,
    /// Pieces to fetch, in the order in which they were announced: first byte and number. Some may be gone.
    queue: VecDeque<(u64, u64)>,
    /// Fetched pieces, oldest first. Some may be gone.
    fetched: VecDeque<(u64, u64)>,
    /// Bytes that are fetched or in flight.
    held: u64,
    next_number: u64,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

#[derive(Debug)]
struct Piece {
    number: u64,
    len: u64,
    stage: Stage,
    /// Bytes of it that were read.
    used: u64,
}

#[derive(Debug)]
enum Stage {
    Queued,
    InFlight,
    Fetched(Vec<u8>),
}

/// How a read goes on at one place.
enum Next {
    /// So many bytes came from memory.
    Copied(usize),
    /// So many bytes have to be read from the file.
    Read(usize),
}

impl Fetcher {
    /// Most memory that one holds.
    pub(crate) const MEMORY_MAX: u64 = HELD_BYTES_MAX + (FLIGHTS_MAX * STACK_BYTES) as u64;

    /// One for this file. It starts no thread before something is announced.
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        let (state, work, landed) = Default::default();
        Ok(Fetcher { shared: Arc::new(Shared { file: file.try_clone()?, state, work, landed }) })
    }

    /// Has `len` bytes from `offset` on fetched, which lie within the file. Does not wait.
    pub(crate) fn announce(&self, offset: u64, len: u64) {
        let mut state = self.shared.lock();
        let count = state.enqueue(offset, offset.saturating_add(len));
        let wanted = count.saturating_sub(state.idle).min(FLIGHTS_MAX - state.threads);
        for _ in 0..wanted {
            let shared = Arc::clone(&self.shared);
            let builder = thread::Builder::new().name("read ahead".to_owned()).stack_size(STACK_BYTES);
            if builder.spawn(move || shared.fetch_all()).is_err() {
                break;
            }
            state.threads += 1;
        }
        drop(state);
        (0..count.min(FLIGHTS_MAX)).for_each(|_| self.shared.work.notify_one());
    }

    /// Fills `buf` from `offset` on. What is not there is read with `direct`.
    pub(crate) fn read(
        &self,
        offset: u64,
        buf: &mut [u8],
        mut direct: impl FnMut(u64, &mut [u8]) -> Result<(), ReadErrorKind>,
    ) -> Result<(), ReadErrorKind> {
        let mut done = 0;
        while done < buf.len() {
            let (at, rest) = (offset + done as u64, &mut buf[done..]);
            done += match self.shared.take(at, rest) {
                Next::Copied(count) => count,
                Next::Read(count) => {
                    direct(at, &mut rest[..count])?;
                    count
                }
            };
        }
        Ok(())
    }

    /// Forgets these bytes, because they were changed.
    pub(crate) fn forget(&self, offset: u64, len: u64) {
        let mut state = self.shared.lock();
        while let Some((start, _)) = state.first_in(offset, offset.saturating_add(len)) {
            state.remove(start);
        }
        drop(state);
        self.shared.landed.notify_all();
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        // Reads in flight may take long: the threads end by themselves.
        self.shared.lock().is_closed = true;
        self.shared.work.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread does, until there is nothing to fetch for a while.
    fn fetch_all(&self) {
        let mut state = self.lock();
        while !state.is_closed {
            if let Some((start, number, len)) = state.start() {
                drop(state);
                let mut bytes = vec![0; width::index(len)];
                let result = read_fully(start, &mut bytes, |at, rest| pread(&self.file, rest, at));
                state = self.lock();
                state.land(start, number, result.is_ok().then_some(bytes));
                self.landed.notify_all();
                continue;
            }
            state.idle += 1;
            let (after, timeout) =
                self.work.wait_timeout(state, IDLE_MAX).unwrap_or_else(PoisonError::into_inner);
            state = after;
            state.idle -= 1;
            if timeout.timed_out() {
                break;
            }
        }
        state.threads -= 1;
    }

    /// Copies what is there at `at`, after waiting for it where it is in flight, or says how much has to be read.
    fn take(&self, at: u64, buf: &mut [u8]) -> Next {
        let mut state = self.lock();
        loop {
            let Some((start, piece)) = state.first_in(at, at.saturating_add(buf.len() as u64)) else {
                return Next::Read(buf.len());
            };
            if start > at {
                return Next::Read(width::index(start - at));
            }
            let within = width::index(at - start);
            let count = buf.len().min(width::index(piece.len) - within);
            match &piece.stage {
                Stage::Fetched(bytes) => {
                    buf[..count].copy_from_slice(&bytes[within..within + count]);
                    piece.used += count as u64;
                    if piece.used >= piece.len {
                        state.remove(start);
                        self.work.notify_one();
                    }
                    return Next::Copied(count);
                }
                Stage::Queued => {
                    let len = piece.len;
                    state.remove(start);
                    if state.make_room(len) {
                        self.work.notify_one();
                    }
                    return Next::Read(count);
                }
                Stage::InFlight => {
                    state = self.landed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

impl State {
    /// The first piece that meets the bytes from `start` to `end`.
    fn first_in(&mut self, start: u64, end: u64) -> Option<(u64, &mut Piece)> {
        let before = self.pieces.range(..=start).next_back();
        let meets = before.filter(|(first, piece)| **first + piece.len > start);
        let first = match meets {
            Some((first, _)) => *first,
            None => *self.pieces.range(start..end).next()?.0,
        };
        self.pieces.get_mut(&first).map(|piece| (first, piece))
    }

    /// Notes what is new of the bytes from `at` to `end`; in how many pieces.
    fn enqueue(&mut self, mut at: u64, end: u64) -> usize {
        let mut count = 0;
        while at < end && self.queue.len() < QUEUE_MAX {
            let stop = match self.first_in(at, end) {
                Some((start, piece)) if start <= at => {
                    at = start + piece.len;
                    continue;
                }
                Some((start, _)) => start,
                None => end,
            };
            let len = (stop - at).min(PIECE_BYTES);
            let number = self.next_number;
            self.next_number += 1;
            self.pieces.insert(at, Piece { number, len, stage: Stage::Queued, used: 0 });
            self.queue.push_back((at, number));
            at += len;
            count += 1;
        }
        count
    }

    /// The piece with this number, if it is still there.
    fn piece(&mut self, start: u64, number: u64) -> Option<&mut Piece> {
        self.pieces.get_mut(&start).filter(|piece| piece.number == number)
    }

    /// The next piece to fetch, if there is room for it: first byte, number and length. It is in flight now.
    fn start(&mut self) -> Option<(u64, u64, u64)> {
        while let Some((start, number)) = self.queue.front().copied() {
            let held = self.held;
            if let Some(piece) = self.piece(start, number) {
                let len = piece.len;
                if held + len > HELD_BYTES_MAX {
                    return None;
                }
                piece.stage = Stage::InFlight;
                self.queue.pop_front();
                self.held += len;
                return Some((start, number, len));
            }
            self.queue.pop_front();
        }
        None
    }

    /// Takes up what a read brought; nothing where it failed, so that the reader sees the error itself.
    fn land(&mut self, start: u64, number: u64, bytes: Option<Vec<u8>>) {
        match (self.piece(start, number), bytes) {
            (Some(piece), Some(bytes)) => {
                piece.stage = Stage::Fetched(bytes);
                self.fetched.push_back((start, number));
            }
            (Some(_), None) => self.remove(start),
            (None, _) => {}
        }
    }

    /// Forgets the piece that starts there.
    fn remove(&mut self, start: u64) {
        if let Some(piece) = self.pieces.remove(&start)
            && !matches!(piece.stage, Stage::Queued)
        {
            self.held -= piece.len;
        }
        // What is gone does not gather here, either.
        while let Some((start, number)) = self.fetched.front().copied()
            && self.piece(start, number).is_none()
        {
            self.fetched.pop_front();
        }
    }

    /// Forgets the oldest fetched pieces until there is room for `len` bytes; whether any were.
    fn make_room(&mut self, len: u64) -> bool {
        let mut made = false;
        while self.held + len > HELD_BYTES_MAX
            && let Some((start, number)) = self.fetched.pop_front()
        {
            if self.piece(start, number).is_some() {
                self.remove(start);
                made = true;
            }
        }
        made
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::testing::TempFile;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at / 1000) as u8 ^ at as u8).collect()
    }

    fn fetcher(bytes: &[u8]) -> (TempFile, File, Fetcher) {
        let temporary = TempFile::new("fetcher", bytes);
        let file = File::open(temporary.path()).unwrap();
        let fetcher = Fetcher::new(&file).unwrap();
        (temporary, file, fetcher)
    }

    /// Reads through the fetcher; how many bytes it did not have.
    fn read(fetcher: &Fetcher, file: &File, offset: usize, expected: &[u8]) -> usize {
        let (mut buf, mut missing) = (vec![0; expected.len()], 0);
        let direct = |at: u64, rest: &mut [u8]| {
            missing += rest.len();
            read_fully(at, rest, |at, rest| pread(file, rest, at))
        };
        fetcher.read(offset as u64, &mut buf, direct).unwrap();
        assert!(buf == expected);
        missing
    }

    fn wait_until(fetcher: &Fetcher, is_so: impl Fn(&State) -> bool) {
        let mut state = fetcher.shared.lock();
        while !is_so(&state) {
            state = fetcher.shared.landed.wait_timeout(state, Duration::from_millis(5)).unwrap().0;
        }
    }

    #[test]
    fn what_was_announced_is_there_and_the_rest_is_read() {
        let bytes = bytes(3 << 20);
        let (_temporary, file, fetcher) = fetcher(&bytes);
        fetcher.announce(5000, 700_000);
        fetcher.announce(4000, 10_000);
        wait_until(&fetcher, |state| state.held == 701_000);
        assert_eq!(read(&fetcher, &file, 0, &bytes[..800_000]), 99_000);
        let state = fetcher.shared.lock();
        assert!(state.held == 0 && state.pieces.is_empty() && state.fetched.is_empty(), "all of it was used");
    }

    #[test]
    fn memory_is_bounded_and_what_is_not_read_makes_room() {
        let bytes = bytes(40 << 20);
        let (_temporary, file, fetcher) = fetcher(&bytes);
        fetcher.announce(0, 40 << 20);
        wait_until(&fetcher, |state| state.held == HELD_BYTES_MAX);
        for at in (20 << 20..40 << 20).step_by(50_000) {
            let end = (at + 50_000).min(40 << 20);
            read(&fetcher, &file, at, &bytes[at..end]);
            assert!(fetcher.shared.lock().held <= HELD_BYTES_MAX);
        }
        assert!(fetcher.shared.lock().threads <= FLIGHTS_MAX);
    }

    #[test]
    fn changed_bytes_are_read_again() {
        use std::os::unix::fs::FileExt;
        let bytes = bytes(600_000);
        let (temporary, file, fetcher) = fetcher(&bytes);
        fetcher.announce(0, 600_000);
        wait_until(&fetcher, |state| state.held == 600_000);
        let writer = File::options().write(true).open(temporary.path()).unwrap();
        writer.write_all_at(&[9; 10], 300_000).unwrap();
        fetcher.forget(300_000, 10);
        let mut changed = bytes.clone();
        changed[300_000..300_010].fill(9);
        assert!(read(&fetcher, &file, 0, &changed) > 0);
    }

    #[test]
    fn reads_beyond_the_end_fail_as_they_would_without_it() {
        let bytes = bytes(10_000);
        let (_temporary, file, fetcher) = fetcher(&bytes);
        fetcher.announce(0, 20_000);
        let direct = |at: u64, rest: &mut [u8]| read_fully(at, rest, |at, rest| pread(&file, rest, at));
        assert_eq!(fetcher.read(5000, &mut [0; 10_000], direct), Err(ReadErrorKind::BeyondEnd));
        assert_eq!(read(&fetcher, &file, 0, &bytes), 10_000);
    }
}
