// SPDX-License-Identifier: MIT OR Apache-2.0
//! The changes of fast commits, applied to an overlay: records of inodes, runs of files, names.
//!
//! Maps of touched files are kept apart until the end; then bitmaps, trees and block counts follow, so that blocks
//! may move from file to file in between.

use std::collections::BTreeMap;

use fsmend_base::{InodeNo, width};
use fsmend_ext_format::directory::{EntryLayout, NAME_LEN_MAX, file_type_of_mode, has_file_types};
use fsmend_ext_format::fast_commit::Change;
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode};
use zerocopy::little_endian::{U16, U32};

use super::extents;
use super::map::{self, FileMap};
use super::names::{self, Name, Names};
use super::replay_overlay::{EditError, ReplayOverlay};
use crate::inline_data::directory_areas;
use crate::inode::MapRun;

/// Where `i_block` begins, and where the fields behind it do.
const I_BLOCK: usize = 0x28;
const BEHIND_I_BLOCK: usize = 0x64;

/// Fast commits being applied.
pub(crate) struct Changes<'a, 'd> {
    overlay: &'a mut ReplayOverlay<'d>,
    now: u64,
    /// Inodes on the list of orphans before these changes: deleted files whose blocks are not free yet.
    orphans: &'a [InodeNo],
    touched: BTreeMap<u32, Touched>,
    left_out: BTreeMap<u32, &'static str>,
}

/// An inode that fast commits change.
struct Touched {
    record: Vec<u8>,
    old: FileMap,
    runs: BTreeMap<u64, MapRun>,
    remapped: bool,
    /// Whether its record was logged, with everything that the commit did to it.
    logged: bool,
}

impl Touched {
    fn raw(&self) -> RawInode {
        RawInode::from_record(&self.record)
    }

    fn edit(&mut self, edit: impl FnOnce(&mut RawInode)) {
        let mut raw = self.raw();
        edit(&mut raw);
        raw.store(&mut self.record);
    }

    fn blocks(&self) -> Vec<u64> {
        self.runs.values().flat_map(|run| run.physical..run.physical + u64::from(run.count)).collect()
    }

    /// Makes blocks `start` to before `end` of the file a hole.
    fn punch(&mut self, start: u64, end: u64) {
        let before = self.runs.range(..start).next_back().map(|(_, run)| *run);
        let inside: Vec<MapRun> = self.runs.range(start..end).map(|(_, run)| *run).collect();
        for run in before.into_iter().chain(inside) {
            let run_end = run.logical + u64::from(run.count);
            if run_end <= start {
                continue;
            }
            self.runs.remove(&run.logical);
            if run.logical < start {
                self.runs.insert(run.logical, MapRun { count: width::low_u32(start - run.logical), ..run });
            }
            if run_end > end {
                let rest = extents::skip(run, width::low_u32(end - run.logical));
                self.runs.insert(rest.logical, rest);
            }
        }
        self.remapped = true;
    }
}

impl<'a, 'd> Changes<'a, 'd> {
    /// No changes yet.
    pub fn new(overlay: &'a mut ReplayOverlay<'d>, now: u64, orphans: &'a [InodeNo]) -> Self {
        Changes { overlay, now, orphans, touched: BTreeMap::new(), left_out: BTreeMap::new() }
    }

    /// Applies one change.
    pub fn apply(&mut self, change: Change) {
        let (inode, done) = match change {
            Change::AddRange { inode, logical, physical, count, unwritten } => {
                let count = u32::from(count);
                let run = MapRun { logical: u64::from(logical), physical, count, unwritten };
                (inode, self.add_range(inode, run))
            }
            Change::DelRange { inode, logical, count } => {
                let start = u64::from(logical);
                (inode, self.mapped(inode).map(|file| file.punch(start, start + u64::from(count))))
            }
            Change::Inode { inode, record } => (inode, self.inode(inode, &record)),
            Change::Link { parent, inode, name } => (parent, self.link(parent, inode, &name)),
            Change::Unlink { parent, inode, name } => (parent, self.unlink(parent, inode, &name)),
        };
        match done {
            Ok(()) => {}
            Err(EditError::Read(_)) => self.leave_out(inode, "a block cannot be read"),
            Err(EditError::Impossible) => {
                self.leave_out(inode, "it needs a structure that does not exist yet")
            }
        }
    }

    fn leave_out(&mut self, inode: u32, why: &'static str) {
        self.left_out.entry(inode).or_insert(why);
    }

    fn touch(&mut self, inode: u32) -> Result<&mut Touched, EditError> {
        if !self.touched.contains_key(&inode) {
            let record = self.overlay.inode(InodeNo(inode))?;
            let raw = RawInode::from_record(&record);
            let has_blocks = raw.i_links_count.get() > 0 || self.orphans.contains(&InodeNo(inode));
            let has_map = has_blocks && is_mapped(&raw);
            let old = if has_map { map::read(self.overlay, &raw) } else { FileMap::default() };
            let runs = old.runs.iter().map(|run| (run.logical, *run)).collect();
            self.touched.insert(inode, Touched { record, old, runs, remapped: false, logged: false });
        }
        self.touched.get_mut(&inode).ok_or(EditError::Impossible)
    }

    /// A file whose map can be changed.
    fn mapped(&mut self, inode: u32) -> Result<&mut Touched, EditError> {
        let file = self.touch(inode)?;
        if file.old.damaged || !file.raw().has_flag(InodeFlags::EXTENTS) {
            return Err(EditError::Impossible);
        }
        Ok(file)
    }

    fn add_range(&mut self, inode: u32, run: MapRun) -> Result<(), EditError> {
        let end = run.physical.checked_add(u64::from(run.count)).ok_or(EditError::Impossible)?;
        let first = u64::from(self.overlay.geometry.first_data_block).max(1);
        if run.count == 0 || run.physical < first || end > self.overlay.geometry.blocks_count {
            return Err(EditError::Impossible);
        }
        let file = self.mapped(inode)?;
        file.punch(run.logical, run.logical + u64::from(run.count));
        file.runs.insert(run.logical, run);
        Ok(())
    }

    /// Takes over a logged record, all but the map.
    fn inode(&mut self, inode: u32, logged: &[u8]) -> Result<(), EditError> {
        let file = self.touch(inode)?;
        let was_free = file.raw().i_links_count.get() == 0 && !file.remapped;
        let len = logged.len().min(file.record.len());
        if len < BEHIND_I_BLOCK {
            return Err(EditError::Impossible);
        }
        file.logged = true;
        let (old_map, old_generation) = (file.raw().i_block, file.raw().i_generation);
        file.record[..len].copy_from_slice(&logged[..len]);
        let raw = file.raw();
        if raw.i_generation != old_generation && !file.runs.is_empty() {
            // Another file under the same number: what the old one had becomes free.
            file.runs.clear();
            file.remapped = true;
        }
        if is_mapped(&raw) {
            let fresh =
                raw.has_flag(InodeFlags::EXTENTS) && (was_free || !old_map.starts_with(&[0x0A, 0xF3]));
            file.record[I_BLOCK..BEHIND_I_BLOCK].copy_from_slice(&old_map);
            file.remapped |= fresh;
        }
        Ok(())
    }

    fn link(&mut self, parent: u32, inode: u32, name: &[u8]) -> Result<(), EditError> {
        if name.is_empty() || name.len() > NAME_LEN_MAX {
            return Err(EditError::Impossible);
        }
        let raw = self.touch(inode)?.raw();
        let file_type = file_type_of_mode(raw.i_mode.get());
        let new = Name { name, inode, file_type };
        if raw.file_type() == mode::DIRECTORY {
            self.begin_directory(inode, parent)?;
        }
        if let Some(is_there) =
            self.inline_names(parent, |bytes, layout| names::redirect(bytes, layout, false, &new))?
        {
            let is_added = is_there
                || self.inline_names(parent, |bytes, layout| names::insert(bytes, layout, false, &new))?
                    == Some(true);
            return if is_added { Ok(()) } else { Err(EditError::Impossible) };
        }
        if self.names(parent, |names| names.add(&new))? {
            return Ok(());
        }
        self.extend_directory(parent)?;
        match self.names(parent, |names| names.add(&new))? {
            true => Ok(()),
            false => Err(EditError::Impossible),
        }
    }

    fn names<T>(
        &mut self,
        directory: u32,
        edit: impl FnOnce(&mut Names<'_, 'd>) -> Result<T, EditError>,
    ) -> Result<T, EditError> {
        let file = self.touch(directory)?;
        let (raw, blocks) = (file.raw(), file.blocks());
        if raw.file_type() != mode::DIRECTORY {
            return Err(EditError::Impossible);
        }
        edit(&mut Names::new(self.overlay, InodeNo(directory), raw, &blocks)?)
    }

    /// Edits the entries of a directory that lives in its inode; `None` for others. False where `edit` changes neither of their areas.
    fn inline_names(
        &mut self,
        directory: u32,
        edit: impl Fn(&mut [u8], EntryLayout) -> bool,
    ) -> Result<Option<bool>, EditError> {
        let block_size = self.overlay.geometry.block_size;
        let has_types = has_file_types(self.overlay.geometry.features);
        let file = self.touch(directory)?;
        let raw = file.raw();
        if raw.file_type() != mode::DIRECTORY || !raw.has_flag(InodeFlags::INLINE_DATA) {
            return Ok(None);
        }
        let is_hashed = raw.has_flag(InodeFlags::ENCRYPT | InodeFlags::CASEFOLD);
        if is_hashed || !has_types {
            return Err(EditError::Impossible);
        }
        let areas = directory_areas(&file.record).ok_or(EditError::Impossible)?;
        let layout = EntryLayout { block_size, hash_behind_name: false };
        let is_changed = [areas.first, areas.second].into_iter().any(|area| {
            file.record.get_mut(area).is_some_and(|bytes| !bytes.is_empty() && edit(bytes, layout))
        });
        Ok(Some(is_changed))
    }

    /// A new directory's first block is not logged, nor is the link from its `..`: both have to be made.
    fn begin_directory(&mut self, directory: u32, parent: u32) -> Result<(), EditError> {
        let file = self.touch(directory)?;
        if !file.raw().has_flag(InodeFlags::INLINE_DATA) {
            if file.runs.is_empty() {
                self.append_block(directory)?;
            }
            let begun = self.names(directory, |names| Ok(names.has_first_block()))?;
            if begun {
                return Ok(());
            }
            self.names(directory, |names| names.make_first_block(parent))?;
        }
        let parent = self.touch(parent)?;
        if !parent.logged {
            parent.edit(|raw| raw.i_links_count = U16::new(raw.i_links_count.get().saturating_add(1)));
        }
        Ok(())
    }

    /// Adds one empty block to a directory without an index.
    fn extend_directory(&mut self, directory: u32) -> Result<(), EditError> {
        if self.mapped(directory)?.raw().has_flag(InodeFlags::INDEX) {
            return Err(EditError::Impossible);
        }
        let block = self.append_block(directory)?;
        self.names(directory, |names| {
            names.make_block(block);
            Ok(())
        })
    }

    /// Gives a directory one more block.
    fn append_block(&mut self, directory: u32) -> Result<u64, EditError> {
        let size = u64::from(self.overlay.geometry.block_size);
        let group = self.overlay.geometry.inode_place(InodeNo(directory)).ok_or(EditError::Impossible)?.0;
        let file = self.mapped(directory)?;
        let logical = file.runs.values().next_back().map_or(0, |run| run.logical + u64::from(run.count));
        let block = self.overlay.allocate(group)?;
        let file = self.mapped(directory)?;
        file.runs.insert(logical, MapRun { logical, physical: block, count: 1, unwritten: false });
        file.remapped = true;
        let grown = file.raw().size().max((logical + 1) * size);
        file.edit(|raw| {
            raw.i_size_lo = U32::new(width::low_u32(grown));
            raw.i_size_high = U32::new((grown >> 32) as u32);
        });
        Ok(block)
    }

    fn unlink(&mut self, parent: u32, inode: u32, name: &[u8]) -> Result<(), EditError> {
        let removed = |bytes: &mut [u8], layout| names::remove(bytes, layout, false, name);
        if self.inline_names(parent, removed)?.is_none() {
            self.names(parent, |names| names.remove(name))?;
        }
        // When the file lives on, its record follows with the right count.
        self.touch(inode)?.edit(|raw| {
            let links = if raw.file_type() == mode::DIRECTORY {
                0
            } else {
                raw.i_links_count.get().saturating_sub(1)
            };
            raw.i_links_count = U16::new(links);
        });
        Ok(())
    }

    /// Stores everything: bitmaps, maps, records. Gives the inodes that could not be changed as they should, and why.
    pub fn finish(mut self) -> Vec<(u32, &'static str)> {
        let mut touched = std::mem::take(&mut self.touched);
        for file in touched.values_mut().filter(|file| file.raw().i_links_count.get() == 0) {
            file.runs.clear();
            file.remapped = true;
        }
        for in_use in [false, true] {
            for (inode, file) in touched.iter().filter(|(_, file)| file.remapped) {
                let runs: Vec<MapRun> =
                    if in_use { file.runs.values().copied().collect() } else { file.old.runs.clone() };
                let mark =
                    |run: &MapRun| self.overlay.mark_blocks(run.physical, u64::from(run.count), in_use);
                if runs.iter().map(mark).any(|done| done.is_err()) {
                    self.left_out.entry(*inode).or_insert("a block bitmap cannot be changed");
                }
            }
        }
        for (inode, file) in touched {
            if self.store(InodeNo(inode), file).is_err() {
                self.leave_out(inode, "its block map is too large to rewrite");
            }
        }
        self.left_out.into_iter().collect()
    }

    fn store(&mut self, inode: InodeNo, mut file: Touched) -> Result<(), EditError> {
        let mut raw = file.raw();
        let is_directory = raw.file_type() == mode::DIRECTORY;
        let in_use = raw.i_links_count.get() > 0;
        if !in_use {
            for block in &file.old.map_blocks {
                self.overlay.mark_blocks(*block, 1, false)?;
            }
            raw.i_dtime = U32::new(width::low_u32(self.now));
        } else if file.remapped && !is_mapped(&raw) {
            for block in &file.old.map_blocks {
                self.overlay.mark_blocks(*block, 1, false)?;
            }
        } else if file.remapped && raw.has_flag(InodeFlags::EXTENTS) {
            let runs: Vec<MapRun> = file.runs.values().copied().collect();
            extents::rewrite(self.overlay, inode, &mut raw, &file.old, &runs)?;
        }
        raw.store(&mut file.record);
        self.overlay.mark_inode(inode, in_use, is_directory)?;
        self.overlay.put_inode(inode, &mut file.record)
    }
}

/// Whether `i_block` leads to blocks of a file or directory.
fn is_mapped(raw: &RawInode) -> bool {
    matches!(raw.file_type(), mode::REGULAR | mode::DIRECTORY) && !raw.has_flag(InodeFlags::INLINE_DATA)
}
