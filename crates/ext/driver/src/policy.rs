// SPDX-License-Identifier: MIT OR Apache-2.0
//! The policies of ext3 and rext3, beside those that all families share.

pub use fsmend_blockcache::policy::{
    Ask, BlockKind, DirectoryAsk, GroupUse, Groups, Layout, MetaclusterPolicy, Policy,
};

/// The way of ext3: everything near the inode, a block behind the one before it, map blocks in line with the data they map.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ext3Policy;

impl Policy for Ext3Policy {
    fn name(&self) -> &'static str {
        "ext3"
    }

    fn ideal(&mut self, ask: &Ask, layout: &Layout, own_group: &GroupUse) -> u64 {
        match ask.previous {
            Some(previous) => previous.saturating_add(1),
            None => own_group.first_free_for_files.max(layout.blocks_of(ask.inode_group).start.0),
        }
    }
}

/// The way of rext3: data as ext3 has them, indirect blocks and directory blocks at the start of the region of the inode's group, so that they stand close
/// together. That they come from regions, from the own one onwards, and data never do, is not for a policy to decide: the
/// allocation keeps to it on a rext3 with every policy. Elsewhere, there are no regions, and this is the `ext3` policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rext3Policy;

impl Policy for Rext3Policy {
    fn name(&self) -> &'static str {
        "rext3"
    }

    fn ideal(&mut self, ask: &Ask, layout: &Layout, own_group: &GroupUse) -> u64 {
        match ask.kind {
            BlockKind::Map(_) | BlockKind::Directory if own_group.region.count > 0 => {
                own_group.region.start.0
            }
            _ => Ext3Policy.ideal(ask, layout, own_group),
        }
    }
}
