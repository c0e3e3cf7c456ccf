//! The scan: inodes chunk by chunk, then directories, side by side; what contradicts what is known by then is inspected, in the order of numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_base::InodeNo;
use fsmend_device::{BatchReader, Request};

use super::{Checkable, InodeSummary, read_record, summary_of};
use crate::claims::Claims;
use crate::crosscheck::owners::{ClaimLookup, Found, Gather};
use crate::inodes::{ChunkFacts, InodeFact, InodeTable, Kind};
use crate::options::CheckOptions;
use crate::origins::Origin;
use crate::pool::{self, Stage};
use crate::report::Naming;
use crate::scan::certification::{Certifier, DeferredCertification, DirectorySummary};
use crate::scan::memory_plan::RunContext;
use crate::{Budget, Findings, Progress};

/// Largest single read of a table of inodes.
const TABLE_READ: usize = 256 << 10;
/// Directories that one worker reads at a time.
const DIRECTORIES_PER_SLICE: usize = 64;
const INODES: [Stage; 1] = [Stage { name: "inodes", pass: 1 }];
const DIRECTORIES: [Stage; 1] = [Stage { name: "directories", pass: 2 }];

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

/// Reads everything.
pub fn scan<V: Checkable>(
    volume: &V,
    (run, context): (Run<'_>, RunContext<'_>),
    findings: &mut Findings,
) -> Scanned {
    let units = volume.expected().units;
    let claims = context.claims(units, volume.inodes_count());
    volume.visit_static(&mut |first, count| {
        claims.claim(first, count, Origin::KNOWN);
    });
    let inodes = InodeTable::within(run.budget, volume.inodes_count(), volume.inodes_per_chunk());
    scan_inodes(volume, (run, context), (&inodes, &claims), findings);
    let suspects = scan_directories(volume, (run, context), &inodes);
    inspect_directories(volume, &inodes, suspects, findings);
    Scanned { inodes, claims }
}

fn scan_inodes<V: Checkable>(
    volume: &V,
    (run, context): (Run<'_>, RunContext<'_>),
    (inodes, claims): (&InodeTable, &Claims),
    findings: &mut Findings,
) {
    let chunks: Vec<u32> = (0..inodes.chunk_count()).collect();
    let stage = run.progress.stage(INODES[0].name);
    stage.expect(chunks.iter().map(|chunk| u64::from(volume.scanned_in(*chunk))).sum());
    let fresh = findings.fresh();
    let found = pool::run_slices(
        context.pool(),
        &INODES,
        &chunks,
        1,
        run.cancel,
        |_| {
            let reader = BatchReader::with_buffers(
                volume.device(),
                context.plan.backend,
                BatchReader::DEPTH_DEFAULT,
                context.plan.reader_bytes,
            );
            (reader, fresh.fresh())
        },
        |(reader, findings), part| {
            for chunk in part {
                let facts = scan_chunk(volume, *chunk, reader, claims, findings);
                inodes.publish(*chunk, facts);
                stage.finish(u64::from(volume.scanned_in(*chunk)));
            }
        },
    );
    found.into_iter().for_each(|(_, found)| findings.merge(found));
}

fn scan_chunk<V: Checkable>(
    volume: &V,
    chunk: u32,
    reader: &mut BatchReader<'_>,
    claims: &Claims,
    findings: &mut Findings,
) -> ChunkFacts {
    let (count, size) = (volume.scanned_in(chunk) as usize, volume.record_bytes());
    let first = InodeNo(chunk * volume.inodes_per_chunk() + 1);
    let mut facts = ChunkFacts::new(count);
    let Some(start) = volume.record_place(first) else { return facts };
    let per_read = (TABLE_READ / size).max(1);
    let requests: Vec<Request> = (0..count)
        .step_by(per_read)
        .map(|at| Request {
            offset: start + (at * size) as u64,
            len: (per_read.min(count - at) * size) as u32,
        })
        .collect();
    let mut summary = InodeSummary::default();
    let mut take = |index: usize, record: &[u8], findings: &mut Findings| {
        let inode = InodeNo(first.0 + index as u32);
        if !volume.summarize(inode, record, &mut summary) {
            summary = volume.inspect(inode, record, findings);
        }
        let Some(kind) = summary.kind else { return };
        facts.record(index, inode, InodeFact::new(kind, 0), summary.links);
        for (unit, count) in &summary.units {
            claims.claim(*unit, *count, claims.origin(inode.0));
        }
    };
    let mut failed = Vec::new();
    reader.read(&requests, &mut |at, result| match result {
        Ok(bytes) => bytes
            .chunks_exact(size)
            .enumerate()
            .for_each(|(index, record)| take(at * per_read + index, record, findings)),
        Err(_) => failed.push(at),
    });
    // Records beside an unreadable one can be read by themselves.
    for index in failed.into_iter().flat_map(|at| at * per_read..((at + 1) * per_read).min(count)) {
        let inode = InodeNo(first.0 + index as u32);
        match read_record(volume, inode) {
            Some(record) => take(index, &record, findings),
            None => findings.raise(volume.unreadable(inode)),
        }
    }
    facts
}

/// Reads all directories, and counts where those in order lead. Returns the others.
fn scan_directories<V: Checkable>(
    volume: &V,
    (run, context): (Run<'_>, RunContext<'_>),
    inodes: &InodeTable,
) -> BTreeSet<InodeNo> {
    let directories: Vec<InodeNo> = inodes.directories().iter().map(|fact| InodeNo(fact.inode)).collect();
    let certifier = Certifier::new(inodes, true);
    let certification = DeferredCertification::new(&certifier);
    let stage = run.progress.stage(DIRECTORIES[0].name);
    stage.expect(directories.len() as u64);
    let found = pool::run_slices(
        context.pool(),
        &DIRECTORIES,
        &directories,
        DIRECTORIES_PER_SLICE,
        run.cancel,
        |_| (DirectorySummary::default(), Vec::new(), Vec::new()),
        |(summary, suspects, pending), part| {
            for inode in part {
                summary.clear();
                let is_clean = volume.summarize_directory(*inode, summary)
                    && !certification.would_wait(summary)
                    && certification.count(*inode, summary, pending);
                if !is_clean {
                    suspects.push(*inode);
                }
            }
            stage.finish(part.len() as u64);
        },
    );
    let mut suspects: BTreeSet<InodeNo> = found.into_iter().flat_map(|(_, suspects, _)| suspects).collect();
    withdraw_contested(volume, inodes, &certification, &mut suspects);
    suspects
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
    let mut summary = DirectorySummary::default();
    for holder in holders.into_keys().filter(|holder| suspects.insert(*holder)) {
        summary.clear();
        if volume.summarize_directory(holder, &mut summary) {
            certification.withdraw(holder, &summary);
        }
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
        volume.inspect_directory(inode, inodes, findings, &mut summary);
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
