// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of disks without platters: pages on dies that work side by side, a link, a queue, and memory for writes.
//!
//! A command takes a fixed time of its own; each page that it touches keeps the die that holds it busy, and then its bytes go over the link. Nothing is random: the
//! die is that of the page's number. Garbage collection and wear are not modelled: the disk is as fast as a new one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::drive::Ticket;
use crate::request_queue::{Model, RequestQueue};
use fsmend_base::width;

/// What is known of a disk.
#[derive(Clone, Debug, PartialEq)]
pub struct FlashDescription {
    /// Bytes that it holds.
    pub capacity: u64,
    /// Dies, or groups of them, that read at the same time.
    pub dies: u32,
    /// Bytes that a die reads at a time.
    pub page: u64,
    /// Nanoseconds in which it does.
    pub page_ns: f64,
    /// Nanoseconds of each command to read, besides.
    pub read_ns: f64,
    /// Nanoseconds of each command to write, until the disk's memory holds the data.
    pub write_ns: f64,
    /// Bytes per second over the link.
    pub link: u64,
    /// Bytes per second that leave the disk's memory for the dies.
    pub write_rate: u64,
    /// Bytes of writes that it takes before.
    pub write_cache: u64,
    /// Commands that it works on at the same time.
    pub queue_depth: usize,
}

impl FlashDescription {
    /// A Samsung 850 EVO of 1 TB, with SATA.
    ///
    /// The maker's figures (540 MB/s read, 520 written; 10 000 reads of 4 KiB and 40 000 writes a second one by one, as told by dealers; 94 000 to 98 000 reads with 32 in flight, CIO,
    /// "Samsung packs more speed, endurance into 850 Evo"). Dies and times are what yields these.
    pub fn ssd() -> Self {
        FlashDescription {
            capacity: 1_000_000_000_000,
            dies: 8,
            page: 16 << 10,
            page_ns: 73_000.0,
            read_ns: 19_400.0,
            write_ns: 17_000.0,
            link: 540_000_000,
            write_rate: 520_000_000,
            write_cache: 64 << 20,
            queue_depth: 32,
        }
    }

    /// A Samsung 960 EVO of 1 TB, with NVMe.
    ///
    /// The maker's figures (3200 MB/s read, 1900 written; 14 000 reads of 4 KiB and 50 000 writes a second one by one, 380 000 reads with 32 in flight): HotHardware,
    /// "Samsung SSD 960 EVO NVMe M.2 review". Dies and times are what yields these.
    pub fn nvme() -> Self {
        FlashDescription {
            capacity: 1_000_000_000_000,
            dies: 64,
            page: 16 << 10,
            page_ns: 55_000.0,
            read_ns: 15_000.0,
            write_ns: 18_700.0,
            link: 3_200_000_000,
            write_rate: 1_900_000_000,
            write_cache: 64 << 20,
            queue_depth: 1024,
        }
    }
}

/// A disk without platters, and its clock.
#[derive(Clone, Debug)]
pub(crate) struct Flash {
    of: FlashDescription,
    queue: RequestQueue,
    /// When each die is free.
    dies: Vec<f64>,
    /// When the link would be free if it had never waited.
    link_free: f64,
    /// When everything that was written will be on the dies.
    written_at: f64,
    /// When the commands that it works on will be done, in whole nanoseconds.
    flying: BinaryHeap<Reverse<u64>>,
}

impl Flash {
    /// A disk at rest.
    pub fn new(of: FlashDescription) -> Self {
        Flash {
            dies: vec![0.0; of.dies.max(1) as usize],
            of,
            queue: RequestQueue::default(),
            link_free: 0.0,
            written_at: 0.0,
            flying: BinaryHeap::new(),
        }
    }

    /// When the next command may begin: at once, or when one of those in the queue is done.
    fn admitted(&mut self) -> f64 {
        let mut begin = self.queue.now;
        while let Some(Reverse(end)) = self.flying.peek().copied() {
            let end = end as f64;
            if end > begin && self.flying.len() < self.of.queue_depth.max(1) {
                break;
            }
            begin = begin.max(end);
            self.flying.pop();
        }
        begin
    }
}

impl Model for Flash {
    fn queue(&self) -> &RequestQueue {
        &self.queue
    }

    fn queue_mut(&mut self) -> &mut RequestQueue {
        &mut self.queue
    }

    fn ask(&mut self, offset: u64, len: u64) -> Ticket {
        let ticket = self.queue.take_read(len);
        let begin = self.admitted();
        let page = self.of.page.max(1);
        let (first, last) = (offset / page, offset.saturating_add(len.max(1) - 1) / page);
        self.link_free = self.link_free.max(begin);
        let mut end = begin;
        for number in first..=last {
            let from = offset.max(number * page);
            let bytes = offset.saturating_add(len).min((number + 1).saturating_mul(page)) - from;
            let over = bytes as f64 / self.of.link.max(1) as f64 * 1e9;
            let die = width::index(number % self.dies.len() as u64);
            let read = self.dies[die].max(begin) + self.of.page_ns;
            self.dies[die] = read;
            // Bytes go over as they come, in any order: the link is only ever as busy as the bytes are many.
            self.link_free += over;
            end = end.max(read + over).max(self.link_free);
        }
        end += self.of.read_ns;
        self.flying.push(Reverse(width::whole(end)));
        self.queue.finish(ticket, end);
        ticket
    }

    fn wait(&mut self, ticket: Ticket) {
        self.queue.collect(ticket);
    }

    /// Where it goes does not matter.
    fn write(&mut self, _offset: u64, len: u64) {
        self.queue.count_write(len);
        let rate = self.of.write_rate.max(1) as f64 / 1e9;
        self.queue.now += self.of.write_ns + len as f64 / self.of.link.max(1) as f64 * 1e9;
        self.written_at = self.written_at.max(self.queue.now) + len as f64 / rate;
        let room_at = self.written_at - self.of.write_cache as f64 / rate;
        self.queue.now = self.queue.now.max(room_at);
    }

    fn flush(&mut self) {
        self.queue.statistics.flushes += 1;
        self.queue.now = self.queue.now.max(self.written_at) + self.of.write_ns;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use fsmend_base::SeededRandom;

    use super::*;

    fn done(disk: &Flash, ticket: Ticket) -> f64 {
        disk.queue.done_at(ticket).expect("each ticket is waited for once")
    }

    /// Reads of 4 KiB a second, with so many in flight.
    fn reads_a_second(of: FlashDescription, depth: usize) -> f64 {
        let (mut disk, mut random, mut asked) = (Flash::new(of), SeededRandom::new(3), VecDeque::new());
        for _ in 0..20_000 {
            asked.push_back(disk.ask(random.below(1 << 27) * 4096, 4096));
            if asked.len() >= depth {
                // The request that is done first makes room for the next one.
                let soonest =
                    (0..asked.len()).min_by(|a, b| done(&disk, asked[*a]).total_cmp(&done(&disk, asked[*b])));
                let first = soonest.and_then(|at| asked.remove(at)).expect("there is one");
                disk.wait(first);
            }
        }
        20_000.0 / disk.now().as_secs_f64()
    }

    fn megabytes_a_second(of: FlashDescription, mut work: impl FnMut(&mut Flash, u64)) -> f64 {
        let mut disk = Flash::new(of);
        (0..8192).for_each(|at| work(&mut disk, at << 20));
        8192.0 * f64::from(1 << 20) / disk.now().as_secs_f64() / 1e6
    }

    fn about(measured: f64, published: f64) {
        assert!((measured / published - 1.0).abs() < 0.08, "{measured}, published are {published}");
    }

    #[test]
    fn figures_are_those_that_were_published() {
        about(reads_a_second(FlashDescription::ssd(), 1), 10_000.0);
        about(reads_a_second(FlashDescription::ssd(), 32), 96_000.0);
        about(reads_a_second(FlashDescription::nvme(), 1), 14_000.0);
        about(reads_a_second(FlashDescription::nvme(), 32), 380_000.0);
        for (of, read, write) in
            [(FlashDescription::ssd(), 540.0, 520.0), (FlashDescription::nvme(), 3200.0, 1900.0)]
        {
            let mut asked = VecDeque::new();
            let in_a_row = |disk: &mut Flash, at| {
                asked.push_back(disk.ask(at, 1 << 20));
                if asked.len() > 8 {
                    asked.pop_front().into_iter().for_each(|first| disk.wait(first));
                }
            };
            about(megabytes_a_second(of.clone(), in_a_row), read);
            about(megabytes_a_second(of.clone(), |disk, _| disk.write(0, 1 << 20)), write);
        }
    }

    #[test]
    fn small_writes_are_taken_at_once_and_a_flush_waits_for_them() {
        for (of, published) in [(FlashDescription::ssd(), 40_000.0), (FlashDescription::nvme(), 50_000.0)] {
            let mut disk = Flash::new(of);
            (0..1000).for_each(|_| disk.write(0, 4096));
            about(1000.0 / disk.now().as_secs_f64(), published);
        }
        let mut disk = Flash::new(FlashDescription::ssd());
        disk.write(0, 100 << 20);
        disk.write(0, 100 << 20);
        let taken = disk.now();
        disk.flush();
        assert!(disk.now() > taken, "the dies are slower than the link");
        let before = disk.now();
        disk.flush();
        assert!(disk.now() - before < Duration::from_micros(50));
    }

    #[test]
    fn a_full_queue_makes_the_next_one_wait() {
        let narrow = FlashDescription { queue_depth: 1, ..FlashDescription::nvme() };
        let (one, many) = (reads_a_second(narrow, 32), reads_a_second(FlashDescription::nvme(), 1));
        assert!((one / many - 1.0).abs() < 0.05, "{one} and {many}");
    }
}
