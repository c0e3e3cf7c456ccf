// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which units are free, in memory: bitmaps with a summary tree above them, in which every node knows the free run at its start, the one at its end and the
//! longest one. So the first run that is long enough is found without looking at what is too short.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use fsmend_base::width;
use fsmend_hybridfs_format::{Run, Superblock, Totals};

use crate::admission::OPERATION_BLOCKS;

/// Free runs of some units.
pub(crate) struct FreeRuns {
    /// A set bit is in use.
    words: Vec<u64>,
    len: u64,
    free: u64,
    /// A heap: node 1 is the root, the leaves are words.
    nodes: Vec<Node>,
    leaves: usize,
}

#[derive(Clone, Copy, Default)]
struct Node {
    prefix: u32,
    suffix: u32,
    longest: u32,
}

impl FreeRuns {
    /// From a bitmap in which a set bit is in use.
    pub fn new(mut words: Vec<u64>, len: u64) -> Self {
        words.resize(width::index(len.div_ceil(64)), 0);
        if !len.is_multiple_of(64)
            && let Some(last) = words.last_mut()
        {
            *last |= u64::MAX << (len % 64);
        }
        let leaves = words.len().next_power_of_two().max(1);
        let free = words.iter().map(|word| u64::from(word.count_zeros())).sum();
        let mut runs = FreeRuns { words, len, free, nodes: vec![Node::default(); leaves * 2], leaves };
        for word in 0..runs.words.len() {
            runs.nodes[leaves + word] = runs.leaf(word);
        }
        for node in (1..leaves).rev() {
            runs.nodes[node] = runs.join(node);
        }
        runs
    }

    fn leaf(&self, word: usize) -> Node {
        let used = self.words[word];
        let mut longest = 0;
        let mut free = !used;
        while free != 0 {
            free &= free << 1;
            longest += 1;
        }
        Node { prefix: used.trailing_zeros(), suffix: used.leading_zeros(), longest }
    }

    fn join(&self, node: usize) -> Node {
        let (left, right) = (self.nodes[node * 2], self.nodes[node * 2 + 1]);
        let depth = node.ilog2();
        let half = (width::len_u32(self.leaves >> depth) * 64) / 2;
        Node {
            prefix: if left.prefix == half { half + right.prefix } else { left.prefix },
            suffix: if right.suffix == half { half + left.suffix } else { right.suffix },
            longest: left.longest.max(right.longest).max(left.suffix + right.prefix),
        }
    }

    pub fn free(&self) -> u64 {
        self.free
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn words(&self) -> &[u64] {
        &self.words
    }

    pub fn longest(&self) -> u64 {
        u64::from(self.nodes[1].longest)
    }

    pub fn is_used(&self, at: u64) -> bool {
        self.words.get((at / 64) as usize).is_none_or(|word| word >> (at % 64) & 1 != 0)
    }

    /// Free units in a range.
    pub fn free_in(&self, range: Range<u64>) -> u64 {
        let end = range.end.min(self.len);
        let mut free = 0;
        let mut at = range.start;
        while at < end {
            let (from, to) = (at % 64, (at / 64 * 64 + 64).min(end));
            let mask = (u64::MAX << from) & (u64::MAX >> (63 - (to - 1) % 64));
            let used = self.words.get((at / 64) as usize).copied().unwrap_or(u64::MAX);
            free += u64::from((!used & mask).count_ones());
            at = to;
        }
        free
    }

    /// Marks units; what is beyond the end does not matter.
    pub fn mark(&mut self, range: Range<u64>, is_used: bool) {
        let range = range.start..range.end.min(self.len);
        if range.is_empty() {
            return;
        }
        let (first, last) = ((range.start / 64) as usize, ((range.end - 1) / 64) as usize);
        for at in first..=last {
            let from = if at == first { range.start % 64 } else { 0 };
            let to = if at == last { (range.end - 1) % 64 } else { 63 };
            let mask = (u64::MAX << from) & (u64::MAX >> (63 - to));
            let word = &mut self.words[at];
            self.free += u64::from(word.count_ones());
            *word = if is_used { *word | mask } else { *word & !mask };
            self.free -= u64::from(word.count_ones());
            self.nodes[self.leaves + at] = self.leaf(at);
        }
        let (mut low, mut high) = ((self.leaves + first) / 2, (self.leaves + last) / 2);
        while low > 0 {
            for node in low..=high {
                self.nodes[node] = self.join(node);
            }
            (low, high) = (low / 2, high / 2);
        }
    }

    /// The first run of `want` free units that begins at `from` or behind it.
    pub fn find(&self, from: u64, want: u64) -> Option<u64> {
        if want == 0 || want > self.longest() {
            return None;
        }
        let mut run = (from, 0);
        self.search(1, 0, self.leaves as u64 * 64, from, want, &mut run)
    }

    fn search(
        &self,
        node: usize,
        low: u64,
        high: u64,
        from: u64,
        want: u64,
        run: &mut (u64, u64),
    ) -> Option<u64> {
        if high <= from || low >= self.len {
            return None;
        }
        let facts = self.nodes[node];
        if low >= from {
            if run.1 + u64::from(facts.prefix) >= want {
                return Some(run.0);
            }
            if u64::from(facts.longest) < want {
                if u64::from(facts.prefix) == high - low {
                    run.1 += high - low;
                } else {
                    *run = (high - u64::from(facts.suffix), u64::from(facts.suffix));
                }
                return None;
            }
        }
        if node >= self.leaves {
            for at in low.max(from)..high {
                if self.is_used(at) {
                    *run = (at + 1, 0);
                    continue;
                }
                run.1 += 1;
                if run.1 >= want {
                    return Some(run.0);
                }
            }
            return None;
        }
        let middle = low + (high - low) / 2;
        self.search(node * 2, low, middle, from, want, run)
            .or_else(|| self.search(node * 2 + 1, middle, high, from, want, run))
    }

    /// Takes up to `want` units: the first run near `goal` that is long enough, or else the longest there is.
    pub fn take(&mut self, goal: u64, want: u64) -> Option<Range<u64>> {
        let len = want.min(self.longest());
        let at = self.find(goal, len).or_else(|| self.find(0, len))?;
        self.mark(at..at + len, true);
        Some(at..at + len)
    }
}

/// The free space of both areas.
pub(crate) struct Space {
    per_block: u64,
    log_start: u64,
    /// Fragments of the log, a set bit is in use.
    fragments: Vec<u64>,
    /// Whole blocks of the log, in use when one of their fragments is.
    pub blocks: FreeRuns,
    pub data: FreeRuns,
    /// Where the next object should go, as a block of the log.
    cursor: u64,
    /// The block that small objects are put into, and its first free fragment.
    open: (u64, u64),
    /// Addresses of the blocks that were opened for this segment: what is free in them holds nothing of worth.
    fresh: BTreeSet<u64>,
    /// Where the search for holes goes on.
    hole: u64,
    /// With fewer free blocks than this, small objects go into holes. That has to begin before contents have to leave the log for want of blocks.
    scarce: u64,
    /// Blocks of a zone, for a log that is taken in free zones; otherwise 0.
    zone: u64,
    /// What segments have given back, and may not be used yet.
    pub pending: VecDeque<(u64, Vec<Run>)>,
    /// Data blocks that are promised to contents in memory.
    pub promised: u64,
    pub totals: Totals,
}

impl Space {
    /// From bitmaps in which a set bit is in use.
    pub fn new(sb: &Superblock, mut fragments: Vec<u64>, data: Vec<u64>, totals: Totals) -> Self {
        let per_block = sb.per_block();
        fragments.resize(width::index(sb.log_fragments.div_ceil(64)), 0);
        let mut space = Space {
            per_block,
            log_start: sb.log_start,
            fragments,
            blocks: FreeRuns::new(Vec::new(), sb.log_fragments / per_block),
            data: FreeRuns::new(data, sb.data_blocks()),
            cursor: 0,
            open: (0, per_block),
            fresh: BTreeSet::new(),
            hole: 0,
            scarce: sb.log_fragments / per_block / 4 + u64::from(sb.reserve_blocks) + OPERATION_BLOCKS,
            zone: 0,
            pending: VecDeque::new(),
            promised: 0,
            totals,
        };
        for block in 0..space.blocks.len() {
            if !space.is_block_free(block) {
                space.blocks.mark(block..block + 1, true);
            }
        }
        space.mark_log(sb.log_start, sb.log_head(), true);
        space
    }

    fn is_fragment_used(&self, at: u64) -> bool {
        self.fragments.get((at / 64) as usize).is_none_or(|word| word >> (at % 64) & 1 != 0)
    }

    fn is_block_free(&self, block: u64) -> bool {
        (block * self.per_block..(block + 1) * self.per_block).all(|at| !self.is_fragment_used(at))
    }

    /// Marks fragments of the log.
    pub fn mark_log(&mut self, address: u64, len: u64, is_used: bool) {
        let Some(start) = address.checked_sub(self.log_start) else { return };
        // What a damaged list says may lie anywhere.
        let end = start.saturating_add(len).min(self.blocks.len() * self.per_block);
        if start >= end {
            return;
        }
        for at in start..end {
            let Some(word) = self.fragments.get_mut((at / 64) as usize) else { break };
            let bit = 1 << (at % 64);
            *word = if is_used { *word | bit } else { *word & !bit };
        }
        let blocks = start / self.per_block..end.div_ceil(self.per_block);
        for block in blocks {
            let is_free = self.is_block_free(block);
            self.blocks.mark(block..block + 1, !is_free);
        }
    }

    /// Marks a run of either area.
    pub fn mark(&mut self, sb: &Superblock, run: Run, is_used: bool) {
        match sb.data_index(run.address) {
            Some(first) => self.data.mark(first..first + run.len / self.per_block, is_used),
            None => self.mark_log(run.address, run.len, is_used),
        }
    }

    /// From now on the log is taken in free zones of so many blocks, if there are some.
    pub fn set_zones(&mut self, blocks: u64) {
        self.zone = blocks;
    }

    fn zones(&self) -> u64 {
        self.blocks.len().checked_div(self.zone).unwrap_or(0)
    }

    fn free_in_zone(&self, zone: u64) -> u64 {
        self.blocks.free_in(zone * self.zone..(zone + 1) * self.zone)
    }

    /// Zones with nothing in them.
    pub fn free_zones(&self) -> u64 {
        (0..self.zones()).filter(|zone| self.free_in_zone(*zone) == self.zone).count() as u64
    }

    /// Zones with something in them, but for the one that is being filled, and what share of their fragments that is.
    pub fn zones_in_use(&self) -> Vec<(u64, f64)> {
        let open = self.cursor.checked_div(self.zone).unwrap_or(0);
        let share = |zone: u64| {
            let range = self.zone_addresses(zone);
            let used = range.clone().filter(|at| self.is_fragment_used(at - self.log_start)).count();
            (zone, used as f64 / (range.end - range.start).max(1) as f64)
        };
        let is_used = |zone: &u64| *zone != open && self.free_in_zone(*zone) < self.zone;
        (0..self.zones()).filter(is_used).map(share).filter(|(_, used)| *used < 1.0).collect()
    }

    /// The addresses of a zone.
    pub fn zone_addresses(&self, zone: u64) -> Range<u64> {
        let len = self.zone * self.per_block;
        self.log_start + zone * len..self.log_start + (zone + 1) * len
    }

    /// The zone in which an address is.
    pub fn zone_of(&self, address: u64) -> u64 {
        (address.saturating_sub(self.log_start) / self.per_block).checked_div(self.zone).unwrap_or(0)
    }

    /// Goes on in the next free zone where one ends.
    fn enter_zone(&mut self) {
        if self.zone == 0 || !self.cursor.is_multiple_of(self.zone) {
            return;
        }
        let (zones, now) = (self.zones(), self.cursor / self.zone);
        let next = (0..zones).map(|step| (now + step) % zones).find(|at| self.free_in_zone(*at) == self.zone);
        self.cursor = next.map_or(self.cursor, |zone| zone * self.zone);
    }

    /// A whole block of the log.
    pub fn take_block(&mut self) -> Option<u64> {
        self.enter_zone();
        let block = self.blocks.take(self.cursor, 1)?.start;
        self.cursor = block + 1;
        let address = self.log_start + block * self.per_block;
        self.mark_log(address, self.per_block, true);
        Some(address)
    }

    /// Up to so many whole blocks of the log that follow each other: address, and how many.
    pub fn take_blocks(&mut self, want: u64) -> Option<(u64, u64)> {
        self.enter_zone();
        let left = self.cursor.checked_rem(self.zone).map_or(want, |within| self.zone - within);
        let blocks = self.blocks.take(self.cursor, want.min(left))?;
        let len = blocks.end - blocks.start;
        self.cursor = blocks.end;
        let address = self.log_start + blocks.start * self.per_block;
        self.mark_log(address, len * self.per_block, true);
        self.totals.log = self.totals.log.saturating_add(len * self.per_block);
        Some((address, len))
    }

    /// Some fragments of the log that lie in one block. While there is much space, objects follow each other; when it gets scarce, they go into holes.
    pub fn take_fragments(&mut self, count: u64) -> Option<u64> {
        if count >= self.per_block {
            return self.take_block();
        }
        if self.open.1 + count > self.per_block {
            if self.zone == 0
                && self.blocks.free() < self.scarce
                && let Some(address) = self.take_hole(count)
            {
                return Some(address);
            }
            self.enter_zone();
            let Some(block) = self.blocks.take(self.cursor, 1) else { return self.take_hole(count) };
            self.cursor = block.start + 1;
            self.open = (block.start, 0);
            self.fresh.insert(self.log_start + block.start * self.per_block);
        }
        let address = self.log_start + self.open.0 * self.per_block + self.open.1;
        self.open.1 += count;
        self.mark_log(address, count, true);
        Some(address)
    }

    /// The same for what may reach into the next block: contents, which no header makes known. So small files follow each other without gaps, and go out in one request.
    pub fn take_in_a_row(&mut self, count: u64) -> Option<u64> {
        let (block, used) = self.open;
        let left = self.per_block - used.min(self.per_block);
        let next = block + 1;
        let goes_on = left > 0
            && left < count
            && count <= self.per_block
            && next == self.cursor
            && next.checked_rem(self.zone) != Some(0)
            && next < self.blocks.len()
            && !self.blocks.is_used(next);
        if !goes_on {
            return self.take_fragments(count);
        }
        self.cursor = next + 1;
        self.open = (next, count - left);
        self.fresh.insert(self.log_start + next * self.per_block);
        let address = self.log_start + block * self.per_block + used;
        self.mark_log(address, count, true);
        Some(address)
    }

    fn take_hole(&mut self, count: u64) -> Option<u64> {
        let blocks = self.blocks.len();
        for step in 0..blocks {
            let block = (self.hole + step) % blocks;
            // The rest of the open block is for what follows in it.
            let is_open = block == self.open.0 && self.open.1 < self.per_block;
            if is_open || !self.blocks.is_used(block) {
                continue;
            }
            let start = block * self.per_block;
            let mut run = 0;
            for at in start..start + self.per_block {
                run = if self.is_fragment_used(at) { 0 } else { run + 1 };
                if run == count {
                    self.hole = block;
                    let address = self.log_start + at + 1 - count;
                    self.mark_log(address, count, true);
                    return Some(address);
                }
            }
        }
        None
    }

    /// The next segment begins at the end of the last one, and leaves its last block alone.
    pub fn close(&mut self) {
        self.open = (0, self.per_block);
        self.fresh.clear();
    }

    /// Whether all between two addresses of the log is the free end of a block that was opened for this segment.
    pub fn is_end_of_fresh(&self, from: u64, until: u64) -> bool {
        let Some(within) = from.checked_sub(self.log_start).map(|at| at % self.per_block) else {
            return false;
        };
        let block = from - within;
        within > 0 && until == block + self.per_block && self.fresh.contains(&block)
    }

    /// The bits of a bitmap of the log as they are when all that was given back is free.
    pub fn log_words(&self) -> Vec<u64> {
        self.fragments.clone()
    }

    /// Whole blocks of the log that are free when all that was given back is, `freed` too.
    pub fn blocks_left(&self, freed: &[Run]) -> u64 {
        let (per_block, all) = (self.per_block, self.blocks.len());
        let waiting = self.pending.iter().flat_map(|(_, runs)| runs).chain(freed);
        // Blocks in which something waits to be free, and what of them that is.
        let mut given: BTreeMap<u64, u64> = BTreeMap::new();
        for run in waiting {
            let Some(start) = run.address.checked_sub(self.log_start) else { continue };
            let end = start.saturating_add(run.len).min(all * per_block);
            let mut at = start;
            while at < end {
                let until = (at / per_block * per_block + per_block).min(end);
                *given.entry(at / per_block).or_default() += until - at;
                at = until;
            }
        }
        let used = |block: u64| {
            let fragments = block * per_block..(block + 1) * per_block;
            fragments.filter(|at| self.is_fragment_used(*at)).count() as u64
        };
        let whole = given.iter().filter(|(block, len)| used(**block) <= **len).count() as u64;
        self.blocks.free() + whole
    }

    /// What segments up to `ssn` have given back may be used.
    pub fn settle(&mut self, sb: &Superblock, ssn: u64) {
        while self.pending.front().is_some_and(|(at, _)| *at <= ssn) {
            for run in self.pending.pop_front().map(|(_, runs)| runs).unwrap_or_default() {
                self.mark(sb, run, false);
            }
        }
    }

    /// Data blocks that may be promised.
    pub fn data_left(&self) -> u64 {
        self.data.free().saturating_sub(self.promised)
    }
}

#[cfg(test)]
mod tests {
    use fsmend_base::SeededRandom;

    use super::*;

    #[test]
    fn the_tree_finds_what_a_scan_finds() {
        let mut random = SeededRandom::new(7);
        for _ in 0..40 {
            let len = 1 + random.below(900);
            let mut runs = FreeRuns::new(Vec::new(), len);
            let mut used = vec![false; len as usize];
            for _ in 0..60 {
                let start = random.below(len);
                let end = (start + random.below(80)).min(len);
                let is_used = random.below(3) > 0;
                runs.mark(start..end, is_used);
                used[start as usize..end as usize].fill(is_used);
                let (from, want) = (random.below(len), 1 + random.below(40));
                let scan = (from..len).find(|at| {
                    at + want <= len && used[*at as usize..(at + want) as usize].iter().all(|used| !used)
                });
                assert_eq!(runs.find(from, want), scan, "{from} {want}");
                let (low, high) = (random.below(len + 1), random.below(len + 70));
                let counted = (low..high.min(len)).filter(|at| !used[*at as usize]).count() as u64;
                assert_eq!(runs.free_in(low..high), counted, "{low} {high}");
                assert_eq!(runs.free(), used.iter().filter(|used| !**used).count() as u64);
            }
        }
    }
}
