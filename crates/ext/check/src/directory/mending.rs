// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of a directory cannot be repaired block by block.

use fsmend_base::InodeNo;

/// What of a directory cannot be mended block by block: the repair has to do it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mending {
    /// It has to be written anew: an index, holes, names that stand twice.
    pub rewrite: bool,
    /// It is larger, or its index deeper, than the superblock's features allow.
    pub needs_large_dir: bool,
    /// Directories that have another name, which stays: those that hold the one that goes, and who is named there.
    pub names_elsewhere: Vec<(InodeNo, InodeNo)>,
}
