//! Maps that share blocks with so many others that walking all of them would never end.
//!
//! A block of a map belongs to one file. Where files share trees, every one of them has to be walked to tell what it owns,
//! and the number of files is the only bound. So a scan counts the blocks of maps that it reads. When they are more than
//! the file system has, the files cannot all get blocks of their own either, and a [`MapWalkLimiter`] decides, in the order of
//! inodes, whose map is given up: blocks that nobody has walked before are always walked, and blocks that somebody has as
//! long as they are not more than the file system has.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use fsmend_base::InodeNo;
use fsmend_engine::claims::SharedBitmap;

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

/// Blocks of maps that have been walked.
pub(crate) struct MapWalkLimiter {
    walked: SharedBitmap,
    /// How many blocks may still be walked again.
    left: u64,
}

impl MapWalkLimiter {
    /// For a file system of so many blocks.
    pub fn new(blocks: u64) -> Self {
        MapWalkLimiter { walked: SharedBitmap::new(blocks), left: blocks }
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
