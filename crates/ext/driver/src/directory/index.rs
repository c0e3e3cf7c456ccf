// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hashed indexes: the short way to a name, and what has to happen when a leaf or a node is full.
//!
//! A leaf that is full is split by hashes, where both halves come out most alike; names of the same hash may end up on both sides, which bit 0 of the
//! index entry says. A node that is full is split in halves, and when the root is full, its entries move to a new node below it.

use fsmend_base::width;
use fsmend_ext_format::dirhash;
use fsmend_ext_format::htree::{
    INDEX_ENTRY_LEN, IndexBlock, IndexEntry, NODE_COUNT_OFFSET, ROOT_INFO_LEN, ROOT_INFO_OFFSET, RootInfo,
    expected_limit, levels_max, tail_len,
};
use fsmend_ext_format::inode::InodeFlags;
use fsmend_vfs::{Errno, FileKind, Result};

use super::block::{self, NewEntry};
use super::{Found, Part};
use crate::inode::Inode;
use crate::volume::Volume;

/// Where limit and count of a root stand that has the usual info.
const ROOT_COUNT_OFFSET: usize = ROOT_INFO_OFFSET + ROOT_INFO_LEN as usize;

/// A node on the way down.
pub(super) struct Frame {
    logical: u64,
    place: u64,
    count_offset: usize,
    limit: usize,
    entries: Vec<IndexEntry>,
    at: usize,
}

/// The way from the root to a leaf.
pub(super) struct Way {
    frames: Vec<Frame>,
}

/// A name with its hash.
struct Hashed {
    hash: u32,
    name: Vec<u8>,
    inode: u32,
    file_type: u8,
}

impl Hashed {
    fn entry(&self) -> NewEntry<'_> {
        NewEntry { name: &self.name, inode: self.inode, file_type: self.file_type }
    }
}

impl Volume {
    /// The hash that new indexes have of a name; `None` where this driver cannot compute it.
    pub(super) fn hash_of(&self, name: &[u8]) -> Option<(u32, u32)> {
        self.hash_with(self.hash_version, name)
    }

    pub(super) fn hash_with(&self, version: u8, name: &[u8]) -> Option<(u32, u32)> {
        let version = dirhash::effective_version(version, self.hash_flags);
        dirhash::hash(version, &self.hash_seed, name)
    }

    /// The version of the hashes in the index of a directory.
    pub(super) fn version_of(&mut self, directory: &Inode) -> Result<u8> {
        let Some((_, bytes)) = self.directory_block(directory, 0)? else {
            return Err(self.broken(directory.number));
        };
        let info = RootInfo::parse(&bytes).filter(|info| info.unused_flags & 1 == 0);
        info.map(|info| info.hash_version).ok_or_else(|| self.broken(directory.number))
    }

    fn frame(&mut self, directory: &Inode, logical: u64, is_root: bool) -> Result<(Frame, u8)> {
        let Some((place, bytes)) = self.directory_block(directory, logical)? else {
            return Err(self.broken(directory.number));
        };
        let info = if is_root { RootInfo::parse(&bytes) } else { None };
        let count_offset = info.map_or(NODE_COUNT_OFFSET, |info| info.count_offset());
        let levels = info.map_or(0, |info| info.indirect_levels);
        let frame = IndexBlock::parse(&bytes, count_offset).map(|index| Frame {
            logical,
            place,
            count_offset,
            limit: usize::from(index.limit),
            entries: index.entries().collect(),
            at: 0,
        });
        let expected =
            usize::from(expected_limit(bytes.len(), count_offset, tail_len(self.geometry.features)));
        let fits = |frame: &Frame| {
            !frame.entries.is_empty() && frame.limit == expected && frame.entries.len() <= frame.limit
        };
        match frame.filter(fits) {
            Some(frame) => Ok((frame, levels)),
            None => Err(self.broken(directory.number)),
        }
    }

    /// The way to the first leaf that may hold names of this hash.
    pub(super) fn way_to(&mut self, directory: &Inode, hash: u32) -> Result<Way> {
        let (mut frame, levels) = self.frame(directory, 0, true)?;
        if levels >= fsmend_ext_format::htree::LEVELS_MAX {
            return Err(self.broken(directory.number));
        }
        let mut frames = Vec::new();
        for level in 0..=levels {
            frame.at = frame.entries.partition_point(|entry| entry.hash <= hash).saturating_sub(1);
            let child = u64::from(frame.entries[frame.at].block);
            frames.push(frame);
            if level == levels {
                break;
            }
            frame = self.frame(directory, child, false)?.0;
        }
        Ok(Way { frames })
    }

    /// Goes on to the next leaf; returns the hash at which it begins, as the index says it.
    pub(super) fn next_leaf(&mut self, directory: &Inode, way: &mut Way) -> Result<Option<u32>> {
        let levels = way.frames.len();
        while way.frames.last().is_some_and(|frame| frame.at + 1 >= frame.entries.len()) {
            way.frames.pop();
        }
        let Some(frame) = way.frames.last_mut() else { return Ok(None) };
        frame.at += 1;
        let hash = frame.entries[frame.at].hash;
        while way.frames.len() < levels {
            let child = way.leaf();
            let (frame, _) = self.frame(directory, child, false)?;
            way.frames.push(frame);
        }
        Ok(Some(hash))
    }

    /// Looks a name up. The outer `None` says that the index is of no use.
    pub(super) fn look_up_index(&mut self, directory: &Inode, name: &[u8]) -> Result<Option<Option<Found>>> {
        let version = self.version_of(directory)?;
        let Some((hash, _)) = self.hash_with(version, name) else { return Ok(None) };
        let mut way = self.way_to(directory, hash)?;
        loop {
            if let Some(found) = self.find_in_block(directory, way.leaf(), name)? {
                return Ok(Some(Some(found)));
            }
            // Names of this hash may go on in the next leaf.
            let next = self.next_leaf(directory, &mut way)?;
            if next != Some(hash | 1) {
                return Ok(Some(None));
            }
        }
    }

    pub(super) fn add_to_index(&mut self, directory: &mut Inode, new: &NewEntry<'_>) -> Result<()> {
        let version = self.version_of(directory)?;
        let Some((hash, _)) = self.hash_with(version, new.name) else { return Err(Errno::NotSupported) };
        let way = self.way_to(directory, hash)?;
        let leaf = way.leaf();
        let Some((place, bytes)) = self.directory_block(directory, leaf)? else {
            return Err(self.broken(directory.number));
        };
        drop(bytes);
        let inserted =
            self.change_block(directory, leaf, place, |bytes, layout| block::insert(bytes, layout, new))?;
        match inserted {
            Ok(true) => Ok(()),
            Ok(false) => self.split_leaf(directory, version, hash, new),
            Err(()) => Err(self.broken(directory.number)),
        }
    }

    /// Makes room for an index entry in the lowest node on the way to `hash`.
    fn way_with_room(&mut self, directory: &mut Inode, hash: u32) -> Result<Way> {
        loop {
            let way = self.way_to(directory, hash)?;
            if way.frames.last().is_some_and(|frame| frame.entries.len() < frame.limit) {
                return Ok(way);
            }
            self.grow(directory, way)?;
        }
    }

    /// Splits the lowest full node whose parent has room, or gives the tree one more level.
    fn grow(&mut self, directory: &mut Inode, way: Way) -> Result<()> {
        let depth = way.frames.len();
        let roomy = way.frames.iter().rposition(|frame| frame.entries.len() < frame.limit);
        match roomy {
            Some(parent) => {
                let mut frames = way.frames.into_iter().skip(parent);
                match (frames.next(), frames.next()) {
                    (Some(parent), Some(node)) => self.split_node(directory, parent, node),
                    _ => Err(Errno::Corrupt),
                }
            }
            None if depth < usize::from(levels_max(self.geometry.features)) => {
                let root = way.frames.into_iter().next().ok_or(Errno::Corrupt)?;
                self.add_level(directory, root, depth)
            }
            None => Err(Errno::NoSpace),
        }
    }

    fn split_node(&mut self, directory: &mut Inode, mut parent: Frame, mut node: Frame) -> Result<()> {
        let right = node.entries.split_off(node.entries.len() / 2);
        let hash = right.first().map_or(0, |entry| entry.hash);
        let block = self.new_index_node(directory, &right)?;
        self.write_frame(directory, &node)?;
        parent.entries.insert(parent.at + 1, IndexEntry { hash, block });
        self.write_frame(directory, &parent)
    }

    fn add_level(&mut self, directory: &mut Inode, mut root: Frame, depth: usize) -> Result<()> {
        let block = self.new_index_node(directory, &root.entries)?;
        root.entries = vec![IndexEntry { hash: 0, block }];
        let bytes = self.cache.change(root.place)?;
        *bytes.get_mut(ROOT_INFO_OFFSET + 6).ok_or(Errno::Corrupt)? = width::len_u8(depth);
        self.write_frame(directory, &root)
    }

    /// A new node with these entries; returns its block of the directory.
    fn new_index_node(&mut self, directory: &mut Inode, entries: &[IndexEntry]) -> Result<u32> {
        let (logical, place) = self.append_block(directory)?;
        let layout = self.entry_layout();
        let size = self.geometry.block_size as usize;
        let bytes = self.cache.change(place)?;
        block::fill(bytes, layout, &[]);
        let frame = Frame {
            logical,
            place,
            count_offset: NODE_COUNT_OFFSET,
            limit: usize::from(expected_limit(size, NODE_COUNT_OFFSET, tail_len(self.geometry.features))),
            entries: entries.to_vec(),
            at: 0,
        };
        self.write_frame(directory, &frame)?;
        u32::try_from(logical).map_err(|_| Errno::TooLarge)
    }

    fn write_frame(&mut self, directory: &Inode, frame: &Frame) -> Result<()> {
        let bytes = self.cache.change(frame.place)?;
        let places = bytes.get_mut(frame.count_offset..).ok_or(Errno::Corrupt)?;
        let room = places.len() / INDEX_ENTRY_LEN;
        if frame.entries.len() > frame.limit.min(room) {
            return Err(Errno::Corrupt);
        }
        for (place, entry) in places.chunks_exact_mut(INDEX_ENTRY_LEN).zip(&frame.entries) {
            place[..4].copy_from_slice(&entry.hash.to_le_bytes());
            place[4..].copy_from_slice(&entry.block.to_le_bytes());
        }
        places[..2].copy_from_slice(&width::len_u16(frame.limit).to_le_bytes());
        places[2..4].copy_from_slice(&width::len_u16(frame.entries.len()).to_le_bytes());
        let part = if frame.logical == 0 { Part::Root } else { Part::Node };
        self.seal_block(directory, frame.logical, frame.place, part)
    }

    fn split_leaf(
        &mut self,
        directory: &mut Inode,
        version: u8,
        hash: u32,
        new: &NewEntry<'_>,
    ) -> Result<()> {
        let way = self.way_with_room(directory, hash)?;
        let leaf = way.leaf();
        let Some((place, bytes)) = self.directory_block(directory, leaf)? else {
            return Err(self.broken(directory.number));
        };
        let names = self.hashed_names(directory, version, (leaf, &bytes), new)?;
        drop(bytes);
        let cut = self.best_cut(&names)?;
        let (left, right) = names.split_at(cut);
        let goes_on = left.last().map(|name| name.hash) == right.first().map(|name| name.hash);
        let first_right = right.first().map_or(0, |name| name.hash) | u32::from(goes_on);
        let left: Vec<_> = left.iter().map(Hashed::entry).collect();
        let right: Vec<_> = right.iter().map(Hashed::entry).collect();
        self.write_leaf(directory, leaf, place, &left)?;
        let block = self.append_leaf(directory, &right)?;
        let mut frames = way.frames;
        let mut frame = frames.pop().ok_or(Errno::Corrupt)?;
        let block = u32::try_from(block).map_err(|_| Errno::TooLarge)?;
        frame.entries.insert(frame.at + 1, IndexEntry { hash: first_right, block });
        self.write_frame(directory, &frame)
    }

    /// The names of a leaf and a new one, by their hashes.
    fn hashed_names(
        &mut self,
        directory: &Inode,
        version: u8,
        (logical, bytes): (u64, &[u8]),
        new: &NewEntry<'_>,
    ) -> Result<Vec<Hashed>> {
        let end = self.entries_len(directory, logical, bytes);
        let Some(entries) = block::entries(&bytes[..end], self.entry_layout()) else {
            return Err(self.broken(directory.number));
        };
        let there = entries.iter().filter(|entry| entry.header.inode != 0 && !entry.is_dot_name());
        let mut names: Vec<Hashed> = there
            .map(|entry| (entry.name, entry.header.inode, entry.header.file_type))
            .chain([(new.name, new.inode, new.file_type)])
            .filter_map(|(name, inode, file_type)| {
                let (hash, _) = self.hash_with(version, name)?;
                Some(Hashed { hash, name: name.to_vec(), inode, file_type })
            })
            .collect();
        names.sort_by_key(|name| name.hash);
        Ok(names)
    }

    /// Where to cut names in two leaves: as evenly as possible, and between different hashes if that fits as well.
    fn best_cut(&self, names: &[Hashed]) -> Result<usize> {
        let layout = self.entry_layout();
        let lens: Vec<usize> = names.iter().map(|name| layout.needed_len(name.name.len(), true)).collect();
        let (total, room) = (lens.iter().sum::<usize>(), self.leaf_room());
        let mut left = 0;
        let mut best: Option<(bool, usize, usize)> = None;
        for cut in 1..names.len() {
            left += lens[cut - 1];
            let larger = left.max(total - left);
            let cuts_hash = names[cut].hash == names[cut - 1].hash;
            if larger <= room && best.is_none_or(|best| (cuts_hash, larger) < (best.0, best.1)) {
                best = Some((cuts_hash, larger, cut));
            }
        }
        best.map(|(_, _, cut)| cut).ok_or(Errno::NoSpace)
    }

    /// A directory of one full block gets an index: its entries and the new one move to two leaves.
    pub(super) fn make_index(&mut self, directory: &mut Inode, new: &NewEntry<'_>) -> Result<()> {
        let Some((place, bytes)) = self.directory_block(directory, 0)? else {
            return Err(self.broken(directory.number));
        };
        let parent = match self.find_entry(directory, b"..")? {
            Some(found) => found.inode,
            None => return Err(self.broken(directory.number)),
        };
        let version = self.hash_version;
        let names = self.hashed_names(directory, version, (0, &bytes), new)?;
        drop(bytes);
        let cut = self.best_cut(&names)?;
        let (left, right) = names.split_at(cut);
        let goes_on = left.last().map(|name| name.hash) == right.first().map(|name| name.hash);
        let hash = right.first().map_or(0, |name| name.hash) | u32::from(goes_on);
        let left: Vec<_> = left.iter().map(Hashed::entry).collect();
        let right: Vec<_> = right.iter().map(Hashed::entry).collect();
        let first = self.append_leaf(directory, &left)?;
        let second = self.append_leaf(directory, &right)?;
        directory.raw.set_flag(InodeFlags::INDEX);
        let blocks = [first, second].map(|block| u32::try_from(block).unwrap_or(u32::MAX));
        self.write_root(
            directory,
            place,
            parent.0,
            [IndexEntry { hash: 0, block: blocks[0] }, IndexEntry { hash, block: blocks[1] }],
        )
    }

    fn write_root(
        &mut self,
        directory: &Inode,
        place: u64,
        parent: u32,
        entries: [IndexEntry; 2],
    ) -> Result<()> {
        let layout = self.entry_layout();
        let file_type = self.type_byte(FileKind::Directory);
        let version = self.hash_version;
        let size = self.geometry.block_size as usize;
        let bytes = self.cache.change(place)?;
        bytes.fill(0);
        let dot = NewEntry { name: b".", inode: directory.number.0, file_type };
        block::put(bytes, layout, 0, 12, &dot);
        block::put(bytes, layout, 12, size - 12, &NewEntry { name: b"..", inode: parent, file_type });
        let info = [0, 0, 0, 0, version, ROOT_INFO_LEN, 0, 0];
        bytes
            .get_mut(ROOT_INFO_OFFSET..ROOT_INFO_OFFSET + info.len())
            .ok_or(Errno::Corrupt)?
            .copy_from_slice(&info);
        let limit = usize::from(expected_limit(size, ROOT_COUNT_OFFSET, tail_len(self.geometry.features)));
        let frame = Frame {
            logical: 0,
            place,
            count_offset: ROOT_COUNT_OFFSET,
            limit,
            entries: entries.to_vec(),
            at: 0,
        };
        self.write_frame(directory, &frame)
    }
}

impl Way {
    /// The block of the directory that the way leads to.
    pub(super) fn leaf(&self) -> u64 {
        self.frames
            .last()
            .and_then(|frame| frame.entries.get(frame.at))
            .map_or(0, |entry| u64::from(entry.block))
    }
}
