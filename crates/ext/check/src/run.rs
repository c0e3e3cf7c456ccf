// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of things in a run (ARCHITECTURE.md, "Fast path and inspection").

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_device::{Counted, Device, Overlay, ReadError};
use fsmend_engine::budget::Reservation;
use fsmend_engine::claims::{Claims, SharedBitmap};
use fsmend_engine::inodes::InodeTable;
use fsmend_engine::laps::Laps;
pub use fsmend_engine::options::{CheckOptions, Meter};
use fsmend_engine::origins::{Noted, Origin};
use fsmend_engine::pool::{self, Stage};
pub use fsmend_engine::refusal::Refused;
use fsmend_engine::repair::Changes;
pub use fsmend_engine::report::CheckReport;
use fsmend_engine::report::{Division, Naming};
use fsmend_engine::{Budget, Findings, Problem, Progress, Row};
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::inode::special;
use fsmend_ext_format::superblock::SUPERBLOCK_OFFSET;

use crate::allocation::{StoredTotals, Totals};
use crate::bad_blocks::BadBlocks;
use crate::context::Layout;
use crate::crosscheck::CrossCheck;
pub use crate::estimate::{Estimate, estimate};
use crate::expected;
use crate::owners::Owner;
use crate::passes::PASSES;
use crate::quota::QuotaUsage;
use crate::region::Regions;
use crate::repair::RepairInput;
use crate::resize_inode::ResizeInode;
use crate::scan::{STAGES, Scan, ScanOutcome, limit_maps};
use crate::superblock::{self, Settled, SuperblockOptions};
use crate::{Fs, Refusal, bad_blocks, group, journal, orphan, paths, quota, resize_inode, summary};
use fsmend_engine::names::report::name_objects;
use fsmend_engine::scan::memory_plan::{self, MemoryPlan, RunContext, Shortages};

/// The passes behind the scan that take long enough to be shown.
const LINKS: &str = "links";
const BITMAPS: &str = "bitmaps";
/// Nanoseconds that the comparison of links takes for an inode, used or not, and that of bitmaps for a group, at a first guess.
const LINK_COST: u64 = 2;
const BITMAP_COST: u64 = 12_000;
/// Words of the bitmap of static metadata that one worker claims in one go.
const WORDS_AT_ONCE: u64 = 1 << 14;

/// Checks the file system on `device`. When `cancel` becomes true the run ends soon with a refusal whose code is
/// `cancelled`.
pub fn check(
    device: &Arc<dyn Device>,
    options: &CheckOptions,
    progress: &Progress,
    cancel: &AtomicBool,
) -> Result<CheckReport, Refused> {
    Ok(check_for_repair(device, options, Naming::All, (progress, cancel))?.0)
}

/// [`check`], with paths for what is wanted only, and with the facts that a repair needs where one is wanted.
pub fn check_for_repair(
    device: &Arc<dyn Device>,
    options: &CheckOptions,
    naming: Naming,
    watch: (&Progress, &AtomicBool),
) -> Result<(CheckReport, Option<Facts>), Refused> {
    let mut findings = Findings::new().gathering(options.repair.is_some());
    check_from(device, (options, naming), watch, &mut findings)
        .map_err(|refusal| Refused { refusal, findings: Box::new(findings) })
}

/// The whole check; what leads to a refusal stays in `findings`.
fn check_from(
    device: &Arc<dyn Device>,
    (options, naming): (&CheckOptions, Naming),
    watch: (&Progress, &AtomicBool),
    findings: &mut Findings,
) -> Result<(CheckReport, Option<Facts>), Refusal> {
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
    expected::charge_groups(&settled.geometry, device.memory_max(), &budget)?;
    let fs = open(&overlay, settled.clone(), options.now, findings);
    let external = options.external_journal.as_deref();
    let room = budget.free().saturating_sub(fs.metadata.bytes_held());
    // An empty journal behind this flag is what a crash leaves between a replay and the first transaction after it.
    let was_open = !settled.is_backup() && fs.geometry.features.has_incompat(Incompat::RECOVER);
    let mut journal = journal::examine(&fs, external, options.replay, room, findings)?;
    let changed = !journal.changes.is_empty();
    let forgets_recovery = settled.is_backup() && options.replay && !journal.replayed;
    let mut again = findings.fresh();
    // What was loaded stays as it is, unless the journal brings something new.
    let mut fs = if !changed && !journal.replayed && !forgets_recovery {
        fs
    } else {
        drop(fs);
        lay_over(&mut overlay, std::mem::take(&mut journal.changes))?;
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
    let orphans = orphan::released(&fs, journal.state(was_open), room, findings)?;
    let quota_numbers = quota::settled_numbers(&fs, findings);
    let totals = StoredTotals { is_backup: settled.is_backup(), ..StoredTotals::of(&settled.superblock) };
    if !orphans.changes.is_empty() {
        drop(fs);
        lay_over(&mut overlay, orphans.changes)?;
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
    memory_plan::stop_if_exhausted(&budget)?;
    let (mut report, cross) = check_settled(
        &fs,
        &bad,
        (options, naming),
        watch,
        (std::mem::take(findings), orphans.used, totals),
        &budget,
        &mut laps,
    )?;
    report.summary = summary::fill(report.summary, (&fs, &settled), journal.replayed, &report.findings);
    if options.repair.is_none() {
        return Ok((report, None));
    }
    let cross = cross.map(|(inodes, claims, mut repair_input)| {
        repair_input.bad_blocks = bad.blocks;
        repair_input.journal_dropped = journal.dropped;
        (inodes, claims, repair_input)
    });
    let layout = fs.into_layout();
    let facts = Facts { overlay, layout, cross, journal_changes: journal.external_changes, budget };
    Ok((report, Some(facts)))
}

/// Lays what a replay has changed over the device.
pub(crate) fn lay_over(overlay: &mut Overlay<Arc<dyn Device>>, changes: Changes) -> Result<(), Refusal> {
    for (offset, bytes) in changes {
        overlay.write(offset, bytes).map_err(beyond_device)?;
    }
    Ok(())
}

fn beyond_device(error: ReadError) -> Refusal {
    Refusal {
        code: "journal-beyond-device",
        message: format!("the journal holds a block that the device does not have: {error}"),
        hint: "Check without the journal (--no-replay)".to_owned(),
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
    let regions = Regions::of(&geometry, groups.iter().map(|group| group.desc.inode_table));
    Fs {
        device,
        superblock,
        geometry,
        groups,
        metadata,
        now,
        shared_maps: Default::default(),
        resize_map: Default::default(),
        regions,
        homes: Default::default(),
    }
}

/// Inodes, claims, and what is wrong with them.
type Cross = (InodeTable, Claims, RepairInput);

/// What a check leaves behind for the repair of the same round.
pub struct Facts {
    /// The device as the replay of the journal and the release of orphans leave it.
    pub(crate) overlay: Overlay<Arc<dyn Device>>,
    /// The file system on it.
    pub(crate) layout: Layout,
    /// Inodes, claims, and what is wrong; `None` when there is nothing to repair.
    pub(crate) cross: Option<Cross>,
    /// What the replay changes on the device of an external journal.
    pub(crate) journal_changes: Changes,
    /// What the run may still hold.
    pub(crate) budget: Arc<Budget>,
}

fn check_settled(
    fs: &Fs<'_>,
    bad: &BadBlocks,
    (options, naming): (&CheckOptions, Naming),
    (progress, cancel): (&Progress, &AtomicBool),
    (early, released, on_disk): (Findings, QuotaUsage, StoredTotals),
    budget: &Arc<Budget>,
    laps: &mut Laps<'_>,
) -> Result<(CheckReport, Option<Cross>), Refusal> {
    let plan = MemoryPlan::new(&expected::expected(fs), options, budget)?;
    let behind = Behind::new(fs, progress, plan.workers);
    let shortages = Shortages::default();
    let run_context = RunContext::new(options, (&plan, &shortages), budget, cancel);
    let gathers = options.repair.is_some();
    let mut findings = Findings::with_room(plan.problems).gathering(gathers);
    findings.merge(early);
    let system = system_owners(fs, bad, &resize_inode::claims(fs));
    let (inodes, claims, outcome) = scan(fs, &system, options, run_context, progress);
    stop_if(cancel)?;
    memory_plan::stop_if_exhausted(budget)?;
    plan.scan_is_over(budget);
    laps.side_by_side(&STAGES, &outcome.costs);
    let mut tree = Reservation::new(budget);
    tree.set(inodes.directory_count() * memory_plan::TREE_BYTES_PER_DIRECTORY);
    memory_plan::stop_if_exhausted(budget)?;
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
        run_context,
        cancel,
        bad_blocks: &bad.blocks,
        extra: Vec::new(),
        system,
        resize: ResizeInode::default(),
        totals: Totals::default(),
        on_disk,
        repair_input: RepairInput { quota: released, ..RepairInput::default() },
        unshares: options.repair.as_ref().is_some_and(|policy| policy.unshare),
    };
    cross.outcome.findings.merge(findings);
    run_passes(&mut cross, &behind, laps)?;
    let mut findings = std::mem::take(&mut cross.outcome.findings);
    cross.repair_input.rebuilds = std::mem::take(&mut cross.outcome.rebuilds);
    cross.repair_input.rebuilds.sort_unstable();
    let mut degraded = plan.degraded.clone();
    degraded.extend(shortages.sentences(&plan));
    degraded.extend(memory_plan::fewer_kept(findings.kept_per_row(), budget));
    let edits = findings.take_edits();
    let is_damaged = findings.is_damaged() || !edits.is_empty();
    let named = (cross.fs, &cross.inodes);
    let pool = (run_context.pool(), cancel);
    let findings =
        name_objects(named, findings, (naming, options.want_all_paths), budget, pool, &mut degraded);
    let findings = paths::name_nameless(&cross, findings, options.want_all_paths || gathers, &mut degraded);
    laps.lap("names", findings.counts().values().sum());
    let summary = summary::counts(fs, &cross.claims, &cross.totals, non_contiguous);
    let CrossCheck { inodes, claims, mut repair_input, system, .. } = cross;
    repair_input.edits = edits;
    repair_input.features = superblock::repair::missing_features(&findings);
    repair_input.system_owners = system;
    let improves = options.repair.as_ref().is_some_and(|policy| policy.improvements.any());
    repair_input.is_damaged = is_damaged || improves;
    let repair_input =
        (gathers && (improves || !findings.is_empty())).then_some((inodes, claims, repair_input));
    Ok((CheckReport { findings, summary, stats: laps.take(), division, degraded }, repair_input))
}

/// Calls the checks of the [`PASSES`], in their order.
fn run_passes(cross: &mut CrossCheck<'_>, behind: &Behind<'_>, laps: &mut Laps<'_>) -> Result<(), Refusal> {
    let suspects = cross.outcome.suspect_directories.len() as u64;
    let budget = cross.run_context.budget;
    let mut edits_held = Reservation::new(budget);
    for (pass, check) in PASSES.iter().filter_map(|pass| Some((pass, pass.check?))) {
        let (list, bytes) = cross.outcome.findings.edit_bytes_held();
        edits_held.set(list.saturating_add(bytes));
        if pass.name == LINKS {
            laps.lap("suspects", suspects);
        }
        check(cross);
        if let Some(amount) = behind.amount_of(pass.name) {
            behind.0.stage(pass.name).finish(amount);
            laps.lap(pass.name, amount);
        }
        stop_if(cross.cancel)?;
        memory_plan::stop_if_exhausted(budget)?;
    }
    Ok(())
}

/// What comes behind the scan, as far as progress knows it.
struct Behind<'a>(&'a Progress, [(&'static str, u64); 2]);

impl<'a> Behind<'a> {
    /// Announces it.
    fn new(fs: &Fs<'_>, progress: &'a Progress, workers: usize) -> Self {
        // The stages of the scan come first.
        for Stage { name, .. } in STAGES {
            progress.stage(name);
        }
        let amounts = [(LINKS, fs.geometry.inodes_count.into()), (BITMAPS, fs.geometry.group_count.into())];
        for (name, amount) in amounts {
            let (cost, bytes) = match name {
                LINKS => (LINK_COST, 0),
                _ => (BITMAP_COST, 2 * u64::from(fs.geometry.block_size)),
            };
            let stage = progress.stage(name);
            stage.guess_cost(cost, workers);
            stage.guess_bytes(bytes);
            stage.expect(amount);
        }
        Behind(progress, amounts)
    }

    /// How much work a pass is, if progress knows it.
    fn amount_of(&self, pass: &str) -> Option<u64> {
        self.1.iter().find(|(name, _)| *name == pass).map(|(_, amount)| *amount)
    }
}

/// The parallel stages; once more without fast maps if trees turn out to share nodes.
fn scan(
    fs: &Fs<'_>,
    system: &BTreeSet<(u64, Owner)>,
    options: &CheckOptions,
    run_context: RunContext<'_>,
    progress: &Progress,
) -> (InodeTable, Claims, ScanOutcome) {
    let Geometry { inodes_count, inodes_per_group, .. } = fs.geometry;
    for fast_maps in [true, false] {
        let inodes = InodeTable::within(run_context.budget, inodes_count, inodes_per_group);
        let claims = run_context.claims(fs.geometry.clusters_count(), fs.geometry.inodes_count);
        let claims = claims.dense(is_well_filled(fs));
        claim_static(fs, &claims, run_context);
        for (unit, _) in system {
            claims.claim(*unit, 1, Origin::KNOWN);
        }
        let how = (options.schedule, fast_maps);
        let outcome = Scan::new(fs, &inodes, &claims, progress, run_context.plan.backend, run_context, how)
            .mending(options.repair.is_some())
            .run();
        if let Some(outcome) = outcome {
            return (inodes, claims, outcome);
        }
        limit_maps(fs, run_context.cancel);
    }
    let inodes = InodeTable::new(inodes_count, inodes_per_group);
    (inodes, Claims::new(fs.geometry.clusters_count()), ScanOutcome::default())
}

/// Whether so much is in use that nearly every page of a map of it will be touched.
fn is_well_filled(fs: &Fs<'_>) -> bool {
    fs.superblock.free_blocks_count() < fs.geometry.blocks_count / 4 * 3
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
pub(crate) fn claim_static(fs: &Fs<'_>, claims: &Claims, run_context: RunContext<'_>) {
    let words = fs.geometry.blocks_count.div_ceil(64);
    if fs.geometry.cluster_blocks == 1 {
        let claim_part = |(): &mut (), starts: &[u64]| {
            let set = |start: &u64| fs.metadata.words_set(*start..(start + WORDS_AT_ONCE).min(words));
            for (index, mask) in starts.iter().flat_map(set) {
                claims.claim_word(index, mask, Origin::KNOWN, &mut Noted::default());
            }
        };
        let starts: Vec<u64> = (0..words).step_by(width::index(WORDS_AT_ONCE)).collect();
        let stage = &[Stage { name: "static metadata", pass: 0 }];
        pool::run_slices(run_context.pool(), stage, &starts, 1, &AtomicBool::new(false), |_| (), claim_part);
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
    Err(Refusal::stopped())
}

/// Whether `inode` is one that a user could name.
pub fn is_user_inode(fs: &Fs<'_>, inode: InodeNo) -> bool {
    inode.0 >= fs.geometry.first_inode && inode.0 <= fs.geometry.inodes_count
}
