// SPDX-License-Identifier: MIT OR Apache-2.0
//! Link counts as they have to be: worked out group by group, side by side.

use fsmend_base::width;
use fsmend_engine::Part;
use fsmend_engine::crosscheck::links::{WrongCount, wrong_of_chunk};
use fsmend_engine::inodes::{InodeFact, Kind};
use fsmend_engine::pool::Stage;
use fsmend_ext_format::features::RoCompat;
use fsmend_ext_format::inode::RawInode;

use super::is_empty;
use crate::Fs;
use crate::inode::seal::seal_inode;
use crate::quota::{self, Owner};
use crate::repair::RepairContext;
use fsmend_ext_format::inode::LINKS_MAX;

/// The work, as traces call it.
pub const STAGE: [Stage; 1] = [Stage { name: "link counts", pass: 1 }];
/// Counts that are worked out before the first of them is set.
const COUNTS_AT_ONCE: usize = 1 << 14;

/// What becomes of an inode with a wrong count.
enum Settled {
    /// Nothing: it cannot be read.
    Left,
    /// It was empty and nameless, and goes. Whose it was.
    Freed(Owner),
    /// It has so many links; its record, if that has to change.
    Counted(u16, Option<Vec<u8>>),
}

/// Sets the link counts that differ from the number of names, and frees what is empty and nameless. What has contents has been
/// given a name by now, if it could be.
pub(crate) fn mend(context: &mut RepairContext<'_>) {
    let mut wrong = Vec::new();
    for chunk in 0..context.inodes.chunk_count() {
        wrong_of_chunk(&context.fs, &context.inodes, chunk, &mut wrong);
        if wrong.len() >= COUNTS_AT_ONCE {
            settle_all(context, &std::mem::take(&mut wrong));
        }
    }
    settle_all(context, &wrong);
}

fn settle_all(context: &mut RepairContext<'_>, wrong: &[WrongCount]) {
    let settle = |fs: &Fs<'_>, wrong: &WrongCount| settle(fs, wrong);
    let settled = context.side_by_side(&STAGE, wrong, |wrong| wrong.inode, settle);
    for (WrongCount { inode, fact, observed, .. }, settled) in wrong.iter().zip(settled) {
        context.overlay.mending(Some(Part::Inode(*inode)));
        match settled {
            Settled::Left => {}
            Settled::Freed(owner) => {
                context.put_inode(*inode, vec![0; context.fs.geometry.inode_size as usize]);
                context.inodes.revise(*inode, InodeFact::default(), 0);
                if context.fs.counts_quota() {
                    context.repair_input.quota.discharge(owner, 0, 1);
                }
            }
            Settled::Counted(count, record) => {
                if is_saturated(*fact, *observed) {
                    allow_many(context);
                }
                record.into_iter().for_each(|record| context.put_inode(*inode, record));
                context.inodes.revise(*inode, *fact, count);
            }
        }
    }
}

/// Whether a directory has more names than a count can say.
fn is_saturated(fact: InodeFact, observed: u64) -> bool {
    fact.kind() == Kind::Directory && observed > u64::from(LINKS_MAX)
}

/// Sets the feature for directories with more names than a count can say.
fn allow_many(context: &mut RepairContext<'_>) {
    context.fs.superblock.s_feature_ro_compat |= RoCompat::DIR_NLINK.bits();
    context.fs.geometry.features.ro_compat |= RoCompat::DIR_NLINK;
}

fn settle(fs: &Fs<'_>, wrong: &WrongCount) -> Settled {
    let WrongCount { inode, fact, observed, .. } = *wrong;
    let Some(Ok(mut record)) = fs.read_inode(inode) else { return Settled::Left };
    let mut raw = RawInode::from_record(&record);
    if observed == 0 {
        let goes = fact.kind() != Kind::Directory && is_empty(&record);
        return if goes { Settled::Freed(quota::owner_of(&raw)) } else { Settled::Left };
    }
    let count =
        width::low_u16(if is_saturated(fact, observed) { 1 } else { observed.min(u64::from(LINKS_MAX)) });
    if raw.i_links_count.get() == count {
        return Settled::Counted(count, None);
    }
    raw.i_links_count.set(count);
    raw.store(&mut record);
    seal_inode(fs, inode, &mut record);
    Settled::Counted(count, Some(record))
}
