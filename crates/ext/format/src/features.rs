// SPDX-License-Identifier: MIT OR Apache-2.0
//! Feature bits of the superblock (`s_feature_compat`, `s_feature_incompat`, `s_feature_ro_compat`).
//!
//! Source: "ext4 Data Structures and Algorithms", super block, feature tables.

/// Compatible features: an implementation that does not know the bit may still read and write.
pub mod compat {
    /// Directory preallocation.
    pub const DIR_PREALLOC: u32 = 0x1;
    /// AFS "imagic" inodes.
    pub const IMAGIC_INODES: u32 = 0x2;
    /// The file system has a journal.
    pub const HAS_JOURNAL: u32 = 0x4;
    /// Extended attributes.
    pub const EXT_ATTR: u32 = 0x8;
    /// Reserved descriptor blocks in inode 7.
    pub const RESIZE_INODE: u32 = 0x10;
    /// Hashed directory indexes.
    pub const DIR_INDEX: u32 = 0x20;
    /// Lazy block groups (never shipped).
    pub const LAZY_BG: u32 = 0x40;
    /// Exclude inode (snapshots, never shipped upstream).
    pub const EXCLUDE_INODE: u32 = 0x80;
    /// Exclude bitmap (snapshots, never shipped upstream).
    pub const EXCLUDE_BITMAP: u32 = 0x100;
    /// Superblock backups in at most two groups.
    pub const SPARSE_SUPER2: u32 = 0x200;
    /// Fast commits in the journal.
    pub const FAST_COMMIT: u32 = 0x400;
    /// Inode numbers and UUID never change (inline-crypt friendly).
    pub const STABLE_INODES: u32 = 0x800;
    /// Orphans are recorded in a file.
    pub const ORPHAN_FILE: u32 = 0x1000;
    /// All bits that we know.
    pub const KNOWN: u32 = 0x1FFF;
}

/// Incompatible features: an implementation that does not know the bit must refuse the file system.
pub mod incompat {
    /// Compressed files (never shipped).
    pub const COMPRESSION: u32 = 0x1;
    /// Directory entries carry a file type.
    pub const FILETYPE: u32 = 0x2;
    /// The journal has to be replayed.
    pub const RECOVER: u32 = 0x4;
    /// This is an external journal device.
    pub const JOURNAL_DEV: u32 = 0x8;
    /// Descriptors live in meta block groups.
    pub const META_BG: u32 = 0x10;
    /// Files may be mapped by extents.
    pub const EXTENTS: u32 = 0x40;
    /// 64-bit block numbers, larger descriptors.
    pub const BIT64: u32 = 0x80;
    /// Multiple-mount protection.
    pub const MMP: u32 = 0x100;
    /// Group metadata may lie in other groups.
    pub const FLEX_BG: u32 = 0x200;
    /// Large attribute values in inodes of their own.
    pub const EA_INODE: u32 = 0x400;
    /// Data in directory entries (never shipped).
    pub const DIRDATA: u32 = 0x1000;
    /// The checksum seed is stored in the superblock.
    pub const CSUM_SEED: u32 = 0x2000;
    /// Directories over 2 GiB or three-level indexes.
    pub const LARGEDIR: u32 = 0x4000;
    /// Small files live in their inode.
    pub const INLINE_DATA: u32 = 0x8000;
    /// Encrypted files.
    pub const ENCRYPT: u32 = 0x1_0000;
    /// Case-insensitive directories.
    pub const CASEFOLD: u32 = 0x2_0000;
    /// Indirect regions with backpointers: see [`crate::rext3`]. Our own; no ext4 uses this bit.
    pub const REXT3: u32 = 0x40_0000;
    /// All bits that we check; any other bit is refused by name.
    pub const SUPPORTED: u32 = FILETYPE
        | RECOVER
        | JOURNAL_DEV
        | META_BG
        | EXTENTS
        | BIT64
        | MMP
        | FLEX_BG
        | EA_INODE
        | CSUM_SEED
        | LARGEDIR
        | INLINE_DATA
        | ENCRYPT
        | CASEFOLD
        | REXT3;
}

/// Read-only compatible features: an implementation that does not know the bit may only read.
pub mod ro_compat {
    /// Superblock backups in groups 0, 1 and powers of 3, 5 and 7.
    pub const SPARSE_SUPER: u32 = 0x1;
    /// Files over 2 GiB.
    pub const LARGE_FILE: u32 = 0x2;
    /// B-tree directories (never shipped).
    pub const BTREE_DIR: u32 = 0x4;
    /// `i_blocks` has 48 bits and may count file-system blocks.
    pub const HUGE_FILE: u32 = 0x8;
    /// Descriptor checksums and uninitialised groups.
    pub const GDT_CSUM: u32 = 0x10;
    /// Directories may have more than 65 000 subdirectories.
    pub const DIR_NLINK: u32 = 0x20;
    /// Inodes have at least `s_min_extra_isize` extra bytes.
    pub const EXTRA_ISIZE: u32 = 0x40;
    /// Snapshots (never shipped upstream).
    pub const HAS_SNAPSHOT: u32 = 0x80;
    /// Quota files are hidden inodes.
    pub const QUOTA: u32 = 0x100;
    /// Allocation in clusters.
    pub const BIGALLOC: u32 = 0x200;
    /// Checksums on all metadata.
    pub const METADATA_CSUM: u32 = 0x400;
    /// Replicas (never shipped).
    pub const REPLICA: u32 = 0x800;
    /// The file system is never written.
    pub const READONLY: u32 = 0x1000;
    /// Project quota.
    pub const PROJECT: u32 = 0x2000;
    /// Blocks may be shared between files; read-only.
    pub const SHARED_BLOCKS: u32 = 0x4000;
    /// fs-verity files.
    pub const VERITY: u32 = 0x8000;
    /// The orphan file holds entries.
    pub const ORPHAN_PRESENT: u32 = 0x1_0000;
    /// All bits that we check.
    pub const SUPPORTED: u32 = SPARSE_SUPER
        | LARGE_FILE
        | HUGE_FILE
        | GDT_CSUM
        | DIR_NLINK
        | EXTRA_ISIZE
        | QUOTA
        | BIGALLOC
        | METADATA_CSUM
        | READONLY
        | PROJECT
        | SHARED_BLOCKS
        | VERITY
        | ORPHAN_PRESENT;
}

/// The three feature words of one superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// `s_feature_compat`.
    pub compat: u32,
    /// `s_feature_incompat`.
    pub incompat: u32,
    /// `s_feature_ro_compat`.
    pub ro_compat: u32,
}

/// Names of the bits as `mke2fs` and `dumpe2fs` spell them: word (0 compatible, 1 incompatible, 2 read-only compatible), bit, name.
const NAMES: &[(u8, u32, &str)] = &[
    (0, compat::DIR_PREALLOC, "dir_prealloc"),
    (0, compat::IMAGIC_INODES, "imagic_inodes"),
    (0, compat::HAS_JOURNAL, "has_journal"),
    (0, compat::EXT_ATTR, "ext_attr"),
    (0, compat::RESIZE_INODE, "resize_inode"),
    (0, compat::DIR_INDEX, "dir_index"),
    (0, compat::SPARSE_SUPER2, "sparse_super2"),
    (0, compat::FAST_COMMIT, "fast_commit"),
    (0, compat::STABLE_INODES, "stable_inodes"),
    (0, compat::ORPHAN_FILE, "orphan_file"),
    (1, incompat::FILETYPE, "filetype"),
    (1, incompat::RECOVER, "needs_recovery"),
    (1, incompat::JOURNAL_DEV, "journal_dev"),
    (1, incompat::META_BG, "meta_bg"),
    (1, incompat::EXTENTS, "extent"),
    (1, incompat::BIT64, "64bit"),
    (1, incompat::MMP, "mmp"),
    (1, incompat::FLEX_BG, "flex_bg"),
    (1, incompat::EA_INODE, "ea_inode"),
    (1, incompat::CSUM_SEED, "metadata_csum_seed"),
    (1, incompat::LARGEDIR, "large_dir"),
    (1, incompat::INLINE_DATA, "inline_data"),
    (1, incompat::ENCRYPT, "encrypt"),
    (1, incompat::CASEFOLD, "casefold"),
    (1, incompat::REXT3, "rext3"),
    (2, ro_compat::SPARSE_SUPER, "sparse_super"),
    (2, ro_compat::LARGE_FILE, "large_file"),
    (2, ro_compat::HUGE_FILE, "huge_file"),
    (2, ro_compat::GDT_CSUM, "uninit_bg"),
    (2, ro_compat::DIR_NLINK, "dir_nlink"),
    (2, ro_compat::EXTRA_ISIZE, "extra_isize"),
    (2, ro_compat::QUOTA, "quota"),
    (2, ro_compat::BIGALLOC, "bigalloc"),
    (2, ro_compat::METADATA_CSUM, "metadata_csum"),
    (2, ro_compat::READONLY, "read-only"),
    (2, ro_compat::PROJECT, "project"),
    (2, ro_compat::SHARED_BLOCKS, "shared_blocks"),
    (2, ro_compat::VERITY, "verity"),
    (2, ro_compat::ORPHAN_PRESENT, "orphan_present"),
];

impl Features {
    /// The names of all features that are on, as `mke2fs` spells them; bits without a name are left out.
    pub fn names(self) -> Vec<&'static str> {
        let words = [self.compat, self.incompat, self.ro_compat];
        let is_on = |(word, bit, _): &&(u8, u32, &str)| words[usize::from(*word)] & bit != 0;
        NAMES.iter().filter(is_on).map(|(_, _, name)| *name).collect()
    }

    /// What a file system with these features is usually called: `ext2`, `ext3`, `ext4` or `rext3`.
    pub fn kind(self) -> &'static str {
        if self.rext3() {
            "rext3"
        } else if self.incompat & (incompat::EXTENTS | incompat::FLEX_BG | incompat::BIT64) != 0 {
            "ext4"
        } else if self.has_compat(compat::HAS_JOURNAL) {
            "ext3"
        } else {
            "ext2"
        }
    }

    /// Whether all bits of `mask` are set in the compatible word.
    pub fn has_compat(self, mask: u32) -> bool {
        self.compat & mask == mask
    }

    /// Whether all bits of `mask` are set in the incompatible word.
    pub fn has_incompat(self, mask: u32) -> bool {
        self.incompat & mask == mask
    }

    /// Whether all bits of `mask` are set in the read-only compatible word.
    pub fn has_ro_compat(self, mask: u32) -> bool {
        self.ro_compat & mask == mask
    }

    /// The bits that are not known here, but with which a file system can be looked at: those of the compatible and of the read-only compatible word.
    pub fn unknown_but_readable(self) -> Features {
        Features {
            compat: self.compat & !compat::KNOWN,
            incompat: 0,
            ro_compat: self.ro_compat & !ro_compat::SUPPORTED,
        }
    }

    /// Whether all metadata carries CRC32C checksums.
    pub fn metadata_csum(self) -> bool {
        self.has_ro_compat(ro_compat::METADATA_CSUM)
    }

    /// Whether the file system is a rext3.
    #[inline]
    pub fn rext3(self) -> bool {
        self.has_incompat(incompat::REXT3)
    }

    /// Whether group descriptors carry a checksum of either kind, which is what makes uninitialised groups legal.
    pub fn group_csum(self) -> bool {
        self.ro_compat & (ro_compat::METADATA_CSUM | ro_compat::GDT_CSUM) != 0
    }
}
