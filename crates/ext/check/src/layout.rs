// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies where in an ext2, ext3 or ext4: for maps of it, and to say which structures a repair writes.

use std::sync::Arc;

use fsmend_base::{BlockNo, BlockRange, GroupNo, InodeNo};
use fsmend_device::{Device, Overlay};
use fsmend_engine::Findings;
use fsmend_engine::layout::{Class, Layout};
use fsmend_engine::options::CheckOptions;
use fsmend_engine::repair::changes::lay;
use fsmend_ext_format::inode::special;

use crate::precheck::precheck;
use crate::{Fs, free_space, inode, run, superblock};

/// The layout of the file system on `device`, as its journal leaves it; `None` where it has no superblock that can be used.
pub fn layout(device: &Arc<dyn Device>, options: &CheckOptions, with_free: bool) -> Option<Layout> {
    let mut replayed = Overlay::new(Arc::clone(device));
    if let Ok(seen) = precheck(device, options) {
        lay(&mut replayed, seen.changes);
    }
    let device: Arc<dyn Device> = Arc::new(replayed);
    let mut ignored = Findings::new();
    let settled = superblock::settle(&*device, options.superblock, options.now, &mut ignored).ok()?;
    let fs = run::open(&*device, settled, options.now, &mut ignored);
    let geometry = &fs.geometry;
    let block_size = u64::from(geometry.block_size);
    let first = u64::from(geometry.first_data_block).saturating_mul(block_size);
    let group_bytes = u64::from(geometry.blocks_per_group).saturating_mul(block_size);
    let end = geometry.blocks_count.saturating_mul(block_size);
    let mut layout = Layout::new("group", block_size, (first, group_bytes, end));
    add_structures(&fs, &mut layout);
    if with_free {
        let _ = free_space::visit_free(&device, options, &mut |offset, len| layout.add_free(offset, len));
    }
    Some(layout.finish())
}

fn add_structures(fs: &Fs<'_>, layout: &mut Layout) {
    let geometry = &fs.geometry;
    let block_size = u64::from(geometry.block_size);
    let mut add = |range: BlockRange, class, what| {
        let end = range.end().min(geometry.blocks_count);
        let len = end.saturating_sub(range.start.0).saturating_mul(block_size);
        layout.add(range.start.0.saturating_mul(block_size), len, class, what);
    };
    if block_size == 1024 && geometry.first_data_block > 0 {
        add(BlockRange::new(0, u64::from(geometry.first_data_block)), Class::Metadata, "boot block");
    }
    for group in (0..geometry.group_count).map(GroupNo) {
        let head = geometry.group_head(group);
        if let Some(BlockNo(block)) = head.superblock {
            let what = if group.0 == 0 { "superblock" } else { "backups of the superblock" };
            add(BlockRange::new(block, 1), Class::Metadata, what);
        }
        add(head.descriptors, Class::Metadata, "group descriptors");
        add(head.reserved, Class::Metadata, "blocks reserved for group descriptors");
        let Some(desc) = fs.group(group).map(|group| &group.desc) else { continue };
        for (block, count, what) in [
            (desc.block_bitmap, 1, "block bitmaps"),
            (desc.inode_bitmap, 1, "inode bitmaps"),
            (desc.inode_table, u64::from(geometry.inode_table_blocks()), "inode tables"),
        ] {
            if block != 0 {
                add(BlockRange::new(block, count), Class::Metadata, what);
            }
        }
        if geometry.rext3() && desc.inode_table != 0 {
            add(geometry.region(group, desc.inode_table), Class::Region, "indirect regions");
        }
    }
    let journal = InodeNo(special::JOURNAL);
    if let Some(Ok(record)) = fs.read_inode(journal) {
        for run in inode::inspect(fs, journal, &record, &mut Findings::new()).runs {
            add(BlockRange::new(run.physical, u64::from(run.count)), Class::Journal, "journal");
        }
    }
}
