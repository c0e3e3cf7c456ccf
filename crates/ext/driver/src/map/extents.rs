// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trees of extents, the way of ext4. The root lies in the inode, leaves all have the same depth, and the first entry of a node is never lower than what the
//! index above says of it.

use fsmend_base::width;
use fsmend_blockcache::Block;
use fsmend_ext_format::checksum;
use fsmend_ext_format::extent::{
    self, Extent, ExtentHeader, ExtentIndex, MAX_DEPTH, MAX_WRITTEN_LEN, RawEntry, build_node, extents,
    indexes,
};
use fsmend_vfs::{Errno, Result};

use super::Run;
use crate::inode::Inode;
use crate::policy::{Ask, BlockKind};
use crate::volume::Volume;

/// An inner node on the way down.
struct Level {
    /// Its block; `None` for the root.
    place: Option<u64>,
    entries: Vec<ExtentIndex>,
    /// The entry that the way goes through.
    at: usize,
}

/// The way from the root to a leaf.
struct Way {
    levels: Vec<Level>,
    place: Option<u64>,
    leaf: Vec<Extent>,
}

/// Where on the way down to go.
#[derive(Clone, Copy)]
enum Towards {
    Logical(u32),
    Last,
}

fn len_max(unwritten: bool) -> u32 {
    u32::from(if unwritten { MAX_WRITTEN_LEN - 1 } else { MAX_WRITTEN_LEN })
}

/// Whether `next` simply continues `before`.
fn joins(before: &Extent, next: &Extent) -> bool {
    before.logical_end() == u64::from(next.logical)
        && before.physical_end() == next.physical
        && before.unwritten == next.unwritten
        && before.count + next.count <= len_max(before.unwritten)
}

impl Volume {
    fn node(&mut self, inode: &Inode, place: Option<u64>) -> Result<(Block, ExtentHeader)> {
        let bytes = match place {
            None => Block::new(inode.raw.i_block.to_vec()),
            Some(block) => {
                let seed = self.seed_of(inode);
                let has_sums = self.geometry.features.metadata_csum();
                self.cache.get_checked(block, "an extent block", |bytes| {
                    !has_sums || checksum::extent_block(seed, bytes).is_some_and(|sum| sum.is_right())
                })?
            }
        };
        let header = ExtentHeader::parse(&bytes).filter(|header| header.depth <= MAX_DEPTH);
        match header {
            Some(header) => Ok((bytes, header)),
            None => Err(self.cache.corrupt(|| format!("inode {} has a broken extent tree", inode.number))),
        }
    }

    /// The seed of checksums of what belongs to an inode.
    pub fn seed_of(&self, inode: &Inode) -> u32 {
        checksum::inode_seed(self.geometry.checksum_seed, inode.number, inode.raw.i_generation.get())
    }

    fn way(&mut self, inode: &Inode, towards: Towards) -> Result<Way> {
        let mut levels = Vec::new();
        let mut place = None;
        let mut expected = None;
        loop {
            let (bytes, header) = self.node(inode, place)?;
            let is_as_expected = expected.is_none_or(|depth| depth == header.depth);
            if !is_as_expected || (header.depth > 0 && header.entries == 0) {
                return Err(self
                    .cache
                    .corrupt(|| format!("inode {} has a broken extent tree", inode.number)));
            }
            if header.depth == 0 {
                return Ok(Way { levels, place, leaf: extents(&bytes, &header).collect() });
            }
            let entries: Vec<ExtentIndex> = indexes(&bytes, &header).collect();
            let at = match towards {
                Towards::Logical(logical) => {
                    entries.partition_point(|entry| entry.logical <= logical).saturating_sub(1)
                }
                Towards::Last => entries.len() - 1,
            };
            let child = entries.get(at).ok_or(Errno::Corrupt)?.child;
            levels.push(Level { place, entries, at });
            (place, expected) = (Some(child), Some(header.depth - 1));
        }
    }

    pub(super) fn map_extents(&mut self, inode: &Inode, logical: u64, max: u64) -> Result<Run> {
        let Ok(wanted) = u32::try_from(logical) else { return Ok(Run::hole(max)) };
        let way = self.way(inode, Towards::Logical(wanted))?;
        let behind = way.leaf.partition_point(|extent| extent.logical <= wanted);
        if let Some(extent) = behind.checked_sub(1).and_then(|at| way.leaf.get(at))
            && logical < extent.logical_end()
        {
            let skipped = logical - u64::from(extent.logical);
            return Ok(Run {
                physical: Some(extent.physical + skipped),
                count: (u64::from(extent.count) - skipped).min(max),
                unwritten: extent.unwritten,
            });
        }
        let next = way.leaf.get(behind).map(|extent| extent.logical).or_else(|| way.next_leaf());
        let hole = next.map_or(max, |next| u64::from(next).saturating_sub(logical).min(max));
        Ok(Run::hole(hole))
    }

    pub(super) fn new_extent(
        &mut self,
        inode: &mut Inode,
        ask: Ask,
        max: u64,
        unwritten: bool,
    ) -> Result<(u64, u64)> {
        let hole = self.map_extents(inode, ask.logical, max.min(u64::from(len_max(unwritten))))?;
        if hole.physical.is_some() {
            return Err(Errno::Invalid);
        }
        let room = u64::from(u32::MAX) - ask.logical;
        let (physical, count) = self.take_for_hole(inode, &ask, hole.count.min(room))?;
        let logical = u32::try_from(ask.logical).map_err(|_| Errno::TooLarge)?;
        let extent_count = u32::try_from(count).map_err(|_| Errno::TooLarge)?;
        self.insert(inode, Extent { logical, count: extent_count, physical, unwritten })?;
        Ok((physical, count))
    }

    /// Blocks for the start of a hole of `count` blocks: those of a cluster that the file has already, or new ones. In a cluster, each block of a file has its own place,
    /// and what of it the file has no use for yet is kept for it.
    fn take_for_hole(&mut self, inode: &mut Inode, ask: &Ask, count: u64) -> Result<(u64, u64)> {
        let unit = self.unit();
        let base = ask.logical - ask.logical % unit;
        let within = ask.logical - base;
        if let Some(cluster) = self.cluster_of_file(inode, base, base + unit)? {
            return Ok((cluster + within, count.min(unit - within)));
        }
        let mut end = ask.logical + count;
        let last = end - end % unit;
        if last > base && last < end && self.cluster_of_file(inode, last, last + unit)?.is_some() {
            end = last;
        }
        let taken = self.take_blocks(ask, end - base)?;
        self.count_blocks(inode, width::signed(taken.count / unit))?;
        Ok((taken.start.0 + within, (taken.count - within).min(end - ask.logical)))
    }

    /// Where the cluster begins that holds blocks `base..end` of a file, if the file has any of them; `base` is where a cluster begins.
    fn cluster_of_file(&mut self, inode: &Inode, base: u64, end: u64) -> Result<Option<u64>> {
        let unit = self.unit();
        let mut at = base;
        while unit > 1 && at < end {
            let run = self.map_extents(inode, at, end - at)?;
            if let Some(physical) = run.physical {
                if physical % unit != at - base {
                    return Err(self.misplaced(inode));
                }
                return Ok(Some(physical - (at - base)));
            }
            at += run.count;
        }
        Ok(None)
    }

    fn misplaced(&mut self, inode: &Inode) -> Errno {
        let number = inode.number;
        self.cache.corrupt(|| format!("inode {number} has blocks at wrong places in their clusters"))
    }

    /// Gives back the end of an extent, from its block `keep` on: all clusters that the file has nothing else in. What is behind it is gone already.
    fn free_end(&mut self, inode: &mut Inode, last: &Extent, keep: u32) -> Result<()> {
        let unit = self.unit();
        let first = u64::from(last.logical) + u64::from(keep);
        let base = first - first % unit;
        let mut physical = last.physical.saturating_add(u64::from(keep));
        let mut count = u64::from(last.count - keep);
        if physical % unit != first % unit {
            return Err(self.misplaced(inode));
        }
        if inode.is_directory() {
            (physical..physical + count).for_each(|block| self.cache.forget(block));
        }
        if self.cluster_of_file(inode, base, first)?.is_some() {
            let skipped = unit - first % unit;
            physical = physical.saturating_add(skipped);
            count = count.saturating_sub(skipped);
        }
        if count == 0 {
            return Ok(());
        }
        self.free_blocks(physical, count, false)?;
        let end = physical.saturating_add(count).div_ceil(unit);
        self.count_blocks(inode, -width::signed(end - physical / unit))
    }

    /// Puts an extent where there is a hole.
    fn insert(&mut self, inode: &mut Inode, new: Extent) -> Result<()> {
        let mut way = self.way(inode, Towards::Logical(new.logical))?;
        let at = way.leaf.partition_point(|extent| extent.logical < new.logical);
        let follows = at > 0 && joins(&way.leaf[at - 1], &new);
        if follows {
            way.leaf[at - 1].count += new.count;
            if way.leaf.get(at).is_some_and(|next| joins(&way.leaf[at - 1], next)) {
                way.leaf[at - 1].count += way.leaf[at].count;
                way.leaf.remove(at);
            }
        } else if way.leaf.get(at).is_some_and(|next| joins(&new, next)) {
            let next = &mut way.leaf[at];
            *next = Extent { count: new.count + next.count, ..new };
        } else {
            way.leaf.insert(at, new);
        }
        self.correct_keys(inode, &mut way)?;
        let entries = way.leaf.iter().map(Extent::to_bytes).collect();
        let place = way.place;
        self.store_entries(inode, &mut way, place, 0, entries, new)
    }

    /// The indexes above a leaf say where it begins: those that say something else are corrected.
    fn correct_keys(&mut self, inode: &mut Inode, way: &mut Way) -> Result<()> {
        let Some(first) = way.leaf.first().map(|extent| extent.logical) else { return Ok(()) };
        let depth = width::len_u16(way.levels.len());
        for index in (0..way.levels.len()).rev() {
            let level = &mut way.levels[index];
            let Some(entry) = level.entries.get_mut(level.at) else { break };
            if entry.logical != first {
                entry.logical = first;
                let raw: Vec<RawEntry> = level.entries.iter().map(ExtentIndex::to_bytes).collect();
                let (place, at) = (level.place, level.at);
                self.write_node(inode, place, depth - width::len_u16(index), &raw)?;
                if at > 0 {
                    break;
                }
            } else if level.at > 0 {
                break;
            }
        }
        Ok(())
    }

    /// Frees blocks of the extent that holds `logical`, from there on and `count` at most; what is left of the extent stays. Returns how many.
    pub(super) fn unmap_extent(&mut self, inode: &mut Inode, logical: u64, count: u64) -> Result<u64> {
        let wanted = u32::try_from(logical).map_err(|_| Errno::TooLarge)?;
        let mut way = self.way(inode, Towards::Logical(wanted))?;
        let index = way.leaf.partition_point(|extent| extent.logical <= wanted).checked_sub(1);
        let index = index.ok_or(Errno::Corrupt)?;
        let old = way.leaf[index];
        let end = old.logical_end().min(logical.saturating_add(count));
        if end <= logical {
            return Err(Errno::Corrupt);
        }
        let part = |from: u64, to: u64| Extent {
            logical: width::low_u32(from),
            count: width::low_u32(to - from),
            physical: old.physical + (from - u64::from(old.logical)),
            unwritten: old.unwritten,
        };
        let gone = part(logical, end);
        self.free_blocks(gone.physical, u64::from(gone.count), false)?;
        self.count_blocks(inode, -i64::from(gone.count))?;
        let left = (u64::from(old.logical) < logical).then(|| part(u64::from(old.logical), logical));
        let right = (end < old.logical_end()).then(|| part(end, old.logical_end()));
        match left.or(right) {
            Some(kept) => way.leaf[index] = kept,
            None => drop(way.leaf.remove(index)),
        }
        self.write_cut(inode, &mut way)?;
        if let (Some(_), Some(right)) = (left, right) {
            self.insert(inode, right)?;
        }
        let mut way = self.way(inode, Towards::Logical(wanted))?;
        self.correct_keys(inode, &mut way)?;
        Ok(end - logical)
    }

    fn room_in(&mut self, inode: &Inode, place: Option<u64>) -> Result<usize> {
        Ok(usize::from(self.node(inode, place)?.1.max))
    }

    fn write_node(
        &mut self,
        inode: &mut Inode,
        place: Option<u64>,
        depth: u16,
        entries: &[RawEntry],
    ) -> Result<()> {
        let Some(block) = place else {
            extent::set_entries(&mut inode.raw.i_block, depth, entries);
            return Ok(());
        };
        let (seed, has_sums) = (self.seed_of(inode), self.geometry.features.metadata_csum());
        let bytes = self.cache.change(block)?;
        extent::set_entries(bytes, depth, entries);
        if has_sums {
            checksum::seal_extent_block(seed, bytes);
        }
        Ok(())
    }

    /// Writes the entries of a node. A root without room for them gets one more level below; another node is split, at its end if that
    /// is where it has grown, so that files which grow leave full nodes behind.
    fn store_entries(
        &mut self,
        inode: &mut Inode,
        way: &mut Way,
        place: Option<u64>,
        depth: u16,
        mut entries: Vec<RawEntry>,
        new: Extent,
    ) -> Result<()> {
        if entries.len() <= self.room_in(inode, place)? {
            return self.write_node(inode, place, depth, &entries);
        }
        if place.is_none() {
            if depth >= MAX_DEPTH {
                return Err(Errno::NoSpace);
            }
            let block = self.new_node(inode, depth, &entries, new)?;
            let index = ExtentIndex { logical: key(&entries), child: block };
            return self.write_node(inode, None, depth + 1, &[index.to_bytes()]);
        }
        let is_at_end = entries.last().is_some_and(|last| key(&[*last]) <= new.logical);
        let cut = if is_at_end { entries.len() - 1 } else { entries.len() / 2 };
        let right = entries.split_off(cut);
        let block = self.new_node(inode, depth, &right, new)?;
        self.write_node(inode, place, depth, &entries)?;
        let mut parent = way.levels.pop().ok_or(Errno::Corrupt)?;
        let index = ExtentIndex { logical: key(&right), child: block };
        parent.entries.insert(parent.at + 1, index);
        let entries = parent.entries.iter().map(ExtentIndex::to_bytes).collect();
        self.store_entries(inode, way, parent.place, depth + 1, entries, new)
    }

    fn new_node(&mut self, inode: &mut Inode, depth: u16, entries: &[RawEntry], near: Extent) -> Result<u64> {
        let ask = Ask {
            inode: inode.number,
            inode_group: self.inode_group(inode.number),
            kind: BlockKind::Map(width::low_u8(u64::from(depth + 1))),
            logical: u64::from(key(entries)),
            previous: Some(near.physical_end().saturating_sub(1)),
        };
        let block = self.take_blocks(&ask, 1)?.start.0;
        self.count_blocks(inode, 1)?;
        let (seed, has_sums) = (self.seed_of(inode), self.geometry.features.metadata_csum());
        let size = self.geometry.block_size as usize;
        let bytes = self.cache.create(block)?;
        bytes.copy_from_slice(&build_node(size, depth, entries));
        if has_sums {
            checksum::seal_extent_block(seed, bytes);
        }
        Ok(block)
    }

    pub(super) fn mark_extents_written(&mut self, inode: &mut Inode, logical: u64, count: u64) -> Result<()> {
        let end = logical.checked_add(count).ok_or(Errno::TooLarge)?;
        let mut at = logical;
        while at < end {
            let wanted = u32::try_from(at).map_err(|_| Errno::TooLarge)?;
            let mut way = self.way(inode, Towards::Logical(wanted))?;
            let index = way.leaf.partition_point(|extent| extent.logical <= wanted).checked_sub(1);
            let index = index.ok_or(Errno::Corrupt)?;
            let old = way.leaf[index];
            if at >= old.logical_end() {
                return Err(Errno::Corrupt);
            }
            let part_end = end.min(old.logical_end());
            if old.unwritten {
                self.split_unwritten(inode, &mut way, index, at, part_end)?;
            }
            at = part_end;
        }
        Ok(())
    }

    /// Turns `start..end` of an unwritten extent into a written one, and leaves the rest what it is.
    fn split_unwritten(
        &mut self,
        inode: &mut Inode,
        way: &mut Way,
        index: usize,
        start: u64,
        end: u64,
    ) -> Result<()> {
        let old = way.leaf[index];
        let part = |from: u64, to: u64, unwritten: bool| Extent {
            logical: width::low_u32(from),
            count: width::low_u32(to - from),
            physical: old.physical + (from - u64::from(old.logical)),
            unwritten,
        };
        let first = u64::from(old.logical);
        let written = part(start, end, false);
        let is_from_start = start == first;
        way.leaf[index] = if is_from_start { written } else { part(first, start, true) };
        if is_from_start && index > 0 && joins(&way.leaf[index - 1], &written) {
            way.leaf[index - 1].count += written.count;
            way.leaf.remove(index);
        }
        let entries: Vec<RawEntry> = way.leaf.iter().map(Extent::to_bytes).collect();
        self.write_node(inode, way.place, 0, &entries)?;
        if !is_from_start {
            self.insert(inode, written)?;
        }
        if end < old.logical_end() {
            self.insert(inode, part(end, old.logical_end(), true))?;
        }
        Ok(())
    }

    pub(super) fn cut_extents(&mut self, inode: &mut Inode, first: u64) -> Result<bool> {
        loop {
            let mut way = self.way(inode, Towards::Last)?;
            let mut has_changed = false;
            let mut is_full = false;
            while let Some(last) = way.leaf.last().copied().filter(|last| last.logical_end() > first) {
                if is_full {
                    break;
                }
                let keep = width::low_u32(first.saturating_sub(u64::from(last.logical)));
                self.free_end(inode, &last, keep)?;
                way.leaf.pop();
                if keep > 0 {
                    way.leaf.push(Extent { count: keep, ..last });
                }
                has_changed = true;
                is_full = self.is_step_full();
            }
            let is_empty_leaf = way.leaf.is_empty() && way.place.is_some();
            if has_changed || is_empty_leaf {
                self.write_cut(inode, &mut way)?;
            }
            if is_full {
                return Ok(false);
            }
            // A leaf that is left, or was not touched, ends below `first`.
            if !is_empty_leaf {
                return Ok(true);
            }
        }
    }

    /// Writes a leaf that has lost entries; nodes without entries go, up to the root.
    fn write_cut(&mut self, inode: &mut Inode, way: &mut Way) -> Result<()> {
        let mut entries: Vec<RawEntry> = way.leaf.iter().map(Extent::to_bytes).collect();
        let mut place = way.place;
        let mut depth = 0;
        while entries.is_empty() {
            let Some(block) = place else {
                return self.write_node(inode, None, 0, &[]);
            };
            self.free_blocks(block, 1, true)?;
            self.count_blocks(inode, -1)?;
            let mut parent = way.levels.pop().ok_or(Errno::Corrupt)?;
            parent.entries.remove(parent.at);
            entries = parent.entries.iter().map(ExtentIndex::to_bytes).collect();
            place = parent.place;
            depth += 1;
        }
        self.write_node(inode, place, depth, &entries)
    }
}

impl Way {
    /// The first block of the leaf behind this one, as the indexes say.
    fn next_leaf(&self) -> Option<u32> {
        self.levels.iter().rev().find_map(|level| level.entries.get(level.at + 1)).map(|entry| entry.logical)
    }
}

/// The first block of the file that a node is about.
fn key(entries: &[RawEntry]) -> u32 {
    entries.first().map_or(0, |entry| u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]))
}
