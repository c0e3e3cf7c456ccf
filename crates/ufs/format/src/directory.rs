// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories: files made of chunks of 512 bytes, each covered by its entries. An entry is a number, a length, a type and a name that ends with a zero byte; none leaves its chunk.
//! Free room is at the end of an entry's length, or the first entry of a chunk has number 0.

use crate::order::ByteOrder;
use fsmend_base::width::low_u16;

/// Bytes of a chunk.
pub const CHUNK: usize = 512;
/// Bytes before the name.
pub const HEADER: usize = 8;
/// Longest name.
pub const NAME_MAX: usize = 255;

/// Types in entries: the type of the mode, shifted.
pub mod kind {
    /// Not known.
    pub const UNKNOWN: u8 = 0;
    /// Named pipe.
    pub const PIPE: u8 = 1;
    /// Character device.
    pub const CHARACTER: u8 = 2;
    /// Directory.
    pub const DIRECTORY: u8 = 4;
    /// Block device.
    pub const BLOCK: u8 = 6;
    /// Regular file.
    pub const REGULAR: u8 = 8;
    /// Symbolic link.
    pub const LINK: u8 = 10;
    /// Socket.
    pub const SOCKET: u8 = 12;
    /// Whiteout: hides a name of a lower layer; its number is 1.
    pub const WHITEOUT: u8 = 14;
}

/// Inode number of whiteouts.
pub const WHITEOUT_INODE: u32 = 1;

/// The type that an entry has for a mode.
#[inline]
pub fn kind_of_mode(mode: u16) -> u8 {
    (mode >> 12) as u8
}

/// Bytes that an entry with a name of `length` bytes needs.
#[inline]
pub fn needed(length: usize) -> usize {
    (HEADER + length + 1).next_multiple_of(4)
}

/// An entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Offset in the chunk.
    pub offset: usize,
    /// Bytes up to the next one.
    pub length: usize,
    /// The inode; 0: free.
    pub inode: u32,
    /// The type.
    pub kind: u8,
    /// The name; empty where the entry is free.
    pub name: &'a [u8],
}

impl Entry<'_> {
    /// Bytes of it that are in use.
    pub fn used(&self) -> usize {
        if self.inode == 0 { 0 } else { needed(self.name.len()) }
    }
}

/// Why a chunk cannot be read on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken {
    /// Offset in the chunk of the entry that makes no sense.
    pub offset: usize,
}

/// The entries of a chunk, from the start to its end or to the first one that makes no sense.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    chunk: &'a [u8],
    order: ByteOrder,
    at: usize,
}

impl<'a> Entries<'a> {
    /// The entries of `chunk`, which is [`CHUNK`] bytes long.
    #[inline]
    pub fn new(chunk: &'a [u8], order: ByteOrder) -> Entries<'a> {
        Entries { chunk, order, at: 0 }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Broken>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.chunk.len() {
            return None;
        }
        let offset = self.at;
        match entry(self.chunk, offset, self.order) {
            Some(entry) => {
                self.at += entry.length;
                Some(Ok(entry))
            }
            None => {
                self.at = self.chunk.len();
                Some(Err(Broken { offset }))
            }
        }
    }
}

/// The entry at `offset` of a chunk, if it makes sense: its length is a multiple of four, holds the name and stays in the chunk; the name has no zero and no slash, and a
/// zero follows it; the type is one of 16. A free entry needs a length only.
#[inline]
pub fn entry(chunk: &[u8], offset: usize, order: ByteOrder) -> Option<Entry<'_>> {
    let rest = chunk.get(offset..)?;
    if rest.len() < HEADER {
        return None;
    }
    let length = usize::from(order.u16(rest, 4));
    if length < HEADER || length % 4 != 0 || length > rest.len() {
        return None;
    }
    let inode = order.u32(rest, 0);
    let (kind, name_length) = (rest[6], usize::from(rest[7]));
    if inode == 0 {
        return Some(Entry { offset, length, inode, kind, name: &[] });
    }
    let name = rest.get(HEADER..HEADER + name_length)?;
    let is_sound = name_length > 0
        && needed(name_length) <= length
        && kind <= 15
        && rest[HEADER + name_length] == 0
        && is_plain(name);
    is_sound.then_some(Entry { offset, length, inode, kind, name })
}

/// Whether a name has neither a zero nor a slash: eight bytes at a time.
#[inline]
fn is_plain(name: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7) != 0;
    let is_word_plain = |word: u64| !has_zero(word) && !has_zero(word ^ (ONES * b'/' as u64));
    let words = name.as_chunks::<8>().0;
    words.iter().all(|word| is_word_plain(u64::from_ne_bytes(*word)))
        && match name.last_chunk() {
            Some(last) => is_word_plain(u64::from_ne_bytes(*last)),
            None => name.iter().all(|byte| *byte != 0 && *byte != b'/'),
        }
}

/// Puts an entry at `offset` of a chunk. `false` if the name is empty or too long, or does not fit into `length`, or that into the chunk.
pub fn put_entry(
    chunk: &mut [u8],
    (offset, length): (usize, usize),
    order: ByteOrder,
    (inode, kind): (u32, u8),
    name: &[u8],
) -> bool {
    if name.is_empty() || name.len() > NAME_MAX || length < needed(name.len()) {
        return false;
    }
    let Some(place) = chunk.get_mut(offset..).and_then(|rest| rest.get_mut(..length)) else { return false };
    let (Ok(stored), Ok(name_length)) = (u16::try_from(length), u8::try_from(name.len())) else {
        return false;
    };
    let used = needed(name.len());
    place[..used].fill(0);
    order.put_u32(place, 0, inode);
    order.put_u16(place, 4, stored);
    place[6] = kind;
    place[7] = name_length;
    place[HEADER..HEADER + name.len()].copy_from_slice(name);
    true
}

/// Makes a chunk one free entry.
pub fn clear_chunk(chunk: &mut [u8], order: ByteOrder) {
    chunk.fill(0);
    let length = low_u16(chunk.len().min(CHUNK) as u64);
    order.put_u16(chunk, 4, length);
}

/// The first chunk of a new directory: `.` and `..`.
pub fn first_chunk(order: ByteOrder, inode: u32, parent: u32) -> [u8; CHUNK] {
    let mut chunk = [0; CHUNK];
    put_entry(&mut chunk, (0, 12), order, (inode, kind::DIRECTORY), b".");
    put_entry(&mut chunk, (12, CHUNK - 12), order, (parent, kind::DIRECTORY), b"..");
    chunk
}

/// Adds a name to a chunk where there is room behind an entry or in a free one. `false` if there is none, or the chunk makes no sense.
pub fn add(chunk: &mut [u8], order: ByteOrder, target: (u32, u8), name: &[u8]) -> bool {
    let wanted = needed(name.len());
    let found = Entries::new(chunk, order).flatten().find_map(|entry| {
        let used = entry.used();
        (entry.length >= used + wanted).then_some((entry.offset, entry.length, used))
    });
    let Some((offset, length, used)) = found else { return false };
    if !put_entry(chunk, (offset + used, length - used), order, target, name) {
        return false;
    }
    if used > 0 {
        order.put_u16(chunk, offset + 4, low_u16(used as u64));
    }
    true
}

/// Takes the entry at `offset` out of a chunk: the one before takes its room; the first one becomes free.
pub fn remove(chunk: &mut [u8], order: ByteOrder, offset: usize) {
    let before = Entries::new(chunk, order).flatten().take_while(|entry| entry.offset < offset).last();
    let Some(gone) = entry(chunk, offset, order) else { return };
    let length = gone.length;
    match before {
        Some(before) => {
            // Both lengths are at most a chunk's.
            order.put_u16(chunk, before.offset + 4, low_u16((before.length + length) as u64));
        }
        None => order.put_u32(chunk, offset, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(chunk: &[u8], order: ByteOrder) -> Vec<Vec<u8>> {
        Entries::new(chunk, order).map(|entry| entry.expect("the chunk is sound").name.to_vec()).collect()
    }

    #[test]
    fn names_come_and_go() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut chunk = first_chunk(order, 5, 2);
            assert!(add(&mut chunk, order, (7, kind::REGULAR), b"thesis.txt"));
            assert!(add(&mut chunk, order, (8, kind::LINK), &[b'x'; NAME_MAX]));
            assert!(!add(&mut chunk, order, (9, kind::REGULAR), &[b'y'; NAME_MAX]));
            assert_eq!(
                names(&chunk, order),
                [b".".to_vec(), b"..".to_vec(), b"thesis.txt".to_vec(), vec![b'x'; 255]]
            );
            remove(&mut chunk, order, 24);
            assert_eq!(names(&chunk, order).len(), 3);
            assert!(add(&mut chunk, order, (9, kind::REGULAR), b"new"));
            assert_eq!(names(&chunk, order)[2], b"new");
        }
    }

    #[test]
    fn what_makes_no_sense_ends_the_chunk() {
        let order = ByteOrder::Little;
        let good = first_chunk(order, 5, 2);
        for (at, value) in [(17, 3), (16, 11), (19, 0), (18, 16), (20, b'/'), (22, b'x')] {
            let mut chunk = good;
            chunk[at] = value;
            let last = Entries::new(&chunk, order).last();
            assert_eq!(last, Some(Err(Broken { offset: 12 })), "byte {at} {value}");
        }
        let mut empty = [0; CHUNK];
        assert_eq!(Entries::new(&empty, order).next(), Some(Err(Broken { offset: 0 })));
        clear_chunk(&mut empty, order);
        assert_eq!(Entries::new(&empty, order).count(), 1);
        assert_eq!(Entries::new(&empty[..10], order).last(), Some(Err(Broken { offset: 0 })));
    }
}
