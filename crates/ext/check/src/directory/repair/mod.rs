// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of directories and the tree takes the facts of the whole file system to be mended: names that go because another one stays,
//! the root, directories rewritten, `..`, and what no name leads to.

mod chains;
mod contents;
mod htree;
mod insert;
mod linear;
mod lost_found;
mod make;
mod outline;
mod remove;
mod rewrite;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeMap;

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::pool::Stage;
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::inode::RawInode;

use super::Directory;
use crate::Fs;
use crate::repair::{Laid, RepairContext, seal_inode};

/// The work, as traces call it.
const NAMES: [Stage; 1] = [Stage { name: "names that go", pass: 1 }];
const REWRITES: [Stage; 1] = [Stage { name: "directories rewritten", pass: 1 }];
/// Directories whose new contents are worked out before the first of them is written.
const REWRITES_AT_ONCE: usize = 64;

/// Writes all directories that lie in blocks anew, as far as there is memory.
///
/// `lost+found` keeps its empty blocks: they are there so that a later repair needs no free ones.
pub(crate) fn optimise(context: &mut RepairContext<'_>) {
    let kept = super::lost_found::find(&context.fs);
    let directories: Vec<InodeNo> =
        context.inodes.directories().iter().map(|fact| InodeNo(fact.inode)).collect();
    for inode in directories.into_iter().filter(|inode| kept != Some(*inode)) {
        if context.is_half_full() {
            return;
        }
        let is_in_blocks = Directory::open(&context.fs, inode)
            .is_some_and(|directory| !directory.inline && is_readable(context, &directory));
        if is_in_blocks {
            rewrite::rewrite(context, inode, &[]);
        }
    }
}

fn is_readable(context: &RepairContext<'_>, directory: &Directory) -> bool {
    directory.runs.iter().all(|run| {
        (0..u64::from(run.count))
            .all(|within| context.read_block(BlockNo(run.physical.saturating_add(within))).is_ok())
    })
}

/// Removes names that go because another one stays: for each directory that holds one, who is named there.
fn remove_elsewhere(context: &RepairContext<'_>, elsewhere: BTreeMap<InodeNo, Vec<InodeNo>>) {
    let mut elsewhere: Vec<(InodeNo, Vec<InodeNo>)> = elsewhere.into_iter().collect();
    elsewhere.iter_mut().for_each(|(_, children)| children.sort_unstable());
    let without = |fs: &Fs<'_>, (holder, children): &(InodeNo, Vec<InodeNo>)| {
        remove::without(fs, *holder, &|inode, _| children.binary_search(&inode).is_ok())
    };
    for part in elsewhere.chunks(context.blocks_at_once()) {
        let writes = context.side_by_side(&NAMES, part, |(holder, _)| *holder, without);
        let mut laid = Laid::default();
        for (item, writes) in part.iter().zip(writes) {
            laid.lay_or(context, writes, |fs| without(fs, item));
        }
    }
}

/// Writes `directories` anew, which ascend. What they will hold is worked out side by side where they are small, many at a time; blocks are
/// taken and given back by one after the other.
fn rewrite_all(context: &mut RepairContext<'_>, directories: &[InodeNo]) {
    for part in directories.chunks(REWRITES_AT_ONCE) {
        let work_out = |fs: &Fs<'_>, inode: &InodeNo| rewrite::work_out_small(fs, *inode);
        let worked_out = context.side_by_side(&REWRITES, part, |inode| *inode, work_out);
        let mut laid = Laid::default();
        for (inode, rewrite) in part.iter().zip(worked_out) {
            let fresh = rewrite.filter(|rewrite| !rewrite.rests_on(&context.fs, &laid));
            let rewrite = fresh.or_else(|| rewrite::work_out(&context.fs, *inode, &[]));
            if let Some(rewrite) = rewrite {
                let has_lost_map = rewrite.has_no_blocks();
                if !rewrite.carry_out(context, &mut laid) && has_lost_map {
                    give_up(context, *inode);
                }
            }
        }
    }
}

/// A directory without a block, for which none is free, says so: the next round clears it.
fn give_up(context: &RepairContext<'_>, inode: InodeNo) {
    let Some((Ok(mut record), place)) = context.fs.read_inode(inode).zip(context.fs.inode_offset(inode))
    else {
        return;
    };
    let mut raw = RawInode::from_record(&record);
    raw.set_size(0);
    raw.store(&mut record);
    seal_inode(&context.fs, inode, &mut record);
    context.overlay.put(place, record);
}

/// Mends directories and the tree.
pub(crate) fn mend(context: &mut RepairContext<'_>) {
    let names = std::mem::take(&mut context.repair_input.names);
    if names.needs_large_dir {
        context.fs.superblock.s_feature_incompat |= Incompat::LARGEDIR.bits();
        context.fs.geometry.features.incompat |= Incompat::LARGEDIR;
    }
    let mut elsewhere: BTreeMap<InodeNo, Vec<InodeNo>> = BTreeMap::new();
    for (holder, child) in names.names_elsewhere {
        elsewhere.entry(holder).or_default().push(child);
    }
    remove_elsewhere(context, elsewhere);
    make::root(context);
    rewrite_all(context, &names.rewrites);
    tree::connect(context, names.tree, names.parent_entries, names.lost_found);
}
