// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal of soft updates: what was on its way to the disk when the system stopped is finished or taken back, in memory.
//!
//! - `log`: finds the journal and reads its records
//! - `disk`: the image as it will be: inodes, pointers, entries; `groups`: cylinder groups in which inodes and blocks become free
//! - `blocks`: records of blocks and truncations; `links`: records of names
//!
//! The order is that of FreeBSD's fsck: inodes that were unlinked while in use, truncations, blocks, counts of blocks, names. Then the maps of the groups are added up anew.
//! A record never tells what is right by itself: it says where to look, and what is found there decides.
//! Work is limited by the size of the file system: a block becomes free once, and reading has a budget.

mod blocks;
mod disk;
mod groups;
mod links;
mod log;

use std::collections::BTreeMap;
use std::fmt;

use fsmend_device::Device;
use fsmend_ufs_format::Geometry;
use fsmend_ufs_format::journal::Record;
use fsmend_ufs_format::summary::Counts;
use fsmend_ufs_format::superblock::{Superblock, SuperblockFlags};

use disk::Disk;
use groups::Groups;

/// What a replay comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replay {
    /// What it writes: byte offsets and bytes, in the order of the device.
    pub writes: Vec<(u64, Vec<u8>)>,
    /// Records that were read.
    pub records: usize,
    /// Inodes that it frees.
    pub freed_inodes: u64,
    /// Fragments that it frees.
    pub freed_fragments: u64,
}

/// Why a journal cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// The superblock asks for a complete check instead.
    FullCheck,
    /// There are snapshots, which would have to take what becomes free.
    Snapshots,
    /// The root directory has no journal.
    Missing,
    /// This inode is the journal, but it is not what a journal has to be.
    NotAJournal(u32),
    /// It belongs to another mount.
    OtherMount,
    /// Its oldest segments are missing.
    Gap,
    /// It has a record of a kind that is not known.
    UnknownRecord(u32),
    /// It names an inode, a block or a place that does not exist.
    Impossible,
    /// The header of this group makes no sense.
    Group(u32),
    /// This byte offset cannot be read.
    Unreadable(u64),
    /// More blocks would have to be read than there are.
    TooMuch,
}

impl fmt::Display for Unusable {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::FullCheck => write!(to, "the superblock asks for a full check"),
            Unusable::Snapshots => write!(to, "the file system has snapshots"),
            Unusable::Missing => write!(to, "the root directory has no journal file"),
            Unusable::NotAJournal(inode) => write!(to, "inode {inode} is not a valid journal file"),
            Unusable::OtherMount => write!(to, "it was written by an earlier mount"),
            Unusable::Gap => write!(to, "its oldest segments are missing"),
            Unusable::UnknownRecord(kind) => write!(to, "it has a record of the unknown type {kind}"),
            Unusable::Impossible => write!(to, "it has a record that contradicts the file system"),
            Unusable::Group(group) => write!(to, "cylinder group {group} is damaged"),
            Unusable::Unreadable(offset) => write!(to, "byte {offset} cannot be read"),
            Unusable::TooMuch => write!(to, "a damaged file refers to more blocks than the file system has"),
        }
    }
}

/// Replays the journal of the file system on `device`, whose superblock is `superblock`: what would have to be written, or why it cannot be used. The device stays as it is.
pub fn replay(device: &dyn Device, geometry: &Geometry, superblock: &Superblock) -> Result<Replay, Unusable> {
    if superblock.flags().contains(SuperblockFlags::NEEDS_FSCK) {
        return Err(Unusable::FullCheck);
    }
    if superblock.snapshots().next().is_some() {
        return Err(Unusable::Snapshots);
    }
    let mut disk = Disk::new(device, geometry);
    let mut groups = Groups::new(geometry);
    let records = log::read(&mut disk, &groups, superblock)?;
    let sorted = Sorted::of(&records, &disk)?;
    unlinked(&mut disk, &mut groups, superblock)?;
    for (inode, size) in &sorted.truncations {
        blocks::truncate(&mut disk, &mut groups, *inode, *size)?;
    }
    blocks::settle(&mut disk, &mut groups, &sorted.blocks)?;
    links::settle(&mut disk, &mut groups, &sorted.links)?;
    blocks::count(&mut disk, &mut groups, &sorted.blocks)?;
    let (freed_inodes, freed_fragments) = (groups.freed_inodes, groups.freed_fragments);
    let totals = groups.finish(&mut disk)?;
    finish(&mut disk, superblock, totals)?;
    Ok(Replay { writes: disk.into_writes(), records: records.len(), freed_inodes, freed_fragments })
}

/// The records, by what they are about.
#[derive(Default)]
struct Sorted {
    /// Truncations that were not followed by a sync, by inode.
    truncations: BTreeMap<u32, u64>,
    /// By the first fragment of the block.
    blocks: BTreeMap<u64, Vec<blocks::BlockRecord>>,
    /// By inode.
    links: BTreeMap<u32, links::History>,
}

impl Sorted {
    fn of(records: &[Record], disk: &Disk<'_>) -> Result<Sorted, Unusable> {
        let mut sorted = Sorted::default();
        for record in records {
            sorted.add(record, disk.geometry)?;
        }
        Ok(sorted)
    }

    fn add(&mut self, record: &Record, geometry: &Geometry) -> Result<(), Unusable> {
        let known = |inode: u32| inode < geometry.inode_count();
        match *record {
            Record::Link { is_removal, inode, parent, links, mode, offset } => {
                let offset = u64::try_from(offset).map_err(|_| Unusable::Impossible)?;
                if !known(inode) || !known(parent) {
                    return Err(Unusable::Impossible);
                }
                let history = self.links.entry(inode).or_insert(links::History::new(links, mode));
                history.add(is_removal, (parent, offset));
            }
            Record::Move { inode, parent, from, to } => {
                let (Ok(from), Ok(to)) = (u64::try_from(from), u64::try_from(to)) else {
                    return Err(Unusable::Impossible);
                };
                if let Some(history) = self.links.get_mut(&inode) {
                    history.moved(parent, from, to);
                }
            }
            Record::Block { is_freed, inode, fragment, index, count, .. } => {
                let record = blocks::BlockRecord { is_freed, inode, fragment, index, count: count.into() };
                if !known(inode) || !record.is_possible(geometry) {
                    return Err(Unusable::Impossible);
                }
                let block = fragment - fragment % geometry.fragments;
                self.blocks.entry(block).or_default().push(record);
            }
            Record::Size { is_truncation, inode, size, .. } => {
                let size = u64::try_from(size).map_err(|_| Unusable::Impossible)?;
                if !known(inode) {
                    return Err(Unusable::Impossible);
                }
                match is_truncation {
                    true => self.truncations.insert(inode, size),
                    false => self.truncations.remove(&inode),
                };
            }
        }
        Ok(())
    }
}

/// Frees the inodes that were unlinked while in use: a list through the inodes.
fn unlinked(disk: &mut Disk<'_>, groups: &mut Groups<'_>, superblock: &Superblock) -> Result<(), Unusable> {
    let mut inode = superblock.sujfree();
    // Each turn frees an inode, so a list that leads back to itself ends.
    while inode != 0 {
        let Some(record) = disk.inode(groups, inode)? else { break };
        if record.links() != 0 {
            break;
        }
        let next = record.depth();
        blocks::free_inode(disk, groups, inode)?;
        inode = next;
    }
    Ok(())
}

/// The superblock as it is after the replay. Another time of the mount ends the session of the journal: it is not replayed again.
fn finish(disk: &mut Disk<'_>, superblock: &Superblock, totals: Counts<i64>) -> Result<(), Unusable> {
    let mut written = superblock.clone();
    written.set_totals(totals);
    written.set_clean(1);
    written.set_sujfree(0);
    written.set_pendingblocks(0);
    written.set_pendinginodes(0);
    written.set_mtime(superblock.mtime().wrapping_add(1));
    written.seal();
    disk.write(disk.geometry.superblock_place, written.covered().to_vec())
}
