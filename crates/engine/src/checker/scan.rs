// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scan: chunk by chunk, inodes and then the directories among them, side by side. An entry that leads to a chunk which was not read yet is certified at the end. What
//! contradicts what is known by then is inspected, in the order of numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_base::InodeNo;
use fsmend_device::{BatchReader, Request};

use super::ahead::Ahead;
use super::joined::JoinedClaims;
use super::limit::{Effort, limit_maps};
use super::{Checkable, InodeSummary, read_record, summary_of};
use crate::claims::Claims;
use crate::crosscheck::owners::{ClaimLookup, Found, Gather};
use crate::inodes::{ChunkFacts, InodeFact, InodeTable, Kind};
use crate::options::CheckOptions;
use crate::origins::Origin;
use crate::pool::{self, Stage};
use crate::report::Naming;
use crate::scan::certification::{Certifier, DeferredCertification, DirectorySummary, Pending};
use crate::scan::memory_plan::{MemoryPlan, NODE_BYTES, RunContext};
use crate::{Budget, Findings, Progress};

/// Largest single read of a table of inodes.
const TABLE_READ: usize = 256 << 10;
const STAGE: [Stage; 1] = [Stage { name: "inodes", pass: 1 }];

/// What a run is given.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// What the caller wants.
    pub options: &'a CheckOptions,
    /// Whose problems get paths.
    pub naming: Naming,
    /// How far it is.
    pub progress: &'a Progress,
    /// Set when the user wants to stop.
    pub cancel: &'a AtomicBool,
    /// Its memory.
    pub budget: &'a Arc<Budget>,
}

/// What the scan leaves.
pub struct Scanned {
    /// Facts of all inodes.
    pub inodes: InodeTable,
    /// Claims on all units.
    pub claims: Claims,
}

/// Reads everything. Begins again, without the maps that have to be given up, if too many inodes share them.
pub fn scan<V: Checkable>(
    volume: &V,
    (run, context): (Run<'_>, RunContext<'_>),
    findings: &mut Findings,
) -> Scanned {
    let (shared, mut found) = (volume.shared_maps(), findings.fresh());
    let (scanned, is_whole) = scan_once(volume, (run, context), shared.is_some(), &mut found);
    let Some(shared) = shared.filter(|_| !is_whole) else {
        findings.merge(found);
        return scanned;
    };
    drop(scanned);
    limit_maps(volume, shared, run);
    scan_once(volume, (run, context), false, findings).0
}

/// Reads everything, and returns whether it did: if it `is_limited`, it ends where maps have to be given up.
fn scan_once<V: Checkable>(
    volume: &V,
    (run, context): (Run<'_>, RunContext<'_>),
    is_limited: bool,
    findings: &mut Findings,
) -> (Scanned, bool) {
    let units = volume.expected().units;
    let claims = context.claims(units, volume.inodes_count());
    volume.visit_static(&mut |first, count| {
        claims.claim(first, count, Origin::KNOWN);
    });
    let inodes = InodeTable::within(run.budget, volume.inodes_count(), volume.inodes_per_chunk())
        .numbered_from(volume.first_inode());
    let effort = Effort::new(volume, &claims, is_limited);
    let suspects = scan_chunks(volume, (run, context), (&inodes, &claims, &effort), findings);
    let is_whole = !effort.is_too_much();
    if is_whole {
        inspect_directories(volume, &inodes, suspects, findings);
    }
    (Scanned { inodes, claims }, is_whole)
}

/// A record, and its place in its chunk.
type Numbered = (usize, InodeNo, Vec<u8>);

/// What one worker has, and what it finds.
struct Worker<'w, V: Checkable + 'w> {
    volume: &'w V,
    ahead: &'w Ahead<'w>,
    effort: &'w Effort<'w>,
    /// The same file system, of which only that can be read which was read ahead.
    near: V::On<'w>,
    reader: BatchReader<'w>,
    context: RunContext<'w>,
    inodes: &'w InodeTable,
    claims: &'w Claims,
    findings: Findings,
    suspects: BTreeSet<InodeNo>,
    pending: Vec<Pending>,
}

/// Reads all inodes and directories, and counts where the directories that are in order lead. Returns the others.
fn scan_chunks<V: Checkable>(
    volume: &V,
    (run, context): (Run<'_>, RunContext<'_>),
    (inodes, claims, effort): (&InodeTable, &Claims, &Effort<'_>),
    findings: &mut Findings,
) -> BTreeSet<InodeNo> {
    let chunks: Vec<u32> = (0..inodes.chunk_count()).collect();
    let (stage, directories) = (run.progress.stage(STAGE[0].name), run.progress.stage("directories"));
    stage.expect(chunks.iter().map(|chunk| u64::from(volume.scanned_in(*chunk))).sum());
    directories.expect(volume.expected().directories);
    let certifier = Certifier::new(inodes, true);
    let certification = DeferredCertification::new(&certifier);
    let fresh = findings.fresh();
    let plan = context.plan;
    let aheads: Vec<Ahead<'_>> =
        (0..context.pool().workers.max(1)).map(|_| Ahead::of(volume.device(), effort)).collect();
    let start = |number: usize| {
        let ahead = &aheads[number % aheads.len()];
        let (depth, buffers) = (BatchReader::DEPTH_DEFAULT, plan.reader_bytes);
        Worker {
            volume,
            ahead,
            effort,
            near: volume.on(ahead),
            reader: BatchReader::with_buffers(volume.device(), plan.backend, depth, buffers),
            context,
            inodes,
            claims,
            findings: fresh.fresh(),
            suspects: BTreeSet::new(),
            pending: Vec::new(),
        }
    };
    let workers = pool::run_slices(context.pool(), &STAGE, &chunks, 1, run.cancel, start, |worker, part| {
        for chunk in part {
            let in_chunk = worker.inodes(*chunk);
            stage.finish(u64::from(volume.scanned_in(*chunk)));
            worker.directories(&certification, &in_chunk);
            directories.finish(in_chunk.len() as u64);
        }
    });
    let (mut suspects, mut pending) = (BTreeSet::new(), Vec::new());
    for worker in workers {
        findings.merge(worker.findings);
        suspects.extend(worker.suspects);
        pending.extend(worker.pending);
    }
    let guilty = certification.certify_pending(pending);
    for holder in guilty {
        withdraw(volume, &certification, holder, &mut suspects);
    }
    withdraw_contested(volume, inodes, &certification, &mut suspects);
    suspects
}

impl<V: Checkable> Worker<'_, V> {
    /// Reads the inodes of a chunk, and publishes what is known of them. Returns its directories, with their records as far as there is room for them.
    fn inodes(&mut self, chunk: u32) -> Vec<(InodeNo, Option<Vec<u8>>)> {
        let volume = self.volume;
        let (count, size) = (volume.scanned_in(chunk) as usize, volume.record_bytes());
        let first = InodeNo(chunk * volume.inodes_per_chunk() + volume.first_inode());
        let mut facts = ChunkFacts::new(count);
        let mut directories = Vec::new();
        let Some(start) = volume.record_place(first) else { return directories };
        let per_read = (TABLE_READ / size).max(1);
        let requests: Vec<Request> = (0..count)
            .step_by(per_read)
            .map(|at| Request {
                offset: start + (at * size) as u64,
                len: (per_read.min(count - at) * size) as u32,
            })
            .collect();
        let (ahead, near, effort) = (self.ahead, &self.near, self.effort);
        let (mut claims, findings) = (JoinedClaims::new(self.claims), &mut self.findings);
        let (walks, room) = (self.context.plan.walks, room(self.context.plan));
        let mut summary = InodeSummary::default();
        let mut waiting: Vec<Numbered> = Vec::new();
        let (mut failed, mut unreadable) = (Vec::new(), Vec::new());
        let mut take =
            |(index, inode): (usize, InodeNo), record: &[u8], is_clean: bool, summary: &mut InodeSummary| {
                if !is_clean {
                    let mut subject = findings.for_subject();
                    *summary = ahead.through(|| near.inspect(inode, record, &mut subject));
                    findings.merge(subject);
                }
                let Some(kind) = summary.kind else { return };
                facts.record(index, inode, InodeFact::new(kind, 0), summary.links);
                for (unit, count) in &summary.units {
                    claims.claim(*unit, *count, inode.0);
                }
                if kind == Kind::Directory {
                    let kept = is_clean && directories.len() < walks;
                    directories.push((inode, kept.then(|| record.to_vec())));
                }
            };
        self.reader.read(&requests, &mut |at, result| match result {
            Ok(bytes) => {
                for (index, record) in bytes.chunks_exact(size).enumerate() {
                    if effort.is_too_much() {
                        break;
                    }
                    let (index, inode) =
                        (at * per_read + index, InodeNo(first.0 + (at * per_read + index) as u32));
                    let before = ahead.misses();
                    let is_clean = near.summarize(inode, record, &mut summary);
                    if ahead.misses() == before {
                        take((index, inode), record, is_clean, &mut summary);
                    } else if waiting.len() < walks {
                        waiting.push((index, inode, record.to_vec()));
                    } else {
                        self.context.shortages.walks.store(true, Relaxed);
                        let is_clean = ahead.through(|| near.summarize(inode, record, &mut summary));
                        take((index, inode), record, is_clean, &mut summary);
                    }
                }
            }
            Err(_) => failed.push(at),
        });
        let mut alone = InodeSummary::default();
        ahead.settle(&mut self.reader, &waiting, room, &mut |(index, inode, record), is_alone| {
            if effort.is_too_much() {
                return;
            }
            let before = ahead.misses();
            let is_clean = match is_alone {
                false => near.summarize(*inode, record, &mut alone),
                true => ahead.through(|| near.summarize(*inode, record, &mut alone)),
            };
            if ahead.misses() == before {
                take((*index, *inode), record, is_clean, &mut alone);
            }
        });
        // Records beside an unreadable one can be read by themselves.
        for index in failed.into_iter().flat_map(|at| at * per_read..((at + 1) * per_read).min(count)) {
            let inode = InodeNo(first.0 + index as u32);
            match read_record(volume, inode) {
                Some(record) => {
                    let is_clean = ahead.through(|| near.summarize(inode, &record, &mut alone));
                    take((index, inode), &record, is_clean, &mut alone);
                }
                None => unreadable.push(inode),
            }
        }
        unreadable.into_iter().for_each(|inode| self.findings.raise(volume.unreadable(inode)));
        self.inodes.publish(chunk, facts);
        directories
    }

    /// Reads directories, and counts where those in order lead.
    fn directories(
        &mut self,
        certification: &DeferredCertification<'_>,
        directories: &[(InodeNo, Option<Vec<u8>>)],
    ) {
        let (volume, ahead, near, context) = (self.volume, self.ahead, &self.near, self.context);
        if self.effort.is_too_much() {
            return;
        }
        let (suspects, pending) = (&mut self.suspects, &mut self.pending);
        let room = room(context.plan);
        let mut summary = DirectorySummary::default();
        ahead.settle(&mut self.reader, directories, room, &mut |(inode, record), is_alone| {
            let before = ahead.misses();
            summary.clear();
            let is_clean = match record {
                Some(record) if !is_alone => near.summarize_directory(*inode, record, &mut summary),
                Some(record) => volume.summarize_directory(*inode, record, &mut summary),
                // There was no room for its record, or it is not in order.
                None => summarize_again(volume, *inode, &mut summary),
            };
            if ahead.misses() != before {
                return;
            }
            let is_too_much = pending.len() + summary.targets.len() >= context.plan.pending
                && certification.would_wait(&summary);
            if is_too_much {
                context.shortages.pending.store(true, Relaxed);
            }
            if !is_clean || is_too_much || !certification.count(*inode, &mut summary, pending) {
                suspects.insert(*inode);
            }
        });
    }
}

/// Bytes for what is read ahead.
fn room(plan: &MemoryPlan) -> u64 {
    (plan.nodes as u64).saturating_mul(NODE_BYTES)
}

/// The fast path of a directory whose record has to be read again. False also where the record is not in order.
fn summarize_again<V: Checkable>(volume: &V, inode: InodeNo, summary: &mut DirectorySummary) -> bool {
    let mut found = InodeSummary::default();
    read_record(volume, inode).is_some_and(|record| {
        volume.summarize(inode, &record, &mut found) && volume.summarize_directory(inode, &record, summary)
    })
}

/// Takes back what was counted for `holder`, which is inspected instead.
fn withdraw<V: Checkable>(
    volume: &V,
    certification: &DeferredCertification<'_>,
    holder: InodeNo,
    suspects: &mut BTreeSet<InodeNo>,
) {
    let mut summary = DirectorySummary::default();
    if suspects.insert(holder) && summarize_again(volume, holder, &mut summary) {
        certification.withdraw(holder, &summary);
    }
}

/// Takes back what was counted for directories that hold a name of a directory with several: which name stays must not depend on which was seen first.
fn withdraw_contested<V: Checkable>(
    volume: &V,
    inodes: &InodeTable,
    certification: &DeferredCertification<'_>,
    suspects: &mut BTreeSet<InodeNo>,
) {
    let contested: BTreeSet<InodeNo> = inodes.contested().into_iter().collect();
    if contested.is_empty() {
        return;
    }
    let mut holders: BTreeMap<InodeNo, Vec<InodeNo>> = BTreeMap::new();
    for fact in inodes.directories().iter().map(|fact| InodeNo(fact.inode)) {
        volume.visit_entries(fact, &|inode| contested.contains(&inode), &mut |target, _| {
            if contested.contains(&target) {
                holders.entry(fact).or_default().push(target);
            }
        });
    }
    for holder in holders.into_keys() {
        withdraw(volume, certification, holder, suspects);
    }
    for fact in contested.iter().filter_map(|inode| inodes.directory(*inode)) {
        fact.parent.store(0, Relaxed);
    }
}

fn inspect_directories<V: Checkable>(
    volume: &V,
    inodes: &InodeTable,
    suspects: BTreeSet<InodeNo>,
    findings: &mut Findings,
) {
    let mut summary = DirectorySummary::default();
    for inode in suspects {
        summary.clear();
        let mut subject = findings.for_subject();
        volume.inspect_directory(inode, inodes, &mut subject, &mut summary);
        findings.merge(subject);
        inodes.observe_link(inode);
        if summary.parent_entry.0 != 0 {
            inodes.observe_link(summary.parent_entry);
        }
        if let Some(fact) = inodes.directory(inode) {
            fact.parent_entry.store(summary.parent_entry.0, Relaxed);
        }
        for target in &summary.targets {
            inodes.observe_link(target.inode);
            if inodes.kind(target.inode) == Kind::Directory {
                inodes.set_parent(target.inode, inode);
            }
        }
    }
}

/// Tells what inodes claim by looking at their records again: what most formats use as their [`Gather`].
pub struct RecordGatherer<'s, V> {
    volume: &'s V,
}

impl<'s, V> RecordGatherer<'s, V> {
    /// Looks at inodes of `volume`.
    pub fn new(volume: &'s V) -> Self {
        RecordGatherer { volume }
    }
}

impl<V: Checkable> Gather for RecordGatherer<'_, V> {
    fn take(&mut self, inodes: &[InodeNo], found: &mut Found<'_>) {
        for inode in inodes {
            if let Some(summary) = summary_of(self.volume, *inode) {
                found.note_runs(*inode, summary.units.into_iter());
            }
        }
    }
}

impl<V: Checkable> ClaimLookup for V {
    type Gatherer<'s>
        = RecordGatherer<'s, V>
    where
        V: 's;

    fn gatherer<'s>(&'s self, _claims: &'s Claims, _cancel: &'s AtomicBool) -> RecordGatherer<'s, V> {
        RecordGatherer::new(self)
    }

    fn owner_rows(&self) -> crate::crosscheck::owners::OwnerRows {
        self.contest_rows()
    }
}
