// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recovery of the log: find its end, collect what was revoked, work out which block gets its contents from where.
//!
//! The three passes follow the same blocks. A transaction counts when its commit block is there, in sequence, and
//! fits its checksums; the first one that does not is the end of the log. Only places are collected (8 bytes of
//! place per block of the file system), so memory is bounded by the length of the journal; contents are read at
//! the end, once.
//!
//! Bounded: a pass never looks at more blocks than the log has, so that a log that bites its tail ends.

use std::collections::{BTreeMap, HashMap};

use fsmend_device::ReadError;
use fsmend_ext_format::journal::{
    COMMIT_CHECKSUM_CRC32, JournalBlockType, JournalCompat, JournalIncompat, LogFormat, RawCommit,
    RawJournalHeader, TagFlags, crc32_be,
};

use super::log::Log;
use super::superblock::LogBounds;

/// Where a block gets its contents from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// Block of the journal.
    pub journal_block: u64,
    /// Whether the magic number at its start was zeroed and has to be put back.
    pub escaped: bool,
}

/// Something that keeps the log from being replayed as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A block of the journal cannot be read.
    Unreadable {
        /// Block of the journal.
        journal_block: u64,
        /// Why.
        error: ReadError,
    },
    /// The log leads nowhere.
    Broken {
        /// Block of the journal.
        journal_block: u64,
        /// Why.
        why: &'static str,
    },
    /// A descriptor or revoke block of this transaction fails its checksum, and the log goes on behind it.
    Checksum(u32),
    /// The copy of a block in this transaction fails its checksum.
    Data {
        /// The transaction.
        sequence: u32,
        /// The block of the file system.
        block: u64,
    },
    /// A tag names a block that must not be written.
    Place {
        /// The block.
        block: u64,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// What a recovery works out.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// Where each block of the file system gets its contents from.
    pub sources: BTreeMap<u64, Source>,
    /// Sequence number behind the last transaction.
    pub end: u32,
    /// Number of transactions.
    pub transactions: u32,
    /// A transaction whose commit block fails its checksum.
    pub failed_commit: Option<u32>,
    /// What went wrong, in the order in which it was met.
    pub troubles: Vec<Trouble>,
    /// Whether nothing at all may be replayed.
    pub refused: bool,
}

/// Follows `log`. `blocks` is the number of blocks that the file system has.
pub(crate) fn recover(log: &Log<'_>, bounds: &LogBounds, blocks: u64) -> Recovery {
    let mut run = Run {
        log,
        bounds,
        format: LogFormat::of(&bounds.raw),
        blocks,
        revoked: HashMap::new(),
        found: Recovery::default(),
        end: None,
    };
    for pass in [Pass::Scan, Pass::Revoke, Pass::Replay] {
        if let Err(trouble) = run.pass(pass) {
            run.found.troubles.push(trouble);
            run.found.refused = true;
            run.found.sources.clear();
            break;
        }
    }
    run.found.end = run.end.unwrap_or(bounds.raw.s_sequence.get());
    run.found.transactions = run.found.end.wrapping_sub(bounds.raw.s_sequence.get());
    run.found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Scan,
    Revoke,
    Replay,
}

struct Run<'a, 'd> {
    log: &'a Log<'d>,
    bounds: &'a LogBounds,
    format: LogFormat,
    blocks: u64,
    /// Block, and the last transaction that revoked it.
    revoked: HashMap<u64, u32>,
    found: Recovery,
    end: Option<u32>,
}

/// The place of one pass in the log.
struct Cursor {
    next: u64,
    sequence: u32,
    /// Blocks that may still be looked at.
    left: u64,
    /// Checksum of the first kind over the transaction so far.
    crc: u32,
    /// A descriptor or revoke block of the transaction failed its checksum.
    suspicious: bool,
    last_commit_time: u64,
}

/// What follows one block of the log.
enum Next {
    Continue,
    End,
}

/// Whether sequence number `a` is `b` or later (they wrap).
fn is_at_least(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() >= 0
}

impl Run<'_, '_> {
    fn pass(&mut self, pass: Pass) -> Result<(), Trouble> {
        let mut cursor = Cursor {
            next: u64::from(self.bounds.raw.s_start.get()),
            sequence: self.bounds.raw.s_sequence.get(),
            left: self.bounds.last.saturating_sub(self.bounds.first),
            crc: u32::MAX,
            suspicious: false,
            last_commit_time: 0,
        };
        loop {
            let at_end = self.end.is_some_and(|end| is_at_least(cursor.sequence, end));
            if pass != Pass::Scan && at_end {
                break;
            }
            let place = self.advance(&mut cursor)?;
            let block = self.read(place)?;
            let header = RawJournalHeader::of(&block);
            if !header.is_journal_block() || header.h_sequence.get() != cursor.sequence {
                break;
            }
            let next = match header.block_type() {
                JournalBlockType::DESCRIPTOR => self.descriptor(pass, &mut cursor, &block)?,
                JournalBlockType::COMMIT => self.commit(pass, &mut cursor, &block)?,
                JournalBlockType::REVOKE => self.revoke(pass, &mut cursor, &block),
                _ => Next::End,
            };
            if matches!(next, Next::End) {
                break;
            }
        }
        if pass == Pass::Scan {
            self.end.get_or_insert(cursor.sequence);
        }
        Ok(())
    }

    /// The next block of the log, wrapped around its end.
    fn advance(&self, cursor: &mut Cursor) -> Result<u64, Trouble> {
        let place = cursor.next;
        if cursor.left == 0 {
            return Err(Trouble::Broken { journal_block: place, why: "the log has no end" });
        }
        cursor.left -= 1;
        cursor.next += 1;
        if cursor.next >= self.bounds.last {
            cursor.next = self.bounds.first;
        }
        Ok(place)
    }

    fn read(&self, place: u64) -> Result<Vec<u8>, Trouble> {
        self.log.read(place).map_err(|error| Trouble::Unreadable { journal_block: place, error })
    }

    fn descriptor(&mut self, pass: Pass, cursor: &mut Cursor, block: &[u8]) -> Result<Next, Trouble> {
        if !self.format.tail_fits(block) {
            // Blocks of an earlier use of the journal may lie where the log ends; the commit block's time tells.
            if pass != Pass::Scan {
                return Err(Trouble::Checksum(cursor.sequence));
            }
            cursor.suspicious = true;
        }
        let tags = self.format.tags(block);
        let summed =
            pass == Pass::Scan && self.bounds.raw.has_compat(JournalCompat::CHECKSUM) && self.end.is_none();
        if summed {
            cursor.crc = crc32_be(cursor.crc, block);
        }
        for tag in tags {
            let place = self.advance(cursor)?;
            if summed {
                cursor.crc = crc32_be(cursor.crc, &self.read(place)?);
            }
            if pass == Pass::Replay && !self.is_revoked(tag.block, cursor.sequence) {
                let source = Source { journal_block: place, escaped: tag.flags.contains(TagFlags::ESCAPE) };
                self.replay(tag, cursor.sequence, source);
            }
        }
        Ok(Next::Continue)
    }

    fn is_revoked(&self, block: u64, sequence: u32) -> bool {
        self.revoked.get(&block).is_some_and(|revoked_in| is_at_least(*revoked_in, sequence))
    }

    fn replay(&mut self, tag: fsmend_ext_format::journal::BlockTag, sequence: u32, source: Source) {
        if self.format.has_csum() {
            match self.read(source.journal_block) {
                Ok(data) if self.format.tag_fits(tag, sequence, &data) => {}
                Ok(_) => return self.found.troubles.push(Trouble::Data { sequence, block: tag.block }),
                Err(trouble) => return self.found.troubles.push(trouble),
            }
        }
        if tag.block >= self.blocks {
            let why = "is outside the file system";
            return self.found.troubles.push(Trouble::Place { block: tag.block, why });
        }
        if self.log.holds(tag.block) {
            let why = "is part of the journal itself";
            return self.found.troubles.push(Trouble::Place { block: tag.block, why });
        }
        self.found.sources.insert(tag.block, source);
    }

    fn commit(&mut self, pass: Pass, cursor: &mut Cursor, block: &[u8]) -> Result<Next, Trouble> {
        let time = RawCommit::of(block).map_or(0, |commit| commit.h_commit_sec.get());
        if cursor.suspicious {
            return self.suspicious_commit(cursor, time);
        }
        if pass == Pass::Scan {
            if !self.commit_fits(cursor, block) {
                if time < cursor.last_commit_time {
                    return self.suspicious_commit(cursor, time);
                }
                self.end.get_or_insert(cursor.sequence);
                if !self.bounds.raw.has_incompat(JournalIncompat::ASYNC_COMMIT) {
                    self.found.failed_commit = Some(cursor.sequence);
                    return Ok(Next::End);
                }
            } else if let (Some(end), true) = (self.end, self.bounds.raw.has_compat(JournalCompat::CHECKSUM))
            {
                // A good transaction behind a bad one: it was no interrupted commit.
                self.found.failed_commit = Some(end);
                return Ok(Next::End);
            }
            cursor.last_commit_time = time;
            cursor.crc = u32::MAX;
        }
        cursor.sequence = cursor.sequence.wrapping_add(1);
        Ok(Next::Continue)
    }

    /// A commit block behind something that failed its checksum: left over from an earlier use of the journal if it
    /// is older than the last transaction, else the log is damaged.
    fn suspicious_commit(&self, cursor: &Cursor, time: u64) -> Result<Next, Trouble> {
        if time >= cursor.last_commit_time { Err(Trouble::Checksum(cursor.sequence)) } else { Ok(Next::End) }
    }

    fn commit_fits(&self, cursor: &Cursor, block: &[u8]) -> bool {
        let Some(commit) = RawCommit::of(block) else { return false };
        if self.bounds.raw.has_compat(JournalCompat::CHECKSUM) && self.end.is_none() {
            let stored = commit.h_chksum[0].get();
            let kind = (commit.h_chksum_type, commit.h_chksum_size);
            return (kind == (COMMIT_CHECKSUM_CRC32, 4) && stored == cursor.crc)
                || (kind == (0, 0) && stored == 0);
        }
        self.format.commit_fits(block)
    }

    fn revoke(&mut self, pass: Pass, cursor: &mut Cursor, block: &[u8]) -> Next {
        if pass == Pass::Scan && !self.format.tail_fits(block) {
            cursor.suspicious = true;
        }
        if pass == Pass::Revoke {
            for revoked in self.format.revoked(block).unwrap_or_default() {
                let last = self.revoked.entry(revoked).or_insert(cursor.sequence);
                if is_at_least(cursor.sequence, *last) {
                    *last = cursor.sequence;
                }
            }
        }
        Next::Continue
    }
}
