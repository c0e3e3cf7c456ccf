// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bitmaps, counts and descriptors as they have to be, once everything else has been mended.

use fsmend_base::{BlockNo, GroupNo, width};
use fsmend_engine::crosscheck::allocation::{AREAS_PER_SLICE, InUse, MAPS, Observed, Words};
use fsmend_engine::pool;
use fsmend_engine::repair::{Changes, Mend};
use fsmend_engine::{Cause, Part};
use fsmend_ext_format::checksum;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::group::{GroupDesc, GroupFlags, RawGroupDesc};
use std::sync::atomic::AtomicBool;
use zerocopy::{FromZeros, IntoBytes};

use super::{Totals, metadata_units, used_inodes, used_units};
use crate::repair::RepairContext;

/// What one group comes to.
struct Settled {
    group: GroupNo,
    desc: GroupDesc,
    /// Bitmaps that have to be written, with their blocks.
    bitmaps: Changes,
    free_units: u64,
    free_inodes: u64,
    directories: u64,
}

/// Writes bitmaps and descriptors that are not as they have to be; returns the totals.
pub(crate) fn mend(context: &mut RepairContext<'_>) -> Totals {
    let mut totals = Totals::default();
    for settled in settle_all(context) {
        totals.free_units += settled.free_units;
        totals.free_inodes += settled.free_inodes;
        totals.directories += settled.directories;
        context.fs.groups[settled.group.0 as usize].desc = settled.desc;
        context.overlay.mending(Some(Part::Group(settled.group)));
        for (place, bytes) in settled.bitmaps {
            context.overlay.put(place, bytes);
        }
    }
    context.overlay.mending(None);
    write_descriptors(context);
    totals
}

fn settle_all(context: &RepairContext<'_>) -> Vec<Settled> {
    let groups: Vec<u32> = (0..context.fs.geometry.group_count).collect();
    let never = AtomicBool::new(false);
    let parts = pool::run_slices(
        context.pool,
        &MAPS,
        &groups,
        AREAS_PER_SLICE,
        &never,
        |_| Vec::new(),
        |settled, part| settled.extend(part.iter().map(|group| settle(context, GroupNo(*group)))),
    );
    let mut all: Vec<Settled> = parts.into_iter().flatten().collect();
    all.sort_unstable_by_key(|settled| settled.group);
    all
}

fn settle(context: &RepairContext<'_>, group: GroupNo) -> Settled {
    let fs = &context.fs;
    let in_use = InUse { inodes: &context.inodes, claims: &context.claims };
    let mut desc = fs.groups[group.0 as usize].desc;
    let mut bitmaps = Vec::new();
    let used = used_units(fs, group, in_use);
    let free_units = used.len() - used.count();
    desc.free_blocks = width::low_u32(free_units);
    let has_marks = fs.geometry.features.group_csum();
    if has_marks
        && desc.has_flag(GroupFlags::BLOCK_UNINIT)
        && used.count() > metadata_units(fs, group).count()
    {
        desc.flags &= !GroupFlags::BLOCK_UNINIT;
    }
    let bits = fs.geometry.blocks_per_group / fs.geometry.cluster_blocks;
    if !(has_marks && desc.has_flag(GroupFlags::BLOCK_UNINIT)) {
        let bitmap = Bitmap { block: desc.block_bitmap, bits };
        bitmap.settle(context, &used, &mut desc.block_bitmap_csum, &mut bitmaps);
    }
    let Observed { used, directories } = used_inodes(fs, group, in_use);
    let free_inodes = used.len() - used.count();
    desc.free_inodes = width::low_u32(free_inodes);
    desc.used_dirs = width::low_u32(directories);
    if has_marks {
        mark_inodes(&mut desc, &used);
    }
    if !(has_marks && desc.has_flag(GroupFlags::INODE_UNINIT)) {
        let bitmap = Bitmap { block: desc.inode_bitmap, bits: fs.geometry.inodes_per_group };
        bitmap.settle(context, &used, &mut desc.inode_bitmap_csum, &mut bitmaps);
    }
    Settled { group, desc, bitmaps, free_units, free_inodes, directories }
}

/// The marks for never-used inodes may stay where they are true.
fn mark_inodes(desc: &mut GroupDesc, used: &Words) {
    let top = used.top();
    if top > 0 {
        desc.flags &= !GroupFlags::INODE_UNINIT;
    }
    let never_used = width::low_u32(used.len() - top);
    desc.itable_unused = desc.itable_unused.min(never_used);
}

struct Bitmap {
    /// Where it lies; 0 when its place is lost.
    block: u64,
    /// Bits that its checksum covers.
    bits: u32,
}

impl Bitmap {
    /// Compares what is stored with `used`, and gathers what has to be written.
    fn settle(&self, context: &RepairContext<'_>, used: &Words, checksum: &mut u32, changes: &mut Changes) {
        if self.block == 0 {
            return;
        }
        let geometry = &context.fs.geometry;
        let bytes = used.to_bitmap(geometry.block_size as usize);
        if geometry.features.metadata_csum() {
            *checksum =
                checksum::bitmap(geometry.checksum_seed, &bytes, self.bits, geometry.wide_descriptors());
        }
        if context.read_block(BlockNo(self.block)).ok().as_deref() != Some(&bytes[..]) {
            changes.push((context.fs.block_offset(BlockNo(self.block)), bytes));
        }
    }
}

/// Writes the descriptors that differ from the primary table.
fn write_descriptors(context: &RepairContext<'_>) {
    let geometry = &context.fs.geometry;
    let per_block = geometry.descs_per_block();
    for index in 0..geometry.desc_blocks() {
        let Some(&block) = geometry.descriptor_copies(index, 1).first() else { continue };
        let first = index * per_block;
        let groups = first..(first + per_block).min(geometry.group_count);
        let mut bytes = context.read_block(block).unwrap_or_else(|_| vec![0; geometry.block_size as usize]);
        let before = bytes.clone();
        let (start, size) = (context.fs.block_offset(block), geometry.desc_size as usize);
        let slots = bytes.chunks_exact_mut(size).zip(before.chunks_exact(size));
        for ((group, (slot, before)), at) in groups.zip(slots).zip((start..).step_by(size)) {
            store(geometry, GroupNo(group), &context.fs.groups[group as usize].desc, slot);
            if slot != before {
                let cause = Cause::Part(Part::Group(GroupNo(group)));
                context.overlay.note(Mend { offset: at, len: size as u64, cause });
            }
        }
        if bytes != before {
            context.overlay.write(start, &bytes);
        }
    }
}

/// Puts a descriptor into its place, with its checksum.
pub(crate) fn store(geometry: &Geometry, group: GroupNo, desc: &GroupDesc, slot: &mut [u8]) {
    let mut raw = RawGroupDesc::new_zeroed();
    let len = slot.len().min(size_of::<RawGroupDesc>());
    raw.as_mut_bytes()[..len].copy_from_slice(&slot[..len]);
    desc.store(&mut raw, geometry.wide_descriptors());
    slot[..len].copy_from_slice(&raw.as_bytes()[..len]);
    checksum::seal_group_desc(geometry.features, geometry.checksum_seed, &geometry.uuid, group, slot);
}
