// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the fields of each structure lie. Bytes of the raw structs come from the format crate; structures that lie inside blocks are
//! listed here by their offsets in the format's documentation.

use std::mem::offset_of;

use fsmend_ext_format::group::RawGroupDesc;
use fsmend_ext_format::inode::RawInode;
use fsmend_ext_format::superblock::RawSuperblock;

/// One field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name in the format's documentation.
    pub name: &'static str,
    /// Byte offset in its structure.
    pub offset: usize,
    /// Length in bytes.
    pub size: usize,
}

const fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

macro_rules! fields_of {
    ($type:ty: $($name:ident)*) => {
        &[$(Field {
            name: stringify!($name),
            offset: offset_of!($type, $name),
            size: size_of_field(|record: &$type| &record.$name),
        }),*]
    };
}

macro_rules! fields_at {
    ($($name:ident $offset:literal $size:literal),* $(,)?) => {
        &[$(Field { name: stringify!($name), offset: $offset, size: $size }),*]
    };
}

/// The superblock, but for its checksum, names and unchecked statistics.
pub const SUPERBLOCK: &[Field] = fields_of!(RawSuperblock:
    s_inodes_count s_blocks_count_lo s_r_blocks_count_lo s_free_blocks_count_lo s_free_inodes_count s_first_data_block
    s_log_block_size s_log_cluster_size s_blocks_per_group s_clusters_per_group s_inodes_per_group s_mtime s_wtime s_mnt_count
    s_max_mnt_count s_magic s_state s_errors s_minor_rev_level s_lastcheck s_checkinterval s_creator_os s_rev_level s_def_resuid
    s_def_resgid s_first_ino s_inode_size s_block_group_nr s_feature_compat s_feature_incompat s_feature_ro_compat s_uuid
    s_algorithm_usage_bitmap s_prealloc_blocks s_prealloc_dir_blocks s_reserved_gdt_blocks s_journal_uuid s_journal_inum
    s_journal_dev s_last_orphan s_def_hash_version s_jnl_backup_type s_desc_size s_default_mount_opts s_first_meta_bg s_mkfs_time
    s_blocks_count_hi s_r_blocks_count_hi s_free_blocks_count_hi s_min_extra_isize s_want_extra_isize s_flags s_raid_stride
    s_mmp_update_interval s_mmp_block s_raid_stripe_width s_log_groups_per_flex s_checksum_type s_encryption_level
    s_snapshot_inum s_snapshot_id s_snapshot_list s_error_count s_usr_quota_inum s_grp_quota_inum s_overhead_clusters
    s_lpf_ino s_prj_quota_inum s_checksum_seed s_encoding s_encoding_flags s_orphan_file_inum s_checksum);

/// A group descriptor, first half.
pub const GROUP: &[Field] = fields_of!(RawGroupDesc:
    bg_block_bitmap_lo bg_inode_bitmap_lo bg_inode_table_lo bg_free_blocks_count_lo bg_free_inodes_count_lo bg_used_dirs_count_lo
    bg_flags bg_exclude_bitmap_lo bg_block_bitmap_csum_lo bg_inode_bitmap_csum_lo bg_itable_unused_lo bg_checksum);

/// A group descriptor of 64 bytes.
pub const WIDE_GROUP: &[Field] = fields_of!(RawGroupDesc:
    bg_block_bitmap_lo bg_inode_bitmap_lo bg_inode_table_lo bg_free_blocks_count_lo bg_free_inodes_count_lo bg_used_dirs_count_lo
    bg_flags bg_exclude_bitmap_lo bg_block_bitmap_csum_lo bg_inode_bitmap_csum_lo bg_itable_unused_lo bg_checksum
    bg_block_bitmap_hi bg_inode_bitmap_hi bg_inode_table_hi bg_free_blocks_count_hi bg_free_inodes_count_hi bg_used_dirs_count_hi
    bg_itable_unused_hi bg_exclude_bitmap_hi bg_block_bitmap_csum_hi bg_inode_bitmap_csum_hi bg_reserved);

/// An inode of 128 bytes.
pub const INODE: &[Field] = fields_of!(RawInode:
    i_mode i_uid i_size_lo i_atime i_ctime i_mtime i_dtime i_gid i_links_count i_blocks_lo i_flags i_version i_block i_generation
    i_file_acl_lo i_size_high i_faddr i_blocks_high i_file_acl_high i_uid_high i_gid_high i_checksum_lo i_reserved);

/// A larger inode.
pub const LARGE_INODE: &[Field] = fields_of!(RawInode:
    i_mode i_uid i_size_lo i_atime i_ctime i_mtime i_dtime i_gid i_links_count i_blocks_lo i_flags i_version i_block i_generation
    i_file_acl_lo i_size_high i_faddr i_blocks_high i_file_acl_high i_uid_high i_gid_high i_checksum_lo i_reserved
    i_extra_isize i_checksum_hi i_ctime_extra i_mtime_extra i_atime_extra i_crtime i_crtime_extra i_version_hi i_projid);

/// The header of an extent tree node.
pub const EXTENT_HEADER: &[Field] =
    fields_at!(eh_magic 0 2, eh_entries 2 2, eh_max 4 2, eh_depth 6 2, eh_generation 8 4);
/// A leaf extent.
pub const EXTENT: &[Field] = fields_at!(ee_block 0 4, ee_len 4 2, ee_start_hi 6 2, ee_start_lo 8 4);
/// An index entry of an extent tree.
pub const EXTENT_INDEX: &[Field] = fields_at!(ei_block 0 4, ei_leaf_lo 4 4, ei_leaf_hi 8 2, ei_unused 10 2);
/// A pointer of an indirect map.
pub const POINTER: &[Field] = fields_at!(block 0 4);
/// A directory entry; its name is damaged in the first byte.
pub const DIRENT: &[Field] = fields_at!(inode 0 4, rec_len 4 2, name_len 6 1, file_type 7 1, name 8 1);
/// The checksum tail of a directory block.
pub const DIRENT_TAIL: &[Field] = fields_at!(det_reserved_zero1 0 4, det_rec_len 4 2, det_reserved_zero2 6 1, det_reserved_ft 7 1, det_checksum 8 4);
/// What an htree root says about itself.
pub const HTREE_ROOT: &[Field] =
    fields_at!(reserved_zero 0 4, hash_version 4 1, info_length 5 1, indirect_levels 6 1, unused_flags 7 1);
/// Limit, count and first block of an htree node.
pub const HTREE_NODE: &[Field] = fields_at!(limit 0 2, count 2 2, block 4 4);
/// A further entry of an htree node.
pub const HTREE_ENTRY: &[Field] = fields_at!(hash 0 4, block 4 4);
/// The header of an attribute block.
pub const XATTR_HEADER: &[Field] =
    fields_at!(h_magic 0 4, h_refcount 4 4, h_blocks 8 4, h_hash 12 4, h_checksum 16 4);
/// An attribute entry.
pub const XATTR_ENTRY: &[Field] = fields_at!(e_name_len 0 1, e_name_index 1 1, e_value_offs 2 2, e_value_inum 4 4, e_value_size 8 4, e_hash 12 4, e_name 16 1);
/// The magic number of attributes in an inode.
pub const XATTR_INODE_HEADER: &[Field] = fields_at!(h_magic 0 4);
/// The journal's superblock (big-endian, which the mutations do not mind).
pub const JOURNAL: &[Field] = fields_at!(
    h_magic 0 4, h_blocktype 4 4, h_sequence 8 4, s_blocksize 12 4, s_maxlen 16 4, s_first 20 4, s_sequence 24 4, s_start 28 4, s_errno 32 4,
    s_feature_compat 36 4, s_feature_incompat 40 4, s_feature_ro_compat 44 4, s_uuid 48 16, s_nr_users 64 4, s_checksum_type 80 1,
    s_num_fc_blks 84 4, s_checksum 252 4,
);
/// The structure of multiple-mount protection.
pub const MMP: &[Field] =
    fields_at!(mmp_magic 0 4, mmp_seq 4 4, mmp_time 8 8, mmp_check_interval 112 2, mmp_checksum 1020 4);
/// A byte of a bitmap.
pub const BITMAP_BYTE: &[Field] = fields_at!(bits 0 1);
/// The first block of a quota file.
pub const QUOTA_INFO: &[Field] = fields_at!(dqh_magic 0 4, dqh_version 4 4, dqi_bgrace 8 4, dqi_igrace 12 4, dqi_flags 16 4, dqi_blocks 20 4, dqi_free_blk 24 4, dqi_free_entry 28 4);
/// A further block of a quota file: a reference of the tree, or the first entry of a leaf.
pub const QUOTA_BLOCK: &[Field] = fields_at!(
    reference 0 4, dqdh_prev_free 4 4, dqdh_entries 8 2, dqb_id 16 4, dqb_ihardlimit 24 8, dqb_isoftlimit 32 8, dqb_curinodes 40 8,
    dqb_bhardlimit 48 8, dqb_bsoftlimit 56 8, dqb_curspace 64 8, dqb_btime 72 8,
);
/// A block of the orphan file.
pub const ORPHAN_BLOCK: &[Field] = fields_at!(entry 0 4, further_entry 40 4);
/// A block of the journal behind its superblock, as the head of a transaction.
pub const JOURNAL_BLOCK: &[Field] = fields_at!(h_magic 0 4, h_blocktype 4 4, h_sequence 8 4, first_tag 12 12);
