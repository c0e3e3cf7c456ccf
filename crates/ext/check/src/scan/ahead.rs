//! What the kernel is told about before it is read: inode tables, and the bitmaps that are compared at the end.

use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::{BlockNo, GroupNo};

use super::Scan;
use crate::reading::announce_all;

/// Inode tables that the kernel is told about ahead of the one that is read.
const TABLES_AHEAD: u32 = 16;
/// Blocks before an inode table among which its group's bitmap is worth reading along.
const BITMAP_BEFORE: u64 = 16;

impl Scan<'_> {
    /// Tells the kernel about the inode tables that come after that of `group`, so that the device never idles between
    /// two of them.
    pub(super) fn announce_tables(&self, group: GroupNo) {
        if self.sample.is_some() {
            return self.announce_sample(group);
        }
        let upto = (group.0 + TABLES_AHEAD).min(self.fs.geometry.group_count.saturating_sub(1));
        let from = self.announced.fetch_max(upto + 1, Relaxed).max(group.0 + 1);
        (from..=upto).for_each(|ahead| self.announce_table(ahead));
    }

    /// The same where only some groups are looked at.
    fn announce_sample(&self, group: GroupNo) {
        let is_next = |ahead: &&u32| **ahead > group.0 && **ahead >= self.announced.load(Relaxed);
        let ahead = self.sample.unwrap_or_default().iter().filter(is_next).take(TABLES_AHEAD as usize);
        for ahead in ahead {
            self.announced.fetch_max(ahead + 1, Relaxed);
            self.announce_table(*ahead);
        }
    }

    fn announce_table(&self, group: u32) {
        let state = &self.fs.groups[group as usize];
        let table = state.desc.inode_table;
        if state.scan_inodes == 0 || table == 0 {
            return;
        }
        let len = u64::from(state.scan_inodes) * u64::from(self.fs.geometry.inode_size);
        // Where there are regions, the bitmap says what of them is read. It mostly stands right before the table; to come back
        // for it would cost a disk more than a turn.
        let before = table.saturating_sub(state.desc.block_bitmap);
        let before = if self.by_region() && before <= BITMAP_BEFORE { before } else { 0 };
        let more = before * u64::from(self.fs.geometry.block_size);
        self.fs.device.readahead(self.fs.block_offset(BlockNo(table - before)), more + len);
    }

    /// Tells the kernel about the bitmaps of some groups, a share of them with each inode table: read one by one at the end, they
    /// would cost a wait each.
    pub(super) fn announce_bitmaps(&self) {
        if self.sample.is_some() {
            return;
        }
        let groups = self.fs.groups.len() as u64;
        let begun = u64::from(self.tables_begun.fetch_add(1, Relaxed)) + 1;
        let upto = (groups * begun).div_ceil(self.tables.load(Relaxed).max(1)).min(groups) as usize;
        let from = self.announced_bitmaps.fetch_max(upto, Relaxed);
        let groups = self.fs.groups.get(from..upto).unwrap_or_default();
        announce_all(self.fs, groups.iter().flat_map(|group| self.fs.stored_bitmaps(&group.desc)).collect());
    }
}
