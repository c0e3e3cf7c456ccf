// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making file systems. What lies where is decided in `layout`, what the superblock says in `shape`; here it is written: first groups without
//! files, then, with the driver itself, the files that every file system has.

mod layout;
mod own_files;
mod shape;

use fsmend_blockcache::MountState;
use std::fmt;
use std::sync::Arc;

use fsmend_base::{BlockNo, GroupNo, width};
use fsmend_device::WritableDevice;
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::Compat;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::group::{GroupDesc, GroupFlags, RawGroupDesc};
use fsmend_ext_format::inode::special;
use fsmend_ext_format::journal::{
    CHECKSUM_CRC32C, JOURNAL_MAGIC, JournalBlockType, JournalIncompat, RawJournalSuperblock,
};
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_OFFSET};
use fsmend_vfs::{Errno, FileKind, InodeNo, Permissions, Time};
use zerocopy::big_endian::U32 as Big32;
use zerocopy::{FromZeros, IntoBytes};

use crate::directory::block::NewEntry;
use crate::policy::BlockKind;
use crate::volume::Volume;
use layout::Place;

/// Which member of the family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Without a journal.
    Ext2,
    /// With a journal, and files mapped by pointers.
    Ext3,
    /// Ext3 whose indirect and directory blocks have regions of their own: made to be checked (docs/formats/rext3.md).
    Rext3,
    /// With extents, checksums, and group metadata gathered.
    Ext4,
}

/// What to make. Where an option is `None`, it follows from the size, as it does with mke2fs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which member of the family.
    pub kind: Kind,
    /// Bytes in a block: a power of two from 1024 to 65536. Linux mounts no blocks larger than the pages of its memory,
    /// unless it is new enough.
    pub block_size: Option<u32>,
    /// Blocks of the file system; otherwise the whole device.
    pub blocks: Option<u64>,
    /// Bytes of an inode record: a power of two from 128 to the block size.
    pub inode_size: u32,
    /// Number of inodes, at least.
    pub inodes: Option<u32>,
    /// One inode for so many bytes, where no number is given.
    pub inode_ratio: Option<u64>,
    /// Blocks in a group: a multiple of 8.
    pub blocks_per_group: Option<u32>,
    /// Blocks of the journal.
    pub journal_blocks: Option<u32>,
    /// Blocks of the indirect region of each group; for a rext3 alone.
    pub indirect_region: Option<u32>,
    /// How many of a hundred blocks only the superuser may take.
    pub reserved_percent: u32,
    /// Room for descriptors of groups to come, so that the file system can grow while it is mounted; not for a rext3.
    pub resize_inode: bool,
    /// A file for the inodes that have lost their last name, beside the list of them; not for a rext3.
    pub orphan_file: bool,
    /// A seed of checksums of its own in the superblock, so that the UUID can change; for an ext4 alone.
    pub checksum_seed: bool,
    /// At most 16 bytes.
    pub label: Vec<u8>,
    /// What tells it apart from all others.
    pub uuid: [u8; 16],
    /// Seed of the hashes of names.
    pub hash_seed: [u32; 4],
    /// The time.
    pub now: Time,
    /// The device reads as zeroes all over, so that zeroes need not be written.
    pub blank: bool,
}

impl Options {
    /// What mke2fs would make, with this UUID, at this time.
    pub fn new(kind: Kind, uuid: [u8; 16], now: Time) -> Self {
        let word = |at: usize| u32::from_le_bytes([uuid[at], uuid[at + 1], uuid[at + 2], uuid[at + 3]]);
        Options {
            kind,
            block_size: None,
            blocks: None,
            inode_size: 256,
            inodes: None,
            inode_ratio: None,
            blocks_per_group: None,
            journal_blocks: None,
            indirect_region: None,
            reserved_percent: 5,
            resize_inode: kind == Kind::Ext4,
            orphan_file: kind == Kind::Ext4,
            checksum_seed: kind == Kind::Ext4,
            label: Vec::new(),
            uuid,
            hash_seed: [12, 8, 4, 0].map(|at| word(at) ^ 0x5bd1_e995),
            now,
            blank: false,
        }
    }
}

/// Why no file system can be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MkfsError {
    /// An option that cannot be, and which.
    Option(&'static str),
    /// The device is too small for anything.
    TooSmall,
    /// The indirect regions of a rext3 have no room for what an empty file system has there.
    Regions(RegionNeeds),
    /// The device could not be read or written.
    Io(String),
}

impl fmt::Display for MkfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MkfsError::Option(which) => write!(f, "{which}"),
            MkfsError::TooSmall => f.write_str("there is too little room for a file system"),
            MkfsError::Regions(needs) => write!(f, "{needs}"),
            MkfsError::Io(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for MkfsError {}

/// Groups whose bitmaps are in memory at a time.
const GROUPS_AT_ONCE: u32 = 512;
/// Bytes of zeroes that are written at once.
const ZEROES: usize = 1 << 20;
/// Bytes that `lost+found` gets, so that a check can put names there when nothing else is free.
const LOST_AND_FOUND_BYTES: u64 = 16384;
/// Blocks that an inode points to itself.
const DIRECT_BLOCKS: u64 = 12;

/// Makes a file system on `device`.
pub fn mkfs(device: Arc<dyn WritableDevice>, options: &Options) -> Result<(), MkfsError> {
    let shape = shape::decide(device.len(), options)?;
    let geometry = shape.geometry;
    let places = layout::plan(&geometry, shape.groups_per_flex).ok_or(MkfsError::TooSmall)?;
    let maker = Maker { device, geometry, options };
    maker.regions_suffice(&places, shape.journal_blocks)?;
    maker.write_skeleton(&shape.superblock, &places).map_err(io)?;
    maker.fill(&places, shape.journal_blocks)
}

/// Blocks of the indirect regions of an empty rext3: those that there are, and those that are needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionNeeds {
    /// Blocks of all regions.
    pub all: u64,
    /// Blocks of the root directory and of `lost+found`.
    pub directories: u64,
    /// Indirect blocks of the journal.
    pub journal: u64,
}

impl fmt::Display for RegionNeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RegionNeeds { all, directories, journal } = self;
        write!(
            f,
            "the indirect regions have {all} blocks in all; the root directory and lost+found need {directories}, \
             the map of the journal needs {journal}. Make the regions larger (-E indirect-region=BLOCKS) or the journal \
             smaller (-E journal-blocks=BLOCKS)"
        )
    }
}

/// Indirect blocks of a file of so many blocks without holes, with so many pointers in each.
fn map_blocks(blocks: u64, pointers: u64) -> u64 {
    let (mut left, mut count) = (blocks.saturating_sub(DIRECT_BLOCKS), 0);
    for level in 1..=3 {
        let here = left.min(pointers.saturating_pow(level));
        count += (1..=level).map(|depth| here.div_ceil(pointers.saturating_pow(depth))).sum::<u64>();
        left -= here;
    }
    count
}

fn io(error: impl fmt::Display) -> MkfsError {
    MkfsError::Io(error.to_string())
}

struct Maker<'o> {
    device: Arc<dyn WritableDevice>,
    geometry: Geometry,
    options: &'o Options,
}

impl Maker<'_> {
    /// Whether all that an empty file system has in its indirect regions fits into them; nothing is written before.
    fn regions_suffice(&self, places: &[Place], journal_blocks: u32) -> Result<(), MkfsError> {
        if !self.geometry.rext3() {
            return Ok(());
        }
        let region =
            |(group, place): (u32, &Place)| self.geometry.region(GroupNo(group), place.inode_table).count;
        let size = u64::from(self.geometry.block_size);
        let needs = RegionNeeds {
            all: (0..).zip(places).map(region).sum(),
            directories: 1 + LOST_AND_FOUND_BYTES.div_ceil(size).clamp(1, DIRECT_BLOCKS),
            journal: map_blocks(journal_blocks.into(), self.geometry.pointers_per_block().into()),
        };
        let fits = needs.directories + needs.journal <= needs.all;
        if fits { Ok(()) } else { Err(MkfsError::Regions(needs)) }
    }

    /// Superblock, descriptors that say where everything is, and empty inode tables.
    fn write_skeleton(&self, superblock: &RawSuperblock, places: &[Place]) -> Result<(), String> {
        let size = u64::from(self.geometry.block_size);
        self.zero(0, SUPERBLOCK_OFFSET.max(size))?;
        for place in places {
            let len = u64::from(self.geometry.inode_table_blocks()) * size;
            self.zero(place.inode_table * size, len)?;
        }
        for index in 0..self.geometry.desc_blocks() {
            let block = self.desc_block(index, places);
            let copies = self.geometry.descriptor_copies(index, 1);
            let copy = copies.first().ok_or("no place for descriptors")?;
            self.write(copy.0 * size, &block)?;
        }
        self.write(SUPERBLOCK_OFFSET, superblock.as_bytes())
    }

    fn desc_block(&self, index: u32, places: &[Place]) -> Vec<u8> {
        let geometry = &self.geometry;
        let mut block = vec![0; geometry.block_size as usize];
        let first = index * geometry.descs_per_block();
        let size = geometry.desc_size as usize;
        for (at, place) in places.iter().skip(first as usize).enumerate() {
            let Some(bytes) = block.get_mut(at * size..(at + 1) * size) else { break };
            let mut raw = RawGroupDesc::new_zeroed();
            let desc = GroupDesc {
                block_bitmap: place.block_bitmap,
                inode_bitmap: place.inode_bitmap,
                inode_table: place.inode_table,
                ..GroupDesc::default()
            };
            desc.store(&mut raw, geometry.wide_descriptors());
            let len = size.min(size_of::<RawGroupDesc>());
            bytes[..len].copy_from_slice(&raw.as_bytes()[..len]);
            let group = GroupNo(first + width::len_u32(at));
            checksum::seal_group_desc(
                geometry.features,
                geometry.checksum_seed,
                &geometry.uuid,
                group,
                bytes,
            );
        }
        block
    }

    /// Everything else is written by the driver.
    fn fill(&self, places: &[Place], journal_blocks: u32) -> Result<(), MkfsError> {
        let device = Arc::clone(&self.device);
        let mut volume = Volume::open(device, None, 64 << 20, self.options.now).map_err(io)?;
        volume.mode = MountState::Writable;
        let result = self.fill_volume(&mut volume, places, journal_blocks);
        result.map_err(|error| match (error, volume.cache.trouble()) {
            (Errno::NoSpace, _) => MkfsError::TooSmall,
            (_, Some(trouble)) => MkfsError::Io(trouble.to_owned()),
            (error, None) => io(error),
        })
    }

    fn fill_volume(&self, volume: &mut Volume, places: &[Place], journal_blocks: u32) -> Result<(), Errno> {
        volume.survey_groups()?;
        self.write_bitmaps(volume, places)?;
        self.make_root(volume)?;
        if self.geometry.features.has_compat(Compat::RESIZE_INODE) {
            self.make_resize_inode(volume)?;
        }
        if self.geometry.features.has_compat(Compat::ORPHAN_FILE) {
            self.make_orphan_file(volume)?;
        }
        if journal_blocks > 0 {
            self.make_journal(volume, journal_blocks)?;
        }
        volume.commit(self.options.now)?;
        self.write_backups(volume)?;
        volume.cache.sync()
    }

    fn write_bitmaps(&self, volume: &mut Volume, places: &[Place]) -> Result<(), Errno> {
        let inodes = self.geometry.inodes_per_group;
        let fresh = crate::group::fresh_inode_bitmap(self.geometry.block_size, inodes);
        for (group, place) in (0..self.geometry.group_count).map(GroupNo).zip(places) {
            let bitmap = volume.fresh_block_bitmap(group);
            let own: u64 = volume.own_metadata(group)?.iter().map(|range| range.end - range.start).sum();
            let free = self.geometry.group_blocks(group).count.saturating_sub(own);
            volume.cache.create(place.block_bitmap)?.copy_from_slice(&bitmap);
            volume.cache.create(place.inode_bitmap)?.copy_from_slice(&fresh);
            let mut desc = volume.desc(group)?;
            (desc.free_blocks, desc.free_inodes) = (width::low_u32(free), inodes);
            if self.geometry.features.group_csum() {
                (desc.itable_unused, desc.flags) = (inodes, GroupFlags::INODE_ZEROED);
            }
            volume.set_desc(group, &desc)?;
            volume.totals.free_blocks += free;
            volume.totals.free_inodes += u64::from(inodes);
            if group.0 % GROUPS_AT_ONCE == GROUPS_AT_ONCE - 1 {
                volume.commit(self.options.now)?;
                volume.cache.finish();
            }
        }
        Ok(())
    }

    fn make_root(&self, volume: &mut Volume) -> Result<(), Errno> {
        for index in 0..self.geometry.first_inode - 1 {
            volume.mark_inode(GroupNo(0), index, index + 1 == special::ROOT)?;
        }
        let now = self.options.now;
        let number = InodeNo(special::ROOT);
        let of = |mode| Permissions { mode, uid: 0, gid: 0 };
        let mut root = volume.new_inode(number, FileKind::Directory, of(0o755), now);
        root.raw.i_links_count.set(3);
        root.raw.i_generation.set(0);
        volume.start_directory(&mut root, number)?;
        let lost_number = volume.take_inode(GroupNo(0), true)?;
        let mut lost = volume.new_inode(lost_number, FileKind::Directory, of(0o700), now);
        lost.raw.i_links_count.set(2);
        lost.raw.i_generation.set(0);
        volume.start_directory(&mut lost, number)?;
        let size = u64::from(self.geometry.block_size);
        while lost.raw.size() < LOST_AND_FOUND_BYTES && lost.raw.size() / size < 12 {
            volume.append_empty_leaf(&mut lost)?;
        }
        volume.save(&mut lost)?;
        let file_type = volume.type_byte(FileKind::Directory);
        let entry = NewEntry { name: b"lost+found", inode: lost_number.0, file_type };
        volume.add_entry(&mut root, &entry)?;
        volume.save(&mut root)
    }

    fn make_journal(&self, volume: &mut Volume, blocks: u32) -> Result<(), Errno> {
        let of = Permissions { mode: 0o600, uid: 0, gid: 0 };
        let number = InodeNo(special::JOURNAL);
        let mut inode = volume.new_inode(number, FileKind::Regular, of, self.options.now);
        inode.raw.i_links_count.set(1);
        inode.raw.i_generation.set(0);
        let size = u64::from(self.geometry.block_size);
        let (mut logical, mut first) = (0, None);
        while logical < u64::from(blocks) {
            let left = u64::from(blocks) - logical;
            let (physical, count) = volume.map_new(&mut inode, logical, left, BlockKind::Data, false)?;
            self.zero(physical * size, count * size).map_err(|_| Errno::Io)?;
            first.get_or_insert(physical);
            logical += count;
        }
        inode.raw.set_size(logical * size);
        volume.save(&mut inode)?;
        let place = first.ok_or(Errno::NoSpace)?;
        self.write(place * size, self.journal_superblock(blocks).as_bytes()).map_err(|_| Errno::Io)?;
        volume.change_superblock(|superblock| {
            superblock.s_journal_inum.set(number.0);
            superblock.s_jnl_backup_type = 1;
            let words = (0..15).map(|at| inode.raw.block_word(at));
            let sizes = [inode.raw.i_size_high.get(), inode.raw.i_size_lo.get()];
            for (place, word) in superblock.s_jnl_blocks.iter_mut().zip(words.chain(sizes)) {
                place.set(word);
            }
        })
    }

    fn journal_superblock(&self, blocks: u32) -> RawJournalSuperblock {
        let mut raw = RawJournalSuperblock::new_zeroed();
        raw.s_header.h_magic = Big32::new(JOURNAL_MAGIC);
        raw.s_header.h_blocktype = Big32::new(JournalBlockType::SUPERBLOCK_V2.0);
        raw.s_blocksize = Big32::new(self.geometry.block_size);
        raw.s_maxlen = Big32::new(blocks);
        raw.s_first = Big32::new(1);
        raw.s_sequence = Big32::new(1);
        raw.s_nr_users = Big32::new(1);
        raw.s_uuid = self.options.uuid;
        if self.geometry.features.metadata_csum() {
            raw.s_feature_incompat = Big32::new(JournalIncompat::CSUM_V3.bits());
            raw.s_checksum_type = CHECKSUM_CRC32C;
            raw.s_checksum = Big32::new(raw.computed_checksum());
        }
        raw
    }

    /// Copies of the superblock and the descriptors, where the format has them.
    fn write_backups(&self, volume: &mut Volume) -> Result<(), Errno> {
        let size = u64::from(self.geometry.block_size);
        let superblock = volume.superblock()?;
        let descs: Result<Vec<_>, Errno> =
            volume.desc_places.clone().into_iter().map(|place| volume.cache.get(place)).collect();
        let descs = descs?;
        for group in (1..self.geometry.group_count).map(GroupNo) {
            let Some(BlockNo(block)) = self.geometry.group_head(group).superblock else { continue };
            let mut copy = superblock.clone();
            copy.s_block_group_nr.set(width::low_u16(u64::from(group.0)));
            if self.geometry.features.metadata_csum() {
                checksum::seal_superblock(&mut copy);
            }
            self.write(block * size, copy.as_bytes()).map_err(|_| Errno::Io)?;
            let places = (block + 1..).zip(&descs);
            volume.cache.write_blocks(places)?;
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        self.device.write_at(offset, bytes).map_err(|error| error.to_string())
    }

    /// Zeroes, unless the device has them already.
    fn zero(&self, offset: u64, len: u64) -> Result<(), String> {
        if self.options.blank {
            return Ok(());
        }
        let zeroes = vec![0; ZEROES.min(usize::try_from(len).unwrap_or(ZEROES))];
        let mut done = 0;
        while done < len {
            let part = (zeroes.len() as u64).min(len - done);
            self.write(offset + done, &zeroes[..width::index(part)])?;
            done += part;
        }
        Ok(())
    }
}

/// Whether a journal is wanted.
fn has_journal(superblock: &RawSuperblock) -> bool {
    superblock.features().has_compat(Compat::HAS_JOURNAL)
}
