// SPDX-License-Identifier: MIT OR Apache-2.0
//! Planned failures of single sectors, and of syncs.

use std::ops::Range;

use fsmend_base::SeededRandom;

use crate::medium::{SECTOR_BYTES, sectors_of};

const SECTOR: u64 = SECTOR_BYTES as u64;

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What fails.
    pub kind: FaultKind,
    /// Sectors (of 512 bytes) that fail; a sync has none.
    pub sectors: Range<u64>,
    /// So many requests pass before.
    pub spares: u32,
    /// How many requests fail: the next so many, or all.
    pub times: Option<u32>,
}

impl Fault {
    /// Every request that touches these sectors fails, for ever.
    pub fn lasting(kind: FaultKind, sectors: Range<u64>) -> Fault {
        Fault { kind, sectors, spares: 0, times: None }
    }

    /// The next `times` requests fail that touch these sectors.
    pub fn transient(kind: FaultKind, sectors: Range<u64>, times: u32) -> Fault {
        Fault { kind, sectors, spares: 0, times: Some(times) }
    }

    /// The sync after the next `spares` fails.
    pub fn of_sync(spares: u32) -> Fault {
        Fault { kind: FaultKind::Sync, sectors: 0..0, spares, times: Some(1) }
    }
}

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Reads. A write of a whole sector heals it, as a disk puts another one in its place.
    Read,
    /// Writes: what comes before the sector is written.
    Write,
    /// Syncs: what waited for it will never be durable, though readers still see it.
    Sync,
}

/// The faults of a disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    pub fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    /// The first sector in which a request fails, if it does. A fault that strikes is used up by one.
    pub fn strike(&mut self, kind: FaultKind, offset: u64, len: u64) -> Option<u64> {
        let wanted = sectors_of(offset, len);
        let strikes = |fault: &&mut Fault| {
            let touches = fault.sectors.start < wanted.end && wanted.start < fault.sectors.end;
            fault.kind == kind && fault.times != Some(0) && (touches || kind == FaultKind::Sync)
        };
        let fault = self.0.iter_mut().filter(strikes).min_by_key(|fault| fault.sectors.start)?;
        if fault.spares > 0 {
            fault.spares -= 1;
            return None;
        }
        fault.times = fault.times.map(|times| times - 1);
        Some(fault.sectors.start.max(wanted.start))
    }

    /// Whether the first or the last sector of a write is one that cannot be read, and is not written whole: then it would have to be
    /// read first.
    pub fn must_read(&self, offset: u64, len: u64, device_len: u64) -> bool {
        let end = offset + len;
        let unreadable = |at: u64| {
            self.0.iter().any(|fault| fault.kind == FaultKind::Read && fault.sectors.contains(&(at / SECTOR)))
        };
        (!offset.is_multiple_of(SECTOR) && unreadable(offset))
            || (!end.is_multiple_of(SECTOR) && end < device_len && unreadable(end))
    }

    /// A power cut in the middle of a write may leave one of its sectors so that it cannot be read until it is written again.
    pub fn tear(&mut self, offset: u64, len: u64, luck: &mut SeededRandom) {
        let sectors = sectors_of(offset, len);
        if !sectors.is_empty() && luck.below(3) == 0 {
            let sector = sectors.start + luck.below(sectors.end - sectors.start);
            self.add(Fault::lasting(FaultKind::Read, sector..sector + 1));
        }
    }

    /// A write of these bytes replaces the sectors that it covers wholly.
    pub fn heal(&mut self, offset: u64, len: u64, device_len: u64) {
        let end = if offset + len == device_len { device_len.next_multiple_of(SECTOR) } else { offset + len };
        let whole = offset.div_ceil(SECTOR)..end / SECTOR;
        let (mine, mut left): (Vec<Fault>, Vec<Fault>) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|fault| fault.kind == FaultKind::Read && whole.start < whole.end);
        for fault in mine {
            let before = fault.sectors.start..fault.sectors.end.min(whole.start);
            let after = fault.sectors.start.max(whole.end)..fault.sectors.end;
            for sectors in [before, after] {
                if !sectors.is_empty() {
                    left.push(Fault { sectors, ..fault.clone() });
                }
            }
        }
        self.0 = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_heals_the_sectors_it_covers() {
        let mut faults = Faults::default();
        faults.add(Fault::lasting(FaultKind::Read, 2..10));
        faults.heal(4 * 512 - 1, 513, 1 << 20);
        assert!(faults.must_read(3 * 512 + 1, 511, 1 << 20) && !faults.must_read(3 * 512, 512, 1 << 20));
        let strikes =
            |faults: &mut Faults, sector: u64| faults.strike(FaultKind::Read, sector * 512, 1).is_some();
        assert!(strikes(&mut faults, 3) && !strikes(&mut faults, 4) && strikes(&mut faults, 5));
    }

    #[test]
    fn a_transient_fault_passes() {
        let mut faults = Faults::default();
        faults.add(Fault::transient(FaultKind::Write, 2..3, 2));
        faults.add(Fault::of_sync(1));
        let mut strike = || faults.strike(FaultKind::Write, 0, 4096);
        assert_eq!([strike(), strike(), strike()], [Some(2), Some(2), None]);
        let mut strike = || faults.strike(FaultKind::Sync, 0, 0).is_some();
        assert_eq!([strike(), strike(), strike()], [false, true, false]);
    }
}
