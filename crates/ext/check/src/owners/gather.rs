//! What inodes own of contested units. Most are clean, with a map that lies in their record; where it goes on outside, many maps are walked at
//! a time, in the order of the disk. What is not clean is inspected by itself.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::InodeNo;
use fsmend_device::{BatchReader, ReadBackend};
use fsmend_engine::Findings;
use fsmend_ext_format::inode::RawInode;

use super::records::Records;
use super::{Owner, Pair, Search, Window};
use crate::fast::inode::{InodeFastPath, InodeSummary, Verdict};
use crate::fast::map::{Walk, WalkItem, WalkMode, verdicts};
use crate::inode;
use crate::inode::units_of;
use crate::reading::read_blocks;
use crate::scan::take_wave;

/// Maps that are walked at a time.
const WALKS_AT_ONCE: usize = 256;
/// Nodes of maps that wait to be read.
const NODES_MAX: usize = 4096;

/// A worker that gathers owners.
pub(super) struct Gatherer<'s> {
    search: &'s Search<'s>,
    window: &'s Window,
    fast_path: InodeFastPath<'s>,
    summary: InodeSummary,
    records: Records,
    reader: BatchReader<'s>,
    walks: Vec<WalkItem>,
    /// Contested units within the window, and their owners.
    pub found: Vec<Pair>,
}

impl<'s> Gatherer<'s> {
    pub fn new(search: &'s Search<'s>, window: &'s Window) -> Self {
        Gatherer {
            search,
            window,
            fast_path: InodeFastPath::new(search.fs),
            summary: InodeSummary::default(),
            records: Records::default(),
            reader: BatchReader::with_buffers(
                search.fs.device,
                ReadBackend::Pread,
                1,
                BatchReader::BUFFER_BYTES_MIN,
            ),
            walks: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Looks at these inodes of one group, which are in ascending order.
    pub fn take(&mut self, inodes: &[InodeNo]) {
        let Some(last) = inodes.last() else { return };
        self.records.expect(self.search.fs, *last);
        for inode in inodes {
            self.look_at(*inode);
            if self.walks.len() >= WALKS_AT_ONCE {
                self.walk();
            }
        }
        self.walk();
    }

    fn look_at(&mut self, inode: InodeNo) {
        let fs = self.search.fs;
        let Some(record) = self.records.record(fs, inode) else { return };
        let is_clean = self.fast_path.summarize(inode, record, &mut self.summary) == Verdict::Clean;
        if is_clean && !self.summary.needs_walk {
            // Nobody is clean where units are more than a block.
            let units = self.summary.runs.iter().map(|run| (run.physical, u64::from(run.count)));
            note_units(self.search, self.window, inode, units, &mut self.found);
        } else if is_clean && fs.crowd.is_empty() {
            self.walks.push(WalkItem::new(inode, &self.summary, &RawInode::from_record(record)));
        } else {
            let inspection = inode::inspect(fs, inode, record, &mut Findings::new());
            let units = units_of(&inspection, &fs.geometry).into_iter();
            note_units(self.search, self.window, inode, units, &mut self.found);
        }
    }

    /// Walks the maps that wait. Of those that are no proof, what was found is dropped, and an inspection tells.
    fn walk(&mut self) {
        let items = std::mem::take(&mut self.walks);
        if items.is_empty() {
            return;
        }
        let (Search { fs, claims, cancel, .. }, window) = (*self.search, self.window);
        let Gatherer { fast_path, reader, found, .. } = &mut *self;
        let (mut walk, mut stack) =
            Walk::start(&items, WalkMode::Search, &fs.geometry, fast_path, &fs.metadata, claims);
        for item in 0..items.len() as u32 {
            walk.take_contested(item, |inode, unit| window.note(unit, inode, found));
        }
        while !stack.is_empty() && !cancel.load(Relaxed) {
            let mut wave = take_wave(&mut stack, NODES_MAX, fs.geometry.block_size as usize / 4);
            wave.sort_unstable_by_key(|node| node.block);
            let blocks: Vec<u64> = wave.iter().map(|node| node.block).collect();
            read_blocks(reader, fs, &blocks, &mut |index, result| {
                let Some(node) = wave.get(index).copied() else { return };
                match result {
                    Ok(contents) => walk.visit(node, contents, &mut stack),
                    Err(_) => walk.unreadable(node),
                }
                walk.take_contested(node.item, |inode, unit| window.note(unit, inode, found));
            });
        }
        let walked = verdicts(&items, walk.finish(), fast_path);
        let suspects = items.iter().zip(walked).filter(|(_, walked)| !walked.innocent);
        let suspects: BTreeSet<InodeNo> = suspects.map(|(item, _)| item.inode).collect();
        if suspects.is_empty() {
            return;
        }
        let is_suspect = |owner: &Owner| matches!(owner, Owner::Inode(inode) if suspects.contains(inode));
        found.retain(|(_, owner)| !is_suspect(owner));
        for inode in suspects {
            let Some(Ok(record)) = fs.read_inode(inode) else { continue };
            let inspection = inode::inspect(fs, inode, &record, &mut Findings::new());
            let units = units_of(&inspection, &fs.geometry).into_iter();
            note_units(self.search, window, inode, units, &mut self.found);
        }
    }
}

/// Notes which of these runs of units, which `inode` owns, are contested.
fn note_units(
    search: &Search<'_>,
    window: &Window,
    inode: InodeNo,
    units: impl Iterator<Item = (u64, u64)>,
    found: &mut Vec<Pair>,
) {
    let contested = search.claims.contested();
    for (start, count) in units.filter(|(start, count)| contested.any(*start, *count)) {
        let first = start.max(window.start);
        for unit in (first..start.saturating_add(count)).filter(|unit| contested.get(*unit)) {
            if unit >= window.end.load(Relaxed) {
                break;
            }
            window.note(unit, inode, found);
        }
    }
}
