// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contents of regular files: in the inode, in one piece in the log, or in data blocks. A file moves to data when it outgrows a block, or when the log keeps what it has for
//! metadata, and back when it is cut to at most half a block.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry::Vacant;

use fsmend_base::width;
use fsmend_hybridfs_format::{Map, plain_crc};
use fsmend_vfs::{Errno, Extent, FileKind, InodeNo, Result, Time};

use crate::commit::extent_at;
use crate::tree::{Leaves, Tree, floor};
use crate::volume::{Contents, Live, Need, Volume};

/// Bytes that a file has at most.
pub const SIZE_MAX: u64 = 1 << 60;
/// Bytes that one step of a write takes at most.
const STEP: usize = 1 << 20;

impl Volume {
    fn block(&self) -> u64 {
        u64::from(self.io.sb.block_size)
    }

    /// The contents of a small file, in memory.
    pub fn small<'l>(&self, live: &'l mut Live) -> Result<&'l mut Vec<u8>> {
        let (number, size) = (live.disk.number, live.disk.size);
        let Contents::Small { bytes, at, .. } = &mut live.contents else { return Err(Errno::Invalid) };
        if bytes.is_none() {
            let record = at.ok_or(Errno::Corrupt)?;
            let mut read = self.io.object(record.place)?;
            let size = usize::try_from(size).ok().filter(|size| *size <= read.len());
            let size = size.ok_or_else(|| self.io.corrupt(|| format!("inode {number}: its length")))?;
            read.truncate(size);
            if u64::from(plain_crc(&read)) != record.aux {
                return Err(self
                    .io
                    .corrupt(|| format!("the contents of inode {number} have a wrong checksum")));
            }
            *bytes = Some(read);
        }
        bytes.as_mut().ok_or(Errno::Corrupt)
    }

    pub fn read_file(&mut self, live: &mut Live, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let left = usize::try_from(live.disk.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = left.min(buf.len());
        let buf = &mut buf[..len];
        if let Contents::Small { .. } = live.contents {
            let bytes = self.small(live)?;
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let count = len.min(bytes.len() - start);
            buf[..count].copy_from_slice(&bytes[start..start + count]);
            buf[count..].fill(0);
            return Ok(len);
        }
        let size = self.block();
        let Contents::Extents { map, blocks, .. } = &mut live.contents else { return Err(Errno::Invalid) };
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let (index, within) = (at / size, width::index(at % size));
            let part = (width::index(size) - within).min(len - done);
            let place = &mut buf[done..done + part];
            match (blocks.get(&index), extent_at(map, &self.io, index)?) {
                (Some(block), _) => place.copy_from_slice(&block[within..within + part]),
                (None, Some(address)) => self.io.read(self.io.offset(address) + within as u64, place)?,
                (None, None) => place.fill(0),
            }
            done += part;
        }
        Ok(len)
    }

    /// Writes; returns how many bytes there was room for.
    pub fn write_file(&mut self, number: InodeNo, offset: u64, bytes: &[u8], now: Time) -> Result<usize> {
        self.check_writable()?;
        self.with(number, |_, live| regular(live))?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let room = SIZE_MAX.saturating_sub(offset);
        if room == 0 {
            return Err(Errno::TooLarge);
        }
        let bytes = &bytes[..usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len())];
        let mut done = 0;
        while done < bytes.len() {
            let part = &bytes[done..bytes.len().min(done + STEP)];
            match self.write_step(number, offset + done as u64, part, now) {
                Ok(0) => break,
                Ok(count) => {
                    done += count;
                    if count < part.len() {
                        break;
                    }
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        if done == 0 { Err(Errno::NoSpace) } else { Ok(done) }
    }

    fn write_step(&mut self, number: InodeNo, offset: u64, bytes: &[u8], now: Time) -> Result<usize> {
        let size = self.block();
        let end = offset + bytes.len() as u64;
        // Overwriting what is in data takes no more than the inode does.
        let places = self.places_wanted(number, offset, end)?;
        let need = Need { removes: places == Some(0), log: places.unwrap_or(0) / 64 + 1 };
        let is_admitted = match self.admit(need, now) {
            Ok(()) => true,
            Err(Errno::NoSpace) => false,
            Err(error) => return Err(error),
        };
        if !is_admitted {
            // The log is full; what a file has in data may still be written, and a small file goes there.
            self.admit(Need { removes: true, log: 0 }, now)?;
        }
        let is_small = self.with(number, |_, live| Ok(matches!(live.contents, Contents::Small { .. })))?;
        if is_small && end <= size && is_admitted && self.log_takes(end) {
            return self.with(number, |volume, live| {
                volume.write_small(live, offset, bytes)?;
                live.touch(now);
                live.disk.size = live.disk.size.max(end);
                volume.mark(live)?;
                Ok(bytes.len())
            });
        }
        if is_small {
            let has_contents = self.with(number, |_, live| Ok(live.disk.size > 0))?;
            let wanted = u64::from(has_contents);
            if self.admit_data(wanted, now)? < wanted {
                return Err(Errno::NoSpace);
            }
            self.with(number, |volume, live| volume.promote(live))?;
        }
        let wanted = self.places_wanted(number, offset, end)?.unwrap_or(0);
        let granted = self.admit_data(wanted, now)?;
        self.with(number, |volume, live| {
            let count = volume.write_blocks(live, offset, bytes, granted)?;
            if count == 0 {
                return Err(Errno::NoSpace);
            }
            live.touch(now);
            live.disk.size = live.disk.size.max(offset + count as u64);
            volume.mark(live)?;
            Ok(count)
        })
    }

    /// How many data blocks a write takes; [`None`] where the file is in the log.
    fn places_wanted(&mut self, number: InodeNo, offset: u64, end: u64) -> Result<Option<u64>> {
        let size = self.block();
        self.with(number, |volume, live| {
            let Contents::Extents { map, blocks, .. } = &mut live.contents else { return Ok(None) };
            let mut wanted = 0;
            for index in offset / size..end.div_ceil(size) {
                if !blocks.contains_key(&index) && extent_at(map, &volume.io, index)?.is_none() {
                    wanted += 1;
                }
            }
            Ok(Some(wanted))
        })
    }

    fn write_small(&mut self, live: &mut Live, offset: u64, bytes: &[u8]) -> Result<()> {
        let start = usize::try_from(offset).map_err(|_| Errno::TooLarge)?;
        let size = usize::try_from(live.disk.size).map_err(|_| Errno::Corrupt)?;
        let contents = self.small(live)?;
        let before = contents.len();
        contents.resize(size.max(start + bytes.len()), 0);
        contents[start..start + bytes.len()].copy_from_slice(bytes);
        let after = contents.len();
        self.small_changed(live, before, after);
        Ok(())
    }

    pub fn small_changed(&mut self, live: &mut Live, before: usize, after: usize) {
        let Contents::Small { dirty, .. } = &mut live.contents else { return };
        let counted = if std::mem::replace(dirty, true) { before as u64 } else { 0 };
        self.waiting = self.waiting.saturating_sub(counted) + after as u64;
    }

    /// A file leaves the log for data blocks.
    fn promote(&mut self, live: &mut Live) -> Result<()> {
        let bytes = self.small(live)?.clone();
        self.give_contents_back(live)?;
        let map = Tree::new(Leaves::Extents, live.disk.number, live.disk.generation, Map::default());
        let mut blocks = BTreeMap::new();
        let mut fresh = 0;
        if !bytes.is_empty() {
            let mut block = bytes;
            block.resize(self.io.block_size(), 0);
            blocks.insert(0, block);
            fresh = 1;
            self.space.promised += 1;
            self.waiting += self.block();
            self.waiting_data += self.block();
        }
        live.contents = Contents::Extents { map, blocks, fresh, placed: 0 };
        self.mark(live)
    }

    /// Writes into blocks in memory, as far as `granted` new ones go.
    fn write_blocks(
        &mut self,
        live: &mut Live,
        offset: u64,
        bytes: &[u8],
        mut granted: u64,
    ) -> Result<usize> {
        let size = self.block();
        let old_size = live.disk.size;
        let Contents::Extents { map, blocks, fresh, .. } = &mut live.contents else {
            return Err(Errno::Corrupt);
        };
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (index, within) = (at / size, width::index(at % size));
            let part = (width::index(size) - within).min(bytes.len() - done);
            if let Vacant(place) = blocks.entry(index) {
                let address = extent_at(map, &self.io, index)?;
                if address.is_none() {
                    if granted == 0 {
                        break;
                    }
                    granted -= 1;
                    *fresh += 1;
                    self.space.promised += 1;
                }
                let mut block = vec![0; width::index(size)];
                let is_whole = part == width::index(size) || (within == 0 && at + part as u64 >= old_size);
                if let Some(address) = address.filter(|_| !is_whole) {
                    self.io.read(self.io.offset(address), &mut block)?;
                }
                place.insert(block);
                self.waiting += size;
                self.waiting_data += size;
            }
            if let Some(block) = blocks.get_mut(&index) {
                block[within..within + part].copy_from_slice(&bytes[done..done + part]);
            }
            done += part;
        }
        Ok(done)
    }

    /// Gives a file another length. The caller marks the inode.
    pub fn resize(&mut self, live: &mut Live, size: u64) -> Result<()> {
        if size > SIZE_MAX {
            return Err(Errno::TooLarge);
        }
        let block = self.block();
        if let Contents::Small { .. } = live.contents {
            if size <= block {
                let len = usize::try_from(size).map_err(|_| Errno::TooLarge)?;
                let contents = self.small(live)?;
                let before = contents.len();
                contents.resize(len, 0);
                self.small_changed(live, before, len);
                live.disk.size = size;
                return Ok(());
            }
            if live.disk.size > 0 && self.space.data_left() == 0 {
                return Err(Errno::NoSpace);
            }
            self.promote(live)?;
        }
        if size < live.disk.size {
            self.cut(live, size)?;
        }
        live.disk.size = size;
        Ok(())
    }

    fn cut(&mut self, live: &mut Live, size: u64) -> Result<()> {
        let block = self.block();
        if size <= block / 2 && self.log_takes(size) {
            return self.demote(live, size);
        }
        let keep = size.div_ceil(block);
        if !size.is_multiple_of(block) {
            self.clear_tail(live, size)?;
        }
        let io = &self.io;
        let per_block = io.sb.per_block();
        let Contents::Extents { map, blocks, fresh, placed } = &mut live.contents else {
            return Err(Errno::Corrupt);
        };
        let mut gone = 0;
        for (index, _) in blocks.split_off(&keep) {
            gone += 1;
            if extent_at(map, io, index)?.is_none() {
                *fresh -= 1;
                self.space.promised = self.space.promised.saturating_sub(1);
            }
        }
        self.waiting = self.waiting.saturating_sub(gone * block);
        self.waiting_data = self.waiting_data.saturating_sub(gone * block);
        let mut freed = 0;
        if let Some(record) = map
            .at(io, keep)?
            .filter(|record| keep > record.key && keep - record.key < u64::from(record.place.len))
        {
            let kept = keep - record.key;
            map.change(io, record.key, |slots| {
                let at = floor(slots, record.key);
                if let Some(slot) = slots.get_mut(at) {
                    slot.record.place.len = width::low_u16(kept);
                }
                Ok(())
            })?;
            let left = u64::from(record.place.len) - kept;
            io.free(record.place.address + kept * per_block, left * per_block);
            freed += left;
        }
        while let Some(record) = map.next(io, keep)? {
            map.take(io, record.key)?;
            io.free(record.place.address, u64::from(record.place.len) * per_block);
            freed += u64::from(record.place.len);
        }
        *placed = placed.saturating_sub(freed);
        self.space.totals.data = self.space.totals.data.saturating_sub(freed);
        Ok(())
    }

    /// What lies behind the end in the last block is zeroes.
    fn clear_tail(&mut self, live: &mut Live, size: u64) -> Result<()> {
        let block = self.block();
        let (index, within) = (size / block, width::index(size % block));
        let Contents::Extents { map, blocks, .. } = &mut live.contents else { return Err(Errno::Corrupt) };
        if let Vacant(place) = blocks.entry(index) {
            let Some(address) = extent_at(map, &self.io, index)? else { return Ok(()) };
            let mut bytes = vec![0; width::index(block)];
            self.io.read(self.io.offset(address), &mut bytes)?;
            place.insert(bytes);
            self.waiting += block;
            self.waiting_data += block;
        }
        if let Some(bytes) = blocks.get_mut(&index) {
            bytes[within..].fill(0);
        }
        Ok(())
    }

    /// A file that is short enough comes back to the log.
    fn demote(&mut self, live: &mut Live, size: u64) -> Result<()> {
        let len = usize::try_from(size).map_err(|_| Errno::TooLarge)?;
        let mut bytes = vec![0; len];
        self.read_file(live, 0, &mut bytes)?;
        self.give_contents_back(live)?;
        self.waiting += len as u64;
        live.contents = Contents::Small { bytes: Some(bytes), at: None, dirty: true };
        Ok(())
    }

    /// Where contents are on the device.
    pub fn extents_of(&mut self, live: &mut Live, offset: u64, max: usize) -> Result<Vec<Extent>> {
        let block = self.block();
        let (io, number, size) = (&self.io, live.disk.number, live.disk.size);
        match &mut live.contents {
            Contents::Extents { map, blocks, .. } => {
                let mut found = Vec::new();
                let mut key = offset / block;
                // What waits for its place is no hole.
                let mut waiting: Vec<u64> = Vec::new();
                for index in blocks.range(key..).map(|(index, _)| *index) {
                    if extent_at(map, io, index)?.is_none() {
                        waiting.push(index);
                    }
                }
                if let Some(record) =
                    map.at(io, key)?.filter(|record| key - record.key < u64::from(record.place.len))
                {
                    key = record.key;
                }
                while let Some(record) = map.next(io, key)?.filter(|_| found.len() < max) {
                    let len = u64::from(record.place.len) * block;
                    let at = io.offset(record.place.address);
                    found.push(Extent {
                        offset: record.key.saturating_mul(block),
                        at,
                        len,
                        unwritten: false,
                    });
                    key = record.key.saturating_add(u64::from(record.place.len).max(1));
                }
                found.extend(waiting.chunk_by(|one, next| one + 1 == *next).map(|run| Extent {
                    offset: run[0].saturating_mul(block),
                    at: 0,
                    len: run.len() as u64 * block,
                    unwritten: false,
                }));
                found.sort_unstable_by_key(|extent| extent.offset);
                found.truncate(max);
                Ok(found)
            }
            Contents::Small { at, .. } if size > offset && max > 0 => {
                let at = match at {
                    Some(record) => record.place.address,
                    None => {
                        let block = number / u64::from(io.sb.inodes_per_block());
                        self.ifile.get(io, block)?.map_or(0, |record| record.place.address)
                    }
                };
                Ok(vec![Extent { offset: 0, at: self.io.offset(at), len: size, unwritten: false }])
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// An error for what has no contents.
pub(crate) fn regular(live: &Live) -> Result<()> {
    match live.kind() {
        Some(FileKind::Regular) => Ok(()),
        Some(FileKind::Directory) => Err(Errno::IsDirectory),
        _ => Err(Errno::Invalid),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use fsmend_device::{WritableDevice, WritableMemory};
    use fsmend_vfs::{FileSystem, Permissions};

    use super::*;
    use crate::mkfs::{Options, mkfs};
    use crate::{Hybrid, MountOptions};

    /// A mount took them for holes: fallocate wrote zeroes over contents, and copies left them out.
    #[test]
    fn contents_that_have_no_place_yet_are_no_holes() {
        let now = Time::at(1_700_000_000);
        let device: Arc<dyn WritableDevice> = Arc::new(WritableMemory::new("image", vec![0; 32 << 20]));
        let options = Options { log_bytes: Some(8 << 20), ..Options::new(*b"0123456789abcdef", now) };
        mkfs(Arc::clone(&device), &options).unwrap();
        let mut fs = Hybrid::mount(device, MountOptions::new(now)).unwrap();
        let (root, of) = (fs.root(), Permissions { mode: 0o644, uid: 0, gid: 0 });
        let file = fs.create(root, b"file", of, now).unwrap().inode;
        let block = 16 << 10;
        let runs = |fs: &mut Hybrid, from: u64, max: usize| -> Vec<(u64, u64)> {
            let extents = fs.extents(file, from, max).unwrap();
            extents.iter().map(|extent| (extent.offset / block, extent.len / block)).collect()
        };
        for at in [4, 5, 9] {
            fs.write(file, at * block, &vec![1; block as usize], now).unwrap();
        }
        assert_eq!(runs(&mut fs, 0, 10), [(4, 2), (9, 1)]);
        fs.sync(now).unwrap();
        assert_eq!(runs(&mut fs, 0, 10), [(4, 2), (9, 1)]);
        // New ones among old ones, and old ones that are written anew.
        for at in [2, 5, 7] {
            fs.write(file, at * block, &vec![2; block as usize], now).unwrap();
        }
        assert_eq!(runs(&mut fs, 0, 10), [(2, 1), (4, 2), (7, 1), (9, 1)]);
        assert_eq!(runs(&mut fs, 5 * block, 2), [(4, 2), (7, 1)]);
        assert_eq!(runs(&mut fs, 6 * block, 10), [(7, 1), (9, 1)]);
    }
}
