// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is submitted to engines: every shard in exactly one job, in texts that no path and no name can break out of.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fsmend_fleet::divide::divide;
use fsmend_fleet::engine::Job;
use fsmend_fleet::run::ListFacts;
use fsmend_fleet::{Choices, Item, Run, RunFolder, engine, slurm};

/// A run of so many volumes, each a shard of its own; every third belongs to a node.
fn planned(path: &Path, volumes: usize, options: Choices) -> RunFolder {
    let _ = fs::remove_dir_all(path);
    let item = |number: usize| Item {
        id: format!("v{number}"),
        target: format!("/v{number}"),
        size: None,
        partition: None,
        node: number.is_multiple_of(3).then(|| format!("n{}", number % 2)),
        options: Choices::default(),
    };
    let items: Vec<Item> = (0..volumes).map(item).collect();
    let shards = divide(items, volumes);
    let run = Run { options, ..Run::new("test", 1, ListFacts::default(), &shards).unwrap() };
    RunFolder::create(path, &run, &shards).unwrap().0
}

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("fsmend-engines-{}-{name}", std::process::id()))
}

fn settings(array_max: usize) -> slurm::Settings {
    slurm::Settings {
        program: "/opt/it's here/fsmend".to_owned(),
        array_max,
        parallel: Some(4),
        retry: false,
    }
}

fn line<'t>(job: &'t Job, start: &str) -> &'t str {
    job.text.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_default()
}

#[test]
fn arrays_fit_slurm_and_hold_every_shard_once() {
    let path = folder("split");
    let run = planned(&path, 60, Choices::default());
    let all: Vec<usize> = (0..60).collect();
    let jobs = slurm::jobs(&run, &all, &settings(15));
    let mut held: Vec<usize> = jobs.iter().flat_map(|job| job.shards.clone()).collect();
    held.sort_unstable();
    assert_eq!(held, all);
    // 40 of any node, 10 of each of two nodes.
    let sizes: Vec<usize> = jobs.iter().map(|job| job.shards.len()).collect();
    assert_eq!(sizes, [15, 15, 10, 10, 10]);
    for job in &jobs {
        assert_eq!(line(job, "#SBATCH --array="), format!("0-{}%4", job.shards.len() - 1));
        let nodes: Vec<Option<String>> =
            job.shards.iter().map(|shard| run.run.shards[*shard].node.clone()).collect();
        assert!(nodes.iter().all(|node| *node == nodes[0]));
        assert_eq!(line(job, "#SBATCH --nodelist="), nodes[0].as_deref().unwrap_or_default());
    }
    assert_eq!(slurm::jobs(&run, &[3], &settings(15)).len(), 1);
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_task_gets_the_shard_that_its_script_lists() {
    let path = folder("with 'quotes' and 100% $HOME");
    let options = Choices { threads: Some(3), memory: Some(300 << 20), ..Choices::default() };
    let run = planned(&path, 10, options);
    let job = &slurm::jobs(&run, &[0, 1, 2, 5], &slurm::Settings { retry: true, ..settings(1001) })[0];
    assert_eq!((line(job, "#SBATCH --cpus-per-task="), line(job, "#SBATCH --mem=")), ("3", "600M"));
    assert!(line(job, "#SBATCH --output=").contains("100%% $HOME/logs/%A_%a.log"), "{}", job.text);
    // The shell takes the words for what they are.
    let shown = job.text.replace("exec ", "printf '%s\\n' ");
    let script = path.join("job.sh");
    fs::write(&script, shown).unwrap();
    let told = Command::new("sh").arg(&script).env("SLURM_ARRAY_TASK_ID", "2").output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let words: Vec<&str> = told.lines().collect();
    let place = path.display().to_string();
    let expected = [
        "/opt/it's here/fsmend",
        "fleet",
        "work",
        "--run",
        &place,
        "--shard",
        "0-2,5",
        "--pick",
        "2",
        "--retry",
    ];
    assert_eq!(words, expected);
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn scripts_are_kept_under_names_of_their_own() {
    let path = folder("kept");
    let run = planned(&path, 1, Choices::default());
    let names: Vec<PathBuf> = (0..3).map(|_| engine::keep(&run, "slurm.sh", "text").unwrap()).collect();
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
    let told = engine::call(&mut Command::new("fsmend-no-such-program"));
    assert!(told.is_err_and(|error| matches!(error, fsmend_fleet::Error::Failed(_))));
    let again = engine::call(
        Command::new("sh").args(["-c", "echo 'Unable to contact slurm controller' >&2; exit 1"]),
    );
    assert!(again.is_err_and(|error| matches!(error, fsmend_fleet::Error::Again(_))));
    fs::remove_dir_all(path).unwrap();
}
