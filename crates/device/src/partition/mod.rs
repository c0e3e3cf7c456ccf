// SPDX-License-Identifier: MIT OR Apache-2.0
//! Partition tables: MBR with logical partitions, GPT, and BSD disklabels (of a disk, or inside a partition), with sectors of 512 or 4096 bytes.
//!
//! Tables are read, never judged: partitions may overlap or reach beyond the end of the disk, and are listed as they are
//! stated. Whatever stands in a table costs a bounded number of reads.

mod disklabel;
mod gpt;
mod mbr;
mod types;

use crate::content::{Recognise, Trace};
use crate::{Device, check_bounds};

/// One row of a partition table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, as Linux counts: MBR primaries 1 to 4, logical ones from 5; the place in the table for GPT. The rows of a disklabel inside a partition follow behind
    /// all others; those of a disklabel of the whole disk have their places in it (`a` is 1).
    pub number: u32,
    /// First byte on the disk.
    pub start: u64,
    /// Length in bytes, as stated; it may reach beyond the end of the disk.
    pub len: u64,
    /// What the table says is in it.
    pub type_name: String,
}

/// Sizes of logical sectors that occur.
const SECTOR_SIZES: [u64; 2] = [512, 4096];

/// The partitions of `device`, by number; empty if it has no partition table that makes sense. A device that starts with
/// a file system of one of the `families` has none, even if its boot code ends like a partition table; but that file system may be the first partition of a disklabel,
/// which stands in its boot area.
pub fn partitions(device: &dyn Device, families: &dyn Recognise) -> Vec<Partition> {
    let labelled = disklabel::read_whole(device);
    if labelled.iter().any(|partition| partition.start == 0) {
        return labelled;
    }
    if families.trace(device).is_some_and(|(trace, _)| trace == Trace::Superblock) {
        return Vec::new();
    }
    if !labelled.is_empty() {
        return labelled;
    }
    if let Some(found) = SECTOR_SIZES.iter().find_map(|sector| gpt::read(device, *sector)) {
        return found;
    }
    // Nothing in an MBR tells the size of its sectors: 512, unless only with 4096 a known file system is found.
    let tables = SECTOR_SIZES.map(|sector| mbr::read(device, sector));
    let known = tables.each_ref().map(|table| {
        let is_known = |row: &&Partition| starts_with_known(device, row, families);
        table.iter().filter(is_known).count()
    });
    let [small, large] = tables;
    if known[1] > known[0] { large } else { small }
}

fn starts_with_known(device: &dyn Device, partition: &Partition, families: &dyn Recognise) -> bool {
    let window = Window { device, start: partition.start };
    families.trace(&window).is_some_and(|(trace, _)| trace > Trace::Copy)
}

/// Puts the rows of the disklabels in `containers` behind the other partitions; a container without a label is a partition itself.
fn divide(
    device: &dyn Device,
    found: &mut Vec<Partition>,
    containers: Vec<(Partition, disklabel::Container)>,
    first: u32,
) {
    let numbered = found.iter().chain(containers.iter().map(|(partition, _)| partition));
    let mut next = numbered.map(|partition| partition.number + 1).fold(first, u32::max);
    let mut last = Vec::new();
    for (partition, container) in containers {
        let rows = disklabel::read(device, container);
        if rows.is_empty() {
            found.push(partition);
        }
        for (_, row) in rows {
            last.push(Partition { number: next, ..row });
            next += 1;
        }
    }
    found.sort_by_key(|partition| partition.number);
    found.append(&mut last);
}

/// A device from `start` on, borrowed.
struct Window<'d> {
    device: &'d dyn Device,
    start: u64,
}

impl Device for Window<'_> {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn len(&self) -> u64 {
        self.device.len().saturating_sub(self.start)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), crate::ReadError> {
        check_bounds(offset, buf.len() as u64, self.len())?;
        self.device.read_at(self.start + offset, buf)
    }
}

/// `len` bytes from `offset`, if they can be read.
fn read_bytes(device: &dyn Device, offset: u64, len: usize) -> Option<Vec<u8>> {
    check_bounds(offset, len as u64, device.len()).ok()?;
    let mut bytes = vec![0; len];
    device.read_at(offset, &mut bytes).is_ok().then_some(bytes)
}

/// The little-endian number at `at`; 0 where `bytes` ends before.
fn le32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// The little-endian number at `at`; 0 where `bytes` ends before.
fn le64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests;
