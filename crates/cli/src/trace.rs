// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--trace`: what a run did when, in the trace event format of Chrome, which Perfetto and chrome://tracing open.
//!
//! Targets are processes, workers are threads. Batches, waits, merges and phases are complete events; phases hold parallel parts,
//! and these hold the batches of the worker that leads.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use fsmend_engine::Trace;
use fsmend_engine::trace::{Event, Kind, Serial};
use serde_json::{Value, json};

/// The traces of all targets, with their names, into one file.
pub fn write(path: &Path, traces: &[(String, Arc<Trace>)]) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    write_to(&mut out, traces)?;
    out.flush()
}

fn write_to(out: &mut impl Write, traces: &[(String, Arc<Trace>)]) -> io::Result<()> {
    let targets: Vec<_> = traces.iter().map(|(name, trace)| (name, trace.events())).collect();
    let start = targets.iter().flat_map(|(_, events)| events.first()).map(|event| event.start_ns).min();
    out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
    let mut separator = "\n";
    for (process, (name, events)) in targets.iter().enumerate() {
        let events_json = events.iter().map(|event| event_json(event, process, start.unwrap_or(0)));
        for line in names(name, process, events).into_iter().chain(events_json) {
            out.write_all(separator.as_bytes())?;
            serde_json::to_writer(&mut *out, &line)?;
            separator = ",\n";
        }
    }
    let summaries: Vec<Value> = targets.iter().map(|(name, events)| summary(name, events)).collect();
    writeln!(out, "\n],\"otherData\":{}}}", json!({ "version": 1, "targets": summaries }))
}

/// What the target and its workers are called.
fn names(target: &str, process: usize, events: &[Event]) -> Vec<Value> {
    let workers = events.iter().map(|event| event.worker + 1).max().unwrap_or(0);
    let name = |what: &str, worker: usize, name: String| json!({ "ph": "M", "name": what, "pid": process, "tid": worker, "args": { "name": name } });
    let mut names = vec![name("process_name", 0, target.to_owned())];
    names.extend((0..workers).map(|worker| name("thread_name", worker, format!("worker {worker}"))));
    names
}

fn event_json(event: &Event, process: usize, start_ns: u64) -> Value {
    let microseconds = |ns: u64| ns as f64 / 1000.0;
    let mut arguments = json!({ "cpu_us": microseconds(event.cpu_ns) });
    if event.kind == Kind::Batch {
        arguments = json!({
            "cpu_us": microseconds(event.cpu_ns),
            "number": event.number,
            "parent": event.parent,
            "units": event.work.units,
            "items": event.work.items,
            "bytes": event.work.bytes,
            "requests": event.work.requests,
        });
    }
    json!({
        "ph": "X",
        "name": event.name,
        "cat": event.kind.word(),
        "pid": process,
        "tid": event.worker,
        "ts": microseconds(event.start_ns.saturating_sub(start_ns)),
        "dur": microseconds(event.wall_ns),
        "args": arguments,
    })
}

fn summary(target: &str, events: &[Event]) -> Value {
    let serial = Serial::of(events);
    json!({
        "target": target,
        "batches_cpu_ns": serial.batches_ns,
        "between_cpu_ns": serial.between_ns,
        "serial_cpu_ns": serial.serial_ns,
        "serial_fraction": serial.fraction(),
    })
}
