// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header of blocks in the log, by which each proves whose it is.

use crate::bytes::{crc_without, get, get_u8, get_u16, get_u32, get_u64, put, put_u16, put_u32, put_u64};
use crate::{Parsed, Wrong, seed};

const MAGIC: u32 = u32::from_le_bytes(*b"hyb1");
const VERSION: u16 = 1;
/// Bytes of a header.
pub const HEADER_LEN: usize = 64;

/// What an object of the log is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    /// The summary of a segment.
    Summary = 1,
    /// A node of a map.
    Node = 2,
    /// A directory block.
    Directory = 3,
    /// A bitmap.
    Bitmap = 4,
    /// Attributes of an inode.
    Attributes = 5,
    /// Goes on where a summary ends.
    Continuation = 6,
    /// An inode block; it has no header.
    Inodes = 7,
    /// Contents of a small file; they have no header.
    Contents = 8,
}

impl Kind {
    /// From its number.
    pub fn from_number(number: u8) -> Option<Kind> {
        use Kind::*;
        [Summary, Node, Directory, Bitmap, Attributes, Continuation, Inodes, Contents]
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }
}

/// The first bytes of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// Of a node: how far above leaves, from 1.
    pub level: u8,
    /// How many there are in it.
    pub count: u32,
    /// Whose it is.
    pub owner: u64,
    /// The owner's generation.
    pub generation: u32,
    /// Flags.
    pub flags: u32,
    /// Key of what is first in it.
    pub key: u64,
    /// Its own address.
    pub address: u64,
    /// The segment that it was written with.
    pub birth: u64,
}

impl Header {
    /// Reads the header of an object and checks the checksum of all of it.
    pub fn parse(object: &[u8], uuid: &[u8; 16]) -> Parsed<Header> {
        if object.len() < HEADER_LEN {
            return Err(Wrong::Short);
        }
        if get_u32(object, 0) != MAGIC {
            return Err(Wrong::Magic);
        }
        if get_u16(object, 10) != VERSION {
            return Err(Wrong::Version);
        }
        if get::<8>(object, 56) != get::<8>(uuid, 0) {
            return Err(Wrong::Uuid);
        }
        if crc_without(seed(uuid), object, 4) != get_u32(object, 4) {
            return Err(Wrong::Checksum);
        }
        Ok(Header {
            kind: Kind::from_number(get_u8(object, 8)).ok_or(Wrong::Value("type"))?,
            level: get_u8(object, 9),
            count: get_u32(object, 12),
            owner: get_u64(object, 16),
            generation: get_u32(object, 24),
            flags: get_u32(object, 28),
            key: get_u64(object, 32),
            address: get_u64(object, 40),
            birth: get_u64(object, 48),
        })
    }

    /// Writes the header without its checksum, which [`seal`] adds when the object is complete.
    pub fn store(&self, object: &mut [u8], uuid: &[u8; 16]) {
        put_u32(object, 0, MAGIC);
        put(object, 8, &[self.kind as u8, self.level]);
        put_u16(object, 10, VERSION);
        put_u32(object, 12, self.count);
        put_u64(object, 16, self.owner);
        put_u32(object, 24, self.generation);
        put_u32(object, 28, self.flags);
        put_u64(object, 32, self.key);
        put_u64(object, 40, self.address);
        put_u64(object, 48, self.birth);
        put(object, 56, &get::<8>(uuid, 0));
    }
}

/// Makes the checksum of an object with a header right, and returns it.
pub fn seal(object: &mut [u8], uuid: &[u8; 16]) -> u32 {
    let crc = crc_without(seed(uuid), object, 4);
    put_u32(object, 4, crc);
    crc
}
