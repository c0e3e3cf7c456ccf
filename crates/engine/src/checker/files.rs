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
use crate::repair::changes::{lay, lay_copies};
use crate::report::Repair;
use crate::{Action, FileChange, Findings, FormerName, InodeState, Row};

/// What the problems tell of a file.
#[derive(Default)]
struct Known {
    path: Option<String>,
    former_names: Vec<FormerName>,
    losses: Vec<&'static Row>,
    rows: Vec<&'static Row>,
}

/// Directory entries that are compared, of all directories together.
const ENTRIES_MAX: usize = 1 << 20;

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
            if !known.rows.contains(&problem.row) {
                known.rows.push(problem.row);
            }
            if problem.row.loses && !known.losses.contains(&problem.row) {
                known.losses.push(problem.row);
            }
        }
        if known.is_empty() {
            return Vec::new();
        }
        let mut after = Overlay::new(Arc::clone(device));
        lay_copies(&mut after, &repair.copies);
        lay(&mut after, std::mem::take(&mut repair.changes));
        let files = self.compare(device, &after, check, known);
        repair.changes = after.into_runs().0.collect();
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
        let mut names = changed_names(&old, &new, &known);
        let mut known = known;
        for (inode, (path, _)) in &names {
            known.entry(*inode).or_default().path.get_or_insert_with(|| path.clone());
        }
        let change = |(inode, known): (InodeNo, Known)| {
            let names = names.remove(&inode).map(|(_, actions)| actions).unwrap_or_default();
            file(&old, &new, inode, known, (recovered.get(&inode), names))
        };
        known.into_iter().map(change).collect()
    }
}

/// What becomes of names in the directories that problems are about: for each inode the first of its names that changes, and what happens to
/// them.
fn changed_names<V: Checkable>(
    old: &V,
    new: &V,
    known: &BTreeMap<InodeNo, Known>,
) -> BTreeMap<InodeNo, (String, Vec<Action>)> {
    let mut left = ENTRIES_MAX;
    let mut changes: BTreeMap<InodeNo, (String, Vec<Action>)> = BTreeMap::new();
    for (directory, Known { path, .. }) in known {
        let mut names = |volume: &V| {
            let mut names: BTreeMap<Vec<u8>, InodeNo> = BTreeMap::new();
            volume.visit_entries(*directory, &|_| true, &mut |inode, name| {
                if left > 0 {
                    left -= 1;
                    names.insert(name.to_vec(), inode);
                }
            });
            names
        };
        let (before, after) = (names(old), names(new));
        if left == 0 {
            break;
        }
        // A directory that goes takes its names along: what becomes of its files is another matter.
        if summary_of(new, *directory).and_then(|summary| summary.kind).is_none() {
            continue;
        }
        let folder = path.clone().unwrap_or_else(|| format!("<{directory}>"));
        let full = |name: &[u8]| format!("{}/{}", folder.trim_end_matches('/'), escape_name(name));
        let mut fresh: BTreeMap<InodeNo, &[u8]> = BTreeMap::new();
        for (name, target) in after.iter().filter(|(name, target)| before.get(*name) != Some(target)) {
            fresh.entry(*target).or_insert(name);
        }
        for (name, target) in before.iter().filter(|(name, target)| after.get(*name) != Some(target)) {
            let gone = full(name);
            let (_, actions) = changes.entry(*target).or_insert_with(|| (gone.clone(), Vec::new()));
            actions.push(match fresh.get(target) {
                Some(other) => Action::Renamed(gone, full(other)),
                None => Action::NameRemoved(gone),
            });
        }
    }
    changes
}

/// Names in lost+found, by inode; and those of their kind in the root, where there was no room for lost+found.
fn recovered_names<V: Checkable>(volume: &V) -> BTreeMap<InodeNo, String> {
    let (mut homes, mut names, mut in_root) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    volume.visit_entries(volume.root(), &|_| true, &mut |inode, name| {
        if name.starts_with(super::mend::LOST_FOUND) {
            homes.push((inode, escape_name(name)));
        } else if name.starts_with(b"#") {
            in_root.insert(inode, format!("/{}", escape_name(name)));
        }
    });
    if homes.is_empty() {
        return in_root;
    }
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
    Known { path, former_names, losses, rows }: Known,
    (recovered, names): (Option<&String>, Vec<Action>),
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
    let is_gone = new_kind.is_none() && before.as_ref().is_none_or(|record| Some(record) != after.as_ref());
    if is_gone && (kind.is_some() || names.is_empty()) {
        actions.push(Action::Removed);
    } else {
        match (old_size, new_size) {
            (Some(old), Some(new)) if new < old => actions.push(Action::Truncated(new)),
            (Some(old), Some(new)) if new > old => actions.push(Action::Extended(new)),
            _ => {}
        }
        if new_count < count {
            actions.push(Action::Unmapped(count - new_count));
        } else if new_units != old_units && is_copied(new, &rows, new_count - count) {
            // The map may have grown.
            actions.push(Action::Copied(count_of_new(&old_units, &new_units).min(count)));
        }
        let name = recovered.filter(|name| path.as_ref() != Some(*name));
        actions.extend(name.map(|name| Action::MovedToLostFound(name.clone())));
        actions.extend(names);
        if actions.is_empty() && before != after {
            actions.push(Action::Corrected);
        }
        if actions.is_empty() {
            actions.push(if new_kind == Some(Kind::Directory) { Action::Corrected } else { Action::Kept });
        }
    }
    if new_kind == Some(Kind::Directory) {
        actions = Action::of_directory(actions);
    }
    let state = match (&before, kind) {
        (None, _) => InodeState::Unreadable,
        (_, Some(_)) => InodeState::InUse,
        (_, None) => InodeState::Unused,
    };
    let kind = kind.or(new_kind).unwrap_or(Kind::Unused);
    FileChange { inode, path, former_names, kind, state, size: old_size, actions, losses }
}

/// Whether blocks of a file with these problems that lie elsewhere afterwards, and `more` besides, are copies, not just written anew.
fn is_copied<V: Checkable>(volume: &V, rows: &[&'static Row], more: u64) -> bool {
    if !volume.moves_what_it_writes() {
        return more == 0;
    }
    let contested = volume.contest_rows();
    rows.iter().any(|row| *row == contested.multiply_claimed || *row == contested.shares)
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

/// How many units of `new` are not in `old`; both ascend. A file that has units twice has overlapping runs in `old`.
fn count_of_new(old: &[(u64, u64)], new: &[(u64, u64)]) -> u64 {
    let (mut count, mut index) = (0, 0);
    for &(first, length) in new {
        // Units before `at` are counted, or in `old`.
        let (mut at, end) = (first, first.saturating_add(length));
        while old.get(index).is_some_and(|(start, length)| start.saturating_add(*length) <= at) {
            index += 1;
        }
        for &(start, length) in old[index..].iter().take_while(|(start, _)| *start < end) {
            count += start.saturating_sub(at);
            at = at.max(start.saturating_add(length)).min(end);
        }
        count += end - at;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_units_are_counted_once() {
        assert_eq!(count_of_new(&[], &[(5, 3)]), 3);
        assert_eq!(count_of_new(&[(0, 4), (6, 2), (20, 9)], &[(2, 6), (10, 3)]), 5);
        assert_eq!(count_of_new(&[(0, 100), (4, 2)], &[(10, 3), (200, 1)]), 1);
    }

    #[test]
    fn units_that_a_file_has_twice_are_not_subtracted_twice() {
        assert_eq!(count_of_new(&[(8, 8), (8, 8)], &[(8, 8), (40, 8)]), 8);
    }
}
