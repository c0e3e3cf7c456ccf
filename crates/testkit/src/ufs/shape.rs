// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a made UFS image is to be like, and the superblock that follows from it.

use fsmend_ufs_format::group::GroupLayout;
use fsmend_ufs_format::summary::COUNTS_SIZE;
use fsmend_ufs_format::superblock::{Hashes, SUPERBLOCK_MAX, Superblock, SuperblockFlags};
use fsmend_ufs_format::{ByteOrder, SECTOR, Version};

use super::make::TIME;

/// What an image is to be like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Version.
    pub version: Version,
    /// Byte order.
    pub order: ByteOrder,
    /// Bytes of a block and of a fragment.
    pub sizes: (u64, u64),
    /// Groups, and fragments of a group.
    pub groups: (u32, u64),
    /// Inodes of a group.
    pub group_inodes: u32,
    /// Bits of the superblock's flags. Check hashes are among them.
    pub flags: SuperblockFlags,
    /// Whether there are maps of free blocks.
    pub has_clusters: bool,
}

impl Shape {
    /// A small one: blocks of 4096 bytes and fragments of 512, four groups of a mebibyte; UFS2 with check hashes.
    pub fn small(version: Version, order: ByteOrder) -> Shape {
        let flags = if version == Version::Ufs2 { SuperblockFlags::HASHES } else { SuperblockFlags::empty() };
        Shape {
            version,
            order,
            sizes: (4096, 512),
            groups: (4, 2048),
            group_inodes: 256,
            flags,
            has_clusters: true,
        }
    }

    /// All versions and byte orders, small.
    pub fn all() -> [Shape; 4] {
        let both = |version| [ByteOrder::Little, ByteOrder::Big].map(|order| Shape::small(version, order));
        let ([a, b], [c, d]) = (both(Version::Ufs1), both(Version::Ufs2));
        [a, b, c, d]
    }

    /// Its superblock, with nothing counted yet.
    pub(super) fn superblock(&self) -> Superblock {
        let mut made = Superblock::new(self.order, self.version);
        self.set_sizes(&mut made);
        self.set_places(&mut made);
        made.set_minfree(8);
        made.set_maxbpg(made.nindir());
        made.set_avgfilesize(16384);
        made.set_avgfpdir(64);
        made.set_id0(0x5F5E_1234);
        made.set_id1(0x0BAD_CAFE);
        for set in [Superblock::set_time, Superblock::set_mtime] {
            set(&mut made, TIME);
        }
        made.set_flags(self.flags);
        made.set_metackhash(if self.flags.contains(SuperblockFlags::HASHES) {
            Hashes::ALL.bits()
        } else {
            0
        });
        made.set_clean(1);
        if self.version == Version::Ufs1 {
            self.set_relics(&mut made);
        }
        made
    }

    fn set_sizes(&self, made: &mut Superblock) {
        let (block, fragment) = (self.sizes.0 as i32, self.sizes.1 as i32);
        made.set_bsize(block);
        made.set_fsize(fragment);
        made.set_frag(block / fragment);
        made.set_bmask(!(block - 1));
        made.set_fmask(!(fragment - 1));
        made.set_qbmask(i64::from(block) - 1);
        made.set_qfmask(i64::from(fragment) - 1);
        made.set_bshift(block.trailing_zeros() as i32);
        made.set_fshift(fragment.trailing_zeros() as i32);
        made.set_fragshift((block / fragment).trailing_zeros() as i32);
        made.set_fsbtodb((fragment / SECTOR as i32).trailing_zeros() as i32);
        made.set_maxbsize(block);
        made.set_nindir(block / self.version.pointer_size() as i32);
        made.set_inopb((block as usize / self.version.inode_size()) as u32);
        made.set_maxsymlinklen(self.version.short_link_max() as i32);
        made.set_maxcontig(if self.has_clusters { 16 } else { 0 });
        made.set_contigsumsize(if self.has_clusters { 16 } else { 0 });
        made.set_sbsize(1376u64.next_multiple_of(self.sizes.1).min(SUPERBLOCK_MAX as u64) as i32);
        let pointers = i128::from(made.nindir());
        let reach = (12 + pointers + pointers.pow(2) + pointers.pow(3)) * i128::from(block) - 1;
        made.set_maxfilesize(reach as u64);
    }

    fn set_places(&self, made: &mut Superblock) {
        let (block, fragment) = self.sizes;
        let fragments = block / fragment;
        let place = if self.version == Version::Ufs2 { 65536 } else { 8192 };
        let copy = (place + SUPERBLOCK_MAX as u64).div_ceil(fragment).next_multiple_of(fragments);
        let group = copy + (SUPERBLOCK_MAX as u64).div_ceil(fragment).next_multiple_of(fragments);
        let table = group + fragments;
        let data = table + u64::from(self.group_inodes) * self.version.inode_size() as u64 / fragment;
        made.set_sblockloc(place as i64);
        made.set_sblkno(copy as i32);
        made.set_cblkno(group as i32);
        made.set_iblkno(table as i32);
        made.set_dblkno(data as i32);
        let (groups, size) = self.groups;
        made.set_ncg(groups);
        made.set_fpg(size as i32);
        made.set_ipg(self.group_inodes);
        made.set_size((u64::from(groups) * size) as i64);
        let sums = made.contigsumsize() as u32;
        let layout = GroupLayout::new(self.version, (self.group_inodes, size, fragments), sums);
        made.set_cgsize(layout.needed.next_multiple_of(fragment) as i32);
        let summary = (u64::from(groups) * COUNTS_SIZE as u64).next_multiple_of(fragment);
        made.set_csaddr(data as i64);
        made.set_cssize(summary as i32);
        let per_group = size - (data - copy);
        let dsize = u64::from(groups) * per_group - copy - summary / fragment;
        made.set_dsize(dsize as i64);
    }

    fn set_relics(&self, made: &mut Superblock) {
        let sectors = (self.groups.1 * self.sizes.1 / SECTOR) as i32;
        made.set_old_cgmask(u32::MAX);
        made.set_old_flags(SuperblockFlags::UPDATED.bits() as u8);
        made.set_old_cpg(1);
        made.set_old_nrpos(1);
        made.set_old_ncyl(self.groups.0 as i32);
        made.set_old_inodefmt(2);
        made.set_old_rps(60);
        made.set_old_interleave(1);
        made.set_old_postblformat(1);
        made.set_old_nspf((self.sizes.1 / SECTOR) as i32);
        made.set_old_spc(sectors);
        made.set_old_nsect(sectors);
        made.set_old_npsect(sectors);
        made.set_old_size(made.size() as i32);
        made.set_old_dsize(made.dsize() as i32);
        made.set_old_csaddr(made.csaddr() as i32);
        made.set_old_time(TIME as i32);
    }
}
