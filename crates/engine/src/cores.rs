// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many cores a run may use in the background: the core budget (pFSCK §5.4.1).
//!
//! The decision is made here, from samples that the caller takes about every [`INTERVAL_NS`]; this module reads nothing and
//! looks at no clock. The rule, for the span between two samples:
//!
//! - What may be had is what was idle: the idle time of the cores on which we may run, and what we used ourselves. Where a
//!   control group has a quota, no more than what is left of that. As many workers as fit into it may work.
//! - That does not show who was kept waiting: when nothing is idle, what we use may be what another process lacks. So when tasks
//!   waited for a core in a good part of the span, and none was free, the budget is quartered at once. What it lost too much it
//!   gets back with the first core that is idle.
//! - It shrinks as soon as less fits, and grows when one more fits with some room to spare; there is always one.
//!
//! The span is that of the last samples ([`WINDOW_NS`]), or less when the budget has just changed: what was measured under
//! another budget says nothing of this one. So a change of what others do is followed within 200 ms.

mod places;

use std::collections::VecDeque;

pub use places::{CoreUse, Places};

/// How often a sample is taken.
pub const INTERVAL_NS: u64 = 50_000_000;
/// The span that is judged. The kernel counts idle time in pieces of 10 ms, so shorter ones say little.
pub const WINDOW_NS: u64 = 100_000_000;
/// Two samples that lie nearer together are not compared.
const SPAN_MIN_NS: u64 = 20_000_000;

/// Thousandths of a core.
const CORE: u64 = 1000;
/// A worker goes only when more than this is missing from its core.
const KEEPS: u64 = 350;
/// A worker comes only when no more than this is missing from its core.
const GROWS: u64 = 200;
/// Less than this free counts as none.
const FREE_MIN: u64 = 500;
/// Tasks waited in more than this many thousandths of the span: another process is kept waiting.
const WAITING: u64 = 250;

/// What the machine and we had done up to some moment. All of it only grows; what does not is taken as standing still.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The moment, in nanoseconds since any fixed point.
    pub at_ns: u64,
    /// For how long the cores on which we may run have been idle, added up.
    pub idle_ns: u64,
    /// Processor time that we have used, all threads.
    pub own_ns: u64,
    /// For how long some task was waiting for a core (pressure stall information), where it is known.
    pub waited_ns: Option<u64>,
    /// The control groups with a quota that we are in.
    pub quotas: Vec<Quota>,
}

/// A control group that may use so much processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Thousandths of a core.
    pub cores: u64,
    /// What it has used, all of its processes, we among them.
    pub used_ns: u64,
}

/// The core budget of a run.
#[derive(Clone, Debug)]
pub struct CoreBudget {
    limit: usize,
    budget: usize,
    samples: VecDeque<Sample>,
}

impl CoreBudget {
    /// A budget of at most `limit` cores (at least 1). `running` is how many tasks run or want to just now on the whole machine,
    /// the caller among them: with that the budget begins, before there is anything to compare; with one core if it is
    /// not known.
    pub fn new(limit: usize, cores: usize, running: Option<u64>) -> Self {
        let limit = limit.min(cores).max(1);
        let others = running
            .map_or(usize::MAX, |running| usize::try_from(running.saturating_sub(1)).unwrap_or(usize::MAX));
        CoreBudget { limit, budget: cores.saturating_sub(others).clamp(1, limit), samples: VecDeque::new() }
    }

    /// How many workers may work just now.
    pub fn get(&self) -> usize {
        self.budget
    }

    /// Takes another sample into account and returns how many workers may work from now on.
    pub fn follow(&mut self, sample: Sample) -> usize {
        let is_old = |other: &Sample| sample.at_ns.saturating_sub(other.at_ns) >= WINDOW_NS;
        // The youngest one that is old enough opens the window; those before it are done with.
        while self.samples.get(1).is_some_and(is_old) {
            self.samples.pop_front();
        }
        if let Some(before) = self.samples.front() {
            let decided = decide(self.limit, self.budget, before, &sample);
            if decided != self.budget {
                self.samples.clear();
            }
            self.budget = decided;
        }
        self.samples.push_back(sample);
        self.budget
    }
}

/// How many of at most `limit` workers may work, after `budget` of them might work between the samples `before` and `now`.
pub fn decide(limit: usize, budget: usize, before: &Sample, now: &Sample) -> usize {
    let span = now.at_ns.saturating_sub(before.at_ns);
    if span < SPAN_MIN_NS {
        return budget.clamp(1, limit.max(1));
    }
    let share = |from: u64, to: u64| thousandths(to.saturating_sub(from), span);
    let own = share(before.own_ns, now.own_ns);
    let idle = share(before.idle_ns, now.idle_ns);
    let left = |(before, now): (&Quota, &Quota)| now.cores.saturating_sub(share(before.used_ns, now.used_ns));
    let left = before.quotas.iter().zip(&now.quotas).map(left).min();
    let free = idle.min(left.unwrap_or(u64::MAX));
    let available = own.saturating_add(free);
    let waited = before.waited_ns.zip(now.waited_ns).map_or(0, |(from, to)| share(from, to));
    let is_tight = waited >= WAITING && free < FREE_MIN;
    let fitting =
        |missing: u64| usize::try_from(available.saturating_add(missing) / CORE).unwrap_or(usize::MAX);
    let decided = match fitting(GROWS) {
        more if more > budget && !is_tight => more,
        _ if is_tight => fitting(KEEPS).min(budget / 4),
        _ => fitting(KEEPS).min(budget),
    };
    decided.clamp(1, limit.max(1))
}

/// `part` of `whole` in thousandths, rounded to the nearest.
fn thousandths(part: u64, whole: u64) -> u64 {
    let whole = u128::from(whole.max(1));
    u64::try_from((u128::from(part) * 1000 + whole / 2) / whole).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
