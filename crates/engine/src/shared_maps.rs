// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that share blocks with so many others that looking at all of them would take too long.
//!
//! A block belongs to one file. Where many files name the same blocks, every one of them has to be looked at to tell who owns what,
//! and the number of files is the only bound. So a scan counts the claims on units that were claimed before, and the blocks of maps that
//! it reads. When either is more than the file system has, the files cannot all get blocks of their own, and a [`MapWalkLimiter`] decides,
//! in the order of inodes, whose map is given up: what is not yet claimed is always admitted, and what is claimed as
//! long as it is not more than the file system has.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

use fsmend_base::InodeNo;

use crate::claims::{SharedBitmap, words_of};

/// The inodes whose maps have been given up.
#[derive(Debug, Default)]
pub struct SharedMapInodes {
    /// Whether there is any: asked for every inode.
    has_any: AtomicBool,
    inodes: RwLock<BTreeSet<InodeNo>>,
}

impl SharedMapInodes {
    /// Whether the map of `inode` is not walked.
    #[inline]
    pub fn contains(&self, inode: InodeNo) -> bool {
        !self.is_empty() && self.inodes.read().unwrap_or_else(PoisonError::into_inner).contains(&inode)
    }

    /// Whether no map has been given up.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.has_any.load(Relaxed)
    }

    /// Gives up the map of `inode`.
    pub fn add(&self, inode: InodeNo) {
        self.inodes.write().unwrap_or_else(PoisonError::into_inner).insert(inode);
        self.has_any.store(true, Relaxed);
    }
}

/// Claims on units that were claimed before are looked into one by one up to so many times the units of the file system. One map that reaches over all
/// others makes as many as there are units: then the others' owners have to be found, and nothing of theirs is given up.
const REPEATED_TIMES_MAX: u64 = 64;

/// Whether so many claims on units that were claimed before are too many to look into on a file system of so many units.
pub fn is_too_many(units: u64, repeated: u64) -> bool {
    repeated > units.saturating_mul(REPEATED_TIMES_MAX)
}

/// What files have claimed so far, in the order of inodes.
pub struct MapWalkLimiter {
    walked: SharedBitmap,
    /// How many blocks of maps may still be walked again.
    left: u64,
    claimed: SharedBitmap,
    /// How many claims there were on units that were claimed already, of files that were not given up.
    repeated: u64,
    /// Whether files may share as many units as they like.
    may_share: bool,
}

impl MapWalkLimiter {
    /// For a file system with a bit in `walked` for each block that may hold a part of a map, and one in `claimed` for each unit; those that no inode may claim are set. So many
    /// blocks may be walked `again`.
    pub fn new(walked: SharedBitmap, claimed: SharedBitmap, again: u64) -> Self {
        MapWalkLimiter { walked, left: again, claimed, repeated: 0, may_share: false }
    }

    /// Files share units on purpose: only blocks of maps count.
    pub fn sharing(self, may_share: bool) -> Self {
        MapWalkLimiter { may_share, ..self }
    }

    /// Claims runs of units; `false` when too many of them were claimed before, and then none is.
    pub fn claims(&mut self, runs: &[(u64, u64)]) -> bool {
        let (units, mut repeated, mut fresh) = (self.claimed.len(), self.repeated, Vec::new());
        for (word, mask) in runs.iter().flat_map(|(start, count)| words_of(*start, *count, units)) {
            let before = self.claimed.set_word(word, mask) & mask;
            repeated += u64::from(before.count_ones());
            if mask != before {
                fresh.push((word, mask & !before));
            }
            if !self.may_share && is_too_many(units, repeated) {
                fresh.iter().for_each(|(word, mask)| self.claimed.clear_word(*word, *mask));
                return false;
            }
        }
        self.repeated = repeated;
        true
    }

    /// Whether `count` blocks from `block` on may be walked.
    pub fn admits(&mut self, block: u64, count: u64) -> bool {
        let walked = words_of(block, count, self.walked.len());
        let again = walked.map(|(word, mask)| (self.walked.set_word(word, mask) & mask).count_ones());
        let again: u64 = again.map(u64::from).sum();
        let admitted = again <= self.left;
        self.left = self.left.saturating_sub(again);
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(blocks: u64, units: u64) -> MapWalkLimiter {
        MapWalkLimiter::new(SharedBitmap::new(blocks), SharedBitmap::new(units), blocks)
    }

    #[test]
    fn a_unit_that_nothing_claims_is_always_admitted() {
        let mut limiter = limiter(1, 100);
        for _ in 0..=REPEATED_TIMES_MAX {
            assert!(limiter.claims(&[(0, 99)]));
        }
        // 6336 of the 6400 claims that may be repeated were.
        assert!(!limiter.claims(&[(0, 99)]));
        assert!(limiter.claims(&[(99, 1)]));
        assert!(limiter.claims(&[(0, 64)]));
        assert!(!limiter.claims(&[(0, 1)]));
    }

    #[test]
    fn what_a_refused_map_would_have_claimed_stays_free() {
        let mut limiter = limiter(1, 2);
        for _ in 0..=2 * REPEATED_TIMES_MAX {
            assert!(limiter.claims(&[(0, 1)]));
        }
        assert!(!limiter.claims(&[(1, 1), (0, 1)]));
        assert!(limiter.claims(&[(1, 1)]));
    }

    #[test]
    fn blocks_of_maps_are_walked_again_as_often_as_there_are_blocks() {
        let mut limiter = limiter(100, 1);
        assert!(limiter.admits(0, 60));
        assert!(limiter.admits(0, 60));
        assert!(!limiter.admits(0, 60));
        assert!(limiter.admits(60, 40), "it was never walked");
    }

    #[test]
    fn files_that_share_on_purpose_may_share_all() {
        let mut limiter = limiter(1, 1).sharing(true);
        assert!((0..3 * REPEATED_TIMES_MAX).all(|_| limiter.claims(&[(0, 1)])));
    }
}
