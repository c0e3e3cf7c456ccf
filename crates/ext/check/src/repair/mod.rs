//! Repair: worked out on a draft, looked at again by the same check, round by round, until nothing is wrong any more.
//!
//! What inspections mend goes down as edits ([`fsmend_engine::Edits`]); what takes the facts of the whole file system (blocks owned
//! twice, the tree, link counts, bitmaps) is mended by the [`Mender`] afterwards, in one fixed order; what stays inside one inode
//! group is worked out side by side. Nothing here writes to the device.

mod allocator;
mod apart;
pub(crate) mod hidden;
mod improve;
pub mod map;
mod marker;
mod mender;
pub(crate) mod records;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::Device;
pub use fsmend_engine::options::{BadBlockWish, Duplicates, Improvements, RepairOptions, Wishes};
use fsmend_engine::repair::Changes;
pub use fsmend_engine::repair::{Draft, Rest, Sketch};
pub use fsmend_engine::report::Repair;
use fsmend_engine::{Problem, Progress, Refused};

use crate::rounds::Ext;

pub use apart::{Laid, Writes};
pub use marker::{last, marker};
pub use mender::{Mender, Remains, mend, seal_inode, seed_of};

/// Works out what makes the file system on `device` sound. Nothing is written.
pub fn plan(
    device: &Arc<dyn Device>,
    options: &RepairOptions,
    progress: &Progress,
    cancel: &AtomicBool,
) -> Result<Repair, Refused> {
    fsmend_engine::repair::plan(&Ext, device, options, progress, cancel)
}

/// What remains of `changes`, the repair of everything in `found`, when the problems `declined` are left alone. `None` if the rest
/// would break what was not broken before.
pub fn without(
    device: &Arc<dyn Device>,
    options: &RepairOptions,
    repair: (&Changes, &[&Problem]),
    declined: &[&Problem],
    watch: (&Progress, &AtomicBool),
) -> Result<Option<Rest>, Refused> {
    fsmend_engine::repair::without(&Ext, device, options, repair, declined, watch)
}
