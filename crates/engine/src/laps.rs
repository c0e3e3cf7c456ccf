// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the parts of a run cost: those that come one after the other, and stages that run side by side.

use std::sync::Arc;

use fsmend_device::{Counted, Device};

use crate::options::{CheckOptions, Meter};
use crate::pool::Stage;
use crate::report::StageStats;
use crate::trace::{Kind, Moment, Trace};

/// What one stage cost one worker, or all of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageCost {
    /// Records or blocks looked at.
    pub items: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Read requests.
    pub requests: u64,
    /// Nanoseconds of processor time.
    pub cpu_ns: u64,
    /// When its first batch began and its last one ended, by the clock of the run; `None` when nothing was measured.
    pub span: Option<(u64, u64)>,
    /// All batches but the first one of each worker, which also pays for memory that the worker touches for the first time.
    pub settled: Settled,
}

/// What batches cost that were measured for an estimate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settled {
    /// Work in them, in the units of the stage.
    pub units: u64,
    /// Nanoseconds of the workers, waiting included.
    pub wall_ns: u64,
    /// Nanoseconds of processor time.
    pub cpu_ns: u64,
}

impl StageCost {
    /// Adds what another worker spent.
    pub fn add(&mut self, other: StageCost) {
        self.items += other.items;
        self.bytes += other.bytes;
        self.requests += other.requests;
        self.cpu_ns += other.cpu_ns;
        self.settled.units += other.settled.units;
        self.settled.wall_ns += other.settled.wall_ns;
        self.settled.cpu_ns += other.settled.cpu_ns;
        let spans = self.span.into_iter().chain(other.span);
        self.span = spans.reduce(|one, two| (one.0.min(two.0), one.1.max(two.1)));
    }
}

/// Statistics of consecutive stages.
pub struct Laps<'t> {
    trace: Option<&'t Trace>,
    /// When the current phase began, if a trace is wanted.
    phase: Option<Moment>,
    meter: fn() -> Meter,
    device: Arc<Counted<Arc<dyn Device>>>,
    last: Meter,
    last_read: (u64, u64),
    stats: Vec<StageStats>,
}

impl<'t> Laps<'t> {
    /// The first part begins now.
    pub fn new(options: &'t CheckOptions, device: Arc<Counted<Arc<dyn Device>>>) -> Self {
        let trace = options.trace.as_deref();
        let (meter, phase) = (options.meter, trace.map(Trace::now));
        Laps { trace, phase, meter, device, last: meter(), last_read: (0, 0), stats: Vec::new() }
    }

    /// Writes down the phase that ends, and begins the next one.
    fn note(&mut self, name: &'static str) {
        if let (Some(trace), Some(start)) = (self.trace, self.phase) {
            trace.end(Kind::Phase, name, 0, start);
            self.phase = Some(trace.now());
        }
    }

    /// Ends a stage that ran by itself.
    pub fn lap(&mut self, name: &'static str, items: u64) {
        self.note(name);
        let (now, (bytes, requests)) = ((self.meter)(), self.device.total());
        self.stats.push(StageStats {
            name,
            wall_ns: now.wall_ns.saturating_sub(self.last.wall_ns),
            cpu_ns: now.cpu_ns.saturating_sub(self.last.cpu_ns),
            peak_memory: now.peak_memory,
            bytes_read: bytes.saturating_sub(self.last_read.0),
            requests: requests.saturating_sub(self.last_read.1),
            items,
        });
        (self.last, self.last_read) = (now, (bytes, requests));
    }

    /// Ends stages that ran side by side, each with its own account.
    pub fn side_by_side(&mut self, stages: &[Stage], costs: &[StageCost]) {
        self.note("scan");
        let now = (self.meter)();
        self.stats.extend(stages.iter().zip(costs).map(|(stage, cost)| StageStats {
            name: stage.name,
            wall_ns: cost.span.map_or(0, |(start, end)| end.saturating_sub(start)),
            cpu_ns: cost.cpu_ns,
            peak_memory: now.peak_memory,
            bytes_read: cost.bytes,
            requests: cost.requests,
            items: cost.items,
        }));
        (self.last, self.last_read) = (now, self.device.total());
    }

    /// What all parts have cost.
    pub fn take(&mut self) -> Vec<StageStats> {
        std::mem::take(&mut self.stats)
    }
}
