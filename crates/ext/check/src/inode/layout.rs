// SPDX-License-Identifier: MIT OR Apache-2.0
//! How an inode holds its data, when flags, features and contents contradict each other.

use fsmend_engine::Row;
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::inode::{I_BLOCK_LEN, InodeFlags};

use super::link_target;
use super::problems::{
    BOTH_FLAGS_BLOCK_MAP, BOTH_FLAGS_EXTENTS, BOTH_FLAGS_INLINE, BOTH_FLAGS_JUNK, SPECIAL_WITH_MAP_FLAGS,
};
use super::subject::Subject;
use crate::extent;
use crate::extent::problems::{FLAG_MISSING, FLAG_ON_FAST_SYMLINK, FLAG_WITHOUT_TREE, TREE_WITHOUT_FEATURE};

/// How an inode holds its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// It has no data, or a short link target in `i_block`.
    None,
    /// In the inode.
    Inline,
    /// In blocks, by an extent tree.
    Extents,
    /// In blocks, by a block map.
    BlockMap,
}

/// Settles contradicting flags; `None` when the inode has to be cleared (which has been raised).
pub(crate) fn settle(subject: &mut Subject<'_, '_>) -> Option<()> {
    let both = InodeFlags::EXTENTS | InodeFlags::INLINE_DATA;
    let either_feature = extent::is_enabled(subject) || subject.has_incompat(Incompat::INLINE_DATA);
    if subject.raw.has_flag(both) && either_feature {
        two_flags(subject)?;
    }
    if subject.raw.has_flag(InodeFlags::EXTENTS) && !extent::is_enabled(subject) && !subject.is_special_file()
    {
        if extent::is_root(subject) {
            raise(subject, &TREE_WITHOUT_FEATURE);
        } else {
            raise(subject, &FLAG_WITHOUT_TREE);
            return None;
        }
    }
    let has_map = subject.is_regular() || subject.is_directory();
    let is_tree = |subject: &Subject<'_, '_>| {
        extent::is_root(subject) || extent::is_enabled(subject) && extent::head::is_unmarked_root(subject)
    };
    if has_map && !subject.raw.flags().intersects(both) && is_tree(subject) {
        raise(subject, &FLAG_MISSING);
        subject.raw.set_flag(InodeFlags::EXTENTS);
    }
    Some(())
}

/// Both the extents and the inline-data flag: the contents decide.
fn two_flags(subject: &mut Subject<'_, '_>) -> Option<()> {
    let both = InodeFlags::EXTENTS | InodeFlags::INLINE_DATA;
    if subject.is_special_file() {
        raise(subject, &SPECIAL_WITH_MAP_FLAGS);
        subject.raw.clear_flag(both);
    } else if extent::is_root(subject) {
        raise(subject, &BOTH_FLAGS_EXTENTS);
        subject.raw.clear_flag(InodeFlags::INLINE_DATA);
    } else if fits_inline(subject) {
        raise(subject, &BOTH_FLAGS_INLINE);
        subject.raw.clear_flag(InodeFlags::EXTENTS);
    } else if looks_like_block_map(subject) {
        raise(subject, &BOTH_FLAGS_BLOCK_MAP);
        subject.raw.clear_flag(both);
    } else {
        raise(subject, &BOTH_FLAGS_JUNK);
        return None;
    }
    Some(())
}

/// Whether the file is small enough for its data to be in the inode.
fn fits_inline(subject: &Subject<'_, '_>) -> bool {
    let behind = subject.record.len().saturating_sub(128 + usize::from(subject.raw.i_extra_isize.get()));
    subject.raw.size() <= (I_BLOCK_LEN + behind) as u64
}

/// Whether all words of `i_block` could be block numbers.
fn looks_like_block_map(subject: &Subject<'_, '_>) -> bool {
    (0..15).all(|index| u64::from(subject.raw.block_word(index)) < subject.fs.geometry.blocks_count)
}

/// The extents flag on a symbolic link that lies in its inode.
pub(crate) fn fast_symlink_flag(subject: &mut Subject<'_, '_>) {
    if subject.is_symlink() && subject.raw.has_flag(InodeFlags::EXTENTS) && !has_blocks(subject) {
        raise(subject, &FLAG_ON_FAST_SYMLINK);
        subject.raw.clear_flag(InodeFlags::EXTENTS);
    }
}

/// How the (settled) inode holds its data.
pub(crate) fn of(subject: &Subject<'_, '_>) -> Layout {
    if !has_blocks(subject) {
        return if subject.raw.has_flag(InodeFlags::INLINE_DATA) { Layout::Inline } else { Layout::None };
    }
    if subject.raw.has_flag(InodeFlags::EXTENTS) { Layout::Extents } else { Layout::BlockMap }
}

/// Whether `i_block` maps blocks: in directories, regular files, and symbolic links that are not in the inode.
fn has_blocks(subject: &Subject<'_, '_>) -> bool {
    let raw = &subject.raw;
    if raw.has_flag(InodeFlags::INLINE_DATA) {
        return false;
    }
    if subject.is_symlink() {
        if link_target::lies_in_inode(subject) {
            return false;
        }
        let short = raw.size() < I_BLOCK_LEN as u64;
        if subject.file_acl() == 0 {
            if raw.i_blocks_lo.get() == 0 {
                // For a target of that length there is no room in the inode: the count may be what is wrong.
                return !short && leads_to_one_place(subject);
            }
            // With attribute values in inodes of their own, `i_blocks` counts theirs too.
            return !(short && subject.has_incompat(Incompat::EA_INODE));
        }
        return !short || (raw.size() > 4 && raw.block_word(1) == 0);
    }
    subject.is_regular() || subject.is_directory()
}

/// Whether `i_block` is what a link has whose target lies in a block.
fn leads_to_one_place(subject: &Subject<'_, '_>) -> bool {
    if subject.raw.has_flag(InodeFlags::EXTENTS) {
        return extent::is_root(subject);
    }
    subject.raw.block_word(0) != 0 && (1..15).all(|index| subject.raw.block_word(index) == 0)
}

fn raise(subject: &mut Subject<'_, '_>, row: &'static Row) {
    let problem = subject.problem(row);
    subject.raise(problem);
}
