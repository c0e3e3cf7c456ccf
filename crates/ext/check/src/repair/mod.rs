// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repair: worked out on an overlay, looked at again by the same check, round by round, until nothing is wrong any more.
//!
//! What inspections mend goes down as edits ([`fsmend_engine::Edits`]); what takes the facts of the whole file system (blocks owned
//! twice, the tree, link counts, bitmaps) is mended by the [`RepairContext`] afterwards, in one fixed order; what stays inside one inode
//! group is worked out side by side. Nothing here writes to the device.

mod allocator;
mod apart;
mod files;
pub(crate) mod hidden;
pub(crate) mod improve;
mod input;
pub(crate) mod map;
mod marker;
mod mend;
pub(crate) mod records;

pub use fsmend_engine::options::{BadBlockOption, Duplicates, Improvements, RepairOptions, RepairPolicy};
pub use fsmend_engine::repair::{RepairOverlay, Rest, WritableOverlay};
pub use fsmend_engine::report::Repair;

pub use crate::rounds::{plan, without};

pub use crate::inode::seal::{seal_inode, seed_of};
pub use apart::{Laid, Writes};
pub use files::files;
pub use input::{RepairContext, RepairInput};
pub use marker::{last, marker};
pub use mend::mend;
