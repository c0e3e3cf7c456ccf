// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a repair does to each file that its problems are about: the file system as it was beside the one that the repair leaves.
//!
//! Whatever the inspections meant to do, what is reported is the result. The journal is replayed for both sides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fsmend_base::{BlockNo, InodeNo};
use fsmend_device::{Device, Overlay};
use fsmend_engine::inodes::Kind;
use fsmend_engine::problem::escape_name;
use fsmend_engine::{Action, FileChange, Findings, FormerName, InodeState, Problem, Row, Severity, Value};
use fsmend_ext_format::inode::{InodeFlags, RawInode, special};

use super::map::Runs;
use crate::Fs;
use crate::directory::entries::entries_of;
use crate::directory::lost_found::find as find_lost_found;
use crate::directory::{Directory, problems as directory_rows};
use crate::inode;
use crate::inode::subject::kind_of;
use crate::precheck::precheck;
use crate::run;
use crate::superblock;
use fsmend_engine::options::{CheckOptions, SuperblockOptions};
use fsmend_engine::repair::changes::{lay, lay_copies};
use fsmend_engine::report::Repair;

/// Inodes whose maps are compared; of further ones only the records are.
const MAPS_MAX: usize = 10_000;
/// Directory entries that are compared, of all directories together.
const ENTRIES_MAX: usize = 1 << 20;

/// Rows about a name: what is lost by its removal depends on the inode that it leads to.
const NAME_ROWS: [&Row; 2] = [&directory_rows::ENTRY_INODE_UNUSED, &directory_rows::ENTRY_IN_BAD_BLOCK];

/// What `repair` does to each file and directory that its problems are about, in the order of inodes.
pub fn files(device: &Arc<dyn Device>, repair: &mut Repair, check: &CheckOptions) -> Vec<FileChange> {
    let mut gathered = Gathered::default();
    let problems = repair.found.findings.iter().filter(|problem| problem.row.severity > Severity::Note);
    problems.chain(repair.later.iter()).for_each(|problem| gathered.add(problem));
    if gathered.files.is_empty() {
        return Vec::new();
    }
    let mut before = Overlay::new(Arc::clone(device));
    if let Ok(seen) = precheck(device, check) {
        lay(&mut before, seen.changes);
    }
    let mut after = Overlay::new(Arc::clone(device));
    lay_copies(&mut after, &repair.copies);
    lay(&mut after, std::mem::take(&mut repair.changes));
    compare(&mut gathered, (&before, check.superblock), &after, check.now);
    repair.changes = after.into_runs().0.collect();
    gathered.finish()
}

/// Fills in what can be learned from both sides; nothing where one of them cannot be opened.
fn compare(
    gathered: &mut Gathered,
    (before, choice): (&dyn Device, SuperblockOptions),
    after: &dyn Device,
    now: u64,
) {
    let mut quiet = Findings::new();
    let Ok(settled) = superblock::settle(before, choice, now, &mut quiet) else { return };
    let old = run::open(before, settled, now, &mut quiet);
    let Ok(settled) = superblock::settle(after, SuperblockOptions::default(), now, &mut quiet) else {
        return;
    };
    let new = run::open(after, settled, now, &mut quiet);
    let mut sides = Sides { old, new, entries_left: ENTRIES_MAX };
    sides.compare_directories(gathered);
    sides.compare_lost_found(gathered);
    for (at, (inode, file)) in gathered.files.iter_mut().enumerate() {
        sides.compare_inode(*inode, file, at < MAPS_MAX);
    }
}

/// What is known of a file so far.
#[derive(Default)]
struct Known {
    path: Option<String>,
    former_names: Vec<FormerName>,
    kind: Option<Kind>,
    state: Option<InodeState>,
    size: Option<u64>,
    actions: BTreeSet<Action>,
    losses: Vec<&'static Row>,
}

impl Known {
    fn lose(&mut self, row: &'static Row) {
        if row.loses && !self.losses.contains(&row) {
            self.losses.push(row);
        }
    }
}

#[derive(Default)]
struct Gathered {
    files: BTreeMap<InodeNo, Known>,
}

impl Gathered {
    fn add(&mut self, problem: &Problem) {
        let Some(inode) = problem.object.inode else { return };
        let file = self.files.entry(inode).or_default();
        if file.path.is_none() {
            file.path.clone_from(&problem.object.path);
        }
        if file.former_names.is_empty() {
            file.former_names = problem.former_names();
        }
        match target_of(problem) {
            Some(target) => self.files.entry(target).or_default().lose(problem.row),
            None => file.lose(problem.row),
        }
        for (_, value) in &problem.details {
            // The other owners of blocks, and the like.
            value.clone().visit_inodes(&mut |inode, path| {
                let other = self.files.entry(inode).or_default();
                if other.path.is_none() {
                    other.path = path.take();
                }
            });
        }
    }

    fn finish(self) -> Vec<FileChange> {
        let finished = self.files.into_iter().map(|(inode, known)| {
            let mut actions: Vec<Action> = known.actions.into_iter().collect();
            if known.kind == Some(Kind::Directory) {
                actions = Action::of_directory(actions);
            }
            if actions.contains(&Action::Removed) {
                actions = vec![Action::Removed];
            }
            if actions.iter().any(|action| matches!(action, Action::Truncated(_) | Action::Extended(_))) {
                // A size goes with the rest of the record.
                actions.retain(|action| *action != Action::Corrected);
            }
            if actions.is_empty() {
                actions.push(Action::Kept);
            }
            FileChange {
                inode,
                path: known.path,
                former_names: known.former_names,
                kind: known.kind.unwrap_or_default(),
                state: known.state.unwrap_or(InodeState::Unused),
                size: known.size,
                actions,
                losses: known.losses,
            }
        });
        finished.collect()
    }
}

/// The inode that a removed name leads to, where the loss depends on that.
fn target_of(problem: &Problem) -> Option<InodeNo> {
    match problem.stored {
        Some(Value::Number(target)) if NAME_ROWS.contains(&problem.row) => {
            u32::try_from(target).ok().map(InodeNo)
        }
        _ => None,
    }
}

/// The names in a directory.
type Names = BTreeMap<Vec<u8>, InodeNo>;

struct Sides<'d> {
    old: Fs<'d>,
    new: Fs<'d>,
    entries_left: usize,
}

impl Sides<'_> {
    fn compare_directories(&mut self, gathered: &mut Gathered) {
        let directories: Vec<_> =
            gathered.files.iter().map(|(inode, file)| (*inode, file.path.clone())).collect();
        for (inode, path) in directories {
            let Some((old, new)) = self.names(inode, inode) else { continue };
            if (old != new || self.is_rewritten(inode))
                && let Some(file) = gathered.files.get_mut(&inode)
            {
                file.actions.insert(Action::Corrected);
            }
            let folder = path.unwrap_or_else(|| format!("<{inode}>"));
            let full = |name: &[u8]| format!("{}/{}", folder.trim_end_matches('/'), escape_name(name));
            let mut fresh: BTreeMap<InodeNo, &[u8]> = BTreeMap::new();
            for (name, target) in new.iter().filter(|(name, target)| old.get(*name) != Some(target)) {
                fresh.entry(*target).or_insert(name);
            }
            for (name, target) in old.iter().filter(|(name, target)| new.get(*name) != Some(target)) {
                let file = gathered.files.entry(*target).or_default();
                let gone = full(name);
                file.path.get_or_insert_with(|| gone.clone());
                file.actions.insert(match fresh.get(target) {
                    Some(other) => Action::Renamed(gone, full(other)),
                    None => Action::NameRemoved(gone),
                });
            }
        }
    }

    /// Whether blocks of a directory are not the same on both sides.
    fn is_rewritten(&self, inode: InodeNo) -> bool {
        let runs =
            |fs: &Fs<'_>| Directory::open(fs, inode).map(|directory| directory.runs).unwrap_or_default();
        let (old, new) = (runs(&self.old), runs(&self.new));
        let blocks = |runs: &[inode::MapRun]| -> Vec<BlockNo> {
            let of_run = |run: &inode::MapRun| {
                let first = run.physical;
                (0..u64::from(run.count)).map(move |within| BlockNo(first.saturating_add(within)))
            };
            runs.iter().flat_map(of_run).collect()
        };
        let (old, new) = (blocks(&old), blocks(&new));
        let differ = |(old, new): (&BlockNo, &BlockNo)| {
            self.old.read_block(*old).ok() != self.new.read_block(*new).ok()
        };
        old.len() != new.len() || old.iter().zip(&new).any(differ)
    }

    fn compare_lost_found(&mut self, gathered: &mut Gathered) {
        // Where there is no inode for lost+found, the root takes such names.
        let (was, home, folder) = match find_lost_found(&self.new) {
            Some(home) => (find_lost_found(&self.old).unwrap_or(InodeNo(0)), home, ""),
            None => (InodeNo(special::ROOT), InodeNo(special::ROOT), "/"),
        };
        let Some((old, new)) = self.names(was, home) else { return };
        let is_new = |(name, target): &(Vec<u8>, InodeNo)| old.get(name) != Some(target);
        for (name, target) in new.into_iter().filter(is_new) {
            if folder.is_empty() || name.starts_with(b"#") {
                let file = gathered.files.entry(target).or_default();
                file.actions.insert(Action::MovedToLostFound(format!("{folder}{}", escape_name(&name))));
            }
        }
    }

    /// The names in directory `old` of the old side and `new` of the new one; `None` if the new one is no directory, or too many were
    /// compared.
    fn names(&mut self, old: InodeNo, new: InodeNo) -> Option<(Names, Names)> {
        let new = Directory::open(&self.new, new)?;
        let mut left = self.entries_left;
        let mut gather = |fs: &Fs<'_>, directory: &Directory| {
            let mut names = Names::new();
            entries_of(fs, directory, &mut |inode, name| {
                if left > 0 {
                    left -= 1;
                    names.insert(name.to_vec(), inode);
                }
            });
            names
        };
        let old = Directory::open(&self.old, old).map(|directory| gather(&self.old, &directory));
        let new = gather(&self.new, &new);
        self.entries_left = left;
        (left > 0).then(|| (old.unwrap_or_default(), new))
    }

    fn compare_inode(&self, inode: InodeNo, file: &mut Known, with_map: bool) {
        let old = match self.old.read_inode(inode) {
            None => None,
            Some(Ok(record)) => Some(record),
            Some(Err(_)) => {
                file.state = Some(InodeState::Unreadable);
                return;
            }
        };
        let new = self.new.read_inode(inode).and_then(Result::ok);
        let old_raw = old.as_deref().map(RawInode::from_record).filter(RawInode::is_in_use);
        let new_raw = new.as_deref().map(RawInode::from_record).filter(RawInode::is_in_use);
        file.state = Some(if old_raw.is_some() { InodeState::InUse } else { InodeState::Unused });
        let known = new_raw.as_ref().or(old_raw.as_ref());
        file.kind = known.and_then(|raw| kind_of(raw.file_type())).or(known.map(|_| Kind::Unknown));
        let (Some(old), Some(old_raw)) = (old, old_raw) else {
            if new_raw.is_some() {
                file.actions.insert(Action::Corrected);
            }
            return;
        };
        file.size = Some(old_raw.size());
        let (Some(new), Some(new_raw)) = (new, new_raw) else {
            file.actions.insert(Action::Removed);
            return;
        };
        match new_raw.size().cmp(&old_raw.size()) {
            std::cmp::Ordering::Less => file.actions.insert(Action::Truncated(new_raw.size())),
            std::cmp::Ordering::Greater => file.actions.insert(Action::Extended(new_raw.size())),
            std::cmp::Ordering::Equal => false,
        };
        if old != new {
            file.actions.insert(Action::Corrected);
        }
        if with_map && !new_raw.has_flag(InodeFlags::INLINE_DATA) {
            self.compare_maps(inode, (&old, &new), file);
        }
    }

    fn compare_maps(&self, inode: InodeNo, (old, new): (&[u8], &[u8]), file: &mut Known) {
        let runs = |fs: &Fs<'_>, record: &[u8]| {
            Runs::new(inode::inspect(fs, inode, record, &mut Findings::new()).runs)
        };
        let (old, new) = (runs(&self.old, old), runs(&self.new, new));
        let mut moved = 0u64;
        let mut gone = 0u64;
        for run in old.iter() {
            let kept = new.within(run.logical, u64::from(run.count));
            let stays: u64 = kept.iter().map(|piece| u64::from(piece.count)).sum();
            gone += u64::from(run.count).saturating_sub(stays);
            let is_moved =
                |piece: &&inode::MapRun| piece.physical != run.physical + (piece.logical - run.logical);
            moved += kept.iter().filter(is_moved).map(|piece| u64::from(piece.count)).sum::<u64>();
        }
        if moved > 0 {
            file.actions.insert(Action::Copied(moved));
        }
        let is_shorter = file.actions.iter().any(|action| matches!(action, Action::Truncated(_)));
        if gone > 0 && !is_shorter {
            file.actions.insert(Action::Unmapped(gone));
        }
    }
}
