// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a plan is made: from the target as it is and the bytes that are to change.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use fsmend_base::width;

use super::data::{Data, sum_of};
use super::parse::{BLOCK_HEADER_BYTES, BlockHeader, Header};
use super::runs::{Runs, append_difference, append_run};
use super::{Entry, Plan, PlanError};
use crate::blocks::{BLOCK_BYTES, block_len, checksum, read_sectors};
use crate::{BlockCopy, Device, check_bounds};

/// So many neighbours are read together.
const BLOCKS_AT_ONCE: usize = 64;

/// What a block of a plan takes beside the changed bytes: its header, and those of a few runs.
const LIKELY_BLOCK_BYTES: usize = 64;

/// So much is gathered for one write to the file.
const GATHERED_MAX: usize = 256 << 10;

/// What a plan is made from.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanBuilder<'d> {
    /// Who the target is, e.g. the UUID and the label of the file system; at most 1024 bytes. Not interpreted.
    pub identity: &'d [u8],
    /// What is repaired and lost, for those who read the plan (JSON). Not interpreted.
    pub text: &'d str,
    /// What is to change: ascending, without overlap.
    pub changes: &'d [(u64, Vec<u8>)],
    /// What is to be copied besides: ascending by where it goes, without overlap, and not where there are changes.
    pub copies: &'d [BlockCopy],
    /// What is written first, over the target as it is: a superblock that says that a repair goes on. Ascending, without
    /// overlap. The blocks with these bytes are written in full at the end.
    pub marker: &'d [(u64, Vec<u8>)],
    /// Offset and length of what is to be written at the end, when all else is safe (the superblock).
    pub last: &'d [(u64, u64)],
}

/// Where the bytes of a large plan go, so that they do not stand in memory.
pub struct PlanSpill<'s> {
    /// A plan that is likely to have more bytes than this is put into a file.
    pub above: u64,
    /// An empty file that no name leads to, where there is room for so many bytes.
    pub file: &'s dyn Fn(u64) -> Option<File>,
}

impl PlanSpill<'_> {
    /// All plans stand in memory.
    pub const NONE: PlanSpill<'static> = PlanSpill { above: u64::MAX, file: &|_| None };
}

impl Plan {
    /// The plan that makes the changes of `builder` to `device` as it is now. Changes that change nothing are left out; if none
    /// is left, the plan is empty and writes no marker either.
    pub fn make(device: &dyn Device, builder: &PlanBuilder<'_>) -> Result<Plan, PlanError> {
        Plan::make_within(device, builder, &PlanSpill::NONE)
    }

    /// The same plan. The bytes of a large one are put into a file of `spill`, if there is one and it takes them, and stand in memory otherwise.
    pub fn make_within(
        device: &dyn Device,
        builder: &PlanBuilder<'_>,
        spill: &PlanSpill<'_>,
    ) -> Result<Plan, PlanError> {
        check_writes(builder.changes, device.len())?;
        check_copies(builder.copies, device.len())?;
        check_writes(builder.marker, device.len())?;
        let header = Header {
            target_len: device.len(),
            block_count: 0,
            identity: builder.identity,
            text: builder.text,
        };
        let touched = touched_blocks(builder);
        let changed: usize = builder.changes.iter().map(|(_, bytes)| bytes.len()).sum();
        let copied = builder.copies.iter().map(|copy| copy.len).sum::<u64>().min(Plan::BYTES_MAX) as usize;
        let likely = header.len() + changed + copied + touched.len() * LIKELY_BLOCK_BYTES;
        // Its log holds the plan once more, and the blocks as they are. That it has room is more important.
        let room = 2 * likely as u64 + (touched.len() * BLOCK_BYTES) as u64;
        if likely as u64 > spill.above
            && let Some(file) = (spill.file)(room)
        {
            match spilled(device, builder, &header, &touched, file) {
                // There may be memory where there is no room in files.
                Err(PlanError::Io(_)) => {}
                made => return made,
            }
        }
        // As much as a plan is likely to take: one that grows would be there twice.
        let mut bytes = Vec::with_capacity(likely);
        bytes.resize(header.len(), 0);
        let mut maker = Maker::new(device, builder, bytes);
        maker.add_all(&touched, |_| Ok(()))?;
        if !maker.has_changes {
            maker.bytes.truncate(header.len());
        }
        Plan::parse(Header { block_count: maker.block_count(), ..header }.enclose(maker.bytes)?)
    }
}

/// A plan whose bytes are in `file`.
fn spilled(
    device: &dyn Device,
    builder: &PlanBuilder<'_>,
    header: &Header<'_>,
    touched: &[u64],
    file: File,
) -> Result<Plan, PlanError> {
    let failed = |error: io::Error| PlanError::Io(error.to_string());
    let blocks_at = header.len() as u64;
    let mut at = blocks_at;
    let mut write = |bytes: &mut Vec<u8>, least: usize| {
        if bytes.len() >= least {
            file.write_all_at(bytes, at).map_err(failed)?;
            at += bytes.len() as u64;
            bytes.clear();
        }
        Ok(at)
    };
    let mut maker = Maker::new(device, builder, Vec::new());
    maker.entries = Some((blocks_at, Vec::new()));
    maker.add_all(touched, |bytes| write(bytes, GATHERED_MAX).map(drop))?;
    let mut bytes = std::mem::take(&mut maker.bytes);
    let mut len = write(&mut bytes, 1)?;
    let entries = if maker.has_changes {
        maker.entries.take().map_or_else(Vec::new, |(_, entries)| entries)
    } else {
        len = blocks_at;
        Vec::new()
    };
    let front = Header { block_count: maker.block_count(), ..*header }.front(len)?;
    file.write_all_at(&front, 0).map_err(failed)?;
    let sum = sum_of(&file, len).map_err(failed)?;
    file.write_all_at(&sum.to_le_bytes(), len).map_err(failed)?;
    Ok(Plan {
        data: Data::Spilled { front, file: Arc::new(file), body_len: len, sum },
        target_len: header.target_len,
        identity_len: header.identity.len(),
        text_len: header.text.len(),
        entries,
    })
}

struct Maker<'m> {
    device: &'m dyn Device,
    builder: &'m PlanBuilder<'m>,
    /// Room for the header, and the blocks so far, as they are saved; or those that have not been written to the file.
    bytes: Vec<u8>,
    /// Where the next block will stand in the plan, and the index so far, if it is not read from the bytes afterwards.
    entries: Option<(u64, Vec<Entry>)>,
    len: u64,
    count: u64,
    has_changes: bool,
}

impl<'m> Maker<'m> {
    fn new(device: &'m dyn Device, builder: &'m PlanBuilder<'m>, bytes: Vec<u8>) -> Self {
        Maker { device, builder, bytes, entries: None, len: 0, count: 0, has_changes: false }
    }

    /// Adds all blocks; `write` is called now and then with the bytes so far, and may take them.
    fn add_all(
        &mut self,
        touched: &[u64],
        mut write: impl FnMut(&mut Vec<u8>) -> Result<(), PlanError>,
    ) -> Result<(), PlanError> {
        for neighbours in touched.chunk_by(|a, b| a + 1 == *b) {
            for part in neighbours.chunks(BLOCKS_AT_ONCE) {
                self.add_blocks(part)?;
                write(&mut self.bytes)?;
            }
        }
        Ok(())
    }

    /// The number of blocks of the plan: none, where nothing would change.
    fn block_count(&self) -> u64 {
        if self.has_changes { self.count } else { 0 }
    }

    /// Adds blocks that lie one behind the other. Fails where what is to be copied cannot be read any more.
    fn add_blocks(&mut self, indices: &[u64]) -> Result<(), PlanError> {
        let (Some(first), Some(last)) = (indices.first(), indices.last()) else { return Ok(()) };
        if self.len > Plan::BYTES_MAX {
            return Err(PlanError::TooLarge { len: self.len, max: Plan::BYTES_MAX });
        }
        let len = (indices.len() - 1) * BLOCK_BYTES + block_len(*last, self.device.len());
        let start = first * BLOCK_BYTES as u64;
        let mut before = vec![0; len];
        let is_read = self.device.read_at(start, &mut before).is_ok();
        let unreadable: Vec<bool> = indices
            .iter()
            .zip(before.chunks_mut(BLOCK_BYTES))
            .map(|(index, block)| {
                !is_read && read_sectors(self.device, index * BLOCK_BYTES as u64, block).any()
            })
            .collect();
        let mut after = before.clone();
        lay_writes(self.builder.changes, start, &mut after);
        lay_copies(self.device, self.builder.copies, start, &mut after)?;
        let images = before.chunks(BLOCK_BYTES).zip(after.chunks(BLOCK_BYTES));
        for ((index, (before, after)), unreadable) in indices.iter().zip(images).zip(unreadable) {
            self.add_block(*index, (before, after), unreadable);
        }
        Ok(())
    }

    fn add_block(&mut self, index: u64, (before, after): (&[u8], &[u8]), unreadable: bool) {
        let (start, end) = (index * BLOCK_BYTES as u64, index * BLOCK_BYTES as u64 + before.len() as u64);
        let marked = self.marked(start, before);
        let is_same = after == before;
        if is_same && marked.is_none() && !unreadable {
            return;
        }
        self.has_changes |= !is_same || unreadable;
        let is_last = marked.is_some()
            || self.builder.last.iter().any(|(at, len)| *at < end && start < at.saturating_add(*len));
        let (mut runs, mut marker_runs) = (Vec::new(), Vec::new());
        // Where the before-image is not known, the after-image must not depend on it.
        let changes = append_image(before, after, unreadable, &mut runs);
        let markers = marked.map_or(0, |marked| append_image(before, &marked, unreadable, &mut marker_runs));
        let (before, after) = (checksum(before), checksum(after));
        let header = BlockHeader { index, before, after, is_last, unreadable, changes, markers };
        if let Some((at, entries)) = &mut self.entries {
            let changed = Runs::new(&runs, changes).map(|(_, bytes)| width::len_u32(bytes.len())).sum();
            let runs_len = runs.len() + marker_runs.len();
            let runs_at = width::index(*at) + BLOCK_HEADER_BYTES;
            let runs_of = (runs_at, width::len_u32(runs_len), changed);
            entries.push(header.entry(runs_of));
            *at = (runs_at + runs_len) as u64;
        }
        self.len += (BLOCK_HEADER_BYTES + runs.len() + marker_runs.len()) as u64;
        self.bytes.extend_from_slice(&header.to_bytes());
        self.bytes.append(&mut runs);
        self.bytes.append(&mut marker_runs);
        self.count += 1;
    }

    /// The block at `start` with the marker over it, where that makes a difference.
    fn marked(&self, start: u64, before: &[u8]) -> Option<Vec<u8>> {
        let end = start + before.len() as u64;
        let marker = self.builder.marker;
        if !marker.iter().any(|(at, bytes)| *at < end && start < at + bytes.len() as u64) {
            return None;
        }
        let mut marked = before.to_vec();
        (lay_writes(marker, start, &mut marked) && marked != before).then_some(marked)
    }
}

fn append_image(before: &[u8], image: &[u8], whole: bool, out: &mut Vec<u8>) -> u16 {
    if whole {
        append_run(0, image, out);
        return 1;
    }
    append_difference(before, image, out)
}

/// Puts what `writes` have for the block at `start` over it, and says whether there was anything.
fn lay_writes(writes: &[(u64, Vec<u8>)], start: u64, block: &mut [u8]) -> bool {
    let end = start + block.len() as u64;
    let first = writes.partition_point(|(at, bytes)| at + bytes.len() as u64 <= start);
    let mut any = false;
    for (at, bytes) in writes[first..].iter().take_while(|(at, _)| *at < end) {
        let skip = width::index(start.saturating_sub(*at));
        let place = width::index(at.saturating_sub(start));
        let count = (bytes.len() - skip).min(block.len() - place);
        block[place..place + count].copy_from_slice(&bytes[skip..skip + count]);
        any = true;
    }
    any
}

/// Puts what `copies` have for the bytes from `start` on over them.
fn lay_copies(
    device: &dyn Device,
    copies: &[BlockCopy],
    start: u64,
    bytes: &mut [u8],
) -> Result<(), PlanError> {
    let end = start + bytes.len() as u64;
    let first = copies.partition_point(|copy| copy.end() <= start);
    for copy in copies[first..].iter().map_while(|copy| copy.part(start, end)) {
        let place = &mut bytes[width::index(copy.to - start)..][..width::index(copy.len)];
        device.read_at(copy.from, place).map_err(PlanError::Read)?;
    }
    Ok(())
}

/// Numbers of the blocks in which something is written, ascending.
fn touched_blocks(builder: &PlanBuilder<'_>) -> Vec<u64> {
    let blocks_of = |(at, len): (u64, u64)| {
        let end = (at + len).div_ceil(BLOCK_BYTES as u64);
        at / BLOCK_BYTES as u64..if len == 0 { 0 } else { end }
    };
    let writes = builder.changes.iter().chain(builder.marker).map(|(at, bytes)| (*at, bytes.len() as u64));
    let places = writes.chain(builder.copies.iter().map(|copy| (copy.to, copy.len)));
    let mut blocks: Vec<u64> = places.flat_map(blocks_of).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}

/// Whether writes are in ascending order, apart, and within the device.
fn check_writes(writes: &[(u64, Vec<u8>)], device_len: u64) -> Result<(), PlanError> {
    let mut end = 0;
    for (at, bytes) in writes {
        if *at < end || check_bounds(*at, bytes.len() as u64, device_len).is_err() {
            return Err(PlanError::Changes);
        }
        end = at + bytes.len() as u64;
    }
    Ok(())
}

/// The same of copies.
fn check_copies(copies: &[BlockCopy], device_len: u64) -> Result<(), PlanError> {
    let mut end = 0;
    for copy in copies {
        let is_within = |at| check_bounds(at, copy.len, device_len).is_ok();
        if copy.to < end || !is_within(copy.to) || !is_within(copy.from) {
            return Err(PlanError::Changes);
        }
        end = copy.end();
    }
    Ok(())
}
