// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device whose requests cost the time of a disk.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fsmend_device::{Device, ReadError, WritableDevice, WriteError};

use crate::drive::{Disk, Drive, Ticket};

/// Longest piece of what is read ahead: as large as an operating system makes its requests.
const PIECE: u64 = 512 << 10;
/// A page of memory.
const PAGE: u64 = 4096;
/// Memory for what was read ahead, like a page cache: what is older may have to be read again. Who is compared with us has the memory of a real machine.
const CACHE_BYTES: u64 = 1 << 30;

/// Any device, with the time that a disk would take for what is asked of it. Clones share disk and clock. What was announced
/// ([`Device::readahead`]) is read when the disk comes to it, and reading it then costs only what is left of the wait.
pub struct Timed<D> {
    inner: D,
    /// Whether what is read stays in memory as well.
    keeps_reads: bool,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    disk: Disk,
    announced: VecDeque<Announced>,
    announced_bytes: u64,
}

struct Announced {
    start: u64,
    end: u64,
    /// None once it is there.
    ticket: Option<Ticket>,
}

impl<D> Timed<D> {
    /// Puts a disk like that before `inner`.
    pub fn new(inner: D, drive: impl Into<Drive>) -> Self {
        let shared = Shared { disk: Disk::new(drive), announced: VecDeque::new(), announced_bytes: 0 };
        Timed { inner, keeps_reads: false, shared: Arc::new(Mutex::new(shared)) }
    }

    /// With whatever is read kept like what was read ahead, in pages, as the page cache does: for programs that rely on it.
    pub fn keeping_reads(self) -> Self {
        Timed { keeps_reads: true, ..self }
    }

    /// The device that holds the bytes.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The disk as it is now: its clock, its statistics.
    pub fn disk(&self) -> Disk {
        self.shared().disk.clone()
    }

    /// The time that has passed.
    pub fn now(&self) -> std::time::Duration {
        self.shared().disk.now()
    }

    /// The computer does something else for so long.
    pub fn spend(&self, time: std::time::Duration) {
        self.shared().disk.spend(time);
    }

    /// Forgets what was read ahead, as if the caches had been dropped.
    pub fn drop_caches(&self) {
        let mut shared = self.shared();
        while let Some(oldest) = shared.announced.pop_front() {
            if let Some(ticket) = oldest.ticket {
                shared.disk.wait(ticket);
            }
        }
        shared.announced_bytes = 0;
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Clone> Clone for Timed<D> {
    fn clone(&self) -> Self {
        let Timed { keeps_reads, .. } = *self;
        Timed { inner: self.inner.clone(), keeps_reads, shared: Arc::clone(&self.shared) }
    }
}

impl Shared {
    /// Waits for what was announced of a range; what is left of it at the front and at the end was not.
    fn wait_for_announced(&mut self, mut start: u64, mut end: u64) -> (u64, u64) {
        for part in &mut self.announced {
            let meets = part.start < end && start < part.end;
            if !meets || (start < part.start && part.end < end) {
                continue;
            }
            if let Some(ticket) = part.ticket.take() {
                self.disk.wait(ticket);
            }
            if part.start <= start {
                start = part.end.min(end);
            } else {
                end = part.start.max(start);
            }
        }
        (start, end)
    }

    /// Waits for all of a range that was announced.
    fn wait_for_all_of(&mut self, start: u64, end: u64) {
        for part in self.announced.iter_mut().filter(|part| part.start < end && start < part.end) {
            if let Some(ticket) = part.ticket.take() {
                self.disk.wait(ticket);
            }
        }
    }

    /// Asks the disk for what was not announced before.
    fn announce(&mut self, start: u64, end: u64) {
        let mut missing = vec![(start, end)];
        for part in self.announced.iter().filter(|part| part.start < end && start < part.end) {
            missing = missing
                .into_iter()
                .flat_map(|(from, to)| [(from, to.min(part.start)), (from.max(part.end), to)])
                .filter(|(from, to)| from < to)
                .collect();
        }
        missing.into_iter().for_each(|(from, to)| self.ask(from, to));
    }

    fn ask(&mut self, start: u64, end: u64) {
        let ticket = Some(self.disk.ask(start, end - start));
        self.announced.push_back(Announced { start, end, ticket });
        self.announced_bytes += end - start;
        while self.announced_bytes > CACHE_BYTES {
            let Some(oldest) = self.announced.pop_front() else { break };
            self.announced_bytes -= oldest.end - oldest.start;
            if let Some(ticket) = oldest.ticket {
                self.disk.wait(ticket);
            }
        }
    }

    /// What was read is worth nothing where something else stands now.
    fn forget(&mut self, start: u64, end: u64) {
        let mut kept = VecDeque::new();
        for part in std::mem::take(&mut self.announced) {
            if part.end <= start || end <= part.start {
                kept.push_back(part);
                continue;
            }
            self.announced_bytes -= part.end - part.start;
            if let Some(ticket) = part.ticket {
                self.disk.wait(ticket);
            }
        }
        self.announced = kept;
    }
}

impl<D: Device> Device for Timed<D> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.inner.read_at(offset, buf)?;
        let mut shared = self.shared();
        let (start, end) = shared.wait_for_announced(offset, offset + buf.len() as u64);
        if start < end && self.keeps_reads {
            let end = end.next_multiple_of(PAGE).min(self.inner.len());
            let pages = (start / PAGE * PAGE, end);
            shared.announce(pages.0, pages.1);
            shared.wait_for_all_of(pages.0, pages.1);
        } else if start < end {
            shared.disk.read(start, end - start);
        }
        Ok(())
    }

    fn readahead(&self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.inner.len());
        let mut at = offset;
        let mut shared = self.shared();
        while at < end {
            let to = (at + PIECE).min(end);
            shared.announce(at, to);
            at = to;
        }
    }

    fn memory_max(&self) -> u64 {
        self.inner.memory_max()
    }
}

impl<D: WritableDevice> WritableDevice for Timed<D> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.inner.write_at(offset, bytes)?;
        let mut shared = self.shared();
        shared.forget(offset, offset + bytes.len() as u64);
        shared.disk.write(offset, bytes.len() as u64);
        Ok(())
    }

    fn sync(&self) -> Result<(), WriteError> {
        self.inner.sync()?;
        self.shared().disk.flush();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use fsmend_base::SeededRandom;
    use fsmend_device::{BatchReader, MemoryDevice, ReadBackend, Request};

    use super::*;
    use crate::HddDescription;

    const LEN: usize = 64 << 20;

    fn timed() -> Timed<Arc<MemoryDevice>> {
        let bytes: Vec<u8> = (0..LEN).map(|at| (at / 1000) as u8).collect();
        Timed::new(Arc::new(MemoryDevice::new("disk", bytes)), HddDescription::default())
    }

    fn scattered_blocks() -> Vec<Request> {
        let mut random = SeededRandom::new(5);
        let mut blocks: Vec<u64> = (0..64).map(|_| random.next_u64() % (LEN as u64 / 4096)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks.into_iter().map(|block| Request { offset: block * 4096, len: 4096 }).collect()
    }

    #[test]
    fn bytes_are_those_of_the_device_and_time_goes_by() {
        let device = timed();
        let mut buf = [0; 3000];
        device.read_at(5000, &mut buf).unwrap();
        assert_eq!((buf[0], buf[2999]), (5, 7));
        assert!(device.disk().now() > Duration::from_micros(100));
        device.read_at(LEN as u64, &mut buf).unwrap_err();
        assert_eq!(
            device.disk().statistics().reads,
            1,
            "what fails before it reaches the disk costs nothing"
        );
    }

    #[test]
    fn what_was_announced_is_waited_for_once() {
        let device = timed();
        device.readahead(1 << 20, 1 << 20);
        let mut buf = vec![0; 1 << 20];
        device.read_at(1 << 20, &mut buf).unwrap();
        let (now, statistics) = (device.disk().now(), device.disk().statistics());
        assert_eq!((statistics.reads, statistics.bytes_read), (2, 1 << 20));
        device.read_at((1 << 20) + 500, &mut buf[..100]).unwrap();
        assert_eq!(device.disk().now(), now);
        device.drop_caches();
        device.read_at(1 << 20, &mut buf).unwrap();
        assert!(device.disk().now() > now);
    }

    #[test]
    fn reads_are_kept_in_pages_where_that_is_wanted() {
        let reads = |device: &Timed<Arc<MemoryDevice>>| {
            let mut buf = [0; 100];
            for at in [1000, 0, 3996, 4096, 1000, 8150] {
                device.read_at(at, &mut buf).unwrap();
                assert_eq!((buf[0], buf[99]), ((at / 1000) as u8, ((at + 99) / 1000) as u8));
            }
            (device.disk().statistics().reads, device.disk().statistics().bytes_read)
        };
        assert_eq!(reads(&timed()).0, 6);
        let keeping = timed().keeping_reads();
        assert_eq!(reads(&keeping), (3, 3 * 4096), "the last one reaches into a third page");
        keeping.drop_caches();
        assert_eq!(reads(&keeping), (6, 6 * 4096));
        let end = LEN as u64 - 10;
        keeping.read_at(end, &mut [0; 10]).unwrap();
    }

    #[test]
    fn what_was_announced_before_is_not_asked_for_again() {
        let device = timed();
        device.readahead(8192, 8192);
        device.readahead(4096, 4096);
        device.readahead(0, 65536);
        assert_eq!(device.disk().statistics().bytes_read, 65536);
        device.readahead(8192, 512);
        assert_eq!(device.disk().statistics().reads, 4);
    }

    #[test]
    fn a_part_that_was_not_announced_is_read() {
        let device = timed();
        device.readahead(8192, 4096);
        device.read_at(4096, &mut [0; 8192]).unwrap();
        assert_eq!(device.disk().statistics().bytes_read, 8192);
        device.read_at(0, &mut [0; 16384]).unwrap();
        assert_eq!(
            device.disk().statistics().bytes_read,
            8192 + 16384,
            "the middle of a read is not left out"
        );
    }

    #[test]
    fn a_batch_reader_announces_and_is_quicker_for_it() {
        let requests = scattered_blocks();
        let apart = timed();
        requests.iter().for_each(|request| apart.read_at(request.offset, &mut [0; 4096]).unwrap());
        let batched = timed();
        let mut reader = BatchReader::new(&batched, ReadBackend::Auto, 32);
        let mut seen = 0;
        reader.read(&requests, &mut |index, result| {
            assert_eq!(result.unwrap()[0], (requests[index].offset / 1000) as u8);
            seen += 1;
        });
        assert_eq!(seen, requests.len());
        let (apart, batched) = (apart.disk().now(), batched.disk().now());
        assert!(batched < apart.mul_f64(0.7), "{batched:?} against {apart:?}");
    }

    #[test]
    fn writing_over_what_was_read_ahead_makes_it_worthless() {
        use fsmend_device::WritableMemory;
        let device = Timed::new(WritableMemory::new("disk", vec![0; LEN]), HddDescription::default());
        device.readahead(0, 8192);
        device.write_at(4096, &[7; 512]).unwrap();
        let before = device.disk().statistics().reads;
        let mut buf = [0; 512];
        device.read_at(4096, &mut buf).unwrap();
        assert_eq!((buf[0], device.disk().statistics().reads), (7, before + 1));
        device.sync().unwrap();
        assert_eq!(device.disk().statistics().flushes, 1);
    }
}
