// SPDX-License-Identifier: MIT OR Apache-2.0
//! Suspect directories: inspected side by side, the directories of each inode group by themselves, and taken up in the order of their numbers.
//!
//! Most directories say nothing about what others say something about, too: what is wrong with them, and what mends them, is the same
//! whichever is inspected first. So workers inspect them on facts that do not change meanwhile ([`DeferredParentClaims`]). What does not hold any more
//! when its turn comes (two directories that both name a third), what took more memory than it may, and what is not worth a second worker is
//! inspected at its turn, as if there were no others.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_base::InodeNo;
use fsmend_engine::Findings;
use fsmend_engine::budget::{Budget, Reservation};
use fsmend_engine::inodes::InodeTable;
use fsmend_engine::pool::{self, PoolConfig, Stage};

use super::inspect::Inspector;
use super::parent_claims::{DeferredParentClaims, Kept};
use super::{Directory, Mending, Surroundings, inspect_with};
use crate::Fs;

/// The work, as traces call it.
pub const STAGE: [Stage; 1] = [Stage { name: "suspect directories", pass: 1 }];
/// Directories that are inspected at their turn, as traces call what holds that.
pub const TURNS: &str = "turns of directories";

/// Directories of one group that one worker takes at a time.
const DIRECTORIES_PER_PART: usize = 16;
/// Parts that are worked out before the first of them is taken up.
const PARTS_AT_ONCE: usize = 64;
/// What one part may hold; what comes behind it waits for its turn.
const PART_BYTES: u64 = 256 << 10;
/// What an inspection that was worked out holds beside what it has found.
const INSPECTED_BYTES: u64 = 1024;
/// One more worker for so many directories: to start one takes about as long as to inspect them.
const DIRECTORIES_PER_WORKER: usize = 16;

/// What inspections of many directories work with.
pub(crate) struct Suspects<'s> {
    /// The file system.
    pub fs: &'s Fs<'s>,
    /// Facts of all inodes.
    pub inodes: &'s InodeTable,
    /// What else is known.
    pub surroundings: Surroundings<'s>,
    /// Workers that may be used.
    pub pool: PoolConfig<'s>,
    /// Memory that may be used.
    pub budget: &'s Budget,
    /// Set when the user wants to stop.
    pub cancel: &'s AtomicBool,
}

/// What became of one directory before its turn.
enum Ahead {
    /// There is no such directory.
    Nothing,
    /// It was inspected.
    Inspected { findings: Box<Findings>, mending: Mending, said: Kept },
    /// It has to wait.
    Waits,
}

impl Suspects<'_> {
    /// Inspects `directories`, which ascend. Calls `note` with what each leaves for the repair, in their order.
    pub fn inspect(
        &self,
        directories: &[InodeNo],
        findings: &mut Findings,
        note: &mut dyn FnMut(InodeNo, Mending),
    ) {
        let pool = self.pool.for_work(1 + directories.len() / DIRECTORIES_PER_WORKER);
        let parts_at_once = if pool.workers > 1 { self.parts_that_fit() } else { 0 };
        if parts_at_once == 0 {
            return pool.merge(TURNS, || self.one_by_one(directories, findings, note));
        }
        // It is given back at the end.
        let _held = Reservation::of(self.budget, parts_at_once as u64 * PART_BYTES);
        let group_of = |inode: &InodeNo| self.fs.geometry.inode_place(*inode).map(|(group, _)| group);
        let groups = directories.chunk_by(|a, b| group_of(a) == group_of(b));
        let parts: Vec<&[InodeNo]> = groups.flat_map(|group| group.chunks(DIRECTORIES_PER_PART)).collect();
        for parts in parts.chunks(parts_at_once) {
            let blank = findings.fresh();
            let ahead = self.look_ahead(pool, parts, &blank);
            pool.merge(TURNS, || {
                for (inode, ahead) in parts.iter().copied().flatten().zip(ahead) {
                    if !self.cancel.load(Relaxed) {
                        self.take_up(*inode, ahead, findings, note);
                    }
                }
            });
        }
    }

    /// As many parts at a time as there is memory for, which is reserved.
    fn parts_that_fit(&self) -> usize {
        let fits = |parts: &usize| self.budget.try_reserve(*parts as u64 * PART_BYTES);
        [PARTS_AT_ONCE, PARTS_AT_ONCE / 4].into_iter().find(fits).unwrap_or(0)
    }

    fn one_by_one(
        &self,
        directories: &[InodeNo],
        findings: &mut Findings,
        note: &mut dyn FnMut(InodeNo, Mending),
    ) {
        for inode in directories {
            if self.cancel.load(Relaxed) {
                return;
            }
            self.take_up(*inode, Ahead::Waits, findings, note);
        }
    }

    /// Inspects what stands in `parts` on the facts as they are; in the order of `parts`, whichever worker does it.
    fn look_ahead(&self, pool: PoolConfig<'_>, parts: &[&[InodeNo]], blank: &Findings) -> Vec<Ahead> {
        let numbers: Vec<usize> = (0..parts.len()).collect();
        let look = |done: &mut Vec<(usize, Vec<Ahead>)>, numbers: &[usize]| {
            let parts = numbers.iter().filter_map(|number| Some((*number, *parts.get(*number)?)));
            done.extend(parts.map(|(number, part)| (number, self.look_at_part(part, blank))));
        };
        let done = pool::run_slices(pool, &STAGE, &numbers, 1, &AtomicBool::new(false), |_| Vec::new(), look);
        let mut done: Vec<_> = done.into_iter().flatten().collect();
        done.sort_unstable_by_key(|(number, _)| *number);
        done.into_iter().flat_map(|(_, part)| part).collect()
    }

    fn look_at_part(&self, part: &[InodeNo], blank: &Findings) -> Vec<Ahead> {
        let mut left = PART_BYTES;
        let mut look = |inode: &InodeNo| {
            let (ahead, bytes) = self.look_at(*inode, left, blank);
            left = left.saturating_sub(bytes);
            ahead
        };
        part.iter().map(&mut look).collect()
    }

    /// Inspects one directory, unless that takes more than so many bytes; and how many it took.
    fn look_at(&self, inode: InodeNo, room: u64, blank: &Findings) -> (Ahead, u64) {
        if room < INSPECTED_BYTES || self.cancel.load(Relaxed) {
            return (Ahead::Waits, 0);
        }
        let Some(directory) = Directory::open(self.fs, inode) else { return (Ahead::Nothing, 0) };
        let mut findings = blank.for_subject();
        let parent_claims = DeferredParentClaims::kept(self.inodes, inode);
        let inspector = Inspector::new(self.fs, &directory, self.surroundings, parent_claims, &mut findings);
        let Some((mending, said)) = inspector.run_within(room) else { return (Ahead::Waits, 0) };
        let bytes = INSPECTED_BYTES + findings.bytes_held() + said.bytes_held();
        (Ahead::Inspected { findings: Box::new(findings), mending, said }, bytes)
    }

    /// A directory has its turn.
    fn take_up(
        &self,
        inode: InodeNo,
        ahead: Ahead,
        findings: &mut Findings,
        note: &mut dyn FnMut(InodeNo, Mending),
    ) {
        match ahead {
            Ahead::Nothing => {}
            Ahead::Inspected { findings: found, mending, said } if said.holds(self.inodes) => {
                said.enter(self.inodes, inode);
                findings.merge(*found);
                note(inode, mending);
            }
            Ahead::Inspected { .. } | Ahead::Waits => {
                let Some(directory) = Directory::open(self.fs, inode) else { return };
                note(inode, inspect_with(self.fs, self.inodes, &directory, self.surroundings, findings));
            }
        }
    }
}
