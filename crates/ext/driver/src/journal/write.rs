// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing transactions into the log.

use std::collections::BTreeSet;

use fsmend_base::width;
use fsmend_blockcache::{Block, BlockCache};
use fsmend_ext_format::checksum::crc32c;
use fsmend_ext_format::journal::{
    COMMIT_CHECKSUM_CRC32, JOURNAL_MAGIC, JournalBlockType, JournalCompat, JournalIncompat, LogFormat,
    RawCommit, RawJournalHeader, TagFlags, crc32_be,
};
use fsmend_vfs::{Errno, Result, Time};
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromZeros, IntoBytes};

use super::Log;

const HEADER_SIZE: usize = size_of::<RawJournalHeader>();
const TAIL_SIZE: usize = 4;
const UUID_SIZE: usize = 16;
/// Where the first record of a revoke block stands.
const REVOKES_AT: usize = HEADER_SIZE + 4;

impl Log {
    /// Readies the log for writing: it is empty, and allowed to hold what we write.
    pub fn start(&mut self, cache: &mut BlockCache, wide: bool) -> Result<()> {
        if self.superblock.is_version2() {
            let mut features = self.superblock.incompat() | JournalIncompat::REVOKE;
            if wide {
                features |= JournalIncompat::BIT64;
            }
            self.superblock.s_feature_incompat = U32::new(features.bits());
            self.format = LogFormat::of(&self.superblock);
        } else if wide {
            return Err(cache.corrupt(|| "a journal of the first version on a 64-bit file system".into()));
        }
        self.set_aside(cache)
    }

    /// Says that the log is empty, and readies its first blocks for the spare transaction (see the head of [`journal`](super)).
    /// Everything in the log has to be at home and durable.
    pub fn set_aside(&mut self, cache: &mut BlockCache) -> Result<()> {
        self.head = self.first;
        self.used = 0;
        self.logged.clear();
        // The next transaction that counts has the number behind that of the spare one.
        self.write_superblock(cache, 0, self.sequence.wrapping_add(1))
    }

    /// Everything in the log is at home and durable: the superblock of the log says so, and then it is true.
    pub fn emptied(&mut self, cache: &mut BlockCache) -> Result<()> {
        self.used = 0;
        self.logged.clear();
        self.write_superblock(cache, self.head, self.sequence)
    }

    /// There is nothing in the log, nothing to be replayed, and no spare transaction.
    pub fn close(&mut self, cache: &mut BlockCache) -> Result<()> {
        self.write_superblock(cache, 0, self.sequence.wrapping_add(2))
    }

    fn write_superblock(&mut self, cache: &mut BlockCache, start: u32, sequence: u32) -> Result<()> {
        self.superblock.s_start = U32::new(start);
        self.superblock.s_sequence = U32::new(sequence);
        if self.superblock.has_csum() {
            self.superblock.s_checksum = U32::new(self.superblock.computed_checksum());
        }
        let mut block = vec![0; self.block_size];
        if let Some(place) = block.get_mut(..size_of_val(&self.superblock)) {
            place.copy_from_slice(self.superblock.as_bytes());
        }
        cache.write_bytes(self.place(0)?, &block)?;
        cache.sync()
    }

    /// Log blocks that a transaction of so many changed blocks and revoke records takes.
    pub fn blocks_needed(&self, changed: usize, revoked: usize) -> usize {
        let descriptors = changed.div_ceil(self.tags_per_block());
        1 + changed + descriptors + revoked.div_ceil(self.revokes_per_block())
    }

    fn room_in_block(&self) -> usize {
        self.block_size - if self.format.has_csum() { TAIL_SIZE } else { 0 }
    }

    fn tags_per_block(&self) -> usize {
        (self.room_in_block() - HEADER_SIZE - UUID_SIZE) / self.format.tag_size()
    }

    fn revoke_size(&self) -> usize {
        if self.format.wide { 8 } else { 4 }
    }

    fn revokes_per_block(&self) -> usize {
        (self.room_in_block() - REVOKES_AT) / self.revoke_size()
    }

    /// Writes a transaction, and returns when it is durable. There has to be room for it.
    pub fn write(
        &mut self,
        cache: &mut BlockCache,
        changed: &[(u64, Block)],
        revoked: &BTreeSet<u64>,
        now: Time,
    ) -> Result<()> {
        if self.blocks_needed(changed.len(), revoked.len()) > self.room() as usize {
            return Err(Errno::NoSpace);
        }
        let revoked: Vec<u64> = revoked.iter().copied().collect();
        let mut blocks: Vec<Block> = Vec::new();
        if self.superblock.is_version2() {
            for some in revoked.chunks(self.revokes_per_block()) {
                blocks.push(self.revoke_block(some).into());
            }
        }
        let mut crc = u32::MAX;
        for some in changed.chunks(self.tags_per_block()) {
            let bodies: Vec<Block> = some.iter().map(|(_, bytes)| escaped(bytes)).collect();
            let descriptor = self.descriptor_block(some, &bodies);
            crc = bodies.iter().fold(crc32_be_if(self, crc, &descriptor), |crc, b| crc32_be_if(self, crc, b));
            blocks.push(descriptor.into());
            blocks.extend(bodies);
        }
        let commit: Block = self.commit_block(crc, now).into();
        // All that a commit block says stands in its first sector. Zeroes lie under it, so that a write which is cut in two leaves it whole or not at
        // all, and never one with a wrong checksum.
        blocks.push(vec![0; self.block_size].into());
        self.append(cache, &blocks)?;
        cache.sync()?;
        let (last, used) = (self.before(self.head), self.used);
        (self.head, self.used) = (last, used - 1);
        self.append(cache, &[commit])?;
        cache.sync()?;
        self.sequence = self.sequence.wrapping_add(1);
        self.logged.extend(changed.iter().map(|(block, _)| *block));
        Ok(())
    }

    /// Writes blocks at the head of the log, those side by side at once.
    fn append(&mut self, cache: &mut BlockCache, blocks: &[Block]) -> Result<()> {
        let mut placed = Vec::with_capacity(blocks.len());
        for block in blocks {
            placed.push((self.place(self.head)?, block));
            self.head = self.after(self.head);
            self.used += 1;
        }
        cache.write_blocks(placed.into_iter())
    }

    fn new_block(&self, kind: JournalBlockType) -> Vec<u8> {
        let mut block = vec![0; self.block_size];
        let header = RawJournalHeader {
            h_magic: U32::new(JOURNAL_MAGIC),
            h_blocktype: U32::new(kind.0),
            h_sequence: U32::new(self.sequence),
        };
        put(&mut block, 0, header.as_bytes());
        block
    }

    fn seal_tail(&self, block: &mut [u8]) {
        if self.format.has_csum() {
            let at = block.len() - TAIL_SIZE;
            let crc = crc32c(crc32c(self.format.seed, &block[..at]), &[0; TAIL_SIZE]);
            put(block, at, &crc.to_be_bytes());
        }
    }

    fn revoke_block(&self, revoked: &[u64]) -> Vec<u8> {
        let mut block = self.new_block(JournalBlockType::REVOKE);
        let size = self.revoke_size();
        put(&mut block, HEADER_SIZE, &width::len_u32(REVOKES_AT + revoked.len() * size).to_be_bytes());
        for (index, number) in revoked.iter().enumerate() {
            put(&mut block, REVOKES_AT + index * size, &number.to_be_bytes()[8 - size..]);
        }
        self.seal_tail(&mut block);
        block
    }

    fn descriptor_block(&self, changed: &[(u64, Block)], bodies: &[Block]) -> Vec<u8> {
        let mut block = self.new_block(JournalBlockType::DESCRIPTOR);
        let mut at = HEADER_SIZE;
        for (index, ((number, original), body)) in changed.iter().zip(bodies).enumerate() {
            let mut flags = if index == 0 { TagFlags::empty() } else { TagFlags::SAME_UUID };
            if index + 1 == changed.len() {
                flags |= TagFlags::LAST;
            }
            if has_magic(original) {
                flags |= TagFlags::ESCAPE;
            }
            self.put_tag(&mut block, at, *number, flags, body);
            at += self.format.tag_size();
            if index == 0 {
                put(&mut block, at, &self.superblock.s_uuid);
                at += UUID_SIZE;
            }
        }
        self.seal_tail(&mut block);
        block
    }

    fn put_tag(&self, block: &mut [u8], at: usize, number: u64, flags: TagFlags, body: &[u8]) {
        let format = &self.format;
        let crc = || crc32c(crc32c(format.seed, &self.sequence.to_be_bytes()), body);
        put(block, at, &width::low_u32(number).to_be_bytes());
        if format.csum_v3 {
            put(block, at + 4, &flags.bits().to_be_bytes());
            put(block, at + 12, &crc().to_be_bytes());
        } else {
            let checksum = if format.csum_v2 { width::low_u16(u64::from(crc())) } else { 0 };
            put(block, at + 4, &checksum.to_be_bytes());
            put(block, at + 6, &width::low_u16(u64::from(flags.bits())).to_be_bytes());
        }
        if format.wide {
            put(block, at + 8, &((number >> 32) as u32).to_be_bytes());
        }
    }

    fn commit_block(&self, crc: u32, now: Time) -> Vec<u8> {
        let mut block = self.new_block(JournalBlockType::COMMIT);
        let mut commit = RawCommit::of(&block).unwrap_or_else(RawCommit::new_zeroed);
        commit.h_commit_sec = U64::new(now.seconds.cast_unsigned());
        commit.h_commit_nsec = U32::new(now.nanoseconds);
        if self.superblock.has_compat(JournalCompat::CHECKSUM) {
            commit.h_chksum_type = COMMIT_CHECKSUM_CRC32;
            commit.h_chksum_size = 4;
            commit.h_chksum[0] = U32::new(crc);
        }
        put(&mut block, 0, commit.as_bytes());
        if self.format.has_csum() {
            put(&mut block, size_of::<RawJournalHeader>() + 4, &[0; 4]);
            let crc = crc32c(self.format.seed, &block);
            put(&mut block, size_of::<RawJournalHeader>() + 4, &crc.to_be_bytes());
        }
        block
    }
}

/// The sum of the first kind, where the log has it.
fn crc32_be_if(log: &Log, crc: u32, block: &[u8]) -> u32 {
    if log.superblock.has_compat(JournalCompat::CHECKSUM) { crc32_be(crc, block) } else { crc }
}

fn has_magic(block: &[u8]) -> bool {
    block.starts_with(&JOURNAL_MAGIC.to_be_bytes())
}

/// The block as it lies in the log: without the journal's magic number at its start.
fn escaped(block: &Block) -> Block {
    if !has_magic(block) {
        return Block::clone(block);
    }
    let mut copy = block.to_vec();
    put(&mut copy, 0, &[0; 4]);
    copy.into()
}

/// Puts `bytes` at `at`, as far as there is room for all of them.
fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = block.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}
