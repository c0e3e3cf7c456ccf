// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trees of pointers, the way of ext2 and ext3: twelve pointers to data in the inode, then one to a block of pointers, one to a block of
//! pointers to such blocks, and one to a block of those. Those of a rext3 begin with what says whose they are, and have two pointers fewer.

use fsmend_base::{BlockNo, width};
use fsmend_blockcache::Block;
use fsmend_ext_format::rext3::IndirectHeader;
use fsmend_vfs::{Errno, Result};

use super::Run;
use crate::inode::Inode;
use crate::policy::{Ask, BlockKind};
use crate::volume::Volume;

/// Pointers to data in the inode.
const DIRECT: u64 = 12;

/// Where the way to a block begins.
#[derive(Clone, Copy)]
struct Start {
    /// The word of `i_block`.
    slot: usize,
    /// Blocks of pointers on the way.
    level: u8,
    /// Which of the data blocks below that word.
    rest: u64,
}

/// Data blocks below a pointer to a block of `level`.
fn span(pointers: u64, level: u8) -> u64 {
    pointers.saturating_pow(u32::from(level))
}

fn start_of(pointers: u64, logical: u64) -> Option<Start> {
    if logical < DIRECT {
        return Some(Start { slot: width::index(logical), level: 0, rest: 0 });
    }
    let mut rest = logical - DIRECT;
    for level in 1..=3u8 {
        let below = span(pointers, level);
        if rest < below {
            return Some(Start { slot: width::index(DIRECT) + usize::from(level) - 1, level, rest });
        }
        rest -= below;
    }
    None
}

fn pointer(block: &[u8], index: u64) -> u64 {
    let at = width::index(index * 4);
    block
        .get(at..at + 4)
        .map_or(0, |word| u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]])))
}

fn set_pointer(block: &mut [u8], index: u64, value: u32) {
    let at = width::index(index * 4);
    if let Some(word) = block.get_mut(at..at + 4) {
        word.copy_from_slice(&value.to_le_bytes());
    }
}

/// The run that begins at `index` of `count` pointers.
fn run_of(get: impl Fn(u64) -> u64, index: u64, end: u64, max: u64) -> Run {
    let first = get(index);
    let end = end.min(index.saturating_add(max));
    let fits = |at: &u64| if first == 0 { get(*at) == 0 } else { get(*at) == first + (*at - index) };
    let count = 1 + (index + 1..end).take_while(fits).count() as u64;
    Run { physical: (first != 0).then_some(first), count, unwritten: false }
}

impl Volume {
    fn pointers(&self) -> u64 {
        u64::from(self.geometry.pointers_per_block())
    }

    /// A block of pointers that has to be one of this file, at this level.
    fn map_block(&mut self, inode: &Inode, block: u64, level: u8) -> Result<Block> {
        if !self.geometry.rext3() {
            return self.cache.get(block);
        }
        self.check_place(true, block, 1)?;
        self.bring_map_block(block);
        let seed = self.geometry.checksum_seed;
        let bytes = self.cache.get_checked(block, "an indirect block", |bytes| {
            IndirectHeader::parse(bytes).is_some_and(|header| header.is_right(seed, BlockNo(block)))
        })?;
        let header = IndirectHeader::parse(&bytes);
        if header.is_none_or(|header| header.inode != inode.number || header.level != level) {
            let number = inode.number;
            return Err(self.cache.corrupt(|| {
                format!("block {block} says that it is no indirect block of inode {number} and level {level}")
            }));
        }
        Ok(bytes)
    }

    pub(super) fn map_pointers(&mut self, inode: &Inode, logical: u64, max: u64) -> Result<Run> {
        let pointers = self.pointers();
        let Some(Start { slot, level, rest }) = start_of(pointers, logical) else {
            return Ok(Run::hole(max));
        };
        if level == 0 {
            let word = |index: u64| u64::from(inode.raw.block_word(width::index(index)));
            return Ok(run_of(word, logical, DIRECT, max));
        }
        let header = self.geometry.indirect_header();
        let mut block = u64::from(inode.raw.block_word(slot));
        for level in (1..=level).rev() {
            let below = span(pointers, level);
            if block == 0 {
                return Ok(Run::hole(max.min(below - rest % below)));
            }
            let bytes = self.map_block(inode, block, level)?;
            let bytes = &bytes[header..];
            let index = rest % below / span(pointers, level - 1);
            if level == 1 {
                return Ok(run_of(|at| pointer(bytes, at), index, pointers, max));
            }
            block = pointer(bytes, index);
        }
        Err(Errno::Corrupt)
    }

    pub(super) fn new_pointers(&mut self, inode: &mut Inode, ask: Ask, max: u64) -> Result<(u64, u64)> {
        let pointers = self.pointers();
        let Start { slot, level, rest } = start_of(pointers, ask.logical).ok_or(Errno::TooLarge)?;
        if level == 0 {
            let run =
                run_of(|at| u64::from(inode.raw.block_word(width::index(at))), ask.logical, DIRECT, max);
            let (physical, count) = self.take_data(inode, &ask, run)?;
            for step in 0..count {
                inode.raw.set_block_word(slot + width::index(step), narrow(physical + step)?);
            }
            return Ok((physical, count));
        }
        let mut ask = ask;
        let header = self.geometry.indirect_header();
        let mut block = u64::from(inode.raw.block_word(slot));
        if block == 0 {
            block = self.new_map_block(inode, &mut ask, level)?;
            inode.raw.set_block_word(slot, narrow(block)?);
        }
        for level in (2..=level).rev() {
            let index = rest % span(pointers, level) / span(pointers, level - 1);
            let mut child = pointer(&self.map_block(inode, block, level)?[header..], index);
            if child == 0 {
                child = self.new_map_block(inode, &mut ask, level - 1)?;
                set_pointer(&mut self.cache.change(block)?[header..], index, narrow(child)?);
            }
            block = child;
        }
        let index = rest % pointers;
        let bytes = self.map_block(inode, block, 1)?;
        let run = run_of(|at| pointer(&bytes[header..], at), index, pointers, max);
        drop(bytes);
        let (physical, count) = self.take_data(inode, &ask, run)?;
        let bytes = &mut self.cache.change(block)?[header..];
        for step in 0..count {
            set_pointer(bytes, index + step, narrow(physical + step)?);
        }
        Ok((physical, count))
    }

    fn take_data(&mut self, inode: &mut Inode, ask: &Ask, run: Run) -> Result<(u64, u64)> {
        if run.physical.is_some() {
            return Err(Errno::Invalid);
        }
        let taken = self.take_blocks(ask, run.count)?;
        self.count_blocks(inode, width::signed(taken.count))?;
        Ok((taken.start.0, taken.count))
    }

    /// A new block of pointers. Where it follows the file's data, what comes next follows it.
    fn new_map_block(&mut self, inode: &mut Inode, ask: &mut Ask, level: u8) -> Result<u64> {
        let taken = self.take_blocks(&Ask { kind: BlockKind::Map(level), ..*ask }, 1)?;
        self.count_blocks(inode, 1)?;
        let (seed, is_rext3) = (self.geometry.checksum_seed, self.geometry.rext3());
        let bytes = self.cache.create(taken.start.0)?;
        if is_rext3 {
            IndirectHeader::new(seed, taken.start, inode.number, level).store(bytes);
        }
        if ask.previous.is_some_and(|previous| previous + 1 == taken.start.0) {
            ask.previous = Some(taken.start.0);
        }
        Ok(taken.start.0)
    }

    pub(super) fn cut_pointers(&mut self, inode: &mut Inode, first: u64) -> Result<bool> {
        let pointers = self.pointers();
        let mut base = DIRECT + span(pointers, 1) + span(pointers, 2) + span(pointers, 3);
        for level in (1..=3u8).rev() {
            base -= span(pointers, level);
            let slot = width::index(DIRECT) + usize::from(level) - 1;
            let block = u64::from(inode.raw.block_word(slot));
            let keep = first.saturating_sub(base);
            if block == 0 || keep >= span(pointers, level) {
                continue;
            }
            let is_done = self.cut_branch(inode, block, level, keep)?;
            if is_done && keep == 0 {
                self.free_blocks(block, 1, true)?;
                self.count_blocks(inode, -1)?;
                inode.raw.set_block_word(slot, 0);
            }
            if !is_done || self.is_step_full() {
                return Ok(false);
            }
        }
        let words: Vec<(u64, u64)> =
            (first..DIRECT).map(|at| (at, u64::from(inode.raw.block_word(width::index(at))))).collect();
        for (start, count) in runs_backwards(&words) {
            self.free_data(inode, start, count)?;
        }
        (first..DIRECT).for_each(|at| inode.raw.set_block_word(width::index(at), 0));
        Ok(true)
    }

    /// Frees the data blocks that the pointers from `logical` on lead to, `count` at most and as far as they stand in the inode or in one block, with the
    /// blocks of pointers that have none left. Returns how many pointers that were.
    pub(super) fn unmap_pointers(&mut self, inode: &mut Inode, logical: u64, count: u64) -> Result<u64> {
        let pointers = self.pointers();
        let Start { slot, level, rest } = start_of(pointers, logical).ok_or(Errno::TooLarge)?;
        if level == 0 {
            let end = DIRECT.min(logical.saturating_add(count));
            let words: Vec<(u64, u64)> =
                (logical..end).map(|at| (at, u64::from(inode.raw.block_word(width::index(at))))).collect();
            for (start, count) in runs_backwards(&words) {
                self.free_data(inode, start, count)?;
            }
            (logical..end).for_each(|at| inode.raw.set_block_word(width::index(at), 0));
            return Ok(end - logical);
        }
        let block = u64::from(inode.raw.block_word(slot));
        let end = pointers.min((rest % pointers).saturating_add(count));
        let is_empty = self.unmap_branch(inode, block, level, rest, end)?;
        if is_empty {
            self.free_map_block(inode, block)?;
            inode.raw.set_block_word(slot, 0);
        }
        Ok(end - rest % pointers)
    }

    /// Frees the data blocks of the pointers `rest % pointers..end` in the last block on the way to `rest`. Returns whether `block` has no pointers left.
    fn unmap_branch(
        &mut self,
        inode: &mut Inode,
        block: u64,
        level: u8,
        rest: u64,
        end: u64,
    ) -> Result<bool> {
        let pointers = self.pointers();
        let header = self.geometry.indirect_header();
        if block == 0 {
            return Err(Errno::Corrupt);
        }
        let bytes = self.map_block(inode, block, level)?;
        let index = rest % span(pointers, level) / span(pointers, level - 1);
        let gone = if level == 1 {
            let words: Vec<(u64, u64)> = (index..end).map(|at| (at, pointer(&bytes[header..], at))).collect();
            drop(bytes);
            for (start, count) in runs_backwards(&words) {
                self.free_data(inode, start, count)?;
            }
            index..end
        } else {
            let child = pointer(&bytes[header..], index);
            drop(bytes);
            if !self.unmap_branch(inode, child, level - 1, rest, end)? {
                return Ok(false);
            }
            self.free_map_block(inode, child)?;
            index..index + 1
        };
        let bytes = &mut self.cache.change(block)?[header..];
        gone.for_each(|at| set_pointer(bytes, at, 0));
        Ok((0..pointers).all(|at| pointer(bytes, at) == 0))
    }

    fn free_map_block(&mut self, inode: &mut Inode, block: u64) -> Result<()> {
        self.free_blocks(block, 1, true)?;
        self.count_blocks(inode, -1)
    }

    fn free_data(&mut self, inode: &mut Inode, start: u64, count: u64) -> Result<()> {
        self.check_place(inode.is_directory(), start, count)?;
        self.free_blocks(start, count, inode.is_directory())?;
        self.count_blocks(inode, -width::signed(count))
    }

    /// Frees what is below a block of pointers, but for its first `keep` data blocks, from behind. Returns whether all of it is done. Pointers that lead
    /// nowhere any more become zero, unless the block itself is going to be freed.
    fn cut_branch(&mut self, inode: &mut Inode, block: u64, level: u8, keep: u64) -> Result<bool> {
        let pointers = self.pointers();
        let header = self.geometry.indirect_header();
        let bytes = self.map_block(inode, block, level)?;
        let below = span(pointers, level - 1);
        let first = keep / below;
        let words: Vec<(u64, u64)> =
            (first..pointers).map(|at| (at, pointer(&bytes[header..], at))).collect();
        drop(bytes);
        let mut cut_from = pointers;
        let mut is_done = true;
        if level == 1 {
            for (start, count) in runs_backwards(&words) {
                if self.is_step_full() {
                    is_done = false;
                    break;
                }
                self.free_data(inode, start, count)?;
                // Runs are delivered from behind: the pointers from this run's first on are gone.
                let at = words.iter().rposition(|(_, word)| *word == start);
                cut_from = at.map_or(cut_from, |at| words[at].0.min(cut_from));
            }
        } else {
            for (at, child) in words.iter().rev().filter(|(_, child)| *child != 0) {
                let child_keep = if *at == first { keep % below } else { 0 };
                is_done = self.cut_branch(inode, *child, level - 1, child_keep)?;
                if is_done && child_keep == 0 {
                    self.free_blocks(*child, 1, true)?;
                    self.count_blocks(inode, -1)?;
                    cut_from = *at;
                }
                is_done &= *at == first || !self.is_step_full();
                if !is_done {
                    break;
                }
            }
        }
        if cut_from < pointers && !(is_done && keep == 0) {
            let bytes = &mut self.cache.change(block)?[header..];
            (cut_from..pointers).for_each(|at| set_pointer(bytes, at, 0));
        }
        Ok(is_done)
    }
}

/// Runs of consecutive pointers, from behind: first block and number of blocks.
fn runs_backwards(words: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (_, word) in words.iter().rev().filter(|(_, word)| *word != 0) {
        match runs.last_mut() {
            Some((start, count)) if *word + 1 == *start => {
                *start = *word;
                *count += 1;
            }
            _ => runs.push((*word, 1)),
        }
    }
    runs
}

fn narrow(block: u64) -> Result<u32> {
    // Blocks that 32 bits cannot name are of no use to such a map: it is full.
    u32::try_from(block).map_err(|_| Errno::NoSpace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_each_block_begins_where_it_should() {
        let start = |logical| start_of(256, logical).map(|start| (start.slot, start.level, start.rest));
        assert_eq!(start(11), Some((11, 0, 0)));
        assert_eq!(start(12), Some((12, 1, 0)));
        assert_eq!(start(12 + 255), Some((12, 1, 255)));
        assert_eq!(start(12 + 256), Some((13, 2, 0)));
        assert_eq!(start(12 + 256 + 65536), Some((14, 3, 0)));
        assert_eq!(start(12 + 256 + 65536 + (1 << 24)), None);
    }

    #[test]
    fn runs_end_where_pointers_jump() {
        let words = [(0, 5), (1, 6), (2, 0), (3, 7), (4, 9), (5, 10)];
        assert_eq!(runs_backwards(&words), [(9, 2), (5, 3)]);
        assert_eq!(run_of(|at| words[at as usize].1, 0, 6, 99).count, 2);
        assert_eq!(run_of(|at| words[at as usize].1, 4, 6, 1).count, 1);
    }
}
