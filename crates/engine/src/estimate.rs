// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a check would take, told without one.

/// How long a run would take.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    /// Bytes that would be read.
    pub bytes: u64,
    /// Read requests.
    pub requests: u64,
    /// The run would take about this long.
    pub seconds: f64,
    /// The run would take at least this long.
    pub seconds_low: f64,
    /// The run would take at most this long.
    pub seconds_high: f64,
    /// What the estimate rests on, in a sentence.
    pub basis: String,
}
