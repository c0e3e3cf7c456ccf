// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one walk of a map leaves in doubt, and what all of it together tells about that.
//!
//! A pointer that was written where a hole had been leads to anything: to metadata, or to an indirect block of the same file, as another one or
//! as data. The pointer alone does not say which of two is the false one. Size and space in use do, once the whole map is known: so the map
//! is walked again with what they told.

use std::collections::{HashMap, HashSet};

use crate::inode::map::Map;
use crate::inode::size;
use crate::inode::subject::Subject;

/// Doubts of one kind that are kept. Damage leaves a few; a map with more was made to have them, and the further ones are judged one by one.
const DOUBTS_MAX: usize = 1 << 8;
/// Indirect blocks that are kept: those of a file of 1 GiB with blocks of 1 KiB, of 16 GiB with blocks of 4 KiB.
const ENTERED_MAX: usize = 1 << 12;

/// An indirect block as it was entered.
pub(super) struct Entered {
    pub block: u64,
    /// The block of the file that it begins at.
    pub logical: u64,
    pub levels: u32,
    /// How many of its pointers stay, and how many do not.
    pub kept: u32,
    pub wrong: u32,
    /// How far behind `logical` its last pointer begins.
    pub last: u64,
}

/// What a walk came across.
#[derive(Default)]
pub(super) struct Doubts {
    /// The indirect blocks of the map.
    entered: Vec<Entered>,
    /// Blocks to which another pointer led, as an indirect block of so many levels, and the block of the file that this one begins at.
    again: Vec<(u64, u32, u64)>,
    /// Blocks in use that lie in metadata, or are led to by an indirect block there.
    pub in_metadata: u64,
}

/// What the map as a whole tells.
#[derive(Default)]
pub(super) struct Told {
    /// Indirect blocks of this map, which are no data.
    pub own_map: HashSet<u64>,
    /// The blocks of the file at which indirect blocks begin to which several pointers lead.
    pub places: HashMap<u64, u64>,
    /// Without the pointers that lead into metadata, the map has what the file has in use.
    pub without_metadata: bool,
}

impl Doubts {
    /// Records an indirect block. Maps with more than `ENTERED_MAX` are not settled.
    pub(super) fn enter(&mut self, entered: Entered) {
        if self.entered.len() <= ENTERED_MAX {
            self.entered.push(entered);
        }
    }

    /// Records another pointer to an indirect block.
    pub(super) fn came_again(&mut self, block: u64, levels: u32, logical: u64) {
        if self.again.len() < DOUBTS_MAX {
            self.again.push((block, levels, logical));
        }
    }

    /// What the whole map shows about a file that ends before block `end`; `None` if it shows nothing new.
    pub(super) fn settle(&self, subject: &Subject<'_, '_>, map: &Map, end: u64) -> Option<Told> {
        if self.entered.len() > ENTERED_MAX {
            return None;
        }
        let (own_map, own_data) = self.own_data(map);
        let places: HashMap<u64, u64> =
            self.again.iter().filter_map(|again| self.better_place(*again, end)).collect();
        let clusters = size::told_of_map(subject);
        let is_over = clusters != Some(map.clusters);
        let own_map = if is_over { own_map } else { HashSet::new() };
        let others = map.clusters.saturating_sub(self.in_metadata);
        let without_metadata = self.in_metadata > 0
            && is_over
            && (clusters == Some(others) || clusters == Some(others.saturating_sub(own_data)));
        let is_new = !own_map.is_empty() || !places.is_empty() || without_metadata;
        is_new.then_some(Told { own_map, places, without_metadata })
    }

    /// The indirect blocks that the map has as data, too, and that do map something; and how often it has them.
    fn own_data(&self, map: &Map) -> (HashSet<u64>, u64) {
        let genuine = self.entered.iter().filter(|entered| entered.kept > entered.wrong);
        let mut genuine: Vec<u64> = genuine.map(|entered| entered.block).collect();
        genuine.sort_unstable();
        let (mut own, mut times) = (HashSet::new(), 0);
        for run in map.runs().filter(|_| !genuine.is_empty()) {
            let from = genuine.partition_point(|block| *block < run.physical);
            let to = genuine.partition_point(|block| *block < run.physical.saturating_add(run.count.into()));
            let hit = genuine.get(from..to).unwrap_or_default();
            own.extend(hit.iter().copied());
            times += hit.len() as u64;
        }
        (own, times)
    }

    /// Where an indirect block begins to which a second pointer led, if the file ends in what it maps there, and not where it was entered.
    fn better_place(&self, (block, levels, logical): (u64, u32, u64), end: u64) -> Option<(u64, u64)> {
        let entered = self.entered.iter().find(|entered| entered.block == block)?;
        let ends_file = |logical: u64| levels == 1 && logical.saturating_add(entered.last) + 1 == end;
        let is_better = entered.levels == levels && ends_file(logical) && !ends_file(entered.logical);
        is_better.then_some((block, logical))
    }
}
