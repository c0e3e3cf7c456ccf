// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rounds: check, repair, lay the repair over the image, check that, until nothing is wrong any more.
//!
//! A plan exists only once the last check finds nothing to change. That check is the same one that the user runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{BlockCopy, Device, Overlay, Remembered};

use super::changes::{Changes, Writes, lay, lay_copies};
use super::mends::Mend;
use crate::options::{CheckOptions, Improvements, RepairOptions, RepairPolicy, SuperblockOptions};
use crate::problem::{Key, Problem};
use crate::refusal::{Refusal, Refused};
use crate::report::{CheckReport, Naming, Repair};
use crate::scan::memory_plan::too_small;
use crate::{Budget, Findings, Progress};

/// More rounds than this are not tried: what has not become sound by then will not.
const ROUNDS_MAX: u32 = 12;

/// What small reads bring is remembered over all rounds, in this part of the memory and in no more bytes than these.
const REMEMBERED_PART: u64 = 64;
const REMEMBERED_MAX: u64 = 16 << 20;

/// What the rounds of a repair need of a format.
pub trait Format {
    /// What a check leaves behind for the repair of the same round.
    type Facts;

    /// Checks the file system on `device`. The facts are there when `options.repair` is set.
    fn check(
        &self,
        device: &Arc<dyn Device>,
        options: &CheckOptions,
        naming: Naming,
        watch: (&Progress, &AtomicBool),
    ) -> Result<(CheckReport, Option<Self::Facts>), Refused>;

    /// What repairs it, as far as one round can. What the repair loses beyond what was found is added to the report.
    fn repair(
        &self,
        facts: Self::Facts,
        options: &CheckOptions,
        report: &mut CheckReport,
    ) -> Result<Round, Refused>;

    /// What the user wants changed before anything is checked; or why the file system is not to be repaired at all.
    fn prepare(&self, device: &Arc<dyn Device>, options: &RepairOptions) -> Result<Changes, Refused>;
}

/// What one round changes.
#[derive(Debug, Default)]
pub struct Round {
    /// On the device.
    pub changes: Changes,
    /// On the device too: copies of what lies on it.
    pub copies: Vec<BlockCopy>,
    /// On the device of an external journal, once `changes` have reached the disk.
    pub journal_changes: Changes,
    /// What the changes are for, as far as that is known.
    pub mends: Vec<Mend>,
}

impl Round {
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.copies.is_empty() && self.journal_changes.is_empty()
    }
}

/// Works out what makes the file system on `device` sound. Nothing is written.
pub fn plan<F: Format>(
    format: &F,
    device: &Arc<dyn Device>,
    options: &RepairOptions,
    progress: &Progress,
    cancel: &AtomicBool,
) -> Result<Repair, Refused> {
    let plain = RepairPolicy { improvements: Improvements::default(), ..options.policy.clone() };
    let mut mending = CheckOptions { repair: Some(plain.clone()), ..options.check.clone() };
    // Every round looks at what is damaged, and nothing writes meanwhile.
    let memory = (options.check.memory / REMEMBERED_PART).min(REMEMBERED_MAX);
    let device: &Arc<dyn Device> = &(Arc::new(Remembered::new(Arc::clone(device), memory)) as _);
    let mut changes = Overlay::new(Arc::clone(device));
    lay(&mut changes, format.prepare(device, options)?);
    let watch = (progress, cancel);
    let mut improves = options.policy.improvements.any();
    let mut later = Later::default();
    let mut first: Option<CheckReport> = None;
    let (mut journal_changes, mut mends) = (Vec::new(), Vec::new());
    for rounds in 1.. {
        let shared = Arc::new(changes);
        let below: Arc<dyn Device> = shared.clone();
        let naming = if first.is_none() { Naming::All } else { Naming::Losses };
        let (report, round) = one_round(format, &below, &mending, naming, watch)?;
        drop(below);
        changes = Arc::into_inner(shared).ok_or_else(still_in_use)?;
        let changes_nothing = round.is_empty();
        let Round { changes: new, copies: copied, journal_changes: closing, mends: for_what } = round;
        close_journal(&mut mending, &closing);
        journal_changes.extend(closing);
        if improves && changes_nothing && !report.findings.is_damaged() {
            // Nothing is wrong any more: what is sound is made better, and looked at again.
            improves = false;
            mending.repair = Some(options.policy.clone());
            first.get_or_insert(report);
            continue;
        }
        mending.repair = Some(plain.clone());
        let Some(found) = first.take() else {
            if changes_nothing {
                // Nothing can be, or has to be, done: what was found is what is left.
                let left = CheckReport { findings: again(&report.findings), ..CheckReport::default() };
                let later = later.findings;
                return Ok(Repair {
                    found: report,
                    left,
                    rounds,
                    changes: Vec::new(),
                    copies: Vec::new(),
                    mends,
                    later,
                    journal_changes,
                });
            }
            lay_copies(&mut changes, &copied);
            lay(&mut changes, new);
            mends.extend(for_what);
            first = Some(report);
            // A superblock that the user named stands in the place of the primary by now.
            mending.superblock = SuperblockOptions::default();
            continue;
        };
        if changes_nothing || rounds == ROUNDS_MAX {
            // What this round would have changed is left out: no check has seen that.
            let shared: Arc<Overlay<_>> = Arc::new(changes);
            let left = if report.findings.is_damaged() {
                let below: Arc<dyn Device> = shared.clone();
                one_round(format, &below, &mending, Naming::All, watch)?.0
            } else {
                report
            };
            let (changes, copies) = Arc::into_inner(shared).ok_or_else(still_in_use)?.into_runs();
            let (changes, later): (Changes, _) = (changes.collect(), later.findings);
            room_for_plan(options.check.memory, Writes { changes: &changes, copies: &copies })?;
            return Ok(Repair { found, left, rounds, changes, copies, mends, later, journal_changes });
        }
        later.note(&found.findings, &report.findings);
        lay_copies(&mut changes, &copied);
        lay(&mut changes, new);
        mends.extend(for_what);
        first = Some(found);
    }
    Err(still_in_use())
}

/// Refuses where there is no room for a plan, which holds the bytes of changes, beside them, and of copies.
fn room_for_plan(memory: u64, writes: Writes<'_>) -> Result<(), Refused> {
    let of_plan = writes.places().map(|(_, len)| len).sum::<u64>();
    let beside = writes.changes.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
    let needed = of_plan.saturating_add(beside);
    if needed <= memory {
        return Ok(());
    }
    Err(Refused { refusal: too_small(&Budget::new(memory), needed), findings: Box::default() })
}

/// A check, and what repairs what it found.
fn one_round<F: Format>(
    format: &F,
    device: &Arc<dyn Device>,
    options: &CheckOptions,
    naming: Naming,
    watch: (&Progress, &AtomicBool),
) -> Result<(CheckReport, Round), Refused> {
    let (mut report, facts) = format.check(device, options, naming, watch)?;
    let round = match facts {
        Some(facts) => format.repair(facts, options, &mut report)?,
        None => Round::default(),
    };
    Ok((report, round))
}

/// Problems that the first check did not see.
#[derive(Default)]
struct Later {
    /// Losses that the first check saw, or that were noted; once they are asked for.
    known: Option<BTreeSet<Key>>,
    findings: Findings,
}

impl Later {
    /// Notes the losses in `findings` that `first` does not have.
    fn note(&mut self, first: &Findings, findings: &Findings) {
        for problem in losses(findings) {
            let known = self.known.get_or_insert_with(|| losses(first).map(Problem::key).collect());
            if known.insert(problem.key()) {
                self.findings.raise(problem.clone());
            }
        }
    }
}

/// The problems whose repair loses something.
fn losses(findings: &Findings) -> impl Iterator<Item = &Problem> {
    findings.iter().filter(|problem| problem.row.loses)
}

/// Lays what closes an external journal over its device, for the checks to come.
fn close_journal(mending: &mut CheckOptions, changes: &Changes) {
    if let Some(journal) = mending.external_journal.take() {
        let mut closed = Overlay::new(journal);
        lay(&mut closed, changes.clone());
        mending.external_journal = Some(Arc::new(closed));
    }
}

/// The same findings once more.
fn again(findings: &Findings) -> Findings {
    Findings::from_parts(findings.iter().cloned().collect(), findings.counts())
}

fn still_in_use() -> Refused {
    let refusal = Refusal {
        code: "internal",
        message: "the overlay of the repair is still in use after a round".to_owned(),
        hint: "Please report this".to_owned(),
    };
    Refused { refusal, findings: Box::default() }
}

#[cfg(test)]
mod tests {
    use fsmend_base::InodeNo;

    use super::Later;
    use crate::{Findings, Problem, Row};

    crate::problem_rows! {
        /// Loses something.
        LOSS = "demo.inode.loss" {
            severity: Major, evidence: Cross, preen: false, message: "{inode} is lost",
            meaning: "m", repair: "r", loss: "The file.", peers: [],
        }
        /// Loses nothing.
        HARMLESS = "demo.inode.harmless" {
            severity: Major, evidence: Cross, preen: false, message: "{inode} is off",
            meaning: "m", repair: "r", loss: nothing, peers: [],
        }
    }

    #[test]
    fn new_losses_of_later_rounds_are_reported_once() {
        let problem = |row: &'static Row, number| Problem::new(row).inode(InodeNo(number));
        let seen = problem(&LOSS, 12);
        let (mut later, mut first) = (Later::default(), Findings::new());
        first.raise(seen.clone());
        let mut findings = Findings::new();
        findings.raise(seen);
        findings.raise(problem(&LOSS, 13));
        findings.raise(problem(&HARMLESS, 14));
        later.note(&first, &findings);
        later.note(&first, &findings);
        let noted: Vec<_> =
            later.findings.iter().map(|problem| (problem.row.code, problem.object.inode)).collect();
        assert_eq!(ROWS.len(), 2);
        assert_eq!(noted, [(LOSS.code, Some(InodeNo(13)))]);
    }
}
