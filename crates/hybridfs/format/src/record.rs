// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records, and the nodes and maps that are made of them.

use crate::bytes::{get_u64, put_u64};
use crate::header::HEADER_LEN;
use crate::{Parsed, Wrong};

/// Bytes of a record.
pub const RECORD_LEN: usize = 32;
/// Records that a map has in its inode or summary at most.
pub const IN_INODE: usize = 13;
const ADDRESS_BITS: u32 = 48;
/// More levels than any map of this format can have.
const HEIGHT_MAX: u8 = 12;

/// A run in one piece: fragments, or for extents of files data blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Place {
    /// First fragment.
    pub address: u64,
    /// Length, at most 65535.
    pub len: u16,
}

/// A record of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// From where on it counts.
    pub key: u64,
    /// Where it leads to.
    pub place: Place,
    /// With which segment that was written.
    pub birth: u64,
    /// What the map says of it.
    pub aux: u64,
}

impl Record {
    /// Reads a record; bytes that are missing are zero.
    pub fn parse(bytes: &[u8]) -> Record {
        let place = get_u64(bytes, 8);
        Record {
            key: get_u64(bytes, 0),
            place: Place { address: place & ((1 << ADDRESS_BITS) - 1), len: (place >> ADDRESS_BITS) as u16 },
            birth: get_u64(bytes, 16),
            aux: get_u64(bytes, 24),
        }
    }

    /// Its bytes.
    pub fn store(&self) -> [u8; RECORD_LEN] {
        let mut bytes = [0; RECORD_LEN];
        let address = self.place.address & ((1 << ADDRESS_BITS) - 1);
        put_u64(&mut bytes, 0, self.key);
        put_u64(&mut bytes, 8, address | u64::from(self.place.len) << ADDRESS_BITS);
        put_u64(&mut bytes, 16, self.birth);
        put_u64(&mut bytes, 24, self.aux);
        bytes
    }
}

/// The uppermost records of a map.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Map {
    /// Levels of nodes below these records.
    pub height: u8,
    /// At most [`IN_INODE`].
    pub records: Vec<Record>,
}

impl Map {
    /// Reads the records of a map.
    pub fn parse(height: u8, count: u8, body: &[u8]) -> Parsed<Map> {
        if usize::from(count) > IN_INODE || usize::from(count) * RECORD_LEN > body.len() {
            return Err(Wrong::Value("records of a map"));
        }
        if height > HEIGHT_MAX || (height > 0 && count == 0) {
            return Err(Wrong::Value("height of a map"));
        }
        let records: Vec<Record> =
            body.chunks_exact(RECORD_LEN).take(usize::from(count)).map(Record::parse).collect();
        check_order(&records)?;
        Ok(Map { height, records })
    }

    /// The bytes of the records.
    pub fn store(&self) -> Vec<u8> {
        self.records.iter().flat_map(Record::store).collect()
    }
}

fn check_order(records: &[Record]) -> Parsed<()> {
    let is_sorted = records.is_sorted_by(|one, next| one.key < next.key);
    if is_sorted { Ok(()) } else { Err(Wrong::Value("order of keys")) }
}

/// Records that a node has at most.
pub fn node_capacity(block_size: u32) -> usize {
    (block_size as usize).saturating_sub(HEADER_LEN) / RECORD_LEN
}

/// The records of a node whose header has been read.
pub fn parse_node(object: &[u8], count: u32) -> Parsed<Vec<Record>> {
    let body = object.get(HEADER_LEN..).ok_or(Wrong::Short)?;
    let count = usize::try_from(count).ok().filter(|count| (1..=body.len() / RECORD_LEN).contains(count));
    let count = count.ok_or(Wrong::Value("records of a node"))?;
    let records: Vec<Record> = body.chunks_exact(RECORD_LEN).take(count).map(Record::parse).collect();
    check_order(&records)?;
    Ok(records)
}

/// Writes the records of a node behind its header.
pub fn store_node(object: &mut [u8], records: &[Record]) {
    let body = object.get_mut(HEADER_LEN..).unwrap_or_default();
    for (place, record) in body.chunks_exact_mut(RECORD_LEN).zip(records) {
        place.copy_from_slice(&record.store());
    }
}
