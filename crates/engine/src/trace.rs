// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run did when: each batch, each wait, each phase. Written down only on request; costs nothing else.
//!
//! `cli` turns it into a file that trace viewers open; the bench replays it.

use std::sync::{Mutex, PoisonError};

use crate::clock::Clock;

/// What an event is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A batch of a stage, done by one worker.
    Batch,
    /// A worker had nothing to do.
    Wait,
    /// A worker was not allowed to work.
    Parked,
    /// A part of the run in which several workers can work: from when they start to when the last one is back.
    Parallel,
    /// A part of the run from one milestone to the next, whichever workers took part. Parallel parts lie within.
    Phase,
    /// What workers brought back was put together.
    Merge,
}

impl Kind {
    /// The word for it in the file.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Batch => "batch",
            Kind::Wait => "wait",
            Kind::Parked => "parked",
            Kind::Parallel => "parallel",
            Kind::Phase => "phase",
            Kind::Merge => "merge",
        }
    }
}

/// One thing that took its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// What it is.
    pub kind: Kind,
    /// The stage or phase.
    pub name: &'static str,
    /// The worker, counted from 0.
    pub worker: usize,
    /// When it began, in nanoseconds by the clock of the run.
    pub start_ns: u64,
    /// How long it took.
    pub wall_ns: u64,
    /// Processor time of the worker's thread in it.
    pub cpu_ns: u64,
    /// What was done, for batches.
    pub work: Work,
    /// The batch's number in its parallel part, from 1 on; else 0.
    pub number: u64,
    /// The number of the batch that made it; 0 for none.
    pub parent: u64,
}

/// What a batch came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Things in it, in the unit in which its stage counts outstanding work.
    pub units: u64,
    /// Records or blocks looked at.
    pub items: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Read requests.
    pub requests: u64,
}

/// A moment, by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    wall: u64,
    cpu: u64,
}

impl Moment {
    /// When it was, in nanoseconds by the clock of the run.
    pub fn wall_ns(self) -> u64 {
        self.wall
    }
}

/// The events of a run, as they end.
#[derive(Debug)]
pub struct Trace {
    clock: Clock,
    events: Mutex<Vec<Event>>,
}

impl Trace {
    /// Nothing yet.
    pub fn new(clock: Clock) -> Self {
        Trace { clock, events: Mutex::default() }
    }

    /// The moment, for the thread that asks.
    pub fn now(&self) -> Moment {
        Moment { wall: (self.clock.wall)(), cpu: (self.clock.thread_cpu)() }
    }

    /// Writes down what began at `start` and ends now, on the same thread.
    pub fn end(&self, kind: Kind, name: &'static str, worker: usize, start: Moment) {
        self.end_batch(kind, name, worker, start, Work::default(), (0, 0));
    }

    /// The same for a batch, with what it came to, its number and the number of the batch that made it.
    pub fn end_batch(
        &self,
        kind: Kind,
        name: &'static str,
        worker: usize,
        start: Moment,
        work: Work,
        (number, parent): (u64, u64),
    ) {
        let end = self.now();
        let event = Event {
            kind,
            name,
            worker,
            start_ns: start.wall,
            wall_ns: end.wall.saturating_sub(start.wall),
            cpu_ns: end.cpu.saturating_sub(start.cpu),
            work,
            number,
            parent,
        };
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// All events so far, in the order in which they began.
    pub fn events(&self) -> Vec<Event> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // What began together with what lies within it comes first.
        events.sort_by_key(|event| (event.start_ns, std::cmp::Reverse(event.wall_ns)));
        events
    }
}

/// How much of the work only one worker can do, from the events of a run: what the thread that leads the run did while no other could
/// work, of all processor time. (Within a parallel part it does what every worker does for itself: it takes batches, hands them in, and writes down what
/// they cost. That is no part of it.)
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Serial {
    /// Processor time in batches.
    pub batches_ns: u64,
    /// Processor time of the leading thread in parallel parts, but outside of batches.
    pub between_ns: u64,
    /// Processor time outside of parallel parts.
    pub serial_ns: u64,
}

impl Serial {
    /// Adds it up: the phases are the whole run, and hold the parallel parts, which hold the batches of worker 0.
    pub fn of(events: &[Event]) -> Serial {
        let sum = |wanted: &dyn Fn(&Event) -> bool| {
            events.iter().filter(|event| wanted(event)).map(|event| event.cpu_ns).sum::<u64>()
        };
        let lead = sum(&|event| event.kind == Kind::Batch && event.worker == 0);
        let all = sum(&|event| event.kind == Kind::Phase);
        let parallel = sum(&|event| event.kind == Kind::Parallel);
        Serial {
            batches_ns: sum(&|event| event.kind == Kind::Batch),
            between_ns: parallel.saturating_sub(lead),
            serial_ns: all.saturating_sub(parallel),
        }
    }

    /// The part of the work, from 0 to 1.
    pub fn fraction(self) -> f64 {
        let all = (self.batches_ns + self.between_ns + self.serial_ns).max(1);
        self.serial_ns as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Kind, worker: usize, cpu_ns: u64) -> Event {
        let work = Work::default();
        Event { kind, name: "x", worker, start_ns: 0, wall_ns: cpu_ns, cpu_ns, work, number: 0, parent: 0 }
    }

    #[test]
    fn what_lies_outside_of_parallel_parts_is_serial() {
        let events = [
            event(Kind::Phase, 0, 10),
            event(Kind::Phase, 0, 90),
            event(Kind::Parallel, 0, 75),
            event(Kind::Batch, 0, 40),
            event(Kind::Batch, 0, 30),
            event(Kind::Batch, 1, 70),
            event(Kind::Wait, 1, 1),
        ];
        let serial = Serial::of(&events);
        assert_eq!(serial, Serial { batches_ns: 140, between_ns: 5, serial_ns: 25 });
        assert!((serial.fraction() - 25.0 / 170.0).abs() < 1e-9);
    }
}
