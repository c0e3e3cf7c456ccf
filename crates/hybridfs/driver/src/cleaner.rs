// SPDX-License-Identifier: MIT OR Apache-2.0
//! For measuring: the cleaner of a log-structured file system. The log is taken in zones of fixed size that are all free, and zones with little in them are emptied: what is in use there is rewritten.
//!
//! hybridfs itself needs none of this. Only what was written since the mount is moved; a zone that holds something older is never empty.

use fsmend_blockcache::MountState;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use fsmend_hybridfs_format::{Kind, OWNER_BFILE, OWNER_IFILE, Row};
use fsmend_vfs::{Errno, InodeNo, Result, Time};

use crate::commit::extent_at;
use crate::directory::load_block;
use crate::segment::Segment;
use crate::tree::floor;
use crate::volume::{Commit, Contents, Volume};

/// With fewer free zones than this, zones are cleaned, until there are twice as many.
const FREE_MIN: u64 = 12;
/// Zones that are emptied with one segment.
const AT_ONCE: usize = 4;
/// Rounds in a row that give no zone, after which cleaning waits for more to clean.
const IN_VAIN_MAX: usize = 3;
/// Segments after which what one gives back may be used.
const UNTIL_FREE: usize = 2;

/// Which zones are cleaned first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cleaning {
    /// Those with the least in use.
    Greedy,
    /// Those with the best ratio of benefit to cost: what is free, times its age, for reading the zone and writing what is in use (Rosenblum and Ousterhout).
    CostBenefit,
}

/// What the cleaner knows.
pub(crate) struct Cleaner {
    how: Cleaning,
    /// What was written where.
    objects: BTreeMap<u64, Row>,
    /// The segment that last wrote to a zone.
    written: HashMap<u64, u64>,
}

impl Cleaner {
    pub fn new(how: Cleaning) -> Cleaner {
        Cleaner { how, objects: BTreeMap::new(), written: HashMap::new() }
    }

    /// Notes what a segment has written.
    pub fn note(&mut self, segment: &Segment, zone_of: impl Fn(u64) -> u64) {
        for row in segment.stream.rows.iter().chain(&segment.owned) {
            self.objects.insert(row.address, *row);
            self.written.insert(zone_of(row.address), segment.ssn);
        }
    }

    /// Of zones with their shares in use, the ones to clean.
    fn choose(&self, zones: &[(u64, f64)], now: u64) -> Vec<u64> {
        let value = |(zone, used): &(u64, f64)| match self.how {
            Cleaning::Greedy => 1.0 - used,
            Cleaning::CostBenefit => {
                let age = now.saturating_sub(self.written.get(zone).copied().unwrap_or(0));
                (1.0 - used) * age as f64 / (1.0 + used)
            }
        };
        let mut order: Vec<(u64, f64)> = zones.iter().map(|zone| (zone.0, value(zone))).collect();
        order.sort_by(|one, other| other.1.partial_cmp(&one.1).unwrap_or(Ordering::Equal));
        order.into_iter().take(AT_ONCE).map(|(zone, _)| zone).collect()
    }
}

impl Volume {
    /// Takes the log in zones from now on, and cleans them.
    pub fn set_cleaner(&mut self, how: Option<Cleaning>) {
        self.cleaner = how.map(Cleaner::new);
        let blocks = u64::from(self.io.sb.segment_fragments) / self.io.sb.per_block();
        self.space.set_zones(if how.is_some() { blocks } else { 0 });
    }

    /// Empties zones if few are free.
    pub fn clean(&mut self, now: Time) -> Result<()> {
        let Some(mut cleaner) = self.cleaner.take().filter(|_| self.mode != MountState::Failed) else {
            return Ok(());
        };
        let result = self.empty_until_enough(&mut cleaner, now);
        self.cleaner = Some(cleaner);
        result
    }

    fn empty_until_enough(&mut self, cleaner: &mut Cleaner, now: Time) -> Result<()> {
        let mut free = self.space.free_zones();
        let goal = if free < FREE_MIN { FREE_MIN * 2 } else { 0 };
        let mut in_vain = 0;
        while free < goal && in_vain < IN_VAIN_MAX {
            let before = free;
            self.empty_some(cleaner, now)?;
            free = self.space.free_zones();
            in_vain = if free <= before { in_vain + 1 } else { 0 };
        }
        Ok(())
    }

    fn empty_some(&mut self, cleaner: &mut Cleaner, now: Time) -> Result<()> {
        let mut zones = self.space.zones_in_use();
        // The head of the log never moves: its zone would be the emptiest for good.
        zones.retain(|(zone, _)| cleaner.objects.range(self.space.zone_addresses(*zone)).next().is_some());
        for zone in cleaner.choose(&zones, self.last.ssn) {
            let range = self.space.zone_addresses(zone);
            let rows: Vec<Row> = cleaner.objects.range(range).map(|(_, row)| *row).collect();
            for row in rows {
                match self.move_object(&row) {
                    Ok(()) | Err(Errno::NotFound) => {}
                    Err(error) => return Err(error),
                }
                cleaner.objects.remove(&row.address);
            }
        }
        self.write_noted(cleaner, now, Commit::Checkpoint)?;
        (0..UNTIL_FREE).try_for_each(|_| self.write_noted(cleaner, now, Commit::Forced))
    }

    fn write_noted(&mut self, cleaner: &mut Cleaner, now: Time, how: Commit) -> Result<()> {
        // It takes notes only where it belongs.
        let mine = std::mem::replace(cleaner, Cleaner::new(cleaner.how));
        self.cleaner = Some(mine);
        let result = self.write_once(now, how);
        if let Some(mine) = self.cleaner.take() {
            *cleaner = mine;
        }
        result
    }

    /// Has an object written anew with the next segment, if it still lies where it was written.
    fn move_object(&mut self, row: &Row) -> Result<()> {
        let (at, key) = (row.address, row.key);
        match (row.kind, row.owner) {
            (Kind::Bitmap | Kind::Summary, _) | (_, OWNER_BFILE) => return Ok(()),
            (Kind::Node, OWNER_IFILE) => return self.ifile.change(&self.io, key, |_| Ok(())),
            (Kind::Inodes, _) => {
                let is_there = self.ifile.get(&self.io, key)?.is_some_and(|found| found.place.address == at);
                if is_there {
                    self.dirty_block(key)?;
                }
                return Ok(());
            }
            _ => {}
        }
        let number = InodeNo(u32::try_from(row.owner).map_err(|_| Errno::NotFound)?);
        self.with(number, |volume, live| {
            let is_moved = match (row.kind, &mut live.contents) {
                (Kind::Contents, Contents::Small { at: Some(found), dirty: false, .. })
                    if found.place.address == at =>
                {
                    let len = volume.small(live)?.len();
                    volume.small_changed(live, len, len);
                    true
                }
                (Kind::Contents, Contents::Extents { map, blocks, .. }) => {
                    if blocks.contains_key(&key) || extent_at(map, &volume.io, key)? != Some(at) {
                        return Ok(());
                    }
                    let mut block = vec![0; volume.io.block_size()];
                    volume.io.read(volume.io.offset(at), &mut block)?;
                    let len = block.len() as u64;
                    blocks.insert(key, block);
                    volume.waiting += len;
                    volume.waiting_data += len;
                    true
                }
                (Kind::Node, Contents::Extents { map: tree, .. } | Contents::Directory(tree))
                    if tree.height >= row.level =>
                {
                    tree.change(&volume.io, key, |_| Ok(()))?;
                    true
                }
                (Kind::Directory, Contents::Directory(tree)) => {
                    let found = tree.get(&volume.io, key)?.is_some_and(|found| found.place.address == at);
                    if found {
                        load_block(tree, &volume.io, key)?;
                        let io = &volume.io;
                        tree.change(io, key, |slots| {
                            let index = floor(slots, key);
                            slots.get_mut(index).into_iter().for_each(|slot| slot.touch(io));
                            Ok(())
                        })?;
                    }
                    found
                }
                (Kind::Attributes, _) => {
                    let is_there = live.attributes_at.is_some_and(|found| found.place.address == at);
                    live.attributes_dirty |= is_there;
                    is_there
                }
                _ => false,
            };
            if is_moved { volume.mark(live) } else { Ok(()) }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use fsmend_base::SeededRandom;
    use fsmend_device::{WritableDevice, WritableMemory};
    use fsmend_vfs::{FileSystem, Permissions};

    use super::*;
    use crate::mkfs::{Options, mkfs};
    use crate::{Hybrid, MountOptions};

    const ZONE_BLOCKS: u64 = 16;

    fn contents(number: u64, version: u64) -> Vec<u8> {
        vec![(number * 7 + version) as u8; 600 + (number % 5 * 700) as usize]
    }

    /// Writes files anew at random. How many zones are free then.
    fn free_after_churn(cleaner: Option<Cleaning>) -> u64 {
        let now = Time::at(1_700_000_000);
        let device: Arc<dyn WritableDevice> = Arc::new(WritableMemory::new("log", vec![0; 12 << 20]));
        let shape = Options {
            fragment_size: 1024,
            block_size: 4096,
            log_bytes: Some(8 << 20),
            segment_bytes: Some(ZONE_BLOCKS * 4096),
            inodes: Some(4096),
            ..Options::new(*b"0123456789abcdef", now)
        };
        mkfs(Arc::clone(&device), &shape).unwrap();
        let options = MountOptions { all_in_log: true, cleaner, ..MountOptions::new(now) };
        let mut fs = Hybrid::mount(Arc::clone(&device), options).unwrap();
        let (root, of) = (fs.root(), Permissions { mode: 0o644, uid: 0, gid: 0 });
        let mut random = SeededRandom::new(5);
        let mut files: Vec<(InodeNo, u64)> = Vec::new();
        for number in 0..1_500 {
            let inode = fs.create(root, format!("{number}").as_bytes(), of, now).unwrap().inode;
            fs.write(inode, 0, &contents(number, 0), now).unwrap();
            files.push((inode, 0));
        }
        for _ in 0..6_000 {
            let number = random.below(files.len() as u64);
            let (inode, version) = &mut files[number as usize];
            *version += 1;
            fs.write(*inode, 0, &contents(number, *version), now).unwrap();
        }
        fs.sync(now).unwrap();
        fs.volume.space.set_zones(ZONE_BLOCKS);
        let free = fs.volume.space.free_zones();
        assert_eq!(fs.audit().unwrap(), Vec::<String>::new());
        fs.unmount(now).unwrap();
        let mut fs = Hybrid::mount(device, MountOptions::new(now)).unwrap();
        for (number, (inode, version)) in (0..).zip(files) {
            let expected = contents(number, version);
            let mut found = vec![0; expected.len()];
            assert_eq!(fs.read(inode, 0, &mut found), Ok(expected.len()));
            assert!(found == expected, "file {number}");
        }
        free
    }

    #[test]
    fn a_cleaner_keeps_zones_free_and_every_file_whole() {
        let without = free_after_churn(None);
        assert!(without < FREE_MIN, "{without} zones are free without a cleaner: the churn is too light");
        for how in [Cleaning::Greedy, Cleaning::CostBenefit] {
            let free = free_after_churn(Some(how));
            assert!(free >= FREE_MIN, "{how:?}: {free} zones");
        }
    }

    /// Zones with their shares in use, and the segment that last wrote to each.
    const ZONES: [(u64, f64, u64); 6] =
        [(0, 0.2, 99), (1, 0.3, 98), (2, 0.75, 10), (3, 0.5, 60), (4, 0.9, 90), (5, 0.6, 20)];

    fn chosen(how: Cleaning) -> Vec<u64> {
        let mut cleaner = Cleaner::new(how);
        cleaner.written = ZONES.iter().map(|(zone, _, ssn)| (*zone, *ssn)).collect();
        cleaner.choose(&ZONES.map(|(zone, used, _)| (zone, used)), 100)
    }

    #[test]
    fn the_greedy_one_takes_what_is_least_full() {
        assert_eq!(chosen(Cleaning::Greedy), [0, 1, 3, 5]);
    }

    /// Worth: 0.67, 1.1, 12.9, 13.3, 0.5, 20.
    #[test]
    fn the_other_one_takes_what_has_been_left_alone_for_long() {
        assert_eq!(chosen(Cleaning::CostBenefit), [5, 3, 2, 1]);
    }
}
