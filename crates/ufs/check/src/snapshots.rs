// SPDX-License-Identifier: MIT OR Apache-2.0
//! Active snapshots: the superblock lists their inodes, and each of them ends with a list of the blocks that were copied when it was taken. FreeBSD uses a snapshot only if superblock,
//! cylinder groups and summary area are on that list.

use fsmend_base::{InodeNo, width};
use fsmend_device::Device;
use fsmend_engine::{Findings, Problem};
use fsmend_ufs_format::geometry::{DIRECT, Geometry};
use fsmend_ufs_format::inode::{Inode, InodeFlags, Path, mode};
use fsmend_ufs_format::superblock::Superblock;

use crate::rows;

/// Bytes of an entry of the list.
const ENTRY: usize = 8;

/// Takes what is no snapshot out of the superblock's list; whether there was any. The problems of snapshots whose own list is damaged are returned: the edit that mends them is the
/// whole superblock.
pub(crate) fn mend(
    device: &dyn Device,
    geometry: &Geometry,
    (initialised, superblock): (&[u32], &mut Superblock),
    findings: &mut Findings,
) -> (bool, Vec<Problem>) {
    let listed: Vec<u32> = superblock.snapshots().collect();
    let mut damaged = Vec::new();
    let is_kept = |inode: &u32| {
        let Some(record) = snapshot(device, geometry, initialised, *inode) else {
            findings.raise(Problem::new(&rows::SNAPSHOT_LIST).stored(*inode));
            return false;
        };
        let missing = missing(device, geometry, &record);
        damaged.extend(
            missing.map(|block| Problem::new(&rows::SNAPSHOT_BLOCKS).inode(InodeNo(*inode)).stored(block)),
        );
        missing.is_none()
    };
    let kept: Vec<u32> = listed.iter().copied().filter(is_kept).collect();
    superblock.set_snapshots(&kept);
    (kept != listed, damaged)
}

/// The record of an inode that is a snapshot.
fn snapshot(
    device: &dyn Device,
    geometry: &Geometry,
    initialised: &[u32],
    inode: u32,
) -> Option<Inode<Vec<u8>>> {
    let (group, index) = geometry.inode_group(inode);
    initialised.get(group as usize).filter(|count| index < **count)?;
    let mut record = vec![0; geometry.version.inode_size()];
    device.read_at(geometry.inode_place(inode)?, &mut record).ok()?;
    let record = Inode::new(record, geometry.order, geometry.version);
    (record.file_type() == mode::REGULAR && record.flags().contains(InodeFlags::SNAPSHOT)).then_some(record)
}

/// The first block that the list of a snapshot lacks. Those that the direct pointers show are always copied and need no entry.
fn missing(device: &dyn Device, geometry: &Geometry, record: &Inode<Vec<u8>>) -> Option<u64> {
    let mut entries = List::new(device, geometry, record);
    wanted(geometry).into_iter().filter(|block| *block >= DIRECT).find(|block| {
        // Both are sorted. The list has further blocks.
        let next = std::iter::from_fn(|| entries.next_entry()).find(|entry| entry >= block);
        next != Some(*block)
    })
}

/// Blocks of which every snapshot has copies, in order.
fn wanted(geometry: &Geometry) -> Vec<u64> {
    let block_of = |fragment: u64| fragment / geometry.fragments;
    let (summary, length) = geometry.summary_run();
    let groups =
        (0..geometry.groups).map(|group| geometry.group_place(group) / geometry.fragment_size).map(block_of);
    let summary = block_of(summary)..block_of(summary) + length.div_ceil(geometry.fragments);
    let mut wanted: Vec<u64> =
        groups.chain(summary).chain([geometry.superblock_place / geometry.block_size]).collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// The list, read block by block.
struct List<'l> {
    device: &'l dyn Device,
    geometry: &'l Geometry,
    record: &'l Inode<Vec<u8>>,
    /// The block of the file that comes next.
    index: u64,
    /// Entries that are left, with those of blocks that were not read yet.
    left: u64,
    block: std::vec::IntoIter<u64>,
}

impl<'l> List<'l> {
    fn new(device: &'l dyn Device, geometry: &'l Geometry, record: &'l Inode<Vec<u8>>) -> List<'l> {
        let index = geometry.size.div_ceil(geometry.fragments);
        let room = record.size().saturating_sub(index.saturating_mul(geometry.block_size)) / ENTRY as u64;
        // No block is there twice.
        let left = room.min(index + 1);
        let mut list = List { device, geometry, record, index, left, block: Vec::new().into_iter() };
        // It begins with the number of its entries.
        let count = list.next_entry().unwrap_or(0);
        list.left = list.left.min(count);
        list
    }

    /// The next entry; `None` at the end, or where a block cannot be read.
    fn next_entry(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        if let Some(entry) = self.block.next() {
            return Some(entry);
        }
        let bytes = read_block(self.device, self.geometry, (self.record, self.index))?;
        self.index += 1;
        let order = self.geometry.order;
        let entries: Vec<u64> = bytes.chunks_exact(ENTRY).map(|entry| order.u64(entry, 0)).collect();
        self.block = entries.into_iter();
        self.block.next()
    }
}

/// A block of a file; `None` where it is a hole or cannot be read.
fn read_block(
    device: &dyn Device,
    geometry: &Geometry,
    (record, index): (&Inode<Vec<u8>>, u64),
) -> Option<Vec<u8>> {
    let path = Path::to(index, geometry.pointers)?;
    let mut fragment = record.pointer(path.pointer(index));
    let size = geometry.version.pointer_size();
    let read = |fragment: u64| {
        // The end of the list may stand in a few fragments.
        let left = geometry.fragments - fragment % geometry.fragments;
        geometry.may_be_data(fragment, left).then_some(())?;
        let mut bytes = vec![0; width::index(geometry.block_size)];
        let len = usize::try_from(left * geometry.fragment_size).ok()?;
        device.read_at(geometry.place(fragment), bytes.get_mut(..len)?).ok()?;
        Some(bytes)
    };
    for level in 0..path.levels {
        let bytes = read(fragment)?;
        let at = usize::try_from(path.indices[level]).ok()?.checked_mul(size)?;
        let stored = bytes.get(at..at + size)?;
        fragment = match geometry.version {
            fsmend_ufs_format::Version::Ufs1 => geometry.order.u32(stored, 0).into(),
            fsmend_ufs_format::Version::Ufs2 => geometry.order.u64(stored, 0),
        };
    }
    read(fragment)
}
