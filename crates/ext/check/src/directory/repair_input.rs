// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the checks of directories and of the tree leave for the repair.

use fsmend_base::InodeNo;
use fsmend_engine::crosscheck::tree::TreeFinding;

use super::lost_found::LostFound;
use super::mending::Mending;

/// What the checks of directories and of the tree leave for the repair.
#[derive(Clone, Debug, Default)]
pub struct NameRepairInput {
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

impl NameRepairInput {
    /// Notes what the inspection of `directory` left.
    pub fn note(&mut self, directory: InodeNo, mending: Mending) {
        if mending.rewrite {
            self.rewrites.push(directory);
        }
        self.needs_large_dir |= mending.needs_large_dir;
        self.names_elsewhere.extend(mending.names_elsewhere);
    }
}
