// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every mode does all of the work, whichever workers come and go. With the feature `model` the same tests run in thousands of
//! interleavings, under the model checker.

use std::sync::atomic::Ordering::Relaxed;

use super::*;

const STAGES: &[Stage] =
    &[Stage { name: "one", pass: 0 }, Stage { name: "two", pass: 0 }, Stage { name: "three", pass: 1 }];

const MODES: [Mode; 7] = [
    Mode::Serial,
    Mode::Data,
    Mode::PipelineEqual,
    Mode::Pipeline(3, 1),
    Mode::Pipeline(1, 9),
    Mode::Dynamic,
    Mode::ResourceAware,
];

/// Interleavings that the model checker tries of each test.
#[cfg(feature = "model")]
const INTERLEAVINGS: usize = 300;

/// Runs `test`: once, or in many interleavings.
fn explore(test: impl Fn() + Send + Sync + 'static) {
    #[cfg(not(feature = "model"))]
    test();
    #[cfg(feature = "model")]
    shuttle::check_random(test, INTERLEAVINGS);
}

/// How much work there is: the model checker needs little to find much.
fn amount(plain: u64) -> u64 {
    if cfg!(feature = "model") { plain.min(5) } else { plain }
}

/// A run in which every item goes through `stages` stages; returns how many batches each worker did.
fn counts(
    mode: Mode,
    pool: PoolConfig<'_>,
    items: u64,
    stages: usize,
    each: impl Fn(u64) + Sync,
) -> Vec<u64> {
    let cancel = AtomicBool::new(false);
    let schedule = Schedule { mode, ..Schedule::default() };
    let queues = Queues::scheduled(&STAGES[..stages], &cancel, schedule, u64::MAX);
    (0..items).for_each(|item| queues.push(0, 1, item));
    run(
        pool,
        &queues,
        |_| 0,
        |count, stage, item| {
            *count += 1;
            each(item);
            if stage + 1 < stages {
                queues.push(stage + 1, item, item);
            }
            Work::default()
        },
    )
}

#[test]
fn work_that_makes_work_is_all_done_in_every_mode() {
    for mode in MODES {
        explore(move || {
            for workers in if cfg!(feature = "model") { &[3][..] } else { &[1, 2, 7, 64] } {
                let counts = counts(mode, PoolConfig::of(*workers), amount(100), 3, |_| ());
                assert_eq!(counts.iter().sum::<u64>(), 3 * amount(100), "{mode} with {workers}");
            }
        });
    }
}

#[test]
fn cancelling_stops_the_hand_out() {
    explore(|| {
        let cancel = AtomicBool::new(false);
        let queues = Queues::new(&STAGES[..1], &cancel);
        (0..1000u64).for_each(|item| queues.push(0, 1, item));
        let states = run(
            PoolConfig::of(2),
            &queues,
            |_| 0u64,
            |count, _, _| {
                *count += 1;
                cancel.store(true, Relaxed);
                Work::default()
            },
        );
        assert!(states.iter().sum::<u64>() <= 2);
    });
}

// What one worker does has but one interleaving.
#[cfg(not(feature = "model"))]
#[test]
fn too_much_waiting_memory_is_used_up_first() {
    let cancel = AtomicBool::new(false);
    let queues = Queues::scheduled(&STAGES[..2], &cancel, Schedule::default(), 100);
    (0..50u64).for_each(|item| queues.push(0, 1000, item));
    let most = std::sync::atomic::AtomicU64::new(0);
    let fill = |(): &mut (), stage, item| {
        if stage == 0 {
            (0..3).for_each(|_| queues.push_large(1, 1, 40, item));
        }
        most.fetch_max(queues.bytes(), Relaxed);
        Work::default()
    };
    run(PoolConfig::of(1), &queues, |_| (), fill);
    assert_eq!(most.into_inner(), 200, "one batch of the first stage at a time goes beyond the limit");
}

#[test]
fn only_as_many_work_as_are_allowed_to() {
    for mode in MODES {
        explore(move || {
            for allowed in [1, 2, 4] {
                let allowance = Allowance::new(allowed);
                let pool = PoolConfig { allowance: Some(&allowance), ..PoolConfig::of(6) };
                let counts = counts(mode, pool, amount(200), 2, |_| ());
                assert_eq!(counts.iter().sum::<u64>(), 2 * amount(200));
                assert!(counts[allowed..].iter().all(|count| *count == 0), "{mode} {counts:?}");
                assert_eq!(allowance.parked(), 0);
            }
        });
    }
}

#[test]
fn an_allowance_that_moves_loses_nothing() {
    for mode in MODES {
        explore(move || {
            let allowance = Allowance::new(4);
            let pool = PoolConfig { allowance: Some(&allowance), ..PoolConfig::of(4) };
            let counts = counts(mode, pool, amount(1000), 3, |item| allowance.set(item as usize % 5));
            assert_eq!(counts.iter().sum::<u64>(), 3 * amount(1000), "{mode}");
        });
    }
}

#[test]
fn an_allowance_may_move_from_outside() {
    explore(|| {
        let allowance = Allowance::new(3);
        thread::scope(|scope| {
            scope.spawn(|| [1, 3, 2, 1, 3].into_iter().for_each(|allowed| allowance.set(allowed)));
            let pool = PoolConfig { allowance: Some(&allowance), ..PoolConfig::of(3) };
            let counts = counts(Mode::PipelineEqual, pool, amount(500), 3, |_| ());
            assert_eq!(counts.iter().sum::<u64>(), 3 * amount(500));
        });
    });
}

#[test]
fn slices_cover_everything_once() {
    explore(|| {
        let items: Vec<u64> = (0..1001).collect();
        let sum = |sum: &mut u64, part: &[u64]| *sum += part.iter().sum::<u64>();
        let slice = if cfg!(feature = "model") { 250 } else { 10 };
        let stage = &[Stage { name: "sums", pass: 0 }];
        let sums = run_slices(PoolConfig::of(3), stage, &items, slice, &AtomicBool::new(false), |_| 0, sum);
        assert_eq!(sums.iter().sum::<u64>(), 500_500);
    });
}

// The model checker reports panics by itself.
#[cfg(not(feature = "model"))]
#[test]
fn a_panic_is_passed_on_and_hangs_no_worker() {
    for allowed in [1, 3] {
        let allowance = Allowance::new(allowed);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let pool = PoolConfig { allowance: Some(&allowance), ..PoolConfig::of(3) };
            counts(Mode::Dynamic, pool, 10, 1, |item| assert_ne!(item, 5))
        }));
        assert!(result.is_err());
        assert_eq!(allowance.parked(), 0);
    }
}

#[cfg(not(feature = "model"))]
#[test]
fn more_threads_than_anybody_has_cores() {
    for mode in MODES {
        let counts = counts(mode, PoolConfig::of(64), 2000, 3, |item| {
            if item % 7 == 0 {
                std::thread::yield_now();
            }
        });
        assert_eq!(counts.iter().sum::<u64>(), 6000, "{mode}");
    }
}

#[cfg(not(feature = "model"))]
#[test]
fn what_happens_is_written_down() {
    let clock = Clock { wall: || 7, thread_cpu: || 3 };
    let trace = Trace::new(clock);
    let pool = PoolConfig { trace: Some(&trace), clock: Some(clock), ..PoolConfig::of(2) };
    counts(Mode::Data, pool, 10, 2, |_| ());
    let events = trace.events();
    let batches: Vec<_> = events.iter().filter(|event| event.kind == Kind::Batch).collect();
    assert_eq!(batches.len(), 20);
    assert!(batches.iter().filter(|event| event.name == "two").all(|event| (1..=10).contains(&event.parent)));
    assert_eq!(events.iter().filter(|event| event.kind == Kind::Parallel).count(), 1);
}
