// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a family offers to a check of a file system that is in use: rules that tell damage from the traces of files in use, or a state that its own mount keeps.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::Device;
use fsmend_engine::options::CheckOptions;
use fsmend_engine::report::JournalUse;
use fsmend_engine::{Findings, Problem, Refused};

/// Rules for a file system that a kernel has mounted for writing.
pub trait Live: Sync {
    /// Divides what the check of a view that stands still has found.
    fn judge(&self, findings: Findings, journal: JournalUse) -> Judged;

    /// What is worth a closer look of what a scan of the live file system has found.
    fn suspicions(&self, findings: Findings) -> Vec<Problem>;

    /// The suspicions of `now` that an earlier scan had at the same place.
    fn recurring(&self, now: Vec<Problem>, before: &[Problem]) -> Vec<Problem>;

    /// A look at the frozen file system that takes milliseconds; `None` if only a whole check can judge.
    fn look(&self, device: &Arc<dyn Device>, options: &CheckOptions) -> Result<Option<Look>, Refused>;

    /// Looks at the frozen file system for those of `suspicions` that single records prove. Returns what stands, as it is now, and what is left
    /// unconfirmed. When `stop` becomes true, the rest is left.
    fn confirm(
        &self,
        device: &Arc<dyn Device>,
        options: &CheckOptions,
        suspicions: Vec<Problem>,
        stop: &AtomicBool,
    ) -> (Vec<Problem>, Vec<Problem>);
}

/// Findings of a view that stands still, divided.
#[derive(Debug, Default)]
pub struct Judged {
    /// Problems.
    pub stands: Findings,
    /// What may as well be the traces of files that are open though deleted.
    pub undecided: Findings,
}

/// What a short look has found.
#[derive(Debug)]
pub struct Look {
    /// Notes.
    pub findings: Findings,
    /// What became of the journal.
    pub journal: JournalUse,
}

/// A family whose own mounts keep a state of the file system on request.
pub trait Pins: Sync {
    /// The attribute of the root that asks for a state when it is written, says which one is kept when it is read, and releases it when it is removed.
    fn attribute(&self) -> &'static [u8];

    /// The state that `kept` describes, as a device.
    fn view(&self, device: &Arc<dyn Device>, kept: &str) -> Result<Arc<dyn Device>, String>;
}
