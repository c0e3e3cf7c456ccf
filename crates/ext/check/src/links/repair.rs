//! Link counts as they have to be.

use fsmend_base::InodeNo;
use fsmend_engine::inodes::{InodeFact, Kind};
use fsmend_ext_format::features::ro_compat;
use fsmend_ext_format::inode::RawInode;

use super::{LINKS_MAX, has_names, is_empty};
use crate::quota::Owner;
use crate::repair::Mender;

/// Sets the link counts that differ from the number of names, and frees what is empty and nameless. What has contents has been
/// given a name by now, if it could be.
pub(crate) fn mend(mender: &mut Mender<'_>) {
    for chunk in 0..mender.inodes.chunk_count() {
        let mut wrong = Vec::new();
        mender.inodes.visit_chunk(chunk, |inode, fact, stored, observed| {
            let is_used = fact.kind() != Kind::Unused && has_names(&mender.fs, inode, fact);
            if is_used && u32::from(stored) != observed {
                wrong.push((inode, fact, observed));
            }
        });
        for (inode, fact, observed) in wrong {
            settle(mender, inode, fact, observed);
        }
    }
}

fn settle(mender: &mut Mender<'_>, inode: InodeNo, fact: InodeFact, observed: u32) {
    let Some(record) = mender.read_inode(inode) else { return };
    let raw = RawInode::from_record(&record);
    if observed == 0 {
        if fact.kind() != Kind::Directory && is_empty(&raw) {
            mender.write_inode(inode, &mut vec![0; record.len()]);
            mender.inodes.revise(inode, InodeFact::default(), 0);
            if mender.fs.counts_quota() {
                mender.remains.quota.discharge(Owner::of(&raw), 0, 1);
            }
        }
        return;
    }
    if fact.kind() == Kind::Directory && observed > LINKS_MAX {
        let set = mender.fs.superblock.s_feature_ro_compat.get() | ro_compat::DIR_NLINK;
        mender.fs.superblock.s_feature_ro_compat.set(set);
        mender.fs.geometry.features.ro_compat |= ro_compat::DIR_NLINK;
    }
    let count =
        if fact.kind() == Kind::Directory && observed > LINKS_MAX { 1 } else { observed.min(LINKS_MAX) };
    let count = count as u16;
    if raw.i_links_count.get() != count {
        mender.amend_inode(inode, |raw| raw.i_links_count.set(count));
    }
    mender.inodes.revise(inode, fact, count);
}
