// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contents of regular files: reading, writing, setting the length.

use fsmend_base::width;
use fsmend_ufs_format::geometry::DIRECT;
use fsmend_vfs::{Errno, Extent, FileKind, InodeNo, Result, Time};

use crate::inode::Inode;
use crate::map::Changes;
use crate::policy::BlockKind;
use crate::volume::Volume;

/// Most bytes that one step of a write takes.
const STEP_BYTES_MAX: u64 = 4 << 20;

/// Most blocks that one step takes without writing to them.
const CLAIM_BLOCKS_MAX: u64 = 4096;

/// Data on its way to the device: what lies side by side goes at once.
#[derive(Default)]
struct Gathered {
    place: u64,
    bytes: Vec<u8>,
}

impl Volume {
    /// A regular file that may be changed.
    fn load_for_writing(&mut self, number: InodeNo) -> Result<Inode> {
        let inode = self.load(number)?;
        match inode.kind() {
            Some(FileKind::Regular) => {}
            Some(FileKind::Directory) => return Err(Errno::IsDirectory),
            _ => return Err(Errno::Invalid),
        }
        self.check_changeable(&inode)?;
        Ok(inode)
    }

    /// How many blocks of a file from `index` on lie side by side, at most `max`, and where; 0 for a hole.
    fn run(&mut self, inode: &Inode, index: u64, max: u64) -> Result<(u64, u64)> {
        let at = self.map(inode, index)?;
        let mut count = 1;
        while count < max {
            let expected = if at == 0 { 0 } else { at + count * self.geometry.fragments };
            if self.map(inode, index + count)? != expected {
                break;
            }
            count += 1;
        }
        Ok((at, count))
    }

    /// Reads from a file; returns how many bytes there were.
    pub fn read_file(&mut self, inode: &Inode, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let left = usize::try_from(inode.raw.size().saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = left.min(buf.len());
        let block_size = self.geometry.block_size;
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let (index, within) = (at / block_size, at % block_size);
            let wanted = (within + (len - done) as u64).div_ceil(block_size);
            let (first, count) = self.run(inode, index, wanted)?;
            let bytes = count * block_size - within;
            let part = usize::try_from(bytes).unwrap_or(usize::MAX).min(len - done);
            let place = &mut buf[done..done + part];
            match first {
                0 => place.fill(0),
                first => self.read_place(self.geometry.place(first) + within, place)?,
            }
            done += part;
        }
        Ok(len)
    }

    /// Writes to a file; returns how many bytes were written: those that lie below the largest length of a file, as far as there is room.
    pub fn write_file(&mut self, number: InodeNo, offset: u64, bytes: &[u8], now: Time) -> Result<usize> {
        let room = self.geometry.file_max.saturating_sub(offset);
        if room == 0 && !bytes.is_empty() {
            return Err(Errno::TooLarge);
        }
        let bytes = &bytes[..usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len())];
        let block_size = self.geometry.block_size;
        let mut step = STEP_BYTES_MAX;
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let until_step_end = step.max(block_size) - at % block_size;
            let part = usize::try_from(until_step_end).unwrap_or(usize::MAX).min(bytes.len() - done);
            let piece = &bytes[done..done + part];
            match self.operation(now, |volume| volume.write_piece(number, at, piece, now)) {
                Ok(()) => done += part,
                Err(Errno::NoSpace) if step > block_size => step /= 2,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_piece(&mut self, number: InodeNo, offset: u64, bytes: &[u8], now: Time) -> Result<()> {
        let mut inode = self.load_for_writing(number)?;
        inode.touch(now);
        self.write_contents(&mut inode, offset, bytes)
    }

    /// Writes contents and saves the inode.
    pub fn write_contents(&mut self, inode: &mut Inode, offset: u64, bytes: &[u8]) -> Result<()> {
        let block_size = self.geometry.block_size;
        let old_size = inode.raw.size();
        let end = offset.checked_add(bytes.len() as u64).ok_or(Errno::TooLarge)?;
        if end > self.geometry.file_max {
            return Err(Errno::TooLarge);
        }
        let new_size = old_size.max(end);
        let mut changes = Changes::default();
        let mut gathered = Gathered::default();
        let tail = old_size / block_size;
        let (first, last) = (offset / block_size, (end.max(1) - 1) / block_size);
        if offset > old_size && !old_size.is_multiple_of(block_size) && tail < first {
            // What was the last block is one in the middle now.
            self.write_block(inode, (tail, new_size), (block_size, &[]), &mut changes, &mut gathered)?;
        }
        for index in first..=last {
            let start = index * block_size;
            let from = offset.max(start);
            let to = end.min(start + block_size);
            let data = &bytes[width::index(from - offset)..width::index(to - offset)];
            let what = (from - start, data);
            self.write_block(inode, (index, new_size), what, &mut changes, &mut gathered)?;
        }
        self.flush(&mut gathered)?;
        inode.raw.set_size(new_size);
        self.save_with(inode, changes)
    }

    /// Writes a part of block `index` of a file, from byte `from` of the block on. What of the block is new and not written becomes zeroes.
    fn write_block(
        &mut self,
        inode: &mut Inode,
        (index, new_size): (u64, u64),
        (from, data): (u64, &[u8]),
        changes: &mut Changes,
        gathered: &mut Gathered,
    ) -> Result<()> {
        let block_size = self.geometry.block_size;
        let is_hole = data.is_empty() && self.map(inode, index)? == 0;
        if is_hole {
            return Ok(());
        }
        let place = self.obtain(inode, index, new_size, BlockKind::Data, changes)?;
        let valid = inode.raw.size().saturating_sub(index * block_size).min(block_size);
        let valid = if place.had == 0 { 0 } else { valid };
        let length = place.fragments * self.geometry.fragment_size;
        let at = self.geometry.place(place.at);
        let to = from + data.len() as u64;
        if let Some(old) = place.moved_from {
            let mut kept = vec![0; width::index(valid.min(from))];
            self.read_place(self.geometry.place(old), &mut kept)?;
            self.collect(gathered, at, &kept)?;
            if to < valid {
                let mut rest = vec![0; width::index(valid - to)];
                self.read_place(self.geometry.place(old) + to, &mut rest)?;
                self.collect(gathered, at + to, &rest)?;
            }
        }
        let zeroes = |from: u64, to: u64| vec![0; width::index(to.saturating_sub(from))];
        self.collect(gathered, at + valid.min(from), &zeroes(valid, from.min(length)))?;
        self.collect(gathered, at + from, data)?;
        if place.fragments > place.had || place.had == 0 {
            let behind = to.max(valid).min(length);
            self.collect(gathered, at + behind, &zeroes(behind, length))?;
        }
        Ok(())
    }

    fn collect(&mut self, gathered: &mut Gathered, place: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if gathered.place + gathered.bytes.len() as u64 != place {
            self.flush(gathered)?;
            gathered.place = place;
        }
        gathered.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self, gathered: &mut Gathered) -> Result<()> {
        if gathered.bytes.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut gathered.bytes);
        self.write_place(gathered.place, &bytes)
    }

    /// Gives a range of a file blocks, and the length that goes with them, without writing anything to them.
    pub fn claim(&mut self, number: InodeNo, offset: u64, len: u64, now: Time) -> Result<()> {
        let end = offset.checked_add(len).ok_or(Errno::TooLarge)?;
        if end > self.geometry.file_max {
            return Err(Errno::TooLarge);
        }
        let block_size = self.geometry.block_size;
        let mut at = offset;
        while at < end {
            let step_end = end.min((at / block_size + CLAIM_BLOCKS_MAX) * block_size);
            self.operation(now, |volume| {
                let mut inode = volume.load_for_writing(number)?;
                inode.touch(now);
                let mut changes = Changes::default();
                let new_size = inode.raw.size().max(step_end);
                let tail = inode.raw.size() / block_size;
                if inode.raw.size() % block_size != 0 && tail < at / block_size {
                    volume.obtain(&mut inode, tail, new_size, BlockKind::Data, &mut changes)?;
                }
                for index in at / block_size..step_end.div_ceil(block_size) {
                    volume.obtain(&mut inode, index, new_size, BlockKind::Data, &mut changes)?;
                }
                inode.raw.set_size(new_size);
                volume.save_with(&mut inode, changes)
            })?;
            at = step_end;
        }
        Ok(())
    }

    /// Sets the length of a regular file. A file has to have its last block, so a longer one gets that; what lies between is a hole.
    pub fn resize(&mut self, inode: &mut Inode, size: u64) -> Result<()> {
        let old = inode.raw.size();
        if size == old {
            return Ok(());
        }
        if size > self.geometry.file_max {
            return Err(Errno::TooLarge);
        }
        if size > old {
            return self.write_contents(inode, size - 1, &[0]);
        }
        if size > 0 && self.map(inode, (size - 1) / self.geometry.block_size)? == 0 {
            self.write_contents(inode, size - 1, &[0])?;
        }
        self.cut(inode, size)
    }

    /// The runs of a file on the device from byte `offset` on, at most `max`.
    pub fn extents(&mut self, inode: &Inode, offset: u64, max: usize) -> Result<Vec<Extent>> {
        let mut found: Vec<Extent> = Vec::new();
        let block_size = self.geometry.block_size;
        let is_in_inode = inode.kind() == Some(FileKind::Symlink) && self.is_short_link(inode);
        let has_map =
            matches!(inode.kind(), Some(FileKind::Regular | FileKind::Directory | FileKind::Symlink));
        if is_in_inode || !has_map {
            return Ok(found);
        }
        let count = self.geometry.block_count(inode.raw.size());
        let mut index = offset / block_size;
        while index < count {
            let skipped = self.hole(inode, index, count)?;
            index += skipped;
            if index >= count {
                break;
            }
            let first = self.map(inode, index)?;
            let at = self.geometry.place(first);
            let length = match self.geometry.block_fragments(inode.raw.size(), index) {
                fragments if index < DIRECT => fragments * self.geometry.fragment_size,
                _ => block_size,
            };
            let start = index * block_size;
            let is_full = found.len() >= max;
            match found.last_mut() {
                Some(last) if last.at + last.len == at && last.offset + last.len == start => {
                    last.len += length;
                }
                _ if is_full => return Ok(found),
                _ => found.push(Extent { offset: start, at, len: length, unwritten: false }),
            }
            index += 1;
        }
        Ok(found)
    }

    /// How many blocks of a hole begin at `index`: whole missing indirect blocks are passed over at once.
    fn hole(&mut self, inode: &Inode, index: u64, count: u64) -> Result<u64> {
        use fsmend_ufs_format::inode::{Path, indirect_range};
        let pointers = self.geometry.pointers;
        let mut skipped = 0;
        while index + skipped < count {
            let logical = index + skipped;
            let path = Path::to(logical, pointers).ok_or(Errno::Corrupt)?;
            let mut at = inode.raw.pointer(path.pointer(logical));
            let (first, _) = if path.levels == 0 { (0, 0) } else { indirect_range(path.levels, pointers) };
            // Blocks below the pointer that was read last.
            let mut below = if path.levels == 0 { 1 } else { pointers.pow(width::len_u32(path.levels)) };
            for level in 0..path.levels {
                if at == 0 {
                    break;
                }
                self.check_run(inode, at, self.geometry.fragments)?;
                at = self.read_pointer(at, path.indices[level])?;
                below /= pointers;
            }
            if at != 0 {
                break;
            }
            let within = if path.levels == 0 { 0 } else { (logical - first) % below };
            skipped += below - within;
        }
        Ok(skipped)
    }
}
