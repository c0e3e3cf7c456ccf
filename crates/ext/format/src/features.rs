// SPDX-License-Identifier: MIT OR Apache-2.0
//! Feature bits of the superblock (`s_feature_compat`, `s_feature_incompat`, `s_feature_ro_compat`).
//!
//! Source: "ext4 Data Structures and Algorithms", super block, feature tables. Bits that are not named here are kept.

use bitflags::bitflags;

bitflags! {
    /// Compatible features: an implementation that does not know the bit may still read and write.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Compat: u32 {
        /// Directory preallocation.
        const DIR_PREALLOC = 0x1;
        /// AFS "imagic" inodes.
        const IMAGIC_INODES = 0x2;
        /// The file system has a journal.
        const HAS_JOURNAL = 0x4;
        /// Extended attributes.
        const EXT_ATTR = 0x8;
        /// Reserved descriptor blocks in inode 7.
        const RESIZE_INODE = 0x10;
        /// Hashed directory indexes.
        const DIR_INDEX = 0x20;
        /// Lazy block groups (never shipped).
        const LAZY_BG = 0x40;
        /// Exclude inode (snapshots, never shipped upstream).
        const EXCLUDE_INODE = 0x80;
        /// Exclude bitmap (snapshots, never shipped upstream).
        const EXCLUDE_BITMAP = 0x100;
        /// Superblock backups in at most two groups.
        const SPARSE_SUPER2 = 0x200;
        /// Fast commits in the journal.
        const FAST_COMMIT = 0x400;
        /// Inode numbers and UUID never change (inline-crypt friendly).
        const STABLE_INODES = 0x800;
        /// Orphans are recorded in a file.
        const ORPHAN_FILE = 0x1000;
        // All other bits: operators keep them.
        const _ = !0;
    }
}

impl Compat {
    /// All bits that we know.
    pub const KNOWN: Compat = Compat::from_bits_retain(0x1FFF);
}

bitflags! {
    /// Incompatible features: an implementation that does not know the bit must refuse the file system.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Incompat: u32 {
        /// Compressed files (never shipped).
        const COMPRESSION = 0x1;
        /// Directory entries carry a file type.
        const FILETYPE = 0x2;
        /// The journal has to be replayed.
        const RECOVER = 0x4;
        /// This is an external journal device.
        const JOURNAL_DEV = 0x8;
        /// Descriptors live in meta block groups.
        const META_BG = 0x10;
        /// Files may be mapped by extents.
        const EXTENTS = 0x40;
        /// 64-bit block numbers, larger descriptors.
        const BIT64 = 0x80;
        /// Multiple-mount protection.
        const MMP = 0x100;
        /// Group metadata may lie in other groups.
        const FLEX_BG = 0x200;
        /// Large attribute values in inodes of their own.
        const EA_INODE = 0x400;
        /// Data in directory entries (never shipped).
        const DIRDATA = 0x1000;
        /// The checksum seed is stored in the superblock.
        const CSUM_SEED = 0x2000;
        /// Directories over 2 GiB or three-level indexes.
        const LARGEDIR = 0x4000;
        /// Small files live in their inode.
        const INLINE_DATA = 0x8000;
        /// Encrypted files.
        const ENCRYPT = 0x1_0000;
        /// Case-insensitive directories.
        const CASEFOLD = 0x2_0000;
        /// Indirect regions with backpointers: see [`crate::rext3`]. Our own; no ext4 uses this bit.
        const REXT3 = 0x40_0000;
        // All other bits: operators keep them.
        const _ = !0;
    }
}

impl Incompat {
    /// All bits that we check; any other bit is refused by name.
    pub const SUPPORTED: Incompat = Self::FILETYPE
        .union(Self::RECOVER)
        .union(Self::JOURNAL_DEV)
        .union(Self::META_BG)
        .union(Self::EXTENTS)
        .union(Self::BIT64)
        .union(Self::MMP)
        .union(Self::FLEX_BG)
        .union(Self::EA_INODE)
        .union(Self::CSUM_SEED)
        .union(Self::LARGEDIR)
        .union(Self::INLINE_DATA)
        .union(Self::ENCRYPT)
        .union(Self::CASEFOLD)
        .union(Self::REXT3);
}

bitflags! {
    /// Read-only compatible features: an implementation that does not know the bit may only read.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct RoCompat: u32 {
        /// Superblock backups in groups 0, 1 and powers of 3, 5 and 7.
        const SPARSE_SUPER = 0x1;
        /// Files over 2 GiB.
        const LARGE_FILE = 0x2;
        /// B-tree directories (never shipped).
        const BTREE_DIR = 0x4;
        /// `i_blocks` has 48 bits and may count file-system blocks.
        const HUGE_FILE = 0x8;
        /// Descriptor checksums and uninitialised groups.
        const GDT_CSUM = 0x10;
        /// Directories may have more than 65 000 subdirectories.
        const DIR_NLINK = 0x20;
        /// Inodes have at least `s_min_extra_isize` extra bytes.
        const EXTRA_ISIZE = 0x40;
        /// Snapshots (never shipped upstream).
        const HAS_SNAPSHOT = 0x80;
        /// Quota files are hidden inodes.
        const QUOTA = 0x100;
        /// Allocation in clusters.
        const BIGALLOC = 0x200;
        /// Checksums on all metadata.
        const METADATA_CSUM = 0x400;
        /// Replicas (never shipped).
        const REPLICA = 0x800;
        /// The file system is never written.
        const READONLY = 0x1000;
        /// Project quota.
        const PROJECT = 0x2000;
        /// Blocks may be shared between files; read-only.
        const SHARED_BLOCKS = 0x4000;
        /// fs-verity files.
        const VERITY = 0x8000;
        /// The orphan file holds entries.
        const ORPHAN_PRESENT = 0x1_0000;
        // All other bits: operators keep them.
        const _ = !0;
    }
}

impl RoCompat {
    /// All bits that we check.
    pub const SUPPORTED: RoCompat = Self::SPARSE_SUPER
        .union(Self::LARGE_FILE)
        .union(Self::HUGE_FILE)
        .union(Self::GDT_CSUM)
        .union(Self::DIR_NLINK)
        .union(Self::EXTRA_ISIZE)
        .union(Self::QUOTA)
        .union(Self::BIGALLOC)
        .union(Self::METADATA_CSUM)
        .union(Self::READONLY)
        .union(Self::PROJECT)
        .union(Self::SHARED_BLOCKS)
        .union(Self::VERITY)
        .union(Self::ORPHAN_PRESENT);
}

/// The three feature words of one superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// `s_feature_compat`.
    pub compat: Compat,
    /// `s_feature_incompat`.
    pub incompat: Incompat,
    /// `s_feature_ro_compat`.
    pub ro_compat: RoCompat,
}

/// Names of the bits as `mke2fs` and `dumpe2fs` spell them: word (0 compatible, 1 incompatible, 2 read-only compatible), bit, name.
const NAMES: &[(u8, u32, &str)] = &[
    (0, Compat::DIR_PREALLOC.bits(), "dir_prealloc"),
    (0, Compat::IMAGIC_INODES.bits(), "imagic_inodes"),
    (0, Compat::HAS_JOURNAL.bits(), "has_journal"),
    (0, Compat::EXT_ATTR.bits(), "ext_attr"),
    (0, Compat::RESIZE_INODE.bits(), "resize_inode"),
    (0, Compat::DIR_INDEX.bits(), "dir_index"),
    (0, Compat::SPARSE_SUPER2.bits(), "sparse_super2"),
    (0, Compat::FAST_COMMIT.bits(), "fast_commit"),
    (0, Compat::STABLE_INODES.bits(), "stable_inodes"),
    (0, Compat::ORPHAN_FILE.bits(), "orphan_file"),
    (1, Incompat::FILETYPE.bits(), "filetype"),
    (1, Incompat::RECOVER.bits(), "needs_recovery"),
    (1, Incompat::JOURNAL_DEV.bits(), "journal_dev"),
    (1, Incompat::META_BG.bits(), "meta_bg"),
    (1, Incompat::EXTENTS.bits(), "extent"),
    (1, Incompat::BIT64.bits(), "64bit"),
    (1, Incompat::MMP.bits(), "mmp"),
    (1, Incompat::FLEX_BG.bits(), "flex_bg"),
    (1, Incompat::EA_INODE.bits(), "ea_inode"),
    (1, Incompat::CSUM_SEED.bits(), "metadata_csum_seed"),
    (1, Incompat::LARGEDIR.bits(), "large_dir"),
    (1, Incompat::INLINE_DATA.bits(), "inline_data"),
    (1, Incompat::ENCRYPT.bits(), "encrypt"),
    (1, Incompat::CASEFOLD.bits(), "casefold"),
    (1, Incompat::REXT3.bits(), "rext3"),
    (2, RoCompat::SPARSE_SUPER.bits(), "sparse_super"),
    (2, RoCompat::LARGE_FILE.bits(), "large_file"),
    (2, RoCompat::HUGE_FILE.bits(), "huge_file"),
    (2, RoCompat::GDT_CSUM.bits(), "uninit_bg"),
    (2, RoCompat::DIR_NLINK.bits(), "dir_nlink"),
    (2, RoCompat::EXTRA_ISIZE.bits(), "extra_isize"),
    (2, RoCompat::QUOTA.bits(), "quota"),
    (2, RoCompat::BIGALLOC.bits(), "bigalloc"),
    (2, RoCompat::METADATA_CSUM.bits(), "metadata_csum"),
    (2, RoCompat::READONLY.bits(), "read-only"),
    (2, RoCompat::PROJECT.bits(), "project"),
    (2, RoCompat::SHARED_BLOCKS.bits(), "shared_blocks"),
    (2, RoCompat::VERITY.bits(), "verity"),
    (2, RoCompat::ORPHAN_PRESENT.bits(), "orphan_present"),
];

impl Features {
    /// The features of three words from the disk.
    pub const fn from_words(compat: u32, incompat: u32, ro_compat: u32) -> Features {
        Features {
            compat: Compat::from_bits_retain(compat),
            incompat: Incompat::from_bits_retain(incompat),
            ro_compat: RoCompat::from_bits_retain(ro_compat),
        }
    }

    /// The three words: compatible, incompatible, read-only compatible.
    pub const fn words(self) -> [u32; 3] {
        [self.compat.bits(), self.incompat.bits(), self.ro_compat.bits()]
    }

    /// The names of all features that are on, as `mke2fs` spells them; bits without a name are left out.
    pub fn names(self) -> Vec<&'static str> {
        let words = self.words();
        let is_on = |(word, bit, _): &&(u8, u32, &str)| words[usize::from(*word)] & bit != 0;
        NAMES.iter().filter(is_on).map(|(_, _, name)| *name).collect()
    }

    /// What a file system with these features is usually called: `ext2`, `ext3`, `ext4` or `rext3`.
    pub fn kind(self) -> &'static str {
        if self.rext3() {
            "rext3"
        } else if self.incompat.intersects(Incompat::EXTENTS | Incompat::FLEX_BG | Incompat::BIT64) {
            "ext4"
        } else if self.has_compat(Compat::HAS_JOURNAL) {
            "ext3"
        } else {
            "ext2"
        }
    }

    /// Whether all bits of `mask` are set in the compatible word.
    pub fn has_compat(self, mask: Compat) -> bool {
        self.compat.contains(mask)
    }

    /// Whether all bits of `mask` are set in the incompatible word.
    pub fn has_incompat(self, mask: Incompat) -> bool {
        self.incompat.contains(mask)
    }

    /// Whether all bits of `mask` are set in the read-only compatible word.
    pub fn has_ro_compat(self, mask: RoCompat) -> bool {
        self.ro_compat.contains(mask)
    }

    /// The bits that are not known here, but with which a file system can be looked at: those of the compatible and of the read-only compatible word.
    pub fn unknown_but_readable(self) -> Features {
        Features {
            compat: self.compat & !Compat::KNOWN,
            incompat: Incompat::empty(),
            ro_compat: self.ro_compat & !RoCompat::SUPPORTED,
        }
    }

    /// Whether all metadata carries CRC32C checksums.
    pub fn metadata_csum(self) -> bool {
        self.has_ro_compat(RoCompat::METADATA_CSUM)
    }

    /// Whether the file system is a rext3.
    #[inline]
    pub fn rext3(self) -> bool {
        self.has_incompat(Incompat::REXT3)
    }

    /// Whether group descriptors carry a checksum of either kind, which is what makes uninitialised groups legal.
    pub fn group_csum(self) -> bool {
        self.ro_compat.intersects(RoCompat::METADATA_CSUM | RoCompat::GDT_CSUM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_that_are_not_named_survive_every_operator() {
        let stored = Features::from_words(0x8000_0004, 0x2000_0046, 0x0100_0003);
        assert_eq!(stored.words(), [0x8000_0004, 0x2000_0046, 0x0100_0003]);
        assert_eq!((stored.incompat & !Incompat::RECOVER).bits(), 0x2000_0042);
        assert_eq!((stored.compat | Compat::DIR_INDEX).bits(), 0x8000_0024);
        assert_eq!((stored.incompat & !Incompat::SUPPORTED).bits(), 0x2000_0000);
        assert_eq!(stored.unknown_but_readable().words(), [0x8000_0000, 0, 0x0100_0000]);
    }
}
