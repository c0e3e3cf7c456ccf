// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run does with a log that it finds, and taking a repair back.

use super::carry::{Direction, carry};
use super::layout::LogState;
use super::log::{Log, begins_like_log};
use super::{ApplyError, Control, LogFile};
use crate::blocks::{BLOCK_BYTES, SECTOR_BYTES, read_sectors};
use crate::{Device, Differences, Plan, ReadError, ReadErrorKind, WritableDevice};

/// Which way an interrupted repair is ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// The way it was going: a repair is finished, an undo too.
    #[default]
    AsBegun,
    /// To the condition after the repair.
    Forward,
    /// To the condition before the repair.
    Back,
}

/// What became of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// There was nothing to do: the log is closed.
    Nothing(LogState),
    /// The log had never been completed. The target had not been touched, and the log was removed.
    Dropped,
    /// The repair was finished; whether the log stays as undo file.
    Finished {
        /// Blocks (of 4 KiB) that were written.
        blocks: u64,
        /// Whether the log stays, as undo file.
        undo_kept: bool,
    },
    /// The target is as it was before the repair. The log, of no more use, stays if it was to be kept.
    TakenBack {
        /// Blocks (of 4 KiB) that were written.
        blocks: u64,
    },
}

/// Ends what an interrupted run has left: every block is written again from the log. Refuses ([`ApplyError::Foreign`]) if a sector
/// of the target is neither as it was before the repair nor as the repair writes it, unless `force` says that it shall be overwritten.
pub fn recover(
    log: &dyn LogFile,
    target: &dyn WritableDevice,
    way: Way,
    force: bool,
    control: Control<'_>,
) -> Result<Recovered, ApplyError> {
    let file = log;
    let Some(mut log) = Log::read(file)? else {
        if begins_like_log(file) {
            let _ = file.remove();
        }
        return Ok(Recovered::Dropped);
    };
    let direction = match (way, log.state()) {
        (_, state) if !state.is_open() => return Ok(Recovered::Nothing(state)),
        (Way::Forward, _) | (Way::AsBegun, LogState::Applying) => Direction::Forward,
        (Way::Back, _) | (Way::AsBegun, _) => Direction::Back,
    };
    let foreign = compare(&log, target)?.foreign;
    if !foreign.is_empty() && !force {
        return Err(ApplyError::Foreign(foreign));
    }
    finish(&mut log, target, direction, control)
}

/// Takes back the repair whose undo file `log` is. Refuses ([`ApplyError::ChangedSince`]) if a block does not hold what the
/// repair left there, unless `force` says that it shall be overwritten. An interrupted repair can be taken back, too.
pub fn undo(
    log: &dyn LogFile,
    target: &dyn WritableDevice,
    force: bool,
    control: Control<'_>,
) -> Result<Recovered, ApplyError> {
    let Some(mut opened) = Log::read(log)? else {
        return Err(ApplyError::NothingToUndo(LogState::Incomplete));
    };
    match opened.state() {
        LogState::Applied => {}
        LogState::Applying | LogState::Undoing => return recover(log, target, Way::Back, force, control),
        state => return Err(ApplyError::NothingToUndo(state)),
    }
    let changed = compare(&opened, target)?.not_after;
    if !changed.is_empty() && !force {
        return Err(ApplyError::ChangedSince(changed));
    }
    finish(&mut opened, target, Direction::Back, control)
}

/// What a log holds.
#[derive(Clone, Debug, PartialEq)]
pub struct LogContents {
    /// What it says about itself.
    pub state: LogState,
    /// What the target was called when the log was written.
    pub target_name: String,
    /// Byte of that file or block device at which the target starts.
    pub start: u64,
    /// The plan that it carries out.
    pub plan: Plan,
}

/// Reads a log to describe it; `None` if it was never completed.
pub fn inspect_log(log: &dyn LogFile) -> Result<Option<LogContents>, ApplyError> {
    Ok(Log::read(log)?.map(|log| LogContents {
        state: log.state(),
        target_name: log.target_name.clone(),
        start: log.start,
        plan: log.plan.into_owned(),
    }))
}

fn finish(
    log: &mut Log<'_>,
    target: &dyn WritableDevice,
    direction: Direction,
    control: Control<'_>,
) -> Result<Recovered, ApplyError> {
    if control.is_stopped() {
        return Err(ApplyError::Stopped { begun: log.state().is_open() });
    }
    // Even if the log says so already: what it shows may be what a failed sync has left in the cache.
    log.turn(direction.state())?;
    carry(log, target, direction, control)?;
    (control.close)(direction.way()).map_err(ApplyError::Write)?;
    log.finish(direction.end_state())?;
    let blocks = log.plan.entries().len() as u64;
    Ok(match direction {
        Direction::Forward => Recovered::Finished { blocks, undo_kept: log.keeps_undo() },
        Direction::Back => Recovered::TakenBack { blocks },
    })
}

fn not_read(error: std::io::Error) -> ApplyError {
    ApplyError::LogNotRead(ReadError { offset: 0, len: 0, kind: ReadErrorKind::Io(error.to_string()) })
}

/// How a target stands to a log.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Blocks with sectors that are no image that the log knows.
    pub foreign: Differences,
    /// How many of them are marked blocks.
    pub foreign_marks: u64,
    /// Blocks that are not as the repair leaves them.
    pub not_after: Differences,
    /// Blocks that are not as they were before the repair.
    pub not_before: Differences,
}

/// Compares sector by sector: a disk that lost its power in the middle of a block has written some of its sectors. A sector
/// that cannot be read is no obstacle, it will be written.
pub(super) fn compare(log: &Log<'_>, target: &dyn Device) -> Result<Standing, ApplyError> {
    let plan = &log.plan;
    if target.len() != plan.target_len() {
        return Err(ApplyError::TargetLength { planned: plan.target_len(), found: target.len() });
    }
    let mut standing = Standing::default();
    let [mut found, mut before] = [[0; BLOCK_BYTES]; 2];
    for (number, entry) in plan.entries().iter().enumerate() {
        let len = plan.block_len(entry);
        let found = &mut found[..len];
        let unreadable = read_sectors(target, entry.offset(), found);
        log.read_images(number, &mut before)?;
        let before = &before[..len];
        let [mut after, mut marked] = [before.to_vec(), before.to_vec()];
        plan.make_after(entry, &mut after).map_err(not_read)?;
        plan.make_marker(entry, &mut marked).map_err(not_read)?;
        let known = |sector: usize| {
            let is = |image: &[u8]| sector_of(image, sector) == sector_of(found, sector);
            unreadable.has(sector) || entry.is_unreadable || is(before) || is(&after) || is(&marked)
        };
        if !(0..len.div_ceil(SECTOR_BYTES)).all(known) {
            standing.foreign.add(entry.offset());
            standing.foreign_marks += u64::from(entry.is_marked());
        }
        if unreadable.any() || !plan.is_after(entry, found) {
            standing.not_after.add(entry.offset());
        }
        if !plan.is_before(entry, found, unreadable.any()) {
            standing.not_before.add(entry.offset());
        }
    }
    Ok(standing)
}

fn sector_of(block: &[u8], sector: usize) -> &[u8] {
    let start = (sector * SECTOR_BYTES).min(block.len());
    &block[start..(start + SECTOR_BYTES).min(block.len())]
}
