//! The stage of directories.

use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::InodeNo;

use super::outcome::ScanOutcome;
use super::{Batch, DIRECTORIES, Scan, Worker};
use crate::fast::directory::DirectoryProof;
use crate::fast::ledger::{DirectoryJob, Ledger};
use crate::plan::Means;
use crate::reading::{announce_all, announce_blocks, read_within};

/// Most directories in a batch.
const DIRECTORIES_PER_BATCH: usize = 512;
/// Most blocks of larger directories that a cold device is told about ahead.
const BLOCKS_AHEAD: usize = 2048;
/// Tables for the proof of one directory that a worker keeps for the next one.
const PROOF_BYTES_KEPT: u64 = 256 * 1024;

impl<'a> Scan<'a> {
    /// Most things in a batch, where there are to be `most`.
    pub(super) fn batch(&self, most: usize) -> usize {
        self.schedule.batch_max.clamp(1, most)
    }

    pub(super) fn push_directories(&self, jobs: Vec<DirectoryJob>) {
        let blocks: Vec<u64> =
            jobs.iter().filter(|job| job.runs.is_empty()).map(|job| job.first_block).collect();
        announce_blocks(self.fs, &blocks);
        let mut batch = Vec::new();
        let mut weight = 0;
        for job in jobs {
            weight += job.weight();
            batch.push(job);
            if batch.len() == self.batch(DIRECTORIES_PER_BATCH) {
                self.push(DIRECTORIES, weight, Batch::Directories(std::mem::take(&mut batch)));
                weight = 0;
            }
        }
        if !batch.is_empty() {
            self.push(DIRECTORIES, weight, Batch::Directories(batch));
        }
    }

    pub(super) fn directories(&self, worker: &mut Worker<'a>, jobs: Vec<DirectoryJob>) -> u64 {
        let weight = jobs.iter().map(DirectoryJob::weight).sum();
        let (single, several): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.runs.is_empty());
        let blocks: Vec<u64> = single.iter().map(|job| job.first_block).collect();
        if worker.waits_for_device() {
            let runs = several.iter().flat_map(|job| &job.runs);
            let more = runs.flat_map(|run| run.physical..run.physical + u64::from(run.count));
            announce_all(self.fs, more.take(BLOCKS_AHEAD).collect());
        }
        let Worker { reader, window, directory: proof, outcome, .. } = worker;
        let reading = read_within(window, reader, self.fs, &blocks, &mut |index, result| {
            let job = &single[index];
            proof.clear();
            let proved = result.is_ok_and(|block| job.prove_single(&self.directory_prover, block, proof));
            self.conclude(job.inode, proved, proof, outcome);
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
        let Means { budget, .. } = self.means;
        let bytes = self.proof_bytes(job);
        let is_large = bytes > PROOF_BYTES_KEPT;
        let Worker { reader, directory: proof, outcome, .. } = worker;
        if is_large && !budget.try_reserve(bytes) {
            // Inspection makes do with less, and comes when there is more.
            return outcome.suspect_directories.push(job.inode);
        }
        let reading = job.prove(&self.directory_prover, self.fs, reader, proof);
        let cost = &mut outcome.costs[DIRECTORIES];
        cost.items += reading.blocks;
        cost.requests += reading.requests;
        cost.bytes += reading.bytes;
        self.conclude(job.inode, reading.proved, proof, outcome);
        if is_large {
            *proof = DirectoryProof::default();
            budget.release(bytes);
        }
    }

    /// Memory for the proof of a directory: two words for each name, and a table twice as long. Most names take 24 bytes of
    /// the disk or more.
    pub(super) fn proof_bytes(&self, job: &DirectoryJob) -> u64 {
        let blocks: u64 = job.runs.iter().map(|run| u64::from(run.count)).sum();
        blocks * u64::from(self.fs.geometry.block_size) * 2
    }

    /// Counts the entries of a proved directory, or hands it over as a suspect with nothing counted.
    pub(super) fn conclude(
        &self,
        directory: InodeNo,
        proved: bool,
        proof: &mut DirectoryProof,
        outcome: &mut ScanOutcome,
    ) {
        let ledger = Ledger::new(&self.directory_prover, self.inodes);
        let full = outcome.pending.len() + proof.targets.len() >= self.means.plan.pending;
        if full && proved && ledger.would_wait(proof) {
            self.means.shortages.pending.store(true, Relaxed);
            outcome.suspect_directories.push(directory);
        } else if !(proved && ledger.count(directory, proof, &mut outcome.pending)) {
            outcome.suspect_directories.push(directory);
        }
    }
}
