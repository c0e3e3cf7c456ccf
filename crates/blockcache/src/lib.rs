// SPDX-License-Identifier: MIT OR Apache-2.0
//! What drivers of all families share: blocks of metadata in memory ([`BlockCache`]), where new blocks are wished for ([`policy`]), which are free
//! ([`FreeMap`], [`PendingFrees`]), what is mounted and held ([`MountState`], [`HeldInodes`]), the rules for names ([`names`]), and access control lists
//! ([`acl`]).
//!
//! ```text
//! driver:  operation ──► change blocks in BlockCache ──► finish, or take back when the operation fails
//!              │ new block: policy proposes ─► FreeMap finds one     │
//!              ▼                                                    ▼
//!          with a journal: changed_blocks ──► log ──► committed ──► write_home
//!          without:        write_changed, in the order that `then` asked for
//! ```
//!
//! Invariants: no file system is named here; an operation that fails leaves the cache as it was; a version of a block that was committed or ordered
//! before another never changes; a policy cannot make an allocation wrong, only good or bad.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub mod acl;
mod cache;
mod free_map;
pub mod names;
mod pending;
pub mod policy;
mod state;
mod unwritable;

pub use cache::{Block, BlockCache};
pub use free_map::FreeMap;
pub use pending::PendingFrees;
pub use state::{HeldInodes, MountState};
pub use unwritable::Unwritable;
