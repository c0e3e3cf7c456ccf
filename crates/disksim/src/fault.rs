//! Planned failures of single sectors, and of syncs.

use std::ops::Range;

use crate::medium::sectors_of;

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

    /// A write of these bytes replaces the sectors that it covers wholly.
    pub fn heal(&mut self, offset: u64, len: u64) {
        let whole = offset.div_ceil(512)..(offset + len) / 512;
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
        faults.heal(4 * 512 - 1, 513);
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
