// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of ext2, ext3 and ext4: raw structures in disk order, what they mean, their checksums.
//!
//! This crate does no I/O and starts no thread. Raw structs keep the names of the format's documentation
//! (`s_inodes_per_group`); parsed types use plain words. Sources: the kernel's `Documentation/filesystems/ext4`.

// Numbers here come from disks, and go there: a cast that loses bits must say why.
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub mod casefold;
pub mod checksum;
pub mod directory;
pub mod dirhash;
pub mod encryption;
pub mod extent;
pub mod fast_commit;
pub mod features;
pub mod geometry;
pub mod group;
pub mod htree;
pub mod inode;
pub mod journal;
pub mod orphan_file;
pub mod quota;
pub mod rext3;
pub mod settle;
pub mod superblock;
pub mod xattr;
