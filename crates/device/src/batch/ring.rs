// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads in flight: an io_uring together with the memory into which it reads.
//!
//! Unsafe here: handing addresses to the kernel, and slices over what it has filled. The argument for all of it:
//!
//! - The memory is owned by [`Ring`], cut into slots. A slot is *free*, or *busy* from [`Ring::queue`] until its
//!   completion has been taken from the completion queue. Only free slots are queued, and only slots whose completion
//!   has been taken are shown as slices, which borrow the whole ring: so the kernel never writes to a slot that Rust
//!   code can see, and two reads never share a slot.
//! - The memory outlives all reads: dropping the ring first waits for those that the kernel knows of. Should even
//!   waiting fail, the memory is leaked rather than freed. Code that forgets the ring (or unwinds through a callback)
//!   leaves the memory allocated or drops the ring in the same orderly way.
#![allow(unsafe_code)]

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, types};

use fsmend_base::width;

use super::buffer::AlignedBuffer;

/// Memory of one ring when nothing else is said, whatever the sizes of the requests.
pub(super) const RING_BYTES: usize = 8 << 20;

/// An io_uring and its memory.
pub(super) struct Ring {
    uring: IoUring,
    memory: ManuallyDrop<AlignedBuffer>,
    memory_bytes: usize,
    slot_bytes: usize,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Queued, but the kernel does not know of them yet.
    unsubmitted: usize,
    /// Known to the kernel, completion not yet taken.
    in_kernel: usize,
}

/// What a busy slot is waiting for.
#[derive(Clone, Copy, Default)]
struct Slot {
    tag: usize,
    len: usize,
    busy: bool,
}

/// A read that has ended.
pub(super) struct Done<'r> {
    /// What was given to [`Ring::queue`].
    pub(super) tag: usize,
    /// Whether all bytes asked for have arrived. If not, there was an error or the file ended.
    pub(super) complete: bool,
    /// The bytes.
    pub(super) bytes: &'r mut [u8],
}

impl Ring {
    /// A ring for up to `depth` reads at a time, into `memory_bytes` of memory (whole pages).
    pub(super) fn new(depth: u32, memory_bytes: usize) -> io::Result<Self> {
        Ok(Ring {
            uring: IoUring::new(depth)?,
            memory: ManuallyDrop::new(AlignedBuffer::new(memory_bytes)),
            memory_bytes,
            slot_bytes: memory_bytes,
            slots: Vec::new(),
            free: Vec::new(),
            unsubmitted: 0,
            in_kernel: 0,
        })
    }

    /// Cuts the memory into slots of at least `slot_bytes`, at most `depth` of them. Waits for reads in flight first.
    pub(super) fn shape(&mut self, slot_bytes: usize, depth: usize) -> io::Result<()> {
        self.drain()?;
        self.slot_bytes = slot_bytes.next_multiple_of(4096).clamp(4096, self.memory_bytes);
        let count =
            (self.memory_bytes / self.slot_bytes).min(depth).min(self.uring.params().sq_entries() as usize);
        self.slots = vec![Slot::default(); count];
        self.free = (0..count).rev().collect();
        Ok(())
    }

    /// Whether nothing is queued or in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.unsubmitted + self.in_kernel == 0
    }

    /// Number of reads that wait for [`Ring::submit`].
    pub(super) fn unsubmitted(&self) -> usize {
        self.unsubmitted
    }

    /// Queues a read of `len` bytes at `offset` of `fd`; false if there is no room for it.
    pub(super) fn queue(&mut self, fd: BorrowedFd<'_>, offset: u64, len: usize, tag: usize) -> bool {
        if len > self.slot_bytes {
            return false;
        }
        let Some(index) = self.free.pop() else { return false };
        // SAFETY: `index < slots.len()` and slots.len() * slot_bytes is at most the size of the memory.
        let place = unsafe { self.memory.start().add(index * self.slot_bytes) };
        let read =
            opcode::Read::new(types::Fd(fd.as_raw_fd()), place, width::len_u32(len)).offset(offset).build();
        // SAFETY: the slot was free, holds `len` bytes, and stays allocated until the read has ended (see above).
        // If the descriptor should be closed before submission, the read fails or reads something else: no memory
        // but the slot is written.
        if unsafe { self.uring.submission().push(&read.user_data(index as u64)) }.is_err() {
            self.free.push(index);
            return false;
        }
        self.slots[index] = Slot { tag, len, busy: true };
        self.unsubmitted += 1;
        true
    }

    /// Tells the kernel of what is queued. If it has no resources just now, the rest goes with a later call.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        if self.unsubmitted > 0 { self.enter(0) } else { Ok(()) }
    }

    /// Takes one read that has ended, and waits for it if need be; none if nothing is in flight.
    pub(super) fn next_done(&mut self) -> io::Result<Option<Done<'_>>> {
        let mut entry = self.uring.completion().next();
        while entry.is_none() && !self.is_idle() {
            self.enter(1)?;
            entry = self.uring.completion().next();
        }
        let Some(entry) = entry else { return Ok(None) };
        self.in_kernel -= 1;
        let index = width::index(entry.user_data());
        let Slot { tag, len, .. } = self.slots[index];
        self.slots[index].busy = false;
        self.free.push(index);
        // SAFETY: the slot lies in our memory (as in `queue`), its read has ended, and it cannot be queued again while
        // this slice borrows the ring. Memory was zeroed at first: all bytes are initialised.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(self.memory.start().add(index * self.slot_bytes), len) };
        Ok(Some(Done { tag, complete: usize::try_from(entry.result()) == Ok(len), bytes }))
    }

    /// Tags of the reads that have not ended: to be read in another way when the ring has failed.
    pub(super) fn unfinished(&self) -> Vec<usize> {
        self.slots.iter().filter(|slot| slot.busy).map(|slot| slot.tag).collect()
    }

    /// Waits for all reads and forgets them.
    pub(super) fn drain(&mut self) -> io::Result<()> {
        while self.next_done()?.is_some() {}
        Ok(())
    }

    /// Submits what is queued and waits until `want` completions are there.
    fn enter(&mut self, want: usize) -> io::Result<()> {
        match self.uring.submit_and_wait(want) {
            Ok(count) => {
                self.unsubmitted -= count;
                self.in_kernel += count;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            // No resources: they come back when reads in flight end, if there are any.
            Err(error) if self.in_kernel > 0 && is_busy(&error) => {
                std::thread::yield_now();
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

fn is_busy(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy)
}

impl Drop for Ring {
    fn drop(&mut self) {
        // What was never submitted ends with the ring; what it knows of must have ended before the memory goes.
        while self.in_kernel > 0 {
            if self.next_done().is_err() {
                return;
            }
        }
        // SAFETY: dropped once, here, and no read into it is in flight.
        unsafe { ManuallyDrop::drop(&mut self.memory) }
    }
}
