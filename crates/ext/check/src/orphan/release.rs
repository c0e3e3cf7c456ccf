// SPDX-License-Identifier: MIT OR Apache-2.0
//! The release of one orphan: a deleted file is freed, a truncated one is cut to its size.

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_engine::Findings;
use fsmend_engine::problem::Problem;
use fsmend_ext_format::checksum;
use fsmend_ext_format::inode::FAST_SYMLINK_MAX;
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode};
use zerocopy::little_endian::U32;

use super::Orphans;
use super::problems::{BLOCK_FREE, BLOCK_ILLEGAL};
use super::trim;
use crate::Fs;
use crate::inode::MapRun;
use crate::journal::extents;
use crate::journal::indirect;
use crate::journal::map::{self, FileMap};
use crate::journal::replay_overlay::{EditError, ReplayOverlay};
use crate::quota::{self, bytes_of};

/// Where an attribute block counts who refers to it.
const XATTR_REFCOUNT: usize = 4;

/// The release of all orphans, under way.
pub(super) struct Release<'a, 'd> {
    pub fs: &'a Fs<'d>,
    pub overlay: ReplayOverlay<'d>,
    pub findings: &'a mut Findings,
    pub orphans: Orphans,
    freed_clusters: u64,
    freed_inodes: u32,
    /// Map blocks that were visited for all orphans. Each belongs to one file, so there cannot be more than blocks.
    map_blocks: u64,
    /// Memory that the overlay may take.
    room: u64,
    /// Whether deleted files are freed. Where the list cannot be trusted, truncated files are cut to their size all the same, and the rest is left to
    /// the other checks.
    frees: bool,
}

impl<'a, 'd> Release<'a, 'd> {
    pub fn new(fs: &'a Fs<'d>, room: u64, findings: &'a mut Findings) -> Self {
        Release {
            fs,
            overlay: ReplayOverlay::new(fs),
            findings,
            orphans: Orphans::default(),
            freed_clusters: 0,
            freed_inodes: 0,
            map_blocks: 0,
            room,
            frees: true,
        }
    }

    /// From now on, deleted files are left alone.
    pub fn free_no_more(&mut self) {
        self.frees = false;
    }

    /// The overlay, what was released, and how many clusters and inodes became free.
    pub fn into_parts(self) -> (ReplayOverlay<'d>, Orphans, (u64, u32)) {
        (self.overlay, self.orphans, (self.freed_clusters, self.freed_inodes))
    }

    /// Whether `inode` has been released.
    pub fn is_released(&self, inode: InodeNo) -> bool {
        self.orphans.freed.contains(&inode) || self.orphans.truncated.contains(&inode)
    }

    /// Whether the overlay takes more memory than it may.
    pub fn is_over_budget(&self) -> bool {
        self.overlay.bytes_held() > self.room
    }

    /// The orphan that `inode` names as the next one; `None` when its record cannot be read.
    pub fn link_of(&self, inode: InodeNo) -> Option<InodeNo> {
        let record = self.overlay.inode(inode).ok()?;
        Some(InodeNo(RawInode::from_record(&record).i_dtime.get()))
    }

    /// Whether the record of `inode` is that of an orphan: a deleted file that is not free yet, or one that still links to another orphan.
    pub fn is_orphan(&self, inode: InodeNo) -> bool {
        let Ok(record) = self.overlay.inode(inode) else { return false };
        let raw = RawInode::from_record(&record);
        let link = InodeNo(raw.i_dtime.get());
        let is_freed = link.0 > self.fs.geometry.inodes_count;
        raw.i_mode.get() != 0 && !is_freed && (raw.i_links_count.get() == 0 || link.0 != 0)
    }

    /// Releases `inode`. Tells whether the list can be trusted further.
    pub fn release(&mut self, inode: InodeNo) -> bool {
        if self.is_over_budget() {
            return false;
        }
        let Ok(mut record) = self.overlay.inode(inode) else { return false };
        let mut raw = RawInode::from_record(&record);
        let is_deleted = raw.i_links_count.get() == 0;
        if !self.frees && (is_deleted || !may_be_cut(&raw)) {
            return true;
        }
        let map = if has_map(&raw) { map::read(&self.overlay, &raw) } else { FileMap::default() };
        self.map_blocks = self.map_blocks.saturating_add(map.map_blocks.len() as u64);
        let shared = self.map_blocks > self.fs.geometry.blocks_count;
        let is_damaged = map.damaged || map.unreadable.is_some() || shared;
        if is_damaged && self.frees {
            self.findings.raise(Problem::new(&BLOCK_ILLEGAL).inode(inode));
        }
        let is_sound = match (is_deleted, is_damaged) {
            (true, true) => return false,
            (true, false) => match self.free(inode, &mut raw, &map) {
                Ok(()) => true,
                Err(_) => return false,
            },
            (false, false) => match self.cut(inode, &mut raw, &map) {
                Ok(is_sound) => is_sound,
                Err(_) => self.trim(inode, &mut raw, &record),
            },
            (false, true) => self.trim(inode, &mut raw, &record),
        };
        raw.store(&mut record);
        if self.overlay.put_inode(inode, &mut record).is_err() {
            return false;
        }
        let set = if is_deleted { &mut self.orphans.freed } else { &mut self.orphans.truncated };
        set.insert(inode);
        is_sound
    }

    /// Takes what lies beyond the size out of a map that is damaged. Always `false`: the bitmaps still count it.
    fn trim(&mut self, inode: InodeNo, raw: &mut RawInode, record: &[u8]) -> bool {
        // A failed cut may have changed the record.
        *raw = RawInode::from_record(record);
        raw.i_dtime = U32::new(0);
        if may_be_cut(raw) && self.map_blocks <= self.fs.geometry.blocks_count.saturating_mul(2) {
            let end = raw.size().div_ceil(u64::from(self.fs.geometry.block_size));
            self.map_blocks += trim::trim(self.fs, &mut self.overlay, (inode, raw), record, end);
        }
        false
    }

    /// Frees a deleted file.
    fn free(&mut self, inode: InodeNo, raw: &mut RawInode, map: &FileMap) -> Result<(), EditError> {
        self.free_runs(inode, &map.runs)?;
        for block in &map.map_blocks {
            self.free_blocks(inode, *block, 1)?;
        }
        let attributes = u64::from(raw.i_file_acl_high.get()) << 32 | u64::from(raw.i_file_acl_lo.get());
        if attributes != 0 {
            self.drop_attributes(inode, attributes)?;
        }
        let owner = quota::owner_of(raw);
        self.orphans.used.charge(owner, bytes_of(&self.fs.geometry, raw));
        let is_directory = raw.file_type() == mode::DIRECTORY;
        self.freed_inodes += u32::from(self.overlay.mark_inode(inode, false, is_directory)?);
        raw.i_dtime = U32::new(width::low_u32(self.fs.now));
        Ok(())
    }

    /// Cuts a file that is in use to its size. Tells whether the bitmaps knew all blocks that went.
    fn cut(&mut self, inode: InodeNo, raw: &mut RawInode, map: &FileMap) -> Result<bool, EditError> {
        let end = raw.size().div_ceil(u64::from(self.fs.geometry.block_size));
        let (kept, cut) = split_at(&map.runs, end);
        raw.i_dtime = U32::new(0);
        if !self.frees && cut.iter().all(|run| run.unwritten) {
            // What is preallocated may stay: a list that is not trusted may hold any file.
            return Ok(true);
        }
        if !has_map(raw) {
            // The target of a short symbolic link, or data in the inode, stands where a map would.
            return Ok(true);
        }
        self.clear_tail(raw, &kept)?;
        if cut.is_empty() && raw.has_flag(InodeFlags::EXTENTS) {
            return Ok(true);
        }
        let mut is_sound = true;
        let before = bytes_of(&self.fs.geometry, raw);
        if raw.has_flag(InodeFlags::EXTENTS) {
            extents::rewrite(&mut self.overlay, inode, raw, map, &kept)?;
        } else {
            let gone = indirect::cut(&mut self.overlay, raw, end)?;
            if cut.is_empty() && gone.is_empty() {
                return Ok(true);
            }
            // All of them are freed, whatever becomes of one.
            for block in &gone {
                is_sound &= self.free_blocks(inode, *block, 1).is_ok();
            }
            let nodes = map.map_blocks.len().saturating_sub(gone.len()) as u64;
            extents::count_blocks(&self.overlay, raw, &kept, nodes);
        }
        is_sound &= self.free_runs(inode, &cut).is_ok();
        let after = bytes_of(&self.fs.geometry, raw);
        let owner = quota::owner_of(raw);
        self.orphans.used.charge_many(owner, before.saturating_sub(after), 0);
        Ok(is_sound)
    }

    /// Zeroes what stands behind the end of the file in its last block: a file that grows again shall not show it. Contents that are
    /// encrypted, or sealed, are left as they are.
    fn clear_tail(&mut self, raw: &RawInode, kept: &[MapRun]) -> Result<(), EditError> {
        let block_size = u64::from(self.fs.geometry.block_size);
        let within = raw.size() % block_size;
        let last = raw.size() / block_size;
        let is_sealed = raw.has_flag(InodeFlags::ENCRYPT) || raw.has_flag(InodeFlags::VERITY);
        let is_plain = raw.file_type() == mode::REGULAR && !is_sealed;
        let run =
            kept.last().filter(|run| !run.unwritten && last.wrapping_sub(run.logical) < run.count.into());
        let Some(run) = run.filter(|_| is_plain && within > 0) else { return Ok(()) };
        let block = run.physical + (last - run.logical);
        let mut contents = self.overlay.read(block)?;
        let Some(tail) = contents.get_mut(width::index(within)..) else { return Ok(()) };
        if tail.iter().any(|byte| *byte != 0) {
            tail.fill(0);
            self.overlay.put(block, contents);
        }
        Ok(())
    }

    fn free_runs(&mut self, inode: InodeNo, runs: &[MapRun]) -> Result<(), EditError> {
        runs.iter().try_for_each(|run| self.free_blocks(inode, run.physical, u64::from(run.count)))
    }

    fn free_blocks(&mut self, inode: InodeNo, start: u64, count: u64) -> Result<(), EditError> {
        let changed = self.overlay.mark_blocks(start, count, false)?;
        self.freed_clusters += changed;
        // Clusters are shared by neighbouring runs of one file; only single blocks can be told to be free already.
        if !self.fs.geometry.bigalloc() && changed < count {
            let problem = Problem::new(&BLOCK_FREE).inode(inode);
            self.findings.raise(problem.blocks(BlockNo(start), count));
            return Err(EditError::Impossible);
        }
        Ok(())
    }

    /// Gives up one reference to an attribute block; the last one frees it.
    fn drop_attributes(&mut self, inode: InodeNo, block: u64) -> Result<(), EditError> {
        let mut contents = self.overlay.read(block)?;
        let Some(count) = contents.get(XATTR_REFCOUNT..XATTR_REFCOUNT + 4) else { return Ok(()) };
        let count = u32::from_le_bytes([count[0], count[1], count[2], count[3]]);
        if count <= 1 {
            return self.free_blocks(inode, block, 1);
        }
        contents[XATTR_REFCOUNT..XATTR_REFCOUNT + 4].copy_from_slice(&(count - 1).to_le_bytes());
        if self.fs.geometry.features.metadata_csum()
            && let Some(checked) =
                checksum::xattr_block(self.fs.geometry.checksum_seed, BlockNo(block), &contents)
        {
            contents[0x10..0x14].copy_from_slice(&checked.computed.to_le_bytes());
        }
        self.overlay.put(block, contents);
        Ok(())
    }
}

/// Whether a file may be cut on the word of a list that cannot be trusted: what shows that a file is genuine lies behind its end.
fn may_be_cut(raw: &RawInode) -> bool {
    raw.file_type() == mode::REGULAR && has_map(raw) && !raw.has_flag(InodeFlags::VERITY)
}

/// Whether `i_block` holds a map at all.
fn has_map(raw: &RawInode) -> bool {
    match raw.file_type() {
        _ if raw.has_flag(InodeFlags::INLINE_DATA) => false,
        mode::REGULAR | mode::DIRECTORY => true,
        mode::SYMLINK => raw.has_flag(InodeFlags::EXTENTS) || raw.size() > FAST_SYMLINK_MAX,
        _ => false,
    }
}

/// The part of `runs` before block `end` of the file, and the rest.
fn split_at(runs: &[MapRun], end: u64) -> (Vec<MapRun>, Vec<MapRun>) {
    let (mut kept, mut cut) = (Vec::new(), Vec::new());
    for run in runs {
        let before = width::low_u32(end.saturating_sub(run.logical).min(u64::from(run.count)));
        if before > 0 {
            kept.push(MapRun { count: before, ..*run });
        }
        if before < run.count {
            cut.push(extents::skip(*run, before));
        }
    }
    (kept, cut)
}
