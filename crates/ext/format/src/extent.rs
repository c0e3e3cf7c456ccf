// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extent tree nodes: a header of 12 bytes, then entries of 12 bytes each. The root lies in `i_block` (60 bytes),
//! every other node fills a block, whose last bytes hold a checksum with `metadata_csum`.
//!
//! ```text
//! header  0 magic  2 entries  4 max  6 depth  8 generation
//! extent  0 first logical block  4 length (over 32768: unwritten)  6 start, high half  8 start, low half
//! index   0 first logical block  4 child, low half  8 child, high half  10 unused
//! ```
//!
//! Everything here works on borrowed bytes, allocates nothing and accepts any bytes.
//!
//! Source: "ext4 Data Structures and Algorithms", extent tree.

use fsmend_base::width::{low_u16, low_u32};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `eh_magic`.
pub const EXTENT_MAGIC: u16 = 0xF30A;
/// Size of a header, and of an entry of either kind.
pub const ENTRY_SIZE: usize = 12;
/// Deepest tree that an implementation accepts.
pub const MAX_DEPTH: u16 = 5;
/// Longest written extent; greater lengths stand for unwritten extents of that much less.
pub const MAX_WRITTEN_LEN: u16 = 32768;

/// Header of a node as it lies on the disk.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "field names are those of the format document")]
pub struct RawExtentHeader {
    pub eh_magic: U16,
    pub eh_entries: U16,
    pub eh_max: U16,
    pub eh_depth: U16,
    pub eh_generation: U32,
}

/// Entry of a leaf as it lies on the disk.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "field names are those of the format document")]
pub struct RawExtent {
    pub ee_block: U32,
    pub ee_len: U16,
    pub ee_start_hi: U16,
    pub ee_start_lo: U32,
}

/// Entry of an interior node as it lies on the disk.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "field names are those of the format document")]
pub struct RawExtentIndex {
    pub ei_block: U32,
    pub ei_leaf_lo: U32,
    pub ei_leaf_hi: U16,
    pub ei_unused: U16,
}

const _: () = assert!(size_of::<RawExtentHeader>() == ENTRY_SIZE);
const _: () = assert!(size_of::<RawExtent>() == ENTRY_SIZE);
const _: () = assert!(size_of::<RawExtentIndex>() == ENTRY_SIZE);

/// A header that fits its node: the magic is right, `max` is what the node has room for (or up to two less, room
/// for a checksum), `entries` is at most `max`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtentHeader {
    /// Number of entries in use.
    pub entries: u16,
    /// Number of entries that there is room for.
    pub max: u16,
    /// Levels below this node; 0 in a leaf.
    pub depth: u16,
}

impl ExtentHeader {
    /// The header of `node` (the bytes of `i_block`, or a block), if it fits the node.
    #[inline]
    pub fn parse(node: &[u8]) -> Option<ExtentHeader> {
        let (raw, rest) = RawExtentHeader::ref_from_prefix(node).ok()?;
        let room = rest.len() / ENTRY_SIZE;
        let (entries, max) = (raw.eh_entries.get(), raw.eh_max.get());
        let fits = usize::from(max) <= room && usize::from(max) + 2 >= room && entries <= max;
        let header = ExtentHeader { entries, max, depth: raw.eh_depth.get() };
        (raw.eh_magic.get() == EXTENT_MAGIC && fits).then_some(header)
    }

    /// Whether `node` starts with a header's magic number, whatever else it holds.
    #[inline]
    pub fn has_magic(node: &[u8]) -> bool {
        node.starts_with(&EXTENT_MAGIC.to_le_bytes())
    }
}

/// Part of a file that lies in one run of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First block within the file.
    pub logical: u32,
    /// Number of blocks, at most 32768. 0 is wrong, but can be stored.
    pub count: u32,
    /// Where it lies.
    pub physical: u64,
    /// Allocated but never written.
    pub unwritten: bool,
}

impl Extent {
    /// Block of the file after the last one.
    #[inline]
    pub fn logical_end(&self) -> u64 {
        u64::from(self.logical) + u64::from(self.count)
    }

    /// Block of the device after the last one.
    #[inline]
    pub fn physical_end(&self) -> u64 {
        self.physical + u64::from(self.count)
    }

    /// The entry of a leaf as it lies on the disk. Longer extents than there can be are cut.
    pub fn to_bytes(&self) -> [u8; ENTRY_SIZE] {
        let max = if self.unwritten { MAX_WRITTEN_LEN - 1 } else { MAX_WRITTEN_LEN };
        let count = u16::try_from(self.count).unwrap_or(max).min(max);
        zerocopy::transmute!(RawExtent {
            ee_block: self.logical.into(),
            ee_len: if self.unwritten { count + MAX_WRITTEN_LEN } else { count }.into(),
            ee_start_hi: low_u16(self.physical >> 32).into(),
            ee_start_lo: low_u32(self.physical).into(),
        })
    }

    fn parse(raw: &RawExtent) -> Extent {
        let len = raw.ee_len.get();
        let unwritten = len > MAX_WRITTEN_LEN;
        Extent {
            logical: raw.ee_block.get(),
            count: u32::from(if unwritten { len - MAX_WRITTEN_LEN } else { len }),
            physical: u64::from(raw.ee_start_hi.get()) << 32 | u64::from(raw.ee_start_lo.get()),
            unwritten,
        }
    }
}

/// A child of an interior node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtentIndex {
    /// First block of the file that the child maps.
    pub logical: u32,
    /// Block that holds the child.
    pub child: u64,
}

impl ExtentIndex {
    /// The entry of an interior node as it lies on the disk.
    pub fn to_bytes(&self) -> [u8; ENTRY_SIZE] {
        zerocopy::transmute!(RawExtentIndex {
            ei_block: self.logical.into(),
            ei_leaf_lo: low_u32(self.child).into(),
            ei_leaf_hi: low_u16(self.child >> 32).into(),
            ei_unused: 0.into(),
        })
    }

    fn parse(raw: &RawExtentIndex) -> ExtentIndex {
        ExtentIndex {
            logical: raw.ei_block.get(),
            child: u64::from(raw.ei_leaf_hi.get()) << 32 | u64::from(raw.ei_leaf_lo.get()),
        }
    }
}

/// The bytes of the entries in use of a node.
fn entries<'n>(node: &'n [u8], header: &ExtentHeader) -> &'n [u8] {
    let end = ENTRY_SIZE * (1 + usize::from(header.entries));
    node.get(ENTRY_SIZE..end.min(node.len())).unwrap_or(&[])
}

/// Entries that a node of `bytes` bytes has room for.
pub fn entries_max(bytes: usize) -> usize {
    (bytes / ENTRY_SIZE).saturating_sub(1)
}

/// A node of `bytes` bytes with these entries, of which it has room for all.
pub fn build_node(bytes: usize, depth: u16, entries: &[[u8; ENTRY_SIZE]]) -> Vec<u8> {
    let header = RawExtentHeader {
        eh_magic: EXTENT_MAGIC.into(),
        eh_entries: U16::new(low_u16(entries.len() as u64)),
        eh_max: U16::new(low_u16(entries_max(bytes) as u64)),
        eh_depth: depth.into(),
        eh_generation: U32::new(0),
    };
    let mut node = header.as_bytes().to_vec();
    entries.iter().for_each(|entry| node.extend_from_slice(entry));
    node.resize(bytes, 0);
    node
}

/// The entries of a leaf, as they stand.
#[inline]
pub fn extents<'n>(node: &'n [u8], header: &ExtentHeader) -> impl Iterator<Item = Extent> + use<'n> {
    let raw = entries(node, header).chunks_exact(ENTRY_SIZE);
    raw.filter_map(|bytes| RawExtent::ref_from_bytes(bytes).ok().map(Extent::parse))
}

/// The entries of an interior node, as they stand.
#[inline]
pub fn indexes<'n>(node: &'n [u8], header: &ExtentHeader) -> impl Iterator<Item = ExtentIndex> + use<'n> {
    let raw = entries(node, header).chunks_exact(ENTRY_SIZE);
    raw.filter_map(|bytes| RawExtentIndex::ref_from_bytes(bytes).ok().map(ExtentIndex::parse))
}

/// An entry of either kind, as it lies on the disk.
pub type RawEntry = [u8; ENTRY_SIZE];

/// The entries in use of a node, as bytes.
pub fn raw_entries<'n>(node: &'n [u8], header: &ExtentHeader) -> &'n [RawEntry] {
    entries(node, header).as_chunks().0
}

/// Puts `kept` in the place of all entries of `node`, whose header fits it and says that there is room for so many. The rest of
/// the header stays, but for the depth.
pub fn set_entries(node: &mut [u8], depth: u16, kept: &[RawEntry]) {
    let Some(header) = ExtentHeader::parse(node) else { return };
    let places = node[ENTRY_SIZE..].as_chunks_mut::<ENTRY_SIZE>().0.iter_mut().take(usize::from(header.max));
    let entries = kept.iter().copied().chain(std::iter::repeat([0; ENTRY_SIZE]));
    places.zip(entries).for_each(|(place, entry)| *place = entry);
    let count = u16::try_from(kept.len()).unwrap_or(u16::MAX).min(header.max);
    node[2..4].copy_from_slice(&count.to_le_bytes());
    node[6..8].copy_from_slice(&depth.to_le_bytes());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn entries_are_put_in_place_of_others() {
        let one = Extent { logical: 3, count: 9, physical: (5 << 32) + 7, unwritten: true };
        let two = ExtentIndex { logical: 4, child: (6 << 32) + 9 };
        let mut node = build_node(100, 1, &[two.to_bytes()]);
        set_entries(&mut node, 0, &[one.to_bytes()]);
        let header = ExtentHeader::parse(&node).unwrap();
        assert_eq!(header, ExtentHeader { entries: 1, max: 7, depth: 0 });
        assert_eq!(extents(&node, &header).collect::<Vec<_>>(), [one]);
        set_entries(&mut node, 2, &[two.to_bytes()]);
        let header = ExtentHeader::parse(&node).unwrap();
        assert_eq!(header.depth, 2);
        assert_eq!(indexes(&node, &header).collect::<Vec<_>>(), [two]);
        assert_eq!(raw_entries(&node, &header), [two.to_bytes()]);
    }

    fn root() -> [u8; 60] {
        let mut node = [0; 60];
        node[..8].copy_from_slice(&[0x0A, 0xF3, 2, 0, 4, 0, 0, 0]);
        node[12..24].copy_from_slice(&[0, 0, 0, 0, 8, 0, 1, 0, 7, 0, 0, 0]);
        node[24..36].copy_from_slice(&[8, 0, 0, 0, 2, 0x80, 0, 0, 9, 0, 0, 0]);
        node
    }

    #[test]
    fn entries_of_both_kinds() {
        let node = root();
        let header = ExtentHeader::parse(&node).unwrap();
        assert_eq!(header, ExtentHeader { entries: 2, max: 4, depth: 0 });
        let all: Vec<_> = extents(&node, &header).collect();
        assert_eq!(all[0], Extent { logical: 0, count: 8, physical: (1 << 32) + 7, unwritten: false });
        assert_eq!(all[1], Extent { logical: 8, count: 2, physical: 9, unwritten: true });
        let children: Vec<_> = indexes(&node, &header).collect();
        assert_eq!(children[1], ExtentIndex { logical: 8, child: 9 << 32 | 0x8002 });
    }

    #[test]
    fn what_is_built_is_read_back() {
        let leaf = [
            Extent { logical: 0, count: 32768, physical: (1 << 40) + 7, unwritten: false },
            Extent { logical: 32768, count: 32767, physical: 9, unwritten: true },
        ];
        let node = build_node(60, 0, &leaf.map(|extent| extent.to_bytes()));
        let header = ExtentHeader::parse(&node).unwrap();
        assert_eq!(header, ExtentHeader { entries: 2, max: 4, depth: 0 });
        assert!(extents(&node, &header).eq(leaf));
        let children = [ExtentIndex { logical: 5, child: 9 << 32 | 8 }];
        let node = build_node(1024, 1, &children.map(|index| index.to_bytes()));
        let header = ExtentHeader::parse(&node).unwrap();
        assert_eq!((header.max, header.depth), (84, 1));
        assert!(indexes(&node, &header).eq(children));
    }

    #[test]
    fn headers_that_do_not_fit_are_refused() {
        for (at, value) in [(0, 0x0B), (2, 5), (4, 5), (4, 1), (5, 1)] {
            let mut node = root();
            node[at] = value;
            assert_eq!(ExtentHeader::parse(&node), None, "byte {at} = {value}");
        }
        assert_eq!(ExtentHeader::parse(&root()[..11]), None);
    }
}
