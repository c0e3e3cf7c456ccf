// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directory blocks: records of an inode number, a length, a name length, a file type and a name, one behind the
//! other from the start of the block to its end.
//!
//! ```text
//! 0        4        6        7        8
//! | inode  | rec_len|name_len| type   | name ... (padding up to rec_len) |
//! ```
//!
//! With `metadata_csum` the last 12 bytes of a block of entries are a record of its own (inode 0, length 12, name length 0,
//! type 0xDE) that carries the checksum: see [`crate::checksum::directory_leaf`]. In directories that are both
//! encrypted and case-insensitive, 8 bytes of hash stand behind each name, at the next multiple of four. Without the
//! `filetype` feature byte 7 is zero. With blocks of 64 KiB lengths are stored rotated, as they need 17 bits.
//!
//! Nothing here allocates, and no bytes whatsoever lead out of bounds.
//!
//! Source: "ext4 Data Structures and Algorithms", directory entries.

use crate::features::{Features, Incompat};
use crate::rext3;

/// Bytes in front of the name.
pub const ENTRY_HEADER_LEN: usize = 8;
/// Shortest record that holds a name.
pub const ENTRY_LEN_MIN: usize = 12;
/// Longest name in bytes.
pub const NAME_LEN_MAX: usize = 255;
/// Bytes of hash behind the name in encrypted case-insensitive directories.
pub const ENTRY_HASH_LEN: usize = 8;
/// Bytes at the start of an inline directory that hold the number of its parent.
pub const INLINE_PARENT_LEN: usize = 4;

/// The file type byte of an entry.
pub mod file_type {
    /// Not said.
    pub const UNKNOWN: u8 = 0;
    /// Regular file.
    pub const REGULAR: u8 = 1;
    /// Directory.
    pub const DIRECTORY: u8 = 2;
    /// Character device.
    pub const CHAR_DEVICE: u8 = 3;
    /// Block device.
    pub const BLOCK_DEVICE: u8 = 4;
    /// Named pipe.
    pub const FIFO: u8 = 5;
    /// Socket.
    pub const SOCKET: u8 = 6;
    /// Symbolic link.
    pub const SYMLINK: u8 = 7;
    /// The checksum record at the end of a block.
    pub const CHECKSUM: u8 = 0xDE;
}

/// How the records of one directory are laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryLayout {
    /// Bytes in a block of the file system, which decides how lengths are stored.
    pub block_size: u32,
    /// Whether a hash stands behind each name but `.` and `..`.
    pub hash_behind_name: bool,
}

impl EntryLayout {
    /// The length that a stored `rec_len` means.
    #[inline]
    pub fn decode_len(self, stored: u16) -> usize {
        if self.block_size < 0x1_0000 {
            usize::from(stored)
        } else if stored == u16::MAX || stored == 0 {
            self.block_size as usize
        } else {
            usize::from(stored & 0xFFFC) | usize::from(stored & 3) << 16
        }
    }

    /// How `len`, a multiple of four that is at most the block size, is stored.
    pub fn encode_len(self, len: usize) -> u16 {
        u16::try_from(len).unwrap_or(u16::MAX)
    }

    /// The shortest record that holds a name of `name_len` bytes, and its hash if it has one.
    #[inline]
    pub fn needed_len(self, name_len: usize, is_dot: bool) -> usize {
        let hash = if self.hash_behind_name && !is_dot { ENTRY_HASH_LEN } else { 0 };
        (ENTRY_HEADER_LEN + name_len).next_multiple_of(4) + hash
    }
}

/// The fixed part of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryHeader {
    /// Where the name leads to; 0 for a record that is free.
    pub inode: u32,
    /// Length of the record, decoded.
    pub rec_len: usize,
    /// Length of the name.
    pub name_len: u8,
    /// The type byte (high half of the name length where there is no type; always zero on sound file systems).
    pub file_type: u8,
}

impl EntryHeader {
    /// The header at `offset`, if there is room for one.
    #[inline]
    pub fn at(bytes: &[u8], offset: usize, layout: EntryLayout) -> Option<EntryHeader> {
        let header: &[u8; ENTRY_HEADER_LEN] = bytes.get(offset..)?.first_chunk()?;
        Some(EntryHeader {
            inode: u32::from_le_bytes([header[0], header[1], header[2], header[3]]),
            rec_len: layout.decode_len(u16::from_le_bytes([header[4], header[5]])),
            name_len: header[6],
            file_type: header[7],
        })
    }

    /// Writes the header at `offset`; nothing happens where there is no room for it.
    pub fn store(&self, bytes: &mut [u8], offset: usize, layout: EntryLayout) {
        if let Some(place) =
            bytes.get_mut(offset..).and_then(|rest| rest.first_chunk_mut::<ENTRY_HEADER_LEN>())
        {
            place[..4].copy_from_slice(&self.inode.to_le_bytes());
            place[4..6].copy_from_slice(&layout.encode_len(self.rec_len).to_le_bytes());
            place[6] = self.name_len;
            place[7] = self.file_type;
        }
    }
}

/// One record of a directory block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Where the record begins.
    pub offset: usize,
    /// Its fixed part.
    pub header: EntryHeader,
    /// Its name.
    pub name: &'a [u8],
    /// The hash behind the name, where there is one: major, minor.
    pub stored_hash: Option<(u32, u32)>,
}

/// Why a record cannot be followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BrokenRecord {
    /// There is no room for a header.
    NoHeader,
    /// Its length is not a multiple of four, or shorter than any record.
    BadLength,
    /// It reaches beyond the end of the block.
    BeyondEnd,
    /// The name does not fit into it.
    NameTooLong,
}

impl<'a> Entry<'a> {
    /// The record at `offset` of `bytes`, whose records end at the end of `bytes`. `is_dot` says that it stands in the
    /// place of `.` or `..`, which never carry a hash.
    #[inline]
    pub fn at(
        bytes: &'a [u8],
        offset: usize,
        layout: EntryLayout,
        is_dot: bool,
    ) -> Result<Entry<'a>, BrokenRecord> {
        let header = EntryHeader::at(bytes, offset, layout).ok_or(BrokenRecord::NoHeader)?;
        if header.rec_len < layout.needed_len(1, is_dot) || header.rec_len % 4 != 0 {
            return Err(BrokenRecord::BadLength);
        }
        let name_at = offset + ENTRY_HEADER_LEN;
        let name_len = usize::from(header.name_len);
        let record_end = offset.checked_add(header.rec_len).filter(|end| *end <= bytes.len());
        record_end.ok_or(BrokenRecord::BeyondEnd)?;
        if layout.needed_len(name_len, is_dot) > header.rec_len {
            return Err(BrokenRecord::NameTooLong);
        }
        let name = bytes.get(name_at..name_at + name_len).ok_or(BrokenRecord::NameTooLong)?;
        let stored_hash = if layout.hash_behind_name && !is_dot {
            hash_at(bytes, offset + layout.needed_len(name_len, true))
        } else {
            None
        };
        Ok(Entry { offset, header, name, stored_hash })
    }

    /// Whether the name is `.` or `..`.
    pub fn is_dot_name(&self) -> bool {
        matches!(self.name, b"." | b"..")
    }
}

fn hash_at(bytes: &[u8], offset: usize) -> Option<(u32, u32)> {
    let words: &[u8; 8] = bytes.get(offset..)?.first_chunk()?;
    let major = u32::from_le_bytes([words[0], words[1], words[2], words[3]]);
    let minor = u32::from_le_bytes([words[4], words[5], words[6], words[7]]);
    Some((major, minor))
}

/// Steps over the records of a block. Free records are delivered too; the first broken one ends it.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    layout: EntryLayout,
    offset: usize,
    /// How many records at the start stand in the places of `.` and `..`.
    dots: u8,
}

impl<'a> Entries<'a> {
    /// The records of `bytes`, which end where `bytes` ends (cut off a checksum record before: see [`entries_len`]).
    /// `first` says that it is the directory's first block, which begins with `.` and `..`.
    pub fn new(bytes: &'a [u8], layout: EntryLayout, first: bool) -> Self {
        Entries { bytes, layout, offset: 0, dots: if first { 2 } else { 0 } }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, BrokenRecord>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.bytes.len() {
            return None;
        }
        let entry = Entry::at(self.bytes, self.offset, self.layout, self.dots > 0);
        self.dots = self.dots.saturating_sub(1);
        match &entry {
            Ok(entry) => self.offset += entry.header.rec_len,
            Err(_) => self.offset = self.bytes.len(),
        }
        Some(entry)
    }
}

/// Calls `visit` for every record of `block` that names an inode, `.` and `..` included, up to the first broken record.
pub fn visit_entries<'a>(
    block: &'a [u8],
    layout: EntryLayout,
    first: bool,
    mut visit: impl FnMut(&Entry<'a>),
) -> Result<(), BrokenRecord> {
    for entry in Entries::new(block, layout, first) {
        let entry = entry?;
        if entry.header.inode != 0 {
            visit(&entry);
        }
    }
    Ok(())
}

/// How many bytes of `block` hold records: all, or all but the checksum record (or the tail of a rext3) when the features ask
/// for one and it is there.
pub fn entries_len(block: &[u8], features: Features) -> usize {
    if features.rext3() && rext3::DirectoryTail::parse(block).is_some() {
        block.len() - rext3::TAIL_SIZE
    } else if features.metadata_csum() && crate::checksum::has_leaf_tail(block) {
        block.len() - crate::checksum::LEAF_TAIL_SIZE
    } else {
        block.len()
    }
}

/// Whether entries carry a file type.
pub fn has_file_types(features: Features) -> bool {
    features.has_incompat(Incompat::FILETYPE)
}

/// The file type byte for the file type bits of a mode; [`file_type::UNKNOWN`] for a mode that no file has.
pub fn file_type_of_mode(mode: u16) -> u8 {
    use crate::inode::mode as bits;
    match mode & bits::TYPE_MASK {
        bits::REGULAR => file_type::REGULAR,
        bits::DIRECTORY => file_type::DIRECTORY,
        bits::CHAR_DEVICE => file_type::CHAR_DEVICE,
        bits::BLOCK_DEVICE => file_type::BLOCK_DEVICE,
        bits::FIFO => file_type::FIFO,
        bits::SOCKET => file_type::SOCKET,
        bits::SYMLINK => file_type::SYMLINK,
        _ => file_type::UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: EntryLayout = EntryLayout { block_size: 1024, hash_behind_name: false };

    fn put(bytes: &mut Vec<u8>, inode: u32, rec_len: usize, name: &[u8]) {
        let start = bytes.len();
        bytes.resize(start + rec_len, 0);
        let header = EntryHeader { inode, rec_len, name_len: name.len() as u8, file_type: 1 };
        header.store(bytes, start, LAYOUT);
        bytes[start + 8..start + 8 + name.len()].copy_from_slice(name);
    }

    #[test]
    fn records_are_stepped_over() {
        let mut bytes = Vec::new();
        put(&mut bytes, 12, 12, b"a");
        put(&mut bytes, 0, 12, b"gone");
        put(&mut bytes, 13, 1000, b"bcd");
        let mut seen = Vec::new();
        let result = visit_entries(&bytes, LAYOUT, false, |entry| {
            seen.push((entry.header.inode, entry.name.to_vec()))
        });
        assert_eq!(result, Ok(()));
        assert_eq!(seen, [(12, b"a".to_vec()), (13, b"bcd".to_vec())]);
    }

    #[test]
    fn broken_records_end_the_walk() {
        let broken = |rec_len: u16, name_len: u8, len: usize| {
            let mut bytes = vec![0; len];
            bytes[4..6].copy_from_slice(&rec_len.to_le_bytes());
            bytes[6] = name_len;
            let all: Vec<_> = Entries::new(&bytes, LAYOUT, false).collect();
            assert_eq!(all.len(), 1);
            all[0].err()
        };
        assert_eq!(broken(8, 0, 24), Some(BrokenRecord::BadLength));
        assert_eq!(broken(14, 1, 14), Some(BrokenRecord::BadLength));
        assert_eq!(broken(28, 1, 24), Some(BrokenRecord::BeyondEnd));
        assert_eq!(broken(12, 5, 24), Some(BrokenRecord::NameTooLong));
        assert_eq!(broken(12, 1, 7), Some(BrokenRecord::NoHeader));
    }

    #[test]
    fn lengths_of_64_kib_blocks_are_rotated() {
        let layout = EntryLayout { block_size: 0x1_0000, hash_behind_name: false };
        assert_eq!(layout.decode_len(0), 0x1_0000);
        assert_eq!(layout.decode_len(u16::MAX), 0x1_0000);
        assert_eq!(layout.decode_len(12), 12);
        assert_eq!(layout.decode_len(layout.encode_len(0xFFFC)), 0xFFFC);
        assert_eq!(layout.decode_len(layout.encode_len(0x1_0000)), 0x1_0000);
        assert_eq!(LAYOUT.decode_len(0), 0);
    }

    #[test]
    fn hashes_stand_behind_names() {
        let layout = EntryLayout { block_size: 1024, hash_behind_name: true };
        let mut bytes = Vec::new();
        put(&mut bytes, 12, 24, b"abcde");
        bytes[16..20].copy_from_slice(&7u32.to_le_bytes());
        assert_eq!(Entry::at(&bytes, 0, layout, false).ok().and_then(|e| e.stored_hash), Some((7, 0)));
        assert_eq!(Entry::at(&bytes[..20], 0, layout, false), Err(BrokenRecord::BeyondEnd));
        bytes[4] = 16;
        assert_eq!(Entry::at(&bytes, 0, layout, false), Err(BrokenRecord::BadLength));
        assert!(Entry::at(&bytes, 0, layout, true).is_ok());
    }
}
