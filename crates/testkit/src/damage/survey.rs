// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the structures of a sound image that can be damaged.

use std::fs;
use std::io;
use std::path::Path;

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_ext_format::checksum::{has_leaf_tail, inode_seed, uuid_seed};
use fsmend_ext_format::features::{Features, Incompat};
use fsmend_ext_format::group::{GroupDesc, GroupFlags, RawGroupDesc};
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode, special};
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::Patch;
use super::fields::{
    BITMAP_BYTE, DIRENT, DIRENT_TAIL, EXTENT, EXTENT_HEADER, EXTENT_INDEX, Field, GROUP, HTREE_ENTRY,
    HTREE_NODE, HTREE_ROOT, INODE, JOURNAL, JOURNAL_BLOCK, LARGE_INODE, MMP, ORPHAN_BLOCK, POINTER,
    QUOTA_BLOCK, QUOTA_INFO, SUPERBLOCK, WIDE_GROUP, XATTR_ENTRY, XATTR_HEADER, XATTR_INODE_HEADER,
};
use super::seal::Seal;

/// A structure inside a record that has a checksum of its own.
#[derive(Clone, Debug)]
pub struct Structure {
    /// Kind, e.g. `inode`.
    pub kind: &'static str,
    /// Name for people, e.g. `inode 12`.
    pub name: String,
    /// Its fields.
    pub fields: &'static [Field],
    /// Offset of the structure inside its record.
    pub at: usize,
    record: u64,
    record_len: usize,
    seal: Seal,
}

/// A sound image in memory, and what can be damaged in it.
pub struct Survey {
    /// The image.
    pub image: Vec<u8>,
    /// Everything that can be damaged.
    pub structures: Vec<Structure>,
    /// Feature words.
    pub features: Features,
    /// Seed of all checksums.
    pub seed: u32,
    /// UUID.
    pub uuid: [u8; 16],
    block_size: usize,
    inode_size: usize,
    quota_files: Vec<u32>,
    orphan_file: u32,
}

/// Most structures of one kind inside one block or file: enough to reach each sort, few enough to draw from.
const PER_BLOCK: usize = 12;

impl Structure {
    /// Byte of the image at which the structure's record starts.
    pub fn record(&self) -> u64 {
        self.record
    }

    /// Whether it lies in a record whose checksum can be made right.
    pub fn has_checksum(&self, survey: &Survey) -> bool {
        match self.seal {
            Seal::Open => false,
            Seal::Group(_) => survey.features.group_csum(),
            _ => survey.features.metadata_csum(),
        }
    }

    /// What changes on the disk when some fields get other values, the checksum made right.
    pub fn with(&self, survey: &Survey, changes: &[(&str, u64)]) -> Vec<Patch> {
        let mut record = survey.bytes(self).to_vec();
        for (name, value) in changes {
            if let Some(field) = self.fields.iter().find(|field| field.name == *name) {
                let at = self.at + field.offset;
                let len = field.size.min(8);
                record[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
            }
        }
        self.patches(survey, record, true)
    }

    /// What changes on the disk when the record becomes `record`.
    pub fn patches(&self, survey: &Survey, mut record: Vec<u8>, sealed: bool) -> Vec<Patch> {
        if sealed {
            self.seal.close(survey, &mut record);
        }
        vec![Patch { offset: self.record, old: survey.bytes(self).to_vec(), new: record }]
    }
}

impl Survey {
    /// Reads `path` and looks around in it. Descriptors have to lie behind the superblock (no `meta_bg`).
    pub fn of(path: &Path) -> io::Result<Survey> {
        let image = fs::read(path)?;
        Self::of_bytes(image).ok_or_else(|| {
            io::Error::other(format!("{} is not an image that can be surveyed", path.display()))
        })
    }

    /// The same for bytes.
    pub fn of_bytes(image: Vec<u8>) -> Option<Survey> {
        let at = SUPERBLOCK_OFFSET as usize;
        let bytes = <[u8; SUPERBLOCK_SIZE]>::read_from_bytes(image.get(at..at + SUPERBLOCK_SIZE)?).ok()?;
        let superblock: RawSuperblock = zerocopy::transmute!(bytes);
        let features = superblock.features();
        let stored_seed = features.has_incompat(Incompat::CSUM_SEED);
        let seed = if stored_seed { superblock.s_checksum_seed.get() } else { uuid_seed(&superblock.s_uuid) };
        let revision_0 = superblock.s_rev_level.get() == 0;
        let mut survey = Survey {
            structures: Vec::new(),
            features,
            seed,
            uuid: superblock.s_uuid,
            block_size: 1024 << superblock.s_log_block_size.get(),
            inode_size: if revision_0 { 128 } else { usize::from(superblock.s_inode_size.get()) },
            quota_files: [
                superblock.s_usr_quota_inum,
                superblock.s_grp_quota_inum,
                superblock.s_prj_quota_inum,
            ]
            .map(|inode| inode.get())
            .into_iter()
            .filter(|inode| *inode != 0)
            .collect(),
            orphan_file: superblock.s_orphan_file_inum.get(),
            image,
        };
        survey.add(
            "superblock",
            "superblock".to_owned(),
            SUPERBLOCK,
            (SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE),
            0,
            Seal::Superblock,
        );
        if features.has_incompat(Incompat::MMP) {
            let record = (superblock.s_mmp_block.get() * survey.block_size as u64, 1024);
            survey.add("mmp", "MMP block".to_owned(), MMP, record, 0, Seal::Mmp);
        }
        survey.groups(&superblock)?;
        Some(survey)
    }

    /// The kinds of structures that there are.
    pub fn kinds(&self) -> Vec<&'static str> {
        let mut kinds: Vec<_> = self.structures.iter().map(|structure| structure.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// The record that `structure` lies in.
    pub fn bytes(&self, structure: &Structure) -> &[u8] {
        let at = structure.record as usize;
        self.image.get(at..at + structure.record_len).unwrap_or_default()
    }

    /// Where metadata lies: start and length of every record, ascending, without overlaps.
    pub fn metadata(&self) -> Vec<(u64, u64)> {
        let mut records: Vec<(u64, u64)> =
            self.structures.iter().map(|structure| (structure.record, structure.record_len as u64)).collect();
        records.sort_unstable();
        records.dedup_by(|next, last| {
            let covered = next.0 + next.1 <= last.0 + last.1;
            if next.0 == last.0 && !covered {
                *last = *next;
            }
            covered || next.0 == last.0
        });
        records
    }

    fn add(
        &mut self,
        kind: &'static str,
        name: String,
        fields: &'static [Field],
        record: (u64, usize),
        at: usize,
        seal: Seal,
    ) {
        let end = record.0.saturating_add(record.1 as u64);
        if end <= self.image.len() as u64 {
            self.structures.push(Structure {
                kind,
                name,
                fields,
                at,
                record: record.0,
                record_len: record.1,
                seal,
            });
        }
    }

    fn groups(&mut self, superblock: &RawSuperblock) -> Option<()> {
        let wide = self.features.has_incompat(Incompat::BIT64);
        let desc_size = if wide { usize::from(superblock.s_desc_size.get()).max(64) } else { 32 };
        let blocks = superblock.blocks_count().saturating_sub(u64::from(superblock.s_first_data_block.get()));
        let groups = blocks.div_ceil(u64::from(superblock.s_blocks_per_group.get()).max(1)) as u32;
        // With clusters the first block counts as 0 even where the superblock lies in block 1.
        let first = (superblock.s_first_data_block.get() as usize).max(1024 / self.block_size);
        let table = (first + 1) * self.block_size;
        for group in 0..groups.min(64) {
            let at = table + group as usize * desc_size;
            let mut raw = RawGroupDesc::new_zeroed();
            let len = desc_size.min(64);
            raw.as_mut_bytes()[..len].copy_from_slice(self.image.get(at..at + len)?);
            let desc = GroupDesc::parse(&raw, wide);
            let fields = if wide { WIDE_GROUP } else { GROUP };
            self.add(
                "group",
                format!("group {group}"),
                fields,
                (at as u64, desc_size),
                0,
                Seal::Group(GroupNo(group)),
            );
            for (kind, block) in [("block bitmap", desc.block_bitmap), ("inode bitmap", desc.inode_bitmap)] {
                for at in [0, 1, 5, 20, 100] {
                    let record = (block * self.block_size as u64 + at, 1);
                    self.add(
                        kind,
                        format!("{kind} of group {group}, byte {at}"),
                        BITMAP_BYTE,
                        record,
                        0,
                        Seal::Open,
                    );
                }
            }
            if !desc.has_flag(GroupFlags::INODE_UNINIT) || !self.features.group_csum() {
                self.inode_table(superblock.s_inodes_per_group.get(), group, &desc);
            }
        }
        Some(())
    }

    fn inode_table(&mut self, per_group: u32, group: u32, desc: &GroupDesc) {
        let unused = if self.features.group_csum() { desc.itable_unused } else { 0 };
        for index in 0..per_group.saturating_sub(unused) {
            let offset =
                desc.inode_table * self.block_size as u64 + u64::from(index) * self.inode_size as u64;
            let Some(record) = self.image.get(offset as usize..offset as usize + self.inode_size) else {
                return;
            };
            let inode = RawInode::from_record(record);
            if inode.i_mode.get() != 0 && inode.i_links_count.get() != 0 {
                self.inode(InodeNo(group * per_group + index + 1), &inode, offset);
            }
        }
    }

    fn inode(&mut self, number: InodeNo, inode: &RawInode, offset: u64) {
        let seal = Seal::Inode(number);
        let record = (offset, self.inode_size);
        let kind = match inode.file_type() {
            _ if number.0 < 11 && number.0 != special::ROOT => "special inode",
            mode::DIRECTORY => "inode of a directory",
            mode::REGULAR => "inode of a file",
            mode::SYMLINK => "inode of a link",
            _ => "inode of a device",
        };
        let fields = if self.inode_size > 128 { LARGE_INODE } else { INODE };
        self.add(kind, format!("inode {number}"), fields, record, 0, seal);
        self.attributes_in_inode(number, record);
        self.attribute_block(inode);
        if inode.has_flag(InodeFlags::INLINE_DATA)
            || matches!(inode.file_type(), mode::SYMLINK) && inode.size() < 60
        {
            return;
        }
        let seed = inode_seed(self.seed, number, inode.i_generation.get());
        let mut blocks = Vec::new();
        if inode.has_flag(InodeFlags::EXTENTS) {
            self.extent_node(number, record, 40, 60, seal, seed, &mut blocks);
        } else if matches!(inode.file_type(), mode::REGULAR | mode::DIRECTORY) {
            self.pointers(number, inode, record, &mut blocks);
        }
        if inode.file_type() == mode::DIRECTORY && !inode.has_flag(InodeFlags::ENCRYPT) {
            self.directory(number, inode.has_flag(InodeFlags::INDEX), seed, &blocks);
        }
        self.file_of_metadata(number, &blocks);
    }

    /// Blocks of the journal, the quota files and the orphan file.
    fn file_of_metadata(&mut self, number: InodeNo, blocks: &[u64]) {
        for (logical, block) in blocks.iter().take(PER_BLOCK).enumerate() {
            let start = block * self.block_size as u64;
            let name = format!("block {logical} of special inode {number}");
            let whole = (start, self.block_size);
            if number.0 == special::JOURNAL && logical == 0 {
                self.add("journal superblock", name, JOURNAL, (start, 1024), 0, Seal::Journal);
            } else if number.0 == special::JOURNAL {
                self.add("journal block", name, JOURNAL_BLOCK, whole, 0, Seal::Open);
            } else if self.quota_files.contains(&number.0) && logical == 0 {
                self.add("quota info", name, QUOTA_INFO, whole, 0, Seal::Open);
            } else if self.quota_files.contains(&number.0) {
                self.add("quota block", name, QUOTA_BLOCK, whole, 0, Seal::Open);
            } else if self.orphan_file == number.0 {
                self.add("orphan file block", name, ORPHAN_BLOCK, whole, 0, Seal::Open);
            }
        }
    }

    /// A node of an extent tree at `at` of its record; gathers the blocks of leaf extents.
    #[expect(
        clippy::too_many_arguments,
        reason = "a node is known by where it lies, how long it is and how it is sealed"
    )]
    fn extent_node(
        &mut self,
        inode: InodeNo,
        record: (u64, usize),
        at: usize,
        len: usize,
        seal: Seal,
        seed: u32,
        blocks: &mut Vec<u64>,
    ) {
        let start = record.0 as usize + at;
        let Some(node) = self.image.get(start..start + len).map(<[u8]>::to_vec) else { return };
        if u16_at(&node, 0) != 0xF30A {
            return;
        }
        let (entries, depth) = (usize::from(u16_at(&node, 2)), u16_at(&node, 6));
        let name = |what: &str| format!("{what} of inode {inode} at byte {start}");
        self.add("extent header", name("extent header"), EXTENT_HEADER, record, at, seal);
        for entry in 0..entries.min((len - 12) / 12) {
            let place = 12 + entry * 12;
            if depth == 0 {
                if entry < PER_BLOCK {
                    self.add("extent", name(&format!("extent {entry}")), EXTENT, record, at + place, seal);
                }
                let count = u64::from(u16_at(&node, place + 4) & 0x7FFF).min(64);
                let first = u64::from(u32_at(&node, place + 8));
                blocks.extend(first..first + count);
            } else {
                if entry < PER_BLOCK {
                    self.add(
                        "extent index",
                        name(&format!("extent index {entry}")),
                        EXTENT_INDEX,
                        record,
                        at + place,
                        seal,
                    );
                }
                if depth <= 5 && entry < PER_BLOCK {
                    let child = u64::from(u32_at(&node, place + 4)) * self.block_size as u64;
                    self.extent_node(
                        inode,
                        (child, self.block_size),
                        0,
                        self.block_size,
                        Seal::ExtentBlock(seed),
                        seed,
                        blocks,
                    );
                }
            }
        }
    }

    fn pointers(&mut self, number: InodeNo, inode: &RawInode, record: (u64, usize), blocks: &mut Vec<u64>) {
        for word in 0..15 {
            let pointer = inode.block_word(word);
            if pointer == 0 {
                continue;
            }
            self.add(
                "pointer",
                format!("pointer {word} of inode {number}"),
                POINTER,
                record,
                40 + word * 4,
                Seal::Inode(number),
            );
            if word < 12 {
                blocks.push(u64::from(pointer));
            } else {
                self.pointer_block(number, u64::from(pointer), word - 12);
            }
        }
    }

    fn pointer_block(&mut self, number: InodeNo, block: u64, depth: usize) {
        let record = (block * self.block_size as u64, self.block_size);
        let start = record.0 as usize;
        let Some(node) = self.image.get(start..start + self.block_size).map(<[u8]>::to_vec) else { return };
        let used = (0..self.block_size / 4).filter(|word| u32_at(&node, word * 4) != 0).take(PER_BLOCK);
        // On a rext3, they begin with two words that say whose they are.
        let header = if self.features.rext3() { 2 } else { 0 };
        for word in used {
            let (kind, name) = if word < header {
                ("indirect header", "header word")
            } else {
                ("indirect pointer", "pointer")
            };
            self.add(
                kind,
                format!("{name} {word} in block {block} of inode {number}"),
                POINTER,
                record,
                word * 4,
                Seal::Open,
            );
            if depth > 0 && word >= header {
                self.pointer_block(number, u64::from(u32_at(&node, word * 4)), depth - 1);
            }
        }
    }

    fn directory(&mut self, number: InodeNo, indexed: bool, seed: u32, blocks: &[u64]) {
        for (logical, block) in blocks.iter().enumerate() {
            let record = (block * self.block_size as u64, self.block_size);
            let start = record.0 as usize;
            let Some(bytes) = self.image.get(start..start + self.block_size).map(<[u8]>::to_vec) else {
                return;
            };
            let name = |what: &str| format!("{what} in block {block} of directory {number}");
            let node = indexed && usize::from(u16_at(&bytes, 4)) == self.block_size && u32_at(&bytes, 0) == 0;
            if indexed && logical == 0 || node {
                let count_at = if logical == 0 { 0x20 } else { 8 };
                let seal = Seal::Htree(seed, count_at);
                if logical == 0 {
                    self.add("htree root", name("htree root"), HTREE_ROOT, record, 0x18, seal);
                    self.add("dot entries", name("."), DIRENT, record, 0, seal);
                    self.add("dot entries", name(".."), DIRENT, record, 12, seal);
                }
                self.add("htree node", name("htree node"), HTREE_NODE, record, count_at, seal);
                for entry in 1..usize::from(u16_at(&bytes, count_at + 2)).min(PER_BLOCK) {
                    self.add(
                        "htree entry",
                        name(&format!("htree entry {entry}")),
                        HTREE_ENTRY,
                        record,
                        count_at + entry * 8,
                        seal,
                    );
                }
                continue;
            }
            let seal = if has_leaf_tail(&bytes) { Seal::DirectoryLeaf(seed) } else { Seal::Open };
            if seal != Seal::Open {
                self.add("directory tail", name("tail"), DIRENT_TAIL, record, self.block_size - 12, seal);
            }
            let mut at = 0;
            for entry in 0..PER_BLOCK {
                let len = usize::from(u16_at(&bytes, at + 4));
                if len < 12 || at + len > self.block_size {
                    break;
                }
                let kind = if logical == 0 && entry < 2 { "dot entries" } else { "directory entry" };
                self.add(kind, name(&format!("entry {entry}")), DIRENT, record, at, seal);
                at += len;
                if at + 12 > self.block_size {
                    break;
                }
            }
        }
    }

    fn attributes_in_inode(&mut self, number: InodeNo, record: (u64, usize)) {
        let start = record.0 as usize;
        let Some(bytes) = self.image.get(start..start + record.1).map(<[u8]>::to_vec) else { return };
        if bytes.len() <= 132 {
            return;
        }
        let header = 128 + usize::from(u16_at(&bytes, 128));
        if header + 4 > bytes.len() || u32_at(&bytes, header) != XATTR_MAGIC {
            return;
        }
        let seal = Seal::Inode(number);
        self.add(
            "attribute magic in inode",
            format!("attribute magic of inode {number}"),
            XATTR_INODE_HEADER,
            record,
            header,
            seal,
        );
        self.attribute_entries("attribute in inode", &bytes, header + 4, record, seal);
    }

    fn attribute_block(&mut self, inode: &RawInode) {
        let block = u64::from(inode.i_file_acl_lo.get());
        if block == 0 {
            return;
        }
        let record = (block * self.block_size as u64, self.block_size);
        let start = record.0 as usize;
        let Some(bytes) = self.image.get(start..start + self.block_size).map(<[u8]>::to_vec) else { return };
        if u32_at(&bytes, 0) == XATTR_MAGIC {
            let seal = Seal::Xattr(BlockNo(block));
            self.add("attribute block", format!("attribute block {block}"), XATTR_HEADER, record, 0, seal);
            self.attribute_entries("attribute in block", &bytes, 32, record, seal);
        }
    }

    fn attribute_entries(
        &mut self,
        kind: &'static str,
        bytes: &[u8],
        mut at: usize,
        record: (u64, usize),
        seal: Seal,
    ) {
        for entry in 0..PER_BLOCK {
            if at + 16 > bytes.len() || u32_at(bytes, at) == 0 {
                return;
            }
            self.add(
                kind,
                format!("{kind}, entry {entry} at byte {}", record.0 + at as u64),
                XATTR_ENTRY,
                record,
                at,
                seal,
            );
            at += 16 + usize::from(bytes[at]).next_multiple_of(4);
        }
    }
}

const XATTR_MAGIC: u32 = 0xEA02_0000;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}
