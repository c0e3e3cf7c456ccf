// SPDX-License-Identifier: MIT OR Apache-2.0
//! UFS1 and UFS2, the file systems of FreeBSD (FFS), in the byte order of either kind of machine: what stands where, and what it means. Does no I/O.
//!
//! - [`order`]: byte orders, versions, fields at offsets
//! - [`superblock`]: the superblock, where it and its copies are, its rules; [`geometry`]: what follows from it
//! - [`shape`]: the few numbers that a superblock follows from
//! - [`group`]: cylinder groups with their maps and counts; [`summary`]: the counts of all groups in one area
//! - [`inode`]: inodes of both versions, block maps; [`directory`]: chunks of entries; [`attributes`]: extended attributes
//! - [`journal`]: the journal of soft updates; [`snapshot`]: snapshots; [`quota`]: quota files
//!
//! Source: `docs/formats/ufs.md`, which names FreeBSD's headers (fs.h, dinode.h, dir.h, extattr.h).

// Numbers here come from disks, and go there: a cast that loses bits must say why.
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub mod attributes;
pub mod directory;
pub mod geometry;
pub mod group;
pub mod inode;
pub mod journal;
pub mod order;
pub mod quota;
pub mod shape;
pub mod snapshot;
pub mod summary;
pub mod superblock;

pub use geometry::Geometry;
pub use order::{ByteOrder, Version};

/// Bytes of a device sector, which addresses of FreeBSD's tools and the counts of inodes are in.
pub const SECTOR: u64 = 512;
