// SPDX-License-Identifier: MIT OR Apache-2.0
//! A directory to be inspected, and what else is known then.

use fsmend_base::InodeNo;
use fsmend_engine::claims::SharedBitmap;

use crate::inode::MapRun;

/// A directory to be inspected.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The directory.
    pub inode: InodeNo,
    /// Its mended record.
    pub record: Vec<u8>,
    /// Its blocks in the order of the file (empty when inline).
    pub runs: Vec<MapRun>,
    /// Whether its entries live in the inode.
    pub inline: bool,
}

/// What the inspection of directories has to know beside the inode facts.
#[derive(Clone, Copy, Default)]
pub struct Surroundings<'a> {
    /// Blocks on the list of bad blocks, ascending.
    pub bad_blocks: &'a [u64],
    /// Units that several owners claim.
    pub contested: Option<&'a SharedBitmap>,
}
