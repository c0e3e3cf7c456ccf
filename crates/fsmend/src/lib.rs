// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks and repairs file systems.
//!
//! [`FAMILIES`] are the families that are known, one row each. What works on targets is that of [`session`]: open one
//! ([`open::volumes`], [`Hold`]), [check](Family::check) it, [plan](Family::plan) a repair, write the plan through a log, take it back.
//! Nothing here prints, and clocks are passed in. See `examples/` for a check in ten lines and a plan that is shown.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub mod ext;
pub mod hybridfs;
pub mod ufs;

pub use fsmend_device as device;
pub use fsmend_engine as engine;
pub use fsmend_session as session;
pub use fsmend_session::{Environment, Failure, Family, Hold, Registry, Undo, Volume, Written, hold, open};

/// The families that are known.
pub const FAMILIES: Registry = Registry::new(&ext::Ext, &[&ufs::Ufs, &hybridfs::Hybrid]);

/// The type of file system that is made where none is asked for.
pub const DEFAULT_KIND: &str = "ext4";

/// The same for laboratories, which measure what has no extents.
pub const LAB_KIND: &str = "ext3";
