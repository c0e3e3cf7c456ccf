// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading the log after a crash: which blocks have to be written home, so that all transactions have happened that were committed.

use std::collections::{BTreeMap, HashMap};

use fsmend_blockcache::{Block, BlockCache};
use fsmend_ext_format::fast_commit::{self, FastCommitTag};
use fsmend_ext_format::journal::{
    BlockTag, JOURNAL_MAGIC, JournalBlockType, JournalCompat, RawCommit, RawJournalHeader, TagFlags, crc32_be,
};
use fsmend_vfs::{Errno, Result};

use super::Log;

/// A block in the log that may have to be replayed.
struct Logged {
    sequence: u32,
    /// Block of the log.
    at: u32,
    tag: BlockTag,
}

/// What the log holds.
#[derive(Default)]
struct Found {
    /// The latest version of each block.
    blocks: BTreeMap<u64, Logged>,
    /// The latest transaction that revoked a block.
    revoked: HashMap<u64, u32>,
}

/// What one transaction holds, as long as its commit block has not been seen.
#[derive(Default)]
struct Transaction {
    blocks: Vec<(u32, BlockTag)>,
    revoked: Vec<u64>,
    crc: Option<u32>,
}

impl Log {
    /// The blocks that have to be written home. Afterwards the log goes on behind the last transaction.
    pub fn replay(&mut self, cache: &mut BlockCache) -> Result<BTreeMap<u64, Block>> {
        if !self.is_dirty() {
            return Ok(BTreeMap::new());
        }
        let found = self.find(cache)?;
        self.refuse_fast_commits(cache)?;
        let blocks = self.bodies(cache, found)?;
        // What is left of a transaction that was being written has our number; ours begin behind it.
        self.sequence = self.sequence.wrapping_add(2);
        self.head = self.first;
        Ok(blocks)
    }

    /// What the spare transaction of an empty log says of `block`, if there is one.
    pub fn spare(&mut self, cache: &mut BlockCache, block: u64) -> Result<BTreeMap<u64, Block>> {
        self.superblock.s_start = self.first.into();
        self.sequence = self.sequence.wrapping_sub(1);
        let mut found = self.find(cache)?;
        found.blocks.retain(|number, _| *number == block);
        let blocks = self.bodies(cache, found)?;
        self.sequence = self.sequence.wrapping_add(2);
        Ok(blocks)
    }

    /// The blocks that `found` says have to be written home.
    fn bodies(&self, cache: &mut BlockCache, found: Found) -> Result<BTreeMap<u64, Block>> {
        let mut blocks = BTreeMap::new();
        for (number, logged) in found.blocks {
            // A block is not replayed from the transaction that revoked it, or from one before.
            let later = |revoked: &u32| logged.sequence.wrapping_sub(*revoked).cast_signed() > 0;
            if found.revoked.get(&number).is_none_or(later) {
                blocks.insert(number, self.body(cache, &logged)?);
            }
        }
        Ok(blocks)
    }

    fn body(&self, cache: &mut BlockCache, logged: &Logged) -> Result<Block> {
        let bytes = cache.get(self.place(logged.at)?)?;
        if !self.format.tag_fits(logged.tag, logged.sequence, &bytes) {
            return Err(cache.corrupt(|| format!("block {} of the journal has a wrong checksum", logged.at)));
        }
        if !logged.tag.flags.contains(TagFlags::ESCAPE) {
            return Ok(bytes);
        }
        let mut bytes = bytes.to_vec();
        if let Some(magic) = bytes.get_mut(..4) {
            magic.copy_from_slice(&JOURNAL_MAGIC.to_be_bytes());
        }
        Ok(bytes.into())
    }

    /// Goes through the log up to the last transaction that was committed.
    fn find(&mut self, cache: &mut BlockCache) -> Result<Found> {
        let mut found = Found::default();
        let mut current = Transaction::default();
        let mut at = self.superblock.s_start.get();
        let mut left = self.capacity();
        while left > 0 {
            let block = cache.get(self.place(at)?)?;
            let header = RawJournalHeader::of(&block);
            if !header.is_journal_block() || header.h_sequence.get() != self.sequence {
                break;
            }
            left -= 1;
            at = self.after(at);
            match header.block_type() {
                JournalBlockType::DESCRIPTOR => {
                    if !self.format.tail_fits(&block) {
                        break;
                    }
                    let tags = self.format.tags(&block);
                    self.sum(&mut current, &block);
                    for tag in tags {
                        if left == 0 {
                            return Ok(found);
                        }
                        if self.superblock.has_compat(JournalCompat::CHECKSUM) {
                            let body = cache.get(self.place(at)?)?;
                            self.sum(&mut current, &body);
                        }
                        current.blocks.push((at, tag));
                        left -= 1;
                        at = self.after(at);
                    }
                }
                JournalBlockType::REVOKE => {
                    if !self.format.tail_fits(&block) {
                        break;
                    }
                    let Some(revoked) = self.format.revoked(&block) else { break };
                    current.revoked.extend(revoked);
                }
                JournalBlockType::COMMIT => {
                    if !self.format.commit_fits(&block) || !self.sum_fits(&current, &block) {
                        break;
                    }
                    found.add(std::mem::take(&mut current), self.sequence);
                    self.sequence = self.sequence.wrapping_add(1);
                }
                _ => break,
            }
        }
        Ok(found)
    }

    fn sum(&self, transaction: &mut Transaction, block: &[u8]) {
        if self.superblock.has_compat(JournalCompat::CHECKSUM) {
            transaction.crc = Some(crc32_be(transaction.crc.unwrap_or(u32::MAX), block));
        }
    }

    /// Whether the sum of the first kind in a commit block is right, where the log has such sums.
    fn sum_fits(&self, transaction: &Transaction, commit: &[u8]) -> bool {
        let Some(commit) = RawCommit::of(commit) else { return false };
        let stored = commit.h_chksum[0].get();
        let has_none = commit.h_chksum_type == 0 && commit.h_chksum_size == 0 && stored == 0;
        !self.superblock.has_compat(JournalCompat::CHECKSUM)
            || has_none
            || stored == transaction.crc.unwrap_or(u32::MAX)
    }

    /// Fast commits that follow the last transaction would have to be replayed by their own rules, which this driver does not know.
    fn refuse_fast_commits(&self, cache: &mut BlockCache) -> Result<()> {
        // The block between the log and the area of fast commits stays unused.
        if self.superblock.fast_commit_blocks() < 2 {
            return Ok(());
        }
        let block = cache.get(self.place(self.end.saturating_add(1))?)?;
        let head = fast_commit::records(&block).next().filter(|head| head.tag == FastCommitTag::HEAD);
        let begins =
            head.and_then(|head| head.transaction()).is_some_and(|(number, _)| number == self.sequence);
        if begins {
            cache.corrupt(|| "the journal holds fast commits that have not been replayed".into());
            return Err(Errno::NotSupported);
        }
        Ok(())
    }
}

impl Found {
    fn add(&mut self, transaction: Transaction, sequence: u32) {
        for (at, tag) in transaction.blocks {
            self.blocks.insert(tag.block, Logged { sequence, at, tag });
        }
        for block in transaction.revoked {
            self.revoked.insert(block, sequence);
        }
    }
}
