// SPDX-License-Identifier: MIT OR Apache-2.0
//! Allocation maps and counts against what inodes own.
//!
//! A format divides its space in areas (groups, cylinder groups, the whole of it), each with one or more maps: of claim units, of inodes. It reads what is stored, with
//! what is wrong with a map by itself (checksum, padding), and says which counts follow from what is in use; what is in use, and every difference, is worked out here.

use std::sync::atomic::AtomicBool;

use fsmend_device::Device;

use crate::claims::Claims;
use crate::format::Volume;
use crate::inodes::InodeTable;
use crate::pool::{self, PoolConfig, Stage};
use crate::{Findings, Problem, Row};

pub use super::words::{Words, padding_is_set};

/// Areas that one worker takes at a time.
pub const AREAS_PER_SLICE: usize = 16;
/// The work of all that goes area by area.
pub const MAPS: [Stage; 1] = [Stage { name: "bitmaps", pass: 0 }];

/// What is in use, as the checks before this one have left it.
#[derive(Clone, Copy)]
pub struct InUse<'a> {
    /// Facts of all inodes.
    pub inodes: &'a InodeTable,
    /// Claims on all units.
    pub claims: &'a Claims,
}

impl InUse<'_> {
    /// Which of `count` claim units from `first` on are in use.
    pub fn units(&self, first: u64, count: u64) -> Words {
        Words::of_bitmap(self.claims.claimed(), first, count)
    }

    /// Adds the inodes of a chunk that are in use, its first inode being the first bit; returns the number of directories among them.
    pub fn add_inodes(&self, chunk: u32, used: &mut Words) -> u64 {
        let mut directories = 0;
        let words = self.inodes.used_in_chunk(chunk).map(|(of_chunk, are_directories)| {
            directories += u64::from(are_directories.count_ones());
            of_chunk
        });
        used.join(words);
        directories
    }
}

/// What the comparison needs of a format.
pub trait AllocationMaps: Volume {
    /// How many areas there are.
    fn areas(&self) -> u32 {
        1
    }

    /// How many maps each has.
    fn maps(&self) -> usize;

    /// How many kinds of counts there are, over all maps.
    fn count_kinds(&self) -> usize {
        self.maps()
    }

    /// What a map should say: a bit for each unit, or inode, in use.
    fn observed(&self, area: u32, map: usize, in_use: InUse<'_>) -> Observed;

    /// What it says. `None` where that is not known, or need not be: it cannot be read (which is raised), or a mark stands for it that is right. Where maps lie
    /// side by side, the second of `observed_and_read` holds what was read for the areas before.
    fn stored(
        &self,
        area: u32,
        map: usize,
        observed_and_read: (&Observed, &mut ReadMaps),
        findings: &mut Findings,
    ) -> Option<Words>;

    /// The counts that are kept of a map: each is compared, and added up by its kind.
    fn counts(&self, area: u32, map: usize, observed: &Observed, count: &mut dyn FnMut(Count));

    /// A problem with this row at `count` bits from `first` on.
    fn difference(&self, area: u32, map: usize, difference: Difference, run: (u64, u64)) -> Problem;

    /// A problem with this row in this area.
    fn at_area(&self, row: &'static Row, area: u32) -> Problem {
        let _ = area;
        Problem::new(row)
    }
}

/// Maps that were read together, a stretch for each kind, and are wanted for one area after the other.
#[derive(Clone, Debug, Default)]
pub struct ReadMaps {
    stretches: Vec<(u64, Vec<u8>)>,
}

impl ReadMaps {
    /// The `len` bytes from `offset` on, if they were read.
    pub fn get(&self, offset: u64, len: usize) -> Option<&[u8]> {
        self.stretches.iter().find_map(|(first, bytes)| {
            let at = usize::try_from(offset.checked_sub(*first)?).ok()?;
            bytes.get(at..at.checked_add(len)?)
        })
    }

    /// Reads `len` bytes from `offset` on in the place of what was read for this kind of map before; false if they cannot be read.
    pub fn read(&mut self, map: usize, device: &dyn Device, (offset, len): (u64, usize)) -> bool {
        if self.stretches.len() <= map {
            self.stretches.resize_with(map + 1, Default::default);
        }
        let (first, bytes) = &mut self.stretches[map];
        *first = offset;
        bytes.resize(len, 0);
        let is_read = device.read_at(offset, bytes).is_ok();
        if !is_read {
            bytes.clear();
        }
        is_read
    }
}

/// What a map should say.
#[derive(Clone, Debug)]
pub struct Observed {
    /// What is in use.
    pub used: Words,
    /// Directories, for a map of inodes.
    pub directories: u64,
}

/// One count that is stored beside a map.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// Which of the kinds of counts it is.
    pub kind: usize,
    /// The row for one that is wrong.
    pub row: &'static Row,
    /// What is stored.
    pub stored: u64,
    /// What it should be.
    pub observed: u64,
}

/// How a bit differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The map says in use, but nothing is there.
    MarkedButFree,
    /// The map says free, but it is in use.
    UsedButFree,
}

/// Sums of counts over all areas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Of what is stored.
    pub stored: u64,
    /// Of what should be.
    pub observed: u64,
}

/// Compares maps and counts of all areas. Returns the sums, by kind of count.
pub fn check(
    maps: &impl AllocationMaps,
    in_use: InUse<'_>,
    (pool, cancel): (PoolConfig<'_>, &AtomicBool),
    findings: &mut Findings,
) -> Vec<Sum> {
    let areas: Vec<u32> = (0..maps.areas()).collect();
    let (room, kinds) = (findings.room(), maps.count_kinds());
    let states = pool::run_slices(
        pool,
        &MAPS,
        &areas,
        AREAS_PER_SLICE,
        cancel,
        |_| (Findings::with_room(room), vec![Sum::default(); kinds], ReadMaps::default()),
        |(findings, sums, read), part| {
            for (area, map) in part.iter().flat_map(|area| (0..maps.maps()).map(|map| (*area, map))) {
                check_map(maps, (area, map), (in_use, read), findings, sums);
            }
        },
    );
    let mut sums = vec![Sum::default(); kinds];
    for (found, part, _) in states {
        findings.merge(found);
        for (sum, part) in sums.iter_mut().zip(part) {
            sum.stored += part.stored;
            sum.observed += part.observed;
        }
    }
    sums
}

fn check_map(
    maps: &impl AllocationMaps,
    (area, map): (u32, usize),
    (in_use, read): (InUse<'_>, &mut ReadMaps),
    findings: &mut Findings,
    sums: &mut [Sum],
) {
    let observed = maps.observed(area, map, in_use);
    maps.counts(area, map, &observed, &mut |count| {
        if let Some(sum) = sums.get_mut(count.kind) {
            sum.stored += count.stored;
            sum.observed += count.observed;
        }
        if count.stored != count.observed {
            let problem = maps.at_area(count.row, area);
            findings.raise(problem.stored(count.stored).observed(count.observed));
        }
    });
    let Some(stored) = maps.stored(area, map, (&observed, read), findings) else { return };
    let used = &observed.used;
    if stored == *used {
        return;
    }
    for (difference, left, right) in
        [(Difference::MarkedButFree, &stored, used), (Difference::UsedButFree, used, &stored)]
    {
        left.runs_without(right, |first, count| {
            findings.raise(maps.difference(area, map, difference, (first, count)));
        });
    }
}

#[cfg(test)]
mod tests {
    use fsmend_device::MemoryDevice;

    use super::*;

    #[test]
    fn what_was_read_for_one_area_is_there_for_the_next_of_its_kind() {
        let device = MemoryDevice::new("maps", (0..=99).collect());
        let mut read = ReadMaps::default();
        assert_eq!(read.get(0, 1), None);
        assert!(read.read(1, &device, (10, 20)) && read.read(0, &device, (50, 5)));
        assert_eq!((read.get(10, 2), read.get(28, 2)), (Some(&[10, 11][..]), Some(&[28, 29][..])));
        assert_eq!(read.get(50, 5), Some(&[50, 51, 52, 53, 54][..]));
        assert_eq!((read.get(29, 2), read.get(9, 2), read.get(u64::MAX, 2)), (None, None, None));
        assert!(!read.read(0, &device, (95, 10)), "behind the end");
        assert_eq!((read.get(95, 1), read.get(50, 1), read.get(12, 1)), (None, None, Some(&[12][..])));
    }
}
