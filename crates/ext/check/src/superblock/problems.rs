// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue rows of `superblock`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// No superblock, primary or backup, can be worked with.
    UNUSABLE = "ext.superblock.unusable" {
        severity: Critical, evidence: Local, preen: false,
        message: "no usable superblock was found: {observed}",
        meaning: "Neither the primary superblock nor any backup that was found is valid.",
        repair: "None. If you know the location of a good backup superblock, pass it with -b BLOCK.",
        loss: nothing "Nothing is changed.",
        peers: [0x000004],
    }
    /// A value outside its legal range.
    BAD_VALUE = "ext.superblock.bad-value" {
        severity: Critical, evidence: Local, preen: false,
        message: "the superblock has invalid {field} {stored}",
        meaning: "The layout of the file system depends on this field. No backup has a valid value.",
        repair: "None. If you know the location of a good backup superblock, pass it with -b BLOCK.",
        loss: nothing "Nothing is changed.",
        peers: [0x00000B],
    }
    /// Impossible number of blocks per group.
    BLOCKS_PER_GROUP = "ext.superblock.blocks-per-group" {
        severity: Critical, evidence: Local, preen: false,
        message: "the superblock has s_blocks_per_group {stored}, which contradicts its other fields",
        meaning: "The groups cannot be found with this number. No backup has a valid value.",
        repair: "None. If you know the location of a good backup superblock, pass it with -b BLOCK.",
        loss: nothing "Nothing is changed.",
        peers: [0x000007],
    }
    /// First data block and block size do not go together.
    FIRST_DATA_BLOCK = "ext.superblock.first-data-block" {
        severity: Critical, evidence: Local, preen: false,
        message: "the superblock has s_first_data_block {stored}, which does not match the block size",
        meaning: "s_first_data_block must be 1 for a block size of 1 KiB and 0 for all others. No backup has a valid value.",
        repair: "None. If you know the location of a good backup superblock, pass it with -b BLOCK.",
        loss: nothing "Nothing is changed.",
        peers: [0x000008],
    }
    /// More inodes than can be numbered.
    INODES_OVERFLOW = "ext.superblock.too-many-inodes" {
        severity: Critical, evidence: Local, preen: false,
        message: "the superblock describes {stored:group:groups}, too many for 32-bit inode numbers",
        meaning: "The number of blocks or of inodes per group is wrong. No backup has a valid value.",
        repair: "None. If you know the location of a good backup superblock, pass it with -b BLOCK.",
        loss: nothing "Nothing is changed.",
        peers: [0x000050],
    }
    /// A backup superblock stands in for the primary.
    PRIMARY_REPLACED = "ext.superblock.primary-replaced" {
        severity: Note, evidence: Cross, preen: false,
        message: "the primary superblock is damaged ({stored}); the backup in {block} is used instead",
        meaning: "The backup is valid and everything is checked with it. The file system may refuse to mount until the primary superblock is restored.",
        repair: "The primary superblock is restored from the backup.",
        loss: "Counts and times that backups do not keep. The counts are recomputed.",
        peers: [0x05000E, 0x05000B, 0x05000C, 0x05000D, 0x05000F],
    }
    /// Primary and backups describe different layouts.
    CONTRADICTED = "ext.superblock.contradicted" {
        severity: Major, evidence: Cross, preen: false,
        message: "the group layout in the primary superblock contradicts its backups (the one in {block} is used)",
        meaning: "The group layout and the location of backups never change, so all copies must agree. The primary superblock is written often and is the damaged one.",
        repair: "The primary superblock is restored from the backup.",
        loss: "Counts and times that backups do not keep. The counts are recomputed.",
        peers: [],
    }
    /// The UUID, or seed, of the primary is not the one that checksums were made with.
    IDENTITY_LOST = "ext.superblock.identity-lost" {
        severity: Critical, evidence: Cross, preen: false,
        message: "the UUID or checksum seed in the superblock matches no checksum; those in the superblock in {block} do",
        meaning: "All metadata checksums depend on the UUID or on s_checksum_seed. One of them was overwritten.",
        repair: "The UUID and the seed are restored from the backup.",
        loss: nothing,
        peers: [],
    }
    /// The UUID, or seed, is wrong, and no backup knows the right one.
    SEED_LOST = "ext.superblock.seed-lost" {
        severity: Critical, evidence: Cross, preen: false,
        message: "the UUID or checksum seed in the superblock matches no checksum; the inodes have checksums with the seed {observed}",
        meaning: "All metadata checksums depend on the UUID or on s_checksum_seed. One of them was overwritten, and no backup superblock has the right one. The seed follows from the checksums of several inodes.",
        repair: "The seed is stored in the superblock (metadata_csum_seed feature). The UUID stays as it is.",
        loss: "The UUID, if it was overwritten.",
        peers: [],
    }
    /// One damaged field, found with the help of the checksum.
    FIELD_CORRECTED = "ext.superblock.field-corrected" {
        severity: Major, evidence: Cross, preen: true,
        message: "the superblock is damaged at byte {byte}: with {observed} instead of {stored} its checksum is correct",
        meaning: "Exactly one change makes the checksum correct and the superblock valid, so that field was overwritten.",
        repair: "The field is corrected.",
        loss: nothing,
        peers: [],
    }
    /// A size of descriptors that cannot be, where nothing but the usual one fits.
    DESC_SIZE = "ext.superblock.descriptor-size" {
        severity: Critical, evidence: Cross, preen: false,
        message: "s_desc_size is {stored:byte:bytes}, which is invalid with the 64bit feature; with 64 bytes the root directory is found",
        meaning: "Group descriptors have 64 bytes with this feature, and there is no backup superblock to compare. With 64 bytes the first descriptor points to an inode table that holds the root directory.",
        repair: "s_desc_size is set to 64.",
        loss: nothing,
        peers: [],
    }
    /// An impossible size of descriptors that is not used.
    DESC_SIZE_UNUSED = "ext.superblock.descriptor-size-unused" {
        severity: Minor, evidence: Local, preen: false,
        message: "s_desc_size is {stored:byte:bytes}, but without the 64bit feature descriptors have 32",
        meaning: "The field is used only with the 64bit feature and the kernel ignores it. Several tools refuse a value that is not a power of two or is larger than 1024.",
        repair: "s_desc_size is set to 0.",
        loss: nothing,
        peers: [0x00000B],
    }
    /// Wrong checksum of a superblock that is in use all the same.
    CHECKSUM = "ext.superblock.checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the superblock has checksum {stored}, should be {observed}",
        meaning: "The superblock was changed without updating the checksum, or a byte of it was damaged. All fields that the layout depends on are valid.",
        repair: "The checksum is recomputed.",
        loss: nothing,
        peers: [],
    }
    /// The file system is larger than the device.
    BEYOND_DEVICE = "ext.superblock.beyond-device" {
        severity: Critical, evidence: Cross, preen: false,
        message: "the superblock has {stored:block:blocks}, but the device has {observed}",
        meaning: "The device or partition was shrunk, or the image is an incomplete copy. Data beyond the end of the device is missing.",
        repair: "None. Restore the missing part of the device if possible.",
        loss: "All files with data beyond the end of the device.",
        peers: [0x000005],
    }
    /// Fragment size and block size differ.
    FRAGMENTS = "ext.superblock.fragments" {
        severity: Major, evidence: Local, preen: false,
        message: "the superblock has s_log_frag_size {stored}, should be {observed}",
        meaning: "Fragments were never implemented, so the fragment size must be the block size.",
        repair: "s_log_frag_size is set to s_log_block_size.",
        loss: nothing,
        peers: [0x000006],
    }
    /// Clusters per group differ from blocks per group without clusters.
    CLUSTERS_PER_GROUP = "ext.superblock.clusters-per-group" {
        severity: Minor, evidence: Local, preen: false,
        message: "the superblock has s_clusters_per_group {stored}, should be {observed} (no bigalloc)",
        meaning: "Without bigalloc the clusters per group and the blocks per group are the same. Several tools refuse a superblock in which they differ.",
        repair: "s_clusters_per_group is set to s_blocks_per_group.",
        loss: nothing,
        peers: [0x00000B],
    }
    /// Impossible size of flexible groups.
    GROUPS_PER_FLEX = "ext.superblock.groups-per-flex" {
        severity: Minor, evidence: Local, preen: false,
        message: "the superblock has invalid s_log_groups_per_flex {stored}",
        meaning: "The flexible group size is only an allocation hint, but tools refuse a value that is too large.",
        repair: "The field is set to its default.",
        loss: nothing,
        peers: [0x00000B],
    }
    /// A hash for directories that no kernel knows.
    HASH_VERSION = "ext.superblock.hash-version" {
        severity: Major, evidence: Local, preen: true,
        message: "the superblock has unknown s_def_hash_version {stored}",
        meaning: "This is the hash for new directory indexes; existing indexes hold their own. The kernel refuses to mount a file system with an unknown hash.",
        repair: "s_def_hash_version is set to half MD4, the default.",
        loss: nothing,
        peers: [],
    }
    /// The mount options of the superblock have no end.
    MOUNT_OPTIONS = "ext.superblock.mount-options" {
        severity: Major, evidence: Local, preen: true,
        message: "s_mount_opts in the superblock is not NUL-terminated",
        meaning: "The field holds default mount options of at most 63 characters. All 64 bytes are in use, so it was overwritten. Current kernels refuse to mount the file system.",
        repair: "s_mount_opts is cleared. Options of mount(8) and in fstab are not affected.",
        loss: "Mount options set with tune2fs -E mount_opts, if there were any.",
        peers: [],
    }
    /// A creator that does not go with the features.
    CREATOR = "ext.superblock.creator" {
        severity: Note, evidence: Cross, preen: true,
        message: "the superblock has s_creator_os {stored}, but features that only Linux has",
        meaning: "The field determines the meaning of some inode fields. With another value Linux does not update inode checksums.",
        repair: "s_creator_os is set to Linux.",
        loss: nothing,
        peers: [],
    }
    /// Unknown features beside a wrong checksum.
    DOUBTFUL_FEATURES = "ext.superblock.doubtful-features" {
        severity: Major, evidence: Local, preen: false,
        message: "the superblock has a wrong checksum and unknown feature bits ({observed})",
        meaning: "A newer format would have a correct checksum, so the bits are damage.",
        repair: "The unknown feature bits are cleared.",
        loss: nothing,
        peers: [],
    }
    /// Impossible number of inodes per group.
    INODES_PER_GROUP = "ext.superblock.inodes-per-group" {
        severity: Critical, evidence: Local, preen: false,
        message: "the superblock has s_inodes_per_group {stored}, should be {observed}",
        meaning: "s_inodes_per_group must be a multiple of 8 and match the inode bitmaps. This value does not.",
        repair: "s_inodes_per_group is set to the value that follows from s_inodes_count. If that is invalid as well, it is rounded down to a multiple of 8.",
        loss: "Nothing if s_inodes_count tells the value; otherwise files in the last inodes of each group may be lost.",
        peers: [0x00000B],
    }
    /// Inode count is not groups times inodes per group.
    INODES_COUNT = "ext.superblock.inodes-count" {
        severity: Major, evidence: Local, preen: false,
        message: "the superblock has s_inodes_count {stored}, should be {observed}",
        meaning: "s_inodes_count must be the number of groups times s_inodes_per_group.",
        repair: "s_inodes_count is corrected.",
        loss: nothing,
        peers: [0x00000D],
    }
    /// All-zero UUID.
    NO_UUID = "ext.superblock.no-uuid" {
        severity: Note, evidence: Local, preen: true,
        message: "the file system has no UUID",
        meaning: "Very old file systems have no UUID. They cannot be mounted by UUID.",
        repair: "A random UUID is set.",
        loss: nothing,
        peers: [0x000009],
    }
    /// Hurd file system with file types in directories.
    HURD_FILETYPE = "ext.superblock.hurd-filetype" {
        severity: Minor, evidence: Local, preen: false,
        message: "the file system was created for the Hurd but has the filetype feature",
        meaning: "The Hurd does not support file types in directory entries.",
        repair: "The feature is cleared.",
        loss: nothing "Nothing: the types are also in the inodes.",
        peers: [0x00000E],
    }
    /// Revision 0 with feature bits. A note: tune2fs makes it so, and e2fsck -n passes over it.
    REVISION_FEATURES = "ext.superblock.revision-features" {
        severity: Note, evidence: Local, preen: true,
        message: "the superblock has feature bits but revision 0",
        meaning: "Features need revision 1. Kernels use them but print a warning. tune2fs leaves this state when it adds a journal.",
        repair: "The revision is set to 1.",
        loss: nothing,
        peers: [0x00001A, 0x010033],
    }
    /// Reserved descriptor blocks without the feature.
    RESERVED_GDT = "ext.superblock.reserved-gdt" {
        severity: Minor, evidence: Local, preen: false,
        message: "s_reserved_gdt_blocks is {stored}, but the resize_inode feature is not set",
        meaning: "Without the feature the field must be 0.",
        repair: "s_reserved_gdt_blocks is set to 0.",
        loss: nothing,
        peers: [0x00002E],
    }
    /// Reserved descriptor blocks that are something else.
    RESERVED_GDT_TAKEN = "ext.superblock.reserved-gdt-taken" {
        severity: Major, evidence: Cross, preen: false,
        message: "s_reserved_gdt_blocks is {stored}, but there is space for only {observed} before the bitmaps and the inode table of group 0",
        meaning: "The field is damaged: the root directory is in that inode table.",
        repair: "s_reserved_gdt_blocks is corrected.",
        loss: nothing,
        peers: [],
    }
    /// Last mount in the future.
    FUTURE_MOUNT = "ext.superblock.future-mount" {
        severity: Note, evidence: Cross, preen: true,
        message: "the last mount time is in the future ({stored}, now {observed})",
        meaning: "The clock of this computer, or of the one that last used the file system, is wrong.",
        repair: "The time is set to the current time.",
        loss: nothing,
        peers: [0x000031],
    }
    /// Last write in the future.
    FUTURE_WRITE = "ext.superblock.future-write" {
        severity: Note, evidence: Cross, preen: true,
        message: "the last write time is in the future ({stored}, now {observed})",
        meaning: "The clock of this computer, or of the one that last used the file system, is wrong.",
        repair: "The time is set to the current time.",
        loss: nothing,
        peers: [0x000032],
    }
    /// The flag of development file systems.
    TEST_FLAG = "ext.superblock.test-flag" {
        severity: Note, evidence: Local, preen: true,
        message: "the test_fs flag is set",
        meaning: "The flag was used while ext4 was being developed. It has no effect today.",
        repair: "The flag is cleared.",
        loss: nothing,
        peers: [0x00003B],
    }
    /// Both descriptor checksum features.
    BOTH_CHECKSUMS = "ext.superblock.both-checksums" {
        severity: Minor, evidence: Local, preen: true,
        message: "both metadata_csum and uninit_bg are set",
        meaning: "The two features use different checksums for group descriptors and exclude each other.",
        repair: "The older feature, uninit_bg, is cleared.",
        loss: nothing,
        peers: [0x000046],
    }
    /// 64bit without extents.
    WIDE_WITHOUT_EXTENTS = "ext.superblock.64bit-without-extents" {
        severity: Minor, evidence: Local, preen: true,
        message: "the 64bit feature is set without extents",
        meaning: "Files with block maps cannot use block numbers beyond 32 bits.",
        repair: "The extents feature is set.",
        loss: nothing,
        peers: [0x000048],
    }
    /// Stored checksum seed without metadata checksums.
    SEED_WITHOUT_CHECKSUMS = "ext.superblock.seed-without-checksums" {
        severity: Minor, evidence: Local, preen: true,
        message: "metadata_csum_seed is set, but metadata_csum is not",
        meaning: "The seed has no use without metadata checksums.",
        repair: "The metadata_csum_seed feature is cleared.",
        loss: nothing,
        peers: [0x00004B],
    }
    /// First meta block group too large.
    FIRST_META_BG = "ext.superblock.first-meta-bg" {
        severity: Major, evidence: Local, preen: false,
        message: "s_first_meta_bg is {stored}, but there are only {observed} descriptor blocks",
        meaning: "The field is the first descriptor block in a meta block group. With this value there are none.",
        repair: "The meta_bg feature is cleared.",
        loss: nothing,
        peers: [0x000049],
    }
    /// Both ways to make room for descriptors.
    META_BG_RESIZE = "ext.superblock.meta-bg-and-resize-inode" {
        severity: Major, evidence: Local, preen: false,
        message: "both meta_bg and resize_inode are set",
        meaning: "The two features store descriptors in different places and exclude each other.",
        repair: "The resize_inode feature is cleared and its reserved blocks are freed.",
        loss: nothing,
        peers: [0x000051],
    }
    /// Minimal extra inode size out of range.
    MIN_EXTRA_SIZE = "ext.superblock.min-extra-isize" {
        severity: Minor, evidence: Local, preen: false,
        message: "s_min_extra_isize is {stored}, which is invalid with inodes of {observed:byte:bytes}",
        meaning: "The field is the number of bytes after the first 128 that every inode must have.",
        repair: "The field is set to its default.",
        loss: nothing,
        peers: [0x00004D],
    }
    /// Desired extra inode size out of range.
    WANT_EXTRA_SIZE = "ext.superblock.want-extra-isize" {
        severity: Minor, evidence: Local, preen: false,
        message: "s_want_extra_isize is {stored}, which is invalid with inodes of {observed:byte:bytes}",
        meaning: "The field is the number of bytes after the first 128 that new inodes get.",
        repair: "The field is set to its default.",
        loss: nothing,
        peers: [0x00004E],
    }
    /// More blocks reserved than can be.
    RESERVED_BLOCKS = "ext.superblock.reserved-blocks" {
        severity: Minor, evidence: Local, preen: false,
        message: "{stored:block is:blocks are} reserved for the superuser, more than half of {observed}",
        meaning: "Blocks are reserved so that the system can continue when users have filled the disk (s_r_blocks_count).",
        repair: "The number of reserved blocks is set to half of all blocks.",
        loss: nothing,
        peers: [0x00000B],
    }
    /// First free inode out of range.
    FIRST_INODE = "ext.superblock.first-inode" {
        severity: Major, evidence: Local, preen: false,
        message: "s_first_ino is {stored}, which is invalid",
        meaning: "Inodes 1 to 10 are always reserved, and the first inode after the reserved ones must exist. A value other than 11 is valid only if the backups agree and no file is among the reserved inodes.",
        repair: "s_first_ino is set to 11.",
        loss: nothing,
        peers: [0x00000B],
    }
    /// Files of 2 GiB and more without the feature.
    LARGE_FILE_MISSING = "ext.superblock.large-file-missing" {
        severity: Minor, evidence: Cross, preen: false,
        message: "{inode} has i_size {observed}, but the large_file feature is not set",
        meaning: "Files of 2 GiB and more need the feature.",
        repair: "The feature is set in the superblock.",
        loss: nothing,
        peers: [0x020033],
    }
    /// Not cleanly unmounted.
    NOT_CLEAN = "ext.superblock.not-clean" {
        severity: Note, evidence: Local, preen: true,
        message: "the file system was not unmounted cleanly",
        meaning: "It is mounted now, or the system stopped without unmounting it.",
        repair: "The file system is marked clean.",
        loss: nothing,
        peers: [],
    }
    /// The kernel has met errors.
    ERRORS_RECORDED = "ext.superblock.errors-recorded" {
        severity: Note, evidence: Local, preen: true,
        message: "the kernel recorded {stored:error:errors} on this file system",
        meaning: "The kernel found an inconsistency while the file system was mounted.",
        repair: "The error record is cleared after the check.",
        loss: nothing,
        peers: [],
    }
    /// Unknown features that do not keep us from checking.
    UNKNOWN_FEATURE = "ext.superblock.unknown-feature" {
        severity: Note, evidence: Local, preen: false,
        message: "the superblock has unknown feature bits ({observed}); these features are not checked",
        meaning: "The file system was created by newer software, or the bits are damage.",
        repair: "None. If there are other problems, the file system is not repaired.",
        loss: nothing,
        peers: [],
    }
    /// Feature bits that would end the check, but are damage.
    STRAY_FEATURES = "ext.superblock.stray-features" {
        severity: Major, evidence: Cross, preen: false,
        message: "the primary superblock has a wrong checksum and feature bits ({stored}) that the backup in {block} does not have",
        meaning: "The bits are unknown, so the kernel refuses to mount the file system. The checksum is wrong and a valid backup does not have the bits, so they are damage.",
        repair: "The primary superblock is restored from the backup.",
        loss: "Counts and times that backups do not keep. The counts are recomputed.",
        peers: [],
    }
    /// A backup that does not describe the same file system.
    BACKUP_DIFFERS = "ext.superblock.backup-differs" {
        severity: Note, evidence: Cross, preen: true,
        message: "the backup superblock in {block} does not match this file system ({observed})",
        meaning: "The backup would be useless if the primary superblock were lost.",
        repair: "The backup is rewritten from the primary superblock.",
        loss: nothing,
        peers: [],
    }
    /// More clusters of overhead than are in use.
    OVERHEAD_WRONG = "ext.superblock.overhead-wrong" {
        severity: Note, evidence: Cross, preen: true,
        message: "s_overhead_clusters in the superblock is {stored}, but only {observed} clusters are in use",
        meaning: "The kernel subtracts this field from the size that df shows, so df shows too small a file system. Some versions of mke2fs stored a wrong number. No file is affected.",
        repair: "The field is set to 0, and the kernel computes it on the next mount.",
        loss: nothing,
        peers: [],
    }
}
