// SPDX-License-Identifier: MIT OR Apache-2.0
//! Room for what an operation will write, made before it begins, and older states that hold room back.

use fsmend_hybridfs_format::BODY_LEN;
use fsmend_vfs::{Errno, Result, Time};

use crate::volume::{CONTENTS_WAIT, Commit, Need, Pin, Volume};

/// Segments whose frees wait: two older states stay whole.
const STATES_KEPT: u64 = 2;
/// Blocks of the log that one operation makes dirty at most.
pub(crate) const OPERATION_BLOCKS: u64 = 24;
/// Bytes of the log that a file in data takes: its inode, its name, and its share of what leads there.
const METADATA_BYTES: u64 = 640;

impl Volume {
    /// Makes sure that an operation can be written once it has been done. Commits when a segment is full or space is short.
    pub fn admit(&mut self, need: Need, now: Time) -> Result<()> {
        self.check_writable()?;
        let small = (self.waiting - self.waiting_data.min(self.waiting)) / u64::from(self.io.sb.block_size);
        let cap = u64::from(self.io.sb.segment_fragments) / self.io.sb.per_block();
        if self.io.dirty.get() + small > cap.max(64) || self.waiting_data > CONTENTS_WAIT {
            self.commit(now, Commit::Usual)?;
        }
        for _ in 0..4 {
            let reserve = if need.removes { 0 } else { u64::from(self.io.sb.reserve_blocks) };
            if self.space.blocks.free() >= self.blocks_needed() + OPERATION_BLOCKS + need.log + reserve {
                return Ok(());
            }
            let is_idle = self.space.pending.is_empty() && self.dirty.is_empty() && self.io.dirty.get() == 0;
            if !self.unpin() && is_idle && self.summaries.len() <= 1 {
                break;
            }
            self.commit(now, Commit::Checkpoint)?;
        }
        Err(Errno::NoSpace)
    }

    /// Whether contents of so many bytes may go to the log. Where it is short of whole blocks, these are for the metadata of what the data area still takes: contents go to the
    /// data area, or into holes if there are many.
    pub fn log_takes(&self, len: u64) -> bool {
        let (sb, space) = (&self.io.sb, &self.space);
        let data = space.data_left();
        if len <= BODY_LEN as u64 || self.io.all_in_log || data == 0 {
            return true;
        }
        let (blocks, free, reserve) = (space.blocks.len(), space.blocks.free(), u64::from(sb.reserve_blocks));
        let admitted = reserve + self.blocks_needed() + OPERATION_BLOCKS;
        let metadata = (data.saturating_mul(METADATA_BYTES) / u64::from(sb.block_size)).min(blocks / 4);
        let unused = sb.log_fragments.saturating_sub(space.totals.log) / sb.per_block();
        let has_holes = unused.saturating_sub(free) >= blocks / 8;
        free >= admitted + if has_holes { reserve } else { metadata }
    }

    /// Inodes that the log has room for, beside those that there are: at least so many.
    pub fn inodes_left(&self) -> u64 {
        let sb = &self.io.sb;
        let summaries = self.summaries.iter().flat_map(|(_, runs)| runs).map(|run| run.len).sum::<u64>();
        let left = self.space.blocks_left(&self.io.freed.borrow()) + summaries / sb.per_block();
        let kept = u64::from(sb.reserve_blocks) + u64::from(sb.checkpoint_segments) + 2;
        left.saturating_sub(kept + self.blocks_needed() + OPERATION_BLOCKS)
            .saturating_mul(u64::from(sb.inodes_per_block()))
    }

    /// Makes a checkpoint and keeps it whole until [`Volume::unpin`], or until that would cost too much.
    pub fn pin(&mut self, now: Time) -> Result<Pin> {
        self.unpin();
        self.admit(Need { removes: true, log: 0 }, now)?;
        self.commit(now, Commit::Checkpoint)?;
        let pin = Pin { ssn: self.last.checkpoint, summary: self.last.checkpoint_address };
        self.pin = Some(pin);
        Ok(pin)
    }

    /// The pinned state may go; whether there was one.
    pub fn unpin(&mut self) -> bool {
        let was = self.pin.take().is_some();
        if was {
            self.space.settle(&self.io.sb, self.settled());
            self.free_summaries();
        }
        was
    }

    /// The last segment whose frees may be used.
    pub fn settled(&self) -> u64 {
        let safe = self.last.ssn.saturating_sub(STATES_KEPT);
        self.pin.map_or(safe, |pin| safe.min(pin.ssn))
    }

    /// What a pinned state holds back is at most a quarter of either area.
    pub fn unpin_if_costly(&mut self) {
        if self.pin.is_none() {
            return;
        }
        let (mut log, mut data) = (0_u64, 0_u64);
        for run in self.space.pending.iter().flat_map(|(_, runs)| runs) {
            match self.io.sb.data_index(run.address) {
                Some(_) => data = data.saturating_add(run.len),
                None => log = log.saturating_add(run.len),
            }
        }
        let sb = &self.io.sb;
        if log > sb.log_fragments / 4 || data > sb.data_blocks().saturating_mul(sb.per_block()) / 4 {
            self.unpin();
        }
    }

    /// Makes sure that there are data blocks for contents; returns how many there are, at most as many as wanted.
    pub fn admit_data(&mut self, wanted: u64, now: Time) -> Result<u64> {
        if self.io.all_in_log {
            // There was room for it in the log.
            return Ok(wanted);
        }
        for _ in 0..3 {
            let has_pending = self.space.pending.iter().any(|(_, runs)| !runs.is_empty())
                || !self.io.freed.borrow().is_empty();
            if self.space.data_left() >= wanted || !has_pending {
                break;
            }
            self.unpin();
            self.commit(now, Commit::Forced)?;
        }
        Ok(self.space.data_left().min(wanted))
    }
}
