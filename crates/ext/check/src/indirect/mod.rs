// SPDX-License-Identifier: MIT OR Apache-2.0
//! Indirect block maps: inspection of one inode's map.
//!
//! `i_block` holds 12 pointers to data blocks, then one each to an indirect, a double and a triple indirect block.
//! Invalid pointers are cleared one by one, and so are one or two behind the end of a file whose space in use is accounted for without
//! them. Where wrong ones are many, and more than the others, the map is taken for something
//! else altogether, unless the others are all the blocks that the file has in use, or the file ends with one of them.

mod doubts;
pub(crate) mod problems;
#[cfg(test)]
mod tests;

use fsmend_base::{BlockNo, width};
use fsmend_engine::{Layer, Problem};
use fsmend_ext_format::features::RoCompat;
use fsmend_ext_format::inode::InodeFlags;
use fsmend_ext_format::rext3::{DirectoryTail, IndirectHeader};

use crate::inode::MapRun;
use crate::inode::map::Map;
use crate::inode::problems::MAP_CROWDED;
use crate::inode::size;
use crate::inode::subject::Subject;
use crate::region::problems as region;
use crate::resize_inode;
use doubts::{Doubts, Entered, Told};
use problems::{
    DIRECTORY_TOO_BIG, FILE_TOO_BIG, HOPELESS, MAP_FOREIGN, MAP_IN_METADATA, MAP_POINTER_OUTSIDE,
    MAP_REPEATED, MAP_UNREADABLE, POINTER_BEHIND_END, POINTER_FALSE, POINTER_OUTSIDE, SYMLINK_TOO_BIG,
};

const DIRECT: usize = 12;
/// So many pointers behind the end may be stray ones. Where there are more, it is likelier that size and space in use are wrong.
const STRAYS_MAX: usize = 2;
/// A map, or one indirect block, with this many wrong pointers is none if they are more than the others.
const HOPELESS_AT: u32 = 12;
/// Pointers that make no sense, in a block without any other, from which on it is no indirect block.
const FOREIGN_AT: usize = 3;
/// So often blocks of one map are looked for in the regions of a rext3: a bound on the work that a hostile map can ask for.
const SEARCHES_MAX: u32 = 16;

/// Walks the block map in `i_block` and clears the pointers there that make no sense. `None` when the map is so
/// wrong that the inode has to be cleared.
pub(crate) fn walk(subject: &mut Subject<'_, '_>) -> Option<Map> {
    let raw = subject.raw;
    let walked = subject.findings.for_subject();
    let before = std::mem::replace(&mut subject.findings, walked);
    let (mut walk, mut stays) = walk_once(subject, Told::default());
    if let Some(end) = walk.size_end.filter(|_| !walk.is_given_up)
        && let Some(told) = walk.doubts.settle(subject, &walk.map, end)
    {
        subject.raw = raw;
        subject.findings = before.for_subject();
        (walk, stays) = walk_once(subject, told);
    }
    let walked = std::mem::replace(&mut subject.findings, before);
    subject.findings.merge(walked);
    stays.then_some(walk.map)
}

/// Walks the map by what was told of it. Returns whether the inode may stay.
fn walk_once(subject: &mut Subject<'_, '_>, told: Told) -> (Walk, bool) {
    let mut walk = Walk::new(subject, told);
    let mut words = [(0, 0); 15];
    let mut logical = 0;
    for (index, word) in words.iter_mut().enumerate() {
        *word = (subject.raw.block_word(index), logical);
        logical += walk.span(subject, levels_of(index));
    }
    let may_stray = walk.may_stray(subject, words.iter().copied());
    for (index, (pointer, logical)) in words.into_iter().enumerate() {
        let kept = match pointer {
            0 => 0,
            _ if may_stray && walk.is_stray(subject, pointer, logical) => 0,
            _ => walk.pointer(subject, pointer, levels_of(index), logical),
        };
        if kept != pointer {
            subject.raw.set_block_word(index, kept);
        }
        if walk.is_given_up {
            return (walk, false);
        }
    }
    let is_hopeless = walk.wrong >= HOPELESS_AT && u64::from(walk.wrong) > walk.map.clusters;
    if is_hopeless && !holds_all(subject, &walk.map) && !walk.holds_end() {
        let problem = subject.problem(&HOPELESS).stored(walk.map.clusters).observed(walk.wrong);
        subject.raise(problem);
        return (walk, false);
    }
    (walk, true)
}

/// Levels of indirection under a word of `i_block`.
fn levels_of(index: usize) -> u32 {
    width::len_u32(index.saturating_sub(DIRECT - 1))
}

/// Where the file ends by its size, and how many blocks it has in use by its own count, attributes left out. `None` where one of them tells nothing.
fn end_of(subject: &Subject<'_, '_>) -> Option<End> {
    let logical = size_end_of(subject)?;
    Some(End { logical, blocks: size::told_of_map(subject)? })
}

/// Where the file ends by its size: the first block that lies wholly behind it. `None` where that tells nothing: what shows that a file is genuine
/// lies behind its end.
fn size_end_of(subject: &Subject<'_, '_>) -> Option<u64> {
    let is_verity = subject.raw.has_flag(InodeFlags::VERITY) && subject.has_ro_compat(RoCompat::VERITY);
    let tells = subject.is_regular() && !is_verity && subject.fs.geometry.cluster_blocks <= 1;
    tells.then(|| subject.raw.size().div_ceil(subject.block_size()))
}

/// What a file says about its end.
#[derive(Clone, Copy)]
struct End {
    /// The first block of the file that lies wholly behind it.
    logical: u64,
    /// Blocks in use, those of the map included.
    blocks: u64,
}

/// Whether the map has at least as many blocks as the file has in use, and not many more: then what is wrong in it stands where there were
/// holes.
fn holds_all(subject: &Subject<'_, '_>, map: &Map) -> bool {
    size::told_of_map(subject)
        .is_some_and(|blocks| (blocks..=blocks.saturating_mul(2)).contains(&map.clusters) && blocks > 0)
}

/// What an indirect block says about itself, against the pointer that led to it.
enum Backpointer {
    /// It fits; or there are no such things.
    Right,
    /// It was damaged and is mended.
    Mended,
    /// The block is something else: the pointer has to go.
    Foreign,
}

/// What is to be said of an indirect block that cannot be one. It goes alone: what the rest of the map leads to is not its fault.
fn foreign(subject: &Subject<'_, '_>, block: BlockNo, bytes: &[u8]) -> Option<Problem> {
    let pointers = bytes.get(subject.fs.geometry.indirect_header()..).unwrap_or_default();
    let pointers = pointers.as_chunks::<4>().0.iter().map(|entry| u64::from(u32::from_le_bytes(*entry)));
    let (mut right, mut wrong) = (0_usize, 0_usize);
    for pointer in pointers.filter(|pointer| *pointer != 0) {
        if subject.fs.is_valid_block(BlockNo(pointer)) { right += 1 } else { wrong += 1 }
    }
    let problem = || subject.problem(&MAP_FOREIGN).block(block).stored(right as u64).observed(wrong as u64);
    is_foreign(right, wrong).then(problem)
}

/// Whether a block with so many `right` pointers and so many `wrong` ones is no indirect block. One without a right pointer maps nothing: it goes
/// sooner, so that what it holds does not count against the rest of the map.
pub(crate) fn is_foreign(right: usize, wrong: usize) -> bool {
    let most = if right == 0 { FOREIGN_AT } else { HOPELESS_AT as usize };
    wrong >= most && wrong > right
}

struct Walk {
    map: Map,
    /// Pointers that made no sense so far.
    wrong: u32,
    /// The end of the file by its size, where that tells something, and with what else the file says about it.
    size_end: Option<u64>,
    end: Option<End>,
    /// Whether the map shares too much to be walked on.
    is_given_up: bool,
    /// How often blocks may still be looked for in the regions of a rext3.
    searches_left: u32,
    /// What this walk leaves in doubt, and what an earlier one told.
    doubts: Doubts,
    told: Told,
}

impl Walk {
    fn new(subject: &Subject<'_, '_>, told: Told) -> Self {
        Walk {
            map: Map::default(),
            wrong: 0,
            size_end: size_end_of(subject),
            end: end_of(subject),
            is_given_up: false,
            searches_left: if subject.fs.regions.exist() { SEARCHES_MAX } else { 0 },
            doubts: Doubts::default(),
            told,
        }
    }

    /// Blocks of the file under one pointer with `levels` levels of indirection.
    fn span(&self, subject: &Subject<'_, '_>, levels: u32) -> u64 {
        u64::from(subject.fs.geometry.pointers_per_block()).saturating_pow(levels)
    }

    /// Whether so few of some pointers, each with the block of the file that it begins at, lie behind the end that they may be stray ones. (Those
    /// that lead nowhere, or into metadata, are none in any case.)
    fn may_stray(&self, subject: &Subject<'_, '_>, pointers: impl Iterator<Item = (u32, u64)>) -> bool {
        let Some(end) = self.end else { return false };
        let leads = |block: u64| subject.fs.is_valid_block(BlockNo(block)) && !subject.fs.metadata.get(block);
        let behind = pointers.filter(|(pointer, logical)| {
            *pointer != 0 && *logical >= end.logical && leads((*pointer).into())
        });
        behind.take(STRAYS_MAX + 1).count() <= STRAYS_MAX
    }

    /// Whether a pointer, which may be a stray one, has both size and space in use against it: it lies behind the end, and what lies before is all that the
    /// file has in use. It has to go, which is raised.
    fn is_stray(&self, subject: &mut Subject<'_, '_>, pointer: u32, logical: u64) -> bool {
        let is_behind = |end: End| logical >= end.logical && self.map.clusters == end.blocks;
        let is_stray = self.end.is_some_and(is_behind) && subject.fs.is_valid_block(BlockNo(pointer.into()));
        if is_stray {
            let problem = subject.problem(&POINTER_BEHIND_END).stored(pointer).detail("logical", logical);
            subject.raise(problem);
        }
        is_stray
    }

    /// Whether the last block of the file is mapped: no garbage ends where the size says.
    fn holds_end(&self) -> bool {
        let last = self.size_end.and_then(|end| end.checked_sub(1));
        last.is_some_and(|last| self.map.overlaps(last, 1))
    }

    /// Whether a pointer leads to a block that is surely something else, and a hole is likelier: to metadata, where the size or the space in use say so,
    /// or as data to an indirect block of this map. It has to go, which is raised.
    fn is_false(&self, subject: &mut Subject<'_, '_>, pointer: u32, levels: u32, logical: u64) -> bool {
        let block = u64::from(pointer);
        let is_behind = || self.size_end.is_some_and(|end| logical >= end);
        let in_metadata = subject.fs.is_valid_block(BlockNo(block))
            && subject.fs.metadata.get(block)
            && (self.told.without_metadata || is_behind());
        if !in_metadata && (levels > 0 || !self.told.own_map.contains(&block)) {
            return false;
        }
        let what =
            if in_metadata { "in use for file system metadata" } else { "one of its own indirect blocks" };
        let problem = subject.problem(&POINTER_FALSE).stored(pointer).observed(what);
        subject.raise(problem.detail("logical", logical));
        true
    }

    /// Follows a pointer. Returns what should stand there: 0 when it has to be cleared, and on a rext3 the block that is looked for where it can be found.
    fn pointer(&mut self, subject: &mut Subject<'_, '_>, pointer: u32, levels: u32, logical: u64) -> u32 {
        if self.is_false(subject, pointer, levels, logical) {
            return 0;
        }
        let stays = match levels {
            0 => self.data(subject, BlockNo(u64::from(pointer)), logical),
            _ => self.map_pointer(subject, pointer, levels, logical),
        };
        if stays || self.is_given_up {
            return pointer;
        }
        let found = (levels > 0).then(|| self.detached(subject, levels)).flatten();
        found.filter(|block| self.map_pointer(subject, *block, levels, logical)).unwrap_or(0)
    }

    /// On a rext3, the indirect block that says that it belongs where a wrong pointer was.
    fn detached(&mut self, subject: &Subject<'_, '_>, levels: u32) -> Option<u32> {
        self.searches_left = self.searches_left.checked_sub(1)?;
        let level = u8::try_from(levels).ok()?;
        let roots = [0, 1, 2].map(|tree| subject.raw.block_word(DIRECT + tree));
        let found = subject.fs.detached_map_block(subject.inode, level, roots)?;
        u32::try_from(found.0).ok().filter(|_| !self.map.map_blocks.contains(&found.0))
    }

    /// Follows a pointer to an indirect block; `false` when it has to be cleared.
    fn map_pointer(
        &mut self,
        subject: &mut Subject<'_, '_>,
        pointer: u32,
        levels: u32,
        logical: u64,
    ) -> bool {
        let block = BlockNo(u64::from(pointer));
        if !subject.fs.is_valid_block(block) {
            let problem = subject.problem(&MAP_POINTER_OUTSIDE).stored(pointer).detail("logical", logical);
            return self.refuse(subject, problem.detail("levels", levels));
        }
        let is_elsewhere = self.told.places.get(&block.0).is_some_and(|place| *place != logical);
        if is_elsewhere || !self.map.add_map_block(block.0) {
            self.doubts.came_again(block.0, levels, logical);
            let problem = subject.problem(&MAP_REPEATED).block(block);
            return self.refuse(subject, problem);
        }
        if !subject.may_read_map_block(block.0) {
            return self.give_up(subject);
        }
        if subject.fs.metadata.get(block.0) {
            let problem = subject.problem(&MAP_IN_METADATA).block(block);
            subject.raise(problem);
            if resize_inode::lists_its_copies(subject.fs, block) {
                // It is what it should be there: no map has ever been in it.
                self.map.drop_map_block();
                return false;
            }
        }
        let (clusters, in_metadata) = (self.map.clusters - 1, self.doubts.in_metadata);
        let stays = self.children(subject, block, levels, logical);
        if !stays {
            self.map.drop_map_block();
        }
        if subject.fs.metadata.get(block.0) {
            self.doubts.in_metadata = in_metadata + self.map.clusters.saturating_sub(clusters);
        }
        stays
    }

    /// Follows the pointers in indirect block `block` and clears those that make no sense; `false` when it cannot be read.
    fn children(&mut self, subject: &mut Subject<'_, '_>, block: BlockNo, levels: u32, logical: u64) -> bool {
        let mark = subject.findings.mark();
        let Ok(mut bytes) = subject.fs.read_block(block) else {
            let problem = subject.problem(&MAP_UNREADABLE).block(block);
            subject.raise(problem);
            return false;
        };
        let mut changed = match self.backpointer(subject, block, levels, &mut bytes) {
            Backpointer::Right => false,
            Backpointer::Mended => true,
            Backpointer::Foreign => {
                // It may be another part of the same map.
                self.map.forget_map_block(block.0);
                return false;
            }
        };
        if let Some(problem) = foreign(subject, block, &bytes) {
            return self.refuse(subject, problem);
        }
        let span = self.span(subject, levels - 1);
        let pointers = bytes.get_mut(subject.fs.geometry.indirect_header()..).unwrap_or_default();
        let pointers = pointers.as_chunks_mut::<4>().0;
        let starts = (0u64..).map(|index| logical + index * span);
        let words = pointers.iter().map(|entry| u32::from_le_bytes(*entry));
        let may_stray = self.may_stray(subject, words.zip(starts.clone()));
        let mut entered = Entered { block: block.0, logical, levels, kept: 0, wrong: 0, last: 0 };
        for (entry, start) in pointers.iter_mut().zip(starts) {
            let child = u32::from_le_bytes(*entry);
            let kept = match child {
                0 => 0,
                _ if may_stray && self.is_stray(subject, child, start) => 0,
                _ => self.pointer(subject, child, levels - 1, start),
            };
            if kept != 0 {
                entered.kept += 1;
                entered.last = start.saturating_sub(logical);
            }
            if kept != child {
                entered.wrong += 1;
                *entry = kept.to_le_bytes();
                changed = true;
            }
            if self.is_given_up {
                return true;
            }
        }
        self.doubts.enter(entered);
        if changed {
            let offset = subject.fs.block_offset(block);
            subject.findings.edit_since(mark, Layer::Block, offset, &bytes);
        }
        true
    }

    /// On a rext3, judges where an indirect block lies and what it says about itself. What a damaged header should say is put
    /// into `bytes`.
    fn backpointer(
        &mut self,
        subject: &mut Subject<'_, '_>,
        block: BlockNo,
        levels: u32,
        bytes: &mut [u8],
    ) -> Backpointer {
        let fs = subject.fs;
        let (Some(header), true) = (IndirectHeader::parse(bytes), fs.regions.exist()) else {
            return Backpointer::Right;
        };
        let is_inside = fs.regions.contain(block.0);
        if !is_inside && !fs.metadata.get(block.0) {
            self.map.rebuild = true;
            let problem = subject.problem(&region::MAP_OUTSIDE).block(block);
            subject.raise(problem);
        }
        let seed = fs.geometry.checksum_seed;
        let right = IndirectHeader::new(seed, block, subject.inode, width::low_u8(u64::from(levels)));
        if header == right {
            return Backpointer::Right;
        }
        let is_intact = header.is_right(seed, block);
        // Of a block that was written to the wrong place, neither fits.
        let is_strange = header.inode != right.inode && header.check != right.check;
        let problem = match is_intact {
            true if header.inode == subject.inode => {
                subject.problem(&region::LEVEL_WRONG).stored(u64::from(header.level)).observed(levels)
            }
            _ if is_intact || is_strange => {
                subject.problem(&region::BACKPOINTER_WRONG).stored(header.inode.0)
            }
            _ => subject.problem(&region::HEADER_DAMAGED).stored(header.inode.0),
        };
        if is_strange && is_inside && !is_intact && self.searches_left > 0 {
            self.searches_left -= 1;
            if let Some(moved) = fs.moved_map_block(right, block) {
                subject.raise(problem.block(block));
                bytes.copy_from_slice(&moved);
                return Backpointer::Mended;
            }
            let names_another = header.names_an_inode(fs.geometry.inodes_count) && levels == 1;
            let is_directory = subject.is_directory();
            if !names_another
                && DirectoryTail::parse(bytes).is_none()
                && fs.leads_to_parts_of(subject.inode, is_directory, right.level, bytes)
            {
                let problem = subject.problem(&region::HEADER_DAMAGED).stored(header.inode.0);
                subject.raise(problem.block(block));
                right.store(bytes);
                return Backpointer::Mended;
            }
        }
        let is_foreign = is_intact || is_strange || !is_inside || DirectoryTail::parse(bytes).is_some();
        if is_foreign {
            self.refuse(subject, problem.block(block));
            return Backpointer::Foreign;
        }
        subject.raise(problem.block(block));
        right.store(bytes);
        Backpointer::Mended
    }

    fn data(&mut self, subject: &mut Subject<'_, '_>, block: BlockNo, logical: u64) -> bool {
        if !subject.fs.regions.suit(subject.is_directory(), block.0, 1)
            && subject.fs.is_valid_block(block)
            && !self.displaced(subject, block, logical)
        {
            return false;
        }
        if let Some(problem) = self.judge_data(subject, block, logical) {
            return self.refuse(subject, problem.stored(block.0).detail("logical", logical));
        }
        self.doubts.in_metadata += u64::from(subject.fs.metadata.get(block.0));
        self.map.add(subject, MapRun { logical, physical: block.0, count: 1, unwritten: false });
        self.map.clusters <= subject.fs.geometry.blocks_count || self.give_up(subject)
    }

    /// A block on the wrong side of a region's border: kept, for it can be moved, unless what lies there is surely something
    /// else. `false` when the pointer has to be cleared.
    fn displaced(&mut self, subject: &mut Subject<'_, '_>, block: BlockNo, logical: u64) -> bool {
        let is_directory = subject.is_directory();
        let row = if is_directory { &region::DIRECTORY_OUTSIDE } else { &region::DATA_INSIDE };
        let problem = subject.problem(row).stored(block.0).detail("logical", logical);
        let bytes = subject.fs.read_block(block).unwrap_or_default();
        let tail = DirectoryTail::parse(&bytes);
        let seed = subject.fs.geometry.checksum_seed;
        let is_wrong = match is_directory {
            true => tail.is_none_or(|tail| tail.inode != subject.inode),
            false => {
                tail.is_some()
                    || IndirectHeader::parse(&bytes).is_some_and(|header| header.is_right(seed, block))
            }
        };
        if is_wrong {
            return self.refuse(subject, problem);
        }
        subject.raise(problem);
        self.map.rebuild = true;
        true
    }

    /// Gives up a map that shares too much; always `false`.
    fn give_up(&mut self, subject: &mut Subject<'_, '_>) -> bool {
        let problem = subject.problem(&MAP_CROWDED);
        subject.raise(problem);
        self.is_given_up = true;
        false
    }

    fn judge_data(&self, subject: &Subject<'_, '_>, block: BlockNo, logical: u64) -> Option<Problem> {
        if !subject.fs.is_valid_block(block) {
            return Some(subject.problem(&POINTER_OUTSIDE));
        }
        if subject.is_directory() {
            let too_big = logical >= subject.directory_blocks_max();
            return too_big.then(|| subject.problem(&DIRECTORY_TOO_BIG));
        }
        if subject.is_regular() {
            let full = self.map.clusters + 1 >= (1 << 41) / subject.block_size();
            let too_big = full && !subject.has_ro_compat(RoCompat::HUGE_FILE);
            return too_big.then(|| subject.problem(&FILE_TOO_BIG));
        }
        (logical > 0).then(|| subject.problem(&SYMLINK_TOO_BIG))
    }

    /// Raises what is wrong with a pointer; always `false`.
    fn refuse(&mut self, subject: &mut Subject<'_, '_>, problem: Problem) -> bool {
        self.wrong = self.wrong.saturating_add(1);
        subject.raise(problem);
        false
    }
}
