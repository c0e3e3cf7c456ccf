// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log: how it is written, read, and changes its state.
//!
//! It is complete when one of its slots says so, and that is written when everything else has been synced. Changes of state go to the
//! slots in turn, so that a torn write leaves the older one; each slot has a block for itself.

use std::borrow::Cow;

use fsmend_base::width;

use super::layout::{
    BLOCK, Header, LogState, MAGIC, PLAN_AT, SLOTS_AT, Slot, cut_name, images_at, newest_slot, read_if_there,
};
use super::{ApplyError, Control, LogFile, Progress, Step};
use crate::blocks::{BLOCK_BYTES, Sum, read_sectors};
use crate::plan::{Entry, u64_at};
use crate::{Device, Differences, Plan, WritableDevice, WriteError};

/// So many blocks are read and written at once.
pub(super) const CHUNK_BLOCKS: usize = 256;

/// What a log is begun with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin<'b> {
    pub start: u64,
    pub keep_undo: bool,
    pub target_name: &'b str,
    /// What it says about itself when it is complete.
    pub state: LogState,
}

/// A complete log.
pub(super) struct Log<'l> {
    file: &'l dyn LogFile,
    /// The plan that is carried out.
    pub plan: Cow<'l, Plan>,
    /// Byte of the file or block device at which the target starts.
    pub start: u64,
    /// What the target was called.
    pub target_name: String,
    keep_undo: bool,
    /// What was written to a slot last.
    state: LogState,
    sequence: u64,
    /// Checksum of all but the slots.
    body: u64,
}

/// What can be said about a log without reading all of it.
pub(super) struct LogSummary {
    pub state: LogState,
    /// If there is a whole one.
    pub header: Option<Header>,
    /// Length of the target that the plan was made for; 0 if there is no plan.
    pub target_len: u64,
}

impl<'l> Log<'l> {
    /// Writes and syncs a log for `plan`, comparing `target` with what it should be on the way.
    pub fn write(
        file: &'l dyn LogFile,
        plan: &'l Plan,
        target: &dyn Device,
        begin: Begin<'_>,
        control: Control<'_>,
    ) -> Result<Log<'l>, ApplyError> {
        if target.len() != plan.target_len() {
            return Err(ApplyError::TargetLength { planned: plan.target_len(), found: target.len() });
        }
        let Begin { start, keep_undo, .. } = begin;
        let target_name = cut_name(begin.target_name);
        let header = Header {
            plan_len: plan.len(),
            block_count: plan.entries().len() as u64,
            start,
            keep_undo,
            target_name: target_name.clone(),
        };
        let mut writer = Writer { file, at: 0, sum: Sum::new() };
        writer.write(&header.to_bytes())?;
        writer.skip_to(PLAN_AT)?;
        let failed = |error| ApplyError::LogNotWritten(WriteError::io(PLAN_AT, plan.len(), error));
        plan.each_piece(failed, |piece| writer.write(piece))?;
        writer.skip_to(header.images_at())?;
        write_images(&mut writer, plan, target, control)?;
        let body = writer.sum.finish();
        sync_new(file)?;
        let (plan, state) = (Cow::Borrowed(plan), LogState::Incomplete);
        let mut log = Log { file, plan, start, target_name, keep_undo, state, sequence: 0, body };
        log.open_for_work(begin.state)?;
        Ok(log)
    }

    /// Both slots, so that one may be lost later.
    fn open_for_work(&mut self, state: LogState) -> Result<(), ApplyError> {
        for _ in SLOTS_AT {
            self.write_slot(state).map_err(ApplyError::LogNotWritten)?;
        }
        self.file.sync().map_err(ApplyError::LogNotWritten)
    }

    /// Compares `target` once more with what the plan was made for, now that the log is on the disk: writing and syncing it may have taken
    /// minutes.
    pub fn confirm(&self, target: &dyn WritableDevice, control: Control<'_>) -> Result<(), ApplyError> {
        let Some(found) = target.len_now() else { return Err(ApplyError::TargetReplaced) };
        if found != self.plan.target_len() {
            return Err(ApplyError::TargetLength { planned: self.plan.target_len(), found });
        }
        let mut differences = Differences::default();
        let mut chunk = vec![0; CHUNK_BLOCKS.min(self.plan.entries().len()) * BLOCK_BYTES];
        for entries in self.plan.entries().chunks(CHUNK_BLOCKS) {
            if control.is_stopped() {
                return Err(ApplyError::Stopped { begun: false });
            }
            compare_images(&self.plan, entries, target, &mut chunk, &mut differences);
        }
        if differences.is_empty() { Ok(()) } else { Err(ApplyError::TargetChanged(differences)) }
    }

    /// A log that is there. `None` if it was never completed. Takes a few times as much memory as its plan.
    pub fn read(file: &'l dyn LogFile) -> Result<Option<Log<'l>>, ApplyError> {
        let Some(slot) = newest_slot(file) else { return Ok(None) };
        let damaged = ApplyError::LogDamaged;
        let header = Header::read(file)?.ok_or(damaged("its header is damaged"))?;
        if header.plan_len > Plan::BYTES_MAX {
            return Err(damaged("its plan is too large"));
        }
        if file.len() < header.len().ok_or(damaged("its header is damaged"))? {
            return Err(damaged("its end is missing"));
        }
        if sum_of_body(file, &header)? != slot.body {
            return Err(damaged("it has changed since it was written"));
        }
        let mut plan = vec![0; width::index(header.plan_len)];
        file.read_at(PLAN_AT, &mut plan).map_err(ApplyError::LogNotRead)?;
        let plan = Plan::parse(plan).map_err(|_| damaged("its plan is invalid"))?;
        if plan.entries().len() as u64 != header.block_count {
            return Err(damaged("the plan in it has another number of blocks"));
        }
        let (Header { start, keep_undo, target_name, .. }, plan) = (header, Cow::Owned(plan));
        let Slot { sequence, state, body } = slot;
        Ok(Some(Log { file, plan, start, target_name, keep_undo, state, sequence, body }))
    }

    /// What it says about itself.
    pub fn state(&self) -> LogState {
        self.state
    }

    /// Turns the log round, durably, before the first block goes in the other direction.
    pub fn turn(&mut self, state: LogState) -> Result<(), ApplyError> {
        self.write_slot(state).and_then(|()| self.file.sync()).map_err(ApplyError::LogNotWritten)
    }

    /// Closes the log, and removes it unless it is to be kept. That it cannot be removed does no harm.
    pub fn finish(&mut self, state: LogState) -> Result<(), ApplyError> {
        self.write_slot(state).and_then(|()| self.file.sync()).map_err(ApplyError::LogNotClosed)?;
        if !self.keep_undo {
            let _ = self.file.remove();
        }
        Ok(())
    }

    /// Whether it stays as undo file.
    pub fn keeps_undo(&self) -> bool {
        self.keep_undo
    }

    /// Before-images of the blocks `first..` of the plan, each in a block of its own, as many as `buf` has room for.
    pub fn read_images(&self, first: usize, buf: &mut [u8]) -> Result<(), ApplyError> {
        let images_at = images_at(self.plan.len());
        self.file.read_at(images_at + first as u64 * BLOCK, buf).map_err(ApplyError::LogNotRead)
    }

    fn write_slot(&mut self, state: LogState) -> Result<(), crate::WriteError> {
        let slot = Slot { sequence: self.sequence + 1, state, body: self.body };
        self.file.write_at(SLOTS_AT[(slot.sequence % 2) as usize], &slot.to_bytes())?;
        (self.sequence, self.state) = (slot.sequence, state);
        Ok(())
    }
}

/// State and target of a log, without reading all of it.
pub(super) fn summarize(file: &dyn LogFile) -> Result<LogSummary, ApplyError> {
    let state = newest_slot(file).map_or(LogState::Incomplete, |slot| slot.state);
    let header = Header::read(file)?;
    let plan_start = read_if_there::<24>(file, PLAN_AT)?;
    let target_len = plan_start.filter(|start| Plan::is_plan(start)).map_or(0, |start| u64_at(&start, 16));
    Ok(LogSummary { state, header, target_len })
}

/// Whether the file begins as a log does, or is one whose first bytes never reached the disk: then it may be removed if it was
/// never completed. Other files only happen to have such a name.
pub(super) fn begins_like_log(file: &dyn LogFile) -> bool {
    let start = read_if_there::<8>(file, 0);
    file.is_empty() || start.is_ok_and(|start| start.is_some_and(|start| start == *MAGIC || start == [0; 8]))
}

/// Writes what the target holds in the blocks of the plan, if that is what the plan was made for.
fn write_images(
    writer: &mut Writer<'_>,
    plan: &Plan,
    target: &dyn Device,
    control: Control<'_>,
) -> Result<(), ApplyError> {
    let total = plan.entries().len() as u64;
    let (mut done, mut differences) = (0, Differences::default());
    let mut chunk = vec![0; CHUNK_BLOCKS.min(plan.entries().len()) * BLOCK_BYTES];
    for entries in plan.entries().chunks(CHUNK_BLOCKS) {
        if control.is_stopped() {
            return Err(ApplyError::Stopped { begun: false });
        }
        compare_images(plan, entries, target, &mut chunk, &mut differences);
        // Once it is known that the plan does not fit, the rest is only compared.
        if differences.is_empty() {
            writer.write(&chunk[..entries.len() * BLOCK_BYTES])?;
        }
        done += entries.len() as u64;
        (control.progress)(Progress { step: Step::Log, done, total });
    }
    if differences.is_empty() { Ok(()) } else { Err(ApplyError::TargetChanged(differences)) }
}

/// Fills `images` with what lies in the blocks `entries`, and notes those that are not what the plan was made for.
fn compare_images(
    plan: &Plan,
    entries: &[Entry],
    target: &dyn Device,
    images: &mut [u8],
    differences: &mut Differences,
) {
    let mut place = images;
    for neighbours in entries.chunk_by(|a, b| a.index + 1 == b.index) {
        let (images, rest) = place.split_at_mut(neighbours.len() * BLOCK_BYTES);
        read_images(plan, neighbours, target, images, differences);
        place = rest;
    }
}

/// Fills `images` with what lies in the blocks `neighbours`, one behind the other, and notes those that are not what the plan was made
/// for.
fn read_images(
    plan: &Plan,
    neighbours: &[Entry],
    target: &dyn Device,
    images: &mut [u8],
    differences: &mut Differences,
) {
    let (Some(first), Some(last)) = (neighbours.first(), neighbours.last()) else { return };
    let (bytes, beyond) = images.split_at_mut((neighbours.len() - 1) * BLOCK_BYTES + plan.block_len(last));
    beyond.fill(0);
    let is_read = target.read_at(first.offset(), bytes).is_ok();
    for (entry, block) in neighbours.iter().zip(bytes.chunks_mut(BLOCK_BYTES)) {
        let unreadable = !is_read && read_sectors(target, entry.offset(), block).any();
        if !plan.is_before(entry, block, unreadable) {
            differences.add(entry.offset());
        }
    }
}

fn sync_new(file: &dyn LogFile) -> Result<(), ApplyError> {
    file.sync().and_then(|()| file.sync_entry()).map_err(ApplyError::LogNotWritten)
}

/// Writes one piece after the other and sums them up.
struct Writer<'w> {
    file: &'w dyn LogFile,
    at: u64,
    sum: Sum,
}

impl Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ApplyError> {
        self.sum.add(bytes);
        self.file.write_at(self.at, bytes).map_err(ApplyError::LogNotWritten)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Goes on at `at`; zeroes in between, which the sum leaves out.
    fn skip_to(&mut self, at: u64) -> Result<(), ApplyError> {
        let zeroes = vec![0; width::index(at.saturating_sub(self.at))];
        self.file.write_at(self.at, &zeroes).map_err(ApplyError::LogNotWritten)?;
        self.at = at;
        Ok(())
    }
}

fn sum_of_body(file: &dyn LogFile, header: &Header) -> Result<u64, ApplyError> {
    let mut sum = Sum::new();
    let mut chunk = vec![0; CHUNK_BLOCKS * BLOCK_BYTES];
    let images_len = header.block_count.saturating_mul(BLOCK);
    for (mut at, mut left) in [(0, BLOCK), (PLAN_AT, header.plan_len), (header.images_at(), images_len)] {
        while left > 0 {
            let piece = &mut chunk[..width::index(left.min((CHUNK_BLOCKS * BLOCK_BYTES) as u64))];
            file.read_at(at, piece).map_err(ApplyError::LogNotRead)?;
            sum.add(piece);
            (at, left) = (at + piece.len() as u64, left - piece.len() as u64);
        }
    }
    Ok(sum.finish())
}
