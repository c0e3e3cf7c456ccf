// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of a log: header, two slots for its state, the plan, the before-images. See `docs/formats/plan-and-log.md`.

use std::fmt;

use fsmend_base::width;

use super::{ApplyError, LogFile};
use crate::blocks::{BLOCK_BYTES, checksum};
use crate::plan::u64_at;
use crate::{ReadError, ReadErrorKind};

/// First bytes of a log.
pub(super) const MAGIC: &[u8; 8] = b"FSMNDLOG";
const SLOT_MAGIC: &[u8; 8] = b"FSMNDSLT";
const VERSION: u32 = 1;
const FLAG_KEEP_UNDO: u32 = 1;

/// Bytes of a block, as a number of bytes in a file.
pub(super) const BLOCK: u64 = BLOCK_BYTES as u64;
/// Where the slots are.
pub(super) const SLOTS_AT: [u64; 2] = [BLOCK, 2 * BLOCK];
/// Where the plan starts.
pub(super) const PLAN_AT: u64 = 3 * BLOCK;
/// Bytes of a slot that mean something.
const SLOT_BYTES: usize = 48;
/// What the header says before the name of the target.
const HEADER_FIXED_BYTES: usize = 64;
/// Longest name of a target; a longer one is cut off.
const NAME_BYTES_MAX: usize = BLOCK_BYTES - HEADER_FIXED_BYTES - 8;

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
            LogState::Incomplete => "the log was never completed and the target was not changed",
            LogState::Applying => "the repair has begun and is not finished",
            LogState::Applied => "the repair is finished",
            LogState::Undoing => "the undo has begun and is not finished",
            LogState::Undone => "the repair was undone",
        })
    }
}

/// The header of a log, which says where everything is.
pub(super) struct Header {
    pub plan_len: u64,
    pub block_count: u64,
    /// Byte of the file or block device at which the target starts.
    pub start: u64,
    pub keep_undo: bool,
    /// What the target was called.
    pub target_name: String,
}

/// What stands in a slot.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub sequence: u64,
    pub state: LogState,
    /// Checksum of all but the slots.
    pub body: u64,
}

impl Header {
    /// Fixed numbers, the name, and a checksum at the end of the block.
    pub fn to_bytes(&self) -> Vec<u8> {
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
    pub fn read(file: &dyn LogFile) -> Result<Option<Header>, ApplyError> {
        let Some(bytes) = read_if_there::<BLOCK_BYTES>(file, 0)? else { return Ok(None) };
        let (summed, sum) = bytes.split_at(BLOCK_BYTES - 8);
        if !bytes.starts_with(MAGIC) || checksum(summed) != u64_at(sum, 0) {
            return Ok(None);
        }
        let flags = u64_at(&bytes, 8);
        if width::low_u32(flags) != VERSION {
            return Err(ApplyError::LogDamaged("it was made by another version of the program"));
        }
        let name_len = width::index(u64_at(&bytes, 40).min(NAME_BYTES_MAX as u64));
        let name = &bytes[HEADER_FIXED_BYTES..][..name_len];
        Ok(Some(Header {
            plan_len: u64_at(&bytes, 16),
            block_count: u64_at(&bytes, 24),
            start: u64_at(&bytes, 32),
            keep_undo: (flags >> 32) as u32 & FLAG_KEEP_UNDO != 0,
            target_name: String::from_utf8_lossy(name).into_owned(),
        }))
    }

    pub fn images_at(&self) -> u64 {
        images_at(self.plan_len)
    }

    /// Length of the log, if that is a number.
    pub fn len(&self) -> Option<u64> {
        let plan_end = PLAN_AT.checked_add(self.plan_len)?.checked_next_multiple_of(BLOCK)?;
        self.block_count.checked_mul(BLOCK)?.checked_add(plan_end)
    }
}

/// Where the before-images start, behind a plan of `plan_len` bytes.
pub(super) fn images_at(plan_len: u64) -> u64 {
    PLAN_AT.saturating_add(plan_len).next_multiple_of(BLOCK)
}

impl Slot {
    /// A whole block, so that it can be written where nothing can be read.
    pub fn to_bytes(self) -> [u8; BLOCK_BYTES] {
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

/// The slot that counts.
pub(super) fn newest_slot(file: &dyn LogFile) -> Option<Slot> {
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

/// The bytes at `at`; `None` if the file ends before them.
pub(super) fn read_if_there<const N: usize>(
    file: &dyn LogFile,
    at: u64,
) -> Result<Option<[u8; N]>, ApplyError> {
    let mut bytes = [0; N];
    match file.read_at(at, &mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(ReadError { kind: ReadErrorKind::BeyondEnd, .. }) => Ok(None),
        Err(error) => Err(ApplyError::LogNotRead(error)),
    }
}

/// Names that are longer than the header has room for lose their end.
pub(super) fn cut_name(name: &str) -> String {
    let mut len = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(len) {
        len -= 1;
    }
    name[..len].to_owned()
}
