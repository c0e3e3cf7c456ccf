// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kind of directory one is: settled once, asked for every block and entry.

use fsmend_base::InodeNo;
use fsmend_ext_format::casefold::EncodingFlags;
use fsmend_ext_format::checksum;
use fsmend_ext_format::directory::{EntryLayout, has_file_types};
use fsmend_ext_format::features::{Compat, Incompat};
use fsmend_ext_format::htree;
use fsmend_ext_format::inode::{InodeFlags, RawInode};

use super::Directory;
use crate::Fs;

/// What the checks have to know of a directory and its file system.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirectoryParams {
    /// The directory.
    pub inode: InodeNo,
    /// How its records are laid out.
    pub layout: EntryLayout,
    /// Highest inode number.
    pub inodes_count: u32,
    /// Whether entries carry file types.
    pub file_types: bool,
    /// Whether names compare without case.
    pub casefold: bool,
    /// Whether names that are not valid UTF-8 are refused.
    pub strict: bool,
    /// Whether names are encrypted.
    pub encrypted: bool,
    /// Whether the inode says that there is an index.
    pub index_flag: bool,
    /// Whether the file system has indexes.
    pub index_feature: bool,
    /// Most levels of index nodes.
    pub levels_max: u8,
    /// Whether it is too long for an index of two levels.
    pub is_huge: bool,
    /// Seed of the checksums of its blocks, if they have any.
    pub checksum_seed: Option<u32>,
    /// Bytes at the end of index blocks that hold no entries.
    pub index_tail: usize,
    /// The generation that the tails of its blocks say, on a rext3.
    pub tail_generation: Option<u32>,
}

impl DirectoryParams {
    /// Settles it.
    pub fn of(fs: &Fs<'_>, directory: &Directory) -> DirectoryParams {
        let features = fs.geometry.features;
        let raw = RawInode::from_record(&directory.record);
        let encrypted = features.has_incompat(Incompat::ENCRYPT) && raw.has_flag(InodeFlags::ENCRYPT);
        let casefold = features.has_incompat(Incompat::CASEFOLD) && raw.has_flag(InodeFlags::CASEFOLD);
        let seed = fs.geometry.checksum_seed;
        DirectoryParams {
            inode: directory.inode,
            layout: EntryLayout {
                block_size: fs.geometry.block_size,
                hash_behind_name: encrypted && casefold,
            },
            inodes_count: fs.geometry.inodes_count,
            file_types: has_file_types(features),
            casefold,
            strict: EncodingFlags::from_bits_retain(fs.superblock.s_encoding_flags.get())
                .contains(EncodingFlags::STRICT),
            encrypted,
            index_flag: raw.has_flag(InodeFlags::INDEX),
            index_feature: features.has_compat(Compat::DIR_INDEX),
            levels_max: htree::levels_max(features),
            is_huge: raw.size() > two_level_bytes(u64::from(fs.geometry.block_size)),
            checksum_seed: features
                .metadata_csum()
                .then(|| checksum::inode_seed(seed, directory.inode, raw.i_generation.get())),
            index_tail: htree::tail_len(features),
            tail_generation: fs.geometry.rext3().then(|| raw.i_generation.get()),
        }
    }
}

/// How long a directory can be at most whose index has two levels of nodes.
fn two_level_bytes(block_size: u64) -> u64 {
    let per_block = block_size / 8;
    (per_block - 1) * (per_block - 2) * block_size
}
