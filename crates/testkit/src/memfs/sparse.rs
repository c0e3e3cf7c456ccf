// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contents of a file in memory, of which only pages that were written take room.

use std::collections::BTreeMap;

/// Bytes of a page, which is a block where free space is reported.
pub const PAGE: u64 = 4096;

/// Pages by number. What is not there reads as zeroes.
#[derive(Clone, Default)]
pub struct Sparse {
    pages: BTreeMap<u64, Page>,
}

#[derive(Clone)]
struct Page {
    bytes: Vec<u8>,
    written: bool,
}

impl Sparse {
    /// Pages that take room.
    pub fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Pages of `offset..end` that take no room yet.
    pub fn missing(&self, offset: u64, end: u64) -> u64 {
        if offset >= end {
            return 0;
        }
        let (first, last) = (offset / PAGE, (end - 1) / PAGE);
        (last - first + 1) - self.pages.range(first..=last).count() as u64
    }

    /// Reads what is there.
    pub fn read(&self, offset: u64, buf: &mut [u8]) {
        buf.fill(0);
        let end = offset + buf.len() as u64;
        for (number, page) in self.pages.range(offset / PAGE..end.div_ceil(PAGE)) {
            let start = number * PAGE;
            let (from, to) = (offset.max(start), end.min(start + PAGE));
            let part = &page.bytes[(from - start) as usize..(to - start) as usize];
            buf[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
        }
    }

    /// Writes.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        for number in offset / PAGE..end.div_ceil(PAGE) {
            let start = number * PAGE;
            let (from, to) = (offset.max(start), end.min(start + PAGE));
            let page = self.page(number);
            page.written = true;
            page.bytes[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&bytes[(from - offset) as usize..(to - offset) as usize]);
        }
    }

    /// Gives `offset..end` room.
    pub fn reserve(&mut self, offset: u64, end: u64) {
        for number in offset / PAGE..end.div_ceil(PAGE) {
            self.page(number);
        }
    }

    /// Forgets everything from `size` on.
    pub fn cut(&mut self, size: u64) {
        self.pages.split_off(&size.div_ceil(PAGE));
        if let Some(page) = self.pages.get_mut(&(size / PAGE)) {
            page.bytes[(size % PAGE) as usize..].fill(0);
        }
    }

    /// Runs of pages that end behind `offset`: first byte, bytes, whether any was never written.
    pub fn runs(&self, offset: u64, max: usize) -> Vec<(u64, u64, bool)> {
        let mut runs: Vec<(u64, u64, bool)> = Vec::new();
        for (number, page) in self.pages.range(offset / PAGE..) {
            let is_full = runs.len() == max;
            match runs.last_mut() {
                Some((start, len, unwritten))
                    if *start + *len == number * PAGE && *unwritten != page.written =>
                {
                    *len += PAGE;
                }
                _ if is_full => break,
                _ => runs.push((number * PAGE, PAGE, !page.written)),
            }
        }
        runs
    }

    fn page(&mut self, number: u64) -> &mut Page {
        let empty = || Page { bytes: vec![0; PAGE as usize], written: false };
        self.pages.entry(number).or_insert_with(empty)
    }
}
