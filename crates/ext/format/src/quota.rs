// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quota files, format 2 (`vfsv0`, `vfsv1`): 1 KiB blocks whatever the file system's; a radix tree of four levels
//! over the id, with leaf blocks that hold entries of any ids.
//!
//! ```text
//! block 0   0 dqh_magic 4 dqh_version  8 dqi_bgrace 12 dqi_igrace 16 dqi_flags 20 dqi_blocks 24 dqi_free_blk 28 dqi_free_entry
//! block 1   root of the tree: 256 block numbers (0 = none), indexed by bits 31..24 of the id; then 23..16, ...
//! leaf      16 bytes of header, then entries of 48 (version 0) or 72 bytes (version 1)
//! ```
//! Source: the kernel's `Documentation/filesystems/quota` and the format as written by the quota tools.

pub mod build;
pub mod tree;

/// Bytes in a block of a quota file.
pub const QUOTA_BLOCK_SIZE: usize = 1024;
/// Block of the tree's root.
pub const QUOTA_TREE_ROOT: u32 = 1;
/// Levels of the tree above the leaves.
pub const QUOTA_TREE_DEPTH: u32 = 4;
const LEAF_HEADER: usize = 16;

/// Whose use is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum QuotaType {
    /// Users.
    User = 0,
    /// Groups (of users).
    Group = 1,
    /// Projects.
    Project = 2,
}

impl QuotaType {
    /// All of them, in the order of their numbers.
    pub const ALL: [QuotaType; 3] = [QuotaType::User, QuotaType::Group, QuotaType::Project];

    /// `dqh_magic` of this type's file.
    pub fn magic(self) -> u32 {
        match self {
            QuotaType::User => 0xD9C0_1F11,
            QuotaType::Group => 0xD9C0_1927,
            QuotaType::Project => 0xD9C0_3F14,
        }
    }

    /// What it is called in messages.
    pub fn word(self) -> &'static str {
        match self {
            QuotaType::User => "user",
            QuotaType::Group => "group",
            QuotaType::Project => "project",
        }
    }
}

/// `dqh_version` of a quota file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuotaVersion {
    /// 32-bit limits.
    R0,
    /// 64-bit limits.
    R1,
}

/// What one entry says about one id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QuotaEntry {
    /// User, group or project.
    pub id: u32,
    /// Bytes in use.
    pub bytes: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// What may be used.
    pub limits: QuotaLimits,
}

/// What may be used, and since when it has been more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QuotaLimits {
    /// Inodes: never more than this; 0 for any number.
    pub inodes_hard: u64,
    /// Inodes: more than this only for a while; 0 for any number.
    pub inodes_soft: u64,
    /// KiB: never more than this; 0 for any number.
    pub kib_hard: u64,
    /// KiB: more than this only for a while; 0 for any number.
    pub kib_soft: u64,
    /// When the grace for KiB ends, in seconds; 0 while it has not begun.
    pub kib_grace_end: u64,
    /// When the grace for inodes ends, in seconds; 0 while it has not begun.
    pub inodes_grace_end: u64,
}

/// The version of the file that begins with `block`, if it is a quota file of type `kind`.
pub fn version(block: &[u8], kind: QuotaType) -> Option<QuotaVersion> {
    match (le32(block, 0)? == kind.magic(), le32(block, 4)?) {
        (true, 0) => Some(QuotaVersion::R0),
        (true, 1) => Some(QuotaVersion::R1),
        _ => None,
    }
}

/// How many blocks the file that begins with `block` says it has.
pub fn stored_blocks(block: &[u8]) -> u32 {
    le32(block, 20).unwrap_or(0)
}

/// Where the lists of free blocks and of leaves with free entries begin, by the first block of a file; 0 for no such list.
pub fn free_lists(block: &[u8]) -> [u32; 2] {
    [24, 28].map(|at| le32(block, at).unwrap_or(0))
}

/// The block numbers that a tree block leads to, unused ones left out.
pub fn references(block: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let words = block.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    words.filter(|number| *number != 0)
}

/// The entries of a leaf block, unused ones (all zero) left out.
pub fn entries(block: &[u8], version: QuotaVersion) -> impl Iterator<Item = QuotaEntry> + '_ {
    let size = match version {
        QuotaVersion::R0 => 48,
        QuotaVersion::R1 => 72,
    };
    let records = block.get(LEAF_HEADER..).unwrap_or(&[]).chunks_exact(size);
    records
        .filter(|record| record.iter().any(|byte| *byte != 0))
        .filter_map(move |record| entry(record, version))
}

fn entry(record: &[u8], version: QuotaVersion) -> Option<QuotaEntry> {
    let id = le32(record, 0)?;
    let half = |at: usize| le32(record, at).map(u64::from);
    let whole = |at: usize| le64(record, at);
    Some(match version {
        QuotaVersion::R0 => QuotaEntry {
            id,
            inodes: half(12)?,
            bytes: whole(24)?,
            limits: QuotaLimits {
                inodes_hard: half(4)?,
                inodes_soft: half(8)?,
                kib_hard: half(16)?,
                kib_soft: half(20)?,
                kib_grace_end: half(32)?,
                inodes_grace_end: half(40)?,
            },
        },
        QuotaVersion::R1 => QuotaEntry {
            id,
            inodes: whole(24)?,
            bytes: whole(48)?,
            limits: QuotaLimits {
                inodes_hard: whole(8)?,
                inodes_soft: whole(16)?,
                kib_hard: whole(32)?,
                kib_soft: whole(40)?,
                kib_grace_end: whole(56)?,
                inodes_grace_end: whole(64)?,
            },
        },
    })
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).map(|part| u32::from_le_bytes([part[0], part[1], part[2], part[3]]))
}

fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(le32(bytes, at + 4)?) << 32 | u64::from(le32(bytes, at)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_tell_type_and_version() {
        let header = [0x11, 0x1F, 0xC0, 0xD9, 1, 0, 0, 0];
        assert_eq!(version(&header, QuotaType::User), Some(QuotaVersion::R1));
        assert_eq!(version(&header, QuotaType::Group), None);
        assert_eq!(version(&header[..6], QuotaType::User), None);
    }

    #[test]
    fn entries_of_both_versions() {
        let mut block = [0; QUOTA_BLOCK_SIZE];
        block[16] = 5;
        block[16 + 24] = 3;
        block[16 + 49] = 16;
        let expected = QuotaEntry { id: 5, bytes: 4096, inodes: 3, ..QuotaEntry::default() };
        assert_eq!(entries(&block, QuotaVersion::R1).collect::<Vec<_>>(), [expected]);
        let mut block = [0; QUOTA_BLOCK_SIZE];
        block[16 + 48] = 7;
        block[16 + 48 + 12] = 2;
        block[16 + 48 + 25] = 4;
        let expected = QuotaEntry { id: 7, bytes: 1024, inodes: 2, ..QuotaEntry::default() };
        assert_eq!(entries(&block, QuotaVersion::R0).collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn unused_references_are_left_out() {
        assert_eq!(references(&[0, 0, 0, 0, 6, 0, 0, 0]).collect::<Vec<_>>(), [6]);
    }
}
