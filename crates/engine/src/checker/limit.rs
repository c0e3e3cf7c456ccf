// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps that too many files share: when a scan has to begin again, and which maps are given up before it does ([`shared_maps`](crate::shared_maps)).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fsmend_base::InodeNo;
use fsmend_device::{Device, ReadError};

use super::scan::Run;
use super::{Checkable, InodeSummary, read_record};
use crate::Findings;
use crate::claims::{Claims, SharedBitmap, words_of};
use crate::shared_maps::{MapWalkLimiter, SharedMapInodes, is_too_many};

/// Bytes that count as one block of a map.
const BLOCK: u64 = 4096;
/// So many times the device is read for maps, or read again, before maps are given up. (The full check of an inode reads its map several times.)
const READ_TIMES_MAX: u64 = 4;

/// What a scan has done for maps.
pub struct Effort<'s> {
    claims: &'s Claims,
    /// Whether there is something to be done about too much of it.
    is_limited: bool,
    units: u64,
    bytes: u64,
    read: AtomicU64,
}

impl<'s> Effort<'s> {
    /// Nothing yet, in a scan of `volume` that begins again if it is too much.
    pub fn new<V: Checkable>(volume: &V, claims: &'s Claims, is_limited: bool) -> Self {
        let (units, bytes) = (volume.expected().units, volume.device().len());
        Effort { claims, is_limited, units, bytes, read: AtomicU64::new(0) }
    }

    /// Notes that so many bytes were read that an inode leads to.
    pub fn read(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Relaxed);
    }

    /// Whether it is too much. From then on it always is. A limiter that gives up no map would have to come to the same report: whatever it gives up is too much here, too.
    pub fn is_too_much(&self) -> bool {
        self.is_limited
            && (is_too_many(self.units, self.claims.repeated())
                || self.read.load(Relaxed) > self.bytes.saturating_mul(READ_TIMES_MAX))
    }
}

/// Gives up maps of `volume`, in the order of inodes.
pub fn limit_maps<V: Checkable>(volume: &V, shared: &SharedMapInodes, run: Run<'_>) {
    let limited = Limited::new(volume, run);
    let near = volume.on(&limited);
    let per_chunk = volume.inodes_per_chunk();
    let chunks = 0..volume.inodes_count().div_ceil(per_chunk.max(1));
    let inodes = chunks.flat_map(|chunk| {
        let first = chunk * per_chunk + volume.first_inode();
        (first..first + volume.scanned_in(chunk)).map(InodeNo)
    });
    for inode in inodes.take_while(|_| !run.cancel.load(Relaxed)) {
        let Some(record) = read_record(volume, inode) else { continue };
        limited.is_refused.store(false, Relaxed);
        let mut summary = InodeSummary::default();
        if !near.summarize(inode, &record, &mut summary) {
            summary = near.inspect(inode, &record, &mut Findings::new());
        }
        if limited.is_refused.load(Relaxed) || !limited.limiter().claims(&summary.units) {
            shared.add(inode);
        }
    }
}

/// A device that refuses to be read again too often.
struct Limited<'d> {
    below: &'d dyn Device,
    limiter: Mutex<MapWalkLimiter>,
    is_refused: AtomicBool,
}

impl<'d> Limited<'d> {
    fn new<V: Checkable>(volume: &'d V, run: Run<'_>) -> Self {
        let (below, units) = (volume.device(), volume.expected().units);
        let blocks = below.len().div_ceil(BLOCK);
        let walked = SharedBitmap::within(run.budget, blocks);
        let claimed = SharedBitmap::within(run.budget, units);
        volume.visit_static(&mut |first, count| {
            for (word, mask) in words_of(first, count, units) {
                claimed.set_word(word, mask);
            }
        });
        let limiter = MapWalkLimiter::new(walked, claimed, blocks.saturating_mul(READ_TIMES_MAX));
        Limited { below, limiter: Mutex::new(limiter), is_refused: AtomicBool::new(false) }
    }

    fn limiter(&self) -> MutexGuard<'_, MapWalkLimiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device for Limited<'_> {
    fn name(&self) -> &str {
        self.below.name()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let len = buf.len() as u64;
        let (first, end) = (offset / BLOCK, offset.saturating_add(len).div_ceil(BLOCK));
        if self.limiter().admits(first, end - first) {
            return self.below.read_at(offset, buf);
        }
        self.is_refused.store(true, Relaxed);
        Err(ReadError::io(offset, len, "read too often"))
    }
}
