// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nodes whose own word about their depth is wrong.

use fsmend_base::BlockNo;
use fsmend_ext_format::extent::{Extent, ExtentHeader, ExtentIndex, extents, indexes};

use super::first_logical;
use super::order::longest_ascending;
use crate::Fs;

/// Fewer entries than these prove nothing, where something else of the node is wrong as well.
const WITNESSES_MIN: usize = 3;

/// The header of a node that is to have `depth`, where its depth says otherwise: it begins where its parent says, and its entries make sense
/// at that depth and not only at another one. Of a leaf in which more is wrong, most of the entries do.
pub(super) fn told(fs: &Fs<'_>, node: &[u8], index: ExtentIndex, depth: u16) -> Option<ExtentHeader> {
    let stored = ExtentHeader::parse(node).filter(|header| header.entries > 0 && header.depth != depth)?;
    let told = ExtentHeader { depth, ..stored };
    let begins = first_logical(node, &told) == Some(index.logical);
    let is_told = if depth == 0 {
        begins && is_leaf(fs, node, &told) || is_mostly_leaf(fs, node, &told)
    } else {
        begins && is_inner(fs, node, &told)
    };
    is_told.then_some(told)
}

/// Whether most entries are extents of blocks that files can have, in the order of the file.
fn is_mostly_leaf(fs: &Fs<'_>, node: &[u8], header: &ExtentHeader) -> bool {
    let starts: Vec<u32> =
        extents(node, header).filter(|extent| could_be(fs, extent)).map(|extent| extent.logical).collect();
    let witnesses = longest_ascending(&starts).len();
    witnesses >= WITNESSES_MIN && 2 * witnesses > usize::from(header.entries)
}

/// Whether an entry maps blocks that files can have.
fn could_be(fs: &Fs<'_>, extent: &Extent) -> bool {
    let is_place = |block: u64| fs.is_valid_block(BlockNo(block)) && !fs.metadata.get(block);
    extent.count > 0 && is_place(extent.physical) && is_place(extent.physical_end().saturating_sub(1))
}

/// Whether the entries are extents, one behind the other, of blocks that files can have.
fn is_leaf(fs: &Fs<'_>, node: &[u8], header: &ExtentHeader) -> bool {
    let mut end = 0;
    extents(node, header).all(|extent| {
        let follows = u64::from(extent.logical) >= end;
        end = extent.logical_end();
        follows && could_be(fs, &extent)
    })
}

/// Whether the first entry leads to a node one level below.
fn is_inner(fs: &Fs<'_>, node: &[u8], header: &ExtentHeader) -> bool {
    let Some(first) = indexes(node, header).next() else { return false };
    let block = BlockNo(first.child);
    let is_place = fs.is_valid_block(block) && !fs.metadata.get(block.0);
    let child = is_place.then(|| fs.read_block(block).ok()).flatten();
    let child = child.and_then(|bytes| ExtentHeader::parse(&bytes));
    child.is_some_and(|child| child.depth.checked_add(1) == Some(header.depth) && child.entries > 0)
}
