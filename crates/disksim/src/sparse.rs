// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes in memory, of which only what is not zero takes room: for disks of many gigabytes whose files hold nothing.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fsmend_base::width;
use fsmend_device::{Device, ReadError, WritableDevice, WriteError, WriteErrorKind};

const CHUNK: u64 = 4096;

/// A device of any length in memory.
pub struct SparseMemory {
    name: String,
    len: u64,
    chunks: Mutex<HashMap<u64, Box<[u8]>>>,
}

impl SparseMemory {
    /// So many zeroes.
    pub fn new(name: impl Into<String>, len: u64) -> Self {
        SparseMemory { name: name.into(), len, chunks: Mutex::default() }
    }

    fn chunks(&self) -> MutexGuard<'_, HashMap<u64, Box<[u8]>>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, offset: u64, len: usize) -> bool {
        offset.checked_add(len as u64).is_some_and(|end| end <= self.len)
    }
}

/// The parts of a range that lie in one chunk each: number, first byte in it, and where it is in the range.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % CHUNK) as usize;
        let count = (width::index(CHUNK) - within).min(len - done);
        let part = (at / CHUNK, within, done..done + count);
        done += count;
        (count > 0).then_some(part)
    })
}

impl Device for SparseMemory {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        if !self.has(offset, buf.len()) {
            return Err(ReadError::beyond_end(offset, buf.len() as u64));
        }
        let chunks = self.chunks();
        for (chunk, within, part) in parts(offset, buf.len()) {
            match chunks.get(&chunk) {
                Some(bytes) => buf[part.clone()].copy_from_slice(&bytes[within..within + part.len()]),
                None => buf[part].fill(0),
            }
        }
        Ok(())
    }
}

impl WritableDevice for SparseMemory {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        if !self.has(offset, bytes.len()) {
            return Err(WriteError { offset, len: bytes.len() as u64, kind: WriteErrorKind::NoSpace });
        }
        let mut chunks = self.chunks();
        for (chunk, within, part) in parts(offset, bytes.len()) {
            let new = &bytes[part];
            let is_zero = new.iter().all(|byte| *byte == 0);
            if is_zero && (new.len() as u64 == CHUNK || !chunks.contains_key(&chunk)) {
                chunks.remove(&chunk);
                continue;
            }
            let old = chunks.entry(chunk).or_insert_with(|| vec![0; width::index(CHUNK)].into_boxed_slice());
            old[within..within + new.len()].copy_from_slice(new);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), WriteError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use fsmend_base::SeededRandom;

    use super::*;

    #[test]
    fn it_holds_what_an_ordinary_memory_does_and_zeroes_take_no_room() {
        let device = SparseMemory::new("sparse", 100_000);
        let mut plain = vec![0; 100_000];
        let mut random = SeededRandom::new(3);
        for _ in 0..300 {
            let start = random.below(99_000) as usize;
            let len = (random.below(20_000) as usize).min(100_000 - start);
            let byte = random.below(3) as u8;
            device.write_at(start as u64, &vec![byte; len]).unwrap();
            plain[start..start + len].fill(byte);
        }
        let mut all = vec![7; 100_000];
        device.read_at(0, &mut all).unwrap();
        assert!(all == plain);
        device.write_at(0, &vec![0; 98_304]).unwrap();
        assert!(device.chunks().len() <= 1);
        device.write_at(99_999, &[1, 2]).unwrap_err();
        device.read_at(99_999, &mut [0; 2]).unwrap_err();
    }
}
