// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend fleet` without an engine: real workers and real checks, killed, starved, stopped and cheated.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/fleets.rs"]
mod fleets;
#[path = "support/images.rs"]
mod images;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use fleets::{Fleet, children_of, fleet, kill, ready};
use fsmend_base::SeededRandom;
use fsmend_testkit::host;
use images::{Folder, code, debugfs, fsmend, have, prepared, stderr, stdout};
use serde_json::Value;

/// The longest wait for something that comes soon.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes per second at which a check of a small image takes minutes.
const SLOW: &str = r#"{"read_limit": 2000}"#;

fn spawned(arguments: &[&str]) -> Child {
    let mut command = ready(prepared(env!("CARGO_BIN_EXE_fsmend")));
    command.arg("fleet").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until `found` finds something.
fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "no {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn exit_code(mut child: Child) -> i32 {
    wait_for("end of the worker", || child.try_wait().unwrap()).code().unwrap()
}

#[test]
fn a_fleet_from_its_list_to_the_report_and_an_applied_plan() {
    if !have("fleet: list to report", &["mke2fs", "debugfs"]) {
        return;
    }
    let fleet_of = Fleet::new("report", 5);
    let image = |number: usize| fleet_of.image(number);
    debugfs(&image(1), "sif a/one links_count 7");
    fs::remove_file(image(3)).unwrap();
    let before: Vec<Option<Vec<u8>>> = (0..5).map(|number| fs::read(image(number)).ok()).collect();
    let run = fleet_of.plan(&["--shards", "2", "--plans", "--threads", "1"], |_| "{}".to_owned());
    let status = fleet(&["status", "--run", &run]);
    assert_eq!(
        (code(&status), stdout(&status).starts_with("0 of 5 volumes have a record (0.0%)")),
        (8, true)
    );
    let work = fleet(&["work", "--run", &run]);
    assert_eq!((code(&work), stderr(&work).contains("5 volumes checked")), (0, true), "{}", stderr(&work));
    assert_eq!(code(&fleet(&["status", "--run", &run])), 0);
    let after: Vec<Option<Vec<u8>>> = (0..5).map(|number| fs::read(image(number)).ok()).collect();
    assert!(before == after, "a worker writes to no volume");

    let text = fleet(&["merge", "--run", &run]);
    assert_eq!(code(&text), 12);
    let told = stdout(&text);
    assert!(told.starts_with("5 volumes: 3 clean, 1 damaged, 1 not checked\n"), "{told}");
    assert!(told.contains("has link count 7") && told.contains("plan: plans/v1.fsmend"), "{told}");
    assert!(told.find("Damaged (1)").unwrap() < told.find("Not checked (1)").unwrap(), "{told}");
    assert!(told.contains("no such file"), "{told}");

    let (metrics, records) = (fleet_of.folder.path("m.prom"), fleet_of.folder.path("r.jsonl"));
    let words = ["merge", "--run", &run, "--format", "json", "--prometheus", metrics.to_str().unwrap()];
    let json = fleet(&[&words[..], &["--records", records.to_str().unwrap()]].concat());
    let merged: Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!((&merged["totals"]["sound"], &merged["exit_code"]), (&3.into(), &12.into()));
    assert_eq!(merged["volumes"][0]["repair"]["outcome"], "saved");
    assert_eq!(merged["codes"][0]["code"], "ext.inode.links-mismatch");
    assert!(fs::read_to_string(metrics).unwrap().contains("fsmend_fleet_volumes{verdict=\"sound\"} 3\n"));
    let records = fs::read_to_string(records).unwrap();
    let ids: Vec<Value> =
        records.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone()).collect();
    assert_eq!(ids.len(), 5, "{records}");
    let page = stdout(&fleet(&["merge", "--run", &run, "--format", "html"]));
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("1 of 5 volumes is damaged"), "{page}");

    // The plan that a worker saved is one that `apply` takes.
    let plan = Path::new(&run).join("plans/v1.fsmend");
    assert_eq!(code(&fsmend(&["apply", "--no-undo", plan.to_str().unwrap()])), 1);
    assert_eq!(code(&fsmend(&["check", image(1).to_str().unwrap()])), 0);
}

#[test]
fn two_workers_of_which_one_is_killed_leave_every_volume_once() {
    if !have("fleet: killed workers", &["mke2fs", "debugfs"]) {
        return;
    }
    for seed in 0..4 {
        let mut random = SeededRandom::new(seed);
        let fleet_of = Fleet::new(&format!("killed-{seed}"), 12);
        let run = fleet_of.plan(&["--shards", "1"], |_| "{}".to_owned());
        let survivor = spawned(&["work", "--run", &run]);
        // A volume may kill two workers without being blamed for it.
        for _ in 0..2 {
            let mut victim = spawned(&["work", "--run", &run, "--shard", "0"]);
            std::thread::sleep(Duration::from_millis(random.next_u64() % 60));
            let _ = victim.kill();
            victim.wait().unwrap();
        }
        assert_eq!(exit_code(survivor), 0);
        assert_eq!(code(&fleet(&["work", "--run", &run])), 0);
        let merged = fleet_of.merged(&run);
        assert_eq!(merged["totals"]["sound"], 12, "seed {seed}: {merged}");
        assert_eq!(fleet_of.ids(&run).len(), 12, "seed {seed}");
    }
}

#[test]
fn a_killed_worker_takes_its_check_along() {
    if !have("fleet: orphans", &["mke2fs", "debugfs"]) {
        return;
    }
    let fleet_of = Fleet::new("orphan", 1);
    let run = fleet_of.plan(&["--shards", "1"], |_| SLOW.to_owned());
    let mut worker = spawned(&["work", "--run", &run]);
    let check = wait_for("check", || children_of(worker.id()).first().copied());
    worker.kill().unwrap();
    worker.wait().unwrap();
    wait_for("end of the check", || (!Path::new(&format!("/proc/{check}/exe")).exists()).then_some(()));
}

#[test]
fn a_stopped_worker_ends_soon_and_the_next_one_goes_on() {
    if !have("fleet: stopped", &["mke2fs", "debugfs"]) {
        return;
    }
    let fleet_of = Fleet::new("stopped", 3);
    let slow = |number| if number == 1 { SLOW.to_owned() } else { "{}".to_owned() };
    let run = fleet_of.plan(&["--shards", "1"], slow);
    for _ in 0..4 {
        let worker = spawned(&["work", "--run", &run]);
        wait_for("check of v1", || fleet_of.began(&run, "v1").then_some(()));
        wait_for("check", || children_of(worker.id()).first().copied());
        kill(worker.id(), "-TERM");
        let started = Instant::now();
        assert_eq!(exit_code(worker), 32);
        assert!(started.elapsed() < Duration::from_secs(10));
    }
    let status = fleet(&["status", "--run", &run, "--format", "json"]);
    let status: Value = serde_json::from_str(&stdout(&status)).unwrap();
    assert_eq!((&status["begun"], &status["planned"]), (&0.into(), &3.into()), "{status}");
    // It was stopped more often than a volume may kill workers, and is not blamed.
    assert_eq!(fleet_of.merged(&run)["totals"]["crashed"], 0);
}

#[test]
fn a_check_killed_for_want_of_memory_costs_one_record() {
    if !have("fleet: out of memory", &["mke2fs", "debugfs"]) {
        return;
    }
    let fleet_of = Fleet::new("oom", 4);
    let slow = |number| if number == 1 { SLOW.to_owned() } else { "{}".to_owned() };
    let run = fleet_of.plan(&["--shards", "1"], slow);
    let mut worker = spawned(&["work", "--run", &run]);
    // As the system does when memory runs out: of worker and check it takes the check, which asked for that.
    let mut killed = Vec::new();
    let status = wait_for("end of the worker", || {
        for check in children_of(worker.id()) {
            let told = fs::read_to_string(format!("/proc/{check}/cmdline")).unwrap_or_default();
            let score = fs::read_to_string(format!("/proc/{check}/oom_score_adj")).unwrap_or_default();
            if told.contains("v1.img") && score.trim() == "500" && !killed.contains(&check) {
                kill(check, "-KILL");
                killed.push(check);
            }
        }
        worker.try_wait().unwrap()
    });
    assert_eq!((status.code(), killed.len()), (Some(0), 3));
    let merged = fleet_of.merged(&run);
    assert_eq!((&merged["totals"]["sound"], &merged["totals"]["crashed"]), (&3.into(), &1.into()));
    assert_eq!((&merged["volumes"][0]["id"], &merged["exit_code"]), (&"v1".into(), &8.into()));
    let message = merged["volumes"][0]["message"].as_str().unwrap();
    assert!(message.contains("3 checks of it did not come to their end"), "{message}");
}

/// A control group with little memory; it goes with this.
struct Cramped(PathBuf);

impl Cramped {
    /// A group below that of this process, of version 1 or 2, if one may be made.
    fn new(bytes: u64) -> Option<Cramped> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let of_version_1 = groups.lines().find_map(|line| line.split_once(":memory:").map(|(_, path)| path));
        let of_version_2 = groups.lines().find_map(|line| line.strip_prefix("0::"));
        let name = format!("fsmend-fleet-{}", std::process::id());
        let (parent, limits) = match of_version_1 {
            Some(path) => {
                let limits = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"];
                (Path::new("/sys/fs/cgroup/memory").join(path.trim_start_matches('/')), limits)
            }
            None => {
                let parent = Path::new("/sys/fs/cgroup").join(of_version_2?.trim_start_matches('/'));
                let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory");
                (parent, ["memory.max", "memory.swap.max"])
            }
        };
        let group = Cramped(parent.join(name));
        fs::create_dir(&group.0).ok()?;
        fs::write(group.0.join(limits[0]), bytes.to_string()).ok()?;
        let swap = if limits[1] == "memory.swap.max" { 0 } else { bytes };
        // Without swap there is nothing to limit.
        let _ = fs::write(group.0.join(limits[1]), swap.to_string());
        Some(group)
    }

    /// Runs `fsmend fleet` in it.
    fn fleet(&self, arguments: &[&str]) -> std::process::Output {
        let join = format!("echo $$ > {}/cgroup.procs && exec \"$0\" fleet \"$@\"", self.0.display());
        let mut shell = ready(prepared("sh"));
        shell.args(["-c", &join, env!("CARGO_BIN_EXE_fsmend")]).args(arguments).output().unwrap()
    }
}

impl Drop for Cramped {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn the_kernel_kills_the_check_that_takes_too_much_memory_and_spares_the_worker() {
    const TEST: &str = "fleet: out of memory in a control group";
    if !images::have_root(TEST, &["mke2fs", "debugfs"]) {
        return;
    }
    let fleet_of = Fleet::new("cramped", 4);
    // Long inode tables, all in use as far as the groups tell: reading them takes buffers.
    let greedy = fleet_of.image(1);
    fs::File::create(&greedy).unwrap().set_len(1 << 30).unwrap();
    let features = [
        "-q",
        "-F",
        "-t",
        "ext4",
        "-O",
        "^uninit_bg,^metadata_csum,^has_journal",
        "-E",
        "lazy_itable_init=0",
    ];
    let words = [&features[..], &["-N", "1600000", greedy.to_str().unwrap()]].concat();
    host::run("mke2fs", words).unwrap();
    let options = |number| match number {
        1 => r#"{"threads": 8, "memory": 1000000000}"#.to_owned(),
        _ => r#"{"threads": 1, "memory": 1000000000}"#.to_owned(),
    };
    let run = fleet_of.plan(&["--shards", "1"], options);
    let Some(cramped) = Cramped::new(5 << 20) else {
        return host::skip(TEST, "no control group with a memory limit can be made");
    };
    let work = cramped.fleet(&["work", "--run", &run]);
    assert_eq!(code(&work), 0, "{}", stderr(&work));
    let merged = fleet_of.merged(&run);
    assert_eq!(
        (&merged["totals"]["sound"], &merged["totals"]["crashed"]),
        (&3.into(), &1.into()),
        "{merged}"
    );
    assert_eq!(merged["volumes"][0]["id"], "v1");
    // With more memory it is checked again, and nothing else is.
    let retry = fleet(&["work", "--run", &run, "--retry"]);
    assert_eq!((code(&retry), stderr(&retry).contains("1 volume checked")), (0, true), "{}", stderr(&retry));
    assert_eq!(fleet_of.merged(&run)["totals"]["sound"], 4);
}

#[test]
fn a_full_run_folder_is_tried_again_and_loses_nothing() {
    if !images::have_root("fleet: full run folder", &["mke2fs", "debugfs", "mount"]) {
        return;
    }
    let fleet_of = Fleet::new("full", 8);
    let disk = fleet_of.folder.path("disk");
    fs::create_dir(&disk).unwrap();
    let (mount, unmount) = (disk.to_str().unwrap(), disk.to_str().unwrap());
    host::run("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", mount]).unwrap();
    let run = format!("{mount}/run");
    let list = fleet_of.list(|_| "{}".to_owned());
    // The first one needs room for a plan, too.
    debugfs(&fleet_of.image(0), "sif a/one links_count 7");
    let plan = ["plan", list.to_str().unwrap(), "--run", &run, "--shards", "1", "--plans"];
    assert_eq!(code(&fleet(&plan)), 0);
    let ballast = disk.join("ballast");
    let mut codes = Vec::new();
    // The disk fills up at other places in a record, and before the first one.
    for free in [0, 4096, 8192, 12_288, 16_384, 24_576] {
        fs::write(&ballast, "").unwrap();
        let _ = fs::write(&ballast, vec![0; 2 << 20]);
        let len = fs::metadata(&ballast).unwrap().len();
        fs::OpenOptions::new().write(true).open(&ballast).unwrap().set_len(len.saturating_sub(free)).unwrap();
        codes.push(code(&fleet(&["work", "--run", &run])));
    }
    fs::remove_file(&ballast).unwrap();
    let last = code(&fleet(&["work", "--run", &run]));
    let (merged, ids) = (fleet_of.merged(&run), fleet_of.ids(&run));
    let plan = Path::new(&run).join("plans/v0.fsmend").exists();
    host::unmount(unmount).unwrap();
    assert_eq!(codes[0], 75, "{codes:?}");
    assert!(codes.iter().all(|code| [0, 75].contains(code)), "{codes:?}");
    assert_eq!((last, &merged["totals"]["sound"], ids.len()), (0, &7.into(), 8), "{merged}");
    assert_eq!(
        (&merged["volumes"][0]["repair"]["outcome"], plan),
        (&"saved".into(), true),
        "{codes:?} {merged}"
    );
}

#[test]
fn a_list_or_a_program_that_changed_in_mid_run_is_refused() {
    if !have("fleet: changed list", &["mke2fs", "debugfs"]) {
        return;
    }
    let fleet_of = Fleet::new("changed", 3);
    let slow = |number| if number == 0 { r#"{"read_limit": 20000}"#.to_owned() } else { "{}".to_owned() };
    let run = fleet_of.plan(&["--shards", "1"], slow);
    let worker = spawned(&["work", "--run", &run]);
    wait_for("check", || children_of(worker.id()).first().copied());
    // Another list in the same folder, by hand and against all advice.
    let other = fleet_of.folder.path("other");
    let list = fleet_of.list(|_| r#"{"threads": 1}"#.to_owned());
    let plan = ["plan", list.to_str().unwrap(), "--shards", "1", "--run"];
    assert_eq!(code(&fleet(&[&plan[..], &[other.to_str().unwrap()]].concat())), 0);
    let refused = fleet(&[&plan[..], &[&run]].concat());
    assert_eq!((code(&refused), stderr(&refused).contains("another run")), (16, true));
    fs::copy(other.join("run.json"), Path::new(&run).join("new")).unwrap();
    fs::rename(Path::new(&run).join("new"), Path::new(&run).join("run.json")).unwrap();
    assert_eq!(exit_code(worker), 16);
    let work = fleet(&["work", "--run", &run]);
    assert_eq!(
        (code(&work), stderr(&work).contains("not the list that was planned")),
        (16, true),
        "{}",
        stderr(&work)
    );

    let file = other.join("run.json");
    let text = fs::read_to_string(&file).unwrap();
    let mut json: Value = serde_json::from_str(&text).unwrap();
    json["tool"] = "0.0.1".into();
    fs::write(&file, json.to_string()).unwrap();
    for words in [vec!["work"], vec!["submit", "--engine", "slurm", "-n"]] {
        let done = fleet(&[&words[..], &["--run", other.to_str().unwrap()]].concat());
        assert_eq!(
            (code(&done), stderr(&done).contains("planned by fsmend 0.0.1")),
            (16, true),
            "{}",
            stderr(&done)
        );
    }
}

#[test]
fn a_controller_that_forgets_its_jobs_and_reuses_numbers_costs_nothing_but_a_submission() {
    if !have("fleet: forgotten jobs", &["mke2fs", "debugfs"]) {
        return;
    }
    let fleet_of = Fleet::new("forgotten", 6);
    let run = fleet_of.plan(&["--shards", "3"], |_| "{}".to_owned());
    // A controller that takes every job, calls it 7, and loses all but the last one.
    let bin = fleet_of.folder.path("bin");
    fs::create_dir(&bin).unwrap();
    let spool = fleet_of.folder.path("spool.sh");
    let sbatch =
        format!("#!/bin/sh\nfor last; do :; done\ncp \"$last\" {}\necho '7;cluster'\n", spool.display());
    fs::write(bin.join("sbatch"), sbatch).unwrap();
    fs::set_permissions(bin.join("sbatch"), fs::Permissions::from_mode(0o755)).unwrap();
    let submit = || {
        let mut command = ready(prepared(env!("CARGO_BIN_EXE_fsmend")));
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        command.args(["fleet", "submit", "--engine", "slurm", "--run", &run]).env("PATH", path);
        let done = command.output().unwrap();
        assert_eq!(code(&done), 0, "{}", stderr(&done));
        stdout(&done)
    };
    let task = |index: &str| {
        let done = ready(prepared("sh")).arg(&spool).env("SLURM_ARRAY_TASK_ID", index).output().unwrap();
        code(&done)
    };
    assert_eq!(submit(), "job 7: 3 shards\n");
    assert_eq!(task("1"), 0);
    // The rest is lost. The next array is shorter, and its indexes mean other shards.
    assert_eq!(submit(), "job 7: 2 shards\n");
    assert_eq!((task("0"), task("1"), task("2")), (0, 0, 16));
    assert_eq!(submit(), "");
    let merged = fleet_of.merged(&run);
    assert_eq!(
        (&merged["totals"]["sound"], &merged["totals"]["duplicates"]),
        (&6.into(), &0.into()),
        "{merged}"
    );
    assert_eq!(fleet_of.ids(&run).len(), 6);
}

#[test]
fn no_worker_repairs() {
    if !have("fleet: plans only", &["mke2fs", "debugfs"]) {
        return;
    }
    let folder = Folder::new("fleet-no-repair");
    let image = folder.image("x.img", &[]);
    debugfs(&image, "sif a/one links_count 7");
    let before = fs::read(&image).unwrap();
    let worker = format!("--worker={}", std::process::id());
    let target = image.to_str().unwrap();
    for words in [
        vec!["repair", "-y", target],
        vec!["repair", "-p", target],
        vec!["check", "--online", "--mark-for-repair", target],
        vec!["mkfs", "--force", target],
        vec!["e2fsck", "-fy", target],
        vec!["undo", target],
    ] {
        let done = fsmend(&[&["fleet", "volume", &worker, "--"], &words[..]].concat());
        assert_eq!(code(&done), 16, "{words:?}: {}", stderr(&done));
    }
    let check = fsmend(&["fleet", "volume", &worker, "--", "check", target]);
    assert_eq!(code(&check), 4);
    let other = fsmend(&["fleet", "volume", "--worker=1", "--", "check", target]);
    assert_eq!(code(&other), 32, "it is the child of another process");
    assert!(before == fs::read(&image).unwrap());
    let list = folder.path("list.jsonl");
    fs::write(&list, format!("{{\"id\":\"x\",\"target\":\"{target}\",\"options\":{{\"yes\":true}}}}"))
        .unwrap();
    let plan = fsmend(&["fleet", "plan", list.to_str().unwrap(), "--run", target, "--shards", "1"]);
    assert_eq!((code(&plan), stderr(&plan).contains("unknown field `yes`")), (16, true), "{}", stderr(&plan));
}

#[test]
fn a_part_of_the_list_and_what_was_not_checked_lately() {
    if !have("fleet: parts", &["mke2fs", "debugfs"]) {
        return;
    }
    let fleet_of = Fleet::new("parts", 6);
    let list = fleet_of.list(|_| "{}".to_owned());
    let list = list.to_str().unwrap();
    let planned = |name: &str, options: &[&str]| -> u64 {
        let run = fleet_of.folder.path(name);
        let words = ["plan", list, "--run", run.to_str().unwrap(), "--shards", "2"];
        assert_eq!(code(&fleet(&[&words[..], options].concat())), 0);
        let text = fs::read_to_string(run.join("run.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["list"]["planned"].as_u64().unwrap()
    };
    let parts = [planned("p1", &["--part", "1/2"]), planned("p2", &["--part", "2/2"])];
    assert_eq!(parts[0] + parts[1], 6);
    let first = fleet_of.folder.path("p1");
    let first = first.to_str().unwrap();
    assert_eq!(code(&fleet(&["work", "--run", first])), 0);
    assert_eq!(planned("rest", &["--outdated-after", "7d", "--previous", first]), parts[1]);
    std::thread::sleep(Duration::from_millis(2100));
    assert_eq!(planned("all", &["--outdated-after", "1s", "--previous", first]), 6);
    assert_eq!(code(&fleet(&["plan", list, "--run", "x", "--shards", "1", "--outdated-after", "7d"])), 16);
}
