// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names in directories: entries in the order of their keys, in blocks that split and are joined.

use fsmend_hybridfs_format::{Entry, HEADER_LEN, Inode, Map, Record, TIES, name_key, parse_entries};
use fsmend_vfs::{DirEntry, Errno, FileKind, InodeNo, Result, Visit};

use crate::io::Io;
use crate::tree::{Child, Leaves, Slot, Tree, floor};
use crate::volume::{Live, Volume};

fn bytes_of(entries: &[Entry]) -> usize {
    entries.iter().map(Entry::stored_len).sum()
}

/// A directory block that was not there before.
fn new_slot(io: &Io, entries: Vec<Entry>) -> Slot {
    let key = entries.first().map_or(0, |entry| entry.key);
    let mut slot =
        Slot { record: Record { key, ..Record::default() }, child: Child::Entries(entries), dirty: false };
    slot.touch(io);
    slot
}

/// The first entry with `key` or a higher one, and a look at it.
fn first_from(tree: &mut Tree, io: &Io, key: u64) -> Result<Option<Entry>> {
    if tree.is_empty() {
        return Ok(None);
    }
    let found = entry_from(tree, io, key, key)?;
    if found.is_some() {
        return Ok(found);
    }
    // All of that block come before: the next block has it.
    match tree.next(io, key)? {
        Some(record) => entry_from(tree, io, record.key, key),
        None => Ok(None),
    }
}

fn entry_from(tree: &mut Tree, io: &Io, block: u64, key: u64) -> Result<Option<Entry>> {
    in_block(tree, io, block, |entries| {
        let at = entries.partition_point(|entry| entry.key < key);
        entries.get(at).cloned()
    })
}

/// Shows the entries of the block in which `key` would be.
fn in_block<R: Default>(
    tree: &mut Tree,
    io: &Io,
    key: u64,
    look: impl FnOnce(&mut Vec<Entry>) -> R,
) -> Result<R> {
    load_block(tree, io, key)?;
    tree.look(io, key, |slots| {
        let at = floor(slots, key);
        Ok(match slots.get_mut(at).map(|slot| &mut slot.child) {
            Some(Child::Entries(entries)) => look(entries),
            _ => R::default(),
        })
    })
}

pub(crate) fn load_block(tree: &mut Tree, io: &Io, key: u64) -> Result<()> {
    let loader = Tree::new(Leaves::Directories, tree.owner(), tree.generation(), Map::default());
    tree.look(io, key, |slots| {
        let at = floor(slots, key);
        slots.get_mut(at).map_or(Ok(()), |slot| loader.entries(io, slot).map(|_| ()))
    })
}

impl Volume {
    /// The entries of a directory that has them in its inode.
    pub fn inline_directory(&self, disk: &Inode) -> Result<Tree> {
        let bytes =
            disk.room().get(..usize::try_from(disk.size).unwrap_or(usize::MAX)).ok_or(Errno::Corrupt)?;
        let entries = parse_entries(bytes, None);
        let entries =
            entries.map_err(|error| self.io.corrupt(|| format!("directory {}: {error}", disk.number)))?;
        let mut tree = Tree::new(Leaves::Directories, disk.number, disk.generation, Map::default());
        if let Some(first) = entries.first() {
            let record = Record { key: first.key, ..Record::default() };
            tree.slots.push(Slot { record, child: Child::Entries(entries), dirty: false });
        }
        Ok(tree)
    }

    /// The entry with a name.
    pub fn find(&mut self, directory: &mut Live, name: &[u8]) -> Result<Option<Entry>> {
        let base = name_key(&self.io.sb.hash_key, name);
        let tree = directory.directory()?;
        let mut key = base;
        while let Some(entry) = first_from(tree, &self.io, key)? {
            if entry.key >= base + TIES {
                break;
            }
            if entry.name == name {
                return Ok(Some(entry));
            }
            key = entry.key + 1;
        }
        Ok(None)
    }

    /// Adds a name that is not there. The caller marks the directory.
    pub fn add_entry(
        &mut self,
        directory: &mut Live,
        name: &[u8],
        (inode, generation, kind): (u32, u32, FileKind),
    ) -> Result<()> {
        let base = name_key(&self.io.sb.hash_key, name);
        let io = &self.io;
        let tree = directory.directory()?;
        let mut key = base;
        while let Some(entry) = first_from(tree, io, key)? {
            if entry.key != key {
                break;
            }
            key += 1;
        }
        if key >= base + TIES {
            return Err(Errno::NoSpace);
        }
        let kind = (kind.mode_bits() >> 12) as u8;
        let entry = Entry { key, inode, generation, kind, name: name.to_vec() };
        let len = entry.stored_len();
        let room = io.block_size() - HEADER_LEN;
        if !tree.is_empty() {
            load_block(tree, io, key)?;
        }
        tree.change(io, key, |slots| {
            let at = floor(slots, key);
            let Some(slot) = slots.get_mut(at) else {
                slots.push(new_slot(io, vec![entry]));
                return Ok(());
            };
            let Child::Entries(entries) = &mut slot.child else { return Err(Errno::Corrupt) };
            let place = entries.partition_point(|entry| entry.key < key);
            entries.insert(place, entry);
            let behind =
                if bytes_of(entries) > room { entries.split_off(entries.len() / 2) } else { Vec::new() };
            slot.record.key = entries.first().map_or(0, |entry| entry.key);
            slot.touch(io);
            if !behind.is_empty() {
                slots.insert(at + 1, new_slot(io, behind));
            }
            Ok(())
        })?;
        directory.disk.size = directory.disk.size.saturating_add(len as u64);
        Ok(())
    }

    /// Lets an entry lead elsewhere.
    pub fn redirect(
        &mut self,
        directory: &mut Live,
        key: u64,
        (inode, generation, kind): (u32, u32, FileKind),
    ) -> Result<()> {
        let io = &self.io;
        let tree = directory.directory()?;
        load_block(tree, io, key)?;
        tree.change(io, key, |slots| {
            let at = floor(slots, key);
            let slot = slots.get_mut(at).ok_or(Errno::Corrupt)?;
            let Child::Entries(entries) = &mut slot.child else { return Err(Errno::Corrupt) };
            let entry = entries.iter_mut().find(|entry| entry.key == key).ok_or(Errno::Corrupt)?;
            (entry.inode, entry.generation) = (inode, generation);
            entry.kind = (kind.mode_bits() >> 12) as u8;
            slot.touch(io);
            Ok(())
        })
    }

    /// Takes an entry out.
    pub fn remove_entry(&mut self, directory: &mut Live, key: u64) -> Result<()> {
        let io = &self.io;
        let room = io.block_size() - HEADER_LEN;
        let tree = directory.directory()?;
        load_block(tree, io, key)?;
        let loader = Tree::new(Leaves::Directories, tree.owner(), tree.generation(), Map::default());
        let len = tree.change(io, key, |slots| {
            let at = floor(slots, key);
            // A neighbour that it may be joined with is read before anything changes.
            let is_small = |slot: &Slot| matches!(&slot.child, Child::Entries(entries) if bytes_of(entries) < room / 4);
            let joins = slots.get(at).is_some_and(is_small) && at + 1 < slots.len();
            if joins && let Some(neighbour) = slots.get_mut(at + 1) {
                loader.entries(io, neighbour)?;
            }
            let slot = slots.get_mut(at).ok_or(Errno::Corrupt)?;
            let Child::Entries(entries) = &mut slot.child else { return Err(Errno::Corrupt) };
            let place = entries.iter().position(|entry| entry.key == key).ok_or(Errno::Corrupt)?;
            let gone = entries.remove(place);
            let len = bytes_of(entries);
            let first = entries.first().map(|entry| entry.key);
            slot.touch(io);
            match first {
                None => {
                    slots.remove(at);
                    io.remove_dirty();
                }
                Some(key) => {
                    slot.record.key = key;
                    let fits = |slot: &Slot| matches!(&slot.child, Child::Entries(more) if bytes_of(more) + len <= room * 3 / 4);
                    if joins && slots.get(at + 1).is_some_and(fits) {
                        let mut neighbour = slots.remove(at + 1);
                        neighbour.touch(io);
                        io.remove_dirty();
                        if let (Child::Entries(more), Some(Slot { child: Child::Entries(entries), .. })) =
                            (neighbour.child, slots.get_mut(at))
                        {
                            entries.extend(more);
                        }
                    }
                }
            }
            Ok(gone.stored_len())
        })?;
        directory.disk.size = directory.disk.size.saturating_sub(len as u64);
        Ok(())
    }

    /// Shows the entries behind `cookie`. Dots have the cookies 1 and 2, names their keys.
    pub fn show(
        &mut self,
        number: InodeNo,
        cookie: u64,
        visit: &mut dyn FnMut(&DirEntry<'_>) -> Visit,
    ) -> Result<()> {
        self.with(number, |volume, live| {
            let parent = InodeNo(live.parent());
            live.directory()?;
            // A removed directory that is held has no names any more.
            let dots: &[(&[u8], InodeNo, u64)] =
                if live.disk.links == 0 { &[] } else { &[(b".", number, 1), (b"..", parent, 2)] };
            for (name, inode, at) in dots.iter().filter(|(.., at)| *at > cookie) {
                let entry = DirEntry { inode: *inode, kind: Some(FileKind::Directory), name, cookie: *at };
                if visit(&entry) == Visit::Full {
                    return Ok(());
                }
            }
            let mut key = cookie.saturating_add(1).max(3);
            let tree = live.directory()?;
            while let Some(first) = first_from(tree, &volume.io, key)? {
                let entries: Vec<Entry> = in_block(tree, &volume.io, first.key, |entries| {
                    let at = entries.partition_point(|entry| entry.key < first.key);
                    entries[at..].to_vec()
                })?;
                for entry in &entries {
                    let kind = FileKind::of_mode(u16::from(entry.kind) << 12);
                    let shown =
                        DirEntry { inode: InodeNo(entry.inode), kind, name: &entry.name, cookie: entry.key };
                    if visit(&shown) == Visit::Full {
                        return Ok(());
                    }
                    key = entry.key + 1;
                }
                if entries.is_empty() {
                    return Err(volume.io.corrupt(|| format!("an empty block in directory {number}")));
                }
            }
            Ok(())
        })
    }
}
