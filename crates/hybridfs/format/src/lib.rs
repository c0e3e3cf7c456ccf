// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of hybridfs: parsing and storing every structure, checksums, the hash of names. No I/O, no threads.
//!
//! The layout stands in docs/formats/hybridfs.md. Each structure has `parse`, which refuses what cannot be and says why ([`Wrong`]), and `store`.
//! What is parsed has a right checksum; whether it leads to where it may is for the reader to say ([`Superblock::log`], [`Superblock::data_index`]).

// Numbers here come from disks, and go there: a cast that loses bits must say why.
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod anchor;
mod attributes;
mod bytes;
mod directory;
mod hash;
mod header;
mod inode;
mod record;
mod summary;
mod superblock;

pub use anchor::{ANCHORS, Anchor, AnchorFlags, anchor_offset};
pub use attributes::{ATTRIBUTES_MAX, Attribute, parse_attributes, store_attributes};
pub use directory::{Entry, EntryView, KEYS_RESERVED, TIES, parse_entries, store_entries, visit_entries};
pub use hash::{NameKeys, name_key};
pub use header::{HEADER_LEN, Header, Kind, seal};
pub use inode::{BODY_LEN, Format, INODE_LEN, Inode, InodeView, SLOT_ATTRIBUTES, Stamp};
pub use record::{IN_INODE, Map, Place, RECORD_LEN, Record, node_capacity, parse_node, store_node};
pub use summary::{Row, Run, Stream, Summary, SummaryFlags, Totals};
pub use superblock::{Incompat, LOG_HEAD, STATIC_LEN, SUPERBLOCK_OFFSET, Superblock, VERSION, usual_log};

use fsmend_base::crc32c;

/// Owner of the nodes of the IFILE.
pub const OWNER_IFILE: u64 = u64::MAX;
/// Owner of the nodes of the BFILE and of the bitmaps.
pub const OWNER_BFILE: u64 = u64::MAX - 1;
/// Owner of summaries and their continuations.
pub const OWNER_LOG: u64 = u64::MAX - 2;
/// The root directory.
pub const ROOT: u32 = 2;
/// BFILE keys of the bitmaps of data begin here.
pub const DATA_BITMAPS: u64 = 1 << 32;

/// Why bytes are not the structure that they should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// There are too few bytes.
    Short,
    /// The magic number is another.
    Magic,
    /// The checksum is wrong.
    Checksum,
    /// A version that is not known.
    Version,
    /// A block of another file system.
    Uuid,
    /// A block of another place, owner or time.
    Identity,
    /// A value that cannot be; its name.
    Value(&'static str),
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Wrong::Short => "too short",
            Wrong::Magic => "wrong magic number",
            Wrong::Checksum => "wrong checksum",
            Wrong::Version => "unknown version",
            Wrong::Uuid => "belongs to another file system",
            Wrong::Identity => "belongs to another place, owner or time",
            Wrong::Value(what) => what,
        })
    }
}

impl std::error::Error for Wrong {}

/// What a parser returns.
pub type Parsed<T> = Result<T, Wrong>;

/// The state from which the checksums of a file system go on.
pub fn seed(uuid: &[u8; 16]) -> u32 {
    crc32c(u32::MAX, uuid)
}

/// The checksum of contents, rows and streams, which does not depend on the UUID.
pub fn plain_crc(bytes: &[u8]) -> u32 {
    crc32c(u32::MAX, bytes)
}
