// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend fleet submit`: the shards that lack records, as jobs of an engine.

use fsmend_fleet::engine::{self, Job};
use fsmend_fleet::kubernetes::{self, Claim};
use fsmend_fleet::{Error, RunFolder, slurm, status};

use super::args::{Engine, SubmitArgs};
use crate::numbers::counted;
use crate::{exit, machine, version};

/// Runs the command and returns the exit code.
pub fn submit(arguments: &SubmitArgs) -> Result<u8, Error> {
    let folder = whole(&arguments.run)?;
    folder.must_be_planned_by(version::short())?;
    let shards = status::incomplete(&folder, arguments.retry)?;
    if shards.is_empty() {
        eprintln!("fsmend: every volume has a record: nothing is left to submit.");
        return Ok(exit::CLEAN);
    }
    let jobs = match arguments.engine {
        Engine::Slurm => slurm::jobs(&folder, &shards, &of_slurm(arguments)?),
        Engine::Kubernetes => {
            kubernetes::jobs(&folder, &shards, &of_kubernetes(arguments)?, machine::seconds_since_epoch())?
        }
    };
    if arguments.dry_run {
        let separator = if arguments.engine == Engine::Kubernetes { "---\n" } else { "\n" };
        let texts: Vec<&str> = jobs.iter().map(|job| job.text.as_str()).collect();
        return super::print(&texts.join(separator));
    }
    for job in &jobs {
        let name = one(arguments, &folder, job)?;
        let tasks = counted(job.shards.len() as u64, "shard", "shards");
        super::print(&format!("{name}: {tasks}\n"))?;
    }
    Ok(exit::CLEAN)
}

/// The run folder under a name that holds on every node.
fn whole(path: &std::path::Path) -> Result<RunFolder, Error> {
    RunFolder::open(&std::path::absolute(path).map_err(|error| Error::io(path, &error))?)
}

fn one(arguments: &SubmitArgs, folder: &RunFolder, job: &Job) -> Result<String, Error> {
    let now = machine::seconds_since_epoch();
    match arguments.engine {
        Engine::Slurm => {
            let script = engine::keep(folder, "slurm.sh", &job.text)?;
            let number = slurm::submit(&script, &arguments.slurm_option)?;
            engine::note(folder, "slurm", &number, job, now);
            Ok(format!("job {number}"))
        }
        Engine::Kubernetes => {
            let manifest = engine::keep(folder, "kubernetes.yaml", &job.text)?;
            let name = kubernetes::submit(&manifest)?;
            engine::note(folder, "kubernetes", &name, job, now);
            Ok(name)
        }
    }
}

fn of_slurm(arguments: &SubmitArgs) -> Result<slurm::Settings, Error> {
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()
            .map_err(|error| Error::Failed(format!("the path of this program is not known: {error}")))?,
    };
    Ok(slurm::Settings {
        program: program.display().to_string(),
        array_max: arguments.array_max.map_or_else(slurm::array_max, |most| most as usize),
        parallel: arguments.parallel,
        retry: arguments.retry,
    })
}

fn of_kubernetes(arguments: &SubmitArgs) -> Result<kubernetes::Settings, Error> {
    let options = &arguments.kubernetes;
    let needed = |value: &Option<String>, name: &str| {
        value.clone().ok_or_else(|| Error::Usage(format!("Kubernetes needs {name}")))
    };
    let image = needed(&options.image, "--image")?;
    let run_claim = needed(&options.run_claim, "--run-claim")?;
    let (run_claim, run_path) = run_claim.split_once(':').unwrap_or((&run_claim, ""));
    for name in options.namespace.iter().map(String::as_str).chain([run_claim]) {
        if !kubernetes::is_name(name) {
            return Err(Error::Usage(format!("{name:?} is not the name of an object of Kubernetes")));
        }
    }
    let claims =
        |texts: &[String]| texts.iter().map(|text| Claim::parse(text)).collect::<Result<Vec<_>, _>>();
    Ok(kubernetes::Settings {
        image,
        namespace: options.namespace.clone(),
        run_claim: run_claim.to_owned(),
        run_path: run_path.to_owned(),
        claims: claims(&options.claim)?,
        devices: claims(&options.device_claim)?,
        array_max: arguments.array_max.map_or(kubernetes::COMPLETIONS_MAX, |most| most as usize),
        parallel: arguments.parallel,
        retry: arguments.retry,
    })
}
