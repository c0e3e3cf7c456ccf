//! The parallel stages: inode tables, maps, directories. Fast paths first, inspection for what they leave.

pub mod problems;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_device::{BatchReader, ReadBackend, Request, salvage};
use fsmend_engine::budget::{Reservation, growing};
use fsmend_engine::claims::Claims;
use fsmend_engine::inodes::{ChunkFacts, InodeFact, InodeTable, Kind, mark};
use fsmend_engine::pool::{self, Queues, Schedule, StageIndex};
use fsmend_engine::{Findings, Problem, Progress};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::inode::{RawInode, flags};

use crate::Fs;
use crate::fast::directory::{DirectoryProof, DirectoryProver};
use crate::fast::inode::{InodeProver, Proof, Verdict};
use crate::fast::ledger::{DirectoryJob, Ledger, Pending};
use crate::fast::map::{Node, Walk, WalkItem, WalkMode, Walked};
use crate::inode::{self, Inspection, MapRun};
use crate::plan::Means;
use crate::quota::{Owner, QuotaUsage, bytes_of};
use crate::reading::{DEPTH, announce_blocks, read_blocks};

/// Largest single read of an inode table.
const TABLE_READ: u32 = 256 * 1024;
/// Inode tables that the kernel is told about ahead of the one that is read.
const TABLES_AHEAD: u32 = 16;
/// Most nodes of maps that are read in one go; more wait on a stack.
const NODES_IN_FLIGHT: usize = 4096;
/// Most directories in a batch.
const DIRECTORIES_PER_BATCH: usize = 512;
/// Most inodes in a batch of maps.
const WALKS_PER_BATCH: usize = 256;
/// Suspects of a table are inspected when so many have gathered.
const SUSPECTS_MAX: usize = 1024;
/// Tables for the proof of one directory that a worker keeps for the next one.
const PROOF_BYTES_KEPT: u64 = 256 * 1024;
/// An owner in the sums for quota.
const QUOTA_BYTES: u64 = 96;

/// Files of this size and more need a feature.
const LARGE_FILE: u64 = 1 << 31;

const INODE_TABLES: StageIndex = 0;
const MAPS: StageIndex = 1;
const DIRECTORIES: StageIndex = 2;
/// What the stages are called.
pub const STAGE_NAMES: [&str; 3] = ["inode tables", "block maps", "directories"];

enum Batch {
    InodeTable(GroupNo),
    Maps(Vec<WalkItem>),
    Directories(Vec<DirectoryJob>),
}

/// Everything that the stages leave behind beside the shared tables. Workers fill their own; merged at the end.
#[derive(Default)]
pub struct ScanOutcome {
    /// Problems found by inspection.
    pub findings: Findings,
    /// Entries that have to wait to be certified.
    pub pending: Vec<Pending>,
    /// Directories that have to be inspected; nothing was counted for them.
    pub suspect_directories: Vec<InodeNo>,
    /// Inodes whose facts changed after they had been published.
    pub revised: Vec<InodeNo>,
    /// References to attribute blocks: block and inode.
    pub xattr_references: Vec<(u64, InodeNo)>,
    /// References to value inodes: value inode, stored hash, referring inode.
    pub value_references: Vec<(InodeNo, u32, InodeNo)>,
    /// What the quota files should say.
    pub quota: QuotaUsage,
    /// Files whose blocks are not in one piece.
    pub non_contiguous: u64,
    /// The first large file that was inspected. Those that the fast path proves innocent have the feature they need.
    pub first_large_file: Option<InodeNo>,
    /// Work and bytes per stage.
    pub costs: [StageCost; 3],
}

/// What one stage cost one worker, or all of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageCost {
    /// Records or blocks looked at.
    pub items: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Read requests.
    pub requests: u64,
    /// Nanoseconds of processor time.
    pub cpu_ns: u64,
    /// When its first batch began and its last one ended, by the clock of the run; `None` when nothing was measured.
    pub span: Option<(u64, u64)>,
}

/// Clocks for the cost of each stage. They are read once before and once after a batch.
#[derive(Clone, Copy, Debug)]
pub struct StageClock {
    /// Nanoseconds gone by, from any fixed point.
    pub wall: fn() -> u64,
    /// Nanoseconds of processor time that the calling thread has used.
    pub thread_cpu: fn() -> u64,
}

impl StageCost {
    fn add(&mut self, other: StageCost) {
        self.items += other.items;
        self.bytes += other.bytes;
        self.requests += other.requests;
        self.cpu_ns += other.cpu_ns;
        let spans = self.span.into_iter().chain(other.span);
        self.span = spans.reduce(|one, two| (one.0.min(two.0), one.1.max(two.1)));
    }
}

impl ScanOutcome {
    /// Nothing yet, with room for so many problems.
    fn with_room(problems: usize) -> Self {
        ScanOutcome { findings: Findings::with_room(problems), ..ScanOutcome::default() }
    }

    /// Memory of the lists whose length nobody knew before; they are held once more while they are merged.
    fn bytes_held(&self) -> u64 {
        2 * (growing::<InodeNo>(self.suspect_directories.len() + self.revised.len())
            + growing::<(u64, InodeNo)>(self.xattr_references.len() + self.value_references.len())
            + self.quota.owners() as u64 * QUOTA_BYTES)
    }

    fn absorb(&mut self, other: ScanOutcome) {
        self.findings.merge(other.findings);
        self.pending.extend(other.pending);
        self.suspect_directories.extend(other.suspect_directories);
        self.revised.extend(other.revised);
        self.xattr_references.extend(other.xattr_references);
        self.value_references.extend(other.value_references);
        self.quota.merge(other.quota);
        self.non_contiguous += other.non_contiguous;
        self.first_large_file = first_of(self.first_large_file, other.first_large_file);
        for (mine, theirs) in self.costs.iter_mut().zip(other.costs) {
            mine.add(theirs);
        }
    }

    fn sort(&mut self) {
        self.pending.sort_unstable();
        self.suspect_directories.sort_unstable();
        self.revised.sort_unstable();
        self.xattr_references.sort_unstable();
        self.value_references.sort_unstable();
    }

    /// Takes in what the inspection of an inode left, the claims included; returns its fact.
    pub fn take_inspection(
        &mut self,
        inode: InodeNo,
        inspection: &Inspection,
        claims: &Claims,
        fs: &Fs<'_>,
    ) -> InodeFact {
        if inspection.kind == Kind::Unused {
            return InodeFact::default();
        }
        claim_inspection(fs, claims, inspection);
        if let Some(block) = inspection.xattr_block {
            self.xattr_references.push((block, inode));
        }
        self.value_references
            .extend(inspection.value_inodes.iter().map(|(value, hash)| (*value, *hash, inode)));
        let blocks = inspection.charged_sectors / u64::from(fs.geometry.block_size / 512);
        self.non_contiguous +=
            u64::from(is_short(fs, blocks) && is_scattered(&inspection.runs, map_blocks_in_line(inspection)));
        if inspection.kind == Kind::Regular && inspection.raw().size() >= LARGE_FILE {
            self.first_large_file = first_of(self.first_large_file, Some(inode));
        }
        if fs.counts_quota() && inspection.marks & mark::RESERVED == 0 {
            let raw = RawInode::from_record(&inspection.record);
            charge(&mut self.quota, fs, inode, &raw, bytes_of(&fs.geometry, &raw));
        }
        InodeFact::new(inspection.kind, inspection.marks)
    }
}

/// The lower of two numbers that may be missing.
fn first_of(one: Option<InodeNo>, other: Option<InodeNo>) -> Option<InodeNo> {
    one.into_iter().chain(other).min()
}

/// Charges the owner of an inode with what it takes.
fn charge(quota: &mut QuotaUsage, fs: &Fs<'_>, inode: InodeNo, raw: &RawInode, bytes: u64) {
    if QuotaUsage::counts(fs, inode, raw.i_flags.get()) {
        quota.charge(Owner::of(raw, fs.geometry.inode_size), bytes);
    }
}

/// Claims the data and map blocks of an inspected inode.
fn claim_inspection(fs: &Fs<'_>, claims: &Claims, inspection: &Inspection) {
    for (start, count) in units_of(inspection, &fs.geometry) {
        claims.claim(start, count);
    }
}

/// The allocation units (blocks, or clusters with bigalloc) that an inspected inode owns by its map, in the order of
/// the map. With bigalloc, neighbouring runs may share a cluster, which is then owned once; whatever else is named
/// twice is contested, and so is what lies wrong within its cluster, for it has to be moved.
pub fn units_of(inspection: &Inspection, geometry: &Geometry) -> Vec<(u64, u64)> {
    let unit_run = |start: u64, count: u64| {
        let first = geometry.cluster_of(start);
        (first, geometry.cluster_of(start + count.max(1) - 1) - first + 1)
    };
    let mut units = Vec::with_capacity(inspection.runs.len() + inspection.map_blocks.len());
    let mut last_unit = None;
    for run in &inspection.runs {
        let (mut first, mut count) = unit_run(run.physical, u64::from(run.count));
        let end = first + count;
        if geometry.cluster_blocks > 1 && last_unit == Some(first) {
            (first, count) = (first + 1, count - 1);
        }
        if count > 0 {
            units.push((first, count));
        }
        last_unit = end.checked_sub(1);
    }
    units.extend(inspection.map_blocks.iter().map(|block| unit_run(*block, 1)));
    units.extend(inspection.misaligned.iter().map(|range| unit_run(range.start.0, range.count)));
    units
}

/// Whether a file of `blocks` blocks could lie in one piece: what fills a group cannot.
fn is_short(fs: &Fs<'_>, blocks: u64) -> bool {
    blocks < u64::from(fs.geometry.blocks_per_group)
}

/// The blocks of a map that stand in line with the data: indirect blocks do, nodes of extent trees do not.
fn map_blocks_in_line(inspection: &Inspection) -> &[u64] {
    if inspection.raw().has_flag(flags::EXTENTS) { &[] } else { &inspection.map_blocks }
}

/// Whether the blocks of a file, with those of its map that stand in line with them, do not lie in one piece.
fn is_scattered(runs: &[MapRun], map_blocks: &[u64]) -> bool {
    let end = |run: &MapRun| run.physical + u64::from(run.count);
    if map_blocks.is_empty() {
        return runs.windows(2).any(|pair| end(&pair[0]) != pair[1].physical);
    }
    let blocks = runs.iter().map(|run| u64::from(run.count)).sum::<u64>() + map_blocks.len() as u64;
    let low = runs.iter().map(|run| run.physical).chain(map_blocks.iter().copied()).min();
    let high = runs.iter().map(end).chain(map_blocks.iter().map(|block| block + 1)).max();
    let ascending = runs.windows(2).all(|pair| end(&pair[0]) <= pair[1].physical);
    !ascending || high.zip(low).is_some_and(|(high, low)| high - low != blocks)
}

/// The stages of one run.
pub struct Scan<'a> {
    fs: &'a Fs<'a>,
    inodes: &'a InodeTable,
    claims: &'a Claims,
    inode_prover: InodeProver<'a>,
    directory_prover: DirectoryProver<'a>,
    queues: Queues<'a, Batch>,
    progress: &'a Progress,
    backend: ReadBackend,
    means: Means<'a>,
    /// Map nodes visited by the fast path. More of them than blocks in the file system means that trees share nodes.
    nodes_visited: AtomicU64,
    fast_maps: bool,
    clock: Option<StageClock>,
    /// The first group whose inode table the kernel has not been told about.
    announced: AtomicU32,
    schedule: Schedule,
}

struct Worker<'a> {
    reader: BatchReader<'a>,
    proof: Proof,
    checksums: Vec<bool>,
    directory: DirectoryProof,
    outcome: ScanOutcome,
    held: Reservation<'a>,
}

impl<'a> Scan<'a> {
    /// Prepares the stages. Without `fast_maps`, maps outside the inode are all left to inspection.
    pub fn new(
        fs: &'a Fs<'a>,
        inodes: &'a InodeTable,
        claims: &'a Claims,
        progress: &'a Progress,
        backend: ReadBackend,
        means: Means<'a>,
        fast_maps: bool,
        schedule: Schedule,
    ) -> Self {
        Scan {
            fs,
            inodes,
            claims,
            inode_prover: InodeProver::new(fs),
            directory_prover: DirectoryProver::new(&fs.geometry, inodes),
            queues: Queues::scheduled(STAGE_NAMES.len(), means.cancel, schedule).with_bytes_max(means.plan.queue_bytes),
            progress,
            backend,
            means,
            nodes_visited: AtomicU64::new(0),
            fast_maps,
            clock: None,
            announced: AtomicU32::new(0),
            schedule,
        }
    }

    /// Measures what each stage costs, if a clock is given.
    pub fn timed(mut self, clock: Option<StageClock>) -> Self {
        self.clock = clock;
        self
    }

    /// Runs all stages. `None` when trees turned out to share nodes: claims and facts are then
    /// worth nothing and the scan has to be run again, from nothing, without `fast_maps`.
    pub fn run(&self) -> Option<ScanOutcome> {
        let Means { plan, budget, .. } = self.means;
        for (index, group) in self.fs.groups.iter().enumerate() {
            if group.scan_inodes == 0 || group.desc.inode_table == 0 {
                self.inodes.publish(index as u32, ChunkFacts::new(0));
            } else {
                self.push(
                    INODE_TABLES,
                    u64::from(group.scan_inodes),
                    Batch::InodeTable(GroupNo(index as u32)),
                );
            }
        }
        let start = |_worker| Worker {
            reader: BatchReader::with_buffers(self.fs.device, self.backend, DEPTH, plan.reader_bytes),
            proof: Proof::default(),
            checksums: Vec::new(),
            directory: DirectoryProof::default(),
            outcome: ScanOutcome::with_room(plan.problems),
            held: Reservation::new(budget),
        };
        let workers = pool::run(plan.workers, &self.queues, start, |worker, stage, batch| {
            self.process(worker, stage, batch)
        });
        let mut outcome = ScanOutcome::with_room(plan.problems);
        for worker in workers {
            // Buffers go, and the lists of one worker at a time, before the next ones are taken over.
            let Worker { outcome: part, .. } = worker;
            outcome.absorb(part);
        }
        outcome.sort();
        let shared = self.nodes_visited.load(Relaxed) > self.fs.geometry.blocks_count;
        (!shared).then_some(outcome)
    }

    fn push(&self, stage: StageIndex, weight: u64, batch: Batch) {
        self.progress.stage(STAGE_NAMES[stage]).expect(weight);
        self.queues.push_large(stage, weight, batch.bytes_held(), batch);
    }

    fn process(&self, worker: &mut Worker<'a>, stage: StageIndex, batch: Batch) {
        if self.means.budget.is_exhausted() {
            // The run is going to be refused.
            return;
        }
        let before = worker.outcome.costs[stage];
        let start = self.clock.map(|clock| ((clock.wall)(), (clock.thread_cpu)()));
        let weight = match batch {
            Batch::InodeTable(group) => self.inode_table(worker, group),
            Batch::Maps(items) => self.maps(worker, &items),
            Batch::Directories(jobs) => self.directories(worker, jobs),
        };
        if let (Some(clock), Some((wall, cpu))) = (self.clock, start) {
            let cpu_ns = (clock.thread_cpu)().saturating_sub(cpu);
            let span = Some((wall, (clock.wall)()));
            worker.outcome.costs[stage].add(StageCost { cpu_ns, span, ..StageCost::default() });
        }
        worker.held.set(worker.outcome.bytes_held());
        let progress = self.progress.stage(STAGE_NAMES[stage]);
        progress.finish(weight);
        progress.read(worker.outcome.costs[stage].bytes - before.bytes);
    }

    /// Tells the kernel about the inode tables that come after that of `group`, so that the device never idles between
    /// two of them.
    fn announce_tables(&self, group: GroupNo) {
        let upto = (group.0 + TABLES_AHEAD).min(self.fs.geometry.group_count.saturating_sub(1));
        let from = self.announced.fetch_max(upto + 1, Relaxed).max(group.0 + 1);
        for ahead in from..=upto {
            let state = &self.fs.groups[ahead as usize];
            if state.scan_inodes > 0 && state.desc.inode_table != 0 {
                let len = u64::from(state.scan_inodes) * u64::from(self.fs.geometry.inode_size);
                self.fs.device.readahead(self.fs.block_offset(BlockNo(state.desc.inode_table)), len);
            }
        }
    }

    fn inode_table(&self, worker: &mut Worker<'a>, group: GroupNo) -> u64 {
        let fs = self.fs;
        self.announce_tables(group);
        let state = fs.groups[group.0 as usize];
        let inode_size = fs.geometry.inode_size as usize;
        let mut work = ChunkWork::new(state.scan_inodes as usize);
        let requests = table_requests(fs, state.desc.inode_table, state.scan_inodes);
        let Worker { reader, proof, checksums, outcome, .. } = worker;
        let cost = &mut outcome.costs[INODE_TABLES];
        cost.items += u64::from(state.scan_inodes);
        cost.requests += requests.len() as u64;
        cost.bytes += requests.iter().map(|request| u64::from(request.len)).sum::<u64>();
        let per_request = TABLE_READ as usize / inode_size;
        let mut unreadable = Vec::new();
        reader.read(&requests, &mut |index, result| match result {
            Ok(bytes) => {
                let first = index * per_request;
                let first_inode = fs.geometry.inode_at(group, first as u32);
                self.inode_prover.checksums(first_inode, bytes, checksums);
                for (at, record) in bytes.chunks_exact(inode_size).enumerate() {
                    let inode = InodeNo(first_inode.0 + at as u32);
                    let verdict = self.inode_prover.prove_with(inode, record, checksums[at], proof);
                    self.take_inode(
                        verdict,
                        (inode, first + at),
                        record,
                        proof,
                        &mut work,
                        &mut outcome.quota,
                    );
                }
                if work.suspects.len() > SUSPECTS_MAX {
                    self.inspect_suspects(outcome, &mut work);
                }
            }
            Err(_) => unreadable.push(index),
        });
        outcome.non_contiguous += work.non_contiguous;
        for index in unreadable {
            self.unreadable_table(group, (index, requests[index]), proof, &mut work, outcome);
        }
        self.inspect_suspects(outcome, &mut work);
        outcome.xattr_references.append(&mut work.xattr_references);
        let ChunkWork { facts, mut walks, mut directories, .. } = work;
        self.inodes.publish(group.0, facts);
        while !walks.is_empty() {
            let items: Vec<WalkItem> = walks.drain(..walks.len().min(self.batch(WALKS_PER_BATCH))).collect();
            let weight = items.iter().map(|item| 1 + item.charged_blocks.min(1 << 20)).sum();
            self.push(MAPS, weight, Batch::Maps(items));
        }
        directories.sort_unstable_by_key(|job| job.first_block);
        self.push_directories(directories);
        u64::from(state.scan_inodes)
    }

    /// Saves what can be read of a piece of an inode table that cannot be read whole.
    fn unreadable_table(
        &self,
        group: GroupNo,
        (index, request): (usize, Request),
        proof: &mut Proof,
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
            outcome.findings.raise(problem.blocks(BlockNo(block), count));
        }
        let first = index * (TABLE_READ as usize / inode_size);
        for (at, record) in bytes.chunks_exact(inode_size).enumerate() {
            let range =
                request.offset + (at * inode_size) as u64..request.offset + ((at + 1) * inode_size) as u64;
            if lost.iter().any(|error| error.offset < range.end && range.start < error.offset + error.len) {
                continue;
            }
            let inode = fs.geometry.inode_at(group, (first + at) as u32);
            let verdict = self.inode_prover.prove(inode, record, proof);
            self.take_inode(verdict, (inode, first + at), record, proof, work, &mut outcome.quota);
        }
    }

    fn take_inode(
        &self,
        verdict: Verdict,
        (inode, index): (InodeNo, usize),
        record: &[u8],
        proof: &Proof,
        work: &mut ChunkWork,
        quota: &mut QuotaUsage,
    ) {
        match verdict {
            Verdict::Free => return,
            Verdict::Suspect => return work.suspects.push((index, inode, record.to_vec())),
            Verdict::Innocent if proof.needs_walk && !self.may_wait(work) => {
                return work.suspects.push((index, inode, record.to_vec()));
            }
            Verdict::Innocent => {}
        }
        work.facts.record(index, inode, InodeFact::new(proof.kind, 0), proof.links);
        if proof.needs_walk {
            // Everything else is taken in when its map has been walked.
            return work.walks.push(WalkItem::new(inode, proof, &RawInode::from_record(record)));
        }
        if proof.xattr_block != 0 {
            work.xattr_references.push((proof.xattr_block, inode));
        }
        if self.fs.counts_quota() {
            let bytes = proof.charged_blocks * u64::from(self.fs.geometry.block_size);
            charge(quota, self.fs, inode, &RawInode::from_record(record), bytes);
        }
        for run in &proof.runs {
            self.claims.claim(run.physical, u64::from(run.count));
        }
        work.non_contiguous +=
            u64::from(is_short(self.fs, proof.charged_blocks) && is_scattered(&proof.runs, &[]));
        if proof.kind == Kind::Directory {
            work.directories.push(DirectoryJob::new(inode, proof.generation, proof.flags, &proof.runs));
        }
    }

    /// Whether the map of one more inode may wait to be walked. If not it is inspected at once, with the same result.
    fn may_wait(&self, work: &ChunkWork) -> bool {
        let room = work.walks.len() < self.means.plan.walks;
        if !room {
            self.means.shortages.walks.store(true, Relaxed);
        }
        room && self.fast_maps
    }

    fn inspect_suspects(&self, outcome: &mut ScanOutcome, work: &mut ChunkWork) {
        for (index, inode, record) in std::mem::take(&mut work.suspects) {
            let mut found = outcome.findings.fresh();
            let inspection = inode::inspect(self.fs, inode, &record, &mut found);
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

    /// Most things in a batch, where there are to be `most`.
    fn batch(&self, most: usize) -> usize {
        self.schedule.batch_max.clamp(1, most)
    }

    fn push_directories(&self, jobs: Vec<DirectoryJob>) {
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

    fn maps(&self, worker: &mut Worker<'a>, items: &[WalkItem]) -> u64 {
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
                charge(&mut worker.outcome.quota, self.fs, item.inode, &item.raw, bytes);
            }
            if innocent && item.kind == Kind::Directory {
                directories.push(DirectoryJob::new(item.inode, item.generation, item.flags, &runs));
            }
        }
        if !suspects.is_empty() && self.nodes_visited.load(Relaxed) <= self.fs.geometry.blocks_count {
            self.walk(worker, &suspects, WalkMode::Withdraw);
            for item in &suspects {
                self.inspect_published(worker, item, &mut directories);
            }
        }
        self.push_directories(directories);
        items.iter().map(|item| 1 + item.charged_blocks.min(1 << 20)).sum()
    }

    /// Inspects an inode whose facts were published before its map was walked.
    fn inspect_published(
        &self,
        worker: &mut Worker<'a>,
        item: &WalkItem,
        directories: &mut Vec<DirectoryJob>,
    ) {
        let outcome = &mut worker.outcome;
        let Some(Ok(record)) = self.fs.read_inode(item.inode) else { return };
        let mut found = outcome.findings.fresh();
        let inspection = inode::inspect(self.fs, item.inode, &record, &mut found);
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

    fn walk(&self, worker: &mut Worker<'a>, items: &[WalkItem], mode: WalkMode) -> Vec<Walked> {
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

    fn directories(&self, worker: &mut Worker<'a>, jobs: Vec<DirectoryJob>) -> u64 {
        let weight = jobs.iter().map(DirectoryJob::weight).sum();
        let (single, several): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.runs.is_empty());
        let blocks: Vec<u64> = single.iter().map(|job| job.first_block).collect();
        let Worker { reader, directory: proof, outcome, .. } = worker;
        let reading = read_blocks(reader, self.fs, &blocks, &mut |index, result| {
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
    fn large_directory(&self, worker: &mut Worker<'a>, job: &DirectoryJob) {
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
    fn proof_bytes(&self, job: &DirectoryJob) -> u64 {
        let blocks: u64 = job.runs.iter().map(|run| u64::from(run.count)).sum();
        blocks * u64::from(self.fs.geometry.block_size) * 2
    }

    /// Counts the entries of a proved directory, or hands it over as a suspect with nothing counted.
    fn conclude(&self, directory: InodeNo, proved: bool, proof: &DirectoryProof, outcome: &mut ScanOutcome) {
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

fn job_of(inode: InodeNo, inspection: &Inspection) -> Option<DirectoryJob> {
    DirectoryJob::of_inspected(inode, &inspection.record, &inspection.runs, inspection.inline)
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

impl Batch {
    /// Memory that it holds while it waits.
    fn bytes_held(&self) -> u64 {
        match self {
            Batch::InodeTable(_) => 0,
            Batch::Maps(items) => size_of_val(items.as_slice()) as u64,
            Batch::Directories(jobs) => {
                let runs: usize = jobs.iter().map(|job| size_of_val(job.runs.as_slice())).sum();
                (size_of_val(jobs.as_slice()) + runs) as u64
            }
        }
    }
}

/// What one worker gathers from one inode table before it is published.
struct ChunkWork {
    facts: ChunkFacts,
    suspects: Vec<(usize, InodeNo, Vec<u8>)>,
    walks: Vec<WalkItem>,
    directories: Vec<DirectoryJob>,
    xattr_references: Vec<(u64, InodeNo)>,
    non_contiguous: u64,
}

impl ChunkWork {
    fn new(inodes: usize) -> Self {
        ChunkWork {
            facts: ChunkFacts::new(inodes),
            suspects: Vec::new(),
            walks: Vec::new(),
            directories: Vec::new(),
            xattr_references: Vec::new(),
            non_contiguous: 0,
        }
    }
}

fn table_requests(fs: &Fs<'_>, table: u64, inodes: u32) -> Vec<Request> {
    let start = fs.block_offset(BlockNo(table));
    let len = u64::from(inodes) * u64::from(fs.geometry.inode_size);
    (0..len)
        .step_by(TABLE_READ as usize)
        .map(|at| Request { offset: start + at, len: (len - at).min(u64::from(TABLE_READ)) as u32 })
        .collect()
}

/// Marks of inodes that belong to the file system itself: no name leads to them.
pub fn is_hidden(fact: InodeFact) -> bool {
    fact.has(mark::RESERVED)
}
