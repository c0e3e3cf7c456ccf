//! The stage of block maps that continue outside the inode.

use std::sync::atomic::Ordering::Relaxed;

use fsmend_engine::inodes::{InodeFact, Kind};
use fsmend_ext_format::inode::RawInode;

use super::outcome::{charge, is_short};
use super::{MAPS, Scan, Worker, job_of};
use crate::fast::ledger::DirectoryJob;
use crate::fast::map::{Node, Walk, WalkItem, WalkMode, Walked};
use crate::inode;
use crate::reading::read_blocks;

/// Most nodes of maps that are read in one go; more wait on a stack.
const NODES_IN_FLIGHT: usize = 4096;

impl<'a> Scan<'a> {
    pub(super) fn maps(&self, worker: &mut Worker<'a>, items: &[WalkItem]) -> u64 {
        let verdicts = self.walk(worker, items, WalkMode::Claim);
        let suspects: Vec<WalkItem> = items
            .iter()
            .zip(&verdicts)
            .filter(|(_, walked)| !walked.innocent)
            .map(|(item, _)| item.clone())
            .collect();
        let mut directories = Vec::new();
        for (item, Walked { innocent, scattered, runs }) in items.iter().zip(verdicts) {
            let counts = innocent && scattered && is_short(self.fs, item.charged_blocks);
            worker.outcome.non_contiguous += u64::from(counts);
            if innocent && item.xattr_block != 0 {
                worker.outcome.xattr_references.push((item.xattr_block, item.inode));
            }
            if innocent && self.fs.counts_quota() {
                let bytes = item.charged_blocks * u64::from(self.fs.geometry.block_size);
                charge(&mut worker.outcome.quota, self.fs, item.inode, &item.raw, (bytes, 1));
            }
            if innocent && item.kind == Kind::Directory {
                directories.push(DirectoryJob::new(item.inode, item.generation, item.flags, &runs));
            }
        }
        if !suspects.is_empty() && !self.is_crowded() {
            self.walk(worker, &suspects, WalkMode::Withdraw);
            for item in &suspects {
                if self.is_crowded() {
                    break;
                }
                self.inspect_published(worker, item, &mut directories);
            }
        }
        self.push_directories(directories);
        items.iter().map(|item| 1 + item.charged_blocks.min(1 << 20)).sum()
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

    pub(super) fn walk(&self, worker: &mut Worker<'a>, items: &[WalkItem], mode: WalkMode) -> Vec<Walked> {
        let fs = self.fs;
        let (mut walk, mut stack) =
            Walk::start(items, mode, &fs.geometry, &self.inode_prover, &fs.metadata, self.claims);
        let cost = &mut worker.outcome.costs[MAPS];
        while !stack.is_empty() {
            let mut wave = take_wave(&mut stack, self.means.plan.nodes, fs.geometry.block_size as usize / 4);
            wave.sort_unstable_by_key(|node: &Node| node.block);
            if mode == WalkMode::Claim {
                let visited = self.nodes_visited.fetch_add(wave.len() as u64, Relaxed) + wave.len() as u64;
                if visited > fs.geometry.blocks_count {
                    break;
                }
            }
            cost.items += wave.len() as u64;
            let blocks: Vec<u64> = wave.iter().map(|node| node.block).collect();
            let reading = read_blocks(&mut worker.reader, fs, &blocks, &mut |index, result| match result {
                Ok(contents) => walk.visit(wave[index], contents, &mut stack),
                Err(_) => walk.unreadable(wave[index]),
            });
            cost.requests += reading.requests;
            cost.bytes += reading.bytes;
        }
        walk.finish()
    }
}

/// Takes as many nodes from the top of the stack as may be read in one go and leave at most about `room` nodes below them.
fn take_wave(stack: &mut Vec<Node>, room: usize, children: usize) -> Vec<Node> {
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
