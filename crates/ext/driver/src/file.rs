// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contents of regular files: reading, writing, cutting, allocating without writing.

use fsmend_base::width;
use fsmend_ext_format::features::RoCompat;
use fsmend_ext_format::inode::{InodeFlags, LARGE_FILE};
use fsmend_vfs::{Allocation, Errno, Extent, InodeNo, Result, Time};

use crate::inode::Inode;
use crate::map::Run;
use crate::policy::BlockKind;
use crate::volume::Volume;

/// Most blocks that one step of a write allocates; fewer where the journal is small.
const STEP_BLOCKS_MAX: u64 = 1024;

impl Volume {
    fn block_size(&self) -> u64 {
        u64::from(self.geometry.block_size)
    }

    /// A regular file that may be changed.
    fn load_for_writing(&mut self, number: InodeNo) -> Result<Inode> {
        let inode = self.load(number)?;
        if inode.is_directory() {
            return Err(Errno::IsDirectory);
        }
        if !inode.is_regular() {
            return Err(Errno::Invalid);
        }
        self.check_changeable(&inode)?;
        Ok(inode)
    }

    /// An error for inodes that say of themselves that they may not be changed, or that this driver cannot change.
    pub fn check_changeable(&self, inode: &Inode) -> Result<()> {
        if inode.raw.has_flag(InodeFlags::IMMUTABLE) || inode.raw.has_flag(InodeFlags::APPEND) {
            return Err(Errno::NotPermitted);
        }
        let foreign = [InodeFlags::VERITY, InodeFlags::ENCRYPT, InodeFlags::EA_INODE];
        if foreign.iter().any(|flag| inode.raw.has_flag(*flag)) {
            return Err(Errno::NotSupported);
        }
        Ok(())
    }

    /// Reads from a file; returns how many bytes there were.
    pub fn read_file(&mut self, inode: &Inode, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let size = inode.raw.size();
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = left.min(buf.len());
        let buf = &mut buf[..len];
        if inode.has_inline_data() {
            let bytes = self.inline_data(inode);
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            for (at, byte) in buf.iter_mut().enumerate() {
                *byte = start.checked_add(at).and_then(|at| bytes.get(at)).copied().unwrap_or(0);
            }
            return Ok(len);
        }
        let block_size = self.block_size();
        if self.regions.exist() && len > 0 {
            // Where maps lie apart from data, they are read first: between two pieces of data, the way there and back would be made twice.
            self.map(inode, (offset + len as u64 - 1) / block_size, 1)?;
        }
        let mut done = 0usize;
        while done < len {
            let at = offset + done as u64;
            let (logical, within) = (at / block_size, at % block_size);
            let wanted = (within + (len - done) as u64).div_ceil(block_size);
            let run = self.map(inode, logical, wanted)?;
            let bytes = run.count.saturating_mul(block_size) - within;
            let part = usize::try_from(bytes).unwrap_or(usize::MAX).min(len - done);
            let place = &mut buf[done..done + part];
            match run.physical.filter(|_| !run.unwritten) {
                Some(physical) => self.cache.read_data(physical, width::index(within), place)?,
                None => place.fill(0),
            }
            done += part;
        }
        Ok(len)
    }

    /// Blocks that a file can have at most, also once it does not live in its inode any more.
    fn blocks_max(&self, inode: &Inode) -> u64 {
        self.logical_max(inode.has_extents() || (inode.has_inline_data() && self.uses_extents()))
    }

    /// Blocks that one step may allocate: each may be in a group of its own, and take a map block of its own.
    fn step_blocks(&self) -> u64 {
        (self.changes_max() as u64 / 4).clamp(1, STEP_BLOCKS_MAX)
    }

    /// Writes to a file; returns how many bytes were written: those that lie below the largest length of a file, as far as there is room.
    pub fn write_file(&mut self, number: InodeNo, offset: u64, bytes: &[u8], now: Time) -> Result<usize> {
        let inode = self.load(number)?;
        let room = self.blocks_max(&inode).saturating_mul(self.block_size()).saturating_sub(offset);
        if room == 0 && !bytes.is_empty() {
            return Err(Errno::TooLarge);
        }
        let bytes = &bytes[..usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len())];
        let mut done = 0;
        let mut step = self.step_blocks();
        while done < bytes.len() {
            let at = offset.checked_add(done as u64).ok_or(Errno::TooLarge)?;
            let block_size = self.block_size();
            let until_step_end = step * block_size - at % block_size;
            let part = usize::try_from(until_step_end).unwrap_or(usize::MAX).min(bytes.len() - done);
            let piece = &bytes[done..done + part];
            match self.operation(now, |volume| volume.write_piece(number, at, piece, now)) {
                Ok(()) => done += part,
                Err(Errno::NoSpace | Errno::OverQuota) if step > 1 => step /= 2,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_piece(&mut self, number: InodeNo, offset: u64, bytes: &[u8], now: Time) -> Result<()> {
        let mut inode = self.load_for_writing(number)?;
        let block_size = self.block_size();
        let end = offset.checked_add(bytes.len() as u64).ok_or(Errno::TooLarge)?;
        if end.div_ceil(block_size) > self.blocks_max(&inode) {
            return Err(Errno::TooLarge);
        }
        if self.write_inline(&mut inode, offset, bytes)? {
            inode.touch(now);
            return self.save(&mut inode);
        }
        let mut done = 0usize;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (logical, within) = (at / block_size, at % block_size);
            let wanted = (within + (bytes.len() - done) as u64).div_ceil(block_size);
            let run = self.map(&inode, logical, wanted)?;
            let (physical, count, is_new) = match run {
                Run { physical: Some(physical), count, unwritten } => (physical, count, unwritten),
                Run { physical: None, count, .. } => {
                    let (physical, count) =
                        self.map_new(&mut inode, logical, count, BlockKind::Data, false)?;
                    (physical, count, true)
                }
            };
            let room = width::index(count * block_size - within);
            let part = room.min(bytes.len() - done);
            self.write_run(physical, width::index(within), &bytes[done..done + part], is_new)?;
            if run.unwritten {
                let blocks = (within + part as u64).div_ceil(block_size);
                self.mark_written(&mut inode, logical, blocks)?;
            }
            done += part;
        }
        if end > inode.raw.size() {
            self.set_size(&mut inode, end)?;
        }
        inode.touch(now);
        self.save(&mut inode)
    }

    /// Writes whole blocks, from `physical` on; what `bytes` leave of the first and the last one is kept, or zero where the block is new.
    fn write_run(&mut self, physical: u64, within: usize, bytes: &[u8], is_new: bool) -> Result<()> {
        let size = width::index(self.block_size());
        let end = within + bytes.len();
        if within == 0 && end.is_multiple_of(size) {
            return self.cache.write_data(physical, 0, bytes);
        }
        let blocks = end.div_ceil(size);
        let mut whole = vec![0; blocks * size];
        if !is_new {
            self.cache.read_data(physical, 0, &mut whole[..size])?;
            if blocks > 1 {
                let last = (blocks - 1) * size;
                self.cache.read_data(physical + (blocks - 1) as u64, 0, &mut whole[last..])?;
            }
        }
        whole[within..end].copy_from_slice(bytes);
        self.cache.write_data(physical, 0, &whole)
    }

    /// Sets the length of a file, and the feature that long files need.
    pub fn set_size(&mut self, inode: &mut Inode, size: u64) -> Result<()> {
        inode.raw.set_size(size);
        if size >= LARGE_FILE && !self.geometry.features.has_ro_compat(RoCompat::LARGE_FILE) {
            self.change_superblock(|superblock| {
                let features = superblock.s_feature_ro_compat.get() | RoCompat::LARGE_FILE.bits();
                superblock.s_feature_ro_compat.set(features);
            })?;
            self.geometry.features.ro_compat |= RoCompat::LARGE_FILE;
        }
        Ok(())
    }

    /// Makes a file as long as `size`, as part of an operation. Returns whether all is done: otherwise the inode is on the list of
    /// orphans, and [`Volume::finish_cut`] has to go on.
    pub fn resize(&mut self, inode: &mut Inode, size: u64, now: Time) -> Result<bool> {
        let block_size = self.block_size();
        if size.div_ceil(block_size) > self.blocks_max(inode) {
            return Err(Errno::TooLarge);
        }
        if inode.has_inline_data() && self.resize_inline(inode, size)? {
            inode.touch(now);
            return Ok(true);
        }
        let before = inode.raw.size();
        self.set_size(inode, size)?;
        inode.touch(now);
        if size >= before {
            return Ok(true);
        }
        self.zero_tail(inode, size)?;
        let is_done = self.cut_map(inode, size.div_ceil(block_size))?;
        if !is_done {
            self.add_orphan(inode)?;
        }
        Ok(is_done)
    }

    /// What stands behind the end in the last block becomes zero, so that it is not visible when the file grows again.
    fn zero_tail(&mut self, inode: &Inode, size: u64) -> Result<()> {
        let block_size = self.block_size();
        let within = width::index(size % block_size);
        if within == 0 {
            return Ok(());
        }
        let run = self.map(inode, size / block_size, 1)?;
        match run.physical.filter(|_| !run.unwritten) {
            Some(physical) => {
                let zeroes = vec![0; width::index(block_size) - within];
                self.write_run(physical, within, &zeroes, false)
            }
            None => Ok(()),
        }
    }

    /// Goes on cutting a file that was too large for one transaction, until it is done.
    pub fn finish_cut(&mut self, number: InodeNo, now: Time) -> Result<()> {
        loop {
            let is_done = self.operation(now, |volume| {
                let mut inode = volume.load(number)?;
                let first = inode.raw.size().div_ceil(volume.block_size());
                let is_done = volume.cut_map(&mut inode, first)?;
                if is_done {
                    volume.remove_orphan(&mut inode)?;
                }
                volume.save(&mut inode)?;
                Ok(is_done)
            })?;
            if is_done {
                return Ok(());
            }
            self.commit(now)?;
        }
    }

    /// Gives a range of a file blocks without writing to them.
    pub fn allocate_range(
        &mut self,
        number: InodeNo,
        offset: u64,
        len: u64,
        how: Allocation,
        now: Time,
    ) -> Result<()> {
        let block_size = self.block_size();
        let end = offset.checked_add(len).filter(|_| len > 0).ok_or(Errno::Invalid)?;
        let (mut logical, last) = (offset / block_size, end.div_ceil(block_size));
        while logical < last {
            let upto = last.min(logical.saturating_add(self.step_blocks()));
            self.operation(now, |volume| {
                let new_end = (upto * block_size).min(end);
                volume.allocate_piece(number, logical..upto, new_end, how, now)
            })?;
            logical = upto;
        }
        Ok(())
    }

    fn allocate_piece(
        &mut self,
        number: InodeNo,
        blocks: std::ops::Range<u64>,
        end: u64,
        how: Allocation,
        now: Time,
    ) -> Result<()> {
        let mut inode = self.load_for_writing(number)?;
        if blocks.end > self.blocks_max(&inode) {
            return Err(Errno::TooLarge);
        }
        self.unfold_file(&mut inode)?;
        let unwritten = how != Allocation::Claimed;
        if unwritten && !inode.has_extents() {
            return Err(Errno::NotSupported);
        }
        let mut at = blocks.start;
        while at < blocks.end {
            let run = self.map(&inode, at, blocks.end - at)?;
            at += match run.physical {
                Some(_) if run.unwritten && !unwritten => {
                    self.mark_written(&mut inode, at, run.count)?;
                    run.count
                }
                Some(_) => run.count,
                None => self.map_new(&mut inode, at, run.count, BlockKind::Data, unwritten)?.1,
            };
        }
        if end > inode.raw.size() && how != Allocation::UnwrittenKeepSize {
            self.set_size(&mut inode, end)?;
        }
        inode.touch(now);
        self.save(&mut inode)
    }

    /// Makes a hole: the blocks that lie in the range are freed, and what it has of others becomes zero.
    pub fn punch_range(&mut self, number: InodeNo, offset: u64, len: u64, now: Time) -> Result<()> {
        let end = offset.checked_add(len).ok_or(Errno::TooLarge)?;
        if len == 0 {
            return Err(Errno::Invalid);
        }
        let block_size = self.block_size();
        let (mut at, last) = (offset.div_ceil(block_size), end / block_size);
        self.operation(now, |volume| volume.zero_edges(number, offset..end, now))?;
        while at < last {
            at = self.operation(now, |volume| volume.punch_step(number, at..last))?;
        }
        Ok(())
    }

    /// Zeroes what a range has of blocks that it does not cover; the first step of a hole.
    fn zero_edges(&mut self, number: InodeNo, range: std::ops::Range<u64>, now: Time) -> Result<()> {
        let mut inode = self.load_for_writing(number)?;
        if self.unit() > 1 {
            // What of a cluster is still needed would have to be found out for each block.
            return Err(Errno::NotSupported);
        }
        self.unfold_file(&mut inode)?;
        let block_size = self.block_size();
        let first_end = range.start.next_multiple_of(block_size).min(range.end);
        self.zero_bytes(&inode, range.start..first_end)?;
        let last_start = (range.end - range.end % block_size).max(first_end);
        self.zero_bytes(&inode, last_start..range.end)?;
        inode.touch(now);
        self.save(&mut inode)
    }

    /// Zeroes bytes of one block, if there is something else in it.
    fn zero_bytes(&mut self, inode: &Inode, range: std::ops::Range<u64>) -> Result<()> {
        let block_size = self.block_size();
        if range.is_empty() {
            return Ok(());
        }
        let run = self.map(inode, range.start / block_size, 1)?;
        match run.physical.filter(|_| !run.unwritten) {
            Some(physical) => {
                let zeroes = vec![0; width::index(range.end - range.start)];
                self.write_run(physical, width::index(range.start % block_size), &zeroes, false)
            }
            None => Ok(()),
        }
    }

    /// Frees blocks of a range of a file until the running transaction is full. Returns where to go on.
    fn punch_step(&mut self, number: InodeNo, blocks: std::ops::Range<u64>) -> Result<u64> {
        let mut inode = self.load_for_writing(number)?;
        let mut at = blocks.start;
        let mut has_changed = false;
        while at < blocks.end && !(has_changed && self.is_step_full()) {
            let run = self.map(&inode, at, (blocks.end - at).min(self.step_blocks()))?;
            match run.physical {
                Some(_) => {
                    at += self.unmap(&mut inode, at, run.count)?;
                    has_changed = true;
                }
                None => at += run.count,
            }
        }
        if has_changed {
            self.save(&mut inode)?;
        }
        Ok(at)
    }

    /// The runs of a file from byte `offset` on.
    pub fn list_extents(&mut self, inode: &Inode, offset: u64, max: usize) -> Result<Vec<Extent>> {
        let block_size = self.block_size();
        let mut found: Vec<Extent> = Vec::new();
        if inode.has_inline_data() && offset < inode.raw.size() && max > 0 {
            let at = self.inline_place(inode)?;
            return Ok(vec![Extent { offset: 0, at, len: inode.raw.size(), unwritten: false }]);
        }
        if !inode.has_map() {
            return Ok(found);
        }
        let end = inode.raw.size().div_ceil(block_size);
        let mut logical = offset / block_size;
        while logical < end && found.len() < max {
            let run = self.map(inode, logical, end - logical)?;
            if let Some(physical) = run.physical {
                let (at, len) = (physical * block_size, run.count * block_size);
                let offset = logical * block_size;
                match found.last_mut() {
                    Some(last)
                        if last.at + last.len == at
                            && last.offset + last.len == offset
                            && last.unwritten == run.unwritten =>
                    {
                        last.len += len;
                    }
                    _ => found.push(Extent { offset, at, len, unwritten: run.unwritten }),
                }
            }
            logical = logical.saturating_add(run.count);
        }
        Ok(found)
    }
}
