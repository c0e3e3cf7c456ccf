// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorded run once more, in virtual time: the engine's own scheduler, with as many workers as we like and a device that we
//! make up. What is not in the model by itself: that cores share caches and memory, and are seldom as fast together as alone. By how much
//! that slows a run is measured, and put in with [`Run::slowed`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;

use fsmend_engine::pool::scheduler::{Order, Scheduler, Turn};
use fsmend_engine::pool::{Mode, Schedule, Stage};
use serde_json::Value;

/// The stages that run side by side, with the passes that they belong to. Every other part has one stage.
const SCAN: [Stage; 3] = [
    Stage { name: "inode tables", pass: 0 },
    Stage { name: "block maps", pass: 0 },
    Stage { name: "directories", pass: 1 },
];
const OTHER: [Stage; 1] = [Stage { name: "other", pass: 0 }];

/// A recorded run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Nanoseconds of work that only one worker can do.
    pub serial_ns: u64,
    /// The parts in which several can work, in order, each with its batches.
    pub parts: Vec<Vec<Batch>>,
}

/// A part of a trace in which several can work.
struct Part {
    /// When it ended.
    end: f64,
    /// What the worker who leads spent in it, batches and all. Of a run with one worker that is all of it.
    cpu_ns: u64,
    batches: Vec<Batch>,
}

impl Part {
    /// The batches, each with its share of what was spent between them: each worker hands in and takes its own.
    fn batches(self) -> Vec<Batch> {
        let mut batches = self.batches;
        let inside: u64 = batches.iter().map(|batch| batch.cpu_ns).sum();
        let share = self.cpu_ns.saturating_sub(inside) / (batches.len() as u64).max(1);
        batches.iter_mut().for_each(|batch| batch.cpu_ns += share);
        batches
    }
}

/// A batch of a recorded run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch {
    stage: usize,
    is_scan: bool,
    number: u64,
    parent: u64,
    units: u64,
    cpu_ns: u64,
    bytes: u64,
    requests: u64,
}

/// A device.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// What it is called.
    pub name: &'static str,
    /// Bytes per second; none: what is read is in memory already.
    pub bandwidth: Option<f64>,
    /// Nanoseconds until a request is answered.
    pub latency_ns: f64,
    /// Requests that it serves at the same time.
    pub queue_depth: f64,
}

impl Device {
    /// How long it is busy with what a batch reads.
    fn busy_ns(&self, batch: &Batch) -> f64 {
        let Some(bandwidth) = self.bandwidth else { return 0.0 };
        let transfer = batch.bytes as f64 / bandwidth * 1e9;
        transfer.max(batch.requests as f64 * self.latency_ns / self.queue_depth)
    }
}

impl Run {
    /// Reads a trace that `fsmend check --threads 1 --trace` has written, of one target.
    pub fn parse(document: &Value) -> io::Result<Run> {
        let broken = || io::Error::other("this is no trace of ours");
        let events = document["traceEvents"].as_array().ok_or_else(broken)?;
        let number = |event: &Value, name: &str| event["args"][name].as_u64().unwrap_or(0);
        let time = |event: &Value, name: &str| event[name].as_f64().unwrap_or(0.0);
        let of = |kind: &'static str| events.iter().filter(move |event| event["cat"] == kind);
        let cpu_ns = |event: &Value| (event["args"]["cpu_us"].as_f64().unwrap_or(0.0) * 1000.0) as u64;
        let part = |event: &Value| Part {
            end: time(event, "ts") + time(event, "dur"),
            cpu_ns: cpu_ns(event),
            batches: Vec::new(),
        };
        let mut parts: Vec<Part> = of("parallel").map(part).collect();
        parts.sort_by(|one, other| one.end.total_cmp(&other.end));
        for event in of("batch") {
            let name = event["name"].as_str().unwrap_or("");
            let stage = SCAN.iter().position(|stage| stage.name == name);
            let part = parts.iter_mut().find(|part| time(event, "ts") < part.end).ok_or_else(broken)?;
            part.batches.push(Batch {
                stage: stage.unwrap_or(0),
                is_scan: stage.is_some(),
                number: number(event, "number"),
                parent: number(event, "parent"),
                units: number(event, "units"),
                cpu_ns: cpu_ns(event),
                bytes: number(event, "bytes"),
                requests: number(event, "requests"),
            });
        }
        let serial_ns = document["otherData"]["targets"][0]["serial_cpu_ns"].as_u64().ok_or_else(broken)?;
        Ok(Run { serial_ns, parts: parts.into_iter().map(Part::batches).collect() })
    }

    /// The same, if everything that is done side by side takes so many times as long.
    pub fn slowed(&self, times: f64) -> Run {
        let mut run = self.clone();
        for batch in run.parts.iter_mut().flatten() {
            batch.cpu_ns = (batch.cpu_ns as f64 * times) as u64;
        }
        run
    }

    /// All work, in nanoseconds.
    pub fn work_ns(&self) -> u64 {
        self.serial_ns + self.parts.iter().flatten().map(|batch| batch.cpu_ns).sum::<u64>()
    }

    /// How long it takes so many workers, in nanoseconds.
    pub fn replay(&self, workers: usize, mode: Mode, device: &Device) -> f64 {
        let workers = mode.workers(workers);
        let parts = self.parts.iter().map(|part| Replay::new(part, mode, device).run(workers));
        self.serial_ns as f64 + parts.sum::<f64>()
    }
}

/// One parallel part in virtual time.
struct Replay<'r> {
    batches: &'r [Batch],
    /// Which batches a batch makes, by its number, in the order in which it made them.
    made_by: BTreeMap<u64, Vec<usize>>,
    scheduler: Scheduler<usize>,
    device: &'r Device,
    device_free: f64,
}

impl<'r> Replay<'r> {
    fn new(batches: &'r [Batch], mode: Mode, device: &'r Device) -> Self {
        let is_scan = batches.iter().any(|batch| batch.is_scan);
        let stages: &[Stage] = if is_scan { &SCAN } else { &OTHER };
        let scheduler = Scheduler::new(stages, Schedule { mode, ..Schedule::default() }, u64::MAX);
        let mut made_by: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let mut order: Vec<usize> = (0..batches.len()).collect();
        order.sort_by_key(|at| batches[*at].number);
        order.into_iter().for_each(|at| made_by.entry(batches[at].parent).or_default().push(at));
        Replay { batches, made_by, scheduler, device, device_free: 0.0 }
    }

    /// Nanoseconds until the last worker is done.
    fn run(mut self, workers: usize) -> f64 {
        self.push_made_by(0);
        let mut idle: Vec<usize> = (0..workers).collect();
        // Who ends when; ties in the order of the workers, so that the result is always the same.
        let mut busy: BinaryHeap<Reverse<(u64, usize, usize)>> = BinaryHeap::new();
        let mut orders: Vec<Option<(Order, u64)>> = vec![None; workers];
        let mut now = 0.0;
        loop {
            idle.retain(|worker| match self.scheduler.next(*worker, workers) {
                Turn::Work(order, at) => {
                    let end = self.end_of(at, now);
                    orders[*worker] = Some((order, (end - now) as u64));
                    busy.push(Reverse((end as u64, *worker, at)));
                    false
                }
                Turn::Wait | Turn::Done => true,
            });
            let Some(Reverse((end, worker, at))) = busy.pop() else { return now };
            now = end as f64;
            self.push_made_by(self.batches[at].number);
            if let Some((order, ns)) = orders[worker].take() {
                self.scheduler.finish(order, ns);
            }
            let place = idle.partition_point(|other| *other < worker);
            idle.insert(place, worker);
        }
    }

    fn push_made_by(&mut self, number: u64) {
        for at in self.made_by.remove(&number).unwrap_or_default() {
            let Batch { stage, units, .. } = self.batches[at];
            self.scheduler.push(stage, units, 0, number, at);
        }
    }

    /// When a batch that begins now ends: workers read ahead of themselves, so that the longer of reading and working counts; the
    /// device serves one after another.
    fn end_of(&mut self, at: usize, now: f64) -> f64 {
        let batch = &self.batches[at];
        let worked = now + batch.cpu_ns as f64;
        let busy = self.device.busy_ns(batch);
        if busy == 0.0 {
            return worked;
        }
        self.device_free = self.device_free.max(now) + busy;
        worked.max(self.device_free + self.device.latency_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: Device = Device { name: "memory", bandwidth: None, latency_ns: 0.0, queue_depth: 1.0 };

    /// So many inode tables, each of which makes directories that take twice as long.
    fn run(tables: u64, cpu_ns: u64) -> Run {
        let batch = Batch { is_scan: true, units: 10, cpu_ns, bytes: 1000, requests: 1, ..Batch::default() };
        let table = |number| Batch { number, ..batch };
        let directory =
            |parent| Batch { stage: 2, number: tables + parent, parent, cpu_ns: 2 * cpu_ns, ..batch };
        let batches = (1..=tables).map(table).chain((1..=tables).map(directory)).collect();
        Run { serial_ns: 100, parts: vec![batches] }
    }

    #[test]
    fn one_worker_takes_as_long_as_all_the_work() {
        let run = run(10, 1000);
        for mode in [Mode::Serial, Mode::Data, Mode::PipelineEqual, Mode::Dynamic] {
            assert_eq!(run.replay(1, mode, &MEMORY), run.work_ns() as f64, "{mode}");
        }
    }

    #[test]
    fn many_workers_share_it() {
        let run = run(64, 1000);
        let times = |workers| run.work_ns() as f64 / run.replay(workers, Mode::Dynamic, &MEMORY);
        assert!(times(2) > 1.95 && times(8) > 7.0, "{} {}", times(2), times(8));
        assert_eq!(run.replay(4, Mode::Dynamic, &MEMORY), run.replay(4, Mode::ResourceAware, &MEMORY));
        assert!(run.replay(2, Mode::PipelineEqual, &MEMORY) > run.replay(2, Mode::Dynamic, &MEMORY));
        assert_eq!(run.replay(8, Mode::Serial, &MEMORY), run.work_ns() as f64);
    }

    #[test]
    fn no_policy_is_faster_than_the_device() {
        let slow = Device { name: "slow", bandwidth: Some(1e6), latency_ns: 10.0, queue_depth: 8.0 };
        let run = run(64, 1000);
        // 128 batches of 1000 bytes, a microsecond each byte.
        assert!(run.replay(64, Mode::Dynamic, &slow) >= 128.0 * 1e6);
    }

    #[test]
    fn a_trace_becomes_a_run() {
        let batch = |name: &str, ts: f64, number: u64, parent: u64| {
            serde_json::json!({ "cat": "batch", "name": name, "ts": ts, "dur": 5.0,
                "args": { "number": number, "parent": parent, "units": 3, "cpu_us": 4.0, "bytes": 9, "requests": 1 } })
        };
        let parallel = |ts: f64, dur: f64, cpu_us: f64| serde_json::json!({ "cat": "parallel", "name": "x", "ts": ts, "dur": dur, "args": { "cpu_us": cpu_us } });
        let document = serde_json::json!({
            "traceEvents": [
                parallel(0.0, 20.0, 9.0), batch("inode tables", 1.0, 1, 0), batch("directories", 7.0, 2, 1),
                parallel(30.0, 10.0, 4.5), batch("bitmaps", 31.0, 1, 0),
            ],
            "otherData": { "targets": [{ "serial_cpu_ns": 77 }] },
        });
        let run = Run::parse(&document).expect("it is one");
        assert_eq!((run.serial_ns, run.parts.len(), run.work_ns()), (77, 2, 77 + 9000 + 4500));
        let costs: Vec<u64> = run.parts.iter().flatten().map(|batch| batch.cpu_ns).collect();
        assert_eq!(costs, [4500, 4500, 4500], "what was spent between batches is shared out");
        assert_eq!(run.slowed(1.5).work_ns(), 77 + 13_500 * 3 / 2);
        assert_eq!((run.parts[0][1].stage, run.parts[0][1].parent), (2, 1));
        assert!(Run::parse(&Value::Null).is_err());
    }
}
