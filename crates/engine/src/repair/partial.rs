// SPDX-License-Identifier: MIT OR Apache-2.0
//! A repair without a part of it: what the user wants to leave as it is.
//!
//! An edit knows the problems that it mends: the bytes of those that are declined are left out. Where a cross-check has mended something without saying for which
//! problem, it is the bytes of the object that the problem is about. Whether the rest can be written is not argued but checked: what is wrong then must have been wrong before.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, ReadError};

use super::changes::{Changes, Writes, cut, laid, with_copies, within};
use super::mends::{Mend, places_of};
use super::rounds::Format;
use crate::Progress;
use crate::options::RepairOptions;
use crate::problem::{Key, Problem, Severity};
use crate::refusal::{Refusal, Refused};
use crate::report::{CheckReport, Naming};

/// A repair, of which a part is to be left out.
#[derive(Clone, Copy, Debug)]
pub struct Whole<'a> {
    /// What it writes.
    pub writes: Writes<'a>,
    /// What for.
    pub mends: &'a [Mend],
    /// The problems that it repairs.
    pub found: &'a [&'a Problem],
}

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

/// What remains of a repair when the problems `declined` are left alone. `None` if the rest would break what was not broken before.
pub fn without<F: Partial>(
    format: &F,
    device: &Arc<dyn Device>,
    options: &RepairOptions,
    whole: Whole<'_>,
    declined: &[&Problem],
    watch: (&Progress, &AtomicBool),
) -> Result<Option<Rest>, Refused> {
    let changes = with_copies(device, whole.writes.changes.to_vec(), whole.writes.copies)
        .map_err(|error| Refused { refusal: unreadable(&error), findings: Box::default() })?;
    let repaired: Arc<dyn Device> = Arc::new(laid(device, &changes));
    let mends = |problem: &&&Problem| places_of(whole.mends, problem).next().is_some();
    let (known, unknown): (Vec<&Problem>, Vec<&Problem>) = declined.iter().partition(mends);
    let mut spared: Vec<(u64, u64)> =
        known.iter().flat_map(|problem| places_of(whole.mends, problem)).collect();
    spared.extend(format.records(&repaired, options, &unknown)?);
    let first = rest(format, device, options, (&changes, whole.found), &spared, watch)?;
    if first.is_some() || known.is_empty() {
        return Ok(first);
    }
    // What a cross-check has done to the same objects may follow from what is declined.
    spared.extend(format.records(&repaired, options, &known)?);
    rest(format, device, options, (&changes, whole.found), &spared, watch)
}

/// The repair without the bytes in `spared`, if that breaks nothing.
fn rest<F: Partial>(
    format: &F,
    device: &Arc<dyn Device>,
    options: &RepairOptions,
    (changes, found): (&Changes, &[&Problem]),
    spared: &[(u64, u64)],
    watch: (&Progress, &AtomicBool),
) -> Result<Option<Rest>, Refused> {
    // The journal is emptied by the rest of the repair: what it brings to the bytes that are left alone has to be written all the same.
    let mut rest = within(&format.replayed(device, options)?, spared);
    rest.extend(cut(changes, spared));
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

fn unreadable(error: &ReadError) -> Refusal {
    Refusal {
        code: "unreadable",
        message: format!("A block that is to be copied cannot be read any more: {error}"),
        hint: "Run the repair again".to_owned(),
    }
}
