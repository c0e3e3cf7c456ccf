// SPDX-License-Identifier: MIT OR Apache-2.0
//! The BSD disklabel: the table of a disk without another one, or of a partition of an MBR or a GPT. Either byte order.
//!
//! ```text
//!  0  magic 0x82564557     136  exclusive or of all 16-bit words up to the last row is 0     row
//! 40  bytes of a sector    138  number of rows                                                0  sectors       8  fragment
//!                          148  rows: a, b, c, ...                                            4  first sector 12  type
//! 132 magic again                                                                             (numbers of 32 bits; the type has 8)
//! ```
//! Row `c` stands for all that the label divides: the first sectors of the others count from the same place as its own does (from the
//! start of the disk or of the partition). OpenBSD always counts from the start of the disk.

use super::types::disklabel_type_name;
use super::{Partition, SECTOR_SIZES, read_bytes};
use crate::Device;

const MAGIC: u32 = 0x8256_4557;
/// Bytes of a label with as many rows as fit into a sector.
const LABEL_BYTES: usize = 512;
const ROWS: usize = 148;
const ROW_BYTES: usize = 16;
/// The row that stands for the whole.
const WHOLE: usize = 2;
/// Where labels stand: in the second sector of 512 bytes, and behind the boot code of Alpha and SPARC.
const PLACES: [u64; 3] = [512, 64, 128];

/// What a label divides.
#[derive(Clone, Copy)]
pub(super) struct Container {
    /// Its first byte on the disk.
    pub start: u64,
    /// Whether rows count from the start of the disk, whatever row `c` says.
    pub is_absolute: bool,
}

/// The partitions of a label that stands at the start of the disk.
pub(super) fn read_whole(device: &dyn Device) -> Vec<Partition> {
    let mut found = read(device, Container { start: 0, is_absolute: false });
    for (row, partition) in &mut found {
        partition.number = *row;
    }
    found.into_iter().map(|(_, partition)| partition).collect()
}

/// The rows in use of the label in a container, with their places in the label (from 1); numbers are up to the caller.
pub(super) fn read(device: &dyn Device, container: Container) -> Vec<(u32, Partition)> {
    PLACES.iter().find_map(|place| read_at(device, container, *place)).unwrap_or_default()
}

fn read_at(device: &dyn Device, container: Container, place: u64) -> Option<Vec<(u32, Partition)>> {
    let label = Label::parse(read_bytes(device, container.start.checked_add(place)?, LABEL_BYTES)?)?;
    let base = match (container.is_absolute, label.row(WHOLE)) {
        (false, Some(whole)) => whole.first,
        _ => 0,
    };
    let start = if container.is_absolute { 0 } else { container.start };
    let partition = |index: usize| {
        let row = label.row(index).filter(|row| row.kind != 0 && row.count != 0)?;
        let first = row.first.checked_sub(base).unwrap_or(row.first);
        let letter = char::from(b'a' + u8::try_from(index).ok()?);
        let place = Partition {
            number: 0,
            start: start.checked_add(first * label.sector)?,
            len: row.count * label.sector,
            type_name: format!("{letter}: {}", disklabel_type_name(row.kind)),
        };
        Some((u32::try_from(index).ok()? + 1, place))
    };
    Some((0..label.row_count).filter_map(partition).collect())
}

struct Label {
    bytes: Vec<u8>,
    is_big: bool,
    sector: u64,
    row_count: usize,
}

struct Row {
    count: u64,
    first: u64,
    kind: u8,
}

impl Label {
    /// The label in `bytes`, if both magics and the sum are right.
    fn parse(bytes: Vec<u8>) -> Option<Label> {
        let magic = [
            u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?),
            u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?),
        ];
        let is_big = magic[1] == MAGIC;
        let mut label = Label { bytes, is_big, sector: 0, row_count: 0 };
        label.sector = label.number(40)?;
        label.row_count = label.half(138)?.into();
        let end = ROWS + ROW_BYTES * label.row_count;
        let is_right = magic.contains(&MAGIC)
            && label.number(132)? == u64::from(MAGIC)
            && SECTOR_SIZES.contains(&label.sector)
            // Words in any order have the same sum.
            && label.bytes.get(..end)?.chunks_exact(2).fold([0, 0], |sum, word| [sum[0] ^ word[0], sum[1] ^ word[1]]) == [0, 0];
        is_right.then_some(label)
    }

    fn row(&self, index: usize) -> Option<Row> {
        let at = ROWS + ROW_BYTES * index;
        let is_there = index < self.row_count;
        is_there.then_some(())?;
        Some(Row { count: self.number(at)?, first: self.number(at + 4)?, kind: *self.bytes.get(at + 12)? })
    }

    fn number(&self, at: usize) -> Option<u64> {
        let bytes = self.bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u64::from(if self.is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }))
    }

    fn half(&self, at: usize) -> Option<u16> {
        let bytes = self.bytes.get(at..at + 2)?.try_into().ok()?;
        Some(if self.is_big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }
}
