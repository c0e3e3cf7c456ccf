// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a file system is and how full it is, without a check.

use fsmend_base::width;
use fsmend_device::Device;
use fsmend_engine::options::SuperblockOptions;
use fsmend_engine::problem::escape_name;
use fsmend_engine::{Findings, Refusal, Value};
use fsmend_ufs_format::group::{CylinderGroup, bit};
use fsmend_ufs_format::{ByteOrder, Geometry, Version};

use crate::opening;

/// Names and values, in the order in which they are shown.
pub fn describe(device: &dyn Device) -> Result<Vec<(&'static str, Value)>, Refusal> {
    let layout = opening::find_layout(device, SuperblockOptions::default(), 0, &mut Findings::new())?;
    let (geometry, superblock) = (&*layout.geometry, &*layout.superblock);
    let totals = superblock.totals();
    let number = |value: i64| Value::Number(u64::try_from(value).unwrap_or(0));
    let mut told: Vec<(&'static str, Value)> = vec![
        ("kind", Value::from(if geometry.version == Version::Ufs1 { "ufs1" } else { "ufs2" })),
        ("label", Value::Text(escape_name(superblock.label()))),
        ("id", Value::Text(format!("{:08x}{:08x}", superblock.id0(), superblock.id1()))),
        ("byte-order", Value::from(if geometry.order == ByteOrder::Little { "little" } else { "big" })),
        ("block-size", geometry.block_size.into()),
        ("fragment-size", geometry.fragment_size.into()),
        ("fragments", geometry.size.into()),
        ("blocks-free", number(totals.free_blocks)),
        ("fragments-free-beside", number(totals.free_fragments)),
        ("inodes", geometry.inode_count().into()),
        ("inodes-free", number(totals.free_inodes)),
        ("directories", number(totals.directories)),
        ("groups", geometry.groups.into()),
        ("fragments-per-group", geometry.group_size.into()),
        ("features", Value::Text(layout.features())),
        ("last-mounted-on", Value::Text(escape_name(superblock.mounted_on()))),
        ("clean", Value::from(if layout.is_clean() { "yes" } else { "no" })),
    ];
    if geometry.metadata_area > 0 {
        let (used, all) = area_use(device, geometry);
        told.push(("metadata-area-per-group", geometry.metadata_area.into()));
        told.push(("metadata-area-fragments", all.into()));
        told.push(("metadata-area-used", used.into()));
    }
    Ok(told)
}

/// Fragments of all metadata areas: those in use, and all.
fn area_use(device: &dyn Device, geometry: &Geometry) -> (u64, u64) {
    let (mut used, mut all) = (0, 0);
    for number in 0..geometry.groups {
        let mut bytes = vec![0; width::index(geometry.group_bytes)];
        if device.read_at(geometry.group_place(number), &mut bytes).is_err() {
            continue;
        }
        let group = CylinderGroup::new(bytes, geometry.order);
        let first = geometry.structures(number) + geometry.data - geometry.group_start(number);
        let end = (first + geometry.metadata_area).min(geometry.group_length(number));
        let map = group.fragment_map(&geometry.layout);
        all += end.saturating_sub(first);
        used += (first..end).filter(|fragment| !bit(map, *fragment)).count() as u64;
    }
    (used, all)
}
