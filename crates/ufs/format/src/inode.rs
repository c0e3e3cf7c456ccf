// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inodes of both versions, and the way from a block of a file to its pointer.

use bitflags::bitflags;
use fsmend_base::crc32c_of_record_without;
use fsmend_base::width;

use crate::geometry::DIRECT;
use crate::order::{ByteOrder, Version};

/// Bits of the mode.
pub mod mode {
    /// The type.
    pub const TYPE: u16 = 0o170_000;
    /// Named pipe.
    pub const PIPE: u16 = 0o010_000;
    /// Character device.
    pub const CHARACTER: u16 = 0o020_000;
    /// Directory.
    pub const DIRECTORY: u16 = 0o040_000;
    /// Block device.
    pub const BLOCK: u16 = 0o060_000;
    /// Regular file.
    pub const REGULAR: u16 = 0o100_000;
    /// Symbolic link.
    pub const LINK: u16 = 0o120_000;
    /// Socket.
    pub const SOCKET: u16 = 0o140_000;
    /// Whiteout: stands in directories, never in an inode.
    pub const WHITEOUT: u16 = 0o160_000;
}

bitflags! {
    /// Flags of an inode that matter here. The low half is the owner's, the high half the superuser's.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct InodeFlags: u32 {
        /// Not to be dumped.
        const NO_DUMP = 0x1;
        /// Cannot be changed, says the owner.
        const USER_IMMUTABLE = 0x2;
        /// Can only be appended to, says the owner.
        const USER_APPEND = 0x4;
        /// Archived.
        const ARCHIVED = 0x1_0000;
        /// Cannot be changed.
        const IMMUTABLE = 0x2_0000;
        /// Can only be appended to.
        const APPEND = 0x4_0000;
        /// Cannot be removed.
        const NO_UNLINK = 0x10_0000;
        /// A snapshot of the file system.
        const SNAPSHOT = 0x20_0000;
        // All other bits: they are kept.
        const _ = !0;
    }
}

/// Largest link count.
pub const LINKS_MAX: u16 = 65500;
/// Pointers of an inode to indirect blocks: single, double, triple.
pub const INDIRECT: usize = 3;
/// All of them.
#[expect(clippy::cast_possible_truncation, reason = "twelve")]
pub const POINTERS: usize = DIRECT as usize + INDIRECT;
/// Pointers of a UFS2 inode to blocks of extended attributes.
pub const ATTRIBUTE_BLOCKS: usize = 2;

/// Where the fields of a version are.
struct Places {
    uid: usize,
    gid: usize,
    size: usize,
    blocks: usize,
    direct: usize,
    depth: usize,
    generation: usize,
    flags: usize,
    /// Access, modification, change: seconds and nanoseconds; creation in UFS2.
    times: [(usize, usize); 4],
}

const UFS1: Places = Places {
    uid: 112,
    gid: 116,
    size: 8,
    blocks: 104,
    direct: 40,
    depth: 4,
    generation: 108,
    flags: 100,
    times: [(16, 20), (24, 28), (32, 36), (usize::MAX, usize::MAX)],
};

/// UFS2: where the check hash is stored.
const HASH: usize = 244;

const UFS2: Places = Places {
    uid: 4,
    gid: 8,
    size: 16,
    blocks: 24,
    direct: 112,
    depth: 240,
    generation: 80,
    flags: 88,
    times: [(32, 68), (40, 64), (48, 72), (56, 76)],
};

/// A time of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stamp {
    /// Last access.
    Access,
    /// Last modification of the contents.
    Modification,
    /// Last change of the inode.
    Change,
    /// Creation; UFS2 only.
    Creation,
}

/// The bytes of an inode with names: `B` is a slice that is read, a mutable one, or a vector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inode<B> {
    bytes: B,
    order: ByteOrder,
    version: Version,
}

impl<B: AsRef<[u8]>> Inode<B> {
    /// The inode in `bytes`, which are [`Version::inode_size`] long; missing bytes read as zeroes.
    #[inline]
    pub fn new(bytes: B, order: ByteOrder, version: Version) -> Inode<B> {
        Inode { bytes, order, version }
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Gives its bytes back.
    pub fn into_bytes(self) -> B {
        self.bytes
    }

    #[inline]
    fn places(&self) -> &'static Places {
        match self.version {
            Version::Ufs1 => &UFS1,
            Version::Ufs2 => &UFS2,
        }
    }

    #[inline]
    fn u32(&self, at: usize) -> u32 {
        self.order.u32(self.bytes(), at)
    }

    /// Type and permissions. 0: not in use.
    #[inline]
    pub fn mode(&self) -> u16 {
        self.order.u16(self.bytes(), 0)
    }

    /// The bits of [`mode`] that tell the type.
    #[inline]
    pub fn file_type(&self) -> u16 {
        self.mode() & mode::TYPE
    }

    /// Link count.
    #[inline]
    pub fn links(&self) -> u16 {
        self.order.u16(self.bytes(), 2)
    }

    /// Owner.
    pub fn uid(&self) -> u32 {
        self.u32(self.places().uid)
    }

    /// Group of the owner.
    pub fn gid(&self) -> u32 {
        self.u32(self.places().gid)
    }

    /// Size in bytes.
    #[inline]
    pub fn size(&self) -> u64 {
        self.order.u64(self.bytes(), self.places().size)
    }

    /// Sectors of 512 bytes that it holds: data, indirect blocks, attributes.
    #[inline]
    pub fn sectors(&self) -> u64 {
        match self.version {
            Version::Ufs1 => self.u32(UFS1.blocks).into(),
            Version::Ufs2 => self.order.u64(self.bytes(), UFS2.blocks),
        }
    }

    /// See [`InodeFlags`].
    #[inline]
    pub fn flags(&self) -> InodeFlags {
        InodeFlags::from_bits_retain(self.u32(self.places().flags))
    }

    /// Generation: changes when the inode is used anew.
    pub fn generation(&self) -> u32 {
        self.u32(self.places().generation)
    }

    /// Of a directory: how far it is below the root, 0 for the root and where it is not kept. Of an inode without a name: the next one in the journal's list.
    pub fn depth(&self) -> u32 {
        self.u32(self.places().depth)
    }

    /// A count of changes; of the journal the time of the mount that it belongs to.
    pub fn modification_count(&self) -> u64 {
        match self.version {
            Version::Ufs1 => self.order.u64(self.bytes(), 120),
            Version::Ufs2 => self.order.u64(self.bytes(), 232),
        }
    }

    /// A time: seconds since 1970 and nanoseconds. Zeroes where the version does not keep it.
    pub fn time(&self, which: Stamp) -> (i64, u32) {
        let (seconds, nanoseconds) = self.places().times[which as usize];
        let seconds = match self.version {
            Version::Ufs1 => self.order.i32(self.bytes(), seconds).into(),
            Version::Ufs2 => self.order.i64(self.bytes(), seconds),
        };
        (seconds, self.u32(nanoseconds))
    }

    /// Pointer `index` of the 12 to data and, from 12 on, the 3 to indirect blocks. 0 is a hole.
    #[inline]
    pub fn pointer(&self, index: usize) -> u64 {
        match self.version {
            Version::Ufs1 => self.u32(UFS1.direct + 4 * index).into(),
            Version::Ufs2 => self.order.u64(self.bytes(), UFS2.direct + 8 * index),
        }
    }

    /// Whether all pointers from `first` on are 0.
    #[inline]
    pub fn ends_before(&self, first: usize) -> bool {
        let size = self.version.pointer_size();
        let (start, all) = (self.places().direct, POINTERS);
        let behind = self.bytes().get(start + first.min(all) * size..start + all * size).unwrap_or_default();
        let (words, rest) = behind.as_chunks::<8>();
        // Zero is zero in either byte order.
        words.iter().fold(0, |bits, word| bits | u64::from_ne_bytes(*word)) == 0
            && rest.iter().all(|byte| *byte == 0)
    }

    /// All pointers, as [`pointer`](Self::pointer) counts them.
    #[inline]
    pub fn pointers(&self) -> [u64; POINTERS] {
        let stored = self.bytes().get(self.places().direct..).unwrap_or_default();
        let mut pointers = [0; POINTERS];
        // One loop for each, which the compiler turns into a few wide loads.
        match (self.version, self.order) {
            (Version::Ufs1, ByteOrder::Little) => {
                fill(&mut pointers, stored, |at| u32::from_le_bytes(at).into())
            }
            (Version::Ufs1, ByteOrder::Big) => {
                fill(&mut pointers, stored, |at| u32::from_be_bytes(at).into())
            }
            (Version::Ufs2, ByteOrder::Little) => fill(&mut pointers, stored, u64::from_le_bytes),
            (Version::Ufs2, ByteOrder::Big) => fill(&mut pointers, stored, u64::from_be_bytes),
        }
        pointers
    }

    /// Device number of a device, as it is stored.
    pub fn device(&self) -> u64 {
        self.pointer(0)
    }

    /// Bytes of extended attributes; 0 in UFS1.
    #[inline]
    pub fn attributes_size(&self) -> u32 {
        match self.version {
            Version::Ufs1 => 0,
            Version::Ufs2 => self.u32(92),
        }
    }

    /// Pointer `index` of the 2 to blocks of extended attributes; 0 in UFS1.
    #[inline]
    pub fn attribute_block(&self, index: usize) -> u64 {
        match self.version {
            Version::Ufs1 => 0,
            Version::Ufs2 => self.order.u64(self.bytes(), 96 + 8 * index),
        }
    }

    /// The place of the target of a short symbolic link: what else holds the pointers.
    pub fn short_link(&self) -> &[u8] {
        let at = self.places().direct;
        self.bytes().get(at..at + self.version.short_link_max() as usize).unwrap_or_default()
    }

    /// UFS2: the stored check hash.
    pub fn hash(&self) -> u32 {
        self.u32(HASH)
    }

    /// UFS2: what the check hash should be.
    #[inline]
    pub fn computed_hash(&self) -> u32 {
        let record = self.bytes().first_chunk::<256>();
        record.map_or(0, |record| crc32c_of_record_without::<{ HASH / 4 }, 256>(!0, record))
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Inode<B> {
    fn put_u32(&mut self, at: usize, value: u32) {
        self.order.put_u32(self.bytes.as_mut(), at, value);
    }

    /// Sets [`mode`](Self::mode).
    pub fn set_mode(&mut self, value: u16) {
        self.order.put_u16(self.bytes.as_mut(), 0, value);
    }

    /// Sets [`links`](Self::links).
    pub fn set_links(&mut self, value: u16) {
        self.order.put_u16(self.bytes.as_mut(), 2, value);
    }

    /// Sets [`uid`](Self::uid).
    pub fn set_uid(&mut self, value: u32) {
        self.put_u32(self.places().uid, value);
    }

    /// Sets [`gid`](Self::gid).
    pub fn set_gid(&mut self, value: u32) {
        self.put_u32(self.places().gid, value);
    }

    /// Sets [`size`](Self::size).
    pub fn set_size(&mut self, value: u64) {
        let at = self.places().size;
        self.order.put_u64(self.bytes.as_mut(), at, value);
    }

    /// Sets [`sectors`](Self::sectors). UFS1 has 32 bits for them.
    pub fn set_sectors(&mut self, value: u64) {
        match self.version {
            Version::Ufs1 => self.put_u32(UFS1.blocks, u32::try_from(value).unwrap_or(u32::MAX)),
            Version::Ufs2 => self.order.put_u64(self.bytes.as_mut(), UFS2.blocks, value),
        }
    }

    /// Sets [`flags`](Self::flags).
    pub fn set_flags(&mut self, value: InodeFlags) {
        self.put_u32(self.places().flags, value.bits());
    }

    /// Sets [`generation`](Self::generation).
    pub fn set_generation(&mut self, value: u32) {
        self.put_u32(self.places().generation, value);
    }

    /// Sets [`depth`](Self::depth).
    pub fn set_depth(&mut self, value: u32) {
        self.put_u32(self.places().depth, value);
    }

    /// Sets [`modification_count`](Self::modification_count).
    pub fn set_modification_count(&mut self, value: u64) {
        let at = if self.version == Version::Ufs1 { 120 } else { 232 };
        self.order.put_u64(self.bytes.as_mut(), at, value);
    }

    /// Sets a [`time`](Self::time). UFS1 keeps 32 bits of the seconds, and no time of creation.
    pub fn set_time(&mut self, which: Stamp, (seconds, nanoseconds): (i64, u32)) {
        let (at, at_nanoseconds) = self.places().times[which as usize];
        match self.version {
            Version::Ufs1 => {
                let clamped = i32::try_from(seconds).unwrap_or(if seconds < 0 { i32::MIN } else { i32::MAX });
                self.order.put_i32(self.bytes.as_mut(), at, clamped);
            }
            Version::Ufs2 => self.order.put_i64(self.bytes.as_mut(), at, seconds),
        }
        self.put_u32(at_nanoseconds, nanoseconds);
    }

    /// Sets a [`pointer`](Self::pointer). UFS1 has 32 bits for it.
    pub fn set_pointer(&mut self, index: usize, value: u64) {
        match self.version {
            Version::Ufs1 => self.put_u32(UFS1.direct + 4 * index, u32::try_from(value).unwrap_or(0)),
            Version::Ufs2 => self.order.put_u64(self.bytes.as_mut(), UFS2.direct + 8 * index, value),
        }
    }

    /// Sets [`attributes_size`](Self::attributes_size); does nothing in UFS1.
    pub fn set_attributes_size(&mut self, value: u32) {
        if self.version == Version::Ufs2 {
            self.put_u32(92, value);
        }
    }

    /// Sets an [`attribute_block`](Self::attribute_block); does nothing in UFS1.
    pub fn set_attribute_block(&mut self, index: usize, value: u64) {
        if self.version == Version::Ufs2 {
            self.order.put_u64(self.bytes.as_mut(), 96 + 8 * index, value);
        }
    }

    /// Sets the target of a [`short_link`](Self::short_link), cut to its room.
    pub fn set_short_link(&mut self, target: &[u8]) {
        let (at, room) = (self.places().direct, self.version.short_link_max() as usize);
        if let Some(place) = self.bytes.as_mut().get_mut(at..at + room) {
            place.fill(0);
            let length = target.len().min(room);
            place[..length].copy_from_slice(&target[..length]);
        }
    }

    /// UFS2: puts the right check hash. One that is not in use keeps what it has, as FreeBSD does.
    pub fn seal(&mut self) {
        if self.version == Version::Ufs2 && self.mode() != 0 {
            let hash = self.computed_hash();
            self.put_u32(244, hash);
        }
    }
}

#[inline]
fn fill<const N: usize>(to: &mut [u64], stored: &[u8], read: impl Fn([u8; N]) -> u64) {
    to.iter_mut().zip(stored.as_chunks::<N>().0).for_each(|(to, from)| *to = read(*from));
}

/// The way to the pointer of a block of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Levels of indirect blocks on the way: 0 to 3. The inode's pointer is `levels + 11` then; for 0 it is the block's number.
    pub levels: usize,
    /// The index in each of them, from the one that the inode points to.
    pub indices: [u64; INDIRECT],
}

impl Path {
    /// The way to block `index` of a file, with `pointers` in a block; `None` beyond the triple indirect one.
    pub fn to(index: u64, pointers: u64) -> Option<Path> {
        let mut path = Path { levels: 0, indices: [0; INDIRECT] };
        let mut rest = match index.checked_sub(DIRECT) {
            None => return Some(path),
            Some(rest) => rest,
        };
        let mut reach = 1_u64;
        for levels in 1..=INDIRECT {
            reach = reach.checked_mul(pointers)?;
            if rest < reach {
                path.levels = levels;
                for slot in (0..levels).rev() {
                    path.indices[slot] = rest % pointers;
                    rest /= pointers;
                }
                return Some(path);
            }
            rest -= reach;
        }
        None
    }

    /// The inode's pointer that the way begins with, for block `index`.
    pub fn pointer(&self, index: u64) -> usize {
        if self.levels == 0 {
            width::index(index.min(DIRECT - 1))
        } else {
            POINTERS - INDIRECT + self.levels - 1
        }
    }
}

/// First block of a file that the indirect pointer of `levels` (1 to 3) leads to, and how many blocks it can hold.
pub fn indirect_range(levels: usize, pointers: u64) -> (u64, u64) {
    let (mut first, mut reach) = (DIRECT, pointers);
    for _ in 1..levels {
        first = first.saturating_add(reach);
        reach = reach.saturating_mul(pointers);
    }
    (first, reach)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap() {
        for (order, version) in [(ByteOrder::Little, Version::Ufs1), (ByteOrder::Big, Version::Ufs2)] {
            let mut inode = Inode::new(vec![0u8; version.inode_size()], order, version);
            inode.set_mode(mode::REGULAR | 0o644);
            inode.set_links(3);
            inode.set_uid(1);
            inode.set_gid(2);
            inode.set_size(1 << 40);
            inode.set_sectors(99);
            inode.set_flags(InodeFlags::IMMUTABLE);
            inode.set_generation(7);
            inode.set_depth(5);
            inode.set_modification_count(1 << 35);
            for which in [Stamp::Access, Stamp::Modification, Stamp::Change] {
                inode.set_time(which, (100 + which as i64, 9));
            }
            for index in 0..15 {
                inode.set_pointer(index, 1000 + index as u64);
            }
            inode.seal();
            let read = Inode::new(inode.bytes(), order, version);
            assert_eq!((read.mode(), read.links(), read.uid(), read.gid()), (0o100_644, 3, 1, 2));
            assert_eq!((read.size(), read.sectors(), read.flags()), (1 << 40, 99, InodeFlags::IMMUTABLE));
            assert_eq!((read.generation(), read.depth(), read.modification_count()), (7, 5, 1 << 35));
            assert_eq!((read.time(Stamp::Access), read.time(Stamp::Change)), ((100, 9), (102, 9)));
            assert!((0..15).all(|index| read.pointer(index) == 1000 + index as u64));
            assert!(version == Version::Ufs1 || read.hash() == read.computed_hash());
        }
    }

    #[test]
    fn blocks_are_found_through_their_levels() {
        let path = |index| Path::to(index, 4);
        assert_eq!(path(11), Some(Path { levels: 0, indices: [0; 3] }));
        assert_eq!(path(12), Some(Path { levels: 1, indices: [0, 0, 0] }));
        assert_eq!(path(15).map(|path| (path.levels, path.indices[0], path.pointer(15))), Some((1, 3, 12)));
        assert_eq!(path(16 + 6), Some(Path { levels: 2, indices: [1, 2, 0] }));
        assert_eq!(path(12 + 4 + 16 + 63), Some(Path { levels: 3, indices: [3, 3, 3] }));
        assert_eq!(path(12 + 4 + 16 + 64), None);
        assert_eq!(Path::to(u64::MAX, 8192), None);
        assert_eq!([1, 2, 3].map(|levels| indirect_range(levels, 4)), [(12, 4), (16, 16), (32, 64)]);
    }
}
