// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is read of inode tables, for those who tell the device about it before: a disk with heads chooses well among much that it knows of.

use fsmend_device::Device;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::group::{GroupDesc, GroupFlags};

use super::descriptors;
use crate::Group;

/// Inode tables that a device is told about ahead of the one that is read, however long they are.
const TABLES_MIN: u32 = 16;
/// More of them, up to so many, as long as they come to no more bytes than this: a disk chooses among 32 commands, of which each costs it
/// a third of what it costs alone.
const TABLES_MAX: u32 = 128;
const TABLES_BYTES: u64 = 8 << 20;
/// Blocks before an inode table among which its group's bitmap is worth reading along.
const BITMAP_BEFORE: u64 = 16;

/// Counts inode tables from one on.
#[derive(Default)]
pub struct Window {
    tables: u32,
    bytes: u64,
}

impl Window {
    /// With so many tables ahead, no more are needed.
    pub const ENOUGH: u32 = TABLES_MAX / 2;

    /// Whether one of so many bytes is still among those that the device is told about. One of none is, and does not count.
    pub fn takes(&mut self, bytes: u64) -> bool {
        self.tables += u32::from(bytes > 0);
        self.bytes = self.bytes.saturating_add(bytes);
        self.tables <= TABLES_MIN || (self.tables <= TABLES_MAX && self.bytes <= TABLES_BYTES)
    }
}

/// First byte, and number of bytes, of what is read of the inode table of a group, with the bitmaps that stand right before it: to come back for them would cost a
/// disk more than a turn. No bytes where nothing is read.
pub fn table_stretch(geometry: &Geometry, group: &Group) -> (u64, u64) {
    let (desc, size) = (&group.desc, u64::from(geometry.block_size));
    if group.scan_inodes == 0 || desc.inode_table == 0 {
        return (0, 0);
    }
    let before = if bitmaps_stand_before(desc) { desc.inode_table - desc.block_bitmap } else { 0 };
    let len = u64::from(group.scan_inodes) * u64::from(geometry.inode_size);
    ((desc.inode_table - before).saturating_mul(size), before * size + len)
}

/// Whether the bitmaps of a group stand right before its inode table, as they do without flexible groups.
pub fn bitmaps_stand_before(desc: &GroupDesc) -> bool {
    desc.block_bitmap != 0
        && desc.block_bitmap < desc.inode_table
        && desc.inode_table - desc.block_bitmap <= BITMAP_BEFORE
        && (desc.block_bitmap..desc.inode_table).contains(&desc.inode_bitmap)
}

/// Inodes of a group that have to be scanned, as its descriptor has it.
pub(super) fn scan_inodes(geometry: &Geometry, desc: &GroupDesc) -> u32 {
    if desc.inode_table == 0 || desc.has_flag(GroupFlags::INODE_UNINIT) {
        return 0;
    }
    geometry.inodes_per_group.saturating_sub(desc.itable_unused)
}

/// Where the inode table of group 0 begins, as its descriptor has it, before it is checked.
pub fn first_table(device: &dyn Device, geometry: &Geometry) -> Option<u64> {
    descriptors::copy_of_block(device, geometry, 0, 0)?.next().map(|(_, slot)| slot.desc.inode_table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_short_tables_are_announced_and_few_long_ones() {
        let taken = |bytes: u64| {
            let mut window = Window::default();
            (0..1000).take_while(|_| window.takes(bytes)).count() as u32
        };
        assert_eq!([1, 64 << 10, 256 << 10, 2 << 20].map(taken), [TABLES_MAX, TABLES_MAX, 32, TABLES_MIN]);
        assert_eq!(taken(0), 1000, "groups without inodes do not count");
        assert_eq!(taken(u64::MAX), TABLES_MIN);
    }

    #[test]
    fn bitmaps_right_before_the_table_are_read_with_it() {
        let geometry = crate::superblock::testing::Image::plain().geometry;
        let at = |block_bitmap, inode_bitmap, scan_inodes| {
            let desc = GroupDesc { block_bitmap, inode_bitmap, inode_table: 100, ..GroupDesc::default() };
            table_stretch(&geometry, &Group { desc, scan_inodes })
        };
        let (size, inode) = (u64::from(geometry.block_size), u64::from(geometry.inode_size));
        assert_eq!(at(98, 99, 8), (98 * size, 2 * size + 8 * inode));
        assert_eq!(at(80, 99, 8), (100 * size, 8 * inode), "too far away");
        assert_eq!(at(98, 97, 8), (100 * size, 8 * inode), "not both");
        assert_eq!(at(98, 99, 0), (0, 0));
    }
}
