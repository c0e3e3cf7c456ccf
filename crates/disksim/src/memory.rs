// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a computer before a disk: what is written waits there, and goes to the disk in the order of places; what was read or written can be read again
//! for nothing. One such layer below every driver is what makes them comparable: what one gathers by itself, the others have gathered here.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fsmend_device::{Device, ReadError, WritableDevice, WriteError};

use crate::drive::{Disk, DiskStatistics, Drive};

const PAGE: u64 = 4096;

/// How the memory is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryDescription {
    /// Bytes that may wait to be written; with more, all are.
    pub waiting_max: u64,
    /// Bytes that are kept to be read again.
    pub kept_max: u64,
    /// Bytes of a request at most.
    pub request_max: u64,
    /// Whether writes of different files that touch become one request, as Linux does it. Otherwise only writes in a row of one file do.
    pub joins: bool,
    /// Whether a synchronisation empties the cache of the disk, too. In 2007 none did.
    pub flushes: bool,
    /// Whether a synchronisation that a driver asks for writes anything. Without, nothing is ordered: what no real system may do, and none can be faster.
    pub obeys: bool,
}

/// A device behind such a memory. Clones share both.
pub struct Buffered<D> {
    inner: D,
    of: MemoryDescription,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    disk: Disk,
    /// Stretches that wait: the first byte, and the one behind the last.
    waiting: BTreeMap<u64, u64>,
    waiting_bytes: u64,
    /// Where the last write of the same file ended.
    end: Option<u64>,
    /// Pages in memory, and when they were used last.
    pages: HashMap<u64, u64>,
    by_use: BTreeMap<u64, u64>,
    uses: u64,
}

impl<D> Buffered<D> {
    /// Puts such a disk and such a memory before `inner`.
    pub fn new(inner: D, drive: impl Into<Drive>, of: MemoryDescription) -> Self {
        let shared = Shared {
            disk: Disk::new(drive),
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            end: None,
            pages: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
        };
        Buffered { inner, of, shared: Arc::new(Mutex::new(shared)) }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device that holds the bytes.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The time that has passed.
    pub fn now(&self) -> Duration {
        self.shared().disk.now()
    }

    /// What the disk has done.
    pub fn statistics(&self) -> DiskStatistics {
        self.shared().disk.statistics()
    }

    /// The computer does something else for so long.
    pub fn spend(&self, time: Duration) {
        self.shared().disk.spend(time);
    }

    /// What is written from now on belongs to another file.
    pub fn next_file(&self) {
        self.shared().end = None;
    }

    /// Writes all that waits.
    pub fn write_out(&self) {
        self.shared().write_out(&self.of);
    }

    /// Writes all that waits, waits for the disk, and forgets everything: as if the file system had been unmounted.
    pub fn empty(&self) {
        let mut shared = self.shared();
        shared.write_out(&self.of);
        shared.disk.flush();
        shared.pages.clear();
        shared.by_use.clear();
    }
}

impl<D: Clone> Clone for Buffered<D> {
    fn clone(&self) -> Self {
        Buffered { inner: self.inner.clone(), of: self.of, shared: Arc::clone(&self.shared) }
    }
}

impl Shared {
    fn write_out(&mut self, of: &MemoryDescription) {
        for (mut start, end) in std::mem::take(&mut self.waiting) {
            while start < end {
                let len = (end - start).min(of.request_max.max(PAGE));
                self.disk.write(start, len);
                start += len;
            }
        }
        self.waiting_bytes = 0;
        self.end = None;
    }

    /// Notes that a stretch waits, with those that it meets.
    fn wait(&mut self, mut start: u64, mut end: u64, joins: bool) {
        let (first, last) = (start, end);
        let goes_on = self.end == Some(start);
        let met: Vec<(u64, u64)> = self
            .waiting
            .range(..=end)
            .rev()
            .map(|(from, to)| (*from, *to))
            .take_while(|(_, to)| *to >= first)
            .filter(|(from, to)| {
                let overlaps = *from < last && first < *to;
                overlaps || joins || goes_on && *to == first
            })
            .collect();
        for (from, to) in met {
            self.waiting.remove(&from);
            self.waiting_bytes -= to - from;
            (start, end) = (start.min(from), end.max(to));
        }
        self.waiting.insert(start, end);
        self.waiting_bytes += end - start;
        self.end = Some(last);
    }

    fn use_page(&mut self, page: u64) {
        self.uses += 1;
        if let Some(before) = self.pages.insert(page, self.uses) {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.uses, page);
    }

    fn keep(&mut self, start: u64, end: u64, max: u64) {
        (start / PAGE..end.div_ceil(PAGE)).for_each(|page| self.use_page(page));
        while self.pages.len() as u64 * PAGE > max {
            let Some((_, page)) = self.by_use.pop_first() else { break };
            self.pages.remove(&page);
        }
    }

    /// Reads the pages that are not there.
    fn read(&mut self, start: u64, end: u64, of: &MemoryDescription) {
        let mut missing: Option<(u64, u64)> = None;
        for page in start / PAGE..end.div_ceil(PAGE) {
            let is_there = self.pages.contains_key(&page);
            match &mut missing {
                Some((from, to)) if !is_there && (*to + 1 - *from) * PAGE <= of.request_max => *to = page + 1,
                _ => {
                    self.read_pages(missing.take());
                    missing = (!is_there).then_some((page, page + 1));
                }
            }
        }
        self.read_pages(missing);
        self.keep(start, end, of.kept_max);
    }

    fn read_pages(&mut self, pages: Option<(u64, u64)>) {
        if let Some((from, to)) = pages {
            self.disk.read(from * PAGE, (to - from) * PAGE);
        }
    }
}

impl<D: Device> Device for Buffered<D> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.inner.read_at(offset, buf)?;
        self.shared().read(offset, offset + buf.len() as u64, &self.of);
        Ok(())
    }
}

impl<D: WritableDevice> WritableDevice for Buffered<D> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.inner.write_at(offset, bytes)?;
        let end = offset + bytes.len() as u64;
        let mut shared = self.shared();
        shared.wait(offset, end, self.of.joins);
        shared.keep(offset, end, self.of.kept_max);
        if shared.waiting_bytes > self.of.waiting_max {
            shared.write_out(&self.of);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), WriteError> {
        self.inner.sync()?;
        if !self.of.obeys {
            return Ok(());
        }
        let mut shared = self.shared();
        shared.write_out(&self.of);
        if self.of.flushes {
            shared.disk.flush();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use fsmend_device::WritableMemory;

    use super::*;
    use crate::HddDescription;

    const MIB: u64 = 1 << 20;

    fn buffered(change: impl FnOnce(&mut MemoryDescription)) -> Buffered<Arc<WritableMemory>> {
        let mut of = MemoryDescription {
            waiting_max: 4 * MIB,
            kept_max: 8 * MIB,
            request_max: 128 << 10,
            joins: false,
            flushes: true,
            obeys: true,
        };
        change(&mut of);
        let inner = Arc::new(WritableMemory::new("disk", vec![0; 32 << 20]));
        Buffered::new(inner, HddDescription::barracuda_ata_iv(), of)
    }

    #[test]
    fn what_is_written_waits_and_goes_out_in_order() {
        let device = buffered(|_| ());
        for at in [900, 100, 500] {
            device.write_at(at * 4096, &[1; 4096]).unwrap();
            device.next_file();
        }
        assert_eq!(device.statistics().writes, 0);
        let mut buf = [0; 4096];
        device.read_at(900 * 4096, &mut buf).unwrap();
        assert_eq!((buf[0], device.statistics().reads), (1, 0), "it is in memory");
        device.sync().unwrap();
        assert_eq!((device.statistics().writes, device.statistics().flushes), (3, 1));
        device.empty();
        device.read_at(900 * 4096, &mut buf).unwrap();
        assert_eq!(device.statistics().reads, 1);
    }

    #[test]
    fn one_file_is_one_request_and_two_are_two_unless_they_are_joined() {
        let writes = |joins: bool| {
            let device = buffered(|of| of.joins = joins);
            for at in 0..4 {
                device.write_at(at * 4096, &[1; 4096]).unwrap();
                if at == 1 {
                    device.next_file();
                }
            }
            // Written again, it is written once.
            device.write_at(4096, &[2; 4096]).unwrap();
            device.sync().unwrap();
            (device.statistics().writes, device.statistics().bytes_written)
        };
        assert_eq!(writes(false), (2, 16384));
        assert_eq!(writes(true), (1, 16384));
    }

    #[test]
    fn requests_are_no_longer_than_they_may_be_and_memory_has_an_end() {
        let device = buffered(|_| ());
        device.write_at(0, &vec![1; 3 << 20]).unwrap();
        device.write_at(3 << 20, &vec![1; 2 << 20]).unwrap();
        assert_eq!(device.statistics().writes, 40, "more than may wait");
        device.read_at(0, &mut [0; 4096]).unwrap();
        assert_eq!(device.statistics().reads, 0);
        device.write_at(16 << 20, &vec![1; 8 << 20]).unwrap();
        device.read_at(0, &mut vec![0; 1 << 20]).unwrap();
        assert_eq!(device.statistics().reads, 8, "what was used longest ago is gone");
    }

    #[test]
    fn without_order_a_synchronisation_costs_nothing() {
        let device = buffered(|of| of.obeys = false);
        device.write_at(0, &[1; 4096]).unwrap();
        device.sync().unwrap();
        assert_eq!((device.statistics().writes, device.now()), (0, Duration::ZERO));
        device.write_out();
        assert_eq!(device.statistics().writes, 1);
    }
}
