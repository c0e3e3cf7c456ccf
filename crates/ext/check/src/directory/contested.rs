//! Directories with more than one name: which one stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::InodeNo;
use fsmend_engine::inodes::{InodeTable, Kind};
use fsmend_engine::{Findings, Problem, Value};

use super::paths::entries_of;
use super::{Directory, problems as rows};
use crate::Fs;

/// Settles which name stays of every directory that has several ([`InodeTable::contested`]): the one in the directory
/// that its own `..` names, else the one in the directory with the smallest number. The others are reported and taken back
/// from the counts. To be called after all directories have been inspected, before the tree is checked.
pub fn check_contested(fs: &Fs<'_>, inodes: &InodeTable, findings: &mut Findings) {
    let contested: BTreeSet<InodeNo> = inodes.contested().into_iter().collect();
    let contested: BTreeSet<InodeNo> =
        contested.into_iter().filter(|inode| inodes.kind(*inode) == Kind::Directory).collect();
    if contested.is_empty() {
        return;
    }
    for (child, holders) in holders_of(fs, inodes, &contested) {
        settle(inodes, child, &holders, findings);
    }
}

type Holders = Vec<(InodeNo, Vec<u8>)>;

/// The directories that hold a name of each contested one, ascending, one name each.
fn holders_of(fs: &Fs<'_>, inodes: &InodeTable, contested: &BTreeSet<InodeNo>) -> BTreeMap<InodeNo, Holders> {
    let mut holders: BTreeMap<InodeNo, Holders> = BTreeMap::new();
    for directory in inodes.directories() {
        let Some(directory) = Directory::open(fs, InodeNo(directory.inode)) else { continue };
        entries_of(fs, &directory, &mut |inode, name| {
            if contested.contains(&inode) && inode != directory.inode {
                let list = holders.entry(inode).or_default();
                if list.last().is_none_or(|(holder, _)| *holder != directory.inode) {
                    list.push((directory.inode, name.to_vec()));
                }
            }
        });
    }
    holders
}

fn settle(inodes: &InodeTable, child: InodeNo, holders: &[(InodeNo, Vec<u8>)], findings: &mut Findings) {
    let Some(fact) = inodes.directory(child) else { return };
    let parent_entry = InodeNo(fact.parent_entry.load(Relaxed));
    let agrees = holders.iter().find(|(holder, _)| *holder == parent_entry);
    let Some((kept, _)) = agrees.or(holders.first()) else { return };
    fact.parent.store(kept.0, Relaxed);
    for (holder, name) in holders.iter().filter(|(holder, _)| holder != kept) {
        let problem = Problem::new(&rows::DIRECTORY_NAMED_TWICE).inode(*holder).stored(child.0);
        findings.raise(problem.detail("name", Value::name(name)));
        inodes.withdraw_link(child);
    }
}
