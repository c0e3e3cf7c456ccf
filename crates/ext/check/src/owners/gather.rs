// SPDX-License-Identifier: MIT OR Apache-2.0
//! What inodes own of contested units. Most are clean, with a map that lies in their record; where it goes on outside, many maps are walked at
//! a time, in the order of the disk. What is not clean is inspected by itself.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_base::{InodeNo, width};
use fsmend_device::{BatchReader, ReadBackend};
use fsmend_engine::Findings;
use fsmend_engine::claims::Claims;
use fsmend_engine::crosscheck::owners::{Found, Gather};
use fsmend_ext_format::inode::RawInode;

use super::records::Records;
use crate::fast::inode::{InodeFastPath, InodeSummary, Verdict};
use crate::fast::map::{Walk, WalkItem, WalkMode, verdicts};
use crate::inode::units_of;
use crate::reading::read_blocks;
use crate::scan::take_wave;
use crate::{Fs, inode};

/// Maps that are walked at a time.
const WALKS_AT_ONCE: usize = 256;
/// Nodes of maps that wait to be read.
const NODES_MAX: usize = 4096;

/// A worker that gathers owners.
pub struct Gatherer<'s> {
    fs: &'s Fs<'s>,
    claims: &'s Claims,
    cancel: &'s AtomicBool,
    fast_path: InodeFastPath<'s>,
    summary: InodeSummary,
    records: Records,
    reader: BatchReader<'s>,
    walks: Vec<WalkItem>,
}

impl Gather for Gatherer<'_> {
    fn take(&mut self, inodes: &[InodeNo], found: &mut Found<'_>) {
        let Some(last) = inodes.last() else { return };
        self.records.expect(self.fs, *last);
        for inode in inodes {
            self.look_at(*inode, found);
            if self.walks.len() >= WALKS_AT_ONCE {
                self.walk(found);
            }
        }
        self.walk(found);
    }
}

impl<'s> Gatherer<'s> {
    pub(super) fn new(fs: &'s Fs<'_>, claims: &'s Claims, cancel: &'s AtomicBool) -> Self {
        Gatherer {
            fs,
            claims,
            cancel,
            fast_path: InodeFastPath::new(fs),
            summary: InodeSummary::default(),
            records: Records::default(),
            reader: BatchReader::with_buffers(
                fs.device,
                ReadBackend::Pread,
                1,
                BatchReader::BUFFER_BYTES_MIN,
            ),
            walks: Vec::new(),
        }
    }

    fn look_at(&mut self, inode: InodeNo, found: &mut Found<'_>) {
        let fs = self.fs;
        let Some(record) = self.records.record(fs, inode) else { return };
        let is_clean = self.fast_path.summarize(inode, record, &mut self.summary) == Verdict::Clean;
        if is_clean && !self.summary.needs_walk {
            // No inode is clean where units are more than a block.
            let units = self.summary.runs.iter().map(|run| (run.physical, u64::from(run.count)));
            found.note_runs(inode, units);
        } else if is_clean && fs.shared_maps.is_empty() {
            self.walks.push(WalkItem::new(inode, &self.summary, &RawInode::from_record(record)));
        } else {
            let inspection = inode::inspect(fs, inode, record, &mut Findings::new());
            let units = units_of(&inspection, &fs.geometry).into_iter();
            found.note_runs(inode, units);
        }
    }

    /// Walks the maps that wait. Of those that are no proof, what was found is dropped, and an inspection tells. So it is with all of them where they
    /// have more in common with others than there is room for.
    fn walk(&mut self, found: &mut Found<'_>) {
        let items = std::mem::take(&mut self.walks);
        if items.is_empty() {
            return;
        }
        let Gatherer { fs, claims, cancel, fast_path, reader, .. } = &mut *self;
        let (fs, claims, cancel) = (*fs, *claims, *cancel);
        // The units of each item, in the order in which they are met.
        let mut units: Vec<Vec<(u64, u64)>> = vec![Vec::new(); items.len()];
        let (mut held, room) = (0, found.room());
        let (mut walk, mut stack) =
            Walk::start(&items, WalkMode::Search, &fs.geometry, fast_path, &fs.metadata, claims);
        for item in 0..width::len_u32(items.len()) {
            walk.take_contested(item, |_, unit| held += add(&mut units[item as usize], unit));
        }
        while !stack.is_empty() && held <= room && !cancel.load(Relaxed) {
            let mut wave = take_wave(&mut stack, NODES_MAX, fs.geometry.block_size as usize / 4);
            wave.sort_unstable_by_key(|node| node.block);
            let blocks: Vec<u64> = wave.iter().map(|node| node.block).collect();
            read_blocks(reader, fs, &blocks, &mut |index, result| {
                let Some(node) = wave.get(index).copied() else { return };
                match result {
                    Ok(contents) => walk.visit(node, contents, &mut stack),
                    Err(_) => walk.unreadable(node),
                }
                walk.take_contested(node.item, |_, unit| held += add(&mut units[node.item as usize], unit));
            });
        }
        let is_cut_short = held > room;
        let walked = verdicts(&items, walk.finish(), fast_path);
        let suspects = items.iter().zip(walked).filter(|(_, walked)| is_cut_short || !walked.clean);
        let suspects: BTreeSet<InodeNo> = suspects.map(|(item, _)| item.inode).collect();
        for (item, units) in items.iter().zip(units) {
            if !suspects.contains(&item.inode) {
                found.note_runs(item.inode, units.into_iter());
            }
        }
        for inode in suspects {
            let Some(Ok(record)) = fs.read_inode(inode) else { continue };
            let inspection = inode::inspect(fs, inode, &record, &mut Findings::new());
            let units = units_of(&inspection, &fs.geometry).into_iter();
            found.note_runs(inode, units);
        }
    }
}

/// Adds a unit to the runs of one item; returns how many runs there are more than before.
fn add(runs: &mut Vec<(u64, u64)>, unit: u64) -> usize {
    match runs.last_mut() {
        Some((start, count)) if *start + *count == unit => {
            *count += 1;
            0
        }
        _ => {
            runs.push((unit, 1));
            1
        }
    }
}
