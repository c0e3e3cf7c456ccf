// SPDX-License-Identifier: MIT OR Apache-2.0
//! The superblock: 1024 bytes at byte 1024 of the file system, with backups at the start of some groups.
//!
//! Source: "ext4 Data Structures and Algorithms", super block; the two last reserved words are [`crate::rext3`]'s.

use bitflags::bitflags;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::features::{Compat, Features, Incompat};

/// Byte offset of the primary superblock on the device.
pub const SUPERBLOCK_OFFSET: u64 = 1024;
/// Size of a superblock in bytes.
pub const SUPERBLOCK_SIZE: usize = 1024;
/// `s_magic`.
pub const EXT_MAGIC: u16 = 0xEF53;
/// Inode size of revision 0.
pub const GOOD_OLD_INODE_SIZE: u16 = 128;
/// First inode that is not reserved, in revision 0.
pub const GOOD_OLD_FIRST_INO: u32 = 11;

/// A superblock as it lies on the disk.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "field names are those of the format document")]
pub struct RawSuperblock {
    pub s_inodes_count: U32,
    pub s_blocks_count_lo: U32,
    pub s_r_blocks_count_lo: U32,
    pub s_free_blocks_count_lo: U32,
    pub s_free_inodes_count: U32,
    pub s_first_data_block: U32,
    pub s_log_block_size: U32,
    pub s_log_cluster_size: U32,
    pub s_blocks_per_group: U32,
    pub s_clusters_per_group: U32,
    pub s_inodes_per_group: U32,
    pub s_mtime: U32,
    pub s_wtime: U32,
    pub s_mnt_count: U16,
    pub s_max_mnt_count: U16,
    pub s_magic: U16,
    pub s_state: U16,
    pub s_errors: U16,
    pub s_minor_rev_level: U16,
    pub s_lastcheck: U32,
    pub s_checkinterval: U32,
    pub s_creator_os: U32,
    pub s_rev_level: U32,
    pub s_def_resuid: U16,
    pub s_def_resgid: U16,
    pub s_first_ino: U32,
    pub s_inode_size: U16,
    pub s_block_group_nr: U16,
    pub s_feature_compat: U32,
    pub s_feature_incompat: U32,
    pub s_feature_ro_compat: U32,
    pub s_uuid: [u8; 16],
    pub s_volume_name: [u8; 16],
    pub s_last_mounted: [u8; 64],
    pub s_algorithm_usage_bitmap: U32,
    pub s_prealloc_blocks: u8,
    pub s_prealloc_dir_blocks: u8,
    pub s_reserved_gdt_blocks: U16,
    pub s_journal_uuid: [u8; 16],
    pub s_journal_inum: U32,
    pub s_journal_dev: U32,
    pub s_last_orphan: U32,
    pub s_hash_seed: [U32; 4],
    pub s_def_hash_version: u8,
    pub s_jnl_backup_type: u8,
    pub s_desc_size: U16,
    pub s_default_mount_opts: U32,
    pub s_first_meta_bg: U32,
    pub s_mkfs_time: U32,
    pub s_jnl_blocks: [U32; 17],
    pub s_blocks_count_hi: U32,
    pub s_r_blocks_count_hi: U32,
    pub s_free_blocks_count_hi: U32,
    pub s_min_extra_isize: U16,
    pub s_want_extra_isize: U16,
    pub s_flags: U32,
    pub s_raid_stride: U16,
    pub s_mmp_update_interval: U16,
    pub s_mmp_block: U64,
    pub s_raid_stripe_width: U32,
    pub s_log_groups_per_flex: u8,
    pub s_checksum_type: u8,
    pub s_encryption_level: u8,
    pub s_reserved_pad: u8,
    pub s_kbytes_written: U64,
    pub s_snapshot_inum: U32,
    pub s_snapshot_id: U32,
    pub s_snapshot_r_blocks_count: U64,
    pub s_snapshot_list: U32,
    pub s_error_count: U32,
    pub s_first_error_time: U32,
    pub s_first_error_ino: U32,
    pub s_first_error_block: U64,
    pub s_first_error_func: [u8; 32],
    pub s_first_error_line: U32,
    pub s_last_error_time: U32,
    pub s_last_error_ino: U32,
    pub s_last_error_line: U32,
    pub s_last_error_block: U64,
    pub s_last_error_func: [u8; 32],
    pub s_mount_opts: [u8; 64],
    pub s_usr_quota_inum: U32,
    pub s_grp_quota_inum: U32,
    pub s_overhead_clusters: U32,
    pub s_backup_bgs: [U32; 2],
    pub s_encrypt_algos: [u8; 4],
    pub s_encrypt_pw_salt: [u8; 16],
    pub s_lpf_ino: U32,
    pub s_prj_quota_inum: U32,
    pub s_checksum_seed: U32,
    pub s_wtime_hi: u8,
    pub s_mtime_hi: u8,
    pub s_mkfs_time_hi: u8,
    pub s_lastcheck_hi: u8,
    pub s_first_error_time_hi: u8,
    pub s_last_error_time_hi: u8,
    pub s_first_error_errcode: u8,
    pub s_last_error_errcode: u8,
    pub s_encoding: U16,
    pub s_encoding_flags: U16,
    pub s_orphan_file_inum: U32,
    pub s_reserved: [U32; 92],
    pub s_rext3_magic: U32,
    pub s_rext3_region_blocks: U32,
    pub s_checksum: U32,
}

const _: () = assert!(size_of::<RawSuperblock>() == SUPERBLOCK_SIZE);
const _: () = assert!(std::mem::offset_of!(RawSuperblock, s_feature_compat) == 0x5C);
const _: () = assert!(std::mem::offset_of!(RawSuperblock, s_hash_seed) == 0xEC);
const _: () = assert!(std::mem::offset_of!(RawSuperblock, s_blocks_count_hi) == 0x150);
const _: () = assert!(std::mem::offset_of!(RawSuperblock, s_mmp_block) == 0x168);
const _: () = assert!(std::mem::offset_of!(RawSuperblock, s_usr_quota_inum) == 0x240);
const _: () = assert!(std::mem::offset_of!(RawSuperblock, s_checksum_seed) == 0x270);
const _: () = assert!(std::mem::offset_of!(RawSuperblock, s_orphan_file_inum) == 0x280);
const _: () = assert!(std::mem::offset_of!(RawSuperblock, s_rext3_magic) == 0x3F4);
const _: () = assert!(std::mem::offset_of!(RawSuperblock, s_checksum) == 0x3FC);

bitflags! {
    /// `s_state`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SuperblockState: u16 {
        /// It was left cleanly.
        const VALID = 1;
        /// Errors were met.
        const ERRORS = 2;
        // All other bits: operators keep them.
        const _ = !0;
    }
}

impl RawSuperblock {
    /// `s_state`.
    pub fn state(&self) -> SuperblockState {
        SuperblockState::from_bits_retain(self.s_state.get())
    }

    /// Sets `s_state`.
    pub fn set_state(&mut self, state: SuperblockState) {
        self.s_state.set(state.bits());
    }

    /// The feature words. (Revision 0 should have none; the kernel honours what stands there all the same.)
    pub fn features(&self) -> Features {
        Features::from_words(
            self.s_feature_compat.get(),
            self.s_feature_incompat.get(),
            self.s_feature_ro_compat.get(),
        )
    }

    /// `s_blocks_count` with its high half, which only counts with the `64bit` feature.
    pub fn blocks_count(&self) -> u64 {
        self.wide(self.s_blocks_count_lo, self.s_blocks_count_hi)
    }

    /// `s_free_blocks_count` (in blocks, also with bigalloc the on-disk value counts clusters).
    pub fn free_blocks_count(&self) -> u64 {
        self.wide(self.s_free_blocks_count_lo, self.s_free_blocks_count_hi)
    }

    /// `s_r_blocks_count`, blocks reserved for the superuser.
    pub fn reserved_blocks_count(&self) -> u64 {
        self.wide(self.s_r_blocks_count_lo, self.s_r_blocks_count_hi)
    }

    /// The UUID and the old device number of the journal, if that is said to lie on another device.
    pub fn journal_elsewhere(&self) -> Option<JournalElsewhere> {
        let is_elsewhere = self.features().has_compat(Compat::HAS_JOURNAL)
            && self.s_journal_inum.get() == 0
            && self.s_journal_uuid != [0; 16];
        is_elsewhere.then(|| JournalElsewhere { uuid: self.s_journal_uuid, number: self.s_journal_dev.get() })
    }

    fn wide(&self, low: U32, high: U32) -> u64 {
        let high = if self.features().has_incompat(Incompat::BIT64) { high.get() } else { 0 };
        u64::from(high) << 32 | u64::from(low.get())
    }
}

/// A journal on another device, as the superblock of its file system describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalElsewhere {
    /// The UUID in the journal device's own superblock.
    pub uuid: [u8; 16],
    /// The number that the device had when it was last used, as the kernel encodes it; 0 if none is known.
    pub number: u32,
}

impl JournalElsewhere {
    /// Whether `raw`, the superblock of some device, is that of this journal.
    pub fn is(&self, raw: &RawSuperblock) -> bool {
        raw.s_magic.get() == EXT_MAGIC
            && raw.features().has_incompat(Incompat::JOURNAL_DEV)
            && raw.s_uuid == self.uuid
    }
}

/// A UUID as it is written: in lower case, with hyphens (RFC 9562).
pub fn written_uuid(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}
