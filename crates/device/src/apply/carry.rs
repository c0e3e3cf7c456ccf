// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps (2) to (4): blocks go from the log to the target, in either direction, the first time or again.

use super::layout::LogState;
use super::log::{CHUNK_BLOCKS, Log};
use super::{ApplyError, Control, Progress, Step, Way};
use crate::blocks::BLOCK_BYTES;
use crate::plan::Entry;
use crate::{WritableDevice, WriteError};

/// Which images are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// What the repair makes of the blocks.
    Forward,
    /// What they were before.
    Back,
}

impl Direction {
    /// The way that a run goes which ends so.
    pub fn way(self) -> Way {
        match self {
            Direction::Forward => Way::Forward,
            Direction::Back => Way::Back,
        }
    }

    /// The state of a log in which this goes on.
    pub fn state(self) -> LogState {
        match self {
            Direction::Forward => LogState::Applying,
            Direction::Back => LogState::Undoing,
        }
    }

    /// The state of a log after it.
    pub fn end_state(self) -> LogState {
        match self {
            Direction::Forward => LogState::Applied,
            Direction::Back => LogState::Undone,
        }
    }
}

/// Writes all blocks of the log, whatever of them may be there already: what a cache shows need not be on the disk.
pub(super) fn carry(
    log: &Log<'_>,
    target: &dyn WritableDevice,
    direction: Direction,
    control: Control<'_>,
) -> Result<(), ApplyError> {
    prepare(log, target).map_err(ApplyError::Write)?;
    let mut images = Vec::new();
    for step in [Step::Mark, Step::Blocks, Step::Last] {
        Carrier { log, target, direction, step, control }.carry_all(&mut images)?;
        target.sync().map_err(ApplyError::Write)?;
    }
    Ok(())
}

/// Has the target make room for all blocks of the log.
pub(super) fn prepare(log: &Log<'_>, target: &dyn WritableDevice) -> Result<(), WriteError> {
    let range = |entry: &Entry| (entry.offset(), log.plan.block_len(entry) as u64);
    target.prepare(&log.plan.entries().iter().map(range).collect::<Vec<_>>())
}

struct Carrier<'c> {
    log: &'c Log<'c>,
    target: &'c dyn WritableDevice,
    direction: Direction,
    step: Step,
    control: Control<'c>,
}

impl Carrier<'_> {
    /// All blocks of this step, in chunks that are contiguous in the log; `images` has room for one.
    fn carry_all(&self, images: &mut Vec<u8>) -> Result<(), ApplyError> {
        let entries = self.log.plan.entries();
        let total = entries.iter().filter(|entry| self.takes(entry)).count() as u64;
        let mut done = 0;
        (self.control.progress)(Progress { step: self.step, done, total });
        for (number, chunk) in entries.chunks(CHUNK_BLOCKS).enumerate() {
            let taken = chunk.iter().filter(|entry| self.takes(entry)).count() as u64;
            // The first and the last step take next to nothing of the chunks that they take from.
            let (Some(first), Some(last)) = (
                chunk.iter().position(|entry| self.takes(entry)),
                chunk.iter().rposition(|entry| self.takes(entry)),
            ) else {
                continue;
            };
            self.stop_if_asked()?;
            let chunk = &chunk[first..=last];
            images.resize(images.len().max(chunk.len() * BLOCK_BYTES), 0);
            let images = &mut images[..chunk.len() * BLOCK_BYTES];
            self.log.read_images(number * CHUNK_BLOCKS + first, images)?;
            self.write_chunk(chunk, images)?;
            done += taken;
            (self.control.progress)(Progress { step: self.step, done, total });
        }
        Ok(())
    }

    fn takes(&self, entry: &Entry) -> bool {
        match self.step {
            Step::Log => false,
            Step::Mark => entry.is_marked(),
            Step::Blocks => !entry.is_last,
            Step::Last => entry.is_last,
        }
    }

    /// Neighbours in the target go out in one request.
    fn write_chunk(&self, chunk: &[Entry], images: &mut [u8]) -> Result<(), ApplyError> {
        let mut run = 0..0;
        for (at, entry) in chunk.iter().enumerate().filter(|(_, entry)| self.takes(entry)) {
            let len = self.log.plan.block_len(entry);
            self.make_image(entry, &mut images[at * BLOCK_BYTES..][..len])?;
            if run.end != at || run.is_empty() || chunk[at - 1].index + 1 != entry.index {
                self.write_run(&chunk[run.clone()], &images[run.start * BLOCK_BYTES..])?;
                run.start = at;
            }
            run.end = at + 1;
        }
        self.write_run(&chunk[run.clone()], &images[run.start * BLOCK_BYTES..])
    }

    fn write_run(&self, run: &[Entry], images: &[u8]) -> Result<(), ApplyError> {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(()) };
        let len = (run.len() - 1) * BLOCK_BYTES + self.log.plan.block_len(last);
        self.target.write_at(first.offset(), &images[..len]).map_err(ApplyError::Write)
    }

    /// A plan that cannot be read any more, or not as it was made, stops the work like a target that cannot be written: the log has another copy of it.
    fn make_image(&self, entry: &Entry, before: &mut [u8]) -> Result<(), ApplyError> {
        let plan = &self.log.plan;
        let failed = |why: &dyn std::fmt::Display| {
            ApplyError::Write(WriteError::io(
                entry.offset(),
                BLOCK_BYTES as u64,
                format!("the plan cannot be read: {why}"),
            ))
        };
        match (self.step, self.direction) {
            (Step::Mark, _) => plan.make_marker(entry, before).map_err(|error| failed(&error)),
            (_, Direction::Forward) => {
                plan.make_after(entry, before).map_err(|error| failed(&error))?;
                if plan.is_after(entry, before) { Ok(()) } else { Err(failed(&"its bytes have changed")) }
            }
            (_, Direction::Back) => Ok(()),
        }
    }

    /// Between two requests is a safe point: the log knows everything that may have been written.
    fn stop_if_asked(&self) -> Result<(), ApplyError> {
        if self.control.is_stopped() {
            self.target.sync().map_err(ApplyError::Write)?;
            return Err(ApplyError::Stopped { begun: true });
        }
        Ok(())
    }
}
