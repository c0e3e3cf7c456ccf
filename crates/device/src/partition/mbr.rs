// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table in the first sector, and the chain of extended boot records.
//!
//! ```text
//! 446  four rows of 16 bytes:   0  status (0x00, 0x80 active)    4  type
//! 510  0x55 0xAA                8  first sector                 12  number of sectors   (little-endian)
//! ```
//! An extended partition holds a chain of sectors of the same form: row 0 is a logical partition, counted from that
//! sector; row 1 leads to the next sector, counted from the start of the extended partition.

use super::disklabel::Container;
use super::types::mbr_type_name;
use super::{Partition, divide, le32, read_bytes};
use crate::Device;

/// A chain of extended boot records is followed so far: Linux stops at 256 partitions as well.
const LOGICAL_MAX: u32 = 256;

/// A row that is in use.
#[derive(Clone, Copy)]
struct Row {
    index: u32,
    kind: u8,
    first: u64,
    count: u64,
}

/// The partitions, without the protective one that stands for a GPT.
pub(super) fn read(device: &dyn Device, sector: u64) -> Vec<Partition> {
    let Some(rows) = read_rows(device, 0) else { return Vec::new() };
    let disk_sectors = device.len() / sector;
    let mut found = Vec::new();
    let mut containers = Vec::new();
    let mut next_logical = FIRST_LOGICAL;
    // A sector of boot code that ends like a table: rows that start nowhere on the disk say so.
    if rows.iter().all(|row| row.first >= disk_sectors) {
        return found;
    }
    for row in rows.iter().filter(|row| row.kind != PROTECTIVE) {
        if is_extended(row.kind) {
            read_logical(device, sector, *row, &mut next_logical, &mut found);
            continue;
        }
        let primary = partition(row.index + 1, row.first, *row, sector);
        if is_bsd(row.kind) {
            let container = Container { start: primary.start, is_absolute: row.kind == OPENBSD };
            containers.push((primary, container));
        } else {
            found.push(primary);
        }
    }
    divide(device, &mut found, containers, next_logical);
    found
}

/// Whether the first sector has the protective row of a GPT.
pub(super) fn is_protective(device: &dyn Device) -> bool {
    read_rows(device, 0).is_some_and(|rows| rows.iter().any(|row| row.kind == PROTECTIVE))
}

/// Whether the first sector is a table with any row in use.
pub(super) fn has_rows(device: &dyn Device) -> bool {
    read_rows(device, 0).is_some_and(|rows| !rows.is_empty())
}

const PROTECTIVE: u8 = 0xEE;
const OPENBSD: u8 = 0xA6;
const FIRST_LOGICAL: u32 = 5;

/// Slices of FreeBSD, OpenBSD and NetBSD.
fn is_bsd(kind: u8) -> bool {
    matches!(kind, 0xA5 | OPENBSD | 0xA9)
}

fn is_extended(kind: u8) -> bool {
    matches!(kind, 0x05 | 0x0F | 0x85)
}

/// Follows the chain of `extended`. Each sector is visited once: an address that does not grow ends the chain unless it
/// has not been met yet, and the number of links is bounded.
fn read_logical(device: &dyn Device, sector: u64, extended: Row, next: &mut u32, found: &mut Vec<Partition>) {
    let mut visited = Vec::new();
    let mut at = extended.first;
    while *next < FIRST_LOGICAL + LOGICAL_MAX
        && visited.len() < LOGICAL_MAX as usize
        && !visited.contains(&at)
    {
        visited.push(at);
        let Some(rows) = at.checked_mul(sector).and_then(|byte| read_rows(device, byte)) else { return };
        for row in rows.iter().filter(|row| row.index < 2 && !is_extended(row.kind)) {
            found.push(partition(*next, at + row.first, *row, sector));
            *next += 1;
        }
        let Some(link) = rows.iter().find(|row| is_extended(row.kind)) else { return };
        at = extended.first + link.first;
    }
}

/// The rows in use of the sector at `offset`, if it is a partition table: signature, and a status that exists in each row.
fn read_rows(device: &dyn Device, offset: u64) -> Option<Vec<Row>> {
    let bytes = read_bytes(device, offset, 512)?;
    let rows = bytes.get(446..510)?.chunks_exact(16);
    if bytes[510..] != [0x55, 0xAA] || rows.clone().any(|row| !matches!(row[0], 0x00 | 0x80)) {
        return None;
    }
    let rows = rows.zip(0..).map(|(row, index)| Row {
        index,
        kind: row[4],
        first: u64::from(le32(row, 8)),
        count: u64::from(le32(row, 12)),
    });
    Some(rows.filter(|row| row.kind != 0 && row.first != 0 && row.count != 0).collect())
}

/// First sector and count have 33 and 32 bits: bytes fit into 64 with any sector.
fn partition(number: u32, first: u64, row: Row, sector: u64) -> Partition {
    Partition { number, start: first * sector, len: row.count * sector, type_name: mbr_type_name(row.kind) }
}
