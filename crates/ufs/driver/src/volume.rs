// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of a mounted file system, and the life of an operation on it: begin, change fragments in memory, and either all of it becomes part of what
//! will be written or none.

use fsmend_base::width;
use fsmend_blockcache::{BlockCache, HeldInodes, MountState};
use fsmend_ufs_format::geometry::Geometry;
use fsmend_ufs_format::summary::COUNTS_SIZE;
use fsmend_ufs_format::superblock::{Superblock, SuperblockFlags};
use fsmend_vfs::{Caller, Errno, InodeNo, Result, Time};

use crate::groups::GroupTable;
use crate::hints::Hints;
use crate::mkfs::set_totals;
use crate::policy::{Layout, Policy};

/// Changed fragments that may gather before they are written.
const CHANGES_MAX: usize = 16384;
/// Stages that may gather; each costs a synchronisation of the device.
const STAGES_MAX: u32 = 48;

/// A mounted file system.
pub(crate) struct Volume {
    /// In units of fragments.
    pub cache: BlockCache,
    pub geometry: Geometry,
    pub superblock: Superblock,
    pub layout: Layout,
    pub policy: Box<dyn Policy>,
    pub mode: MountState,
    pub groups: GroupTable,
    /// Inodes that are held.
    pub held: HeldInodes,
    /// On whose behalf operations are.
    pub caller: Caller,
    /// What is remembered of directories.
    pub hints: Hints,
    /// Counts up, for the generations of new inodes.
    pub generation: u32,
}

impl Volume {
    /// Reads bytes that are not in the cache: superblocks, cylinder groups, the summary area.
    pub fn read_place(&mut self, place: u64, buf: &mut [u8]) -> Result<()> {
        let size = self.geometry.fragment_size;
        self.cache.read_data(place / size, width::index(place % size), buf)
    }

    /// Writes them.
    pub fn write_place(&mut self, place: u64, bytes: &[u8]) -> Result<()> {
        let size = self.geometry.fragment_size;
        self.cache.write_data(place / size, width::index(place % size), bytes)
    }

    /// An error if the file system may not be changed.
    pub fn check_writable(&self) -> Result<()> {
        self.mode.check_writable()
    }

    /// An error if the file system is not there any more.
    pub fn check_mounted(&self) -> Result<()> {
        self.mode.check_mounted()
    }

    /// Runs an operation: what it changes stays if it succeeds, and is taken back if it fails. When there is no room only because what was given back may
    /// not be taken yet, that is written, and the operation begins anew.
    pub fn operation<T>(&mut self, now: Time, mut body: impl FnMut(&mut Volume) -> Result<T>) -> Result<T> {
        self.check_writable()?;
        if self.cache.changed_count() >= CHANGES_MAX || self.cache.stages() >= STAGES_MAX {
            self.commit(now)?;
        }
        let mut result = self.attempt(&mut body);
        if matches!(result, Err(Errno::NoSpace)) && self.groups.has_freed() {
            self.commit(now)?;
            result = self.attempt(&mut body);
        }
        result
    }

    fn attempt<T>(&mut self, body: &mut impl FnMut(&mut Volume) -> Result<T>) -> Result<T> {
        let generation = self.generation;
        self.cache.begin();
        self.groups.begin();
        self.hints.begin();
        let result = body(self);
        if result.is_ok() {
            self.cache.finish();
            self.groups.finish();
        } else {
            self.cache.take_back();
            self.groups.take_back(&self.geometry);
            self.hints.take_back();
            self.generation = generation;
        }
        result
    }

    /// Writes what has gathered, in its order. Afterwards what was given back may be taken again.
    pub fn commit(&mut self, now: Time) -> Result<()> {
        if self.cache.changed_count() == 0 && !self.groups.has_freed() && self.cache.stages() == 0 {
            return Ok(());
        }
        let result = self.write_all(now);
        match result {
            Ok(()) => self.groups.committed(&self.geometry),
            // What is in memory cannot become true any more.
            Err(_) => self.mode = MountState::Failed,
        }
        result
    }

    fn write_all(&mut self, now: Time) -> Result<()> {
        if self.cache.has_data_to_sync() {
            self.cache.sync()?;
        }
        self.write_groups(now)?;
        self.cache.sync()?;
        self.cache.write_changed()?;
        self.cache.sync()
    }

    /// Makes everything durable, sums included.
    pub fn sync(&mut self, now: Time) -> Result<()> {
        let has_changes = self.cache.changed_count() > 0 || self.groups.has_freed() || self.groups.is_dirty();
        self.commit(now)?;
        let result = if has_changes { self.write_sums(now) } else { Ok(()) };
        let result = result.and_then(|()| self.cache.sync());
        result.inspect_err(|_| self.mode = MountState::Failed)
    }

    fn write_sums(&mut self, now: Time) -> Result<()> {
        self.write_groups(now)?;
        let mut summary = vec![0; usize::try_from(self.geometry.summary.1).unwrap_or(0)];
        for (place, counts) in summary.chunks_exact_mut(COUNTS_SIZE).zip(&self.groups.counts) {
            counts.store(place, self.geometry.order);
        }
        self.write_place(self.geometry.place(self.geometry.summary.0), &summary)?;
        self.superblock.set_time(now.seconds);
        set_totals(&mut self.superblock, self.groups.totals);
        self.write_superblock()
    }

    /// Writes the primary superblock.
    pub fn write_superblock(&mut self) -> Result<()> {
        self.superblock.seal();
        let bytes = self.superblock.covered().to_vec();
        self.write_place(self.geometry.superblock_place, &bytes)
    }

    /// From now on the file system is one that was not unmounted. A journal of an earlier mount cannot be used any more.
    pub fn open_for_writing(&mut self, now: Time) -> Result<()> {
        let mounted = if self.superblock.mtime() == now.seconds { now.seconds + 1 } else { now.seconds };
        self.superblock.set_mtime(mounted);
        self.superblock.set_clean(0);
        self.write_superblock()?;
        self.cache.sync()
    }

    /// Leaves the file system clean.
    pub fn unmount(&mut self, now: Time) -> Result<()> {
        let result = match self.mode {
            MountState::Unmounted => return Ok(()),
            MountState::ReadOnly => Ok(()),
            MountState::Failed => Err(Errno::Io),
            MountState::Writable => self.finish(now),
        };
        self.mode = MountState::Unmounted;
        result
    }

    fn finish(&mut self, now: Time) -> Result<()> {
        for number in self.held.release_all() {
            self.remove_if_nameless(number, now)?;
        }
        self.commit(now)?;
        self.write_sums(now)?;
        self.cache.sync()?;
        self.superblock.set_clean(1);
        self.superblock.set_flags(self.superblock.flags() & !SuperblockFlags::UNCLEAN);
        self.write_superblock()?;
        self.cache.sync()
    }

    /// Whether an inode is held.
    pub fn is_held(&self, inode: InodeNo) -> bool {
        self.held.contains(inode)
    }
}
