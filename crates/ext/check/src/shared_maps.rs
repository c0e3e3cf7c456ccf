// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that share blocks with so many others that looking at all of them would take too long.
//!
//! A block belongs to one file. Where many files name the same blocks, every one of them has to be looked at to tell who owns what,
//! and the number of files is the only bound. So a scan counts the claims on blocks that were claimed before, and the blocks of maps that
//! it reads. When either is more than the file system has, the files cannot all get blocks of their own, and a [`MapWalkLimiter`] decides,
//! in the order of inodes, whose map is given up: what is not yet claimed is always admitted, and what is claimed as
//! long as it is not more than the file system has. On a file system that shares blocks on purpose (`shared_blocks`) only
//! blocks of maps count.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use fsmend_base::InodeNo;
use fsmend_engine::claims::SharedBitmap;
use fsmend_ext_format::features::ro_compat;
use fsmend_ext_format::geometry::Geometry;

/// The inodes whose maps have been given up.
#[derive(Debug, Default)]
pub struct SharedMapInodes(RwLock<BTreeSet<InodeNo>>);

impl SharedMapInodes {
    /// Whether the map of `inode` is not walked.
    pub fn contains(&self, inode: InodeNo) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(&inode)
    }

    /// Whether no map has been given up.
    pub fn is_empty(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Gives up the map of `inode`.
    pub(crate) fn add(&self, inode: InodeNo) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(inode);
    }
}

/// Claims on units that were claimed before are looked into one by one up to so many times the units of the file system. One map that reaches over all
/// others makes as many as there are units: then the others' owners have to be found, and nothing of theirs is given up.
const REPEATED_TIMES_MAX: u64 = 64;

/// Whether so many claims on units that were claimed before are too many to look into.
pub(crate) fn is_too_many(geometry: &Geometry, repeated: u64) -> bool {
    repeated > geometry.clusters_count().saturating_mul(REPEATED_TIMES_MAX)
        && !geometry.features.has_ro_compat(ro_compat::SHARED_BLOCKS)
}

/// What files have claimed so far, in the order of inodes.
pub(crate) struct MapWalkLimiter {
    walked: SharedBitmap,
    /// How many blocks of maps may still be walked again.
    left: u64,
    claimed: SharedBitmap,
    /// How many claims there were on units that were claimed already, of files that were not given up.
    repeated: u64,
}

impl MapWalkLimiter {
    /// For a file system of this geometry.
    pub fn new(geometry: &Geometry) -> Self {
        let (blocks, units) = (geometry.blocks_count, geometry.clusters_count());
        let (walked, claimed) = (SharedBitmap::new(blocks), SharedBitmap::new(units));
        MapWalkLimiter { walked, left: blocks, claimed, repeated: 0 }
    }

    /// Claims runs of units; `false` when too many of them were claimed before, and then none is.
    pub fn claims(&mut self, geometry: &Geometry, metadata: &SharedBitmap, runs: &[(u64, u64)]) -> bool {
        let has_clusters = geometry.cluster_blocks > 1;
        let (mut repeated, mut fresh) = (self.repeated, Vec::new());
        let runs = runs.iter().map(|(start, count)| (*start, start.saturating_add(*count)));
        for (start, end) in runs.map(|(start, end)| (start, end.min(self.claimed.len()))) {
            let mut at = start;
            while at < end {
                let (word, next) = (at / 64, end.min((at / 64 + 1) * 64));
                let mask = u64::MAX >> (64 - (next - at)) << (at % 64);
                let fixed = if has_clusters { 0 } else { metadata.load_word(word) };
                let before = (self.claimed.set_word(word, mask) | fixed) & mask;
                repeated += u64::from(before.count_ones());
                fresh.push((word, mask & !before));
                if is_too_many(geometry, repeated) {
                    fresh.iter().for_each(|(word, mask)| self.claimed.clear_word(*word, *mask));
                    return false;
                }
                at = next;
            }
        }
        self.repeated = repeated;
        true
    }

    /// Whether `block`, which is within the file system, may be walked.
    pub fn admits(&mut self, block: u64) -> bool {
        let bit = 1 << (block % 64);
        if self.walked.set_word(block / 64, bit) & bit == 0 {
            return true;
        }
        let admitted = self.left > 0;
        self.left = self.left.saturating_sub(1);
        admitted
    }
}
