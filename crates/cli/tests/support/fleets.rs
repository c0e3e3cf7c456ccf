// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fleets of small images, for tests.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use fsmend_testkit::host;
use serde_json::Value;

use super::images::{Folder, prepared, stderr, stdout};

/// So many images `v0.img`, `v1.img` and so on.
pub struct Fleet {
    pub folder: Folder,
    count: usize,
}

impl Fleet {
    pub fn new(name: &str, count: usize) -> Fleet {
        let folder = Folder::new(&format!("fleet-{name}"));
        let first = folder.image("v0.img", &[]);
        for number in 1..count {
            fs::copy(&first, folder.path(&format!("v{number}.img"))).unwrap();
        }
        Fleet { folder, count }
    }

    pub fn image(&self, number: usize) -> PathBuf {
        self.folder.path(&format!("v{number}.img"))
    }

    /// A list of all images, each with its options.
    pub fn list(&self, options: impl Fn(usize) -> String) -> PathBuf {
        let line = |number: usize| {
            let (target, options) = (self.image(number), options(number));
            format!(
                "{{\"id\":\"v{number}\",\"target\":\"{}\",\"size\":8388608,\"options\":{options}}}\n",
                target.display()
            )
        };
        let path = self.folder.path("list.jsonl");
        fs::write(&path, (0..self.count).map(line).collect::<String>()).unwrap();
        path
    }

    /// Plans a run and returns its folder.
    pub fn plan(&self, arguments: &[&str], options: impl Fn(usize) -> String) -> String {
        let (list, run) = (self.list(options), self.folder.path("run"));
        let (list, run) = (list.to_str().unwrap(), run.to_str().unwrap().to_owned());
        let done = fleet(&[&["plan", list, "--run", &run], arguments].concat());
        assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
        run
    }

    /// The merged report.
    pub fn merged(&self, run: &str) -> Value {
        let done = fleet(&["merge", "--run", run, "--format", "json"]);
        serde_json::from_str(&stdout(&done)).unwrap()
    }

    /// The ids of the merged records; no id may be there twice.
    pub fn ids(&self, run: &str) -> BTreeSet<String> {
        let records = self.folder.path("records.jsonl");
        fleet(&["merge", "--run", run, "--records", records.to_str().unwrap()]);
        let mut ids = BTreeSet::new();
        for line in fs::read_to_string(&records).unwrap().lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            assert!(ids.insert(record["id"].as_str().unwrap().to_owned()), "{} is there twice", record["id"]);
        }
        ids
    }

    fn attempts(run: &str) -> Vec<PathBuf> {
        let shards = fs::read_dir(PathBuf::from(run).join("records")).unwrap();
        let files = shards.flat_map(|shard| fs::read_dir(shard.unwrap().path()).unwrap());
        let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    }

    /// Whether the last attempt has just begun with a volume.
    pub fn began(&self, run: &str, id: &str) -> bool {
        let Some(last) = Self::attempts(run).pop() else { return false };
        fs::read_to_string(last).unwrap().lines().last() == Some(&format!("{{\"begin\":\"{id}\"}}"))
    }
}

/// Runs `fsmend fleet`.
pub fn fleet(arguments: &[&str]) -> Output {
    ready(prepared(env!("CARGO_BIN_EXE_fsmend"))).arg("fleet").args(arguments).output().unwrap()
}

/// `command` as it runs outside of any engine.
pub fn ready(mut command: Command) -> Command {
    for name in
        ["SLURM_CPUS_PER_TASK", "SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURMD_NODENAME", "NODE_NAME"]
    {
        command.env_remove(name);
    }
    command
}

/// The processes that `process` has started.
pub fn children_of(process: u32) -> Vec<u32> {
    let told = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    told.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// Sends a signal.
pub fn kill(process: u32, signal: &str) {
    let _ = host::run("kill", [signal, &process.to_string()]);
}
