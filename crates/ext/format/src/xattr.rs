// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extended attributes: a table of entries that grows upwards, values that grow downwards from the end.
//!
//! ```text
//! in an inode, behind i_extra_isize:       in an attribute block:
//! 0  u32 magic 0xEA020000                  0   header, 32 bytes (magic, reference count, hash, checksum)
//! 4  entries, 16 bytes + name, padded      32  entries, 16 bytes + name, padded
//! .. four zero bytes                       ..  four zero bytes
//! .. values, padded (offsets from 4)       ..  values, padded (offsets from 0)
//! ```
//!
//! A value may also be the contents of an inode of its own (`e_value_inum`), flagged `EA_INODE`.
//!
//! Invariants: nothing here allocates; bytes may be hostile, every offset is checked against the area.
//!
//! Source: "ext4 Data Structures and Algorithms", extended attributes.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::inode::{BASE_INODE_SIZE, RawInode};

/// `h_magic`, in the inode and in a block.
pub const XATTR_MAGIC: u32 = 0xEA02_0000;
/// Size of the header of an attribute block.
pub const BLOCK_HEADER_SIZE: usize = 32;
/// Size of the header of an in-inode attribute area: the magic alone.
pub const INODE_HEADER_SIZE: usize = 4;
/// Size of an entry without its name.
pub const ENTRY_SIZE: usize = 16;
/// The largest `h_refcount` that the kernel lets a shared attribute block reach.
pub const REFCOUNT_MAX: u32 = 1024;
/// The largest attribute value.
pub const VALUE_SIZE_MAX: u32 = 1 << 24;

/// `e_name_index`: the prefix of the name, which is not stored.
pub mod name_index {
    /// `user.`
    pub const USER: u8 = 1;
    /// `system.posix_acl_access`, the whole name.
    pub const POSIX_ACL_ACCESS: u8 = 2;
    /// `system.posix_acl_default`, the whole name.
    pub const POSIX_ACL_DEFAULT: u8 = 3;
    /// `trusted.`
    pub const TRUSTED: u8 = 4;
    /// `lustre.`
    pub const LUSTRE: u8 = 5;
    /// `security.`
    pub const SECURITY: u8 = 6;
    /// `system.`
    pub const SYSTEM: u8 = 7;
    /// `system.richacl`, the whole name.
    pub const RICHACL: u8 = 8;
    /// Encryption: `c` is the context of the file.
    pub const ENCRYPTION: u8 = 9;
    /// Hurd: `gnu.`
    pub const HURD: u8 = 10;
}

/// The prefix that belongs to a name index; empty for numbers without one.
pub fn prefix(index: u8) -> &'static str {
    match index {
        name_index::USER => "user.",
        name_index::POSIX_ACL_ACCESS => "system.posix_acl_access",
        name_index::POSIX_ACL_DEFAULT => "system.posix_acl_default",
        name_index::TRUSTED => "trusted.",
        name_index::LUSTRE => "lustre.",
        name_index::SECURITY => "security.",
        name_index::SYSTEM => "system.",
        name_index::RICHACL => "system.richacl",
        name_index::ENCRYPTION => "encryption.",
        name_index::HURD => "gnu.",
        _ => "",
    }
}

/// The header of an attribute block.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Default, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "field names are those of the format document")]
pub struct RawXattrHeader {
    pub h_magic: U32,
    pub h_refcount: U32,
    pub h_blocks: U32,
    pub h_hash: U32,
    pub h_checksum: U32,
    pub h_reserved: [U32; 3],
}

/// An entry, without the name that follows it.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Default, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "field names are those of the format document")]
pub struct RawXattrEntry {
    pub e_name_len: u8,
    pub e_name_index: u8,
    pub e_value_offs: U16,
    pub e_value_inum: U32,
    pub e_value_size: U32,
    pub e_hash: U32,
}

const _: () = assert!(size_of::<RawXattrHeader>() == BLOCK_HEADER_SIZE);
const _: () = assert!(size_of::<RawXattrEntry>() == ENTRY_SIZE);
const _: () = assert!(std::mem::offset_of!(RawXattrEntry, e_hash) == 12);

impl RawXattrHeader {
    /// The header at the start of a block; zeroes where the block is too short.
    pub fn from_block(block: &[u8]) -> Self {
        Self::read_from_prefix(block).map_or_else(|_| Self::default(), |(header, _)| header)
    }

    /// Writes the header back.
    pub fn store(&self, block: &mut [u8]) {
        if let Some(place) = block.get_mut(..BLOCK_HEADER_SIZE) {
            place.copy_from_slice(self.as_bytes());
        }
    }
}

/// Bytes that an entry with a name of `name_len` bytes takes in the table.
pub fn entry_len(name_len: u8) -> usize {
    padded(ENTRY_SIZE + usize::from(name_len))
}

/// `size` rounded up to the four bytes to which names and values are padded.
pub fn padded(size: usize) -> usize {
    size.saturating_add(3) & !3
}

/// Bytes that hold attributes, and where in them entries and values are counted from.
#[derive(Clone, Copy, Debug)]
pub struct Area<'a> {
    /// The bytes, header included.
    pub bytes: &'a [u8],
    /// Where the first entry stands.
    pub entries_at: usize,
    /// Where value offsets are counted from.
    pub values_at: usize,
}

impl<'a> Area<'a> {
    /// The area of an attribute block.
    pub fn of_block(block: &'a [u8]) -> Self {
        Area { bytes: block, entries_at: BLOCK_HEADER_SIZE, values_at: 0 }
    }

    /// The area behind `i_extra_isize`, magic included; `None` where the magic is not there (no attributes).
    pub fn of_inode(record: &'a [u8]) -> Option<Self> {
        let bytes = record.get(inode_area_start(record)?..)?;
        let magic = u32::from_le_bytes(*bytes.first_chunk()?);
        let area = Area { bytes, entries_at: INODE_HEADER_SIZE, values_at: INODE_HEADER_SIZE };
        (magic == XATTR_MAGIC).then_some(area)
    }

    /// The entries in the order of the table, up to the end mark or the first entry that reaches out of the area.
    pub fn entries(self) -> Entries<'a> {
        Entries { area: self, at: self.entries_at }
    }

    /// The bytes of a value in this area; `None` when it reaches out of it.
    pub fn value(&self, entry: &Entry<'_>) -> Option<&'a [u8]> {
        self.bytes.get(self.value_range(entry)?)
    }

    /// Where the value of `entry` lies, within the bytes of the area; `None` when it reaches out of it.
    pub fn value_range(&self, entry: &Entry<'_>) -> Option<std::ops::Range<usize>> {
        let start = self.values_at + usize::from(entry.value_offset);
        let end = start.checked_add(usize::try_from(entry.value_size).ok()?)?;
        (end <= self.bytes.len()).then_some(start..end)
    }

    /// The attribute with this name whose value lies in this area. As everywhere in the family, a name ends with its
    /// first zero byte, whatever its length says.
    pub fn find(&self, name_index: u8, name: &[u8]) -> Option<Entry<'a>> {
        let is_named = |entry: &Entry<'_>| entry.name.split(|byte| *byte == 0).next() == Some(name);
        let mut entries = self.entries().filter_map(Result::ok);
        entries.find(|entry| entry.name_index == name_index && entry.value_inode == 0 && is_named(entry))
    }
}

/// Where the attribute area of an inode record starts; `None` where the record leaves no room for one.
pub fn inode_area_start(record: &[u8]) -> Option<usize> {
    // `i_extra_isize` is the first field behind the base record; where that is all, there is none.
    let extra = record
        .get(BASE_INODE_SIZE..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |field| u16::from_le_bytes(*field));
    let start = BASE_INODE_SIZE + usize::from(extra);
    (start + INODE_HEADER_SIZE < record.len()).then_some(start)
}

/// One entry of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Where it stands in the area.
    pub at: usize,
    /// The name, without its prefix.
    pub name: &'a [u8],
    /// The prefix; see [`name_index`].
    pub name_index: u8,
    /// Where the value starts.
    pub value_offset: u16,
    /// The inode that holds the value; 0 when it lies in the area.
    pub value_inode: u32,
    /// Length of the value.
    pub value_size: u32,
    /// Hash of name and value.
    pub hash: u32,
}

impl Entry<'_> {
    /// Bytes that it takes in the table.
    pub fn table_len(&self) -> usize {
        padded(ENTRY_SIZE + self.name.len())
    }

    /// The full name, prefix included.
    pub fn full_name(&self) -> Vec<u8> {
        let mut full = prefix(self.name_index).as_bytes().to_vec();
        full.extend_from_slice(self.name);
        full
    }

    /// The hash that belongs to the entry when its value is `value`.
    pub fn hash_with_value(&self, value: &[u8], sign: CharSign) -> u32 {
        let name = name_hash(self.name, sign);
        if self.value_size == 0 { name } else { value_words(value).fold(name, mix_value) }
    }

    /// The hash that belongs to the entry when its value lies in an inode that stores `value_hash` for it.
    pub fn hash_with_value_hash(&self, value_hash: u32, sign: CharSign) -> u32 {
        mix_value(name_hash(self.name, sign), value_hash)
    }
}

/// An entry that reaches out of its area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Truncated {
    /// Where the entry stands.
    pub at: usize,
    /// The length of its name; `None` where not even the fixed part fits.
    pub name_len: Option<u8>,
}

/// Iterator over the entries of an [`Area`]. After an error it ends.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    area: Area<'a>,
    at: usize,
}

impl Entries<'_> {
    /// Where the next entry, or the end mark, stands.
    pub fn position(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Truncated>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.area.bytes.get(at..)?;
        let first = rest.first_chunk::<4>()?;
        if *first == [0; 4] {
            return None;
        }
        let Ok((raw, names)) = RawXattrEntry::read_from_prefix(rest) else {
            self.at = usize::MAX;
            return Some(Err(Truncated { at, name_len: None }));
        };
        let Some(name) = names.get(..usize::from(raw.e_name_len)) else {
            self.at = usize::MAX;
            return Some(Err(Truncated { at, name_len: Some(raw.e_name_len) }));
        };
        self.at = at + entry_len(raw.e_name_len);
        Some(Ok(Entry {
            at,
            name,
            name_index: raw.e_name_index,
            value_offset: raw.e_value_offs.get(),
            value_inode: raw.e_value_inum.get(),
            value_size: raw.e_value_size.get(),
            hash: raw.e_hash.get(),
        }))
    }
}

/// How the machine that wrote a hash saw characters over 127: two hashes are right for such names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CharSign {
    /// As positive numbers; what current implementations write.
    Unsigned,
    /// As negative numbers; what some kernels wrote.
    Signed,
}

/// Hash of a name alone.
fn name_hash(name: &[u8], sign: CharSign) -> u32 {
    name.iter().fold(0u32, |hash, byte| {
        let character = match sign {
            CharSign::Unsigned => u32::from(*byte),
            CharSign::Signed => i32::from(byte.cast_signed()).cast_unsigned(),
        };
        hash.rotate_left(5) ^ character
    })
}

fn mix_value(hash: u32, word: u32) -> u32 {
    hash.rotate_left(16) ^ word
}

/// The value as 32-bit words, the last one filled up with zeroes.
fn value_words(value: &[u8]) -> impl Iterator<Item = u32> + '_ {
    value.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(word)
    })
}

/// `h_hash` of an attribute block: all entry hashes mixed; 0, which keeps the block from being shared, as soon as
/// one entry has none.
pub fn block_hash(area: Area<'_>) -> u32 {
    let mut hash = 0u32;
    for entry in area.entries().map_while(Result::ok) {
        if entry.hash == 0 {
            return 0;
        }
        hash = hash.rotate_left(16) ^ entry.hash;
    }
    hash
}

/// What an inode that holds an attribute value stores about it, in fields that mean something else elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueHolder {
    /// Hash of the value (`i_atime`): CRC32C from the checksum seed.
    pub hash: u32,
    /// How many entries refer to it (`i_ctime` high, `i_version` low).
    pub references: u64,
    /// Lustre's older scheme: the only inode that refers to it (`i_mtime`) ...
    pub parent: u32,
    /// ... and that inode's generation.
    pub parent_generation: u32,
    /// Whether hash and the upper half of the reference count are the same number, as in Lustre's older scheme, where
    /// they are times and no references are counted.
    pub uncounted: bool,
}

impl ValueHolder {
    /// Reads the fields of an inode.
    pub fn of(inode: &RawInode) -> Self {
        let high = inode.i_ctime.get();
        ValueHolder {
            hash: inode.i_atime.get(),
            references: u64::from(high) << 32 | u64::from(inode.i_version.get()),
            parent: inode.i_mtime.get(),
            parent_generation: inode.i_generation.get(),
            uncounted: high == inode.i_atime.get(),
        }
    }
}

#[cfg(test)]
mod tests;
