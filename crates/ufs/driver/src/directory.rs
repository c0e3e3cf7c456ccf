// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories: names in chunks of 512 bytes. An entry never moves while it lives, so its offset serves as a cookie.

use fsmend_base::width;
use fsmend_ufs_format::directory::{self as format, CHUNK, Entries, kind_of_mode};
use fsmend_ufs_format::geometry::DIRECTORY_MAX;
use fsmend_vfs::{DirEntry, Errno, FileKind, InodeNo, Result, Visit};

use crate::inode::Inode;
use crate::map::Changes;
use crate::policy::BlockKind;
use crate::volume::Volume;

/// An entry that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub inode: InodeNo,
    /// Which chunk, and where in it.
    chunk: u64,
    offset: usize,
}

/// Bytes from which on the names of a directory are remembered.
const REMEMBERED_MIN: u64 = 8192;

fn position(chunk: u64, offset: usize) -> u64 {
    chunk * CHUNK as u64 + offset as u64
}

fn is_name(entry: &format::Entry<'_>) -> bool {
    entry.inode != 0 && entry.kind != format::kind::WHITEOUT
}

impl Volume {
    fn broken(&mut self, directory: InodeNo) -> Errno {
        self.cache.corrupt(|| format!("directory {directory} is damaged"))
    }

    /// Fragment and offset of a chunk.
    fn chunk_place(&mut self, directory: &Inode, chunk: u64) -> Result<(u64, usize)> {
        let at = chunk * CHUNK as u64;
        let first = self.map(directory, at / self.geometry.block_size)?;
        if first == 0 {
            return Err(self.broken(directory.number));
        }
        let within = at % self.geometry.block_size;
        let size = self.geometry.fragment_size;
        Ok((first + within / size, width::index(within % size)))
    }

    fn chunks(&self, directory: &Inode) -> u64 {
        directory.raw.size().min(DIRECTORY_MAX) / CHUNK as u64
    }

    /// Calls `visit` with the bytes of each chunk from `from` on, until it returns something.
    fn each_chunk<T>(
        &mut self,
        directory: &Inode,
        from: u64,
        mut visit: impl FnMut(&mut Volume, u64, &[u8]) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let per_fragment = self.geometry.fragment_size / CHUNK as u64;
        let mut chunk = from;
        while chunk < self.chunks(directory) {
            let (fragment, at) = self.chunk_place(directory, chunk)?;
            let bytes = self.cache.get(fragment)?;
            for chunk_bytes in bytes[at..].chunks_exact(CHUNK).take(width::index(per_fragment)) {
                if chunk >= self.chunks(directory) {
                    break;
                }
                if let Some(found) = visit(self, chunk, chunk_bytes)? {
                    return Ok(Some(found));
                }
                chunk += 1;
            }
        }
        Ok(None)
    }

    /// The entry with a name.
    pub fn find_entry(&mut self, directory: &Inode, name: &[u8]) -> Result<Option<Found>> {
        if directory.raw.size() > REMEMBERED_MIN {
            return self.find_remembered(directory, name);
        }
        let order = self.geometry.order;
        let number = directory.number;
        self.each_chunk(directory, 0, |volume, chunk, bytes| {
            for entry in Entries::new(bytes, order) {
                let Ok(entry) = entry else { return Err(volume.broken(number)) };
                if is_name(&entry) && entry.name == name {
                    return Ok(Some(Found { inode: InodeNo(entry.inode), chunk, offset: entry.offset }));
                }
            }
            Ok(None)
        })
    }

    /// The same in a large directory.
    fn find_remembered(&mut self, directory: &Inode, name: &[u8]) -> Result<Option<Found>> {
        let order = self.geometry.order;
        let number = directory.number;
        if !self.hints.knows(number.0) {
            let mut names = Vec::new();
            self.each_chunk(directory, 0, |volume, chunk, bytes| {
                for entry in Entries::new(bytes, order) {
                    let Ok(entry) = entry else { return Err(volume.broken(number)) };
                    if is_name(&entry) {
                        names.push((entry.name.to_vec(), position(chunk, entry.offset)));
                    }
                }
                Ok(None::<()>)
            })?;
            self.hints.learn(number.0, names.iter().map(|(name, position)| (name.as_slice(), *position)));
        }
        for position in self.hints.positions(number.0, name) {
            let (chunk, offset) = (position / CHUNK as u64, width::index(position % CHUNK as u64));
            let (fragment, at) = self.chunk_place(directory, chunk)?;
            let bytes = self.cache.get(fragment)?;
            let entry = format::entry(&bytes[at..at + CHUNK], offset, order);
            if let Some(entry) = entry.filter(|entry| is_name(entry) && entry.name == name) {
                return Ok(Some(Found { inode: InodeNo(entry.inode), chunk, offset }));
            }
        }
        Ok(None)
    }

    /// Shows the entries behind `cookie`.
    pub fn show(
        &mut self,
        directory: &Inode,
        cookie: u64,
        visit: &mut dyn FnMut(&DirEntry<'_>) -> Visit,
    ) -> Result<()> {
        let order = self.geometry.order;
        let number = directory.number;
        self.each_chunk(directory, cookie / CHUNK as u64, |volume, chunk, bytes| {
            for entry in Entries::new(bytes, order) {
                let Ok(entry) = entry else { return Err(volume.broken(number)) };
                let own = chunk * CHUNK as u64 + entry.offset as u64 + 1;
                if entry.inode == 0 || own <= cookie || entry.kind == format::kind::WHITEOUT {
                    continue;
                }
                let shown = DirEntry {
                    inode: InodeNo(entry.inode),
                    kind: FileKind::of_mode(u16::from(entry.kind) << 12),
                    name: entry.name,
                    cookie: own,
                };
                if visit(&shown) == Visit::Full {
                    return Ok(Some(()));
                }
            }
            Ok(None)
        })
        .map(|_| ())
    }

    /// Whether a directory has nothing but `.` and `..`.
    pub fn is_empty_directory(&mut self, directory: &Inode) -> Result<bool> {
        let mut is_empty = true;
        self.show(directory, 0, &mut |entry| {
            is_empty &= matches!(entry.name, b"." | b"..");
            if is_empty { Visit::More } else { Visit::Full }
        })?;
        Ok(is_empty)
    }

    /// Adds a name, in a step of its own behind what the operation has changed so far, and saves the directory.
    pub fn add_entry(
        &mut self,
        directory: &mut Inode,
        name: &[u8],
        (inode, kind): (InodeNo, FileKind),
    ) -> Result<()> {
        let order = self.geometry.order;
        let target = (inode.0, kind_of_mode(kind.mode_bits()));
        let number = directory.number;
        let from = self.hints.room(number.0);
        let wanted = format::needed(name.len());
        let found = self.each_chunk(directory, from, |volume, chunk, bytes| {
            let mut most = 0;
            for entry in Entries::new(bytes, order) {
                let Ok(entry) = entry else { return Err(volume.broken(number)) };
                most = most.max(entry.length - entry.used());
            }
            Ok((most >= wanted).then_some(chunk))
        })?;
        self.cache.then();
        let chunk = found.unwrap_or_else(|| self.chunks(directory));
        if found.is_some() {
            let (fragment, at) = self.chunk_place(directory, chunk)?;
            let bytes = self.cache.change(fragment)?;
            if !format::add(&mut bytes[at..at + CHUNK], order, target, name) {
                return Err(Errno::Corrupt);
            }
            self.save(directory)?;
        } else {
            self.grow_directory(directory, |bytes| {
                format::clear_chunk(bytes, order);
                format::add(bytes, order, target, name)
            })?;
        }
        // A little room in chunks before it is left for when a name there goes.
        self.hints.set_room(number.0, chunk);
        let (fragment, at) = self.chunk_place(directory, chunk)?;
        let bytes = self.cache.get(fragment)?;
        let added = Entries::new(&bytes[at..at + CHUNK], order).flatten().find(|entry| entry.name == name);
        if let Some(added) = added {
            self.hints.add(number.0, name, position(chunk, added.offset));
        }
        Ok(())
    }

    /// Adds a chunk to a directory, filled by `fill`, and saves the directory.
    fn grow_directory(&mut self, directory: &mut Inode, fill: impl FnOnce(&mut [u8]) -> bool) -> Result<()> {
        let old_size = directory.raw.size();
        let new_size = old_size + CHUNK as u64;
        if new_size > DIRECTORY_MAX {
            return Err(Errno::NoSpace);
        }
        let (block_size, size) = (self.geometry.block_size, self.geometry.fragment_size);
        let index = old_size / block_size;
        let mut changes = Changes::default();
        let place = self.obtain(directory, index, new_size, BlockKind::Directory, &mut changes)?;
        for fragment in 0..place.fragments {
            if let Some(old) = place.moved_from.filter(|_| fragment < place.had) {
                let bytes = self.cache.get(old + fragment)?;
                self.cache.create(place.at + fragment)?.copy_from_slice(&bytes);
            } else if fragment >= place.had {
                self.cache.create(place.at + fragment)?;
            }
        }
        let within = old_size % block_size;
        let bytes = self.cache.change(place.at + within / size)?;
        let at = width::index(within % size);
        if !fill(&mut bytes[at..at + CHUNK]) {
            return Err(Errno::NameTooLong);
        }
        directory.raw.set_size(new_size);
        self.save_with(directory, changes)
    }

    /// Gives a new directory its first chunk, and saves it.
    pub fn start_directory(&mut self, directory: &mut Inode, parent: InodeNo) -> Result<()> {
        let first = format::first_chunk(self.geometry.order, directory.number.0, parent.0);
        self.grow_directory(directory, |bytes| {
            bytes.copy_from_slice(&first);
            true
        })
    }

    /// Removes an entry, in a step of its own.
    pub fn remove_entry(&mut self, directory: &Inode, found: Found) -> Result<()> {
        self.cache.then();
        let order = self.geometry.order;
        let (fragment, at) = self.chunk_place(directory, found.chunk)?;
        let bytes = self.cache.change(fragment)?;
        let chunk = &mut bytes[at..at + CHUNK];
        let name = format::entry(chunk, found.offset, order).map(|entry| entry.name.to_vec());
        format::remove(chunk, order, found.offset);
        let number = directory.number.0;
        self.hints.remove(number, &name.unwrap_or_default(), position(found.chunk, found.offset));
        self.hints.set_room(number, self.hints.room(number).min(found.chunk));
        Ok(())
    }

    /// Lets an entry lead to another inode, in a step of its own.
    pub fn redirect_entry(
        &mut self,
        directory: &Inode,
        found: Found,
        inode: InodeNo,
        kind: FileKind,
    ) -> Result<()> {
        self.cache.then();
        let order = self.geometry.order;
        let (fragment, at) = self.chunk_place(directory, found.chunk)?;
        let bytes = self.cache.change(fragment)?;
        let entry = bytes.get_mut(at + found.offset..at + CHUNK).ok_or(Errno::Corrupt)?;
        order.put_u32(entry, 0, inode.0);
        entry[6] = kind_of_mode(kind.mode_bits());
        Ok(())
    }
}
