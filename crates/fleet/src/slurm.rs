// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slurm: a job array for each node's shards, or for all that any node can open. Tasks find their shard by index in a list that stands in the
//! script: Slurm says less than the truth of arrays that were submitted in part.

use std::path::Path;
use std::process::Command;

use crate::engine::{self, Job};
use crate::error::Error;
use crate::ranges;
use crate::run::RunFolder;

/// MaxArraySize where Slurm does not say.
const ARRAY_MAX: usize = 1001;

/// How jobs are submitted.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `fsmend`, as the nodes see it.
    pub program: String,
    /// Tasks of an array, at most.
    pub array_max: usize,
    /// Tasks at the same time, at most.
    pub parallel: Option<u32>,
    /// Whether volumes are checked again that could not be checked.
    pub retry: bool,
}

/// The jobs for these shards.
pub fn jobs(folder: &RunFolder, shards: &[usize], settings: &Settings) -> Vec<Job> {
    let groups = engine::groups(folder, shards, settings.array_max);
    let job = |(node, shards): (Option<String>, Vec<usize>)| {
        let text = script(folder, node.as_deref(), &shards, settings);
        Job { shards, text }
    };
    groups.into_iter().map(job).collect()
}

fn script(folder: &RunFolder, node: Option<&str>, shards: &[usize], settings: &Settings) -> String {
    let path = folder.path().display().to_string();
    let throttle = settings.parallel.map(|most| format!("%{most}")).unwrap_or_default();
    let logs = format!("{path}/logs/%A_%a.log");
    let mut lines = vec![
        "#!/bin/sh".to_owned(),
        format!("#SBATCH --job-name=fsmend-{}", folder.run.id),
        format!("#SBATCH --array=0-{}{throttle}", shards.len().saturating_sub(1)),
        // What is left of a lost node is submitted again by hand or by a timer, sooner than Slurm requeues it.
        "#SBATCH --no-requeue".to_owned(),
        "#SBATCH --open-mode=append".to_owned(),
        format!("#SBATCH --output=\"{}\"", logs.replacen(&path, &path.replace('%', "%%"), 1)),
    ];
    lines.extend(node.map(|node| format!("#SBATCH --nodelist={node}")));
    let options = &folder.run.options;
    lines.extend(options.threads.map(|threads| format!("#SBATCH --cpus-per-task={threads}")));
    // A check holds more than its facts: the worker passes on half of what Slurm grants, too.
    let mebibytes = options.memory.map(|memory| memory.div_ceil(1 << 20).saturating_mul(2));
    lines.extend(mebibytes.map(|mebibytes| format!("#SBATCH --mem={mebibytes}M")));
    let retry = if settings.retry { " --retry" } else { "" };
    lines.push(format!(
        "exec {} fleet work --run {} --shard {} --pick \"$SLURM_ARRAY_TASK_ID\"{retry}",
        quoted(&settings.program),
        quoted(&path),
        ranges::written(shards)
    ));
    lines.join("\n") + "\n"
}

/// `text` as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The largest array that Slurm takes.
pub fn array_max() -> usize {
    let config = engine::call(Command::new("scontrol").args(["show", "config"])).unwrap_or_default();
    let line = config.lines().find_map(|line| line.trim().strip_prefix("MaxArraySize"));
    let size = line.and_then(|line| line.trim_start_matches([' ', '=']).trim().parse().ok());
    size.filter(|size| *size > 0).unwrap_or(ARRAY_MAX)
}

/// Submits the script at `path`; the job's number.
pub fn submit(path: &Path, options: &[String]) -> Result<String, Error> {
    let mut command = Command::new("sbatch");
    command.arg("--parsable").args(options).arg(path);
    let told = engine::call(&mut command)?;
    Ok(told.split(';').next().unwrap_or_default().to_owned())
}
