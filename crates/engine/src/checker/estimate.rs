// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a check would take: a sample of the table of inodes is read, and what that took is scaled to all that a check reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_device::Device;

use super::{Checkable, Checker, Family, InodeSummary, neighbours};
use crate::format::Volume;
use crate::options::CheckOptions;
use crate::{Estimate, Findings, Refusal};

/// Bytes of one read of the sample.
const READ: usize = 256 << 10;
/// Reads of the sample, spread over all chunks.
const READS: u64 = 64;
/// The sample ends after so many nanoseconds.
const PATIENCE: u64 = 500_000_000;
/// A directory is read by so many bytes on average, and costs so many requests.
const DIRECTORY_BYTES: u64 = 4096;
/// The estimate may be off by this factor either way.
const UNCERTAINTY: f64 = 2.0;
/// What a run takes beside its reads, in seconds.
const RUN_SECONDS: f64 = 0.002;

impl<F: Family> Checker<F> {
    /// How long a check of the file system on `device` would take. Reads for at most half a second.
    pub fn estimate(
        &self,
        device: &Arc<dyn Device>,
        options: &CheckOptions,
        cancel: &AtomicBool,
    ) -> Result<Estimate, Refusal> {
        let layout = self.0.open(&**device, (options, &super::nothing_kept()), &mut Findings::new())?;
        let volume = self.0.volume(layout, &**device);
        let expected = volume.expected();
        let now = || options.stage_clock.map_or(0, |clock| (clock.wall)());
        let started = now();
        let (mut read, mut tried) = (0u64, 0u64);
        let chunks = volume.inodes_count().div_ceil(volume.inodes_per_chunk().max(1));
        let in_use: Vec<_> = (0..chunks).flat_map(|chunk| neighbours(&volume, chunk)).collect();
        let step = (in_use.len() as u64 / READS).max(1) as usize;
        let mut summary = InodeSummary::default();
        for near in in_use.iter().step_by(step) {
            if cancel.load(Relaxed) {
                return Err(Refusal::stopped());
            }
            if tried > 0 && now().saturating_sub(started) > PATIENCE {
                break;
            }
            let size = volume.record_bytes();
            let mut bytes = vec![0; (near.count * size).min(READ / size * size)];
            if device.read_at(near.place, &mut bytes).is_ok() {
                for (record, inode) in bytes.chunks_exact(size).zip(near.first.0..) {
                    volume.summarize(fsmend_base::InodeNo(inode), record, &mut summary);
                }
            }
            read += bytes.len() as u64;
            tried += 1;
        }
        let took = now().saturating_sub(started) as f64 / 1e9;
        let bytes = expected.to_read + expected.directories * DIRECTORY_BYTES;
        let workers = options.threads.max(1) as f64;
        let seconds = RUN_SECONDS + took * bytes as f64 / read.max(1) as f64 / workers;
        Ok(Estimate {
            bytes,
            requests: bytes / READ as u64 + 2 * expected.directories,
            seconds,
            seconds_low: seconds / UNCERTAINTY,
            seconds_high: seconds * UNCERTAINTY,
            basis: format!("a trial of {tried} of {} groups with inodes in use", in_use.len()),
        })
    }
}
