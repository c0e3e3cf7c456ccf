// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sweeps without power cuts: sectors that cannot be written, syncs that fail, a log for which there is no room. Every one of them
//! stops the apply, and once it is gone, the next run ends in the same bytes, even if the power fails in between.

use fsmend_device::{ApplyError, Control, Device, LogState, Recovered, Way, undo};
use fsmend_disksim::{Fault, FaultKind, Machine, RequestKind, SimFile};

use super::{Calm, Case, Failure, Swept, World, run_to_end};

impl Case {
    /// Lets every request of an apply fail, once for ever and once a single time. Returns how many failed.
    pub fn sweep_faults(&self, seed: u64) -> Result<u64, Failure> {
        let calm = self.calm()?;
        let mut count = 0;
        let requests = calm.done.machine.requests();
        for request in requests.iter().filter(|request| request.kind == RequestKind::Write) {
            let sectors = request.offset / 512..(request.offset + request.len).div_ceil(512);
            // One of its sectors; which, differs from request to request.
            let sector = sectors.start + (seed + count) % (sectors.end - sectors.start);
            for fault in [
                Fault::lasting(FaultKind::Write, sector..sector + 1),
                Fault::transient(FaultKind::Write, sector..sector + 1, 1),
            ] {
                let world = self.world(seed ^ (count << 20));
                let of_target = request.disk == world.disk.name();
                if of_target {
                    world.disk.plan_fault(fault)
                } else {
                    world.log.plan_fault(fault)
                }
                self.stopped_by_fault(&calm, &world, of_target)?;
                count += 1;
            }
        }
        Ok(count
            + self.failing_syncs(&calm, seed)?
            + self.full_disks(&calm, seed)?
            + self.failing_undo(&calm, seed)?)
    }

    fn failing_syncs(&self, calm: &Calm, seed: u64) -> Result<u64, Failure> {
        for spares in 0..3 {
            for of_target in [true, false] {
                let world = self.world(seed ^ u64::from(spares));
                let fault = Fault::of_sync(spares);
                if of_target {
                    world.disk.plan_fault(fault)
                } else {
                    world.log.plan_fault(fault)
                }
                self.stopped_by_fault(calm, &world, of_target)?;
            }
        }
        Ok(6)
    }

    fn full_disks(&self, calm: &Calm, seed: u64) -> Result<u64, Failure> {
        let len = calm.done.log.len();
        for step in 0..8 {
            let mut world = self.world(seed ^ step);
            world.log = SimFile::create("log", &world.machine).with_room_for(len * step / 8);
            self.stopped_by_fault(calm, &world, false)?;
        }
        Ok(8)
    }

    /// An undo that could not make durable that it begins, another one without a restart, and a power cut in that.
    fn failing_undo(&self, calm: &Calm, seed: u64) -> Result<u64, Failure> {
        for cut in 0.. {
            let failed = |why: &str| format!("{}: undo after a failed sync, cut {cut}: {why}", self.name);
            let machine = Machine::new(seed ^ (cut << 20));
            let (disk, log) = (calm.done.disk.copy_to(&machine), calm.done.log.copy_to(&machine));
            let world = World { machine, disk, log };
            world.log.plan_fault(Fault::of_sync(0));
            let first = undo(&world.log, &world.disk, false, Control::unattended());
            if !matches!(first, Err(ApplyError::LogNotWritten(_))) {
                return Err(failed(&format!("{first:?}")));
            }
            world.machine.cut_power_at(world.machine.changes() + cut);
            let second = undo(&world.log, &world.disk, false, Control::unattended());
            if world.machine.is_on() {
                return second.map(|_| cut).map_err(|error| failed(&error.to_string()));
            }
            world.machine.restart();
            let outcome =
                run_to_end(&world, Way::AsBegun, 0, &mut Swept::default()).map_err(|why| failed(&why))?;
            let wanted = match outcome {
                // The slot that said so may have been torn, and the other one is older.
                Some(Recovered::Nothing(LogState::Applied) | Recovered::Finished { .. }) => {
                    world.disk.holds_same_as(&calm.done.disk)
                }
                _ => world.disk.holds_same_as(&self.world(0).disk),
            };
            if !wanted {
                return Err(failed(&format!("{outcome:?}, and the target holds something else")));
            }
        }
        Ok(0)
    }

    /// Runs into the fault, and goes on when it is gone.
    fn stopped_by_fault(&self, calm: &Calm, world: &World, of_target: bool) -> Result<(), Failure> {
        let result = self.apply(world, true);
        let failed = |why: &str| format!("{}: fault of target {of_target}: {result:?}: {why}", self.name);
        let untouched = world.disk.holds_same_as(&self.world(0).disk);
        match &result {
            Err(ApplyError::LogNotWritten(_)) if !of_target => {
                let gone = !world.log.is_there();
                return if untouched && gone { Ok(()) } else { Err(failed("something is left")) };
            }
            Err(error @ ApplyError::Write(_)) if of_target && error.is_begun() => {}
            Err(error @ ApplyError::LogNotClosed(_)) if !of_target && error.is_begun() => {}
            _ => return Err(failed("not as it should be reported")),
        }
        world.disk.forget_faults();
        let way = if world.machine.changes().is_multiple_of(2) { Way::AsBegun } else { Way::Back };
        let outcome = run_to_end(world, way, 0, &mut Swept::default()).map_err(|why| failed(&why))?;
        let wanted = match outcome {
            Some(Recovered::Finished { .. }) => world.disk.holds_same_as(&calm.done.disk),
            Some(Recovered::TakenBack { .. }) => world.disk.holds_same_as(&self.world(0).disk),
            // In the cache it was closed all the same.
            Some(Recovered::Nothing(LogState::Applied)) => world.disk.holds_same_as(&calm.done.disk),
            _ => false,
        };
        if wanted { Ok(()) } else { Err(failed(&format!("then {outcome:?}"))) }
    }
}
