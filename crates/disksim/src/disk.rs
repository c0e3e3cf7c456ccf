// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk of a machine.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fsmend_base::width;
use fsmend_device::{Device, ReadError, WritableDevice, WriteError, WriteErrorKind};

use crate::fault::{Fault, FaultKind, Faults};
use crate::machine::{Machine, Power, RequestKind};
use crate::medium::{Medium, SECTOR_BYTES};

/// A disk of fixed length.
pub struct SimDisk {
    name: String,
    number: u64,
    len: u64,
    machine: Machine,
    state: Mutex<State>,
}

#[derive(Clone)]
struct State {
    medium: Medium,
    faults: Faults,
    /// Power cuts that it has been through.
    cuts: u64,
}

impl SimDisk {
    /// A disk of `machine` that holds `bytes`, which several disks may share: each keeps only what was written to it.
    pub fn new(name: impl Into<String>, machine: &Machine, bytes: Arc<Vec<u8>>) -> Self {
        let len = bytes.len() as u64;
        let state = State { medium: Medium::new(bytes), faults: Faults::default(), cuts: machine.cuts() };
        let (machine, number) = (machine.clone(), machine.add_disk());
        SimDisk { name: name.into(), number, len, machine, state: Mutex::new(state) }
    }

    /// A copy, as it is now, on another machine, with its faults.
    pub fn copy_to(&self, machine: &Machine) -> SimDisk {
        let state = State { cuts: machine.cuts(), ..self.state().clone() };
        let (machine, number) = (machine.clone(), machine.add_disk());
        SimDisk { name: self.name.clone(), number, len: self.len, machine, state: Mutex::new(state) }
    }

    /// Plans a failure.
    pub fn plan_fault(&self, fault: Fault) {
        self.state().faults.add(fault);
    }

    /// Takes all planned failures back: as with a new cable.
    pub fn forget_faults(&self) {
        self.state().faults = Faults::default();
    }

    /// All bytes, as a reader without bad luck sees them.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; width::index(self.len)];
        self.peek(0, &mut bytes);
        bytes
    }

    /// Some of the bytes, as a reader without bad luck sees them; they have to be there.
    pub fn peek(&self, offset: u64, bytes: &mut [u8]) {
        self.state().medium.read(offset, bytes);
    }

    /// Whether this disk and `other`, which were made from the same bytes, hold the same now.
    pub fn holds_same_as(&self, other: &SimDisk) -> bool {
        let other = other.state().medium.clone();
        self.state().medium.shows_same_as(&other)
    }

    /// What the disk holds, when the power cuts that it has not noticed yet have had their effect.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.cuts < self.machine.cuts() {
            state.cuts += 1;
            let mut luck = self.machine.luck(self.number, state.cuts);
            state.medium.lose_power(&mut luck);
        }
        state
    }
}

impl Device for SimDisk {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let len = buf.len() as u64;
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(ReadError::beyond_end(offset, len));
        }
        if self.machine.serves(&self.name, RequestKind::Read, offset, len) != Power::Lasts {
            return Err(ReadError::io(offset, len, NO_POWER));
        }
        let mut state = self.state();
        if state.faults.strike(FaultKind::Read, offset, len).is_some() {
            buf.fill(0xEE);
            return Err(ReadError::io(offset, len, PLANNED));
        }
        state.medium.read(offset, buf);
        Ok(())
    }
}

impl WritableDevice for SimDisk {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        let len = bytes.len() as u64;
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(WriteError { offset, len, kind: WriteErrorKind::BeyondEnd });
        }
        // Held until the bytes are in the cache: then what comes of a cut is settled with them.
        let mut state = self.state();
        let power = self.machine.serves(&self.name, RequestKind::Write, offset, len);
        if power == Power::Off {
            return Err(WriteError::io(offset, len, NO_POWER));
        }
        if let Some(sector) = state.faults.strike(FaultKind::Write, offset, len) {
            let before = (sector * SECTOR_BYTES as u64).saturating_sub(offset);
            state.medium.write(offset, &bytes[..width::index(before)]);
            return Err(WriteError::io(offset, len, PLANNED));
        }
        if state.faults.must_read(offset, len, self.len) {
            return Err(WriteError::io(offset, len, PLANNED));
        }
        state.faults.heal(offset, len, self.len);
        state.medium.write(offset, bytes);
        if power == Power::Fails {
            let mut luck = self.machine.luck(self.number, self.machine.cuts() + TEARING);
            state.faults.tear(offset, len, &mut luck);
        }
        if power == Power::Fails { Err(WriteError::io(offset, len, NO_POWER)) } else { Ok(()) }
    }

    fn sync(&self) -> Result<(), WriteError> {
        let mut state = self.state();
        if self.machine.serves(&self.name, RequestKind::Sync, 0, 0) != Power::Lasts {
            return Err(WriteError::io(0, 0, NO_POWER));
        }
        if state.faults.strike(FaultKind::Sync, 0, 0).is_some() {
            state.medium.fail_sync();
            return Err(WriteError::io(0, 0, PLANNED));
        }
        state.medium.sync();
        Ok(())
    }
}

/// Luck with the sector that was just being written is another one than that with those that wait.
pub(crate) const TEARING: u64 = 1 << 16;
pub(crate) const NO_POWER: &str = "the power is off";
pub(crate) const PLANNED: &str = "planned fault";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn disk(seed: u64) -> (Machine, SimDisk) {
        let machine = Machine::new(seed);
        let disk = SimDisk::new("disk", &machine, Arc::new(vec![0; 65536]));
        (machine, disk)
    }

    #[test]
    fn the_power_fails_when_it_should() {
        let (machine, disk) = disk(1);
        machine.cut_power_at(2);
        disk.write_at(0, &[1; 512]).unwrap();
        disk.sync().unwrap();
        disk.write_at(512, &[2; 512]).unwrap_err();
        disk.write_at(0, &[3; 512]).unwrap_err();
        disk.read_at(0, &mut [0]).unwrap_err();
        assert!(!machine.is_on());
        machine.restart();
        assert_eq!(disk.bytes()[0], 1);
        disk.write_at(0, &[4; 512]).unwrap();
        assert_eq!(machine.changes(), 1);
        assert_eq!(machine.requests().len(), 4);
    }

    #[test]
    fn the_same_seed_loses_the_same() {
        let run = |seed| {
            let (machine, disk) = disk(seed);
            for at in 0..100 {
                disk.write_at(at * 600, &[at as u8 + 1; 600]).unwrap();
            }
            machine.restart();
            disk.bytes()
        };
        assert!(run(1) == run(1) && (0..9).any(|seed| run(seed) != run(9)));
    }

    #[test]
    fn writes_are_torn() {
        let torn = (0..50).any(|seed| {
            let (machine, disk) = disk(seed);
            machine.cut_power_at(0);
            disk.write_at(0, &[1; 4096]).unwrap_err();
            let count = disk.bytes().iter().filter(|byte| **byte == 1).count();
            count > 0 && count < 4096 && count % 512 == 0
        });
        assert!(torn);
    }

    #[test]
    fn sectors_fail_as_planned() {
        let (_, disk) = disk(1);
        disk.plan_fault(Fault::transient(FaultKind::Write, 1..2, 1));
        disk.plan_fault(Fault::lasting(FaultKind::Read, 4..5));
        disk.write_at(0, &[1; 2048]).unwrap_err();
        assert_eq!(disk.bytes()[511..513], [1, 0]);
        disk.write_at(0, &[1; 2048]).unwrap();
        disk.read_at(2048, &mut [0]).unwrap_err();
        disk.write_at(2048, &[1; 512]).unwrap();
        disk.read_at(2048, &mut [0]).unwrap();
    }
}
