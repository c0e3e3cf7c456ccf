// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is made better though it is not wrong: directories, maps of files.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::inodes::{Kind, mark};
use fsmend_ext_format::extent::{ENTRY_SIZE, ExtentHeader, MAX_WRITTEN_LEN};
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::inode::{InodeFlags, RawInode, special};

use super::RepairContext;
use super::map::FileMap;
use crate::directory;
use crate::inode::MapRun;

/// Extents that the inode itself holds.
const IN_ROOT: u64 = 4;

/// Makes better what the user wished, as far as there is memory.
pub(crate) fn improve(context: &mut RepairContext<'_>) {
    let policy = context.policy.improvements;
    if policy.extents || policy.trees {
        maps(context);
    }
    if policy.directories {
        directory::repair::optimise(context);
    }
}

fn maps(context: &mut RepairContext<'_>) {
    for chunk in 0..context.inodes.chunk_count() {
        let mut used = Vec::new();
        context.inodes.visit_chunk(chunk, |inode, fact, _, _| {
            let is_mapped = matches!(fact.kind(), Kind::Regular | Kind::Directory | Kind::Symlink);
            let is_users = inode.0 >= context.fs.geometry.first_inode || inode.0 == special::ROOT;
            used.extend((is_mapped && is_users && !fact.has(mark::RESERVED)).then_some(inode));
        });
        for inode in used {
            if context.is_half_full() {
                return;
            }
            map(context, inode);
        }
    }
}

/// Writes the map of `inode` anew, if that makes it better. Where there is no room, everything stays as it is.
fn map(context: &mut RepairContext<'_>, inode: InodeNo) {
    let Some(record) = context.read_inode(inode) else { return };
    let raw = RawInode::from_record(&record);
    let policy = context.policy.improvements;
    let has_extents = raw.has_flag(InodeFlags::EXTENTS);
    let is_deep = ExtentHeader::parse(&raw.i_block).is_some_and(|header| header.depth > 0);
    let can_have = context.fs.geometry.features.has_incompat(Incompat::EXTENTS);
    let is_wanted = if has_extents { policy.trees && is_deep } else { policy.extents && can_have };
    if !is_wanted || raw.has_flag(InodeFlags::INLINE_DATA) {
        return;
    }
    let Some(mut map) = context.open_map(inode) else { return };
    if has_extents && nodes_needed(context, &map) >= map.nodes.len() as u64 {
        return;
    }
    let mut raw = map.raw();
    raw.set_flag(InodeFlags::EXTENTS);
    raw.store(&mut map.record);
    let old = std::mem::take(&mut map.nodes);
    if context.store_map(map) {
        old.iter().for_each(|block| context.free_blocks(BlockNo(*block), 1));
    }
}

/// Blocks that a new tree for the runs of `map` has.
fn nodes_needed(context: &RepairContext<'_>, map: &FileMap) -> u64 {
    let longest = |unwritten| u32::from(MAX_WRITTEN_LEN) - u32::from(unwritten);
    let pieces = |run: &MapRun| u64::from(run.count.div_ceil(longest(run.unwritten)));
    let mut entries: u64 = map.runs.iter().map(pieces).sum();
    let in_node = (u64::from(context.fs.geometry.block_size) / ENTRY_SIZE as u64).saturating_sub(1).max(2);
    let mut nodes = 0;
    while entries > IN_ROOT {
        entries = entries.div_ceil(in_node);
        nodes += entries;
    }
    nodes
}
