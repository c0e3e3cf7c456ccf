// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clocks, which are passed in: nothing here reads one by itself.

/// The clocks of a run. They are read once before and once after a batch.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Nanoseconds gone by, from any fixed point.
    pub wall: fn() -> u64,
    /// Nanoseconds of processor time that the calling thread has used.
    pub thread_cpu: fn() -> u64,
}
