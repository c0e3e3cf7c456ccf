// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of a mounted file system, and the life of an operation on it: begin, change blocks in memory, and either all of it becomes
//! part of the running transaction or none.

use std::collections::{BTreeSet, HashMap};

use fsmend_base::{GroupNo, width};
use fsmend_blockcache::{BlockCache, HeldInodes, MountState, PendingFrees};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use fsmend_vfs::{Caller, Errno, InodeNo, Result, Time};
use zerocopy::{FromBytes, IntoBytes};

use crate::alloc::Reserve;
use crate::journal::Log;
use crate::orphan::OrphanBlock;
use crate::policy::{GroupUse, Layout, Policy};
use crate::quota::Quotas;
use crate::region::Regions;

/// Changed blocks of a file system without a journal that may gather before they are written.
const UNLOGGED_CHANGES_MAX: usize = 4096;
/// The same where a file system is filled that may be lost: the more there are, the fewer are written twice.
const BULK_CHANGES_MAX: usize = 32768;

/// Sums over all groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    pub free_blocks: u64,
    pub free_inodes: u64,
}

/// A mounted file system.
pub(crate) struct Volume {
    pub cache: BlockCache,
    pub geometry: Geometry,
    pub layout: Layout,
    pub policy: Box<dyn Policy>,
    pub log: Option<Log>,
    pub mode: MountState,
    pub totals: Totals,
    /// Blocks that hold the primary descriptors, in order.
    pub desc_places: Vec<u64>,
    /// Where metadata of groups lies, by the group in whose blocks it does, counted from that group's first block.
    pub own: HashMap<u32, Vec<std::ops::Range<u64>>>,
    /// The indirect regions, known from when the groups have been surveyed.
    pub regions: Regions,
    /// Groups whose bitmaps or descriptors the running transaction has changed, and not sealed yet.
    pub touched: BTreeSet<u32>,
    /// What the running transaction has freed, and so may not be taken before it is in the log.
    pub freed: PendingFrees,
    /// Inodes that are held.
    pub held: HeldInodes,
    /// How full groups are, as far as it was asked for since they changed.
    pub uses: Vec<Option<GroupUse>>,
    /// Room that is kept for some.
    pub reserve: Reserve,
    /// On whose behalf operations are.
    pub caller: Caller,
    /// When the current operation is.
    pub now: Time,
    /// Who uses how much, where that is limited.
    pub quotas: Quotas,
    /// Nothing is logged, as the file system may be lost.
    pub is_bulk: bool,
    /// The log is emptied whenever everything is to be durable.
    pub home_at_sync: bool,
    /// Hash version for new indexes, signs of characters settled, and the seed of hashes.
    pub hash_version: u8,
    pub hash_flags: u32,
    pub hash_seed: [u32; 4],
    /// `s_want_extra_isize`, for new inodes.
    pub extra_isize: u16,
    /// Blocks that the format takes, for `statfs`.
    pub overhead: u64,
    /// Counts up, for the generations of new inodes.
    pub generation: u32,
    /// The block of the orphan file whose orphans are being removed after a crash.
    pub orphan_block: Option<OrphanBlock>,
}

/// What has to be taken back when an operation fails, besides blocks.
/// (`touched` is not among it: to seal a group that has not changed changes nothing.)
struct Before {
    totals: Totals,
    generation: u32,
}

impl Volume {
    /// Where the superblock stands: its block, and the byte in that block.
    pub fn superblock_place(&self) -> (u64, usize) {
        let size = u64::from(self.geometry.block_size);
        (SUPERBLOCK_OFFSET / size, width::index(SUPERBLOCK_OFFSET % size))
    }

    /// The superblock as it is in memory.
    pub fn superblock(&mut self) -> Result<RawSuperblock> {
        let (block, at) = self.superblock_place();
        let bytes = self.cache.get(block)?;
        let part = bytes.get(at..at + SUPERBLOCK_SIZE).ok_or(Errno::Corrupt)?;
        RawSuperblock::read_from_bytes(part).map_err(|_| Errno::Corrupt)
    }

    /// Changes the superblock and seals it.
    pub fn change_superblock(&mut self, change: impl FnOnce(&mut RawSuperblock)) -> Result<()> {
        let (block, at) = self.superblock_place();
        let mut superblock = self.superblock()?;
        change(&mut superblock);
        if self.geometry.features.metadata_csum() {
            fsmend_ext_format::checksum::seal_superblock(&mut superblock);
        }
        let bytes = self.cache.change(block)?;
        let place = bytes.get_mut(at..at + SUPERBLOCK_SIZE).ok_or(Errno::Corrupt)?;
        place.copy_from_slice(superblock.as_bytes());
        Ok(())
    }

    /// An error if the file system may not be changed.
    pub fn check_writable(&self) -> Result<()> {
        self.mode.check_writable()
    }

    /// An error if the file system is not there any more.
    pub fn check_mounted(&self) -> Result<()> {
        self.mode.check_mounted()
    }

    /// Runs an operation: what it changes becomes part of the running transaction if it succeeds, and is taken back if it fails. When there is no room only
    /// because what was freed is not in the log yet, that is done, and the operation begins anew.
    pub fn operation<T>(&mut self, now: Time, mut body: impl FnMut(&mut Volume) -> Result<T>) -> Result<T> {
        self.check_writable()?;
        self.make_room(now)?;
        self.now = now;
        let mut result = self.attempt(&mut body);
        if matches!(result, Err(Errno::NoSpace)) && !self.freed.is_empty() {
            self.commit(now)?;
            result = self.attempt(&mut body);
        }
        result
    }

    fn attempt<T>(&mut self, body: &mut impl FnMut(&mut Volume) -> Result<T>) -> Result<T> {
        let before = Before { totals: self.totals, generation: self.generation };
        self.cache.begin();
        self.freed.begin();
        self.regions.begin();
        let result = body(self);
        if result.is_ok() {
            self.cache.finish();
            self.freed.finish();
        } else {
            self.cache.take_back();
            self.freed.take_back();
            self.regions.take_back();
            self.quotas.take_back();
            self.uses.clear();
            (self.totals, self.generation) = (before.totals, before.generation);
        }
        result
    }

    /// Changed blocks from which on the running transaction is committed.
    pub fn changes_max(&self) -> usize {
        let unlogged = if self.is_bulk { BULK_CHANGES_MAX } else { UNLOGGED_CHANGES_MAX };
        self.log.as_ref().map_or(unlogged, |log| (log.capacity() / 4) as usize)
    }

    /// Whether an operation that comes in steps should end this one.
    pub fn is_step_full(&self) -> bool {
        self.cache.changed_count() + self.cache.forgotten_count() / 64 >= self.changes_max()
    }

    fn make_room(&mut self, now: Time) -> Result<()> {
        if self.is_step_full() { self.commit(now) } else { Ok(()) }
    }

    /// Whether the running transaction holds anything.
    pub fn has_changes(&self) -> bool {
        self.cache.changed_count() > 0 || self.cache.forgotten_count() > 0 || !self.freed.is_empty()
    }

    /// Ends the running transaction. With a journal it is durable then; without, it is on its way.
    pub fn commit(&mut self, now: Time) -> Result<()> {
        if !self.has_changes() {
            return Ok(());
        }
        let result = self.seal(now).and_then(|()| self.write_transaction(now));
        match result {
            Ok(()) => self.freed.clear(),
            // What is in memory cannot become true any more.
            Err(_) => self.mode = MountState::Failed,
        }
        result
    }

    fn write_transaction(&mut self, now: Time) -> Result<()> {
        let Some(mut log) = self.log.take() else { return self.cache.write_changed() };
        let result = self.write_to_log(&mut log, now);
        self.log = Some(log);
        result
    }

    fn write_to_log(&mut self, log: &mut Log, now: Time) -> Result<()> {
        let changed = self.cache.changed_blocks();
        let mut revoked = self.cache.forgotten_blocks();
        revoked.retain(|block| log.has_logged(*block));
        if log.blocks_needed(changed.len(), revoked.len()) > log.room() as usize {
            self.checkpoint(log)?;
            // Nothing is in the log any more that would have to be revoked.
            revoked.clear();
        }
        log.write(&mut self.cache, &changed, &revoked, now)?;
        self.cache.committed(changed);
        if log.room() < log.capacity() / 2 {
            self.checkpoint(log)?;
        }
        Ok(())
    }

    /// Empties the log: what is in it is written home.
    fn checkpoint(&mut self, log: &mut Log) -> Result<()> {
        if self.cache.waiting_count() > 0 {
            self.cache.write_home()?;
            self.cache.sync()?;
        }
        log.emptied(&mut self.cache)
    }

    /// Puts right checksums and sums into what the running transaction has changed.
    fn seal(&mut self, now: Time) -> Result<()> {
        for group in std::mem::take(&mut self.touched) {
            self.seal_group(GroupNo(group))?;
        }
        let (totals, seconds) = (self.totals, now.seconds.cast_unsigned());
        self.change_superblock(|superblock| {
            superblock.s_free_blocks_count_lo.set(width::low_u32(totals.free_blocks));
            superblock.s_free_blocks_count_hi.set((totals.free_blocks >> 32) as u32);
            superblock.s_free_inodes_count.set(width::low_u32(totals.free_inodes));
            superblock.s_wtime.set(width::low_u32(seconds));
            superblock.s_wtime_hi = width::low_u8(seconds >> 32);
        })
    }

    /// Makes everything durable.
    pub fn sync(&mut self, now: Time) -> Result<()> {
        let has_changes = self.has_changes();
        self.commit(now)?;
        if self.log.is_none() || !has_changes {
            let is_needed = has_changes || self.cache.has_data_to_sync() || self.log.is_none();
            return if is_needed {
                self.cache.sync().inspect_err(|_| self.mode = MountState::Failed)
            } else {
                Ok(())
            };
        }
        match self.home_at_sync {
            true => self.empty_log().inspect_err(|_| self.mode = MountState::Failed),
            false => Ok(()),
        }
    }

    /// What is committed is at home, and durable there.
    pub fn flush_home(&mut self) -> Result<()> {
        self.cache.write_home()?;
        self.cache.sync()
    }

    /// Empties the log.
    pub fn empty_log(&mut self) -> Result<()> {
        let Some(mut log) = self.log.take() else { return self.flush_home() };
        let result = self.checkpoint(&mut log);
        self.log = Some(log);
        result
    }

    /// Says that the log is empty, and readies it for the spare transaction; everything in it has to be at home.
    pub fn set_log_aside(&mut self) -> Result<()> {
        match &mut self.log {
            Some(log) => log.set_aside(&mut self.cache),
            None => Ok(()),
        }
    }

    /// Whether an inode is held.
    pub fn is_held(&self, inode: InodeNo) -> bool {
        self.held.contains(inode)
    }
}
