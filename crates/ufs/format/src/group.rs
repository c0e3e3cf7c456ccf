// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cylinder groups: a header with counts, a map of inodes, a map of fragments, a map of whole free blocks with the lengths of its runs.
//!
//! In the map of inodes a set bit is one in use; in the map of fragments one that is free; in the map of blocks one that is free as a whole.
//! Bits are counted from the least significant one of each byte, in either byte order.

use fsmend_base::crc32c;
use fsmend_base::width::{index, low_u8, low_u16, low_u32};

use crate::geometry::Geometry;
use crate::order::{ByteOrder, Version, fields};
use crate::summary::Counts;
use crate::superblock::Hashes;

/// The magic of a cylinder group.
pub const GROUP_MAGIC: u32 = 0x0009_0255;
/// Bytes of the header.
pub const HEADER_SIZE: u64 = 168;

/// Where things are in a cylinder group block. FreeBSD demands exactly these places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupLayout {
    /// Map of inodes in use, and its bytes.
    pub inode_map: (u64, u64),
    /// Map of free fragments, and its bytes.
    pub fragment_map: (u64, u64),
    /// Sums of free runs by length, 4 bytes each from index 0, which is not used; 0 without cluster maps.
    pub cluster_sums: u64,
    /// Map of free blocks, and its bytes; 0 without.
    pub cluster_map: (u64, u64),
    /// End of all.
    pub end: u64,
    /// Bytes that have to fit into a block.
    pub needed: u64,
    /// UFS1: places of two tables of old, which hold nothing.
    pub old_tables: (u64, u64),
}

impl GroupLayout {
    /// The layout for `ipg` inodes, `fpg` fragments and `frag` fragments a block, with runs counted up to `cluster_max`.
    pub fn new(version: Version, (ipg, fpg, frag): (u32, u64, u64), cluster_max: u32) -> GroupLayout {
        let (old_totals, old_blocks, inode_map) = match version {
            Version::Ufs1 => (HEADER_SIZE, HEADER_SIZE + 4, HEADER_SIZE + 6),
            Version::Ufs2 => (0, 0, HEADER_SIZE),
        };
        let inode_bytes = u64::from(ipg).div_ceil(8);
        let fragment_map = inode_map + inode_bytes;
        let fragment_bytes = fpg.div_ceil(8);
        let behind = fragment_map + fragment_bytes;
        let cluster_bytes = (fpg / frag.max(1)).div_ceil(8);
        let with_clusters = cluster_max > 0;
        let sums = behind.next_multiple_of(4) - 4;
        let clusters = sums + 4 * (u64::from(cluster_max) + 1);
        // What the kernel reserves: the tables of old for one cylinder in both versions, and the end of the cluster map.
        let cluster_room = if with_clusters { 4 * u64::from(cluster_max) + cluster_bytes } else { 0 };
        let needed = HEADER_SIZE + 6 + inode_bytes + fragment_bytes + 4 + cluster_room;
        GroupLayout {
            inode_map: (inode_map, inode_bytes),
            fragment_map: (fragment_map, fragment_bytes),
            cluster_sums: if with_clusters { sums } else { 0 },
            cluster_map: if with_clusters { (clusters, cluster_bytes) } else { (0, 0) },
            end: if with_clusters { clusters + cluster_bytes } else { behind },
            needed,
            old_tables: (old_totals, old_blocks),
        }
    }

    /// Place and length of the gap behind the map of fragments. The first of the sums is not used, and lies in part in that map.
    fn map_gap(&self) -> (u64, u64) {
        let behind = self.fragment_map.0 + self.fragment_map.1;
        (behind, (self.cluster_sums + 4).saturating_sub(behind))
    }
}

/// A cylinder group block, as many bytes as are in use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CylinderGroup {
    bytes: Vec<u8>,
    order: ByteOrder,
}

impl CylinderGroup {
    /// The block with these bytes ([`Geometry::group_bytes`] of them). Whether they make sense is told by [`flaw`](Self::flaw).
    pub fn new(bytes: Vec<u8>, order: ByteOrder) -> CylinderGroup {
        CylinderGroup { bytes, order }
    }

    /// A new block for a group: constants and places are set, all inodes are free, no fragment is.
    pub fn empty(geometry: &Geometry, group: u32) -> CylinderGroup {
        let length = usize::try_from(geometry.group_bytes).unwrap_or(0);
        let mut made = CylinderGroup { bytes: vec![0; length], order: geometry.order };
        made.set_magic(GROUP_MAGIC);
        made.set_cgx(group);
        made.set_ndblk(low_u32(geometry.group_length(group)));
        let layout = &geometry.layout;
        match geometry.version {
            Version::Ufs1 => {
                made.set_old_ncyl(1);
                made.set_old_niblk(low_u16(geometry.group_inodes.into()));
                made.set_old_btotoff(low_u32(layout.old_tables.0));
                made.set_old_boff(low_u32(layout.old_tables.1));
            }
            Version::Ufs2 => {
                made.set_niblk(geometry.group_inodes);
                made.set_initediblk(geometry.group_inodes.min(2 * geometry.block_inodes));
            }
        }
        made.set_iusedoff(low_u32(layout.inode_map.0));
        made.set_freeoff(low_u32(layout.fragment_map.0));
        made.set_nextfreeoff(low_u32(layout.end));
        if geometry.cluster_max > 0 {
            made.set_clustersumoff(low_u32(layout.cluster_sums));
            made.set_clusteroff(low_u32(layout.cluster_map.0));
            made.set_nclusterblks(low_u32(geometry.group_length(group) / geometry.fragments));
        }
        made
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fields! {
        /// The magic.
        magic set_magic u32 put_u32 u32 4;
        /// UFS1: time of the last write, seconds.
        old_time set_old_time u32 put_u32 u32 8;
        /// The number of the group.
        cgx set_cgx u32 put_u32 u32 12;
        /// UFS1: cylinders, 1.
        old_ncyl set_old_ncyl u16 put_u16 u16 16;
        /// UFS1: inodes.
        old_niblk set_old_niblk u16 put_u16 u16 18;
        /// Fragments.
        ndblk set_ndblk u32 put_u32 u32 20;
        /// Position of the search for free blocks.
        rotor set_rotor u32 put_u32 u32 40;
        /// Position of the search for free fragments.
        frotor set_frotor u32 put_u32 u32 44;
        /// Position of the search for free inodes.
        irotor set_irotor u32 put_u32 u32 48;
        /// UFS1: place of a table of old.
        old_btotoff set_old_btotoff u32 put_u32 u32 84;
        /// UFS1: place of a table of old.
        old_boff set_old_boff u32 put_u32 u32 88;
        /// Place of the map of inodes.
        iusedoff set_iusedoff u32 put_u32 u32 92;
        /// Place of the map of fragments.
        freeoff set_freeoff u32 put_u32 u32 96;
        /// Place behind all.
        nextfreeoff set_nextfreeoff u32 put_u32 u32 100;
        /// Place of the sums of free runs.
        clustersumoff set_clustersumoff u32 put_u32 u32 104;
        /// Place of the map of blocks.
        clusteroff set_clusteroff u32 put_u32 u32 108;
        /// Blocks in the map of blocks.
        nclusterblks set_nclusterblks u32 put_u32 u32 112;
        /// UFS2: inodes.
        niblk set_niblk u32 put_u32 u32 116;
        /// UFS2: inodes that were ever written.
        initediblk set_initediblk u32 put_u32 u32 120;
        /// Inodes without a name that are still open.
        unrefs set_unrefs u32 put_u32 u32 124;
        /// Check hash.
        ckhash set_ckhash u32 put_u32 u32 132;
        /// UFS2: time of the last write, seconds.
        time set_time i64 put_i64 i64 136;
    }

    /// Counts of what is in the group.
    pub fn counts(&self) -> Counts<i32> {
        Counts::parse(self.bytes.get(24..).unwrap_or_default(), self.order)
    }

    /// Sets [`counts`](Self::counts).
    pub fn set_counts(&mut self, counts: Counts<i32>) {
        if let Some(place) = self.bytes.get_mut(24..) {
            counts.store(place, self.order);
        }
    }

    /// How many runs of exactly `length` (1 to 7) free fragments there are in blocks that are in use in part.
    pub fn fragment_sum(&self, length: usize) -> i32 {
        if length < 8 { self.order.i32(&self.bytes, 52 + 4 * length) } else { 0 }
    }

    /// Sets [`fragment_sum`](Self::fragment_sum).
    pub fn set_fragment_sum(&mut self, length: usize, count: i32) {
        if length < 8 {
            self.order.put_i32(&mut self.bytes, 52 + 4 * length, count);
        }
    }

    /// Inodes that were ever written: all of UFS1, the first ones of UFS2.
    pub fn initialised(&self, geometry: &Geometry) -> u32 {
        match geometry.version {
            Version::Ufs1 => geometry.group_inodes,
            Version::Ufs2 => self.initediblk().min(geometry.group_inodes),
        }
    }

    /// The map of inodes.
    pub fn inode_map(&self, layout: &GroupLayout) -> &[u8] {
        self.part(layout.inode_map)
    }

    /// The map of inodes, to be changed.
    pub fn inode_map_mut(&mut self, layout: &GroupLayout) -> &mut [u8] {
        self.part_mut(layout.inode_map)
    }

    /// The map of fragments.
    pub fn fragment_map(&self, layout: &GroupLayout) -> &[u8] {
        self.part(layout.fragment_map)
    }

    /// The map of fragments, to be changed.
    pub fn fragment_map_mut(&mut self, layout: &GroupLayout) -> &mut [u8] {
        self.part_mut(layout.fragment_map)
    }

    /// The map of free blocks; empty where there is none.
    pub fn cluster_map(&self, layout: &GroupLayout) -> &[u8] {
        self.part(layout.cluster_map)
    }

    /// The map of free blocks, to be changed.
    pub fn cluster_map_mut(&mut self, layout: &GroupLayout) -> &mut [u8] {
        self.part_mut(layout.cluster_map)
    }

    /// The bytes between the map of fragments and the sums of free runs, at most three, which hold nothing.
    pub fn map_gap(&self, layout: &GroupLayout) -> &[u8] {
        self.part(layout.map_gap())
    }

    /// Clears [`map_gap`](Self::map_gap).
    pub fn clear_map_gap(&mut self, layout: &GroupLayout) {
        self.part_mut(layout.map_gap()).fill(0);
    }

    /// How many runs of `length` free blocks there are; the last counted length stands for all longer ones.
    pub fn cluster_sum(&self, layout: &GroupLayout, length: u32) -> i32 {
        match layout.cluster_sums {
            0 => 0,
            sums => self.order.i32(&self.bytes, index(sums).saturating_add(4 * length as usize)),
        }
    }

    /// Sets [`cluster_sum`](Self::cluster_sum). `length` is 1 at least: what would be the first sum is the end of another map.
    pub fn set_cluster_sum(&mut self, layout: &GroupLayout, length: u32, count: i32) {
        if layout.cluster_sums != 0 && length > 0 {
            self.order.put_i32(
                &mut self.bytes,
                index(layout.cluster_sums).saturating_add(4 * length as usize),
                count,
            );
        }
    }

    fn part(&self, (at, length): (u64, u64)) -> &[u8] {
        self.bytes.get(index(at)..index(at.saturating_add(length))).unwrap_or_default()
    }

    fn part_mut(&mut self, (at, length): (u64, u64)) -> &mut [u8] {
        self.bytes.get_mut(index(at)..index(at.saturating_add(length))).unwrap_or_default()
    }

    /// What the check hash should be.
    pub fn computed_hash(&self) -> u32 {
        let (before, rest) = self.bytes.split_at(self.bytes.len().min(132));
        crc32c(crc32c(crc32c(!0, before), &[0; 4]), rest.get(4..).unwrap_or_default())
    }

    /// Whether its check hash is right, or it has none.
    pub fn hash_is_right(&self, geometry: &Geometry) -> bool {
        !geometry.hashes.contains(Hashes::GROUPS) || self.ckhash() == self.computed_hash()
    }

    /// Puts the right check hash, if it has one.
    pub fn seal(&mut self, geometry: &Geometry) {
        if geometry.hashes.contains(Hashes::GROUPS) {
            self.set_ckhash(self.computed_hash());
        }
    }

    /// The header as it has to be: what only this group knows stays, positions of searches begin anew where they lead out of the group, everything else has one value.
    pub fn normalised(&self, geometry: &Geometry, group: u32) -> CylinderGroup {
        let mut made = self.clone();
        let fresh = CylinderGroup::empty(geometry, group);
        // Counts, positions and sums (24 to 84), inodes written, inodes without a name, the hash and the times are the group's own.
        for (from, until) in [(0, 8), (16, 24), (52, 56), (84, 120), (128, 132), (144, 168)] {
            if let (Some(to), Some(from)) = (made.bytes.get_mut(from..until), fresh.bytes.get(from..until)) {
                to.copy_from_slice(from);
            }
        }
        let length = made.ndblk();
        if made.rotor() >= length {
            made.set_rotor(0);
        }
        if made.frotor() >= length {
            made.set_frotor(0);
        }
        if made.irotor() >= geometry.group_inodes {
            made.set_irotor(0);
        }
        made
    }

    /// The first field that does not hold what group `group` has to have there, hash apart: its name in FreeBSD's header without `cg_`, what it holds and what it should.
    pub fn flaw(&self, geometry: &Geometry, group: u32) -> Option<(&'static str, u64, u64)> {
        let expected = CylinderGroup::empty(geometry, group);
        let mut fields = vec![
            ("magic", self.magic(), expected.magic()),
            ("cgx", self.cgx(), expected.cgx()),
            ("ndblk", self.ndblk(), expected.ndblk()),
            ("iusedoff", self.iusedoff(), expected.iusedoff()),
            ("freeoff", self.freeoff(), expected.freeoff()),
            ("nextfreeoff", self.nextfreeoff(), expected.nextfreeoff()),
        ];
        match geometry.version {
            Version::Ufs1 => fields.extend([
                ("old_ncyl", self.old_ncyl().into(), expected.old_ncyl().into()),
                ("old_niblk", self.old_niblk().into(), expected.old_niblk().into()),
                ("old_btotoff", self.old_btotoff(), expected.old_btotoff()),
                ("old_boff", self.old_boff(), expected.old_boff()),
                ("niblk", self.niblk(), 0),
                ("initediblk", self.initediblk(), 0),
            ]),
            Version::Ufs2 => fields.extend([
                ("niblk", self.niblk(), expected.niblk()),
                ("initediblk", self.initediblk(), self.initediblk().min(geometry.group_inodes)),
            ]),
        }
        if geometry.cluster_max > 0 {
            fields.extend([
                ("clustersumoff", self.clustersumoff(), expected.clustersumoff()),
                ("clusteroff", self.clusteroff(), expected.clusteroff()),
                ("nclusterblks", self.nclusterblks(), expected.nclusterblks()),
            ]);
        }
        let (field, stored, expected) =
            fields.into_iter().find(|(_, stored, expected)| stored != expected)?;
        Some((field, stored.into(), expected.into()))
    }
}

/// Whether bit `index` of a map is set.
#[inline]
pub fn bit(map: &[u8], index: u64) -> bool {
    usize::try_from(index / 8)
        .ok()
        .and_then(|at| map.get(at))
        .is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}

/// Sets or clears bit `index` of a map.
#[inline]
pub fn set_bit(map: &mut [u8], index: u64, value: bool) {
    if let Some(byte) = usize::try_from(index / 8).ok().and_then(|at| map.get_mut(at)) {
        let mask = 1 << (index % 8);
        *byte = if value { *byte | mask } else { *byte & !mask };
    }
}

/// Sets a run of bits of a map.
fn set_bits(map: &mut [u8], (first, count): (u64, u64)) {
    let (mut at, end) = (first, first + count);
    while at < end {
        match map.get_mut(index(at / 8)).filter(|_| at % 8 == 0 && end - at >= 8) {
            Some(byte) => {
                *byte = 0xFF;
                at += 8;
            }
            None => {
                set_bit(map, at, true);
                at += 1;
            }
        }
    }
}

/// What a map of free fragments adds up to.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FragmentSums {
    /// Blocks that are free as a whole.
    pub free_blocks: u32,
    /// Free fragments of other blocks.
    pub free_fragments: u32,
    /// Runs of free fragments in other blocks, by length 1 to 7.
    pub runs: [u32; 8],
    /// Runs of free blocks, by length from 1; the last entry counts all longer ones.
    pub clusters: Vec<u32>,
}

impl FragmentSums {
    /// Adds up the first `length` fragments of `map`, in blocks of `fragments`, with runs of blocks counted up to `cluster_max`. `blocks` becomes the map of blocks that are free, as far as
    /// there is room in it.
    pub fn of(
        map: &[u8],
        (length, fragments): (u64, u64),
        cluster_max: u32,
        blocks: &mut [u8],
    ) -> FragmentSums {
        let mut sums =
            FragmentSums { clusters: vec![0; cluster_max as usize + 1], ..FragmentSums::default() };
        blocks.fill(0);
        let fragments = fragments.max(1);
        let full = low_u8((1 << fragments) - 1);
        let (per_byte, per_word) = (8 / fragments, 64 / fragments);
        let words = map.as_chunks::<8>().0;
        let count = length.div_ceil(fragments);
        let (mut index, mut run) = (0, 0);
        while index < count {
            // As a rule many blocks in a row are all free or all in use.
            let is_whole_word = index % per_word == 0 && (index + per_word) * fragments <= length;
            match words.get(self::index(index / per_word)).filter(|_| is_whole_word) {
                Some([0, 0, 0, 0, 0, 0, 0, 0]) => {
                    sums.end_run(&mut run, index, blocks);
                    index += per_word;
                    continue;
                }
                Some([0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]) => {
                    run += per_word;
                    index += per_word;
                    continue;
                }
                _ => {}
            }
            let byte = map.get(self::index(index / per_byte)).copied().unwrap_or(0);
            let bits = byte >> ((index % per_byte) * fragments) & full;
            let is_whole = (index + 1) * fragments <= length;
            if bits == full && is_whole {
                run += 1;
            } else {
                sums.end_run(&mut run, index, blocks);
                sums.add_partial(bits);
            }
            index += 1;
        }
        sums.end_run(&mut run, count, blocks);
        sums
    }

    /// Counts a run of free blocks that ends before block `end`.
    fn end_run(&mut self, run: &mut u64, end: u64, blocks: &mut [u8]) {
        if *run == 0 {
            return;
        }
        self.free_blocks += low_u32(*run);
        set_bits(blocks, (end - *run, *run));
        let most = self.clusters.len().saturating_sub(1);
        if most > 0 {
            self.clusters[self::index(*run).min(most)] += 1;
        }
        *run = 0;
    }

    fn add_partial(&mut self, bits: u8) {
        self.free_fragments += bits.count_ones();
        let mut rest = bits;
        while rest != 0 {
            rest >>= rest.trailing_zeros();
            let length = rest.trailing_ones();
            self.runs[length.min(7) as usize] += 1;
            rest = rest.checked_shr(length).unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_add_up() {
        // Blocks of four fragments: free, free, the second and fourth free, used; of the last block only two fragments exist, both free.
        let map = [0b1111_1111, 0b0000_1010, 0b0000_0011];
        let mut free = [0];
        let sums = FragmentSums::of(&map, (18, 4), 2, &mut free);
        assert_eq!((sums.free_blocks, sums.free_fragments, free), (2, 4, [0b11]));
        assert_eq!((sums.runs[1], sums.runs[2], sums.clusters), (2, 1, vec![0, 0, 1]));
    }

    /// Whole words are not looked at block by block: the sums are those of all shifts and lengths.
    #[test]
    fn long_runs_add_up_as_short_ones_do() {
        let mut random = fsmend_base::SeededRandom::new(3);
        for fragments in [1, 2, 4, 8] {
            for length in [0, 1, 63, 64, 129, 511, 640, 1000] {
                let mut map = [0; 125];
                // Runs of bytes, some of them long.
                let mut at = 0;
                while at < map.len() {
                    let next = (at + 1 + random.below(30) as usize).min(map.len());
                    let byte = [0, 0xFF, random.next_u64() as u8][random.below(3) as usize];
                    map[at..next].fill(byte);
                    at = next;
                }
                let is_free = |block: u64| {
                    (block + 1) * fragments <= length
                        && (block * fragments..(block + 1) * fragments).all(|index| bit(&map, index))
                };
                let count = length.div_ceil(fragments);
                let (mut free, mut runs, mut run) = ([0; 125], 0, 0);
                for block in 0..=count {
                    if block < count && is_free(block) {
                        set_bit(&mut free, block, true);
                        run += 1;
                    } else {
                        runs += u32::from(run > 0);
                        run = 0;
                    }
                }
                let mut found = [0x55; 125];
                let sums = FragmentSums::of(&map, (length, fragments), 5, &mut found);
                assert_eq!(found, free, "{fragments} {length}");
                assert_eq!(sums.clusters.iter().sum::<u32>(), runs, "{fragments} {length}");
                let whole = free.iter().map(|byte: &u8| byte.count_ones()).sum();
                assert_eq!(sums.free_blocks, whole, "{fragments} {length}");
            }
        }
    }

    #[test]
    fn the_layout_of_a_group_made_by_newfs() {
        // newfs -O2 -b 4096 -f 512: fpg 8200? The places follow from the counts alone.
        let layout = GroupLayout::new(Version::Ufs2, (1024, 4104, 8), 16);
        assert_eq!(layout.inode_map, (168, 128));
        assert_eq!(layout.fragment_map, (296, 513));
        assert_eq!(layout.cluster_sums, 808);
        assert_eq!(layout.cluster_map, (876, 65));
        assert_eq!(layout.end, 941);
        let old = GroupLayout::new(Version::Ufs1, (1024, 4104, 8), 0);
        assert_eq!((old.inode_map.0, old.old_tables, old.end), (174, (168, 172), 174 + 128 + 513));
    }
}
