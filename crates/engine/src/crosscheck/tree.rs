// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connectivity: does every directory hang on the root, once, and does its parent entry agree?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_base::{InodeNo, width};

use super::links::Adjustments;
use crate::claims::SharedBitmap;
use crate::format::Volume;
use crate::inodes::{DirectoryFact, InodeFact, InodeTable, Kind};
use crate::pool::{self, PoolConfig, Stage};
use crate::{Findings, Problem, Row};

/// What the tree check finds about one directory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TreeFinding {
    /// No name leads to the directory.
    Unconnected(InodeNo),
    /// The directory is its own ancestor: following parents from it comes back to it. Named once per loop, by its
    /// smallest member.
    Looped(InodeNo),
    /// The parent entry names another directory than the one that holds the name.
    ParentEntryWrong {
        /// The directory.
        inode: InodeNo,
        /// What its parent entry says.
        stored: InodeNo,
        /// The directory that holds its name.
        observed: InodeNo,
    },
}

/// What the tree check tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeReport {
    /// What is wrong, in ascending order of the directory.
    pub findings: Vec<TreeFinding>,
    /// The directories of which no parent entry is known, in ascending order.
    pub without_entry: Vec<InodeNo>,
}

/// Chunks that one worker looks at in one go.
const CHUNKS_PER_SLICE: usize = 4;
/// One more worker for so many directories: to start one takes about as long as to look at them.
const DIRECTORIES_PER_WORKER: u64 = 2048;
/// Directories deeper than this below the root are left to the exact walk.
const DEPTH_MAX: usize = 1 << 16;

/// Checks the tree below `root` once all directories have been scanned, with this pool. The root's parent is the root.
pub fn check(inodes: &InodeTable, root: InodeNo, pool: PoolConfig<'_>, cancel: &AtomicBool) -> TreeReport {
    let (is_sound, without_entry) = look(inodes, root, pool, cancel);
    TreeReport { findings: if is_sound { Vec::new() } else { walk(inodes, root) }, without_entry }
}

/// What one worker keeps.
struct Look {
    is_sound: bool,
    without_entry: Vec<InodeNo>,
    /// The directories through which it climbs; a buffer.
    path: Vec<u32>,
}

/// Whether there is nothing to find, and the directories without a parent entry. Workers climb from each directory to the first one
/// that is known to hang on the root, and make known those that they came through.
fn look(
    inodes: &InodeTable,
    root: InodeNo,
    pool: PoolConfig<'_>,
    cancel: &AtomicBool,
) -> (bool, Vec<InodeNo>) {
    let connected = SharedBitmap::new(u64::from(inodes.inodes_count()) + 1);
    let chunks: Vec<u32> = (0..inodes.chunk_count()).collect();
    let start = |_worker| Look { is_sound: true, without_entry: Vec::new(), path: Vec::new() };
    let looks = pool::run_slices(
        pool.for_work(width::index(1 + inodes.directory_count() / DIRECTORIES_PER_WORKER)),
        &[Stage { name: "tree", pass: 0 }],
        &chunks,
        CHUNKS_PER_SLICE,
        cancel,
        start,
        |look, part| {
            let directories = part.iter().flat_map(|chunk| inodes.directories_of_chunk(*chunk));
            for directory in directories {
                look.is_sound = look.is_sound
                    && (directory.inode == root.0 || parents_agree(directory))
                    && climb(inodes, root, directory, &connected, &mut look.path);
                if directory.parent_entry.load(Relaxed) == 0 {
                    look.without_entry.push(InodeNo(directory.inode));
                }
            }
        },
    );
    let is_sound = looks.iter().all(|look| look.is_sound);
    let mut without_entry: Vec<InodeNo> = looks.into_iter().flat_map(|look| look.without_entry).collect();
    without_entry.sort_unstable();
    (is_sound, without_entry)
}

fn parents_agree(directory: &DirectoryFact) -> bool {
    let (parent, stored) = (directory.parent.load(Relaxed), directory.parent_entry.load(Relaxed));
    parent != 0 && (stored == 0 || stored == parent)
}

fn climb<'i>(
    inodes: &'i InodeTable,
    root: InodeNo,
    mut at: &'i DirectoryFact,
    connected: &SharedBitmap,
    path: &mut Vec<u32>,
) -> bool {
    path.clear();
    if at.inode == root.0 {
        let stored = at.parent_entry.load(Relaxed);
        return stored == 0 || stored == root.0;
    }
    while at.inode != root.0 && !connected.get(u64::from(at.inode)) {
        path.push(at.inode);
        let parent = InodeNo(at.parent.load(Relaxed));
        match inodes.directory(parent).filter(|_| inodes.kind(parent) == Kind::Directory) {
            Some(next) if path.len() < DEPTH_MAX => at = next,
            _ => return false,
        }
    }
    for inode in &*path {
        connected.set_word(u64::from(*inode) / 64, 1 << (inode % 64));
    }
    true
}

/// Visits every directory once, in a fixed order.
fn walk(inodes: &InodeTable, root: InodeNo) -> Vec<TreeFinding> {
    let directories = inodes.directories();
    let index: BTreeMap<u32, usize> = directories.iter().enumerate().map(|(at, d)| (d.inode, at)).collect();
    let mut findings = Vec::new();
    // 0: not visited; otherwise the number of the walk that visited it first.
    let mut visited = vec![0u32; directories.len()];
    for (start, directory) in directories.iter().enumerate() {
        let inode = InodeNo(directory.inode);
        let parent = if inode == root { root } else { InodeNo(directory.parent.load(Relaxed)) };
        if parent.0 == 0 {
            findings.push(TreeFinding::Unconnected(inode));
        }
        let stored = InodeNo(directory.parent_entry.load(Relaxed));
        if parent.0 != 0 && stored.0 != 0 && stored != parent {
            findings.push(TreeFinding::ParentEntryWrong { inode, stored, observed: parent });
        }
        let walk = width::len_u32(start) + 1;
        let mut at = start;
        loop {
            if visited[at] != 0 {
                if visited[at] == walk && directories[at].inode != root.0 {
                    findings.push(TreeFinding::Looped(smallest_of_loop(&directories, &index, at)));
                }
                break;
            }
            visited[at] = walk;
            let here = directories[at].inode;
            if here == root.0 {
                break;
            }
            match index.get(&directories[at].parent.load(Relaxed)) {
                Some(next) => at = *next,
                None => break,
            }
        }
    }
    findings.sort();
    findings
}

fn smallest_of_loop(
    directories: &[&crate::inodes::DirectoryFact],
    index: &BTreeMap<u32, usize>,
    start: usize,
) -> InodeNo {
    let (mut at, mut smallest) = (start, directories[start].inode);
    while let Some(next) = index.get(&directories[at].parent.load(Relaxed)) {
        at = *next;
        smallest = smallest.min(directories[at].inode);
        if at == start {
            break;
        }
    }
    InodeNo(smallest)
}

/// What the tree check needs of a format to raise problems.
pub trait TreeRows: Volume {
    /// The catalogue rows.
    fn tree_rows(&self) -> Rows;
}

/// The catalogue rows of the tree.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// There is no root directory.
    pub root_missing: &'static Row,
    /// No name leads to a directory. `stored`: what its parent entry says.
    pub unconnected: &'static Row,
    /// A directory stands below itself.
    pub looped: &'static Row,
    /// The parent entry names another directory than the one that holds the name: `stored`, `observed`.
    pub parent_wrong: &'static Row,
}

/// Checks that there is a root directory, after all directories have been inspected and before the tree is checked. A root that is not there is made in the
/// facts: an empty one, its own parent.
pub fn check_root(volume: &impl TreeRows, inodes: &InodeTable, findings: &mut Findings) {
    let root = volume.root();
    if inodes.kind(root) == Kind::Directory {
        return;
    }
    findings.raise(Problem::new(volume.tree_rows().root_missing).inode(root));
    inodes.revise(root, InodeFact::new(Kind::Directory, 0), 2);
    inodes.observe_link(root);
    inodes.observe_link(root);
    if let Some(fact) = inodes.directory(root) {
        fact.parent.store(root.0, Relaxed);
        fact.parent_entry.store(root.0, Relaxed);
    }
}

/// Turns what the tree check found into problems. To be called before the links are compared: a `..` that is missing, or that led nowhere, is counted here for
/// the directory that holds the name. Links that change by what `tree` says are not touched. Returns the directories whose `..` was counted so, and has to
/// be written.
pub fn report(
    volume: &impl TreeRows,
    inodes: &InodeTable,
    tree: &TreeReport,
    findings: &mut Findings,
) -> Vec<InodeNo> {
    let (rows, root) = (volume.tree_rows(), volume.root());
    for finding in &tree.findings {
        findings.raise(match *finding {
            TreeFinding::Unconnected(inode) => {
                let parent = inodes.directory(inode).map_or(0, |fact| fact.parent_entry.load(Relaxed));
                Problem::new(rows.unconnected).inode(inode).stored(parent)
            }
            TreeFinding::Looped(inode) => Problem::new(rows.looped).inode(inode),
            TreeFinding::ParentEntryWrong { inode, stored, observed } => {
                Problem::new(rows.parent_wrong).inode(inode).stored(stored.0).observed(observed.0)
            }
        });
    }
    // The findings ascend.
    let looped = |inode| tree.findings.binary_search(&TreeFinding::Looped(inode)).is_ok();
    let mut lost = Vec::new();
    for directory in tree.without_entry.iter().filter_map(|inode| inodes.directory(*inode)) {
        let inode = InodeNo(directory.inode);
        let parent = if inode == root { root.0 } else { directory.parent.load(Relaxed) };
        if parent != 0 && directory.parent_entry.load(Relaxed) == 0 && !looped(inode) {
            let problem = Problem::new(rows.parent_wrong).inode(inode);
            findings.raise(problem.stored(0u32).observed(parent));
            inodes.observe_link(InodeNo(parent));
            directory.parent_entry.store(parent, Relaxed);
            lost.push(inode);
        }
    }
    lost
}

/// How reconnecting directories, as `findings` call for, changes the numbers of names.
pub fn adjustments(inodes: &InodeTable, findings: &[TreeFinding]) -> Adjustments {
    let mut changes = Adjustments::new();
    let mut change = |inode: InodeNo, by: i64| *changes.entry(inode).or_default() += by;
    for finding in findings {
        match *finding {
            TreeFinding::Unconnected(inode) => {
                change(inode, 1);
                let stored = inodes.directory(inode).map_or(0, |fact| fact.parent_entry.load(Relaxed));
                if stored != 0 {
                    change(InodeNo(stored), -1);
                }
            }
            TreeFinding::ParentEntryWrong { stored, observed, .. } => {
                change(stored, -1);
                change(observed, 1);
            }
            TreeFinding::Looped(inode) => {
                // Its name moves; its `..` leads to the old place until then.
                let parent = inodes
                    .directory(inode)
                    .map_or((0, 0), |fact| (fact.parent.load(Relaxed), fact.parent_entry.load(Relaxed)));
                if parent.1 != 0 {
                    change(InodeNo(parent.0), -1);
                }
            }
        }
    }
    changes
}

/// What a repair of the tree has to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeRepairs {
    /// Directories without a name: they need one in lost+found.
    pub homeless: BTreeSet<InodeNo>,
    /// Directories below themselves: their names have to go, and they need one in lost+found. One of each loop.
    pub looped: Vec<InodeNo>,
    /// Directories whose parent entry has to be written.
    pub parents: BTreeSet<InodeNo>,
}

/// Sorts what the tree check found, and the directories in `parent_entries`, by what has to be done.
pub fn repairs(findings: &[TreeFinding], parent_entries: &[InodeNo]) -> TreeRepairs {
    let mut repairs =
        TreeRepairs { parents: parent_entries.iter().copied().collect(), ..TreeRepairs::default() };
    for finding in findings {
        match *finding {
            TreeFinding::Unconnected(inode) => {
                repairs.homeless.insert(inode);
            }
            TreeFinding::Looped(inode) => repairs.looped.push(inode),
            TreeFinding::ParentEntryWrong { inode, .. } => {
                repairs.parents.insert(inode);
            }
        }
    }
    repairs
}

/// Directories and files that will be given names in lost+found: those of `findings` that lost theirs.
pub fn reconnected(findings: &[TreeFinding]) -> u64 {
    findings.iter().filter(|found| !matches!(found, TreeFinding::ParentEntryWrong { .. })).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inodes::{ChunkFacts, InodeFact};

    fn tree(parents: &[(u32, u32, u32)]) -> Vec<TreeFinding> {
        let inodes = InodeTable::new(100, 100);
        let mut facts = ChunkFacts::new(100);
        for (inode, _, _) in parents {
            facts.record(*inode as usize - 1, InodeNo(*inode), InodeFact::new(Kind::Directory, 0), 2);
        }
        inodes.publish(0, facts);
        for (inode, parent, entry) in parents {
            if *parent != 0 {
                inodes.set_parent(InodeNo(*inode), InodeNo(*parent));
            }
            if let Some(directory) = inodes.directory(InodeNo(*inode)) {
                directory.parent_entry.store(*entry, Relaxed);
            }
        }
        let found = check(&inodes, InodeNo(2), PoolConfig::of(2), &AtomicBool::new(false));
        assert_eq!(found.findings, walk(&inodes, InodeNo(2)), "the quick way and the exact one agree");
        let without_entry = parents.iter().filter(|(_, _, entry)| *entry == 0);
        let expected: Vec<InodeNo> = without_entry.map(|(inode, ..)| InodeNo(*inode)).collect();
        assert_eq!(found.without_entry, expected);
        found.findings
    }

    #[test]
    fn a_sound_tree_has_no_findings() {
        assert_eq!(tree(&[(2, 0, 2), (11, 2, 2), (12, 11, 11)]), []);
    }

    #[test]
    fn each_defect_by_itself_is_seen() {
        assert_ne!(tree(&[(2, 0, 5)]), [], "the root's own parent entry");
        assert_ne!(tree(&[(2, 0, 2), (11, 0, 2)]), [], "no name");
        assert_ne!(tree(&[(2, 0, 2), (11, 2, 5)]), [], "wrong parent entry");
        assert_ne!(tree(&[(2, 0, 2), (11, 12, 12), (12, 11, 11)]), [], "a loop");
        assert_ne!(tree(&[(2, 0, 2), (11, 11, 11)]), [], "its own parent");
        assert_eq!(tree(&[(2, 0, 2), (11, 2, 0)]), [], "an unknown parent entry");
    }

    #[test]
    fn unconnected_looped_and_wrong_parent_entry() {
        let findings = tree(&[(2, 0, 2), (11, 0, 2), (12, 11, 2), (20, 22, 22), (21, 20, 20), (22, 21, 21)]);
        assert_eq!(
            findings,
            [
                TreeFinding::Unconnected(InodeNo(11)),
                TreeFinding::Looped(InodeNo(20)),
                TreeFinding::ParentEntryWrong {
                    inode: InodeNo(12),
                    stored: InodeNo(2),
                    observed: InodeNo(11)
                },
            ]
        );
    }
}
