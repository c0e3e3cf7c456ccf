//! Page-aligned memory into which the kernel may write.
//!
//! Unsafe here: allocating with an alignment, and a slice over what was allocated. A `Vec<u8>` has no alignment, and a
//! `Box<[u8]>` may not be written to behind its owner's back, which the ring needs.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// What the kernel and the copying loops of the processor like best.
const ALIGNMENT: usize = 4096;

/// Zeroed memory of a fixed size, at a page boundary. Pages nobody touches cost nothing.
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
        // SAFETY: the layout has a size of at least one page.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        AlignedBuffer { start, layout }
    }

    /// First byte. Who writes through it makes sure that no slice of this buffer is alive there.
    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The bytes; only for buffers into which the kernel never writes by itself.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: start and size are those of our own allocation, zeroed at first, and `self` is borrowed as a whole.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this very layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// Memory that is handed out part by part, round and round.
pub(super) struct RoundBuffer {
    memory: AlignedBuffer,
    next: usize,
}

impl RoundBuffer {
    /// `len` bytes to go round in.
    pub(super) fn new(len: usize) -> Self {
        RoundBuffer { memory: AlignedBuffer::new(len), next: 0 }
    }

    /// The next `len` bytes, from a page boundary on; the memory grows for longer requests than it holds.
    pub(super) fn next(&mut self, len: usize) -> &mut [u8] {
        if self.memory.layout.size() < len {
            self.memory = AlignedBuffer::new(len);
        }
        let size = self.memory.layout.size();
        let start = if size - self.next.min(size) < len { 0 } else { self.next };
        self.next = (start + len).next_multiple_of(ALIGNMENT);
        &mut self.memory.as_mut_slice()[start..start + len]
    }
}
