// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every directory and file gets a name again, and every `..` leads to where that stands.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::InodeNo;
use fsmend_engine::crosscheck::links::nameless;
use fsmend_engine::crosscheck::tree::{TreeFinding, TreeRepairs, repairs};
use fsmend_engine::inodes::Kind;
use fsmend_engine::names::recovered::recovered_name;
use fsmend_engine::pool::Stage;
use fsmend_ext_format::inode::special;

use super::contents::{Names, NewName};
use super::{chains, insert, lost_found, remove};
use crate::directory::Directory;
use crate::directory::entries::entries_of;
use crate::directory::lost_found::{LostFound, NAME};
use crate::repair::{Laid, RepairContext};
use crate::{Fs, links};

const ROOT: InodeNo = InodeNo(special::ROOT);
/// The work, as traces call it.
const NAMELESS: [Stage; 1] = [Stage { name: "nameless inodes", pass: 1 }];
const PARENTS: [Stage; 1] = [Stage { name: "parent entries", pass: 1 }];

/// Mends what `findings` say, gives names in `lost+found` to what has none, and makes `..` right: of the directories in
/// `parent_entries`, of those whose names moved.
pub(super) fn connect(
    context: &mut RepairContext<'_>,
    findings: Vec<TreeFinding>,
    parent_entries: Vec<InodeNo>,
    found: LostFound,
) {
    let TreeRepairs { mut homeless, looped, mut parents } = repairs(&findings, &parent_entries);
    for inode in looped {
        cut_loop(context, inode);
        homeless.insert(inode);
    }
    if let LostFound::Unfit(inode) = found {
        // The check has taken its link back.
        remove::names(context, ROOT, &|other, name| other == inode && name == NAME);
        if let Some(fact) = context.inodes.directory(inode) {
            fact.parent.store(0, Relaxed);
            homeless.insert(inode);
        }
    }
    parents.extend(&homeless);
    homeless.extend(unattached(context));
    if found != LostFound::Fit || !homeless.is_empty() {
        let home = lost_found::open_or_make(context);
        shelter(context, home, homeless.into_iter().collect());
    }
    settle_parents(context, &parents);
}

/// Takes the name of a directory away that stands below itself.
fn cut_loop(context: &RepairContext<'_>, inode: InodeNo) {
    let Some(fact) = context.inodes.directory(inode) else { return };
    let holder = InodeNo(fact.parent.load(Relaxed));
    remove::names(context, holder, &|other, _| other == inode);
    context.inodes.withdraw_link(inode);
    fact.parent.store(0, Relaxed);
}

/// Inodes with contents that no name leads to.
fn unattached(context: &RepairContext<'_>) -> Vec<InodeNo> {
    let mut found = nameless(&context.fs, &context.inodes);
    // What only the repair has emptied stays: its owner and its times are left, and the name that it may have had.
    let has_contents = |fs: &Fs<'_>, inode: &InodeNo| {
        let now = fs.read_inode(*inode).and_then(Result::ok);
        let records = [now, context.record_before(*inode)];
        records.iter().flatten().any(|record| !links::is_empty(record))
    };
    let mut kept = context.side_by_side(&NAMELESS, &found, |inode| *inode, has_contents).into_iter();
    found.retain(|_| kept.next() == Some(true));
    found
}

/// Puts names for `homeless` inodes into `lost_found`: with their former names, with their numbers alone where there is no room for that; or
/// into the root where there is none for those.
fn shelter(context: &mut RepairContext<'_>, lost_found: Option<InodeNo>, homeless: Vec<InodeNo>) {
    let mut rest = &homeless[..];
    let long = lost_found.filter(|_| !context.repair_input.last_names.is_empty());
    let homes = [(long, true), (lost_found, false), (Some(ROOT), false)];
    for (home, is_long) in homes.into_iter().filter_map(|(home, is_long)| Some((home?, is_long))) {
        let names = names_for(context, (home, is_long), rest);
        let done = insert::names(context, home, &names);
        for inode in &rest[..done] {
            context.inodes.observe_link(*inode);
            if let Some(fact) = context.inodes.directory(*inode) {
                fact.parent.store(home.0, Relaxed);
            }
        }
        rest = &rest[done..];
        if rest.is_empty() {
            return;
        }
    }
}

/// A name for each inode that is not taken in `home`: a hash sign and its number, and its former name if the name may be long.
fn names_for(
    context: &RepairContext<'_>,
    (home, is_long): (InodeNo, bool),
    inodes: &[InodeNo],
) -> Vec<NewName> {
    let mut taken = Names::default();
    if let Some(directory) = Directory::open(&context.fs, home) {
        entries_of(&context.fs, &directory, &mut |inode, name| {
            if name.starts_with(b"#") {
                taken.add(name, inode.0);
            }
        });
    }
    let name_of = |inode: &InodeNo| {
        let last_name = context.repair_input.last_names.get(inode).filter(|_| is_long);
        let mut name = recovered_name(&format!("#{inode}"), last_name.map(String::as_str)).into_bytes();
        if taken.inode_of(&name).is_some() {
            name = taken.unique(&name);
        }
        NewName { inode: *inode, file_type: context.inodes.kind(*inode) as u8, name }
    };
    inodes.iter().map(name_of).collect()
}

/// Makes `..` of directories lead to where their names stand, and counts that.
fn settle_parents(context: &RepairContext<'_>, directories: &BTreeSet<InodeNo>) {
    let home_of = |inode: &InodeNo| {
        let fact = context.inodes.directory(*inode)?;
        let parent = if *inode == ROOT { ROOT } else { InodeNo(fact.parent.load(Relaxed)) };
        (parent.0 != 0 && context.inodes.kind(*inode) == Kind::Directory).then_some((*inode, parent))
    };
    let homes: Vec<(InodeNo, InodeNo)> = directories.iter().filter_map(home_of).collect();
    for homes in homes.chunks(context.blocks_at_once()) {
        let write = |fs: &Fs<'_>, home: &(InodeNo, InodeNo)| chains::with_parent(fs, home.0, home.1);
        let writes = context.side_by_side(&PARENTS, homes, |(inode, _)| *inode, write);
        let mut laid = Laid::default();
        for ((inode, parent), writes) in homes.iter().zip(writes) {
            laid.lay_or(context, writes, |fs| chains::with_parent(fs, *inode, *parent));
            context.inodes.lead_up(*inode, *parent);
        }
    }
}
