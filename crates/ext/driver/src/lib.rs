// SPDX-License-Identifier: MIT OR Apache-2.0
//! ext2, ext3, rext3 and ext4 to live in: making one ([`mkfs`]), and a [`FileSystem`](fsmend_vfs::FileSystem) over any writable device ([`Ext`]).
//!
//! ```text
//! fs        the trait          ──► namei, file, directory, xattr       what operations do to inodes, names and contents
//! mount     from device to volume  ──► map, inode, group, alloc, region   which block is whose; policy proposes, alloc decides
//! volume    operations, transactions  ──► fsmend-blockcache            blocks in memory; journal: how they come to the device
//! ```
//!
//! Invariants: all numbers from the disk are checked before anything is computed with them, and what cannot be is an error, never a panic; an operation
//! that fails changes nothing; nothing is written home before it is in the log, where there is one. This crate knows nothing of `ext/check`, and
//! the checker nothing of it: they share only the format, so that each can be held against the other.
//!
//! Sources: "ext4 Data Structures and Algorithms"; McKusick, "Improving the Performance of fsck in FreeBSD".

// Numbers here come from disks, and go there: a cast that loses bits must say why.
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod acl;
mod alloc;
mod directory;
mod file;
mod fs;
mod group;
mod inline;
mod inode;
mod inode_flags;
mod journal;
mod map;
pub mod mkfs;
mod mount;
mod namei;
mod orphan;
pub mod policy;
mod quota;
mod region;
mod volume;
mod xattr;

pub use fs::Ext;
pub use fsmend_blockcache::Unwritable;
pub use mount::{MountError, MountOptions};
pub use region::RegionRoom;
