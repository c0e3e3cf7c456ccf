// SPDX-License-Identifier: MIT OR Apache-2.0
//! New clusters behind all others, for parts of the disk that have no place of their own.

use std::collections::{BTreeMap, BTreeSet};

use fsmend_base::width;

use super::head::{REFCOUNT_TABLE_AT, REFCOUNT_TABLE_BYTES_MAX};
use super::{COMPRESSED, COPIED, OFFSET, Tables, number_bytes, unread};
use crate::{Device, WritableDevice, WriteError, WriteErrorKind};

/// What is added to the file. All of it is one run of clusters: data, then tables of level 2, then refcount blocks, then a refcount table.
struct Growth {
    first: u64,
    data: u64,
    /// Which tables of level 2 are new, and where.
    tables: BTreeMap<usize, u64>,
    /// Which refcount blocks are new, and where.
    blocks: BTreeMap<usize, u64>,
    /// Where a larger refcount table goes, and its clusters.
    table: Option<(u64, u64)>,
    end: u64,
}

impl Tables {
    /// Gives `wanted` (clusters of the disk, ascending) places of their own. `disk` shows what is in them now.
    pub(super) fn grow(
        &mut self,
        file: &dyn WritableDevice,
        disk: &dyn Device,
        wanted: &[u64],
    ) -> Result<(), WriteError> {
        let growth = self.plan_growth(wanted)?;
        self.write_data(file, disk, wanted, growth.first)?;
        let mut given_up = self.enter_data(file, wanted, &growth)?;
        for (number, place) in &growth.tables {
            if let Some(table) = self.l2.get(number) {
                file.write_at(place << self.head.cluster_bits, &number_bytes(table))?;
            }
        }
        if growth.table.is_some() {
            let old = self.head.refcount_table >> self.head.cluster_bits;
            given_up.extend(old..old + u64::from(self.head.refcount_table_clusters));
        }
        self.count_new(file, &growth)?;
        file.sync()?;
        self.lead_to_new(file, wanted, &growth)?;
        file.sync()?;
        self.next = growth.end;
        self.give_up(file, given_up)
    }

    /// Places for what is wanted, for the tables that lead there and for the refcounts of all of these, which need places themselves.
    fn plan_growth(&self, wanted: &[u64]) -> Result<Growth, WriteError> {
        let numbers: BTreeSet<usize> = wanted.iter().map(|cluster| self.split(*cluster).0).collect();
        let new_tables: Vec<usize> =
            numbers.into_iter().filter(|number| !self.is_own_table(*number)).collect();
        let (first, data) = (self.next, wanted.len() as u64);
        let tables_at = first + data;
        let blocks_at = tables_at + new_tables.len() as u64;
        let mut end = blocks_at;
        let (blocks, table) = loop {
            let missing: Vec<usize> = (self.refcounts.block_of(first)..=self.refcounts.block_of(end - 1))
                .filter(|number| !self.refcounts.has_block(*number))
                .collect();
            let table_at = blocks_at + missing.len() as u64;
            let entries = self.refcounts.block_of(end - 1) as u64 + 1;
            let table = match entries > self.refcounts.table.len() as u64 {
                // Half as much again, so that it is not needed soon.
                true => Some((table_at, (entries + entries / 2).div_ceil(self.head.entries()))),
                false => None,
            };
            let new_end = table_at + table.map_or(0, |(_, clusters)| clusters);
            // It only gets more, and one block speaks of so many clusters that it soon is enough.
            if new_end <= end {
                break (missing, table);
            }
            end = new_end;
        };
        let too_large =
            table.is_some_and(|(_, count)| count * self.head.cluster_bytes() > REFCOUNT_TABLE_BYTES_MAX);
        if too_large || end > OFFSET >> self.head.cluster_bits {
            return Err(WriteError { offset: 0, len: 0, kind: WriteErrorKind::NoSpace });
        }
        let placed = |numbers: Vec<usize>, at: u64| numbers.into_iter().zip(at..).collect();
        Ok(Growth {
            first,
            data,
            tables: placed(new_tables, tables_at),
            blocks: placed(blocks, blocks_at),
            table,
            end,
        })
    }

    /// Copies what the disk shows.
    fn write_data(
        &self,
        file: &dyn WritableDevice,
        disk: &dyn Device,
        wanted: &[u64],
        first: u64,
    ) -> Result<(), WriteError> {
        let bits = self.head.cluster_bits;
        let mut contents = vec![0; width::index(self.head.cluster_bytes())];
        for (cluster, place) in wanted.iter().zip(first..) {
            let offset = cluster << bits;
            // The last cluster may reach beyond the end of the disk.
            let there = width::index(disk.len().saturating_sub(offset).min(self.head.cluster_bytes()));
            contents[there..].fill(0);
            disk.read_at(offset, &mut contents[..there]).map_err(unread)?;
            file.write_at(place << bits, &contents)?;
        }
        Ok(())
    }

    /// Enters the new places into the tables in memory; new tables begin as a copy of what they replace. Returns the clusters that nothing of the disk leads to any
    /// more.
    fn enter_data(
        &mut self,
        file: &dyn Device,
        wanted: &[u64],
        growth: &Growth,
    ) -> Result<Vec<u64>, WriteError> {
        let mut given_up = Vec::new();
        for (number, place) in &growth.tables {
            if self.l2_table(file, *number)?.is_none() {
                self.l2.insert(*number, vec![0; width::index(self.head.entries())]);
            }
            let Some(entry) = self.l1.get_mut(*number) else {
                return Err(WriteError::io(0, 0, "its level-1 table is too small"));
            };
            if *entry & OFFSET != 0 {
                given_up.push((*entry & OFFSET) >> self.head.cluster_bits);
            }
            *entry = place << self.head.cluster_bits | COPIED;
        }
        for (cluster, place) in wanted.iter().zip(growth.first..) {
            let (number, at) = self.split(*cluster);
            let (head, table) = (self.head, self.l2_table(file, number)?);
            let Some(entry) = table.and_then(|table| table.get_mut(at)) else {
                return Err(WriteError::io(0, 0, "its level-2 table is too small"));
            };
            if *entry & COMPRESSED != 0 {
                given_up.extend(head.compressed_clusters(*entry));
            } else if *entry & OFFSET != 0 {
                given_up.push((*entry & OFFSET) >> head.cluster_bits);
            }
            *entry = place << head.cluster_bits | COPIED;
        }
        Ok(given_up)
    }

    /// Counts the new clusters. Blocks and a table that are new themselves are complete before anything leads to them.
    fn count_new(&mut self, file: &dyn WritableDevice, growth: &Growth) -> Result<(), WriteError> {
        if let Some((_, clusters)) = growth.table {
            self.refcounts.table.resize(width::index(clusters * self.head.entries()), 0);
        }
        for (number, place) in &growth.blocks {
            self.refcounts.add_block(*number, *place);
        }
        for cluster in growth.first..growth.end {
            self.refcounts.set(file, cluster, 1).map_err(unread)?;
        }
        self.refcounts.write(file, |number| growth.blocks.contains_key(&number))?;
        if let Some((place, _)) = growth.table {
            file.write_at(place << self.head.cluster_bits, &number_bytes(&self.refcounts.table))?;
        }
        file.sync()?;
        self.refcounts.write(file, |_| true)?;
        let Some((place, clusters)) = growth.table else {
            for number in growth.blocks.keys() {
                let at = self.head.refcount_table + *number as u64 * 8;
                file.write_at(at, &number_bytes(&self.refcounts.table[*number..=*number]))?;
            }
            return Ok(());
        };
        // It has 8 MiB at most.
        let clusters = width::low_u32(clusters);
        (self.head.refcount_table, self.head.refcount_table_clusters) =
            (place << self.head.cluster_bits, clusters);
        let mut header = [0; 12];
        header[..8].copy_from_slice(&self.head.refcount_table.to_be_bytes());
        header[8..].copy_from_slice(&clusters.to_be_bytes());
        file.write_at(REFCOUNT_TABLE_AT, &header)
    }

    /// Writes the entries that lead to what is new: those of new tables in level 1, others in level 2.
    fn lead_to_new(
        &mut self,
        file: &dyn WritableDevice,
        wanted: &[u64],
        growth: &Growth,
    ) -> Result<(), WriteError> {
        for number in growth.tables.keys() {
            let at = self.head.l1_offset + *number as u64 * 8;
            file.write_at(at, &number_bytes(&self.l1[*number..=*number]))?;
        }
        for (cluster, place) in wanted.iter().zip(growth.first..growth.first + growth.data) {
            let (number, at) = self.split(*cluster);
            if !growth.tables.contains_key(&number) {
                let at = (self.l1[number] & OFFSET) + at as u64 * 8;
                file.write_at(at, &number_bytes(&[place << self.head.cluster_bits | COPIED]))?;
            }
        }
        Ok(())
    }

    /// Counts what was replaced once less. Where refcounts are not to be believed, that is left to those who put them right.
    fn give_up(&mut self, file: &dyn WritableDevice, mut given_up: Vec<u64>) -> Result<(), WriteError> {
        if self.head.is_dirty {
            return Ok(());
        }
        given_up.sort_unstable();
        for cluster in given_up {
            let count = self.refcounts.get(file, cluster).map_err(unread)?;
            self.refcounts.set(file, cluster, count.saturating_sub(1)).map_err(unread)?;
        }
        self.refcounts.write(file, |_| true)
    }
}
