// SPDX-License-Identifier: MIT OR Apache-2.0
//! Crash sweeps: a plan is carried out on a simulated disk, and the power is cut at every request, one after the other. Whatever
//! is found afterwards, the next run has to end in the same bytes as an undisturbed one.

mod faults;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fsmend_base::SeededRandom;
use fsmend_device::{
    Applied, ApplyError, ApplyOptions, Control, LogState, Plan, Progress, Recovered, Step, Way, apply,
    inspect_log, recover, undo,
};
use fsmend_disksim::{Fault, FaultKind, Machine, SimDisk, SimFile};

/// A plan, and the image that it is for.
pub struct Case {
    /// Name in failures.
    pub name: String,
    /// The image before, with zeroes in the bad sectors.
    pub before: Arc<Vec<u8>>,
    /// Sectors (of 512 bytes) that cannot be read until they are written.
    pub bad_sectors: Vec<u64>,
    /// What is written.
    pub plan: Plan,
}

/// How many of what a sweep has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Power cuts.
    pub cuts: u64,
    /// Runs after which the target was as before, and which were begun anew.
    pub begun_anew: u64,
    /// Runs that were finished by another.
    pub finished: u64,
    /// Runs that were taken back.
    pub taken_back: u64,
}

impl std::ops::AddAssign for Swept {
    fn add_assign(&mut self, other: Swept) {
        self.cuts += other.cuts;
        self.begun_anew += other.begun_anew;
        self.finished += other.finished;
        self.taken_back += other.taken_back;
    }
}

/// What undisturbed runs lead to.
struct Calm {
    /// After the whole run.
    done: World,
    /// When the target has been marked, and nothing else been written to it.
    marked: SimDisk,
}

/// A machine with the target and a place for the log.
struct World {
    machine: Machine,
    disk: SimDisk,
    log: SimFile,
}

/// What went wrong, where, and with which seed.
type Failure = String;

impl Case {
    /// Cuts an apply at every request, and undo at every request, once for each of `seeds`.
    pub fn sweep(&self, seeds: std::ops::Range<u64>) -> Result<Swept, Failure> {
        let calm = self.calm()?;
        let mut swept = Swept::default();
        for seed in seeds {
            for keep_undo in [true, false] {
                let mut cut = 0;
                while self.cut_apply(&calm, seed, cut, keep_undo, &mut swept)? {
                    cut += 1;
                }
            }
            let mut cut = 0;
            while self.cut_undo(&calm, seed, cut, &mut swept)? {
                cut += 1;
            }
            self.cut_taking_back(&calm, seed, &mut swept)?;
        }
        Ok(swept)
    }

    fn calm(&self) -> Result<Calm, Failure> {
        let (done, marked) = (self.world(0), self.world(0));
        self.apply(&done, true).map_err(|error| format!("{}: undisturbed: {error}", self.name))?;
        done.machine.restart();
        match inspect_log(&done.log) {
            Ok(Some(log)) if log.state == LogState::Applied => {}
            state => return Err(format!("{}: undisturbed, its log is {state:?}", self.name)),
        }
        let stop = AtomicBool::new(false);
        let progress = |Progress { step, done, total }: Progress| {
            stop.fetch_or(step == Step::Mark && done == total, Ordering::Relaxed);
        };
        let control = Control::new(&stop, &progress);
        let options = ApplyOptions { start: 0, keep_undo: true, control };
        let _ = apply(&self.plan, &marked.disk, &marked.log, &options);
        Ok(Calm { done, marked: marked.disk })
    }

    /// Whether an outsider who looks at the target now is warned: nothing else is written before the marks are there in full, and they
    /// do not go before all else is written.
    fn order_is_kept(&self, disk: &SimDisk, calm: &Calm) -> bool {
        let before = self.world(0).disk;
        let (mut any_begun, mut all_done, mut all_marked, mut any_last) = (false, true, true, false);
        for block in self.plan.blocks() {
            let shown = |disk: &SimDisk| -> Vec<u8> {
                let mut bytes = vec![0; block.len as usize];
                disk.peek(block.offset, &mut bytes);
                bytes
            };
            let (now, before, after) = (shown(disk), shown(&before), shown(&calm.done.disk));
            if !block.is_last {
                any_begun |= now != before;
                all_done &= now == after;
                continue;
            }
            let marked = shown(&calm.marked);
            all_marked &= now == marked;
            let sectors = now.chunks(512).zip(before.chunks(512)).zip(marked.chunks(512));
            any_last |= sectors.into_iter().any(|((now, before), marked)| now != before && now != marked);
        }
        all_done || (!any_last && (!any_begun || all_marked))
    }

    fn world(&self, seed: u64) -> World {
        let machine = Machine::new(seed);
        let disk = SimDisk::new("target", &machine, Arc::clone(&self.before));
        for sector in &self.bad_sectors {
            disk.plan_fault(Fault::lasting(FaultKind::Read, *sector..*sector + 1));
        }
        let log = SimFile::create("log", &machine);
        World { machine, disk, log }
    }

    fn apply(&self, world: &World, keep_undo: bool) -> Result<Applied, ApplyError> {
        let options = ApplyOptions { start: 0, keep_undo, control: Control::unattended() };
        apply(&self.plan, &world.disk, &world.log, &options)
    }

    /// Whether there was a request `cut` at all.
    fn cut_apply(
        &self,
        calm: &Calm,
        seed: u64,
        cut: u64,
        keep_undo: bool,
        swept: &mut Swept,
    ) -> Result<bool, Failure> {
        let failed =
            |why: &str| format!("{}: apply, seed {seed}, cut {cut}, undo {keep_undo}: {why}", self.name);
        let mut world = self.world(seed ^ (cut << 20));
        world.machine.cut_power_at(cut);
        let result = self.apply(&world, keep_undo);
        if world.machine.is_on() {
            return result.map(|_| false).map_err(|error| failed(&error.to_string()));
        }
        swept.cuts += 1;
        world.machine.restart();
        if !self.order_is_kept(&world.disk, calm) {
            return Err(failed("the target is half written and does not say so"));
        }
        let outcome = run_to_end(&world, Way::AsBegun, seed % 2, swept).map_err(|why| failed(&why))?;
        let untouched = world.disk.holds_same_as(&self.world(0).disk);
        let done = world.disk.holds_same_as(&calm.done.disk);
        match outcome {
            // The log was not complete; or it was removed after the last block.
            None | Some(Recovered::Dropped) if untouched => {
                swept.begun_anew += 1;
                world.log = SimFile::create("log", &world.machine);
                self.apply(&world, keep_undo).map_err(|error| failed(&error.to_string()))?;
                world.machine.restart();
                if !world.disk.holds_same_as(&calm.done.disk) {
                    return Err(failed("begun anew, it ends in other bytes"));
                }
            }
            None if done && !keep_undo => {}
            Some(Recovered::Nothing(LogState::Applied)) if done => {}
            Some(Recovered::Finished { .. }) if done => swept.finished += 1,
            outcome => {
                return Err(failed(&format!("{outcome:?}, untouched: {untouched}, done: {done}")));
            }
        }
        Ok(true)
    }

    fn cut_undo(&self, calm: &Calm, seed: u64, cut: u64, swept: &mut Swept) -> Result<bool, Failure> {
        let failed = |why: &str| format!("{}: undo, seed {seed}, cut {cut}: {why}", self.name);
        let machine = Machine::new(seed ^ (cut << 20));
        let world =
            World { disk: calm.done.disk.copy_to(&machine), log: calm.done.log.copy_to(&machine), machine };
        world.machine.cut_power_at(cut);
        let result = undo(&world.log, &world.disk, false, Control::unattended());
        if world.machine.is_on() {
            let as_before = world.disk.holds_same_as(&self.world(0).disk);
            return match result {
                Ok(_) if as_before => Ok(false),
                result => Err(failed(&format!("undisturbed: {result:?}, as before: {as_before}"))),
            };
        }
        swept.cuts += 1;
        world.machine.restart();
        let outcome = run_to_end(&world, Way::AsBegun, seed % 2, swept).map_err(|why| failed(&why))?;
        if outcome == Some(Recovered::Nothing(LogState::Applied)) {
            if !world.disk.holds_same_as(&calm.done.disk) {
                return Err(failed("the log says that nothing was begun, but the target has changed"));
            }
            undo(&world.log, &world.disk, false, Control::unattended())
                .map_err(|error| failed(&error.to_string()))?;
            world.machine.restart();
        }
        if !world.disk.holds_same_as(&self.world(0).disk) {
            return Err(failed(&format!("{outcome:?}, and the target is not as it was")));
        }
        swept.taken_back += 1;
        Ok(true)
    }

    /// An apply that was cut in the middle is taken back, and that is cut, too.
    fn cut_taking_back(&self, calm: &Calm, seed: u64, swept: &mut Swept) -> Result<(), Failure> {
        let requests = self.requests();
        for cut in 0..requests {
            let failed = |why: &str| format!("{}: taking back, seed {seed}, cut {cut}: {why}", self.name);
            let world = self.world(seed ^ (cut << 20));
            world.machine.cut_power_at(cut);
            let _ = self.apply(&world, true);
            world.machine.restart();
            swept.cuts += 1;
            let outcome = run_to_end(&world, Way::Back, 1 + seed % 2, swept).map_err(|why| failed(&why))?;
            let closed = outcome == Some(Recovered::Nothing(LogState::Applied));
            let fine = match closed {
                true => world.disk.holds_same_as(&calm.done.disk),
                false => world.disk.holds_same_as(&self.world(0).disk),
            };
            if !fine {
                return Err(failed(&format!("{outcome:?}, and the target holds something else")));
            }
            swept.taken_back += u64::from(matches!(outcome, Some(Recovered::TakenBack { .. })));
        }
        Ok(())
    }

    /// The target when all has been written.
    pub fn done(&self) -> Result<SimDisk, Failure> {
        Ok(self.calm()?.done.disk)
    }

    /// How many requests an undisturbed run makes that change something.
    pub fn requests(&self) -> u64 {
        let world = self.world(0);
        let _ = self.apply(&world, true);
        world.machine.changes()
    }
}

/// What runs after a power cut do with the log, if there is one; the first `more_cuts` of them are cut short, too. At the end the
/// power fails once more, so that only what is durable counts.
fn run_to_end(
    world: &World,
    way: Way,
    more_cuts: u64,
    swept: &mut Swept,
) -> Result<Option<Recovered>, String> {
    let mut luck = SeededRandom::new(world.machine.changes() ^ more_cuts);
    for run in 0.. {
        if !world.log.is_there() {
            return Ok(None);
        }
        if run < more_cuts {
            swept.cuts += 1;
            world.machine.cut_power_at(luck.below(12));
        }
        let result = recover(&world.log, &world.disk, way, false, Control::unattended());
        let was_cut = !world.machine.is_on();
        world.machine.restart();
        match result {
            Err(_) if was_cut => {}
            Err(error) => return Err(error.to_string()),
            // What the run said is true; but it was cut short before it ended, so that another one looks again.
            Ok(_) if was_cut && world.log.is_there() => {}
            Ok(outcome) => return Ok(Some(outcome)),
        }
    }
    Ok(None)
}
