// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cutting a map of indirect blocks on an overlay, when an orphan is truncated to its size.
//!
//! Only maps that [`super::map::read`] has read without damage come here: every pointer lies inside the file system and no
//! indirect block is met twice.

use fsmend_ext_format::inode::RawInode;

use super::replay_overlay::{EditError, ReplayOverlay};

/// Pointers in the inode to data.
const DIRECT_BLOCKS: usize = 12;

/// Takes all pointers to blocks of the file from `end` on out of its map. Returns the indirect blocks that map nothing any more, which
/// the caller has to free. The record is changed, not stored.
pub(crate) fn cut(
    overlay: &mut ReplayOverlay<'_>,
    raw: &mut RawInode,
    end: u64,
) -> Result<Vec<u64>, EditError> {
    let per_block = u64::from(overlay.geometry.pointers_per_block());
    for (index, word) in raw.i_block.chunks_exact_mut(4).take(DIRECT_BLOCKS).enumerate() {
        if index as u64 >= end {
            word.fill(0);
        }
    }
    let mut gone = Vec::new();
    let mut first = DIRECT_BLOCKS as u64;
    for level in 1..=3 {
        let index = DIRECT_BLOCKS - 1 + level as usize;
        let block = raw.block_word(index);
        if block != 0 && below(overlay, block, (level, first), end, &mut gone)? {
            raw.i_block[index * 4..index * 4 + 4].fill(0);
        }
        first = first.saturating_add(per_block.saturating_pow(level));
    }
    Ok(gone)
}

/// The indirect `block`, `level` steps above the data, which maps the file from block `first` on; whether it goes. Recursion is at most
/// three deep.
fn below(
    overlay: &mut ReplayOverlay<'_>,
    block: u32,
    (level, first): (u32, u64),
    end: u64,
    gone: &mut Vec<u64>,
) -> Result<bool, EditError> {
    let per_block = u64::from(overlay.geometry.pointers_per_block());
    let child = per_block.saturating_pow(level - 1);
    if first.saturating_add(child.saturating_mul(per_block)) <= end {
        return Ok(false);
    }
    let goes = first >= end;
    if goes {
        gone.push(block.into());
    }
    if goes && level == 1 {
        return Ok(true);
    }
    let mut contents = overlay.read(block.into())?;
    let header = overlay.geometry.indirect_header();
    let mut changed = false;
    for (index, word) in contents.get_mut(header..).unwrap_or_default().chunks_exact_mut(4).enumerate() {
        let pointer = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let logical = first.saturating_add(index as u64 * child);
        if pointer == 0 || logical.saturating_add(child) <= end {
            continue;
        }
        if level == 1 || below(overlay, pointer, (level - 1, logical), end, gone)? {
            word.fill(0);
            changed = true;
        }
    }
    if changed && !goes {
        overlay.put(block.into(), contents);
    }
    Ok(goes)
}
