// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scan: chunk by chunk, inodes and then the directories among them, side by side. An entry that leads to a chunk which was not read yet is certified at the end. What
//! contradicts what is known by then is inspected, in the order of numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_base::{InodeNo, width};
use fsmend_device::{BatchReader, Request, coalesce};

use super::ahead::Ahead;
use super::directories::{Directories, summarize_again};
use super::joined::JoinedClaims;
use super::limit::{Effort, limit_maps};
use super::{Checkable, Contents, InodeSummary, neighbours, read_record, summary_of};
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
/// Contents are read over gaps up to this many bytes.
const CONTENTS_GAP: u32 = 16 << 10;
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

/// A record, the place of its chunk among those that are read together, and its own in that.
type Numbered = ((usize, usize), InodeNo, Vec<u8>);

/// An inode that is in order if its contents are.
struct Unread {
    at: (usize, usize),
    inode: InodeNo,
    kind: Kind,
    links: u16,
    contents: Contents,
    is_right: bool,
}

/// Records that follow one another.
struct Piece {
    request: Request,
    /// As in [`Numbered`], of the first of them.
    at: (usize, usize),
    first: InodeNo,
}

/// What one worker has, and what it finds.
pub(super) struct Worker<'w, V: Checkable + 'w> {
    pub volume: &'w V,
    pub ahead: &'w Ahead<'w>,
    pub effort: &'w Effort<'w>,
    /// The same file system, of which only that can be read which was read ahead.
    pub near: V::On<'w>,
    pub reader: BatchReader<'w>,
    pub context: RunContext<'w>,
    pub inodes: &'w InodeTable,
    pub claims: &'w Claims,
    pub findings: Findings,
    pub suspects: BTreeSet<InodeNo>,
    pub pending: Vec<Pending>,
}

/// Inodes that wait for something to be read.
#[derive(Default)]
struct Later {
    /// For blocks that they lead to.
    waiting: Vec<Numbered>,
    /// For their contents.
    unread: Vec<Unread>,
    /// For their records, one by one.
    failed: Vec<((usize, usize), InodeNo)>,
}

/// What is known of the inodes of chunks that are read together.
struct Batch<'b, 'w, V: Checkable + 'w> {
    ahead: &'w Ahead<'w>,
    near: &'b V::On<'w>,
    effort: &'w Effort<'w>,
    context: RunContext<'w>,
    findings: &'b mut Findings,
    claims: JoinedClaims<'w>,
    facts: Vec<ChunkFacts>,
    directories: Directories,
    summary: InodeSummary,
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
    // Small chunks are read together, and then their directories: most of what those lead to is known by then.
    let inodes_together = volume.expected().together.min(plan.walks as u64);
    let together = width::index((inodes_together / u64::from(volume.inodes_per_chunk().max(1))).max(1));
    let pool = context.pool();
    let workers = pool::run_slices(pool, &STAGE, &chunks, together, run.cancel, start, |worker, part| {
        let found = worker.inodes(part);
        stage.finish(part.iter().map(|chunk| u64::from(volume.scanned_in(*chunk))).sum());
        let count = found.len() as u64;
        worker.directories(&certification, &found);
        directories.finish(count);
    });
    let (mut suspects, mut pending) = (BTreeSet::new(), Vec::new());
    for worker in workers {
        findings.merge(worker.findings);
        suspects.extend(worker.suspects);
        pending.extend(worker.pending);
    }
    let mut guilty = certification.certify_pending(pending);
    guilty.extend(volume.contradicted());
    for holder in guilty {
        withdraw(volume, &certification, holder, &mut suspects);
    }
    withdraw_contested(volume, inodes, &certification, &mut suspects);
    suspects
}

impl Piece {
    /// The places of its records, and their inodes.
    fn records(&self, size: usize) -> impl Iterator<Item = ((usize, usize), InodeNo)> + use<> {
        let ((chunk, index), first) = (self.at, self.first);
        (0..self.request.len as usize / size)
            .map(move |at| ((chunk, index + at), InodeNo(first.0 + width::len_u32(at))))
    }
}

impl<V: Checkable> Worker<'_, V> {
    /// The records of chunks, in the order of the disk.
    fn pieces(&self, chunks: &[u32]) -> Vec<Piece> {
        let (volume, size) = (self.volume, self.volume.record_bytes());
        let per_read = (TABLE_READ / size).max(1);
        let mut pieces = Vec::new();
        for (place, chunk) in chunks.iter().enumerate() {
            for near in neighbours(volume, *chunk) {
                pieces.extend((0..near.count).step_by(per_read).map(|at| Piece {
                    request: Request {
                        offset: near.place + (at * size) as u64,
                        len: width::len_u32(per_read.min(near.count - at) * size),
                    },
                    at: (place, near.index + at),
                    first: InodeNo(near.first.0 + width::len_u32(at)),
                }));
            }
        }
        pieces.sort_unstable_by_key(|piece| (piece.request, piece.first));
        pieces
    }

    /// Reads the inodes of chunks, and publishes what is known of them. Returns their directories, with their records as far as there is room for them.
    fn inodes(&mut self, chunks: &[u32]) -> Directories {
        let (volume, ahead, context) = (self.volume, self.ahead, self.context);
        let pieces = self.pieces(chunks);
        let requests: Vec<Request> = pieces.iter().map(|piece| piece.request).collect();
        let reads = coalesce(&requests, 0, width::len_u32(TABLE_READ));
        let requests: Vec<Request> = reads.iter().map(|read| read.request).collect();
        let scanned = chunks.iter().map(|chunk| volume.scanned_in(*chunk) as usize);
        let mut batch: Batch<'_, '_, V> = Batch {
            ahead,
            near: &self.near,
            effort: self.effort,
            context,
            findings: &mut self.findings,
            claims: JoinedClaims::new(self.claims),
            facts: scanned.map(ChunkFacts::new).collect(),
            directories: Directories::default(),
            summary: InodeSummary::default(),
        };
        let mut later = Later::default();
        self.reader.read(&requests, &mut |index, result| {
            let bytes = result.ok().map(|bytes| (requests[index].offset, &*bytes));
            batch.records(volume.record_bytes(), &pieces[reads[index].members.clone()], bytes, &mut later);
        });
        ahead.settle(&mut self.reader, &later.waiting, room(context.plan), &mut |numbered, is_alone| {
            batch.again(numbered, is_alone);
        });
        read_contents(volume, self.effort, &mut self.reader, &mut later.unread);
        batch.take_contents(&mut later);
        let unreadable = batch.take_alone(volume, &later.failed);
        let Batch { facts, directories, .. } = batch;
        unreadable.into_iter().for_each(|inode| self.findings.raise(volume.unreadable(inode)));
        for (chunk, facts) in chunks.iter().zip(facts) {
            // Of a chunk without a place nothing is known.
            if facts.scanned() > 0 || volume.record_place(first_of(volume, *chunk)).is_some() {
                self.inodes.publish(*chunk, facts);
            }
        }
        directories
    }
}

impl<'w, V: Checkable + 'w> Batch<'_, 'w, V> {
    /// Looks at the records of `pieces`, of `size` bytes each; `read` is what was read, and where it begins.
    fn records(&mut self, size: usize, pieces: &[Piece], read: Option<(u64, &[u8])>, later: &mut Later) {
        let Some((start, bytes)) = read else {
            later.failed.extend(pieces.iter().flat_map(|piece| piece.records(size)));
            return;
        };
        for piece in pieces {
            let from = width::index(piece.request.offset - start);
            let records = bytes.get(from..from + piece.request.len as usize).unwrap_or_default();
            for ((at, inode), record) in piece.records(size).zip(records.chunks_exact(size)) {
                if self.effort.is_too_much() {
                    return;
                }
                self.look((at, inode), record, later);
            }
        }
    }

    /// The first look at a record.
    #[inline]
    fn look(&mut self, (at, inode): ((usize, usize), InodeNo), record: &[u8], later: &mut Later) {
        let walks = self.context.plan.walks;
        let summary = &mut self.summary;
        (summary.contents, summary.has_unread_blocks) = (None, false);
        let before = self.ahead.misses();
        let is_clean = self.near.summarize_but_contents(inode, record, summary);
        let is_there = self.ahead.misses() == before;
        match (summary.kind, summary.contents) {
            (Some(kind), Some(contents)) if is_clean => {
                let links = summary.links;
                later.unread.push(Unread { at, inode, kind, links, contents, is_right: false });
            }
            _ if is_there && !(is_clean && summary.has_unread_blocks) => {
                self.take((at, inode), record, is_clean);
            }
            (Some(kind), None) if is_there && self.directories.len() < walks => {
                self.facts[at.0].record(at.1, inode, InodeFact::new(kind, 0), summary.links);
                self.directories.push_unread(inode, record, &summary.units);
            }
            _ if !is_there && later.waiting.len() < walks => {
                later.waiting.push((at, inode, record.to_vec()));
            }
            _ => {
                self.context.shortages.walks.store(true, Relaxed);
                self.take_through((at, inode), record);
            }
        }
    }

    /// Looks at a record again, with more of what it leads to.
    fn again(&mut self, (at, inode, record): &Numbered, is_alone: bool) {
        if self.effort.is_too_much() {
            return;
        }
        if is_alone {
            self.take_through((*at, *inode), record);
            return;
        }
        let before = self.ahead.misses();
        let is_clean = self.near.summarize(*inode, record, &mut self.summary);
        if self.ahead.misses() == before {
            self.take((*at, *inode), record, is_clean);
        }
    }

    /// Looks at a record, reading from the device what it leads to, and takes it.
    fn take_through(&mut self, numbered: ((usize, usize), InodeNo), record: &[u8]) {
        let (near, summary) = (self.near, &mut self.summary);
        let is_clean = self.ahead.through(|| near.summarize(numbered.1, record, summary));
        self.take(numbered, record, is_clean);
    }

    /// Notes what is known of an inode by its summary, or where that is not clean by inspection.
    fn take(&mut self, (at, inode): ((usize, usize), InodeNo), record: &[u8], is_clean: bool) {
        if !is_clean {
            let mut subject = self.findings.for_subject();
            self.summary = self.ahead.through(|| self.near.inspect(inode, record, &mut subject));
            self.findings.merge(subject);
        }
        let summary = &self.summary;
        let Some(kind) = summary.kind else { return };
        self.facts[at.0].record(at.1, inode, InodeFact::new(kind, 0), summary.links);
        for (unit, count) in &summary.units {
            self.claims.claim(*unit, *count, inode.0);
        }
        if kind == Kind::Directory {
            let is_kept = is_clean && self.directories.len() < self.context.plan.walks;
            self.directories.push(inode, is_kept.then_some(record));
        }
    }

    /// Takes the inodes whose contents are right. The others fail.
    fn take_contents(&mut self, later: &mut Later) {
        if self.effort.is_too_much() {
            later.unread.clear();
        }
        for Unread { at, inode, kind, links, contents, is_right } in later.unread.drain(..) {
            if is_right {
                (self.summary.kind, self.summary.links) = (Some(kind), links);
                self.summary.units.clear();
                self.summary.units.push(contents.units);
                self.take((at, inode), &[], true);
            } else {
                later.failed.push((at, inode));
            }
        }
    }

    /// Takes inodes whose records have to be read one by one: what lies beside something unreadable can be. Returns those that cannot.
    fn take_alone(&mut self, volume: &V, failed: &[((usize, usize), InodeNo)]) -> Vec<InodeNo> {
        let mut unreadable = Vec::new();
        for (at, inode) in failed {
            match read_record(volume, *inode) {
                Some(record) => self.take_through((*at, *inode), &record),
                None => unreadable.push(*inode),
            }
        }
        unreadable
    }
}

/// Reads the contents of inodes in the order of the disk, and notes whose are right.
fn read_contents<V: Checkable>(
    volume: &V,
    effort: &Effort<'_>,
    reader: &mut BatchReader<'_>,
    inodes: &mut [Unread],
) {
    inodes.sort_unstable_by_key(|inode| inode.contents.place);
    let places: Vec<Request> = inodes.iter().map(|inode| inode.contents.place).collect();
    let reads = coalesce(&places, CONTENTS_GAP, width::len_u32(TABLE_READ));
    let requests: Vec<Request> = reads.iter().map(|read| read.request).collect();
    reader.read(&requests, &mut |index, result| {
        let Ok(bytes) = result else { return };
        for inode in &mut inodes[reads[index].members.clone()] {
            let place = inode.contents.place;
            if effort.is_too_much() {
                return;
            }
            effort.read(place.len as usize);
            let from = width::index(place.offset - requests[index].offset);
            let contents = bytes.get(from..from + place.len as usize);
            inode.is_right = contents.is_some_and(|bytes| volume.has_checksum(&inode.contents, bytes));
        }
    });
}

/// The first inode of a chunk.
fn first_of<V: Checkable>(volume: &V, chunk: u32) -> InodeNo {
    InodeNo(chunk * volume.inodes_per_chunk() + volume.first_inode())
}

/// Bytes for what is read ahead.
pub(super) fn room(plan: &MemoryPlan) -> u64 {
    (plan.nodes as u64).saturating_mul(NODE_BYTES)
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

/// Takes back what was counted for directories that hold a name of a directory with several: which name stays must not depend on which was seen first. The one
/// in the directory that its own parent entry leads to does, if there is one.
fn withdraw_contested<V: Checkable>(
    volume: &V,
    inodes: &InodeTable,
    certification: &DeferredCertification<'_>,
    suspects: &mut BTreeSet<InodeNo>,
) {
    let mut contested: BTreeSet<InodeNo> = inodes.contested().into_iter().collect();
    // Names in suspects were not counted yet.
    for holder in suspects.iter().filter(|holder| inodes.kind(**holder) == Kind::Directory) {
        let has_name = |inode: InodeNo| {
            inodes.directory(inode).is_some_and(|fact| ![0, holder.0].contains(&fact.parent.load(Relaxed)))
        };
        volume.visit_entries(*holder, &has_name, &mut |target, _| {
            contested.insert(target);
        });
    }
    if contested.is_empty() {
        return;
    }
    let (mut holders, mut preferred) = (BTreeSet::new(), BTreeMap::new());
    for holder in inodes.directories().iter().map(|fact| InodeNo(fact.inode)) {
        volume.visit_entries(holder, &|inode| contested.contains(&inode), &mut |target, _| {
            if contested.contains(&target) {
                holders.insert(holder);
                let says = inodes.directory(target).map(|fact| fact.parent_entry.load(Relaxed));
                if says == Some(holder.0) {
                    preferred.insert(target, holder);
                }
            }
        });
    }
    for holder in holders {
        withdraw(volume, certification, holder, suspects);
    }
    for fact in contested.iter().filter_map(|inode| inodes.directory(*inode)) {
        fact.parent.store(0, Relaxed);
    }
    inodes.prefer(preferred);
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
