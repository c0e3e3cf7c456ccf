// SPDX-License-Identifier: MIT OR Apache-2.0
//! To which cores a run in the background keeps.
//!
//! Linux does not move threads of SCHED_IDLE to where there is room: when it balances its cores, such threads count for next to nothing. One that
//! shares its core with a busy program has been seen to wait there for ten seconds while the other core had nothing to do; and a program
//! that is woken often prefers a core with such a thread to none at all, so that both get in each other's way. So the cores that others use are
//! left to them, as long as there are others.
//!
//! Like the budget, this is decided from samples alone: what a core was neither idle nor at work for us, others have used.

use std::collections::VecDeque;

use super::{SPAN_MIN_NS, WINDOW_NS, thousandths};

/// A core of which others use less than this (thousandths) is taken.
const TAKEN: u64 = 300;
/// A core of which others use more than this is given up.
const GIVEN_UP: u64 = 600;

/// What one core has done up to some moment. All of it only grows; what does not is taken as standing still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreUse {
    /// Its number.
    pub core: usize,
    /// For how long it has been idle, in nanoseconds.
    pub idle_ns: u64,
    /// For how long it has worked for us, in nanoseconds.
    pub own_ns: u64,
}

/// Follows which cores have room.
#[derive(Clone, Debug, Default)]
pub struct Places {
    samples: VecDeque<(u64, Vec<CoreUse>)>,
    /// None: wherever we may run.
    chosen: Option<Vec<usize>>,
}

impl Places {
    /// Takes a sample of all cores on which we may run into account, taken at `at_ns` (nanoseconds since any fixed point). Returns the cores to keep
    /// to, at least `budget` of them if there are so many, when they are others than before.
    pub fn follow(&mut self, at_ns: u64, uses: Vec<CoreUse>, budget: usize) -> Option<&[usize]> {
        let is_old = |(other, _): &(u64, Vec<CoreUse>)| at_ns.saturating_sub(*other) >= WINDOW_NS;
        while self.samples.get(1).is_some_and(is_old) {
            self.samples.pop_front();
        }
        let decided = self.samples.front().and_then(|(since, before)| {
            let span = at_ns.saturating_sub(*since);
            (span >= SPAN_MIN_NS).then(|| choose(span, before, &uses, self.chosen.as_deref(), budget))
        });
        let all = |uses: &[CoreUse]| uses.iter().map(|of| of.core).collect::<Vec<_>>();
        let is_new = decided.as_ref().is_some_and(|decided| match &self.chosen {
            Some(chosen) => chosen != decided,
            None => *decided != all(&uses),
        });
        if is_new {
            self.samples.clear();
            self.chosen = decided;
        }
        self.samples.push_back((at_ns, uses));
        self.chosen.as_deref().filter(|_| is_new)
    }
}

/// The cores to keep to, in their order in `now`, after the run kept to `chosen` (`None`: to all) for `span` nanoseconds.
fn choose(
    span: u64,
    before: &[CoreUse],
    now: &[CoreUse],
    chosen: Option<&[usize]>,
    budget: usize,
) -> Vec<usize> {
    let others = |now: &CoreUse| {
        let Some(before) = before.iter().find(|before| before.core == now.core) else { return 1000 };
        let known = now
            .idle_ns
            .saturating_sub(before.idle_ns)
            .saturating_add(now.own_ns.saturating_sub(before.own_ns));
        thousandths(span.saturating_sub(known), span)
    };
    let others: Vec<u64> = now.iter().map(others).collect();
    let is_had = |core: usize| chosen.is_none_or(|chosen| chosen.contains(&core));
    let mut is_chosen: Vec<bool> = now
        .iter()
        .zip(&others)
        .map(|(now, others)| *others < if is_had(now.core) { GIVEN_UP } else { TAKEN })
        .collect();
    let missing = budget.saturating_sub(is_chosen.iter().filter(|is_chosen| **is_chosen).count());
    let mut rest: Vec<usize> = (0..now.len()).filter(|at| !is_chosen[*at]).collect();
    // Of equally busy ones those stay that we have: to move costs something.
    rest.sort_by_key(|at| (others[*at] / 100, !is_had(now[*at].core)));
    for at in rest.into_iter().take(missing) {
        is_chosen[at] = true;
    }
    now.iter().zip(is_chosen).filter(|(_, is_chosen)| *is_chosen).map(|(now, _)| now.core).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with some cores, and a run on it.
    #[derive(Default)]
    struct Machine {
        places: Places,
        at_ns: u64,
        cores: Vec<CoreUse>,
    }

    impl Machine {
        /// Six twentieths of a second in which each core works so many thousandths for others and so many for us, with room for `budget` workers:
        /// where the run is sent meanwhile.
        fn sends(&mut self, budget: usize, busy: &[(u64, u64)]) -> Vec<Vec<usize>> {
            let new = |core| CoreUse { core, idle_ns: 0, own_ns: 0 };
            self.cores.extend((self.cores.len()..busy.len()).map(new));
            let mut sent = Vec::new();
            for _ in 0..6 {
                self.at_ns += 50_000_000;
                for (core, (others, own)) in self.cores.iter_mut().zip(busy) {
                    core.idle_ns += 50_000 * (1000 - others - own);
                    core.own_ns += 50_000 * own;
                }
                sent.extend(
                    self.places.follow(self.at_ns, self.cores.clone(), budget).map(<[usize]>::to_vec),
                );
            }
            sent
        }
    }

    #[test]
    fn a_core_that_others_use_is_left_to_them_and_taken_again() {
        let mut machine = Machine::default();
        // Our only worker waits on core 0, which another process has.
        assert_eq!(machine.sends(1, &[(1000, 0), (0, 0)]), [vec![1]]);
        // The other one goes away.
        assert_eq!(machine.sends(2, &[(0, 0), (0, 1000)]), [vec![0, 1]]);
        // He comes back, on the core that we use.
        assert_eq!(machine.sends(1, &[(0, 0), (700, 300)]), [vec![0]]);
    }

    #[test]
    fn where_no_place_is_better_nothing_is_said() {
        let none: [Vec<usize>; 0] = [];
        let mut machine = Machine::default();
        assert_eq!(machine.sends(4, &[(50, 950), (0, 1000), (200, 0), (0, 0)]), none);
        assert_eq!(machine.sends(4, &[(950, 50), (900, 100), (1000, 0), (990, 10)]), none);
    }

    #[test]
    fn as_many_cores_as_workers_the_least_busy_first() {
        let none: [Vec<usize>; 0] = [];
        let mut machine = Machine::default();
        assert_eq!(machine.sends(2, &[(900, 0), (700, 0), (1000, 0), (800, 0)]), [vec![1, 3]]);
        // Hardly less on another: not worth moving.
        assert_eq!(machine.sends(2, &[(730, 0), (740, 0), (1000, 0), (700, 50)]), none);
        assert_eq!(machine.sends(2, &[(650, 0), (740, 0), (1000, 0), (700, 50)]), [vec![0, 1]]);
    }

    #[test]
    fn samples_that_lie_too_near_or_go_back_decide_nothing() {
        let mut places = Places::default();
        let uses = |idle_ns| {
            vec![CoreUse { core: 0, idle_ns: 0, own_ns: 0 }, CoreUse { core: 1, idle_ns, own_ns: 0 }]
        };
        assert_eq!(places.follow(5, uses(5), 1), None);
        assert_eq!(places.follow(10, uses(10), 1), None);
        assert_eq!(places.follow(0, uses(0), 1), None);
        assert_eq!(places.follow(u64::MAX, Vec::new(), usize::MAX), None);
    }
}
