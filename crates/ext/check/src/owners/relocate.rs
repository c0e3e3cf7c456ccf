// SPDX-License-Identifier: MIT OR Apache-2.0
//! One inode moves out of what it does not keep.

use std::collections::{BTreeMap, BTreeSet};

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_engine::Problem;
use fsmend_engine::inodes::Kind;
use fsmend_ext_format::checksum;
use fsmend_ext_format::directory::{Entries, Entry, EntryLayout};

use super::borne_out;
use super::copy_room::CopyRoom;
use super::keepers::{Keeper, Place, Places, attribute_block};
use super::problems::{COPY_UNREADABLE, GIVEN_UP, NO_ROOM};
use crate::inode::{Inspection, MapRun};
use crate::repair::map::FileMap;
use crate::repair::{Duplicates, RepairContext};

/// A file gives up what nothing in it bears out when at least so many others own parts of it, and as many units as one in this.
const OWNERS_MIN: usize = 2;
const CONTESTED_PART: u64 = 8;

/// So many bytes are copied in one go, at most, or a block.
const COPIED_AT_ONCE: u64 = 256 << 10;

/// An inode on its way out of contested units.
pub(super) struct Relocation<'r, 'm> {
    context: &'r mut RepairContext<'m>,
    places: &'r mut Places,
    copy_room: &'r mut CopyRoom,
    inode: InodeNo,
    is_directory: bool,
    /// The logical cluster for which the inode keeps a unit that it claims several times.
    kept: BTreeMap<u64, u64>,
    /// Logical clusters that lose their contents, for want of room.
    lost: BTreeSet<u64>,
    given_up: u64,
    unreadable: u64,
    attributes_lost: bool,
    translator_lost: bool,
}

/// Where the contents of a copy come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Zeroes are what it gets.
    Nothing,
    /// What lay there before the repair.
    Before,
    /// What lies there by now.
    Now,
}

/// Clusters of a file, one behind the other, that move to clusters one behind the other.
struct Stretch {
    logical: u64,
    count: u64,
    to: Option<u64>,
}

/// Gives `inode` places of its own for everything that it claims and does not keep. Returns `false` when something was lost for want
/// of room. What an inspection has found of it, if there was one already, is `found`.
pub(super) fn relocate(
    context: &mut RepairContext<'_>,
    places: &mut Places,
    inode: InodeNo,
    found: Option<Inspection>,
    copy_room: &mut CopyRoom,
) -> bool {
    let found = found.or_else(|| context.inspect_inode(inode));
    let Some(mut found) = found.filter(|found| found.kind != Kind::Unused) else { return true };
    let is_directory = found.kind == Kind::Directory;
    let (kept, lost) = (BTreeMap::new(), BTreeSet::new());
    let (attributes_lost, translator_lost) = (false, false);
    let mut relocation = Relocation {
        context,
        places,
        copy_room,
        inode,
        is_directory,
        kept,
        lost,
        given_up: 0,
        unreadable: 0,
        attributes_lost,
        translator_lost,
    };
    relocation.attribute_block(&found);
    relocation.translator(&mut found);
    let limit = borne_out::limit(relocation.context, inode, &found);
    if let Some(map) = FileMap::of(inode, found) {
        relocation.map(map, limit);
    }
    relocation.say();
    relocation.lost.is_empty() && !relocation.attributes_lost && !relocation.translator_lost
}

impl Relocation<'_, '_> {
    /// Moves what the file keeps of its map, which nothing bears out from `limit` on.
    fn map(&mut self, mut map: FileMap, limit: Option<u64>) {
        if let Some(limit) = limit.filter(|limit| self.copy_room.is_short && self.leads_astray(&map, *limit))
        {
            self.give_up(&mut map, limit);
        }
        let moving = self.moving(&map);
        let mut moved = Vec::new();
        for stretch in self.stretches(&map, &moving) {
            moved.extend(self.move_stretch(&map, &stretch));
        }
        let lost: Vec<u64> = self.lost.iter().copied().collect();
        for part in lost.chunk_by(|a, b| a + 1 == *b) {
            map.runs.unmap(part[0] * self.cluster_blocks(), part.len() as u64 * self.cluster_blocks());
        }
        map.runs.overlay(moved);
        let nodes = map.nodes.len();
        let cluster_of = |block: &u64| self.context.fs.geometry.cluster_of(*block);
        map.nodes.retain(|node| self.places.get(cluster_of(node)).is_none());
        if !moving.is_empty() || map.nodes.len() < nodes || self.given_up > 0 {
            self.store(&mut map);
            self.copy_room.count_again(self.context);
        }
        self.note_use(&map);
    }

    /// Whether what `map` claims from `limit` on is what several others own, for a good part of what this window has of it. (Further windows come when it is
    /// too late: the copies of this one would take the room.)
    fn leads_astray(&self, map: &FileMap, limit: u64) -> bool {
        let geometry = &self.context.fs.geometry;
        let (mut units, mut contested, mut owners) = (0, 0, BTreeSet::new());
        for run in map.runs.within(limit, map.runs.end().saturating_sub(limit)) {
            let first = geometry.cluster_of(run.physical);
            let last = geometry.cluster_of(run.physical + u64::from(run.count) - 1);
            units += self.places.looked_at(first, last);
            let mine = [Keeper::Data(self.inode), Keeper::System(self.inode)];
            let others = self.places.within(first, last);
            for place in others.filter(|place| place.borne_out && !mine.contains(&place.keeper)) {
                contested += 1;
                if owners.len() < OWNERS_MIN {
                    owners.insert(place.keeper);
                }
            }
        }
        owners.len() >= OWNERS_MIN && contested >= units / CONTESTED_PART
    }

    /// The file ends at `limit`, with the size that it had before its map was believed.
    fn give_up(&mut self, map: &mut FileMap, limit: u64) {
        let count = map.runs.end().saturating_sub(limit);
        self.given_up = map.runs.within(limit, count).iter().map(|run| u64::from(run.count)).sum();
        self.context.remove_blocks(map, limit, count);
        if let Some(before) = self.context.inode_before(self.inode) {
            map.set_size(before.size());
        }
    }

    fn cluster_blocks(&self) -> u64 {
        u64::from(self.context.fs.geometry.cluster_blocks)
    }

    /// The clusters of the file that have to move, ascending.
    fn moving(&mut self, map: &FileMap) -> Vec<u64> {
        let unit = self.cluster_blocks();
        let mut moving = BTreeSet::new();
        let mut before: Option<(u64, u64)> = None;
        for run in map.runs.iter() {
            let last_logical = run.logical + u64::from(run.count) - 1;
            let last = (last_logical / unit, (run.physical + u64::from(run.count) - 1) / unit);
            let (logical, physical) = (run.logical / unit, run.physical / unit);
            if run.logical % unit != run.physical % unit {
                moving.extend(logical..=last.0);
                before = Some(last);
                continue;
            }
            if before.is_some_and(|before| before.0 == logical && before.1 != physical) {
                moving.insert(logical);
            }
            before = Some(last);
            for place in self.places.within(physical, last.1) {
                let cluster = logical + (place.unit - physical);
                let mine = [Keeper::Data(self.inode), Keeper::System(self.inode)].contains(&place.keeper);
                if !mine || *self.kept.entry(place.unit).or_insert(cluster) != cluster {
                    moving.insert(cluster);
                }
            }
        }
        moving.into_iter().collect()
    }

    /// Takes places for the clusters in `moving`, in pieces as long as can be had.
    fn stretches(&mut self, map: &FileMap, moving: &[u64]) -> Vec<Stretch> {
        let unit = self.cluster_blocks();
        let mut stretches = Vec::new();
        let mut goal = None;
        for part in moving.chunk_by(|a, b| a + 1 == *b) {
            let (mut logical, mut left) = (part[0], part.len() as u64);
            let mut most = left;
            while left > 0 {
                let near = goal.or_else(|| Some(BlockNo(map.runs.before(logical * unit)?.0 + 1)));
                let near = near.unwrap_or_else(|| self.context.goal_of(self.inode));
                let in_region = self.is_directory && self.context.fs.regions.exist();
                if !in_region && self.copy_room.room == 0 {
                    stretches.push(Stretch { logical, count: left, to: None });
                    break;
                }
                let count = if in_region { 1 } else { most.min(left).min(self.copy_room.room) };
                let to = match in_region {
                    true => self.context.allocate_in_region(self.inode),
                    false => self.context.allocate_blocks(near, count * unit),
                };
                if to.is_none() && count > 1 {
                    most = count.div_ceil(2);
                    continue;
                }
                if !in_region {
                    // Where not even one was found, the search need not be repeated for all that follow.
                    self.copy_room.room = if to.is_some() { self.copy_room.room - count } else { 0 };
                }
                goal = to.map(|to| BlockNo(to.0 + count * unit)).or(goal);
                stretches.push(Stretch { logical, count, to: to.map(|block| block.0) });
                (logical, left) = (logical + count, left - count);
            }
        }
        stretches
    }

    /// Copies what is mapped in a stretch; returns where it lies then.
    fn move_stretch(&mut self, map: &FileMap, stretch: &Stretch) -> Vec<MapRun> {
        let unit = self.cluster_blocks();
        let Some(to) = stretch.to else {
            self.lost.extend(stretch.logical..stretch.logical + stretch.count);
            return Vec::new();
        };
        let start = stretch.logical * unit;
        let pieces = map.runs.within(start, stretch.count * unit);
        let moved = |piece: MapRun| MapRun { physical: to + (piece.logical - start), ..piece };
        for piece in pieces.iter().filter(|piece| !piece.unwritten) {
            let (mut step, size) = (0, u64::from(self.context.fs.geometry.block_size));
            while step < u64::from(piece.count) {
                if self.context.is_full() {
                    return Vec::new();
                }
                let (from, to) = (piece.physical + step, moved(*piece).physical + step);
                let (bytes, is_copy) = self.contents(BlockNo(from), u64::from(piece.count) - step);
                step += bytes.len() as u64 / size;
                let place = |block| self.context.fs.block_offset(BlockNo(block));
                match is_copy {
                    true => self.context.overlay.put_copy(place(from), place(to), bytes),
                    false => self.context.overlay.put(place(to), bytes),
                }
            }
        }
        pieces.into_iter().map(moved).collect()
    }

    /// What blocks from `first` on hold for this inode: at most `count`, and so many as can be read in one go; and whether that is what lies there.
    fn contents(&mut self, first: BlockNo, count: u64) -> (Vec<u8>, bool) {
        let size = self.context.fs.geometry.block_size as usize;
        let source = self.source(first);
        let behind = (1..count.min(COPIED_AT_ONCE / size as u64)).map(|step| BlockNo(first.0 + step));
        let blocks = 1 + behind.take_while(|block| self.source(*block) == source).count();
        if source == Source::Before
            && let Some(bytes) = self.bytes_before(first, blocks * size)
        {
            return (bytes, true);
        }
        let mut bytes = vec![0; blocks * size];
        if source == Source::Nothing || self.read(source, first, &mut bytes) {
            return (bytes, source != Source::Nothing);
        }
        for (block, place) in (first.0..).zip(bytes.chunks_exact_mut(size)) {
            if !self.read(source, BlockNo(block), place) {
                self.unreadable += 1;
                place.fill(0);
            }
        }
        (bytes, false)
    }

    /// The bytes of blocks from `first` on as they were before the repair. Where free space is scattered, what lies in one piece is asked for
    /// block by block; it is read in one piece all the same.
    fn bytes_before(&mut self, first: BlockNo, len: usize) -> Option<Vec<u8>> {
        let fs = &self.context.fs;
        let is_contested = |block: u64| self.places.get(fs.geometry.cluster_of(block)).is_some();
        self.copy_room.ahead.bytes(self.context, first, len, is_contested).map(<[u8]>::to_vec)
    }

    /// Which contents of a block are meant for this inode. What is contested may have been mended for another inode; only a directory that
    /// is the only one there is sure to be meant. What proves to be a directory's is no file's: a pointer of the file leads astray, perhaps one that was none.
    fn source(&self, block: BlockNo) -> Source {
        let place = self.places.get(self.context.fs.geometry.cluster_of(block.0));
        let is_zeroed = self.context.policy.duplicates == Duplicates::Zero && !self.is_directory;
        match place {
            Some(_) if is_zeroed => Source::Nothing,
            Some(place) if !self.is_directory && self.is_of_directory(place, block) => Source::Nothing,
            Some(place) if !self.is_directory || place.directories > 1 => Source::Before,
            _ => Source::Now,
        }
    }

    /// Whether a block is part of a longer run of a directory, which keeps it, and holds what directories hold.
    fn is_of_directory(&self, place: &Place, block: BlockNo) -> bool {
        if !place.keeper_is_directory || !place.is_anchored || place.directories != 1 {
            return false;
        }
        let geometry = &self.context.fs.geometry;
        let mut bytes = vec![0; geometry.block_size as usize];
        let layout = EntryLayout { block_size: geometry.block_size, hash_behind_name: false };
        let is_sound = |entry: Result<Entry<'_>, _>| {
            entry.is_ok_and(|entry| entry.header.inode <= geometry.inodes_count)
        };
        self.context.overlay.read_before(self.context.fs.block_offset(block), &mut bytes).is_ok()
            && Entries::new(&bytes, layout, false).all(is_sound)
    }

    /// Fills `bytes` from `first` on, or says that it cannot be done.
    fn read(&self, source: Source, first: BlockNo, bytes: &mut [u8]) -> bool {
        let offset = self.context.fs.block_offset(first);
        match source {
            Source::Nothing => true,
            Source::Before => self.context.overlay.read_before(offset, bytes).is_ok(),
            Source::Now => self.context.fs.device.read_at(offset, bytes).is_ok(),
        }
    }

    /// Writes the map. Where no room is left for its nodes, the end of the file makes some.
    fn store(&mut self, map: &mut FileMap) {
        let unit = self.cluster_blocks();
        let mut step = 1;
        while !self.context.store_map(map.clone()) {
            let end = map.runs.end().div_ceil(unit);
            if end == 0 {
                return;
            }
            let from = end.saturating_sub(step);
            self.lost.extend((from..end).filter(|cluster| !map.runs.within(cluster * unit, unit).is_empty()));
            let mut cut = map.clone();
            self.context.remove_blocks(&mut cut, from * unit, (end - from) * unit);
            *map = cut;
            step *= 2;
        }
    }

    fn note_use(&mut self, map: &FileMap) {
        let geometry = &self.context.fs.geometry;
        for run in map.runs.iter() {
            let last = run.physical + u64::from(run.count) - 1;
            self.places.use_up(geometry.cluster_of(run.physical), geometry.cluster_of(last));
        }
    }

    fn attribute_block(&mut self, found: &Inspection) {
        let Some(block) = attribute_block(self.context, found) else { return };
        let geometry = &self.context.fs.geometry;
        let unit = geometry.cluster_of(block);
        let Some(place) = self.places.get(unit) else { return };
        if place.keeper == Keeper::Attributes(block) {
            self.places.use_up(unit, unit);
            return;
        }
        if self.copy_room.attributes.contains_key(&block) {
            return;
        }
        let seed = geometry.features.metadata_csum().then_some(geometry.checksum_seed);
        let to = self.context.allocate_blocks(BlockNo(block), 1);
        let copied = to.zip(self.context.read_block(BlockNo(block)).ok());
        let Some((to, mut bytes)) = copied else {
            // Without a place of their own the attributes go.
            self.copy_room.attributes.insert(block, 0);
            self.attributes_lost = true;
            return;
        };
        if let Some(seed) = seed {
            checksum::seal_xattr_block(seed, to, &mut bytes);
        }
        self.context.write_block(to, &bytes);
        self.copy_room.attributes.insert(block, to.0);
    }

    /// Moves the block of a translator, and leads `found` and the inode there.
    fn translator(&mut self, found: &mut Inspection) {
        let Some(block) = found.translator else { return };
        let unit = self.context.fs.geometry.cluster_of(block);
        let Some(place) = self.places.get(unit) else { return };
        if place.keeper == Keeper::Translator(self.inode) {
            self.places.use_up(unit, unit);
            return;
        }
        let to = self.context.allocate_blocks(BlockNo(block), self.cluster_blocks());
        if let Some(to) = to {
            let (bytes, _) = self.contents(BlockNo(block), 1);
            self.context.write_block(to, &bytes);
        }
        self.translator_lost = to.is_none();
        found.translator = to.map(|to| to.0);
        let mut raw = found.raw();
        // File systems of the Hurd count their blocks in 32 bits.
        raw.i_version.set(to.map_or(0, |to| width::low_u32(to.0)));
        raw.store(&mut found.record);
        self.context.write_inode(self.inode, &mut found.record);
    }

    /// Says what was lost.
    fn say(&mut self) {
        let unit = self.cluster_blocks();
        let lost = &mut self.context.repair_input.lost;
        let others = u64::from(self.attributes_lost) + u64::from(self.translator_lost);
        if !self.lost.is_empty() || others > 0 {
            let count = (self.lost.len() as u64 + others) * unit;
            lost.raise(Problem::new(&NO_ROOM).inode(self.inode).detail("count", count));
        }
        if self.given_up > 0 {
            lost.raise(Problem::new(&GIVEN_UP).inode(self.inode).detail("count", self.given_up));
        }
        if self.unreadable > 0 {
            lost.raise(Problem::new(&COPY_UNREADABLE).inode(self.inode).detail("count", self.unreadable));
        }
    }
}
