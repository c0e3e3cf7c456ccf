// SPDX-License-Identifier: MIT OR Apache-2.0
//! A repair without a part of it: what the user wants to leave as it is.
//!
//! The changes that lie in the records of the objects concerned are left out. Whether the rest can be written is not argued but
//! checked: what is wrong then must have been wrong before.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::Device;

use super::changes::{Changes, cut, laid, within};
use super::rounds::Format;
use crate::Progress;
use crate::options::RepairOptions;
use crate::problem::{Key, Problem, Severity};
use crate::refusal::Refused;
use crate::report::{CheckReport, Naming};

/// The rest of a repair.
#[derive(Debug)]
pub struct Rest {
    /// What has to be written: ascending, without overlaps.
    pub changes: Changes,
    /// What is wrong after that.
    pub left: CheckReport,
}

/// What a repair without a part of it needs of a format.
pub trait Partial: Format {
    /// Start and end of the records that belong to the objects of `declined`, on a device with the repair laid over it.
    fn records(
        &self,
        repaired: &Arc<dyn Device>,
        options: &RepairOptions,
        declined: &[&Problem],
    ) -> Result<Vec<(u64, u64)>, Refused>;

    /// What a replay of the journal writes to `device`.
    fn replayed(&self, device: &Arc<dyn Device>, options: &RepairOptions) -> Result<Changes, Refused>;

    /// `changes` with a mark, where the format has one, that the file system is not clean.
    fn marked_unclean(&self, device: &Arc<dyn Device>, changes: Changes) -> Changes;
}

/// What remains of `changes`, the repair of everything in `found`, when the problems `declined` are left alone. `None` if the rest
/// would break what was not broken before.
pub fn without<F: Partial>(
    format: &F,
    device: &Arc<dyn Device>,
    options: &RepairOptions,
    (changes, found): (&Changes, &[&Problem]),
    declined: &[&Problem],
    watch: (&Progress, &AtomicBool),
) -> Result<Option<Rest>, Refused> {
    let repaired: Arc<dyn Device> = Arc::new(laid(device, changes));
    let spared = format.records(&repaired, options, declined)?;
    // The journal is emptied by the rest of the repair: what it brings to the records that are left alone has to be written all the same.
    let mut rest = within(&format.replayed(device, options)?, &spared);
    rest.extend(cut(changes, &spared));
    let mut kept = format.marked_unclean(device, rest);
    kept.retain(|(_, bytes)| !bytes.is_empty());
    let overlay: Arc<dyn Device> = Arc::new(laid(device, &kept));
    let (left, _) = format.check(&overlay, &options.check, Naming::All, watch)?;
    let before: BTreeSet<Key> = found.iter().map(|problem| problem.key()).collect();
    let is_harmless = left
        .findings
        .iter()
        .filter(|problem| problem.row.severity > Severity::Note)
        .all(|problem| before.contains(&problem.key()));
    Ok(is_harmless.then_some(Rest { changes: kept, left }))
}
