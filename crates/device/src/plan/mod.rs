// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan: everything that a repair writes, made for one target in one condition, and fit to be kept in a file.
//!
//! Byte by byte it stands in `docs/formats/plan-and-log.md`. A plan is held in the form in which it is saved (a large one in a file, see
//! [`Plan::make_within`]), with an index of its blocks; what is parsed is either right in every respect or refused.

mod data;
mod make;
mod parse;
mod runs;
mod save;

use std::borrow::Cow;
use std::{fmt, io};

use crate::blocks::{BLOCK_BYTES, block_len, checksum, read_sectors};
use crate::{Device, ReadError};

use data::Data;
pub use make::{PlanBuilder, PlanSpill};
pub(crate) use parse::u64_at;
use runs::Runs;
pub(crate) use save::sync_folder_of;

/// What a repair writes.
#[derive(Clone, PartialEq, Eq)]
pub struct Plan {
    /// The plan as it is saved.
    data: Data,
    target_len: u64,
    identity_len: usize,
    text_len: usize,
    entries: Vec<Entry>,
}

/// A block that is written, in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Number of the block.
    pub index: u64,
    before: u64,
    after: u64,
    /// It is written at the end.
    pub is_last: bool,
    /// Its before-image is not known in full.
    pub is_unreadable: bool,
    /// Where in the plan its runs stand: those of the after-image, and then those of the marker.
    runs_at: usize,
    /// Bytes of these runs.
    runs_len: u32,
    /// Bytes of the after-image that the runs hold.
    changed: u32,
    changes: u16,
    markers: u16,
}

impl Entry {
    /// Byte of the target at which the block starts.
    pub fn offset(&self) -> u64 {
        self.index.saturating_mul(BLOCK_BYTES as u64)
    }

    /// Whether the block is marked before all others are written.
    pub fn is_marked(&self) -> bool {
        self.markers > 0
    }
}

/// A block that is written, for descriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedBlock {
    /// Byte of the target at which it starts.
    pub offset: u64,
    /// Its length.
    pub len: u64,
    /// How many of its bytes are stored because they change.
    pub changed_bytes: u64,
    /// Checksum (CRC-64/NVME) of what stands there.
    pub before: u64,
    /// Checksum of what will stand there.
    pub after: u64,
    /// Whether it is written at the end, when all others are safe.
    pub is_last: bool,
    /// Whether a part of it could not be read, so that undo cannot bring that part back.
    pub is_unreadable: bool,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The file is no plan, or a damaged one, or one of a version that this program does not know: what is wrong with it.
    Format(&'static str),
    /// The file is larger than the caller allowed.
    TooLarge {
        /// Its length.
        len: u64,
        /// What was allowed.
        max: u64,
    },
    /// The file cannot be read or written.
    Io(String),
    /// Changes overlap, are not in ascending order, or reach beyond the end of the target.
    Changes,
    /// The target cannot be read at all.
    Read(ReadError),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Format(why) => write!(f, "it is not a valid plan: {why}"),
            PlanError::TooLarge { len, max } => {
                write!(f, "the plan has {len} bytes; the limit is {max}")
            }
            PlanError::Io(why) => write!(f, "{why}"),
            PlanError::Changes => write!(f, "the changes overlap or reach beyond the end of the target"),
            PlanError::Read(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for PlanError {}

/// Blocks of the target that do not hold what they should.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// How many there are.
    pub count: u64,
    /// Byte of the target at which each starts: the first [`Differences::LISTED_MAX`] of them.
    pub offsets: Vec<u64>,
}

impl Differences {
    /// So many are listed.
    pub const LISTED_MAX: usize = 64;

    pub(crate) fn add(&mut self, offset: u64) {
        self.count += 1;
        if self.offsets.len() < Self::LISTED_MAX {
            self.offsets.push(offset);
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offsets: Vec<String> = self.offsets.iter().take(8).map(u64::to_string).collect();
        let more = if self.count > 8 { ", ..." } else { "" };
        let blocks = if self.count == 1 { "block" } else { "blocks" };
        write!(f, "{} {blocks} of {BLOCK_BYTES} bytes, at {}{more}", self.count, offsets.join(", "))
    }
}

impl Plan {
    /// Longer plans are not made and not read.
    pub const BYTES_MAX: u64 = 1 << 30;

    /// The plan as it is saved.
    pub fn bytes(&self) -> io::Result<Cow<'_, [u8]>> {
        self.data.part(0, usize::try_from(self.len()).unwrap_or(usize::MAX))
    }

    /// How many bytes the plan has as it is saved.
    pub fn len(&self) -> u64 {
        self.data.len()
    }

    /// The same bytes, piece by piece; `failed` says what a piece that cannot be read comes to.
    pub(crate) fn each_piece<E>(
        &self,
        failed: impl Fn(io::Error) -> E,
        take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.data.each_piece(failed, take)
    }

    /// Length of the target that the plan was made for.
    pub fn target_len(&self) -> u64 {
        self.target_len
    }

    /// What the maker of the plan said about who the target is.
    pub fn identity(&self) -> &[u8] {
        &self.data.front()[parse::HEADER_BYTES..][..self.identity_len]
    }

    /// What the maker of the plan said about what is repaired and lost.
    pub fn text(&self) -> &str {
        let bytes = &self.data.front()[parse::HEADER_BYTES + self.identity_len..][..self.text_len];
        str::from_utf8(bytes).unwrap_or_default()
    }

    /// Whether nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The blocks that are written, in the order of their addresses.
    pub fn blocks(&self) -> impl Iterator<Item = PlannedBlock> {
        self.entries.iter().map(|entry| PlannedBlock {
            offset: entry.offset(),
            len: self.block_len(entry) as u64,
            changed_bytes: u64::from(entry.changed),
            before: entry.before,
            after: entry.after,
            is_last: entry.is_last,
            is_unreadable: entry.is_unreadable,
        })
    }

    /// How many bytes are written to the target in all.
    pub fn bytes_to_write(&self) -> u64 {
        self.entries
            .iter()
            .map(|entry| (1 + u64::from(entry.is_marked())) * self.block_len(entry) as u64)
            .sum()
    }

    /// Blocks of `device` that are not as they were when the plan was made; where all are as the plan leaves them, it has
    /// been carried out already. A device of another length is different everywhere.
    pub fn compare(&self, device: &dyn Device) -> Condition {
        if device.len() != self.target_len {
            return Condition::Other(Differences { count: self.entries.len() as u64, offsets: Vec::new() });
        }
        let (mut not_before, mut not_after) = (Differences::default(), 0);
        let mut block = vec![0; BLOCK_BYTES];
        for entry in &self.entries {
            let block = &mut block[..self.block_len(entry)];
            let unreadable = read_sectors(device, entry.offset(), block);
            if !self.is_before(entry, block, unreadable.any()) {
                not_before.add(entry.offset());
            }
            not_after += u64::from(checksum(block) != entry.after || unreadable.any());
        }
        match (not_before.is_empty(), not_after) {
            (true, _) => Condition::AsPlanned,
            (_, 0) => Condition::Done,
            _ => Condition::Other(not_before),
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn block_len(&self, entry: &Entry) -> usize {
        block_len(entry.index, self.target_len)
    }

    /// Whether a block as it was read is the one that the plan was made for.
    pub(crate) fn is_before(&self, entry: &Entry, block: &[u8], unreadable: bool) -> bool {
        entry.is_unreadable || (!unreadable && checksum(block) == entry.before)
    }

    /// Whether a block is as the plan leaves it.
    pub(crate) fn is_after(&self, entry: &Entry, block: &[u8]) -> bool {
        checksum(block) == entry.after
    }

    /// Turns a before-image into the after-image.
    pub(crate) fn make_after(&self, entry: &Entry, block: &mut [u8]) -> io::Result<()> {
        let runs = self.runs(entry)?;
        lay_over(Runs::new(&runs, entry.changes), block);
        Ok(())
    }

    /// Turns a before-image into that of the marked block.
    pub(crate) fn make_marker(&self, entry: &Entry, block: &mut [u8]) -> io::Result<()> {
        let runs = self.runs(entry)?;
        let mut runs = Runs::new(&runs, entry.changes);
        runs.by_ref().for_each(drop);
        lay_over(runs.followed_by(entry.markers), block);
        Ok(())
    }

    fn runs(&self, entry: &Entry) -> io::Result<Cow<'_, [u8]>> {
        self.data.part(entry.runs_at, entry.runs_len as usize)
    }
}

/// In which condition a target is, as a plan sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Just as it was when the plan was made.
    AsPlanned,
    /// Just as the plan leaves it.
    Done,
    /// It is another one, or has changed: these blocks are not as they were.
    Other(Differences),
}

fn lay_over(runs: Runs<'_>, block: &mut [u8]) {
    for (at, bytes) in runs {
        if let Some(place) = block.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { target_len, entries, .. } = self;
        f.debug_struct("Plan")
            .field("target_len", target_len)
            .field("entries", entries)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
