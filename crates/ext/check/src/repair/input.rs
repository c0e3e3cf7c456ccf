// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a repair works on: what the checks left behind, and the file system as the repair under way leaves it.

use std::collections::{BTreeMap, BTreeSet};

use fsmend_base::{BlockNo, InodeNo};
use fsmend_device::ReadError;
use fsmend_engine::claims::Claims;
use fsmend_engine::inodes::InodeTable;
use fsmend_engine::pool::PoolConfig;
use fsmend_engine::{Edit, Findings};
use fsmend_ext_format::features::Features;
use fsmend_ext_format::inode::RawInode;

use fsmend_engine::crosscheck::links::Adjustments;
use fsmend_engine::options::RepairPolicy;
use fsmend_engine::repair::WritableOverlay;

use crate::Fs;
use crate::allocation::Totals;
use crate::directory::repair_input::NameRepairInput;
use crate::inode::seal::seal_inode;
use crate::quota::QuotaUsage;
use crate::xattr::value_mend::ValueMend;
use fsmend_engine::crosscheck::owners::{Contest, Owner};

/// What lists may take where memory has no limit.
const UNLIMITED_BYTES: u64 = 64 << 20;

/// What the checks of a round leave behind for the repair.
#[derive(Default)]
pub struct RepairInput {
    /// What inspections mended, in the order in which it has to be laid down.
    pub edits: Vec<Edit>,
    /// Blocks on the list of bad blocks, ascending: never to be used.
    pub bad_blocks: Vec<u64>,
    /// Units with owners that the scan does not walk.
    pub system_owners: BTreeSet<(u64, Owner)>,
    /// What is wrong with directories and the tree.
    pub names: NameRepairInput,
    /// How reconnecting changes numbers of names, as the link check took them into account.
    pub adjustments: Adjustments,
    /// Inodes whose maps have to be written anew, ascending.
    pub rebuilds: Vec<InodeNo>,
    /// Whether the resize inode has to be written anew.
    pub resize_is_wrong: bool,
    /// What has to change in inodes that hold attribute values.
    pub value_inodes: Vec<(InodeNo, ValueMend)>,
    /// Features that files need, and the superblock lacks.
    pub features: Features,
    /// Whether the journal could not be used and was dropped: a new one has to be made.
    pub journal_dropped: bool,
    /// What the quota files should say.
    pub quota: QuotaUsage,
    /// Who owns what is contested, as far as there was room for.
    pub contest: Option<Contest>,
    /// Contested units that hold attribute blocks.
    pub attribute_units: BTreeSet<u64>,
    /// Memory that what is written may take; without a limit if `None`.
    pub room: Option<u64>,
    /// What files and directories without a name were called, if that is to be part of their names in `lost+found`.
    pub last_names: BTreeMap<InodeNo, String>,
    /// What the mending itself loses.
    pub lost: Findings,
    /// Whether anything above a note was found, or anything was mended: only then is the superblock marked as checked.
    pub is_damaged: bool,
}

/// The file system under repair. `fs.device` is the overlay; facts and claims are kept up to date with what is mended.
pub struct RepairContext<'a> {
    /// The file system on the overlay. Groups and superblock are as they will be written.
    pub fs: Fs<'a>,
    /// Where things are written.
    pub overlay: &'a dyn WritableOverlay,
    /// Facts of all inodes.
    pub inodes: InodeTable,
    /// What is in use.
    pub claims: Claims,
    /// What the checks left behind.
    pub repair_input: RepairInput,
    /// How the user wants things.
    pub policy: RepairPolicy,
    /// Workers that may be used.
    pub pool: PoolConfig<'a>,
    /// Whether the backups of superblock and descriptors have to be written anew.
    pub backups_lag: bool,
    /// What is free and used, once the allocation maps are right.
    pub totals: Totals,
}

impl RepairContext<'_> {
    /// Whether what is written takes more memory than it may. A repair that writes much has to stop then: nothing will come of it.
    pub fn is_full(&self) -> bool {
        self.repair_input.room.is_some_and(|room| self.overlay.bytes_written() > room)
    }

    /// Memory that may still be taken; as much as there is where nothing says.
    pub fn bytes_left(&self) -> u64 {
        self.repair_input
            .room
            .map_or(UNLIMITED_BYTES, |room| room.saturating_sub(self.overlay.bytes_written()))
    }

    /// Whether what can be left undone should be left so, that the rest finds memory.
    pub fn is_half_full(&self) -> bool {
        self.repair_input.room.is_some_and(|room| self.overlay.bytes_written() > room / 2)
    }

    /// Reads a block of the overlay.
    pub fn read_block(&self, block: BlockNo) -> Result<Vec<u8>, ReadError> {
        self.fs.read_block(block)
    }

    /// Writes a block of the overlay.
    pub fn write_block(&self, block: BlockNo, bytes: &[u8]) {
        self.overlay.write(self.fs.block_offset(block), bytes);
    }

    /// Reads the record of an inode as it is by now; `None` for numbers that no inode has, lost tables, unreadable blocks.
    pub fn read_inode(&self, inode: InodeNo) -> Option<Vec<u8>> {
        self.fs.read_inode(inode)?.ok()
    }

    /// The record of `inode` as it stood before this round mended anything.
    pub fn record_before(&self, inode: InodeNo) -> Option<Vec<u8>> {
        let mut record = vec![0; self.fs.geometry.inode_size as usize];
        self.overlay.read_before(self.fs.inode_offset(inode)?, &mut record).ok()?;
        Some(record)
    }

    /// The fixed fields of `inode` as they stood before this round mended anything.
    pub fn inode_before(&self, inode: InodeNo) -> Option<RawInode> {
        Some(RawInode::from_record(&self.record_before(inode)?))
    }

    /// Writes the record of an inode, with its checksum (put into `record` too).
    pub fn write_inode(&self, inode: InodeNo, record: &mut [u8]) {
        seal_inode(&self.fs, inode, record);
        if let Some(offset) = self.fs.inode_offset(inode) {
            self.overlay.write(offset, record);
        }
    }

    /// Puts a record, which has its checksum, in its place.
    pub fn put_inode(&self, inode: InodeNo, record: Vec<u8>) {
        if let Some(offset) = self.fs.inode_offset(inode) {
            self.overlay.put(offset, record);
        }
    }

    /// Changes fixed fields of an inode; whether there is such an inode.
    pub fn amend_inode(&self, inode: InodeNo, change: impl FnOnce(&mut RawInode)) -> bool {
        let Some(mut record) = self.read_inode(inode) else { return false };
        let mut raw = RawInode::from_record(&record);
        change(&mut raw);
        raw.store(&mut record);
        self.write_inode(inode, &mut record);
        true
    }
}
