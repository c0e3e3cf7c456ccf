// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often each cluster of the file is used.
//!
//! The table leads to blocks of one cluster each, whose entries have 1 to 64 bits: below a byte the first one is in the lowest bits, above
//! they are big-endian.

use std::collections::BTreeMap;
use std::ops::Range;

use fsmend_base::width;

use super::OFFSET;
use super::head::{Head, read_numbers, read_padded};
use crate::{Device, ReadError, WritableDevice, WriteError};

/// Memory for blocks.
const BLOCK_BYTES_MAX: usize = 8 << 20;

/// The refcounts of an image, as far as they were asked for.
pub(super) struct Refcounts {
    order: u32,
    cluster_bytes: usize,
    per_block: u64,
    /// Where each block is; 0: nowhere.
    pub table: Vec<u64>,
    blocks: BTreeMap<usize, Block>,
}

struct Block {
    bytes: Vec<u8>,
    /// Bytes that the file does not have yet.
    changed: Range<usize>,
}

impl Refcounts {
    /// Reads the table.
    pub fn read(file: &dyn Device, head: &Head) -> Result<Refcounts, ReadError> {
        let count = u64::from(head.refcount_table_clusters) * head.entries();
        Ok(Refcounts {
            order: head.refcount_order,
            cluster_bytes: width::index(head.cluster_bytes()),
            per_block: head.clusters_per_block(),
            table: read_numbers(file, head.refcount_table, width::index(count))?,
            blocks: BTreeMap::new(),
        })
    }

    /// Where the blocks are, in clusters, with their numbers.
    pub fn places(&self) -> impl Iterator<Item = (usize, u64)> {
        let cluster_bytes = self.cluster_bytes as u64;
        let places = self.table.iter().enumerate();
        places.filter(|(_, entry)| **entry != 0).map(move |(at, entry)| (at, *entry / cluster_bytes))
    }

    /// The number of the block that speaks of `cluster`.
    pub fn block_of(&self, cluster: u64) -> usize {
        usize::try_from(cluster / self.per_block).unwrap_or(usize::MAX)
    }

    /// Whether there is a block `number`.
    pub fn has_block(&self, number: usize) -> bool {
        self.table.get(number).is_some_and(|entry| *entry != 0)
    }

    /// Takes a new block, of zeroes, into memory; the table in the file does not lead to it yet.
    pub fn add_block(&mut self, number: usize, cluster: u64) {
        self.table[number] = cluster * self.cluster_bytes as u64;
        self.blocks
            .insert(number, Block { bytes: vec![0; self.cluster_bytes], changed: 0..self.cluster_bytes });
    }

    /// The count of `cluster`.
    pub fn get(&mut self, file: &dyn Device, cluster: u64) -> Result<u64, ReadError> {
        let (order, index) = (self.order, width::index(cluster % self.per_block));
        Ok(self.block(file, self.block_of(cluster))?.map_or(0, |block| value(&block.bytes, order, index)))
    }

    /// Changes the count of `cluster`; a cluster that no block speaks of stays as it is.
    pub fn set(&mut self, file: &dyn Device, cluster: u64, count: u64) -> Result<(), ReadError> {
        let (order, index) = (self.order, width::index(cluster % self.per_block));
        if let Some(block) = self.block(file, self.block_of(cluster))? {
            let changed = set_value(&mut block.bytes, order, index, count);
            block.changed = match block.changed.is_empty() {
                true => changed,
                false => block.changed.start.min(changed.start)..block.changed.end.max(changed.end),
            };
        }
        Ok(())
    }

    /// The last cluster with a count.
    pub fn last_used(&mut self, file: &dyn Device) -> Result<Option<u64>, ReadError> {
        let numbers: Vec<usize> = self.places().map(|(number, _)| number).collect();
        for number in numbers.into_iter().rev() {
            let (order, per_block) = (self.order, width::index(self.per_block));
            if let Some(block) = self.block(file, number)?
                && let Some(index) = (0..per_block).rev().find(|index| value(&block.bytes, order, *index) > 0)
            {
                return Ok(Some(number as u64 * self.per_block + index as u64));
            }
        }
        Ok(None)
    }

    /// Writes what was changed in blocks that `wanted` says.
    pub fn write(
        &mut self,
        file: &dyn WritableDevice,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<(), WriteError> {
        for (number, block) in self.blocks.iter_mut().filter(|(number, _)| wanted(**number)) {
            if !block.changed.is_empty() {
                let at = (self.table[*number] & OFFSET) + block.changed.start as u64;
                file.write_at(at, &block.bytes[block.changed.clone()])?;
                block.changed = 0..0;
            }
        }
        if self.blocks.len() * self.cluster_bytes > BLOCK_BYTES_MAX {
            self.blocks.retain(|_, block| !block.changed.is_empty());
        }
        Ok(())
    }

    fn block(&mut self, file: &dyn Device, number: usize) -> Result<Option<&mut Block>, ReadError> {
        let Some(place) = self.table.get(number).map(|entry| entry & OFFSET).filter(|place| *place != 0)
        else {
            return Ok(None);
        };
        if self.blocks.len() * self.cluster_bytes > BLOCK_BYTES_MAX {
            self.blocks.retain(|at, block| *at == number || !block.changed.is_empty());
        }
        if !self.blocks.contains_key(&number) {
            let bytes = read_padded(file, place, self.cluster_bytes)?;
            self.blocks.insert(number, Block { bytes, changed: 0..0 });
        }
        Ok(self.blocks.get_mut(&number))
    }
}

fn value(bytes: &[u8], order: u32, index: usize) -> u64 {
    if order < 3 {
        let per_byte = 8 >> order;
        let bits = 1 << order;
        return u64::from(bytes[index / per_byte] >> (index % per_byte * bits)) & ((1 << bits) - 1);
    }
    let len = 1 << (order - 3);
    bytes[index * len..][..len].iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Stores a count, and says in which bytes.
fn set_value(bytes: &mut [u8], order: u32, index: usize, count: u64) -> Range<usize> {
    if order < 3 {
        let per_byte = 8 >> order;
        let bits = 1usize << order;
        let (at, shift) = (index / per_byte, index % per_byte * bits);
        let mask = width::low_u8(u64::from((1u16 << bits) - 1));
        bytes[at] = bytes[at] & !(mask << shift) | (width::low_u8(count) & mask) << shift;
        return at..at + 1;
    }
    let len = 1 << (order - 3);
    let range = index * len..(index + 1) * len;
    bytes[range.clone()].copy_from_slice(&count.to_be_bytes()[8 - len..]);
    range
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_every_width() {
        for order in 0..=6 {
            let mut bytes = vec![0; 64];
            let most = if order == 6 { u64::MAX } else { (1 << (1u64 << order)) - 1 };
            for index in [0, 1, 5, 7] {
                let range = set_value(&mut bytes, order, index, most);
                assert_eq!(range.len(), (1usize << order).div_ceil(8));
                assert_eq!(value(&bytes, order, index), most);
            }
            assert_eq!([2, 3, 4, 6].map(|index| value(&bytes, order, index)), [0; 4], "order {order}");
            set_value(&mut bytes, order, 1, 0);
            assert_eq!([0, 1, 5].map(|index| value(&bytes, order, index)), [most, 0, most]);
        }
    }
}
