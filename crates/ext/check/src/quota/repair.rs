// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quota files as they have to be: what is used is what was counted, limits and graces stay.

use std::collections::{BTreeMap, BTreeSet};

use fsmend_base::{BlockNo, InodeNo};
use fsmend_ext_format::features::RoCompat;
use fsmend_ext_format::inode::{InodeFlags, RawInode};
use fsmend_ext_format::quota::build::{QuotaInfo, build};
use fsmend_ext_format::quota::{
    QUOTA_TREE_DEPTH, QUOTA_TREE_ROOT, QuotaEntry, QuotaType, entries, references, version,
};

use super::{QuotaFile, Used, inode_of};
use crate::journal::map;
use crate::journal::replay_overlay::ReplayOverlay;
use crate::repair::{RepairContext, hidden};

/// Writes the quota files that do not say what is in use.
pub(crate) fn mend(context: &mut RepairContext<'_>) {
    for kind in QuotaType::ALL {
        if context.fs.geometry.features.has_ro_compat(RoCompat::QUOTA)
            && let Some(inode) = inode_of(&context.fs, kind)
        {
            mend_file(context, kind, inode);
        }
    }
}

fn mend_file(context: &mut RepairContext<'_>, kind: QuotaType, inode: InodeNo) {
    let file = QuotaFile::open(&context.fs, inode);
    let observed = context.repair_input.quota.of(super::usage::kind_of(kind));
    let stored = file.as_ref().map_err(String::clone).and_then(|file| file.read(kind));
    if stored.as_ref().is_ok_and(|stored| is_same(stored, &observed)) {
        return;
    }
    let (info, old) =
        file.map_or_else(|_| (QuotaInfo::default(), BTreeMap::new()), |file| file.salvage(kind));
    let bytes = build(kind, info, &merged(old, observed));
    let blocks = match present_blocks(context, inode, bytes.len() as u64) {
        Some(blocks) => blocks,
        None => {
            hidden::give_up(context, inode);
            let Some(blocks) = hidden::make(context, inode, bytes.len() as u64, InodeFlags::IMMUTABLE) else {
                return;
            };
            blocks
        }
    };
    let block_size = context.fs.geometry.block_size as usize;
    for (chunk, block) in bytes.chunks(block_size).zip(blocks) {
        let mut contents = chunk.to_vec();
        contents.resize(block_size, 0);
        context.write_block(BlockNo(block), &contents);
    }
}

fn is_same(stored: &BTreeMap<u32, Used>, observed: &BTreeMap<u32, Used>) -> bool {
    let ids: BTreeSet<&u32> = stored.keys().chain(observed.keys()).collect();
    ids.into_iter().all(|id| super::used(stored, *id) == super::used(observed, *id))
}

/// The entries as they have to be: all users that have files or limits.
fn merged(old: BTreeMap<u32, QuotaEntry>, observed: BTreeMap<u32, Used>) -> Vec<QuotaEntry> {
    let mut all = old;
    all.values_mut().for_each(|entry| (entry.bytes, entry.inodes) = (0, 0));
    for (id, used) in observed {
        let entry = all.entry(id).or_insert(QuotaEntry { id, ..QuotaEntry::default() });
        (entry.bytes, entry.inodes) = (used.bytes, used.inodes);
    }
    let is_needed =
        |entry: &QuotaEntry| entry.id == 0 || *entry != QuotaEntry { id: entry.id, ..QuotaEntry::default() };
    all.into_values().filter(is_needed).collect()
}

/// The blocks of the file as it is, if they are all there and enough for `len` bytes; its size then covers these.
fn present_blocks(context: &mut RepairContext<'_>, inode: InodeNo, len: u64) -> Option<Vec<u64>> {
    let record = context.read_inode(inode)?;
    let raw = RawInode::from_record(&record);
    QuotaFile::open(&context.fs, inode).ok()?;
    let map = map::read(&ReplayOverlay::new(&context.fs), &raw);
    let block_size = u64::from(context.fs.geometry.block_size);
    let needed = len.div_ceil(block_size);
    let is_written = map.runs.iter().take_while(|run| run.logical < needed).all(|run| !run.unwritten);
    if map.damaged || map.unreadable.is_some() || map.solid_blocks() < needed || !is_written {
        return None;
    }
    if raw.size() < len {
        context.amend_inode(inode, |raw| raw.set_size(len));
    }
    (0..needed).map(|index| map.find(index)).collect()
}

impl QuotaFile<'_> {
    /// Whatever can still be read: the header, and the entries of all leaves that the tree leads to.
    fn salvage(&self, kind: QuotaType) -> (QuotaInfo, BTreeMap<u32, QuotaEntry>) {
        let mut found = BTreeMap::new();
        let head = self.block(0).unwrap_or_default();
        let Some(version) = version(&head, kind) else { return (QuotaInfo::default(), found) };
        let mut level = BTreeSet::from([QUOTA_TREE_ROOT]);
        let mut seen = BTreeSet::new();
        for _ in 0..QUOTA_TREE_DEPTH {
            let visit = level.into_iter().filter(|index| seen.insert(*index)).collect::<Vec<u32>>();
            let blocks = visit.into_iter().filter_map(|index| self.block(index).ok());
            level = blocks.flat_map(|block| references(&block).collect::<Vec<u32>>()).collect();
        }
        for leaf in level.difference(&seen).filter_map(|index| self.block(*index).ok()) {
            entries(&leaf, version).for_each(|entry| {
                found.entry(entry.id).or_insert(entry);
            });
        }
        (QuotaInfo::of(&head, kind).unwrap_or_default(), found)
    }
}
