// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench fleet`: what planning and merging a hundred thousand volumes takes, without a volume behind them.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use fsmend_testkit::fleet::{Shape, write_list, write_records};
use fsmend_testkit::process::{Ended, Limits, run_limited};
use fsmend_testkit::target_folder;

use super::Options;
use super::check::build;

const VOLUMES: usize = 100_000;
const SHARDS: &str = "500";

/// What a merge may take.
const PEAK_MAX: u64 = 256 << 20;
const SECONDS_MAX: f64 = 10.0;

/// Measures, prints, and fails where the limits are not kept.
pub fn run(options: &Options) -> io::Result<()> {
    if options.build {
        build()?;
    }
    let fsmend = target_folder().join("release/fsmend");
    let folder = std::env::temp_dir().join(format!("fsmend-bench-fleet-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let done = measured(&fsmend, &folder, options.runs);
    fs::remove_dir_all(&folder)?;
    done
}

fn measured(fsmend: &Path, folder: &Path, runs: usize) -> io::Result<()> {
    let list = folder.join("list.jsonl");
    write_list(&list, VOLUMES)?;
    println!("{VOLUMES} volumes in {SHARDS} shards, medians of {runs} runs\n");
    println!("| what | seconds | peak MiB |\n|---|---|---|");
    let mut within = true;
    for (name, damaged_one_in) in [("1 % damaged", 100), ("all damaged", 1)] {
        let run = folder.join(format!("run-{damaged_one_in}"));
        let mut plan = Command::new(fsmend);
        plan.args(["fleet", "plan", "--shards", SHARDS, "--run"]).arg(&run).arg(&list);
        let (seconds, peak) = measured_run(plan)?;
        println!("| plan | {seconds:.2} | {} |", peak >> 20);
        let bytes = write_records(&run, Shape { damaged_one_in, problems: 5, twice_one_in: 50 }, 7)?;
        println!("| {name}: {} MB of records | | |", bytes / 1_000_000);
        for format in ["text", "json", "html"] {
            let mut samples = Vec::new();
            for _ in 0..runs {
                let mut merge = Command::new(fsmend);
                merge.args(["fleet", "merge", "--format", format, "--run"]).arg(&run);
                samples.push(measured_run(merge)?);
            }
            samples.sort_by(|one, other| one.0.total_cmp(&other.0));
            let peak = samples.iter().map(|sample| sample.1).max().unwrap_or(0);
            let seconds = samples[samples.len() / 2].0;
            println!("| merge, {format} | {seconds:.2} | {} |", peak >> 20);
            within &= peak <= PEAK_MAX && seconds <= SECONDS_MAX;
        }
    }
    match within {
        true => Ok(()),
        false => Err(io::Error::other(format!("more than {SECONDS_MAX} s or {} MiB", PEAK_MAX >> 20))),
    }
}

/// Seconds and peak memory of a run that ends with 0 or 4.
fn measured_run(command: Command) -> io::Result<(f64, u64)> {
    let run = run_limited(command, Limits::default())?;
    match run.ended {
        Ended::Code(0 | 4) => Ok((run.took.as_secs_f64(), run.peak_memory)),
        other => Err(io::Error::other(format!("{other:?}: {}", String::from_utf8_lossy(&run.stderr)))),
    }
}
