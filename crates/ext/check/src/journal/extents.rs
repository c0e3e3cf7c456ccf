// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rewriting a file's map on an overlay, after a fast commit or the release of an orphan changed it.
//!
//! The tree has as few levels as it needs; nodes of the old tree are used again first. A map that no tree can hold is left alone
//! ([`EditError::Impossible`]).

use fsmend_base::{InodeNo, width};
use fsmend_ext_format::checksum;
use fsmend_ext_format::extent::EXTENT_MAGIC;
use fsmend_ext_format::inode::{InodeFlags, RawInode};
use zerocopy::little_endian::{U16, U32};

use super::map::FileMap;
use super::replay_overlay::{EditError, ReplayOverlay};
use crate::inode::MapRun;

const ENTRY: usize = 12;
const ROOT_ENTRIES: usize = 4;
/// Levels below the root.
const DEPTH_MAX: usize = 5;
/// Longest written extent; an unwritten one is one block shorter.
const LEN_MAX: u32 = 0x8000;

/// Gives the inode with this record the map `runs` (in the order of the file) in place of `old`, and sets its block
/// count. The record is changed, not stored.
pub(crate) fn rewrite(
    overlay: &mut ReplayOverlay<'_>,
    inode: InodeNo,
    raw: &mut RawInode,
    old: &FileMap,
    runs: &[MapRun],
) -> Result<(), EditError> {
    let extents = split(runs);
    let per_node = (overlay.geometry.block_size as usize - ENTRY) / ENTRY;
    let levels = levels(extents.len(), per_node);
    if levels.len() > DEPTH_MAX || runs.iter().any(|run| run.logical > u64::from(u32::MAX)) {
        return Err(EditError::Impossible);
    }
    let nodes = nodes(overlay, inode, &old.map_blocks, levels.iter().sum())?;
    let seed = checksum::inode_seed(overlay.geometry.checksum_seed, inode, raw.i_generation.get());
    let has_checksum = overlay.geometry.features.metadata_csum();
    let mut entries: Vec<[u8; ENTRY]> = extents.iter().map(entry).collect();
    let mut free = nodes.iter().copied();
    for (depth, count) in levels.iter().enumerate() {
        let mut above = Vec::new();
        for (chunk, node) in entries.chunks(per_node).zip(free.by_ref().take(*count)) {
            let mut block = vec![0; overlay.geometry.block_size as usize];
            fill(&mut block, width::len_u16(depth), per_node, chunk);
            close(&mut block, per_node, seed, has_checksum);
            overlay.put(node, block);
            above.push(index(&chunk[0], node));
        }
        entries = above;
    }
    let mut root = [0; 60];
    fill(&mut root, width::len_u16(levels.len()), ROOT_ENTRIES, &entries);
    raw.i_block = root;
    raw.set_flag(InodeFlags::EXTENTS);
    count_blocks(overlay, raw, runs, nodes.len() as u64);
    Ok(())
}

/// How many nodes a tree of so many extents has at each level below the root, the lowest first.
fn levels(extents: usize, per_node: usize) -> Vec<usize> {
    let (mut levels, mut entries) = (Vec::new(), extents);
    while entries > ROOT_ENTRIES {
        entries = entries.div_ceil(per_node);
        levels.push(entries);
    }
    levels
}

/// Blocks for `wanted` nodes: those of the old tree first, then new ones; old ones that are left over become free.
fn nodes(
    overlay: &mut ReplayOverlay<'_>,
    inode: InodeNo,
    old: &[u64],
    wanted: usize,
) -> Result<Vec<u64>, EditError> {
    let (used, spare) = old.split_at(wanted.min(old.len()));
    let mut nodes = used.to_vec();
    for block in spare {
        overlay.mark_blocks(*block, 1, false)?;
    }
    let group = overlay.geometry.inode_place(inode).ok_or(EditError::Impossible)?.0;
    while nodes.len() < wanted {
        nodes.push(overlay.allocate(group)?);
    }
    Ok(nodes)
}

/// Cuts runs into pieces that fit an extent.
fn split(runs: &[MapRun]) -> Vec<MapRun> {
    let mut pieces = Vec::new();
    for run in runs {
        let longest = LEN_MAX - u32::from(run.unwritten);
        let mut rest = *run;
        while rest.count > longest {
            pieces.push(MapRun { count: longest, ..rest });
            rest = skip(rest, longest);
        }
        pieces.push(rest);
    }
    pieces
}

/// `run` without its first `count` blocks.
pub(crate) fn skip(run: MapRun, count: u32) -> MapRun {
    MapRun {
        logical: run.logical + u64::from(count),
        physical: run.physical + u64::from(count),
        count: run.count - count,
        ..run
    }
}

fn fill(node: &mut [u8], depth: u16, max: usize, entries: &[[u8; ENTRY]]) {
    for (place, entry) in node[ENTRY..].chunks_exact_mut(ENTRY).zip(entries) {
        place.copy_from_slice(entry);
    }
    let header = [EXTENT_MAGIC, width::len_u16(entries.len()), width::len_u16(max), depth];
    for (place, word) in node.chunks_exact_mut(2).zip(header) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

fn close(node: &mut [u8], per_leaf: usize, seed: u32, has_checksum: bool) {
    let at = ENTRY + ENTRY * per_leaf;
    if let (true, Some(checked)) = (has_checksum, checksum::extent_block(seed, node)) {
        node[at..at + 4].copy_from_slice(&checked.computed.to_le_bytes());
    }
}

fn entry(run: &MapRun) -> [u8; ENTRY] {
    let length = run.count + if run.unwritten { LEN_MAX } else { 0 };
    let mut bytes = [0; ENTRY];
    bytes[..4].copy_from_slice(&width::low_u32(run.logical).to_le_bytes());
    bytes[4..6].copy_from_slice(&width::low_u16(u64::from(length)).to_le_bytes());
    bytes[6..8].copy_from_slice(&width::low_u16(run.physical >> 32).to_le_bytes());
    bytes[8..].copy_from_slice(&width::low_u32(run.physical).to_le_bytes());
    bytes
}

/// The entry for a node that begins with the entry `first`.
fn index(first: &[u8; ENTRY], node: u64) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    bytes[..4].copy_from_slice(&first[..4]);
    bytes[4..8].copy_from_slice(&width::low_u32(node).to_le_bytes());
    bytes[8..10].copy_from_slice(&width::low_u16(node >> 32).to_le_bytes());
    bytes
}

/// Sets `i_blocks` to what data, nodes and the attribute block take.
pub(crate) fn count_blocks(overlay: &ReplayOverlay<'_>, raw: &mut RawInode, runs: &[MapRun], nodes: u64) {
    let cluster = overlay.geometry.cluster_blocks;
    let clusters = |run: &MapRun| {
        let last = run.physical.saturating_add(u64::from(run.count)).saturating_sub(1);
        last / u64::from(cluster) - (run.physical / u64::from(cluster)).min(last / u64::from(cluster)) + 1
    };
    let mut used = nodes + u64::from(raw.i_file_acl_lo.get() != 0 || raw.i_file_acl_high.get() != 0);
    let mut last_cluster = None;
    for run in runs {
        let first = run.physical / u64::from(cluster);
        used += clusters(run) - u64::from(last_cluster == Some(first));
        last_cluster = Some((run.physical + u64::from(run.count) - 1) / u64::from(cluster));
    }
    let blocks = used.saturating_mul(u64::from(cluster));
    let units =
        if raw.has_flag(InodeFlags::HUGE_FILE) { 1 } else { u64::from(overlay.geometry.block_size / 512) };
    let stored = blocks.saturating_mul(units);
    raw.i_blocks_lo = U32::new(width::low_u32(stored));
    raw.i_blocks_high = U16::new(width::low_u16(stored >> 32));
}
