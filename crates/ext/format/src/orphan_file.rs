// SPDX-License-Identifier: MIT OR Apache-2.0
//! The orphan file: blocks of inode numbers (0 = free slot), each with a tail of magic number and checksum.
//!
//! Source: "ext4 Data Structures and Algorithms", orphan file.

use fsmend_base::InodeNo;

/// `ob_magic`.
pub const ORPHAN_BLOCK_MAGIC: u32 = 0x0B10_CA04;
/// Bytes of the tail: `ob_magic`, `ob_checksum`.
pub const ORPHAN_TAIL_SIZE: usize = 8;

/// Whether the tail of `block` carries the magic number.
pub fn has_magic(block: &[u8]) -> bool {
    let at = block.len().saturating_sub(ORPHAN_TAIL_SIZE);
    block.get(at..at + 4) == Some(&ORPHAN_BLOCK_MAGIC.to_le_bytes())
}

/// The inode numbers in `block`, free slots left out.
pub fn entries(block: &[u8]) -> impl Iterator<Item = InodeNo> + '_ {
    block[..block.len().saturating_sub(ORPHAN_TAIL_SIZE)]
        .chunks_exact(4)
        .map(|slot| InodeNo(u32::from_le_bytes([slot[0], slot[1], slot[2], slot[3]])))
        .filter(|inode| inode.0 != 0)
}

/// Makes the slots free whose inode is gone, as `is_gone` says. The checksum has to be set afterwards.
pub fn clear(block: &mut [u8], is_gone: impl Fn(InodeNo) -> bool) {
    let end = block.len().saturating_sub(ORPHAN_TAIL_SIZE);
    for slot in block[..end].chunks_exact_mut(4) {
        if is_gone(InodeNo(u32::from_le_bytes([slot[0], slot[1], slot[2], slot[3]]))) {
            slot.fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_end_before_the_tail() {
        let mut block = [0; 32];
        block[4] = 12;
        block[20] = 13;
        block[24..28].copy_from_slice(&ORPHAN_BLOCK_MAGIC.to_le_bytes());
        assert!(has_magic(&block));
        assert_eq!(entries(&block).collect::<Vec<_>>(), [InodeNo(12), InodeNo(13)]);
        clear(&mut block, |inode| inode.0 == 12);
        assert_eq!(entries(&block).collect::<Vec<_>>(), [InodeNo(13)]);
        assert!(!has_magic(&[]) && entries(&[1, 2, 3]).next().is_none());
    }
}
