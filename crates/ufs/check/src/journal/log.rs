// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the journal and reads the records that are still needed.
//!
//! The file is a ring: segments of this mount lie among those of earlier ones. What counts is what each says of itself: the mount, its number, the oldest one still needed.

use fsmend_base::width;
use fsmend_ufs_format::geometry::ROOT;
use fsmend_ufs_format::inode::{INDIRECT, InodeFlags, mode};
use fsmend_ufs_format::journal::{NAME, RECORD, Record, SIZE_MIN, Segment};
use fsmend_ufs_format::superblock::Superblock;
use fsmend_ufs_format::{ByteOrder, SECTOR};

use super::Unusable;
use super::disk::{Disk, Record as InodeRecord};
use super::groups::Groups;

/// Largest journal that is read. FreeBSD makes none larger than a cylinder group.
const SIZE_MAX: u64 = 1 << 30;
/// Records of a sector, behind its header.
const SECTOR_RECORDS: u64 = SECTOR / RECORD as u64 - 1;

/// A segment, and where it begins.
struct Found {
    segment: Segment,
    sector: u64,
}

/// The records of the journal in their order.
pub(super) fn read(
    disk: &mut Disk<'_>,
    groups: &Groups<'_>,
    superblock: &Superblock,
) -> Result<Vec<Record>, Unusable> {
    let root = disk.inode(groups, ROOT)?.filter(|root| root.file_type() == mode::DIRECTORY);
    let root = root.ok_or(Unusable::Missing)?;
    let number = disk.lookup(&root, NAME)?.ok_or(Unusable::Missing)?;
    let inode = disk.inode(groups, number)?.ok_or(Unusable::NotAJournal(number))?;
    let wanted = InodeFlags::IMMUTABLE | InodeFlags::NO_UNLINK;
    let is_valid = inode.file_type() == mode::REGULAR
        && inode.links() == 1
        && inode.flags().contains(wanted)
        && (SIZE_MIN..=SIZE_MAX).contains(&inode.size());
    if !is_valid {
        return Err(Unusable::NotAJournal(number));
    }
    if inode.modification_count() != superblock.mtime().cast_unsigned() {
        return Err(Unusable::OtherMount);
    }
    let ring = Ring::new(disk, &inode, number)?;
    let found = ring.segments(disk, superblock.mtime())?;
    let mut records = Vec::new();
    for one in needed(found)? {
        ring.records(disk, &one, &mut records)?;
    }
    Ok(records)
}

/// The blocks of the journal.
struct Ring {
    blocks: Vec<u64>,
    block_size: u64,
    order: ByteOrder,
}

impl Ring {
    fn new(disk: &mut Disk<'_>, inode: &InodeRecord, number: u32) -> Result<Ring, Unusable> {
        let geometry = disk.geometry;
        let mut blocks = Vec::new();
        for index in 0..inode.size() / geometry.block_size {
            let block = disk.pointer(inode, (index, INDIRECT))?;
            if !geometry.may_be_data(block, geometry.fragments) {
                return Err(Unusable::NotAJournal(number));
            }
            blocks.push(block);
        }
        Ok(Ring { blocks, block_size: geometry.block_size, order: geometry.order })
    }

    fn sectors(&self) -> u64 {
        self.blocks.len() as u64 * (self.block_size / SECTOR)
    }

    /// The byte offset of a sector of the journal.
    fn place(&self, disk: &Disk<'_>, sector: u64) -> Option<u64> {
        let per_block = self.block_size / SECTOR;
        let block = self.blocks.get(usize::try_from(sector / per_block).ok()?)?;
        Some(disk.geometry.place(*block) + sector % per_block * SECTOR)
    }

    fn sector(&self, disk: &mut Disk<'_>, sector: u64) -> Result<Vec<u8>, Unusable> {
        let place = self.place(disk, sector).ok_or(Unusable::Impossible)?;
        disk.read(place, width::index(SECTOR))
    }

    /// The segments of the mount at `time`, wherever they lie.
    fn segments(&self, disk: &mut Disk<'_>, time: i64) -> Result<Vec<Found>, Unusable> {
        let mut headers = Vec::new();
        for block in &self.blocks {
            let place = disk.geometry.place(*block);
            let bytes = disk.read(place, width::index(self.block_size))?;
            headers.extend(
                bytes.chunks_exact(width::index(SECTOR)).map(|sector| Segment::parse(sector, self.order)),
            );
        }
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(segment) = headers.get(at).copied() {
            let length = usize::from(segment.sectors).max(1);
            let is_whole = headers.get(at..at + length).is_some_and(|all| {
                all.iter().all(|one| one.sequence == segment.sequence && one.time == segment.time)
            });
            let fits = u64::from(segment.count) <= u64::from(segment.sectors) * SECTOR_RECORDS;
            if segment.time == time && segment.count > 0 && is_whole && fits {
                found.push(Found { segment, sector: at as u64 });
                at += length;
            } else {
                at += 1;
            }
        }
        Ok(found)
    }

    fn records(&self, disk: &mut Disk<'_>, found: &Found, records: &mut Vec<Record>) -> Result<(), Unusable> {
        let mut left = usize::from(found.segment.count);
        for sector in found.sector..(found.sector + u64::from(found.segment.sectors)).min(self.sectors()) {
            let bytes = self.sector(disk, sector)?;
            for record in bytes.chunks_exact(RECORD).skip(1).take(left) {
                let kind = self.order.u32(record, 0);
                records.push(Record::parse(record, self.order).ok_or(Unusable::UnknownRecord(kind))?);
            }
            left = left.saturating_sub(width::index(SECTOR_RECORDS));
        }
        Ok(())
    }
}

/// The segments that are still needed, in their order: from the oldest one to the first gap. Behind a gap nothing was written in full.
fn needed(mut found: Vec<Found>) -> Result<Vec<Found>, Unusable> {
    let Some(oldest) = found.iter().map(|one| one.segment.oldest).max() else { return Ok(found) };
    found.retain(|one| one.segment.sequence >= oldest);
    found.sort_by_key(|one| one.segment.sequence);
    found.dedup_by_key(|one| one.segment.sequence);
    if found.first().is_some_and(|first| first.segment.sequence != oldest) {
        return Err(Unusable::Gap);
    }
    let whole =
        found.iter().zip(oldest..).take_while(|(one, wanted)| one.segment.sequence == *wanted).count();
    found.truncate(whole);
    Ok(found)
}
