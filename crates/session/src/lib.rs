// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a program needs to work on a file system: open a target, recognise the family of its file system, refuse what is in use, lock,
//! finish an interrupted repair, check, plan, write through a log, take back; make and mount what a family has a driver for.
//!
//! This crate names no family. An [`Environment`] holds the [`Registry`] of those that the program knows, and the clocks. Nothing here
//! prints, reads a clock or decides on an exit code.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod check_options;
mod description;
pub mod driver;
pub mod ending;
pub(crate) mod environment;
pub mod explain;
pub mod external;
pub(crate) mod family;
pub mod hold;
pub mod interrupted;
pub(crate) mod journal_device;
pub mod json;
pub mod live;
mod member;
pub mod numbers;
pub mod open;
pub mod places;
mod plain;
pub mod recovered_names;
pub mod text;
mod undo_place;

pub use check_options::check_options;
pub use description::Description;
pub use driver::Driver;
pub use environment::{Environment, state_folders};
pub use external::JournalError;
pub use family::{Change, Family, JournalPlace, Registry};
pub use hold::{Failure, Finished, Hold, Undo, Written};
pub use interrupted::{Event, INTERRUPTED_CODE};
pub use member::member;
pub use open::{NotedDevice, Volume};
pub use plain::Plain;
pub use recovered_names::RecoveredNames;

/// The code of the refusal of a run that was cancelled.
pub const CANCELLED_CODE: &str = "cancelled";
