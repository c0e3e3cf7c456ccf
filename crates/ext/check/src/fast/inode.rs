// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fast path for one inode record.

use std::ops::{Range, RangeInclusive};

use fsmend_base::InodeNo;
use fsmend_engine::claims::SharedBitmap;
use fsmend_engine::inodes::Kind;
use fsmend_ext_format::checksum;
pub(super) use fsmend_ext_format::extent::EXTENT_MAGIC;
use fsmend_ext_format::features::{Compat, Incompat, RoCompat};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::inode::{BASE_INODE_SIZE, InodeFlags, RawInode, mode};

use zerocopy::FromBytes;

use crate::Fs;
use crate::fast::{attributes, plain};
use crate::inode::MapRun;
use crate::region::Regions;

/// Flags that change nothing about how an inode is checked: secure deletion, undelete, compression request, sync,
/// no dump, no access time, data journalling, no tail merging, directory sync, top directory, DAX, project inheritance.
pub(super) const BENIGN_FLAGS: InodeFlags = InodeFlags::from_bits_retain(
    0x1 | 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x4000 | 0x8000 | 0x1_0000 | 0x2_0000 | 0x200_0000 | 0x2000_0000,
);
/// Extents of more blocks than this are unwritten ones, this much shorter.
pub(super) const EXTENT_WRITTEN_MAX: u16 = 32768;

/// The result of the fast path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Not in use, and in order.
    Free,
    /// In use, and in order; its facts are in the [`InodeSummary`]. Where `needs_walk` is set, its map still has to be walked.
    Clean,
    /// To be inspected.
    Suspect,
}

/// The facts of an clean inode; a buffer that is filled anew for each record.
#[derive(Clone, Debug)]
pub struct InodeSummary {
    /// What it is.
    pub kind: Kind,
    /// Stored link count.
    pub links: u16,
    /// Generation, which seeds the checksums of its blocks.
    pub generation: u32,
    /// `i_flags`.
    pub flags: InodeFlags,
    /// Size in bytes.
    pub size: u64,
    /// Blocks that `i_blocks` stands for, the attribute block included.
    pub charged_blocks: u64,
    /// Its attribute block, 0 without one.
    pub xattr_block: u64,
    /// Whether the map continues outside the inode.
    pub needs_walk: bool,
    /// The map, when it lies in the inode.
    pub runs: Vec<MapRun>,
    /// Blocks that files may own, found when the last inodes were proved.
    pub nearby: Nearby,
}

/// Blocks that files may own, found when the last inodes were proved: most blocks lie near each other. Those near directories, and those
/// near everything else, which an allocator keeps apart.
#[derive(Clone, Default, Debug)]
pub struct Nearby([Range<u64>; 2]);

impl Default for InodeSummary {
    fn default() -> Self {
        InodeSummary {
            kind: Kind::Unused,
            links: 0,
            generation: 0,
            flags: InodeFlags::empty(),
            size: 0,
            charged_blocks: 0,
            xattr_block: 0,
            needs_walk: false,
            runs: Vec::with_capacity(12),
            nearby: Nearby::default(),
        }
    }
}

impl Nearby {
    /// The blocks that are known to be free for files, where those of such an inode are likely to lie.
    #[inline]
    pub(super) fn of(&mut self, kind: Kind) -> &mut Range<u64> {
        let [directories, others] = &mut self.0;
        if kind == Kind::Directory { directories } else { others }
    }
}

/// What the fast path needs for every inode of one file system, taken out of the geometry once.
pub struct InodeFastPath<'f> {
    geometry: &'f Geometry,
    metadata: &'f SharedBitmap,
    pub(super) regions: &'f Regions,
    checksums: bool,
    /// No inode can be proved clean (Hurd, bigalloc): all go to inspection.
    everything_suspect: bool,
    /// Inodes that the file system keeps for itself beside the reserved ones: quota files, the orphan file.
    hidden: [u32; 4],
    pub(super) sectors_per_block: u64,
    /// Whether plain records can take the shortest way.
    prechecks: bool,
    extents: bool,
    huge_file: bool,
    large_file: bool,
    dir_index: bool,
    bit64: bool,
    ext_attr: bool,
}

impl<'f> InodeFastPath<'f> {
    /// The fast path for `fs`.
    pub fn new(fs: &'f Fs<'_>) -> Self {
        let geometry = &fs.geometry;
        let features = geometry.features;
        let everything_suspect = geometry.hurd || geometry.bigalloc() || geometry.revision == 0;
        let extents = features.has_incompat(Incompat::EXTENTS);
        InodeFastPath {
            geometry,
            metadata: &fs.metadata,
            regions: &fs.regions,
            checksums: features.metadata_csum(),
            everything_suspect,
            hidden: crate::quota::hidden_inodes(fs),
            sectors_per_block: u64::from(geometry.block_size / 512),
            prechecks: extents
                && !everything_suspect
                && !fs.regions.exist()
                && geometry.inode_size as usize >= plain::RECORD_BYTES,
            extents,
            huge_file: features.has_ro_compat(RoCompat::HUGE_FILE),
            large_file: features.has_ro_compat(RoCompat::LARGE_FILE),
            dir_index: features.has_compat(Compat::DIR_INDEX),
            bit64: features.has_incompat(Incompat::BIT64),
            ext_attr: features.has_compat(Compat::EXT_ATTR),
        }
    }

    /// Tries to prove `record`, the record of inode `inode`, clean; fills `summary` if it is.
    pub fn summarize(&self, inode: InodeNo, record: &[u8], summary: &mut InodeSummary) -> Verdict {
        self.summarize_with(inode, record, self.checksum_is_right(inode, record), summary)
    }

    /// For each of `records` whether its checksum is right (or not asked for), for [`summarize_with`](Self::summarize_with).
    pub fn checksums(&self, first: InodeNo, records: &[u8], right: &mut Vec<bool>) {
        let inode_size = self.geometry.inode_size as usize;
        if self.checksums {
            checksum::inodes_are_right(self.geometry.checksum_seed, first, records, inode_size, right);
        } else {
            right.clear();
            right.resize(records.len() / inode_size, true);
        }
    }

    /// Whether none of `inodes` is special, and plain records among them can be cleared by the precheck, where their checksums
    /// are right ([`summarize_plain`](Self::summarize_plain)).
    pub fn may_be_plain(&self, inodes: RangeInclusive<u32>) -> bool {
        self.prechecks
            && *inodes.start() >= self.geometry.first_inode
            && !self.hidden.iter().any(|hidden| inodes.contains(hidden))
    }

    /// [`summarize`](Self::summarize), with the checksum judged beforehand.
    pub fn summarize_with(
        &self,
        inode: InodeNo,
        record: &[u8],
        checksum_is_right: bool,
        summary: &mut InodeSummary,
    ) -> Verdict {
        if is_zero(record) && inode.0 >= self.geometry.first_inode {
            return Verdict::Free;
        }
        let copy;
        let raw = match RawInode::ref_from_prefix(record) {
            Ok((raw, _)) => raw,
            Err(_) => {
                copy = RawInode::from_record(record);
                &copy
            }
        };
        let dtime = raw.i_dtime.get();
        if self.everything_suspect
            || inode.0 < self.geometry.first_inode
            || self.hidden.contains(&inode.0)
            || (dtime != 0 && dtime <= self.geometry.inodes_count)
            || !checksum_is_right
        {
            return Verdict::Suspect;
        }
        if raw.i_links_count.get() == 0 {
            let deleted = dtime != 0 || raw.i_mode.get() == 0;
            return if deleted { Verdict::Free } else { Verdict::Suspect };
        }
        match self.summarize_in_use(raw, record, summary) {
            Some(()) => Verdict::Clean,
            None => Verdict::Suspect,
        }
    }

    fn checksum_is_right(&self, inode: InodeNo, record: &[u8]) -> bool {
        !self.checksums
            || checksum::inode(self.geometry.checksum_seed, inode, record)
                .is_some_and(|checked| checked.is_right())
    }

    pub(super) fn summarize_in_use(
        &self,
        raw: &RawInode,
        record: &[u8],
        summary: &mut InodeSummary,
    ) -> Option<()> {
        let flags = raw.flags();
        let unusual = flags
            & !(BENIGN_FLAGS
                | InodeFlags::EXTENTS
                | InodeFlags::INDEX
                | InodeFlags::IMMUTABLE
                | InodeFlags::APPEND);
        let kind = match raw.file_type() {
            mode::REGULAR if !flags.contains(InodeFlags::INDEX) => Kind::Regular,
            mode::DIRECTORY if !flags.contains(InodeFlags::INDEX) || self.dir_index => Kind::Directory,
            mode::SYMLINK
                if !flags.intersects(
                    InodeFlags::INDEX | InodeFlags::EXTENTS | InodeFlags::IMMUTABLE | InodeFlags::APPEND,
                ) =>
            {
                Kind::Symlink
            }
            _ => return None,
        };
        let ordinary = unusual.is_empty()
            && raw.i_dtime.get() == 0
            && raw.i_faddr.get() == 0
            && (self.huge_file || raw.i_blocks_high.get() == 0)
            && (self.bit64 || raw.i_file_acl_high.get() == 0)
            && (self.extents || !flags.contains(InodeFlags::EXTENTS))
            && self.extra_fields_are_ordinary(raw, record);
        let sectors = u64::from(raw.i_blocks_high.get()) << 32 | u64::from(raw.i_blocks_lo.get());
        if !ordinary || sectors % self.sectors_per_block != 0 {
            return None;
        }
        summary.kind = kind;
        summary.links = raw.i_links_count.get();
        summary.generation = raw.i_generation.get();
        summary.flags = flags;
        summary.size = raw.size();
        summary.charged_blocks = sectors / self.sectors_per_block;
        summary.xattr_block = u64::from(raw.i_file_acl_high.get()) << 32 | u64::from(raw.i_file_acl_lo.get());
        summary.needs_walk = false;
        summary.runs.clear();
        let xattr_fits = self.ext_attr
            && self.is_free_for_files(summary.xattr_block, 1)
            && !self.regions.contain(summary.xattr_block);
        if summary.xattr_block != 0 && !xattr_fits {
            return None;
        }
        if kind == Kind::Symlink {
            self.summarize_fast_symlink(raw, summary)
        } else {
            self.summarize_map(raw, summary)
        }
    }

    /// Extra fields and timestamps need no second look, nor do the attributes behind them.
    fn extra_fields_are_ordinary(&self, raw: &RawInode, record: &[u8]) -> bool {
        if record.len() <= BASE_INODE_SIZE {
            return true;
        }
        let extra = usize::from(raw.i_extra_isize.get());
        let epochs = raw.i_ctime_extra.get()
            | raw.i_mtime_extra.get()
            | raw.i_atime_extra.get()
            | raw.i_crtime_extra.get();
        let attributes = BASE_INODE_SIZE + extra;
        extra >= 4
            && extra % 4 == 0
            && attributes <= record.len()
            && epochs & 3 == 0
            && attributes::are_ordinary(record)
    }

    fn summarize_fast_symlink(&self, raw: &RawInode, summary: &InodeSummary) -> Option<()> {
        let len = raw.i_block.iter().position(|byte| *byte == 0)?;
        let only_attributes = summary.charged_blocks == u64::from(summary.xattr_block != 0);
        (len > 0 && len as u64 == summary.size && only_attributes).then_some(())
    }

    fn summarize_map(&self, raw: &RawInode, summary: &mut InodeSummary) -> Option<()> {
        let by_extents = summary.flags.contains(InodeFlags::EXTENTS);
        if by_extents {
            self.summarize_extent_root(raw, summary)?
        } else {
            self.summarize_direct_blocks(raw, summary)?
        }
        let is_directory = summary.kind == Kind::Directory;
        let suits = |run: &MapRun| self.regions.suit(is_directory, run.physical, run.count.into());
        if self.regions.exist() && !summary.runs.iter().all(suits) {
            return None;
        }
        if summary.needs_walk {
            return Some(());
        }
        let mapped: u64 = summary.runs.iter().map(|run| u64::from(run.count)).sum();
        let end = summary
            .runs
            .iter()
            .filter(|run| !run.unwritten)
            .map(|run| run.logical + u64::from(run.count))
            .max();
        let in_order = mapped + u64::from(summary.xattr_block != 0) == summary.charged_blocks
            && self.size_fits(summary.kind, summary.size, end.unwrap_or(0), mapped, by_extents);
        in_order.then_some(())
    }

    /// Whether a size of `size` bytes is right for a file whose last written block is `written_end - 1` and that has
    /// `mapped` blocks. Directories have to be filled without holes.
    #[inline]
    pub fn size_fits(&self, kind: Kind, size: u64, written_end: u64, mapped: u64, by_extents: bool) -> bool {
        let block_size = u64::from(self.geometry.block_size);
        if kind == Kind::Directory {
            return mapped > 0
                && written_end == mapped
                && written_end.checked_mul(block_size) == Some(size)
                && size < 1 << 31;
        }
        let covers = written_end == 0 || size > (written_end - 1).saturating_mul(block_size);
        let pointers = u64::from(self.geometry.pointers_per_block());
        let limit = if by_extents {
            u64::from(u32::MAX)
        } else {
            12 + pointers + pointers * pointers + pointers * pointers * pointers
        };
        covers
            && size <= limit.saturating_mul(block_size)
            && (size < 1 << 31 || self.large_file)
            && (size < 1 << 40 || by_extents && self.huge_file)
    }

    fn summarize_extent_root(&self, raw: &RawInode, summary: &mut InodeSummary) -> Option<()> {
        let root = &raw.i_block;
        let word = |at: usize| u16::from_le_bytes([root[at], root[at + 1]]);
        let (magic, entries, max, depth) = (word(0), word(2), word(4), word(6));
        if magic != EXTENT_MAGIC || max != 4 || entries > max {
            return None;
        }
        if depth > 0 {
            summary.needs_walk = depth <= 5 && entries > 0;
            return summary.needs_walk.then_some(());
        }
        let mut next_logical = 0u64;
        for entry in root[12..12 + usize::from(entries) * 12].chunks_exact(12) {
            let run = extent_of(entry)?;
            let is_free =
                self.is_free_nearby(summary.nearby.of(summary.kind), run.physical, u64::from(run.count));
            if run.logical < next_logical || !is_free {
                return None;
            }
            if run.unwritten && summary.kind == Kind::Directory {
                return None;
            }
            next_logical = run.logical + u64::from(run.count);
            summary.runs.push(run);
        }
        (next_logical <= u64::from(u32::MAX)).then_some(())
    }

    fn summarize_direct_blocks(&self, raw: &RawInode, summary: &mut InodeSummary) -> Option<()> {
        summary.needs_walk = (12..15).any(|index| raw.block_word(index) != 0);
        for index in 0..12 {
            let block = u64::from(raw.block_word(index));
            if block == 0 {
                continue;
            }
            if !self.is_free_nearby(summary.nearby.of(summary.kind), block, 1) {
                return None;
            }
            push_block(&mut summary.runs, index as u64, block);
        }
        Some(())
    }

    /// [`is_free_for_files`](Self::is_free_for_files), where `known` holds such blocks already, or does so then.
    #[inline]
    pub(super) fn is_free_nearby(&self, known: &mut Range<u64>, start: u64, count: u64) -> bool {
        if known.start <= start && start.checked_add(count).is_some_and(|end| end <= known.end) {
            return true;
        }
        if !self.is_free_for_files(start, count) {
            return false;
        }
        let clear = self.metadata.clear_around(start);
        let first = u64::from(self.geometry.first_data_block).max(1);
        *known = clear.start.max(first)..clear.end.min(self.geometry.blocks_count);
        true
    }

    /// Whether a file may own these blocks: inside the file system, none of them static metadata.
    pub fn is_free_for_files(&self, start: u64, count: u64) -> bool {
        start >= u64::from(self.geometry.first_data_block)
            && start != 0
            && start.checked_add(count).is_some_and(|end| end <= self.geometry.blocks_count)
            && !self.metadata.any(start, count)
    }
}

/// Reads a leaf entry; `None` for an empty one. Physical addresses are 48 bits.
pub fn extent_of(entry: &[u8]) -> Option<MapRun> {
    entry.first_chunk().map(run_of).filter(|run| run.count > 0)
}

/// Reads a leaf entry, which may be empty.
#[inline]
pub fn run_of(entry: &[u8; 12]) -> MapRun {
    let len = u16::from_le_bytes([entry[4], entry[5]]);
    let unwritten = len > EXTENT_WRITTEN_MAX;
    let count = u32::from(if unwritten { len - EXTENT_WRITTEN_MAX } else { len });
    let high = u64::from(u16::from_le_bytes([entry[6], entry[7]]));
    let low = u64::from(u32::from_le_bytes([entry[8], entry[9], entry[10], entry[11]]));
    let logical = u64::from(u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]));
    MapRun { logical, physical: high << 32 | low, count, unwritten }
}

/// Adds one block to a list of runs, lengthening the last run where it continues it.
pub fn push_block(runs: &mut Vec<MapRun>, logical: u64, physical: u64) {
    match runs.last_mut() {
        Some(last)
            if last.logical + u64::from(last.count) == logical
                && last.physical + u64::from(last.count) == physical
                && last.count < u32::MAX =>
        {
            last.count += 1;
        }
        _ => runs.push(MapRun { logical, physical, count: 1, unwritten: false }),
    }
}

fn is_zero(record: &[u8]) -> bool {
    let (words, rest) = record.as_chunks::<8>();
    words.iter().all(|word| *word == [0; 8]) && rest.iter().all(|byte| *byte == 0)
}
