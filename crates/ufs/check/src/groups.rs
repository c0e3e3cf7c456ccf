// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cylinder groups as they are when a file system is opened: their headers, how many inodes were ever written, and the copies of the superblock beside them.

use std::ops::RangeInclusive;

use fsmend_base::{GroupNo, width};
use fsmend_device::{BatchReader, Device, ReadBackend, Request};
use fsmend_engine::kept::Kept;
use fsmend_engine::{Findings, Layer, Part, Problem};
use fsmend_ufs_format::group::{CylinderGroup, bit};
use fsmend_ufs_format::inode::Inode;
use fsmend_ufs_format::superblock::{Hashes, SUPERBLOCK_MAX, Superblock};
use fsmend_ufs_format::{Geometry, Version};

use crate::{inode, rows};

/// The copy of the superblock and the cylinder group behind it are read at once if so many bytes lie from one to the other.
const COPY_BYTES: RangeInclusive<u64> = SUPERBLOCK_MAX as u64..=128 << 10;
/// So much of the table of inodes is read with its group.
const TABLE_START: u64 = 64 << 10;
/// Cylinder groups that are read at once.
const GROUPS_AT_ONCE: usize = 64;

/// What the headers of all groups tell.
#[derive(Default)]
pub struct Groups {
    /// Bytes that were announced.
    announced: u64,
    /// Groups whose copy of the superblock is none.
    pub without_copy: Vec<u32>,
    /// Inodes of each that were ever written.
    pub initialised: Vec<u32>,
    /// Those whose header cannot be trusted, sorted.
    pub unsound: Vec<u32>,
    /// Directories that they count.
    pub directories: u64,
}

impl Groups {
    /// Reads them, judges each by itself, and keeps those for which there is memory.
    pub fn read(
        device: &dyn Device,
        geometry: &Geometry,
        kept: &Kept<CylinderGroup>,
        findings: &mut Findings,
    ) -> Groups {
        let mut groups = Groups::default();
        let mut reader = BatchReader::with_buffers(
            device,
            ReadBackend::Auto,
            BatchReader::DEPTH_DEFAULT,
            BatchReader::BUFFER_BYTES_MIN,
        );
        let all: Vec<u32> = (0..geometry.groups).collect();
        // The copy of the superblock lies before the group, as a rule right before it: then both are read at once.
        let before = geometry.group_place(0).checked_sub(geometry.superblock_copy(0));
        let copy_bytes = before.filter(|bytes| COPY_BYTES.contains(bytes)).unwrap_or(0);
        for part in all.chunks(GROUPS_AT_ONCE) {
            let request = |number: &u32| Request {
                offset: geometry.group_place(*number) - copy_bytes,
                len: u32::try_from(copy_bytes + geometry.group_bytes).unwrap_or(u32::MAX),
            };
            let requests: Vec<Request> = part.iter().map(request).collect();
            for request in &requests {
                groups.announce(device, (request.offset, u64::from(request.len) + TABLE_START), kept.room());
            }
            let mut read: Vec<Option<(bool, Vec<u8>)>> = vec![None; part.len()];
            reader.read(&requests, &mut |index, result| {
                read[index] = result.ok().and_then(|bytes| {
                    let (copy, group) = bytes.split_at_checked(width::index(copy_bytes))?;
                    let has_copy = match copy.is_empty() {
                        true => has_copy_at(device, geometry, part[index]),
                        false => is_copy(copy, geometry),
                    };
                    Some((has_copy, group.to_vec()))
                });
            });
            for (number, read) in part.iter().zip(read) {
                // What lies beside an unreadable sector can be read by itself.
                let (has_copy, bytes) = read.map_or_else(
                    || {
                        let group = raw(device, geometry.group_place(*number), geometry.group_bytes);
                        (has_copy_at(device, geometry, *number), group)
                    },
                    |(has_copy, group)| (has_copy, Some(group)),
                );
                if !has_copy {
                    groups.without_copy.push(*number);
                }
                let is_read = bytes.is_some();
                let bytes = bytes.unwrap_or_else(|| vec![0; width::index(geometry.group_bytes)]);
                let group = CylinderGroup::new(bytes, geometry.order);
                groups.judge((device, geometry), (*number, is_read), &group, findings);
                groups.announce_inodes((device, geometry), *number, kept.room());
                if is_read {
                    kept.keep(*number as usize, group);
                }
            }
        }
        groups
    }

    /// Has the inodes of a group read soon: they lie right behind it, and a disk that comes back for them later has to seek twice.
    fn announce_inodes(&mut self, (device, geometry): (&dyn Device, &Geometry), number: u32, room: u64) {
        let count = self.initialised.last().copied().unwrap_or(0);
        let bytes = u64::from(count) * geometry.version.inode_size() as u64;
        if let (Some(place), Some(rest @ 1..)) =
            (geometry.inode_place(number * geometry.group_inodes), bytes.checked_sub(TABLE_START))
        {
            self.announce(device, (place.saturating_add(TABLE_START), rest), room);
        }
    }

    /// Has bytes read soon, but no more than `room` in all.
    fn announce(&mut self, device: &dyn Device, (place, bytes): (u64, u64), room: u64) {
        let announced = self.announced.saturating_add(bytes);
        if announced <= room {
            device.readahead(place, bytes);
            self.announced = announced;
        }
    }

    /// Judges a group by itself, and notes what others need to know of it.
    fn judge(
        &mut self,
        (device, geometry): (&dyn Device, &Geometry),
        (number, is_read): (u32, bool),
        group: &CylinderGroup,
        findings: &mut Findings,
    ) {
        let problem = |row| Problem::new(row).group(GroupNo(number));
        let flaw = group.flaw(geometry, number);
        let mut initialised = group.initialised(geometry);
        if !is_read || flaw.is_some() {
            findings.raise(match flaw.filter(|_| is_read) {
                Some((field, stored, expected)) => {
                    problem(&rows::GROUP_FIELD).detail("field", field).stored(stored).observed(expected)
                }
                None => problem(&rows::GROUP_UNREADABLE),
            });
            self.unsound.push(number);
            // Of a header without its magic number nothing is believed.
            let is_one = is_read && flaw.is_none_or(|(field, ..)| field != "magic");
            initialised = estimate_initialised(device, geometry, number, is_one.then_some(group));
        } else {
            let hash_is_right = group.hash_is_right(geometry);
            if !hash_is_right {
                // Maps and counts are compared with what is in use; what only the group knows makes sense.
                findings.raise(problem(&rows::GROUP_HASH));
                initialised = initialised.max(estimate_initialised(device, geometry, number, Some(group)));
            }
            let in_use = last_in_use(group, geometry);
            if in_use > initialised {
                // Inodes that the map calls in use were never written: one of the two is wrong.
                let behind = estimate_initialised(device, geometry, number, None);
                initialised = initialised.max(behind.min(in_use.next_multiple_of(geometry.block_inodes)));
            }
            if initialised != group.initialised(geometry) {
                if hash_is_right {
                    let stored = group.initialised(geometry);
                    let problem = problem(&rows::GROUP_FIELD).detail("field", "initediblk");
                    findings.raise(problem.stored(stored).observed(initialised));
                }
                self.unsound.push(number);
            } else if !hash_is_right {
                let mut sealed = group.clone();
                sealed.seal(geometry);
                let (part, place) = (Part::Group(GroupNo(number)), geometry.group_place(number));
                findings.edit_part(part, Layer::Record, place, sealed.bytes());
            }
        }
        self.directories +=
            u64::try_from(group.counts().directories).unwrap_or(0).min(geometry.group_inodes.into());
        self.initialised.push(initialised);
    }
}

fn raw(device: &dyn Device, place: u64, len: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    device.read_at(place, &mut bytes).ok()?;
    Some(bytes)
}

fn has_copy_at(device: &dyn Device, geometry: &Geometry, group: u32) -> bool {
    let copy = raw(device, geometry.superblock_copy(group), SUPERBLOCK_MAX as u64);
    copy.is_some_and(|copy| is_copy(&copy, geometry))
}

/// Whether these bytes are a superblock that describes this file system, and could take the place of the primary one.
fn is_copy(bytes: &[u8], geometry: &Geometry) -> bool {
    let Some(mut copy) = Superblock::parse(bytes) else { return false };
    let is_right = copy.hash_is_right();
    copy.modernise();
    // tunefs changes these in the primary alone.
    let (hashes, metadata_area) = (geometry.hashes, geometry.metadata_area);
    is_right
        && Geometry::of(&copy)
            .is_ok_and(|(found, _)| Geometry { hashes, metadata_area, ..found } == *geometry)
}

/// The end of the inodes that the map of a group calls in use.
fn last_in_use(group: &CylinderGroup, geometry: &Geometry) -> u32 {
    let map = group.inode_map(&geometry.layout);
    // Whole bytes first: most of the map may be empty.
    let bytes = map.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let end = geometry.group_inodes.min(8 * width::len_u32(bytes));
    let last = (0..end).rev().find(|index| bit(map, (*index).into()));
    last.map_or(0, |last| last + 1)
}

/// Inodes of a group that were written, where its header cannot tell: up to the last block of inodes that holds one in use that makes sense, or that has a type and is in use by the
/// map of inodes of `header`, which may be damaged itself.
fn estimate_initialised(
    device: &dyn Device,
    geometry: &Geometry,
    group: u32,
    header: Option<&CylinderGroup>,
) -> u32 {
    if geometry.version == Version::Ufs1 {
        return geometry.group_inodes;
    }
    let least = geometry.group_inodes.min(2 * geometry.block_inodes);
    let size = geometry.version.inode_size();
    let mut bytes = vec![0; width::index(geometry.block_size)];
    let mut initialised = least;
    for first in (0..geometry.group_inodes).step_by(geometry.block_inodes as usize) {
        let Some(place) = geometry.inode_place(group * geometry.group_inodes + first) else { break };
        if device.read_at(place, &mut bytes).is_err() {
            continue;
        }
        let is_in_use = |index: usize| {
            let index = u64::from(first) + index as u64;
            header.is_some_and(|header| bit(header.inode_map(&geometry.layout), index))
        };
        let makes_sense = |(index, record): (usize, &[u8])| {
            let inode = Inode::new(record, geometry.order, geometry.version);
            let is_right = !geometry.hashes.contains(Hashes::INODES) || inode.hash() == inode.computed_hash();
            let has_sound_map = || {
                (0..15).all(|slot| inode.pointer(slot) < geometry.size || !inode::has_map(geometry, &inode))
            };
            inode.mode() != 0
                && inode::kind_of(inode.mode()).is_some()
                && inode.size() <= geometry.file_max
                && (is_right && has_sound_map() || is_in_use(index))
        };
        if bytes.chunks_exact(size).enumerate().any(makes_sense) {
            initialised = initialised.max(first + geometry.block_inodes);
        }
    }
    initialised.min(geometry.group_inodes)
}
