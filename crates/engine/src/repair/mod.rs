// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repair, as every format does it: worked out in memory, checked again there, round by round, until nothing is wrong.
//!
//! | file | what |
//! |---|---|
//! | `rounds.rs` | check, repair, lay over, check again |
//! | `partial.rs` | a repair without what the user declined |
//! | `mends.rs` | which problems the bytes of a repair mend |
//! | `overlay.rs` | the file system as the repair under way leaves it |
//! | `changes.rs` | lists of bytes to be written, and of copies |
//!
//! Nothing here writes to a device. A check gives a report and facts, a repair turns facts into changes; only the rounds know both.

pub mod changes;
mod mends;
mod overlay;
mod partial;
mod rounds;

pub use changes::{Changes, Writes};
pub use mends::{Mend, Mended};
pub use overlay::{RepairOverlay, WritableOverlay};
pub use partial::{Partial, Rest, Whole, without};
pub use rounds::{Format, Round, plan};
