// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small file system in memory for the tests of this folder: one group, 1 KiB blocks, directories with direct blocks.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use fsmend_base::InodeNo;
use fsmend_device::MemoryDevice;
use fsmend_engine::Findings;
use fsmend_engine::claims::{Claims, SharedBitmap};
use fsmend_engine::crosscheck::tree;
use fsmend_engine::inodes::{ChunkFacts, InodeFact, InodeTable, Kind, mark};
use fsmend_engine::origins::Origin;
use fsmend_engine::pool::PoolConfig;
use fsmend_ext_format::checksum;
use fsmend_ext_format::directory::{EntryHeader, EntryLayout, file_type_of_mode};
use fsmend_ext_format::features::{Compat, Features, Incompat, RoCompat};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::group::GroupDesc;
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode};
use fsmend_ext_format::superblock::RawSuperblock;
use zerocopy::FromZeros;

use super::repair_input::NameRepairInput;
use super::{Directory, Surroundings, inspect_with, lost_found};
use crate::inode::MapRun;
use crate::repair::{RepairContext, RepairInput, RepairOverlay, RepairPolicy};
use crate::{Fs, Group};

pub(super) const BLOCK: usize = 1024;
const TABLE: u64 = 5;
const INODES: u32 = 64;
pub(super) const LAYOUT: EntryLayout = EntryLayout { block_size: BLOCK as u32, hash_behind_name: false };
const HASHED: EntryLayout = EntryLayout { block_size: BLOCK as u32, hash_behind_name: true };

/// The file system. Inodes 2 (root), 11 (lost+found), 12 (directory `d`), 13 (file `f`) and 14 (directory `d/sub`) are there.
pub(super) struct World {
    pub device: MemoryDevice,
    pub geometry: Geometry,
    pub superblock: RawSuperblock,
    pub desc: GroupDesc,
    pub bad_blocks: Vec<u64>,
    pub reconnects: u64,
    pub marks: Vec<(u32, u8)>,
    /// Whether no block is free.
    pub full: bool,
}

impl World {
    pub fn new(compat: Compat, incompat: Incompat, ro_compat: RoCompat) -> World {
        let features = Features { compat, incompat: incompat | Incompat::FILETYPE, ro_compat };
        let mut world = World {
            device: MemoryDevice::new("test", vec![0; 128 * BLOCK]),
            geometry: geometry(features),
            superblock: RawSuperblock::new_zeroed(),
            desc: GroupDesc { inode_table: TABLE, itable_unused: 32, ..GroupDesc::default() },
            bad_blocks: Vec::new(),
            reconnects: 0,
            marks: Vec::new(),
            full: false,
        };
        world.superblock.s_hash_seed[0].set(7);
        for inode in [2, 11, 12, 14] {
            world.inode(inode, mode::DIRECTORY, InodeFlags::empty(), 2, &[]);
        }
        world.inode(13, mode::REGULAR, InodeFlags::empty(), 1, &[]);
        world.directory(2, 4, &[40], &[(2, "."), (2, ".."), (11, "lost+found"), (12, "d"), (13, "f")]);
        world.directory(11, 2, &[41], &[(11, "."), (2, "..")]);
        world.directory(12, 3, &[42], &[(12, "."), (2, ".."), (14, "sub")]);
        world.directory(14, 2, &[43], &[(14, "."), (12, "..")]);
        world
    }

    pub fn plain() -> World {
        World::new(Compat::DIR_INDEX, Incompat::empty(), RoCompat::empty())
    }

    pub fn checksummed() -> World {
        World::new(Compat::DIR_INDEX, Incompat::empty(), RoCompat::METADATA_CSUM)
    }

    pub fn block(&mut self, number: u32) -> &mut [u8] {
        let start = number as usize * BLOCK;
        &mut self.device.bytes_mut()[start..start + BLOCK]
    }

    pub fn record(&mut self, inode: u32) -> &mut [u8] {
        let start = TABLE as usize * BLOCK + (inode as usize - 1) * 256;
        &mut self.device.bytes_mut()[start..start + 256]
    }

    /// Changes the fixed fields of an inode.
    pub fn edit(&mut self, inode: u32, edit: impl FnOnce(&mut RawInode)) {
        let record = self.record(inode);
        let mut raw = RawInode::from_record(record);
        edit(&mut raw);
        raw.store(record);
    }

    pub fn inode(&mut self, inode: u32, file_mode: u16, flags: InodeFlags, links: u16, blocks: &[u32]) {
        self.edit(inode, |raw| {
            *raw = RawInode::new_zeroed();
            raw.i_mode.set(file_mode | 0o755);
            raw.set_flags(flags);
            raw.i_links_count.set(links);
            raw.i_extra_isize.set(32);
            raw.i_size_lo.set((blocks.len() * BLOCK) as u32);
            raw.i_blocks_lo.set(blocks.iter().filter(|block| **block != 0).count() as u32 * 2);
            for (index, block) in blocks.iter().enumerate() {
                raw.i_block[index * 4..index * 4 + 4].copy_from_slice(&block.to_le_bytes());
            }
        });
    }

    /// A directory with entries in its first block and none in the others.
    pub fn directory(&mut self, inode: u32, links: u16, blocks: &[u32], entries: &[(u32, &str)]) {
        self.inode(inode, mode::DIRECTORY, InodeFlags::empty(), links, blocks);
        for (index, block) in blocks.iter().enumerate() {
            self.entries(inode, *block, if index == 0 { entries } else { &[] });
        }
    }

    /// Writes a block of entries, each of the type that its inode has, and its checksum.
    pub fn entries(&mut self, inode: u32, block: u32, entries: &[(u32, &str)]) {
        let entries: Vec<(u32, &[u8])> =
            entries.iter().map(|(target, name)| (*target, name.as_bytes())).collect();
        self.raw_entries(inode, block, &entries);
    }

    pub fn raw_entries(&mut self, inode: u32, block: u32, entries: &[(u32, &[u8])]) {
        let end = if self.geometry.features.metadata_csum() { BLOCK - 12 } else { BLOCK };
        let mut bytes = vec![0; BLOCK];
        let mut at = 0;
        for (index, (target, name)) in entries.iter().enumerate() {
            let is_dot = matches!(*name, b"." | b"..");
            let is_last = index + 1 == entries.len();
            let layout = if self.is_hashed(inode) { HASHED } else { LAYOUT };
            let rec_len = if is_last { end - at } else { layout.needed_len(name.len(), is_dot) };
            let file_type = if *target == inode { 2 } else { self.kind(*target) as u8 };
            let header = EntryHeader { inode: *target, rec_len, name_len: name.len() as u8, file_type };
            header.store(&mut bytes, at, layout);
            bytes[at + 8..at + 8 + name.len()].copy_from_slice(name);
            at += rec_len;
        }
        if entries.is_empty() {
            EntryHeader { inode: 0, rec_len: end, name_len: 0, file_type: 0 }.store(&mut bytes, 0, LAYOUT);
        }
        self.block(block).copy_from_slice(&bytes);
        self.seal(inode, block);
    }

    /// Writes the checksum of a leaf.
    pub fn seal(&mut self, inode: u32, block: u32) {
        if self.geometry.features.metadata_csum() {
            let seed = checksum::inode_seed(self.geometry.checksum_seed, InodeNo(inode), 0);
            let bytes = self.block(block);
            bytes[BLOCK - 12..BLOCK - 4].copy_from_slice(&[0, 0, 0, 0, 12, 0, 0, 0xDE]);
            let sum = checksum::crc32c(seed, &bytes[..BLOCK - 12]);
            bytes[BLOCK - 4..].copy_from_slice(&sum.to_le_bytes());
        }
    }

    fn is_hashed(&mut self, inode: u32) -> bool {
        RawInode::from_record(self.record(inode)).has_flag(InodeFlags::ENCRYPT | InodeFlags::CASEFOLD)
    }

    pub fn kind(&mut self, inode: u32) -> Kind {
        if inode == 0 || inode > INODES {
            return Kind::Regular;
        }
        Kind::from_number(file_type_of_mode(RawInode::from_record(self.record(inode)).file_type()))
    }

    /// Makes `inode` an indexed directory: a root in `blocks[0]` and leaves in the others, with `names` distributed by
    /// their hashes.
    pub fn indexed(&mut self, inode: u32, blocks: &[u32], names: &[(u32, &str)]) {
        self.inode(inode, mode::DIRECTORY, InodeFlags::INDEX, 2, blocks);
        let hash =
            |name: &str| fsmend_ext_format::dirhash::hash(1, &[7, 0, 0, 0], name.as_bytes()).unwrap().0;
        let mut sorted: Vec<(u32, &str)> = names.to_vec();
        sorted.sort_by_key(|(_, name)| hash(name));
        let leaves = blocks.len() - 1;
        let per_leaf = sorted.len().div_ceil(leaves);
        let checksums = self.geometry.features.metadata_csum();
        let limit: u16 = if checksums { 123 } else { 124 };
        let mut root = vec![0; BLOCK];
        EntryHeader { inode, rec_len: 12, name_len: 1, file_type: 2 }.store(&mut root, 0, LAYOUT);
        EntryHeader { inode: 2, rec_len: BLOCK - 12, name_len: 2, file_type: 2 }.store(&mut root, 12, LAYOUT);
        root[8] = b'.';
        root[20..22].copy_from_slice(b"..");
        root[28..30].copy_from_slice(&[1, 8]);
        root[32..34].copy_from_slice(&limit.to_le_bytes());
        root[34] = leaves as u8;
        for (leaf, chunk) in sorted.chunks(per_leaf).enumerate() {
            self.entries(inode, blocks[leaf + 1], chunk);
            let at = 32 + 8 * leaf;
            if leaf > 0 {
                root[at..at + 4].copy_from_slice(&hash(chunk[0].1).to_le_bytes());
            }
            root[at + 4] = leaf as u8 + 1;
        }
        self.block(blocks[0]).copy_from_slice(&root);
        self.seal_index(inode, blocks[0], 32);
    }

    /// Writes the checksum of an index block.
    pub fn seal_index(&mut self, inode: u32, block: u32, count_offset: usize) {
        if self.geometry.features.metadata_csum() {
            let seed = checksum::inode_seed(self.geometry.checksum_seed, InodeNo(inode), 0);
            let bytes = self.block(block);
            if let Some(checked) = checksum::htree(seed, bytes, count_offset) {
                let limit = usize::from(u16::from_le_bytes([bytes[count_offset], bytes[count_offset + 1]]));
                let at = count_offset + 8 * limit + 4;
                bytes[at..at + 4].copy_from_slice(&checked.computed.to_le_bytes());
            }
        }
    }

    fn facts(&mut self) -> (InodeTable, Vec<Directory>) {
        let table = InodeTable::new(INODES, INODES);
        let mut facts = ChunkFacts::new(32);
        let mut directories = Vec::new();
        for inode in 1..=32 {
            let kind = self.kind(inode);
            if kind == Kind::Unused || kind == Kind::Unknown {
                continue;
            }
            let record = self.record(inode).to_vec();
            let raw = RawInode::from_record(&record);
            let marks = self.marks.iter().find(|(marked, _)| *marked == inode).map_or(0, |(_, marks)| *marks);
            let encrypted = if raw.has_flag(InodeFlags::ENCRYPT) { mark::ENCRYPTED } else { 0 };
            let fact = InodeFact::new(kind, marks | encrypted);
            facts.record(inode as usize - 1, InodeNo(inode), fact, raw.i_links_count.get());
            if kind == Kind::Directory {
                let inline = raw.has_flag(InodeFlags::INLINE_DATA);
                if raw.has_flag(InodeFlags::EXTENTS) {
                    directories.push(self.with_fs(|fs, _, _| Directory::open(fs, InodeNo(inode)).unwrap()));
                    continue;
                }
                let runs = if inline { Vec::new() } else { direct_runs(&raw) };
                directories.push(Directory { inode: InodeNo(inode), record, runs, inline });
            }
        }
        table.publish(0, facts);
        (table, directories)
    }

    /// Inspects everything; returns what was found and the facts.
    pub fn check(&mut self) -> (Findings, InodeTable) {
        let (inodes, directories) = self.facts();
        let mut findings = Findings::new();
        let full = self.full;
        self.with_fs(|fs, bad_blocks, reconnects| {
            for directory in &directories {
                inspect_with(
                    fs,
                    &inodes,
                    directory,
                    Surroundings { bad_blocks, contested: None },
                    &mut findings,
                );
            }
            tree::check_root(fs, &inodes, &mut findings);
            let found = tree::check(&inodes, InodeNo(2), PoolConfig::of(1), &AtomicBool::new(false));
            tree::report(fs, &inodes, &found, &mut findings);
            let claims = Claims::new(if full { 0 } else { 128 });
            lost_found::check_lost_found(fs, &inodes, &claims, reconnects, &mut findings);
        });
        (findings, inodes)
    }

    /// Repairs everything in one round; returns the link counts that are wrong afterwards.
    pub fn repair(&mut self) -> Vec<InodeNo> {
        let (inodes, directories) = self.facts();
        let claims = Claims::new(128);
        claims.claim(0, 40, Origin::KNOWN);
        if self.full {
            claims.claim(40, 88, Origin::KNOWN);
        }
        for run in directories.iter().flat_map(|directory| &directory.runs) {
            claims.settle(run.physical, true);
        }
        let mut findings = Findings::new().gathering(true);
        let mut names = NameRepairInput::default();
        self.with_fs(|fs, bad_blocks, reconnects| {
            for directory in &directories {
                let surroundings = Surroundings { bad_blocks, contested: None };
                let mending = inspect_with(fs, &inodes, directory, surroundings, &mut findings);
                names.note(directory.inode, mending);
            }
            tree::check_root(fs, &inodes, &mut findings);
            let found = tree::check(&inodes, InodeNo(2), PoolConfig::of(1), &AtomicBool::new(false));
            names.parent_entries = tree::report(fs, &inodes, &found, &mut findings);
            names.tree = found.findings;
            names.lost_found = lost_found::check_lost_found(fs, &inodes, &claims, reconnects, &mut findings);
        });
        let changes = self.with_fs(|fs, _, _| {
            let overlay = RepairOverlay::new(fs.device);
            overlay.lay(findings.take_edits());
            let fs = Fs {
                device: &overlay,
                superblock: fs.superblock.clone(),
                geometry: fs.geometry.clone(),
                groups: fs.groups.clone(),
                metadata: SharedBitmap::new(128),
                now: fs.now,
                shared_maps: Default::default(),
                resize_map: Default::default(),
                regions: Default::default(),
                homes: Default::default(),
            };
            let mut context = RepairContext {
                fs,
                overlay: &overlay,
                inodes,
                claims,
                repair_input: RepairInput { names, ..RepairInput::default() },
                policy: RepairPolicy::default(),
                pool: PoolConfig::of(1),
                backups_lag: false,
                totals: Default::default(),
            };
            super::repair::mend(&mut context);
            crate::links::repair::mend(&mut context);
            let features = context.fs.geometry.features;
            drop(context);
            (overlay.into_changes(PoolConfig::of(1)).0, features)
        });
        self.geometry.features = changes.1;
        for (offset, bytes) in changes.0 {
            self.device.bytes_mut()[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        let (_, inodes) = self.check();
        let wrong = |inode: &InodeNo| {
            let (stored, observed) = inodes.links(*inode);
            inodes.kind(*inode) != Kind::Unused && u32::from(stored) != observed
        };
        (1..=32).map(InodeNo).filter(wrong).collect()
    }

    /// The names in directory `inode`, sorted, with where they lead to.
    pub fn names(&self, inode: u32) -> Vec<(String, u32)> {
        let mut names = Vec::new();
        self.with_fs(|fs, _, _| {
            if let Some(directory) = Directory::open(fs, InodeNo(inode)) {
                super::entries::entries_of(fs, &directory, &mut |target, name| {
                    names.push((String::from_utf8_lossy(name).into_owned(), target.0));
                });
            }
        });
        names.sort();
        names
    }

    pub fn with_fs<T>(&self, work: impl FnOnce(&Fs<'_>, &[u64], u64) -> T) -> T {
        let fs = Fs {
            device: &self.device,
            superblock: self.superblock.clone(),
            geometry: self.geometry.clone(),
            groups: vec![Group { desc: self.desc, scan_inodes: 32 }],
            metadata: SharedBitmap::new(128),
            now: 1_800_000_000,
            shared_maps: Default::default(),
            resize_map: Default::default(),
            regions: Default::default(),
            homes: Default::default(),
        };
        work(&fs, &self.bad_blocks, self.reconnects)
    }

    /// The codes of all problems that are found.
    pub fn codes(&mut self) -> BTreeSet<&'static str> {
        self.check().0.iter().map(|problem| problem.row.code).collect()
    }
}

fn direct_runs(raw: &RawInode) -> Vec<MapRun> {
    let words = (0..12).map(|index| (index as u64, u64::from(raw.block_word(index))));
    words
        .filter(|(_, block)| *block != 0)
        .map(|(logical, physical)| MapRun { logical, physical, count: 1, unwritten: false })
        .collect()
}

fn geometry(features: Features) -> Geometry {
    Geometry {
        block_size: BLOCK as u32,
        cluster_blocks: 1,
        blocks_count: 128,
        first_data_block: 1,
        blocks_per_group: 8192,
        inodes_per_group: INODES,
        group_count: 1,
        inodes_count: INODES,
        inode_size: 256,
        first_inode: 11,
        desc_size: 32,
        reserved_gdt_blocks: 0,
        first_meta_bg: 0,
        backup_groups: [0; 2],
        features,
        revision: 1,
        checksum_seed: 5,
        uuid: [0; 16],
        hurd: false,
        region_blocks: 0,
    }
}

/// An ordinary directory with checksums, for tests of single functions.
pub(super) fn params() -> super::params::DirectoryParams {
    super::params::DirectoryParams {
        inode: InodeNo(12),
        layout: LAYOUT,
        inodes_count: INODES,
        file_types: true,
        casefold: false,
        strict: false,
        encrypted: false,
        index_flag: false,
        index_feature: true,
        levels_max: 2,
        is_huge: false,
        checksum_seed: Some(9),
        index_tail: fsmend_ext_format::htree::INDEX_TAIL_LEN,
        tail_generation: None,
    }
}
