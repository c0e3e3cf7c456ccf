// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths for reports: what an inode is called, and where.
//!
//! Names are not kept while the file system is checked; they are looked up when there is something to report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_base::InodeNo;

use super::filter::InodeFilter;
use crate::format::Volume;
use crate::inodes::{InodeTable, Kind};
use crate::pool::{self, PoolConfig, Stage};
use crate::problem::escape_name;

/// Longest chain of parents that is followed.
const DEPTH_MAX: usize = 4096;
/// Directories that one worker searches at a time.
const HOLDERS_PER_SLICE: usize = 256;
/// Longer paths begin at a directory further down: no call to the system takes them, and hostile ones could be of any
/// length.
const PATH_LEN_MAX: usize = 4096;

/// Reads directories by themselves.
pub trait Directories: Volume {
    /// Calls `visit` for every entry of the directory `holder` but `.` and `..`, in the order of the directory, broken blocks read as far as can be. Where a look at the
    /// bare records shows that none leads to an inode for which `wanted` is true, nothing has to be visited. Does nothing where `holder` is no directory.
    fn visit_entries(
        &self,
        holder: InodeNo,
        wanted: &dyn Fn(InodeNo) -> bool,
        visit: &mut dyn FnMut(InodeNo, &[u8]),
    );
}

/// Inodes whose names are looked for.
#[derive(Clone, Copy)]
struct Wanted<'w> {
    inodes: &'w BTreeSet<InodeNo>,
    /// Lets all of these through.
    inode_filter: &'w InodeFilter,
}

impl Wanted<'_> {
    fn has(self, inode: InodeNo) -> bool {
        self.inode_filter.passes(inode) && self.inodes.contains(&inode)
    }
}

/// A name: the directory that holds it, and its bytes.
pub type Name = (InodeNo, Vec<u8>);

/// Names of the inodes that are to be reported, and of the directories above them.
#[derive(Clone, Debug)]
pub struct Paths {
    root: InodeNo,
    names: BTreeMap<InodeNo, Vec<Name>>,
}

impl Paths {
    /// No names.
    pub fn none(root: InodeNo) -> Paths {
        Paths { root, names: BTreeMap::new() }
    }

    /// The root directory.
    pub fn root(&self) -> InodeNo {
        self.root
    }

    /// Looks up at most `limit` names of each of the `wanted` inodes, in ascending order of the directory that holds them,
    /// and the names of all directories above. Reads every directory once (only the parents, when all that is wanted are
    /// directories), and the directories above once more.
    pub fn gather(
        fs: &impl Directories,
        inodes: &InodeTable,
        wanted: &[InodeNo],
        limit: usize,
        (pool, cancel): (PoolConfig<'_>, &AtomicBool),
    ) -> Paths {
        let root = fs.root();
        let mut paths = Paths::none(root);
        let is_directory = |inode: &InodeNo| inodes.kind(*inode) == Kind::Directory;
        let (directories, files): (BTreeSet<InodeNo>, BTreeSet<InodeNo>) =
            wanted.iter().copied().filter(|inode| *inode != root).partition(is_directory);
        if !files.is_empty() {
            let holders: Vec<InodeNo> = inodes.directories().iter().map(|fact| InodeNo(fact.inode)).collect();
            let inode_filter = InodeFilter::of(files.iter().copied());
            let wanted = Wanted { inodes: &files, inode_filter: &inode_filter };
            let search = |found: &mut Paths, part: &[InodeNo]| {
                part.iter().for_each(|holder| found.add_names(fs, *holder, wanted, limit));
            };
            let parts = pool::run_slices(
                pool,
                &[Stage { name: "names", pass: 0 }],
                &holders,
                HOLDERS_PER_SLICE,
                cancel,
                |_| Paths::none(root),
                search,
            );
            parts.into_iter().for_each(|part| paths.absorb(part, limit));
        }
        let holders = paths.names.values().flatten().map(|(holder, _)| *holder);
        let mut todo: BTreeSet<InodeNo> = directories.into_iter().chain(holders).collect();
        let mut done = BTreeSet::from([root]);
        for _ in 0..DEPTH_MAX {
            let fresh: BTreeSet<InodeNo> = todo.difference(&done).copied().collect();
            if fresh.is_empty() {
                break;
            }
            todo = paths.add_level(fs, inodes, &fresh);
            done.extend(fresh);
        }
        paths
    }

    /// Adds names that were found elsewhere, in other directories; those with the smallest holders stay.
    fn absorb(&mut self, other: Paths, limit: usize) {
        for (inode, names) in other.names {
            names.into_iter().for_each(|name| self.add_name(inode, name, limit));
        }
    }

    /// Adds a name; those with the smallest holders stay, of one holder the first in its order. Which they are does not depend on the
    /// order in which the holders come.
    fn add_name(&mut self, inode: InodeNo, name: Name, limit: usize) {
        let names = self.names.entry(inode).or_default();
        let at = names.partition_point(|(holder, _)| *holder <= name.0);
        if at < limit {
            names.truncate(limit - 1);
            names.insert(at, name);
        }
    }

    /// Adds the names of directories whose parents are known; returns those parents.
    fn add_level(
        &mut self,
        fs: &impl Directories,
        inodes: &InodeTable,
        level: &BTreeSet<InodeNo>,
    ) -> BTreeSet<InodeNo> {
        let mut by_parent: BTreeMap<InodeNo, BTreeSet<InodeNo>> = BTreeMap::new();
        for child in level {
            let parent = inodes.directory(*child).map_or(0, |fact| fact.parent.load(Relaxed));
            if parent != 0 {
                by_parent.entry(InodeNo(parent)).or_default().insert(*child);
            }
        }
        let inode_filter = InodeFilter::of(level.iter().copied());
        for (parent, children) in &by_parent {
            self.add_names(fs, *parent, Wanted { inodes: children, inode_filter: &inode_filter }, 1);
        }
        by_parent.into_keys().collect()
    }

    fn add_names(&mut self, fs: &impl Directories, holder: InodeNo, wanted: Wanted<'_>, limit: usize) {
        fs.visit_entries(holder, &|inode| wanted.has(inode), &mut |inode, name| {
            if wanted.has(inode) && inode != holder {
                self.add_name(inode, (holder, name.to_vec()), limit);
            }
        });
    }

    /// The names that were found of `inode`.
    pub fn names_of(&self, inode: InodeNo) -> &[Name] {
        self.names.get(&inode).map_or(&[], Vec::as_slice)
    }

    /// A path to `inode`, printable: `None` when no name of it is known. A path that does not go up to the root, or is very
    /// long, begins with the inode number of a directory on the way, as in `<12>/a/b`.
    pub fn path_of(&self, inode: InodeNo) -> Option<String> {
        if inode == self.root {
            return Some("/".to_owned());
        }
        let mut names = Vec::new();
        let mut at = inode;
        let mut len = 0;
        while at != self.root
            && names.len() < DEPTH_MAX
            && len < PATH_LEN_MAX
            && let Some((holder, name)) = self.names_of(at).first()
        {
            names.push(escape_name(name));
            len += name.len() + 1;
            at = *holder;
        }
        if names.is_empty() {
            return None;
        }
        let top = if at == self.root { String::new() } else { format!("<{at}>") };
        Some(names.iter().rev().fold(top, |path, name| path + "/" + name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_stay_do_not_depend_on_the_order_of_the_directories() {
        let name = |holder: u32, name: &str| (InodeNo(holder), name.as_bytes().to_vec());
        let of = |orders: &[(u32, &[&str])]| {
            let mut paths = Paths::none(InodeNo(2));
            for (holder, names) in orders {
                names.iter().for_each(|one| paths.add_name(InodeNo(30), name(*holder, one), 3));
            }
            paths
        };
        let (third, fifth): ((_, &[&str]), (_, &[&str])) = ((3, &["y", "x"]), (5, &["z", "a"]));
        let expected = vec![name(3, "y"), name(3, "x"), name(5, "z")];
        assert_eq!(of(&[third, fifth]).names_of(InodeNo(30)), expected);
        assert_eq!(of(&[fifth, third]).names_of(InodeNo(30)), expected);
        let mut merged = of(&[fifth]);
        merged.absorb(of(&[third]), 3);
        assert_eq!(merged.names_of(InodeNo(30)), expected);
    }
}
