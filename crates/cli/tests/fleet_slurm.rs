// SPDX-License-Identifier: MIT OR Apache-2.0
//! A fleet on a real Slurm, from Debian's packages: a node is lost in the middle, then the controller with all it knew, and every volume is
//! in the report once.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/fleets.rs"]
mod fleets;
#[path = "support/images.rs"]
mod images;
#[path = "support/slurm.rs"]
mod slurm;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use fleets::{Fleet, fleet, ready};
use fsmend_testkit::host;
use images::{code, have_root, prepared, stderr, stdout};
use serde_json::Value;
use slurm::Slurm;

/// The longest wait for all volumes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes a second at which a check of these images takes the better part of a second.
const SLOWLY: &str = r#"{"read_limit": 40000}"#;

const TEST: &str = "fleet: real Slurm";

fn submit(slurm: &Slurm, run: &str) -> String {
    let mut command = ready(prepared(env!("CARGO_BIN_EXE_fsmend")));
    let done =
        slurm.of(&mut command).args(["fleet", "submit", "--engine", "slurm", "--run", run]).output().unwrap();
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    stdout(&done)
}

fn status(run: &str) -> Value {
    serde_json::from_str(&stdout(&fleet(&["status", "--run", run, "--format", "json"]))).unwrap()
}

fn wait_for(what: &str, run: &str, mut is_so: impl FnMut(&Value) -> bool) {
    let started = Instant::now();
    loop {
        let status = status(run);
        if is_so(&status) {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "no {what}: {status}\n{}", logs(run));
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn logs(run: &str) -> String {
    let files = fs::read_dir(Path::new(run).join("logs")).unwrap();
    files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap_or_default()).collect()
}

fn is_complete(status: &Value) -> bool {
    status["recorded"] == status["planned"]
}

/// Nodes that have begun with a volume and not finished it.
fn at_work(status: &Value) -> Vec<String> {
    let shards = status["shards"].as_array().unwrap().iter();
    let begun = shards.flat_map(|shard| shard["begun"].as_array().unwrap());
    begun.map(|begun| begun["node"].as_str().unwrap().to_owned()).collect()
}

fn all_once(fleet_of: &Fleet, run: &str, count: usize) {
    let merged = fleet_of.merged(run);
    assert_eq!(merged["totals"]["sound"], count, "{merged}");
    assert_eq!((&merged["exit_code"], &merged["totals"]["missing"]), (&0.into(), &0.into()));
    assert_eq!(fleet_of.ids(run).len(), count);
}

#[test]
fn a_lost_node_costs_no_volume() {
    if !have_root(TEST, &[&slurm::PROGRAMS[..], &["mke2fs", "debugfs"]].concat()) {
        return;
    }
    let mut slurm = match Slurm::start("fleet-slurm") {
        Ok(slurm) => slurm,
        Err(why) => return host::skip(TEST, &why),
    };
    let fleet_of = Fleet::new("slurm-images", 12);
    let run = fleet_of.plan(&["--shards", "6"], |_| SLOWLY.to_owned());
    assert!(submit(&slurm, &run).ends_with(": 6 shards\n"));
    let both = |status: &Value| ["n1", "n2"].iter().all(|node| at_work(status).iter().any(|at| at == node));
    wait_for("work on both nodes", &run, both);
    slurm.lose_node(0);
    // Nothing is asked of Slurm, which still believes in the node: what has no record is submitted again.
    assert!(!is_complete(&status(&run)));
    submit(&slurm, &run);
    wait_for("records of all volumes", &run, is_complete);
    all_once(&fleet_of, &run, 12);
    assert_eq!(submit(&slurm, &run), "", "nothing is left");
}

#[test]
fn a_controller_without_memory_costs_no_volume() {
    if !have_root(TEST, &[&slurm::PROGRAMS[..], &["mke2fs", "debugfs"]].concat()) {
        return;
    }
    let mut slurm = match Slurm::start("fleet-slurm-controller") {
        Ok(slurm) => slurm,
        Err(why) => return host::skip(TEST, &why),
    };
    let fleet_of = Fleet::new("slurm-controller-images", 8);
    let run = fleet_of.plan(&["--shards", "8"], |_| SLOWLY.to_owned());
    let first = submit(&slurm, &run);
    slurm.lose_controller();
    assert!(!is_complete(&status(&run)), "it was lost in the middle");
    assert_eq!(
        submit(&slurm, &run).split(':').next(),
        first.split(':').next(),
        "it reuses the number of the job"
    );
    wait_for("records of all volumes", &run, is_complete);
    all_once(&fleet_of, &run, 8);
}
