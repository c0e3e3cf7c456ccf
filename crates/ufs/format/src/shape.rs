// SPDX-License-Identifier: MIT OR Apache-2.0
//! The few numbers that the layout of a file system follows from, and the superblock that describes it: what mkfs makes, and what a repair makes again of cylinder groups.

use crate::SECTOR;
use crate::geometry::DIRECT;
use crate::group::GroupLayout;
use crate::order::{ByteOrder, Version};
use crate::summary::COUNTS_SIZE;
use crate::superblock::{STRUCT_SIZE, SUPERBLOCK_MAX, Superblock, SuperblockFlags};
use fsmend_base::width::{low_u8, low_u32, signed};

/// Percentage of space that is kept free if nothing else is asked for.
pub const MINFREE: i32 = 8;
/// Longest run of free blocks that is counted, as a rule.
pub const CLUSTER_SUMS: u32 = 16;
/// Most bytes in one run of a file.
const CLUSTER_BYTES: u64 = 1 << 20;
/// What newfs expects of files: bytes of one, and files in a directory.
const EXPECTED: (u32, u32) = (16384, 64);

/// What the layout follows from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Byte order.
    pub order: ByteOrder,
    /// Version.
    pub version: Version,
    /// Bytes of a block and of a fragment.
    pub sizes: (u64, u64),
    /// Byte offset of the primary superblock.
    pub place: u64,
    /// Fragments of a group.
    pub group_size: u64,
    /// Inodes of a group.
    pub group_inodes: u32,
    /// Fragments of the file system.
    pub size: u64,
    /// Longest run of free blocks that is counted; 0: there are no cluster maps.
    pub cluster_max: u32,
}

/// Bytes from the start of a group to its copy of the superblock, where the primary one is at `place`.
pub fn copy_offset(place: u64, block_size: u64) -> u64 {
    place.saturating_add(SUPERBLOCK_MAX as u64).next_multiple_of(block_size)
}

/// Bytes from the start of a group to its block of maps.
pub fn group_offset(place: u64, block_size: u64) -> u64 {
    copy_offset(place, block_size).saturating_add((SUPERBLOCK_MAX as u64).next_multiple_of(block_size))
}

impl Shape {
    /// Groups.
    pub fn groups(&self) -> u64 {
        self.size.div_ceil(self.group_size.max(1))
    }

    /// Fragments from the start of a group to its data.
    pub fn data(&self) -> u64 {
        let (block, fragment) = self.sizes;
        let inodes = u64::from(self.group_inodes) * self.version.inode_size() as u64;
        (group_offset(self.place, block) + block + inodes) / fragment
    }

    /// The superblock, marked clean, without counts, times, number and label; `None` where a number is larger than its field.
    pub fn superblock(&self) -> Option<Superblock> {
        let (block, fragment) = self.sizes;
        let (fragments, groups) = (block / fragment, self.groups());
        let number = |value: u64| i32::try_from(value).ok();
        let mut sb = Superblock::new(self.order, self.version);
        let group_block = group_offset(self.place, block) / fragment;
        sb.set_sblkno(number(copy_offset(self.place, block) / fragment)?);
        sb.set_cblkno(number(group_block)?);
        sb.set_iblkno(number(group_block + fragments)?);
        sb.set_dblkno(number(self.data())?);
        sb.set_ncg(u32::try_from(groups).ok()?);
        sb.set_bsize(number(block)?);
        sb.set_fsize(number(fragment)?);
        sb.set_frag(number(fragments)?);
        sb.set_minfree(MINFREE);
        sb.set_bmask(!(number(block)? - 1));
        sb.set_fmask(!(number(fragment)? - 1));
        sb.set_qbmask(signed(block) - 1);
        sb.set_qfmask(signed(fragment) - 1);
        sb.set_bshift(block.trailing_zeros().cast_signed());
        sb.set_fshift(fragment.trailing_zeros().cast_signed());
        sb.set_fragshift(fragments.trailing_zeros().cast_signed());
        sb.set_fsbtodb((fragment / SECTOR).trailing_zeros().cast_signed());
        // Runs are counted up to the longest that is made at once, but not further than this.
        let is_usual = self.cluster_max == CLUSTER_SUMS;
        let run =
            if is_usual { (CLUSTER_BYTES / block).max(CLUSTER_SUMS.into()) } else { self.cluster_max.into() };
        sb.set_maxcontig(number(run)?);
        sb.set_contigsumsize(self.cluster_max.cast_signed());
        let pointers = block / self.version.pointer_size() as u64;
        sb.set_maxbpg(number(block / 8)?);
        sb.set_sbsize(number((STRUCT_SIZE as u64).next_multiple_of(fragment).min(SUPERBLOCK_MAX as u64))?);
        sb.set_nindir(number(pointers)?);
        sb.set_inopb(low_u32(block / self.version.inode_size() as u64));
        sb.set_ipg(self.group_inodes);
        sb.set_fpg(number(self.group_size)?);
        let cssize = (groups * COUNTS_SIZE as u64).next_multiple_of(fragment);
        let before = copy_offset(self.place, block) / fragment;
        let held = before + groups.checked_mul(self.data() - before)? + cssize / fragment;
        sb.set_size(signed(self.size));
        sb.set_dsize(signed(self.size.checked_sub(held)?));
        sb.set_csaddr(signed(self.data()));
        sb.set_cssize(number(cssize)?);
        let layout =
            GroupLayout::new(self.version, (self.group_inodes, self.group_size, fragments), self.cluster_max);
        sb.set_cgsize(number(layout.needed.next_multiple_of(fragment))?);
        sb.set_maxsymlinklen(self.version.short_link_max().cast_signed());
        sb.set_maxbsize(number(block)?);
        let blocks = u128::from(DIRECT) + (1..=3).map(|level| u128::from(pointers).pow(level)).sum::<u128>();
        sb.set_maxfilesize(
            u64::try_from(blocks * u128::from(block) - 1).unwrap_or(u64::MAX).min(i64::MAX as u64),
        );
        sb.set_avgfilesize(EXPECTED.0);
        sb.set_avgfpdir(EXPECTED.1);
        let area = self.group_size * u64::from(MINFREE.cast_unsigned()) / 200;
        sb.set_metaspace(signed(area / fragments * fragments));
        sb.set_sblockloc(signed(self.place));
        sb.set_clean(1);
        sb.set_old_flags(low_u8(u64::from(SuperblockFlags::UPDATED.bits())));
        set_relics(&mut sb);
        Some(sb)
    }
}

/// What described the geometry of disks with heads and cylinders, and the older copies of UFS1.
fn set_relics(sb: &mut Superblock) {
    sb.set_old_cgmask(u32::MAX);
    sb.set_old_inodefmt(2);
    sb.set_old_rps(60);
    sb.set_old_interleave(1);
    sb.set_old_postblformat(1);
    sb.set_old_nrpos(1);
    sb.set_old_cpg(1);
    sb.set_old_nspf(sb.fsize() / low_u32(SECTOR).cast_signed());
    sb.set_old_ncyl(sb.ncg().cast_signed());
    let sectors = sb.fpg().saturating_mul(sb.old_nspf());
    sb.set_old_spc(sectors);
    sb.set_old_nsect(sectors);
    sb.set_old_npsect(sectors);
    if sb.version() == Version::Ufs1 {
        let short = |value: i64| i32::try_from(value).unwrap_or(i32::MAX);
        sb.set_old_size(short(sb.size()));
        sb.set_old_dsize(short(sb.dsize()));
        sb.set_old_csaddr(short(sb.csaddr()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;

    #[test]
    fn what_follows_from_a_shape_obeys_all_rules() {
        for (version, place) in [(Version::Ufs1, 8192), (Version::Ufs2, 65536), (Version::Ufs2, 8192)] {
            for block in [4096, 8192, 16384, 32768, 65536] {
                for (fragments, cluster_max) in [(1, 16), (2, 0), (4, 5), (8, 16)] {
                    let sizes = (block, block / fragments);
                    let group_inodes = (4 * block) as u32 / version.inode_size() as u32;
                    let (order, group_size) = (ByteOrder::Big, 40 * fragments);
                    let size = 3 * group_size - fragments;
                    let shape =
                        Shape { order, version, sizes, place, group_size, group_inodes, size, cluster_max };
                    let superblock = shape.superblock().expect("all numbers are small");
                    let (geometry, harmless) = Geometry::of(&superblock).expect("it obeys the rules");
                    assert_eq!((harmless, geometry.groups), (Vec::new(), 3), "{shape:?}");
                    assert_eq!(geometry.group_place(0), group_offset(place, block));
                    assert_eq!(geometry.cluster_max, cluster_max);
                }
            }
        }
    }
}
