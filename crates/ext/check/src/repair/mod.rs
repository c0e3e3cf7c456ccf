//! Repair: worked out on a draft, looked at again by the same check, round by round, until nothing is wrong any more.
//!
//! What inspections mend goes down as edits ([`fsmend_engine::Edits`]); what takes the facts of the whole file system (blocks owned
//! twice, the tree, link counts, bitmaps) is mended by the [`Mender`] afterwards, in one fixed order; what stays inside one inode
//! group is worked out side by side. Nothing here writes to the device.

mod allocator;
mod apart;
mod draft;
mod files;
pub(crate) mod hidden;
mod improve;
pub mod map;
mod marker;
mod mender;
mod partial;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, Overlay, Remembered};
use fsmend_engine::{Findings, Problem, Progress};

use crate::Refusal;
use crate::bad_blocks;
use crate::glance::glance;
use crate::journal::problems::NOT_REPLAYED;
use crate::paths::Naming;
use crate::run::{CheckOptions, CheckReport, Refused, look};
use crate::superblock::SuperblockOptions;

use partial::{Key, key};

pub use apart::{Laid, Writes};
pub use draft::{Draft, Sketch};
pub use files::files;
pub use marker::{last, marker};
pub use mender::{Mender, Remains, mend, seal_inode, seed_of};
pub use partial::{Rest, without};

/// More rounds than this are not tried: what has not become sound by then will not.
const ROUNDS_MAX: u32 = 12;

/// What small reads bring is remembered over all rounds, in this part of the memory and in no more bytes than these.
const REMEMBERED_PART: u64 = 64;
const REMEMBERED_MAX: u64 = 16 << 20;

/// What becomes of blocks that several files claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Duplicates {
    /// Every file but the first gets a copy.
    #[default]
    Clone,
    /// Every file but the first gets zeroes.
    Zero,
    /// The files get copies and move to lost+found.
    LostFound,
    /// The files are deleted.
    Delete,
}

/// Blocks that are to stand on the list of bad blocks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BadBlockWish {
    /// The blocks.
    pub blocks: Arc<[u64]>,
    /// Whether those that stand there already stay.
    pub keeps: bool,
}

/// What is to be made better though it is not wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Improvements {
    /// All directories are written anew, without gaps and with an index.
    pub directories: bool,
    /// Files mapped by indirect blocks get extents, where the file system has those.
    pub extents: bool,
    /// Extent trees that have more blocks than they need are written anew.
    pub trees: bool,
}

impl Improvements {
    /// Whether there is anything to be done.
    pub fn any(self) -> bool {
        self.directories || self.extents || self.trees
    }
}

/// How the user wants things to be repaired.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wishes {
    /// What becomes of blocks that several files claim.
    pub duplicates: Duplicates,
    /// Whether a file system whose files share blocks on purpose (`shared_blocks`) is to be made an ordinary one. Without this
    /// wish such a file system is not repaired at all.
    pub unshare: bool,
    /// The list of bad blocks as it is to be, before anything is checked.
    pub bad_blocks: Option<BadBlockWish>,
    /// What is to be made better, once nothing is wrong.
    pub improvements: Improvements,
}

/// How to look for a repair.
#[derive(Clone)]
pub struct RepairOptions {
    /// How to check.
    pub check: CheckOptions,
    /// How to mend.
    pub wishes: Wishes,
}

/// A repair that has been worked out, and not written.
#[derive(Debug)]
pub struct Repair {
    /// What was wrong.
    pub found: CheckReport,
    /// What is left: nothing above a note when the plan is clean.
    pub left: CheckReport,
    /// How often the file system was looked at, the last look included.
    pub rounds: u32,
    /// What has to be written: byte offsets and bytes, ascending, without overlaps.
    pub changes: Vec<(u64, Vec<u8>)>,
    /// What only later looks found, and what loses something: it follows from what was wrong, or from what was mended.
    pub later: Findings,
    /// What has to be written to the device of an external journal, once `changes` have reached the disk.
    pub journal_changes: Vec<(u64, Vec<u8>)>,
}

impl Repair {
    /// Whether the file system is sound once the changes are written.
    pub fn is_clean(&self) -> bool {
        !self.left.findings.is_damaged()
    }
}

/// Works out what makes the file system on `device` sound. Nothing is written.
pub fn plan(
    device: &Arc<dyn Device>,
    options: &RepairOptions,
    progress: &Progress,
    cancel: &AtomicBool,
) -> Result<Repair, Refused> {
    let plain = Wishes { improvements: Improvements::default(), ..options.wishes.clone() };
    let mut mending = CheckOptions { repair: Some(plain.clone()), ..options.check.clone() };
    // Every round looks at what is damaged, and nobody writes meanwhile.
    let memory = (options.check.memory / REMEMBERED_PART).min(REMEMBERED_MAX);
    let device: &Arc<dyn Device> = &(Arc::new(Remembered::new(Arc::clone(device), memory)) as _);
    let mut changes = Overlay::new(Arc::clone(device));
    if let Some(wish) = &options.wishes.bad_blocks {
        lay(&mut changes, bad_blocks::relist(device, &options.check, wish)?);
    }
    refuse_waiting_journal(device, &options.check)?;
    let mut improves = options.wishes.improvements.any();
    let mut later = Later::default();
    let mut first: Option<CheckReport> = None;
    let mut journal_changes = Vec::new();
    for rounds in 1.. {
        let shared = Arc::new(changes);
        let below: Arc<dyn Device> = shared.clone();
        let naming = if first.is_none() { Naming::All } else { Naming::Losses };
        let mut report = look(&below, &mending, naming, progress, cancel)?;
        drop(below);
        changes = Arc::into_inner(shared).ok_or_else(still_in_use)?;
        let new = std::mem::take(&mut report.changes);
        let closing = close_journal(&mut mending, std::mem::take(&mut report.journal_changes));
        let changes_nothing = new.is_empty() && closing.is_empty();
        journal_changes.extend(closing);
        if improves && changes_nothing && !report.findings.is_damaged() {
            // Nothing is wrong any more: what is sound is made better, and looked at again.
            improves = false;
            mending.repair = Some(options.wishes.clone());
            first.get_or_insert(report);
            continue;
        }
        mending.repair = Some(plain.clone());
        let Some(found) = first.take() else {
            if changes_nothing {
                // Nothing can be, or has to be, done: what was found is what is left.
                let left = CheckReport { findings: again(&report.findings), ..CheckReport::default() };
                return Ok(Repair {
                    found: report,
                    left,
                    rounds,
                    changes: Vec::new(),
                    later: later.findings,
                    journal_changes,
                });
            }
            lay(&mut changes, new);
            first = Some(report);
            // A superblock that the user named stands in the place of the primary by now.
            mending.superblock = SuperblockOptions::default();
            continue;
        };
        if changes_nothing || rounds == ROUNDS_MAX {
            // What this look would have changed is left out: nobody has looked at that again.
            let shared: Arc<Overlay<_>> = Arc::new(changes);
            let left = if report.findings.is_damaged() {
                let below: Arc<dyn Device> = shared.clone();
                look(&below, &mending, Naming::All, progress, cancel)?
            } else {
                report
            };
            let changes = Arc::into_inner(shared).ok_or_else(still_in_use)?.into_runs().collect();
            return Ok(Repair { found, left, rounds, changes, later: later.findings, journal_changes });
        }
        later.note(&found.findings, &report.findings);
        lay(&mut changes, new);
        first = Some(found);
    }
    Err(still_in_use())
}

/// Problems that the first look did not see.
#[derive(Default)]
struct Later {
    /// Losses that the first look saw, or that were noted; once they are asked for.
    known: Option<BTreeSet<Key>>,
    findings: Findings,
}

impl Later {
    /// Notes the losses in `findings` that `first` does not have.
    fn note(&mut self, first: &Findings, findings: &Findings) {
        for problem in losses(findings) {
            let known = self.known.get_or_insert_with(|| losses(first).map(key).collect());
            if known.insert(key(problem)) {
                self.findings.raise(problem.clone());
            }
        }
    }
}

/// The problems whose repair loses something.
fn losses(findings: &Findings) -> impl Iterator<Item = &Problem> {
    findings.iter().filter(|problem| problem.row.loses_something())
}

/// What the journal holds is newer than what is on the disk: a repair without it would mend what is not wrong, and the next replay
/// would write old blocks over what it has mended.
fn refuse_waiting_journal(device: &Arc<dyn Device>, check: &CheckOptions) -> Result<(), Refused> {
    if check.replay || !glance(device, check)?.findings.has(&NOT_REPLAYED) {
        return Ok(());
    }
    let refusal = Refusal {
        code: "journal-not-replayed",
        message: "the journal waits to be replayed, and a repair without what it holds would do harm".to_owned(),
        way_out: "Repair it without --no-replay: the replay is part of the plan. What is on the disk can be looked at with check --no-replay"
            .to_owned(),
    };
    Err(Refused { refusal, findings: Box::default() })
}

/// Lays what closes an external journal over its device, for the looks to come.
fn close_journal(mending: &mut CheckOptions, changes: Vec<(u64, Vec<u8>)>) -> Vec<(u64, Vec<u8>)> {
    let Some(journal) = mending.external_journal.take() else { return changes };
    let mut closed = Overlay::new(journal);
    lay(&mut closed, changes.clone());
    mending.external_journal = Some(Arc::new(closed));
    changes
}

/// The same findings once more.
fn again(findings: &Findings) -> Findings {
    Findings::from_parts(findings.iter().cloned().collect(), findings.counts())
}

/// Lays changes over what has been changed before.
fn lay(changes: &mut Overlay<Arc<dyn Device>>, new: Vec<(u64, Vec<u8>)>) {
    for (offset, bytes) in new {
        // Changes come from a draft of the same length, which let nothing through behind its end.
        let _ = changes.write(offset, bytes);
    }
}

fn still_in_use() -> Refused {
    let refusal = Refusal {
        code: "internal",
        message: "the draft of the repair is still in use after a round of it".to_owned(),
        way_out: "Please report this".to_owned(),
    };
    Refused { refusal, findings: Box::default() }
}

#[cfg(test)]
mod tests {
    use fsmend_base::InodeNo;
    use fsmend_engine::{Problem, Row};

    use super::Later;
    use crate::links;

    #[test]
    fn of_what_later_looks_find_new_losses_are_told_and_each_once() {
        let problem =
            |row: &'static Row, number| Problem::new(row).inode(InodeNo(number)).stored(1u32).observed(2u32);
        let seen = problem(&links::problems::UNATTACHED, 12);
        let (mut later, mut first) = (Later::default(), fsmend_engine::Findings::new());
        first.raise(seen.clone());
        let mut findings = fsmend_engine::Findings::new();
        findings.raise(seen);
        findings.raise(problem(&links::problems::UNATTACHED, 13));
        findings.raise(problem(&links::problems::MISMATCH, 14));
        later.note(&first, &findings);
        later.note(&first, &findings);
        let told: Vec<_> =
            later.findings.iter().map(|problem| (problem.row.code, problem.object.inode)).collect();
        assert!(!links::problems::MISMATCH.loses_something());
        assert_eq!(told, [(links::problems::UNATTACHED.code, Some(InodeNo(13)))]);
    }
}
