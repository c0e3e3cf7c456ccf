//! The tree: directories without a name, in loops, with a wrong parent entry; the root.

use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::InodeNo;
use fsmend_engine::inodes::{InodeFact, InodeTable, Kind};
use fsmend_engine::tree::{TreeFinding, TreeReport};
use fsmend_engine::{Findings, Problem};
use fsmend_ext_format::inode::special;

use super::problems as rows;
use crate::Fs;

pub use super::lost_found::check_lost_found;

const ROOT: InodeNo = InodeNo(special::ROOT);

/// Checks that there is a root directory, after all directories have been inspected and before the tree is checked. A
/// root that is not there is made in the facts: an empty one, its own parent.
pub fn check_root(_fs: &Fs<'_>, inodes: &InodeTable, findings: &mut Findings) {
    if inodes.kind(ROOT) == Kind::Directory {
        return;
    }
    findings.raise(Problem::new(&rows::ROOT_MISSING).inode(ROOT));
    inodes.revise(ROOT, InodeFact::new(Kind::Directory, 0), 2);
    inodes.observe_link(ROOT);
    inodes.observe_link(ROOT);
    if let Some(root) = inodes.directory(ROOT) {
        root.parent.store(ROOT.0, Relaxed);
        root.parent_entry.store(ROOT.0, Relaxed);
    }
}

/// Turns what the tree check found into problems. To be called before the links are compared: a `..` that is missing, or
/// that led nowhere, is counted here for the directory that holds the name. Links that change by what `tree` says are not
/// touched. Returns the directories whose `..` was counted so, and has to be written.
pub fn report_tree(
    _fs: &Fs<'_>,
    inodes: &InodeTable,
    tree: &TreeReport,
    findings: &mut Findings,
) -> Vec<InodeNo> {
    for finding in &tree.findings {
        findings.raise(match *finding {
            TreeFinding::Unconnected(inode) => {
                let parent = inodes.directory(inode).map_or(0, |fact| fact.parent_entry.load(Relaxed));
                Problem::new(&rows::UNCONNECTED).inode(inode).stored(parent)
            }
            TreeFinding::Looped(inode) => Problem::new(&rows::LOOPED).inode(inode),
            TreeFinding::ParentEntryWrong { inode, stored, observed } => {
                Problem::new(&rows::PARENT_WRONG).inode(inode).stored(stored.0).observed(observed.0)
            }
        });
    }
    // The findings ascend.
    let looped = |inode| tree.findings.binary_search(&TreeFinding::Looped(inode)).is_ok();
    let mut lost = Vec::new();
    for directory in tree.without_entry.iter().filter_map(|inode| inodes.directory(*inode)) {
        let inode = InodeNo(directory.inode);
        let parent = if inode == ROOT { ROOT.0 } else { directory.parent.load(Relaxed) };
        if parent != 0 && directory.parent_entry.load(Relaxed) == 0 && !looped(inode) {
            let problem = Problem::new(&rows::PARENT_WRONG).inode(inode);
            findings.raise(problem.stored(0u32).observed(parent));
            inodes.observe_link(InodeNo(parent));
            directory.parent_entry.store(parent, Relaxed);
            lost.push(inode);
        }
    }
    lost
}
