// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which batch is next, and for whom: the whole scheduler, as a plain value. It starts no thread, takes no lock and reads no
//! clock, so that threads can drive it in real time and a simulation in virtual time, with any number of workers.

use std::collections::VecDeque;

use fsmend_base::{SeededRandom, width};

use super::mode::{Mode, Outstanding, most_wanted};
use super::{Schedule, Stage, StageIndex};

/// Measured nanoseconds beyond which older measurements count half: weights follow the run.
const MEASURED_MAX: u64 = 100_000_000;

/// Queues of batches, one for each stage, and who is at work.
#[derive(Debug)]
pub struct Scheduler<B> {
    mode: Mode,
    shuffle: Option<SeededRandom>,
    passes: usize,
    lanes: Vec<Lane<B>>,
    /// Memory that the waiting batches hold.
    bytes: u64,
    bytes_max: u64,
    /// Batches that were pushed so far.
    pushed: u64,
}

/// A stage: its queue, who is at work, and what its things have cost.
#[derive(Debug)]
struct Lane<B> {
    pass: usize,
    queue: VecDeque<Entry<B>>,
    units: u64,
    active: usize,
    measured_ns: u64,
    measured_units: u64,
}

#[derive(Debug)]
struct Entry<B> {
    order: Order,
    bytes: u64,
    batch: B,
}

/// What is known of a batch before it is worked on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// The stage.
    pub stage: StageIndex,
    /// The things in the batch, in any unit that stays the same within the stage.
    pub units: u64,
    /// Its number, from 1 on.
    pub number: u64,
    /// The number of the batch that made it; 0 for those that were there at first.
    pub parent: u64,
}

/// What a worker is to do now.
#[derive(Debug)]
pub enum Turn<B> {
    /// This batch.
    Work(Order, B),
    /// Wait: others may push some more.
    Wait,
    /// Go home: everything is done.
    Done,
}

impl<B> Scheduler<B> {
    /// Empty queues for these stages, which wait with at most about `bytes_max` of memory: when batches hold more, the latest
    /// stage that has work is served first, whatever else is the rule, so that work is used up rather than made.
    pub fn new(stages: &[Stage], schedule: Schedule, bytes_max: u64) -> Self {
        let lane = |stage: &Stage| Lane {
            pass: stage.pass,
            queue: VecDeque::new(),
            units: 0,
            active: 0,
            measured_ns: 0,
            measured_units: 0,
        };
        Scheduler {
            mode: schedule.mode,
            shuffle: schedule.shuffle.map(SeededRandom::new),
            passes: stages.iter().map(|stage| stage.pass + 1).max().unwrap_or(1),
            lanes: stages.iter().map(lane).collect(),
            bytes: 0,
            bytes_max,
            pushed: 0,
        }
    }

    /// Adds a batch of so many things (at least 1), which holds so much memory while it waits. Returns its number.
    pub fn push(&mut self, stage: StageIndex, units: u64, bytes: u64, parent: u64, batch: B) -> u64 {
        let units = units.max(1);
        self.pushed += 1;
        let order = Order { stage, units, number: self.pushed, parent };
        let lane = &mut self.lanes[stage];
        lane.units += units;
        lane.queue.push_back(Entry { order, bytes, batch });
        self.bytes += bytes;
        self.pushed
    }

    /// What worker number `worker` is to do, when `workers` of them may work.
    pub fn next(&mut self, worker: usize, workers: usize) -> Turn<B> {
        let Some((stage, at)) = self.choose(worker, workers) else {
            return if self.is_done() { Turn::Done } else { Turn::Wait };
        };
        let lane = &mut self.lanes[stage];
        let Some(Entry { order, bytes, batch }) = lane.queue.remove(at) else { return Turn::Wait };
        lane.units -= order.units;
        lane.active += 1;
        self.bytes -= bytes;
        Turn::Work(order, batch)
    }

    /// A batch is done, and took so long. What it left to do was pushed before.
    pub fn finish(&mut self, order: Order, ns: u64) {
        let lane = &mut self.lanes[order.stage];
        lane.active -= 1;
        lane.measured_ns = lane.measured_ns.saturating_add(ns.max(1));
        lane.measured_units = lane.measured_units.saturating_add(order.units);
        while lane.measured_ns > MEASURED_MAX && lane.measured_units > 1 {
            (lane.measured_ns, lane.measured_units) = (lane.measured_ns / 2, lane.measured_units / 2);
        }
    }

    /// Whether no worker is busy and nothing waits.
    pub fn is_done(&self) -> bool {
        self.lanes.iter().all(|lane| lane.active == 0 && lane.queue.is_empty())
    }

    /// Memory that waiting batches hold.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether who waits has to look again after every change.
    pub(super) fn divides(&self) -> bool {
        self.mode.divides()
    }

    /// The stage, and the place in its queue, of the next batch for a worker.
    fn choose(&mut self, worker: usize, workers: usize) -> Option<(StageIndex, usize)> {
        if self.bytes > self.bytes_max {
            return self.lanes.iter().rposition(|lane| !lane.queue.is_empty()).map(|stage| (stage, 0));
        }
        let open = self.open_to(worker, workers);
        if let Some(random) = &mut self.shuffle {
            let stage = open.get(width::index(random.below((open.len() as u64).max(1))))?.stage;
            return Some((stage, width::index(random.below(self.lanes[stage].queue.len() as u64))));
        }
        most_wanted(&open, workers).map(|stage| (stage, 0))
    }

    /// The stages with work from which a worker may take.
    fn open_to(&self, worker: usize, workers: usize) -> Vec<Outstanding> {
        let is_busy = |lane: &Lane<B>| lane.active > 0 || !lane.queue.is_empty();
        let barrier = if self.mode.has_barriers() { self.lanes.iter().position(is_busy) } else { None };
        let pass = self.mode.pass_of(worker, workers, self.passes);
        let is_open = |stage: StageIndex, lane: &Lane<B>| {
            !lane.queue.is_empty()
                && barrier.is_none_or(|first| first == stage)
                && pass.is_none_or(|pass| pass == lane.pass)
        };
        let lanes = self.lanes.iter().enumerate().filter(|(stage, lane)| is_open(*stage, lane));
        lanes.map(|(stage, lane)| lane.outstanding(stage)).collect()
    }
}

impl<B> Lane<B> {
    fn outstanding(&self, stage: StageIndex) -> Outstanding {
        let measured = (self.measured_units > 0).then_some((self.measured_ns, self.measured_units));
        let weight = measured.map(|(ns, units)| ns as f64 / units as f64);
        Outstanding { stage, units: self.units, weight, active: self.active }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGES: [Stage; 3] =
        [Stage { name: "one", pass: 0 }, Stage { name: "two", pass: 0 }, Stage { name: "three", pass: 1 }];

    fn scheduler(mode: Mode) -> Scheduler<u64> {
        let mut scheduler = Scheduler::new(&STAGES, Schedule { mode, ..Schedule::default() }, u64::MAX);
        for stage in [0, 0, 1, 2, 2] {
            scheduler.push(stage, 10, 0, 0, 0);
        }
        scheduler
    }

    /// The stage that a worker takes its next batch from.
    fn taken(scheduler: &mut Scheduler<u64>, worker: usize, workers: usize) -> Option<Order> {
        match scheduler.next(worker, workers) {
            Turn::Work(order, _) => Some(order),
            _ => None,
        }
    }

    #[test]
    fn data_parallelism_has_barriers() {
        let mut scheduler = scheduler(Mode::Data);
        let stages = |orders: &[Option<Order>]| orders.iter().map(|o| o.map(|o| o.stage)).collect::<Vec<_>>();
        let orders: Vec<_> = (0..3).map(|worker| taken(&mut scheduler, worker, 3)).collect();
        assert_eq!(stages(&orders), [Some(0), Some(0), None]);
        orders.iter().flatten().for_each(|order| scheduler.finish(*order, 1));
        let orders: Vec<_> = (0..3).map(|worker| taken(&mut scheduler, worker, 3)).collect();
        assert_eq!(stages(&orders), [Some(1), None, None]);
        orders.iter().flatten().for_each(|order| scheduler.finish(*order, 1));
        assert_eq!(taken(&mut scheduler, 2, 3).map(|order| order.stage), Some(2));
    }

    #[test]
    fn pools_keep_to_their_pass() {
        let mut scheduler = scheduler(Mode::PipelineEqual);
        let second: Vec<_> = std::iter::from_fn(|| taken(&mut scheduler, 1, 2)).map(|o| o.stage).collect();
        assert_eq!(second, [2, 2]);
        assert_eq!(taken(&mut scheduler, 1, 1).map(|order| order.stage), Some(0), "alone it does everything");
    }

    #[test]
    fn measured_weights_move_workers() {
        let mut scheduler = scheduler(Mode::Dynamic);
        // Each stage is measured once: the last one is a hundred times as dear.
        for ns in [10, 10, 1000] {
            let order = taken(&mut scheduler, 0, 1).expect("there is work");
            scheduler.finish(order, ns);
        }
        assert_eq!(taken(&mut scheduler, 0, 1).map(|order| order.stage), Some(2));
    }

    #[test]
    fn weights_follow_the_run() {
        let mut scheduler = scheduler(Mode::Dynamic);
        let order = taken(&mut scheduler, 0, 1).expect("there is work");
        let again = |scheduler: &mut Scheduler<u64>, ns, times| {
            for _ in 0..times {
                scheduler.lanes[0].active += 1;
                scheduler.finish(order, ns);
            }
        };
        scheduler.finish(order, 1_000_000);
        again(&mut scheduler, 1_000_000, 1000);
        again(&mut scheduler, 10_000_000, 100);
        let weight = scheduler.lanes[0].outstanding(0).weight.expect("it was measured");
        assert!((900_000.0..1_100_000.0).contains(&weight), "{weight} ns for one of ten");
    }

    #[test]
    fn too_much_waiting_memory_is_used_up_first() {
        for mode in [Mode::Serial, Mode::Data, Mode::PipelineEqual, Mode::Dynamic] {
            let mut scheduler = Scheduler::new(&STAGES, Schedule { mode, ..Schedule::default() }, 100);
            scheduler.push(0, 1 << 30, 0, 0, 0);
            for _ in 0..3 {
                scheduler.push(2, 1, 40, 0, 0);
            }
            assert_eq!(taken(&mut scheduler, 0, 2).map(|order| order.stage), Some(2), "{mode}");
            assert_eq!(scheduler.bytes(), 80);
        }
    }
}
