//! The checks of ext2, ext3 and ext4: superblock, groups, inodes, block maps, attributes, directories, journal,
//! orphans, quota; each beside the catalogue rows that it raises.
//!
//! Two ways lead through a record (see ARCHITECTURE.md, "Fast path and inspection"): the fast path decides that
//! nothing at all is unusual about it; whatever it cannot prove clean is *inspected* in full, on a private copy
//! that is mended on the way, so that later checks see the file system as it will be after repair.

pub mod allocation;
pub mod bad_blocks;
pub mod catalogue;
pub mod context;
pub mod crosscheck;
pub mod directory;
pub mod estimate;
mod expected;
pub mod extent;
pub mod fast;
pub mod file_types;
pub mod free_space;
pub mod group;
pub mod indirect;
pub mod inline_data;
pub mod inode;
pub mod journal;
pub mod links;
pub mod mmp;
pub mod online;
pub mod orphan;
pub mod owners;
pub mod passes;
pub mod paths;
pub mod precheck;
pub mod quota;
pub mod reading;
pub mod region;
pub mod repair;
pub mod resize_inode;
mod rounds;
pub mod run;
pub mod scan;
pub mod scatter;
mod shared_maps;
pub mod summary;
pub mod superblock;
pub mod xattr;

pub use context::{Fs, Group};
pub use fsmend_engine::Refusal;
