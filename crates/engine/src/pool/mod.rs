// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stages and workers: batches wait in one queue per stage, every worker can do every stage, and a scheduler decides who takes
//! what (pFSCK §5.1 to §5.4). By default a worker that asks goes where, by the measured cost of what waits, most workers are missing
//! (equations (1) and (2)).
//!
//! The queues are locked once per batch, never per item. Workers own private state which is handed back at the end.
//! Within a stage, batches are taken in the order in which they were pushed, so that work pushed in address order is
//! read in address order.

pub mod mode;
mod queues;
pub mod scheduler;

use std::sync::atomic::AtomicBool;

use crate::Allowance;
use crate::clock::Clock;
use crate::sync::thread;
use crate::trace::{Kind, Trace, Work};

pub use mode::{Mode, Priority};
pub use queues::Queues;
use scheduler::Order;

/// Index of a stage, counted from 0 in the order in which data flow.
pub type StageIndex = usize;

/// A kind of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stage {
    /// What it is called.
    pub name: &'static str,
    /// The pass that it belongs to, counted from 0, for modes that divide workers between passes.
    pub pass: usize,
}

/// In which order batches are taken, and how large they may be. Nothing that is found may depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// How workers are divided between the stages.
    pub mode: Mode,
    /// Takes batches, of whatever stage, in an order drawn from this seed. For tests.
    pub shuffle: Option<u64>,
    /// Most things in a batch, where fewer would not do anyway. For tests.
    pub batch_max: usize,
    /// Whether all workers are used even where one does, since little is to be read. For tests.
    pub every_worker: bool,
}

impl Default for Schedule {
    fn default() -> Self {
        Schedule { mode: Mode::default(), shuffle: None, batch_max: usize::MAX, every_worker: false }
    }
}

/// Who works, and what is noted of it.
#[derive(Clone, Copy, Debug)]
pub struct PoolConfig<'a> {
    /// How many workers there are (0 counts as 1).
    pub workers: usize,
    /// How many of them may work at any time, when that is decided while they work.
    pub allowance: Option<&'a Allowance>,
    /// Measures what batches cost. Without it, all things are taken to cost the same.
    pub clock: Option<Clock>,
    /// The trace, if one is wanted.
    pub trace: Option<&'a Trace>,
    /// Whether all of them work where fewer would do. For tests.
    pub every_worker: bool,
}

impl PoolConfig<'_> {
    /// So many workers, who may always work, and of whom nothing is measured.
    pub fn of(workers: usize) -> Self {
        PoolConfig { workers, allowance: None, clock: None, trace: None, every_worker: false }
    }

    /// The same, with only as many workers as are worth starting for what there is to do.
    #[must_use]
    pub fn for_work(self, useful: usize) -> Self {
        if self.every_worker { self } else { self.at_most(useful) }
    }

    /// The same, but with no more workers than there is work for.
    fn at_most(self, useful: usize) -> Self {
        PoolConfig { workers: self.workers.min(useful).max(1), ..self }
    }

    /// How many may work now.
    pub fn allowed(&self) -> usize {
        let workers = self.workers.max(1);
        self.allowance.map_or(workers, |allowance| allowance.get().min(workers))
    }

    /// Runs `work`, which puts together what workers brought back, and notes how long that took.
    pub fn merge<T>(&self, name: &'static str, work: impl FnOnce() -> T) -> T {
        let start = self.trace.map(Trace::now);
        let result = work();
        if let (Some(trace), Some(start)) = (self.trace, start) {
            trace.end(Kind::Merge, name, 0, start);
        }
        result
    }
}

/// Runs the pool until all queues are empty and no worker is busy, or until cancelled.
/// Each worker gets its own state from `start` and hands it back. Returns the states in worker order.
pub fn run<B: Send, W: Send>(
    pool: PoolConfig<'_>,
    queues: &Queues<'_, B>,
    start: impl Fn(usize) -> W + Sync,
    process: impl Fn(&mut W, StageIndex, B) -> Work + Sync,
) -> Vec<W> {
    let began = pool.trace.map(Trace::now);
    let work = |worker: usize| {
        let _guard = PanicGuard(queues, pool.allowance);
        let mut state = start(worker);
        let mut finished = None;
        while let Some((order, batch)) = take(&pool, queues, worker, finished) {
            finished = Some((
                order,
                measured(&pool, queues, worker, order, || process(&mut state, order.stage, batch)),
            ));
        }
        state
    };
    let states = if pool.workers <= 1 { vec![work(0)] } else { side_by_side(pool.workers, &work) };
    if let (Some(trace), Some(began)) = (pool.trace, began) {
        trace.end(Kind::Parallel, queues.stages().first().map_or("", |stage| stage.name), 0, began);
    }
    states
}

fn side_by_side<W: Send>(workers: usize, work: &(impl Fn(usize) -> W + Sync)) -> Vec<W> {
    thread::scope(|scope| {
        let handles: Vec<_> = (1..workers).map(|worker| scope.spawn(move || work(worker))).collect();
        let mut states = vec![work(0)];
        for handle in handles {
            match handle.join() {
                Ok(state) => states.push(state),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        states
    })
}

/// Lets each of the workers' `states` do something by itself, all at once.
pub fn each<W: Send>(
    pool: PoolConfig<'_>,
    stage: &'static [Stage; 1],
    states: &mut [W],
    work: impl Fn(&mut W) + Sync,
) {
    let never = AtomicBool::new(false);
    let queues = Queues::new(stage, &never);
    states.iter_mut().for_each(|state| queues.push(0, 1, state));
    run(
        pool,
        &queues,
        |_| (),
        |(), _stage, state: &mut W| {
            work(state);
            Work::default()
        },
    );
}

/// The next batch, and a note if it had to be waited for.
fn take<B>(
    pool: &PoolConfig<'_>,
    queues: &Queues<'_, B>,
    worker: usize,
    finished: Option<(Order, u64)>,
) -> Option<(Order, B)> {
    let Some(trace) = pool.trace else { return queues.take(worker, pool, finished).0 };
    let start = trace.now();
    let (taken, waited) = queues.take(worker, pool, finished);
    if let Some(kind) = waited {
        let name = taken.as_ref().map_or("end", |(order, _)| queues.stages()[order.stage].name);
        trace.end(kind, name, worker, start);
    }
    taken
}

/// Does a batch and returns what it cost: nanoseconds, or without a clock its units.
fn measured<B>(
    pool: &PoolConfig<'_>,
    queues: &Queues<'_, B>,
    worker: usize,
    order: Order,
    process: impl FnOnce() -> Work,
) -> u64 {
    let start = pool.clock.map(|clock| (clock.wall)());
    let noted = pool.trace.map(Trace::now);
    let work = process();
    if let (Some(trace), Some(noted)) = (pool.trace, noted) {
        let work = Work { units: order.units, ..work };
        let name = queues.stages()[order.stage].name;
        trace.end_batch(Kind::Batch, name, worker, noted, work, (order.number, order.parent));
    }
    match (pool.clock, start) {
        (Some(clock), Some(start)) => (clock.wall)().saturating_sub(start),
        _ => order.units,
    }
}

/// Ends all workers when its worker panics.
struct PanicGuard<'q, 'c, B>(&'q Queues<'c, B>, Option<&'q Allowance>);

impl<B> Drop for PanicGuard<'_, '_, B> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.give_up(self.1);
        }
    }
}

/// Runs `process` over `items` in parallel, in slices of `slice` items handed out in order, and returns the workers'
/// states. For phases that have one kind of work and know all of it from the start.
pub fn run_slices<T: Sync, W: Send>(
    pool: PoolConfig<'_>,
    stage: &'static [Stage; 1],
    items: &[T],
    slice: usize,
    cancel: &AtomicBool,
    start: impl Fn(usize) -> W + Sync,
    process: impl Fn(&mut W, &[T]) + Sync,
) -> Vec<W> {
    let queues = Queues::new(stage, cancel);
    for part in items.chunks(slice.max(1)) {
        queues.push(0, part.len() as u64, part);
    }
    run(pool.at_most(items.len().div_ceil(slice.max(1))), &queues, start, |state, _stage, part: &[T]| {
        process(state, part);
        Work { items: part.len() as u64, ..Work::default() }
    })
}

#[cfg(test)]
mod tests;
