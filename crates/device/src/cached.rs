// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the page cache holds something already: asking is much cheaper than asking for it once more.
//!
//! Unsafe here: cachestat(2) (Linux 6.5), which no safe crate offers. It writes five numbers into a buffer of ours.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes at each end of a range that stand for all of it.
const SAMPLE: u64 = 16 << 10;

/// Number of cachestat(2): system calls as new as it have the same number on all of these.
const CACHESTAT: Option<libc::c_long> = if cfg!(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64",
    target_arch = "powerpc64",
    target_arch = "s390x",
)) {
    Some(451)
} else {
    None
};

#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

/// Numbers of pages.
#[repr(C)]
#[derive(Default)]
struct Stat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Whether both ends of `len` bytes from `offset` on are in the page cache. False where the kernel does not tell.
pub(crate) fn seems_cached(fd: BorrowedFd<'_>, offset: u64, len: u64) -> bool {
    let sample = len.min(SAMPLE);
    is_cached(fd, offset, sample) && is_cached(fd, offset + (len - sample), sample)
}

fn is_cached(fd: BorrowedFd<'_>, offset: u64, len: u64) -> bool {
    let page = rustix::param::page_size() as u64;
    let pages = (offset + len).div_ceil(page) - offset / page;
    cached_pages(fd, offset, len).is_some_and(|cached| cached >= pages)
}

/// How many of the pages from `offset` to `offset + len` are in the page cache; none where the kernel does not tell.
pub(crate) fn cached_pages(fd: BorrowedFd<'_>, offset: u64, len: u64) -> Option<u64> {
    let number = CACHESTAT?;
    let (range, mut stat) = (Range { offset, len }, Stat::default());
    // SAFETY: both structures have the layout of the kernel's `cachestat_range` and `cachestat`, and outlive the call, which keeps
    // neither; flags have to be 0.
    let result = unsafe { libc::syscall(number, fd.as_raw_fd(), &raw const range, &raw mut stat, 0) };
    (result == 0).then_some(stat.cached)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::fd::AsFd;

    use super::*;
    use crate::testing::TempFile;

    #[test]
    fn what_was_just_written_is_cached_and_holes_are_not() {
        let written = TempFile::new("cached", &vec![7; 1 << 20]);
        let file = std::fs::File::options().read(true).write(true).open(written.path()).unwrap();
        file.set_len(64 << 20).unwrap();
        let (head, tail) = ((4096 + 100, 900_000), (40 << 20, 1 << 20));
        if !is_cached(file.as_fd(), head.0, 1) {
            // An old kernel, or one that does not tell this user.
            assert!(!seems_cached(file.as_fd(), head.0, head.1));
            return;
        }
        assert!(seems_cached(file.as_fd(), head.0, head.1));
        assert!(!seems_cached(file.as_fd(), tail.0, tail.1));
        assert!(!seems_cached(file.as_fd(), 0, 50 << 20), "one end is not enough");
    }
}
