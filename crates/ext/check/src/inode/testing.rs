// SPDX-License-Identifier: MIT OR Apache-2.0
//! For tests of inodes and their maps: a small file system in memory, and records made by hand.

use fsmend_base::InodeNo;
use fsmend_device::MemoryDevice;
use fsmend_engine::claims::SharedBitmap;
use fsmend_engine::{Edit, Findings, Problem, Row};
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::{Compat, Features, Incompat, RoCompat};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::group::GroupDesc;
use fsmend_ext_format::inode::{I_BLOCK_LEN, InodeFlags, RawInode, mode};
use fsmend_ext_format::superblock::RawSuperblock;
use zerocopy::FromZeros;

use super::{Inspection, inspect};
use crate::{Fs, Group};

pub(crate) const BLOCK_SIZE: usize = 1024;
pub(crate) const BLOCKS: u64 = 512;
/// Blocks before this one are metadata.
pub(crate) const FIRST_FREE: u32 = 40;
/// An ordinary inode number.
pub(crate) const FILE: u32 = 12;
const TABLE: u64 = 5;
const INODES: u32 = 64;
const INODE_SIZE: usize = 256;

/// A file system in memory: 512 blocks of 1 KiB, 64 inodes of 256 bytes, the usual features without checksums.
pub(crate) struct Bench {
    pub device: MemoryDevice,
    pub superblock: RawSuperblock,
    pub geometry: Geometry,
}

impl Bench {
    pub fn new() -> Self {
        let mut superblock = RawSuperblock::new_zeroed();
        for field in [&mut superblock.s_wtime, &mut superblock.s_mtime, &mut superblock.s_mkfs_time] {
            field.set(1_700_000_000);
        }
        superblock.s_want_extra_isize.set(32);
        superblock.s_journal_inum.set(8);
        let device = MemoryDevice::new("test", vec![0; BLOCKS as usize * BLOCK_SIZE]);
        Bench { device, superblock, geometry: geometry() }
    }

    pub fn features(&mut self) -> &mut Features {
        &mut self.geometry.features
    }

    /// Puts `bytes` at the start of `block`.
    pub fn put(&mut self, block: u32, bytes: &[u8]) {
        let at = block as usize * BLOCK_SIZE;
        self.device.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Puts little-endian words at the start of `block`.
    pub fn put_words(&mut self, block: u32, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.put(block, &bytes);
    }

    pub fn put_record(&mut self, inode: u32, record: &[u8]) {
        let at = TABLE as usize * BLOCK_SIZE + (inode as usize - 1) * INODE_SIZE;
        self.device.bytes_mut()[at..at + INODE_SIZE].copy_from_slice(record);
    }

    pub fn fs(&self) -> Fs<'_> {
        let metadata = SharedBitmap::new(BLOCKS);
        metadata.set_word(0, (1 << FIRST_FREE) - 1);
        let desc = GroupDesc { inode_table: TABLE, ..GroupDesc::default() };
        Fs {
            device: &self.device,
            superblock: self.superblock.clone(),
            geometry: self.geometry.clone(),
            groups: vec![Group { desc, scan_inodes: INODES }],
            metadata,
            now: 1_700_000_000,
            shared_maps: Default::default(),
            resize_map: Default::default(),
            regions: Default::default(),
            homes: Default::default(),
        }
    }

    pub fn inspect_record(&self, inode: u32, record: &[u8]) -> (Inspection, Vec<Problem>) {
        let (inspection, problems, _) = self.inspect_on(&self.device, inode, record);
        (inspection, problems)
    }

    /// Inspects `record` with the rest of the file system on `device`, and gathers what a repair writes.
    fn inspect_on(
        &self,
        device: &MemoryDevice,
        inode: u32,
        record: &[u8],
    ) -> (Inspection, Vec<Problem>, Vec<Edit>) {
        let fs = Fs { device, ..self.fs() };
        let mut findings = Findings::new().gathering(true);
        let inspection = inspect(&fs, InodeNo(inode), record, &mut findings);
        assert_eq!(inspection.has_problems, !findings.is_empty());
        let edits = findings.take_edits();
        (inspection, findings.into_sorted(), edits)
    }

    /// What is left when what the inspection of `record` mends has been written; the facts have to stay the same.
    #[track_caller]
    fn left_after_mending(&self, inode: u32, record: &[u8]) -> Vec<&'static str> {
        let (first, _, edits) = self.inspect_on(&self.device, inode, record);
        let mut bytes = self.device.bytes().to_vec();
        let at = TABLE as usize * BLOCK_SIZE + (inode as usize - 1) * INODE_SIZE;
        bytes[at..at + INODE_SIZE].copy_from_slice(record);
        for edit in &edits {
            let place = edit.offset as usize..edit.offset as usize + edit.bytes.len();
            bytes[place].copy_from_slice(&edit.bytes);
        }
        let record = bytes[at..at + INODE_SIZE].to_vec();
        let (second, problems, _) = self.inspect_on(&MemoryDevice::new("mended", bytes), inode, &record);
        if problems.is_empty() {
            assert_eq!((&first.runs, &first.map_blocks), (&second.runs, &second.map_blocks));
            assert_eq!((first.kind, first.charged_sectors), (second.kind, second.charged_sectors));
        }
        problems.iter().map(|problem| problem.row.code).collect()
    }

    pub fn inspect(&self, inode: u32, raw: &RawInode) -> (Inspection, Vec<Problem>) {
        self.inspect_record(inode, &self.record(inode, raw))
    }

    /// The record of `raw`, with its checksum where there are checksums.
    pub fn record(&self, inode: u32, raw: &RawInode) -> Vec<u8> {
        let mut record = vec![0; INODE_SIZE];
        raw.store(&mut record);
        if self.geometry.features.metadata_csum() {
            let checked = checksum::inode(self.geometry.checksum_seed, InodeNo(inode), &record);
            let sum = checked.map_or(0, |checked| checked.computed).to_le_bytes();
            record[0x7C..0x7E].copy_from_slice(&sum[..2]);
            if raw.i_extra_isize.get() >= 4 {
                record[0x82..0x84].copy_from_slice(&sum[2..]);
            }
        }
        record
    }

    /// Inspects `raw` and expects problems of exactly these rows; returns what the inspection left.
    #[track_caller]
    pub fn expect(&self, inode: u32, raw: &RawInode, rows: &[&'static Row]) -> Inspection {
        let (inspection, problems) = self.inspect(inode, raw);
        expect_rows(&problems, rows);
        // What was mended is right the second time, but for what takes the facts of everything.
        let left = self.left_after_mending(inode, &self.record(inode, raw));
        assert!(left.iter().all(|code| LEFT_TO_OTHERS.contains(code)), "left after mending: {left:?}");
        inspection
    }
}

/// What an inspection finds and cannot mend by itself.
const LEFT_TO_OTHERS: [&str; 10] = [
    "ext.extent.feature-missing",
    "ext.extent.misaligned-cluster",
    "ext.extent.node-in-metadata",
    "ext.extent.too-deep",
    "ext.blockmap.map-in-metadata",
    "ext.blockmap.not-by-extents",
    "ext.inline.feature",
    "ext.inode.orphan-file-mode",
    "ext.inode.quota-not-hidden",
    "ext.inode.root-not-directory",
];

#[track_caller]
pub(crate) fn expect_rows(problems: &[Problem], rows: &[&'static Row]) {
    let mut raised: Vec<_> = problems.iter().map(|problem| problem.row.code).collect();
    let mut expected: Vec<_> = rows.iter().map(|row| row.code).collect();
    raised.sort_unstable();
    raised.dedup();
    expected.sort_unstable();
    assert_eq!(raised, expected);
    assert!(problems.iter().all(|problem| !problem.message().contains('?')), "a message lacks an operand");
}

fn geometry() -> Geometry {
    Geometry {
        block_size: BLOCK_SIZE as u32,
        cluster_blocks: 1,
        blocks_count: BLOCKS,
        first_data_block: 1,
        blocks_per_group: 8192,
        inodes_per_group: INODES,
        group_count: 1,
        inodes_count: INODES,
        inode_size: INODE_SIZE as u32,
        first_inode: 11,
        desc_size: 32,
        reserved_gdt_blocks: 0,
        first_meta_bg: 0,
        backup_groups: [0; 2],
        features: Features {
            compat: Compat::EXT_ATTR | Compat::HAS_JOURNAL | Compat::DIR_INDEX,
            incompat: Incompat::FILETYPE | Incompat::EXTENTS,
            ro_compat: RoCompat::LARGE_FILE | RoCompat::HUGE_FILE | RoCompat::EXTRA_ISIZE,
        },
        revision: 1,
        checksum_seed: 7,
        uuid: [0; 16],
        hurd: false,
        region_blocks: 0,
    }
}

/// An inode in use without data, of type `file_type`.
pub(crate) fn inode(file_type: u16) -> RawInode {
    let mut raw = RawInode::from_record(&[]);
    raw.i_mode.set(file_type | 0o644);
    raw.i_links_count.set(1);
    raw.i_extra_isize.set(32);
    raw
}

/// Sets size and space to `blocks` blocks of data and `map_blocks` more.
pub(crate) fn sized(mut raw: RawInode, blocks: u64, map_blocks: u32) -> RawInode {
    raw.set_size(blocks * BLOCK_SIZE as u64);
    raw.i_blocks_lo.set((blocks as u32 + map_blocks) * 2);
    raw
}

/// An inode of `file_type` with data blocks at `words`, by a block map.
pub(crate) fn mapped(file_type: u16, words: &[u32]) -> RawInode {
    let mut raw = inode(file_type);
    for (index, word) in words.iter().enumerate() {
        raw.set_block_word(index, *word);
    }
    let blocks = words.iter().filter(|word| **word != 0).count() as u32;
    raw.set_size(words.len() as u64 * BLOCK_SIZE as u64);
    raw.i_blocks_lo.set(blocks * 2);
    raw
}

/// A node of an extent tree with `room` bytes.
pub(crate) fn node(room: usize, depth: u16, entries: &[[u8; 12]]) -> Vec<u8> {
    let max = ((room - 12) / 12) as u16;
    let header = [0xF30A, entries.len() as u16, max, depth, 0, 0];
    let mut bytes: Vec<u8> = header.iter().flat_map(|half| half.to_le_bytes()).collect();
    bytes.extend(entries.iter().flatten());
    bytes.resize(room, 0);
    bytes
}

/// A leaf entry. `len` is as it is stored.
pub(crate) fn extent(logical: u32, len: u16, start: u32) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&logical.to_le_bytes());
    bytes[4..6].copy_from_slice(&len.to_le_bytes());
    bytes[8..].copy_from_slice(&start.to_le_bytes());
    bytes
}

/// An interior entry.
pub(crate) fn index(logical: u32, child: u32) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&logical.to_le_bytes());
    bytes[4..8].copy_from_slice(&child.to_le_bytes());
    bytes
}

/// An inode of `file_type` with this root of an extent tree, and `blocks` and `map_blocks` to its account.
pub(crate) fn tree(
    file_type: u16,
    depth: u16,
    entries: &[[u8; 12]],
    blocks: u64,
    map_blocks: u32,
) -> RawInode {
    let mut raw = sized(inode(file_type), blocks, map_blocks);
    raw.i_block.copy_from_slice(&node(I_BLOCK_LEN, depth, entries));
    raw.set_flag(InodeFlags::EXTENTS);
    raw
}

/// A regular file of four blocks in one extent.
pub(crate) fn plain_file() -> RawInode {
    tree(mode::REGULAR, 0, &[extent(0, 4, 100)], 4, 0)
}

/// A directory of one block.
pub(crate) fn plain_directory() -> RawInode {
    tree(mode::DIRECTORY, 0, &[extent(0, 1, 100)], 1, 0)
}

/// A symbolic link in its inode.
pub(crate) fn plain_symlink(target: &[u8]) -> RawInode {
    let mut raw = inode(mode::SYMLINK);
    raw.i_block[..target.len()].copy_from_slice(target);
    raw.set_size(target.len() as u64);
    raw
}
