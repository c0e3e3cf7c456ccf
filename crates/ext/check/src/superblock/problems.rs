//! Catalogue rows of `superblock`.

use fsmend_engine::problem_rows;

problem_rows! {
    /// No superblock, primary or backup, can be worked with.
    UNUSABLE = "ext.superblock.unusable" {
        severity: Critical, evidence: Local, preen: false,
        message: "there is no usable superblock: {observed}",
        meaning: "The superblock says where everything else is. Neither the primary nor any backup that was looked for can be used.",
        repair: "Nothing can be done automatically. If you know where a backup lies, name it with -b BLOCK.",
        loss: "Nothing is changed.",
        peers: [0x000004],
    }
    /// A value outside its legal range.
    BAD_VALUE = "ext.superblock.bad-value" {
        severity: Critical, evidence: Local, preen: false,
        message: "{field} in the superblock cannot be {stored}",
        meaning: "A number that the whole layout hangs on lies outside of what is possible, and no backup has a better one.",
        repair: "Nothing can be done automatically. If you know where a backup lies, name it with -b BLOCK.",
        loss: "Nothing is changed.",
        peers: [0x00000B],
    }
    /// Impossible number of blocks per group.
    BLOCKS_PER_GROUP = "ext.superblock.blocks-per-group" {
        severity: Critical, evidence: Local, preen: false,
        message: "the superblock says that a group has {stored:block:blocks}, which does not go with its other numbers",
        meaning: "The groups cannot be found with this number, and no backup has a better one.",
        repair: "Nothing can be done automatically. If you know where a backup lies, name it with -b BLOCK.",
        loss: "Nothing is changed.",
        peers: [0x000007],
    }
    /// First data block and block size do not go together.
    FIRST_DATA_BLOCK = "ext.superblock.first-data-block" {
        severity: Critical, evidence: Local, preen: false,
        message: "the superblock says that the first data block is {stored}, which does not go with the block size",
        meaning: "The first data block is 1 with blocks of 1 KiB and 0 with all others; no backup has it right either.",
        repair: "Nothing can be done automatically. If you know where a backup lies, name it with -b BLOCK.",
        loss: "Nothing is changed.",
        peers: [0x000008],
    }
    /// More inodes than can be numbered.
    INODES_OVERFLOW = "ext.superblock.too-many-inodes" {
        severity: Critical, evidence: Local, preen: false,
        message: "the superblock describes {stored:group:groups}, more than 32-bit inode numbers can reach",
        meaning: "The number of blocks or of inodes per group is far off, and no backup has better ones.",
        repair: "Nothing can be done automatically. If you know where a backup lies, name it with -b BLOCK.",
        loss: "Nothing is changed.",
        peers: [0x000050],
    }
    /// A backup superblock stands in for the primary.
    PRIMARY_REPLACED = "ext.superblock.primary-replaced" {
        severity: Note, evidence: Cross, preen: false,
        message: "the primary superblock cannot be trusted ({stored}); the backup in {block} was used instead",
        meaning: "The primary superblock is damaged, but a backup of it is in order. Everything is checked with the backup; \
                  until the primary is restored the file system may refuse to mount.",
        repair: "The primary superblock is written anew from the backup.",
        loss: "Counts and times of last use, which backups do not keep; they are worked out again.",
        peers: [],
    }
    /// Primary and backups describe different layouts.
    CONTRADICTED = "ext.superblock.contradicted" {
        severity: Major, evidence: Cross, preen: false,
        message: "the primary superblock describes groups of another shape than its backups do (the one in {block} was used)",
        meaning: "The shape of groups, and where backups are kept, is settled when a file system is made; all copies of the superblock say the same. The primary, which is written all the time, is the one that changed.",
        repair: "The primary superblock is written anew from the backup.",
        loss: "Nothing.",
        peers: [],
    }
    /// The UUID, or seed, of the primary is not the one that checksums were made with.
    IDENTITY_LOST = "ext.superblock.identity-lost" {
        severity: Critical, evidence: Cross, preen: false,
        message: "no checksum goes with the UUID, or the seed for checksums, of the superblock, and the one in {block} has other ones, with which they do",
        meaning: "All checksums of a file system are made with its UUID, or a seed that the superblock keeps. Whatever changes these writes new checksums; here the UUID or the seed was overwritten.",
        repair: "The UUID and the seed are taken from the backup.",
        loss: "Nothing.",
        peers: [],
    }
    /// One damaged field, found with the help of the checksum.
    FIELD_CORRECTED = "ext.superblock.field-corrected" {
        severity: Major, evidence: Cross, preen: true,
        message: "the superblock's byte {byte} and the three behind it were damaged: with {observed} instead of {stored} its checksum is right",
        meaning: "The superblock does not go with its checksum, but a change in one place alone makes everything fit: that place was damaged, and the checksum tells what stood there.",
        repair: "The field is set right.",
        loss: "Nothing.",
        peers: [],
    }
    /// A size of descriptors that cannot be, where nothing but the usual one fits.
    DESC_SIZE = "ext.superblock.descriptor-size" {
        severity: Critical, evidence: Cross, preen: false,
        message: "descriptors of {stored:byte:bytes} cannot be with the 64bit feature; with 64 bytes the first one leads to the root directory",
        meaning: "With that feature a descriptor has 64 bytes; the superblock says otherwise, and there is no backup to ask. With 64 bytes the first descriptor leads to an inode table with the root directory in it.",
        repair: "The size is set to 64 bytes.",
        loss: "Nothing.",
        peers: [],
    }
    /// A size of descriptors that cannot be, where nobody uses it.
    DESC_SIZE_UNUSED = "ext.superblock.descriptor-size-unused" {
        severity: Minor, evidence: Local, preen: false,
        message: "the superblock says that group descriptors have {stored:byte:bytes}; without the 64bit feature they have 32, whatever it says",
        meaning: "The number is only used together with that feature, and the kernel passes over it, but several tools refuse a superblock in which it is no power of two, or more than 1024.",
        repair: "The number is set to zero.",
        loss: "Nothing.",
        peers: [0x00000B],
    }
    /// Wrong checksum of a superblock that is in use all the same.
    CHECKSUM = "ext.superblock.checksum" {
        severity: Minor, evidence: Local, preen: true,
        message: "the superblock's checksum is {stored}, but its contents give {observed}",
        meaning: "The superblock was changed by something that did not update its checksum, or a byte of it rotted. \
                  All that the layout hangs on is in order.",
        repair: "The checksum is set to match.",
        loss: "Nothing.",
        peers: [],
    }
    /// The file system is larger than the device.
    BEYOND_DEVICE = "ext.superblock.beyond-device" {
        severity: Critical, evidence: Cross, preen: false,
        message: "the superblock says that the file system has {stored:block:blocks}, but the device holds only {observed}",
        meaning: "The device or partition was shrunk, or an image was copied only in part. What lies behind the end is not there.",
        repair: "Nothing automatically: get the missing part back if you can. What lies behind the end cannot be saved from here.",
        loss: "All files with data behind the end of the device.",
        peers: [0x000005],
    }
    /// Fragment size and block size differ.
    FRAGMENTS = "ext.superblock.fragments" {
        severity: Major, evidence: Local, preen: false,
        message: "the superblock says that fragments are not as large as blocks ({stored} against {observed}, as powers of two)",
        meaning: "Fragments smaller than blocks were planned and never came to be, so the number is wrong.",
        repair: "The fragment size is set to the block size.",
        loss: "Nothing.",
        peers: [0x000006],
    }
    /// Clusters per group differ from blocks per group without clusters.
    CLUSTERS_PER_GROUP = "ext.superblock.clusters-per-group" {
        severity: Minor, evidence: Local, preen: false,
        message: "the superblock says that a group has {stored:cluster:clusters}, but it has {observed:block:blocks} and clusters are blocks here",
        meaning: "Without the bigalloc feature a cluster is a block, and the two numbers are the same. Several tools refuse a superblock in which they differ.",
        repair: "The number is set to the blocks per group.",
        loss: "Nothing.",
        peers: [0x00000B],
    }
    /// Impossible size of flexible groups.
    GROUPS_PER_FLEX = "ext.superblock.groups-per-flex" {
        severity: Minor, evidence: Local, preen: false,
        message: "the size of flexible groups (as a power of two) cannot be {stored}",
        meaning: "Flexible groups keep the structures of several groups together. The number is only a hint for where to put new things, but tools refuse one that is too large.",
        repair: "The number is set to the usual one.",
        loss: "Nothing.",
        peers: [0x00000B],
    }
    /// A hash for directories that no kernel knows.
    HASH_VERSION = "ext.superblock.hash-version" {
        severity: Major, evidence: Local, preen: true,
        message: "the hash for new directory indexes cannot be number {stored}",
        meaning: "The number names the hash that directories get when an index is made for them. Those that have one keep its number themselves, but the kernel does not mount a file system with a number that it does not know here.",
        repair: "The number is set to that of the usual hash, half MD4.",
        loss: "Nothing.",
        peers: [],
    }
    /// The mount options of the superblock have no end.
    MOUNT_OPTIONS = "ext.superblock.mount-options" {
        severity: Major, evidence: Local, preen: true,
        message: "the mount options in the superblock (s_mount_opts) have no terminating zero",
        meaning: "The superblock may hold default mount options, as a string of at most 63 characters. All 64 bytes are in use, so the string was overwritten. Kernels of today do not mount the file system then.",
        repair: "The mount options in the superblock are cleared. Options of mount(8) and fstab are not affected.",
        loss: "Mount options that were set with tune2fs -E mount_opts, if there were any.",
        peers: [],
    }
    /// A creator that does not go with the features.
    CREATOR = "ext.superblock.creator" {
        severity: Note, evidence: Cross, preen: true,
        message: "the file system says that system number {stored} made it, but has features that only Linux has",
        meaning: "The number tells how some bytes of inodes are to be read. With another system's number Linux would no longer keep checksums of inodes up to date.",
        repair: "The number is set to that of Linux.",
        loss: "Nothing.",
        peers: [],
    }
    /// Unknown features beside a wrong checksum.
    DOUBTFUL_FEATURES = "ext.superblock.doubtful-features" {
        severity: Major, evidence: Local, preen: false,
        message: "the superblock has a wrong checksum and feature bits that nobody knows ({observed})",
        meaning: "The bits might stand for a newer format, but then the checksum would be right: they are damage.",
        repair: "The bits are taken out.",
        loss: "Nothing.",
        peers: [],
    }
    /// Impossible number of inodes per group, and a total that says a better one.
    INODES_PER_GROUP = "ext.superblock.inodes-per-group" {
        severity: Critical, evidence: Local, preen: false,
        message: "the superblock says that a group has {stored:inode:inodes}, which is wrong; its total of inodes makes {observed}",
        meaning: "Each group has a multiple of eight inodes, and its bitmap has a bit for each and ones behind the last. The number does not go with that, but the total beside it does.",
        repair: "The number is set to what the total says.",
        loss: "Nothing.",
        peers: [0x00000B],
    }
    /// Inode count is not groups times inodes per group.
    INODES_COUNT = "ext.superblock.inodes-count" {
        severity: Major, evidence: Local, preen: false,
        message: "the superblock says that it has {stored:inode:inodes}, but its groups have {observed}",
        meaning: "The total has to be the number of groups times the inodes per group.",
        repair: "The total is set to what the groups have.",
        loss: "Nothing.",
        peers: [0x00000D],
    }
    /// All-zero UUID.
    NO_UUID = "ext.superblock.no-uuid" {
        severity: Note, evidence: Local, preen: true,
        message: "the file system has no UUID",
        meaning: "Very old file systems were made without one; it cannot be mounted by UUID.",
        repair: "A random UUID is made.",
        loss: "Nothing.",
        peers: [0x000009],
    }
    /// Hurd file system with file types in directories.
    HURD_FILETYPE = "ext.superblock.hurd-filetype" {
        severity: Minor, evidence: Local, preen: false,
        message: "the file system belongs to the Hurd but has the filetype feature",
        meaning: "The Hurd does not know file types in directory entries.",
        repair: "The feature is switched off.",
        loss: "Nothing: the types stand in the inodes.",
        peers: [0x00000E],
    }
    /// Revision 0 with feature bits. A note: tune2fs makes it so, and e2fsck -n passes over it.
    REVISION_FEATURES = "ext.superblock.revision-features" {
        severity: Note, evidence: Local, preen: true,
        message: "the superblock is of revision 0 but has feature bits",
        meaning: "Features came with revision 1; kernels honour them but complain. tune2fs leaves a file system so when it adds a journal.",
        repair: "The revision is set to 1.",
        loss: "Nothing.",
        peers: [0x00001A, 0x010033],
    }
    /// Reserved descriptor blocks without the feature.
    RESERVED_GDT = "ext.superblock.reserved-gdt" {
        severity: Minor, evidence: Local, preen: false,
        message: "{stored} descriptor blocks are reserved for growth, but the resize_inode feature is off",
        meaning: "Blocks can be reserved only together with that feature.",
        repair: "The number is set to zero.",
        loss: "Nothing.",
        peers: [0x00002E],
    }
    /// Reserved descriptor blocks that are something else.
    RESERVED_GDT_TAKEN = "ext.superblock.reserved-gdt-taken" {
        severity: Major, evidence: Cross, preen: false,
        message: "{stored} descriptor blocks are reserved for growth, but behind {observed} of them stand the bitmaps and the inode table of group 0",
        meaning: "The number is damaged: the root directory is found in that inode table.",
        repair: "The number is set to what there is room for.",
        loss: "Nothing.",
        peers: [],
    }
    /// Last mount in the future.
    FUTURE_MOUNT = "ext.superblock.future-mount" {
        severity: Note, evidence: Cross, preen: true,
        message: "the last mount is said to be in the future (second {stored}, and now it is {observed})",
        meaning: "The clock of this machine or of the one that used the file system is wrong.",
        repair: "The time is set to now.",
        loss: "Nothing.",
        peers: [0x000031],
    }
    /// Last write in the future.
    FUTURE_WRITE = "ext.superblock.future-write" {
        severity: Note, evidence: Cross, preen: true,
        message: "the last write is said to be in the future (second {stored}, and now it is {observed})",
        meaning: "The clock of this machine or of the one that used the file system is wrong.",
        repair: "The time is set to now.",
        loss: "Nothing.",
        peers: [0x000032],
    }
    /// The flag of development file systems.
    TEST_FLAG = "ext.superblock.test-flag" {
        severity: Note, evidence: Local, preen: true,
        message: "the file system is marked as one for testing development kernels",
        meaning: "The mark is of the days when ext4 was being developed and means nothing today.",
        repair: "The mark is removed.",
        loss: "Nothing.",
        peers: [0x00003B],
    }
    /// Both descriptor checksum features.
    BOTH_CHECKSUMS = "ext.superblock.both-checksums" {
        severity: Minor, evidence: Local, preen: true,
        message: "both metadata_csum and uninit_bg are on",
        meaning: "The two features name different checksums for group descriptors and exclude one another.",
        repair: "The older one, uninit_bg, is switched off.",
        loss: "Nothing.",
        peers: [0x000046],
    }
    /// 64bit without extents.
    WIDE_WITHOUT_EXTENTS = "ext.superblock.64bit-without-extents" {
        severity: Minor, evidence: Local, preen: true,
        message: "the 64bit feature is on without extents",
        meaning: "Files mapped in the old way cannot use blocks beyond 32 bits.",
        repair: "The extents feature is switched on.",
        loss: "Nothing.",
        peers: [0x000048],
    }
    /// Stored checksum seed without metadata checksums.
    SEED_WITHOUT_CHECKSUMS = "ext.superblock.seed-without-checksums" {
        severity: Minor, evidence: Local, preen: true,
        message: "a checksum seed is stored, but metadata_csum is off",
        meaning: "The seed is for checksums that this file system does not have.",
        repair: "The metadata_csum_seed feature is switched off.",
        loss: "Nothing.",
        peers: [0x00004B],
    }
    /// First meta block group too large.
    FIRST_META_BG = "ext.superblock.first-meta-bg" {
        severity: Major, evidence: Local, preen: false,
        message: "the first meta block group is said to be {stored}, but there are only {observed} descriptor blocks",
        meaning: "The number says from where on descriptors are kept in meta block groups; so there are none.",
        repair: "The meta_bg feature is switched off.",
        loss: "Nothing.",
        peers: [0x000049],
    }
    /// Both ways to make room for descriptors.
    META_BG_RESIZE = "ext.superblock.meta-bg-and-resize-inode" {
        severity: Major, evidence: Local, preen: false,
        message: "both meta_bg and resize_inode are on",
        meaning: "The two features keep descriptors in different places and exclude one another.",
        repair: "The feature resize_inode is switched off and the blocks that it reserves become free.",
        loss: "Nothing.",
        peers: [0x000051],
    }
    /// Minimal extra inode size out of range.
    MIN_EXTRA_SIZE = "ext.superblock.min-extra-isize" {
        severity: Minor, evidence: Local, preen: false,
        message: "the least extra size of inodes cannot be {stored} with inodes of {observed:byte:bytes}",
        meaning: "The number says how many bytes behind the first 128 every inode must have for itself.",
        repair: "The number is set to the usual one.",
        loss: "Nothing.",
        peers: [0x00004D],
    }
    /// Desired extra inode size out of range.
    WANT_EXTRA_SIZE = "ext.superblock.want-extra-isize" {
        severity: Minor, evidence: Local, preen: false,
        message: "the desired extra size of inodes cannot be {stored} with inodes of {observed:byte:bytes}",
        meaning: "The number says how many bytes behind the first 128 new inodes get for themselves.",
        repair: "The number is set to the usual one.",
        loss: "Nothing.",
        peers: [0x00004E],
    }
    /// More blocks reserved than can be.
    RESERVED_BLOCKS = "ext.superblock.reserved-blocks" {
        severity: Minor, evidence: Local, preen: false,
        message: "{stored:block is:blocks are} reserved for the superuser, more than half of the {observed} that there are",
        meaning: "Blocks are kept back so that the system can go on working when users have filled the disk.",
        repair: "The number is set to half of all blocks.",
        loss: "Nothing.",
        peers: [0x00000B],
    }
    /// First free inode out of range.
    FIRST_INODE = "ext.superblock.first-inode" {
        severity: Major, evidence: Local, preen: false,
        message: "the first inode for files cannot be {stored}",
        meaning: "Inodes 1 to 10 are always reserved, and the first one behind the reserved ones must exist; where it is not 11, the backups of the superblock say so, too, and no inode between is a directory.",
        repair: "The number is set to 11.",
        loss: "Nothing.",
        peers: [0x00000B],
    }
    /// Files of 2 GiB and more without the feature.
    LARGE_FILE_MISSING = "ext.superblock.large-file-missing" {
        severity: Minor, evidence: Cross, preen: false,
        message: "{inode} is {observed} bytes long, but the large_file feature is off",
        meaning: "Files of 2 GiB and more need the feature, which keeps systems that cannot handle them from writing. It is set with the first such file.",
        repair: "The feature is switched on.",
        loss: "Nothing.",
        peers: [0x020033],
    }
    /// Not cleanly unmounted.
    NOT_CLEAN = "ext.superblock.not-clean" {
        severity: Note, evidence: Local, preen: true,
        message: "the file system was not unmounted cleanly",
        meaning: "It is mounted just now, or the system stopped without unmounting it.",
        repair: "It is marked clean.",
        loss: "Nothing.",
        peers: [],
    }
    /// The kernel has met errors.
    ERRORS_RECORDED = "ext.superblock.errors-recorded" {
        severity: Note, evidence: Local, preen: true,
        message: "the kernel has recorded errors in this file system ({stored} of them)",
        meaning: "While it was mounted the kernel found something wrong and asked for a check.",
        repair: "The record is cleared once everything has been checked.",
        loss: "Nothing.",
        peers: [],
    }
    /// Unknown features that do not keep us from checking.
    UNKNOWN_FEATURE = "ext.superblock.unknown-feature" {
        severity: Note, evidence: Local, preen: false,
        message: "the superblock has feature bits that are not known here ({observed}); what they stand for is not checked",
        meaning: "The file system was made by something newer than this program, or the bits are wrong.",
        repair: "Nothing is changed. If something else is wrong, the file system is not repaired.",
        loss: "Nothing.",
        peers: [],
    }
    /// Feature bits that would end the check, but are damage.
    STRAY_FEATURES = "ext.superblock.stray-features" {
        severity: Major, evidence: Cross, preen: false,
        message: "the primary superblock has a wrong checksum and feature bits ({stored}) that the backup in {block} does not have",
        meaning: "The bits stand for a format that no program here knows, so no system mounts the file system. Since the checksum is wrong, and a sound backup does not have them, they are damage.",
        repair: "The primary superblock is written anew from the backup.",
        loss: "Nothing.",
        peers: [],
    }
    /// A backup that does not describe the same file system.
    BACKUP_DIFFERS = "ext.superblock.backup-differs" {
        severity: Note, evidence: Cross, preen: true,
        message: "the backup superblock in {block} does not describe this file system ({observed})",
        meaning: "Should the primary superblock be lost one day, this backup would be of no use.",
        repair: "The backup is written anew from the primary.",
        loss: "Nothing.",
        peers: [],
    }
}
