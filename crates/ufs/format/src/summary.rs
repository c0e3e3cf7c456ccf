// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of directories and of what is free: in every cylinder group, in the summary area for all of them (16 bytes a group), and their sums in the superblock.

use crate::order::ByteOrder;

/// Bytes of the counts of a group.
pub const COUNTS_SIZE: usize = 16;

/// Counts of a group (`i32`) or of all (`i64`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts<N> {
    /// Directories.
    pub directories: N,
    /// Blocks that are free as a whole.
    pub free_blocks: N,
    /// Free inodes.
    pub free_inodes: N,
    /// Free fragments of blocks that are in use in part.
    pub free_fragments: N,
}

impl Counts<i32> {
    /// The counts at the start of `bytes`; zeroes where they end.
    pub fn parse(bytes: &[u8], order: ByteOrder) -> Counts<i32> {
        Counts {
            directories: order.i32(bytes, 0),
            free_blocks: order.i32(bytes, 4),
            free_inodes: order.i32(bytes, 8),
            free_fragments: order.i32(bytes, 12),
        }
    }

    /// Puts them at the start of `bytes`.
    pub fn store(&self, bytes: &mut [u8], order: ByteOrder) {
        order.put_i32(bytes, 0, self.directories);
        order.put_i32(bytes, 4, self.free_blocks);
        order.put_i32(bytes, 8, self.free_inodes);
        order.put_i32(bytes, 12, self.free_fragments);
    }
}

impl Counts<i64> {
    /// Adds those of a group.
    pub fn add(&mut self, group: Counts<i32>) {
        self.directories = self.directories.saturating_add(group.directories.into());
        self.free_blocks = self.free_blocks.saturating_add(group.free_blocks.into());
        self.free_inodes = self.free_inodes.saturating_add(group.free_inodes.into());
        self.free_fragments = self.free_fragments.saturating_add(group.free_fragments.into());
    }
}
