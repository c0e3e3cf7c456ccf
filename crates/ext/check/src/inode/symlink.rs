// SPDX-License-Identifier: MIT OR Apache-2.0
//! Symbolic links: the target is as long as the size says, in the inode or in one block.

use fsmend_base::BlockNo;
use fsmend_ext_format::extent::ExtentHeader;
use fsmend_ext_format::inode::{I_BLOCK_LEN, InodeFlags};

use super::layout::Layout;
use super::link_target::text_length;
use super::map::Map;
use super::problems::SYMLINK_WRONG;
use super::special_file::immutable;
use super::subject::Subject;

/// Checks a symbolic link whose map has been walked; `false` when it has to be cleared.
/// `inline` is the length of inline data.
pub(crate) fn inspect(subject: &mut Subject<'_, '_>, layout: Layout, map: &Map, inline: Option<u64>) -> bool {
    let length = if layout == Layout::Inline { inline } else { target_length(subject, layout, map) };
    let size = subject.raw.size();
    if length != Some(size) || size == 0 {
        let problem = subject.problem(&SYMLINK_WRONG).stored(size).observed(length.unwrap_or(0));
        subject.raise(problem);
        return false;
    }
    immutable(subject);
    true
}

/// The length of the target, `None` where there is no proper one.
fn target_length(subject: &Subject<'_, '_>, layout: Layout, map: &Map) -> Option<u64> {
    let encrypted = subject.raw.has_flag(InodeFlags::ENCRYPT);
    match layout {
        Layout::Inline => None,
        Layout::None => text_length(&subject.raw.i_block, encrypted),
        Layout::Extents | Layout::BlockMap => {
            // The kernel looks for so short a target in the inode.
            if subject.raw.size() < I_BLOCK_LEN as u64 {
                let in_inode = map.run_count() == 0 && !subject.raw.has_flag(InodeFlags::EXTENTS);
                return if in_inode { text_length(&subject.raw.i_block, encrypted) } else { None };
            }
            let deep = layout == Layout::Extents
                && ExtentHeader::parse(&subject.raw.i_block).is_some_and(|header| header.depth > 0);
            let single = map.end() == 1 && map.run_count() == 1 && !deep && one_block_words(subject, layout);
            let run = map.first_run().filter(|_| single)?;
            text_length(&subject.fs.read_block(BlockNo(run.physical)).ok()?, encrypted)
        }
    }
}

/// Whether nothing but the first word of a block map is set.
fn one_block_words(subject: &Subject<'_, '_>, layout: Layout) -> bool {
    layout == Layout::Extents || (1..15).all(|index| subject.raw.block_word(index) == 0)
}
