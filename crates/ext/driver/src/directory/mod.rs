// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories: finding names, adding and removing them, showing them in an order that stays.
//!
//! Every block of a directory can be read as a block of entries, also those of an index, which then show no names. So whatever only reads may go
//! through them one after the other; [`index`] knows the short way.

pub(crate) mod block;
mod index;
mod inline;
mod show;

use fsmend_base::BlockNo;
use fsmend_blockcache::Block;
use fsmend_ext_format::checksum::{self, LEAF_TAIL_SIZE};
use fsmend_ext_format::directory::{EntryLayout, file_type};
use fsmend_ext_format::features::{Compat, Incompat};
use fsmend_ext_format::htree::{self, NODE_COUNT_OFFSET, RootInfo};
use fsmend_ext_format::inode::InodeFlags;
use fsmend_ext_format::rext3::{self, DirectoryTail};
use fsmend_vfs::{Errno, FileKind, InodeNo, Result};

use crate::inode::Inode;
use crate::policy::BlockKind;
use crate::volume::Volume;
use block::{NewEntry, Spot};

/// What a block of a directory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Root,
    Node,
    Leaf,
}

/// An entry that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub inode: InodeNo,
    seat: Seat,
}

/// Where an entry stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seat {
    /// In a block of the directory, and of the device.
    Block { logical: u64, place: u64, spot: Spot },
    /// In one of the two areas of a directory that lives in its inode.
    Inline { area: usize, spot: Spot },
    /// Nowhere: every directory that lives in its inode knows its own number, ...
    Own,
    /// ... and has that of its parent without a name.
    Parent,
}

impl Volume {
    pub(crate) fn entry_layout(&self) -> EntryLayout {
        EntryLayout { block_size: self.geometry.block_size, hash_behind_name: false }
    }

    fn has_sums(&self) -> bool {
        self.geometry.features.metadata_csum()
    }

    /// The type byte of entries that lead to such a file.
    pub(crate) fn type_byte(&self, kind: FileKind) -> u8 {
        if !self.geometry.features.has_incompat(Incompat::FILETYPE) {
            return file_type::UNKNOWN;
        }
        match kind {
            FileKind::Regular => file_type::REGULAR,
            FileKind::Directory => file_type::DIRECTORY,
            FileKind::CharDevice => file_type::CHAR_DEVICE,
            FileKind::BlockDevice => file_type::BLOCK_DEVICE,
            FileKind::Fifo => file_type::FIFO,
            FileKind::Socket => file_type::SOCKET,
            FileKind::Symlink => file_type::SYMLINK,
        }
    }

    /// Blocks of a directory: no more than the file system has, whatever its length says.
    fn directory_blocks(&self, directory: &Inode) -> u64 {
        (directory.raw.size() / u64::from(self.geometry.block_size)).min(self.geometry.blocks_count)
    }

    /// Whether the directory has an index that counts.
    fn is_indexed(&self, directory: &Inode) -> bool {
        directory.raw.has_flag(InodeFlags::INDEX) && self.geometry.features.has_compat(Compat::DIR_INDEX)
    }

    fn part(&self, directory: &Inode, logical: u64, bytes: &[u8]) -> Part {
        if !self.is_indexed(directory) {
            Part::Leaf
        } else if logical == 0 {
            Part::Root
        } else if htree::looks_like_node(bytes, self.entry_layout(), htree::tail_len(self.geometry.features))
        {
            Part::Node
        } else {
            Part::Leaf
        }
    }

    /// A block of a directory, and where it lies; `None` for a hole.
    fn directory_block(&mut self, directory: &Inode, logical: u64) -> Result<Option<(u64, Block)>> {
        let Some(place) = self.map(directory, logical, 1)?.physical else { return Ok(None) };
        if self.geometry.rext3() {
            let bytes = self.told_block(directory, logical, place)?;
            return Ok(Some((place, bytes)));
        }
        let (seed, has_sums) = (self.seed_of(directory), self.has_sums());
        let bytes = self.cache.get(place)?;
        let part = self.part(directory, logical, &bytes);
        drop(bytes);
        let bytes = self.cache.get_checked(place, "a directory block", |bytes| {
            if !has_sums {
                return true;
            }
            let sum = match part {
                Part::Root => {
                    RootInfo::parse(bytes).and_then(|info| checksum::htree(seed, bytes, info.count_offset()))
                }
                Part::Node => checksum::htree(seed, bytes, NODE_COUNT_OFFSET),
                Part::Leaf if checksum::has_leaf_tail(bytes) => checksum::directory_leaf(seed, bytes),
                Part::Leaf => None,
            };
            sum.is_some_and(|sum| sum.is_right())
        })?;
        Ok(Some((place, bytes)))
    }

    /// A directory block of a rext3, which says itself which one it is.
    fn told_block(&mut self, directory: &Inode, logical: u64, place: u64) -> Result<Block> {
        let seed = self.geometry.checksum_seed;
        let bytes = self.cache.get_checked(place, "a directory block", |bytes| {
            rext3::directory_checksum(seed, BlockNo(place), bytes).is_some_and(|sum| sum.is_right())
        })?;
        if DirectoryTail::parse(&bytes) != tail_of(directory, logical) {
            let number = directory.number;
            return Err(self.cache.corrupt(|| {
                format!("block {place} says that it is not block {logical} of directory {number}")
            }));
        }
        Ok(bytes)
    }

    /// Bytes at the end of a leaf that hold no entries.
    fn leaf_tail(&self) -> usize {
        match (self.geometry.rext3(), self.has_sums()) {
            (true, _) => rext3::TAIL_SIZE,
            (false, true) => LEAF_TAIL_SIZE,
            (false, false) => 0,
        }
    }

    /// The part of a block that holds entries: without the tail of a leaf. (What looks like one at the end of a root may be left from when it
    /// was a leaf.)
    fn entries_len(&self, directory: &Inode, logical: u64, bytes: &[u8]) -> usize {
        let tail = self.leaf_tail();
        let is_leaf = tail > 0 && self.part(directory, logical, bytes) == Part::Leaf;
        bytes.len() - if is_leaf { tail.min(bytes.len()) } else { 0 }
    }

    fn broken(&mut self, directory: InodeNo) -> Errno {
        self.cache.corrupt(|| format!("directory {directory} has a broken block"))
    }

    /// The entry called `name`.
    pub(crate) fn find_entry(&mut self, directory: &Inode, name: &[u8]) -> Result<Option<Found>> {
        if directory.has_inline_data() {
            return self.find_in_inode(directory, name);
        }
        let is_dots = matches!(name, b"." | b"..");
        if self.is_indexed(directory)
            && !is_dots
            && let Some(way) = self.look_up_index(directory, name)?
        {
            return Ok(way);
        }
        let blocks = if is_dots { 1 } else { self.directory_blocks(directory) };
        for logical in 0..blocks {
            if let Some(found) = self.find_in_block(directory, logical, name)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn find_in_block(&mut self, directory: &Inode, logical: u64, name: &[u8]) -> Result<Option<Found>> {
        let Some((place, bytes)) = self.directory_block(directory, logical)? else { return Ok(None) };
        let end = self.entries_len(directory, logical, &bytes);
        match block::find(&bytes[..end], self.entry_layout(), name) {
            Ok(spot) => Ok(spot.map(|spot| Found {
                inode: InodeNo(spot.inode),
                seat: Seat::Block { logical, place, spot },
            })),
            Err(()) => Err(self.broken(directory.number)),
        }
    }

    /// Changes a block of a directory and seals it.
    fn change_block<T>(
        &mut self,
        directory: &Inode,
        logical: u64,
        place: u64,
        change: impl FnOnce(&mut [u8], EntryLayout) -> T,
    ) -> Result<T> {
        let layout = self.entry_layout();
        let bytes = self.cache.get(place)?;
        let (part, end) =
            (self.part(directory, logical, &bytes), self.entries_len(directory, logical, &bytes));
        drop(bytes);
        let bytes = self.cache.change(place)?;
        let result = change(&mut bytes[..end], layout);
        self.seal_block(directory, logical, place, part)?;
        Ok(result)
    }

    fn seal_block(&mut self, directory: &Inode, logical: u64, place: u64, part: Part) -> Result<()> {
        if self.geometry.rext3() {
            let seed = self.geometry.checksum_seed;
            let tail = tail_of(directory, logical).ok_or(Errno::TooLarge)?;
            tail.seal(seed, BlockNo(place), self.cache.change(place)?);
            return Ok(());
        }
        if !self.has_sums() {
            return Ok(());
        }
        let seed = self.seed_of(directory);
        let bytes = self.cache.change(place)?;
        match part {
            Part::Root => {
                let at = RootInfo::parse(bytes).map_or(NODE_COUNT_OFFSET, |info| info.count_offset());
                checksum::seal_htree(seed, bytes, at);
            }
            Part::Node => checksum::seal_htree(seed, bytes, NODE_COUNT_OFFSET),
            Part::Leaf => checksum::seal_directory_leaf(seed, bytes),
        }
        Ok(())
    }

    /// Adds an entry, whose name is not there yet. The caller saves the directory's inode.
    pub(crate) fn add_entry(&mut self, directory: &mut Inode, new: &NewEntry<'_>) -> Result<()> {
        if directory.has_inline_data() {
            if self.add_inline(directory, new)? {
                return Ok(());
            }
            self.unfold_directory(directory)?;
        }
        if self.is_indexed(directory) {
            return self.add_to_index(directory, new);
        }
        let blocks = self.directory_blocks(directory);
        for logical in 0..blocks {
            let Some((place, bytes)) = self.directory_block(directory, logical)? else { continue };
            if !has_room(
                &bytes[..self.entries_len(directory, logical, &bytes)],
                self.entry_layout(),
                new.name.len(),
            ) {
                continue;
            }
            drop(bytes);
            let inserted = self
                .change_block(directory, logical, place, |bytes, layout| block::insert(bytes, layout, new))?;
            match inserted {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(()) => return Err(self.broken(directory.number)),
            }
        }
        let can_index = self.geometry.features.has_compat(Compat::DIR_INDEX) && self.hash_of(b"x").is_some();
        if blocks == 1 && can_index {
            return self.make_index(directory, new);
        }
        self.append_leaf(directory, &[*new]).map(|_| ())
    }

    /// Adds a block with these entries to a directory; returns its number.
    fn append_leaf(&mut self, directory: &mut Inode, entries: &[NewEntry<'_>]) -> Result<u64> {
        let (logical, place) = self.append_block(directory)?;
        self.write_leaf(directory, logical, place, entries)?;
        Ok(logical)
    }

    /// Adds a block of zeroes to a directory; returns its number, and where it lies.
    fn append_block(&mut self, directory: &mut Inode) -> Result<(u64, u64)> {
        let logical = self.directory_blocks(directory);
        let (place, _) = self.map_new(directory, logical, 1, BlockKind::Directory, false)?;
        self.cache.create(place)?;
        let size = (logical + 1) * u64::from(self.geometry.block_size);
        self.set_size(directory, size)?;
        Ok((logical, place))
    }

    /// Fills a block with these entries and no others.
    fn write_leaf(
        &mut self,
        directory: &Inode,
        logical: u64,
        place: u64,
        entries: &[NewEntry<'_>],
    ) -> Result<()> {
        let layout = self.entry_layout();
        let tail = self.leaf_tail();
        let bytes = self.cache.change(place)?;
        let end = bytes.len() - tail;
        bytes[end..].fill(0);
        block::fill(&mut bytes[..end], layout, entries);
        self.seal_block(directory, logical, place, Part::Leaf)
    }

    /// Bytes for entries in a leaf.
    fn leaf_room(&self) -> usize {
        self.geometry.block_size as usize - self.leaf_tail()
    }

    /// Removes an entry that was found. The caller saves the directory's inode.
    pub(crate) fn remove_entry(&mut self, directory: &mut Inode, found: Found) -> Result<()> {
        let layout = self.entry_layout();
        match found.seat {
            Seat::Block { logical, place, spot } => {
                self.change_block(directory, logical, place, |bytes, layout| {
                    block::remove(bytes, layout, spot);
                })
            }
            Seat::Inline { area, spot } => {
                self.change_area(directory, area, |bytes| block::remove(bytes, layout, spot))
            }
            Seat::Own | Seat::Parent => Err(Errno::Invalid),
        }
    }

    /// Lets an entry that was found lead to another inode. The caller saves the directory's inode.
    pub(crate) fn redirect_entry(
        &mut self,
        directory: &mut Inode,
        found: Found,
        inode: InodeNo,
        kind: FileKind,
    ) -> Result<()> {
        let (layout, file_type) = (self.entry_layout(), self.type_byte(kind));
        match found.seat {
            Seat::Block { logical, place, spot } => {
                self.change_block(directory, logical, place, |bytes, layout| {
                    block::redirect(bytes, layout, spot.offset, inode.0, file_type);
                })
            }
            Seat::Inline { area, spot } => self.change_area(directory, area, |bytes| {
                block::redirect(bytes, layout, spot.offset, inode.0, file_type);
            }),
            Seat::Parent => {
                directory.raw.set_block_word(0, inode.0);
                Ok(())
            }
            Seat::Own => Err(Errno::Invalid),
        }
    }

    /// Gives a new directory its first block, or lets it live in its inode.
    pub(crate) fn start_directory(&mut self, directory: &mut Inode, parent: InodeNo) -> Result<()> {
        if self.start_inline(directory, parent)? {
            return Ok(());
        }
        let file_type = self.type_byte(FileKind::Directory);
        let dot = NewEntry { name: b".", inode: directory.number.0, file_type };
        let dots = NewEntry { name: b"..", inode: parent.0, file_type };
        self.append_leaf(directory, &[dot, dots]).map(|_| ())
    }

    /// Adds a block without entries, for those that will come.
    pub(crate) fn append_empty_leaf(&mut self, directory: &mut Inode) -> Result<()> {
        self.append_leaf(directory, &[]).map(|_| ())
    }

    /// Whether a directory holds nothing but itself and its parent.
    pub(crate) fn is_empty_directory(&mut self, directory: &Inode) -> Result<bool> {
        if directory.has_inline_data() {
            return self.is_empty_inline(directory);
        }
        for logical in 0..self.directory_blocks(directory) {
            let Some((_, bytes)) = self.directory_block(directory, logical)? else { continue };
            let end = self.entries_len(directory, logical, &bytes);
            let Some(entries) = block::entries(&bytes[..end], self.entry_layout()) else {
                return Err(self.broken(directory.number));
            };
            if entries.iter().any(|entry| entry.header.inode != 0 && !entry.is_dot_name()) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What block `logical` of a directory of a rext3 says about itself.
fn tail_of(directory: &Inode, logical: u64) -> Option<DirectoryTail> {
    let logical = u32::try_from(logical).ok()?;
    Some(DirectoryTail { inode: directory.number, generation: directory.raw.i_generation.get(), logical })
}

/// Whether a name of this length would fit, as far as the block can be followed.
fn has_room(bytes: &[u8], layout: EntryLayout, name_len: usize) -> bool {
    let needed = layout.needed_len(name_len, true);
    let used = |entry: &fsmend_ext_format::directory::Entry<'_>| {
        if entry.header.inode == 0 { 0 } else { layout.needed_len(entry.name.len(), true) }
    };
    fsmend_ext_format::directory::Entries::new(bytes, layout, false)
        .map_while(std::result::Result::ok)
        .any(|entry| entry.header.rec_len >= used(&entry) + needed)
}
