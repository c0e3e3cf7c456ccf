// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes structures of a sound image and makes their checksums right. What is chosen to be damaged is chosen from the sound image, so that
//! any number of deeds can follow one another.

use fsmend_base::{BlockNo, GroupNo, InodeNo, SeededRandom};
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::{Features, Incompat};
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use zerocopy::{FromBytes, IntoBytes};

use crate::repair::bytes::{Reader, Record, u16_at, u32_at};
use crate::repair::{Image, Tree};

pub(super) const DIRECTORY: u16 = 0o040_000;
pub(super) const REGULAR: u16 = 0o100_000;
pub(super) const SYMLINK: u16 = 0o120_000;
pub(super) const EXTENTS: u32 = 0x8_0000;
pub(super) const INLINE: u32 = 0x1000_0000;
pub(super) const INDEX: u32 = 0x1000;

/// An entry of a directory, where it stands in the image.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub dir: u32,
    pub block: u64,
    pub at: u64,
    pub len: u16,
    pub inode: u32,
    pub name: Vec<u8>,
}

/// A sound image that is being damaged.
pub(super) struct Editor<'b> {
    pub image: Image,
    pub tree: &'b Tree,
    pub reader: Reader<'static>,
    pub random: SeededRandom,
    /// Whether checksums are made right.
    pub sealed: bool,
    pub superblock: RawSuperblock,
    pub features: Features,
    pub seed: u32,
    pub block_size: u64,
    pub inode_size: usize,
    pub groups: u32,
    pub desc_size: u64,
}

impl<'b> Editor<'b> {
    /// Of a sound image; `None` where it has no superblock.
    pub fn new(sound: &'static [u8], tree: &'b Tree, seed: u64) -> Option<Self> {
        let at = SUPERBLOCK_OFFSET as usize;
        let bytes = <[u8; SUPERBLOCK_SIZE]>::read_from_bytes(sound.get(at..at + SUPERBLOCK_SIZE)?).ok()?;
        let superblock: RawSuperblock = zerocopy::transmute!(bytes);
        let features = superblock.features();
        let stored_seed = features.has_incompat(Incompat::CSUM_SEED);
        let blocks = superblock.blocks_count().saturating_sub(u64::from(superblock.s_first_data_block.get()));
        let wide = features.has_incompat(Incompat::BIT64);
        Some(Editor {
            image: Image::sound(sound),
            tree,
            reader: Reader::new(sound)?,
            random: SeededRandom::new(seed),
            sealed: true,
            features,
            seed: if stored_seed {
                superblock.s_checksum_seed.get()
            } else {
                checksum::uuid_seed(&superblock.s_uuid)
            },
            block_size: 1024 << superblock.s_log_block_size.get().min(6),
            inode_size: if superblock.s_rev_level.get() == 0 {
                128
            } else {
                usize::from(superblock.s_inode_size.get())
            },
            groups: blocks.div_ceil(u64::from(superblock.s_blocks_per_group.get().max(1))) as u32,
            desc_size: if wide { u64::from(superblock.s_desc_size.get()).max(64) } else { 32 },
            superblock,
        })
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    /// One of several.
    pub fn one<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        let index = self.below(of.len());
        of.get(index).cloned()
    }

    pub fn blocks(&self) -> u64 {
        self.superblock.blocks_count()
    }

    /// Bytes of the image as it is now.
    pub fn read(&self, at: u64, len: usize) -> Option<Vec<u8>> {
        self.image.read(at, len)
    }

    pub fn block(&self, number: u64) -> Option<Vec<u8>> {
        self.read(number.checked_mul(self.block_size)?, self.block_size as usize)
    }

    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        self.image.write(at, bytes);
    }

    /// The record of an inode as it is now.
    pub fn inode(&self, number: u32) -> Option<Vec<u8>> {
        let at = self.reader.inode(number)?.at;
        self.read(at, self.inode_size)
    }

    /// The record of an inode as it was.
    pub fn sound_inode(&self, number: u32) -> Option<Record<'static>> {
        self.reader.inode(number)
    }

    /// Writes the record of an inode.
    pub fn put_inode(&mut self, number: u32, mut record: Vec<u8>) {
        if self.sealed && self.features.metadata_csum() {
            checksum::seal_inode(self.seed, InodeNo(number), &mut record);
        }
        if let Some(place) = self.reader.inode(number) {
            self.write(place.at, &record);
        }
    }

    /// Changes the record of an inode.
    pub fn with_inode(&mut self, number: u32, change: impl FnOnce(&mut [u8])) -> Option<()> {
        let mut record = self.inode(number)?;
        change(&mut record);
        self.put_inode(number, record);
        Some(())
    }

    fn inode_seed(&self, number: u32) -> u32 {
        let generation = self.inode(number).map_or(0, |record| u32_at(&record, 0x64));
        checksum::inode_seed(self.seed, InodeNo(number), generation)
    }

    /// Writes a block of a directory.
    pub fn put_directory_block(&mut self, directory: u32, at: u64, mut bytes: Vec<u8>) {
        if self.sealed && self.features.metadata_csum() {
            let seed = self.inode_seed(directory);
            if checksum::has_leaf_tail(&bytes) {
                checksum::seal_directory_leaf(seed, &mut bytes);
            } else {
                let count = if u16_at(&bytes, 4) == 12 { 0x20 } else { 8 };
                checksum::seal_htree(seed, &mut bytes, count);
            }
        }
        self.write(at, &bytes);
    }

    /// Changes a block of a directory.
    pub fn with_directory_block(
        &mut self,
        directory: u32,
        at: u64,
        change: impl FnOnce(&mut [u8]),
    ) -> Option<()> {
        let mut bytes = self.read(at, self.block_size as usize)?;
        change(&mut bytes);
        self.put_directory_block(directory, at, bytes);
        Some(())
    }

    /// Writes a node of an extent tree.
    pub fn put_extent_block(&mut self, inode: u32, at: u64, mut bytes: Vec<u8>) {
        if self.sealed && self.features.metadata_csum() {
            checksum::seal_extent_block(self.inode_seed(inode), &mut bytes);
        }
        self.write(at, &bytes);
    }

    /// Writes a block of attributes.
    pub fn put_attribute_block(&mut self, number: u64, mut bytes: Vec<u8>) {
        if self.sealed && self.features.metadata_csum() {
            checksum::seal_xattr_block(self.seed, BlockNo(number), &mut bytes);
        }
        self.write(number * self.block_size, &bytes);
    }

    /// Changes the superblock.
    pub fn with_superblock(&mut self, change: impl FnOnce(&mut [u8])) -> Option<()> {
        let mut bytes = self.read(SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE)?;
        change(&mut bytes);
        if self.sealed && self.features.metadata_csum() {
            let array = <[u8; SUPERBLOCK_SIZE]>::read_from_bytes(&bytes).ok()?;
            let mut raw: RawSuperblock = zerocopy::transmute!(array);
            checksum::seal_superblock(&mut raw);
            bytes = raw.as_bytes().to_vec();
        }
        self.write(SUPERBLOCK_OFFSET, &bytes);
        Some(())
    }

    /// Where the descriptor of a group stands.
    pub fn descriptor_at(&self, group: u32) -> Option<u64> {
        self.reader.descriptor_at(group)
    }

    /// Changes a descriptor.
    pub fn with_descriptor(&mut self, group: u32, change: impl FnOnce(&mut [u8])) -> Option<()> {
        let at = self.descriptor_at(group)?;
        let mut bytes = self.read(at, self.desc_size as usize)?;
        change(&mut bytes);
        if self.sealed {
            checksum::seal_group_desc(
                self.features,
                self.seed,
                &self.superblock.s_uuid,
                GroupNo(group),
                &mut bytes,
            );
        }
        self.write(at, &bytes);
        Some(())
    }

    /// Blocks of the block bitmap, the inode bitmap and the inode table of a group, as the sound descriptor says.
    pub fn places(&self, group: u32) -> Option<[u64; 3]> {
        let at = self.descriptor_at(group)? as usize;
        let desc = self.image.base().get(at..at + self.desc_size as usize)?;
        let place = |low: usize, high: usize| {
            let high = if self.desc_size >= 64 { u64::from(u32_at(desc, high)) << 32 } else { 0 };
            u64::from(u32_at(desc, low)) | high
        };
        Some([place(0, 0x20), place(4, 0x24), place(8, 0x28)])
    }

    /// Blocks of an inode table.
    pub fn table_blocks(&self) -> u64 {
        let bytes = u64::from(self.superblock.s_inodes_per_group.get()) * self.inode_size as u64;
        bytes.div_ceil(self.block_size)
    }

    /// Puts the checksums of both bitmaps of a group, as they are now, into its descriptor.
    pub fn seal_bitmaps(&mut self, group: u32) -> Option<()> {
        if !self.features.metadata_csum() || !self.sealed {
            return Some(());
        }
        let [blocks, inodes, _] = self.places(group)?;
        let wide = self.desc_size >= 64;
        let of = |bytes: Vec<u8>, bits: u32| checksum::bitmap(self.seed, &bytes, bits, wide);
        let blocks = of(self.block(blocks)?, self.superblock.s_clusters_per_group.get());
        let inodes = of(self.block(inodes)?, self.superblock.s_inodes_per_group.get());
        self.with_descriptor(group, |desc| {
            put16(desc, 0x18, blocks as u16);
            put16(desc, 0x1A, inodes as u16);
            if wide {
                put16(desc, 0x38, (blocks >> 16) as u16);
                put16(desc, 0x3A, (inodes >> 16) as u16);
            }
        })
    }

    /// Inodes with a name, of one type.
    pub fn named(&self, kind: u16) -> Vec<u32> {
        let nodes = self.tree.nodes.values().filter(|node| node.kind == kind);
        let mut inodes: Vec<u32> = nodes.map(|node| node.inode).collect();
        inodes.sort_unstable();
        inodes.dedup();
        inodes
    }

    /// Any inode with a name.
    pub fn any_named(&mut self) -> Option<u32> {
        let kind = [REGULAR, REGULAR, DIRECTORY, DIRECTORY, SYMLINK, 0];
        let kind = self.one(&kind)?;
        let of_kind = self.named(kind);
        if of_kind.is_empty() {
            let all: Vec<u32> = self.tree.paths.keys().copied().collect();
            return self.one(&all);
        }
        self.one(&of_kind)
    }

    /// An inode of one type with a name.
    pub fn some(&mut self, kind: u16) -> Option<u32> {
        let all = self.named(kind);
        self.one(&all)
    }

    /// An inode of one type whose blocks are somewhere.
    pub fn some_mapped(&mut self, kind: u16) -> Option<u32> {
        let all = self.named(kind);
        let mapped: Vec<u32> =
            all.into_iter().filter(|inode| !self.sound_blocks(*inode).is_empty()).collect();
        self.one(&mapped)
    }

    /// Blocks that hold what a file holds, in the order of the file, as it was.
    pub fn sound_blocks(&self, inode: u32) -> Vec<u64> {
        let Some(record) = self.sound_inode(inode) else { return Vec::new() };
        let is_short = record.kind() == SYMLINK && record.size() < 60;
        if record.is_inline() || is_short || !matches!(record.kind(), REGULAR | DIRECTORY | SYMLINK) {
            return Vec::new();
        }
        let mut pieces = self.reader.pieces(record);
        pieces.sort_by_key(|piece| piece.0);
        pieces.iter().map(|(_, bytes)| self.reader.place_of(bytes) as u64 / self.block_size).collect()
    }

    /// Entries of a directory, `.` and `..` too, as they were.
    pub fn entries(&self, directory: u32) -> Vec<Entry> {
        let mut entries = Vec::new();
        for block in self.sound_blocks(directory) {
            let start = block * self.block_size;
            let place = start as usize..(start + self.block_size) as usize;
            let Some(bytes) = self.image.base().get(place) else { continue };
            let mut at = 0;
            while at + 8 < bytes.len() {
                let len = u16_at(bytes, at + 4);
                let name_len = usize::from(bytes[at + 6]);
                if len < 8 || at + usize::from(len) > bytes.len() || at + 8 + name_len > bytes.len() {
                    break;
                }
                let inode = u32_at(bytes, at);
                if inode != 0 {
                    let name = bytes[at + 8..at + 8 + name_len].to_vec();
                    entries.push(Entry {
                        dir: directory,
                        block: start,
                        at: start + at as u64,
                        len,
                        inode,
                        name,
                    });
                }
                at += usize::from(len);
            }
        }
        entries
    }

    /// An entry that is neither `.` nor `..`.
    pub fn some_entry(&mut self) -> Option<Entry> {
        for _ in 0..20 {
            let directory = self.some_mapped(DIRECTORY)?;
            let entries = self.entries(directory);
            let named: Vec<Entry> = entries.into_iter().filter(|entry| !entry.is_dot()).collect();
            if let Some(entry) = self.one(&named) {
                return Some(entry);
            }
        }
        None
    }

    /// The entry that leads to an inode.
    pub fn entry_of(&self, inode: u32) -> Option<Entry> {
        let directories = self.named(DIRECTORY);
        let entries = directories.into_iter().flat_map(|directory| self.entries(directory));
        entries.into_iter().find(|entry| entry.inode == inode && !entry.is_dot())
    }

    /// Lets an entry lead elsewhere.
    pub fn lead(&mut self, entry: &Entry, inode: u32) -> Option<()> {
        let at = (entry.at - entry.block) as usize;
        self.with_directory_block(entry.dir, entry.block, |bytes| put32(bytes, at, inode))
    }
}

impl Entry {
    pub fn is_dot(&self) -> bool {
        self.name == b"." || self.name == b".."
    }
}

pub(super) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

pub(super) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}
