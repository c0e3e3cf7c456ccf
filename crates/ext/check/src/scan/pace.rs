// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast a device answers, found out by a sample, and how much of the sample may be asked for at once.
//!
//! An estimate has little time. What has been asked for has to be waited for, and a device that answers one request in 100 ms, one after the other,
//! would take seconds for as many as a check has in flight. So a sample asks for one thing first, then for twice as many, and so on, unless
//! the device turns out to be fast. Two such steps tell what a request costs beside others: a step of `n` takes the latency and `n - 1` times
//! the cost of one more.

use fsmend_base::width;

use std::sync::{Mutex, PoisonError};

/// What a worker asks for at once when nothing holds it back: as many as it has reads in flight.
pub const FULL: usize = crate::reading::DEPTH;
/// A device that answers faster, in nanoseconds, needs no care. Disks with heads do.
const FAST: u64 = 15_000_000;
/// So many steps in a row have to be fast: a step may have been on its way already, read ahead by the kernel.
const FAST_STEPS: u32 = 3;
/// A larger step that takes no longer than this share of a smaller one shows that requests are served side by side.
const SIDE_BY_SIDE: f64 = 1.3;

/// What is asked for.
#[derive(Clone, Copy)]
pub enum Size {
    /// Single blocks, or a few in a row.
    Block,
    /// Pieces of tables.
    Large,
}

/// Things that one worker asked for at once, and nanoseconds until all were there.
#[derive(Clone, Copy, Debug)]
struct Step {
    count: usize,
    took: u64,
}

#[derive(Debug)]
struct State {
    /// What a worker may ask for next.
    next: usize,
    /// Slow steps.
    last: Option<Step>,
    before: Option<Step>,
    /// Fast steps in a row.
    fast: u32,
    /// Whether any step was fast.
    was_fast: bool,
}

impl State {
    /// Takes in how long a step took; whether it was slow.
    fn is_slow(&mut self, count: usize, took: u64) -> bool {
        if took >= FAST {
            self.fast = 0;
            return true;
        }
        self.fast += 1;
        self.was_fast = true;
        self.grow(2 * count);
        if self.fast >= FAST_STEPS {
            *self = State { next: FULL, last: None, before: None, ..*self };
        }
        false
    }

    fn grow(&mut self, next: usize) {
        self.next = self.next.max(next).min(FULL);
    }
}

/// What the steps so far have shown; shared by the workers of a sample and by one sample after the other.
#[derive(Debug)]
pub struct Pace(Mutex<State>);

impl Default for Pace {
    fn default() -> Self {
        Pace(Mutex::new(State { next: 1, last: None, before: None, fast: 0, was_fast: false }))
    }
}

impl Pace {
    /// How many things a worker may ask for, with so many nanoseconds left; 0 if there is no time for any.
    pub fn next(&self, left: u64) -> usize {
        self.with(|state| match state.last {
            Some(last) => {
                // As if they came one after the other.
                let fitting = width::index(width::whole(left as f64 / last.took as f64 * last.count as f64));
                state.next.min(fitting)
            }
            None => state.next,
        })
    }

    /// Notes a step that waited for the device.
    pub fn note(&self, count: usize, took: u64) {
        self.with(|state| {
            if !state.is_slow(count, took) {
                return;
            }
            let step = Step { count, took };
            match state.last {
                Some(last) if count > last.count => {
                    state.before = state.last;
                    state.last = Some(step);
                }
                Some(last) if count < last.count => {}
                _ => state.last = Some(step),
            }
            let is_side_by_side = state.before.is_some_and(|before| {
                before.count < count && took as f64 <= SIDE_BY_SIDE * before.took as f64
            });
            state.grow(count * if is_side_by_side { 4 } else { 2 });
        });
    }

    /// Notes a step of large requests, which tell nothing of small ones unless they come fast.
    pub fn note_large(&self, count: usize, took: u64) {
        self.with(|state| {
            if state.is_slow(count, took) {
                state.grow(2 * count);
            }
        });
    }

    /// Notes a step that memory answered.
    pub fn note_cached(&self, count: usize) {
        self.with(|state| state.grow(4 * count));
    }

    /// Nanoseconds from one request to the next when so many workers have as many in flight as a check; `None` for a fast device.
    pub fn per_request(&self, workers: usize) -> Option<f64> {
        self.with(|state| {
            let last = state.last?;
            let more = match state.before {
                Some(before) => {
                    last.took.saturating_sub(before.took) as f64 / (last.count - before.count) as f64
                }
                // Among fast ones, a single slow step is a hiccup.
                None if state.was_fast => return None,
                // One step alone does not tell whether it is latency.
                None => last.took as f64 / last.count as f64,
            };
            let full = last.took as f64 + more * FULL.saturating_sub(last.count) as f64;
            Some(full / FULL as f64 / workers.max(1) as f64)
        })
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const LONG: u64 = 1_000_000 * MS;

    /// The steps that a sample makes on a device, and what it takes a request to cost with one worker.
    fn steps(left: u64, took: impl Fn(usize) -> u64) -> (Vec<usize>, Option<f64>) {
        let (pace, mut steps, mut left) = (Pace::default(), Vec::new(), left);
        for _ in 0..8 {
            let count = pace.next(left);
            if count == 0 {
                break;
            }
            steps.push(count);
            pace.note(count, took(count));
            left = left.saturating_sub(took(count));
        }
        (steps, pace.per_request(1).map(|ns| (ns / MS as f64).round()))
    }

    #[test]
    fn fast_devices_are_asked_for_all_at_once() {
        assert_eq!(steps(LONG, |_| MS).0[..4], [1, 2, 4, FULL]);
        assert_eq!(steps(LONG, |_| MS).1, None);
    }

    #[test]
    fn one_slow_step_among_fast_ones_does_not_make_a_device_slow() {
        for slow in [0, 1, 2] {
            let pace = Pace::default();
            for step in 0..3 {
                pace.note(1 << step, if step == slow { 60 * MS } else { MS });
            }
            assert_eq!(pace.per_request(1), None, "{slow}");
        }
        let alone = Pace::default();
        alone.note(1, 60 * MS);
        assert_eq!(alone.per_request(1), Some(60.0 * MS as f64));
    }

    #[test]
    fn a_device_that_serves_one_after_the_other_is_asked_for_no_more_than_there_is_time_for() {
        let (steps, per_request) = steps(2000 * MS, |count| 100 * MS * count as u64);
        assert_eq!(steps, [1, 2, 4, 8, 5]);
        assert_eq!(per_request, Some(100.0));
    }

    #[test]
    fn latency_is_told_from_what_each_request_costs() {
        let (first, per_request) = steps(LONG, |_| 64 * MS);
        assert_eq!(first[..4], [1, 2, 8, FULL]);
        assert_eq!(per_request, Some(2.0), "all that are in flight come back together");
        let (_, per_request) = steps(500 * MS, |count| (90 + 10 * count as u64) * MS);
        assert_eq!(per_request, Some(13.0), "90 ms and 32 times 10");
    }

    #[test]
    fn a_request_that_was_on_its_way_does_not_make_a_slow_device_fast() {
        let (_, per_request) =
            steps(2000 * MS, |count| if count == 2 { MS } else { 100 * MS * count as u64 });
        assert_eq!(per_request, Some(100.0));
        let pace = Pace::default();
        pace.note(1, 5000 * MS);
        (0..FAST_STEPS).for_each(|_| pace.note(pace.next(LONG), MS));
        assert_eq!((pace.per_request(1), pace.next(LONG)), (None, FULL), "a disk that had to wake up");
    }

    #[test]
    fn what_memory_holds_tells_nothing_of_the_device() {
        let pace = Pace::default();
        pace.note_cached(1);
        pace.note_cached(pace.next(LONG));
        assert_eq!((pace.next(LONG), pace.per_request(2)), (16, None));
    }
}
