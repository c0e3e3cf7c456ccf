// SPDX-License-Identifier: MIT OR Apache-2.0
//! A look that takes milliseconds: superblock, descriptors, journal, orphans, and nothing that grows with the number of
//! files. It tells whether the file system was left cleanly and what a replay of the journal would write.
//!
//! It is the first part of a run ([`crate::run`]) and finds nothing that a run would not find.

use std::sync::Arc;

use fsmend_base::width;
use fsmend_device::{Device, Overlay};
use fsmend_engine::problem::Row;
use fsmend_engine::repair::Changes;
use fsmend_engine::report::Summary;
use fsmend_engine::{Findings, Severity};
use fsmend_ext_format::features::{Incompat, RoCompat};
use fsmend_ext_format::superblock::{
    EXT_MAGIC, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, SuperblockState,
};
use zerocopy::FromBytes;

use crate::allocation::StoredTotals;
use crate::journal::replay_overlay::ReplayOverlay;
use crate::orphan::{self, Orphans};
use crate::run;
use crate::superblock::{self, Settled};
use crate::{Fs, Refusal, journal, mmp, summary};
use fsmend_engine::Refused;
use fsmend_engine::options::CheckOptions;

/// What was seen.
pub struct Precheck {
    /// The superblock: after the replay, when there was one.
    pub superblock: RawSuperblock,
    /// `s_state` as it stands there; empty when the primary superblock is lost.
    pub state: SuperblockState,
    /// Label, features, sizes. Counts of files and blocks are those that the group descriptors add up to.
    pub summary: Summary,
    /// Inodes in use as the superblock counts them.
    pub stored_files: u64,
    /// Blocks in use as the superblock counts them.
    pub stored_blocks: u64,
    /// What is wrong, as far as it could be seen.
    pub findings: Findings,
    /// Whether the journal was dirty and was replayed in memory.
    pub replayed: bool,
    /// Deleted or half-truncated files that were waiting for their release, and were released in memory.
    pub orphans: u64,
    /// Bytes (offset, contents) that the replay and the release change: ascending, apart from one another.
    pub changes: Changes,
    /// What the replay changes on the device of an external journal, once `changes` have reached the disk.
    pub journal_changes: Changes,
}

impl Precheck {
    /// Whether something was seen that only a whole check can judge. What a replay brings with it is not such a thing.
    pub fn is_doubtful(&self) -> bool {
        is_doubtful(&self.findings)
    }
}

fn is_doubtful(findings: &Findings) -> bool {
    findings.iter().any(|problem| problem.row.severity > Severity::Note && !is_routine(problem.row))
}

/// Problems that every crash leaves behind.
fn is_routine(row: &Row) -> bool {
    [&orphan::problems::WAITING, &orphan::problems::UNRELEASED, &journal::problems::NOT_REPLAYED]
        .iter()
        .any(|routine| routine.code == row.code)
}

/// Takes the look. With `options.replay` a dirty journal is replayed in memory, and orphans are released.
pub fn precheck(device: &Arc<dyn Device>, options: &CheckOptions) -> Result<Precheck, Refused> {
    let mut findings = Findings::new();
    match look(device, options, &mut findings) {
        Ok(precheck) => Ok(Precheck { findings, ..precheck }),
        Err(refusal) => Err(Refused { refusal, findings: Box::new(findings) }),
    }
}

/// The change that notes in the superblock that the file system was checked just now and found sound; nothing if it cannot
/// be read, or if it has features that are not known: such a file system is not written.
pub fn marked_checked(device: &dyn Device, now: u64) -> Option<(u64, Vec<u8>)> {
    let mut bytes = vec![0; SUPERBLOCK_SIZE];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes).ok()?;
    let raw = RawSuperblock::mut_from_bytes(&mut bytes).ok().filter(|raw| raw.s_magic.get() == EXT_MAGIC)?;
    if superblock::unknown_to_repairs(raw.features()).is_some() {
        return None;
    }
    superblock::repair::mark_checked(raw, now);
    superblock::repair::seal(raw);
    Some((SUPERBLOCK_OFFSET, bytes))
}

fn look(
    device: &Arc<dyn Device>,
    options: &CheckOptions,
    findings: &mut Findings,
) -> Result<Precheck, Refusal> {
    let mut overlay: Overlay<Arc<dyn Device>> = Overlay::new(Arc::clone(device));
    let mut settled = superblock::settle(&overlay, options.superblock, options.now, findings)?;
    let fs = run::open(&overlay, settled.clone(), options.now, findings);
    let external = options.external_journal.as_deref();
    // An empty journal behind this flag is what a crash leaves between a replay and the first transaction after it.
    let was_open = !settled.is_backup() && fs.geometry.features.has_incompat(Incompat::RECOVER);
    let mut journal = journal::examine(&fs, external, options.replay, options.memory, findings)?;
    drop(fs);
    let mut again = Findings::new();
    if !journal.changes.is_empty() {
        run::lay_over(&mut overlay, std::mem::take(&mut journal.changes))?;
        settled = superblock::settle(&overlay, options.superblock, options.now, &mut again)?;
    }
    if journal.replayed {
        // What the journal brings up to date is judged as the journal leaves it.
        findings.retain(|problem| problem.row.code.starts_with("ext.journal."));
    }
    let judged = if journal.replayed { &mut *findings } else { &mut again };
    let fs = run::open(&overlay, settled.clone(), options.now, judged);
    mmp::check(&fs, findings);
    let released = match options.replay {
        true => orphan::released(&fs, journal.state(was_open), options.memory, findings)?,
        false => Orphans::default(),
    };
    drop(fs);
    let orphans = (released.freed.len() + released.truncated.len()) as u64;
    if !released.changes.is_empty() {
        run::lay_over(&mut overlay, released.changes)?;
        settled = superblock::settle(&overlay, options.superblock, options.now, &mut again)?;
    }
    let fs = run::open(&overlay, settled.clone(), options.now, &mut again);
    let seen = seen(&fs, &settled, journal.replayed, findings);
    let is_trusted = options.replay && !settled.is_backup() && !is_doubtful(findings) && !is_doubtful(&again);
    let totals = if is_trusted { fresh_totals(&fs, &seen) } else { Changes::new() };
    drop(fs);
    run::lay_over(&mut overlay, totals)?;
    let changes = overlay.runs().map(|(offset, bytes)| (offset, bytes.to_vec())).collect();
    let journal_changes = journal.external_changes;
    Ok(Precheck { orphans, changes, journal_changes, ..seen })
}

/// The superblock with the totals that the group descriptors add up to, where its own are old: kernels write them only when
/// they unmount, and a preening run leaves no stale ones behind.
fn fresh_totals(fs: &Fs<'_>, seen: &Precheck) -> Changes {
    let free_blocks = seen.summary.blocks_total.saturating_sub(seen.summary.blocks_used);
    let free_inodes = seen.summary.files_total.saturating_sub(seen.summary.files_used);
    let stored = StoredTotals::of(&fs.superblock);
    if (stored.free_blocks, stored.free_inodes) == (free_blocks, free_inodes) {
        return Changes::new();
    }
    let mut replay = ReplayOverlay::new(fs);
    // A superblock that cannot be read was settled from a backup, and those are left alone.
    let _ = replay.edit_superblock(|raw| {
        raw.s_free_blocks_count_lo.set(width::low_u32(free_blocks));
        if raw.features().has_incompat(Incompat::BIT64) {
            raw.s_free_blocks_count_hi.set((free_blocks >> 32) as u32);
        }
        raw.s_free_inodes_count.set(width::low_u32(free_inodes));
    });
    replay.into_changes()
}

fn seen(fs: &Fs<'_>, settled: &Settled, replayed: bool, found: &Findings) -> Precheck {
    let raw = &fs.superblock;
    Precheck {
        superblock: raw.clone(),
        state: if settled.is_backup() { SuperblockState::empty() } else { stored_state(fs.device) },
        summary: summary::fill(counted(fs), (fs, settled), replayed, found),
        stored_files: u64::from(fs.geometry.inodes_count.saturating_sub(raw.s_free_inodes_count.get())),
        stored_blocks: fs.geometry.blocks_count.saturating_sub(raw.free_blocks_count()),
        findings: Findings::new(),
        replayed,
        orphans: 0,
        changes: Vec::new(),
        journal_changes: Vec::new(),
    }
}

/// Where `s_state` lies.
const STATE_OFFSET: u64 = SUPERBLOCK_OFFSET + 0x3A;

fn stored_state(device: &dyn Device) -> SuperblockState {
    let mut bytes = [0; 2];
    device
        .read_at(STATE_OFFSET, &mut bytes)
        .map_or(SuperblockState::empty(), |()| SuperblockState::from_bits_retain(u16::from_le_bytes(bytes)))
}

/// The sums of the group descriptors.
fn counted(fs: &Fs<'_>) -> Summary {
    let sum =
        |count: fn(&crate::Group) -> u32| fs.groups.iter().map(|group| u64::from(count(group))).sum::<u64>();
    let free_blocks = sum(|group| group.desc.free_blocks).saturating_mul(blocks_per_count(fs));
    let files_total = u64::from(fs.geometry.inodes_count);
    Summary {
        block_size: u64::from(fs.geometry.block_size),
        files_total,
        files_used: files_total.saturating_sub(sum(|group| group.desc.free_inodes)),
        blocks_total: fs.geometry.blocks_count,
        blocks_used: fs.geometry.blocks_count.saturating_sub(free_blocks),
        directories: sum(|group| group.desc.used_dirs),
        ..Summary::default()
    }
}

/// With bigalloc, free blocks are counted in clusters.
fn blocks_per_count(fs: &Fs<'_>) -> u64 {
    let bigalloc = fs.geometry.features.has_ro_compat(RoCompat::BIGALLOC);
    if bigalloc { u64::from(fs.geometry.cluster_blocks) } else { 1 }
}
