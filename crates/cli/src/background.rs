// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--background`: a run that gives way to everything else on the machine (pFSCK §5.4.1).
//!
//! The work is done by threads that run at the lowest priority (SCHED_IDLE, and the idle class of the disk's scheduler), and
//! beside it a thread of ordinary priority, which is awake for some microseconds twenty times a second, looks at what the machine is busy
//! with, and sets how many workers may work and on which cores. What it decides is `engine::cores`'; this module takes the samples and carries it
//! out.
//!
//! Only the thread that works stands back, with those that it starts: there may be no way back, and what is written after a
//! check (a repair) is not to be held up half-way.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use fsmend_device::priority;
use fsmend_engine::Allowance;
use fsmend_engine::cores::{CoreBudget, CoreUse, INTERVAL_NS, Places};

use crate::machine::{self, Load, Tasks};

/// Does `work` in the background, with at most `threads` workers, as many as the allowance says.
pub fn run<T: Send>(threads: usize, work: impl FnOnce(Arc<Allowance>) -> T + Send) -> T {
    follow_beside(threads, &machine::load(), Some(Placing::new()), |allowance| {
        stand_back();
        work(allowance)
    })
}

/// Does `work` at the priority that we have, with at most `threads` workers, as many as there are idle cores for.
pub fn follow_idle<T: Send>(threads: usize, work: impl FnOnce(Arc<Allowance>) -> T + Send) -> T {
    follow_beside(threads, &machine::load(), None, work)
}

/// Puts the calling thread behind all others, as far as that is possible.
fn stand_back() {
    if let Err(error) = priority::stand_back() {
        eprintln!("fsmend: cannot set the lowest CPU priority: {error}.");
    }
    if let Err(error) = priority::read_last() {
        eprintln!("fsmend: cannot set the lowest I/O priority: {error}.");
    }
}

/// Keeps the threads that stand back to the cores that have room.
struct Placing {
    places: Places,
    tasks: Tasks,
}

impl Placing {
    fn new() -> Placing {
        Placing { places: Places::default(), tasks: machine::tasks() }
    }

    /// `idle`: how many nanoseconds each core has been idle.
    fn follow(&mut self, at_ns: u64, idle: &[(usize, u64)], workers: usize) {
        self.tasks.look();
        let one =
            |&(core, idle_ns): &(usize, u64)| CoreUse { core, idle_ns, own_ns: self.tasks.own_ns(core) };
        let uses = idle.iter().map(one).collect();
        if let Some(cores) = self.places.follow(at_ns, uses, workers) {
            self.tasks.keep_to(cores);
        }
    }
}

/// Does `work` in a thread of its own and meanwhile keeps its allowance at what `load` leaves over.
fn follow_beside<T: Send>(
    threads: usize,
    load: &Load,
    placing: Option<Placing>,
    work: impl FnOnce(Arc<Allowance>) -> T + Send,
) -> T {
    let budget = CoreBudget::new(threads, machine::cores(), load.running());
    let allowance = Arc::new(Allowance::new(budget.get()));
    let (done, ends) = channel::<()>();
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            // Dropped when the work is over, even by a panic.
            let _done = done;
            work(Arc::clone(&allowance))
        });
        follow(load, budget, placing, &allowance, &ends);
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Sets the allowance anew at every sample until the work `ends`.
fn follow(
    load: &Load,
    mut budget: CoreBudget,
    mut placing: Option<Placing>,
    allowance: &Allowance,
    ends: &Receiver<()>,
) {
    loop {
        let (wall_ns, cpu_ns) = machine::wall_and_cpu();
        if let Some((sample, idle)) = load.sample(wall_ns, cpu_ns) {
            let workers = budget.follow(sample);
            if workers != allowance.get() {
                allowance.set(workers);
            }
            if let Some(placing) = &mut placing {
                placing.follow(wall_ns, &idle, workers);
            }
        }
        if ends.recv_timeout(Duration::from_nanos(INTERVAL_NS)) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::process::{Child, Command};
    use std::time::Instant;

    use super::*;
    use crate::machine::testing::Fixture;

    /// /proc/stat of a machine with two cores that have been idle for `idle` ticks each.
    fn stat(idle: u64, running: u64) -> String {
        format!("cpu0 9 9 9 {idle} 0\ncpu1 9 9 9 {idle} 0\nprocs_running {running}\n")
    }

    /// Waits until the allowance is `wanted`; false if that takes more than ten seconds.
    fn comes_to(allowance: &Allowance, wanted: usize) -> bool {
        let start = Instant::now();
        while allowance.get() != wanted && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        allowance.get() == wanted
    }

    #[test]
    fn the_allowance_follows_the_files() {
        let machine = Fixture::new("background");
        machine.write("proc/stat", &stat(100, 1));
        let load = Load::below(machine.path(), 100, None);
        let budget = CoreBudget::new(2, 2, load.running());
        let (allowance, (done, ends)) = (Allowance::new(budget.get()), channel::<()>());
        assert_eq!(allowance.get(), 2);
        std::thread::scope(|scope| {
            let (load, allowed) = (&load, &allowance);
            scope.spawn(move || follow(load, budget, None, allowed, &ends));
            assert!(comes_to(&allowance, 1), "nothing is idle any more, and we use nothing");
            machine.write("proc/stat", &stat(u64::MAX / 4, 1));
            assert!(comes_to(&allowance, 2), "it has been idle");
            machine.write("proc/stat", "nonsense");
            drop(done);
        });
    }

    /// Processes that use all cores all the time.
    struct Busy(Vec<Child>);

    impl Busy {
        fn new() -> Self {
            let spin = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
            Busy((0..machine::cores()).map(|_| spin()).collect())
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            for child in &mut self.0 {
                let _ = child.kill().and_then(|()| child.wait());
            }
        }
    }

    /// The scheduling policy of the calling thread (proc(5): the 39th number after the name, which stands in brackets).
    fn policy() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        stat.rsplit(')').next().unwrap().split_ascii_whitespace().nth(38).unwrap().parse().unwrap()
    }

    /// On the machine itself: beside others that want all cores one worker is left.
    #[test]
    fn beside_others_one_worker_is_left() {
        let busy = Busy::new();
        let is_one = follow_beside(64, &machine::load(), None, |allowance| comes_to(&allowance, 1));
        drop(busy);
        assert!(is_one);
    }

    /// The cores on which the calling thread may run.
    fn cores() -> Vec<usize> {
        let set = rustix::thread::sched_getaffinity(None).unwrap();
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
    }

    #[test]
    fn a_core_that_others_use_is_left_to_them() {
        let all = cores();
        let [busy, .., free] = all[..] else { return };
        let machine = Fixture::new("places");
        // Ticks of a core that is idle for ever, and of one that never is.
        let stat = |ticks: u64| format!("cpu{busy} 9 9 9 5 0\ncpu{free} 9 9 9 {ticks} 0\nprocs_running 2\n");
        let ticks = Arc::new(std::sync::atomic::AtomicU64::new(0));
        machine.write("proc/stat", &stat(0));
        let load = Load::below(machine.path(), 100, None);
        let kept = follow_beside(1, &load, Some(Placing::new()), |_| {
            stand_back();
            let start = Instant::now();
            while cores() != [free] && start.elapsed() < Duration::from_secs(20) {
                let now = ticks.fetch_add(100, std::sync::atomic::Ordering::Relaxed);
                machine.write("proc/stat", &stat(now));
                std::thread::sleep(Duration::from_millis(1));
            }
            (cores(), std::thread::spawn(cores).join().unwrap())
        });
        assert_eq!(kept, (vec![free], vec![free]), "this thread and those that it starts");
        assert_eq!(cores(), all, "others stay where they are");
    }

    #[test]
    fn who_works_stands_back_and_who_waits_for_it_does_not() {
        const IDLE: u64 = 5;
        let before = policy();
        let (own, started) = run(2, |_| (policy(), std::thread::spawn(policy).join().unwrap()));
        assert_eq!((own, started, policy()), (IDLE, IDLE, before));
        assert_ne!(before, IDLE);
    }

    #[test]
    fn a_panic_of_the_work_is_passed_on() {
        let result =
            std::panic::catch_unwind(|| follow_beside(2, &machine::load(), None, |_| assert_eq!(1 + 1, 3)));
        assert!(result.is_err());
    }
}
