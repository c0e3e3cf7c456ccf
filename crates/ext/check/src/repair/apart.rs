// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mends that stay inside one inode group: worked out side by side, laid down in the order of the inodes.
//!
//! What such a mend reads is the overlay as everything before its kind has left it. Workers are given that to read and nothing to write to;
//! what they come to, they hand back. What several groups have a part in (free blocks and inodes, numbers of names, sums for quota) is seen to when
//! that is laid down, by one thread and in one order: so who has worked out what cannot show in a plan. Where two mends turn out to change the same
//! place, which only happens where there was no room to part them, the later one is worked out once more on what the first has left.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::AtomicBool;

use fsmend_base::InodeNo;
use fsmend_engine::pool::{self, Stage};

use super::RepairContext;
use crate::Fs;

/// Mends of one group that one worker takes at a time.
const MENDS_PER_PART: usize = 64;
/// One more worker for so many mends: to start one takes about as long as to work them out.
const MENDS_PER_WORKER: usize = 64;

/// What has to be written: byte offsets and bytes.
pub type Writes = BTreeMap<u64, Vec<u8>>;

impl RepairContext<'_> {
    /// Works out something for each of `items`, which come in the order of their inodes, with the file system as it is now; in that order.
    pub fn side_by_side<T: Sync, R: Send>(
        &self,
        stage: &'static [Stage; 1],
        items: &[T],
        inode_of: impl Fn(&T) -> InodeNo,
        work_out: impl Fn(&Fs<'_>, &T) -> R + Sync,
    ) -> Vec<R> {
        let group_of = |item: &T| self.fs.geometry.inode_place(inode_of(item)).map(|(group, _)| group);
        let groups = items.chunk_by(|a, b| group_of(a) == group_of(b));
        let parts: Vec<(usize, &[T])> =
            groups.flat_map(|group| group.chunks(MENDS_PER_PART)).enumerate().collect();
        let never = AtomicBool::new(false);
        let work = |done: &mut Vec<(usize, Vec<R>)>, parts: &[(usize, &[T])]| {
            let worked_out = parts
                .iter()
                .map(|(number, part)| (*number, part.iter().map(|item| work_out(&self.fs, item)).collect()));
            done.extend(worked_out);
        };
        let pool = self.pool.for_work(1 + items.len() / MENDS_PER_WORKER);
        let done = pool::run_slices(pool, stage, &parts, 1, &never, |_| Vec::new(), work);
        let mut done: Vec<_> = done.into_iter().flatten().collect();
        done.sort_unstable_by_key(|(number, _)| *number);
        done.into_iter().flat_map(|(_, results)| results).collect()
    }

    /// So many blocks may be held at a time by what was worked out and waits to be laid down.
    pub fn blocks_at_once(&self) -> usize {
        (WAITING_BYTES / self.fs.geometry.block_size as usize).max(1)
    }
}

/// Bytes of blocks that wait to be laid down.
const WAITING_BYTES: usize = 4 << 20;

/// Places that were written since mends were worked out.
#[derive(Default)]
pub struct Laid(HashSet<u64>);

impl Laid {
    /// Writes `bytes`, at a place that is the caller's.
    pub fn put(&mut self, context: &RepairContext<'_>, place: u64, bytes: Vec<u8>) {
        self.0.insert(place);
        context.overlay.put(place, bytes);
    }

    /// Whether something was written there.
    pub fn has(&self, place: u64) -> bool {
        self.0.contains(&place)
    }

    /// Writes all of `writes`; or what they come to by now, where one of the places has been written meanwhile.
    pub fn lay_or(
        &mut self,
        context: &RepairContext<'_>,
        writes: Writes,
        again: impl FnOnce(&Fs<'_>) -> Writes,
    ) {
        let is_stale = writes.keys().any(|place| self.has(*place));
        for (place, bytes) in if is_stale { again(&context.fs) } else { writes } {
            self.put(context, place, bytes);
        }
    }
}
