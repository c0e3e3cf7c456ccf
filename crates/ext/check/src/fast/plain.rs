// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fast path for the plainest inode records, which most are: a file or directory of at most one extent, without attributes and
//! with nothing unusual. It is the fast path in [`inode`](super::inode) for this one shape, a word at a time: what it calls clean
//! that would call clean, too, with the same facts; of all else it says nothing.

use fsmend_base::width;
use fsmend_engine::inodes::Kind;
use fsmend_ext_format::inode::{InodeFlags, mode};
use fsmend_ext_format::xattr::XATTR_MAGIC;

use super::inode::{BENIGN_FLAGS, EXTENT_MAGIC, EXTENT_WRITTEN_MAX, InodeFastPath, Nearby};
use crate::inode::MapRun;

/// Words of a record that are looked at: those that the format names, and the one behind the extra fields of today's kernels.
const WORDS: usize = 21;
/// Records have to be so long.
pub(super) const RECORD_BYTES: usize = WORDS * 8;
/// What today's kernels store as the length of the extra fields.
const EXTRA: u64 = 32;
/// The header of a map without a level below it, when it has no entry, and where it counts them.
const ROOT: u64 = 4 << 32 | EXTENT_MAGIC as u64;
const ONE_ENTRY: u64 = 1 << 16;
/// Flags of plain records.
const PLAIN_FLAGS: InodeFlags = BENIGN_FLAGS.union(InodeFlags::IMMUTABLE).union(InodeFlags::APPEND);

/// The facts of a plain inode, few enough to stay in registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plain {
    /// A file or a directory.
    pub kind: Kind,
    /// Stored link count.
    pub links: u16,
    /// Generation, which seeds the checksums of its blocks.
    pub generation: u32,
    /// `i_flags`.
    pub flags: InodeFlags,
    /// Its first block; they follow one another.
    pub start: u64,
    /// Its blocks, of which there may be none.
    pub count: u32,
}

impl Plain {
    /// The map, if it has blocks.
    pub fn run(&self) -> Option<MapRun> {
        let Plain { start, count, .. } = *self;
        (count > 0).then_some(MapRun { logical: 0, physical: start, count, unwritten: false })
    }
}

impl InodeFastPath<'_> {
    /// Clears `record` if it is as plain as can be. The checksum, and that the inode is not a special one
    /// ([`may_be_plain`](Self::may_be_plain)), are the caller's to know.
    #[inline]
    pub fn summarize_plain(&self, record: &[u8], nearby: &mut Nearby) -> Option<Plain> {
        let words = record.as_chunks::<8>().0.first_chunk::<WORDS>()?;
        let word = |offset: usize| u64::from_le_bytes(words[offset / 8]);
        let flags = InodeFlags::from_bits_retain(width::low_u32(word(0x20)));
        let root = word(0x28);
        let epochs = word(0x80) >> 32 | word(0x88) | word(0x88) >> 32 | word(0x90) >> 32;
        // Deletion time, attribute block, the fragment's address with the high halves of blocks and attribute block, all 0.
        let odd = word(0x10) >> 32
            | word(0x68) & 0xFFFF_FFFF
            | word(0x70)
            | epochs & 3
            | (word(0x80) & 0xFFFF ^ EXTRA)
            | (root & !ONE_ENTRY ^ ROOT)
            | u64::from((flags & !PLAIN_FLAGS ^ InodeFlags::EXTENTS).bits());
        let links = width::low_u16(word(0x18) >> 16);
        let kind = match width::low_u16(word(0)) & mode::TYPE_MASK {
            mode::REGULAR => Kind::Regular,
            mode::DIRECTORY => Kind::Directory,
            _ => return None,
        };
        if odd != 0 || links == 0 || width::low_u32(word(0xA0)) == XATTR_MAGIC {
            return None;
        }
        let sectors = word(0x18) >> 32;
        let size = word(0) >> 32 | word(0x68) >> 32 << 32;
        let (mut start, mut count) = (0, 0);
        if root & ONE_ENTRY != 0 {
            let (logical, extent) = (word(0x30) >> 32, word(0x38));
            (start, count) = (extent >> 32 | (extent >> 16 & 0xFFFF) << 32, width::low_u16(extent));
            if logical != 0
                || count == 0
                || count > EXTENT_WRITTEN_MAX
                || !self.is_free_nearby(nearby.of(kind), start, count.into())
            {
                return None;
            }
        }
        let mapped = u64::from(count);
        if sectors != mapped * self.sectors_per_block || !self.size_fits(kind, size, mapped, mapped, true) {
            return None;
        }
        let generation = (word(0x60) >> 32) as u32;
        Some(Plain { kind, links, generation, flags, start, count: count.into() })
    }
}

#[cfg(test)]
mod tests {
    use fsmend_base::SeededRandom;
    use fsmend_ext_format::inode::RawInode;

    use super::*;
    use crate::fast::inode::InodeSummary;
    use crate::inode::testing::{Bench, FILE, FIRST_FREE};

    /// A file and a directory of one extent, and a file without blocks.
    fn records(bench: &Bench) -> [Vec<u8>; 3] {
        let record = |mode: u16, blocks: u16| {
            let mut raw = RawInode::from_record(&[0; 256]);
            raw.i_mode.set(mode);
            raw.i_links_count.set(1);
            raw.set_flags(InodeFlags::EXTENTS);
            raw.i_extra_isize.set(32);
            raw.i_blocks_lo.set(u32::from(blocks) * 2);
            raw.set_size(u64::from(blocks) * 1024);
            raw.i_block[..8].copy_from_slice(&(ROOT | u64::from(blocks > 0) << 16).to_le_bytes());
            let extent = u64::from(blocks) | u64::from(FIRST_FREE + 10) << 32;
            raw.i_block[16..24].copy_from_slice(&extent.to_le_bytes());
            bench.record(FILE, &raw)
        };
        [record(mode::REGULAR | 0o644, 3), record(mode::DIRECTORY | 0o755, 1), record(mode::REGULAR, 0)]
    }

    /// Proves `record` both ways; returns whether it is plain.
    fn compare(fast_path: &InodeFastPath<'_>, record: &[u8]) -> bool {
        let Some(plain) = fast_path.summarize_plain(record, &mut Nearby::default()) else { return false };
        let raw = RawInode::from_record(record);
        assert_eq!(raw.i_dtime.get(), 0);
        assert_ne!(raw.i_links_count.get(), 0);
        let mut full = InodeSummary::default();
        assert_eq!(fast_path.summarize_in_use(&raw, record, &mut full), Some(()), "{raw:?}");
        let Plain { kind, links, generation, flags, count, .. } = plain;
        assert_eq!((full.kind, full.links, full.generation), (kind, links, generation));
        assert_eq!((full.flags, full.charged_blocks, full.xattr_block), (flags, count.into(), 0));
        assert!(!full.needs_walk);
        assert_eq!(full.runs, plain.run().as_slice());
        true
    }

    #[test]
    fn whatever_is_plain_passes_the_fast_path_in_the_same_way() {
        let bench = Bench::new();
        let fs = bench.fs();
        let fast_path = InodeFastPath::new(&fs);
        let mut random = SeededRandom::new(11);
        for record in records(&bench) {
            assert!(compare(&fast_path, &record));
            let bits = record.len() as u64 * 8;
            let flipped = |bits: &[u64]| {
                let mut record = record.clone();
                bits.iter().for_each(|bit| record[(bit / 8) as usize] ^= 1 << (bit % 8));
                record
            };
            let plain = (0..bits).filter(|bit| compare(&fast_path, &flipped(&[*bit]))).count();
            assert!((1000..2000).contains(&plain), "{plain} of {bits} bits do not matter");
            for _ in 0..20_000 {
                compare(&fast_path, &flipped(&[random.below(bits), random.below(bits), random.below(bits)]));
            }
        }
    }
}
