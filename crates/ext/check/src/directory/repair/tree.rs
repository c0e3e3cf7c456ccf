//! Every directory and file gets a name again, and every `..` leads to where that stands.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::InodeNo;
use fsmend_engine::inodes::Kind;
use fsmend_engine::pool::Stage;
use fsmend_engine::tree::TreeFinding;
use fsmend_ext_format::inode::special;

use super::contents::{Names, NewName};
use super::{chains, insert, lost_found, remove};
use crate::directory::Directory;
use crate::directory::lost_found::{LostFound, NAME};
use crate::directory::paths::entries_of;
use crate::repair::{Laid, Mender};
use crate::{Fs, links};

const ROOT: InodeNo = InodeNo(special::ROOT);
/// The work, as traces call it.
const NAMELESS: [Stage; 1] = [Stage { name: "nameless inodes", pass: 1 }];
const PARENTS: [Stage; 1] = [Stage { name: "parent entries", pass: 1 }];

/// Mends what `findings` say, gives names in `lost+found` to what has none, and makes `..` right: of the directories in
/// `parent_entries`, of those whose names moved.
pub(super) fn connect(
    mender: &mut Mender<'_>,
    findings: Vec<TreeFinding>,
    parent_entries: Vec<InodeNo>,
    found: LostFound,
) {
    let mut parents: BTreeSet<InodeNo> = parent_entries.into_iter().collect();
    let mut homeless = BTreeSet::new();
    for finding in findings {
        match finding {
            TreeFinding::Unconnected(inode) => {
                homeless.insert(inode);
            }
            TreeFinding::Looped(inode) => {
                cut_loop(mender, inode);
                homeless.insert(inode);
            }
            TreeFinding::ParentEntryWrong { inode, .. } => {
                parents.insert(inode);
            }
        }
    }
    if let LostFound::Unfit(inode) = found {
        // The check has taken its link back.
        remove::names(mender, ROOT, &|other, name| other == inode && name == NAME);
        if let Some(fact) = mender.inodes.directory(inode) {
            fact.parent.store(0, Relaxed);
            homeless.insert(inode);
        }
    }
    parents.extend(&homeless);
    homeless.extend(unattached(mender));
    if found != LostFound::Fit || !homeless.is_empty() {
        let home = lost_found::open_or_make(mender);
        shelter(mender, home, homeless.into_iter().collect());
    }
    settle_parents(mender, &parents);
}

/// Takes the name of a directory away that stands below itself.
fn cut_loop(mender: &Mender<'_>, inode: InodeNo) {
    let Some(fact) = mender.inodes.directory(inode) else { return };
    let holder = InodeNo(fact.parent.load(Relaxed));
    remove::names(mender, holder, &|other, _| other == inode);
    mender.inodes.withdraw_link(inode);
    fact.parent.store(0, Relaxed);
}

/// Inodes with contents that no name leads to.
fn unattached(mender: &Mender<'_>) -> Vec<InodeNo> {
    let mut found = Vec::new();
    for chunk in 0..mender.inodes.chunk_count() {
        let mut nameless = Vec::new();
        mender.inodes.visit_chunk(chunk, |inode, fact, _, observed| {
            let is_file = !matches!(fact.kind(), Kind::Unused | Kind::Directory);
            if is_file && observed == 0 && links::has_names(&mender.fs, inode, fact) {
                nameless.push(inode);
            }
        });
        found.append(&mut nameless);
    }
    // What only the repair has emptied stays: its owner and its times are left, and the name that it may have had.
    let has_contents = |fs: &Fs<'_>, inode: &InodeNo| {
        let now = fs.read_inode(*inode).and_then(Result::ok);
        let records = [now, mender.record_before(*inode)];
        records.iter().flatten().any(|record| !links::is_empty(record))
    };
    let mut kept = mender.side_by_side(&NAMELESS, &found, |inode| *inode, has_contents).into_iter();
    found.retain(|_| kept.next() == Some(true));
    found
}

/// Puts names for `homeless` inodes into `lost_found`, or into the root where there is no room for that.
fn shelter(mender: &mut Mender<'_>, lost_found: Option<InodeNo>, homeless: Vec<InodeNo>) {
    let mut rest = &homeless[..];
    for home in [lost_found, Some(ROOT)].into_iter().flatten() {
        let names = names_for(mender, home, rest);
        let done = insert::names(mender, home, &names);
        for inode in &rest[..done] {
            mender.inodes.observe_link(*inode);
            if let Some(fact) = mender.inodes.directory(*inode) {
                fact.parent.store(home.0, Relaxed);
            }
        }
        rest = &rest[done..];
        if rest.is_empty() {
            return;
        }
    }
}

/// A name for each inode that is not taken in `home`: a hash sign and its number.
fn names_for(mender: &Mender<'_>, home: InodeNo, inodes: &[InodeNo]) -> Vec<NewName> {
    let mut taken = Names::default();
    if let Some(directory) = Directory::open(&mender.fs, home) {
        entries_of(&mender.fs, &directory, &mut |inode, name| {
            if name.starts_with(b"#") {
                taken.add(name, inode.0);
            }
        });
    }
    let name_of = |inode: &InodeNo| {
        let mut name = format!("#{inode}").into_bytes();
        if taken.inode_of(&name).is_some() {
            name = taken.unique(&name);
        }
        NewName { inode: *inode, file_type: mender.inodes.kind(*inode) as u8, name }
    };
    inodes.iter().map(name_of).collect()
}

/// Makes `..` of directories lead to where their names stand, and counts that.
fn settle_parents(mender: &Mender<'_>, directories: &BTreeSet<InodeNo>) {
    let home_of = |inode: &InodeNo| {
        let fact = mender.inodes.directory(*inode)?;
        let parent = if *inode == ROOT { ROOT } else { InodeNo(fact.parent.load(Relaxed)) };
        (parent.0 != 0 && mender.inodes.kind(*inode) == Kind::Directory).then_some((*inode, parent))
    };
    let homes: Vec<(InodeNo, InodeNo)> = directories.iter().filter_map(home_of).collect();
    for homes in homes.chunks(mender.blocks_at_once()) {
        let write = |fs: &Fs<'_>, home: &(InodeNo, InodeNo)| chains::with_parent(fs, home.0, home.1);
        let writes = mender.side_by_side(&PARENTS, homes, |(inode, _)| *inode, write);
        let mut laid = Laid::default();
        for ((inode, parent), writes) in homes.iter().zip(writes) {
            laid.lay_or(mender, writes, |fs| chains::with_parent(fs, *inode, *parent));
            count_parent(mender, *inode, *parent);
        }
    }
}

/// Counts where `..` leads now.
fn count_parent(mender: &Mender<'_>, inode: InodeNo, parent: InodeNo) {
    let Some(fact) = mender.inodes.directory(inode) else { return };
    let before = InodeNo(fact.parent_entry.swap(parent.0, Relaxed));
    if before != parent {
        if before.0 != 0 {
            mender.inodes.withdraw_link(before);
        }
        mender.inodes.observe_link(parent);
    }
}
