//! Names for what is reported: which path leads to an inode.

use std::collections::{BTreeMap, BTreeSet};

use fsmend_base::InodeNo;
use fsmend_engine::problem::escape_name;
use fsmend_engine::{Findings, Problem};
use fsmend_ext_format::inode::special;

use crate::crosscheck::CrossCheck;

/// Longest chain of directories that is followed.
const DEPTH_MAX: usize = 256;
/// Longest path that is printed, in bytes; longer ones are cut at the front.
const PATH_LEN_MAX: usize = 4096;
/// Problems per kind that get a path when not all are wanted.
const NAMED_PER_ROW: usize = 5;

/// Fills in the path of every problem's inode, where a name leads to it; for the first few problems of each kind, or
/// for all of them.
pub fn name_objects(cross: &CrossCheck<'_>, findings: Findings, all: bool) -> Findings {
    let mut wanted = BTreeSet::new();
    let mut per_row: BTreeMap<&str, usize> = BTreeMap::new();
    let counts = findings.counts();
    let mut problems = findings.into_sorted();
    for problem in &problems {
        let named = per_row.entry(problem.row.code).or_default();
        *named += 1;
        if let Some(inode) = problem.object.inode.filter(|_| all || *named <= NAMED_PER_ROW) {
            wanted.insert(inode);
        }
    }
    if !wanted.is_empty() {
        let names = Names::find(cross, &wanted);
        for problem in &mut problems {
            name_object(problem, &names);
        }
    }
    Findings::from_parts(problems, counts)
}

fn name_object(problem: &mut Problem, names: &Names) {
    if let Some(inode) = problem.object.inode {
        problem.object.path = names.path_of(inode);
    }
}

/// One name for each wanted inode and for each directory above it.
struct Names {
    /// Inode to directory and name.
    parents: BTreeMap<InodeNo, (InodeNo, Vec<u8>)>,
}

impl Names {
    /// Searches the directories, upwards: names of the wanted inodes, then of the directories that hold them, and so on.
    /// Parents of directories are known from the scan, so that two searches are enough.
    fn find(cross: &CrossCheck<'_>, wanted: &BTreeSet<InodeNo>) -> Self {
        let mut names = Names { parents: BTreeMap::new() };
        let mut open: BTreeSet<InodeNo> = wanted.clone();
        for _ in 0..DEPTH_MAX {
            open.retain(|inode| inode.0 != special::ROOT && !names.parents.contains_key(inode));
            if open.is_empty() {
                break;
            }
            open.extend(ancestors(cross, &open));
            open.retain(|inode| inode.0 != special::ROOT && !names.parents.contains_key(inode));
            let found = cross.search_names(&|inode| open.contains(&inode));
            let mut holders = BTreeSet::new();
            for (inode, directory, name) in found {
                holders.insert(directory);
                names.parents.entry(inode).or_insert((directory, name));
            }
            open = holders;
        }
        names
    }

    fn path_of(&self, inode: InodeNo) -> Option<String> {
        if inode.0 == special::ROOT {
            return Some("/".to_owned());
        }
        let mut parts = Vec::new();
        let mut at = inode;
        let mut length = 0;
        while at.0 != special::ROOT {
            match self.parents.get(&at) {
                Some((parent, name)) if parts.len() < DEPTH_MAX && length < PATH_LEN_MAX => {
                    let part = escape_name(name);
                    length += part.len() + 1;
                    parts.push(part);
                    at = *parent;
                }
                Some(_) => {
                    parts.push("...".to_owned());
                    break;
                }
                None if parts.is_empty() => return None,
                None => {
                    parts.push(format!("<{at}>"));
                    break;
                }
            }
        }
        parts.reverse();
        let start = if parts.first().is_some_and(|first| first.starts_with('<') || first == "...") {
            ""
        } else {
            "/"
        };
        Some(format!("{start}{}", parts.join("/")))
    }
}

/// All directories above those of `inodes` that are directories themselves, as the scan knows them.
fn ancestors(cross: &CrossCheck<'_>, inodes: &BTreeSet<InodeNo>) -> BTreeSet<InodeNo> {
    let mut found = BTreeSet::new();
    for inode in inodes {
        let mut at = *inode;
        while let Some(fact) = cross.inodes.directory(at) {
            at = InodeNo(fact.parent.load(std::sync::atomic::Ordering::Relaxed));
            if at.0 == 0 || at.0 == special::ROOT || !found.insert(at) {
                break;
            }
        }
    }
    found
}
