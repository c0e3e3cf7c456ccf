// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hard disk's time: what it would have taken, on a clock of its own.
//!
//! Seeks by distance, the platters' turning, tracks that are longer outside, a queue from which the disk takes what it can begin
//! soonest, reading ahead, keeping what passes the head on arrival, and a cache for writes. The numbers are those of a data sheet ([`HddDescription`]); nothing is random, and no real
//! clock is asked, so the same requests take the same time everywhere. Seek times follow the usual form (the square root of short distances, evenly
//! for long ones; Ruemmler and Wilkes, "An introduction to disk drive modeling").

mod drives;
mod geometry;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::drive::Ticket;
use crate::request_queue::{Model, RequestQueue};
use fsmend_base::width;

pub use drives::HddDescription;
use geometry::{Geometry, SECTOR};

/// A command that has waited so long goes first, wherever it leads.
const PATIENCE_NS: f64 = 3e9;
/// Longest piece that is put on the platters before the disk looks again what is nearest, in sectors: what of a long stretch is not written yet keeps its place in the
/// cache.
const PIECE_SECTORS: u64 = (1 << 20) / SECTOR;

/// A hard disk and its clock. It holds no bytes; [`Timed`](crate::Timed) puts it around a device that does.
#[derive(Clone, Debug)]
pub(crate) struct Hdd {
    of: HddDescription,
    geometry: Geometry,
    queue: RequestQueue,
    /// When the disk has done what it was told so far.
    free_at: f64,
    cylinder: u64,
    waiting: Vec<Waiting>,
    segments: VecDeque<Segment>,
    /// Written, but not on the platters: first sector and the one behind the last.
    unwritten: BTreeMap<u64, u64>,
    unwritten_sectors: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    ticket: Ticket,
    since: f64,
    sector: u64,
    count: u64,
}

/// A stretch that was read.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    /// The sector behind the last that was asked for, and when it had been read. The disk reads on from there.
    end: u64,
    at: f64,
    /// The sector that reading on does not reach: the segment is full, or the heads were needed elsewhere.
    limit: u64,
    /// The command that it was good for last: the one that was good for nothing the longest makes room.
    used: u64,
}

impl Hdd {
    /// A disk at rest, its heads at the rim.
    pub fn new(of: HddDescription) -> Self {
        Hdd {
            geometry: Geometry::new(&of),
            of,
            queue: RequestQueue::default(),
            free_at: 0.0,
            cylinder: 0,
            waiting: Vec::new(),
            segments: VecDeque::new(),
            unwritten: BTreeMap::new(),
            unwritten_sectors: 0,
        }
    }

    fn over_the_wire(&self, sectors: u64) -> f64 {
        (sectors * SECTOR) as f64 / self.of.interface.max(1) as f64 * 1e9
    }

    /// Adds a stretch to those that wait to be written, joining what touches.
    fn remember(&mut self, mut start: u64, mut end: u64) {
        let touching: Vec<(u64, u64)> = self
            .unwritten
            .range(..=end)
            .rev()
            .map(|(start, end)| (*start, *end))
            .take_while(|(_, other)| *other >= start)
            .collect();
        for (first, last) in touching {
            self.unwritten.remove(&first);
            self.unwritten_sectors -= last - first;
            (start, end) = (start.min(first), end.max(last));
        }
        self.unwritten.insert(start, end);
        self.unwritten_sectors += end - start;
    }

    /// Begins to put on the platters, of what was written, the stretch that the heads reach soonest. The computer waits only until the disk
    /// is done with the one before.
    fn write_out_one(&mut self) {
        let begin = self.queue.now.max(self.free_at);
        let here = self.unwritten.range(..).map(|(start, end)| (*start, *end));
        let nearest = here.min_by(|a, b| self.reach(begin, a.0).total_cmp(&self.reach(begin, b.0)));
        let Some((start, end)) = nearest else { return };
        self.unwritten.remove(&start);
        let rest = end;
        let end = end.min(start + PIECE_SECTORS);
        if end < rest {
            self.unwritten.insert(end, rest);
        }
        self.unwritten_sectors -= end - start;
        self.stop_reading_ahead(begin);
        self.free_at = self.move_and_transfer(begin, start, end - start);
        self.queue.now = begin;
    }

    /// Does the next thing that was asked for; whether there was one.
    fn serve_one(&mut self) -> bool {
        let Some(earliest) = self.waiting.iter().map(|waiting| waiting.since).min_by(f64::total_cmp) else {
            return false;
        };
        let begin = self.free_at.max(earliest);
        let known = self.waiting.iter().enumerate().filter(|(_, waiting)| waiting.since <= begin);
        let known = known.take(self.of.queue_depth.max(1));
        // The command's own time comes before any movement: chosen without it, the nearest sector would just have gone by.
        let ready = begin + self.of.overhead_ms * 1e6;
        let order = |waiting: &Waiting| match begin - waiting.since > PATIENCE_NS {
            true => waiting.since - begin,
            false => self.time_of_arrival(ready, waiting),
        };
        let Some((index, _)) = known.min_by(|a, b| order(a.1).total_cmp(&order(b.1))) else { return false };
        // In the order in which they came, for those that the queue has no room for yet.
        let waiting = self.waiting.remove(index);
        let end = self.serve(ready, &waiting);
        self.queue.finish(waiting.ticket, end);
        true
    }

    /// How long until the first byte could come.
    fn time_of_arrival(&self, begin: f64, waiting: &Waiting) -> f64 {
        let Some(index) = self.segment_for(begin, waiting) else { return self.reach(begin, waiting.sector) };
        let segment = &self.segments[index];
        let beyond = waiting.sector.saturating_sub(segment.end);
        (segment.at + self.geometry.transfer(segment.end, beyond) - begin).max(0.0)
    }

    /// How long it takes to have a sector under the head.
    fn reach(&self, begin: f64, sector: u64) -> f64 {
        let place = self.geometry.place(sector);
        let seek = self.geometry.seek(self.cylinder, place.cylinder);
        seek + self.geometry.rotation(begin + seek, place)
    }

    /// The segment that holds what is asked for, or will if the disk goes on reading where it is.
    fn segment_for(&self, begin: f64, waiting: &Waiting) -> Option<usize> {
        self.segments.iter().position(|segment| {
            let reads_on = self.is_reading_on(segment);
            let known = if reads_on { segment.limit } else { self.reached(segment, begin) };
            // Further ahead than a turn, it is quicker to go there.
            let near =
                waiting.sector <= self.reached(segment, begin) + 2 * u64::from(self.of.sectors_per_track.0);
            segment.start <= waiting.sector && waiting.sector + waiting.count <= known && near
        })
    }

    /// Whether the heads are still where this segment goes on.
    fn is_reading_on(&self, segment: &Segment) -> bool {
        self.segments.back().is_some_and(|last| last.start == segment.start && last.end == segment.end)
    }

    /// The sector behind the last that a segment holds at a moment.
    fn reached(&self, segment: &Segment, at: f64) -> u64 {
        let (mut low, mut high) = (segment.end, segment.limit.max(segment.end));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            let time = self.geometry.transfer(segment.end, middle - segment.end);
            if segment.at + time <= at { low = middle } else { high = middle - 1 }
        }
        low
    }

    /// The heads are needed elsewhere: the latest segment holds what it holds now.
    fn stop_reading_ahead(&mut self, at: f64) {
        let Some(last) = self.segments.back().copied() else { return };
        let reached = self.reached(&last, at);
        if let Some(last) = self.segments.back_mut() {
            (last.end, last.limit, last.at) = (reached, reached, at.min(last.at.max(at)));
        }
    }

    /// Reads, from `begin` on; when it is done.
    fn serve(&mut self, begin: f64, waiting: &Waiting) -> f64 {
        let (sector, count) = (waiting.sector, waiting.count);
        if let Some(index) = self.segment_for(begin, waiting) {
            self.queue.statistics.read_ahead_hits += 1;
            self.segments[index].used = waiting.ticket.0;
            let segment = self.segments[index];
            let end = sector + count;
            let beyond = end.saturating_sub(segment.end);
            let there = segment.at + self.geometry.transfer(segment.end, beyond);
            let done = (begin + self.over_the_wire(count)).max(if beyond > 0 { there } else { begin });
            if beyond > 0 && self.is_reading_on(&segment) {
                self.cylinder = self.geometry.place(end.saturating_sub(1)).cylinder;
                let limit = self.limit(end);
                if let Some(last) = self.segments.back_mut() {
                    (last.end, last.at, last.limit) = (end, there, limit);
                    last.start = last.start.max(end.saturating_sub(self.of.segments.1 / SECTOR));
                }
            }
            self.free_at = done;
            return done;
        }
        self.stop_reading_ahead(begin);
        let passed = self.passed_on_arrival(begin, sector);
        let end = self.move_and_transfer(begin, sector, count);
        if self.segments.len() >= self.of.segments.0.max(1) {
            let oldest = (0..self.segments.len()).min_by_key(|at| self.segments[*at].used);
            oldest.and_then(|at| self.segments.remove(at));
        }
        self.segments.push_back(Segment {
            start: sector - passed,
            end: sector + count,
            at: end,
            limit: self.limit(sector + count),
            used: waiting.ticket.0,
        });
        self.free_at = end;
        end
    }

    /// How many sectors before the one that is wanted pass the head while it waits, and are kept.
    fn passed_on_arrival(&self, begin: f64, sector: u64) -> u64 {
        if !self.of.reads_on_arrival {
            return 0;
        }
        let place = self.geometry.place(sector);
        let seek = self.geometry.seek(self.cylinder, place.cylinder);
        let passed = self.geometry.passed(self.geometry.rotation(begin + seek, place), place);
        passed.min(self.of.segments.1 / SECTOR)
    }

    /// Where reading on from `end` stops by itself.
    fn limit(&self, end: u64) -> u64 {
        (end + self.of.segments.1 / SECTOR).min(self.of.capacity / SECTOR).max(end)
    }

    /// Moves the heads to `sector` and lets so many pass; when it is done.
    fn move_and_transfer(&mut self, begin: f64, sector: u64, count: u64) -> f64 {
        let place = self.geometry.place(sector);
        let seek = self.geometry.seek(self.cylinder, place.cylinder);
        let turn = self.geometry.rotation(begin + seek, place);
        let transfer = self.geometry.transfer(sector, count);
        self.queue.statistics.seeks += u64::from(seek > 0.0);
        self.queue.statistics.seeking += Duration::from_nanos(width::whole(seek));
        self.queue.statistics.turning += Duration::from_nanos(width::whole(turn));
        self.queue.statistics.transferring += Duration::from_nanos(width::whole(transfer));
        self.cylinder = self.geometry.place((sector + count).saturating_sub(1)).cylinder;
        begin + seek + turn + transfer
    }
}

impl Model for Hdd {
    fn queue(&self) -> &RequestQueue {
        &self.queue
    }

    fn queue_mut(&mut self) -> &mut RequestQueue {
        &mut self.queue
    }

    fn ask(&mut self, offset: u64, len: u64) -> Ticket {
        let ticket = self.queue.take_read(len);
        let sector = offset / SECTOR;
        let count = offset.saturating_add(len).div_ceil(SECTOR).saturating_sub(sector);
        self.waiting.push(Waiting { ticket, since: self.queue.now, sector, count });
        ticket
    }

    fn wait(&mut self, ticket: Ticket) {
        while !self.queue.collect(ticket) && self.serve_one() {}
    }

    /// Into the cache while there is room.
    fn write(&mut self, offset: u64, len: u64) {
        self.queue.count_write(len);
        let sector = offset / SECTOR;
        let end = offset.saturating_add(len).div_ceil(SECTOR);
        self.segments.retain(|segment| end <= segment.start || segment.limit <= sector);
        self.queue.now += self.of.overhead_ms * 1e6 + self.over_the_wire(end - sector);
        self.remember(sector, end);
        while self.unwritten_sectors * SECTOR > self.of.write_cache {
            self.write_out_one();
        }
    }

    /// Until it is on the platters.
    fn flush(&mut self) {
        self.queue.statistics.flushes += 1;
        while !self.unwritten.is_empty() {
            self.write_out_one();
        }
        self.queue.now = self.queue.now.max(self.free_at) + self.of.overhead_ms * 1e6;
    }
}

#[cfg(test)]
mod tests {
    use fsmend_base::SeededRandom;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn disk() -> Hdd {
        Hdd::new(HddDescription::default())
    }

    /// Bytes per second, in millions.
    fn rate(disk: &Hdd) -> f64 {
        disk.statistics().bytes_read as f64 / disk.now().as_secs_f64() / 1e6
    }

    #[test]
    fn in_a_row_it_reads_as_fast_as_the_platters_turn() {
        for (start, low, high) in [(0, 118.0, 126.0), (740_000_000_000, 62.0, 68.0)] {
            let mut disk = disk();
            (0..256).for_each(|at| disk.read(start + at * MIB, MIB));
            assert!((low..high).contains(&rate(&disk)), "{} MB/s", rate(&disk));
        }
        let mut small = disk();
        (0..4096).for_each(|at| small.read(at * 4096, 4096));
        // A command for each 4 KiB takes its own time, but not a turn.
        assert!((30.0..45.0).contains(&rate(&small)), "{} MB/s", rate(&small));
        assert!(small.statistics().read_ahead_hits > 4000);
    }

    #[test]
    fn over_all_zones_it_is_as_fast_as_the_paper_says() {
        let mut disk = disk();
        let (pieces, gap) = (300, disk.of.capacity / 300);
        let mut time = Duration::ZERO;
        for piece in 0..pieces {
            disk.read(piece * gap, MIB);
            let before = disk.now();
            (1..17).for_each(|at| disk.read(piece * gap + at * MIB, MIB));
            time += disk.now() - before;
        }
        let rate = (pieces * 16 * MIB) as f64 / time.as_secs_f64() / 1e6;
        assert!((95.0..105.0).contains(&rate), "{rate} MB/s");
    }

    #[test]
    fn a_laptops_disk_is_what_its_data_sheet_says() {
        let mut disk = Hdd::new(HddDescription::laptop());
        (0..256).for_each(|at| disk.read(at * MIB, MIB));
        let rate = rate(&disk);
        assert!((56.0..60.0).contains(&rate), "{rate} MB/s at the rim");
        let mut disk = Hdd::new(HddDescription::laptop());
        let places: Vec<u64> = scattered(1000).iter().map(|place| place / 3 / 4096 * 4096).collect();
        places.iter().for_each(|place| disk.read(*place, 4096));
        let iops = 1000.0 / disk.now().as_secs_f64();
        // 12 ms and half a turn of 11.1 ms.
        assert!((53.0..60.0).contains(&iops), "{iops} a second");
    }

    #[test]
    fn the_disk_of_2001_is_as_fast_as_it_was_measured() {
        let rate_at = |start: u64| {
            let mut disk = Hdd::new(HddDescription::barracuda_ata_iv());
            (0..2048).for_each(|at| disk.read(start + at * (MIB / 8), MIB / 8));
            rate(&disk)
        };
        let (rim, hub) = (rate_at(0), rate_at(79_000_000_000));
        assert!((36.0..43.0).contains(&rim), "{rim} MB/s at the rim");
        assert!((20.0..26.0).contains(&hub), "{hub} MB/s at the hub");
        let mut disk = Hdd::new(HddDescription::barracuda_ata_iv());
        let places: Vec<u64> = scattered(1000).iter().map(|place| place / 10 / 4096 * 4096).collect();
        places.iter().for_each(|place| disk.read(*place, 4096));
        let each = disk.now().as_secs_f64();
        // 10.8 ms and half a turn of 8.3 ms.
        assert!((14.4..15.9).contains(&each), "{each} ms");
    }

    #[test]
    fn what_passes_the_head_on_arrival_is_kept() {
        let reads = |of: HddDescription| {
            let mut disk = Hdd::new(of);
            let mut hits = 0;
            for at in 1..100u64 {
                // Far from everything, then 64 KiB before that.
                disk.read(at * 5_000_000_000, 4096);
                let before = disk.statistics().read_ahead_hits;
                disk.read(at * 5_000_000_000 - 65536, 4096);
                hits += disk.statistics().read_ahead_hits - before;
            }
            hits
        };
        assert!(
            (60..99).contains(&reads(HddDescription::default())),
            "most waits are longer than 64 KiB take"
        );
        assert_eq!(reads(HddDescription { reads_on_arrival: false, ..HddDescription::default() }), 0);
    }

    fn scattered(count: u64) -> Vec<u64> {
        let mut random = SeededRandom::new(7);
        (0..count).map(|_| random.next_u64() % (disk().of.capacity / 4096) * 4096).collect()
    }

    #[test]
    fn scattered_reads_cost_a_seek_and_half_a_turn() {
        let mut disk = disk();
        let places = scattered(1000);
        places.iter().for_each(|place| disk.read(*place, 4096));
        let each = disk.now().as_secs_f64() / 1000.0 * 1e3;
        // As measured by The Tech Report.
        assert!((16.3..17.7).contains(&each), "{each} ms");
    }

    #[test]
    fn a_queue_and_an_order_help() {
        let time = |places: &[u64], depth: usize| {
            let mut disk = disk();
            let mut asked = VecDeque::new();
            for place in places {
                asked.push_back(disk.ask(*place, 4096));
                if asked.len() >= depth {
                    let first = asked.pop_front().expect("there is one");
                    disk.wait(first);
                }
            }
            asked.into_iter().for_each(|ticket| disk.wait(ticket));
            disk.now().as_secs_f64()
        };
        let mut places = scattered(2000);
        let (one, many) = (time(&places, 1), time(&places, 32));
        assert!((1.5..3.0).contains(&(one / many)), "{one} s against {many} s");
        places.sort_unstable();
        assert!(time(&places, 1) < one * 0.65);
    }

    #[test]
    fn nothing_waits_for_ever() {
        let mut disk = disk();
        let far = disk.ask(700_000_000_000, 4096);
        let mut near = VecDeque::new();
        for at in 0..10_000u64 {
            near.push_back(disk.ask(at % 500 * 10_000_000, 4096));
            if near.len() > 16 {
                let first = near.pop_front().expect("there are some");
                disk.wait(first);
            }
            if disk.queue.done_at(far).is_some() {
                break;
            }
        }
        assert!(disk.queue.done_at(far).is_some(), "{:?}", disk.now());
        assert!(disk.now() < Duration::from_secs(5));
    }

    #[test]
    fn writes_are_taken_at_once_and_a_flush_pays_for_them() {
        let mut disk = disk();
        let places = scattered(100);
        places.iter().for_each(|place| disk.write(*place, 4096));
        let taken = disk.now();
        assert!(taken < Duration::from_millis(20), "{taken:?}");
        disk.flush();
        let each = (disk.now() - taken).as_secs_f64() * 10.0;
        assert!((3.0..9.0).contains(&each), "{each} ms: sorted, but not for nothing");
        let before = disk.now();
        disk.flush();
        assert!(disk.now() - before < Duration::from_millis(1), "there was nothing left");
    }

    #[test]
    fn neighbours_are_written_together_and_a_full_cache_is_emptied() {
        let mut disk = disk();
        for at in (0..1000u64).rev() {
            disk.write(at * 4096, 4096);
        }
        assert_eq!((disk.unwritten.len(), disk.unwritten_sectors), (1, 8000));
        disk.write(100, 5000);
        assert_eq!(disk.unwritten_sectors, 8000, "written twice, it waits once");
        for at in 0..64 {
            disk.write(at * MIB, MIB);
        }
        assert!(disk.unwritten_sectors * SECTOR <= 16 * MIB);
        disk.flush();
        let rate = 64.0 * 1.048 / disk.now().as_secs_f64();
        assert!((80.0..126.0).contains(&rate), "{rate} MB/s");
    }

    #[test]
    fn what_was_written_is_not_taken_from_what_was_read() {
        let mut disk = disk();
        disk.read(0, MIB);
        disk.write(MIB / 2, 4096);
        let hits = disk.statistics().read_ahead_hits;
        disk.read(MIB / 2, 4096);
        assert_eq!(disk.statistics().read_ahead_hits, hits);
    }
}
