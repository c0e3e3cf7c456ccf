// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a repair does to each file that its problems are about: the file system as it was beside the one that the repair leaves.

use std::collections::BTreeMap;
use std::sync::Arc;

use fsmend_base::InodeNo;
use fsmend_device::{Device, Overlay};

use super::{Checkable, Checker, Family, read_record, summary_of};
use crate::inodes::Kind;
use crate::options::CheckOptions;
use crate::problem::{Severity, escape_name};
use crate::repair::changes::lay;
use crate::report::Repair;
use crate::{Action, FileChange, Findings, FormerName, InodeState, Row};

/// What the problems tell of a file.
#[derive(Default)]
struct Known {
    path: Option<String>,
    former_names: Vec<FormerName>,
    losses: Vec<&'static Row>,
}

impl<F: Family> Checker<F> {
    /// What `repair` does to each file and directory that its problems are about, in the order of inodes.
    pub fn files(
        &self,
        device: &Arc<dyn Device>,
        repair: &mut Repair,
        check: &CheckOptions,
    ) -> Vec<FileChange> {
        let mut known: BTreeMap<InodeNo, Known> = BTreeMap::new();
        let problems = repair.found.findings.iter().filter(|problem| problem.row.severity > Severity::Note);
        for problem in problems.chain(repair.later.iter()) {
            let Some(inode) = problem.object.inode else { continue };
            let known = known.entry(inode).or_default();
            if known.path.is_none() {
                known.path.clone_from(&problem.object.path);
            }
            if known.former_names.is_empty() {
                known.former_names = problem.former_names();
            }
            if problem.row.loses_something() && !known.losses.contains(&problem.row) {
                known.losses.push(problem.row);
            }
        }
        if known.is_empty() {
            return Vec::new();
        }
        let mut after = Overlay::new(Arc::clone(device));
        lay(&mut after, std::mem::take(&mut repair.changes));
        let files = self.compare(device, &after, check, known);
        repair.changes = after.into_runs().collect();
        files
    }

    fn compare(
        &self,
        before: &dyn Device,
        after: &dyn Device,
        check: &CheckOptions,
        known: BTreeMap<InodeNo, Known>,
    ) -> Vec<FileChange> {
        let open = |device| self.0.open(device, (check, &super::nothing_kept()), &mut Findings::new());
        let (Ok(old), Ok(new)) = (open(before), open(after)) else { return Vec::new() };
        let (old, new) = (self.0.volume(old, before), self.0.volume(new, after));
        let recovered = recovered_names(&new);
        let change = |(inode, known)| file(&old, &new, inode, known, recovered.get(&inode));
        known.into_iter().map(change).collect()
    }
}

/// Names in lost+found, by inode.
fn recovered_names<V: Checkable>(volume: &V) -> BTreeMap<InodeNo, String> {
    let mut homes = Vec::new();
    volume.visit_entries(volume.root(), &|_| true, &mut |inode, name| {
        if name.starts_with(super::mend::LOST_FOUND) {
            homes.push((inode, escape_name(name)));
        }
    });
    let mut names = BTreeMap::new();
    for (home, folder) in homes {
        volume.visit_entries(home, &|_| true, &mut |inode, name| {
            names.insert(inode, format!("/{folder}/{}", escape_name(name)));
        });
    }
    names
}

fn file<V: Checkable>(
    old: &V,
    new: &V,
    inode: InodeNo,
    Known { path, former_names, losses }: Known,
    recovered: Option<&String>,
) -> FileChange {
    let (before, after) = (read_record(old, inode), read_record(new, inode));
    let units = |volume: &V| {
        let summary = summary_of(volume, inode).unwrap_or_default();
        let units = joined(summary.units);
        (summary.kind, units.iter().map(|(_, count)| count).sum::<u64>(), units)
    };
    let ((kind, count, old_units), (new_kind, new_count, new_units)) = (units(old), units(new));
    let size =
        |volume: &V, record: &Option<Vec<u8>>| record.as_ref().and_then(|record| volume.size_of(record));
    let (old_size, new_size) = (size(old, &before), size(new, &after));
    let mut actions = Vec::new();
    if new_kind.is_none() && before.as_ref().is_none_or(|record| Some(record) != after.as_ref()) {
        actions.push(Action::Removed);
    } else {
        match (old_size, new_size) {
            (Some(old), Some(new)) if new < old => actions.push(Action::Truncated(new)),
            (Some(old), Some(new)) if new > old => actions.push(Action::Extended(new)),
            _ => {}
        }
        if new_count < count {
            actions.push(Action::Unmapped(count - new_count));
        } else if new_units != old_units && new_count == count {
            actions.push(Action::Copied(count_of_new(&old_units, &new_units)));
        }
        let name = recovered.filter(|name| path.as_ref() != Some(*name));
        actions.extend(name.map(|name| Action::MovedToLostFound(name.clone())));
        if actions.is_empty() && before != after {
            actions.push(Action::Corrected);
        }
        if actions.is_empty() {
            actions.push(if new_kind == Some(Kind::Directory) { Action::Corrected } else { Action::Kept });
        }
    }
    let state = match (&before, kind) {
        (None, _) => InodeState::Unreadable,
        (_, Some(_)) => InodeState::InUse,
        (_, None) => InodeState::Unused,
    };
    let kind = kind.or(new_kind).unwrap_or(Kind::Unused);
    FileChange { inode, path, former_names, kind, state, size: old_size, actions, losses }
}

/// Runs in ascending order, neighbours as one.
fn joined(mut runs: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    runs.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (first, count) in runs {
        match joined.last_mut() {
            Some((start, length)) if *start + *length == first => *length += count,
            _ => joined.push((first, count)),
        }
    }
    joined
}

/// How many units of `new` are not in `old`; both ascend.
fn count_of_new(old: &[(u64, u64)], new: &[(u64, u64)]) -> u64 {
    let overlap = |first: u64, end: u64| -> u64 {
        let from = old.partition_point(|(start, count)| start + count <= first);
        old[from..]
            .iter()
            .take_while(|(start, _)| *start < end)
            .map(|(start, count)| (start + count).min(end) - (*start).max(first))
            .sum()
    };
    new.iter().map(|(first, count)| count - overlap(*first, first + count)).sum()
}
