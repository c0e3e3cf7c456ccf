// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of bad blocks as it will be: pointers that do not stay are cleared, in the inode and in its indirect blocks.

use std::collections::BTreeSet;

use fsmend_base::BlockNo;
use fsmend_engine::{Findings, Layer};
use fsmend_ext_format::inode::RawInode;

use super::{BadBlocks, DIRECT, POINTERS, store};
use crate::Fs;

/// Walks the list once more and clears every pointer that has no place in `bad`.
pub(super) fn mend(fs: &Fs<'_>, mut record: Vec<u8>, bad: &BadBlocks, findings: &mut Findings) {
    let mut raw = RawInode::from_record(&record);
    let mut mending = Mending { fs, bad, seen: BTreeSet::new(), findings };
    let mut changed = false;
    for index in 0..POINTERS {
        let levels = index.saturating_sub(DIRECT - 1);
        if !mending.stays(raw.block_word(index), levels) {
            raw.set_block_word(index, 0);
            changed = true;
        }
    }
    if changed {
        raw.store(&mut record);
        store(fs, &mut record, findings);
    }
}

struct Mending<'m, 'd> {
    fs: &'m Fs<'d>,
    bad: &'m BadBlocks,
    /// Indirect blocks that have been gone through.
    seen: BTreeSet<u64>,
    findings: &'m mut Findings,
}

impl Mending<'_, '_> {
    /// Whether a pointer stays; what is below it is mended. Levels are at most three, and no block is entered twice.
    fn stays(&mut self, pointer: u32, levels: usize) -> bool {
        let block = u64::from(pointer);
        if pointer == 0 || levels == 0 {
            return pointer == 0 || self.bad.contains(BlockNo(block));
        }
        if self.bad.map_blocks.binary_search(&block).is_err() || !self.seen.insert(block) {
            return false;
        }
        let Ok(mut bytes) = self.fs.read_block(BlockNo(block)) else { return false };
        let mut changed = false;
        for entry in bytes.as_chunks_mut::<4>().0 {
            if !self.stays(u32::from_le_bytes(*entry), levels - 1) {
                *entry = [0; 4];
                changed = true;
            }
        }
        if changed {
            self.findings.edit(Layer::Block, self.fs.block_offset(BlockNo(block)), &bytes);
        }
        true
    }
}
