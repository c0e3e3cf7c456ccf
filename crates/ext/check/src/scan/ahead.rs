// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is announced to the kernel before it is read: inode tables, and the bitmaps that are compared at the end.

use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::{GroupNo, width};

use super::{Scan, Worker};
use crate::Group;
use crate::group::{Window, bitmaps_stand_before, table_stretch};
use crate::reading::announce_all;

/// Inode tables announced to the kernel ahead of the one that is read, where only some groups are looked at.
const TABLES_AHEAD: usize = 16;
/// Groups whose bitmaps are announced together: those of a flexible group lie in a row, and it has so many groups by default.
const BITMAPS_AT_ONCE: u64 = 16;
/// Regions announced ahead of the one that is read: their bitmaps, which came with the tables, say what is read of them.
const REGIONS_AHEAD: u32 = 8;

impl Scan<'_> {
    /// Announces the inode tables that come after that of `group`, so that the device never idles between
    /// two of them.
    pub(super) fn announce_tables(&self, group: GroupNo) {
        if self.sample.is_some() {
            return self.announce_sample(group);
        }
        if group.0.saturating_add(Window::ENOUGH) < self.announced.load(Relaxed) {
            return;
        }
        let (mut window, first) = (Window::default(), group.0 + 1);
        let behind = self.fs.groups.iter().skip(first as usize);
        let len = |group: &Group| table_stretch(&self.fs.geometry, group).1;
        let upto = first + width::len_u32(behind.take_while(|group| window.takes(len(group))).count());
        let from = self.announced.fetch_max(upto, Relaxed).max(first);
        (from..upto).for_each(|ahead| self.announce_table(ahead));
    }

    /// The same where only some groups are looked at.
    fn announce_sample(&self, group: GroupNo) {
        let is_next = |ahead: &&u32| **ahead > group.0 && **ahead >= self.announced.load(Relaxed);
        let groups = self.sample.map_or(&[][..], |sample| sample.groups);
        let ahead = groups.iter().filter(is_next).take(if self.may_announce() { TABLES_AHEAD } else { 0 });
        for ahead in ahead {
            self.announced.fetch_max(ahead + 1, Relaxed);
            self.announce_table(*ahead);
        }
    }

    fn announce_table(&self, group: u32) {
        let (start, len) = table_stretch(&self.fs.geometry, &self.fs.groups[group as usize]);
        if len > 0 {
            self.fs.device.readahead(start, len);
        }
    }

    /// Tells the kernel about the bitmaps of some groups, a share of them with each inode table: read one by one at the end, they
    /// would cost a wait each.
    pub(super) fn announce_bitmaps(&self) {
        if self.sample.is_some() {
            return;
        }
        let groups = self.fs.groups.len() as u64;
        let begun = u64::from(self.tables_begun.fetch_add(1, Relaxed)) + 1;
        let share = (groups * begun).div_ceil(self.tables.load(Relaxed).max(1));
        let upto = width::index(share.next_multiple_of(BITMAPS_AT_ONCE).min(groups));
        let from = self.announced_bitmaps.fetch_max(upto, Relaxed);
        let groups = self.fs.groups.get(from..upto).unwrap_or_default();
        let apart =
            groups.iter().filter(|group| group.scan_inodes == 0 || !bitmaps_stand_before(&group.desc));
        announce_all(self.fs, apart.flat_map(|group| self.fs.stored_bitmaps(&group.desc)).collect());
    }

    /// Tells the kernel about the regions from that of `group` on, so that the device finds them while it is nearby.
    pub(super) fn announce_regions(&self, worker: &Worker<'_>, group: GroupNo) {
        if !self.by_region() || !worker.waits_for_device() {
            return;
        }
        let upto = (group.0 + REGIONS_AHEAD).min(self.fs.geometry.group_count.saturating_sub(1));
        let from = self.announced_regions.fetch_max(upto + 1, Relaxed).max(group.0);
        (from..=upto).for_each(|ahead| announce_all(self.fs, self.fs.used_in_region(GroupNo(ahead))));
    }
}
