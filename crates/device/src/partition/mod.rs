//! Partition tables: MBR with logical partitions, and GPT, with sectors of 512 or 4096 bytes.
//!
//! Tables are read, never judged: partitions may overlap or reach beyond the end of the disk, and are listed as they are
//! stated. Whatever stands in a table costs a bounded number of reads.

mod gpt;
mod mbr;
mod types;

use crate::content::{has_ext_superblock, has_plausible_ext_superblock};
use crate::{Device, check_bounds};

/// One row of a partition table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, as Linux counts: MBR primaries 1 to 4, logical ones from 5; the place in the table for GPT.
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
/// an ext file system has none, even if its boot code ends like a partition table.
pub fn partitions(device: &dyn Device) -> Vec<Partition> {
    if has_plausible_ext_superblock(device) {
        return Vec::new();
    }
    if let Some(found) = SECTOR_SIZES.iter().find_map(|sector| gpt::read(device, *sector)) {
        return found;
    }
    // Nothing in an MBR tells the size of its sectors: 512, unless only with 4096 something of ext is found.
    let tables = SECTOR_SIZES.map(|sector| mbr::read(device, sector));
    let ext_found =
        tables.each_ref().map(|table| table.iter().filter(|row| starts_with_ext(device, row)).count());
    let [small, large] = tables;
    if ext_found[1] > ext_found[0] { large } else { small }
}

fn starts_with_ext(device: &dyn Device, partition: &Partition) -> bool {
    let window = Window { device, start: partition.start };
    has_ext_superblock(&window)
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
