// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file on another disk of the machine: it grows, it may vanish, and its length, too, is only durable when it has been synced.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fsmend_base::SeededRandom;
use fsmend_device::{Device, LogFile, ReadError, WritableDevice, WriteError, WriteErrorKind};

use crate::disk::{NO_POWER, PLANNED, TEARING};
use crate::fault::{Fault, FaultKind, Faults};
use crate::machine::{Machine, Power, RequestKind};
use crate::medium::{Medium, SECTOR_BYTES};

/// A file, or the place for one.
pub struct SimFile {
    name: String,
    number: u64,
    machine: Machine,
    /// Bytes for which there is room.
    len_max: u64,
    state: Mutex<State>,
}

#[derive(Clone)]
struct State {
    medium: Medium,
    faults: Faults,
    is_there: bool,
    /// `None` while it is not settled whether a cut leaves it there.
    is_durably_there: Option<bool>,
    len: u64,
    durable_len: u64,
    cuts: u64,
}

impl SimFile {
    /// A new, empty file, of which only this program knows as yet.
    pub fn create(name: impl Into<String>, machine: &Machine) -> Self {
        let state = State {
            medium: Medium::new(Arc::new(Vec::new())),
            faults: Faults::default(),
            is_there: true,
            is_durably_there: None,
            len: 0,
            durable_len: 0,
            cuts: machine.cuts(),
        };
        let (machine, number) = (machine.clone(), machine.add_disk());
        SimFile { name: name.into(), number, machine, len_max: u64::MAX, state: Mutex::new(state) }
    }

    /// The same file, for which there are only so many bytes of room.
    pub fn with_room_for(self, len_max: u64) -> Self {
        SimFile { len_max, ..self }
    }

    /// A copy, as it is now, on another machine, with its faults.
    pub fn copy_to(&self, machine: &Machine) -> SimFile {
        let state = State { cuts: machine.cuts(), ..self.state().clone() };
        let (machine, number) = (machine.clone(), machine.add_disk());
        SimFile { name: self.name.clone(), number, machine, len_max: self.len_max, state: Mutex::new(state) }
    }

    /// Plans a failure.
    pub fn plan_fault(&self, fault: Fault) {
        self.state().faults.add(fault);
    }

    /// Takes all failures back, planned ones and those that a cut has left: sectors are as they were before or after what was written last.
    pub fn forget_faults(&self) {
        self.state().faults = Faults::default();
    }

    /// Whether there is such a file.
    pub fn is_there(&self) -> bool {
        self.state().is_there
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.cuts < self.machine.cuts() {
            state.cuts += 1;
            let mut luck = self.machine.luck(self.number, state.cuts);
            state.lose_power(&mut luck);
        }
        state
    }

    /// Whether the power lasts for a request that is about the whole file.
    fn serves(&self, kind: RequestKind) -> Result<Power, WriteError> {
        match self.machine.serves(&self.name, kind, 0, 0) {
            Power::Off => Err(WriteError::io(0, 0, NO_POWER)),
            power => Ok(power),
        }
    }
}

impl State {
    fn lose_power(&mut self, luck: &mut SeededRandom) {
        self.medium.lose_power(luck);
        let grown = self.len - self.durable_len;
        let len = self.durable_len
            + match luck.below(3) {
                0 => 0,
                1 => grown,
                _ => luck.below(grown + 1),
            };
        // Where a file has grown and its bytes have not come, some file systems show what was there before.
        if luck.below(2) == 0 {
            let sector = SECTOR_BYTES as u64;
            self.medium.leave_garbage(self.durable_len.div_ceil(sector)..len / sector, luck);
        }
        self.medium.cut_off(len.div_ceil(SECTOR_BYTES as u64));
        (self.len, self.durable_len) = (len, len);
        self.is_there = self.is_durably_there.unwrap_or_else(|| luck.below(2) == 0);
        self.is_durably_there = Some(self.is_there);
        if !self.is_there {
            self.medium.clear();
            self.faults = Faults::default();
            (self.len, self.durable_len) = (0, 0);
        }
    }
}

impl Device for SimFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.state().len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let len = buf.len() as u64;
        if offset.checked_add(len).is_none_or(|end| end > self.len()) {
            return Err(ReadError::beyond_end(offset, len));
        }
        if self.machine.serves(&self.name, RequestKind::Read, offset, len) != Power::Lasts {
            return Err(ReadError::io(offset, len, NO_POWER));
        }
        let mut state = self.state();
        if state.faults.strike(FaultKind::Read, offset, len).is_some() {
            return Err(ReadError::io(offset, len, PLANNED));
        }
        state.medium.read(offset, buf);
        Ok(())
    }
}

impl WritableDevice for SimFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        let len = bytes.len() as u64;
        let mut state = self.state();
        let power = self.machine.serves(&self.name, RequestKind::Write, offset, len);
        if power == Power::Off {
            return Err(WriteError::io(offset, len, NO_POWER));
        }
        if offset.saturating_add(len) > self.len_max {
            return Err(WriteError { offset, len, kind: WriteErrorKind::NoSpace });
        }
        if state.faults.strike(FaultKind::Write, offset, len).is_some() {
            return Err(WriteError::io(offset, len, PLANNED));
        }
        let device_len = state.len.max(offset + len);
        if state.faults.must_read(offset, len, device_len) {
            return Err(WriteError::io(offset, len, PLANNED));
        }
        state.faults.heal(offset, len, device_len);
        state.medium.write(offset, bytes);
        if power == Power::Fails {
            let mut luck = self.machine.luck(self.number, self.machine.cuts() + TEARING);
            state.faults.tear(offset, len, &mut luck);
        }
        state.len = state.len.max(offset + len);
        if power == Power::Fails { Err(WriteError::io(offset, len, NO_POWER)) } else { Ok(()) }
    }

    fn sync(&self) -> Result<(), WriteError> {
        let mut state = self.state();
        if self.serves(RequestKind::Sync)? == Power::Fails {
            return Err(WriteError::io(0, 0, NO_POWER));
        }
        if state.faults.strike(FaultKind::Sync, 0, 0).is_some() {
            state.medium.fail_sync();
            return Err(WriteError::io(0, 0, PLANNED));
        }
        state.medium.sync();
        state.durable_len = state.len;
        Ok(())
    }
}

impl LogFile for SimFile {
    fn sync_entry(&self) -> Result<(), WriteError> {
        let mut state = self.state();
        if self.serves(RequestKind::SyncEntry)? == Power::Fails {
            return Err(WriteError::io(0, 0, NO_POWER));
        }
        state.is_durably_there = Some(state.is_there);
        Ok(())
    }

    fn remove(&self) -> Result<(), WriteError> {
        let mut state = self.state();
        let power = self.serves(RequestKind::Remove)?;
        (state.is_there, state.is_durably_there) = (false, None);
        if power == Power::Fails {
            return Err(WriteError::io(0, 0, NO_POWER));
        }
        state.is_durably_there = Some(false);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_new_file_may_vanish_until_its_entry_is_synced() {
        let there = |seed, sync_entry: bool| {
            let machine = Machine::new(seed);
            let file = SimFile::create("file", &machine);
            file.write_at(0, &[1; 1000]).unwrap();
            file.sync().unwrap();
            if sync_entry {
                file.sync_entry().unwrap();
            }
            machine.restart();
            file.is_there().then(|| file.len())
        };
        assert!((0..20).all(|seed| there(seed, true) == Some(1000)));
        let count = (0..20).filter(|seed| there(*seed, false).is_some()).count();
        assert!(count > 2 && count < 18, "{count} of 20 are there");
    }

    #[test]
    fn what_is_not_synced_is_cut_off_or_anything() {
        let mut lengths = Vec::new();
        for seed in 0..40 {
            let machine = Machine::new(seed);
            let file = SimFile::create("file", &machine);
            file.sync_entry().unwrap();
            file.write_at(0, &[1; 600]).unwrap();
            file.sync().unwrap();
            file.write_at(600, &[2; 5000]).unwrap();
            machine.restart();
            let mut bytes = vec![0; file.len() as usize];
            file.read_at(0, &mut bytes).unwrap();
            assert!(bytes[..600].iter().all(|byte| *byte == 1));
            lengths.push(bytes.len());
        }
        lengths.sort_unstable();
        lengths.dedup();
        assert!(lengths.first() == Some(&600) && lengths.last() == Some(&5600) && lengths.len() > 4);
    }

    #[test]
    fn a_full_disk_says_so() {
        let machine = Machine::new(1);
        let file = SimFile::create("file", &machine).with_room_for(1000);
        file.write_at(0, &[1; 900]).unwrap();
        assert_eq!(file.write_at(900, &[1; 200]).unwrap_err().kind, WriteErrorKind::NoSpace);
    }
}
