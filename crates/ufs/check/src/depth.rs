// SPDX-License-Identifier: MIT OR Apache-2.0
//! How deep directories say that they are (`di_dirdepth`: 1 below the root), beside where they are. The kernel reads it when it chooses a cylinder group for a new directory.
//!
//! FreeBSD's fsck_ffs corrects a wrong depth in silence. 0 means that the depth is not known: nothing is said of it, and a repair of something else fills it in where other directories have
//! one. Other systems keep something else in that place, as
//! owners of 16 bits: where most numbers are too large for depths, none is looked at.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use fsmend_base::InodeNo;
use fsmend_engine::checker::Checkable;
use fsmend_engine::inodes::{DirectoryFact, InodeTable, Kind};
use fsmend_engine::repair::WritableOverlay;
use fsmend_engine::{Findings, Problem};
use fsmend_ufs_format::geometry::ROOT;

use crate::{UfsFs, rows};

/// Stands for this depth and all larger ones, and in what was found also for directories that do not hang on the root.
const LARGE: u8 = u8::MAX;
/// Of longer chains of parents nothing is said.
const CHAIN_MAX: usize = 1 << 16;

/// A depth for each inode of the groups that have directories with one; 0 where none is known.
#[derive(Debug)]
pub(crate) struct Depths {
    groups: Box<[OnceLock<Box<[AtomicU8]>>]>,
}

impl Depths {
    /// Nothing is known, for so many groups.
    pub fn new(groups: usize) -> Depths {
        Depths { groups: (0..groups).map(|_| OnceLock::new()).collect() }
    }

    fn is_empty(&self) -> bool {
        self.groups.iter().all(|group| group.get().is_none())
    }

    /// Whether most numbers are small enough for depths.
    fn are_depths(&self) -> bool {
        let all = self.groups.iter().filter_map(OnceLock::get).flatten();
        let (mut small, mut large) = (0u64, 0u64);
        for depth in all.map(|depth| depth.load(Relaxed)).filter(|depth| *depth != 0) {
            *if depth == LARGE { &mut large } else { &mut small } += 1;
        }
        small > large
    }
}

impl UfsFs<'_> {
    /// Notes the depth that the inode of a directory stores.
    #[inline]
    pub(crate) fn note_depth(&self, inode: InodeNo, depth: u32) {
        if depth != 0 && inode.0 != ROOT {
            self.set_depth(&self.layout.depths, inode, u8::try_from(depth).unwrap_or(LARGE));
        }
    }

    fn set_depth(&self, depths: &Depths, inode: InodeNo, depth: u8) {
        let (group, index) = self.geometry().inode_group(inode.0);
        let Some(place) = depths.groups.get(group as usize) else { return };
        let length = self.scanned_in(group) as usize;
        let of_group = place.get_or_init(|| (0..length).map(|_| AtomicU8::new(0)).collect());
        if let Some(place) = of_group.get(index as usize) {
            place.store(depth, Relaxed);
        }
    }

    fn depth_in(&self, depths: &Depths, inode: InodeNo) -> u8 {
        let (group, index) = self.geometry().inode_group(inode.0);
        let of_group = depths.groups.get(group as usize).and_then(OnceLock::get);
        of_group.and_then(|depths| depths.get(index as usize)).map_or(0, |depth| depth.load(Relaxed))
    }

    /// Whether each noted depth follows from that of the parent. Then all are right: by induction from the root. One that is not known is right if `may_lack`.
    fn depths_follow(&self, inodes: &InodeTable, may_lack: bool) -> bool {
        let noted = |inode| self.depth_in(&self.layout.depths, InodeNo(inode));
        directories(inodes).all(|directory| {
            let parent = directory.parent.load(Relaxed);
            match noted(directory.inode) {
                0 => may_lack || directory.inode == ROOT,
                1 => parent == ROOT,
                LARGE => false,
                depth => noted(parent) == depth - 1,
            }
        })
    }

    /// The depth of a directory. Each is found once: what lies on the way to the root is kept in `found`. `chain` is a buffer.
    fn find_depth(
        &self,
        (inodes, inode): (&InodeTable, InodeNo),
        found: &Depths,
        chain: &mut Vec<InodeNo>,
    ) -> u8 {
        let mut at = inode;
        let mut depth = loop {
            if at.0 == ROOT {
                break 0;
            }
            let known = self.depth_in(found, at);
            if known != 0 {
                break known;
            }
            chain.push(at);
            let parent = InodeNo(inodes.directory(at).map_or(0, |fact| fact.parent.load(Relaxed)));
            if chain.len() == CHAIN_MAX || inodes.kind(parent) != Kind::Directory {
                break LARGE;
            }
            at = parent;
        };
        while let Some(at) = chain.pop() {
            depth = depth.saturating_add(1);
            self.set_depth(found, at, depth);
        }
        depth
    }

    /// Calls `visit` with each directory whose depth is wrong, or also not known unless it `may_lack`, what it stores and what is right, in the order of inodes.
    fn visit_wrong_depths(
        &self,
        inodes: &InodeTable,
        may_lack: bool,
        visit: &mut dyn FnMut(InodeNo, u32, u32),
    ) {
        let noted = &self.layout.depths;
        if noted.is_empty() || self.depths_follow(inodes, may_lack) || !noted.are_depths() {
            return;
        }
        let (found, mut chain) = (Depths::new(noted.groups.len()), Vec::new());
        for inode in directories(inodes).map(|directory| InodeNo(directory.inode)) {
            let stored = self.depth_in(noted, inode);
            if stored == 0 && may_lack {
                continue;
            }
            let depth = self.find_depth((inodes, inode), &found, &mut chain);
            if depth == stored || depth == LARGE {
                continue;
            }
            let stored = match stored {
                LARGE => self.record(inode).map_or(stored.into(), |record| record.depth()),
                _ => stored.into(),
            };
            visit(inode, stored, depth.into());
        }
    }
}

/// All directories, in the order of inodes.
fn directories(inodes: &InodeTable) -> impl Iterator<Item = &DirectoryFact> {
    (0..inodes.chunk_count()).flat_map(|chunk| inodes.directories_of_chunk(chunk))
}

/// Raises the depths that are wrong.
pub(crate) fn check(fs: &UfsFs<'_>, inodes: &InodeTable, findings: &mut Findings) {
    fs.visit_wrong_depths(inodes, true, &mut |inode, stored, depth| {
        findings.raise(Problem::new(&rows::DEPTH).inode(inode).stored(stored).observed(depth));
    });
}

/// Writes the right depths, those that were not known too, and calls `mending` with each inode before its record is written. Nothing is written while there are snapshots: each block would
/// have to be copied to them first, for a hint.
pub(crate) fn settle(
    fs: &UfsFs<'_>,
    to: &dyn WritableOverlay,
    inodes: &InodeTable,
    mending: &mut dyn FnMut(InodeNo),
) {
    if fs.layout.superblock.snapshots().count() > 0 {
        return;
    }
    fs.visit_wrong_depths(inodes, false, &mut |inode, _, depth| {
        let Some(mut record) = fs.record(inode) else { return };
        mending(inode);
        record.set_depth(depth);
        fs.put_record(to, inode, &mut record);
    });
}

/// The depth for a directory that is made below the root; 0 where depths are not tracked.
pub(crate) fn below_root(fs: &UfsFs<'_>) -> u32 {
    u32::from(!fs.layout.depths.is_empty())
}
