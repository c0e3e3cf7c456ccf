// SPDX-License-Identifier: MIT OR Apache-2.0
//! What opening a file system reads one after the other, announced as soon as it is known where that lies: a disk with heads would have to be waited for each time.
//!
//! Nothing is judged here, and nothing that the superblock says is believed: only hints to the device come of it.

use fsmend_device::Device;
use fsmend_ext_format::extent::{ExtentHeader, extents, indexes};
use fsmend_ext_format::superblock::RawSuperblock;

use super::candidates;
use crate::group;

/// From the start of the device on, so much is read at once: the primary superblock, descriptors of some hundred groups behind it, and the places at which other
/// file systems would have their mark, up to that of UFS2 at 65 KiB.
const HEAD_BYTES: u64 = 68 << 10;
/// Descriptors are announced up to so many bytes: those of a petabyte.
const DESCRIPTORS_BYTES: u64 = 64 << 20;
/// `s_jnl_backup_type` when `s_jnl_blocks` holds the journal's block list.
const BACKUP_OF_BLOCKS: u8 = 1;
/// Words of `i_block` that lead to blocks of data at once; the next two lead to indirect blocks.
const DIRECT: usize = 12;

/// Tells the device about the primary superblock and all that will be read because of what it says: descriptors, the backup that it is compared with, the first
/// inodes, the start of the journal and of its map.
pub fn announce_opening(device: &dyn Device) {
    device.readahead(0, HEAD_BYTES);
    let Some(primary) = candidates::primary(device) else { return };
    let Ok(geometry) = &primary.geometry else { return };
    let size = u64::from(geometry.block_size);
    let announce = |block: u64, count: u64| {
        if let Some(start) = block.checked_mul(size).filter(|start| *start < device.len()) {
            device.readahead(start, count.saturating_mul(size).min(DESCRIPTORS_BYTES));
        }
    };
    if let Some(first) = geometry.descriptor_copies(0, 1).first() {
        announce(first.0, u64::from(geometry.old_desc_blocks()));
    }
    if let Some(group) = candidates::group_of_first_backup(geometry) {
        announce(geometry.group_head_start(group), 1);
    }
    // The root directory and the journal have their inodes in it. More of the tables would come before it shows that the device has to be waited for.
    if let Some(table) = group::first_table(device, geometry) {
        announce(table, 1);
    }
    first_blocks_of_journal(&primary.raw).into_iter().for_each(|block| announce(block, 1));
}

/// The blocks that the copy of the journal's map in the superblock leads to first: that of its own superblock, or of what leads there, and the roots of the map.
fn first_blocks_of_journal(raw: &RawSuperblock) -> Vec<u64> {
    if raw.s_jnl_backup_type != BACKUP_OF_BLOCKS {
        return Vec::new();
    }
    let words = raw.s_jnl_blocks.map(|word| word.get());
    let bytes: Vec<u8> = words.iter().take(15).flat_map(|word| word.to_le_bytes()).collect();
    match ExtentHeader::parse(&bytes) {
        Some(header) if header.depth == 0 => {
            extents(&bytes, &header).take(1).map(|extent| extent.physical).collect()
        }
        Some(header) => indexes(&bytes, &header).map(|index| index.child).collect(),
        None => [0, DIRECT, DIRECT + 1]
            .into_iter()
            .filter_map(|at| words.get(at).copied())
            .filter(|block| *block != 0)
            .map(u64::from)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use fsmend_ext_format::extent::{Extent, build_node};
    use zerocopy::FromZeros;

    use super::*;

    fn with_map(bytes: &[u8]) -> RawSuperblock {
        let mut raw = RawSuperblock::new_zeroed();
        raw.s_jnl_backup_type = BACKUP_OF_BLOCKS;
        for (word, bytes) in raw.s_jnl_blocks.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes).into();
        }
        raw
    }

    #[test]
    fn the_start_of_a_journal_is_known_from_either_kind_of_map() {
        let extent = Extent { logical: 0, count: 1000, physical: 77, unwritten: false };
        assert_eq!(first_blocks_of_journal(&with_map(&build_node(60, 0, &[extent.to_bytes()]))), [77]);
        let index = fsmend_ext_format::extent::ExtentIndex { logical: 0, child: 1 << 33 };
        assert_eq!(first_blocks_of_journal(&with_map(&build_node(60, 1, &[index.to_bytes()]))), [1 << 33]);
        let pointers: Vec<u8> = (100u32..115).flat_map(u32::to_le_bytes).collect();
        assert_eq!(first_blocks_of_journal(&with_map(&pointers)), [100, 112, 113]);
        let mut nothing = with_map(&pointers);
        nothing.s_jnl_backup_type = 0;
        assert!(first_blocks_of_journal(&nothing).is_empty());
    }
}
