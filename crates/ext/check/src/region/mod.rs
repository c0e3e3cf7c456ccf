// SPDX-License-Identifier: MIT OR Apache-2.0
//! The indirect regions of a rext3: where they are, and what may lie in them (`docs/formats/rext3.md`).
//!
//! Behind each inode table stands a region for indirect blocks and directory blocks, which lie nowhere else; data never lies
//! inside. Both kinds of blocks say whose they are, so that they can be checked in the order of the disk
//! ([`scan`](crate::scan)) and told from anything that a wrong pointer leads to.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | where the regions are |
//! | `facts.rs` | what the scan keeps of files and indirect blocks |
//! | `crosscheck.rs` | the comparison of both, file by file |
//! | `homes.rs` | where a block lies that is not in its place |
//! | `repair.rs` | what a repair has to do for them |

pub(crate) mod crosscheck;
pub(crate) mod facts;
pub(crate) mod homes;
pub(crate) mod problems;
pub(crate) mod repair;
#[cfg(test)]
mod tests;

use fsmend_base::{BlockNo, BlockRange, GroupNo, width};
use fsmend_engine::claims::SharedBitmap;
use fsmend_ext_format::geometry::Geometry;

/// The regions of one file system; none at all where it is no rext3.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    ranges: Vec<BlockRange>,
    first_data_block: u64,
    blocks_per_group: u64,
}

impl Regions {
    /// The regions behind the inode tables at `tables`, in the order of the groups. Those of lost tables are empty.
    pub fn of(geometry: &Geometry, tables: impl Iterator<Item = u64>) -> Self {
        if !geometry.rext3() {
            return Regions::default();
        }
        let region = |(number, table): (u32, u64)| geometry.region(GroupNo(number), table);
        Regions {
            ranges: (0..).zip(tables).map(region).collect(),
            first_data_block: geometry.first_data_block.into(),
            blocks_per_group: geometry.blocks_per_group.into(),
        }
    }

    /// Whether the file system has regions, so that it matters what lies where.
    #[inline]
    pub fn exist(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// The region of `group`; empty if it has none.
    pub fn of_group(&self, group: GroupNo) -> BlockRange {
        self.ranges.get(group.0 as usize).copied().unwrap_or(BlockRange::new(0, 0))
    }

    /// How many blocks all regions have.
    pub fn blocks(&self) -> u64 {
        self.ranges.iter().map(|range| range.count).sum()
    }

    /// Whether `block` lies in a region.
    #[inline]
    pub fn contain(&self, block: u64) -> bool {
        self.exist()
            && block.checked_sub(self.first_data_block).is_some_and(|within| {
                let group = width::index(within / self.blocks_per_group);
                self.ranges.get(group).is_some_and(|range| range.contains(BlockNo(block)))
            })
    }

    /// Whether any of `count` blocks from `start` lies in a region.
    pub fn touch(&self, start: u64, count: u64) -> bool {
        if !self.exist() || count == 0 {
            return false;
        }
        let group =
            |block: u64| width::index(block.saturating_sub(self.first_data_block) / self.blocks_per_group);
        let end = start.saturating_add(count);
        let last = group(end - 1).min(self.ranges.len().saturating_sub(1));
        let ranges = self.ranges.get(group(start)..=last).unwrap_or_default();
        ranges.iter().any(|range| range.start.0 < end && start < range.end())
    }

    /// Whether files of this kind may own these blocks: directories in regions only, anything else outside only.
    #[inline]
    pub fn suit(&self, is_directory: bool, start: u64, count: u64) -> bool {
        match (self.exist(), is_directory) {
            (false, _) => true,
            (true, false) => !self.touch(start, count),
            (true, true) => {
                count <= self.blocks_per_group && (start..start + count).all(|block| self.contain(block))
            }
        }
    }

    /// How many blocks of all regions are in `used`, and how many there are.
    pub fn fullness(&self, used: &SharedBitmap) -> (u64, u64) {
        let blocks = self.ranges.iter().flat_map(|range| range.start.0..range.end());
        (blocks.filter(|block| used.get(*block)).count() as u64, self.blocks())
    }
}
