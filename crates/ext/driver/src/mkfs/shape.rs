// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the superblock of a new file system says: from options, and from the size where there are none, by the rules that mke2fs follows.

use fsmend_base::width;
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::{Compat, Incompat, RoCompat};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::htree::hash_version;
use fsmend_ext_format::rext3;
use fsmend_ext_format::settle::CHECKSUM_CRC32C;
use fsmend_ext_format::superblock::{EXT_MAGIC, GOOD_OLD_FIRST_INO, RawSuperblock};
use zerocopy::FromZeros;

use super::{Kind, MkfsError, Options, has_journal, layout};

/// Groups whose metadata lies together, as a power of two.
const LOG_GROUPS_PER_FLEX: u8 = 4;
/// Blocks that a last group has to have beyond its metadata to be worth it.
const LAST_GROUP_MIN: u64 = 50;
/// File systems below so many bytes count as small: smaller blocks, more inodes.
const SMALL: u64 = 512 << 20;
/// Blocks and inodes of a group are counted in 16 bits.
const GROUP_BLOCKS_MAX: u32 = 65528;
/// Fields behind the first 128 bytes of an inode that everybody knows.
const EXTRA_ISIZE: u16 = 32;
/// Default mount options: user attributes and access control lists.
const DEFAULT_MOUNT_OPTIONS: u32 = 0xC;

/// What is going to be made.
pub(super) struct Shape {
    pub superblock: RawSuperblock,
    pub geometry: Geometry,
    pub groups_per_flex: u32,
    pub journal_blocks: u32,
}

pub(super) fn decide(device_len: u64, options: &Options) -> Result<Shape, MkfsError> {
    let block_size = block_size(device_len, options)?;
    let on_device = device_len / u64::from(block_size);
    let blocks = options.blocks.unwrap_or(on_device);
    if blocks > on_device {
        return Err(MkfsError::Option("the device has fewer blocks than that"));
    }
    let mut raw = base_superblock(block_size, blocks, options)?;
    let small_inodes =
        options.inode_size < 128 || options.inode_size > block_size || !options.inode_size.is_power_of_two();
    if small_inodes {
        return Err(MkfsError::Option("the inode size has to be a power of two from 128 to the block size"));
    }
    set_features(&mut raw, options)?;
    let blocks = set_groups(&mut raw, blocks, device_len, options)?;
    let journal_blocks = journal_blocks(&mut raw, blocks, options)?;
    let reserved = width::low_u64(u128::from(blocks) * u128::from(options.reserved_percent) / 100);
    raw.s_r_blocks_count_lo.set(width::low_u32(reserved));
    raw.s_r_blocks_count_hi.set(width::low_u32(reserved >> 32));
    let geometry = Geometry::from_superblock(&raw, device_len)
        .map_err(|_| MkfsError::Option("these options make no file system"))?;
    raw.s_inodes_count.set(geometry.inodes_count);
    if geometry.features.metadata_csum() {
        fsmend_ext_format::checksum::seal_superblock(&mut raw);
    }
    let groups_per_flex = if options.kind == Kind::Ext4 { 1 << LOG_GROUPS_PER_FLEX } else { 1 };
    Ok(Shape { superblock: raw, geometry, groups_per_flex, journal_blocks })
}

fn block_size(device_len: u64, options: &Options) -> Result<u32, MkfsError> {
    match options.block_size {
        Some(size) if (1024..=65536).contains(&size) && size.is_power_of_two() => Ok(size),
        Some(_) => Err(MkfsError::Option("the block size has to be a power of two from 1024 to 65536")),
        None if device_len < SMALL => Ok(1024),
        None => Ok(4096),
    }
}

fn base_superblock(block_size: u32, blocks: u64, options: &Options) -> Result<RawSuperblock, MkfsError> {
    let mut raw = RawSuperblock::new_zeroed();
    let log = block_size.trailing_zeros() - 10;
    raw.s_magic.set(EXT_MAGIC);
    raw.s_rev_level.set(1);
    raw.s_log_block_size.set(log);
    raw.s_log_cluster_size.set(log);
    raw.s_first_data_block.set(u32::from(block_size == 1024));
    raw.s_first_ino.set(GOOD_OLD_FIRST_INO);
    raw.s_inode_size.set(width::low_u16(u64::from(options.inode_size)));
    raw.s_state.set(1);
    raw.s_errors.set(1);
    raw.s_max_mnt_count.set(u16::MAX);
    raw.s_uuid = options.uuid;
    let label = raw.s_volume_name.get_mut(..options.label.len());
    label.ok_or(MkfsError::Option("the label is too long"))?.copy_from_slice(&options.label);
    raw.s_def_hash_version = hash_version::HALF_MD4;
    for (place, word) in raw.s_hash_seed.iter_mut().zip(options.hash_seed) {
        place.set(word);
    }
    // Names are hashed as signed characters, as on most machines.
    raw.s_flags.set(1);
    raw.s_default_mount_opts.set(DEFAULT_MOUNT_OPTIONS);
    if options.inode_size > 128 {
        raw.s_min_extra_isize.set(EXTRA_ISIZE);
        raw.s_want_extra_isize.set(EXTRA_ISIZE);
    }
    let seconds = options.now.seconds.cast_unsigned();
    let (low, high) = (width::low_u32(seconds), width::low_u8(seconds >> 32));
    for place in [&mut raw.s_mkfs_time, &mut raw.s_wtime, &mut raw.s_lastcheck] {
        place.set(low);
    }
    (raw.s_mkfs_time_hi, raw.s_wtime_hi, raw.s_lastcheck_hi) = (high, high, high);
    if options.kind != Kind::Ext4 && blocks > u64::from(u32::MAX) {
        return Err(MkfsError::Option("only ext4 can have more than 2^32 blocks"));
    }
    Ok(raw)
}

fn set_features(raw: &mut RawSuperblock, options: &Options) -> Result<(), MkfsError> {
    let mut compatible = Compat::EXT_ATTR | Compat::DIR_INDEX;
    let mut incompatible = Incompat::FILETYPE;
    let mut read_only = RoCompat::SPARSE_SUPER | RoCompat::LARGE_FILE;
    if options.kind != Kind::Ext2 && options.journal_blocks != Some(0) {
        compatible |= Compat::HAS_JOURNAL;
    }
    if options.kind == Kind::Ext4 {
        incompatible |= Incompat::EXTENTS | Incompat::BIT64 | Incompat::FLEX_BG;
        read_only |= RoCompat::HUGE_FILE | RoCompat::DIR_NLINK | RoCompat::METADATA_CSUM;
        if options.inode_size > 128 {
            read_only |= RoCompat::EXTRA_ISIZE;
        }
        raw.s_desc_size.set(64);
        raw.s_log_groups_per_flex = LOG_GROUPS_PER_FLEX;
        raw.s_checksum_type = CHECKSUM_CRC32C;
    }
    if options.kind == Kind::Rext3 {
        incompatible |= Incompat::REXT3;
        raw.s_rext3_magic.set(rext3::SUPERBLOCK_MAGIC);
    }
    if options.kind == Kind::Rext3 && (options.resize_inode || options.orphan_file) {
        return Err(MkfsError::Option("rext3 has neither a resize inode nor an orphan file"));
    }
    if options.resize_inode {
        compatible |= Compat::RESIZE_INODE;
    }
    // Without a journal, nothing would be found in it after a crash.
    if options.orphan_file && compatible.contains(Compat::HAS_JOURNAL) {
        compatible |= Compat::ORPHAN_FILE;
    }
    if options.checksum_seed {
        if options.kind != Kind::Ext4 {
            return Err(MkfsError::Option("only ext4 has checksums with a seed"));
        }
        incompatible |= Incompat::CSUM_SEED;
        raw.s_checksum_seed.set(checksum::uuid_seed(&options.uuid));
    }
    raw.s_feature_compat.set(compatible.bits());
    raw.s_feature_incompat.set(incompatible.bits());
    raw.s_feature_ro_compat.set(read_only.bits());
    Ok(())
}

/// Blocks behind the descriptors that are kept for those of a file system a thousand times as large, as far as 32 bits can number its blocks and
/// a block of pointers can list them. Where that is none, there is no resize inode either.
fn set_reserved(raw: &mut RawSuperblock, blocks: u64, groups: u64) {
    let block_size = 1024u64 << raw.s_log_block_size.get();
    let desc_size = if raw.s_desc_size.get() == 0 { 32 } else { u64::from(raw.s_desc_size.get()) };
    let per_block = block_size / desc_size;
    let blocks_then = blocks.saturating_mul(1024).min(u64::from(u32::MAX));
    let groups_then = blocks_then.div_ceil(u64::from(raw.s_blocks_per_group.get()).max(1));
    let more = groups_then.div_ceil(per_block).saturating_sub(groups.div_ceil(per_block));
    raw.s_reserved_gdt_blocks.set(width::low_u16(more.min(block_size / 4)));
    let mut compatible = raw.features().compat;
    compatible.set(Compat::RESIZE_INODE, more > 0);
    raw.s_feature_compat.set(compatible.bits());
}

/// Cuts the blocks in groups; returns how many blocks are used, which is fewer where a last group would be too short.
fn set_groups(
    raw: &mut RawSuperblock,
    mut blocks: u64,
    device_len: u64,
    options: &Options,
) -> Result<u64, MkfsError> {
    let block_size = 1024u32 << raw.s_log_block_size.get();
    let most = (block_size * 8).min(GROUP_BLOCKS_MAX);
    let per_group = options.blocks_per_group.unwrap_or(most);
    if per_group < 256 || per_group > most || !per_group.is_multiple_of(8) {
        return Err(MkfsError::Option(
            "blocks per group: a multiple of 8, from 256 to the bits of a block, at most 65528",
        ));
    }
    raw.s_blocks_per_group.set(per_group);
    raw.s_clusters_per_group.set(per_group);
    let first = u64::from(raw.s_first_data_block.get());
    loop {
        let groups = blocks.saturating_sub(first).div_ceil(u64::from(per_group));
        if groups == 0 {
            return Err(MkfsError::TooSmall);
        }
        set_inodes(raw, blocks, groups, options)?;
        if options.resize_inode {
            set_reserved(raw, blocks, groups);
        }
        set_region(raw, per_group, options)?;
        raw.s_blocks_count_lo.set(width::low_u32(blocks));
        raw.s_blocks_count_hi.set((blocks >> 32) as u32);
        let geometry = Geometry::from_superblock(raw, device_len).map_err(|_| MkfsError::TooSmall)?;
        let last = fsmend_base::GroupNo(geometry.group_count - 1);
        let len = geometry.group_blocks(last).count;
        if len >= layout::own_blocks(&geometry, last) + LAST_GROUP_MIN {
            return Ok(blocks);
        }
        blocks -= len;
    }
}

/// Blocks of the indirect region of each group; in a group without a superblock, they have to leave a block for data.
fn set_region(raw: &mut RawSuperblock, per_group: u32, options: &Options) -> Result<(), MkfsError> {
    if options.kind != Kind::Rext3 {
        let is_asked = options.indirect_region.is_some();
        return if is_asked { Err(MkfsError::Option("only rext3 has indirect regions")) } else { Ok(()) };
    }
    let region = options.indirect_region.unwrap_or_else(|| rext3::region_blocks_default(per_group));
    let block_size = 1024u64 << raw.s_log_block_size.get();
    let inodes = u64::from(raw.s_inodes_per_group.get());
    let table = (inodes * u64::from(raw.s_inode_size.get())).div_ceil(block_size);
    if region == 0 || u64::from(region) + table + 2 >= u64::from(per_group) {
        return Err(MkfsError::Option(
            "the indirect region has to have at least a block, and to leave room for data in its group",
        ));
    }
    raw.s_rext3_region_blocks.set(region);
    Ok(())
}

fn set_inodes(raw: &mut RawSuperblock, blocks: u64, groups: u64, options: &Options) -> Result<(), MkfsError> {
    let block_size = 1024u64 << raw.s_log_block_size.get();
    let bytes = blocks * block_size;
    let usual = if bytes < 3 << 20 {
        8192
    } else if bytes < SMALL {
        4096
    } else {
        16384
    };
    let ratio = options.inode_ratio.unwrap_or(usual).max(1024);
    let wanted = options.inodes.map_or(bytes / ratio, u64::from).max(16);
    let unit = (block_size / u64::from(options.inode_size)).max(8);
    let per_group = wanted.div_ceil(groups).next_multiple_of(unit);
    let per_group = per_group.min(block_size * 8).min(u64::from(GROUP_BLOCKS_MAX) / unit * unit);
    let is_too_many = per_group.checked_mul(groups).is_none_or(|all| all > u64::from(u32::MAX));
    if is_too_many {
        return Err(MkfsError::Option("more inodes than 32 bits can number"));
    }
    raw.s_inodes_per_group.set(width::low_u32(per_group));
    Ok(())
}

/// Blocks of the journal; a file system that is too small for one gets none.
fn journal_blocks(raw: &mut RawSuperblock, blocks: u64, options: &Options) -> Result<u32, MkfsError> {
    if !has_journal(raw) {
        return Ok(0);
    }
    let usual = match blocks {
        0..2048 => 0,
        2048..32768 => 1024,
        32768..262_144 => 4096,
        262_144..524_288 => 8192,
        524_288..4_194_304 => 16384,
        4_194_304..8_388_608 => 32768,
        8_388_608..16_777_216 => 65536,
        16_777_216..33_554_432 => 131_072,
        _ => 262_144,
    };
    let count = options.journal_blocks.unwrap_or(usual);
    if count == 0 {
        // An orphan file would be of no use without one.
        let features =
            raw.s_feature_compat.get() & !(Compat::HAS_JOURNAL.bits() | Compat::ORPHAN_FILE.bits());
        raw.s_feature_compat.set(features);
    } else if count < 1024 || u64::from(count) > blocks / 2 {
        return Err(MkfsError::Option("the journal has to have from 1024 blocks to half of all"));
    }
    Ok(count)
}
