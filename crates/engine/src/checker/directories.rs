// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directories among inodes that were read: their blocks are read in the order of the disk, and looked at where the read has put them. Those whose blocks are not known from
//! the record, or lie far apart, are read ahead like maps.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::InodeNo;
use fsmend_device::{Request, coalesce};

use super::ahead::Ahead;
use super::joined::JoinedClaims;
use super::scan::{Worker, room};
use super::window::{GAP, READ_MAX, Window, span};
use super::{Checkable, InodeSummary, read_record};
use crate::Findings;
use crate::scan::certification::{DeferredCertification, DirectorySummary, Pending};
use crate::scan::memory_plan::RunContext;

/// Directories, with their records as far as there was room for them.
#[derive(Default)]
pub struct Directories {
    list: Vec<Directory>,
    /// The records, one behind the other.
    records: Vec<u8>,
    units: Vec<(u64, u64)>,
}

struct Directory {
    inode: InodeNo,
    record: Option<Range<usize>>,
    /// Which units are claimed if its blocks are in order: it was not looked at with its blocks.
    unread: Option<Range<usize>>,
}

impl Directories {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Adds one; its record is given if there is room for that.
    pub fn push(&mut self, inode: InodeNo, record: Option<&[u8]>) {
        let record = record.map(|record| append(&mut self.records, record));
        self.list.push(Directory { inode, record, unread: None });
    }

    /// Adds one whose units are claimed if its blocks are in order.
    pub fn push_unread(&mut self, inode: InodeNo, record: &[u8], units: &[(u64, u64)]) {
        let record = Some(append(&mut self.records, record));
        let unread = Some(append(&mut self.units, units));
        self.list.push(Directory { inode, record, unread });
    }

    fn record(&self, directory: &Directory) -> Option<&[u8]> {
        self.records.get(directory.record.clone()?)
    }
}

fn append<T: Copy>(to: &mut Vec<T>, more: &[T]) -> Range<usize> {
    let start = to.len();
    to.extend_from_slice(more);
    start..to.len()
}

impl<V: Checkable> Worker<'_, V> {
    /// Reads directories, and counts where those in order lead.
    pub fn directories(&mut self, certification: &DeferredCertification<'_>, found: &Directories) {
        if self.effort.is_too_much() {
            return;
        }
        let (volume, ahead, effort) = (self.volume, self.ahead, self.effort);
        let mut counting: Counting<'_, '_, V> = Counting {
            certification,
            found,
            near: &self.near,
            ahead,
            context: self.context,
            claims: JoinedClaims::new(self.claims),
            findings: &mut self.findings,
            suspects: &mut self.suspects,
            pending: &mut self.pending,
        };
        let (pieces, mut rest) = pieces(volume, found);
        let places: Vec<Request> = pieces.iter().map(|(place, _)| *place).collect();
        let reads = coalesce(&places, GAP, READ_MAX);
        let requests: Vec<Request> = reads.iter().map(|read| read.request).collect();
        let mut summary = DirectorySummary::default();
        self.reader.read(&requests, &mut |index, result| {
            let members = pieces[reads[index].members.clone()].iter().map(|(_, at)| *at);
            let Ok(bytes) = result else {
                rest.extend(members);
                return;
            };
            let window = Window::new(volume.device(), effort, (requests[index].offset, &*bytes));
            let near = volume.on(&window);
            for at in members {
                let directory = &found.list[at];
                let record = found.record(directory).unwrap_or_default();
                summary.clear();
                let is_clean = near.summarize_directory(directory.inode, record, &mut summary);
                if window.was_left() {
                    rest.push(at);
                } else {
                    counting.count(directory, is_clean, &mut summary);
                }
            }
        });
        ahead.settle(&mut self.reader, &rest, room(self.context.plan), &mut |at, is_alone| {
            let directory = &found.list[*at];
            let before = ahead.misses();
            summary.clear();
            let is_clean = match found.record(directory) {
                Some(record) if !is_alone => {
                    counting.near.summarize_directory(directory.inode, record, &mut summary)
                }
                Some(record) => volume.summarize_directory(directory.inode, record, &mut summary),
                // There was no room for its record, or it is not in order.
                None => summarize_again(volume, directory.inode, &mut summary),
            };
            if ahead.misses() == before {
                counting.count(directory, is_clean, &mut summary);
            }
        });
    }
}

/// Directories with a piece of the device that has all their blocks, in the order of the disk, and the others, by their places in the list.
fn pieces<V: Checkable>(volume: &V, found: &Directories) -> (Vec<(Request, usize)>, Vec<usize>) {
    let (mut pieces, mut rest, mut blocks) = (Vec::with_capacity(found.len()), Vec::new(), Vec::new());
    for (at, directory) in found.list.iter().enumerate() {
        blocks.clear();
        let is_known =
            found.record(directory).is_some_and(|record| volume.directory_blocks(record, &mut blocks));
        match span(&mut blocks).filter(|_| is_known) {
            Some(span) => pieces.push((span, at)),
            None => rest.push(at),
        }
    }
    pieces.sort_unstable();
    (pieces, rest)
}

/// Counts what directories lead to.
struct Counting<'c, 'w, V: Checkable + 'w> {
    certification: &'c DeferredCertification<'c>,
    found: &'c Directories,
    near: &'c V::On<'w>,
    ahead: &'w Ahead<'w>,
    context: RunContext<'w>,
    claims: JoinedClaims<'w>,
    findings: &'c mut Findings,
    suspects: &'c mut BTreeSet<InodeNo>,
    pending: &'c mut Vec<Pending>,
}

impl<'w, V: Checkable + 'w> Counting<'_, 'w, V> {
    fn count(&mut self, directory: &Directory, is_clean: bool, summary: &mut DirectorySummary) {
        let (certification, inode) = (self.certification, directory.inode);
        if let Some(units) = &directory.unread {
            let units = self.found.units.get(units.clone()).unwrap_or_default();
            match is_clean {
                true => units.iter().for_each(|(unit, count)| self.claims.claim(*unit, *count, inode.0)),
                false => self.claim_again(directory),
            }
        }
        let is_too_much = self.pending.len() + summary.targets.len() >= self.context.plan.pending
            && certification.would_wait(summary);
        if is_too_much {
            self.context.shortages.pending.store(true, Relaxed);
        }
        if !is_clean || is_too_much || !certification.count(inode, summary, self.pending) {
            self.suspects.insert(inode);
        }
    }

    /// Looks at the record of a directory again, with its blocks, and claims what it leads to. What it is does not depend on them.
    fn claim_again(&mut self, directory: &Directory) {
        let (near, inode) = (self.near, directory.inode);
        let Some(record) = self.found.record(directory) else { return };
        let mut summary = InodeSummary::default();
        if !self.ahead.through(|| near.summarize(inode, record, &mut summary)) {
            let mut subject = self.findings.for_subject();
            summary = self.ahead.through(|| near.inspect(inode, record, &mut subject));
            self.findings.merge(subject);
        }
        summary.units.iter().for_each(|(unit, count)| self.claims.claim(*unit, *count, inode.0));
    }
}

/// The fast path of a directory whose record has to be read again. False also where the record is not in order.
pub fn summarize_again<V: Checkable>(volume: &V, inode: InodeNo, summary: &mut DirectorySummary) -> bool {
    let mut found = InodeSummary::default();
    read_record(volume, inode).is_some_and(|record| {
        volume.summarize(inode, &record, &mut found) && volume.summarize_directory(inode, &record, summary)
    })
}
