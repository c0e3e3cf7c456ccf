// SPDX-License-Identifier: MIT OR Apache-2.0
//! What engines have in common: shards grouped into jobs, scripts kept in the run folder, commands of the engine.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::error::Error;
use crate::run::RunFolder;

/// Jobs of one run that are kept, at most.
const KEPT_MAX: u32 = 100_000;

/// A job array or an Indexed Job: what is submitted at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its shards. The task with index 0 works on the first one.
    pub shards: Vec<usize>,
    /// The script or manifest.
    pub text: String,
}

/// Groups shards by node, and each group into pieces of at most `most`.
pub fn groups(folder: &RunFolder, shards: &[usize], most: usize) -> Vec<(Option<String>, Vec<usize>)> {
    let mut of_node: BTreeMap<Option<String>, Vec<usize>> = BTreeMap::new();
    for shard in shards {
        let node = folder.run.shards.get(*shard).and_then(|facts| facts.node.clone());
        of_node.entry(node).or_default().push(*shard);
    }
    let pieces = of_node.into_iter().flat_map(|(node, shards)| {
        let pieces: Vec<Vec<usize>> = shards.chunks(most.max(1)).map(<[usize]>::to_vec).collect();
        pieces.into_iter().map(move |piece| (node.clone(), piece))
    });
    pieces.collect()
}

/// Keeps the script of a job in the run folder, under a name that no other has. `name` is `slurm.sh` or the like.
pub fn keep(folder: &RunFolder, name: &str, text: &str) -> Result<PathBuf, Error> {
    let engine = folder.path().join("engine");
    fs::create_dir_all(&engine).map_err(|error| Error::io(&engine, &error))?;
    for number in 1..KEPT_MAX {
        let path = engine.join(format!("{number:04}-{name}"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io(&path, &error)),
            Ok(mut file) => {
                file.write_all(text.as_bytes()).map_err(|error| Error::io(&path, &error))?;
                return Ok(path);
            }
        }
    }
    Err(Error::Failed(format!("{}: more than {KEPT_MAX} jobs", engine.display())))
}

/// Notes a submission, for people: nothing here reads it again.
pub fn note(folder: &RunFolder, engine: &str, name: &str, job: &Job, now: u64) {
    let line = json!({"engine": engine, "job": name, "shards": crate::ranges::written(&job.shards), "submitted": now});
    let path = folder.path().join("engine").join("submitted.jsonl");
    let file = OpenOptions::new().append(true).create(true).open(path);
    // The engine has the job, whether there is a note or not.
    let _ = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
}

/// Runs a command of the engine; what it prints, or why it refused. What sounds as if it would pass is to be tried again.
pub fn call(command: &mut Command) -> Result<String, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| Error::Failed(format!("{program}: {error}")))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let passing = [
        "Unable to contact",
        "Socket timed out",
        "temporarily",
        "connection refused",
        "was refused",
        "i/o timeout",
    ];
    let text = format!("{program}: {}", said.lines().next_back().unwrap_or("no reason was given"));
    match passing.iter().any(|sign| said.contains(sign)) {
        true => Err(Error::Again(text)),
        false => Err(Error::Failed(text)),
    }
}
