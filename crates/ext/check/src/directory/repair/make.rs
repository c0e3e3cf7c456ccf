// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories made from nothing: the root, `lost+found`.

use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_engine::inodes::{InodeFact, Kind};
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::inode::{BASE_INODE_SIZE, InodeFlags, RawInode, mode, special};
use zerocopy::FromZeros;

use crate::directory::params::DirectoryParams;
use crate::directory::{Directory, leaf};
use crate::inode::MapRun;
use crate::quota::{self, bytes_of};
use crate::repair::RepairContext;
use crate::repair::map::{FileMap, Runs};

/// `i_extra_isize` of a new inode, where there is room.
const EXTRA_SIZE: u16 = 32;

const ROOT: InodeNo = InodeNo(special::ROOT);

/// Makes the root directory, if there is none. Its links have been counted by the check.
pub(super) fn root(context: &mut RepairContext<'_>) {
    if Directory::open(&context.fs, ROOT).is_some() || !directory(context, ROOT, ROOT, 0o755) {
        return;
    }
    context.inodes.add_directory(ROOT);
    if let Some(fact) = context.inodes.directory(ROOT) {
        fact.parent.store(ROOT.0, Relaxed);
        fact.parent_entry.store(ROOT.0, Relaxed);
    }
}

/// Makes `inode`, which is free, an empty directory in `parent`. `false`, and nothing is changed, when there is no block left.
pub(super) fn directory(
    context: &mut RepairContext<'_>,
    inode: InodeNo,
    parent: InodeNo,
    permissions: u16,
) -> bool {
    let record = record(context, permissions);
    let raw = RawInode::from_record(&record);
    let made = Directory { inode, record, runs: Vec::new(), inline: false };
    let params = DirectoryParams::of(&context.fs, &made);
    let mut map = FileMap::new(inode, Kind::Directory, made.record, Runs::new(Vec::new()));
    let Some((block, _)) = context.place_for(&map, 0) else { return false };
    map.runs.map(MapRun { logical: 0, physical: block.0, count: 1, unwritten: false });
    if !context.store_map(map) {
        context.free_blocks(block, 1);
        return false;
    }
    context.write_block(block, &leaf::empty(&params, Some(parent)));
    if context.fs.counts_quota() && quota::counts(&context.fs, inode, raw.flags()) {
        let owner = quota::owner_of(&raw);
        context.repair_input.quota.charge_many(owner, 0, 1);
    }
    true
}

/// The record of a new directory of one block, owned by the superuser.
fn record(context: &RepairContext<'_>, permissions: u16) -> Vec<u8> {
    let geometry = &context.fs.geometry;
    let mut raw = RawInode::new_zeroed();
    raw.i_mode.set(mode::DIRECTORY | permissions);
    raw.i_links_count.set(2);
    raw.set_size(u64::from(geometry.block_size));
    if geometry.features.has_incompat(Incompat::EXTENTS) {
        raw.set_flag(InodeFlags::EXTENTS);
    }
    let now = width::low_u32(context.fs.now);
    raw.i_atime.set(now);
    raw.i_ctime.set(now);
    raw.i_mtime.set(now);
    if geometry.inode_size as usize >= BASE_INODE_SIZE + usize::from(EXTRA_SIZE) {
        // Two bits more, counted from where 32 signed ones end.
        let epoch =
            (context.fs.now.wrapping_sub(i64::from(now.cast_signed()).cast_unsigned()) >> 32) as u32 & 3;
        raw.i_extra_isize.set(EXTRA_SIZE);
        raw.i_crtime.set(now);
        raw.i_atime_extra.set(epoch);
        raw.i_ctime_extra.set(epoch);
        raw.i_mtime_extra.set(epoch);
        raw.i_crtime_extra.set(epoch);
    }
    let mut record = vec![0; geometry.inode_size as usize];
    raw.store(&mut record);
    record
}

/// Undoes [`directory`].
pub(super) fn take_back(context: &mut RepairContext<'_>, inode: InodeNo) {
    let Some(mut map) = context.open_map(inode) else { return };
    let raw = map.raw();
    context.remove_blocks(&mut map, 0, u64::MAX);
    map.nodes.iter().for_each(|block| context.free_blocks(BlockNo(*block), 1));
    if context.fs.counts_quota() && quota::counts(&context.fs, inode, raw.flags()) {
        let geometry = &context.fs.geometry;
        let owner = quota::owner_of(&raw);
        context.repair_input.quota.discharge(owner, bytes_of(geometry, &raw), 1);
    }
    context.write_inode(inode, &mut vec![0; map.record.len()]);
    context.inodes.revise(inode, InodeFact::default(), 0);
}
