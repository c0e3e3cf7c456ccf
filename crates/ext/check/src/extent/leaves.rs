// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the space in use leaves for one leaf of several.

use fsmend_base::BlockNo;
use fsmend_ext_format::extent::{Extent, ExtentHeader, extents, indexes};

use super::{LAST_BLOCK, could_stand, order};
use crate::inode::size;
use crate::inode::subject::Subject;

/// The leaves right below the root, where there are several and nothing else stands between.
pub(super) fn below_root(root: &[u8], header: &ExtentHeader) -> Vec<BlockNo> {
    match (header.depth, header.entries) {
        (1, 2..) => indexes(root, header).map(|index| BlockNo(index.child)).collect(),
        _ => Vec::new(),
    }
}

/// How many blocks the leaf at `here` maps, as `i_blocks` and the other ones of `leaves` say. Nothing, where one of those cannot be read, or has
/// entries that are out of order: then it is not known what is theirs.
pub(super) fn blocks_of(subject: &Subject<'_, '_>, leaves: &[BlockNo], here: BlockNo) -> Option<u64> {
    let cluster = u64::from(subject.fs.geometry.cluster_blocks);
    let nodes = (leaves.len() as u64).checked_mul(cluster)?;
    let mut left = size::told_of_map(subject)?.checked_sub(nodes)?;
    let others = leaves.iter().filter(|leaf| **leaf != here);
    if others.clone().count() + 1 != leaves.len() {
        return None;
    }
    for leaf in others {
        left = left.checked_sub(blocks_in(subject, *leaf, cluster)?)?;
    }
    Some(left)
}

/// The blocks that a sound leaf maps, in whole clusters of `cluster` blocks.
fn blocks_in(subject: &Subject<'_, '_>, leaf: BlockNo, cluster: u64) -> Option<u64> {
    let fs = subject.fs;
    if !fs.is_valid_block(leaf) || fs.metadata.get(leaf.0) {
        return None;
    }
    let bytes = fs.read_block(leaf).ok()?;
    let header = ExtentHeader::parse(&bytes).filter(|header| header.depth == 0)?;
    let listed: Vec<Extent> = extents(&bytes, &header).collect();
    let lengths = order::settle(&listed, |extent| could_stand(fs, extent, 0, LAST_BLOCK));
    listed.iter().zip(lengths).try_fold(0, |sum: u64, (extent, length)| {
        let is_sound = length == Some(extent.count) && could_stand(fs, extent, 0, LAST_BLOCK);
        is_sound.then(|| sum.checked_add(u64::from(extent.count).next_multiple_of(cluster.max(1)))).flatten()
    })
}
