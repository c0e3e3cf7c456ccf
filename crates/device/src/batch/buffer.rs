// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page-aligned memory into which the kernel may write.
//!
//! Unsafe here: a mapping, and a slice over it. A `Vec<u8>` has no alignment, and a `Box<[u8]>` may not be written to behind its
//! owner's back, which the ring needs. It is mapped rather than allocated because aligned zeroed memory of the allocator is memory
//! that has been written to: a small file system would pay for megabytes of it and use a few pages.
#![allow(unsafe_code)]

use std::alloc::{Layout, handle_alloc_error};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, PoisonError};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// What the kernel and the copying loops of the processor like best.
const ALIGNMENT: usize = 4096;

/// Zeroed memory of a fixed size, at a page boundary. Untouched pages cost nothing.
pub(crate) struct AlignedBuffer {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory belongs to this value alone, like that of a Box<[u8]>.
unsafe impl Send for AlignedBuffer {}

impl AlignedBuffer {
    /// `len` zeroed bytes, at least one page.
    pub(crate) fn new(len: usize) -> Self {
        let layout = Layout::from_size_align(len.max(ALIGNMENT), ALIGNMENT)
            .expect("no buffer is near the end of the address space");
        let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, at a place that the kernel chooses: no memory of anybody else changes.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), layout.size(), access, kind) };
        let start = start.ok().and_then(|start| NonNull::new(start.cast()));
        AlignedBuffer { start: start.unwrap_or_else(|| handle_alloc_error(layout)), layout }
    }

    /// First byte. Who writes through it makes sure that no slice of this buffer is alive there.
    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The bytes; only for buffers into which the kernel never writes by itself.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: start and size are those of our own mapping, zeroed at first, and `self` is borrowed as a whole.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: mapped with this very length, and nothing refers to it any more. Should it fail, the memory stays mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.layout.size()) };
    }
}

/// Memory of readers that are gone, for those that come: a program that checks a small file system again and again, as a repair does, pays for
/// the pages once. What is in it is what was read last.
static IDLE: Mutex<Vec<AlignedBuffer>> = Mutex::new(Vec::new());
/// So many of them are kept, and none that is longer.
const IDLE_MAX: usize = 2;
const IDLE_BYTES_MAX: usize = 512 << 10;

/// Memory that is handed out part by part, round and round. It may hold anything at first.
pub(super) struct RoundBuffer {
    memory: ManuallyDrop<AlignedBuffer>,
    next: usize,
}

impl RoundBuffer {
    /// `len` bytes to go round in.
    pub(super) fn new(len: usize) -> Self {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.iter().position(|memory| memory.layout.size() == len.max(ALIGNMENT));
        let kept = kept.map(|index| idle.swap_remove(index));
        drop(idle);
        RoundBuffer { memory: ManuallyDrop::new(kept.unwrap_or_else(|| AlignedBuffer::new(len))), next: 0 }
    }

    /// The next `len` bytes, from a page boundary on; the memory grows for longer requests than it holds.
    pub(super) fn next(&mut self, len: usize) -> &mut [u8] {
        if self.memory.layout.size() < len {
            *self = RoundBuffer::new(len);
        }
        let size = self.memory.layout.size();
        let start = if size - self.next.min(size) < len { 0 } else { self.next };
        self.next = (start + len).next_multiple_of(ALIGNMENT);
        &mut self.memory.as_mut_slice()[start..start + len]
    }
}

impl Drop for RoundBuffer {
    fn drop(&mut self) {
        // SAFETY: it is taken once, here, and not used afterwards.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX && memory.layout.size() <= IDLE_BYTES_MAX {
            idle.push(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_reader_that_is_gone_is_used_again() {
        // No reader has buffers of this length.
        let len = 5 * ALIGNMENT;
        let mut first = RoundBuffer::new(len);
        let place = first.next(10).as_ptr();
        assert_eq!(first.next(10).as_ptr(), place.wrapping_add(ALIGNMENT));
        drop(first);
        let mut second = RoundBuffer::new(len);
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).len();
        // Other tests may have left memory of theirs before.
        assert!(second.next(10).as_ptr() == place || idle == IDLE_MAX);
        let mut third = RoundBuffer::new(len);
        assert_ne!(third.next(len).as_ptr(), second.next(len).as_ptr());
        assert_eq!(third.next(2 * len).len(), 2 * len, "it grows");
    }
}
