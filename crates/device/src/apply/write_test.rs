// SPDX-License-Identifier: MIT OR Apache-2.0
//! A test that writes: whether the medium keeps what it is given, without anything being lost by it.
//!
//! Stretch by stretch, what is there goes to a log; then a pattern is written, read back and compared; then what was there is
//! written back and compared, too. The log of a stretch is one of the writing protocol whose "repair" is the pattern, and which says from its
//! beginning that it is being taken back. So a crash at any moment leaves a log that the next run finds like any other,
//! and which leads to the bytes as they were; and until then the marked superblock warns programs that do not know the log.
//!
//! The marked blocks themselves are written with the mark and what they held, and with nothing else: a superblock is never away.
//! A block that cannot be read is bad, and is not written: what it held may come back one day.

use std::collections::BTreeSet;
use std::ops::Range;

use fsmend_base::{SeededRandom, width};

use super::layout::LogState;
use super::log::{Begin, CHUNK_BLOCKS, Log};
use super::recover::compare;
use super::{ApplyError, Control, LogFile, Progress, Step};
use crate::blocks::{BLOCK_BYTES, read_sectors};
use crate::plan::Entry;
use crate::{Device, Plan, PlanBuilder, WritableDevice, WriteError, WriteErrorKind};

/// Tells the plans of tests from those of repairs.
const IDENTITY: &[u8] = b"write test";
/// Blocks of a stretch: 16 MiB.
const STRETCH_BLOCKS: u64 = 4096;
/// A stretch that has more bad blocks than this has not lost blocks: the whole device fails.
const BAD_MAX: usize = 512;
const BLOCK: u64 = BLOCK_BYTES as u64;

/// Bytes of the target, and what is written there, or stood there.
type Writes = Vec<(u64, Vec<u8>)>;

/// What is tested, and how.
pub struct WriteTest<'t> {
    /// Bytes of the target that are tested; both ends at multiples of `piece`.
    pub range: Range<u64>,
    /// Bytes that are good or bad as a whole: a block of the file system. A power of two from 512 on.
    pub piece: u64,
    /// Byte of the file or block device at which the target starts.
    pub start: u64,
    /// The bytes that mark the target as long as patterns stand in it ([`PlanBuilder::marker`]).
    pub marker: &'t [(u64, Vec<u8>)],
    /// Where patterns come from.
    pub seed: u64,
    /// Makes a new, empty log for a stretch.
    pub new_log: &'t dyn Fn() -> Result<Box<dyn LogFile>, WriteError>,
    /// Stop flag and progress.
    pub control: Control<'t>,
}

/// What a test found.
#[derive(Default)]
pub struct Tested {
    /// Numbers of bad pieces, counted from the start of the target.
    pub bad: BTreeSet<u64>,
    /// What could not be given back to bad blocks.
    pub unrestored: Vec<Unrestored>,
}

/// Blocks of the target that do not take back what they held, with the log that still has it.
pub struct Unrestored {
    /// The log, open until it is dealt with ([`Unrestored::close`]).
    pub log: Box<dyn LogFile>,
    /// Byte of the target, and what stood there.
    pub blocks: Vec<(u64, Vec<u8>)>,
}

impl Unrestored {
    /// Closes the log: what it held is safe elsewhere by now.
    pub fn close(self) -> Result<(), ApplyError> {
        close_write_test(&*self.log)
    }
}

impl WriteTest<'_> {
    /// Tests all of `target`'s range. When it ends with an error, what had been written is given back, or an open log waits.
    pub fn run(&self, target: &dyn WritableDevice) -> Result<Tested, ApplyError> {
        let mut tested = Tested::default();
        let (first, end) = (self.range.start / BLOCK, self.range.end.div_ceil(BLOCK));
        let total = end.saturating_sub(first);
        for stretch in (first..end).step_by(width::index(STRETCH_BLOCKS)) {
            if self.control.is_stopped() {
                return Err(ApplyError::Stopped { begun: !tested.unrestored.is_empty() });
            }
            (self.control.progress)(Progress { step: Step::Blocks, done: stretch - first, total });
            self.test(target, stretch..end.min(stretch + STRETCH_BLOCKS), &mut tested)?;
        }
        Ok(tested)
    }

    fn test(
        &self,
        target: &dyn WritableDevice,
        blocks: Range<u64>,
        tested: &mut Tested,
    ) -> Result<(), ApplyError> {
        let (plan, patterns) = self.plan(target, blocks, tested)?;
        if plan.is_empty() {
            return Ok(());
        }
        let file = (self.new_log)().map_err(ApplyError::LogNotWritten)?;
        let begin = Begin {
            start: self.start,
            keep_undo: false,
            target_name: target.name(),
            state: LogState::Undoing,
        };
        let log = Log::write(&*file, &plan, target, begin, self.control).inspect_err(|_| {
            // Whether it can be removed or not: the target is untouched, and the next run throws an incomplete log away.
            let _ = file.remove();
        })?;
        // Whatever comes of it, what stood there is written back.
        let bad = write_patterns(&log, target, &patterns);
        let unrestored = give_back(log, target)?;
        let bad = bad?;
        let is_unrestored = unrestored.iter().map(|(at, bytes)| *at..*at + bytes.len() as u64);
        tested.bad.extend(bad.into_iter().chain(is_unrestored).flat_map(|bytes| self.pieces(bytes)));
        if !unrestored.is_empty() {
            tested.unrestored.push(Unrestored { log: file, blocks: unrestored });
        }
        Ok(())
    }

    /// Patterns for all blocks of a stretch that can be read and are not marked, and the plan that would write them.
    fn plan(
        &self,
        target: &dyn WritableDevice,
        blocks: Range<u64>,
        tested: &mut Tested,
    ) -> Result<(Plan, Writes), ApplyError> {
        target.forget(blocks.start * BLOCK, (blocks.end - blocks.start) * BLOCK);
        let mut spared: BTreeSet<u64> = self.marked_blocks().collect();
        let mut buffer = [0; BLOCK_BYTES];
        for block in blocks.clone() {
            let bytes = self.bytes_of(block);
            let here = &mut buffer[..width::index(bytes.end - bytes.start)];
            let unreadable = read_sectors(target, bytes.start, here);
            if unreadable.any() {
                spared.insert(block);
                let sectors =
                    bytes.clone().step_by(512).zip(0..).filter(|(_, number)| unreadable.has(*number));
                tested.bad.extend(sectors.map(|(at, _)| at / self.piece));
            }
        }
        let patterns: Vec<(u64, Vec<u8>)> = blocks
            .filter(|block| !spared.contains(block))
            .map(|block| (self.bytes_of(block).start, self.pattern(block)))
            .collect();
        let builder = PlanBuilder {
            identity: IDENTITY,
            changes: &patterns,
            marker: self.marker,
            ..PlanBuilder::default()
        };
        let plan = Plan::make(target, &builder).map_err(no_plan)?;
        if plan.entries().iter().any(|entry| entry.is_unreadable) {
            // It could be read a moment ago.
            return Err(no_plan("a block cannot be read reliably"));
        }
        Ok((plan, patterns))
    }

    fn marked_blocks(&self) -> impl Iterator<Item = u64> {
        let blocks = |(at, bytes): &(u64, Vec<u8>)| at / BLOCK..(at + bytes.len() as u64).div_ceil(BLOCK);
        self.marker.iter().flat_map(blocks)
    }

    /// What is tested of a block.
    fn bytes_of(&self, block: u64) -> Range<u64> {
        (block * BLOCK).max(self.range.start)..((block + 1) * BLOCK).min(self.range.end)
    }

    /// The pieces that have some of these bytes.
    fn pieces(&self, bytes: Range<u64>) -> Range<u64> {
        bytes.start / self.piece..bytes.end.div_ceil(self.piece)
    }

    fn pattern(&self, block: u64) -> Vec<u8> {
        let bytes = self.bytes_of(block);
        let mut random = SeededRandom::new(self.seed ^ block.rotate_left(24));
        let mut pattern: Vec<u8> =
            (bytes.start..bytes.end).step_by(8).flat_map(|_| random.next_u64().to_le_bytes()).collect();
        pattern.truncate(width::index(bytes.end - bytes.start));
        pattern
    }
}

/// Whether a plan is that of a test: then [`end_write_test`] ends what its log has begun.
pub fn is_write_test(plan: &Plan) -> bool {
    plan.identity() == IDENTITY
}

/// Ends a test that was interrupted: every block gets back what it held. Tells the blocks that do not take it; then the log stays
/// open. Refuses ([`ApplyError::Foreign`]) if the superblock shows that the target was used since.
pub fn end_write_test(
    file: Box<dyn LogFile>,
    target: &dyn WritableDevice,
) -> Result<Option<Unrestored>, ApplyError> {
    let Some(mut log) = Log::read(&*file)? else { return Ok(None) };
    if !log.state().is_open() {
        return Ok(None);
    }
    // A bad block may hold anything. But what is marked was not used as long as the marks are there.
    let standing = compare(&log, target)?;
    if standing.foreign_marks > 0 {
        return Err(ApplyError::Foreign(standing.foreign));
    }
    log.turn(LogState::Undoing)?;
    let blocks = give_back(log, target)?;
    Ok((!blocks.is_empty()).then_some(Unrestored { log: file, blocks }))
}

/// Closes the log of a test: nothing will be given back any more.
pub fn close_write_test(file: &dyn LogFile) -> Result<(), ApplyError> {
    match Log::read(file)? {
        Some(mut log) => log.finish(LogState::Undone),
        None => Ok(()),
    }
}

/// If the superblock shows that the target was used since a test was interrupted: what those blocks held before that do not
/// hold it by now, be it that they lost it, or that they were written since. None of it may be written back: only someone who knows
/// what belongs there can tell. `None` if it was not; then [`end_write_test`] ends it.
pub fn overtaken_write_test(file: &dyn LogFile, target: &dyn Device) -> Result<Option<Writes>, ApplyError> {
    let Some(log) = Log::read(file)?.filter(|log| log.state().is_open()) else { return Ok(None) };
    if compare(&log, target)?.foreign_marks == 0 {
        return Ok(None);
    }
    let mut lost = Vec::new();
    let mut found = [0; BLOCK_BYTES];
    let entries = log.plan.entries().iter().enumerate();
    for (number, entry) in entries.filter(|(_, entry)| !entry.is_marked() && !entry.is_unreadable) {
        let held = image(&log, number, entry)?;
        let found = &mut found[..held.len()];
        if read_sectors(target, entry.offset(), found).any() || *found != held[..] {
            lost.push((entry.offset(), held));
        }
    }
    Ok(Some(lost))
}

fn no_plan(why: impl std::fmt::Display) -> ApplyError {
    ApplyError::LogNotWritten(WriteError::io(0, 1, why))
}

/// Marks the target, writes the patterns, and tells which bytes did not take them.
fn write_patterns(
    log: &Log<'_>,
    target: &dyn WritableDevice,
    patterns: &[(u64, Vec<u8>)],
) -> Result<Vec<Range<u64>>, ApplyError> {
    let mut failed = BTreeSet::new();
    for (number, entry) in log.plan.entries().iter().enumerate().filter(|(_, entry)| entry.is_marked()) {
        let mut block = image(log, number, entry)?;
        log.plan.make_marker(entry, &mut block).map_err(no_plan)?;
        write_through(target, entry.offset(), &block, &mut failed);
    }
    if let Some(at) = failed.first() {
        return Err(ApplyError::Write(WriteError::io(*at, BLOCK, "it cannot be marked as being tested")));
    }
    let runs = runs(patterns.iter().map(|(at, bytes)| (*at, bytes.as_slice())));
    runs.iter().for_each(|(at, bytes)| write_through(target, *at, bytes, &mut failed));
    let mut bad: Vec<Range<u64>> = Vec::new();
    for (at, bytes) in &runs {
        bad.extend(differences(target, *at, bytes));
    }
    let len = |at: &u64| patterns.iter().find(|(start, _)| start == at).map_or(0, |(_, bytes)| bytes.len());
    bad.extend(failed.iter().map(|at| *at..*at + len(at) as u64));
    Ok(bad)
}

/// Writes what stood there, the marked blocks last, and closes the log. Returns what does not take it; then the log stays open.
fn give_back(mut log: Log<'_>, target: &dyn WritableDevice) -> Result<Vec<(u64, Vec<u8>)>, ApplyError> {
    let mut unrestored: Vec<(u64, Vec<u8>)> = Vec::new();
    for is_marked in [false, true] {
        let entries: Vec<(usize, &Entry)> = log.plan.entries().iter().enumerate().collect();
        for chunk in entries.chunks(CHUNK_BLOCKS) {
            let mut blocks = Vec::new();
            for (number, entry) in chunk.iter().filter(|(_, entry)| entry.is_marked() == is_marked) {
                blocks.push((entry.offset(), image(&log, *number, entry)?));
            }
            let mut failed = BTreeSet::new();
            for (at, bytes) in runs(blocks.iter().map(|(at, bytes)| (*at, bytes.as_slice()))) {
                write_through(target, at, &bytes, &mut failed);
                failed.extend(differences(target, at, &bytes).map(|bytes| bytes.start / BLOCK * BLOCK));
            }
            unrestored.extend(blocks.into_iter().filter(|(at, _)| failed.contains(at)));
        }
        if unrestored.len() > BAD_MAX {
            let why = format!("{} blocks cannot be written", unrestored.len());
            return Err(ApplyError::Write(WriteError { offset: 0, len: 0, kind: WriteErrorKind::Io(why) }));
        }
    }
    if unrestored.is_empty() {
        log.finish(LogState::Undone)?;
    }
    Ok(unrestored)
}

/// What a block held.
fn image(log: &Log<'_>, number: usize, entry: &Entry) -> Result<Vec<u8>, ApplyError> {
    let mut block = vec![0; BLOCK_BYTES];
    log.read_images(number, &mut block)?;
    block.truncate(log.plan.block_len(entry));
    Ok(block)
}

/// Neighbours put together, up to a megabyte.
fn runs<'b>(blocks: impl Iterator<Item = (u64, &'b [u8])>) -> Vec<(u64, Vec<u8>)> {
    let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
    for (at, bytes) in blocks {
        match runs.last_mut() {
            Some((start, run))
                if *start + run.len() as u64 == at && run.len() < CHUNK_BLOCKS * BLOCK_BYTES =>
            {
                run.extend_from_slice(bytes);
            }
            _ => runs.push((at, bytes.to_vec())),
        }
    }
    runs
}

/// Writes and syncs. What fails is halved until the blocks are known that cannot be written: at most as deep as halving a
/// megabyte goes. A sync that fails does not say for which block, so that everything that it was about is written again.
fn write_through(target: &dyn WritableDevice, at: u64, bytes: &[u8], failed: &mut BTreeSet<u64>) {
    if target.write_at(at, bytes).and_then(|()| target.sync()).is_ok() {
        return;
    }
    let half = (bytes.len() / 2).next_multiple_of(BLOCK_BYTES);
    if half >= bytes.len() {
        failed.insert(at);
        return;
    }
    if failed.len() <= BAD_MAX {
        write_through(target, at, &bytes[..half], failed);
        write_through(target, at + half as u64, &bytes[half..], failed);
    } else {
        failed.extend((at..at + bytes.len() as u64).step_by(BLOCK_BYTES));
    }
}

/// The sectors that do not hold `expected`, as far as the medium can be asked.
fn differences(
    target: &dyn WritableDevice,
    at: u64,
    expected: &[u8],
) -> impl Iterator<Item = Range<u64>> + use<> {
    target.forget(at, expected.len() as u64);
    let mut found = vec![0; expected.len()];
    let mut different = Vec::new();
    if target.read_at(at, &mut found).is_err() || found != expected {
        for (number, expected) in expected.chunks(512).enumerate() {
            let (at, found) = (at + 512 * number as u64, &mut found[..expected.len()]);
            if target.read_at(at, found).is_err() || found != expected {
                different.push(at..at + expected.len() as u64);
            }
        }
    }
    different.into_iter()
}
