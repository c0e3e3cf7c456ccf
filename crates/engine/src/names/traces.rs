// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where inodes without a name are named nevertheless: the best of what was found of each, and the paths that come of it.

use std::collections::{BTreeMap, BTreeSet};

use fsmend_base::{BlockNo, InodeNo};

use super::former::{FormerName, Witness};
use super::paths::Paths;
use crate::problem::escape_name;

/// Traces of one inode that are kept, and names that are reported.
const TRACES_MAX: usize = 8;
const TOLD_MAX: usize = 3;
/// Directories on a path that are followed.
const DEPTH_MAX: usize = 256;

/// One place where an inode is named. The order is that of trust.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Trace {
    /// Of a directory: whether its `..` leads elsewhere.
    pub is_elsewhere: bool,
    /// How well the entry stands.
    pub witness: Witness,
    /// Whether it is unknown which directory held it.
    pub is_placeless: bool,
    /// The directory that held it, if that is known.
    pub holder: Option<InodeNo>,
    /// The name.
    pub name: Vec<u8>,
    /// The block that it stands in; `None` where that is an inode.
    pub block: Option<BlockNo>,
}

/// What was found, inode by inode.
#[derive(Clone, Debug, Default)]
pub struct Traces(BTreeMap<InodeNo, Vec<Trace>>);

impl Traces {
    /// Takes up a trace. What is kept in the end does not depend on the order: of each name the best trace, and of those the best.
    pub fn add(&mut self, inode: InodeNo, trace: Trace) {
        let kept = self.0.entry(inode).or_default();
        match kept.iter_mut().find(|known| (known.holder, &known.name) == (trace.holder, &trace.name)) {
            Some(known) if *known <= trace => return,
            Some(known) => *known = trace,
            None => kept.push(trace),
        }
        kept.sort();
        kept.truncate(TRACES_MAX);
    }

    /// Takes up all of `other`.
    pub fn merge(&mut self, other: Traces) {
        for (inode, traces) in other.0 {
            traces.into_iter().for_each(|trace| self.add(inode, trace));
        }
    }

    /// All directories that held something.
    pub fn holders(&self) -> impl Iterator<Item = InodeNo> + '_ {
        self.0.values().flatten().filter_map(|trace| trace.holder)
    }

    fn best(&self, inode: InodeNo) -> Option<&Trace> {
        self.0.get(&inode)?.first()
    }

    /// The former names of `inode`; `paths` knows the names of the directories that have one.
    pub fn names_of(&self, inode: InodeNo, paths: &Paths) -> Vec<FormerName> {
        let mut told: Vec<FormerName> = Vec::new();
        for trace in self.0.get(&inode).into_iter().flatten() {
            let folder = match trace.holder {
                Some(holder) => self.path_of(holder, paths).unwrap_or_else(|| format!("<{holder}>")),
                None => "...".to_owned(),
            };
            let path = format!("{}/{}", folder.trim_end_matches('/'), escape_name(&trace.name));
            if told.iter().all(|known| known.path != path) && told.len() < TOLD_MAX {
                told.push(FormerName { witness: trace.witness, path, block: trace.block });
            }
        }
        told
    }

    /// The former names of each of `inodes` of which anything is known; of a directory, where it stood if only its parent entry (`parent`) tells.
    pub fn told(
        &self,
        inodes: &BTreeSet<InodeNo>,
        paths: &Paths,
        parent: impl Fn(InodeNo) -> Option<InodeNo>,
    ) -> BTreeMap<InodeNo, Vec<FormerName>> {
        let names = inodes.iter().map(|inode| {
            let mut names = self.names_of(*inode, paths);
            if names.is_empty()
                && let Some(parent) = parent(*inode)
                && let Some(path) = self.path_of(parent, paths)
            {
                names.push(FormerName { witness: Witness::ParentEntry, path, block: None });
            }
            (*inode, names)
        });
        names.filter(|(_, names)| !names.is_empty()).collect()
    }

    /// Where directory `inode` is, or was; `None` when nothing is known of it.
    pub fn path_of(&self, inode: InodeNo, paths: &Paths) -> Option<String> {
        let (mut at, mut names, mut seen) = (inode, Vec::new(), BTreeSet::new());
        let top = loop {
            if at == paths.root() {
                break String::new();
            }
            let is_new = names.len() < DEPTH_MAX && seen.insert(at);
            let known = paths.names_of(at).first().map(|(holder, name)| (Some(*holder), name));
            let next = known.or_else(|| self.best(at).map(|trace| (trace.holder, &trace.name)));
            let Some((holder, name)) = next.filter(|_| is_new) else { break format!("<{at}>") };
            names.push(escape_name(name));
            let Some(holder) = holder else { break "...".to_owned() };
            at = holder;
        };
        if names.is_empty() {
            return (inode == paths.root()).then(|| "/".to_owned());
        }
        Some(names.iter().rev().fold(top, |path, name| path + "/" + name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(witness: Witness, holder: u32, name: &str) -> Trace {
        let name = name.as_bytes().to_vec();
        let holder = Some(InodeNo(holder));
        Trace { is_elsewhere: false, witness, is_placeless: false, holder, name, block: None }
    }

    #[test]
    fn the_best_traces_stay_whatever_the_order() {
        let mut all = Vec::new();
        for number in 0..40u32 {
            let witness = [Witness::Journal, Witness::DeletedEntry, Witness::Entry][number as usize % 3];
            all.push(trace(witness, 2, &format!("n{}", number % 20)));
        }
        let kept = |order: &mut dyn Iterator<Item = &Trace>| {
            let mut traces = Traces::default();
            order.for_each(|trace| traces.add(InodeNo(12), trace.clone()));
            traces.0.remove(&InodeNo(12)).unwrap_or_default()
        };
        let forward = kept(&mut all.iter());
        assert_eq!(forward, kept(&mut all.iter().rev()));
        assert_eq!(forward.len(), TRACES_MAX);
        assert!(forward.iter().all(|trace| trace.witness == Witness::Entry));
        // In parts, too.
        let mut parts = Traces::default();
        for part in all.chunks(7) {
            let mut traces = Traces::default();
            part.iter().for_each(|trace| traces.add(InodeNo(12), trace.clone()));
            parts.merge(traces);
        }
        assert_eq!(parts.0.remove(&InodeNo(12)), Some(forward));
    }

    #[test]
    fn paths_go_through_lost_directories() {
        let mut traces = Traces::default();
        traces.add(InodeNo(12), trace(Witness::Entry, 11, "file"));
        traces.add(InodeNo(11), trace(Witness::Entry, 10, "letters"));
        traces.add(InodeNo(10), trace(Witness::Entry, 2, "ann"));
        traces.add(InodeNo(20), trace(Witness::Entry, 21, "a"));
        traces.add(InodeNo(21), trace(Witness::Entry, 20, "b"));
        traces.add(InodeNo(30), Trace { holder: None, ..trace(Witness::Entry, 0, "c\n") });
        traces.add(InodeNo(31), trace(Witness::Entry, 99, "d"));
        let paths = Paths::none(InodeNo(2));
        let of = |inode| traces.names_of(InodeNo(inode), &paths).into_iter().map(|name| name.path);
        assert_eq!(of(12).collect::<Vec<_>>(), ["/ann/letters/file"]);
        assert_eq!(of(20).collect::<Vec<_>>(), ["<21>/a/b/a"], "a circle ends");
        assert_eq!(of(30).collect::<Vec<_>>(), [".../c\\x0a"]);
        assert_eq!(of(31).collect::<Vec<_>>(), ["<99>/d"]);
        assert_eq!(traces.path_of(InodeNo(2), &paths).as_deref(), Some("/"));
        assert_eq!(traces.path_of(InodeNo(99), &paths), None);
    }
}
