//! The bytes of a log: header, two slots for its state, the plan, the before-images. See `docs/formats/plan-and-log.md`.
//!
//! A log is complete when one of its slots says so, and that is written when everything else has been synced. Changes of state go to the
//! slots in turn, so that a torn write leaves the older one; each slot has a block for itself.

use std::borrow::Cow;
use std::fmt;

use super::{ApplyError, Control, LogFile, Progress, Step};
use crate::blocks::{BLOCK_BYTES, Sum, checksum, read_sectors};
use crate::plan::{Entry, u64_at};
use crate::{Device, Differences, Plan, ReadError, ReadErrorKind};

const MAGIC: &[u8; 8] = b"FSMNDLOG";
const SLOT_MAGIC: &[u8; 8] = b"FSMNDSLT";
const VERSION: u32 = 1;
const FLAG_KEEP_UNDO: u32 = 1;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Where the slots are.
const SLOTS_AT: [u64; 2] = [BLOCK, 2 * BLOCK];
/// Where the plan starts.
const PLAN_AT: u64 = 3 * BLOCK;
/// Bytes of a slot that mean something.
const SLOT_BYTES: usize = 48;
/// What the header says before the name of the target.
const HEADER_FIXED_BYTES: usize = 64;
/// Longest name of a target; a longer one is cut off.
const NAME_BYTES_MAX: usize = BLOCK_BYTES - HEADER_FIXED_BYTES - 8;

/// So many blocks are read and written at once.
pub(super) const CHUNK_BLOCKS: usize = 256;

/// What a log says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogState {
    /// It was never completed, so that the target was not touched.
    Incomplete,
    /// A repair has begun and is to be finished.
    Applying,
    /// All is written; the log is an undo file.
    Applied,
    /// Taking the repair back has begun and is to be finished.
    Undoing,
    /// The repair has been taken back.
    Undone,
}

impl LogState {
    /// Whether the next run has something to finish.
    pub fn is_open(self) -> bool {
        matches!(self, LogState::Applying | LogState::Undoing)
    }

    fn number(self) -> u64 {
        match self {
            LogState::Incomplete => 0,
            LogState::Applying => 1,
            LogState::Applied => 2,
            LogState::Undoing => 3,
            LogState::Undone => 4,
        }
    }

    fn of_number(number: u64) -> Option<LogState> {
        [LogState::Applying, LogState::Applied, LogState::Undoing, LogState::Undone]
            .into_iter()
            .find(|state| state.number() == number)
    }
}

impl fmt::Display for LogState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogState::Incomplete => "the log was never completed, and the target not touched",
            LogState::Applying => "the repair has begun and is not finished",
            LogState::Applied => "the repair is finished",
            LogState::Undoing => "taking the repair back has begun and is not finished",
            LogState::Undone => "the repair has been taken back",
        })
    }
}

/// What a log is begun with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin<'b> {
    pub start: u64,
    pub keep_undo: bool,
    pub target_name: &'b str,
}

/// A complete log.
pub(super) struct Log<'l> {
    file: &'l dyn LogFile,
    /// The plan that is carried out.
    pub plan: Cow<'l, Plan>,
    /// Byte of the file or block device at which the target starts.
    pub start: u64,
    /// What the target was called.
    pub target_name: String,
    keep_undo: bool,
    /// What was written to a slot last.
    state: LogState,
    sequence: u64,
    /// Checksum of all but the slots.
    body: u64,
}

/// The header of a log, which says where everything is.
pub(super) struct Header {
    plan_len: u64,
    block_count: u64,
    /// Byte of the file or block device at which the target starts.
    pub start: u64,
    keep_undo: bool,
    /// What the target was called.
    pub target_name: String,
}

/// What stands in a slot.
#[derive(Clone, Copy)]
struct Slot {
    sequence: u64,
    state: LogState,
    body: u64,
}

/// What can be said about a log without reading all of it.
pub(super) struct Glance {
    pub state: LogState,
    /// If there is a whole one.
    pub header: Option<Header>,
    /// Length of the target that the plan was made for; 0 if there is no plan.
    pub target_len: u64,
}

impl<'l> Log<'l> {
    /// Writes and syncs a log for `plan`, comparing `target` with what it should be on the way.
    pub fn write(
        file: &'l dyn LogFile,
        plan: &'l Plan,
        target: &dyn Device,
        begin: Begin<'_>,
        control: Control<'_>,
    ) -> Result<Log<'l>, ApplyError> {
        if target.len() != plan.target_len() {
            return Err(ApplyError::TargetLength { planned: plan.target_len(), found: target.len() });
        }
        let Begin { start, keep_undo, .. } = begin;
        let target_name = cut_name(begin.target_name);
        let header = Header {
            plan_len: plan.as_bytes().len() as u64,
            block_count: plan.entries().len() as u64,
            start,
            keep_undo,
            target_name: target_name.clone(),
        };
        let mut writer = Writer { file, at: 0, sum: Sum::new() };
        writer.write(&header.to_bytes())?;
        writer.skip_to(PLAN_AT)?;
        writer.write(plan.as_bytes())?;
        writer.skip_to(header.images_at())?;
        write_images(&mut writer, plan, target, control)?;
        let body = writer.sum.finish();
        sync_new(file)?;
        let (plan, state) = (Cow::Borrowed(plan), LogState::Incomplete);
        let mut log = Log { file, plan, start, target_name, keep_undo, state, sequence: 0, body };
        log.open_for_work()?;
        Ok(log)
    }

    /// Both slots, so that one may be lost later.
    fn open_for_work(&mut self) -> Result<(), ApplyError> {
        for _ in SLOTS_AT {
            self.write_slot(LogState::Applying).map_err(ApplyError::LogNotWritten)?;
        }
        self.file.sync().map_err(ApplyError::LogNotWritten)
    }

    /// A log that is there. `None` if it was never completed. Takes a few times as much memory as its plan.
    pub fn read(file: &'l dyn LogFile) -> Result<Option<Log<'l>>, ApplyError> {
        let Some(slot) = newest_slot(file) else { return Ok(None) };
        let damaged = ApplyError::LogDamaged;
        let header = Header::read(file)?.ok_or(damaged("its header is damaged"))?;
        if header.plan_len > Plan::BYTES_MAX {
            return Err(damaged("its plan is too large"));
        }
        if file.len() < header.len().ok_or(damaged("its header is damaged"))? {
            return Err(damaged("its end is missing"));
        }
        if sum_of_body(file, &header)? != slot.body {
            return Err(damaged("it is not as it was written"));
        }
        let mut plan = vec![0; header.plan_len as usize];
        file.read_at(PLAN_AT, &mut plan).map_err(ApplyError::LogNotRead)?;
        let plan = Plan::parse(plan).map_err(|_| damaged("the plan in it is none"))?;
        if plan.entries().len() as u64 != header.block_count {
            return Err(damaged("the plan in it has another number of blocks"));
        }
        let (Header { start, keep_undo, target_name, .. }, plan) = (header, Cow::Owned(plan));
        let Slot { sequence, state, body } = slot;
        Ok(Some(Log { file, plan, start, target_name, keep_undo, state, sequence, body }))
    }

    /// What it says about itself.
    pub fn state(&self) -> LogState {
        self.state
    }

    /// Turns the log round, durably, before the first block goes in the other direction.
    pub fn turn(&mut self, state: LogState) -> Result<(), ApplyError> {
        self.write_slot(state).and_then(|()| self.file.sync()).map_err(ApplyError::LogNotWritten)
    }

    /// Closes the log, and removes it if nobody wants to keep it. That it cannot be removed does no harm.
    pub fn finish(&mut self, state: LogState) -> Result<(), ApplyError> {
        self.write_slot(state).and_then(|()| self.file.sync()).map_err(ApplyError::LogNotClosed)?;
        if !self.keep_undo {
            let _ = self.file.remove();
        }
        Ok(())
    }

    /// Whether it stays as undo file.
    pub fn keeps_undo(&self) -> bool {
        self.keep_undo
    }

    /// Before-images of the blocks `first..` of the plan, each in a block of its own, as many as `buf` has room for.
    pub fn read_images(&self, first: usize, buf: &mut [u8]) -> Result<(), ApplyError> {
        let images_at = images_at(self.plan.as_bytes().len() as u64);
        self.file.read_at(images_at + first as u64 * BLOCK, buf).map_err(ApplyError::LogNotRead)
    }

    fn write_slot(&mut self, state: LogState) -> Result<(), crate::WriteError> {
        let slot = Slot { sequence: self.sequence + 1, state, body: self.body };
        self.file.write_at(SLOTS_AT[(slot.sequence % 2) as usize], &slot.to_bytes())?;
        (self.sequence, self.state) = (slot.sequence, state);
        Ok(())
    }
}

/// State and target of a log, without reading all of it.
pub(super) fn glance(file: &dyn LogFile) -> Result<Glance, ApplyError> {
    let state = newest_slot(file).map_or(LogState::Incomplete, |slot| slot.state);
    let header = Header::read(file)?;
    let plan_start = read_if_there::<24>(file, PLAN_AT)?;
    let target_len = plan_start.filter(|start| Plan::is_plan(start)).map_or(0, |start| u64_at(&start, 16));
    Ok(Glance { state, header, target_len })
}

/// Whether the file begins as a log does, or is one whose first bytes never reached the disk: then it may be removed if it was
/// never completed. Other files only happen to have such a name.
pub(super) fn begins_like_log(file: &dyn LogFile) -> bool {
    let start = read_if_there::<8>(file, 0);
    file.is_empty() || start.is_ok_and(|start| start.is_some_and(|start| start == *MAGIC || start == [0; 8]))
}

/// Writes what the target holds in the blocks of the plan, if that is what the plan was made for.
fn write_images(
    writer: &mut Writer<'_>,
    plan: &Plan,
    target: &dyn Device,
    control: Control<'_>,
) -> Result<(), ApplyError> {
    let total = plan.entries().len() as u64;
    let (mut done, mut differences) = (0, Differences::default());
    let mut chunk = vec![0; CHUNK_BLOCKS * BLOCK_BYTES];
    for entries in plan.entries().chunks(CHUNK_BLOCKS) {
        if control.is_stopped() {
            return Err(ApplyError::Stopped { begun: false });
        }
        for (entry, image) in entries.iter().zip(chunk.chunks_mut(BLOCK_BYTES)) {
            if !read_image(plan, entry, target, image) {
                differences.add(entry.offset());
            }
        }
        // Once it is known that the plan does not fit, the rest is only compared.
        if differences.is_empty() {
            writer.write(&chunk[..entries.len() * BLOCK_BYTES])?;
        }
        done += entries.len() as u64;
        (control.progress)(Progress { step: Step::Log, done, total });
    }
    if differences.is_empty() { Ok(()) } else { Err(ApplyError::TargetChanged(differences)) }
}

/// Fills `image` and says whether it is what the plan was made for.
fn read_image(plan: &Plan, entry: &Entry, target: &dyn Device, image: &mut [u8]) -> bool {
    let (block, beyond) = image.split_at_mut(plan.block_len(entry));
    beyond.fill(0);
    let unreadable = read_sectors(target, entry.offset(), block);
    plan.is_before(entry, block, unreadable.any())
}

fn sync_new(file: &dyn LogFile) -> Result<(), ApplyError> {
    file.sync().and_then(|()| file.sync_entry()).map_err(ApplyError::LogNotWritten)
}

/// Writes one piece after the other and sums them up.
struct Writer<'w> {
    file: &'w dyn LogFile,
    at: u64,
    sum: Sum,
}

impl Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ApplyError> {
        self.sum.add(bytes);
        self.file.write_at(self.at, bytes).map_err(ApplyError::LogNotWritten)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Goes on at `at`; zeroes in between, which the sum leaves out.
    fn skip_to(&mut self, at: u64) -> Result<(), ApplyError> {
        let zeroes = vec![0; at.saturating_sub(self.at) as usize];
        self.file.write_at(self.at, &zeroes).map_err(ApplyError::LogNotWritten)?;
        self.at = at;
        Ok(())
    }
}

impl Header {
    /// Fixed numbers, the name, and a checksum at the end of the block.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BLOCK_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&if self.keep_undo { FLAG_KEEP_UNDO } else { 0 }.to_le_bytes());
        for number in [self.plan_len, self.block_count, self.start, self.target_name.len() as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.resize(HEADER_FIXED_BYTES, 0);
        bytes.extend_from_slice(self.target_name.as_bytes());
        bytes.resize(BLOCK_BYTES - 8, 0);
        bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
        bytes
    }

    /// `None` if there is none, or not a whole one.
    fn read(file: &dyn LogFile) -> Result<Option<Header>, ApplyError> {
        let Some(bytes) = read_if_there::<BLOCK_BYTES>(file, 0)? else { return Ok(None) };
        let (summed, sum) = bytes.split_at(BLOCK_BYTES - 8);
        if !bytes.starts_with(MAGIC) || checksum(summed) != u64_at(sum, 0) {
            return Ok(None);
        }
        let flags = u64_at(&bytes, 8);
        if flags as u32 != VERSION {
            return Err(ApplyError::LogDamaged("it was made by another version of the program"));
        }
        let name_len = u64_at(&bytes, 40).min(NAME_BYTES_MAX as u64) as usize;
        let name = &bytes[HEADER_FIXED_BYTES..][..name_len];
        Ok(Some(Header {
            plan_len: u64_at(&bytes, 16),
            block_count: u64_at(&bytes, 24),
            start: u64_at(&bytes, 32),
            keep_undo: (flags >> 32) as u32 & FLAG_KEEP_UNDO != 0,
            target_name: String::from_utf8_lossy(name).into_owned(),
        }))
    }

    fn images_at(&self) -> u64 {
        images_at(self.plan_len)
    }

    /// Length of the log, if that is a number.
    fn len(&self) -> Option<u64> {
        let plan_end = PLAN_AT.checked_add(self.plan_len)?.checked_next_multiple_of(BLOCK)?;
        self.block_count.checked_mul(BLOCK)?.checked_add(plan_end)
    }
}

/// Where the before-images start, behind a plan of `plan_len` bytes.
fn images_at(plan_len: u64) -> u64 {
    PLAN_AT.saturating_add(plan_len).next_multiple_of(BLOCK)
}

impl Slot {
    /// A whole block, so that it can be written where nothing can be read.
    fn to_bytes(self) -> [u8; BLOCK_BYTES] {
        let mut bytes = [0; BLOCK_BYTES];
        bytes[..8].copy_from_slice(SLOT_MAGIC);
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.state.number().to_le_bytes());
        bytes[24..32].copy_from_slice(&self.body.to_le_bytes());
        let sum = checksum(&bytes[..40]);
        bytes[40..SLOT_BYTES].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8; SLOT_BYTES]) -> Option<Slot> {
        if !bytes.starts_with(SLOT_MAGIC) || checksum(&bytes[..40]) != u64_at(bytes, 40) {
            return None;
        }
        let state = LogState::of_number(u64_at(bytes, 16))?;
        Some(Slot { sequence: u64_at(bytes, 8), state, body: u64_at(bytes, 24) })
    }
}

fn newest_slot(file: &dyn LogFile) -> Option<Slot> {
    let mut newest: Option<Slot> = None;
    for at in SLOTS_AT {
        let mut bytes = [0; SLOT_BYTES];
        // One that cannot be read was torn when the power failed; the other one counts.
        let Some(slot) = file.read_at(at, &mut bytes).ok().and_then(|()| Slot::parse(&bytes)) else {
            continue;
        };
        // A number at the end of the number space is none that we wrote, and could not be followed by another.
        if slot.sequence < u64::MAX / 2 && newest.is_none_or(|newest| newest.sequence < slot.sequence) {
            newest = Some(slot);
        }
    }
    newest
}

fn sum_of_body(file: &dyn LogFile, header: &Header) -> Result<u64, ApplyError> {
    let mut sum = Sum::new();
    let mut chunk = vec![0; CHUNK_BLOCKS * BLOCK_BYTES];
    let images_len = header.block_count.saturating_mul(BLOCK);
    for (mut at, mut left) in [(0, BLOCK), (PLAN_AT, header.plan_len), (header.images_at(), images_len)] {
        while left > 0 {
            let piece = &mut chunk[..left.min((CHUNK_BLOCKS * BLOCK_BYTES) as u64) as usize];
            file.read_at(at, piece).map_err(ApplyError::LogNotRead)?;
            sum.add(piece);
            (at, left) = (at + piece.len() as u64, left - piece.len() as u64);
        }
    }
    Ok(sum.finish())
}

/// The bytes at `at`; `None` if the file ends before them.
fn read_if_there<const N: usize>(file: &dyn LogFile, at: u64) -> Result<Option<[u8; N]>, ApplyError> {
    let mut bytes = [0; N];
    match file.read_at(at, &mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(ReadError { kind: ReadErrorKind::BeyondEnd, .. }) => Ok(None),
        Err(error) => Err(ApplyError::LogNotRead(error)),
    }
}

/// Names that are longer than the header has room for lose their end.
fn cut_name(name: &str) -> String {
    let mut len = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(len) {
        len -= 1;
    }
    name[..len].to_owned()
}
