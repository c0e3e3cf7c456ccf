// SPDX-License-Identifier: MIT OR Apache-2.0
//! The image as a replay leaves it: bytes over the device, and the ways through inodes, indirect blocks and directories.

use fsmend_base::width;
use fsmend_device::{Device, Overlay};
use fsmend_ufs_format::directory::{self, Entries};
use fsmend_ufs_format::geometry::DIRECT;
use fsmend_ufs_format::inode::{ATTRIBUTE_BLOCKS, INDIRECT, Inode, Path, mode};
use fsmend_ufs_format::{Geometry, Version};

use super::Unusable;
use super::groups::Groups;

/// An inode's record, to be changed.
pub(super) type Record = Inode<Vec<u8>>;

/// Called for a run of fragments: where it begins, how many; says whether to go on below where it is an indirect block.
pub(super) type Visit<'v> = dyn FnMut(&mut Disk<'_>, u64, u64) -> Result<bool, Unusable> + 'v;

/// A device with what the replay has written so far.
pub(super) struct Disk<'d> {
    overlay: Overlay<&'d dyn Device>,
    /// Its shape.
    pub geometry: &'d Geometry,
    /// Blocks that may still be read: a damaged file may lead to the same ones again and again.
    budget: u64,
}

impl<'d> Disk<'d> {
    pub fn new(device: &'d dyn Device, geometry: &'d Geometry) -> Disk<'d> {
        let blocks = geometry.size / geometry.fragments;
        Disk {
            overlay: Overlay::new(device),
            geometry,
            budget: blocks.saturating_mul(4).saturating_add(1 << 16),
        }
    }

    /// What was written, in the order of the device.
    pub fn into_writes(self) -> Vec<(u64, Vec<u8>)> {
        self.overlay.into_runs().0.collect()
    }

    pub fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, Unusable> {
        self.budget = self.budget.checked_sub(1).ok_or(Unusable::TooMuch)?;
        let mut bytes = vec![0; length];
        self.overlay.read_at(offset, &mut bytes).map_err(|_| Unusable::Unreadable(offset))?;
        Ok(bytes)
    }

    pub fn write(&mut self, offset: u64, bytes: Vec<u8>) -> Result<(), Unusable> {
        self.overlay.write(offset, bytes).map_err(|_| Unusable::Unreadable(offset))
    }

    fn block_bytes(&self) -> usize {
        // At most 65536.
        width::index(self.geometry.block_size)
    }

    /// The block that begins at `fragment`; `None` where no block can be.
    pub fn block(&mut self, fragment: u64) -> Result<Option<Vec<u8>>, Unusable> {
        if !self.geometry.may_be_data(fragment, self.geometry.fragments) {
            return Ok(None);
        }
        let length = self.block_bytes();
        self.read(self.geometry.place(fragment), length).map(Some)
    }

    /// An inode in use; `None` where it is free, was never written, or does not exist.
    pub fn inode(&mut self, groups: &Groups<'_>, inode: u32) -> Result<Option<Record>, Unusable> {
        let (group, index) = self.geometry.inode_group(inode);
        let Some(place) = self.geometry.inode_place(inode) else { return Ok(None) };
        if index >= groups.initialised(self, group)? {
            return Ok(None);
        }
        let bytes = self.read(place, self.geometry.version.inode_size())?;
        let record = Inode::new(bytes, self.geometry.order, self.geometry.version);
        Ok((record.mode() != 0).then_some(record))
    }

    /// Writes an inode.
    pub fn put_inode(&mut self, inode: u32, mut record: Record) -> Result<(), Unusable> {
        let place = self.geometry.inode_place(inode).ok_or(Unusable::Impossible)?;
        record.seal();
        self.write(place, record.into_bytes())
    }

    /// The pointers of an indirect block; none where it cannot be one.
    pub fn pointers(&mut self, block: u64) -> Result<Vec<u64>, Unusable> {
        let Some(bytes) = self.block(block)? else { return Ok(Vec::new()) };
        let order = self.geometry.order;
        let size = self.geometry.version.pointer_size();
        Ok(match self.geometry.version {
            Version::Ufs1 => bytes.chunks_exact(size).map(|bytes| order.u32(bytes, 0).into()).collect(),
            Version::Ufs2 => bytes.chunks_exact(size).map(|bytes| order.u64(bytes, 0)).collect(),
        })
    }

    /// Writes the pointers of an indirect block.
    pub fn put_pointers(&mut self, block: u64, pointers: &[u64]) -> Result<(), Unusable> {
        let (order, size) = (self.geometry.order, self.geometry.version.pointer_size());
        let mut bytes = vec![0; pointers.len() * size];
        for (place, pointer) in bytes.chunks_exact_mut(size).zip(pointers) {
            match self.geometry.version {
                Version::Ufs1 => order.put_u32(place, 0, u32::try_from(*pointer).unwrap_or(0)),
                Version::Ufs2 => order.put_u64(place, 0, *pointer),
            }
        }
        self.write(self.geometry.place(block), bytes)
    }

    /// The pointer at the end of the way to block `index`, after `depth` indirect blocks of it; 0 where there is none.
    pub fn pointer(&mut self, record: &Record, (index, depth): (u64, usize)) -> Result<u64, Unusable> {
        let Some(path) = Path::to(index, self.geometry.pointers) else { return Ok(0) };
        let mut pointer = record.pointer(path.pointer(index));
        for slot in path.indices.iter().take(depth.min(path.levels)) {
            let slot = usize::try_from(*slot).unwrap_or(usize::MAX);
            pointer = self.pointers(pointer)?.get(slot).copied().unwrap_or(0);
        }
        Ok(pointer)
    }

    /// Visits all runs of fragments that an inode holds.
    pub fn visit(&mut self, record: &Record, visit: &mut Visit<'_>) -> Result<(), Unusable> {
        if !self.has_map(record) {
            return self.visit_attributes(record, visit);
        }
        let geometry = self.geometry;
        for index in 0..DIRECT {
            let pointer = record.pointer(width::index(index));
            let count = geometry.block_fragments(record.size(), index);
            // A pointer behind the end is left over; how much it held is not known any more.
            let count = if count == 0 { geometry.fragments - pointer % geometry.fragments } else { count };
            if pointer != 0 {
                visit(self, pointer, count)?;
            }
        }
        for level in 0..INDIRECT {
            self.visit_tree(record.pointer(width::index(DIRECT) + level), level, visit)?;
        }
        self.visit_attributes(record, visit)
    }

    fn visit_attributes(&mut self, record: &Record, visit: &mut Visit<'_>) -> Result<(), Unusable> {
        for index in 0..ATTRIBUTE_BLOCKS {
            let pointer = record.attribute_block(index);
            let count = self.geometry.block_fragments(record.attributes_size().into(), index as u64);
            if pointer != 0 && count != 0 {
                visit(self, pointer, count)?;
            }
        }
        Ok(())
    }

    /// Visits an indirect block, whose pointers lead to data at `level` 0, and what is below. It is at most three levels deep.
    pub fn visit_tree(&mut self, block: u64, level: usize, visit: &mut Visit<'_>) -> Result<(), Unusable> {
        if block == 0 {
            return Ok(());
        }
        let pointers = self.pointers(block)?;
        if !visit(self, block, self.geometry.fragments)? {
            return Ok(());
        }
        for pointer in pointers.into_iter().filter(|pointer| *pointer != 0) {
            match level.checked_sub(1) {
                Some(below) => self.visit_tree(pointer, below, visit)?,
                None => {
                    visit(self, pointer, self.geometry.fragments)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the pointers of an inode lead to blocks: not of devices, pipes, sockets, nor of links whose target is in their place.
    pub fn has_map(&self, record: &Record) -> bool {
        match record.file_type() {
            mode::REGULAR | mode::DIRECTORY => true,
            mode::LINK => record.size() >= self.geometry.version.short_link_max().into(),
            _ => false,
        }
    }

    /// The inode that the entry at a byte offset of a directory leads to; `None` where none begins there.
    pub fn entry_at(&mut self, directory: &Record, offset: u64) -> Result<Option<u32>, Unusable> {
        let start = offset - offset % directory::CHUNK as u64;
        if start >= directory.size() {
            return Ok(None);
        }
        let Some(chunk) = self.chunk(directory, start)? else { return Ok(None) };
        let within = width::index(offset - start);
        let found = Entries::new(&chunk, self.geometry.order).flatten().find(|entry| entry.offset == within);
        Ok(found.map(|entry| entry.inode).filter(|inode| *inode != 0))
    }

    /// The chunk at byte offset `start` of a directory; `None` in a hole.
    fn chunk(&mut self, directory: &Record, start: u64) -> Result<Option<Vec<u8>>, Unusable> {
        let index = start / self.geometry.block_size;
        let pointer = self.pointer(directory, (index, INDIRECT))?;
        let count = self.geometry.block_fragments(directory.size(), index);
        if !self.geometry.may_be_data(pointer, count) {
            return Ok(None);
        }
        let place = self.geometry.place(pointer) + start % self.geometry.block_size;
        self.read(place, directory::CHUNK).map(Some)
    }

    /// The entries of a directory, without `.` and `..`: offset, inode, type.
    pub fn entries(&mut self, directory: &Record) -> Result<Vec<(u64, u32, u8)>, Unusable> {
        let mut entries = Vec::new();
        let chunk_bytes = directory::CHUNK as u64;
        for start in (0..directory.size().min(i32::MAX as u64)).step_by(directory::CHUNK) {
            if start + chunk_bytes > directory.size() {
                break;
            }
            let Some(chunk) = self.chunk(directory, start)? else { continue };
            let named = Entries::new(&chunk, self.geometry.order)
                .flatten()
                .filter(|entry| entry.inode != 0 && entry.name != b"." && entry.name != b"..");
            entries.extend(named.map(|entry| (start + entry.offset as u64, entry.inode, entry.kind)));
        }
        Ok(entries)
    }

    /// The inode that a name in a directory leads to.
    pub fn lookup(&mut self, directory: &Record, name: &[u8]) -> Result<Option<u32>, Unusable> {
        for start in (0..directory.size().min(i32::MAX as u64)).step_by(directory::CHUNK) {
            let Some(chunk) = self.chunk(directory, start)? else { continue };
            let found = Entries::new(&chunk, self.geometry.order)
                .flatten()
                .find(|entry| entry.inode != 0 && entry.name == name);
            if let Some(entry) = found {
                return Ok(Some(entry.inode));
            }
        }
        Ok(None)
    }
}
