// SPDX-License-Identifier: MIT OR Apache-2.0
//! Batched reads in disk order, one reader per worker.
//!
//! Three ways lead to the bytes, tried in this order:
//!
//! 1. What the page cache holds is copied at once (`preadv2` with RWF_NOWAIT), always into the same buffer, which so
//!    stays in the processor's cache. A warm run never sets up a ring.
//! 2. What it does not hold goes to an io_uring, up to `depth` reads at a time; callbacks run while others are in flight.
//! 3. Where there is no io_uring (older kernels, most containers) or no file to hand to it (qcow2 images, files that bypass the page cache), the device is
//!    told what will be read, up to `depth` requests ahead, and plain reads follow.
//!
//! Whenever a read came back short or failed, the device's own `read_at` is asked, and then piece by piece.

mod buffer;
mod coalesce;
mod ring;

use std::collections::VecDeque;
use std::io;

use rustix::io::{Errno, ReadWriteFlags, preadv2};

use fsmend_base::width;

use crate::file::is_in_memory;
use crate::{Device, Direct, ReadError, check_bounds, salvage};
pub(crate) use buffer::AlignedBuffer;
use buffer::RoundBuffer;
use ring::Ring;

pub use coalesce::{Coalesced, coalesce};

/// The ring holds at least so many of the longest requests that go to it; for longer ones its memory has too little room.
const RING_REQUESTS_MIN: usize = 4;

/// Reads are made known to the kernel in groups of this size, or before a callback is run.
const SUBMIT_GROUP: usize = 8;

/// Memory for reads outside of the ring, which go round in it. Each of its pages costs a fault when the kernel first writes there, two
/// microseconds in a virtual machine: with 2 MiB that was a sixth of a run over 50 000 inodes. Copies from the page cache are as fast
/// into 512 KiB, to a hundredth.
const PLAIN_BYTES: usize = 512 << 10;

/// One read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u32,
}

impl Request {
    /// The byte after the last one, saturating at the end of the number space.
    pub fn end(self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }
}

/// Which way reads go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadBackend {
    /// The page cache first, then io_uring where it is allowed, else read-ahead and plain reads.
    #[default]
    Auto,
    /// Everything through io_uring where it is allowed, else read-ahead and plain reads.
    Uring,
    /// Like Auto, but never io_uring.
    Pread,
}

/// Reads batches of requests from one device. It keeps its buffers ([`BatchReader::BUFFER_BYTES`], or what it was given) for
/// life. A request longer than a fifth of them, or than 512 KiB, takes as much memory as it is long.
pub struct BatchReader<'d> {
    device: &'d dyn Device,
    direct: Option<Direct<'d>>,
    depth: usize,
    /// Whether to look into the page cache first.
    cache_first: bool,
    ring: RingState,
    /// Memory that the ring gets when it is set up.
    ring_bytes: usize,
    /// Indexes of requests with read-ahead under way, which wait for their plain reads.
    announced: VecDeque<usize>,
    /// For everything that is not read through the ring.
    plain: RoundBuffer,
    /// Requests that memory did not hold.
    missed: u64,
}

/// The ring is set up when the first read needs it.
enum RingState {
    NotYet,
    Ready(Box<Ring>),
    Unavailable,
}

/// Receives each request's index and its bytes.
type OnDone<'c> = dyn FnMut(usize, Result<&mut [u8], ReadError>) + 'c;

impl<'d> BatchReader<'d> {
    /// Memory that a reader takes when nothing else is said.
    pub const BUFFER_BYTES: usize = ring::RING_BYTES + PLAIN_BYTES;

    /// The least that makes sense: requests of 256 KiB still go through the ring, four at a time.
    pub const BUFFER_BYTES_MIN: usize = 1280 << 10;

    /// Reads in flight when nothing else is said.
    pub const DEPTH_DEFAULT: usize = 32;

    /// A reader for `device` with up to `depth` reads in flight.
    pub fn new(device: &'d dyn Device, backend: ReadBackend, depth: usize) -> Self {
        Self::with_buffers(device, backend, depth, Self::BUFFER_BYTES)
    }

    /// A reader whose buffers take `bytes` (at least [`BUFFER_BYTES_MIN`](Self::BUFFER_BYTES_MIN)).
    pub fn with_buffers(device: &'d dyn Device, backend: ReadBackend, depth: usize, bytes: usize) -> Self {
        let bytes = bytes.max(Self::BUFFER_BYTES_MIN);
        let plain_bytes = (bytes / 5).min(PLAIN_BYTES);
        let ring = if backend == ReadBackend::Pread { RingState::Unavailable } else { RingState::NotYet };
        BatchReader {
            device,
            direct: device.direct().filter(|direct| !direct.waits),
            depth: depth.clamp(1, 1024),
            cache_first: backend != ReadBackend::Uring,
            ring,
            ring_bytes: (bytes - plain_bytes) / 4096 * 4096,
            announced: VecDeque::new(),
            plain: RoundBuffer::new(plain_bytes),
            missed: 0,
        }
    }

    /// How many requests so far had to wait for the device.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Reads all `requests`, which should be sorted by offset, and calls `on_done` once for each, with its index, in
    /// the order in which they are complete. The bytes may be changed by the callback. An error names the first
    /// bytes that could not be read even in pieces of 4 KiB; [`salvage`] gets what lies around them.
    pub fn read(&mut self, requests: &[Request], on_done: &mut OnDone<'_>) {
        self.settle(requests);
        for (index, request) in requests.iter().enumerate() {
            if let Err(error) = check_bounds(request.offset, u64::from(request.len), self.device.len()) {
                on_done(index, Err(error));
                continue;
            }
            if self.read_cached(index, *request, on_done) {
                continue;
            }
            self.missed += 1;
            if !self.enqueue(index, requests, on_done) {
                self.announce(index, requests, on_done);
            }
        }
        while let Some(index) = self.announced.pop_front() {
            self.read_plainly(index, requests[index], on_done);
        }
        while let RingState::Ready(ring) = &self.ring
            && !ring.is_idle()
        {
            self.take_done(requests, on_done);
        }
    }

    /// Forgets what a batch that ended with a panic may have left in flight, and makes slots fit for this one.
    fn settle(&mut self, requests: &[Request]) {
        self.announced.clear();
        let slot_bytes = self.slot_bytes(requests);
        if let RingState::Ready(ring) = &mut self.ring
            && ring.shape(slot_bytes, self.depth).is_err()
        {
            self.ring = RingState::Unavailable;
        }
    }

    /// Delivers the request if the page cache holds all of it.
    fn read_cached(&mut self, index: usize, request: Request, on_done: &mut OnDone<'_>) -> bool {
        let (true, Some(direct)) = (self.cache_first, self.direct) else { return false };
        let len = request.len as usize;
        let bytes = self.plain.next(len);
        match read_without_waiting(direct, request.offset, bytes) {
            Ok(count) if count == len => {}
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {
                self.cache_first = false;
                if is_in_memory(direct.fd) {
                    // A ring would hand each read to a thread of the kernel, which copies what we copy as fast.
                    self.ring = RingState::Unavailable;
                }
                return false;
            }
            Ok(_) | Err(_) => return false,
        }
        pay(direct, &mut self.ring, request);
        self.device.patch(request.offset, bytes);
        // Before time goes into a callback, the disk gets to know what it has to do meanwhile.
        submit_queued(&mut self.ring);
        on_done(index, Ok(bytes));
        true
    }

    /// Puts the request into the ring, taking completed ones out while there is no room. False if there is no ring.
    fn enqueue(&mut self, index: usize, requests: &[Request], on_done: &mut OnDone<'_>) -> bool {
        let request = requests[index];
        let (Some(direct), true) = (self.direct, request.len as usize <= self.ring_request_max()) else {
            return false;
        };
        let Some(start) = direct.shift.checked_add(request.offset) else { return false };
        self.set_up_ring(requests);
        if let RingState::Ready(_) = &self.ring {
            pay(direct, &mut self.ring, request);
        }
        while let RingState::Ready(ring) = &mut self.ring {
            if ring.queue(direct.fd, start, request.len as usize, index) {
                if ring.unsubmitted() >= SUBMIT_GROUP {
                    submit_queued(&mut self.ring);
                }
                return true;
            }
            if ring.is_idle() {
                return false;
            }
            self.take_done(requests, on_done);
        }
        false
    }

    /// Requests longer than this do not go to the ring.
    fn ring_request_max(&self) -> usize {
        self.ring_bytes / RING_REQUESTS_MIN
    }

    /// Room for the longest of those requests that go to the ring.
    fn slot_bytes(&self, requests: &[Request]) -> usize {
        let lengths = requests.iter().map(|request| request.len as usize);
        lengths.filter(|len| *len <= self.ring_request_max()).max().unwrap_or(0)
    }

    fn set_up_ring(&mut self, requests: &[Request]) {
        if let RingState::NotYet = self.ring {
            let shaped = Ring::new(width::len_u32(self.depth), self.ring_bytes).and_then(|mut ring| {
                ring.shape(self.slot_bytes(requests), self.depth)?;
                Ok(ring)
            });
            self.ring = match shaped {
                Ok(ring) => RingState::Ready(Box::new(ring)),
                Err(_) => RingState::Unavailable,
            };
        }
    }

    /// Waits for one read in flight and delivers it. If the ring itself fails, what was in it is read plainly.
    fn take_done(&mut self, requests: &[Request], on_done: &mut OnDone<'_>) {
        let RingState::Ready(ring) = &mut self.ring else { return };
        match ring.next_done() {
            Ok(Some(done)) if done.complete => {
                self.device.patch(requests[done.tag].offset, done.bytes);
                on_done(done.tag, Ok(done.bytes));
            }
            Ok(Some(done)) => {
                let index = done.tag;
                self.read_plainly(index, requests[index], on_done);
            }
            Ok(None) => {}
            Err(_) => self.abandon_ring(requests, on_done),
        }
    }

    fn abandon_ring(&mut self, requests: &[Request], on_done: &mut OnDone<'_>) {
        let RingState::Ready(ring) = std::mem::replace(&mut self.ring, RingState::Unavailable) else {
            return;
        };
        for index in ring.unfinished() {
            self.read_plainly(index, requests[index], on_done);
        }
    }

    /// Asks for the request to be read ahead, and reads the one that was announced `depth` requests before.
    fn announce(&mut self, index: usize, requests: &[Request], on_done: &mut OnDone<'_>) {
        let request = requests[index];
        self.device.readahead(request.offset, u64::from(request.len));
        self.announced.push_back(index);
        if self.announced.len() > self.depth
            && let Some(first) = self.announced.pop_front()
        {
            self.read_plainly(first, requests[first], on_done);
        }
    }

    /// Reads through the device itself, then in pieces.
    fn read_plainly(&mut self, index: usize, request: Request, on_done: &mut OnDone<'_>) {
        submit_queued(&mut self.ring);
        let bytes = self.plain.next(request.len as usize);
        match salvage(self.device, request.offset, bytes).into_iter().next() {
            None => on_done(index, Ok(bytes)),
            Some(error) => on_done(index, Err(error)),
        }
    }
}

/// Keeps to the device's limit with a request that does not go through the device itself. While it waits, what is queued is
/// on its way.
fn pay(direct: Direct<'_>, ring: &mut RingState, request: Request) {
    if let Some(limit) = direct.limit {
        submit_queued(ring);
        limit.take(u64::from(request.len));
    }
}

/// Tells the kernel of queued reads. An error shows again, and is handled, when completions are awaited.
fn submit_queued(ring: &mut RingState) {
    if let RingState::Ready(ring) = ring {
        let _ = ring.submit();
    }
}

/// Copies from the page cache; fewer bytes than asked for, or EAGAIN, where it does not hold them.
fn read_without_waiting(direct: Direct<'_>, offset: u64, bytes: &mut [u8]) -> Result<usize, Errno> {
    let start = direct.shift.checked_add(offset).ok_or(Errno::OVERFLOW)?;
    preadv2(direct.fd, &mut [io::IoSliceMut::new(bytes)], start, ReadWriteFlags::NOWAIT)
}

#[cfg(test)]
mod tests;
