// SPDX-License-Identifier: MIT OR Apache-2.0
//! The map of static metadata.

use fsmend_base::BlockRange;
use fsmend_engine::claims::SharedBitmap;
use fsmend_engine::{Findings, Problem};
use fsmend_ext_format::features::Incompat;

use super::places::{KINDS, heads};
use crate::Group;
use crate::mmp;
use crate::superblock::Settled;

/// Marks all static metadata in `metadata` (one bit per block): superblocks, descriptors, reserved descriptors, bitmaps,
/// inode tables, the MMP block. Conflicts among them were settled by [`load`](super::load); here the MMP block joins. Tells whether
/// its place, if it has to have one, can be right.
pub fn mark_metadata(
    settled: &Settled,
    groups: &[Group],
    metadata: &SharedBitmap,
    findings: &mut Findings,
) -> bool {
    let geometry = &settled.geometry;
    if geometry.block_size == 1024 && geometry.first_data_block == 0 {
        set(metadata, BlockRange::new(0, 1));
    }
    for (range, _) in heads(geometry) {
        set(metadata, range);
    }
    for group in groups {
        for kind in KINDS.into_iter().filter(|kind| kind.place(&group.desc) != 0) {
            set(metadata, kind.range(geometry, &group.desc));
        }
    }
    if geometry.features.has_incompat(Incompat::MMP) {
        let block = settled.superblock.s_mmp_block.get();
        if block <= u64::from(geometry.first_data_block)
            || block >= geometry.blocks_count
            || metadata.get(block)
        {
            findings.raise(Problem::new(&mmp::problems::PLACE).stored(block));
            return false;
        }
        set(metadata, BlockRange::new(block, 1));
    }
    true
}

/// Sets the bits of `range`.
pub(super) fn set(bitmap: &SharedBitmap, range: BlockRange) {
    let end = range.end().min(bitmap.len());
    let mut block = range.start.0;
    while block < end {
        let (word, shift) = (block / 64, block % 64);
        let count = (64 - shift).min(end - block);
        bitmap.set_word(word, (u64::MAX >> (64 - count)) << shift);
        block += count;
    }
}
