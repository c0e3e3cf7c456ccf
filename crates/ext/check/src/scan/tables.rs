// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stage of inode tables.

use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::{BlockNo, GroupNo, InodeNo, width};
use fsmend_device::{ReadErrorKind, Request, salvage};
use fsmend_engine::claims::Claims;
use fsmend_engine::inodes::{ChunkFacts, InodeFact, Kind};
use fsmend_engine::origins::{Noted, Origin};
use fsmend_engine::{Layer, Problem};
use fsmend_ext_format::inode::RawInode;

use super::outcome::{ScanOutcome, charge, is_scattered, is_short};
use super::pace::Size;
use super::{INODE_TABLES, Scan, Worker, job_of, problems};
use crate::Fs;
use crate::fast::inode::{InodeSummary, Verdict};
use crate::fast::jobs::DirectoryJob;
use crate::fast::map::WalkItem;
use crate::fast::plain::Plain;
use crate::inode;
use crate::quota::QuotaUsage;

/// Largest single read of an inode table.
const TABLE_READ: u32 = 256 * 1024;
/// Records whose checksums are computed before they are looked at: they stay in the processor's first cache meanwhile.
const RECORDS_AT_ONCE: usize = 64;
/// Suspects of a table are inspected when so many have gathered.
const SUSPECTS_MAX: usize = 1024;

impl<'a> Scan<'a> {
    /// Looks at the inodes of a group; returns the number of those for which there was time.
    pub(super) fn inode_table(&self, worker: &mut Worker<'a>, group: GroupNo) -> u64 {
        self.announce_tables(group);
        self.announce_bitmaps();
        self.announce_regions(worker, group);
        let inodes = self.fs.groups[group.0 as usize].scan_inodes;
        if self.sample.is_none() {
            return self.part_of_table(worker, group, inodes);
        }
        let per_request = TABLE_READ / self.fs.geometry.inode_size;
        let count = self.at_once().clamp(1, inodes.div_ceil(per_request).max(1) as usize);
        let inodes = inodes.min(per_request.saturating_mul(width::len_u32(count)));
        self.paced(worker, (count, Size::Large), |worker| self.part_of_table(worker, group, inodes))
    }

    /// Looks at the first `inodes` inodes of a group; what is behind them counts as free.
    fn part_of_table(&self, worker: &mut Worker<'a>, group: GroupNo, inodes: u32) -> u64 {
        let fs = self.fs;
        let state = fs.groups[group.0 as usize];
        let inode_size = fs.geometry.inode_size as usize;
        let mut work = ChunkWork::new(state.scan_inodes as usize, worker.jobs.take());
        let requests = table_requests(fs, state.desc.inode_table, inodes);
        let Worker { reader, summary, checksums, outcome, .. } = worker;
        let cost = &mut outcome.costs[INODE_TABLES];
        cost.items += u64::from(inodes);
        cost.requests += requests.len() as u64;
        cost.bytes += requests.iter().map(|request| u64::from(request.len)).sum::<u64>();
        let per_request = TABLE_READ as usize / inode_size;
        // After maps were limited, those that lie in their records may have been given up too.
        let has_shared = !self.fast_maps && !fs.shared_maps.is_empty();
        let mut unreadable = Vec::new();
        reader.read(&requests, &mut |index, result| match result {
            Ok(bytes) => {
                let first = index * per_request;
                let first_inode = fs.geometry.inode_at(group, width::len_u32(first));
                for (part, records) in bytes.chunks(RECORDS_AT_ONCE * inode_size).enumerate() {
                    let before = part * RECORDS_AT_ONCE;
                    let first_inode = InodeNo(first_inode.0 + width::len_u32(before));
                    self.inode_fast_path.checksums(first_inode, records, checksums);
                    let numbers =
                        first_inode.0..=first_inode.0.saturating_add(width::len_u32(RECORDS_AT_ONCE) - 1);
                    let may_be_plain = self.inode_fast_path.may_be_plain(numbers) && !has_shared;
                    for (at, record) in records.chunks_exact(inode_size).enumerate() {
                        let place = (InodeNo(first_inode.0 + width::len_u32(at)), first + before + at);
                        let quota = &mut outcome.quota;
                        if may_be_plain
                            && checksums[at]
                            && let Some(plain) =
                                self.inode_fast_path.summarize_plain(record, &mut summary.nearby)
                        {
                            self.take_plain(plain, place, record, &mut work, quota);
                            continue;
                        }
                        let verdict = match has_shared && fs.shared_maps.contains(place.0) {
                            true => Verdict::Suspect,
                            false => {
                                self.inode_fast_path.summarize_with(place.0, record, checksums[at], summary)
                            }
                        };
                        self.take_inode(verdict, place, record, summary, &mut work, quota);
                    }
                }
                if work.suspects.len() > SUSPECTS_MAX {
                    self.inspect_suspects(outcome, &mut work);
                }
            }
            Err(_) => unreadable.push(index),
        });
        outcome.non_contiguous += work.non_contiguous;
        for index in unreadable {
            self.unreadable_table(group, (index, requests[index]), summary, &mut work, outcome);
        }
        self.inspect_suspects(outcome, &mut work);
        work.unclaimed.iter_mut().for_each(|word| word.claim(self.claims));
        outcome.xattr_references.append(&mut work.xattr_references);
        let ChunkWork { facts, walks, mut directories, .. } = work;
        self.inodes.publish(group.0, facts);
        worker.jobs.sort(&mut directories);
        if self.by_region() {
            self.keep_files(worker, walks);
            directories = self.region(worker, group, directories);
            self.hand_over(worker, Vec::new(), &mut directories);
        } else {
            self.hand_over(worker, walks, &mut directories);
        }
        worker.jobs.give_back(directories);
        self.table_is_done();
        u64::from(inodes)
    }

    /// Saves what can be read of a piece of an inode table that cannot be read whole.
    pub(super) fn unreadable_table(
        &self,
        group: GroupNo,
        (index, request): (usize, Request),
        summary: &mut InodeSummary,
        work: &mut ChunkWork,
        outcome: &mut ScanOutcome,
    ) {
        let fs = self.fs;
        let inode_size = fs.geometry.inode_size as usize;
        let mut bytes = vec![0; request.len as usize];
        let lost = salvage(fs.device, request.offset, &mut bytes);
        for error in &lost {
            let block = error.offset / u64::from(fs.geometry.block_size);
            let count = error.len.div_ceil(u64::from(fs.geometry.block_size)).max(1);
            let problem = Problem::new(&problems::TABLE_UNREADABLE).group(group);
            let problem = problem.blocks(BlockNo(block), count);
            if !matches!(error.kind, ReadErrorKind::Io(_)) {
                outcome.findings.raise(problem);
                continue;
            }
            // Free inodes; to be written is also what makes a disk put a sound sector in its place.
            let empty = vec![0; width::index(error.len)];
            outcome.findings.raise_with_edit(problem, Layer::Record, error.offset, &empty);
        }
        let first = index * (TABLE_READ as usize / inode_size);
        for (at, record) in bytes.chunks_exact(inode_size).enumerate() {
            let range =
                request.offset + (at * inode_size) as u64..request.offset + ((at + 1) * inode_size) as u64;
            if lost.iter().any(|error| error.offset < range.end && range.start < error.offset + error.len) {
                continue;
            }
            let inode = fs.geometry.inode_at(group, width::len_u32(first + at));
            let verdict = match !self.fast_maps && fs.shared_maps.contains(inode) {
                true => Verdict::Suspect,
                false => self.inode_fast_path.summarize(inode, record, summary),
            };
            self.take_inode(verdict, (inode, first + at), record, summary, work, &mut outcome.quota);
        }
    }

    #[inline]
    fn take_plain(
        &self,
        plain: Plain,
        (inode, index): (InodeNo, usize),
        record: &[u8],
        work: &mut ChunkWork,
        quota: &mut QuotaUsage,
    ) {
        work.facts.record(index, inode, InodeFact::new(plain.kind, 0), plain.links);
        if self.fs.counts_quota() {
            let bytes = u64::from(plain.count) * u64::from(self.fs.geometry.block_size);
            charge(quota, self.fs, inode, &RawInode::from_record(record), (bytes, 1));
        }
        work.claim(self.claims, plain.kind, (plain.start, plain.count.into()), inode);
        if plain.kind == Kind::Directory {
            let job = DirectoryJob::new(inode, plain.generation, plain.flags, plain.run().as_slice());
            work.directories.push(job);
        }
    }

    #[inline]
    pub(super) fn take_inode(
        &self,
        verdict: Verdict,
        (inode, index): (InodeNo, usize),
        record: &[u8],
        summary: &InodeSummary,
        work: &mut ChunkWork,
        quota: &mut QuotaUsage,
    ) {
        match verdict {
            Verdict::Free => return,
            Verdict::Suspect => return work.suspects.push((index, inode, record.to_vec())),
            Verdict::Clean if summary.needs_walk && !self.may_wait(work) => {
                return work.suspects.push((index, inode, record.to_vec()));
            }
            Verdict::Clean => {}
        }
        work.facts.record(index, inode, InodeFact::new(summary.kind, 0), summary.links);
        if summary.needs_walk {
            // Everything else is taken in when its map has been walked.
            return work.walks.push(WalkItem::new(inode, summary, &RawInode::from_record(record)));
        }
        if summary.xattr_block != 0 {
            work.xattr_references.push((summary.xattr_block, inode));
        }
        if self.fs.counts_quota() {
            let bytes = summary.charged_blocks * u64::from(self.fs.geometry.block_size);
            charge(quota, self.fs, inode, &RawInode::from_record(record), (bytes, 1));
        }
        for run in &summary.runs {
            work.claim(self.claims, summary.kind, (run.physical, run.count.into()), inode);
        }
        if summary.runs.len() > 1 {
            let counts = is_short(self.fs, summary.charged_blocks) && is_scattered(&summary.runs, &[]);
            work.non_contiguous += u64::from(counts);
        }
        if summary.kind == Kind::Directory {
            work.directories.push(DirectoryJob::new(inode, summary.generation, summary.flags, &summary.runs));
        }
    }

    /// Whether the map of one more inode may wait to be walked. If not it is inspected at once, with the same result.
    pub(super) fn may_wait(&self, work: &ChunkWork) -> bool {
        let room = work.walks.len() < self.run_context.plan.walks;
        if !room {
            self.run_context.shortages.walks.store(true, Relaxed);
        }
        room && self.fast_maps
    }

    pub(super) fn inspect_suspects(&self, outcome: &mut ScanOutcome, work: &mut ChunkWork) {
        for (index, inode, record) in std::mem::take(&mut work.suspects) {
            if self.is_crowded() {
                return;
            }
            let mut found = outcome.findings.fresh();
            let inspection = inode::inspect(self.fs, inode, &record, &mut found);
            self.count_inspected(&inspection);
            let fact = outcome.take_inspection(inode, &inspection, self.claims, self.fs);
            if fact.kind() != Kind::Unused || fact.0 != 0 {
                let links = RawInode::from_record(&inspection.record).i_links_count.get();
                work.facts.record(index, inode, fact, links);
            }
            if fact.kind() == Kind::Directory {
                match job_of(inode, &inspection).filter(|_| found.is_empty()) {
                    Some(job) => work.directories.push(job),
                    None => outcome.suspect_directories.push(inode),
                }
            }
            outcome.findings.merge(found);
        }
    }
}

/// What one worker gathers from one inode table before it is published.
pub(super) struct ChunkWork {
    facts: ChunkFacts,
    suspects: Vec<(usize, InodeNo, Vec<u8>)>,
    walks: Vec<WalkItem>,
    directories: Vec<DirectoryJob>,
    xattr_references: Vec<(u64, InodeNo)>,
    non_contiguous: u64,
    /// What is not claimed yet of the blocks of directories and of others, which an allocator keeps apart: files often lie near each other, and a
    /// claim costs as much for one block as for 64.
    unclaimed: [WaitingClaims; 2],
}

/// Claims in one word of 64 blocks that wait to be made together.
#[derive(Clone, Copy)]
struct WaitingClaims {
    word: u64,
    mask: u64,
    /// Whose they are.
    origin: Origin,
    /// Where that was noted last.
    noted: Noted,
}

impl WaitingClaims {
    fn claim(&mut self, claims: &Claims) {
        if self.mask != 0 {
            claims.claim_word(self.word, self.mask, self.origin, &mut self.noted);
            self.mask = 0;
        }
    }
}

impl ChunkWork {
    /// Claims blocks that are known to exist, sooner or later: at the latest when others are claimed in another word, or for another origin.
    #[inline]
    fn claim(&mut self, claims: &Claims, kind: Kind, (start, count): (u64, u64), inode: InodeNo) {
        let origin = claims.origin(inode.0);
        let (word, shift) = (start / 64, start % 64);
        if count.wrapping_sub(1) >= 64 - shift {
            // None, or more than a word holds.
            claims.claim(start, count, origin);
            return;
        }
        let [directories, others] = &mut self.unclaimed;
        let waiting = if kind == Kind::Directory { directories } else { others };
        let mask = u64::MAX >> (64 - count) << shift;
        // What is claimed twice has to meet what was claimed before.
        if waiting.word != word || waiting.mask & mask != 0 || waiting.origin != origin {
            waiting.claim(claims);
            if waiting.origin != origin {
                waiting.noted = Noted::default();
            }
            (waiting.word, waiting.origin) = (word, origin);
        }
        waiting.mask |= mask;
    }

    /// Nothing yet, with an empty list for directories.
    fn new(inodes: usize, directories: Vec<DirectoryJob>) -> Self {
        ChunkWork {
            facts: ChunkFacts::new(inodes),
            suspects: Vec::new(),
            walks: Vec::new(),
            directories,
            xattr_references: Vec::new(),
            non_contiguous: 0,
            unclaimed: [WaitingClaims { word: 0, mask: 0, origin: Origin::KNOWN, noted: Noted::default() };
                2],
        }
    }
}

fn table_requests(fs: &Fs<'_>, table: u64, inodes: u32) -> Vec<Request> {
    let start = fs.block_offset(BlockNo(table));
    let len = u64::from(inodes) * u64::from(fs.geometry.inode_size);
    (0..len)
        .step_by(TABLE_READ as usize)
        .map(|at| Request { offset: start + at, len: width::low_u32((len - at).min(u64::from(TABLE_READ))) })
        .collect()
}
