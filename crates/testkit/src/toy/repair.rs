// SPDX-License-Identifier: MIT OR Apache-2.0
//! What repairs of the toy format write.

use fsmend_base::InodeNo;
use fsmend_engine::checker::{Checkable, Moved, Mover, Repairable};
use fsmend_engine::crosscheck::allocation::{Observed, Sum};
use fsmend_engine::inodes::Kind;
use fsmend_engine::repair::WritableOverlay;

use super::ToyFs;
use super::format::{BLOCK, DIRECTORY, ENTRY, Entry, FILE, Record, Superblock};

impl ToyFs<'_> {
    fn put_record(&self, to: &dyn WritableOverlay, inode: InodeNo, record: &Record) {
        if let Some(place) = self.record_place(inode) {
            to.write(place, &record.store());
        }
    }
}

impl Repairable for ToyFs<'_> {
    fn set_links(&self, record: &mut [u8], count: u16) {
        let links = Record { links: count, ..Record::parse(record).0 };
        record.copy_from_slice(&links.store());
    }

    fn seal(&self, _inode: InodeNo, record: &mut [u8]) {
        record.copy_from_slice(&Record::parse(record).0.store());
    }

    fn unit_place(&self, unit: u64) -> (u64, usize) {
        (unit * BLOCK as u64, BLOCK)
    }

    fn move_units(&self, _: &dyn WritableOverlay, _: InodeNo, record: &mut [u8], mover: &mut Mover<'_>) {
        let mut changed = Record::parse(record).0;
        for block in changed.blocks.iter_mut().filter(|block| **block != 0) {
            match mover.moved(u64::from(*block), 1) {
                Moved::Stays => {}
                Moved::To(unit) => *block = unit as u32,
                Moved::ToNothing => *block = 0,
            }
        }
        record.copy_from_slice(&changed.store());
    }

    fn make_directory(&self, to: &dyn WritableOverlay, inode: InodeNo, unit: u64, parent: InodeNo) {
        let mut blocks = [0; super::POINTERS];
        blocks[0] = unit as u32;
        self.put_record(to, inode, &Record { kind: DIRECTORY, links: 2, size: BLOCK as u32, blocks });
        to.write(unit * BLOCK as u64, &[0; BLOCK]);
        self.set_parent(to, inode, parent);
    }

    fn extend_directory(
        &self,
        to: &dyn WritableOverlay,
        inode: InodeNo,
        take: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> bool {
        let mut record = self.record(inode);
        let Some(free) = record.blocks.iter_mut().find(|block| **block == 0) else { return false };
        let Some(unit) = take(1) else { return false };
        *free = unit as u32;
        record.size += BLOCK as u32;
        to.write(unit * BLOCK as u64, &[0; BLOCK]);
        self.put_record(to, inode, &record);
        true
    }

    fn add_name(
        &self,
        to: &dyn WritableOverlay,
        directory: InodeNo,
        name: &[u8],
        (inode, kind): (InodeNo, Kind),
    ) -> bool {
        let (mut place, mut is_first) = (None, true);
        self.each_entry(directory, |at, entry| {
            let is_free = entry.is_some_and(|entry| entry.inode == 0) && !is_first;
            place = place.or(is_free.then_some(at));
            is_first = false;
        });
        let Some(at) = place else { return false };
        let kind = if kind == Kind::Directory { DIRECTORY } else { FILE };
        to.write(at, &Entry { inode: inode.0, kind, name: name.to_vec() }.store());
        true
    }

    fn remove_names(&self, to: &dyn WritableOverlay, directory: InodeNo, target: InodeNo) {
        let mut places = Vec::new();
        self.each_entry(directory, |at, entry| {
            if entry.is_some_and(|entry| entry.inode == target.0 && entry.name != b"..") {
                places.push(at);
            }
        });
        places.into_iter().for_each(|at| to.write(at, &[0; ENTRY]));
    }

    fn set_parent(&self, to: &dyn WritableOverlay, directory: InodeNo, parent: InodeNo) {
        let first = self.record(directory).blocks[0];
        let entry = Entry { inode: parent.0, kind: DIRECTORY, name: b"..".to_vec() };
        if first != 0 {
            to.write(u64::from(first) * BLOCK as u64, &entry.store());
        }
    }

    fn store_map(&self, to: &dyn WritableOverlay, _area: u32, map: usize, observed: &Observed) {
        to.write(((1 + map) * BLOCK) as u64, &observed.used.to_bitmap(BLOCK));
    }

    fn store_totals(&self, to: &dyn WritableOverlay, sums: &[Sum]) {
        let free = |map: usize| sums.get(map).map_or(0, |sum| sum.observed as u32);
        to.write(0, &Superblock { free_blocks: free(0), free_inodes: free(1), ..self.superblock }.store());
    }
}
