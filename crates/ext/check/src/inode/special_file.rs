// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices, pipes and sockets: no data, no size; and those that are something else by their data.

use fsmend_base::BlockNo;
use fsmend_engine::Value;
use fsmend_ext_format::extent::{Extent, ExtentHeader, extents, indexes};
use fsmend_ext_format::features::{Compat, Incompat};
use fsmend_ext_format::inode::{I_BLOCK_LEN, InodeFlags, mode};
use fsmend_ext_format::xattr::{Area, name_index};

use super::problems::{
    BLOCK_DEVICE_WRONG, CHAR_DEVICE_WRONG, FIFO_WRONG, IMMUTABLE_SPECIAL, SIZE_OF_SPECIAL, SOCKET_WRONG,
    SPECIAL_WITH_MAP_FLAGS, TREAT_AS_DIRECTORY, TYPE_RESTORED,
};
use super::subject::Subject;
use crate::extent;

/// Checks a device, pipe or socket; `false` when it makes no sense and has to be cleared.
pub(crate) fn inspect(subject: &mut Subject<'_, '_>) -> bool {
    if !is_plausible(subject) {
        let row = match subject.raw.file_type() {
            mode::CHAR_DEVICE => &CHAR_DEVICE_WRONG,
            mode::BLOCK_DEVICE => &BLOCK_DEVICE_WRONG,
            mode::FIFO => &FIFO_WRONG,
            _ => &SOCKET_WRONG,
        };
        let problem = subject.problem(row);
        subject.raise(problem);
        return false;
    }
    let map_flags = InodeFlags::INLINE_DATA | InodeFlags::EXTENTS;
    if subject.raw.flags().intersects(map_flags) {
        let problem = subject.problem(&SPECIAL_WITH_MAP_FLAGS);
        subject.raise(problem);
        subject.raw.clear_flag(map_flags);
    }
    immutable(subject);
    if subject.raw.size() != 0 {
        let problem = subject.problem(&SIZE_OF_SPECIAL).stored(subject.raw.size());
        subject.raise(problem);
        subject.raw.set_size(0);
    }
    true
}

/// Immutable and append-only marks on something that cannot have them.
pub(crate) fn immutable(subject: &mut Subject<'_, '_>) {
    let marks = InodeFlags::IMMUTABLE | InodeFlags::APPEND;
    if subject.raw.flags().intersects(marks) {
        let problem = subject.problem(&IMMUTABLE_SPECIAL);
        subject.raise(problem);
        subject.raw.clear_flag(marks);
    }
}

/// Words behind the device number that may be damaged in a device, pipe or socket: a map has more.
const JUNK_MAX: usize = 2;

/// Some implementations leave junk behind the device number, so that alone proves nothing, and flags that no device can have may be all
/// that is wrong with it. Both together prove that it was never one, unless a word or two are all the junk; so does the root of an extent tree. (Where
/// no directory has an index, its flag was never that of anything else, and proves nothing.)
fn is_plausible(subject: &Subject<'_, '_>) -> bool {
    let raw = &subject.raw;
    let has_indexes = subject.fs.geometry.features.has_compat(Compat::DIR_INDEX);
    let index = if has_indexes { InodeFlags::INDEX } else { InodeFlags::empty() };
    let impossible = index | InodeFlags::EXTENTS | InodeFlags::IMMUTABLE | InodeFlags::APPEND;
    let words = (4..15).filter(|index| raw.block_word(*index) != 0).count();
    let junk = words > JUNK_MAX || extent::is_root(subject);
    !raw.flags().intersects(impossible) || !junk
}

/// Makes an inode a directory again whose mode says that it is something else, but whose first block holds the
/// entries of a directory with this number.
pub(crate) fn recognise_directory(subject: &mut Subject<'_, '_>) {
    if subject.is_directory()
        || subject.is_regular()
        || subject.is_symlink()
        || subject.raw.block_word(0) == 0
    {
        return;
    }
    if !holds_directory(subject) {
        return;
    }
    let stored = Value::Text(format!("{:#o}", subject.raw.i_mode.get()));
    let problem = subject.problem(&TREAT_AS_DIRECTORY).stored(stored);
    subject.raise(problem);
    let permissions = permissions(subject);
    subject.raw.i_mode.set(mode::DIRECTORY | permissions);
}

/// Makes an inode a regular file again whose mode has an impossible type, or says that it is a device, pipe or socket, but which holds
/// the contents of a file: extents, data in the inode, or (where the type is impossible) a block map. What has the permissions of a symbolic link and the
/// contents of one becomes one.
pub(crate) fn recognise_file(subject: &mut Subject<'_, '_>) {
    let is_impossible = subject.kind().is_none();
    if !is_impossible && !subject.is_special_file() || !holds_file(subject, is_impossible) {
        return;
    }
    let stored = Value::Text(format!("{:#o}", subject.raw.i_mode.get()));
    let problem = subject.problem(&TYPE_RESTORED).stored(stored);
    subject.raise(problem);
    let permissions = subject.raw.i_mode.get() & 0o7777;
    let kind = if holds_link_target(subject) { mode::SYMLINK } else { mode::REGULAR };
    subject.raw.i_mode.set(kind | permissions);
}

/// Whether the contents can only be the target of a symbolic link, which has mode 0777: too long for a target in `i_block`, no line ends, and
/// zeroes behind the end.
fn holds_link_target(subject: &Subject<'_, '_>) -> bool {
    let raw = &subject.raw;
    let Ok(size) = usize::try_from(raw.size()) else { return false };
    let is_open = raw.i_mode.get() & 0o7777 == 0o777 && raw.i_links_count.get() == 1;
    if !is_open || size < I_BLOCK_LEN || raw.has_flag(InodeFlags::ENCRYPT) {
        return false;
    }
    let bytes = if raw.has_flag(InodeFlags::INLINE_DATA) {
        let area = Area::of_inode(&subject.record);
        let value = area.and_then(|area| area.value(&area.find(name_index::SYSTEM, b"data")?));
        [&raw.i_block[..], value.unwrap_or_default(), &[0]].concat()
    } else {
        let by_extents = raw.has_flag(InodeFlags::EXTENTS);
        let first = if by_extents { first_extent_block(subject) } else { first_mapped_block(subject) };
        first.and_then(|block| subject.fs.read_block(BlockNo(block)).ok()).unwrap_or_default()
    };
    let is_letter = |byte: &u8| !matches!(*byte, 0 | b'\n');
    bytes.get(..size).is_some_and(|target| target.iter().all(is_letter))
        && bytes.get(size..).is_some_and(|rest| !rest.is_empty() && rest.iter().all(|byte| *byte == 0))
}

fn holds_file(subject: &Subject<'_, '_>, is_impossible: bool) -> bool {
    let raw = &subject.raw;
    let has_size = raw.size() > 0;
    let has_space = raw.i_blocks_lo.get() > 0 || raw.i_blocks_high.get() > 0;
    match (raw.has_flag(InodeFlags::EXTENTS), raw.has_flag(InodeFlags::INLINE_DATA)) {
        (true, false) => {
            let has_entries = ExtentHeader::parse(&raw.i_block).is_some_and(|root| root.entries > 0);
            extent::is_enabled(subject) && has_size && has_space && has_entries
        }
        (false, true) => {
            let area = Area::of_inode(&subject.record);
            let has_data = area.is_some_and(|area| area.find(name_index::SYSTEM, b"data").is_some());
            subject.has_incompat(Incompat::INLINE_DATA) && has_size && has_data
        }
        (false, false) => {
            let first = first_mapped_block(subject).filter(|block| *block != 0);
            is_impossible && has_size && has_space && first.is_some()
        }
        (true, true) => false,
    }
}

/// The permissions of a directory whose type was lost, and perhaps they with it. Those of lost+found, which is the first ordinary inode
/// wherever it was made, are known; what is found in there later may be anybody's.
fn permissions(subject: &Subject<'_, '_>) -> u16 {
    let is_lost_found = subject.inode.0 == subject.fs.geometry.first_inode;
    if is_lost_found { 0o700 } else { subject.raw.i_mode.get() & 0o7777 }
}

fn holds_directory(subject: &Subject<'_, '_>) -> bool {
    let raw = &subject.raw;
    if raw.has_flag(InodeFlags::INLINE_DATA) {
        return holds_inline_directory(subject);
    }
    let by_extents = raw.has_flag(InodeFlags::EXTENTS);
    let first = if by_extents { first_extent_block(subject) } else { first_mapped_block(subject) };
    let device_number_only = !by_extents && (4..15).all(|index| raw.block_word(index) == 0);
    let device = matches!(raw.file_type(), mode::CHAR_DEVICE | mode::BLOCK_DEVICE);
    if device && raw.i_links_count.get() == 1 && device_number_only {
        return false;
    }
    let Some(Ok(bytes)) = first.map(|block| subject.fs.read_block(BlockNo(block))) else { return false };
    starts_like_directory(&bytes, subject.inode.0)
}

/// The first block by the block map, if all words of the map could be block numbers.
fn first_mapped_block(subject: &Subject<'_, '_>) -> Option<u64> {
    let is_possible = |block: u64| {
        block == 0 || subject.fs.is_valid_block(BlockNo(block)) && !subject.fs.metadata.get(block)
    };
    let possible = (0..15).all(|index| is_possible(u64::from(subject.raw.block_word(index))));
    possible.then(|| u64::from(subject.raw.block_word(0)))
}

/// The first block by the extent tree, going down at most as many levels as there can be.
fn first_extent_block(subject: &Subject<'_, '_>) -> Option<u64> {
    let mut node = subject.raw.i_block.to_vec();
    for _ in 0..=fsmend_ext_format::extent::MAX_DEPTH {
        let header = ExtentHeader::parse(&node)?;
        if header.depth == 0 {
            let first: Extent = extents(&node, &header).next()?;
            let block = BlockNo(first.physical);
            return (first.logical == 0 && subject.fs.is_valid_block(block)).then_some(block.0);
        }
        let child = BlockNo(indexes(&node, &header).next()?.child);
        node = subject.fs.is_valid_block(child).then(|| subject.fs.read_block(child).ok()).flatten()?;
    }
    None
}

/// Whether a block starts with entries for `.`, this very inode, and `..`.
fn starts_like_directory(block: &[u8], inode: u32) -> bool {
    let entry = |at: usize| -> Option<(u32, usize, usize, &[u8])> {
        let bytes = block.get(at..at + 12)?;
        let number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let length = usize::from(u16::from_le_bytes([bytes[4], bytes[5]]));
        Some((number, length, usize::from(bytes[6]), &bytes[8..10]))
    };
    let Some((own, length, name_length, name)) = entry(0) else { return false };
    let first = own == inode && name_length == 1 && name[0] == b'.';
    if !first || length < 12 || length % 4 != 0 || length + 12 > block.len() {
        return false;
    }
    entry(length).is_some_and(|(_, length, name_length, name)| {
        name_length == 2 && name == b".." && length >= 12 && length % 4 == 0
    })
}

/// Whether inline data are those of a directory: a parent number, then entries that fill the rest of `i_block`.
fn holds_inline_directory(subject: &Subject<'_, '_>) -> bool {
    let inodes = subject.fs.geometry.inodes_count;
    let is_number = |number: u32| number <= inodes;
    let bytes = &subject.raw.i_block;
    if subject.raw.block_word(0) == 0 || !is_number(subject.raw.block_word(0)) {
        return false;
    }
    let mut at = 4;
    while at < bytes.len() {
        let Some(entry) = bytes.get(at..at + 8) else { return false };
        let number = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let length = usize::from(u16::from_le_bytes([entry[4], entry[5]]));
        let name_length = usize::from(entry[6]);
        if !is_number(number)
            || length < 8
            || length % 4 != 0
            || at + length > bytes.len()
            || name_length + 8 > length
        {
            return false;
        }
        at += length;
    }
    true
}
