// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be said of a file system that is mounted while it is checked.
//!
//! A scan of a live file system sees records of different moments: what it finds are *suspicions*. Two things follow. Damage to something
//! at rest is seen by every scan, so only suspicions that come back at the same place are worth a closer look ([`recurring`]). And nothing
//! is a problem until the same check finds it on a consistent view: a snapshot, or the frozen file system. Where even that does
//! not fit into the time that a freeze may take, single records are looked at ([`confirm`]).
//!
//! On a consistent view, a mounted file system still differs from an unmounted one: files that are open though deleted wait to
//! be released. [`judge`] knows that.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_device::Device;
use fsmend_engine::inodes::InodeTable;
use fsmend_engine::problem::{Evidence, Row};
use fsmend_engine::report::JournalUse;
use fsmend_engine::{Findings, Problem, Severity};

use crate::allocation::problems as allocation;
use crate::directory::Directory;
use crate::inode::problems::{DELETION_TIME_MISSING, ORPHAN_REMAINS};
use crate::journal::problems::NOT_REPLAYED;
use crate::orphan::problems::{UNRELEASED, WAITING};
use crate::precheck::{Precheck, precheck};
use crate::quota::problems::USAGE_WRONG;
use crate::run;
use crate::{Fs, directory, inode, superblock};
use fsmend_engine::Refused;
use fsmend_engine::options::CheckOptions;

/// Findings of a view that stands still, divided.
#[derive(Debug, Default)]
pub struct Judged {
    /// Problems.
    pub stands: Findings,
    /// What may as well be the traces of files that are open though deleted.
    pub undecided: Findings,
}

/// Judges what the check of a view that stands still has found on a file system that is mounted. Without a journal there is no list of
/// files that are open though deleted: inodes and blocks without an owner may be theirs.
pub fn judge(findings: Findings, journal: JournalUse) -> Judged {
    let counts = findings.counts();
    let (mut stands, mut undecided) = (Vec::new(), Vec::new());
    for problem in findings.into_sorted() {
        if is_routine(problem.row) {
            continue;
        }
        let may_be_open = journal == JournalUse::None && may_be_of_open_files(problem.row);
        if may_be_open { undecided.push(problem) } else { stands.push(problem) }
    }
    let together = |problems| Findings::from_parts(problems, counts.clone());
    Judged { stands: together(stands), undecided: together(undecided) }
}

/// What every mounted file system shows.
fn is_routine(row: &Row) -> bool {
    [&UNRELEASED, &WAITING, &NOT_REPLAYED].into_iter().any(|routine| routine == row)
}

/// Bookkeeping that files which are open though deleted put out of step where no list of them is on the disk.
fn may_be_of_open_files(row: &Row) -> bool {
    let rows = [
        &allocation::BLOCKS_MARKED_BUT_FREE,
        &allocation::INODES_MARKED_BUT_FREE,
        &allocation::GROUP_FREE_BLOCKS,
        &allocation::GROUP_FREE_INODES,
        &allocation::GROUP_DIRECTORIES,
        &allocation::FREE_BLOCKS,
        &allocation::FREE_INODES,
        &allocation::TOTALS_STALE,
        &DELETION_TIME_MISSING,
        &ORPHAN_REMAINS,
        &USAGE_WRONG,
    ];
    rows.into_iter().any(|open| open == row)
}

/// The suspicions among what a scan of the live file system has found: what counts for a verdict, but for what the kernel writes only now
/// and then.
pub fn suspicions(findings: Findings) -> Vec<Problem> {
    let mut problems = findings.into_sorted();
    problems.retain(|problem| {
        let row = problem.row;
        row.severity > Severity::Note && !is_routine(row)
    });
    problems
}

/// Where a problem is. What numbers it carries may change from scan to scan.
type Place = (&'static str, Option<InodeNo>, Option<GroupNo>, Option<BlockNo>);

fn place(problem: &Problem) -> Place {
    let object = &problem.object;
    let names_nothing_else = object.inode.is_none() && object.group.is_none();
    (problem.row.code, object.inode, object.group, object.block.filter(|_| names_nothing_else))
}

/// The suspicions of `now` that an earlier scan had at the same place.
pub fn recurring(mut now: Vec<Problem>, before: &[Problem]) -> Vec<Problem> {
    let places: BTreeSet<Place> = before.iter().map(place).collect();
    now.retain(|problem| places.contains(&place(problem)));
    now
}

/// A look at the frozen file system that takes milliseconds, however many files there are: superblock, descriptors, journal, orphans.
/// None if something is out of order or the totals disagree: then only a whole check can judge.
pub fn look(device: &Arc<dyn Device>, options: &CheckOptions) -> Result<Option<Precheck>, Refused> {
    let mut seen = precheck(device, options)?;
    let summary = &seen.summary;
    let agrees = seen.stored_files == summary.files_used && seen.stored_blocks == summary.blocks_used;
    let in_order = agrees && !seen.is_doubtful();
    seen.findings.retain(|problem| !is_routine(problem.row));
    Ok(in_order.then_some(seen))
}

/// Looks at the frozen file system for those of `suspicions` that a single inode, with its map or its directory blocks, proves by itself:
/// all others need the whole file system. Returns what stands, as it is now, and what is left unconfirmed. When `stop` becomes true, the
/// rest is left.
pub fn confirm(
    device: &Arc<dyn Device>,
    options: &CheckOptions,
    suspicions: Vec<Problem>,
    stop: &AtomicBool,
) -> (Vec<Problem>, Vec<Problem>) {
    let mut ignored = Findings::new();
    let Ok(settled) = superblock::settle(&**device, options.superblock, options.now, &mut ignored) else {
        return (Vec::new(), suspicions);
    };
    let fs = run::open(&**device, settled, options.now, &mut ignored);
    let (mut stands, mut left) = (Vec::new(), Vec::new());
    for suspicion in suspicions {
        let again = if stop.load(Relaxed) { None } else { look_again(&fs, &suspicion) };
        match again {
            Some(problem) => stands.push(problem),
            None => left.push(suspicion),
        }
    }
    (stands, left)
}

/// The same problem at the same place, if the inode proves it.
fn look_again(fs: &Fs<'_>, suspicion: &Problem) -> Option<Problem> {
    let number = suspicion.object.inode?;
    if suspicion.row.evidence != Evidence::Local {
        return None;
    }
    let record = fs.read_inode(number)?.ok()?;
    if inode::links_of(&record) == 0 {
        // It may wait to be released: then its fields mean something else.
        return None;
    }
    let mut found = Findings::new();
    inode::inspect(fs, number, &record, &mut found);
    if let Some(directory) = Directory::open(fs, number) {
        // Who is named there does not matter: what depends on it is no self-check.
        let unknown = InodeTable::new(fs.geometry.inodes_count, fs.geometry.inodes_per_group);
        directory::inspect(fs, &unknown, &directory, &mut found);
    }
    let wanted = place(suspicion);
    let mut again = found.into_sorted().into_iter().find(|problem| place(problem) == wanted)?;
    again.object.path.clone_from(&suspicion.object.path);
    Some(again)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(row: &'static Row, group: u32, stored: u32) -> Problem {
        Problem::new(row).group(GroupNo(group)).stored(stored).observed(0u32)
    }

    #[test]
    fn what_moves_on_is_no_suspicion() {
        let before =
            [problem(&allocation::GROUP_FREE_BLOCKS, 1, 5), problem(&allocation::GROUP_FREE_BLOCKS, 2, 5)];
        let now = vec![
            problem(&allocation::GROUP_FREE_BLOCKS, 2, 9),
            problem(&allocation::GROUP_FREE_INODES, 1, 5),
        ];
        let left = recurring(now, &before);
        assert_eq!(left, [problem(&allocation::GROUP_FREE_BLOCKS, 2, 9)]);
    }

    #[test]
    fn totals_that_lag_behind_are_none() {
        let mut findings = Findings::new();
        findings.raise(
            Problem::new(&allocation::TOTALS_STALE).detail("what", "blocks").stored(1u32).observed(2u32),
        );
        findings.raise(problem(&allocation::GROUP_FREE_BLOCKS, 2, 9));
        assert_eq!(suspicions(findings), [problem(&allocation::GROUP_FREE_BLOCKS, 2, 9)]);
    }

    #[test]
    fn without_a_journal_open_files_are_not_told_from_leaks() {
        let found = || {
            let mut findings = Findings::new();
            findings.raise(problem(&allocation::GROUP_FREE_BLOCKS, 2, 9));
            findings.raise(Problem::new(&UNRELEASED).stored(7u32).observed(1u32));
            findings
        };
        let judged = judge(found(), JournalUse::Clean);
        assert_eq!((judged.stands.counts().len(), judged.undecided.is_empty()), (1, true));
        let judged = judge(found(), JournalUse::None);
        assert_eq!((judged.stands.is_empty(), judged.undecided.counts().len()), (true, 1));
    }
}
