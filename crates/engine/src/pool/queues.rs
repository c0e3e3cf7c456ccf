// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler behind a lock, for workers that are threads. The lock is taken once or twice per batch, never per item.

use std::cell::Cell;

use crate::Allowance;
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use crate::trace::Kind;

use super::scheduler::{Order, Scheduler, Turn};
use super::{PoolConfig, Schedule, Stage, StageIndex};

std::thread_local! {
    /// The number of the batch that this thread is at work on, for the trace: who made which batch.
    static AT_WORK: Cell<u64> = const { Cell::new(0) };
}

/// The queues of all stages; workers push batches of later stages while they process earlier ones.
pub struct Queues<'c, B> {
    waiting: Mutex<Waiting<B>>,
    changed: Condvar,
    /// Set when nothing more will be handed out, for workers that are parked.
    over: AtomicBool,
    cancel: &'c std::sync::atomic::AtomicBool,
    stages: &'static [Stage],
}

struct Waiting<B> {
    scheduler: Scheduler<B>,
    /// Workers that wait for work.
    idle: usize,
    /// A worker panicked: the others go home instead of waiting for it for ever.
    broken: bool,
}

impl<'c, B> Queues<'c, B> {
    /// Empty queues for these stages. Once `cancel` is set, no further batch is handed out.
    pub fn new(stages: &'static [Stage], cancel: &'c std::sync::atomic::AtomicBool) -> Self {
        Self::scheduled(stages, cancel, Schedule::default(), u64::MAX)
    }

    /// The same, with batches taken as `schedule` says, which hold at most about `bytes_max` of memory while they wait.
    pub fn scheduled(
        stages: &'static [Stage],
        cancel: &'c std::sync::atomic::AtomicBool,
        schedule: Schedule,
        bytes_max: u64,
    ) -> Self {
        let scheduler = Scheduler::new(stages, schedule, bytes_max);
        Queues {
            waiting: Mutex::new(Waiting { scheduler, idle: 0, broken: false }),
            changed: Condvar::new(),
            over: AtomicBool::new(false),
            cancel,
            stages,
        }
    }

    /// The stages.
    pub fn stages(&self) -> &'static [Stage] {
        self.stages
    }

    /// Adds a batch of so many things (in a unit that is the same within the stage).
    pub fn push(&self, stage: StageIndex, units: u64, batch: B) {
        self.push_large(stage, units, 0, batch);
    }

    /// Like [`push`](Self::push), for a batch that holds `bytes` of memory while it waits.
    pub fn push_large(&self, stage: StageIndex, units: u64, bytes: u64, batch: B) {
        let mut waiting = self.lock();
        waiting.scheduler.push(stage, units, bytes, AT_WORK.get(), batch);
        self.call(&waiting);
    }

    /// Memory that waiting batches hold.
    pub fn bytes(&self) -> u64 {
        self.lock().scheduler.bytes()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<B>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes whom a change may concern: one worker for a new batch; all where not every worker may take it.
    fn call(&self, waiting: &Waiting<B>) {
        match waiting.idle {
            0 => {}
            _ if waiting.scheduler.divides() => self.changed.notify_all(),
            _ => self.changed.notify_one(),
        }
    }

    /// Hands in the batch that took so long, if there was one, and takes the next one for `worker`, waiting while others might
    /// push some and while it may not work. `None` when all work is done or cancelled. Says beside it what it waited for last.
    pub(super) fn take(
        &self,
        worker: usize,
        pool: &PoolConfig<'_>,
        finished: Option<(Order, u64)>,
    ) -> (Option<(Order, B)>, Option<Kind>) {
        AT_WORK.set(0);
        let mut waited = None;
        let mut waiting = self.lock();
        if let Some((order, ns)) = finished {
            waiting.scheduler.finish(order, ns);
            if waiting.scheduler.divides() {
                self.call(&waiting);
            }
        }
        loop {
            if waiting.broken || self.cancel.load(Relaxed) || waiting.scheduler.is_done() {
                drop(waiting);
                self.end(pool.allowance);
                return (None, waited);
            }
            if let Some(allowance) = pool.allowance.filter(|allowance| !allowance.admits(worker)) {
                // It may have been woken for a batch, which another worker has taken; and pools are divided anew.
                self.changed.notify_all();
                drop(waiting);
                allowance.park(worker, || self.over.load(SeqCst));
                waited = Some(Kind::Parked);
                waiting = self.lock();
                continue;
            }
            if let Turn::Work(order, batch) = waiting.scheduler.next(worker, pool.allowed()) {
                AT_WORK.set(order.number);
                return (Some((order, batch)), waited);
            }
            waited = Some(Kind::Wait);
            waiting.idle += 1;
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.idle -= 1;
        }
    }

    /// Ends all workers.
    fn end(&self, allowance: Option<&Allowance>) {
        self.over.store(true, SeqCst);
        self.changed.notify_all();
        if let Some(allowance) = allowance {
            allowance.wake();
        }
    }

    /// Ends all workers because one will never come back.
    pub(super) fn give_up(&self, allowance: Option<&Allowance>) {
        self.lock().broken = true;
        self.end(allowance);
    }
}
