// SPDX-License-Identifier: MIT OR Apache-2.0
//! Showing a directory in an order that does not change while entries come and go, so that a cookie stays good.
//!
//! Where indexes are in use, that is the order of hashes, also for directories that have no index yet: they may get one at any time. A
//! directory of several blocks without an index never gets one; its entries stay where they are, and are shown in that order.
//! Cookies: 1 for `.`, 2 for `..`, beyond that hash or place.

use fsmend_base::InodeNo;
use fsmend_ext_format::directory::{INLINE_PARENT_LEN, file_type};
use fsmend_ext_format::features::Compat;
use fsmend_vfs::{DirEntry, Errno, FileKind, Result, Visit};

use super::{block, inline};
use crate::inode::Inode;
use crate::volume::Volume;

const DOT: u64 = 1;
const DOTS: u64 = 2;
/// What cookies of other entries begin with.
const OTHERS: u64 = 3;

type Visitor<'v> = dyn FnMut(&DirEntry<'_>) -> Visit + 'v;

/// An entry in the order of hashes.
struct Item {
    key: u64,
    inode: u32,
    file_type: u8,
    name: Vec<u8>,
}

fn kind_of(file_type: u8) -> Option<FileKind> {
    match file_type {
        file_type::REGULAR => Some(FileKind::Regular),
        file_type::DIRECTORY => Some(FileKind::Directory),
        file_type::CHAR_DEVICE => Some(FileKind::CharDevice),
        file_type::BLOCK_DEVICE => Some(FileKind::BlockDevice),
        file_type::FIFO => Some(FileKind::Fifo),
        file_type::SOCKET => Some(FileKind::Socket),
        file_type::SYMLINK => Some(FileKind::Symlink),
        _ => None,
    }
}

impl Volume {
    pub(crate) fn show(&mut self, directory: &Inode, cookie: u64, visit: &mut Visitor<'_>) -> Result<()> {
        let parent = self.parent_of(directory)?;
        for (own, name, inode) in [(DOT, &b"."[..], directory.number), (DOTS, b"..", parent)] {
            let entry = DirEntry { inode, kind: Some(FileKind::Directory), name, cookie: own };
            if cookie < own && visit(&entry) == Visit::Full {
                return Ok(());
            }
        }
        if directory.has_inline_data() {
            return self.show_inline(directory, cookie, visit);
        }
        let blocks = self.directory_blocks(directory);
        let uses_hashes = self.geometry.features.has_compat(Compat::DIR_INDEX)
            && (blocks <= 1 || self.is_indexed(directory));
        let version =
            if self.is_indexed(directory) { self.version_of(directory)? } else { self.hash_version };
        if uses_hashes && self.hash_with(version, b"x").is_some() {
            return self.show_by_hash(directory, version, cookie, visit);
        }
        for logical in 0..blocks {
            if !self.show_block(directory, logical, cookie, visit)? {
                break;
            }
        }
        Ok(())
    }

    fn parent_of(&mut self, directory: &Inode) -> Result<InodeNo> {
        match self.find_entry(directory, b"..")? {
            Some(found) => Ok(found.inode),
            None => Err(self.broken(directory.number)),
        }
    }

    /// Shows the entries of one block where they stand; returns whether more is wanted.
    fn show_block(
        &mut self,
        directory: &Inode,
        logical: u64,
        cookie: u64,
        visit: &mut Visitor<'_>,
    ) -> Result<bool> {
        let Some((_, bytes)) = self.directory_block(directory, logical)? else { return Ok(true) };
        let end = self.entries_len(directory, logical, &bytes);
        let start = OTHERS + logical * u64::from(self.geometry.block_size);
        self.show_entries(directory, &bytes[..end], start, cookie, visit)
    }

    /// Shows entries where they stand, those at the beginning of `bytes` with the cookie `start`; returns whether more is wanted.
    fn show_entries(
        &mut self,
        directory: &Inode,
        bytes: &[u8],
        start: u64,
        cookie: u64,
        visit: &mut Visitor<'_>,
    ) -> Result<bool> {
        let Some(entries) = block::entries(bytes, self.entry_layout()) else {
            return Err(self.broken(directory.number));
        };
        for entry in entries.iter().filter(|entry| entry.header.inode != 0 && !entry.is_dot_name()) {
            let own = start + entry.offset as u64;
            let shown = DirEntry {
                inode: InodeNo(entry.header.inode),
                kind: kind_of(entry.header.file_type),
                name: entry.name,
                cookie: own,
            };
            if own > cookie && visit(&shown) == Visit::Full {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn items(&mut self, directory: &Inode, version: u8, logical: u64, items: &mut Vec<Item>) -> Result<()> {
        let Some((_, bytes)) = self.directory_block(directory, logical)? else { return Ok(()) };
        let end = self.entries_len(directory, logical, &bytes);
        self.items_of(directory, version, &bytes[..end], items)
    }

    fn items_of(
        &mut self,
        directory: &Inode,
        version: u8,
        bytes: &[u8],
        items: &mut Vec<Item>,
    ) -> Result<()> {
        let Some(entries) = block::entries(bytes, self.entry_layout()) else {
            return Err(self.broken(directory.number));
        };
        for entry in entries.iter().filter(|entry| entry.header.inode != 0 && !entry.is_dot_name()) {
            let Some((major, minor)) = self.hash_with(version, entry.name) else { continue };
            items.push(Item {
                key: key_of(major, minor),
                inode: entry.header.inode,
                file_type: entry.header.file_type,
                name: entry.name.to_vec(),
            });
        }
        Ok(())
    }

    fn show_by_hash(
        &mut self,
        directory: &Inode,
        version: u8,
        cookie: u64,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        let mut items = Vec::new();
        if !self.is_indexed(directory) {
            self.items(directory, version, 0, &mut items)?;
            show_items(items, cookie, visit);
            return Ok(());
        }
        let from = (cookie.saturating_sub(OTHERS) >> 32) << 1;
        let mut way = self.way_to(directory, u32::try_from(from).map_err(|_| Errno::Invalid)?)?;
        for _ in 0..=self.directory_blocks(directory) {
            self.items(directory, version, way.leaf(), &mut items)?;
            let next = self.next_leaf(directory, &mut way)?;
            // A leaf that goes on with the last hash of this one belongs to it.
            if next.is_some_and(|hash| hash & 1 == 1) {
                continue;
            }
            if !show_items(std::mem::take(&mut items), cookie, visit) || next.is_none() {
                return Ok(());
            }
        }
        Err(self.broken(directory.number))
    }

    /// A directory that lives in its inode is shown as if it had moved to a block already.
    fn show_inline(&mut self, directory: &Inode, cookie: u64, visit: &mut Visitor<'_>) -> Result<()> {
        let chains = self.areas(directory).chains;
        let version = self.hash_version;
        if self.geometry.features.has_compat(Compat::DIR_INDEX) && self.hash_with(version, b"x").is_some() {
            let mut items = Vec::new();
            for chain in chains {
                self.items_of(directory, version, &chain, &mut items)?;
            }
            show_items(items, cookie, visit);
            return Ok(());
        }
        let mut start = OTHERS + (INLINE_PARENT_LEN + inline::MOVED) as u64;
        for chain in chains {
            if !self.show_entries(directory, &chain, start, cookie, visit)? {
                break;
            }
            start += chain.len() as u64;
        }
        Ok(())
    }
}

/// The cookie of a hash; bit 0 of a major hash is always clear.
fn key_of(major: u32, minor: u32) -> u64 {
    OTHERS + (u64::from(major >> 1) << 32 | u64::from(minor))
}

/// Shows items behind `cookie`; returns whether more is wanted.
fn show_items(mut items: Vec<Item>, cookie: u64, visit: &mut Visitor<'_>) -> bool {
    items.sort_by(|one, other| (one.key, &one.name).cmp(&(other.key, &other.name)));
    for (at, item) in items.iter().enumerate() {
        if item.key <= cookie {
            continue;
        }
        // Of names with the very same hashes, only the last one moves the cookie on: better to see one twice than to miss one.
        let is_last = items.get(at + 1).is_none_or(|next| next.key != item.key);
        let shown = DirEntry {
            inode: InodeNo(item.inode),
            kind: kind_of(item.file_type),
            name: &item.name,
            cookie: if is_last { item.key } else { item.key - 1 },
        };
        if visit(&shown) == Visit::Full {
            return false;
        }
    }
    true
}
