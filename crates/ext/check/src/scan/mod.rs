// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parallel stages: inode tables, maps, directories. Fast paths first, inspection for what they leave.

mod ahead;
mod directories;
pub(crate) mod foresight;
mod kept;
mod maps;
mod outcome;
pub(crate) mod pace;
pub(crate) mod problems;
mod regions;
mod sampling;
mod sweep;
mod tables;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use fsmend_base::{GroupNo, InodeNo, width};
use fsmend_device::{BatchReader, ReadBackend};
use fsmend_engine::Progress;
use fsmend_engine::budget::Reservation;
use fsmend_engine::claims::{Claims, SharedBitmap};
use fsmend_engine::inodes::{ChunkFacts, InodeTable};
use fsmend_engine::laps::{Settled, StageCost};
use fsmend_engine::pool::{self, Queues, Schedule, Stage, StageIndex};
use fsmend_engine::scan::certification::{DeferredCertification, DirectorySummary};
use fsmend_engine::shared_maps::{MapWalkLimiter, is_too_many};
use fsmend_engine::trace::Work;
use fsmend_ext_format::features::RoCompat;

use crate::Fs;
use crate::fast::directory::DirectoryFastPath;
use crate::fast::inode::{InodeFastPath, InodeSummary};
use crate::fast::jobs::DirectoryJob;
use crate::fast::map::{WalkItem, WalkMode};
use crate::inode::{self, Inspection};
use crate::reading::{DEPTH, Window};
use fsmend_engine::scan::memory_plan::RunContext;
use pace::Pace;

pub(crate) use maps::take_wave;
#[cfg(test)]
pub(crate) use outcome::claim_inspection;
pub use outcome::{ScanOutcome, charge};

const INODE_TABLES: StageIndex = 0;
const MAPS: StageIndex = 1;
const DIRECTORIES: StageIndex = 2;
/// The stages, and to which of the paper's two passes they belong.
pub const STAGES: [Stage; 3] = [
    Stage { name: "inode tables", pass: 0 },
    Stage { name: "block maps", pass: 0 },
    Stage { name: "directories", pass: 1 },
];

/// What waits for the last inode table.
const CERTIFICATION: [Stage; 1] = [Stage { name: "delayed certification", pass: 1 }];
/// One more worker for so many certifications that waited: to start one takes about as long as to do them.
const CERTIFICATIONS_PER_WORKER: usize = 4096;

enum Batch {
    InodeTable(GroupNo),
    Maps(Vec<WalkItem>, WalkMode),
    /// Files of one sweep.
    Sweep(Vec<WalkItem>),
    PartOfMaps(maps::Part),
    Directories(Vec<DirectoryJob>),
}

/// The stages of one run.
pub struct Scan<'a> {
    fs: &'a Fs<'a>,
    inodes: &'a InodeTable,
    claims: &'a Claims,
    inode_fast_path: InodeFastPath<'a>,
    directory_fast_path: DirectoryFastPath<'a>,
    /// What waits; on a rext3 there is a second round, for what has to wait until all regions have been read.
    queues: [Queues<'a, Batch>; 2],
    is_second_round: AtomicBool,
    progress: &'a Progress,
    backend: ReadBackend,
    run_context: RunContext<'a>,
    /// Map nodes visited by the fast path. More of them than blocks in the file system means that trees share nodes.
    nodes_visited: AtomicU64,
    /// The same for inspections.
    nodes_inspected: AtomicU64,
    /// Directories that descriptors count, those that inode tables have led to, and their weight.
    directories_counted: AtomicU64,
    directories_found: AtomicU64,
    weight_found: AtomicU64,
    fast_maps: bool,
    /// The first group whose inode table has no read-ahead requested yet.
    announced: AtomicU32,
    /// The first group whose bitmaps have no read-ahead requested yet.
    announced_bitmaps: AtomicUsize,
    /// The first group whose region has no read-ahead requested yet.
    announced_regions: AtomicU32,
    /// Inode tables in all, those that were begun, and those that are done.
    tables: AtomicU64,
    tables_begun: AtomicU32,
    tables_done: AtomicU64,
    /// What waits for the next sweep, where a device has to be waited for.
    gathered: Mutex<sweep::Gathered>,
    /// The map blocks that will be read next.
    ahead: Mutex<maps::Ahead>,
    schedule: Schedule,
    /// Whether inspections say what they mend.
    mends: bool,
    /// What is looked at, when it is not all.
    sample: Option<Sample<'a>>,
}

/// A part of a file system that is looked at for an estimate.
#[derive(Clone, Copy)]
pub struct Sample<'a> {
    /// The groups whose inodes are looked at, ascending.
    pub groups: &'a [u32],
    /// How many times as much all of them hold.
    pub times: f64,
    /// When it began, by the clock of the stages, and when it is large enough.
    pub started: u64,
    /// The end of its time, unless the device is slow.
    pub end: u64,
    /// The part of the time that is foretold which a sample of a slow device may take, and the longest time in nanoseconds.
    pub share: (f64, f64),
    /// How fast the device is, as far as that is known.
    pub pace: &'a Pace,
}

struct Worker<'a> {
    reader: BatchReader<'a>,
    /// How far it reads ahead among directory blocks.
    window: Window,
    summary: InodeSummary,
    checksums: Vec<bool>,
    directory: DirectorySummary,
    jobs: directories::JobLists,
    outcome: ScanOutcome,
    held: Reservation<'a>,
    /// Blocks of maps that a sample had no time for.
    cut: u64,
    /// Whether it has done a batch of each stage.
    has_begun: [bool; STAGES.len()],
}

/// Nodes of maps that are visited at most for an estimate; the others are reckoned by how much they map.
const NODES_TRIED_MAX: u64 = 4096;

impl<'a> Scan<'a> {
    /// Prepares the stages. Without `fast_maps`, maps outside the inode are all left to inspection.
    pub fn new(
        fs: &'a Fs<'a>,
        inodes: &'a InodeTable,
        claims: &'a Claims,
        progress: &'a Progress,
        backend: ReadBackend,
        run_context: RunContext<'a>,
        (schedule, fast_maps): (Schedule, bool),
    ) -> Self {
        Scan {
            fs,
            inodes,
            claims,
            inode_fast_path: InodeFastPath::new(fs),
            directory_fast_path: DirectoryFastPath::new(&fs.geometry, inodes),
            queues: [(); 2].map(|()| {
                Queues::scheduled(&STAGES, run_context.cancel, schedule, run_context.plan.queue_bytes)
            }),
            is_second_round: AtomicBool::new(false),
            progress,
            backend,
            run_context,
            nodes_visited: AtomicU64::new(0),
            nodes_inspected: AtomicU64::new(0),
            directories_counted: AtomicU64::new(0),
            directories_found: AtomicU64::new(0),
            weight_found: AtomicU64::new(0),
            fast_maps,
            announced: AtomicU32::new(0),
            announced_bitmaps: AtomicUsize::new(0),
            announced_regions: AtomicU32::new(0),
            tables: AtomicU64::new(0),
            tables_begun: AtomicU32::new(0),
            tables_done: AtomicU64::new(0),
            gathered: Mutex::default(),
            ahead: Mutex::default(),
            schedule,
            mends: false,
            sample: None,
        }
    }

    /// Looks at the inodes of some groups only, and what they lead to: for an estimate. What other groups hold stays unknown.
    /// When the time of the sample is over, each stage does no more than the first of its batches.
    pub fn sampling(mut self, sample: Sample<'a>) -> Self {
        self.sample = Some(sample);
        self
    }

    /// Gathers what inspections mend, if `mends`.
    pub fn mending(mut self, mends: bool) -> Self {
        self.mends = mends;
        self
    }

    /// Runs all stages. `None` when files turned out to share more than there is: claims and facts are then
    /// worth nothing and the scan has to be run again, from nothing, without `fast_maps` and after a [`limit_maps`].
    pub fn run(&self) -> Option<ScanOutcome> {
        let RunContext { plan, budget, .. } = self.run_context;
        let all: Vec<u32> = (0..width::len_u32(self.fs.groups.len())).collect();
        let groups = self.sample.map_or(all.as_slice(), |sample| sample.groups);
        self.foresee(groups);
        for index in groups {
            let group = &self.fs.groups[*index as usize];
            if group.scan_inodes == 0 || group.desc.inode_table == 0 {
                self.inodes.publish(*index, ChunkFacts::new(0));
            } else {
                self.tables.fetch_add(1, Relaxed);
                self.push(INODE_TABLES, u64::from(group.scan_inodes), Batch::InodeTable(GroupNo(*index)));
            }
        }
        let start = |_worker| Worker {
            reader: BatchReader::with_buffers(self.fs.device, self.backend, DEPTH, plan.reader_bytes),
            window: Window::default(),
            summary: InodeSummary::default(),
            checksums: Vec::new(),
            directory: DirectorySummary::default(),
            jobs: directories::JobLists::default(),
            outcome: ScanOutcome::with_room(plan.problems, self.mends),
            held: Reservation::new(budget),
            cut: 0,
            has_begun: [false; STAGES.len()],
        };
        let pool = self.run_context.pool();
        let process = |worker: &mut Worker<'a>, stage, batch| self.process(worker, stage, batch);
        let mut workers = pool::run(pool, self.queues(), start, process);
        if self.by_region() {
            self.is_second_round.store(true, Relaxed);
            pool.merge("regions", || self.judge_regions(&mut workers));
            workers.extend(pool::run(pool, self.queues(), start, process));
        }
        self.all_is_known();
        if self.sample.is_none() {
            let waited: usize = workers.iter().map(|worker| worker.outcome.pending.len()).sum();
            let pool = pool.for_work(1 + waited / CERTIFICATIONS_PER_WORKER);
            pool::each(pool, &CERTIFICATION, &mut workers, |worker| self.certify(&mut worker.outcome));
        }
        let outcome = pool.merge("scan", || self.merged(workers));
        (!self.is_crowded()).then_some(outcome)
    }

    fn merged(&self, workers: Vec<Worker<'a>>) -> ScanOutcome {
        let mut outcome = ScanOutcome::with_room(self.run_context.plan.problems, self.mends);
        for worker in workers {
            // Buffers go, and the lists of one worker at a time, before the next ones are taken over.
            let Worker { outcome: part, .. } = worker;
            outcome.absorb(part);
        }
        outcome.sort();
        outcome
    }

    /// Certifies what had to wait, now that all facts are there. In which order does not matter (see
    /// [`deferred certification`](fsmend_engine::scan::certification)).
    fn certify(&self, outcome: &mut ScanOutcome) {
        let deferred = DeferredCertification::new(&self.directory_fast_path.certifier);
        outcome.waited += outcome.pending.len() as u64;
        outcome.guilty = deferred.certify_pending(std::mem::take(&mut outcome.pending));
    }

    /// Whether more blocks of maps were walked than there are, or blocks that were claimed before were claimed more often than there are blocks. Once a
    /// sum is too large nothing counts any more. What was withdrawn may count, or not, as it comes: the limiter decides in the end.
    fn is_crowded(&self) -> bool {
        let too_many = |count: &AtomicU64| count.load(Relaxed) > self.fs.geometry.blocks_count;
        self.fast_maps
            && (too_many(&self.nodes_visited)
                || too_many(&self.nodes_inspected)
                || !shares_blocks(self.fs)
                    && is_too_many(self.fs.geometry.clusters_count(), self.claims.repeated()))
    }

    fn count_inspected(&self, inspection: &Inspection) {
        self.nodes_inspected.fetch_add(inspection.map_reads, Relaxed);
    }

    fn push(&self, stage: StageIndex, weight: u64, batch: Batch) {
        self.progress.stage(STAGES[stage].name).expect(weight);
        self.push_expected(stage, weight, batch);
    }

    /// The same for work that progress knows of.
    fn push_expected(&self, stage: StageIndex, weight: u64, batch: Batch) {
        self.queues().push_large(stage, weight, batch.bytes_held(), batch);
    }

    fn queues(&self) -> &Queues<'a, Batch> {
        let [first, second] = &self.queues;
        if self.is_second_round.load(Relaxed) { second } else { first }
    }

    /// Whether there is no time to try more of a stage.
    fn is_sampled(&self, stage: StageIndex) -> bool {
        self.sample.is_some()
            && self.progress.stage(STAGES[stage].name).done() > 0
            && self.time_left().is_some_and(|left| left == 0)
    }

    fn process(&self, worker: &mut Worker<'a>, stage: StageIndex, batch: Batch) -> Work {
        if self.run_context.budget.is_exhausted() || self.sample.is_none() && self.is_crowded() {
            // The run is going to be refused, or the scan to begin again.
            return Work::default();
        }
        if self.sample.is_some() && stage == MAPS && self.nodes_visited.load(Relaxed) >= NODES_TRIED_MAX {
            return Work::default();
        }
        if self.is_sampled(stage) {
            if stage == INODE_TABLES {
                self.table_is_done();
            }
            return Work::default();
        }
        let before = worker.outcome.costs[stage];
        let start = self.run_context.clock.map(|clock| ((clock.wall)(), (clock.thread_cpu)()));
        let begun = self.progress.now();
        let weight = match batch {
            Batch::InodeTable(group) => self.inode_table(worker, group),
            Batch::Maps(items, mode) => self.maps(worker, items, mode),
            Batch::Sweep(items) => self.maps_in_a_sweep(worker, items),
            Batch::PartOfMaps(part) => self.part_of_maps(worker, part),
            Batch::Directories(jobs) => self.directories(worker, jobs),
        };
        if let (Some(clock), Some((wall, cpu))) = (self.run_context.clock, start) {
            let cpu_ns = (clock.thread_cpu)().saturating_sub(cpu);
            let end = (clock.wall)();
            let settled = match worker.has_begun[stage] {
                true => Settled { units: weight, wall_ns: end.saturating_sub(wall), cpu_ns },
                false => Settled::default(),
            };
            worker.has_begun[stage] = true;
            self.progress.stage(STAGES[stage].name).compute(cpu_ns);
            worker.outcome.costs[stage].add(StageCost {
                cpu_ns,
                span: Some((wall, end)),
                settled,
                ..StageCost::default()
            });
        }
        worker.held.set(worker.outcome.bytes_held());
        let after = worker.outcome.costs[stage];
        let progress = self.progress.stage(STAGES[stage].name);
        progress.finish(weight);
        if let (Some(begun), Some(ended)) = (begun, self.progress.now()) {
            progress.spend(ended.saturating_sub(begun));
        }
        if stage == INODE_TABLES {
            self.foresee_more();
        }
        progress.read(after.bytes - before.bytes);
        Work {
            units: weight,
            items: after.items - before.items,
            bytes: after.bytes - before.bytes,
            requests: after.requests - before.requests,
        }
    }
}

/// What decides which maps of `fs` are given up. With clusters larger than blocks, static metadata may lie in those of files.
pub(crate) fn limiter_of(fs: &Fs<'_>) -> MapWalkLimiter {
    let geometry = &fs.geometry;
    let (walked, claimed) =
        (SharedBitmap::new(geometry.blocks_count), SharedBitmap::new(geometry.clusters_count()));
    if geometry.cluster_blocks == 1 {
        for (word, mask) in fs.metadata.words_set(0..geometry.blocks_count.div_ceil(64)) {
            claimed.set_word(word, mask);
        }
    }
    MapWalkLimiter::new(walked, claimed, geometry.blocks_count).sharing(shares_blocks(fs))
}

/// Whether files share blocks on purpose.
fn shares_blocks(fs: &Fs<'_>) -> bool {
    fs.geometry.features.has_ro_compat(RoCompat::SHARED_BLOCKS)
}

/// Decides which maps are given up because too many share their blocks, in the order of inodes.
pub fn limit_maps(fs: &Fs<'_>, cancel: &AtomicBool) {
    let mut limiter = limiter_of(fs);
    for (group, state) in fs.groups.iter().enumerate() {
        for index in 0..state.scan_inodes {
            if cancel.load(Relaxed) {
                return;
            }
            let inode = fs.geometry.inode_at(GroupNo(width::len_u32(group)), index);
            if let Some(Ok(record)) = fs.read_inode(inode) {
                inode::limit_walk(&mut limiter, fs, inode, &record);
            }
        }
    }
}

fn job_of(inode: InodeNo, inspection: &Inspection) -> Option<DirectoryJob> {
    DirectoryJob::of_inspected(inode, &inspection.record, &inspection.runs, inspection.inline)
}

impl Batch {
    /// Memory that it holds while it waits.
    fn bytes_held(&self) -> u64 {
        match self {
            Batch::InodeTable(_) => 0,
            Batch::Maps(items, _) | Batch::Sweep(items) => size_of_val(items.as_slice()) as u64,
            Batch::PartOfMaps(part) => part.bytes_held(),
            Batch::Directories(jobs) => {
                let runs: usize = jobs.iter().map(|job| job.bytes_beside()).sum();
                (size_of_val(jobs.as_slice()) + runs) as u64
            }
        }
    }
}
