//! What `i_block` looks like, when flags contradict each other.

use crate::Fs;

/// Whether `i_block` starts with a sane extent header.
pub fn looks_like_extent_tree(_i_block: &[u8]) -> bool {
    false
}

/// Whether the file is small enough for its data to live in the inode.
pub fn looks_like_inline(_fs: &Fs<'_>, _record: &[u8]) -> bool {
    false
}

/// Whether all words of `i_block` could be block numbers.
pub fn looks_like_block_map(_fs: &Fs<'_>, _i_block: &[u8]) -> bool {
    false
}
