// SPDX-License-Identifier: MIT OR Apache-2.0
//! `lost+found` as a repair needs it.

use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::{GroupNo, InodeNo};
use fsmend_engine::inodes::{InodeFact, Kind};
use fsmend_ext_format::directory::file_type;
use fsmend_ext_format::inode::special;

use super::contents::NewName;
use super::{insert, make, remove};
use crate::directory::lost_found::{self, NAME};
use crate::repair::RepairContext;

const ROOT: InodeNo = InodeNo(special::ROOT);

/// The directory `lost+found`, made if it is not there. `None` when that cannot be.
pub(super) fn open_or_make(context: &mut RepairContext<'_>) -> Option<InodeNo> {
    let found = lost_found::find(&context.fs);
    found.filter(|inode| context.inodes.kind(*inode) == Kind::Directory).or_else(|| make_one(context))
}

fn make_one(context: &mut RepairContext<'_>) -> Option<InodeNo> {
    let inode = context.allocate_inode(GroupNo(0), Kind::Directory)?;
    if !make::directory(context, inode, ROOT, 0o700) {
        context.inodes.revise(inode, InodeFact::default(), 0);
        return None;
    }
    // What has the name, if anything has, is not in use.
    remove::names(context, ROOT, &|_, name| name == NAME);
    let name = NewName { inode, file_type: file_type::DIRECTORY, name: NAME.to_vec() };
    // Where it cannot be named it stays without a name, and the next look says so: names go to the root then.
    if insert::names(context, ROOT, &[name]) == 0 {
        make::take_back(context, inode);
        return None;
    }
    if let Some(fact) = context.inodes.directory(inode) {
        fact.parent.store(ROOT.0, Relaxed);
        fact.parent_entry.store(ROOT.0, Relaxed);
    }
    // Its name and its `.`; its `..`.
    [inode, inode, ROOT].into_iter().for_each(|inode| context.inodes.observe_link(inode));
    Some(inode)
}
