// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header of an image that is to be written. A writer has to understand more of it than a reader.
//!
//! ```text
//! 48  offset of the refcount table    60  snapshots            88  features to clear when writing (version 3)
//! 56  its length in clusters          72  features (version 3) 96  refcount order (version 3)
//! ```

use fsmend_base::width;

use crate::{Device, ReadError};

/// Where offset and length of the refcount table stand; both lie in one sector.
pub(super) const REFCOUNT_TABLE_AT: u64 = 48;
/// Where the features stand that a writer clears where it does not know them.
pub(super) const AUTOCLEAR_AT: u64 = 88;

/// Refcounts may be too high or too low: a virtual machine was killed.
const DIRTY: u64 = 1;
/// Structures are known to be damaged.
const CORRUPT: u64 = 1 << 1;
/// Data lies in a file of its own.
const DATA_FILE: u64 = 1 << 2;
/// Clusters may be compressed by another method than deflate: only those who read them need to know.
const COMPRESSION: u64 = 1 << 3;
/// Entries of level 2 are of another form.
const EXTENDED_ENTRIES: u64 = 1 << 4;

/// The largest refcount table that QEMU takes.
pub(super) const REFCOUNT_TABLE_BYTES_MAX: u64 = 8 << 20;

/// What of the header a writer needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// Bytes in a cluster, as a power of two.
    pub cluster_bits: u32,
    /// Entries of level 1.
    pub l1_entries: u64,
    /// Where they stand.
    pub l1_offset: u64,
    /// Where the refcount table stands.
    pub refcount_table: u64,
    /// Its length in clusters.
    pub refcount_table_clusters: u32,
    /// Bits of a refcount, as a power of two.
    pub refcount_order: u32,
    /// Whether clusters may be marked as zeroes.
    pub has_zero_clusters: bool,
    /// Whether refcounts are to be believed.
    pub is_dirty: bool,
    /// Whether there are features that have to be cleared before the image is written.
    pub has_autoclear: bool,
}

impl Head {
    /// Reads the header; why the image cannot be written, if it cannot.
    pub fn read(file: &dyn Device) -> Result<Head, String> {
        let mut bytes = [0; 104];
        let there = file.len().min(104) as usize;
        file.read_at(0, &mut bytes[..there]).map_err(|error| error.to_string())?;
        let be32 = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let be64 = |at: usize| u64::from(be32(at)) << 32 | u64::from(be32(at + 4));
        let is_newer = be32(4) >= 3;
        let (features, autoclear, refcount_order) =
            if is_newer { (be64(72), be64(width::index(AUTOCLEAR_AT)), be32(96)) } else { (0, 0, 4) };
        refuse_features(features)?;
        let head = Head {
            cluster_bits: be32(20),
            l1_entries: be32(36).into(),
            l1_offset: be64(40),
            refcount_table: be64(width::index(REFCOUNT_TABLE_AT)),
            refcount_table_clusters: be32(56),
            refcount_order,
            has_zero_clusters: is_newer,
            is_dirty: features & DIRTY != 0,
            has_autoclear: autoclear != 0,
        };
        head.check(file.len())?;
        Ok(head)
    }

    fn check(&self, file_len: u64) -> Result<(), String> {
        if !(9..=21).contains(&self.cluster_bits) || self.refcount_order > 6 {
            return Err("its header is invalid".into());
        }
        let table_bytes = u64::from(self.refcount_table_clusters) * self.cluster_bytes();
        for (what, offset, len) in [
            ("level-1 table", self.l1_offset, self.l1_entries * 8),
            ("refcount table", self.refcount_table, table_bytes),
        ] {
            let is_within = offset.checked_add(len).is_some_and(|end| end <= file_len);
            if offset == 0 || offset % self.cluster_bytes() != 0 || !is_within {
                return Err(format!("its {what} is in no place where one can be"));
            }
        }
        if table_bytes == 0 || table_bytes > REFCOUNT_TABLE_BYTES_MAX {
            return Err(format!("its refcount table has {table_bytes} bytes"));
        }
        Ok(())
    }

    /// Bytes in a cluster.
    pub fn cluster_bytes(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// Entries in a table of level 2.
    pub fn entries(&self) -> u64 {
        self.cluster_bytes() / 8
    }

    /// Clusters that one refcount block speaks of.
    pub fn clusters_per_block(&self) -> u64 {
        (self.cluster_bytes() * 8) >> self.refcount_order
    }

    /// The clusters that a compressed one touches, by its entry of level 2.
    pub fn compressed_clusters(&self, entry: u64) -> std::ops::RangeInclusive<u64> {
        let shift = 62 - (self.cluster_bits - 8);
        let offset = entry & ((1 << shift) - 1);
        let sectors = ((entry & !(0b11 << 62)) >> shift) + 1;
        let last = (offset & !511) + sectors * 512 - 1;
        offset >> self.cluster_bits..=last >> self.cluster_bits
    }
}

fn refuse_features(features: u64) -> Result<(), String> {
    let why = match features & !(DIRTY | COMPRESSION) {
        0 => return Ok(()),
        known if known & CORRUPT != 0 => "it is marked as corrupt".to_owned(),
        known if known & DATA_FILE != 0 => "its data lies in a file of its own".to_owned(),
        known if known & EXTENDED_ENTRIES != 0 => "it has extended entries of level 2".to_owned(),
        other => format!("it has unknown features ({other:#x})"),
    };
    Err(why)
}

/// Big-endian numbers from the file. What lies beyond its end is zero: the last cluster of an image may be cut off.
pub(super) fn read_numbers(file: &dyn Device, offset: u64, count: usize) -> Result<Vec<u64>, ReadError> {
    let bytes = read_padded(file, offset, count.saturating_mul(8))?;
    Ok(bytes.as_chunks::<8>().0.iter().map(|number| u64::from_be_bytes(*number)).collect())
}

/// Bytes from the file, zeroes beyond its end.
pub(super) fn read_padded(file: &dyn Device, offset: u64, len: usize) -> Result<Vec<u8>, ReadError> {
    let mut bytes = vec![0; len];
    let there = width::index(file.len().saturating_sub(offset).min(len as u64));
    if there == 0 && len > 0 {
        return Err(ReadError::beyond_end(offset, len as u64));
    }
    file.read_at(offset, &mut bytes[..there])?;
    Ok(bytes)
}

/// Numbers as they stand in the file.
pub(super) fn number_bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}
