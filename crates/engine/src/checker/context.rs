//! What a repair works on.

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
    free_from: u64,
}

impl<'a, V: Repairable> RepairContext<'a, V> {
    /// Nothing is mended yet.
    pub fn new(volume: V, overlay: &'a dyn WritableOverlay, input: Input) -> Self {
        RepairContext { volume, overlay, input, lost: Findings::new(), free_from: 0 }
    }

    /// Takes a free unit; `None` when none is left.
    pub fn take_unit(&mut self) -> Option<u64> {
        let claimed = self.input.claims.claimed();
        let unit = (self.free_from..claimed.len()).find(|unit| !claimed.get(*unit))?;
        self.input.claims.claim(unit, 1, Origin::KNOWN);
        self.free_from = unit + 1;
        Some(unit)
    }

    /// A free inode behind the root; `None` when all are in use.
    pub fn free_inode(&self) -> Option<InodeNo> {
        let inodes = &self.input.inodes;
        let is_free = |inode: &InodeNo| inodes.fact(*inode) == Some(InodeFact::default());
        (self.volume.root().0 + 1..=self.volume.inodes_count()).map(InodeNo).find(is_free)
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
