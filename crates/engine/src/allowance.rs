// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many workers may be at work just now, which the code that watches the machine decides while they work.
//!
//! A worker whose number is not below the allowance parks between two batches, when it holds neither a batch nor a lock
//! nor a read in flight, and goes on when the allowance grows. Worker 0 always works, so that a run always makes progress.

use crate::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The number of workers that may work, shared by a run and its controller.
#[derive(Debug)]
pub struct Allowance {
    /// Written under the lock of `parked`, so that no worker parks on an old number; read without it.
    allowed: AtomicUsize,
    /// Workers that are parked now.
    parked: Mutex<usize>,
    changed: Condvar,
}

impl Allowance {
    /// Lets `workers` of them work at first (at least 1).
    pub fn new(workers: usize) -> Self {
        Allowance {
            allowed: AtomicUsize::new(workers.max(1)),
            parked: Mutex::new(0),
            changed: Condvar::new(),
        }
    }

    /// Lets `workers` of them work from now on (at least 1). Those that are too many stop at the end of their batch.
    pub fn set(&self, workers: usize) {
        let parked = self.lock();
        self.allowed.store(workers.max(1), SeqCst);
        drop(parked);
        self.changed.notify_all();
    }

    /// How many may work now.
    pub fn get(&self) -> usize {
        self.allowed.load(SeqCst)
    }

    /// How many workers are parked now.
    pub fn parked(&self) -> usize {
        *self.lock()
    }

    /// Whether the worker with this number, counted from 0, may work.
    pub fn admits(&self, worker: usize) -> bool {
        worker < self.get()
    }

    /// Parks `worker` until it may work or `is_over`, which must not wait for anything. The code that makes it over calls
    /// [`wake`](Self::wake) afterwards.
    pub fn park(&self, worker: usize, is_over: impl Fn() -> bool) {
        let mut parked = self.lock();
        *parked += 1;
        while !self.admits(worker) && !is_over() {
            parked = self.changed.wait(parked).unwrap_or_else(PoisonError::into_inner);
        }
        *parked -= 1;
    }

    /// Makes parked workers look again whether it is over.
    pub fn wake(&self) {
        // Who is about to park has either seen that it is over, or waits already when this has the lock.
        drop(self.lock());
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// The model checker sees it at work in the pool's tests.
#[cfg(all(test, not(feature = "model")))]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn never_below_one() {
        let allowance = Allowance::new(0);
        assert_eq!(allowance.get(), 1);
        allowance.set(3);
        assert!(allowance.admits(2) && !allowance.admits(3));
        allowance.set(0);
        assert_eq!(allowance.get(), 1);
    }

    #[test]
    fn a_parked_worker_goes_on_when_it_may_or_when_it_is_over() {
        let (allowance, over) = (Allowance::new(1), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| allowance.park(1, || over.load(SeqCst)));
            scope.spawn(|| allowance.park(2, || over.load(SeqCst)));
            while allowance.parked() < 2 {
                std::thread::yield_now();
            }
            allowance.set(2);
            while allowance.parked() > 1 {
                std::thread::yield_now();
            }
            over.store(true, SeqCst);
            allowance.wake();
        });
        assert_eq!(allowance.parked(), 0);
    }
}
