// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kubernetes: an Indexed Job for each node's shards, or for all that any node can open, as manifests for `kubectl create`.

use std::path::Path;
use std::process::Command;

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;

use crate::engine::{self, Job};
use crate::error::Error;
use crate::ranges;
use crate::run::RunFolder;

/// Completions of one Job: thousands of them have choked nodes.
pub const COMPLETIONS_MAX: usize = 1000;

/// Pods at the same time, where nothing is said.
const PARALLEL: u32 = 10;

const TEMPLATE: &str = include_str!("job.yaml");

/// How jobs are submitted.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Container image.
    pub image: String,
    /// Namespace.
    pub namespace: Option<String>,
    /// Claim with the run folder.
    pub run_claim: String,
    /// Where the run folder lies in it.
    pub run_path: String,
    /// Claims with images, and where they are mounted.
    pub claims: Vec<Claim>,
    /// Claims of block devices, and what they are called.
    pub devices: Vec<Claim>,
    /// Completions of a Job, at most.
    pub array_max: usize,
    /// Pods at the same time, at most.
    pub parallel: Option<u32>,
    /// Whether volumes are checked again that could not be checked.
    pub retry: bool,
}

/// A PersistentVolumeClaim and its place in the container.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub claim: String,
    /// Its place.
    pub path: String,
}

impl Claim {
    /// Reads `CLAIM=/PATH`.
    pub fn parse(text: &str) -> Result<Claim, Error> {
        match text.split_once('=') {
            Some((claim, path)) if is_name(claim) && path.starts_with('/') => {
                Ok(Claim { claim: claim.to_owned(), path: path.to_owned() })
            }
            _ => Err(Error::Usage(format!("expected CLAIM=/PATH, not {text:?}"))),
        }
    }
}

/// Whether `text` can be the name of an object.
pub fn is_name(text: &str) -> bool {
    let is_fine =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter);
    !text.is_empty() && text.len() <= 253 && text.chars().all(is_fine) && !text.starts_with(['-', '.'])
}

/// The manifests for these shards, submitted at `now`, in seconds since 1970: no two of a run have the same name.
pub fn jobs(folder: &RunFolder, shards: &[usize], settings: &Settings, now: u64) -> Result<Vec<Job>, Error> {
    let groups = engine::groups(folder, shards, settings.array_max);
    let job = |(number, (node, shards)): (usize, (Option<String>, Vec<usize>))| {
        let name = format!("fsmend-{}-{now:x}-{number}", folder.run.id);
        let text = manifest(folder, &name, node.as_deref(), &shards, settings)?;
        Ok(Job { shards, text })
    };
    groups.into_iter().enumerate().map(job).collect()
}

fn manifest(
    folder: &RunFolder,
    name: &str,
    node: Option<&str>,
    shards: &[usize],
    settings: &Settings,
) -> Result<String, Error> {
    let run = format!("/run/fsmend/{}", settings.run_path.trim_matches('/'));
    let mut command: Vec<String> = ["fsmend", "fleet", "work", "--run", run.trim_end_matches('/'), "--shard"]
        .map(str::to_owned)
        .to_vec();
    command.extend([ranges::written(shards), "--pick".to_owned(), "$(JOB_COMPLETION_INDEX)".to_owned()]);
    command.extend(settings.retry.then(|| "--retry".to_owned()));
    let options = &folder.run.options;
    let mut environment = Environment::new();
    // A string of JSON is one of YAML.
    environment.set_auto_escape_callback(|_| AutoEscape::Json);
    let rendered = environment.render_str(
        TEMPLATE,
        context! {
            name,
            run => &folder.run.id,
            completions => shards.len(),
            parallelism => (settings.parallel.unwrap_or(PARALLEL) as usize).min(shards.len()),
            command,
            node,
            image => &settings.image,
            namespace => settings.namespace.as_deref(),
            run_claim => &settings.run_claim,
            claims => Serde(&settings.claims),
            devices => Serde(&settings.devices),
            cpu => options.threads.map(|threads| threads.to_string()),
            // A check holds more than its facts.
            memory => options.memory.map(|memory| format!("{}Mi", memory.div_ceil(1 << 20).saturating_mul(2))),
        },
    );
    let rendered = rendered.map(|text| text.trim_end().to_owned() + "\n");
    rendered.map_err(|error| Error::Failed(format!("the manifest cannot be written: {error}")))
}

/// Submits the manifest at `path`; the name of the Job.
pub fn submit(path: &Path) -> Result<String, Error> {
    engine::call(Command::new("kubectl").args(["create", "-o", "name", "-f"]).arg(path))
}
