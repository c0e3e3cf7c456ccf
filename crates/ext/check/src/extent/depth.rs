//! Nodes whose own word about their depth is wrong.

use fsmend_base::BlockNo;
use fsmend_ext_format::extent::{ExtentHeader, ExtentIndex, extents, indexes};

use super::first_logical;
use crate::Fs;

/// The header of a node that is to have `depth`, where only its depth says otherwise: it begins where its parent says, and its entries make sense
/// at that depth and not only at another one.
pub(super) fn told(fs: &Fs<'_>, node: &[u8], index: ExtentIndex, depth: u16) -> Option<ExtentHeader> {
    let stored = ExtentHeader::parse(node).filter(|header| header.entries > 0 && header.depth != depth)?;
    let told = ExtentHeader { depth, ..stored };
    let begins = first_logical(node, &told) == Some(index.logical);
    (begins && if depth == 0 { is_leaf(fs, node, &told) } else { is_inner(fs, node, &told) }).then_some(told)
}

/// Whether the entries are extents, one behind the other, of blocks that files can have.
fn is_leaf(fs: &Fs<'_>, node: &[u8], header: &ExtentHeader) -> bool {
    let mut end = 0;
    extents(node, header).all(|extent| {
        let follows = u64::from(extent.logical) >= end;
        end = extent.logical_end();
        let is_place = |block: u64| fs.is_valid_block(BlockNo(block)) && !fs.metadata.get(block);
        follows
            && extent.count > 0
            && is_place(extent.physical)
            && is_place(extent.physical_end().saturating_sub(1))
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
