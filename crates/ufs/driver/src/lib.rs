// SPDX-License-Identifier: MIT OR Apache-2.0
//! UFS1 and UFS2 to live in, in either byte order: making one ([`mkfs`](mkfs::mkfs)), and a [`FileSystem`](fsmend_vfs::FileSystem) over any writable device ([`Ufs`]).
//!
//! ```text
//! fs        the trait            ──► namei, file, directory, attributes   what operations do to inodes, names and contents
//! mount     from device to volume    ──► map, inode, alloc, groups         which fragment is whose; policy proposes, alloc decides
//! volume    operations, commits      ──► fsmend-blockcache                 fragments of metadata in memory, and their order on the way to the device
//! ```
//!
//! Invariants: all numbers from the disk are checked before anything is computed with them, and what cannot be is an error, never a panic; an operation
//! that fails changes nothing. This crate knows nothing of `ufs/check`, and the checker nothing of it: they share only the format, so that each can be
//! held against the other.
//!
//! # Order of writes
//!
//! There is no journal. As with soft updates, nothing points to what is not initialised, and nothing is used again before the last pointer to it is gone. The
//! cache is in units of fragments; [`BlockCache::then`](fsmend_blockcache::BlockCache::then) stands between the steps of an operation:
//!
//! - new file: inode, then the name; new directory: its contents, then its inode and the parent's link count, then the name;
//! - name taken away: the entry, then the link count or the emptied inode;
//! - file that grows: data and new indirect blocks, then the inode with its size, then pointers in indirect blocks that were there before. (A size beyond the last
//!   block is mended by a preen run, a pointer behind the end is not.) A file that is cut: pointers in indirect blocks that stay, then the inode;
//! - cylinder groups are written before all of that with what was taken, and after it with what was given back; so a crash leaves fragments and inodes marked as
//!   used that are not, never the reverse. Sums in the summary area and the superblock are written when everything is made durable.
//!
//! Sources: `docs/formats/ufs.md`; McKusick and Ganger, "Soft Updates"; McKusick, "Improving the Performance of fsck in FreeBSD".

// Numbers here come from disks, and go there: a cast that loses bits must say why.
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod acl;
mod alloc;
mod attributes;
mod directory;
mod file;
mod flags;
mod fs;
mod groups;
mod hints;
mod inode;
mod map;
pub mod mkfs;
mod mount;
mod namei;
pub mod policy;
mod truncate;
mod volume;

pub use fs::Ufs;
pub use fsmend_blockcache::Unwritable;
pub use mount::{MountError, MountOptions};
