// SPDX-License-Identifier: MIT OR Apache-2.0
//! How to check when nothing else is said.

use fsmend_device::ReadBackend;
use fsmend_engine::options::{CheckOptions, Meter, SuperblockOptions};
use fsmend_engine::pool::Schedule;

/// A check with so many workers and at most `memory` bytes, at second `now` since the epoch: the journal is replayed in memory, every
/// problem gets its path, and nothing is measured.
pub fn check_options(threads: usize, memory: u64, now: u64) -> CheckOptions {
    CheckOptions {
        threads: threads.max(1),
        memory,
        replay: true,
        superblock: SuperblockOptions::default(),
        external_journal: None,
        now,
        backend: ReadBackend::Auto,
        repair: None,
        meter: Meter::default,
        stage_clock: None,
        schedule: Schedule::default(),
        allowance: None,
        trace: None,
        want_all_paths: true,
    }
}
