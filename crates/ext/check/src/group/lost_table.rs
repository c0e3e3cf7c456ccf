// SPDX-License-Identifier: MIT OR Apache-2.0
//! An inode table whose place no descriptor tells any more, found by what is in it: losing the pointer is no reason to lose the files.
//!
//! A place is believed only if its contents prove it. With checksums those of the inodes do, as they depend on the inode's number; else
//! directories, whose first block names them in `.`. Looked at are the places where the tables of the groups beside it and the usual layout
//! put it, then every block from the start of the group, or flexible group, on; all within a bound for the whole file system.

use fsmend_base::{GroupNo, InodeNo, width};
use fsmend_device::Device;
use fsmend_ext_format::checksum;
use fsmend_ext_format::directory::{Entries, EntryLayout};
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::group::GroupDesc;
use fsmend_ext_format::inode::{I_BLOCK_LEN, InodeFlags, RawInode, mode, special};

use super::places::{Kind, Occupied, Owner};
use crate::superblock::Settled;

/// Blocks, and bytes, that are read in one look at all groups.
const READS_MAX: u32 = 1 << 15;
const BYTES_MAX: u32 = 1 << 27;
/// Bytes that are read in one go where blocks are looked at one behind the other.
const AHEAD_BYTES: usize = 128 << 10;
/// Blocks of a table that are looked at: most groups use their first inodes first.
const PROOF_BLOCKS: u32 = 8;
/// Bytes of `i_block` in front of the first block number of an extent tree without nodes.
const EXTENT_HEAD: usize = 20;
/// Inodes without room for more than half a checksum.
const SMALL_INODE: u32 = 128;
/// Groups on either side whose tables say where this one may be.
const NEIGHBOURS: u32 = 16;

/// Looks for tables; knows how much may still be read.
pub(super) struct Finder<'a> {
    pub(super) device: &'a dyn Device,
    pub(super) geometry: &'a Geometry,
    groups_per_flex: u32,
    reads_left: u32,
    /// The block behind the last one that was looked at.
    next: u64,
    /// What was read last, and the block where that begins: most blocks are looked at one behind the other.
    ahead: (u64, Vec<u8>),
}

/// Whether there are nothing but zeroes. All bytes are looked at, many at a time: most records of most places are free ones.
fn is_zeroes(record: &[u8]) -> bool {
    record.iter().fold(0, |all, byte| all | byte) == 0
}

/// What speaks for and against a place.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct TableEvidence {
    right: u32,
    wrong: u32,
    /// Whether anything could be read there.
    was_read: bool,
}

impl TableEvidence {
    /// Whether there are at least `needed` witnesses, and few that say otherwise.
    pub(super) fn is_convincing(self, needed: u32) -> bool {
        self.right >= needed && self.right > self.wrong.saturating_mul(3)
    }

    /// Whether what stands there says that the table is not, and nothing that it is.
    pub(super) fn contradicts(self) -> bool {
        self.right == 0 && self.wrong > 0
    }

    /// Whether as much speaks for this place as for another one, and nothing against it that does not speak against the other, too. (A table that is badly
    /// damaged contradicts itself.)
    pub(super) fn is_no_worse_than(self, other: TableEvidence) -> bool {
        self.was_read && self.right >= other.right && (!self.contradicts() || other.contradicts())
    }

    /// Whether what stands there could be a table without any inode in use.
    pub(super) fn says_nothing(self) -> bool {
        self.was_read && self.right == 0 && self.wrong == 0
    }
}

impl<'a> Finder<'a> {
    /// Looks on `device`.
    pub(super) fn new(device: &'a dyn Device, settled: &'a Settled) -> Self {
        let geometry = &settled.geometry;
        let is_flexible = geometry.features.has_incompat(Incompat::FLEX_BG);
        let log = if is_flexible { u32::from(settled.superblock.s_log_groups_per_flex) } else { 0 };
        let groups_per_flex = 1u32.checked_shl(log).unwrap_or(u32::MAX).max(1);
        Finder {
            device,
            geometry,
            groups_per_flex,
            reads_left: READS_MAX.min(BYTES_MAX / geometry.block_size.max(1)),
            next: 0,
            ahead: (0, Vec::new()),
        }
    }

    /// The first block of the table of `group`, if it is found. `others` are the descriptors of all groups, with places that may be
    /// wrong; what is in `occupied` belongs to others, but for what belongs to this table. Without `scans` only likely places are
    /// looked at.
    pub(super) fn find(
        &mut self,
        group: GroupNo,
        others: &dyn Fn(u32) -> Option<GroupDesc>,
        occupied: &Occupied,
        scans: bool,
    ) -> Option<u64> {
        let guesses = self.guesses(group, others);
        let everywhere = if scans { self.range(group) } else { 0..0 };
        let fits = |finder: &mut Self, place: u64| {
            let desc = GroupDesc { inode_table: place, ..GroupDesc::default() };
            let is_free = Kind::InodeTable.is_allowed(finder.geometry, group, &desc)
                && occupied
                    .owner(Kind::InodeTable.range(finder.geometry, &desc))
                    .is_none_or(|owner| owner == Owner::Place(group, Kind::InodeTable));
            is_free && finder.is_proven(group, place)
        };
        if let Some(guess) = guesses.into_iter().find(|place| fits(self, *place)) {
            return Some(guess);
        }
        for place in everywhere {
            if self.reads_left == 0 {
                return None;
            }
            if fits(self, place) {
                return Some(place);
            }
        }
        None
    }

    /// Whether tables of several groups lie together.
    pub(super) fn is_flexible(&self) -> bool {
        self.groups_per_flex > 1
    }

    /// How many blocks a table lies behind that of the group before, in the usual layouts.
    pub(super) fn step(&self) -> u64 {
        let geometry = self.geometry;
        u64::from(if self.is_flexible() { geometry.inode_table_blocks() } else { geometry.blocks_per_group })
    }

    /// Where the table should be by what is known of the others and by the usual layouts.
    fn guesses(&self, group: GroupNo, others: &dyn Fn(u32) -> Option<GroupDesc>) -> Vec<u64> {
        let step = self.step();
        let flex = group.0 / self.groups_per_flex;
        let mut guesses = Vec::new();
        for distance in 1..=NEIGHBOURS {
            let steps = u64::from(distance).saturating_mul(step);
            for (other, is_below) in
                [(group.0.checked_sub(distance), true), (group.0.checked_add(distance), false)]
            {
                let Some(other) = other.filter(|other| *other < self.geometry.group_count) else { continue };
                if self.is_flexible() && other / self.groups_per_flex != flex {
                    continue;
                }
                let Some(table) = others(other).map(|desc| desc.inode_table).filter(|table| *table != 0)
                else {
                    continue;
                };
                guesses.extend(if is_below { table.checked_add(steps) } else { table.checked_sub(steps) });
            }
        }
        if let Some(desc) = others(group.0) {
            guesses.extend([desc.inode_bitmap.saturating_add(1), desc.block_bitmap.saturating_add(2)]);
        }
        let head = self.geometry.group_head(group);
        let end = head.reserved.end().max(head.descriptors.end()).max(self.geometry.group_head_start(group));
        guesses.push(end.saturating_add(2));
        guesses
    }

    /// Where it may be.
    fn range(&self, group: GroupNo) -> std::ops::Range<u64> {
        let first = group.0 - group.0 % self.groups_per_flex;
        let last = first.saturating_add(self.groups_per_flex - 1).min(self.geometry.group_count - 1);
        self.geometry.group_first_block(GroupNo(first))..self.geometry.group_blocks(GroupNo(last)).end()
    }

    /// Whether the root directory is one, if the table of group 0 is at `table`; `None` where that cannot be read.
    pub(super) fn has_root(&mut self, table: u64) -> Option<bool> {
        let record = self.record(table, InodeNo(special::ROOT))?;
        Some(RawInode::from_record(&record).file_type() == mode::DIRECTORY)
    }

    /// Whether `inode` of group 0, whose table is at `table`, is a directory whose first block names it.
    pub(super) fn has_directory(&mut self, table: u64, inode: InodeNo) -> bool {
        self.record(table, inode).is_some_and(|record| self.names_itself(inode, &record) == Some(true))
    }

    /// Whether `inode` of group 0, whose table is at `table`, is a file, directory or symbolic link in use, as far as its record tells.
    pub(super) fn is_file(&mut self, table: u64, inode: InodeNo) -> bool {
        let Some(record) = self.record(table, inode) else { return false };
        let (raw, features) = (RawInode::from_record(&record), self.geometry.features);
        let has_type = matches!(raw.file_type(), mode::REGULAR | mode::DIRECTORY | mode::SYMLINK);
        let is_right = || {
            checksum::inode(self.geometry.checksum_seed, inode, &record)
                .is_some_and(checksum::Checked::is_right)
        };
        has_type && raw.i_links_count.get() > 0 && (!features.metadata_csum() || is_right())
    }

    /// The record of an inode of group 0, whose table is at `table`.
    fn record(&mut self, table: u64, inode: InodeNo) -> Option<Vec<u8>> {
        let size = self.geometry.inode_size.max(SMALL_INODE) as usize;
        let at = size.checked_mul(inode.0.checked_sub(1)? as usize)?;
        let within = at % self.geometry.block_size as usize;
        let bytes = self.read(table.checked_add(at as u64 / u64::from(self.geometry.block_size))?)?;
        bytes.get(within..within + size).map(<[u8]>::to_vec)
    }

    /// Whether the contents of `place` prove that the table of `group` is there.
    pub(super) fn is_proven(&mut self, group: GroupNo, place: u64) -> bool {
        self.evidence(group, place).is_convincing(self.witnesses_needed())
    }

    /// How many inodes have to say that a table is where it is looked for: small ones have 16 bits of checksum, of which one may be right by
    /// chance.
    pub(super) fn witnesses_needed(&self) -> u32 {
        let is_weak = self.geometry.features.metadata_csum() && self.geometry.inode_size <= SMALL_INODE;
        if is_weak { 2 } else { 1 }
    }

    /// What the contents of `place` say about the table of `group` being there. Where the first blocks speak against it, no more are read.
    pub(super) fn evidence(&mut self, group: GroupNo, place: u64) -> TableEvidence {
        let mut evidence = TableEvidence::default();
        for block in 0..PROOF_BLOCKS.min(self.geometry.inode_table_blocks()) {
            let Some(bytes) = self.read(place.saturating_add(u64::from(block))) else { break };
            evidence.was_read = true;
            let size = self.geometry.inode_size.max(SMALL_INODE) as usize;
            let per_block = bytes.len() / size;
            for (record, within) in bytes.chunks_exact(size).zip(0..) {
                let index = block * width::len_u32(per_block) + within;
                if index < self.geometry.inodes_per_group && !is_zeroes(record) {
                    self.weigh(self.geometry.inode_at(group, index), record, &mut evidence);
                }
            }
            // Nearly every block but the right one is through with its first records.
            if evidence.right == 0 && (evidence.wrong > 0 || block > 1) {
                break;
            }
        }
        evidence
    }

    fn weigh(&mut self, inode: InodeNo, record: &[u8], evidence: &mut TableEvidence) {
        let is_right = if self.geometry.features.metadata_csum() {
            checksum::inode(self.geometry.checksum_seed, inode, record).is_some_and(|sum| sum.is_right())
        } else {
            match self.names_itself(inode, record) {
                Some(names) => names,
                None => return,
            }
        };
        evidence.right += u32::from(is_right);
        evidence.wrong += u32::from(!is_right);
    }

    /// Whether the record is that of a directory whose first block says that it belongs to `inode`; `None` if it is something else.
    fn names_itself(&mut self, inode: InodeNo, record: &[u8]) -> Option<bool> {
        let raw = RawInode::from_record(record);
        let file_type = raw.file_type();
        let is_known = [
            mode::DIRECTORY,
            mode::REGULAR,
            mode::SYMLINK,
            mode::FIFO,
            mode::SOCKET,
            mode::CHAR_DEVICE,
            mode::BLOCK_DEVICE,
            0,
        ]
        .contains(&file_type);
        if !is_known {
            return Some(false);
        }
        if file_type != mode::DIRECTORY || raw.has_flag(InodeFlags::INLINE_DATA) {
            return None;
        }
        let block = if raw.has_flag(InodeFlags::EXTENTS) {
            first_of_extents(&raw.i_block)
        } else {
            u64::from(raw.block_word(0))
        };
        let Some(bytes) = self.read(block).filter(|_| block != 0) else { return Some(false) };
        let layout = EntryLayout { block_size: self.geometry.block_size, hash_behind_name: false };
        let dot = Entries::new(&bytes, layout, true).next()?.ok();
        Some(dot.is_some_and(|dot| dot.name == b"." && dot.header.inode == inode.0))
    }

    fn read(&mut self, block: u64) -> Option<Vec<u8>> {
        self.reads_left = self.reads_left.checked_sub(1)?;
        if block >= self.geometry.blocks_count {
            return None;
        }
        let size = self.geometry.block_size as usize;
        let is_next = std::mem::replace(&mut self.next, block + 1) == block;
        if self.known(block).is_none() {
            let blocks = if is_next { (AHEAD_BYTES / size).max(1) as u64 } else { 1 };
            let blocks = blocks.min(self.geometry.blocks_count - block);
            if !self.read_ahead(block, blocks) && !self.read_ahead(block, 1) {
                return None;
            }
        }
        self.known(block).map(<[u8]>::to_vec)
    }

    /// The block, if it was read already.
    fn known(&self, block: u64) -> Option<&[u8]> {
        let size = self.geometry.block_size as usize;
        let at = usize::try_from(block.checked_sub(self.ahead.0)?).ok()?.checked_mul(size)?;
        self.ahead.1.get(at..at.checked_add(size)?)
    }

    /// Reads so many blocks from `block` on; `false` where that cannot be done.
    fn read_ahead(&mut self, block: u64, blocks: u64) -> bool {
        let size = u64::from(self.geometry.block_size);
        self.ahead.0 = block;
        self.ahead.1.resize(width::index(blocks * size), 0);
        let offset = block.checked_mul(size);
        let is_read = offset.is_some_and(|offset| self.device.read_at(offset, &mut self.ahead.1).is_ok());
        if !is_read {
            self.ahead.1.clear();
        }
        is_read
    }
}

/// The first data block of an extent tree that has no nodes; 0 for others.
fn first_of_extents(i_block: &[u8; I_BLOCK_LEN]) -> u64 {
    let word = |at: usize| u64::from(u16::from_le_bytes([i_block[at], i_block[at + 1]]));
    if word(6) != 0 || word(2) == 0 {
        return 0;
    }
    word(EXTENT_HEAD) | word(EXTENT_HEAD + 2) << 16 | word(EXTENT_HEAD - 2) << 32
}
