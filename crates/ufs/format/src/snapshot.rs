// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots: regular files with the snapshot flag, listed in the superblock, whose block `i` shows block `i` of the file system as it was.
//!
//! Behind the last of these blocks follows a list of numbers of blocks that were copied from the start: a count, then that many 64-bit block addresses, ascending.

/// Snapshots of a file system at most.
pub const SNAPSHOTS_MAX: usize = 20;
/// A pointer of a snapshot: the block was free, there is nothing to keep.
pub const NOT_COPIED: u64 = 1;
/// A pointer of a snapshot: the block belongs to another snapshot.
pub const OTHER_SNAPSHOT: u64 = 2;
