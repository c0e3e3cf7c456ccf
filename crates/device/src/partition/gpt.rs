// SPDX-License-Identifier: MIT OR Apache-2.0
//! The GUID partition table (UEFI specification, chapter 5).
//!
//! ```text
//! header, in sector 1 and in the last one            row
//!  0  "EFI PART"         40  first usable sector      0  type (GUID; zero: unused)
//! 12  header bytes       72  sector of the rows      16  the partition's own GUID
//! 16  CRC-32 of header   80  number of rows          32  first sector
//! 24  own sector         84  bytes in a row          40  last sector
//! 32  sector of the other 88 CRC-32 of the rows      56  name
//! ```

use fsmend_base::width;

use super::disklabel::Container;
use super::types::{gpt_type_name, is_labelled};
use super::{Partition, divide, le32, le64, mbr, read_bytes};
use crate::Device;

/// Rows are believed up to this many bytes; 128 rows of 128 bytes are usual.
const ROWS_BYTES_MAX: u64 = 1 << 20;

/// A header that is what it says.
struct Header {
    rows_offset: u64,
    row_count: usize,
    row_bytes: usize,
    rows_crc: u32,
}

/// The partitions, from whichever copy is sound; from a copy with damaged rows if neither is. None without a GPT.
/// Where the MBR does not announce a GPT, it may be left over from an earlier life of the disk: its backup alone does not
/// count then, and none of it does if the MBR has partitions of its own.
pub(super) fn read(device: &dyn Device, sector: u64) -> Option<Vec<Partition>> {
    let primary = read_header(device, sector, 1);
    let announced = mbr::is_protective(device);
    if !announced && (primary.is_none() || mbr::has_rows(device)) {
        return None;
    }
    let backup = || read_header(device, sector, (device.len() / sector).checked_sub(1)?);
    let copies: Vec<(Header, Vec<u8>)> = [primary, backup()]
        .into_iter()
        .flatten()
        .filter_map(|header| {
            let rows = read_bytes(device, header.rows_offset, header.row_count * header.row_bytes)?;
            Some((header, rows))
        })
        .collect();
    let sound = copies.iter().find(|(header, rows)| crc32(rows) == header.rows_crc);
    let (header, rows) = sound.or(copies.first())?;
    let (mut found, mut containers) = (Vec::new(), Vec::new());
    for (row, number) in rows.chunks_exact(header.row_bytes).zip(1..) {
        let Some((guid, partition)) = partition(number, row, sector) else { continue };
        let container = Container { start: partition.start, is_absolute: false };
        match is_labelled(guid) {
            true => containers.push((partition, container)),
            false => found.push(partition),
        }
    }
    divide(device, &mut found, containers, 1);
    Some(found)
}

fn read_header(device: &dyn Device, sector: u64, at: u64) -> Option<Header> {
    let mut bytes = read_bytes(device, at.checked_mul(sector)?, width::index(sector))?;
    let header_bytes = le32(&bytes, 12) as usize;
    if !bytes.starts_with(b"EFI PART")
        || !(92..=bytes.len()).contains(&header_bytes)
        || le64(&bytes, 24) != at
    {
        return None;
    }
    let stored_crc = le32(&bytes, 16);
    bytes[16..20].fill(0);
    if crc32(&bytes[..header_bytes]) != stored_crc {
        return None;
    }
    let (count, size) = (le32(&bytes, 80), le32(&bytes, 84));
    let rows_bytes = u64::from(count) * u64::from(size);
    if size < 128 || !size.is_multiple_of(8) || rows_bytes > ROWS_BYTES_MAX {
        return None;
    }
    Some(Header {
        rows_offset: le64(&bytes, 72).checked_mul(sector)?,
        row_count: count as usize,
        row_bytes: size as usize,
        rows_crc: le32(&bytes, 88),
    })
}

/// The row with its type, unless it is unused or states no possible place.
fn partition(number: u32, row: &[u8], sector: u64) -> Option<([u8; 16], Partition)> {
    let guid: [u8; 16] = row.get(..16)?.try_into().ok()?;
    let (first, last) = (le64(row, 32), le64(row, 40));
    let count = last.checked_sub(first)?.checked_add(1)?;
    if guid == [0; 16] || first == 0 {
        return None;
    }
    let (start, len) = (first.checked_mul(sector)?, count.checked_mul(sector)?);
    Some((guid, Partition { number, start, len, type_name: gpt_type_name(guid) }))
}

/// CRC-32 as in Ethernet and zip (polynomial 0xEDB88320, reflected).
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    })
}
