// SPDX-License-Identifier: MIT OR Apache-2.0
//! Owners of blocks that were claimed more than once: what only this family can tell the [search](fsmend_engine::crosscheck::owners), and the repair.
//!
//! | file | what |
//! |---|---|
//! | `gather.rs` | what one inode owns of contested units |
//! | `records.rs` | the inodes that are looked at |
//! | `repair.rs` | the order in which contested units are dealt with |
//! | `keepers.rs` | who keeps what is contested |
//! | `borne_out.rs` | which claims a file's own size and space in use speak against |
//! | `relocate.rs` | places of their own for the others |
//! | `copy_room.rs` | what these share |
//! | `names.rs` | names of files that are not to keep them |

mod borne_out;
mod copy_room;
mod gather;
mod keepers;
mod names;
pub(crate) mod problems;
mod records;
mod relocate;
pub(crate) mod repair;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicBool;

use fsmend_engine::claims::Claims;
use fsmend_engine::crosscheck::owners::{ClaimLookup, OwnerRows};
pub use fsmend_engine::crosscheck::owners::{Contest, Owner, Search, Share};

use crate::Fs;
use gather::Gatherer;

/// Shares that one worker gathers at least. Tests look at many windows.
pub(crate) const SHARES_MIN: usize =
    if cfg!(test) { 16 } else { fsmend_engine::crosscheck::owners::SHARES_MIN };

impl ClaimLookup for Fs<'_> {
    type Gatherer<'s>
        = Gatherer<'s>
    where
        Self: 's;

    fn gatherer<'s>(&'s self, claims: &'s Claims, cancel: &'s AtomicBool) -> Gatherer<'s> {
        Gatherer::new(self, claims, cancel)
    }

    fn owner_rows(&self) -> OwnerRows {
        OwnerRows { multiply_claimed: &problems::MULTIPLY_CLAIMED, shares: &problems::SHARES_BLOCKS }
    }
}
