// SPDX-License-Identifier: MIT OR Apache-2.0
//! The map of the resize inode, once it was found sound.

use std::sync::OnceLock;

use fsmend_ext_format::inode::RawInode;
use zerocopy::IntoBytes;

/// The map of the resize inode, once it was found sound. To find that takes a read of all reserved blocks, mostly 4 MB, and two want to
/// know it: the inspection of the inode, beside all others, and [`check`].
#[derive(Debug, Default)]
pub struct SoundMap(OnceLock<(RawInode, Extent)>);

impl SoundMap {
    /// What the map takes, if it was `raw` that was found sound.
    pub(crate) fn of(&self, raw: &RawInode) -> Option<Extent> {
        let (known, extent) = self.0.get()?;
        (known.as_bytes() == raw.as_bytes()).then_some(*extent)
    }

    /// Notes that `raw` was found sound. If another thread came first, it found the same.
    pub(crate) fn set(&self, raw: &RawInode, extent: Extent) {
        let _ = self.0.set((*raw, extent));
    }
}

/// What the map of a sound resize inode takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Number of blocks, those of the map included.
    pub blocks: u64,
    /// The last block of the "file".
    pub last: Option<u64>,
}
