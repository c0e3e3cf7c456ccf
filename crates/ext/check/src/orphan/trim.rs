// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cutting a map that is damaged, or whose tree cannot be rewritten, when an orphan is truncated to its size: what lies beyond is taken out of
//! the map as it stands. The bitmaps are left to their own check.
//!
//! Bounded: only nodes that map blocks on both sides of the end are entered, and none twice.

use std::collections::BTreeSet;

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_engine::Findings;
use fsmend_ext_format::checksum;
use fsmend_ext_format::extent::{
    ExtentHeader, MAX_DEPTH, RawEntry, extents, indexes, raw_entries, set_entries,
};
use fsmend_ext_format::inode::{InodeFlags, RawInode};

use crate::Fs;
use crate::extent::head;
use crate::inode::subject::Subject;
use crate::journal::replay_overlay::ReplayOverlay;

/// Pointers in the inode to data.
const DIRECT_BLOCKS: usize = 12;

/// Takes all that maps blocks of the file from `end` on out of the map of `inode`. The record is changed, not stored. Returns how many nodes
/// were read.
pub(super) fn trim(
    fs: &Fs<'_>,
    overlay: &mut ReplayOverlay<'_>,
    (inode, raw): (InodeNo, &mut RawInode),
    record: &[u8],
    end: u64,
) -> u64 {
    let geometry = &overlay.geometry;
    let seed = geometry
        .features
        .metadata_csum()
        .then(|| checksum::inode_seed(geometry.checksum_seed, inode, raw.i_generation.get()));
    let mut trim = Trim { fs, overlay, end, seed, seen: BTreeSet::new() };
    if raw.has_flag(InodeFlags::EXTENTS) {
        if ExtentHeader::parse(&raw.i_block).is_none() {
            let subject = Subject::new(fs, inode, record, Findings::new());
            let Some(mended) = head::mended(&subject) else { return 0 };
            raw.i_block = mended;
        }
        let mut root = raw.i_block;
        trim.extent_node(&mut root, MAX_DEPTH);
        raw.i_block = root;
    } else {
        trim.block_map(raw);
    }
    trim.seen.len() as u64
}

struct Trim<'t, 'a, 'd> {
    fs: &'t Fs<'a>,
    overlay: &'t mut ReplayOverlay<'d>,
    /// The first block of the file that goes.
    end: u64,
    /// Seed of the checksums of extent nodes, if they have some.
    seed: Option<u32>,
    /// Nodes that were entered.
    seen: BTreeSet<u64>,
}

impl Trim<'_, '_, '_> {
    /// Reads a node that is entered for the first time.
    fn read(&mut self, block: u64) -> Option<Vec<u8>> {
        let is_possible = self.fs.is_valid_block(BlockNo(block)) && !self.fs.metadata.get(block);
        if !is_possible || !self.seen.insert(block) {
            return None;
        }
        self.overlay.read(block).ok()
    }

    /// Takes entries out of a node that is at most `depth_max` above the leaves. Returns whether it has changed. Recursion is at most
    /// [`MAX_DEPTH`] deep.
    fn extent_node(&mut self, node: &mut [u8], depth_max: u16) -> bool {
        let Some(header) = ExtentHeader::parse(node).filter(|header| header.depth <= depth_max) else {
            return false;
        };
        let stored = raw_entries(node, &header).to_vec();
        let kept: Vec<RawEntry> = if header.depth == 0 {
            let kept = extents(node, &header).zip(&stored).filter_map(|(extent, raw)| {
                let room = self.end.checked_sub(u64::from(extent.logical)).filter(|room| *room > 0)?;
                let count = u32::try_from(room).unwrap_or(u32::MAX).min(extent.count);
                let shorter = fsmend_ext_format::extent::Extent { count, ..extent };
                Some(if count == extent.count { *raw } else { shorter.to_bytes() })
            });
            kept.collect()
        } else {
            let keys: Vec<_> = indexes(node, &header).collect();
            for (at, index) in keys.iter().enumerate() {
                let key = u64::from(index.logical);
                let next = keys.get(at + 1).map(|next| u64::from(next.logical));
                if key < self.end && next.is_none_or(|next| next >= self.end || next <= key) {
                    self.extent_child(index.child, header.depth - 1);
                }
            }
            let pairs = keys.iter().zip(&stored);
            pairs.filter(|(index, _)| u64::from(index.logical) < self.end).map(|(_, raw)| *raw).collect()
        };
        if kept == stored {
            return false;
        }
        set_entries(node, if kept.is_empty() { 0 } else { header.depth }, &kept);
        true
    }

    fn extent_child(&mut self, block: u64, depth: u16) {
        let Some(mut bytes) = self.read(block) else { return };
        let checked = self.seed.and_then(|seed| checksum::extent_block(seed, &bytes));
        if !self.extent_node(&mut bytes, depth) {
            return;
        }
        // A wrong checksum stays wrong: the check has to see it.
        if let Some(seed) = self.seed.filter(|_| checked.is_some_and(|checked| checked.is_right())) {
            checksum::seal_extent_block(seed, &mut bytes);
        }
        self.overlay.put(block, bytes);
    }

    fn block_map(&mut self, raw: &mut RawInode) {
        let mut first = 0_u64;
        for index in 0..DIRECT_BLOCKS + 3 {
            let levels = width::len_u32(index.saturating_sub(DIRECT_BLOCKS - 1));
            let next = first.saturating_add(self.span(levels));
            if first >= self.end {
                raw.set_block_word(index, 0);
            } else if next > self.end {
                self.indirect(raw.block_word(index), levels, first);
            }
            first = next;
        }
    }

    /// Takes pointers out of the indirect `block`, `levels` above the data, which maps the file from `first` on. Recursion is at most three deep.
    fn indirect(&mut self, block: u32, levels: u32, first: u64) {
        let Some(mut bytes) = self.read(block.into()).filter(|bytes| self.may_be_map(bytes)) else { return };
        let span = self.span(levels.saturating_sub(1));
        let header = self.overlay.geometry.indirect_header();
        let mut changed = false;
        let mut within = None;
        let pointers = bytes.get_mut(header..).unwrap_or_default().as_chunks_mut::<4>().0;
        for (index, entry) in pointers.iter_mut().enumerate() {
            let logical = first.saturating_add((index as u64).saturating_mul(span));
            if logical >= self.end {
                changed |= *entry != [0; 4];
                *entry = [0; 4];
            } else if logical.saturating_add(span) > self.end {
                within = Some((u32::from_le_bytes(*entry), logical));
            }
        }
        if changed {
            self.overlay.put(block.into(), bytes);
        }
        if let Some((child, logical)) = within {
            self.indirect(child, levels - 1, logical);
        }
    }

    /// Whether a block may be an indirect one: something else is full of pointers that lead nowhere.
    fn may_be_map(&self, bytes: &[u8]) -> bool {
        let pointers = bytes.get(self.overlay.geometry.indirect_header()..).unwrap_or_default();
        let pointers = pointers.as_chunks::<4>().0.iter().map(|entry| u64::from(u32::from_le_bytes(*entry)));
        let (right, wrong): (Vec<u64>, Vec<u64>) = pointers
            .filter(|pointer| *pointer != 0)
            .partition(|pointer| self.fs.is_valid_block(BlockNo(*pointer)));
        !crate::indirect::is_foreign(right.len(), wrong.len())
    }

    /// Blocks of the file under a pointer with `levels` levels of indirection.
    fn span(&self, levels: u32) -> u64 {
        u64::from(self.overlay.geometry.pointers_per_block()).saturating_pow(levels)
    }
}
