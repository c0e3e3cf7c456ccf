// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a format tells the engine about one file system under check. Cross-checks add traits of their own to this one, each beside the check that
//! needs it ([`crosscheck`](crate::crosscheck)); rounds of repair have theirs in [`repair`](crate::repair).
//!
//! A format implements these traits for its own type of an opened file system, and the engine's functions are compiled for that type: no call
//! through a table for an inode, a block or a directory entry.

use fsmend_base::InodeNo;
use fsmend_device::Device;

/// One opened file system. Immutable while stages run; shared by all workers.
pub trait Volume: Sync {
    /// What it is read from, with everything laid over that the check assumes.
    fn device(&self) -> &dyn Device;

    /// The root directory.
    fn root(&self) -> InodeNo;

    /// The first number of an inode: 1, or 0 where inode 0 exists but is never used.
    fn first_inode(&self) -> u32 {
        1
    }

    /// The inodes of one chunk of the table of inodes, the last chunk may have fewer.
    fn inodes_per_chunk(&self) -> u32;

    /// Blocks, as problems count them, in one unit of claims: 1 but where space is given out in clusters.
    fn unit_blocks(&self) -> u64 {
        1
    }

    /// Whether structures that no inode owns (superblocks, inode tables, maps) lie in claim unit `unit`.
    fn is_static(&self, unit: u64) -> bool;
}
