// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal: transactions are written into the log ([`write`]), and read back from it after a crash ([`recover`]).
//!
//! What is committed stays in memory until it is written home, which happens all at once: when the log is half full, and at the end. Then
//! the log is empty, and its superblock says where the next transaction will stand. So the tail of the log is always where it was emptied last.
//!
//! Order of writes, on which everything rests:
//!
//! 1. data of files, at once, when they are written;
//! 2. descriptors, changed blocks, revoke records, and zeroes where the commit block will stand, into the log; **sync**;
//! 3. the commit block; **sync**. Now the transaction has happened.
//! 4. Later, the changed blocks home; **sync**; the superblock of the log; **sync**. Only then is the log written again from its start.
//!
//! The superblock of the file system says that the log may hold something (`needs_recovery`) before the log does, and until it does not any more: a
//! checker or a kernel that finds transactions behind a superblock without the flag takes that for damage, or passes over them. A superblock of two
//! sectors may be cut in two while it is written, so there is a copy of it in the log first: a **spare transaction** at the start of a log that
//! says that it is empty. Nothing replays it but this driver, and only where the superblock has a wrong checksum. Its number is the one before
//! `s_sequence`, so that no later transaction is taken for it. So, on opening and on closing:
//!
//! 1. the superblock of the log, empty; **sync**;
//! 2. the spare transaction; **sync**;
//! 3. the superblock of the file system, with the flag or (closing) without; **sync**.
//!
//! A block that a transaction frees is not used again before that transaction is in the log (`alloc` sees to that), so step 1 never
//! writes over something that a crash would bring back.

pub(crate) mod recover;
pub(crate) mod write;

use std::collections::HashSet;

use fsmend_blockcache::BlockCache;
use fsmend_ext_format::journal::{
    CHECKSUM_CRC32C, JournalBlockType, JournalIncompat, LogFormat, RawJournalSuperblock,
};
use fsmend_vfs::{Errno, Result};

/// Fewest blocks of a log that anything can be done with.
const LOG_BLOCKS_MIN: u32 = 16;

/// A run of blocks of the journal's file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub logical: u64,
    pub physical: u64,
    pub count: u64,
}

/// A log that can be read and written.
pub(crate) struct Log {
    pieces: Vec<Piece>,
    superblock: RawJournalSuperblock,
    format: LogFormat,
    block_size: usize,
    /// First block of the log, and the one behind its last.
    first: u32,
    end: u32,
    /// Where the next transaction begins.
    head: u32,
    /// Blocks in use since the log was emptied.
    used: u32,
    /// Number of the next transaction.
    sequence: u32,
    /// Blocks of the file system that lie in the log.
    logged: HashSet<u64>,
}

impl Log {
    /// Reads the superblock of the log that lies in `pieces`.
    pub fn open(cache: &mut BlockCache, pieces: Vec<Piece>, block_size: u32) -> Result<Log> {
        let blocks: u64 = pieces.iter().map(|piece| piece.count).sum();
        let place = locate(&pieces, 0).ok_or_else(|| cache.corrupt(|| "the journal has no blocks".into()))?;
        let bytes = cache.get(place)?;
        let superblock = RawJournalSuperblock::of(&bytes).ok_or(Errno::Corrupt)?;
        let mut log = Log {
            format: LogFormat::of(&superblock),
            pieces,
            block_size: block_size as usize,
            first: superblock.s_first.get(),
            end: superblock.s_maxlen.get().saturating_sub(superblock.fast_commit_blocks()),
            head: superblock.s_first.get(),
            used: 0,
            sequence: superblock.s_sequence.get(),
            logged: HashSet::new(),
            superblock,
        };
        if !log.superblock.is_version2() {
            log.format = LogFormat { wide: false, csum_v2: false, csum_v3: false, seed: 0 };
        }
        let wrong = log.what_is_wrong(block_size, blocks);
        wrong.map_or(Ok(log), |what| Err(cache.corrupt(|| format!("the journal's superblock: {what}"))))
    }

    fn what_is_wrong(&self, block_size: u32, blocks: u64) -> Option<&'static str> {
        let superblock = &self.superblock;
        let header = superblock.s_header;
        let kinds = [JournalBlockType::SUPERBLOCK_V1, JournalBlockType::SUPERBLOCK_V2];
        if !header.is_journal_block() || !kinds.contains(&header.block_type()) {
            return Some("it is none");
        }
        if superblock.is_version2() && !JournalIncompat::all().contains(superblock.incompat()) {
            return Some("unknown features");
        }
        if superblock.has_csum()
            && (superblock.s_checksum_type != CHECKSUM_CRC32C
                || superblock.s_checksum.get() != superblock.computed_checksum())
        {
            return Some("a wrong checksum");
        }
        if superblock.s_blocksize.get() != block_size {
            return Some("another block size");
        }
        let fits = u64::from(superblock.s_maxlen.get()) <= blocks
            && self.first >= 1
            && u64::from(self.first) + u64::from(LOG_BLOCKS_MIN) <= u64::from(self.end);
        let start = superblock.s_start.get();
        if !fits || (start != 0 && (start < self.first || start >= self.end)) {
            return Some("places that cannot be");
        }
        None
    }

    /// Whether there is something to replay.
    pub fn is_dirty(&self) -> bool {
        self.superblock.s_start.get() != 0
    }

    /// Blocks that a log which is empty can take.
    pub fn capacity(&self) -> u32 {
        self.end - self.first
    }

    /// Blocks that are free.
    pub fn room(&self) -> u32 {
        self.capacity() - self.used.min(self.capacity())
    }

    /// The block of the log after `block`.
    fn after(&self, block: u32) -> u32 {
        if block + 1 >= self.end { self.first } else { block + 1 }
    }

    /// The block of the log before `block`.
    fn before(&self, block: u32) -> u32 {
        if block <= self.first { self.end - 1 } else { block - 1 }
    }

    /// Where block `block` of the log lies on the device.
    fn place(&self, block: u32) -> Result<u64> {
        locate(&self.pieces, u64::from(block)).ok_or(Errno::Corrupt)
    }

    /// Whether `block` of the file system lies in the log.
    pub fn has_logged(&self, block: u64) -> bool {
        self.logged.contains(&block)
    }
}

fn locate(pieces: &[Piece], logical: u64) -> Option<u64> {
    let at = pieces.partition_point(|piece| piece.logical + piece.count <= logical);
    let piece = pieces.get(at).filter(|piece| piece.logical <= logical)?;
    Some(piece.physical + (logical - piece.logical))
}
