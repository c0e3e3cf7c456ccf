// SPDX-License-Identifier: MIT OR Apache-2.0
//! `-t` and `-tt`: what a run cost.

use std::time::Instant;

use fsmend_engine::report::StageStats;

use crate::machine;

/// Measures a run from its beginning.
pub struct Stopwatch {
    started: Instant,
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Stopwatch { started: Instant::now() }
    }

    /// The closing lines: memory, time, bytes.
    pub fn lines(&self, bytes_read: u64, bytes_written: u64) -> String {
        let meter = machine::meter();
        let wall = self.started.elapsed().as_secs_f64();
        let cpu = meter.cpu_ns as f64 / 1e9;
        format!(
            "Memory used: {}k, time: {wall:5.2}/{cpu:5.2}\n{}",
            meter.peak_memory / 1024,
            io_line("", bytes_read, bytes_written, wall)
        )
    }
}

/// The lines of one pass for `-tt`: the stages that belong to it, added up.
pub fn pass_lines(pass: usize, stages: &[StageStats]) -> String {
    let own: Vec<&StageStats> = stages.iter().filter(|stage| pass_of(stage.name) == pass).collect();
    let sum = |value: fn(&StageStats) -> u64| own.iter().map(|stage| value(stage)).sum::<u64>();
    let wall = own.iter().map(|stage| stage.wall_ns).max().unwrap_or(0) as f64 / 1e9;
    let memory = own.iter().map(|stage| stage.peak_memory).max().unwrap_or(0);
    let cpu = sum(|stage| stage.cpu_ns) as f64 / 1e9;
    let label = format!("Pass {pass}: ");
    format!(
        "{label}Memory used: {}k, time: {wall:5.2}/{cpu:5.2}\n{}",
        memory / 1024,
        io_line(&label, sum(|stage| stage.bytes_read), 0, wall)
    )
}

/// The virtual pass that a stage is shown as.
fn pass_of(stage: &str) -> usize {
    match stage {
        "directories" | "suspects" => 2,
        "names" => 3,
        "links" => 4,
        "bitmaps" => 5,
        _ => 1,
    }
}

fn io_line(label: &str, read: u64, written: u64, seconds: f64) -> String {
    let megabytes = |bytes: u64| bytes.div_ceil(1 << 20);
    let rate = if seconds > 0.0 { (read + written) as f64 / f64::from(1 << 20) / seconds } else { 0.0 };
    format!("{label}I/O read: {}MB, write: {}MB, rate: {rate:.2}MB/s\n", megabytes(read), megabytes(written))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_belongs_to_one_pass() {
        let stage =
            |name, wall_ns, bytes_read| StageStats { name, wall_ns, bytes_read, ..StageStats::default() };
        let stages =
            [stage("opening", 1_000_000_000, 1 << 20), stage("inode tables", 2_000_000_000, 3 << 20)];
        let text = pass_lines(1, &stages);
        assert!(text.contains("Pass 1: I/O read: 4MB, write: 0MB, rate: 2.00MB/s"), "{text}");
        assert!(pass_lines(5, &stages).contains("rate: 0.00MB/s"));
    }

    #[test]
    fn the_run_as_a_whole() {
        let text = Stopwatch::start().lines(1, 0);
        assert!(text.starts_with("Memory used: ") && text.contains("I/O read: 1MB"), "{text}");
    }
}
