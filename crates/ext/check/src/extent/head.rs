// SPDX-License-Identifier: MIT OR Apache-2.0
//! The head of a tree's root of which one word is wrong. The other words, and the entries behind them, prove that it is one all the same: to clear
//! the inode would cost the whole file.

use fsmend_base::BlockNo;
use fsmend_ext_format::extent::{EXTENT_MAGIC, ExtentHeader, MAX_DEPTH, RawExtentHeader, extents, indexes};
use fsmend_ext_format::inode::I_BLOCK_LEN;
use zerocopy::{FromBytes, IntoBytes};

use crate::inode::size;
use crate::inode::subject::Subject;

/// Entries that a root has room for.
const ROOT_ENTRIES: u16 = 4;

/// The root in `i_block` with the right head; `None` where more than one word is wrong, or what stands behind makes no sense.
pub(crate) fn mended(subject: &Subject<'_, '_>) -> Option<[u8; I_BLOCK_LEN]> {
    let (raw, _) = RawExtentHeader::ref_from_prefix(&subject.raw.i_block).ok()?;
    let has_magic = raw.eh_magic.get() == EXTENT_MAGIC;
    let has_room = raw.eh_max.get() == ROOT_ENTRIES;
    let is_filled = raw.eh_entries.get() <= ROOT_ENTRIES;
    let wrong = [has_magic, has_room, is_filled].iter().filter(|is_right| !**is_right).count();
    if wrong != 1 || raw.eh_depth.get() > MAX_DEPTH {
        return None;
    }
    let counts = if is_filled { raw.eh_entries.get()..=raw.eh_entries.get() } else { 1..=ROOT_ENTRIES };
    counts
        .map(|entries| {
            let mut head = *raw;
            head.eh_magic.set(EXTENT_MAGIC);
            head.eh_max.set(ROOT_ENTRIES);
            head.eh_entries.set(entries);
            let mut root = subject.raw.i_block;
            root[..size_of::<RawExtentHeader>()].copy_from_slice(head.as_bytes());
            root
        })
        .find(|root| is_tree(subject, root, is_filled))
}

/// Whether `i_block` of an inode that has lost its flag for extents holds a root with a damaged head. More is wrong there than one word, so more has
/// to tell: the space in use goes with the tree, and as a map of blocks it leads to where no file's can be.
pub(crate) fn is_unmarked_root(subject: &Subject<'_, '_>) -> bool {
    let Some(root) = mended(subject) else { return false };
    let Some(header) = ExtentHeader::parse(&root) else { return false };
    let is_told = header.depth > 0 || leads_to_data(subject, &root, &header) == size::told_of_map(subject);
    let is_wrong = |block: u64| {
        block != 0 && (!subject.fs.is_valid_block(BlockNo(block)) || subject.fs.metadata.get(block))
    };
    is_told && (0..I_BLOCK_LEN / 4).any(|index| is_wrong(u64::from(subject.raw.block_word(index))))
}

/// Whether the entries of `root` make sense. Where the head does not give their number, it follows from the space in use.
fn is_tree(subject: &Subject<'_, '_>, root: &[u8], is_told: bool) -> bool {
    let Some(header) = ExtentHeader::parse(root) else { return false };
    let used = size::told_of_map(subject);
    match (header.entries, header.depth) {
        (0, depth) => depth == 0 && used == Some(0) && is_zeroes(root),
        (_, 0) => leads_to_data(subject, root, &header).is_some_and(|count| is_told || used == Some(count)),
        _ => leads_to_nodes(subject, root, &header),
    }
}

/// Whether nothing stands in the places of entries.
fn is_zeroes(root: &[u8]) -> bool {
    root.iter().skip(size_of::<RawExtentHeader>()).all(|byte| *byte == 0)
}

/// How many blocks the extents have together, where they lie one behind the other in the file, all of them where data can be.
fn leads_to_data(subject: &Subject<'_, '_>, root: &[u8], header: &ExtentHeader) -> Option<u64> {
    let (mut end, mut count) = (0, 0);
    for extent in extents(root, header) {
        let last = extent.physical.checked_add(u64::from(extent.count).checked_sub(1)?)?;
        let can_be =
            |block: u64| subject.fs.is_valid_block(BlockNo(block)) && !subject.fs.metadata.get(block);
        if u64::from(extent.logical) < end || !can_be(extent.physical) || !can_be(last) {
            return None;
        }
        (end, count) = (extent.logical_end(), count + u64::from(extent.count));
    }
    Some(count)
}

/// Whether each entry leads to a node one level below.
fn leads_to_nodes(subject: &Subject<'_, '_>, root: &[u8], header: &ExtentHeader) -> bool {
    indexes(root, header).all(|index| {
        let can_be = subject.fs.is_valid_block(BlockNo(index.child)) && !subject.fs.metadata.get(index.child);
        let node = if can_be { subject.fs.read_block(BlockNo(index.child)).ok() } else { None };
        node.and_then(|node| ExtentHeader::parse(&node)).is_some_and(|node| node.depth + 1 == header.depth)
    })
}
