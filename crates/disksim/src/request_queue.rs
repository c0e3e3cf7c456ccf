// SPDX-License-Identifier: MIT OR Apache-2.0
//! What disks of any kind have in common: the computer's clock, tickets for what was asked, and a count of what was done.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::drive::{DiskStatistics, Ticket};
use fsmend_base::width;

/// Where a disk takes what it is asked, and hands out what is done. Times are nanoseconds since it was turned on.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestQueue {
    /// The computer's time.
    pub now: f64,
    /// What was done so far.
    pub statistics: DiskStatistics,
    /// When that was there, or will be, and was not waited for yet.
    done: BTreeMap<Ticket, f64>,
    next: u64,
}

impl RequestQueue {
    /// Takes and counts a command to read so many bytes.
    pub fn take_read(&mut self, len: u64) -> Ticket {
        self.statistics.reads += 1;
        self.statistics.bytes_read += len;
        self.next += 1;
        Ticket(self.next - 1)
    }

    /// Counts a command to write so many bytes.
    pub fn count_write(&mut self, len: u64) {
        self.statistics.writes += 1;
        self.statistics.bytes_written += len;
    }

    /// What a ticket stands for is there at that time.
    pub fn finish(&mut self, ticket: Ticket, at: f64) {
        self.done.insert(ticket, at);
    }

    /// Waits for what a ticket stands for, if it is known when that is there; whether it is.
    pub fn collect(&mut self, ticket: Ticket) -> bool {
        let at = self.done.remove(&ticket);
        self.now = at.map_or(self.now, |at| self.now.max(at));
        at.is_some()
    }

    /// When that is there, if it is known, and it was not waited for.
    #[cfg(test)]
    pub fn done_at(&self, ticket: Ticket) -> Option<f64> {
        self.done.get(&ticket).copied()
    }
}

/// A disk of one kind: what it does in its own way, and what follows from that for all of them.
pub(crate) trait Model {
    /// Its queue.
    fn queue(&self) -> &RequestQueue;

    /// The same, to be changed.
    fn queue_mut(&mut self) -> &mut RequestQueue;

    /// Asks for some bytes without waiting for them.
    fn ask(&mut self, offset: u64, len: u64) -> Ticket;

    /// Waits for what was asked for. A ticket is good once.
    fn wait(&mut self, ticket: Ticket);

    /// Writes some bytes: into the disk's memory while there is room.
    fn write(&mut self, offset: u64, len: u64);

    /// Waits until everything that was written is safe.
    fn flush(&mut self);

    /// The time that has passed.
    fn now(&self) -> Duration {
        Duration::from_nanos(width::whole(self.queue().now))
    }

    /// What was done in it.
    fn statistics(&self) -> DiskStatistics {
        self.queue().statistics
    }

    /// The computer does something else for so long.
    fn spend(&mut self, time: Duration) {
        self.queue_mut().now += time.as_nanos() as f64;
    }

    /// Reads some bytes, and waits for them.
    fn read(&mut self, offset: u64, len: u64) {
        let ticket = self.ask(offset, len);
        self.wait(ticket);
    }
}
