// SPDX-License-Identifier: MIT OR Apache-2.0
//! How deep directories say that they are (`di_dirdepth`: 1 below the root), beside where they are. The kernel reads it when it chooses a cylinder group for a new directory.
//!
//! FreeBSD's fsck_ffs corrects a wrong depth in silence. 0 means that the depth is not tracked. Other systems keep something else in that place, as
//! owners of 16 bits: where most numbers are too large for depths, none is looked at.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use fsmend_base::InodeNo;
use fsmend_engine::checker::Checkable;
use fsmend_engine::inodes::{InodeTable, Kind};
use fsmend_engine::repair::WritableOverlay;
use fsmend_engine::{Findings, Problem};
use fsmend_ufs_format::geometry::ROOT;

use crate::{UfsFs, rows};

/// Depths from here on are read again.
const NOTED_MAX: u8 = u8::MAX;
/// Directories deeper than this are not judged.
const JUDGED_MAX: u32 = 1024;

/// What the inodes of directories say: one byte for each inode of a group that has directories with a depth.
#[derive(Debug)]
pub(crate) struct Depths {
    groups: Box<[OnceLock<Box<[AtomicU8]>>]>,
}

impl Depths {
    /// Nothing is noted, for so many groups.
    pub fn new(groups: usize) -> Depths {
        Depths { groups: (0..groups).map(|_| OnceLock::new()).collect() }
    }

    fn is_empty(&self) -> bool {
        self.groups.iter().all(|group| group.get().is_none())
    }
}

impl UfsFs<'_> {
    /// Notes the depth that the inode of a directory stores.
    #[inline]
    pub(crate) fn note_depth(&self, inode: InodeNo, depth: u32) {
        if depth != 0 && inode.0 != ROOT {
            self.keep_depth(inode, u8::try_from(depth).unwrap_or(NOTED_MAX));
        }
    }

    fn keep_depth(&self, inode: InodeNo, depth: u8) {
        let (group, index) = self.geometry().inode_group(inode.0);
        let Some(place) = self.layout.depths.groups.get(group as usize) else { return };
        let length = self.scanned_in(group) as usize;
        let depths = place.get_or_init(|| (0..length).map(|_| AtomicU8::new(0)).collect());
        if let Some(noted) = depths.get(index as usize) {
            noted.store(depth, Relaxed);
        }
    }

    /// The depth that was noted; 0 if none was.
    fn noted_depth(&self, inode: InodeNo) -> u8 {
        let (group, index) = self.geometry().inode_group(inode.0);
        let depths = self.layout.depths.groups.get(group as usize).and_then(OnceLock::get);
        depths.and_then(|depths| depths.get(index as usize)).map_or(0, |depth| depth.load(Relaxed))
    }

    /// The depth that a directory stores, and the one that it has; `None` where it stores none or does not hang on the root.
    fn depths_of(&self, inodes: &InodeTable, inode: InodeNo) -> Option<(u32, u32)> {
        let stored = match self.noted_depth(inode) {
            0 => return None,
            NOTED_MAX => self.record(inode)?.depth(),
            noted => noted.into(),
        };
        let (mut at, mut depth) = (inode, 0);
        while at.0 != ROOT {
            at = InodeNo(inodes.directory(at)?.parent.load(Relaxed));
            depth += 1;
            if at.0 == 0 || depth > JUDGED_MAX || inodes.kind(at) != Kind::Directory {
                return None;
            }
        }
        Some((stored, depth))
    }

    /// Whether each noted depth follows from that of the parent. Then all are right: by induction from the root.
    fn depths_follow(&self, inodes: &InodeTable) -> bool {
        (0..inodes.chunk_count()).flat_map(|chunk| inodes.directories_of_chunk(chunk)).all(|directory| {
            let parent = InodeNo(directory.parent.load(Relaxed));
            let before = self.noted_depth(parent);
            match self.noted_depth(InodeNo(directory.inode)) {
                0 => true,
                1 => parent.0 == ROOT,
                NOTED_MAX => false,
                depth => before != 0 && depth == before + 1,
            }
        })
    }

    /// Calls `visit` with each directory whose depth is wrong, what it stores and what is right, in the order of inodes.
    fn visit_wrong_depths(&self, inodes: &InodeTable, visit: &mut dyn FnMut(InodeNo, u32, u32)) {
        if self.layout.depths.is_empty() || self.depths_follow(inodes) || !self.are_depths() {
            return;
        }
        let judged = || {
            (0..inodes.chunk_count()).flat_map(|chunk| inodes.directories_of_chunk(chunk)).filter_map(
                |directory| {
                    let inode = InodeNo(directory.inode);
                    let (stored, depth) = self.depths_of(inodes, inode)?;
                    Some((inode, stored, depth))
                },
            )
        };
        judged()
            .filter(|(_, stored, depth)| stored != depth)
            .for_each(|(inode, stored, depth)| visit(inode, stored, depth));
    }

    /// Whether most of the noted numbers are small enough for depths.
    fn are_depths(&self) -> bool {
        let noted = || self.layout.depths.groups.iter().filter_map(OnceLock::get).flatten();
        let (mut small, mut large) = (0u64, 0u64);
        for depth in noted().map(|depth| depth.load(Relaxed)).filter(|depth| *depth != 0) {
            *if depth == NOTED_MAX { &mut large } else { &mut small } += 1;
        }
        small > large
    }
}

/// Raises the depths that are wrong.
pub(crate) fn check(fs: &UfsFs<'_>, inodes: &InodeTable, findings: &mut Findings) {
    fs.visit_wrong_depths(inodes, &mut |inode, stored, depth| {
        findings.raise(Problem::new(&rows::DEPTH).inode(inode).stored(stored).observed(depth));
    });
}

/// Writes the right depths; `mending` is told whose comes next. Not beside snapshots, which would have to get copies of what is written, for a hint.
pub(crate) fn settle(
    fs: &UfsFs<'_>,
    to: &dyn WritableOverlay,
    inodes: &InodeTable,
    mending: &mut dyn FnMut(InodeNo),
) {
    if fs.layout.superblock.snapshots().count() > 0 {
        return;
    }
    fs.visit_wrong_depths(inodes, &mut |inode, _, depth| {
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
