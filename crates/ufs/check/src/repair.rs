// SPDX-License-Identifier: MIT OR Apache-2.0
//! What repairs write.

use fsmend_base::{InodeNo, width};
use fsmend_engine::Refusal;
use fsmend_engine::checker::{Checkable, Moved, Mover, Repairable};
use fsmend_engine::crosscheck::allocation::{Observed, Sum};
use fsmend_engine::inodes::{InodeTable, Kind};
use fsmend_engine::repair::{Changes, WritableOverlay};
use fsmend_ufs_format::directory::{CHUNK, Entries, add, clear_chunk, first_chunk, remove};
use fsmend_ufs_format::geometry::DIRECT;
use fsmend_ufs_format::group::CylinderGroup;
use fsmend_ufs_format::inode::{Inode, mode};
use fsmend_ufs_format::superblock::{SUPERBLOCK_MAX, Superblock, SuperblockFlags};
use fsmend_ufs_format::{SECTOR, Version};

use crate::allocation::{FRAGMENTS, put_fragments, put_inodes, totals_of};
use crate::blocks::{Next, Pointer, Slot, Visit, contents, walk};
use crate::{UfsFs, attributes, depth, directory};

/// Permissions of a lost+found that is made: its owner's alone, as FreeBSD makes it.
const LOST_FOUND_MODE: u16 = 0o700;
/// Permissions of a root that is made.
const ROOT_MODE: u16 = 0o755;

impl UfsFs<'_> {
    pub(crate) fn put_record(&self, to: &dyn WritableOverlay, inode: InodeNo, record: &mut Inode<Vec<u8>>) {
        record.seal();
        if let Some(place) = self.record_place(inode) {
            to.write(place, record.bytes());
        }
    }

    /// The group's block to be written: as it is, or a new one where it cannot be trusted.
    fn group_to_write(&self, group: u32) -> CylinderGroup {
        let geometry = self.geometry();
        let mut bytes = vec![0; width::index(geometry.group_bytes)];
        let is_read = self.device.read_at(geometry.group_place(group), &mut bytes).is_ok();
        let stored = CylinderGroup::new(bytes, geometry.order);
        if is_read && stored.flaw(geometry, group).is_none() {
            let mut stored = stored.normalised(geometry, group);
            stored.clear_map_gap(&geometry.layout);
            if geometry.version == Version::Ufs2 {
                stored.set_initediblk(self.scanned_in(group));
            }
            return stored;
        }
        let mut made = CylinderGroup::empty(geometry, group);
        if geometry.version == Version::Ufs2 {
            made.set_initediblk(self.scanned_in(group));
        }
        made
    }

    /// Puts a pointer where `slot` says.
    fn put_pointer(&self, to: &dyn WritableOverlay, record: &mut Inode<Vec<u8>>, slot: Slot, fragment: u64) {
        let geometry = self.geometry();
        match slot {
            Slot::Inode(slot) => record.set_pointer(slot, fragment),
            Slot::Block(block, index) => {
                let size = geometry.version.pointer_size();
                let mut bytes = vec![0; size];
                match geometry.version {
                    Version::Ufs1 => geometry.order.put_u32(&mut bytes, 0, width::low_u32(fragment)),
                    Version::Ufs2 => geometry.order.put_u64(&mut bytes, 0, fragment),
                }
                to.put(geometry.place(block) + index * size as u64, bytes);
            }
        }
    }
}

/// Asks about every run of a map, and changes the map where it was moved.
struct Relocate<'r, 'd, 'm> {
    fs: &'r UfsFs<'d>,
    to: &'r dyn WritableOverlay,
    record: Inode<Vec<u8>>,
    mover: &'r mut Mover<'m>,
}

impl Visit for Relocate<'_, '_, '_> {
    fn pointer(&mut self, pointer: Pointer, is_within: bool) -> Next {
        let Pointer { fragment, count, slot, .. } = pointer;
        if !is_within || !self.fs.geometry().may_be_data(fragment, count) {
            return Next::Over;
        }
        match self.mover.moved(fragment, count) {
            Moved::Stays => Next::Into,
            Moved::To(new) => {
                self.fs.put_pointer(self.to, &mut self.record, slot, new);
                Next::IntoMoved(new)
            }
            Moved::ToNothing => {
                self.fs.put_pointer(self.to, &mut self.record, slot, 0);
                Next::Over
            }
        }
    }
}

impl UfsFs<'_> {
    /// Whether a snapshot shows the same with this change written. Snapshots have copies of superblock, cylinder groups and summary area from the start; of all else they
    /// share the blocks that nothing was written to, also those of files that were removed since.
    fn leaves_snapshots(&self, at: u64, bytes: &[u8]) -> bool {
        let geometry = self.geometry();
        let end = at + bytes.len() as u64;
        let lies_in = |start: u64, len: u64| start <= at && end <= start + len;
        let (summary, length) = geometry.summary_run();
        if lies_in(geometry.superblock_place, SUPERBLOCK_MAX as u64)
            || lies_in(geometry.place(summary), geometry.place(length))
        {
            return true;
        }
        let group = geometry.group_of(at / geometry.fragment_size);
        if lies_in(geometry.superblock_copy(group), SUPERBLOCK_MAX as u64) {
            return true;
        }
        let place = geometry.group_place(group);
        if !lies_in(place, geometry.group_bytes) {
            return false;
        }
        // Nothing may become free there.
        let mut stored = vec![0; width::index(geometry.group_bytes)];
        if self.device.read_at(place, &mut stored).is_err() {
            return false;
        }
        let before = CylinderGroup::new(stored.clone(), geometry.order);
        stored[width::index(at - place)..][..bytes.len()].copy_from_slice(bytes);
        let after = CylinderGroup::new(stored, geometry.order);
        let (before, after) = (before.fragment_map(&geometry.layout), after.fragment_map(&geometry.layout));
        before.iter().zip(after).all(|(before, after)| !before & after == 0)
    }
}

impl Repairable for UfsFs<'_> {
    fn set_links(&self, record: &mut [u8], count: u16) {
        Inode::new(record, self.geometry().order, self.geometry().version).set_links(count);
    }

    fn seal(&self, _inode: InodeNo, record: &mut [u8]) {
        Inode::new(record, self.geometry().order, self.geometry().version).seal();
    }

    fn unit_place(&self, unit: u64) -> (u64, usize) {
        (self.geometry().place(unit), width::index(self.geometry().fragment_size))
    }

    fn run_units(&self) -> u64 {
        self.geometry().fragments
    }

    fn move_units(
        &self,
        to: &dyn WritableOverlay,
        _inode: InodeNo,
        record: &mut [u8],
        mover: &mut Mover<'_>,
    ) {
        let geometry = self.geometry();
        let inode = Inode::new(record.to_vec(), geometry.order, geometry.version);
        let mut relocate = Relocate { fs: self, to, record: inode.clone(), mover };
        if crate::inode::has_map(geometry, &inode) {
            walk(self, &inode, inode.size(), &mut relocate);
        }
        let Relocate { record: mut changed, mover, .. } = relocate;
        for (index, (first, count)) in
            attributes::runs(geometry, &inode).unwrap_or_default().into_iter().enumerate()
        {
            match mover.moved(first, count) {
                Moved::Stays => {}
                Moved::To(new) => changed.set_attribute_block(index, new),
                Moved::ToNothing => changed.set_attribute_block(index, 0),
            }
        }
        record.copy_from_slice(changed.bytes());
    }

    fn make_directory(&self, to: &dyn WritableOverlay, inode: InodeNo, unit: u64, parent: InodeNo) {
        let geometry = self.geometry();
        let mut record = Inode::new(vec![0; geometry.version.inode_size()], geometry.order, geometry.version);
        let permissions = if inode == parent { ROOT_MODE } else { LOST_FOUND_MODE };
        record.set_mode(mode::DIRECTORY | permissions);
        record.set_links(2);
        record.set_size(CHUNK as u64);
        record.set_pointer(0, unit);
        record.set_sectors(geometry.fragment_size / SECTOR);
        record.set_depth(if inode == parent { 0 } else { depth::below_root(self) });
        self.put_record(to, inode, &mut record);
        let mut bytes = vec![0; width::index(geometry.fragment_size)];
        bytes[..CHUNK].copy_from_slice(&first_chunk(geometry.order, inode.0, parent.0));
        to.put(geometry.place(unit), bytes);
    }

    fn extend_directory(
        &self,
        to: &dyn WritableOverlay,
        inode: InodeNo,
        take: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> bool {
        let geometry = self.geometry();
        let Some(mut record) = self.record(inode) else { return false };
        let (size, mut fresh) = (record.size(), [0; CHUNK]);
        clear_chunk(&mut fresh, geometry.order);
        let blocks = geometry.block_count(size);
        let last = blocks.saturating_sub(1);
        let held = last * geometry.block_size + geometry.block_fragments(size, last) * geometry.fragment_size;
        let Some((_, fragment, _)) = contents(self, &record).last().copied() else { return false };
        if size < held {
            // There is room in the fragments that it has.
            to.write(geometry.place(fragment) + size % geometry.block_size, &fresh);
        } else if !size.is_multiple_of(geometry.block_size) {
            // The last block becomes a whole one, in another place.
            let Some(new) = take(geometry.fragments) else { return false };
            let count = geometry.block_fragments(size, last);
            let Some(mut bytes) = self.read(fragment, width::index(count * geometry.fragment_size)) else {
                return false;
            };
            bytes.extend_from_slice(&fresh);
            bytes.resize(width::index(geometry.block_size), 0);
            to.put(geometry.place(new), bytes);
            record.set_pointer(width::index(last), new);
            let more = (geometry.fragments - count) * (geometry.fragment_size / SECTOR);
            record.set_sectors(record.sectors() + more);
            let whole = (last + 1) * geometry.block_size;
            return self.fill_block(to, inode, record, (new, size + CHUNK as u64), whole);
        } else {
            if blocks >= DIRECT {
                return false;
            }
            let Some(new) = take(geometry.fragments) else { return false };
            let mut bytes = vec![0; width::index(geometry.block_size)];
            bytes[..CHUNK].copy_from_slice(&fresh);
            to.put(geometry.place(new), bytes);
            record.set_pointer(width::index(blocks), new);
            record.set_sectors(record.sectors() + geometry.block_size / SECTOR);
            let whole = (blocks + 1) * geometry.block_size;
            return self.fill_block(to, inode, record, (new, size + CHUNK as u64), whole);
        }
        record.set_size(size + CHUNK as u64);
        self.put_record(to, inode, &mut record);
        true
    }

    fn recovered_name(&self, inode: InodeNo) -> String {
        // As FreeBSD's fsck: with as many digits as the largest number of an inode has.
        let width = self.geometry().inode_count().to_string().len();
        format!("#{:0width$}", inode.0)
    }

    fn add_name(
        &self,
        to: &dyn WritableOverlay,
        directory: InodeNo,
        name: &[u8],
        (inode, kind): (InodeNo, Kind),
    ) -> bool {
        let order = self.geometry().order;
        let mut changed = None;
        self.each_chunk(directory, |place, chunk| {
            let Some(chunk) = chunk else { return true };
            let mut copy = chunk.to_vec();
            if add(&mut copy, order, (inode.0, directory::number_of(kind)), name) {
                changed = Some((place, copy));
            }
            changed.is_none()
        });
        let Some((place, chunk)) = changed else { return false };
        to.put(place, chunk);
        true
    }

    fn remove_names(&self, to: &dyn WritableOverlay, directory: InodeNo, target: InodeNo) {
        let order = self.geometry().order;
        let mut changes = Vec::new();
        self.each_chunk(directory, |place, chunk| {
            let Some(chunk) = chunk else { return true };
            let mut copy = chunk.to_vec();
            let offset = |copy: &[u8]| {
                Entries::new(copy, order)
                    .flatten()
                    .find(|entry| entry.inode == target.0 && !matches!(entry.name, b"." | b".."))
                    .map(|entry| entry.offset)
            };
            while let Some(at) = offset(&copy) {
                remove(&mut copy, order, at);
            }
            if copy != chunk {
                changes.push((place, copy));
            }
            true
        });
        changes.into_iter().for_each(|(place, chunk)| to.put(place, chunk));
    }

    fn set_parent(&self, to: &dyn WritableOverlay, directory: InodeNo, parent: InodeNo) {
        let order = self.geometry().order;
        let mut changed = None;
        self.each_chunk(directory, |place, chunk| {
            let mut copy = chunk.map_or_else(|| vec![0; CHUNK], <[u8]>::to_vec);
            directory::set_parent(&mut copy, order, directory, parent.0);
            changed = Some((place, copy));
            false
        });
        if let Some((place, chunk)) = changed {
            to.put(place, chunk);
        }
    }

    fn settle_depths(&self, to: &dyn WritableOverlay, inodes: &InodeTable, mending: &mut dyn FnMut(InodeNo)) {
        depth::settle(self, to, inodes, mending);
    }

    fn store_map(&self, to: &dyn WritableOverlay, area: u32, map: usize, observed: &Observed) {
        let geometry = self.geometry();
        let mut group = self.group_to_write(area);
        let counts = match map {
            FRAGMENTS => put_fragments(self, &mut group, observed),
            _ => put_inodes(self, &mut group, observed),
        };
        group.seal(geometry);
        to.write(geometry.group_place(area), group.bytes());
        let mut summary = [0; fsmend_ufs_format::summary::COUNTS_SIZE];
        counts.store(&mut summary, geometry.order);
        to.write(self.summary_place(area), &summary);
    }

    fn store_totals(&self, to: &dyn WritableOverlay, sums: &[Sum]) {
        let geometry = self.geometry();
        let mut bytes = vec![0; SUPERBLOCK_MAX];
        let read = self.device.read_at(geometry.superblock_place, &mut bytes).ok();
        let Some(mut superblock) = read.and_then(|()| Superblock::parse(&bytes)) else { return };
        let totals = totals_of(sums);
        superblock.set_totals(totals);
        if geometry.version == Version::Ufs1 {
            let small = |value: i64| i32::try_from(value).unwrap_or(i32::MAX);
            superblock.set_old_totals(fsmend_ufs_format::summary::Counts {
                directories: small(totals.directories),
                free_blocks: small(totals.free_blocks),
                free_inodes: small(totals.free_inodes),
                free_fragments: small(totals.free_fragments),
            });
        }
        superblock.set_clean(1);
        superblock.set_flags(superblock.flags() & !(SuperblockFlags::NEEDS_FSCK | SuperblockFlags::UNCLEAN));
        if superblock.flags().contains(SuperblockFlags::JOURNAL) {
            // The journal belongs to the mount of this time: what it tells is not to be done once more. Inodes on its list were freed.
            superblock.set_mtime(i64::try_from(self.layout.now).unwrap_or(i64::MAX).max(superblock.mtime()));
            superblock.set_sujfree(0);
        }
        superblock.set_pendingblocks(0);
        superblock.set_pendinginodes(0);
        superblock.seal();
        to.write(geometry.superblock_place, superblock.covered());
    }

    fn store_quotas(&self, to: &dyn WritableOverlay) {
        crate::quota::store(self, to);
    }

    fn forbids(&self, changes: &Changes) -> Option<Refusal> {
        let count = self.layout.superblock.snapshots().count();
        if count == 0 || changes.iter().all(|(at, bytes)| self.leaves_snapshots(*at, bytes)) {
            return None;
        }
        Some(Refusal {
            code: "snapshots",
            message: format!(
                "The file system has {count} active snapshot{}, which this repair would change: nothing was written",
                if count == 1 { "" } else { "s" }
            ),
            hint:
                "Remove the snapshots under FreeBSD, or run its fsck_ffs, which copies blocks to them first"
                    .to_owned(),
        })
    }
}

impl UfsFs<'_> {
    /// Finishes a directory that got a new last block: its chunks behind `end` and up to `whole` are made ready, so that the file ends with its block.
    fn fill_block(
        &self,
        to: &dyn WritableOverlay,
        inode: InodeNo,
        mut record: Inode<Vec<u8>>,
        (fragment, end): (u64, u64),
        whole: u64,
    ) -> bool {
        let geometry = self.geometry();
        let mut fresh = [0; CHUNK];
        clear_chunk(&mut fresh, geometry.order);
        let start = whole - geometry.block_size;
        for at in (end..whole).step_by(CHUNK) {
            to.write(geometry.place(fragment) + (at - start), &fresh);
        }
        record.set_size(whole);
        self.put_record(to, inode, &mut record);
        true
    }
}
