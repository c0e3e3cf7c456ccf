// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small file system with a journal, in memory, for the tests of journal, orphans and quota.
//!
//! 1400 blocks of 1 KiB in one group: superblock 1, descriptors 2, bitmaps 3 and 4, inode table 5 to 12 (64 inodes of
//! 128 bytes), journal 200 to 1223, the rest free.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use fsmend_base::InodeNo;
use fsmend_device::MemoryDevice;
use fsmend_engine::Findings;
use fsmend_engine::claims::SharedBitmap;
use fsmend_engine::problem::Row;
use fsmend_engine::repair::Changes;
use fsmend_ext_format::features::{Compat, Features, Incompat};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::group::{GroupDesc, RawGroupDesc};
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode};
use fsmend_ext_format::journal::{JOURNAL_MAGIC, JournalIncompat, LogFormat, RawJournalSuperblock};
use fsmend_ext_format::superblock::{EXT_MAGIC, RawSuperblock};
use zerocopy::byteorder::big_endian::U32 as Be32;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromZeros, IntoBytes};

use super::{JournalOutcome, examine};
use crate::{Fs, Group};

pub(crate) const BLOCK: usize = 1024;
pub(crate) const BLOCKS: u64 = 1400;
pub(crate) const INODES: u32 = 64;
pub(crate) const JOURNAL: u64 = 200;
const JOURNAL_BLOCKS: u32 = 1024;
pub(crate) const TABLE: u64 = 5;

pub(crate) struct World {
    pub device: MemoryDevice,
    pub superblock: RawSuperblock,
}

impl World {
    /// A sound file system with a clean journal; `extra` are more incompatible features.
    pub fn new(extra: Incompat) -> World {
        let mut superblock = RawSuperblock::new_zeroed();
        superblock.s_magic = U16::new(EXT_MAGIC);
        superblock.s_state = U16::new(1);
        superblock.s_blocks_count_lo = U32::new(BLOCKS as u32);
        superblock.s_journal_inum = U32::new(8);
        superblock.s_feature_compat = U32::new(Compat::HAS_JOURNAL.bits());
        superblock.s_feature_incompat = U32::new((Incompat::FILETYPE | Incompat::EXTENTS | extra).bits());
        let mut world =
            World { device: MemoryDevice::new("test", vec![0; BLOCKS as usize * BLOCK]), superblock };
        let desc = RawGroupDesc {
            bg_block_bitmap_lo: U32::new(3),
            bg_inode_bitmap_lo: U32::new(4),
            bg_inode_table_lo: U32::new(TABLE as u32),
            bg_free_blocks_count_lo: U16::new(300),
            bg_free_inodes_count_lo: U16::new(50),
            ..RawGroupDesc::default()
        };
        world.bytes(2, 0, &desc.as_bytes()[..32]);
        world.file(
            8,
            1,
            &[(0, JOURNAL as u32, JOURNAL_BLOCKS as u16)],
            u64::from(JOURNAL_BLOCKS) * BLOCK as u64,
        );
        world.journal(|_| {});
        world
    }

    /// Writes `bytes` at `offset` of `block`.
    pub fn bytes(&mut self, block: u64, offset: usize, bytes: &[u8]) {
        let at = block as usize * BLOCK + offset;
        self.device.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Makes inode `inode` a regular file of these extents, and marks both in the bitmaps.
    pub fn file(&mut self, inode: u32, links: u16, extents: &[(u32, u32, u16)], size: u64) {
        let mut raw = RawInode::from_record(&[]);
        raw.i_mode = U16::new(mode::REGULAR | 0o600);
        raw.i_links_count = U16::new(links);
        raw.set_flags(InodeFlags::EXTENTS);
        raw.i_size_lo = U32::new(size as u32);
        raw.i_block[..8].copy_from_slice(&[0x0A, 0xF3, extents.len() as u8, 0, 4, 0, 0, 0]);
        for (index, (logical, physical, count)) in extents.iter().enumerate() {
            let at = 12 + 12 * index;
            raw.i_block[at..at + 4].copy_from_slice(&logical.to_le_bytes());
            raw.i_block[at + 4..at + 6].copy_from_slice(&count.to_le_bytes());
            raw.i_block[at + 8..at + 12].copy_from_slice(&physical.to_le_bytes());
            (*physical..physical + u32::from(*count)).for_each(|block| self.set_bit(3, block - 1));
        }
        let blocks: u32 = extents.iter().map(|extent| u32::from(extent.2)).sum();
        raw.i_blocks_lo = U32::new(blocks * 2);
        self.set_bit(4, inode - 1);
        self.put_inode(inode, &raw);
    }

    pub fn put_inode(&mut self, inode: u32, raw: &RawInode) {
        self.bytes(TABLE, (inode as usize - 1) * 128, &raw.as_bytes()[..128]);
    }

    pub fn edit_inode(&mut self, inode: u32, edit: impl FnOnce(&mut RawInode)) {
        let mut raw = RawInode::from_record(&self.fs().read_inode(InodeNo(inode)).unwrap().unwrap());
        edit(&mut raw);
        self.put_inode(inode, &raw);
    }

    fn set_bit(&mut self, block: usize, bit: u32) {
        self.device.bytes_mut()[block * BLOCK + bit as usize / 8] |= 1 << (bit % 8);
    }

    /// Writes the journal's superblock: version 2, clean, then as `edit` wants it, then its checksum.
    pub fn journal(&mut self, edit: impl FnOnce(&mut RawJournalSuperblock)) {
        let mut raw = RawJournalSuperblock::new_zeroed();
        raw.s_header.h_magic = Be32::new(JOURNAL_MAGIC);
        raw.s_header.h_blocktype = Be32::new(4);
        raw.s_blocksize = Be32::new(BLOCK as u32);
        raw.s_maxlen = Be32::new(JOURNAL_BLOCKS);
        raw.s_first = Be32::new(1);
        raw.s_sequence = Be32::new(7);
        edit(&mut raw);
        if raw.has_csum() {
            raw.s_checksum_type = 4;
            raw.s_checksum = Be32::new(raw.computed_checksum());
        }
        self.bytes(JOURNAL, 0, raw.as_bytes());
    }

    /// A journal with CRC32C whose log begins at its block 1.
    pub fn dirty_journal(&mut self) -> LogFormat {
        self.journal(|raw| {
            raw.s_start = Be32::new(1);
            raw.s_feature_incompat = Be32::new(JournalIncompat::CSUM_V3.bits());
        });
        self.dirty_format()
    }

    /// The layout of such a journal.
    pub fn dirty_format(&self) -> LogFormat {
        let seed = fsmend_ext_format::checksum::crc32c(u32::MAX, &[0; 16]);
        LogFormat { wide: false, csum_v2: false, csum_v3: true, seed }
    }

    /// Writes a descriptor block at `index` of the journal, its data blocks and the commit block; gives the next index.
    pub fn transaction(&mut self, format: LogFormat, index: u64, sequence: u32, blocks: &[(u32, u8)]) -> u64 {
        let crc = fsmend_ext_format::checksum::crc32c;
        let mut descriptor = header(1, sequence);
        for (number, (block, fill)) in blocks.iter().enumerate() {
            let data = [*fill; BLOCK];
            self.bytes(JOURNAL + index + 1 + number as u64, 0, &data);
            let flags = 2 | if number + 1 == blocks.len() { 8u32 } else { 0 };
            let sum = crc(crc(format.seed, &sequence.to_be_bytes()), &data);
            for word in [*block, flags, 0, sum] {
                descriptor.extend(word.to_be_bytes());
            }
        }
        descriptor.resize(BLOCK, 0);
        self.seal(format, &mut descriptor, BLOCK - 4);
        self.bytes(JOURNAL + index, 0, &descriptor);
        let commit_at = index + 1 + blocks.len() as u64;
        self.commit(format, commit_at, sequence);
        commit_at + 1
    }

    pub fn commit(&mut self, format: LogFormat, index: u64, sequence: u32) {
        let mut commit = header(2, sequence);
        commit.resize(BLOCK, 0);
        commit[55] = 100;
        self.seal(format, &mut commit, 16);
        self.bytes(JOURNAL + index, 0, &commit);
    }

    pub fn revoke(&mut self, format: LogFormat, index: u64, sequence: u32, block: u32) {
        let mut revoke = header(5, sequence);
        revoke.extend(20u32.to_be_bytes());
        revoke.extend(block.to_be_bytes());
        revoke.resize(BLOCK, 0);
        self.seal(format, &mut revoke, BLOCK - 4);
        self.bytes(JOURNAL + index, 0, &revoke);
    }

    fn seal(&self, format: LogFormat, block: &mut [u8], at: usize) {
        let sum = fsmend_ext_format::checksum::crc32c(format.seed, block);
        block[at..at + 4].copy_from_slice(&sum.to_be_bytes());
    }

    pub fn fs(&mut self) -> Fs<'_> {
        let superblock = self.superblock.clone();
        self.bytes(1, 0, superblock.as_bytes());
        let desc = GroupDesc { block_bitmap: 3, inode_bitmap: 4, inode_table: TABLE, ..GroupDesc::default() };
        Fs {
            device: &self.device,
            geometry: geometry(superblock.features()),
            superblock,
            groups: vec![Group { desc, scan_inodes: INODES }],
            metadata: SharedBitmap::new(BLOCKS),
            now: 1_700_000_000,
            shared_maps: Default::default(),
            resize_map: Default::default(),
            regions: Default::default(),
            homes: Default::default(),
        }
    }

    /// Examines the journal: outcome and findings.
    pub fn examine(&mut self) -> (JournalOutcome, Findings) {
        let mut findings = Findings::new();
        let outcome = examine(&self.fs(), None, true, u64::MAX, &mut findings).unwrap();
        (outcome, findings)
    }
}

fn header(kind: u32, sequence: u32) -> Vec<u8> {
    [JOURNAL_MAGIC, kind, sequence].iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn geometry(features: Features) -> Geometry {
    Geometry {
        block_size: BLOCK as u32,
        cluster_blocks: 1,
        blocks_count: BLOCKS,
        first_data_block: 1,
        blocks_per_group: 8192,
        inodes_per_group: INODES,
        group_count: 1,
        inodes_count: INODES,
        inode_size: 128,
        first_inode: 11,
        desc_size: 32,
        reserved_gdt_blocks: 0,
        first_meta_bg: 0,
        backup_groups: [0, 0],
        features,
        revision: 1,
        checksum_seed: 0,
        uuid: [0; 16],
        hurd: false,
        region_blocks: 0,
    }
}

/// The codes that were raised.
pub(crate) fn codes(findings: &Findings) -> Vec<&'static str> {
    findings.counts().keys().copied().collect()
}

/// Asserts that exactly these rows were raised.
pub(crate) fn assert_raised(findings: &Findings, rows: &[&Row]) {
    let mut expected: Vec<_> = rows.iter().map(|row| row.code).collect();
    expected.sort();
    assert_eq!(codes(findings), expected);
}

/// The changed blocks, of 1 KiB, by their numbers.
pub(crate) fn written(changes: &Changes) -> BTreeMap<u64, Vec<u8>> {
    changes.iter().map(|(offset, bytes)| (offset / 1024, bytes.clone())).collect()
}
