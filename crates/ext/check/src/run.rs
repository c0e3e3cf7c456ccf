//! The order of things in a run (ARCHITECTURE.md, "Innocence and inspection").

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_base::{BlockNo, InodeNo};
use fsmend_device::{Counted, Device, Overlay, ReadBackend, ReadError};
use fsmend_engine::budget::Reservation;
use fsmend_engine::claims::{Claims, SharedBitmap};
use fsmend_engine::inodes::InodeTable;
use fsmend_engine::origins::{Noted, Origin};
use fsmend_engine::pool::{self, Crew, Schedule, Stage};
use fsmend_engine::report::{Division, StageStats, Summary};
use fsmend_engine::trace::{Kind, Moment};
use fsmend_engine::{Allowance, Budget, Clock, Findings, Problem, Progress, Row, Trace};
use fsmend_ext_format::features::ro_compat;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::inode::special;
use fsmend_ext_format::superblock::SUPERBLOCK_OFFSET;

use crate::allocation::StoredTotals;
use crate::bad_blocks::BadBlocks;
use crate::crosscheck::CrossCheck;
pub use crate::estimate::{Estimate, estimate};
use crate::owners::Owner;
use crate::paths::Naming;
use crate::plan::{self, Means, Plan, Shortages};
use crate::quota::QuotaUsage;
use crate::region::Regions;
use crate::repair::{self, Remains, Wishes};
use crate::scan::{STAGES, Scan, ScanOutcome, StageCost, take_census};
use crate::superblock::{self, Settled, SuperblockOptions};
use crate::{
    Fs, Refusal, allocation, bad_blocks, group, inode, journal, mmp, orphan, paths, quota, resize_inode,
    summary,
};

/// Nanoseconds that the comparison of links takes for an inode, used or not, and that of bitmaps for a group, at a first guess.
const LINK_COST: u64 = 2;
const BITMAP_COST: u64 = 12_000;
/// Words of the bitmap of static metadata that one worker claims in one go.
const WORDS_AT_ONCE: u64 = 1 << 14;

/// What the caller wants of a run.
#[derive(Clone)]
pub struct CheckOptions {
    /// Workers, at least one.
    pub threads: usize,
    /// Most memory the run may hold, in bytes: a hard budget. With little the run does some things in a poorer way and says
    /// so ([`CheckReport::degraded`]); with too little it is refused.
    pub memory: u64,
    /// Whether a dirty journal is replayed in memory before the check.
    pub replay: bool,
    /// Which superblock to use.
    pub superblock: SuperblockOptions,
    /// The device that holds an external journal.
    pub external_journal: Option<Arc<dyn Device>>,
    /// Seconds since the epoch.
    pub now: u64,
    /// How to read.
    pub backend: ReadBackend,
    /// Whether every kept problem needs its path, or only the first few of each kind.
    pub want_all_paths: bool,
    /// Set when what is wrong has to be mended as well: [`CheckReport::changes`] then says what has to be written.
    pub repair: Option<Wishes>,
    /// Reads the clocks; checks never do it themselves.
    pub meter: fn() -> Meter,
    /// Clocks that measure what batches cost, by which workers are divided between the stages. Without them, all things
    /// are taken to cost the same, and the costs of the stages that run side by side stay unknown.
    pub stage_clock: Option<Clock>,
    /// How workers are divided between the stages, and in which order work is taken.
    pub schedule: Schedule,
    /// How many of the workers may be at work, when somebody decides that while the run goes on.
    pub allowance: Option<Arc<Allowance>>,
    /// Where what happens when is written down, if that is wanted.
    pub trace: Option<Arc<Trace>>,
}

impl CheckOptions {
    /// Who works out mends.
    fn menders(&self) -> Crew<'_> {
        Crew {
            workers: self.threads,
            allowance: self.allowance.as_deref(),
            clock: self.stage_clock,
            trace: self.trace.as_deref(),
            every_worker: self.schedule.every_worker,
        }
    }
}

/// The clocks of the process at one moment, all counted from any fixed point.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    /// Nanoseconds gone by.
    pub wall_ns: u64,
    /// Nanoseconds of processor time used by all threads.
    pub cpu_ns: u64,
    /// Most memory held so far, in bytes.
    pub peak_memory: u64,
    /// Bytes that the process has had fetched from devices so far, where that is known.
    pub fetched: Option<u64>,
}

/// What a run found.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Every problem.
    pub findings: Findings,
    /// What was checked.
    pub summary: Summary,
    /// What it cost.
    pub stats: Vec<StageStats>,
    /// How the work was divided.
    pub division: Division,
    /// What had to be left out or done in a poorer way to stay within the budget, in sentences.
    pub degraded: Vec<String>,
    /// In a repair: what has to be written to the device of an external journal.
    pub journal_changes: Vec<(u64, Vec<u8>)>,
    /// In a repair: what has to be written, byte offsets and bytes, ascending, without overlaps.
    pub changes: Vec<(u64, Vec<u8>)>,
}

/// Why a check came to no end, with the problems that were found on the way.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub refusal: Refusal,
    /// What led to it.
    pub findings: Box<Findings>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.fmt(f)
    }
}

impl std::error::Error for Refused {}

/// Checks the file system on `device`. When `cancel` becomes true the run ends soon with a refusal whose code is
/// `cancelled`.
pub fn check(
    device: &Arc<dyn Device>,
    options: &CheckOptions,
    progress: &Progress,
    cancel: &AtomicBool,
) -> Result<CheckReport, Refused> {
    look(device, options, Naming::All, progress, cancel)
}

/// [`check`], with paths for what is wanted only.
pub(crate) fn look(
    device: &Arc<dyn Device>,
    options: &CheckOptions,
    naming: Naming,
    progress: &Progress,
    cancel: &AtomicBool,
) -> Result<CheckReport, Refused> {
    let mut findings = Findings::new().gathering(options.repair.is_some());
    check_from(device, (options, naming), progress, cancel, &mut findings)
        .map_err(|refusal| Refused { refusal, findings: Box::new(findings) })
}

/// The whole check; what leads to a refusal stays in `findings`.
fn check_from(
    device: &Arc<dyn Device>,
    (options, naming): (&CheckOptions, Naming),
    progress: &Progress,
    cancel: &AtomicBool,
    findings: &mut Findings,
) -> Result<CheckReport, Refusal> {
    let counted = Arc::new(Counted::new(Arc::clone(device)));
    let mut laps = Laps::new(options, Arc::clone(&counted));
    let mut overlay: Overlay<Arc<dyn Device>> = Overlay::new(counted);
    let budget = Arc::new(Budget::new(options.memory));
    let mut choice = options.superblock;
    if choice.block.is_none() {
        superblock::announce_opening(&overlay);
    }
    let mut settled = superblock::settle(&overlay, choice, options.now, findings)?;
    let was_backup = settled.is_backup();
    if settled.is_corrected || (was_backup && options.repair.is_some()) {
        // From here on what was found stands in the place of the primary.
        if choice.block.is_some() {
            let problem = Problem::new(&superblock::problems::PRIMARY_REPLACED);
            findings.raise(problem.block(BlockNo(settled.block)).stored("another one was asked for"));
        }
        let primary = superblock::repair::as_primary(&settled);
        overlay.write(SUPERBLOCK_OFFSET, &primary).map_err(beyond_device)?;
        choice = SuperblockOptions::default();
        settled = superblock::settle(&overlay, choice, options.now, &mut findings.fresh())?;
    }
    plan::charge_tables(&settled.geometry, device.memory_max(), &budget)?;
    let fs = open(&overlay, settled.clone(), options.now, findings);
    let external = options.external_journal.as_deref();
    let room = budget.free().saturating_sub(fs.metadata.bytes_held());
    let journal = journal::examine(&fs, external, options.replay, room, findings)?;
    let block_size = u64::from(fs.geometry.block_size);
    let changed = !journal.writes.is_empty();
    let forgets_recovery = settled.is_backup() && options.replay && !journal.replayed;
    let mut again = findings.fresh();
    // What was loaded stays as it is, unless the journal brings something new.
    let mut fs = if !changed && !journal.replayed && !forgets_recovery {
        fs
    } else {
        drop(fs);
        lay_over(&mut overlay, block_size, journal.writes)?;
        if journal.replayed {
            // What the journal brings up to date is judged as the journal leaves it.
            let lost = &superblock::problems::PRIMARY_REPLACED;
            use superblock::problems::{DESC_SIZE, FIELD_CORRECTED, IDENTITY_LOST};
            let corrected = [&DESC_SIZE, &FIELD_CORRECTED, &IDENTITY_LOST];
            let kept = |row: &Row| {
                let is_of_journal = row.code.starts_with("ext.journal.");
                is_of_journal || (was_backup && row == lost) || corrected.contains(&row)
            };
            findings.retain(|problem| kept(problem.row));
            settled = superblock::settle(&overlay, choice, options.now, findings)?;
        }
        if forgets_recovery {
            settled.clear_recovery();
        }
        if changed && !journal.replayed {
            // A journal that is dropped or reset changes features.
            settled = superblock::settle(&overlay, choice, options.now, &mut again)?;
        }
        let judged = if journal.replayed { &mut *findings } else { &mut again };
        open(&overlay, settled.clone(), options.now, judged)
    };
    let held = fs.metadata.bytes_held() + (overlay.memory_max() - device.memory_max());
    let room = budget.free().saturating_sub(held);
    let orphans = orphan::released(&fs, (journal.replayed, journal.dropped), room, findings)?;
    let quota_numbers = quota::settled_numbers(&fs, findings);
    let totals = StoredTotals { is_backup: settled.is_backup(), ..StoredTotals::of(&settled.superblock) };
    if !orphans.writes.is_empty() {
        drop(fs);
        lay_over(&mut overlay, block_size, orphans.writes)?;
        settled = superblock::settle(&overlay, choice, options.now, &mut again)?;
        fs = open(&overlay, settled.clone(), options.now, &mut again);
    }
    for superblock in [&mut settled.superblock, &mut fs.superblock] {
        if orphans.file_is_unusable {
            // Whatever that inode is, it is judged as what it says itself.
            superblock.s_orphan_file_inum = 0.into();
        }
        quota::put_numbers(superblock, quota_numbers);
    }
    let bad = bad_blocks::check(&fs, findings);
    bad.apply(&mut fs.groups);
    group::refuse_without_room(&settled, &fs.groups)?;
    laps.lap("opening", fs.groups.len() as u64);
    budget.charge(fs.metadata.bytes_held() + overlay.memory_max() - device.memory_max());
    plan::stop_if_exhausted(&budget)?;
    let (mut report, remains) = check_settled(
        &fs,
        &bad,
        (options, naming),
        (progress, cancel),
        (std::mem::take(findings), orphans.used, totals),
        &budget,
        &mut laps,
    )?;
    report.journal_changes = journal.external_writes;
    report.summary = summary::fill(report.summary, (&fs, &settled), journal.replayed, &report.findings);
    if let (Some(wishes), Some((facts, mut remains))) = (options.repair.clone(), remains) {
        remains.bad_blocks = bad.blocks;
        remains.journal_dropped = journal.dropped;
        if fs.geometry.features.has_ro_compat(ro_compat::SHARED_BLOCKS) && !wishes.unshare {
            return shared(report);
        }
        if let Some(why) = superblock::unknown_to_repairs(fs.geometry.features) {
            return if report.findings.is_damaged() { Err(why) } else { Ok(report) };
        }
        // What is written is held once more when it is handed on.
        remains.room = Some(budget.free() / 2);
        let Some((changes, lost)) = repair::mend(fs, facts, remains, wishes, options.menders()) else {
            budget.charge(budget.free() + 1);
            plan::stop_if_exhausted(&budget)?;
            return Ok(report);
        };
        report.findings.merge(lost);
        report.changes = joined(&overlay, changes);
    }
    Ok(report)
}

/// A file system whose files share blocks on purpose is never written.
fn shared(report: CheckReport) -> Result<CheckReport, Refusal> {
    if !report.findings.is_damaged() {
        return Ok(report);
    }
    Err(Refusal {
        code: "shared-blocks",
        message:
            "The file system is damaged, and its files share blocks (shared_blocks): it can only be read"
                .to_owned(),
        way_out: "Ask for copies of all shared blocks (--unshare), which makes it an ordinary file system"
            .to_owned(),
    })
}

/// What the overlay holds with `changes` over it.
fn joined(overlay: &Overlay<Arc<dyn Device>>, changes: Vec<(u64, Vec<u8>)>) -> Vec<(u64, Vec<u8>)> {
    if overlay.is_unchanged() {
        return changes;
    }
    let mut all: Overlay<&dyn Device> = Overlay::new(overlay.inner());
    let below = overlay.runs().map(|(offset, bytes)| (offset, bytes.to_vec()));
    for (offset, bytes) in below.chain(changes) {
        // Both were laid over the same device, within its length.
        let _ = all.write(offset, bytes);
    }
    all.into_runs().collect()
}

/// Lays blocks over the device.
fn lay_over(
    overlay: &mut Overlay<Arc<dyn Device>>,
    block_size: u64,
    writes: BTreeMap<u64, Box<[u8]>>,
) -> Result<(), Refusal> {
    for (block, contents) in writes {
        overlay.write(block.saturating_mul(block_size), contents.into_vec()).map_err(beyond_device)?;
    }
    Ok(())
}

fn beyond_device(error: ReadError) -> Refusal {
    Refusal {
        code: "journal-beyond-device",
        message: format!("the journal holds a block that the device does not have: {error}"),
        way_out: "Check without it (--no-replay)".to_owned(),
    }
}

/// Loads the groups and marks the static metadata.
pub fn open<'d>(device: &'d dyn Device, settled: Settled, now: u64, findings: &mut Findings) -> Fs<'d> {
    let groups = group::load(device, &settled, findings);
    let metadata = SharedBitmap::new(settled.geometry.blocks_count);
    let has_mmp_place = group::mark_metadata(&settled, &groups, &metadata, findings);
    let Settled { mut superblock, geometry, .. } = settled;
    if !has_mmp_place {
        superblock.s_mmp_block = 0.into();
    }
    let regions = Regions::of(&geometry, &groups);
    Fs {
        device,
        superblock,
        geometry,
        groups,
        metadata,
        now,
        crowd: Default::default(),
        resize_map: Default::default(),
        regions,
    }
}

/// The facts of a run: inodes and claims.
type Facts = (InodeTable, Claims);

fn check_settled(
    fs: &Fs<'_>,
    bad: &BadBlocks,
    (options, naming): (&CheckOptions, Naming),
    (progress, cancel): (&Progress, &AtomicBool),
    (early, released, on_disk): (Findings, QuotaUsage, StoredTotals),
    budget: &Arc<Budget>,
    laps: &mut Laps<'_>,
) -> Result<(CheckReport, Option<(Facts, Remains)>), Refusal> {
    let plan = Plan::new(fs, options, budget)?;
    let behind = Behind::new(fs, progress, plan.workers);
    let shortages = Shortages::default();
    let means = Means {
        plan: &plan,
        allowance: options.allowance.as_deref(),
        clock: options.stage_clock,
        trace: options.trace.as_deref(),
        budget,
        shortages: &shortages,
        cancel,
    };
    let gathers = options.repair.is_some();
    let mut findings = Findings::with_room(plan.problems).gathering(gathers);
    findings.merge(early);
    mmp::check(fs, &mut findings);
    let system = system_owners(fs, bad, &resize_inode::claims(fs));
    let (inodes, claims, outcome) = scan(fs, &system, options, means, progress);
    stop_if(cancel)?;
    plan::stop_if_exhausted(budget)?;
    plan.scan_is_over(budget);
    laps.side_by_side(&outcome.costs);
    let mut tree = Reservation::new(budget);
    tree.set(inodes.directory_count() * plan::TREE_BYTES_PER_DIRECTORY);
    plan::stop_if_exhausted(budget)?;
    let non_contiguous = outcome.non_contiguous;
    let waited = outcome.waited;
    let division = Division {
        mode: options.schedule.mode,
        workers: plan.workers,
        waited,
        // They all wait for the last inode table.
        waited_at_once: waited,
        waiting_max: (plan.pending as u64).saturating_mul(plan.workers as u64),
    };
    let mut cross = CrossCheck {
        fs,
        inodes,
        claims,
        outcome,
        means,
        cancel,
        bad_blocks: &bad.blocks,
        remains: Remains::default(),
        unshares: options.repair.as_ref().is_some_and(|wishes| wishes.unshare),
    };
    let suspects = cross.outcome.suspect_directories.len() as u64;
    let mut edits_held = Reservation::new(budget);
    let held_by = |findings: &Findings| {
        let (list, bytes) = findings.edit_bytes_held();
        list.saturating_add(bytes)
    };
    edits_held.set(held_by(&cross.outcome.findings));
    cross.directories();
    edits_held.set(held_by(&cross.outcome.findings));
    let mut extra = cross.attributes();
    let attributes = extra.len();
    extra.extend(system.iter().copied());
    cross.owners(&extra);
    if gathers {
        let units = extra.iter().take(attributes).map(|(unit, _)| *unit);
        cross.remains.attribute_units = units.filter(|unit| cross.claims.contested().get(*unit)).collect();
    }
    let resize = resize_inode::check(fs, &mut findings);
    let large = resize.is_large.then_some(InodeNo(special::RESIZE)).or(cross.outcome.first_large_file);
    superblock::check_large_files(fs, large, &mut cross.outcome.findings);
    stop_if(cancel)?;
    plan::stop_if_exhausted(budget)?;
    laps.lap("suspects", suspects);
    behind.during("links", u64::from(fs.geometry.inodes_count), || cross.tree_and_links());
    laps.lap("links", u64::from(fs.geometry.inodes_count));
    let crew = means.crew();
    let totals = behind.during("bitmaps", u64::from(fs.geometry.group_count), || {
        allocation::check(fs, &cross.inodes, &cross.claims, crew, cancel, &mut cross.outcome.findings)
    });
    allocation::check_totals(fs, &totals, on_disk, &mut cross.outcome.findings);
    stop_if(cancel)?;
    laps.lap("bitmaps", u64::from(fs.geometry.group_count));
    findings.merge(std::mem::take(&mut cross.outcome.findings));
    cross.remains.resize_is_wrong = resize.is_wrong;
    cross.remains.rebuilds = std::mem::take(&mut cross.outcome.rebuilds);
    cross.remains.rebuilds.sort_unstable();
    let mut usage = std::mem::take(&mut cross.outcome.quota);
    usage.merge(released);
    quota::check(fs, &usage, &mut findings);
    let refugees = findings.counts().get(inode::problems::ORPHAN_REMAINS.code).copied().unwrap_or(0);
    orphan::refugees(refugees, &mut findings);
    let mut degraded = plan.degraded.clone();
    degraded.extend(shortages.sentences(&plan));
    degraded.extend(plan::fewer_kept(findings.kept_per_row(), budget));
    let edits = findings.take_edits();
    let is_damaged = findings.is_damaged() || !edits.is_empty();
    let findings = paths::name_objects(&cross, findings, (naming, options.want_all_paths), &mut degraded);
    let findings = paths::name_nameless(&cross, findings, options.want_all_paths || gathers, &mut degraded);
    laps.lap("names", findings.counts().values().sum());
    let summary = summary::counts(fs, &cross.claims, &totals, non_contiguous);
    let CrossCheck { inodes, claims, mut remains, .. } = cross;
    remains.edits = edits;
    remains.features = superblock::repair::missing_features(&findings);
    remains.system_owners = system;
    remains.quota = usage;
    let improves = options.repair.as_ref().is_some_and(|wishes| wishes.improvements.any());
    remains.is_damaged = is_damaged || improves;
    let remains = (gathers && (improves || !findings.is_empty())).then_some(((inodes, claims), remains));
    Ok((
        CheckReport { findings, summary, stats: laps.take(), division, degraded, ..CheckReport::default() },
        remains,
    ))
}

/// What comes behind the scan, as far as progress knows it.
struct Behind<'a>(&'a Progress);

impl<'a> Behind<'a> {
    /// Announces it.
    fn new(fs: &Fs<'_>, progress: &'a Progress, workers: usize) -> Self {
        // The stages of the scan come first.
        for Stage { name, .. } in STAGES {
            progress.stage(name);
        }
        let links = progress.stage("links");
        links.guess_cost(LINK_COST, workers);
        links.guess_bytes(0);
        links.expect(fs.geometry.inodes_count.into());
        let bitmaps = progress.stage("bitmaps");
        bitmaps.guess_cost(BITMAP_COST, workers);
        bitmaps.guess_bytes(2 * u64::from(fs.geometry.block_size));
        bitmaps.expect(fs.geometry.group_count.into());
        Behind(progress)
    }

    /// Does `work` of one stage, and takes it off.
    fn during<T>(&self, stage: &'static str, amount: u64, work: impl FnOnce() -> T) -> T {
        let result = work();
        self.0.stage(stage).finish(amount);
        result
    }
}

/// The parallel stages; once more without fast maps if trees turn out to share nodes.
fn scan(
    fs: &Fs<'_>,
    system: &BTreeSet<(u64, Owner)>,
    options: &CheckOptions,
    means: Means<'_>,
    progress: &Progress,
) -> (InodeTable, Claims, ScanOutcome) {
    let Geometry { inodes_count, inodes_per_group, .. } = fs.geometry;
    for fast_maps in [true, false] {
        let inodes = InodeTable::within(means.budget, inodes_count, inodes_per_group);
        let claims = means.claims(fs);
        claim_static(fs, &claims, means);
        for (unit, _) in system {
            claims.claim(*unit, 1, Origin::KNOWN);
        }
        let how = (options.schedule, fast_maps);
        let outcome = Scan::new(fs, &inodes, &claims, progress, means.plan.backend, means, how)
            .mending(options.repair.is_some())
            .run();
        if let Some(outcome) = outcome {
            return (inodes, claims, outcome);
        }
        take_census(fs, means.cancel);
    }
    let inodes = InodeTable::new(inodes_count, inodes_per_group);
    (inodes, Claims::new(fs.geometry.clusters_count()), ScanOutcome::default())
}

/// The units that inodes own which the scan does not walk: the lists of bad and of reserved blocks. What lies in
/// static metadata is claimed with that.
fn system_owners(fs: &Fs<'_>, bad: &BadBlocks, resize: &[u64]) -> BTreeSet<(u64, Owner)> {
    let unit_blocks = u64::from(fs.geometry.cluster_blocks);
    let bad_blocks = bad.blocks.iter().chain(&bad.map_blocks).map(|block| (block, special::BAD_BLOCKS));
    let reserved = resize.iter().map(|block| (block, special::RESIZE));
    bad_blocks
        .chain(reserved)
        .map(|(block, inode)| (fs.geometry.cluster_of(*block), Owner::Inode(InodeNo(inode))))
        .filter(|(unit, _)| !fs.metadata.any(unit * unit_blocks, unit_blocks))
        .collect()
}

/// Claims the clusters that hold static metadata. With clusters larger than blocks, several of its blocks may lie in
/// one cluster, which is legal: each is claimed once.
pub(crate) fn claim_static(fs: &Fs<'_>, claims: &Claims, means: Means<'_>) {
    let words = fs.geometry.blocks_count.div_ceil(64);
    if fs.geometry.cluster_blocks == 1 {
        let claim_part = |(): &mut (), starts: &[u64]| {
            let indices = starts.iter().flat_map(|start| *start..(start + WORDS_AT_ONCE).min(words));
            for (index, mask) in indices.map(|index| (index, fs.metadata.load_word(index))) {
                if mask != 0 {
                    claims.claim_word(index, mask, Origin::KNOWN, &mut Noted::default());
                }
            }
        };
        let starts: Vec<u64> = (0..words).step_by(WORDS_AT_ONCE as usize).collect();
        let stage = &[Stage { name: "static metadata", pass: 0 }];
        pool::run_slices(means.crew(), stage, &starts, 1, &AtomicBool::new(false), |_| (), claim_part);
        return;
    }
    let mut last = None;
    for block in fs.metadata.ones() {
        let cluster = fs.geometry.cluster_of(block);
        if last != Some(cluster) {
            claims.claim(cluster, 1, Origin::KNOWN);
            last = Some(cluster);
        }
    }
}

fn stop_if(cancel: &AtomicBool) -> Result<(), Refusal> {
    if !cancel.load(Relaxed) {
        return Ok(());
    }
    Err(Refusal {
        code: "cancelled",
        message: "The check was stopped before it was through".to_owned(),
        way_out: "Run it again".to_owned(),
    })
}

/// Statistics of consecutive stages.
struct Laps<'t> {
    trace: Option<&'t Trace>,
    /// When the current phase began, if a trace is wanted.
    phase: Option<Moment>,
    meter: fn() -> Meter,
    device: Arc<Counted<Arc<dyn Device>>>,
    last: Meter,
    last_read: (u64, u64),
    stats: Vec<StageStats>,
}

impl<'t> Laps<'t> {
    fn new(options: &'t CheckOptions, device: Arc<Counted<Arc<dyn Device>>>) -> Self {
        let trace = options.trace.as_deref();
        let (meter, phase) = (options.meter, trace.map(Trace::now));
        Laps { trace, phase, meter, device, last: meter(), last_read: (0, 0), stats: Vec::new() }
    }

    /// Writes down the phase that ends, and begins the next one.
    fn note(&mut self, name: &'static str) {
        if let (Some(trace), Some(start)) = (self.trace, self.phase) {
            trace.end(Kind::Phase, name, 0, start);
            self.phase = Some(trace.now());
        }
    }

    /// Ends a stage that ran by itself.
    fn lap(&mut self, name: &'static str, items: u64) {
        self.note(name);
        let (now, (bytes, requests)) = ((self.meter)(), self.device.total());
        self.stats.push(StageStats {
            name,
            wall_ns: now.wall_ns.saturating_sub(self.last.wall_ns),
            cpu_ns: now.cpu_ns.saturating_sub(self.last.cpu_ns),
            peak_memory: now.peak_memory,
            bytes_read: bytes.saturating_sub(self.last_read.0),
            requests: requests.saturating_sub(self.last_read.1),
            items,
        });
        (self.last, self.last_read) = (now, (bytes, requests));
    }

    /// Ends stages that ran side by side, each with its own account.
    fn side_by_side(&mut self, costs: &[StageCost]) {
        self.note("scan");
        let now = (self.meter)();
        self.stats.extend(STAGES.iter().zip(costs).map(|(stage, cost)| StageStats {
            name: stage.name,
            wall_ns: cost.span.map_or(0, |(start, end)| end.saturating_sub(start)),
            cpu_ns: cost.cpu_ns,
            peak_memory: now.peak_memory,
            bytes_read: cost.bytes,
            requests: cost.requests,
            items: cost.items,
        }));
        (self.last, self.last_read) = (now, self.device.total());
    }

    fn take(&mut self) -> Vec<StageStats> {
        std::mem::take(&mut self.stats)
    }
}

/// Whether `inode` is one that a user could name.
pub fn is_user_inode(fs: &Fs<'_>, inode: InodeNo) -> bool {
    inode.0 >= fs.geometry.first_inode && inode.0 <= fs.geometry.inodes_count
}
