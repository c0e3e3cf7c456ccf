// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench scaling`: what more cores than this machine has would bring. Records what batches cost, replays them through the
//! scheduler in virtual time, checks the prediction where it can be checked, and draws the curve beside the paper's figures.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fsmend_engine::pool::Mode;
use fsmend_testkit::host::command;
use serde_json::Value;

use super::check::build;
use super::images::make_all;
use super::measure::load_average;
use super::replay::{Device, Run};
use super::{Options, curve, report};
use crate::workspace;

/// Numbers of workers in the tables.
const WORKERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// A prediction may differ from reality by this part of it.
const TOLERANCE: f64 = 0.10;
/// How much of the work may be serial.
const SERIAL_MAX: f64 = 0.03;
/// What we want at [`AIM_WORKERS`] workers, as times one worker.
const AIM: f64 = 12.0;
const AIM_WORKERS: usize = 16;

const MEMORY: Device = Device { name: "cached", bandwidth: None, latency_ns: 0.0, queue_depth: 1.0 };
/// The devices of the curves: nothing to read; the paper's NVMe disk (2 GB/s) and its SATA disk (350 MB/s).
const DEVICES: [Device; 3] = [
    MEMORY,
    Device { name: "NVMe, 2 GB/s", bandwidth: Some(2e9), latency_ns: 80_000.0, queue_depth: 64.0 },
    Device { name: "SATA, 350 MB/s", bandwidth: Some(350e6), latency_ns: 120_000.0, queue_depth: 32.0 },
];
/// The rows of the paper's Table 3.
const MODES: [Mode; 6] = [
    Mode::Data,
    Mode::PipelineEqual,
    Mode::Pipeline(3, 1),
    Mode::Pipeline(1, 3),
    Mode::Dynamic,
    Mode::ResourceAware,
];

/// What one image showed.
pub struct Recorded {
    /// The image.
    pub image: &'static str,
    /// The run whose work is the median.
    run: Run,
    /// Measured seconds with one worker and with two, in the median.
    measured: [f64; 2],
    /// How many times the processor time it takes one worker when another run, of a worker by itself, goes on beside it, in the median:
    /// what cores that share memory cost each other.
    sharing: f64,
    /// What was predicted from a run divided by what was measured right behind it, less 1, for one worker and for two, in the median:
    /// the machine's moods come and go, and would else count as errors.
    errors: [f64; 2],
}

/// Records, replays and writes `docs/bench/scaling.{md,svg}` (not when only one image was wanted).
pub fn run(options: &Options) -> io::Result<()> {
    if options.build {
        build()?;
    }
    let fsmend = fsmend_testkit::target_folder().join("release/fsmend");
    let load = load_average();
    let mut all = Vec::new();
    for (image, path) in make_all(&options.cache, options.only.as_deref())? {
        if options.only.as_ref().is_none_or(|only| only == image.name) {
            all.push(record(&fsmend, image.name, &path, options.runs)?);
        }
    }
    let text = tables(&all, load);
    println!("{text}");
    if options.only.is_none() {
        let folder = workspace()?.join("docs/bench");
        fs::write(folder.join("scaling.md"), &text)?;
        fs::write(folder.join("scaling.svg"), curve::draw(&curves(&all), AIM_WORKERS, AIM))?;
    }
    let wrong = all.iter().filter(|recorded| recorded.errors.iter().any(|error| error.abs() > TOLERANCE));
    let wrong: Vec<&str> = wrong.map(|recorded| recorded.image).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "predictions differ by more than {:.0} % for {}",
        TOLERANCE * 100.0,
        wrong.join(", ")
    )))
}

/// Measures and records in turn. The recorded run is the one whose work is the median.
fn record(fsmend: &Path, image: &'static str, path: &Path, runs: usize) -> io::Result<Recorded> {
    println!("{image}");
    wall(fsmend, path, 1)?;
    let (mut recorded, mut seconds) = (Vec::new(), [Vec::new(), Vec::new()]);
    let (mut errors, mut sharings) = ([Vec::new(), Vec::new()], Vec::new());
    for _ in 0..runs {
        let run = traced(fsmend, path)?;
        let alone = wall(fsmend, path, 1)?;
        let sharing = cpu_beside_another(fsmend, path)? / alone.cpu;
        let measured = [alone.wall, wall(fsmend, path, 2)?.wall];
        for (at, measured) in measured.into_iter().enumerate() {
            errors[at].push(predicted(&run, at + 1, sharing) / measured - 1.0);
            seconds[at].push(measured);
        }
        sharings.push(sharing);
        recorded.push(run);
    }
    recorded.sort_by_key(Run::work_ns);
    let run = recorded.swap_remove(recorded.len() / 2);
    Ok(Recorded {
        image,
        run,
        measured: seconds.map(median),
        sharing: median(sharings),
        errors: errors.map(median),
    })
}

/// Seconds that one or two workers will take, where two share memory.
fn predicted(run: &Run, workers: usize, sharing: f64) -> f64 {
    let slower = if workers > 1 { run.slowed(sharing) } else { run.clone() };
    slower.replay(workers, Mode::Dynamic, &MEMORY) / 1e9
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or(0.0)
}

/// What a run took, without the start of the process, in seconds.
struct Took {
    wall: f64,
    cpu: f64,
}

fn wall(fsmend: &Path, image: &Path, threads: usize) -> io::Result<Took> {
    took(&plain(fsmend, image, threads).output()?.stdout)
}

fn plain(fsmend: &Path, image: &Path, threads: usize) -> Command {
    let mut check = command(&fsmend.to_string_lossy());
    check.args(["check", "--format", "json", "--stats", "--threads", &threads.to_string()]).arg(image);
    check
}

fn took(output: &[u8]) -> io::Result<Took> {
    let document: Value = serde_json::from_slice(output)?;
    let stats = &document["stats"];
    let wall = stats["wall_ns"].as_u64();
    let stages = stats["stages"].as_array();
    let cpu = stages.map(|stages| stages.iter().filter_map(|stage| stage["cpu_ns"].as_u64()).sum::<u64>());
    let both = wall.zip(cpu).map(|(wall, cpu)| Took { wall: wall as f64 / 1e9, cpu: cpu as f64 / 1e9 });
    both.ok_or_else(|| io::Error::other("the report tells no time"))
}

/// Processor time of a run with one worker while another one goes on, which shares nothing with it but the machine: the mean of both.
fn cpu_beside_another(fsmend: &Path, image: &Path) -> io::Result<f64> {
    let start = || plain(fsmend, image, 1).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let both = [start()?, start()?].map(Child::wait_with_output);
    let mut sum = 0.0;
    for output in both {
        sum += took(&output?.stdout)?.cpu / 2.0;
    }
    Ok(sum)
}

fn traced(fsmend: &Path, image: &Path) -> io::Result<Run> {
    let trace = trace_file();
    let mut check = command(&fsmend.to_string_lossy());
    let output =
        check.args(["check", "--quiet", "--threads", "1", "--trace"]).arg(&trace).arg(image).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let document = fs::read(&trace)?;
    let _ = fs::remove_file(&trace);
    Run::parse(&serde_json::from_slice(&document)?)
}

fn trace_file() -> PathBuf {
    std::env::temp_dir().join(format!("fsmend-bench-trace-{}.json", std::process::id()))
}

impl Recorded {
    fn seconds(&self, workers: usize, mode: Mode, device: &Device) -> f64 {
        self.run.replay(workers, mode, device) / 1e9
    }

    fn times(&self, workers: usize, mode: Mode, device: &Device) -> f64 {
        self.seconds(1, mode, device) / self.seconds(workers, mode, device)
    }

    fn serial_fraction(&self) -> f64 {
        self.run.serial_ns as f64 / self.run.work_ns().max(1) as f64
    }
}

fn curves(all: &[Recorded]) -> Vec<(String, Vec<(usize, f64)>)> {
    let curve = |recorded: &Recorded| {
        WORKERS.map(|workers| (workers, recorded.times(workers, Mode::Dynamic, &MEMORY))).to_vec()
    };
    all.iter().map(|recorded| (recorded.image.to_owned(), curve(recorded))).collect()
}

fn tables(all: &[Recorded], load: Option<f64>) -> String {
    let mut text = String::from(
        "# Beyond this machine\n\nMade by `cargo xtask bench scaling`: the batches of real runs with one worker, replayed through the engine's own scheduler\n\
         in virtual time.\n\n",
    );
    for (name, value) in report::machine() {
        let _ = writeln!(text, "- {name}: {value}");
    }
    let _ =
        writeln!(text, "- load before: {}\n", load.map_or("unknown".to_owned(), |load| format!("{load:.1}")));
    text.push_str(&against_reality(all));
    text.push_str(&by_workers(all));
    text.push_str(&by_mode(all));
    text.push_str(PAPER);
    text
}

fn against_reality(all: &[Recorded]) -> String {
    let mut text = format!(
        "## Prediction and reality\n\nWarm, medians; by how much a prediction is off is the median, too, of predictions and what was measured right behind them. A prediction has to be within {:.0} % of what is measured; the part of the work that only one worker can do\n\
         has to be at most {:.0} %. Two workers share memory: by how much the processor time of a run with one worker grows when another such run, which shares nothing else with it,\n\
         goes on beside it is measured, too, and counts in the prediction for two.\n\n\
         | image | 1 worker: measured | predicted | off by | 2 workers: measured | predicted | off by | dearer beside another | serial part |\n|---|---|---|---|---|---|---|---|---|\n",
        TOLERANCE * 100.0,
        SERIAL_MAX * 100.0
    );
    for recorded in all {
        let cells: Vec<String> = [0, 1]
            .map(|at| {
                let predicted = predicted(&recorded.run, at + 1, recorded.sharing);
                let (measured, error) = (recorded.measured[at], recorded.errors[at] * 100.0);
                format!("{:.0} ms | {:.0} ms | {error:+.0} %", measured * 1e3, predicted * 1e3)
            })
            .into();
        let serial = recorded.serial_fraction();
        let verdict = if serial <= SERIAL_MAX { "" } else { ", too much" };
        let _ = writeln!(
            text,
            "| {} | {} | {:+.0} % | {:.1} %{verdict} |",
            recorded.image,
            cells.join(" | "),
            (recorded.sharing - 1.0) * 100.0,
            serial * 100.0
        );
    }
    text + "\n"
}

fn by_workers(all: &[Recorded]) -> String {
    let mut text = format!(
        "## More workers\n\nPredicted, schedule `dynamic`, as if memory grew with the cores: times one worker (and milliseconds). Aim: {AIM:.0} times with {AIM_WORKERS} workers.\n\n| image | device |"
    );
    text.push_str(&WORKERS.map(|workers| format!(" {workers} |")).concat());
    text.push_str("\n|---|---|");
    text.push_str(&WORKERS.map(|_| "---|").concat());
    text.push('\n');
    for recorded in all {
        for device in &DEVICES {
            let _ = write!(text, "| {} | {} |", recorded.image, device.name);
            for workers in WORKERS {
                let times = recorded.times(workers, Mode::Dynamic, device);
                let ms = recorded.seconds(workers, Mode::Dynamic, device) * 1e3;
                let _ = write!(text, " {times:.1} ({ms:.1}) |");
            }
            text.push('\n');
        }
    }
    text + "\n![Times one worker, by number of workers](scaling.svg)\n\n"
}

fn by_mode(all: &[Recorded]) -> String {
    let mut text = format!(
        "## The paper's modes\n\nPredicted times one worker with {AIM_WORKERS} workers, nothing to read: Table 3 of the paper again. (Nothing is shared\n\
         that would slow data parallelism down as it does there: what it loses here it loses at the barriers.)\n\n| image |"
    );
    text.push_str(&MODES.map(|mode| format!(" {mode} |")).concat());
    text.push_str("\n|---|");
    text.push_str(&MODES.map(|_| "---|").concat());
    text.push('\n');
    for recorded in all {
        let _ = write!(text, "| {} |", recorded.image);
        for mode in MODES {
            let seconds = recorded.seconds(AIM_WORKERS, mode, &MEMORY);
            let _ = write!(text, " {:.1} |", recorded.seconds(1, mode, &MEMORY) / seconds);
        }
        text.push('\n');
    }
    text + "\n"
}

/// What the paper has beside it.
const PAPER: &str = "## The paper's figures

pFSCK (FAST '21), Figures 5 and 6: times vanilla e2fsck on the paper's machine (64 cores, NVMe, 50 million inodes). Read off what its text says of the figures
(§6.2 and §6.3), not off the bars. Ours above are times *our own* run with one worker, which is many times e2fsck already ([check.md](check.md)).

| configuration | data parallelism, best at 4 threads (Figure 5) | with pipeline and scheduler, best of up to 16 threads (Figure 6) |
|---|---|---|
| file-intensive | 1.9 | 2.6 |
| 25 % directories | 2.0 | 2.7 |
| 50 % directories | 1.4 | 1.6 |
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_hold_every_image_and_mode() {
        let recorded = Recorded {
            image: "some",
            run: Run::default(),
            measured: [1.0, 1.0],
            sharing: 1.1,
            errors: [0.0, 0.0],
        };
        let text = tables(&[recorded], Some(0.1));
        let rows = text.lines().filter(|line| line.starts_with("| some |")).count();
        assert_eq!(rows, 1 + DEVICES.len() + 1);
        assert!(MODES.iter().all(|mode| text.contains(&mode.to_string())));
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
