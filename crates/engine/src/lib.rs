// SPDX-License-Identifier: MIT OR Apache-2.0
//! Format-independent checking. Formats turn bytes into facts; this crate keeps the facts (inodes, claims,
//! directories), compares them, schedules the work and collects the problems. It names no file system.

// Numbers here come from disks, and go there: a cast that loses bits must say why.
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub(crate) mod allowance;
pub mod budget;
pub mod checker;
pub mod claims;
pub mod clock;
pub mod cores;
pub mod crosscheck;
pub mod detail;
pub(crate) mod edits;
pub(crate) mod estimate;
pub(crate) mod files;
pub mod format;
pub mod inodes;
pub mod kept;
pub mod laps;
pub mod layout;
#[cfg(all(test, feature = "model"))]
mod model;
pub mod names;
pub mod options;
pub mod origins;
pub mod passes;
pub mod pool;
pub mod problem;
pub mod progress;
pub mod refusal;
pub mod repair;
pub mod report;
pub mod scan;
pub mod shapes;
pub mod shared_maps;
mod sync;
pub mod trace;

pub use allowance::Allowance;
pub use budget::Budget;
pub use clock::Clock;
pub use edits::{Cause, Edit, Edits, Layer, Part};
pub use estimate::Estimate;
pub use files::{Action, FileChange, InodeState};
pub use names::former::{FormerName, Witness};
pub use problem::{Evidence, Findings, Object, Problem, Row, Severity, Value};
pub use progress::Progress;
pub use refusal::{Refusal, Refused};
pub use trace::Trace;
