// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a superblock to a [`Geometry`]: every number is judged before anything is computed with it.
//!
//! What makes computing impossible is [`Unsound`]. What a superblock check can mend (features that exclude one
//! another, a wrong inode count, times) is not judged here.

use fsmend_base::width::low_u32;
use std::fmt;

use crate::checksum;
use crate::features::{Incompat, RoCompat};
use crate::geometry::Geometry;
use crate::rext3;
use crate::superblock::{EXT_MAGIC, GOOD_OLD_FIRST_INO, GOOD_OLD_INODE_SIZE, RawSuperblock};

/// `s_creator_os` of the Hurd.
pub const OS_HURD: u32 = 1;
/// `s_checksum_type` of CRC32C, the only one there is.
pub const CHECKSUM_CRC32C: u8 = 1;

const DESC_SIZE_MIN: u32 = 32;
const DESC_SIZE_MIN_64BIT: u32 = 64;
const DESC_SIZE_MAX: u32 = 1024;
const LOG_BLOCK_SIZE_MAX: u32 = 6;
const LOG_CLUSTER_SIZE_MAX: u32 = 19;

/// Why nothing can be computed from a superblock. Each carries what the superblock says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsound {
    /// No magic number.
    Magic(u16),
    /// A revision that is not 0 or 1.
    Revision(u32),
    /// A kind of checksum that is undefined.
    ChecksumType(u8),
    /// `s_log_block_size` beyond 64 KiB.
    LogBlockSize(u32),
    /// `s_log_cluster_size` below the block size or out of range, with bigalloc.
    LogClusterSize(u32),
    /// `s_blocks_per_group` out of range or not what clusters per group make it.
    BlocksPerGroup(u32),
    /// `s_first_data_block` does not go with the block size.
    FirstDataBlock(u32),
    /// No block at all.
    BlocksCount(u64),
    /// `s_inode_size` is not a power of two from 128 to the block size.
    InodeSize(u16),
    /// `s_inodes_per_group` out of range.
    InodesPerGroup(u32),
    /// `s_desc_size` is not a power of two from 64 to 1024, with 64bit.
    DescSize(u16),
    /// `s_reserved_gdt_blocks` more than a block of pointers can list.
    ReservedGdtBlocks(u16),
    /// A rext3 without its magic number.
    RegionMagic(u32),
    /// Indirect regions that are empty, or that leave no room for data in a group.
    RegionBlocks(u32),
    /// Features that a rext3 cannot have: their bits in the first feature word with any.
    BesideRegions(u32),
    /// More inodes than 32 bits can number: the groups that it would take.
    InodesOverflow(u64),
}

impl Unsound {
    /// What the superblock says.
    pub fn stored(self) -> u64 {
        match self {
            Unsound::Magic(value) | Unsound::InodeSize(value) | Unsound::DescSize(value) => u64::from(value),
            Unsound::ReservedGdtBlocks(value) => u64::from(value),
            Unsound::ChecksumType(value) => u64::from(value),
            Unsound::Revision(value) | Unsound::LogBlockSize(value) | Unsound::LogClusterSize(value) => {
                u64::from(value)
            }
            Unsound::BlocksPerGroup(value) | Unsound::FirstDataBlock(value) => u64::from(value),
            Unsound::InodesPerGroup(value) => u64::from(value),
            Unsound::RegionMagic(value) | Unsound::RegionBlocks(value) | Unsound::BesideRegions(value) => {
                u64::from(value)
            }
            Unsound::BlocksCount(value) | Unsound::InodesOverflow(value) => value,
        }
    }

    /// The field, in plain words.
    pub fn field(self) -> &'static str {
        match self {
            Unsound::Magic(_) => "the magic number",
            Unsound::Revision(_) => "the revision",
            Unsound::ChecksumType(_) => "the kind of checksum",
            Unsound::LogBlockSize(_) => "the block size (as a power of two)",
            Unsound::LogClusterSize(_) => "the cluster size (as a power of two)",
            Unsound::BlocksPerGroup(_) => "the number of blocks per group",
            Unsound::FirstDataBlock(_) => "the first data block",
            Unsound::BlocksCount(_) => "the number of blocks",
            Unsound::InodeSize(_) => "the inode size",
            Unsound::InodesPerGroup(_) => "the number of inodes per group",
            Unsound::DescSize(_) => "the size of group descriptors",
            Unsound::ReservedGdtBlocks(_) => "the number of reserved descriptor blocks",
            Unsound::RegionMagic(_) => "the magic number of rext3",
            Unsound::RegionBlocks(_) => "the size of the indirect regions",
            Unsound::BesideRegions(_) => "the features beside rext3",
            Unsound::InodesOverflow(_) => "the number of groups",
        }
    }
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be {}", self.field(), self.stored())
    }
}

impl Geometry {
    /// The geometry that `raw` describes. `device_len` is the device's length in bytes: a superblock may claim more
    /// (that is a problem, but the file system may just have been copied in part), up to sixteen times as much; a
    /// wilder claim is cut to what the device holds, so that it costs nothing.
    pub fn from_superblock(raw: &RawSuperblock, device_len: u64) -> Result<Geometry, Unsound> {
        let features = raw.features();
        let block_size = check_identity(raw)?;
        let cluster_blocks = cluster_blocks(raw)?;
        let bigalloc = features.has_ro_compat(RoCompat::BIGALLOC);
        let first_data_block = first_data_block(raw, block_size, cluster_blocks)?;
        let blocks_per_group = blocks_per_group(raw, block_size, cluster_blocks, bigalloc)?;
        let (inode_size, first_inode) = inode_size(raw, block_size)?;
        let inodes_per_group = inodes_per_group(raw, block_size, inode_size)?;
        let desc_size = desc_size(raw, block_size)?;
        let reserved = raw.s_reserved_gdt_blocks.get();
        if u32::from(reserved) > block_size / 4 {
            return Err(Unsound::ReservedGdtBlocks(reserved));
        }
        let region_blocks = region_blocks(raw, (block_size, inode_size), inodes_per_group)?;
        let claimed = raw.blocks_count();
        if claimed <= u64::from(first_data_block) {
            return Err(Unsound::BlocksCount(claimed));
        }
        let groups = (claimed - u64::from(first_data_block)).div_ceil(u64::from(blocks_per_group));
        let believed = u32::try_from(groups).ok().and_then(|groups| groups.checked_mul(inodes_per_group));
        if believed.is_none() {
            return Err(Unsound::InodesOverflow(groups));
        }
        let blocks_count = believable_blocks(claimed, device_len / u64::from(block_size), first_data_block);
        let groups =
            low_u32((blocks_count - u64::from(first_data_block)).div_ceil(u64::from(blocks_per_group)));
        Ok(Geometry {
            block_size,
            cluster_blocks,
            blocks_count,
            first_data_block,
            blocks_per_group,
            inodes_per_group,
            group_count: groups,
            inodes_count: groups * inodes_per_group,
            inode_size,
            first_inode,
            desc_size,
            reserved_gdt_blocks: u32::from(reserved),
            first_meta_bg: raw.s_first_meta_bg.get(),
            backup_groups: raw.s_backup_bgs.map(|group| group.get()),
            features,
            revision: raw.s_rev_level.get(),
            checksum_seed: checksum_seed(raw),
            uuid: raw.s_uuid,
            hurd: raw.s_creator_os.get() == OS_HURD,
            region_blocks,
        })
    }
}

fn check_identity(raw: &RawSuperblock) -> Result<u32, Unsound> {
    if raw.s_magic.get() != EXT_MAGIC {
        return Err(Unsound::Magic(raw.s_magic.get()));
    }
    if raw.s_rev_level.get() > 1 {
        return Err(Unsound::Revision(raw.s_rev_level.get()));
    }
    if raw.features().metadata_csum() && raw.s_checksum_type != CHECKSUM_CRC32C {
        return Err(Unsound::ChecksumType(raw.s_checksum_type));
    }
    match raw.s_log_block_size.get() {
        log @ 0..=LOG_BLOCK_SIZE_MAX => Ok(1024 << log),
        log => Err(Unsound::LogBlockSize(log)),
    }
}

fn cluster_blocks(raw: &RawSuperblock) -> Result<u32, Unsound> {
    if !raw.features().has_ro_compat(RoCompat::BIGALLOC) {
        return Ok(1);
    }
    let (block, cluster) = (raw.s_log_block_size.get(), raw.s_log_cluster_size.get());
    if cluster < block || cluster > LOG_CLUSTER_SIZE_MAX {
        return Err(Unsound::LogClusterSize(cluster));
    }
    Ok(1 << (cluster - block))
}

fn first_data_block(raw: &RawSuperblock, block_size: u32, cluster_blocks: u32) -> Result<u32, Unsound> {
    let stored = raw.s_first_data_block.get();
    let expected = u32::from(block_size == 1024 && cluster_blocks == 1);
    if stored == expected { Ok(stored) } else { Err(Unsound::FirstDataBlock(stored)) }
}

fn blocks_per_group(
    raw: &RawSuperblock,
    block_size: u32,
    cluster_blocks: u32,
    bigalloc: bool,
) -> Result<u32, Unsound> {
    let stored = raw.s_blocks_per_group.get();
    let clusters = if bigalloc { raw.s_clusters_per_group.get() } else { stored };
    let right = clusters >= 8
        && clusters.is_multiple_of(8)
        && clusters <= block_size * 8
        && clusters.checked_mul(cluster_blocks) == Some(stored);
    if right { Ok(stored) } else { Err(Unsound::BlocksPerGroup(stored)) }
}

fn inode_size(raw: &RawSuperblock, block_size: u32) -> Result<(u32, u32), Unsound> {
    if raw.s_rev_level.get() == 0 {
        return Ok((u32::from(GOOD_OLD_INODE_SIZE), GOOD_OLD_FIRST_INO));
    }
    let stored = raw.s_inode_size.get();
    if stored < GOOD_OLD_INODE_SIZE || !stored.is_power_of_two() || u32::from(stored) > block_size {
        return Err(Unsound::InodeSize(stored));
    }
    Ok((u32::from(stored), raw.s_first_ino.get()))
}

fn inodes_per_group(raw: &RawSuperblock, block_size: u32, inode_size: u32) -> Result<u32, Unsound> {
    let stored = raw.s_inodes_per_group.get();
    let right = stored >= block_size / inode_size && stored <= block_size * 8;
    if right { Ok(stored) } else { Err(Unsound::InodesPerGroup(stored)) }
}

fn desc_size(raw: &RawSuperblock, block_size: u32) -> Result<u32, Unsound> {
    if !raw.features().has_incompat(Incompat::BIT64) {
        return Ok(DESC_SIZE_MIN);
    }
    let stored = raw.s_desc_size.get();
    let size = u32::from(stored);
    let right =
        size.is_power_of_two() && (DESC_SIZE_MIN_64BIT..=DESC_SIZE_MAX.min(block_size)).contains(&size);
    if right { Ok(size) } else { Err(Unsound::DescSize(stored)) }
}

/// Blocks of each indirect region. Behind bitmaps, inode table and region, a whole group without a superblock has to have a
/// block left for data.
fn region_blocks(
    raw: &RawSuperblock,
    (block_size, inode_size): (u32, u32),
    inodes_per_group: u32,
) -> Result<u32, Unsound> {
    let features = raw.features();
    if !features.rext3() {
        return Ok(0);
    }
    let magic = raw.s_rext3_magic.get();
    if magic != rext3::SUPERBLOCK_MAGIC {
        return Err(Unsound::RegionMagic(magic));
    }
    let excluded = rext3::excluded(features);
    if let Some(bits) = excluded.words().into_iter().find(|bits| *bits != 0) {
        return Err(Unsound::BesideRegions(bits));
    }
    let stored = raw.s_rext3_region_blocks.get();
    let table = (u64::from(inodes_per_group) * u64::from(inode_size)).div_ceil(u64::from(block_size));
    let room = u64::from(raw.s_blocks_per_group.get()).saturating_sub(2 + table);
    if stored > 0 && u64::from(stored) < room { Ok(stored) } else { Err(Unsound::RegionBlocks(stored)) }
}

fn believable_blocks(claimed: u64, on_device: u64, first_data_block: u32) -> u64 {
    if claimed <= on_device.saturating_mul(16) {
        return claimed;
    }
    on_device.max(u64::from(first_data_block) + 1)
}

fn checksum_seed(raw: &RawSuperblock) -> u32 {
    if raw.features().has_incompat(Incompat::CSUM_SEED) {
        raw.s_checksum_seed.get()
    } else {
        checksum::uuid_seed(&raw.s_uuid)
    }
}
