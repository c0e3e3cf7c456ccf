// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a repair works on.

use std::collections::BTreeMap;

use fsmend_base::InodeNo;

use super::{Repairable, read_record};
use crate::Findings;
use crate::claims::Claims;
use crate::crosscheck::owners::Contest;
use crate::crosscheck::tree::TreeFinding;
use crate::inodes::{InodeFact, InodeTable};
use crate::origins::Origin;
use crate::repair::WritableOverlay;

/// What a check leaves behind.
pub struct Input {
    /// Facts of all inodes.
    pub inodes: InodeTable,
    /// Claims on all units.
    pub claims: Claims,
    /// Units with several owners.
    pub contest: Option<Contest>,
    /// What is wrong with the tree.
    pub tree: Vec<TreeFinding>,
    /// Directories whose parent entry was lost, and has to be written.
    pub parent_entries: Vec<InodeNo>,
    /// What files and directories without a name were called, if that is to be part of their names in `lost+found`.
    pub last_names: BTreeMap<InodeNo, String>,
}

/// The file system under repair. Facts and claims are kept up to date with what is mended.
pub struct RepairContext<'a, V> {
    /// The file system on the overlay.
    pub volume: V,
    /// Where changes are written.
    pub overlay: &'a dyn WritableOverlay,
    /// What the check has left.
    pub input: Input,
    /// What the repair itself loses.
    pub lost: Findings,
    /// No unit before this one is free.
    pub(super) free_from: u64,
    /// Whether an inode got copies of units that others claim as well.
    pub(super) has_moved: bool,
}

impl<'a, V: Repairable> RepairContext<'a, V> {
    /// Nothing is mended yet.
    pub fn new(volume: V, overlay: &'a dyn WritableOverlay, input: Input) -> Self {
        RepairContext { volume, overlay, input, lost: Findings::new(), free_from: 0, has_moved: false }
    }

    /// Takes a free unit; `None` when none is left.
    pub fn take_unit(&mut self) -> Option<u64> {
        take_units(&self.input.claims, self.volume.run_units(), 1, &mut self.free_from)
    }

    /// A free inode behind the root; `None` when all are in use.
    pub fn free_inode(&self) -> Option<InodeNo> {
        let inodes = &self.input.inodes;
        let is_free =
            |inode: &InodeNo| inodes.fact(*inode) == Some(InodeFact::default()) && inodes.is_scanned(*inode);
        let end = self.volume.first_inode().saturating_add(self.volume.inodes_count());
        (self.volume.root().0 + 1..end).map(InodeNo).find(is_free)
    }

    /// Changes the record of an inode, which is sealed afterwards. Nothing happens where it cannot be read.
    pub fn amend(&self, inode: InodeNo, change: impl FnOnce(&V, &mut [u8])) {
        let Some(mut record) = read_record(&self.volume, inode) else { return };
        change(&self.volume, &mut record);
        self.volume.seal(inode, &mut record);
        self.put(inode, record);
    }

    /// Puts a record in its place.
    pub fn put(&self, inode: InodeNo, record: Vec<u8>) {
        if let Some(place) = self.volume.record_place(inode) {
            self.overlay.put(place, record);
        }
    }
}

/// Takes `count` free units in a row that do not cross a multiple of `run`; `None` when there are none. No unit before `free_from` is free.
pub(super) fn take_units(claims: &Claims, run: u64, count: u64, free_from: &mut u64) -> Option<u64> {
    let (claimed, run) = (claims.claimed(), run.max(1));
    let first = (*free_from..claimed.len()).find(|unit| !claimed.get(*unit))?;
    *free_from = first;
    let starts = (first - first % run..claimed.len()).step_by(usize::try_from(run).ok()?);
    let fits = |unit: u64| (unit..unit + count).all(|unit| !claimed.get(unit));
    let found = starts
        .filter(|start| start + run <= claimed.len())
        .find_map(|start| (start..=start + run.checked_sub(count)?).find(|unit| fits(*unit)))?;
    claims.claim(found, count, Origin::KNOWN);
    Some(found)
}
