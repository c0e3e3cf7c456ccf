// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies where in a UFS: for maps of it, and to say which structures a repair writes.

use fsmend_device::Device;
use fsmend_engine::Findings;
use fsmend_engine::layout::{Class, Layout};
use fsmend_engine::options::CheckOptions;
use fsmend_ufs_format::group::bit;

use crate::{UfsFs, opening};

/// The layout of the file system on `device`; `None` where it has no superblock that can be used.
pub fn layout(device: &dyn Device, options: &CheckOptions, with_free: bool) -> Option<Layout> {
    let layout = opening::find_layout(device, options.superblock, options.now, &mut Findings::new()).ok()?;
    let fs = UfsFs { device, layout };
    let geometry = fs.geometry();
    let area = (0, geometry.place(geometry.group_size), geometry.place(geometry.size));
    let mut layout = Layout::new("cylinder group", geometry.fragment_size, area);
    let (summary, length) = geometry.summary_run();
    layout.add(geometry.place(summary), geometry.place(length), Class::Metadata, "summary area");
    for number in 0..geometry.groups {
        let (start, end) = geometry.reserved(number);
        let (start, end) = (geometry.place(start), geometry.place(end.min(geometry.size)));
        let (group, copy) = (geometry.group_place(number), geometry.superblock_copy(number));
        let inodes = group.saturating_add(geometry.block_size);
        // In the first group what comes first is the boot area with the superblock that counts.
        let before = if number == 0 { "boot area and superblock" } else { "copies of the superblock" };
        layout.add(start, copy.saturating_sub(start), Class::Metadata, before);
        layout.add(copy, group.saturating_sub(copy), Class::Metadata, "copies of the superblock");
        layout.add(group, geometry.block_size, Class::Metadata, "cylinder groups");
        layout.add(inodes, end.saturating_sub(inodes), Class::Metadata, "inodes");
        let behind = geometry.group_start(number).saturating_add(geometry.group_length(number));
        let area_end = geometry.reserved(number).1.saturating_add(geometry.metadata_area).min(behind);
        layout.add(end, geometry.place(area_end).saturating_sub(end), Class::Region, "metadata area");
        if with_free {
            add_free(&fs, number, &mut layout);
        }
    }
    Some(layout.finish())
}

fn add_free(fs: &UfsFs<'_>, number: u32, layout: &mut Layout) {
    let geometry = fs.geometry();
    let Some(group) = fs.group(number) else { return };
    let (map, first) = (group.fragment_map(&geometry.layout), geometry.group_start(number));
    let length = geometry.group_length(number);
    let mut at = 0;
    while at < length {
        let from = at;
        while at < length && bit(map, at) {
            at += 1;
        }
        if at > from {
            layout.add_free(geometry.place(first + from), geometry.place(at - from));
        }
        at += 1;
    }
}
