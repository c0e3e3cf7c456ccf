// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal of soft updates: a file `.sujournal` in the root directory, a ring of segments. A segment is some sectors of 512 bytes, each with a header of 32 bytes and
//! records of 32 bytes behind it. The records tell what was on its way to the disk: links, blocks, truncations.

use crate::order::ByteOrder;

/// The name of the journal.
pub const NAME: &[u8] = b".sujournal";
/// Smallest journal.
pub const SIZE_MIN: u64 = 4 << 20;
/// Bytes of a header and of a record.
pub const RECORD: usize = 32;

/// The header of a segment; it stands at the start of each of its sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its number.
    pub sequence: u64,
    /// The oldest segment that was still needed when it was written.
    pub oldest: u64,
    /// Records in it.
    pub count: u16,
    /// Sectors of it.
    pub sectors: u16,
    /// The mount that it belongs to: [`crate::superblock::Superblock::mtime`].
    pub time: i64,
}

impl Segment {
    /// The header at the start of a sector.
    pub fn parse(sector: &[u8], order: ByteOrder) -> Segment {
        Segment {
            sequence: order.u64(sector, 0),
            oldest: order.u64(sector, 8),
            count: order.u16(sector, 16),
            sectors: order.u16(sector, 18),
            time: order.i64(sector, 24),
        }
    }
}

/// A record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// A name was added or removed.
    Link {
        /// Whether it was removed.
        is_removal: bool,
        /// The inode.
        inode: u32,
        /// The directory.
        parent: u32,
        /// The link count before.
        links: u16,
        /// The mode.
        mode: u16,
        /// Byte offset of the entry in the directory.
        offset: i64,
    },
    /// Fragments were allocated or freed.
    Block {
        /// Whether they were freed.
        is_freed: bool,
        /// The inode.
        inode: u32,
        /// The first fragment.
        fragment: u64,
        /// The block of the file; negative for indirect blocks and attributes.
        index: i64,
        /// How many fragments.
        count: u16,
        /// How many there were before.
        old_count: u16,
    },
    /// An entry moved within its directory.
    Move {
        /// The inode.
        inode: u32,
        /// The directory.
        parent: u32,
        /// Byte offset before.
        from: i64,
        /// Byte offset after.
        to: i64,
    },
    /// A file was truncated, or brought to the disk as far as its size.
    Size {
        /// Whether it was truncated.
        is_truncation: bool,
        /// The inode.
        inode: u32,
        /// The new size.
        size: i64,
        /// The new size of its attributes.
        attributes: u32,
    },
}

impl Record {
    /// The record in [`RECORD`] bytes; `None` for a kind that is not known.
    pub fn parse(bytes: &[u8], order: ByteOrder) -> Option<Record> {
        let (kind, inode) = (order.u32(bytes, 0), order.u32(bytes, 4));
        Some(match kind {
            1 | 2 => Record::Link {
                is_removal: kind == 2,
                inode,
                parent: order.u32(bytes, 8),
                links: order.u16(bytes, 12),
                mode: order.u16(bytes, 14),
                offset: order.i64(bytes, 16),
            },
            3 | 4 => Record::Block {
                is_freed: kind == 4,
                inode,
                fragment: order.u64(bytes, 8),
                index: order.i64(bytes, 16),
                count: order.u16(bytes, 24),
                old_count: order.u16(bytes, 26),
            },
            5 => Record::Move {
                inode,
                parent: order.u32(bytes, 8),
                from: order.i64(bytes, 16),
                to: order.i64(bytes, 24),
            },
            6 | 7 => Record::Size {
                is_truncation: kind == 6,
                inode,
                size: order.i64(bytes, 8),
                attributes: order.u32(bytes, 16),
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_told_apart() {
        let order = ByteOrder::Little;
        let mut bytes = [0; RECORD];
        order.put_u32(&mut bytes, 0, 4);
        order.put_u32(&mut bytes, 4, 9);
        order.put_u64(&mut bytes, 8, 1234);
        order.put_i64(&mut bytes, 16, -13);
        order.put_u16(&mut bytes, 24, 8);
        let block =
            Record::Block { is_freed: true, inode: 9, fragment: 1234, index: -13, count: 8, old_count: 0 };
        assert_eq!(Record::parse(&bytes, order), Some(block));
        order.put_u32(&mut bytes, 0, 8);
        assert_eq!(Record::parse(&bytes, order), None);
    }
}
