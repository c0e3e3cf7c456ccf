// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names put into and taken out of directories on an overlay, as fast commits ask for.
//!
//! Indexed directories keep their index: a name goes into the leaf that its hash belongs to, or nowhere.

use fsmend_base::{InodeNo, width};
use fsmend_ext_format::checksum;
use fsmend_ext_format::directory::{
    ENTRY_HEADER_LEN, Entries, EntryHeader, EntryLayout, entries_len, file_type, has_file_types,
};
use fsmend_ext_format::dirhash::{effective_version, hash};
use fsmend_ext_format::htree::{IndexBlock, LEVELS_MAX, NODE_COUNT_OFFSET, RootInfo};
use fsmend_ext_format::inode::{InodeFlags, RawInode};

use super::replay_overlay::{EditError, ReplayOverlay};

/// A name and what it leads to.
pub(crate) struct Name<'n> {
    /// The name.
    pub name: &'n [u8],
    /// The inode.
    pub inode: u32,
    /// File type byte.
    pub file_type: u8,
}

/// A directory on an overlay.
pub(crate) struct Names<'a, 'd> {
    overlay: &'a mut ReplayOverlay<'d>,
    directory: InodeNo,
    raw: RawInode,
    /// Device blocks in the order of the file.
    blocks: &'a [u64],
    layout: EntryLayout,
}

impl<'a, 'd> Names<'a, 'd> {
    /// The directory `directory` with this record and these blocks. Inline directories and those with hashes behind
    /// their names cannot be edited.
    pub fn new(
        overlay: &'a mut ReplayOverlay<'d>,
        directory: InodeNo,
        raw: RawInode,
        blocks: &'a [u64],
    ) -> Result<Self, EditError> {
        let hashed = raw.has_flag(InodeFlags::ENCRYPT | InodeFlags::CASEFOLD);
        if raw.has_flag(InodeFlags::INLINE_DATA) || hashed || blocks.is_empty() {
            return Err(EditError::Impossible);
        }
        let layout = EntryLayout { block_size: overlay.geometry.block_size, hash_behind_name: false };
        Ok(Names { overlay, directory, raw, blocks, layout })
    }

    /// Adds a name, or leads an existing one to the new inode. Gives false when there is no room.
    pub fn add(&mut self, new: &Name<'_>) -> Result<bool, EditError> {
        if new.name.is_empty() || new.name.len() > 255 {
            return Err(EditError::Impossible);
        }
        let candidates = match self.leaf_of(new.name)? {
            Some(leaf) => vec![leaf],
            None => self.blocks.to_vec(),
        };
        for block in &candidates {
            if self.change(*block, |bytes, at, first| redirect(bytes, at, first, new))? {
                return Ok(true);
            }
        }
        for block in candidates {
            if self.change(block, |bytes, layout, first| insert(bytes, layout, first, new))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes a name out. Nothing happens when it is not there.
    pub fn remove(&mut self, name: &[u8]) -> Result<(), EditError> {
        let leaf = self.leaf_of(name)?;
        let candidates: Vec<u64> = leaf.into_iter().chain(self.blocks.iter().copied()).collect();
        for block in candidates {
            if self.change(block, |bytes, layout, first| remove(bytes, layout, first, name))? {
                break;
            }
        }
        Ok(())
    }

    /// Makes an empty block with one free record, and its checksum record.
    pub fn make_block(&mut self, block: u64) {
        let mut contents = vec![0; self.layout.block_size as usize];
        let mut end = contents.len();
        if self.overlay.geometry.features.metadata_csum() {
            end -= checksum::LEAF_TAIL_SIZE;
            let tail = EntryHeader {
                inode: 0,
                rec_len: checksum::LEAF_TAIL_SIZE,
                name_len: 0,
                file_type: file_type::CHECKSUM,
            };
            tail.store(&mut contents, end, self.layout);
        }
        EntryHeader { inode: 0, rec_len: end, name_len: 0, file_type: 0 }.store(
            &mut contents,
            0,
            self.layout,
        );
        self.seal(&mut contents);
        self.overlay.put(block, contents);
    }

    /// Makes the first block of a new directory.
    pub fn make_first_block(&mut self, parent: u32) -> Result<(), EditError> {
        let block = *self.blocks.first().ok_or(EditError::Impossible)?;
        self.make_block(block);
        let own = Name { name: b".", inode: self.directory.0, file_type: file_type::DIRECTORY };
        self.change(block, |bytes, layout, _| insert(bytes, layout, false, &own))?;
        let up = Name { name: b"..", inode: parent, file_type: file_type::DIRECTORY };
        self.change(block, |bytes, layout, _| insert(bytes, layout, false, &up))?;
        Ok(())
    }

    /// Whether the first block begins with a record of the directory itself.
    pub fn has_first_block(&self) -> bool {
        let contents =
            self.blocks.first().and_then(|block| self.overlay.read(*block).ok()).unwrap_or_default();
        EntryHeader::at(&contents, 0, self.layout).is_some_and(|header| header.inode == self.directory.0)
    }

    fn change(
        &mut self,
        block: u64,
        edit: impl FnOnce(&mut [u8], EntryLayout, bool) -> bool,
    ) -> Result<bool, EditError> {
        let mut contents = self.overlay.read(block)?;
        let end = entries_len(&contents, self.overlay.geometry.features);
        let first = self.blocks.first() == Some(&block);
        if !edit(&mut contents[..end], self.layout, first) {
            return Ok(false);
        }
        if !has_file_types(self.overlay.geometry.features) {
            return Err(EditError::Impossible);
        }
        self.seal(&mut contents);
        self.overlay.put(block, contents);
        Ok(true)
    }

    fn seal(&self, contents: &mut [u8]) {
        if self.overlay.geometry.features.metadata_csum() && checksum::has_leaf_tail(contents) {
            let seed = self.overlay.geometry.checksum_seed;
            let seed = checksum::inode_seed(seed, self.directory, self.raw.i_generation.get());
            if let Some(checked) = checksum::directory_leaf(seed, contents) {
                let at = contents.len() - 4;
                contents[at..].copy_from_slice(&checked.computed.to_le_bytes());
            }
        }
    }

    /// The leaf of an indexed directory that `name` belongs to; `None` without an index.
    fn leaf_of(&self, name: &[u8]) -> Result<Option<u64>, EditError> {
        if !self.raw.has_flag(InodeFlags::INDEX) {
            return Ok(None);
        }
        if self.raw.has_flag(InodeFlags::CASEFOLD) {
            return Err(EditError::Impossible);
        }
        let superblock = self.overlay.superblock();
        let root = self.block(0)?;
        let info = RootInfo::parse(&root).ok_or(EditError::Impossible)?;
        let version = effective_version(info.hash_version, superblock.s_flags.get());
        let seed = superblock.s_hash_seed.map(|word| word.get());
        let (major, _) = hash(version, &seed, name).ok_or(EditError::Impossible)?;
        let mut next = below(&root, info.count_offset(), major)?;
        for _ in 0..info.indirect_levels.min(LEVELS_MAX) {
            next = below(&self.block(next)?, NODE_COUNT_OFFSET, major)?;
        }
        Ok(Some(*self.blocks.get(next as usize).ok_or(EditError::Impossible)?))
    }

    fn block(&self, index: u32) -> Result<Vec<u8>, EditError> {
        Ok(self.overlay.read(*self.blocks.get(index as usize).ok_or(EditError::Impossible)?)?)
    }
}

/// The block that names with this hash stand below.
fn below(block: &[u8], count_offset: usize, major: u32) -> Result<u32, EditError> {
    let index = IndexBlock::parse(block, count_offset).ok_or(EditError::Impossible)?;
    let last = index.entries().take_while(|entry| entry.hash & !1 <= major).last();
    Ok(last.ok_or(EditError::Impossible)?.block)
}

/// Leads an existing name to another inode.
pub(crate) fn redirect(bytes: &mut [u8], layout: EntryLayout, first: bool, new: &Name<'_>) -> bool {
    let found = Entries::new(bytes, layout, first)
        .map_while(Result::ok)
        .find(|entry| entry.header.inode != 0 && entry.name == new.name)
        .map(|entry| (entry.offset, entry.header));
    let Some((offset, header)) = found else { return false };
    EntryHeader { inode: new.inode, file_type: new.file_type, ..header }.store(bytes, offset, layout);
    true
}

/// Puts a name into the first record that has room for it.
pub(crate) fn insert(bytes: &mut [u8], layout: EntryLayout, first: bool, new: &Name<'_>) -> bool {
    let needed = layout.needed_len(new.name.len(), false);
    let used = |header: &EntryHeader| match header.inode {
        0 => 0,
        _ => layout.needed_len(usize::from(header.name_len), false),
    };
    let found = Entries::new(bytes, layout, first)
        .map_while(Result::ok)
        .find(|entry| entry.header.rec_len.saturating_sub(used(&entry.header)) >= needed)
        .map(|entry| (entry.offset, entry.header));
    let Some((offset, header)) = found else { return false };
    let kept = used(&header);
    if kept > 0 {
        EntryHeader { rec_len: kept, ..header }.store(bytes, offset, layout);
    }
    let at = offset + kept;
    let record = EntryHeader {
        inode: new.inode,
        rec_len: header.rec_len - kept,
        name_len: width::len_u8(new.name.len()),
        file_type: new.file_type,
    };
    record.store(bytes, at, layout);
    let place = bytes.get_mut(at + ENTRY_HEADER_LEN..at + ENTRY_HEADER_LEN + new.name.len());
    if let Some(place) = place {
        place.copy_from_slice(new.name);
    }
    true
}

/// Takes a name out: its record joins the one before it, or becomes free at the start of the block.
pub(crate) fn remove(bytes: &mut [u8], layout: EntryLayout, first: bool, name: &[u8]) -> bool {
    let mut before = None;
    let mut found = None;
    for entry in Entries::new(bytes, layout, first).map_while(Result::ok) {
        if entry.header.inode != 0 && entry.name == name {
            found = Some((entry.offset, entry.header));
            break;
        }
        before = Some((entry.offset, entry.header));
    }
    let Some((offset, header)) = found else { return false };
    match before {
        Some((at, previous)) => {
            let joined = EntryHeader { rec_len: previous.rec_len + header.rec_len, ..previous };
            joined.store(bytes, at, layout);
        }
        None => EntryHeader { inode: 0, ..header }.store(bytes, offset, layout),
    }
    true
}
