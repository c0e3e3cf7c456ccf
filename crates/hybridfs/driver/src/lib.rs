// SPDX-License-Identifier: MIT OR Apache-2.0
//! hybridfs to live in: making one ([`mkfs`]), and a [`FileSystem`](fsmend_vfs::FileSystem) over any writable device ([`Hybrid`]).
//!
//! ```text
//! fs        the trait              ──► namei, file, directory, attributes      what operations do to inodes in memory
//! recover   which state counts     ──► volume   inodes, numbers, room          tree   maps in memory
//! mkfs                                 commit   all that has changed, in one segment ──► segment, space (what is free), io
//! ```
//!
//! Invariants: nothing that a durable segment leads to is overwritten, but contents of data blocks; what a segment gives back is used when two more are durable; an operation
//! makes sure of its room in the log before it changes anything, and the last blocks are for removing. Numbers from the disk are checked before
//! anything is computed with them.
//!
//! Source: Zhang and Ghose, "hFS" (EuroSys 2007); docs/formats/hybridfs.md.

// Numbers here come from disks, and go there: a cast that loses bits must say why.
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod admission;
mod attributes;
pub(crate) mod audit;
mod cleaner;
mod commit;
mod directory;
mod file;
mod fs;
mod group;
mod io;
pub mod mkfs;
mod namei;
mod recover;
mod segment;
mod space;
mod tree;
mod volume;

pub use cleaner::Cleaning;
pub use file::SIZE_MAX;
pub use fs::{Hybrid, PIN_ATTRIBUTE};
pub use namei::LINKS_MAX;
pub use recover::{MountError, MountOptions};
pub use volume::Pin;
