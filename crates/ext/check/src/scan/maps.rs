// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stage of block maps that continue outside the inode.

use std::collections::VecDeque;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Relaxed},
};
use std::sync::{Arc, Mutex, PoisonError};

use fsmend_engine::inodes::{InodeFact, Kind};
use fsmend_ext_format::inode::RawInode;

use super::directories::announce_directories;
use super::outcome::is_short;
use super::pace::Size;
use super::{Batch, MAPS, Scan, Worker, job_of};
use crate::fast::jobs::DirectoryJob;
use crate::fast::map::{Node, Tally, Walk, WalkItem, WalkMode, Walked, join, verdicts};
use crate::inode;
use crate::quota::{self};
use crate::reading::{Arrival, Window, announce_all, read_stretches};

/// Most nodes of maps that are read in one go; more wait on a stack.
const NODES_IN_FLIGHT: usize = 4096;
/// Nodes that are handed on to any idle worker, where twice as many wait.
const NODES_PER_PART: usize = 256;

/// Parts announced to the kernel before a worker begins with them: enough for any queue. With twice as many, a disk with heads works
/// seconds for all of them, and what has waited for so long it reads first, wherever that is.
const PARTS_AHEAD: usize = 4;
/// A worker that had to wait for the device so often reads from a cold one.
const COLD_MISSES: u64 = 8;

/// A walk of which more than one worker may do a part: a large file must not be one worker's alone.
pub(super) struct SharedWalk {
    items: Vec<WalkItem>,
    mode: WalkMode,
    tallies: Mutex<Vec<Tally>>,
    /// Parts that are not done yet. The worker that does the last one judges.
    open: AtomicUsize,
}

/// The blocks of parts that wait, of all walks, where they come from a device: it must not idle between one part and the next.
#[derive(Default)]
pub(super) struct Ahead {
    /// Of parts for which no read-ahead was requested, in the order in which they will be taken.
    waiting: VecDeque<Vec<u64>>,
    /// Parts for which read-ahead was requested, and that were not begun.
    announced: usize,
}

/// A part of a walk that waits for a worker.
pub(super) struct Part {
    walk: Arc<SharedWalk>,
    /// Where to go on; none to begin at the roots.
    nodes: Option<Vec<Node>>,
    /// Its share of the work, in the units of the stage.
    weight: u64,
    /// Whether its blocks are announced to the kernel before a worker begins with it.
    is_announced: bool,
}

impl Part {
    /// Memory that it holds while it waits.
    pub(super) fn bytes_held(&self) -> u64 {
        self.nodes.as_deref().map_or(0, |nodes| size_of_val(nodes) + size_of::<u64>() * nodes.len()) as u64
    }
}

impl<'a> Scan<'a> {
    /// Walks the maps of these inodes. Returns the weight of the work that was not handed on.
    pub(super) fn maps(&self, worker: &mut Worker<'a>, items: Vec<WalkItem>, mode: WalkMode) -> u64 {
        let weight = weight_of(&items);
        let shared = SharedWalk { items, mode, tallies: Mutex::default(), open: AtomicUsize::new(1) };
        let part = Part { walk: Arc::new(shared), nodes: None, weight, is_announced: false };
        self.part_of_maps(worker, part)
    }

    /// Claims what these inodes lead to themselves, and leaves the blocks of their maps to any idle worker, in the order of the disk. Returns the weight
    /// of what was not handed on.
    ///
    /// Requests read-ahead of these blocks.
    pub(super) fn maps_in_a_sweep(&self, worker: &mut Worker<'a>, items: Vec<WalkItem>) -> u64 {
        let (fs, mode) = (self.fs, WalkMode::Claim);
        let mut weight = weight_of(&items);
        let open = AtomicUsize::new(1);
        let shared = Arc::new(SharedWalk { items, mode, tallies: Mutex::default(), open });
        let fast_path = &self.inode_fast_path;
        let (walk, mut stack) =
            Walk::start(&shared.items, mode, &fs.geometry, fast_path, &fs.metadata, self.claims);
        stack.sort_unstable_by_key(|node| node.block);
        self.hand_on(&shared, &mut stack, &mut weight, (true, 0));
        self.walk_part(worker, &shared, (walk, stack), &mut weight);
        weight
    }

    /// Walks a part of the maps. Returns the weight of what was not handed on.
    pub(super) fn part_of_maps(&self, worker: &mut Worker<'a>, part: Part) -> u64 {
        let Part { walk: shared, nodes, mut weight, is_announced } = part;
        let (fs, mode) = (self.fs, shared.mode);
        let fast_path = &self.inode_fast_path;
        if is_announced {
            self.announce_parts(|ahead| ahead.announced = ahead.announced.saturating_sub(1));
        }
        let begun = match nodes {
            None => Walk::start(&shared.items, mode, &fs.geometry, fast_path, &fs.metadata, self.claims),
            Some(nodes) => {
                let walk =
                    Walk::part(&shared.items, mode, &fs.geometry, fast_path, &fs.metadata, self.claims);
                (walk, nodes)
            }
        };
        self.walk_part(worker, &shared, begun, &mut weight);
        weight
    }

    /// Walks on from a stack; the worker that does the last part of the walk judges.
    fn walk_part(
        &self,
        worker: &mut Worker<'a>,
        shared: &Arc<SharedWalk>,
        (walk, stack): (Walk<'_>, Vec<Node>),
        weight: &mut u64,
    ) {
        let keep = self.batch(NODES_PER_PART);
        let hand_on = |stack: &mut Vec<Node>, cold: bool| self.hand_on(shared, stack, weight, (cold, keep));
        let before = (worker.outcome.costs[MAPS].items, worker.cut);
        let tallies = self.walk(worker, walk, stack, shared.mode, hand_on);
        let (visited, cut) = (worker.outcome.costs[MAPS].items - before.0, worker.cut - before.1);
        if cut > 0 {
            *weight = *weight * visited / (visited + cut);
        }
        {
            let mut all = shared.tallies.lock().unwrap_or_else(PoisonError::into_inner);
            join(&mut all, tallies);
        }
        if shared.open.fetch_sub(1, AcqRel) == 1 {
            let tallies = std::mem::take(&mut *shared.tallies.lock().unwrap_or_else(PoisonError::into_inner));
            self.judge_maps(worker, &shared.items, verdicts(&shared.items, tallies, &self.inode_fast_path));
        }
    }

    /// Leaves what is to be walked to any idle worker, but for the last `keep` blocks and what does not make a part, and tells the kernel about it if it comes
    /// from a `cold` device.
    fn hand_on(
        &self,
        shared: &Arc<SharedWalk>,
        stack: &mut Vec<Node>,
        weight: &mut u64,
        (cold, keep): (bool, usize),
    ) {
        let (most, cold) = (self.batch(NODES_PER_PART), cold && self.may_announce());
        while stack.len() > keep && self.queues().bytes() < self.run_context.plan.queue_bytes / 2 {
            let count = most.min(stack.len());
            if keep > 0 && stack.len() < keep + count {
                return;
            }
            let share = *weight / stack.len() as u64 * count as u64;
            *weight -= share;
            let nodes: Vec<Node> = stack.drain(..count).collect();
            if cold {
                let blocks = nodes.iter().map(|node| node.block).collect();
                self.announce_parts(|ahead| ahead.waiting.push_back(blocks));
            }
            shared.open.fetch_add(1, Relaxed);
            let part =
                Part { walk: Arc::clone(shared), nodes: Some(nodes), weight: share, is_announced: cold };
            self.queues().push_large(MAPS, share, part.bytes_held(), Batch::PartOfMaps(part));
        }
    }

    /// After a `change`, tells the kernel about the parts that will be taken next.
    fn announce_parts(&self, change: impl FnOnce(&mut Ahead)) {
        let next: Vec<u64> = {
            let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
            change(&mut ahead);
            let count = PARTS_AHEAD.saturating_sub(ahead.announced).min(ahead.waiting.len());
            ahead.announced += count;
            ahead.waiting.drain(..count).flatten().collect()
        };
        announce_all(self.fs, next);
    }

    /// Takes in what the walk of these inodes came to.
    fn judge_maps(&self, worker: &mut Worker<'a>, items: &[WalkItem], verdicts: Vec<Walked>) {
        let suspects: Vec<WalkItem> = items
            .iter()
            .zip(&verdicts)
            .filter(|(_, walked)| !walked.clean)
            .map(|(item, _)| item.clone())
            .collect();
        let mut directories = Vec::new();
        for (item, Walked { clean, scattered, runs }) in items.iter().zip(verdicts) {
            let counts = clean && scattered && is_short(self.fs, item.charged_blocks);
            worker.outcome.non_contiguous += u64::from(counts);
            if clean && item.xattr_block != 0 {
                worker.outcome.xattr_references.push((item.xattr_block, item.inode));
            }
            if clean && self.fs.counts_quota() && quota::counts(self.fs, item.inode, item.flags) {
                let bytes = item.charged_blocks * u64::from(self.fs.geometry.block_size);
                worker.outcome.quota.charge(item.owner, bytes);
            }
            if clean && item.kind == Kind::Directory {
                directories.push(DirectoryJob::new(item.inode, item.generation, item.flags, &runs));
            }
        }
        if !suspects.is_empty() && !self.is_crowded() {
            let (fs, mode) = (self.fs, WalkMode::Withdraw);
            let fast_path = &self.inode_fast_path;
            let (walk, stack) =
                Walk::start(&suspects, mode, &fs.geometry, fast_path, &fs.metadata, self.claims);
            self.walk(worker, walk, stack, mode, |_, _| ());
            for item in &suspects {
                if self.is_crowded() {
                    break;
                }
                self.inspect_published(worker, item, &mut directories);
            }
        }
        self.count_found(&directories);
        if worker.waits_for_device() {
            announce_directories(self.fs, &directories);
        }
        self.push_directories(&mut directories);
    }

    /// Inspects an inode whose facts were published before its map was walked.
    pub(super) fn inspect_published(
        &self,
        worker: &mut Worker<'a>,
        item: &WalkItem,
        directories: &mut Vec<DirectoryJob>,
    ) {
        let outcome = &mut worker.outcome;
        let Some(Ok(record)) = self.fs.read_inode(item.inode) else { return };
        let mut found = outcome.findings.fresh();
        let inspection = inode::inspect(self.fs, item.inode, &record, &mut found);
        self.count_inspected(&inspection);
        let fact = outcome.take_inspection(item.inode, &inspection, self.claims, self.fs);
        let links = RawInode::from_record(&inspection.record).i_links_count.get();
        self.inodes.revise(item.inode, fact, links);
        if fact != InodeFact::new(item.kind, 0) {
            outcome.revised.push(item.inode);
        }
        if fact.kind() == Kind::Directory {
            let plain = found.is_empty() && item.kind == Kind::Directory;
            match job_of(item.inode, &inspection).filter(|_| plain) {
                Some(job) => directories.push(job),
                None => outcome.suspect_directories.push(item.inode),
            }
        }
        outcome.findings.merge(found);
    }

    /// Walks on from the blocks on `stack`; before each wave of reads, `hand_on` may take some of them away.
    fn walk(
        &self,
        worker: &mut Worker<'a>,
        mut walk: Walk<'_>,
        mut stack: Vec<Node>,
        mode: WalkMode,
        mut hand_on: impl FnMut(&mut Vec<Node>, bool),
    ) -> Vec<Tally> {
        let fs = self.fs;
        let before = worker.outcome.costs[MAPS].items;
        while !stack.is_empty() {
            hand_on(&mut stack, worker.reader.missed() >= COLD_MISSES);
            let mut wave =
                take_wave(&mut stack, self.run_context.plan.nodes, fs.geometry.block_size as usize / 4);
            let at_once = self.at_once();
            if wave.len() > at_once {
                if at_once == 0 && worker.outcome.costs[MAPS].items > before {
                    worker.cut += (stack.len() + wave.len()) as u64;
                    break;
                }
                stack.extend(wave.drain(at_once.max(1)..));
            }
            wave.sort_unstable_by_key(|node: &Node| node.block);
            if !self.may_visit(mode, wave.len() as u64) {
                break;
            }
            let blocks: Vec<u64> = wave.iter().map(|node| node.block).collect();
            let (mut looked_at, mut beside) = (stack.len(), 0);
            let reading = self.paced(worker, (wave.len(), Size::Block), |worker| {
                let window = &mut Window::default();
                read_stretches(window, &mut worker.reader, fs, &blocks, &mut |arrival| match arrival {
                    Arrival::Block(index, Ok(contents)) => walk.visit(wave[index], contents, &mut stack),
                    Arrival::Block(index, Err(_)) => walk.unreadable(wave[index]),
                    Arrival::Stretch(first, bytes) => {
                        beside += self.visit_beside(&mut walk, mode, &mut stack, (looked_at, first, bytes));
                        looked_at = stack.len();
                    }
                })
            });
            let cost = &mut worker.outcome.costs[MAPS];
            cost.items += wave.len() as u64 + beside;
            cost.requests += reading.requests;
            cost.bytes += reading.bytes;
        }
        walk.finish()
    }

    /// Counts nodes that are about to be visited; false if there have been too many.
    fn may_visit(&self, mode: WalkMode, count: u64) -> bool {
        if mode != WalkMode::Claim {
            return true;
        }
        let visited = self.nodes_visited.fetch_add(count, Relaxed).saturating_add(count);
        visited <= self.fs.geometry.blocks_count && !self.is_crowded()
    }

    /// Visits the nodes on `stack` from number `from` on that were read already, in a stretch that begins with block `first`. Returns how many they are.
    /// Only leaves: what hangs below others would wait without anyone having looked whether there is room for it.
    fn visit_beside(
        &self,
        walk: &mut Walk<'_>,
        mode: WalkMode,
        stack: &mut Vec<Node>,
        (from, first, bytes): (usize, u64, &[u8]),
    ) -> u64 {
        let size = self.fs.geometry.block_size as usize;
        let contents_of = |node: &Node| {
            let at = usize::try_from(node.block.checked_sub(first)?).ok()?.checked_mul(size)?;
            bytes.get(at..at.checked_add(size)?).filter(|_| !node.leads_on())
        };
        let (mut kept, mut visited) = (from, 0);
        for index in from..stack.len() {
            let node = stack[index];
            match contents_of(&node).filter(|_| self.may_visit(mode, 1)) {
                Some(contents) => {
                    walk.visit(node, contents, &mut Vec::new());
                    visited += 1;
                }
                None => {
                    stack[kept] = node;
                    kept += 1;
                }
            }
        }
        stack.truncate(kept);
        visited
    }
}

/// What these maps weigh beside other work.
pub(super) fn weight_of(items: &[WalkItem]) -> u64 {
    items.iter().map(|item| 1 + item.charged_blocks.min(1 << 20)).sum()
}

/// Takes as many nodes from the top of the stack as may be read in one go and leave at most about `room` nodes below them.
pub(crate) fn take_wave(stack: &mut Vec<Node>, room: usize, children: usize) -> Vec<Node> {
    let (mut from, mut left) = (stack.len(), room);
    while from > 0 && stack.len() - from < NODES_IN_FLIGHT {
        let cost = if stack[from - 1].leads_on() { children } else { 1 };
        if cost > left && from < stack.len() {
            break;
        }
        left = left.saturating_sub(cost);
        from -= 1;
    }
    stack.split_off(from)
}
