// SPDX-License-Identifier: MIT OR Apache-2.0
//! The superblock (`struct fs`): where it is looked for, its fields, its check hash, its copies and the record that helps to find them.
//!
//! The same struct serves both versions. UFS1 keeps older copies of some fields beside it ([`Superblock::modernise`]). The rules that values obey are in [`crate::geometry`].

use bitflags::bitflags;
use fsmend_base::crc32c;
use fsmend_base::width::signed;

use crate::order::{ByteOrder, Version, fields};
use crate::summary::Counts;

/// Byte offsets at which a primary superblock is looked for, in this order: UFS2, UFS1, the start of the device, far behind.
pub const SEARCH: [u64; 4] = [65536, 8192, 0, 262_144];
/// Where UFS2 keeps it.
pub const UFS2_PLACE: u64 = 65536;
/// Bytes that are read to have all of it.
pub const SUPERBLOCK_MAX: usize = 8192;
/// Bytes of `struct fs`. Its last field is the magic.
pub const STRUCT_SIZE: usize = 1376;
/// The magic of UFS1.
pub const UFS1_MAGIC: u32 = 0x0001_1954;
/// The magic of UFS2.
pub const UFS2_MAGIC: u32 = 0x1954_0119;
/// The magic while newfs is at work: no file system yet.
pub const UNFINISHED_MAGIC: u32 = 0x1996_0408;
/// Length of the recovery record, which ends where the superblock of UFS2 begins.
pub const RECOVERY_SIZE: usize = 20;

bitflags! {
    /// Flags of the superblock.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SuperblockFlags: u32 {
        /// Not unmounted cleanly.
        const UNCLEAN = 0x1;
        /// Soft updates.
        const SOFT_UPDATES = 0x2;
        /// A complete check is needed.
        const NEEDS_FSCK = 0x4;
        /// Soft updates with a journal.
        const JOURNAL = 0x8;
        /// POSIX.1e access lists.
        const ACLS = 0x10;
        /// Labels of mandatory access control on each file.
        const MULTILABEL = 0x20;
        /// Journalled by the block layer (gjournal).
        const GJOURNAL = 0x40;
        /// In the old byte of flags: the flags are in the new field.
        const UPDATED = 0x80;
        /// NFSv4 access lists.
        const NFS4_ACLS = 0x100;
        /// Metadata has check hashes; without it [`Superblock::hashes`] means nothing.
        const HASHES = 0x200;
        /// Free blocks are discarded.
        const TRIM = 0x400;
        // All other bits: operators keep them.
        const _ = !0;
    }
}

bitflags! {
    /// What has a check hash.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Hashes: u32 {
        /// The superblock.
        const SUPERBLOCK = 0x1;
        /// Cylinder groups.
        const GROUPS = 0x2;
        /// Inodes.
        const INODES = 0x4;
        // All other bits: operators keep them.
        const _ = !0;
    }
}

impl Hashes {
    /// All that are defined and written.
    pub const ALL: Hashes = Hashes::SUPERBLOCK.union(Hashes::GROUPS).union(Hashes::INODES);
}

/// A superblock: its bytes with names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    bytes: Vec<u8>,
    order: ByteOrder,
    version: Version,
}

impl Superblock {
    /// The superblock in `bytes`, which begin at its start, if the magic is there in either byte order. Keeps at most [`SUPERBLOCK_MAX`] bytes.
    pub fn parse(bytes: &[u8]) -> Option<Superblock> {
        let (order, version) = recognise(bytes)?;
        let kept = bytes.get(..bytes.len().min(SUPERBLOCK_MAX))?;
        Some(Superblock { bytes: kept.to_vec(), order, version })
    }

    /// An empty one.
    pub fn new(order: ByteOrder, version: Version) -> Superblock {
        let mut superblock = Superblock { bytes: vec![0; SUPERBLOCK_MAX], order, version };
        superblock.set_magic(match version {
            Version::Ufs1 => UFS1_MAGIC,
            Version::Ufs2 => UFS2_MAGIC,
        });
        superblock
    }

    /// What is left of one of the same order and version, with or without its magic.
    pub fn with_bytes(&self, bytes: &[u8]) -> Superblock {
        Superblock { bytes: bytes.to_vec(), order: self.order, version: self.version }
    }

    /// How many percent of the words that describe the layout are the same in both.
    pub fn likeness(&self, other: &Superblock) -> usize {
        const WORDS: [std::ops::Range<usize>; 6] = [8..24, 44..60, 72..88, 96..108, 116..124, 156..164];
        let places = || WORDS.into_iter().flatten().step_by(4).chain([184, 188, 1084, 1316, 1320, 1372]);
        let same =
            places().filter(|at| self.order.u32(&self.bytes, *at) == self.order.u32(&other.bytes, *at));
        100 * same.count() / places().count()
    }

    /// Its bytes, as many as were read.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes that its size covers, or all if the size makes no sense.
    pub fn covered(&self) -> &[u8] {
        let size = usize::try_from(self.sbsize()).unwrap_or(usize::MAX);
        self.bytes.get(..size).filter(|_| size >= STRUCT_SIZE).unwrap_or(&self.bytes)
    }

    /// The byte order.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// The version.
    pub fn version(&self) -> Version {
        self.version
    }

    fields! {
        /// Fragment of the superblock's copy in each group, from the group's start.
        sblkno set_sblkno i32 put_i32 i32 8;
        /// Fragment of the cylinder group block, from the group's start.
        cblkno set_cblkno i32 put_i32 i32 12;
        /// First fragment of inodes, from the group's start.
        iblkno set_iblkno i32 put_i32 i32 16;
        /// First fragment of data, from the group's start.
        dblkno set_dblkno i32 put_i32 i32 20;
        /// UFS1: by how much the structures of the next group lie further back.
        old_cgoffset set_old_cgoffset i32 put_i32 i32 24;
        /// UFS1: mask of the group number for [`old_cgoffset`](Self::old_cgoffset).
        old_cgmask set_old_cgmask u32 put_u32 u32 28;
        /// UFS1: time of the last write, seconds.
        old_time set_old_time i32 put_i32 i32 32;
        /// UFS1: fragments of the file system.
        old_size set_old_size i32 put_i32 i32 36;
        /// UFS1: fragments of data.
        old_dsize set_old_dsize i32 put_i32 i32 40;
        /// Cylinder groups.
        ncg set_ncg u32 put_u32 u32 44;
        /// Bytes of a block.
        bsize set_bsize i32 put_i32 i32 48;
        /// Bytes of a fragment.
        fsize set_fsize i32 put_i32 i32 52;
        /// Fragments of a block.
        frag set_frag i32 put_i32 i32 56;
        /// Percentage of space that is kept free.
        minfree set_minfree i32 put_i32 i32 60;
        /// UFS1: rotational delay.
        old_rotdelay set_old_rotdelay i32 put_i32 i32 64;
        /// UFS1: revolutions per second.
        old_rps set_old_rps i32 put_i32 i32 68;
        /// Mask of the block's number in a byte offset.
        bmask set_bmask i32 put_i32 i32 72;
        /// Mask of the fragment's number in a byte offset.
        fmask set_fmask i32 put_i32 i32 76;
        /// Logarithm of the block size.
        bshift set_bshift i32 put_i32 i32 80;
        /// Logarithm of the fragment size.
        fshift set_fshift i32 put_i32 i32 84;
        /// Longest run of blocks that is allocated at once.
        maxcontig set_maxcontig i32 put_i32 i32 88;
        /// Blocks of one file in a group before it goes on in another.
        maxbpg set_maxbpg i32 put_i32 i32 92;
        /// Logarithm of the fragments of a block.
        fragshift set_fragshift i32 put_i32 i32 96;
        /// Logarithm of the sectors of a fragment.
        fsbtodb set_fsbtodb i32 put_i32 i32 100;
        /// Bytes of the superblock on the disk.
        sbsize set_sbsize i32 put_i32 i32 104;
        /// Block pointers of a block.
        nindir set_nindir i32 put_i32 i32 116;
        /// Inodes of a block.
        inopb set_inopb u32 put_u32 u32 120;
        /// UFS1: sectors of a fragment.
        old_nspf set_old_nspf i32 put_i32 i32 124;
        /// What allocation saves: 0 time, 1 space.
        optim set_optim i32 put_i32 i32 128;
        /// UFS1: sectors of a track with its spares.
        old_npsect set_old_npsect i32 put_i32 i32 132;
        /// UFS1: interleave of sectors.
        old_interleave set_old_interleave i32 put_i32 i32 136;
        /// UFS1: skew of tracks.
        old_trackskew set_old_trackskew i32 put_i32 i32 140;
        /// First half of the file system's number.
        id0 set_id0 u32 put_u32 u32 144;
        /// Second half of the file system's number.
        id1 set_id1 u32 put_u32 u32 148;
        /// UFS1: fragment of the summary area.
        old_csaddr set_old_csaddr i32 put_i32 i32 152;
        /// Bytes of the summary area.
        cssize set_cssize i32 put_i32 i32 156;
        /// Bytes of a cylinder group block in use.
        cgsize set_cgsize i32 put_i32 i32 160;
        /// UFS1: sectors of a track.
        old_nsect set_old_nsect i32 put_i32 i32 168;
        /// UFS1: sectors of a cylinder.
        old_spc set_old_spc i32 put_i32 i32 172;
        /// UFS1: cylinders.
        old_ncyl set_old_ncyl i32 put_i32 i32 176;
        /// UFS1: cylinders of a group.
        old_cpg set_old_cpg i32 put_i32 i32 180;
        /// Inodes of a group.
        ipg set_ipg u32 put_u32 u32 184;
        /// Fragments of a group.
        fpg set_fpg i32 put_i32 i32 188;
        /// Group in which the search for the next directory begins.
        cgrotor set_cgrotor i32 put_i32 i32 724;
        /// UFS1: cylinders of a cycle.
        old_cpc set_old_cpc i32 put_i32 i32 856;
        /// Largest block size of any file.
        maxbsize set_maxbsize i32 put_i32 i32 860;
        /// Inodes without a name that are still open.
        unrefs set_unrefs i64 put_i64 i64 864;
        /// Bytes of the device below.
        providersize set_providersize i64 put_i64 i64 872;
        /// Fragments of the metadata area at the start of each group's data; 0 if there is none.
        metaspace set_metaspace i64 put_i64 i64 880;
        /// Byte offset of this copy.
        sblockactualloc set_sblockactualloc i64 put_i64 i64 992;
        /// Byte offset of the primary superblock.
        sblockloc set_sblockloc i64 put_i64 i64 1000;
        /// Time of the last write, seconds.
        time set_time i64 put_i64 i64 1072;
        /// Fragments of the file system.
        size set_size i64 put_i64 i64 1080;
        /// Fragments of data.
        dsize set_dsize i64 put_i64 i64 1088;
        /// Fragment of the summary area.
        csaddr set_csaddr i64 put_i64 i64 1096;
        /// Fragments of files whose deletion has not reached the disk.
        pendingblocks set_pendingblocks i64 put_i64 i64 1104;
        /// Inodes whose deletion has not reached the disk.
        pendinginodes set_pendinginodes u32 put_u32 u32 1112;
        /// Average size of a file that is expected.
        avgfilesize set_avgfilesize u32 put_u32 u32 1196;
        /// Files of a directory that are expected.
        avgfpdir set_avgfpdir u32 put_u32 u32 1200;
        /// Time of the last mount or check, seconds; names the session of the journal.
        mtime set_mtime i64 put_i64 i64 1208;
        /// First inode of the list of those without a name (journal).
        sujfree set_sujfree u32 put_u32 u32 1216;
        /// Check hash of the superblock.
        ckhash set_ckhash u32 put_u32 u32 1304;
        /// What has check hashes, see [`hashes`](Self::hashes).
        metackhash set_metackhash u32 put_u32 u32 1308;
        /// The word of [`flags`](Self::flags).
        flags_word set_flags_word u32 put_u32 u32 1312;
        /// Longest run of free blocks that is counted.
        contigsumsize set_contigsumsize i32 put_i32 i32 1316;
        /// Symbolic links shorter than this stand in their inode.
        maxsymlinklen set_maxsymlinklen i32 put_i32 i32 1320;
        /// UFS1: format of inodes, 2.
        old_inodefmt set_old_inodefmt i32 put_i32 i32 1324;
        /// Largest size of a file.
        maxfilesize set_maxfilesize u64 put_u64 u64 1328;
        /// `!bmask` in 64 bits.
        qbmask set_qbmask i64 put_i64 i64 1336;
        /// `!fmask` in 64 bits.
        qfmask set_qfmask i64 put_i64 i64 1344;
        /// State.
        state set_state i32 put_i32 i32 1352;
        /// UFS1: format of rotational tables, 1.
        old_postblformat set_old_postblformat i32 put_i32 i32 1356;
        /// UFS1: rotational positions, 1.
        old_nrpos set_old_nrpos i32 put_i32 i32 1360;
        /// The magic.
        magic set_magic u32 put_u32 u32 1372;
    }

    /// Whether it was unmounted cleanly.
    pub fn clean(&self) -> u8 {
        self.byte(209)
    }

    /// Sets [`clean`](Self::clean).
    pub fn set_clean(&mut self, value: u8) {
        self.put_byte(209, value);
    }

    /// The byte of flags before there were more than eight.
    pub fn old_flags(&self) -> u8 {
        self.byte(211)
    }

    /// Sets [`old_flags`](Self::old_flags).
    pub fn set_old_flags(&mut self, value: u8) {
        self.put_byte(211, value);
    }

    /// Where it was mounted last: up to the first zero.
    pub fn mounted_on(&self) -> &[u8] {
        self.text(212, 468)
    }

    /// Sets [`mounted_on`](Self::mounted_on), cut to its room.
    pub fn set_mounted_on(&mut self, path: &[u8]) {
        self.put_text(212, 468, path);
    }

    /// The label: up to the first zero.
    pub fn label(&self) -> &[u8] {
        self.text(680, 32)
    }

    /// Sets [`label`](Self::label), cut to its room.
    pub fn set_label(&mut self, label: &[u8]) {
        self.put_text(680, 32, label);
    }

    /// Counts of the whole file system.
    pub fn totals(&self) -> Counts<i64> {
        let at = |index: usize| self.order.i64(&self.bytes, 1008 + 8 * index);
        Counts { directories: at(0), free_blocks: at(1), free_inodes: at(2), free_fragments: at(3) }
    }

    /// What stands behind [`totals`](Self::totals) in their structure: free clusters, which nothing keeps, and three reserved fields. All are 0.
    pub fn reserved_totals(&self) -> [i64; 4] {
        std::array::from_fn(|index| self.order.i64(&self.bytes, 1040 + 8 * index))
    }

    /// Sets [`totals`](Self::totals), and what is reserved behind them to 0.
    pub fn set_totals(&mut self, totals: Counts<i64>) {
        if let Some(reserved) = self.bytes.get_mut(1040..1072) {
            reserved.fill(0);
        }
        let Counts { directories, free_blocks, free_inodes, free_fragments } = totals;
        for (index, value) in [directories, free_blocks, free_inodes, free_fragments].into_iter().enumerate()
        {
            self.order.put_i64(&mut self.bytes, 1008 + 8 * index, value);
        }
    }

    /// UFS1: the older copy of [`totals`](Self::totals).
    pub fn old_totals(&self) -> Counts<i32> {
        Counts::parse(self.bytes.get(192..).unwrap_or_default(), self.order)
    }

    /// Sets [`old_totals`](Self::old_totals).
    pub fn set_old_totals(&mut self, totals: Counts<i32>) {
        if let Some(place) = self.bytes.get_mut(192..) {
            totals.store(place, self.order);
        }
    }

    /// Inode numbers of snapshots, up to twenty; the first 0 ends the list.
    pub fn snapshots(&self) -> impl Iterator<Item = u32> {
        (0..crate::snapshot::SNAPSHOTS_MAX)
            .map(|index| self.order.u32(&self.bytes, 1116 + 4 * index))
            .take_while(|inode| *inode != 0)
    }

    /// Sets the list of [`snapshots`](Self::snapshots), cut to its room.
    pub fn set_snapshots(&mut self, inodes: &[u32]) {
        for index in 0..crate::snapshot::SNAPSHOTS_MAX {
            let inode = inodes.get(index).copied().unwrap_or(0);
            self.order.put_u32(&mut self.bytes, 1116 + 4 * index, inode);
        }
    }

    /// The flags.
    pub fn flags(&self) -> SuperblockFlags {
        SuperblockFlags::from_bits_retain(self.flags_word())
    }

    /// Sets [`flags`](Self::flags).
    pub fn set_flags(&mut self, flags: SuperblockFlags) {
        self.set_flags_word(flags.bits());
    }

    /// What has check hashes. Nothing where the flag says that an older kernel has written since.
    pub fn hashes(&self) -> Hashes {
        match self.flags().contains(SuperblockFlags::HASHES) {
            true => Hashes::from_bits_retain(self.metackhash()) & Hashes::ALL,
            false => Hashes::empty(),
        }
    }

    /// What the check hash should be.
    pub fn computed_hash(&self) -> u32 {
        let covered = self.covered();
        // The hash itself and a pointer that only lives in memory count as zeroes.
        let (before, rest) = covered.split_at(covered.len().min(848));
        let between = rest.get(8..456).unwrap_or_default();
        let behind = rest.get(460..).unwrap_or_default();
        let mut hash = crc32c(!0, before);
        hash = crc32c(hash, &[0; 8]);
        hash = crc32c(hash, between);
        hash = crc32c(hash, &[0; 4]);
        crc32c(hash, behind)
    }

    /// Whether its check hash is right, or it has none.
    pub fn hash_is_right(&self) -> bool {
        !self.hashes().contains(Hashes::SUPERBLOCK) || self.ckhash() == self.computed_hash()
    }

    /// Puts the right check hash, if it has one.
    pub fn seal(&mut self) {
        if self.hashes().contains(Hashes::SUPERBLOCK) {
            self.set_ckhash(self.computed_hash());
        }
    }

    /// Whether it is a UFS1 of before 2002, which keeps times, sizes and counts in the old fields alone.
    pub fn is_old(&self) -> bool {
        self.version == Version::Ufs1 && self.maxbsize() != self.bsize()
    }

    /// Takes what an old UFS1 keeps in old fields to the new ones, and the flags of before there were more than eight.
    pub fn modernise(&mut self) {
        let old_flags = SuperblockFlags::from_bits_retain(self.old_flags().into());
        if self.version == Version::Ufs1 && !old_flags.contains(SuperblockFlags::UPDATED) {
            self.set_flags(old_flags);
        }
        if self.is_old() {
            self.set_time(self.old_time().into());
            self.set_size(self.old_size().into());
            self.set_dsize(self.old_dsize().into());
            self.set_csaddr(self.old_csaddr().into());
            let old = self.old_totals();
            self.set_totals(Counts {
                directories: old.directories.into(),
                free_blocks: old.free_blocks.into(),
                free_inodes: old.free_inodes.into(),
                free_fragments: old.free_fragments.into(),
            });
        }
    }

    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    fn put_byte(&mut self, at: usize, value: u8) {
        if let Some(byte) = self.bytes.get_mut(at) {
            *byte = value;
        }
    }

    fn text(&self, at: usize, room: usize) -> &[u8] {
        let field = self.bytes.get(at..at + room).unwrap_or_default();
        field.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    fn put_text(&mut self, at: usize, room: usize, text: &[u8]) {
        if let Some(field) = self.bytes.get_mut(at..at + room) {
            field.fill(0);
            let length = text.len().min(room - 1);
            field[..length].copy_from_slice(&text[..length]);
        }
    }
}

/// Byte order and version of the superblock at the start of `bytes`, by its magic.
pub fn recognise(bytes: &[u8]) -> Option<(ByteOrder, Version)> {
    if bytes.len() < STRUCT_SIZE {
        return None;
    }
    [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| {
        match order.u32(bytes, STRUCT_SIZE - 4) {
            UFS1_MAGIC => Some((order, Version::Ufs1)),
            UFS2_MAGIC => Some((order, Version::Ufs2)),
            _ => None,
        }
    })
}

/// What newfs leaves before the superblock of UFS2, so that copies are found when it is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// As [`Superblock::fsbtodb`].
    pub fsbtodb: u32,
    /// As [`Superblock::sblkno`].
    pub sblkno: u32,
    /// As [`Superblock::fpg`].
    pub fpg: u32,
    /// As [`Superblock::ncg`].
    pub ncg: u32,
}

impl Recovery {
    /// Byte offset of the record.
    pub const PLACE: u64 = UFS2_PLACE - RECOVERY_SIZE as u64;

    /// The record in the [`RECOVERY_SIZE`] bytes at [`PLACE`](Self::PLACE), with its byte order.
    pub fn parse(bytes: &[u8]) -> Option<(ByteOrder, Recovery)> {
        let order = [ByteOrder::Little, ByteOrder::Big]
            .into_iter()
            .find(|order| order.u32(bytes, 0) == UFS2_MAGIC)?;
        let at = |index: usize| order.u32(bytes, 4 * index);
        Some((order, Recovery { fsbtodb: at(1), sblkno: at(2), fpg: at(3), ncg: at(4) }))
    }

    /// The record of a superblock, as bytes; `None` for one that has none: UFS1, and UFS2 in an unusual place.
    pub fn of(superblock: &Superblock) -> Option<[u8; RECOVERY_SIZE]> {
        if superblock.version() != Version::Ufs2 || superblock.sblockloc() != signed(UFS2_PLACE) {
            return None;
        }
        let order = superblock.order();
        let mut bytes = [0; RECOVERY_SIZE];
        order.put_u32(&mut bytes, 0, UFS2_MAGIC);
        order.put_i32(&mut bytes, 4, superblock.fsbtodb());
        order.put_i32(&mut bytes, 8, superblock.sblkno());
        order.put_i32(&mut bytes, 12, superblock.fpg());
        order.put_u32(&mut bytes, 16, superblock.ncg());
        Some(bytes)
    }

    /// Byte offset of the copy of the superblock in `group`.
    pub fn copy(&self, group: u32) -> Option<u64> {
        let fragment = u64::from(group).checked_mul(self.fpg.into())?.checked_add(self.sblkno.into())?;
        fragment.checked_mul(crate::SECTOR.checked_shl(self.fsbtodb).filter(|size| *size <= 65536)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_they_belong_in_both_orders() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut superblock = Superblock::new(order, Version::Ufs2);
            superblock.set_size(77);
            superblock.set_label(b"data");
            superblock.set_sbsize(4096);
            superblock.set_flags(SuperblockFlags::HASHES);
            superblock.set_metackhash(Hashes::ALL.bits());
            assert!(!superblock.hash_is_right());
            superblock.seal();
            let read = Superblock::parse(superblock.bytes()).expect("the magic is there");
            assert_eq!((read.order(), read.version()), (order, Version::Ufs2));
            assert_eq!((read.size(), read.label(), read.hash_is_right()), (77, b"data".as_slice(), true));
        }
    }

    #[test]
    fn what_is_too_short_or_has_no_magic_is_none() {
        let superblock = Superblock::new(ByteOrder::Little, Version::Ufs1);
        assert_eq!(Superblock::parse(&superblock.bytes()[..STRUCT_SIZE - 1]), None);
        assert_eq!(Superblock::parse(&[0; SUPERBLOCK_MAX]), None);
        assert!(Superblock::parse(&superblock.bytes()[..STRUCT_SIZE]).is_some());
    }
}
