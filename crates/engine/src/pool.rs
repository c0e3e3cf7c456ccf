//! Stages and workers: batches wait in one queue per stage, every worker can do every stage and takes from the stage
//! that has the most weighted work outstanding (pFSCK §5.3, equations (1) and (2)).
//!
//! The queues are locked once per batch, never per item. Workers own private state which is handed back at the end.
//! Within a stage, batches are taken in the order in which they were pushed, so that work pushed in address order is
//! read in address order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use fsmend_base::SeededRandom;

use crate::Allowance;

/// Index of a stage, counted from 0 in the order in which data flow.
pub type StageIndex = usize;

/// In which order batches are taken, and how large they may be. Nothing may depend on it; tests use that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Takes batches, of whatever stage, in an order drawn from this seed.
    pub shuffle: Option<u64>,
    /// Most things in a batch, where fewer would not do anyway.
    pub batch_max: usize,
}

impl Default for Schedule {
    fn default() -> Self {
        Schedule { shuffle: None, batch_max: usize::MAX }
    }
}

/// Who works.
#[derive(Clone, Copy, Debug)]
pub struct Crew<'a> {
    /// How many workers there are (0 counts as 1).
    pub workers: usize,
    /// How many of them may work at any time, when somebody decides that while they are at it.
    pub allowance: Option<&'a Allowance>,
}

impl Crew<'_> {
    /// So many workers, who may always work.
    pub fn of(workers: usize) -> Self {
        Crew { workers, allowance: None }
    }

    /// The same, but with no more workers than there is work for.
    fn at_most(self, useful: usize) -> Self {
        Crew { workers: self.workers.min(useful).max(1), ..self }
    }
}

struct Waiting<B> {
    shuffle: Option<SeededRandom>,
    queues: Vec<VecDeque<Entry<B>>>,
    weights: Vec<u64>,
    /// Memory that the waiting batches hold.
    bytes: u64,
    active: usize,
    /// A worker panicked: the others go home instead of waiting for it for ever.
    broken: bool,
}

struct Entry<B> {
    weight: u64,
    bytes: u64,
    batch: B,
}

/// The queues of all stages; workers push batches of later stages while they process earlier ones.
pub struct Queues<'c, B> {
    waiting: Mutex<Waiting<B>>,
    changed: Condvar,
    /// Set when nothing more will be handed out, for workers that are parked.
    over: AtomicBool,
    cancel: &'c AtomicBool,
    /// When waiting batches hold more memory than this, later stages come first.
    bytes_max: u64,
}

impl<'c, B> Queues<'c, B> {
    /// Empty queues for `stages` stages. Once `cancel` is set, no further batch is handed out.
    pub fn new(stages: usize, cancel: &'c AtomicBool) -> Self {
        Self::scheduled(stages, cancel, Schedule::default())
    }

    /// The same, with batches taken as `schedule` says.
    pub fn scheduled(stages: usize, cancel: &'c AtomicBool, schedule: Schedule) -> Self {
        let waiting = Waiting {
            shuffle: schedule.shuffle.map(SeededRandom::new),
            queues: std::iter::repeat_with(VecDeque::new).take(stages).collect(),
            weights: vec![0; stages],
            bytes: 0,
            active: 0,
            broken: false,
        };
        Queues {
            waiting: Mutex::new(waiting),
            changed: Condvar::new(),
            over: AtomicBool::new(false),
            cancel,
            bytes_max: u64::MAX,
        }
    }

    /// Lets waiting batches hold at most about `bytes_max` of memory: when they hold more, the latest stage that has work is
    /// served first, whatever the weights say, so that work is used up rather than made.
    pub fn with_bytes_max(self, bytes_max: u64) -> Self {
        Queues { bytes_max, ..self }
    }

    /// Adds a batch with its weight (estimated cost in any unit that is the same for all stages, at least 1).
    pub fn push(&self, stage: StageIndex, weight: u64, batch: B) {
        self.push_large(stage, weight, 0, batch);
    }

    /// Like [`push`](Self::push), for a batch that holds `bytes` of memory while it waits.
    pub fn push_large(&self, stage: StageIndex, weight: u64, bytes: u64, batch: B) {
        let weight = weight.max(1);
        let mut waiting = self.lock();
        waiting.queues[stage].push_back(Entry { weight, bytes, batch });
        waiting.weights[stage] += weight;
        waiting.bytes += bytes;
        drop(waiting);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<B>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next batch for `worker`, waiting while others might still push some and while it may not work; `None` when
    /// all work is done or cancelled.
    fn take(
        &self,
        worker: usize,
        allowance: Option<&Allowance>,
        finished_one: bool,
    ) -> Option<(StageIndex, B)> {
        let mut waiting = self.lock();
        if finished_one {
            waiting.active -= 1;
        }
        loop {
            if waiting.broken || self.cancel.load(Relaxed) || waiting.is_done() {
                drop(waiting);
                self.end(allowance);
                return None;
            }
            if let Some(allowance) = allowance.filter(|allowance| !allowance.admits(worker)) {
                // It may have been woken for a batch, which is now somebody else's.
                drop(waiting);
                self.changed.notify_one();
                allowance.park(worker, || self.over.load(SeqCst));
                waiting = self.lock();
                continue;
            }
            if let Some(next) = waiting.next(self.bytes_max) {
                waiting.active += 1;
                return Some(next);
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sends everybody home.
    fn end(&self, allowance: Option<&Allowance>) {
        self.over.store(true, SeqCst);
        self.changed.notify_all();
        if let Some(allowance) = allowance {
            allowance.wake();
        }
    }
}

impl<B> Waiting<B> {
    /// Whether nobody is at work and nothing waits.
    fn is_done(&self) -> bool {
        self.active == 0 && self.queues.iter().all(VecDeque::is_empty)
    }

    /// Takes a batch of the stage with the most work outstanding; of the last with any, when too much memory waits.
    fn next(&mut self, bytes_max: u64) -> Option<(StageIndex, B)> {
        let mut stages = (0..self.queues.len()).filter(|stage| !self.queues[*stage].is_empty());
        let (stage, at) = if self.bytes > bytes_max {
            (stages.next_back()?, 0)
        } else if let Some(random) = &mut self.shuffle {
            let stages: Vec<StageIndex> = stages.collect();
            let stage = *stages.get(random.below(stages.len() as u64) as usize)?;
            (stage, random.below(self.queues[stage].len() as u64) as usize)
        } else {
            (stages.max_by_key(|stage| (self.weights[*stage], std::cmp::Reverse(*stage)))?, 0)
        };
        let Entry { weight, bytes, batch } = self.queues[stage].remove(at)?;
        self.weights[stage] -= weight;
        self.bytes -= bytes;
        Some((stage, batch))
    }
}

/// Runs the crew until all queues are empty and nobody is at work, or until cancelled.
/// Each worker gets its own state from `start` and hands it back. Returns the states in worker order.
pub fn run<B: Send, W: Send>(
    crew: Crew<'_>,
    queues: &Queues<'_, B>,
    start: impl Fn(usize) -> W + Sync,
    process: impl Fn(&mut W, StageIndex, B) + Sync,
) -> Vec<W> {
    let work = |worker: usize| {
        let _guard = PanicGuard(queues, crew.allowance);
        let mut state = start(worker);
        let mut finished_one = false;
        while let Some((stage, batch)) = queues.take(worker, crew.allowance, finished_one) {
            process(&mut state, stage, batch);
            finished_one = true;
        }
        state
    };
    if crew.workers <= 1 {
        return vec![work(0)];
    }
    std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = (1..crew.workers).map(|worker| scope.spawn(move || work(worker))).collect();
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
pub fn each<W: Send>(states: &mut [W], work: impl Fn(&mut W) + Sync) {
    let Some((first, others)) = states.split_first_mut() else { return };
    std::thread::scope(|scope| {
        let work = &work;
        others.iter_mut().for_each(|state| drop(scope.spawn(move || work(state))));
        work(first);
    });
}

/// Sends everybody home when its worker panics.
struct PanicGuard<'q, 'c, B>(&'q Queues<'c, B>, Option<&'q Allowance>);

impl<B> Drop for PanicGuard<'_, '_, B> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().broken = true;
            self.0.end(self.1);
        }
    }
}

/// Runs `process` over `items` in parallel, in slices of `slice` items handed out in order, and returns the workers'
/// states. For phases that have one kind of work and know all of it from the start.
pub fn run_slices<T: Sync, W: Send>(
    crew: Crew<'_>,
    items: &[T],
    slice: usize,
    cancel: &AtomicBool,
    start: impl Fn(usize) -> W + Sync,
    process: impl Fn(&mut W, &[T]) + Sync,
) -> Vec<W> {
    let queues = Queues::new(1, cancel);
    for part in items.chunks(slice.max(1)) {
        queues.push(0, 1, part);
    }
    run(crew.at_most(items.len().div_ceil(slice.max(1))), &queues, start, |state, _stage, part: &[T]| {
        process(state, part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_makes_work_is_all_done_at_any_worker_count() {
        for workers in [1, 2, 7, 64] {
            let cancel = AtomicBool::new(false);
            let queues = Queues::new(3, &cancel);
            (0..100u64).for_each(|item| queues.push(0, 1, item));
            let states = run(
                Crew::of(workers),
                &queues,
                |_| 0u64,
                |sum, stage, item| {
                    *sum += item;
                    if stage < 2 {
                        queues.push(stage + 1, item, item);
                    }
                },
            );
            assert_eq!(states.iter().sum::<u64>(), 3 * 4950);
        }
    }

    #[test]
    fn cancelling_stops_the_hand_out() {
        let cancel = AtomicBool::new(false);
        let queues = Queues::new(1, &cancel);
        (0..1000u64).for_each(|item| queues.push(0, 1, item));
        let states = run(
            Crew::of(2),
            &queues,
            |_| 0u64,
            |count, _, _| {
                *count += 1;
                cancel.store(true, Relaxed);
            },
        );
        assert!(states.iter().sum::<u64>() <= 2);
    }

    #[test]
    fn a_panic_is_passed_on_and_hangs_nobody() {
        let cancel = AtomicBool::new(false);
        let queues = Queues::new(1, &cancel);
        (0..10u64).for_each(|item| queues.push(0, 1, item));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run(Crew::of(3), &queues, |_| (), |(), _, item| assert_ne!(item, 5));
        }));
        assert!(result.is_err());
    }

    #[test]
    fn too_much_waiting_memory_is_used_up_first() {
        let cancel = AtomicBool::new(false);
        let queues = Queues::new(2, &cancel).with_bytes_max(100);
        (0..50u64).for_each(|item| queues.push(0, 1000, item));
        let most = std::sync::atomic::AtomicU64::new(0);
        run(
            Crew::of(1),
            &queues,
            |_| (),
            |(), stage, item| {
                if stage == 0 {
                    (0..3).for_each(|_| queues.push_large(1, 1, 40, item));
                }
                most.fetch_max(queues.lock().bytes, Relaxed);
            },
        );
        assert_eq!(most.into_inner(), 200, "one batch of the first stage at a time goes beyond the limit");
        assert_eq!(queues.lock().bytes, 0);
    }

    #[test]
    fn only_as_many_work_as_are_allowed_to() {
        for allowed in [1, 2, 4] {
            let (cancel, allowance) = (AtomicBool::new(false), Allowance::new(allowed));
            let queues = Queues::new(2, &cancel);
            (0..200u64).for_each(|item| queues.push(0, 1, item));
            let crew = Crew { workers: 6, allowance: Some(&allowance) };
            let counts = run(
                crew,
                &queues,
                |_| 0,
                |count, stage, item| {
                    *count += 1;
                    if stage == 0 {
                        queues.push(1, 1, item);
                    }
                },
            );
            assert_eq!(counts.iter().sum::<u64>(), 400);
            assert!(counts[allowed..].iter().all(|count| *count == 0), "{counts:?}");
            assert_eq!(allowance.parked(), 0);
        }
    }

    #[test]
    fn an_allowance_that_moves_loses_nothing() {
        let (cancel, allowance) = (AtomicBool::new(false), Allowance::new(4));
        let queues = Queues::new(2, &cancel);
        (0..2000u64).for_each(|item| queues.push(0, 1, item));
        let counts = run(
            Crew { workers: 4, allowance: Some(&allowance) },
            &queues,
            |_| 0,
            |count, stage, item| {
                *count += 1;
                allowance.set(item as usize % 5);
                if stage == 0 {
                    queues.push(1, 1, item);
                }
            },
        );
        assert_eq!(counts.iter().sum::<u64>(), 4000);
    }

    #[test]
    fn a_panic_is_passed_on_beside_parked_workers() {
        let (cancel, allowance) = (AtomicBool::new(false), Allowance::new(1));
        let queues = Queues::new(1, &cancel);
        (0..10u64).for_each(|item| queues.push(0, 1, item));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let crew = Crew { workers: 3, allowance: Some(&allowance) };
            run(crew, &queues, |_| (), |(), _, item| assert_ne!(item, 5));
        }));
        assert!(result.is_err());
        assert_eq!(allowance.parked(), 0);
    }

    #[test]
    fn slices_cover_everything_once() {
        let items: Vec<u64> = (0..1001).collect();
        let sums = run_slices(
            Crew::of(3),
            &items,
            10,
            &AtomicBool::new(false),
            |_| 0,
            |sum, part| *sum += part.iter().sum::<u64>(),
        );
        assert_eq!(sums.iter().sum::<u64>(), 500_500);
    }
}
