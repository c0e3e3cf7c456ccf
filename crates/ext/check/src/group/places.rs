// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where descriptors place bitmaps and inode tables: inside what is allowed, and on top of nothing else.

use std::collections::BTreeMap;

use fsmend_base::{BlockNo, BlockRange, GroupNo};
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::group::GroupDesc;

/// What a descriptor places.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    InodeTable,
    BlockBitmap,
    InodeBitmap,
}

/// All kinds, in the order in which they get their places.
pub(super) const KINDS: [Kind; 3] = [Kind::InodeTable, Kind::BlockBitmap, Kind::InodeBitmap];

impl Kind {
    /// The place that `desc` gives.
    pub(super) fn place(self, desc: &GroupDesc) -> u64 {
        match self {
            Kind::InodeTable => desc.inode_table,
            Kind::BlockBitmap => desc.block_bitmap,
            Kind::InodeBitmap => desc.inode_bitmap,
        }
    }

    /// Changes the place in `desc`.
    pub(super) fn set_place(self, desc: &mut GroupDesc, block: u64) {
        match self {
            Kind::InodeTable => desc.inode_table = block,
            Kind::BlockBitmap => desc.block_bitmap = block,
            Kind::InodeBitmap => desc.inode_bitmap = block,
        }
    }

    /// The blocks that it takes at the place that `desc` gives.
    pub(super) fn range(self, geometry: &Geometry, desc: &GroupDesc) -> BlockRange {
        let count = if self == Kind::InodeTable { geometry.inode_table_blocks().max(1) } else { 1 };
        BlockRange::new(self.place(desc), u64::from(count))
    }

    /// Whether the place that `desc` gives is one where it may be at all.
    pub(super) fn is_allowed(self, geometry: &Geometry, group: GroupNo, desc: &GroupDesc) -> bool {
        let range = self.range(geometry, desc);
        let allowed = if geometry.features.has_incompat(Incompat::FLEX_BG) {
            let first = u64::from(geometry.first_data_block);
            BlockRange::new(first, geometry.blocks_count - first)
        } else {
            geometry.group_blocks(group)
        };
        range.start.0 != 0 && range.start >= allowed.start && range.end() <= allowed.end()
    }
}

/// Who has a run of blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Owner {
    /// Superblock, descriptors and reserved descriptors of a group.
    Head(GroupNo),
    /// A bitmap or inode table of a group.
    Place(GroupNo, Kind),
}

impl Owner {
    /// In plain words.
    pub(super) fn describe(self) -> String {
        match self {
            Owner::Head(GroupNo(0)) => "the superblock or the group descriptors".to_owned(),
            Owner::Head(group) => format!("a backup of superblock or descriptors in group {group}"),
            Owner::Place(group, Kind::InodeTable) => format!("the inode table of group {group}"),
            Owner::Place(group, Kind::BlockBitmap) => format!("the block bitmap of group {group}"),
            Owner::Place(group, Kind::InodeBitmap) => format!("the inode bitmap of group {group}"),
        }
    }
}

/// Which runs are taken, and by whom. Runs never overlap.
#[derive(Default)]
pub(super) struct Occupied {
    runs: BTreeMap<u64, (u64, Owner)>,
}

impl Occupied {
    /// Who has any block of `range`.
    pub(super) fn owner(&self, range: BlockRange) -> Option<Owner> {
        let (_, (end, owner)) = self.runs.range(..range.end()).next_back()?;
        (*end > range.start.0).then_some(*owner)
    }

    /// Gives `range` to `owner`, or says who has it already.
    pub(super) fn take(&mut self, range: BlockRange, owner: Owner) -> Result<(), Owner> {
        match self.owner(range) {
            Some(other) => Err(other),
            None if range.count == 0 => Ok(()),
            None => {
                self.runs.insert(range.start.0, (range.end(), owner));
                Ok(())
            }
        }
    }

    /// Takes `range` from `owner`, if that is who has it.
    pub(super) fn give_back(&mut self, range: BlockRange, owner: Owner) {
        if self.runs.get(&range.start.0) == Some(&(range.end(), owner)) {
            self.runs.remove(&range.start.0);
        }
    }

    /// Takes the heads of all groups. (They can only meet when groups are absurdly small; the first then wins.)
    pub(super) fn take_heads(&mut self, geometry: &Geometry) {
        for run in heads(geometry) {
            let _ = self.take(run.0, run.1);
        }
    }
}

/// Everything that the rules place, not the descriptors. The runs of one group do not overlap.
pub(super) fn heads(geometry: &Geometry) -> impl Iterator<Item = (BlockRange, Owner)> + '_ {
    (0..geometry.group_count).map(GroupNo).flat_map(move |group| {
        let head = geometry.group_head(group);
        let superblock = head.superblock.unwrap_or(BlockNo(0));
        let superblock = BlockRange { start: superblock, count: u64::from(head.superblock.is_some()) };
        [superblock, head.descriptors, head.reserved].into_iter().map(move |run| (run, Owner::Head(group)))
    })
}

/// The groups of which some place meets another place or a head; empty for nearly every file system.
pub(super) fn groups_in_conflict(geometry: &Geometry, placed: &[(BlockRange, Owner)]) -> Vec<GroupNo> {
    let mut runs: Vec<(u64, u64, Owner)> = heads(geometry)
        .chain(placed.iter().copied())
        .filter(|(range, _)| range.count > 0)
        .map(|(range, owner)| (range.start.0, range.end(), owner))
        .collect();
    runs.sort_unstable();
    let mut groups = Vec::new();
    let mut reach: Option<(u64, Owner)> = None;
    for (start, end, owner) in runs {
        if let Some((reached, last)) = reach
            && start < reached
        {
            groups.extend([last, owner].into_iter().filter_map(|owner| match owner {
                Owner::Place(group, _) => Some(group),
                Owner::Head(_) => None,
            }));
        }
        if reach.is_none_or(|(reached, _)| end > reached) {
            reach = Some((end, owner));
        }
    }
    groups.sort_unstable();
    groups.dedup();
    groups
}
