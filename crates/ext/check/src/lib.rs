// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks of ext2, ext3 and ext4: superblock, groups, inodes, block maps, attributes, directories, journal,
//! orphans, quota; each beside the catalogue rows that it raises.
//!
//! Two ways lead through a record (see ARCHITECTURE.md, "Fast path and inspection"): the fast path decides that
//! nothing at all is unusual about it; whatever it cannot prove clean is *inspected* in full, on a private copy
//! that is mended on the way, so that later checks see the file system as it will be after repair.

// Numbers here come from disks, and go there: a cast that loses bits must say why.
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub(crate) mod allocation;
pub mod bad_blocks;
pub mod catalogue;
pub(crate) mod context;
pub(crate) mod crosscheck;
pub mod directory;
pub(crate) mod estimate;
mod expected;
pub(crate) mod extent;
pub mod fast;
pub mod file_types;
pub mod free_space;
pub(crate) mod group;
pub(crate) mod indirect;
pub(crate) mod inline_data;
pub mod inode;
pub mod journal;
pub mod layout;
pub mod links;
pub mod mmp;
pub mod online;
pub(crate) mod orphan;
pub(crate) mod owners;
pub(crate) mod passes;
pub(crate) mod paths;
pub mod precheck;
pub(crate) mod quota;
pub(crate) mod reading;
pub(crate) mod region;
pub mod repair;
pub(crate) mod resize_inode;
mod rounds;
pub mod run;
pub(crate) mod scan;
pub mod scatter;
pub mod shapes;
pub(crate) mod summary;
pub mod superblock;
pub mod xattr;

pub use context::{Fs, Group};
pub use fsmend_engine::Refusal;
