//! What takes the facts of the whole file system to be mended, in one fixed order.

use std::collections::BTreeSet;

use fsmend_base::{BlockNo, InodeNo};
use fsmend_device::ReadError;
use fsmend_engine::claims::Claims;
use fsmend_engine::inodes::InodeTable;
use fsmend_engine::pool::Crew;
use fsmend_engine::{Edit, Findings, Layer};
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::Features;
use fsmend_ext_format::inode::RawInode;

use super::{Draft, Sketch, Wishes};
use crate::directory::repair::NameRemains;
use crate::links::Adjustments;
use crate::owners::{self, Contest, Owner};
use crate::quota::QuotaUsage;
use crate::xattr::repair::ValueMend;
use crate::{
    Fs, allocation, directory, extent, group, journal, links, mmp, orphan, quota, resize_inode, superblock,
    xattr,
};

/// What the checks of a round leave behind for the mender.
#[derive(Default)]
pub struct Remains {
    /// What inspections mended, in the order in which it has to be laid down.
    pub edits: Vec<Edit>,
    /// Blocks on the list of bad blocks, ascending: never to be used.
    pub bad_blocks: Vec<u64>,
    /// Units with owners that the scan does not walk.
    pub system_owners: BTreeSet<(u64, Owner)>,
    /// What is wrong with directories and the tree.
    pub names: NameRemains,
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
    /// What the mending itself loses.
    pub lost: Findings,
    /// Whether anything above a note was found, or anything was mended: only then is the superblock marked as checked.
    pub is_damaged: bool,
}

/// The file system under repair. `fs.device` is the draft; facts and claims are kept up to date with what is mended.
pub struct Mender<'a> {
    /// The file system on the draft. Groups and superblock are as they will be written.
    pub fs: Fs<'a>,
    /// Where things are written.
    pub draft: &'a dyn Sketch,
    /// Facts of all inodes.
    pub inodes: InodeTable,
    /// What is in use.
    pub claims: Claims,
    /// What the checks left behind.
    pub remains: Remains,
    /// How the user wants things.
    pub wishes: Wishes,
    /// Workers that may be used.
    pub crew: Crew<'a>,
    /// Whether the backups of superblock and descriptors have to be written anew.
    pub backups_lag: bool,
}

/// What has to be written, byte offsets and bytes, and what is lost by it.
pub type Mended = (Vec<(u64, Vec<u8>)>, Findings);

/// Mends what `fs` has wrong, and returns what has to be written over its device, and what is lost by that. Nothing is to be written
/// where something could not be done that had to be done in full. `None` when the memory does not suffice.
pub fn mend(
    fs: Fs<'_>,
    (inodes, claims): (InodeTable, Claims),
    mut remains: Remains,
    wishes: Wishes,
    crew: Crew<'_>,
) -> Option<Mended> {
    let draft = Draft::new(fs.device);
    leave_contested(&fs, &claims, &mut remains);
    draft.lay(std::mem::take(&mut remains.edits));
    let fs = fs.over(&draft);
    let mut mender = Mender { fs, draft: &draft, inodes, claims, remains, wishes, crew, backups_lag: false };
    let is_done = mender.run();
    let lost = std::mem::take(&mut mender.remains.lost);
    let is_full = mender.is_full();
    drop(mender);
    (!is_full).then(|| (if is_done { draft.into_changes(crew) } else { Vec::new() }, lost))
}

/// A block that belongs to several owners, or to the file system itself, is not mended for one of them: what is wrong for one may be
/// right for another. When each has its own, the next round mends it. A directory is mended where it is the only one, but not where what is there
/// proves to be somebody's attributes: they would be gone.
fn leave_contested(fs: &Fs<'_>, claims: &Claims, remains: &mut Remains) {
    let Remains { edits, attribute_units, .. } = remains;
    let is_left = |edit: &Edit| {
        let block = edit.offset / u64::from(fs.geometry.block_size);
        let unit = fs.geometry.cluster_of(block);
        match edit.layer {
            Layer::Block => fs.metadata.get(block) || claims.contested().get(unit),
            Layer::Contents => attribute_units.contains(&unit),
            Layer::Record | Layer::Amendment => false,
        }
    };
    edits.retain(|edit| !is_left(edit));
}

impl Mender<'_> {
    /// The order matters: places before contents, owners before names, names before counts, bitmaps and totals last.
    /// `false` when nothing may be written.
    fn run(&mut self) -> bool {
        superblock::repair::identify(self);
        group::repair::mend(self);
        mmp::repair::mend(self);
        if !owners::repair::mend(self) {
            return false;
        }
        extent::repair::mend(self);
        resize_inode::repair::mend(self);
        xattr::repair::mend(self);
        super::improve::improve(self);
        directory::repair::mend(self);
        links::repair::mend(self);
        journal::repair::mend(self);
        orphan::repair::mend(self);
        quota::repair::mend(self);
        crate::region::repair::seal_directories(self);
        let totals = allocation::repair::mend(self);
        superblock::repair::mend(self, &totals);
        true
    }

    /// Whether what is written takes more memory than it may. Whoever writes much has to stop then: nothing will come of it.
    pub fn is_full(&self) -> bool {
        self.remains.room.is_some_and(|room| self.draft.bytes_written() > room)
    }

    /// Whether what can be left undone should be left so, that the rest finds memory.
    pub fn is_half_full(&self) -> bool {
        self.remains.room.is_some_and(|room| self.draft.bytes_written() > room / 2)
    }

    /// Reads a block of the draft.
    pub fn read_block(&self, block: BlockNo) -> Result<Vec<u8>, ReadError> {
        self.fs.read_block(block)
    }

    /// Writes a block of the draft.
    pub fn write_block(&self, block: BlockNo, bytes: &[u8]) {
        self.draft.write(self.fs.block_offset(block), bytes);
    }

    /// Reads the record of an inode as it is by now; `None` for numbers that no inode has, lost tables, unreadable blocks.
    pub fn read_inode(&self, inode: InodeNo) -> Option<Vec<u8>> {
        self.fs.read_inode(inode)?.ok()
    }

    /// The record of `inode` as it stood before this round mended anything.
    pub fn record_before(&self, inode: InodeNo) -> Option<Vec<u8>> {
        let mut record = vec![0; self.fs.geometry.inode_size as usize];
        self.draft.read_before(self.fs.inode_offset(inode)?, &mut record).ok()?;
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
            self.draft.write(offset, record);
        }
    }

    /// Puts a record, which has its checksum, in its place.
    pub fn put_inode(&self, inode: InodeNo, record: Vec<u8>) {
        if let Some(offset) = self.fs.inode_offset(inode) {
            self.draft.put(offset, record);
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

/// Puts the right checksum into an inode record, where the file system has them. A record of nothing but zeroes needs none.
pub fn seal_inode(fs: &Fs<'_>, inode: InodeNo, record: &mut [u8]) {
    if fs.geometry.features.metadata_csum() && record.iter().any(|byte| *byte != 0) {
        checksum::seal_inode(fs.geometry.checksum_seed, inode, record);
    }
}

/// The seed of checksums of what belongs to `inode`, whose record is `record`; `None` where the file system has none.
pub fn seed_of(fs: &Fs<'_>, inode: InodeNo, record: &[u8]) -> Option<u32> {
    let generation = RawInode::from_record(record).i_generation.get();
    fs.geometry
        .features
        .metadata_csum()
        .then(|| checksum::inode_seed(fs.geometry.checksum_seed, inode, generation))
}
