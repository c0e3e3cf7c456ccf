// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used)]

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};

use super::*;

/// A machine in numbers: what others want of its cores, and who gets them when there are too few.
#[derive(Clone, Copy, Debug)]
struct Machine {
    cores: f64,
    /// Others go first, as they do when our workers are SCHED_IDLE in their group; else all get their share.
    others_first: bool,
    /// Whether the kernel tells of pressure.
    tells_pressure: bool,
    /// The quota of our control group, in cores, in which the others are as well.
    quota: Option<f64>,
}

impl Machine {
    fn of(cores: usize) -> Self {
        Machine { cores: cores as f64, others_first: true, tells_pressure: true, quota: None }
    }

    /// What `workers` of ours and others that want `wanted` cores get: ours, theirs, and how much of the time
    /// another process waits.
    fn share(&self, workers: usize, wanted: f64) -> (f64, f64, f64) {
        let (ours, all) = (workers as f64, self.quota.unwrap_or(f64::MAX).min(self.cores));
        if ours + wanted <= all {
            return (ours, wanted, 0.0);
        }
        let theirs = match self.others_first {
            true => wanted.min(all),
            false => wanted.min((all * wanted / (ours + wanted)).max(all - ours)),
        };
        (all - theirs, theirs, (ours + wanted - all).min(1.0))
    }
}

/// Runs a budget beside others that want `wanted(second)` cores, and returns time and budget at each sample.
fn beside(
    machine: Machine,
    mut budget: CoreBudget,
    until: f64,
    wanted: impl Fn(f64) -> f64,
) -> Vec<(f64, usize)> {
    let (mut sample, mut trace) = (Sample { at_ns: 7_000_000_000, ..Sample::default() }, Vec::new());
    let (mut idle, mut own, mut used, mut waited) = (5e9, 0.0, 1e9, 0.0);
    let step = INTERVAL_NS as f64 / 1e9;
    let mut time = 0.0;
    while time < until {
        sample.idle_ns = idle as u64 / 10_000_000 * 10_000_000;
        (sample.own_ns, sample.waited_ns) = (own as u64, machine.tells_pressure.then_some(waited as u64));
        let quota = |cores: f64| Quota { cores: (cores * 1000.0) as u64, used_ns: used as u64 };
        sample.quotas = machine.quota.map(quota).into_iter().collect();
        let workers = budget.follow(sample.clone());
        trace.push((time, workers));
        let (ours, theirs, waits) = machine.share(workers, wanted(time));
        let pass = |cores: f64| cores * step * 1e9;
        idle += pass(machine.cores - ours - theirs);
        own += pass(ours);
        used += pass(ours + theirs);
        waited += pass(waits);
        sample.at_ns += INTERVAL_NS;
        time += step;
    }
    trace
}

/// The budgets from 200 ms after `change` on, until `end`.
fn settled(trace: &[(f64, usize)], change: f64, end: f64) -> Vec<usize> {
    trace.iter().filter(|(at, _)| *at >= change + 0.2 && *at < end).map(|(_, budget)| *budget).collect()
}

#[test]
fn others_come_and_go_and_the_budget_follows_within_200_ms() {
    for (cores, wanted, fits) in
        [(2, 1.0, 1), (2, 2.0, 1), (2, 7.0, 1), (4, 1.1, 3), (16, 12.0, 4), (64, 60.0, 4), (64, 64.0, 1)]
    {
        let budget = CoreBudget::new(64, cores, Some(1));
        let trace =
            beside(Machine::of(cores), budget, 3.0, |at| if (1.0..2.0).contains(&at) { wanted } else { 0.0 });
        assert!(
            trace.iter().all(|(at, budget)| *at >= 1.0 || *budget == cores),
            "nothing else runs: {trace:?}"
        );
        let beside = settled(&trace, 1.0, 2.0);
        // Another process waits while ours are too many: then it may fall below what fits for a moment.
        assert!(beside.iter().all(|budget| *budget <= fits), "{cores} cores, {wanted} wanted: {beside:?}");
        assert_eq!(beside.last(), Some(&fits), "{cores} cores, {wanted} wanted: {beside:?}");
        let after = settled(&trace, 2.0, 3.0);
        assert!(after.iter().all(|budget| *budget == cores), "{after:?}");
    }
}

#[test]
fn where_others_do_not_go_first_their_waiting_shows_and_is_heeded() {
    let machine = Machine { others_first: false, ..Machine::of(16) };
    let trace =
        beside(machine, CoreBudget::new(12, 16, Some(1)), 3.0, |at| if at < 1.0 { 0.0 } else { 12.0 });
    let beside = settled(&trace, 1.0, 3.0);
    assert!(beside.iter().all(|budget| *budget <= 4) && beside.last() == Some(&4), "{trace:?}");
    let blind = Machine { tells_pressure: false, ..machine };
    let trace = beside_without_pressure(blind);
    assert!(
        trace.iter().any(|budget| *budget > 4),
        "without pressure nothing tells that they wait: {trace:?}"
    );
}

fn beside_without_pressure(machine: Machine) -> Vec<usize> {
    let trace =
        beside(machine, CoreBudget::new(12, 16, Some(1)), 3.0, |at| if at < 1.0 { 0.0 } else { 12.0 });
    settled(&trace, 1.0, 3.0)
}

#[test]
fn a_quota_is_shared_with_those_in_the_same_group() {
    let machine = Machine { quota: Some(4.0), ..Machine::of(16) };
    let trace = beside(machine, CoreBudget::new(16, 16, Some(1)), 3.0, |at| if at < 1.0 { 0.0 } else { 2.0 });
    let alone = settled(&trace, 0.0, 1.0);
    assert!(alone.iter().all(|budget| *budget <= 4) && alone.last() == Some(&4), "{trace:?}");
    let beside = settled(&trace, 1.0, 3.0);
    assert!(beside.iter().all(|budget| *budget <= 2) && beside.last() == Some(&2), "{trace:?}");
}

#[test]
fn a_little_of_others_takes_no_core_and_does_not_make_it_flap() {
    for wanted in [0.05, 0.15] {
        let trace = beside(Machine::of(2), CoreBudget::new(2, 2, Some(2)), 3.0, |_| wanted);
        assert_eq!(trace[0].1, 1, "it begins with what is free at first sight");
        assert!(settled(&trace, 0.0, 3.0).iter().all(|budget| *budget == 2), "{wanted}: {trace:?}");
    }
    for wanted in [0.3, 0.5, 0.9] {
        let trace = beside(Machine::of(2), CoreBudget::new(2, 2, Some(1)), 3.0, |_| wanted);
        assert!(settled(&trace, 0.0, 3.0).iter().all(|budget| *budget == 1), "{wanted}: {trace:?}");
    }
}

#[test]
fn it_begins_with_what_is_free_at_first_sight() {
    let first = |limit, cores, running| CoreBudget::new(limit, cores, running).get();
    assert_eq!(
        [first(2, 2, Some(1)), first(2, 2, Some(2)), first(2, 2, Some(9)), first(2, 2, None)],
        [2, 1, 1, 1]
    );
    assert_eq!([first(4, 16, Some(10)), first(64, 16, Some(0)), first(0, 0, Some(0))], [4, 16, 1]);
}

/// Samples of a machine with two cores, on which some twenty tasks were busy beside two workers with SCHED_IDLE: moment, idle time, what
/// the workers got, time in which another process waited.
const CROWDED: [(u64, u64, u64, u64); 12] = [
    (364_102, 0, 0, 0),
    (56_325_585, 0, 11_282_299, 55_937_000),
    (100_413_786, 0, 26_827_202, 100_006_000),
    (152_198_292, 0, 40_186_239, 151_757_000),
    (201_319_914, 0, 51_756_126, 200_882_000),
    (256_132_628, 0, 64_307_127, 255_670_000),
    (304_246_160, 0, 75_972_887, 303_808_000),
    (368_310_984, 0, 87_513_465, 367_891_000),
    (412_269_932, 0, 98_933_840, 411_834_000),
    (460_311_437, 0, 102_458_235, 459_880_000),
    (502_436_757, 0, 102_458_235, 501_998_000),
    (552_531_157, 0, 102_458_235, 552_091_000),
];

#[test]
fn in_a_recorded_crowd_one_worker_is_left() {
    assert_eq!(CoreBudget::new(2, 2, Some(23)).get(), 1, "that was how many tasks were running");
    let mut budget = CoreBudget::new(2, 2, Some(1));
    let follow = |(at_ns, idle_ns, own_ns, waited_ns): (u64, u64, u64, u64)| {
        budget.follow(Sample { at_ns, idle_ns, own_ns, waited_ns: Some(waited_ns), quotas: Vec::new() })
    };
    let followed: Vec<usize> = CROWDED.into_iter().map(follow).collect();
    assert_eq!(followed[0], 2, "there is nothing to compare yet");
    assert!(followed[1..].iter().all(|budget| *budget == 1), "{followed:?}");
}

fn sample() -> impl Strategy<Value = Sample> {
    let number = || prop_oneof![any::<u64>(), 0u64..5_000_000_000, Just(u64::MAX), Just(0)];
    let quota = (number(), number()).prop_map(|(cores, used_ns)| Quota { cores, used_ns });
    (number(), number(), number(), option::of(number()), vec(quota, 0..3)).prop_map(
        |(at_ns, idle_ns, own_ns, waited_ns, quotas)| Sample { at_ns, idle_ns, own_ns, waited_ns, quotas },
    )
}

proptest! {
    #[test]
    fn whatever_the_samples_say_it_stays_within_its_bounds(
        limit in 0usize..80, cores in 0usize..80, running in option::of(any::<u64>()), samples in vec(sample(), 0..40),
    ) {
        let mut budget = CoreBudget::new(limit, cores, running);
        for sample in samples {
            let decided = budget.follow(sample);
            assert!(decided >= 1 && decided <= limit.min(cores).max(1));
            assert!(budget.samples.len() < 100, "old samples go");
        }
    }

    /// Whatever the others want for a while, in whatever way it is shared: 200 ms later the budget is what fits, and as long
    /// as the others do not change, no process is kept waiting by a worker beyond the first.
    #[test]
    fn steps_are_followed(
        cores in 1usize..65, others_first in any::<bool>(), first in 0u32..70, second in 0u32..70,
    ) {
        let machine = Machine { others_first, ..Machine::of(cores) };
        let wanted = |at: f64| f64::from(if at < 1.0 { first } else { second }).min(cores as f64);
        let trace = beside(machine, CoreBudget::new(cores, cores, None), 2.0, wanted);
        for (change, end) in [(0.0, 1.0), (1.0, 2.0)] {
            let fits = (cores - wanted(change) as usize).max(1);
            let after = settled(&trace, change, end);
            assert!(after.iter().all(|budget| *budget <= fits), "{fits} fit: {trace:?}");
            assert_eq!(after.last(), Some(&fits), "{trace:?}");
        }
    }
}
