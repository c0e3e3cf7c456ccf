// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong while a plan is carried out, and what that means for the target.

use std::fmt;

use super::layout::LogState;
use crate::{Differences, ReadError, WriteError};

/// Why a plan was not carried out, or not taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The target is not, or no longer, the one that the plan was made for. Nothing was written.
    TargetChanged(Differences),
    /// The target has another length than the one that the plan or the log was made for. Nothing was written.
    TargetLength {
        /// Length when the plan was made.
        planned: u64,
        /// Length now.
        found: u64,
    },
    /// The name of the target leads to another file or device by now. Nothing was written.
    TargetReplaced,
    /// The log could not be written in full. Nothing else was written.
    LogNotWritten(WriteError),
    /// The image in which the target lies has no room for what the repair writes. Nothing of the target was changed.
    NoRoom(WriteError),
    /// The log could not be read. Nothing was written by this call.
    LogNotRead(ReadError),
    /// The log is complete, but could not be marked as closed: everything is written, and the next run will write it again.
    LogNotClosed(WriteError),
    /// The log was complete once and is damaged now, or of another version of the program: what is wrong with it.
    LogDamaged(&'static str),
    /// Writing to the target failed. The log is open, so that the next run can finish the work or take it back.
    Write(WriteError),
    /// The stop flag was set. If the work had begun, the log is open and the next run finishes.
    Stopped {
        /// Whether anything had been written to the target.
        begun: bool,
    },
    /// These blocks hold neither what they held before the repair nor what it writes: another program has written to the target
    /// since, or it is another one.
    Foreign(Differences),
    /// These blocks do not hold any more what the repair left there, so that taking it back would destroy what came after it.
    ChangedSince(Differences),
    /// There is nothing to take back: the log is in this state.
    NothingToUndo(LogState),
}

impl ApplyError {
    /// Whether the target may be between two conditions now, and an open log waits for the next run.
    pub fn is_begun(&self) -> bool {
        matches!(
            self,
            ApplyError::Write(_) | ApplyError::LogNotClosed(_) | ApplyError::Stopped { begun: true }
        )
    }
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApplyError::TargetChanged(differences) => {
                write!(
                    f,
                    "the target has changed since the plan was made: {differences}; nothing was written"
                )
            }
            ApplyError::TargetLength { planned, found } => {
                write!(
                    f,
                    "the target has {found} bytes, and had {planned} when the plan was made; nothing was written"
                )
            }
            ApplyError::TargetReplaced => {
                write!(f, "the target was replaced by another file or device; nothing was written")
            }
            ApplyError::LogNotWritten(error) => {
                write!(f, "cannot write the log: {error}; the target was not changed")
            }
            ApplyError::NoRoom(error) => {
                write!(f, "the image cannot take what the repair writes: {error}; the target was not changed")
            }
            ApplyError::LogNotRead(error) => write!(f, "the log could not be read: {error}"),
            ApplyError::LogNotClosed(error) => write!(
                f,
                "the repair is written, but the log could not be closed: {error}; the next run closes it"
            ),
            ApplyError::LogDamaged(why) => write!(f, "the log cannot be used: {why}"),
            ApplyError::Write(error) => {
                write!(
                    f,
                    "the target could not be written: {error}; the log is kept and the next run continues"
                )
            }
            ApplyError::Stopped { begun: false } => write!(f, "stopped before anything was written"),
            ApplyError::Stopped { begun: true } => {
                write!(f, "stopped at a safe point; the log is kept and the next run continues")
            }
            ApplyError::Foreign(differences) => write!(
                f,
                "the target was changed by another program since the repair was interrupted: {differences}; nothing was written"
            ),
            ApplyError::ChangedSince(differences) => {
                write!(f, "the target has changed since the repair: {differences}; nothing was written")
            }
            ApplyError::NothingToUndo(state) => write!(f, "there is nothing to undo: {state}"),
        }
    }
}

impl std::error::Error for ApplyError {}
