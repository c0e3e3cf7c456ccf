// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing that survives anything.
//!
//! A plan is carried out in five steps: (1) the log, outside the target, receives the plan and the before-image of every block
//! that it writes, and is synced; (2) the marked blocks are written, so that the superblock says that a repair goes on; (3) all
//! other blocks, in the order of their addresses, (4) the last ones, (5) the log is closed and is from then on the undo file. There is
//! a sync between any two steps.
//!
//! Why nothing can be lost: before the log is complete and synced, not one byte of the target is written, so that an incomplete
//! log is thrown away. From then on the log holds before- and after-image of whatever is written, so that a run that finds it can write
//! everything again, in either direction, whatever part of it reached the disk; and that run may itself be cut short. Undo is the
//! same steps with before-images in place of after-images.
//!
//! Everything here is written against two traits ([`WritableDevice`], [`LogFile`]), so that a simulated disk can cut the power anywhere.

mod carry;
mod error;
mod file;
mod layout;
mod log;
mod places;
mod recover;
mod write_test;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::blocks::BLOCK_BYTES;
use crate::{Plan, WritableDevice, WriteError};

use carry::{Direction, carry};
use log::{Begin, Log};

pub use error::ApplyError;
pub use file::{LogFile, LogOnDisk};
pub use layout::LogState;
pub use places::{
    FoundLog, create_log, create_log_in, find_logs, find_open_log, remove_closed_logs, scratch_in,
};
pub use recover::{LogContents, Recovered, Way, inspect_log, recover, undo};
pub use write_test::{
    Tested, Unrestored, WriteTest, close_write_test, end_write_test, is_write_test, overtaken_write_test,
};

/// How the caller looks after the work.
#[derive(Clone, Copy)]
pub struct Control<'c> {
    /// When it becomes true, the work ends at the next safe point.
    pub stop: &'c AtomicBool,
    /// Called now and then with what is done.
    pub progress: &'c dyn Fn(Progress),
    /// Called when all is written and synced, before the log is closed: writes, and syncs, what goes with it on another device. It is told
    /// the direction, [`Way::Forward`] or [`Way::Back`], and may be called again by a later run.
    pub close: &'c dyn Fn(Way) -> Result<(), WriteError>,
}

impl<'c> Control<'c> {
    /// One target, and nothing that goes with it.
    pub fn new(stop: &'c AtomicBool, progress: &'c dyn Fn(Progress)) -> Self {
        Control { stop, progress, close: &|_| Ok(()) }
    }

    /// Runs to its end without progress.
    pub fn unattended() -> Control<'static> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Control::new(&NEVER, &|_| {})
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// How far the work has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub step: Step,
    /// Blocks of this step that are done.
    pub done: u64,
    /// Blocks of this step.
    pub total: u64,
}

/// A step of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The target is compared with what it should be, and the log is written.
    Log,
    /// The target is marked as being repaired.
    Mark,
    /// Blocks are written.
    Blocks,
    /// The last blocks are written.
    Last,
}

/// What the log should say about the target, and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub struct ApplyOptions<'o> {
    /// Byte of the file or block device at which the target starts.
    pub start: u64,
    /// The log stays as undo file when all is done.
    pub keep_undo: bool,
    /// Stop flag and progress.
    pub control: Control<'o>,
}

impl std::fmt::Debug for Control<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("stop", self.stop).finish_non_exhaustive()
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Blocks (of 4 KiB) that were written, not counting the marks.
    pub blocks: u64,
    /// Whether the log was kept, and is an undo file now.
    pub undo_kept: bool,
}

/// Carries out `plan` on `target`. The file for the log is new and empty, and lies outside the target ([`create_log`] makes one).
///
/// Before anything is written, every block is compared with what it was when the plan was made; if one differs, or the log
/// cannot be written, or the stop flag is set, the log is removed and the target is as it was. When the log is on the disk, everything is
/// compared once more. After a later failure the
/// log is left open: [`ApplyError::is_begun`] tells these apart.
pub fn apply(
    plan: &Plan,
    target: &dyn WritableDevice,
    file: &dyn LogFile,
    options: &ApplyOptions<'_>,
) -> Result<Applied, ApplyError> {
    let begin = Begin {
        start: options.start,
        keep_undo: options.keep_undo,
        target_name: target.name(),
        state: LogState::Applying,
    };
    let written = Log::write(file, plan, target, begin, options.control);
    let confirmed = written.and_then(|log| {
        log.confirm(target, options.control)?;
        carry::prepare(&log, target).map_err(ApplyError::NoRoom)?;
        Ok(log)
    });
    let mut log = match confirmed {
        Ok(log) => log,
        Err(error) => {
            // Whether it can be removed or not: the target is untouched, and the next run throws an incomplete log away.
            let _ = file.remove();
            return Err(error);
        }
    };
    carry(&log, target, Direction::Forward, options.control)?;
    (options.control.close)(Way::Forward).map_err(ApplyError::Write)?;
    log.finish(LogState::Applied)?;
    Ok(Applied { blocks: plan.entries().len() as u64, undo_kept: options.keep_undo })
}

/// Bytes that the log for `plan` takes.
pub fn log_len(plan: &Plan) -> u64 {
    let images = (plan.entries().len() as u64).saturating_mul(BLOCK_BYTES as u64);
    layout::images_at(plan.len()).saturating_add(images)
}

#[cfg(test)]
mod tests;
