// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of a plan: header, identity, text, blocks, checksum. See `docs/formats/plan-and-log.md`.

use fsmend_base::width;

use super::data::Data;
use super::runs::Runs;
use super::{Entry, Plan, PlanError};
use crate::blocks::{BLOCK_BYTES, block_len, checksum};

/// First bytes of a plan.
const MAGIC: &[u8; 8] = b"FSMNDPLN";

/// The only version so far.
const VERSION: u32 = 1;

/// Bytes before the identity.
pub(super) const HEADER_BYTES: usize = 64;

/// What the header's own checksum covers.
const HEADER_SUMMED: usize = 56;

/// Bytes of a block before its runs.
pub(super) const BLOCK_HEADER_BYTES: usize = 32;

/// The checksum at the end.
const TRAILER_BYTES: usize = 8;

/// Longest identity.
const IDENTITY_BYTES_MAX: usize = 1024;

const FLAG_LAST: u16 = 1;
const FLAG_UNREADABLE: u16 = 2;

/// What stands before the blocks.
pub(super) struct Header<'p> {
    pub target_len: u64,
    pub block_count: u64,
    pub identity: &'p [u8],
    pub text: &'p str,
}

impl Header<'_> {
    /// Bytes before the blocks.
    pub fn len(&self) -> usize {
        HEADER_BYTES + self.identity.len() + self.text.len()
    }

    /// The whole plan: `bytes` has [`Header::len`] bytes for what stands before the blocks, and the blocks behind them. They are not copied, as there
    /// may be many.
    pub fn enclose(&self, mut bytes: Vec<u8>) -> Result<Vec<u8>, PlanError> {
        let front = self.front(bytes.len() as u64)?;
        bytes[..front.len()].copy_from_slice(&front);
        bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
        Ok(bytes)
    }

    /// What stands before the blocks, where both together have `len` bytes.
    pub fn front(&self, len: u64) -> Result<Vec<u8>, PlanError> {
        if self.identity.len() > IDENTITY_BYTES_MAX {
            return Err(PlanError::Format("the identity is too long"));
        }
        let len = len + TRAILER_BYTES as u64;
        if len > Plan::BYTES_MAX {
            return Err(PlanError::TooLarge { len, max: Plan::BYTES_MAX });
        }
        let mut front = Vec::with_capacity(self.len());
        front.extend_from_slice(MAGIC);
        front.extend_from_slice(&VERSION.to_le_bytes());
        front.extend_from_slice(&width::len_u32(BLOCK_BYTES).to_le_bytes());
        front.extend_from_slice(&self.target_len.to_le_bytes());
        front.extend_from_slice(&self.block_count.to_le_bytes());
        front.extend_from_slice(&(self.identity.len() as u64).to_le_bytes());
        front.extend_from_slice(&(self.text.len() as u64).to_le_bytes());
        front.extend_from_slice(&len.to_le_bytes());
        front.extend_from_slice(&checksum(&front).to_le_bytes());
        front.extend_from_slice(self.identity);
        front.extend_from_slice(self.text.as_bytes());
        Ok(front)
    }
}

/// What stands before the runs of a block.
pub(super) struct BlockHeader {
    pub index: u64,
    pub before: u64,
    pub after: u64,
    pub is_last: bool,
    pub unreadable: bool,
    pub changes: u16,
    pub markers: u16,
}

impl BlockHeader {
    pub fn to_bytes(&self) -> [u8; BLOCK_HEADER_BYTES] {
        let flags =
            if self.is_last { FLAG_LAST } else { 0 } | if self.unreadable { FLAG_UNREADABLE } else { 0 };
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        bytes[0..8].copy_from_slice(&self.index.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.before.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.after.to_le_bytes());
        bytes[24..26].copy_from_slice(&flags.to_le_bytes());
        bytes[26..28].copy_from_slice(&self.changes.to_le_bytes());
        bytes[28..30].copy_from_slice(&self.markers.to_le_bytes());
        bytes
    }

    /// The block in the index: where its runs stand in the plan, how many bytes they have, and how many of those are of the after-image.
    pub fn entry(&self, (runs_at, runs_len, changed): (usize, u32, u32)) -> Entry {
        let BlockHeader { index, before, after, is_last, unreadable, changes, markers } = *self;
        Entry {
            index,
            before,
            after,
            is_last,
            is_unreadable: unreadable,
            runs_at,
            runs_len,
            changed,
            changes,
            markers,
        }
    }

    fn parse(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Result<Self, PlanError> {
        let flags = u16_at(bytes, 24);
        if flags & !(FLAG_LAST | FLAG_UNREADABLE) != 0 || u16_at(bytes, 30) != 0 {
            return Err(PlanError::Format("a block has an unknown type"));
        }
        Ok(BlockHeader {
            index: u64_at(bytes, 0),
            before: u64_at(bytes, 8),
            after: u64_at(bytes, 16),
            is_last: flags & FLAG_LAST != 0,
            unreadable: flags & FLAG_UNREADABLE != 0,
            changes: u16_at(bytes, 26),
            markers: u16_at(bytes, 28),
        })
    }
}

impl Plan {
    /// The plan that these bytes are. Takes no more memory than a few times their number.
    pub fn parse(bytes: Vec<u8>) -> Result<Plan, PlanError> {
        let header = parse_header(&bytes)?;
        let blocks_at = HEADER_BYTES + header.identity.len() + header.text.len();
        let blocks = &bytes[blocks_at..bytes.len() - TRAILER_BYTES];
        let entries = parse_blocks(blocks, blocks_at, &header)?;
        let (target_len, identity_len, text_len) =
            (header.target_len, header.identity.len(), header.text.len());
        Ok(Plan { data: Data::Held(bytes), target_len, identity_len, text_len, entries })
    }

    /// Whether `start`, the first bytes of a file, are those of a plan.
    pub fn is_plan(start: &[u8]) -> bool {
        start.starts_with(MAGIC)
    }
}

/// Checks everything but the blocks: afterwards header, identity, text and trailer are known to lie within `bytes`.
fn parse_header(bytes: &[u8]) -> Result<Header<'_>, PlanError> {
    if !Plan::is_plan(bytes) {
        return Err(PlanError::Format("it has no plan header"));
    }
    let cut_off = PlanError::Format("its end is missing");
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Err(cut_off) };
    if u32_at(header, 8) != VERSION || u32_at(header, 12) != width::len_u32(BLOCK_BYTES) {
        return Err(PlanError::Format("it was made by another version of the program"));
    }
    if checksum(&header[..HEADER_SUMMED]) != u64_at(header, HEADER_SUMMED) {
        return Err(PlanError::Format("its header is damaged"));
    }
    if u64_at(header, 48) != bytes.len() as u64 {
        return Err(cut_off);
    }
    let (summed, trailer) = bytes.split_last_chunk::<TRAILER_BYTES>().ok_or(cut_off.clone())?;
    if checksum(summed) != u64::from_le_bytes(*trailer) {
        return Err(PlanError::Format("it is damaged"));
    }
    let rest = rest.get(..rest.len().wrapping_sub(TRAILER_BYTES)).ok_or(cut_off.clone())?;
    let (identity, rest) = split(rest, u64_at(header, 32)).ok_or(cut_off.clone())?;
    let (text, _) = split(rest, u64_at(header, 40)).ok_or(cut_off)?;
    let text = str::from_utf8(text).map_err(|_| PlanError::Format("its text is not valid UTF-8"))?;
    if identity.len() > IDENTITY_BYTES_MAX {
        return Err(PlanError::Format("the identity is too long"));
    }
    Ok(Header { target_len: u64_at(header, 16), block_count: u64_at(header, 24), identity, text })
}

fn split(bytes: &[u8], at: u64) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(usize::try_from(at).ok()?)
}

/// All blocks, which stand in `bytes`, those at `at` of the plan.
fn parse_blocks(mut bytes: &[u8], at: usize, header: &Header<'_>) -> Result<Vec<Entry>, PlanError> {
    let end = at + bytes.len();
    let mut entries: Vec<Entry> = Vec::new();
    while let Some((block, rest)) = bytes.split_first_chunk::<BLOCK_HEADER_BYTES>() {
        let block = BlockHeader::parse(block)?;
        let len = block_len(block.index, header.target_len);
        if len == 0 || entries.last().is_some_and(|last| last.index >= block.index) {
            return Err(PlanError::Format("its blocks are out of order or out of the target"));
        }
        let behind = check_runs(&block, rest, len).ok_or(PlanError::Format("a block is damaged"))?;
        let changed = Runs::new(rest, block.changes).map(|(_, bytes)| width::len_u32(bytes.len())).sum();
        entries.push(block.entry((end - rest.len(), width::len_u32(rest.len() - behind.len()), changed)));
        bytes = behind;
    }
    if !bytes.is_empty() || entries.len() as u64 != header.block_count {
        return Err(PlanError::Format("the number of its blocks is wrong"));
    }
    Ok(entries)
}

/// The bytes behind the runs of a block, if those are right.
fn check_runs<'b>(block: &BlockHeader, bytes: &'b [u8], len: usize) -> Option<&'b [u8]> {
    let markers = Runs::new(bytes, block.changes).checked(len)?;
    if block.markers > 0 && !block.is_last {
        return None;
    }
    Runs::new(markers, block.markers).checked(len)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u16::from_le_bytes(*chunk))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

/// The number at `at`; 0 where `bytes` end.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}
