// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps rewritten as extent trees: trees that are deeper than any file needs or out of order, and block maps where files have to
//! be mapped by extents. (On a rext3, maps with blocks on the wrong side of the border of a region.)

use fsmend_base::{BlockNo, InodeNo};
use fsmend_ext_format::inode::InodeFlags;

use crate::region;
use crate::repair::RepairContext;
use crate::repair::map::FileMap;

/// Writes the maps that have to be written anew, in the order of the inodes.
pub(crate) fn mend(context: &mut RepairContext<'_>) {
    for inode in std::mem::take(&mut context.repair_input.rebuilds) {
        rebuild(context, inode);
    }
}

/// Writes the map of `inode` anew, with other nodes. Where there is no room for them, everything stays as it is.
fn rebuild(context: &mut RepairContext<'_>, inode: InodeNo) {
    let Some(found) = context.inspect_inode(inode).filter(|found| found.rebuild) else { return };
    if context.fs.regions.exist() {
        return region::repair::move_displaced(context, inode);
    }
    let Some(mut map) = FileMap::of(inode, found) else { return };
    let mut raw = map.raw();
    raw.set_flag(InodeFlags::EXTENTS);
    raw.store(&mut map.record);
    let old = std::mem::take(&mut map.nodes);
    if context.store_map(map) {
        old.iter().for_each(|block| context.free_blocks(BlockNo(*block), 1));
    }
}
