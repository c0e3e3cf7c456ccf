//! What of directories and the tree takes the facts of the whole file system to be mended: names that go because another one stays,
//! the root, directories written anew, `..`, and what no name leads to.

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
use fsmend_engine::tree::TreeFinding;
use fsmend_ext_format::features::incompat;

use super::lost_found::LostFound;
use super::{Directory, Mending};
use crate::repair::Mender;

/// What the checks of directories and of the tree leave for the mender.
#[derive(Clone, Debug, Default)]
pub struct NameRemains {
    /// Directories to be written anew, in the order of their numbers.
    pub rewrites: Vec<InodeNo>,
    /// Names that go: the directory that holds one, and who is named there.
    pub names_elsewhere: Vec<(InodeNo, InodeNo)>,
    /// What is wrong with the tree.
    pub tree: Vec<TreeFinding>,
    /// Directories whose `..` was lost, or led nowhere.
    pub parent_entries: Vec<InodeNo>,
    /// What has the name `lost+found`.
    pub lost_found: LostFound,
    /// Directories of a size, or depth, for which the superblock has no feature.
    pub needs_large_dir: bool,
}

impl NameRemains {
    /// Notes what the inspection of `directory` left.
    pub fn note(&mut self, directory: InodeNo, mending: Mending) {
        if mending.rewrite {
            self.rewrites.push(directory);
        }
        self.needs_large_dir |= mending.needs_large_dir;
        self.names_elsewhere.extend(mending.names_elsewhere);
    }
}

/// Writes all directories that lie in blocks anew, as far as there is memory.
pub(crate) fn optimise(mender: &mut Mender<'_>) {
    let directories: Vec<InodeNo> =
        mender.inodes.directories().iter().map(|fact| InodeNo(fact.inode)).collect();
    for inode in directories {
        if mender.is_half_full() {
            return;
        }
        let is_in_blocks = Directory::open(&mender.fs, inode)
            .is_some_and(|directory| !directory.inline && is_readable(mender, &directory));
        if is_in_blocks {
            rewrite::rewrite(mender, inode, &[]);
        }
    }
}

fn is_readable(mender: &Mender<'_>, directory: &Directory) -> bool {
    directory.runs.iter().all(|run| {
        (0..u64::from(run.count))
            .all(|within| mender.read_block(BlockNo(run.physical.saturating_add(within))).is_ok())
    })
}

/// Mends directories and the tree.
pub(crate) fn mend(mender: &mut Mender<'_>) {
    let names = std::mem::take(&mut mender.remains.names);
    if names.needs_large_dir {
        let set = mender.fs.superblock.s_feature_incompat.get() | incompat::LARGEDIR;
        mender.fs.superblock.s_feature_incompat.set(set);
        mender.fs.geometry.features.incompat |= incompat::LARGEDIR;
    }
    let mut elsewhere: BTreeMap<InodeNo, Vec<InodeNo>> = BTreeMap::new();
    for (holder, child) in names.names_elsewhere {
        elsewhere.entry(holder).or_default().push(child);
    }
    for (holder, mut children) in elsewhere {
        children.sort_unstable();
        remove::names(mender, holder, &|inode, _| children.binary_search(&inode).is_ok());
    }
    make::root(mender);
    for directory in names.rewrites {
        rewrite::rewrite(mender, directory, &[]);
    }
    tree::connect(mender, names.tree, names.parent_entries, names.lost_found);
}
