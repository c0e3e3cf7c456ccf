// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stage of directories.

use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::InodeNo;
use fsmend_engine::scan::certification::{DeferredCertification, DirectorySummary};

use super::outcome::ScanOutcome;
use super::pace::Size;
use super::{Batch, DIRECTORIES, STAGES, Scan, Worker};
use crate::Fs;
use crate::fast::jobs::DirectoryJob;
use crate::reading::{announce_all, announce_blocks, read_within};
use fsmend_engine::scan::memory_plan::RunContext;

/// Most directories in a batch.
const DIRECTORIES_PER_BATCH: usize = 512;
/// Most things in a batch of a sample: as many as there are reads in flight.
const SAMPLED_PER_BATCH: usize = 32;
/// Most blocks of larger directories for which read-ahead is requested from a cold device.
const BLOCKS_AHEAD: usize = 2048;
/// Tables for the fast path of one directory that a worker keeps for the next one.
const PROOF_BYTES_KEPT: u64 = 256 * 1024;

/// Lists of fewer directories are sorted as they are.
const SORTED_BY_KEY_MIN: usize = 64;
/// Bits of a key that tell the place in the list; what is left is for blocks.
const KEY_BITS: u32 = 16;
/// Longer lists are given back after use.
const JOBS_KEPT: usize = 1 << 13;

/// Lists of directories that a worker uses again for each inode table: memory that is given back and asked for anew costs a page fault for
/// every 170 of them.
#[derive(Default)]
pub(super) struct JobLists {
    list: Vec<DirectoryJob>,
    sorted: Vec<DirectoryJob>,
    keys: Vec<u64>,
}

impl JobLists {
    /// An empty list.
    pub(super) fn take(&mut self) -> Vec<DirectoryJob> {
        std::mem::take(&mut self.list)
    }

    /// Takes a list back when it is empty.
    pub(super) fn give_back(&mut self, list: Vec<DirectoryJob>) {
        if list.is_empty() && list.capacity() <= JOBS_KEPT {
            self.list = list;
        }
        if self.sorted.capacity() > JOBS_KEPT {
            *self = JobLists { list: self.take(), ..JobLists::default() };
        }
    }

    /// Sorts directories by where they begin: by numbers of both place and block where they fit into a word, which are several times as fast
    /// to sort as the directories themselves.
    pub(super) fn sort(&mut self, jobs: &mut Vec<DirectoryJob>) {
        let fits =
            jobs.len() <= 1 << KEY_BITS && jobs.iter().all(|job| job.first_block >> (64 - KEY_BITS) == 0);
        if jobs.len() < SORTED_BY_KEY_MIN || !fits {
            return jobs.sort_by_key(|job| job.first_block);
        }
        self.keys.clear();
        self.keys.extend(jobs.iter().enumerate().map(|(at, job)| job.first_block << KEY_BITS | at as u64));
        self.keys.sort_unstable();
        let place = |key: &u64| (key & ((1 << KEY_BITS) - 1)) as usize;
        self.sorted.clear();
        self.sorted.extend(self.keys.iter().map(|key| std::mem::take(&mut jobs[place(key)])));
        std::mem::swap(jobs, &mut self.sorted);
        self.sorted.clear();
    }
}

/// Tells a device that has to be waited for about the blocks of directories that have one.
pub(super) fn announce_directories(fs: &Fs<'_>, jobs: &[DirectoryJob]) {
    let blocks = jobs.iter().filter(|job| job.is_single()).map(|job| job.first_block);
    announce_blocks(fs, &blocks.collect::<Vec<_>>());
}

impl<'a> Scan<'a> {
    /// Most things in a batch, where there are to be `most`.
    pub(super) fn batch(&self, most: usize) -> usize {
        // A sample ends between two batches.
        let most = if self.sample.is_some() { most.min(SAMPLED_PER_BATCH) } else { most };
        self.schedule.batch_max.clamp(1, most)
    }

    /// Hands on directories, in this order, and leaves `jobs` empty.
    pub(super) fn push_directories(&self, jobs: &mut Vec<DirectoryJob>) {
        let mut jobs = jobs.drain(..);
        loop {
            let batch: Vec<DirectoryJob> = jobs.by_ref().take(self.batch(DIRECTORIES_PER_BATCH)).collect();
            if batch.is_empty() {
                return;
            }
            let weight = batch.iter().map(DirectoryJob::weight).sum();
            self.push(DIRECTORIES, weight, Batch::Directories(batch));
        }
    }

    /// Looks at directories; returns the weight of those for which there was time.
    pub(super) fn directories(&self, worker: &mut Worker<'a>, mut jobs: Vec<DirectoryJob>) -> u64 {
        if self.sample.is_none() {
            return self.directories_at_once(worker, jobs);
        }
        let mut weight = 0;
        while !jobs.is_empty() {
            let is_first = weight == 0 && self.progress.stage(STAGES[DIRECTORIES].name).done() == 0;
            let count = self.at_once().max(usize::from(is_first)).min(jobs.len());
            if count == 0 {
                break;
            }
            let part = jobs.drain(..count).collect();
            weight +=
                self.paced(worker, (count, Size::Block), |worker| self.directories_at_once(worker, part));
        }
        weight
    }

    fn directories_at_once(&self, worker: &mut Worker<'a>, mut jobs: Vec<DirectoryJob>) -> u64 {
        let weight = jobs.iter().map(DirectoryJob::weight).sum();
        let several: Vec<_> = jobs.extract_if(.., |job| !job.is_single()).collect();
        let single = jobs;
        let blocks: Vec<u64> = single.iter().map(|job| job.first_block).collect();
        if worker.waits_for_device() && self.may_announce() {
            let runs = several.iter().flat_map(|job| job.runs());
            let more = runs.flat_map(|run| run.physical..run.physical + u64::from(run.count));
            announce_all(self.fs, more.take(BLOCKS_AHEAD).collect());
        }
        let Worker { reader, window, directory: summary, outcome, .. } = worker;
        let reading = read_within(window, reader, self.fs, &blocks, &mut |index, result| {
            let job = &single[index];
            summary.clear();
            let clean =
                result.is_ok_and(|block| job.summarize_single(&self.directory_fast_path, block, summary));
            self.conclude(job.inode, clean, summary, outcome);
        });
        let cost = &mut outcome.costs[DIRECTORIES];
        cost.items += single.len() as u64;
        cost.requests += reading.requests;
        cost.bytes += reading.bytes;
        for job in several {
            self.large_directory(worker, &job);
        }
        weight
    }

    /// A directory of several blocks: read in disk order, proved block by block.
    pub(super) fn large_directory(&self, worker: &mut Worker<'a>, job: &DirectoryJob) {
        let RunContext { budget, .. } = self.run_context;
        let bytes = self.summary_bytes(job);
        let is_large = bytes > PROOF_BYTES_KEPT;
        let Worker { reader, directory: summary, outcome, .. } = worker;
        if is_large && !budget.try_reserve(bytes) {
            // Inspection makes do with less, and comes when there is more.
            return outcome.suspect_directories.push(job.inode);
        }
        let reading = job.summarize(&self.directory_fast_path, self.fs, reader, summary);
        let cost = &mut outcome.costs[DIRECTORIES];
        cost.items += reading.blocks;
        cost.requests += reading.requests;
        cost.bytes += reading.bytes;
        self.conclude(job.inode, reading.clean, summary, outcome);
        if is_large {
            *summary = DirectorySummary::default();
            budget.release(bytes);
        }
    }

    /// Memory for the fast path of a directory: two words for each name, and a table twice as long. Most names take 24 bytes of
    /// the disk or more.
    pub(super) fn summary_bytes(&self, job: &DirectoryJob) -> u64 {
        let blocks: u64 = job.runs().iter().map(|run| u64::from(run.count)).sum();
        blocks * u64::from(self.fs.geometry.block_size) * 2
    }

    /// Counts the entries of a proved directory, or hands it over as a suspect with nothing counted.
    pub(super) fn conclude(
        &self,
        directory: InodeNo,
        clean: bool,
        summary: &mut DirectorySummary,
        outcome: &mut ScanOutcome,
    ) {
        let deferred = DeferredCertification::new(&self.directory_fast_path.certifier);
        let full = outcome.pending.len() + summary.targets.len() >= self.run_context.plan.pending;
        if full && clean && deferred.would_wait(summary) {
            self.run_context.shortages.pending.store(true, Relaxed);
            outcome.suspect_directories.push(directory);
        } else if !(clean && deferred.count(directory, summary, &mut outcome.pending)) {
            outcome.suspect_directories.push(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use fsmend_base::SeededRandom;
    use fsmend_ext_format::inode::InodeFlags;

    use super::*;
    use crate::inode::MapRun;

    #[test]
    fn directories_are_sorted_by_place_in_either_way() {
        let mut random = SeededRandom::new(3);
        let mut lists = JobLists::default();
        for (len, blocks) in
            [(0, 10), (63, 10), (64, 10), (5000, 300), (5000, 1 << 40), (70_000, 1 << 20), (200, 1 << 60)]
        {
            let mut jobs = lists.take();
            let made = (0..len).map(|inode| {
                let physical = random.below(blocks);
                DirectoryJob::new(
                    InodeNo(inode),
                    0,
                    InodeFlags::empty(),
                    &[MapRun { logical: 0, physical, count: 1, unwritten: false }],
                )
            });
            jobs.extend(made);
            let mut expected: Vec<(u64, InodeNo)> =
                jobs.iter().map(|job| (job.first_block, job.inode)).collect();
            expected.sort_unstable();
            lists.sort(&mut jobs);
            let sorted: Vec<(u64, InodeNo)> = jobs.iter().map(|job| (job.first_block, job.inode)).collect();
            assert!(sorted == expected, "{len} directories within {blocks} blocks");
            jobs.clear();
            lists.give_back(jobs);
            assert!(lists.list.capacity() <= JOBS_KEPT && lists.sorted.capacity() <= JOBS_KEPT);
        }
    }
}
