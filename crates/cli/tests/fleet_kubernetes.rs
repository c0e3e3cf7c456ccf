// SPDX-License-Identifier: MIT OR Apache-2.0
//! Manifests that `fsmend fleet submit --engine kubernetes` writes, and the example of a CronJob, against the schemas of Kubernetes.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/images.rs"]
mod images;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use fsmend_testkit::host;
use images::{Folder, code, fsmend, prepared, stderr, stdout};

const EXAMPLE: &str = include_str!("../../../examples/fleet-cronjob.yaml");

/// `kubernetes-validate`, which cargo xtask test installs, or why there is none.
fn validator() -> Option<PathBuf> {
    let own = host_tools().join("bin/kubernetes-validate");
    let found = Some(own).filter(|path| path.is_file()).or_else(|| host::find_program("kubernetes-validate"));
    if found.is_none() {
        host::skip("fleet: manifests against schemas", "kubernetes-validate (PyPI) is not installed");
    }
    found
}

fn host_tools() -> PathBuf {
    fsmend_testkit::target_folder().join("python")
}

/// A run of so many volumes in as many shards, half of them on one node.
fn planned(folder: &Folder, volumes: usize) -> String {
    let line = |number: usize| {
        let node = if number.is_multiple_of(2) { ",\"node\":\"store-1\"" } else { "" };
        format!("{{\"id\":\"v{number}\",\"target\":\"/images/v{number}\"{node}}}\n")
    };
    let (list, run) = (folder.path("list.jsonl"), folder.path("run"));
    fs::write(&list, (0..volumes).map(line).collect::<String>()).unwrap();
    let words = [
        "fleet",
        "plan",
        list.to_str().unwrap(),
        "--run",
        run.to_str().unwrap(),
        "--shards",
        &volumes.to_string(),
    ];
    let done = fsmend(&[&words[..], &["--threads", "2", "--memory", "1G"]].concat());
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    run.to_str().unwrap().to_owned()
}

fn submit(run: &str, options: &[&str]) -> Output {
    let words = ["fleet", "submit", "--engine", "kubernetes", "-n", "--run", run];
    fsmend(&[&words[..], options].concat())
}

const OPTIONS: [&str; 12] = [
    "--image",
    "registry.example/fsmend:0.1",
    "--run-claim",
    "runs:47/a",
    "--claim",
    "images=/images",
    "--device-claim",
    "disk-1=/dev/disk-1",
    "--namespace",
    "storage",
    "--parallel",
    "20",
];

#[test]
fn shards_become_indexed_jobs_that_fit_a_kubelet() {
    let folder = Folder::new("fleet-manifests");
    let run = planned(&folder, 2500);
    let text = stdout(&submit(&run, &OPTIONS));
    let manifests: Vec<&str> = text.split("---\n").collect();
    // 1250 shards of a node and 1250 of any, at most 1000 completions each.
    let completions = |text: &&str| -> u32 {
        text.lines().find_map(|line| line.trim().strip_prefix("completions: ")).unwrap().parse().unwrap()
    };
    let counts: Vec<u32> = manifests.iter().map(completions).collect();
    assert_eq!(counts, [1000, 250, 1000, 250]);
    let of_node =
        manifests.iter().filter(|text| text.contains("kubernetes.io/hostname: \"store-1\"")).count();
    assert_eq!(of_node, 2);
    let first = manifests[0];
    for line in [
        "completionMode: Indexed",
        "backoffLimitPerIndex: 3",
        "type: DisruptionTarget",
        "values: [16]",
        "parallelism: 20",
        "image: \"registry.example/fsmend:0.1\"",
        "\"--run\",\"/run/fsmend/47/a\"",
        "\"$(JOB_COMPLETION_INDEX)\"",
        "claimName: \"images\"",
        "devicePath: \"/dev/disk-1\"",
        "namespace: \"storage\"",
        "memory: \"2048Mi\"",
    ] {
        assert!(first.contains(line), "{line}: {first}");
    }
    let names: std::collections::BTreeSet<&str> =
        manifests.iter().flat_map(|text| text.lines().find(|line| line.starts_with("  name: "))).collect();
    assert_eq!(names.len(), 4, "{names:?}");
}

#[test]
fn what_a_manifest_lacks_is_asked_for_and_nothing_breaks_out_of_it() {
    let folder = Folder::new("fleet-manifests-wrong");
    let run = planned(&folder, 8);
    for options in [
        &["--run-claim", "runs"][..],
        &["--image", "x"],
        &["--image", "x", "--run-claim", "Runs: x"],
        &["--image", "x", "--run-claim", "runs", "--claim", "images"],
        &["--image", "x", "--run-claim", "runs", "--claim", "images=relative"],
        &["--image", "x", "--run-claim", "runs", "--namespace", "a\nb"],
    ] {
        assert_eq!(code(&submit(&run, options)), 16, "{options:?}");
    }
    let sly = submit(&run, &["--image", "x\"\nkind: Pod\n", "--run-claim", "runs"]);
    assert!(stdout(&sly).contains(r#"image: "x\"\nkind: Pod\n""#), "{}", stdout(&sly));
}

#[test]
fn manifests_and_the_example_are_valid() {
    let Some(validator) = validator() else { return };
    let folder = Folder::new("fleet-manifests-valid");
    let run = planned(&folder, 8);
    let with_all = stdout(&submit(&run, &OPTIONS));
    let with_least = stdout(&submit(&run, &["--image", "x", "--run-claim", "runs"]));
    // VolumeSnapshots are no objects of Kubernetes itself, and stand in the example only as text of a command.
    let example =
        EXAMPLE.replace("SIZE-OF-DATA", "10Gi").replace("STORAGE-CLASS", "fast").replace("-IMAGE", "-image");
    for (name, text) in [("all", with_all), ("least", with_least), ("example", example)] {
        let file = folder.path(&format!("{name}.yaml"));
        fs::write(&file, &text).unwrap();
        let done = validate(&validator, &file);
        assert_eq!(code(&done), 0, "{name}: {}{}\n{text}", stdout(&done), stderr(&done));
    }
    // It can fail.
    let file = folder.path("wrong.yaml");
    fs::write(&file, stdout(&submit(&run, &OPTIONS)).replace("completions: 4", "completions: many")).unwrap();
    assert_ne!(code(&validate(&validator, &file)), 0);
}

fn validate(validator: &Path, file: &Path) -> Output {
    prepared(validator).arg("--strict").arg(file).output().unwrap()
}
