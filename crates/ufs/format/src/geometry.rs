// SPDX-License-Identifier: MIT OR Apache-2.0
//! What follows from a superblock whose values make sense: sizes, places, and the rules that they obey.
//!
//! Addresses of blocks are numbers of fragments throughout. The rules are those that FreeBSD's kernel and fsck demand before they use a superblock.

use crate::group::GroupLayout;
use crate::order::{ByteOrder, Version};
use crate::summary::COUNTS_SIZE;
use crate::superblock::{Hashes, STRUCT_SIZE, SUPERBLOCK_MAX, Superblock};
use fsmend_base::width::{self, low_u32, signed};

/// Direct pointers of an inode.
pub const DIRECT: u64 = 12;
/// Smallest and largest block.
pub const BLOCK_SIZES: std::ops::RangeInclusive<u64> = 4096..=65536;
/// Inode number of the root directory.
pub const ROOT: u32 = 2;
/// Largest size of a directory.
pub const DIRECTORY_MAX: u64 = i32::MAX as u64;

/// A value of a superblock that breaks a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flaw {
    /// The field, as FreeBSD's header names it, without `fs_`.
    pub field: &'static str,
    /// What it holds.
    pub stored: i64,
    /// The only value that it may have, where there is one.
    pub expected: Option<i64>,
    /// Whether the rest can be used in spite of it: a hint or a relic of old disks.
    pub is_harmless: bool,
}

/// A file system's shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Byte order.
    pub order: ByteOrder,
    /// Version.
    pub version: Version,
    /// Bytes of a block.
    pub block_size: u64,
    /// Bytes of a fragment.
    pub fragment_size: u64,
    /// Fragments of a block: 1, 2, 4 or 8.
    pub fragments: u64,
    /// Fragments of the file system.
    pub size: u64,
    /// Groups.
    pub groups: u32,
    /// Fragments of a group.
    pub group_size: u64,
    /// How often the size of a group goes into `u64::MAX`.
    pub group_inverse: u64,
    /// Inodes of a group.
    pub group_inodes: u32,
    /// Fragment of the superblock's copy, from the start of a group's structures.
    pub superblock: u64,
    /// Fragment of the cylinder group block.
    pub group_block: u64,
    /// First fragment of inodes.
    pub inodes: u64,
    /// First fragment of data.
    pub data: u64,
    /// UFS1: by how much structures move from group to group, and the mask of the group's number.
    pub rotation: (u64, u32),
    /// Bytes of a cylinder group block in use.
    pub group_bytes: u64,
    /// Bytes of the superblock on the disk.
    pub superblock_bytes: u64,
    /// Byte offset of the primary superblock.
    pub superblock_place: u64,
    /// First fragment of the summary area, and its bytes.
    pub summary: (u64, u64),
    /// Block pointers of a block.
    pub pointers: u64,
    /// Inodes of a block.
    pub block_inodes: u32,
    /// Largest size of a file.
    pub file_max: u64,
    /// Longest run of free blocks that is counted; 0: there are no cluster maps.
    pub cluster_max: u32,
    /// Fragments of the metadata area at the start of each group's data.
    pub metadata_area: u64,
    /// What has check hashes.
    pub hashes: Hashes,
    /// Where things are in a cylinder group block.
    pub layout: GroupLayout,
}

impl Geometry {
    /// The geometry of `superblock`, which was [modernised](Superblock::modernise), with the harmless flaws; or all flaws if it cannot be used.
    pub fn of(superblock: &Superblock) -> Result<(Geometry, Vec<Flaw>), Vec<Flaw>> {
        let mut rules = Rules { flaws: Vec::new() };
        let geometry = rules.judge(superblock);
        match geometry {
            Some(geometry) if rules.flaws.iter().all(|flaw| flaw.is_harmless) => Ok((geometry, rules.flaws)),
            _ => Err(rules.flaws),
        }
    }

    /// Inodes of the file system, with those that are never used.
    pub fn inode_count(&self) -> u32 {
        self.groups.saturating_mul(self.group_inodes)
    }

    /// First fragment of a group.
    #[inline]
    pub fn group_start(&self, group: u32) -> u64 {
        u64::from(group) * self.group_size
    }

    /// Fragments of a group: the last may be short.
    #[inline]
    pub fn group_length(&self, group: u32) -> u64 {
        self.size.saturating_sub(self.group_start(group)).min(self.group_size)
    }

    /// First fragment from which the structures of a group are counted. In UFS2 that is where the group starts.
    #[inline]
    pub fn structures(&self, group: u32) -> u64 {
        let (step, mask) = self.rotation;
        self.group_start(group) + step * u64::from(group & !mask)
    }

    /// Fragments of a group that hold its copy of the superblock, its maps and inodes: first and end. In the first group everything before them too.
    #[inline]
    pub fn reserved(&self, group: u32) -> (u64, u64) {
        let start = self.structures(group);
        (if group == 0 { 0 } else { start + self.superblock }, start + self.data)
    }

    /// Byte offset of a fragment.
    #[inline]
    pub fn place(&self, fragment: u64) -> u64 {
        fragment.saturating_mul(self.fragment_size)
    }

    /// Byte offset of the superblock's copy in a group.
    pub fn superblock_copy(&self, group: u32) -> u64 {
        self.place(self.structures(group) + self.superblock)
    }

    /// Byte offset of a cylinder group block.
    pub fn group_place(&self, group: u32) -> u64 {
        self.place(self.structures(group) + self.group_block)
    }

    /// Group and index of an inode.
    #[inline]
    pub fn inode_group(&self, inode: u32) -> (u32, u32) {
        (inode / self.group_inodes, inode % self.group_inodes)
    }

    /// Byte offset of an inode; `None` for numbers beyond the last.
    #[inline]
    pub fn inode_place(&self, inode: u32) -> Option<u64> {
        let (group, index) = self.inode_group(inode);
        (group < self.groups).then(|| {
            self.place(self.structures(group) + self.inodes)
                + u64::from(index) * self.version.inode_size() as u64
        })
    }

    /// Group of a fragment.
    #[inline]
    pub fn group_of(&self, fragment: u64) -> u32 {
        // A multiplication instead of a division: rounded down, it is one too small at most.
        let estimate = width::low_u64((u128::from(fragment) * u128::from(self.group_inverse)) >> 64);
        let is_next = fragment - estimate * self.group_size >= self.group_size;
        u32::try_from(estimate + u64::from(is_next)).unwrap_or(u32::MAX)
    }

    /// Fragments of the summary area: first and number.
    #[inline]
    pub fn summary_run(&self) -> (u64, u64) {
        let (first, bytes) = self.summary;
        // A power of two.
        let whole = bytes >> self.fragment_size.trailing_zeros();
        (first, whole + u64::from(bytes & (self.fragment_size - 1) != 0))
    }

    /// Blocks that a file of `size` bytes reaches over.
    #[inline]
    pub fn block_count(&self, size: u64) -> u64 {
        // A power of two.
        (size >> self.block_size.trailing_zeros()) + u64::from(size & (self.block_size - 1) != 0)
    }

    /// Fragments of block `index` of a file of `size` bytes: a whole block, but for the last one of a small file; 0 behind the end.
    #[inline]
    pub fn block_fragments(&self, size: u64, index: u64) -> u64 {
        let start = index.saturating_mul(self.block_size);
        if size <= start {
            0
        } else if index >= DIRECT || size - start >= self.block_size {
            self.fragments
        } else {
            (size - start + self.fragment_size - 1) >> self.fragment_size.trailing_zeros()
        }
    }

    /// Whether a run of fragments may belong to a file: inside the file system, within one block, outside of all structures.
    #[inline]
    pub fn may_be_data(&self, first: u64, count: u64) -> bool {
        let fits = first != 0
            && first < self.size
            && count <= self.size - first
            // Both are powers of two.
            && (first & (self.fragments - 1)) + count <= self.fragments;
        fits && {
            let (start, end) = self.reserved(self.group_of(first));
            first + count <= start || first >= end
        } && {
            let (start, length) = self.summary_run();
            first + count <= start || first >= start + length
        }
    }

    /// Bytes of a file that its direct pointers and `levels` levels of indirect blocks hold.
    pub fn reach(&self, levels: u32) -> u64 {
        let mut blocks = DIRECT;
        for level in 1..=levels {
            blocks = blocks.saturating_add(self.pointers.saturating_pow(level));
        }
        blocks.saturating_mul(self.block_size)
    }
}

/// Gathers flaws.
struct Rules {
    flaws: Vec<Flaw>,
}

impl Rules {
    fn must(&mut self, field: &'static str, stored: impl Into<i64>, holds: bool) {
        self.note(field, stored.into(), None, holds, false);
    }

    fn equal(&mut self, field: &'static str, stored: impl Into<i64>, expected: i64) {
        let stored = stored.into();
        self.note(field, stored, Some(expected), stored == expected, false);
    }

    fn should(&mut self, field: &'static str, stored: impl Into<i64>, expected: Option<i64>, holds: bool) {
        self.note(field, stored.into(), expected, holds, true);
    }

    fn note(
        &mut self,
        field: &'static str,
        stored: i64,
        expected: Option<i64>,
        holds: bool,
        is_harmless: bool,
    ) {
        if !holds {
            self.flaws.push(Flaw { field, stored, expected, is_harmless });
        }
    }

    /// Judges all fields; `None` once one of those is wrong that the others are judged by.
    fn judge(&mut self, sb: &Superblock) -> Option<Geometry> {
        let version = sb.version();
        let (bsize, fsize) = (i64::from(sb.bsize()), i64::from(sb.fsize()));
        let block_size = u64::try_from(bsize).unwrap_or(0);
        let fragment_size = u64::try_from(fsize).unwrap_or(0);
        self.must("bsize", bsize, BLOCK_SIZES.contains(&block_size) && block_size.is_power_of_two());
        self.must("fsize", fsize, fragment_size >= 512 && fragment_size.is_power_of_two() && fsize <= bsize);
        self.must("frag", sb.frag(), (1..=8).contains(&sb.frag()));
        if !self.flaws.is_empty() {
            return None;
        }
        self.equal("frag", sb.frag(), bsize / fsize);
        let fragments = block_size / fragment_size;
        if fragments > 8 || !self.flaws.is_empty() {
            return None;
        }
        self.masks(sb, (bsize, fsize, signed(fragments)));
        let pointers = block_size / version.pointer_size() as u64;
        let block_inodes = block_size / version.inode_size() as u64;
        self.equal("nindir", sb.nindir(), signed(pointers));
        self.equal("inopb", i64::from(sb.inopb()), signed(block_inodes));
        self.equal("maxsymlinklen", sb.maxsymlinklen(), version.short_link_max().into());
        self.must("fpg", sb.fpg(), i64::from(sb.fpg()) >= 3 * signed(fragments));
        self.must("ncg", i64::from(sb.ncg()), sb.ncg() >= 1);
        let ipg = u64::from(sb.ipg());
        self.must("ipg", i64::from(sb.ipg()), ipg >= block_inodes && ipg.is_multiple_of(block_inodes));
        let inodes = ipg.saturating_mul(sb.ncg().into());
        self.must("ipg*ncg", i64::try_from(inodes).unwrap_or(i64::MAX), inodes <= (1 << 32) - block_inodes);
        self.superblock_size(sb, bsize);
        if !self.flaws.is_empty() {
            return None;
        }
        self.counts(sb, signed(inodes));
        let layout = self.layout(sb, (version, fragments));
        self.group_places(sb, (bsize, fsize, signed(fragments)));
        self.extent(sb, (signed(fragments), fsize));
        self.relics(sb, fsize);
        self.hints(sb, bsize, pointers as i128);
        let number = |value: i64| u64::try_from(value).unwrap_or(0);
        Some(Geometry {
            order: sb.order(),
            version,
            block_size,
            fragment_size,
            fragments,
            size: number(sb.size()),
            groups: sb.ncg(),
            group_size: number(sb.fpg().into()),
            group_inverse: u64::MAX / number(sb.fpg().into()).max(1),
            group_inodes: sb.ipg(),
            superblock: number(sb.sblkno().into()),
            group_block: number(sb.cblkno().into()),
            inodes: number(sb.iblkno().into()),
            data: number(sb.dblkno().into()),
            rotation: match version {
                Version::Ufs1 => (number(sb.old_cgoffset().into()), sb.old_cgmask()),
                Version::Ufs2 => (0, u32::MAX),
            },
            group_bytes: number(sb.cgsize().into()),
            superblock_bytes: number(sb.sbsize().into()),
            superblock_place: number(sb.sblockloc()),
            summary: (number(sb.csaddr()), number(sb.cssize().into())),
            pointers,
            block_inodes: low_u32(block_inodes),
            file_max: file_max(sb, pointers),
            cluster_max: u32::try_from(sb.contigsumsize()).unwrap_or(0),
            metadata_area: number(sb.metaspace().clamp(0, i64::from(sb.fpg()) / 2)),
            hashes: if version == Version::Ufs2 { sb.hashes() } else { Hashes::empty() },
            layout,
        })
    }

    fn masks(&mut self, sb: &Superblock, (bsize, fsize, fragments): (i64, i64, i64)) {
        self.equal("bmask", sb.bmask(), !(bsize - 1));
        self.equal("fmask", sb.fmask(), !(fsize - 1));
        self.equal("qbmask", sb.qbmask(), bsize - 1);
        self.equal("qfmask", sb.qfmask(), fsize - 1);
        self.equal("bshift", sb.bshift(), bsize.trailing_zeros().into());
        self.equal("fshift", sb.fshift(), fsize.trailing_zeros().into());
        self.equal("fragshift", sb.fragshift(), fragments.trailing_zeros().into());
        self.equal("fsbtodb", sb.fsbtodb(), (fsize / signed(crate::SECTOR)).trailing_zeros().into());
    }

    fn superblock_size(&mut self, sb: &Superblock, bsize: i64) {
        let size = i64::from(sb.sbsize());
        let fits =
            size >= signed(STRUCT_SIZE as u64) && size <= signed(SUPERBLOCK_MAX as u64) && size % 512 == 0;
        self.must("sbsize", size, fits);
        let max = i64::from(sb.maxbsize());
        let fits = max >= bsize && max <= 16 * bsize && max.count_ones() == 1;
        // Old systems left 0 there.
        self.note("maxbsize", max, Some(bsize), fits || max == 0, false);
        let place = sb.sblockloc();
        // FreeBSD looks for UFS2 in one place only; other systems make it in any of them.
        let is_place = u64::try_from(place).is_ok_and(|place| crate::superblock::SEARCH.contains(&place));
        match sb.version() {
            Version::Ufs2 => self.must("sblockloc", place, is_place),
            Version::Ufs1 => self.must("sblockloc", place, (0..=8192).contains(&place)),
        }
    }

    fn counts(&mut self, sb: &Superblock, inodes: i64) {
        let totals = sb.totals();
        let free = totals.free_inodes;
        self.must("cstotal.nifree", free, (0..=inodes).contains(&free));
        let most = inodes.saturating_sub(free);
        self.must("cstotal.ndir", totals.directories, (0..=most).contains(&totals.directories));
    }

    fn layout(&mut self, sb: &Superblock, (version, fragments): (Version, u64)) -> GroupLayout {
        let maxcontig = sb.maxcontig();
        let sums = sb.contigsumsize();
        match maxcontig {
            ..=0 => self.equal("contigsumsize", sums, 0),
            1 => self.must("contigsumsize", sums, (0..=16).contains(&sums)),
            _ => self.equal("contigsumsize", sums, maxcontig.min(16).into()),
        }
        let sums = u32::try_from(sums).unwrap_or(0).min(16);
        let size = u64::try_from(sb.fpg()).unwrap_or(0);
        let layout = GroupLayout::new(version, (sb.ipg(), size, fragments), sums);
        let (needed, bsize) = (signed(layout.needed), i64::from(sb.bsize()));
        self.must("cgsize", sb.cgsize(), needed <= bsize);
        if version == Version::Ufs2 {
            // FreeBSD counts the tables of cylinders that groups of UFS1 once had (six bytes each) for UFS2 too, and refuses a superblock whose groups exceed a block with them.
            let cylinders = i64::from(sb.old_cpg());
            let fits = cylinders >= 0 && needed + (cylinders - 1) * 6 <= bsize;
            self.should("old_cpg", cylinders, Some(1), fits);
        }
        layout
    }

    fn group_places(&mut self, sb: &Superblock, (bsize, fsize, fragments): (i64, i64, i64)) {
        let up = |value: i64| {
            value.div_euclid(fragments) * fragments + if value % fragments == 0 { 0 } else { fragments }
        };
        let ceil = |value: i64| value / fsize + i64::from(value % fsize != 0);
        let superblock = signed(SUPERBLOCK_MAX as u64);
        let sblkno = up(ceil(sb.sblockloc().saturating_add(superblock)));
        let cblkno = sblkno.saturating_add(up(ceil(superblock)));
        let iblkno = cblkno.saturating_add(fragments);
        let per_fragment = i64::from(sb.inopb()) / fragments;
        let dblkno =
            iblkno.saturating_add(i64::from(sb.ipg()).checked_div(per_fragment).unwrap_or(i64::MAX / 4));
        self.equal("sblkno", sb.sblkno(), sblkno);
        self.equal("cblkno", sb.cblkno(), cblkno);
        self.equal("iblkno", sb.iblkno(), iblkno);
        self.equal("dblkno", sb.dblkno(), dblkno);
        self.must("dblkno", sb.dblkno(), dblkno <= i64::from(sb.fpg()));
        let size = i64::from(sb.cgsize());
        self.must("cgsize", size, size >= fsize && size <= bsize && size % fsize == 0);
    }

    fn extent(&mut self, sb: &Superblock, (fragments, fsize): (i64, i64)) {
        let (fpg, ncg) = (i64::from(sb.fpg()), i64::from(sb.ncg()));
        let size = sb.size();
        let fits = size >= 8 * fragments && (ncg - 1) * fpg < size && size <= ncg * fpg;
        self.must("size", size, fits);
        // FreeBSD's kernel looks at both, for UFS2 too, where they mean nothing.
        let (offset, mask) = (i64::from(sb.old_cgoffset()), !sb.old_cgmask());
        let is_taken = offset == 0 || mask.cast_signed() >= 0 && offset.saturating_mul(mask.into()) <= fpg;
        if sb.version() == Version::Ufs2 {
            self.should("old_cgoffset", offset, Some(0), offset >= 0 && is_taken);
        } else {
            let turns = i64::from(sb.ncg().saturating_sub(1) & !sb.old_cgmask())
                .max(i64::from(!sb.old_cgmask()).min(ncg - 1));
            let fits = is_taken
                && offset >= 0
                && offset.saturating_mul(turns).saturating_add(sb.dblkno().into()) <= fpg;
            self.must("old_cgoffset", offset, fits);
        }
        let cssize = (ncg * signed(COUNTS_SIZE as u64) + fsize - 1) / fsize * fsize;
        self.equal("cssize", sb.cssize(), cssize);
        let csaddr = sb.csaddr();
        let group = csaddr.checked_div(fpg).unwrap_or(0);
        let in_group = csaddr.checked_rem(fpg).unwrap_or(0);
        let end = in_group.saturating_add(cssize / fsize);
        let fits = csaddr >= 0
            && in_group >= i64::from(sb.dblkno())
            && end <= fpg
            && (group * fpg).saturating_add(end) <= size;
        self.must("csaddr", csaddr, fits);
        self.data_size(sb, cssize / fsize);
    }

    /// Fragments that are neither structures of groups nor the summary area, nor lie before those of the first group.
    fn data_size(&mut self, sb: &Superblock, summary: i64) {
        let (first, data) = (i64::from(sb.sblkno()), i64::from(sb.dblkno()));
        let held = i64::from(sb.ncg()).saturating_mul(data - first).saturating_add(first + summary);
        let expected = sb.size().saturating_sub(held);
        self.should("dsize", sb.dsize(), Some(expected), sb.dsize() == expected);
    }

    /// What described the geometry of disks with heads and cylinders.
    fn relics(&mut self, sb: &Superblock, fsize: i64) {
        if sb.version() != Version::Ufs1 {
            return;
        }
        self.equal("old_cpg", sb.old_cpg(), 1);
        self.equal("old_nrpos", sb.old_nrpos(), 1);
        self.equal("old_ncyl", sb.old_ncyl(), sb.ncg().into());
        let nspf = fsize / signed(crate::SECTOR);
        let sectors = i64::from(sb.fpg()).saturating_mul(nspf);
        for (field, stored, expected) in [
            ("old_inodefmt", sb.old_inodefmt(), 2),
            ("old_rotdelay", sb.old_rotdelay(), 0),
            ("old_rps", sb.old_rps(), 60),
            ("old_nspf", sb.old_nspf(), nspf),
            ("old_interleave", sb.old_interleave(), 1),
            ("old_trackskew", sb.old_trackskew(), 0),
            ("old_cpc", sb.old_cpc(), 0),
            ("old_postblformat", sb.old_postblformat(), 1),
            ("old_spc", sb.old_spc(), sectors),
            ("old_nsect", sb.old_nsect(), sectors),
            ("old_npsect", sb.old_npsect(), sectors),
        ] {
            self.should(field, stored, Some(expected), i64::from(stored) == expected);
        }
    }

    fn hints(&mut self, sb: &Superblock, bsize: i64, pointers: i128) {
        let area = sb.metaspace();
        self.should("metaspace", area, None, (0..=i64::from(sb.fpg()) / 2).contains(&area));
        self.should("minfree", sb.minfree(), None, (0..=99).contains(&sb.minfree()));
        self.should("optim", sb.optim(), None, (0..=1).contains(&sb.optim()));
        let expected =
            (DIRECT as i128 + pointers + pointers.pow(2) + pointers.pow(3)) * i128::from(bsize) - 1;
        let expected = i64::try_from(expected).unwrap_or(i64::MAX);
        let stored = i64::try_from(sb.maxfilesize()).unwrap_or(i64::MAX);
        self.should("maxfilesize", stored, Some(expected), stored == expected);
        let most = 256.max(16 << 20 >> bsize.trailing_zeros());
        self.should("maxcontig", sb.maxcontig(), None, (0..=most).contains(&sb.maxcontig()));
    }
}

/// Largest size of a file: what the pointers hold, in UFS1 also what its block numbers do.
fn file_max(sb: &Superblock, pointers: u64) -> u64 {
    let block_size = u64::try_from(sb.bsize()).unwrap_or(0);
    let blocks = DIRECT
        .saturating_add(pointers)
        .saturating_add(pointers.saturating_pow(2))
        .saturating_add(pointers.saturating_pow(3));
    let held = blocks.saturating_mul(block_size).saturating_sub(1).min(i64::MAX as u64);
    match sb.version() {
        Version::Ufs1 => held.min((block_size << 30).saturating_sub(1)),
        Version::Ufs2 => held,
    }
}
