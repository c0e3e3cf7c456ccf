// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workers without an engine and without real checks: killed at random points, two on one shard, back from the dead, with files cut in the
//! middle of a line. Whatever happens, every volume is in the merged report exactly once.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use fsmend_base::SeededRandom;
use fsmend_fleet::divide::divide;
use fsmend_fleet::merge::{Merged, merge};
use fsmend_fleet::run::{ListFacts, replace};
use fsmend_fleet::{Check, Choices, Ended, Error, Item, Run, RunFolder, Worker, prometheus, select, status};
use serde_json::{Map, Value, json};

/// A run in a folder of the test's own.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("fsmend-fleet-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Place(path)
    }

    fn plan(&self, volumes: usize, shards: usize) -> RunFolder {
        self.plan_items((0..volumes).map(item).collect(), shards)
    }

    fn plan_items(&self, items: Vec<Item>, shards: usize) -> RunFolder {
        let facts = ListFacts { volumes: items.len() as u64, ..ListFacts::default() };
        let shards = divide(items, shards);
        let run = Run::new("test", 1000, facts, &shards).unwrap();
        RunFolder::create(&self.0, &run, &shards).unwrap().0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn item(number: usize) -> Item {
    let id = format!("v{number}");
    Item {
        target: format!("/{id}"),
        id,
        size: Some(1 << 30),
        partition: None,
        node: None,
        options: Choices::default(),
    }
}

fn document(verdict: &str) -> Map<String, Value> {
    let document = json!({"version": 1, "target": "/x", "verdict": verdict, "problems": [], "counts": {}});
    document.as_object().unwrap().clone()
}

fn checked(verdict: &str) -> Ended {
    let exit = if verdict == "sound" { 0 } else { 8 };
    Ended::Checked { exit, document: document(verdict) }
}

/// A check that is a function of the volume.
struct By<F>(F);

impl<F: Fn(&Item) -> Ended> Check for By<F> {
    fn check(&self, _: &RunFolder, item: &Item, _: &AtomicBool) -> Ended {
        (self.0)(item)
    }
}

fn work(folder: &RunFolder, checker: &dyn Check, retry: bool) -> Result<u64, Error> {
    let (cancel, clock) = (AtomicBool::new(false), AtomicU64::new(1000));
    let now = || Duration::from_secs(clock.fetch_add(1, Relaxed));
    let worker = Worker { folder, checker, now: &now, node: "n", process: 1, retry, cancel: &cancel };
    let all: Vec<usize> = (0..folder.run.shards.len()).collect();
    worker.work(&all)
}

/// The report, after a look at whether every volume is in it once.
fn merged(folder: &RunFolder) -> Merged {
    let mut records = Vec::new();
    let merged = merge(folder, Some(&mut records)).unwrap();
    let mut seen: HashMap<String, u32> = HashMap::new();
    for line in String::from_utf8(records).unwrap().lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        *seen.entry(record["id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let planned: Vec<Item> =
        (0..folder.run.shards.len()).flat_map(|shard| folder.shard(shard).unwrap()).collect();
    let once = planned.iter().filter(|item| seen.get(&item.id) == Some(&1)).count() as u64;
    let totals = &merged.totals;
    assert_eq!(once, seen.len() as u64, "every record is of a volume of the list, and no volume has two");
    assert_eq!((totals.planned, totals.planned - totals.missing), (planned.len() as u64, once));
    let sum = totals.sound + totals.damaged + totals.unconfirmed + totals.refused + totals.crashed;
    assert_eq!(sum, once);
    merged
}

/// Cuts the youngest file of a shard somewhere in its last line, as a lost node leaves it.
fn tear(folder: &RunFolder, shard: usize, random: &mut SeededRandom) {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder.records(shard)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let Some(file) = files.last() else { return };
    let text = fs::read(file).unwrap();
    let last =
        text[..text.len().saturating_sub(1)].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let keep = last as u64 + random.next_u64() % (text.len() - last + 1) as u64;
    OpenOptions::new().write(true).open(file).unwrap().set_len(keep).unwrap();
}

#[test]
fn workers_killed_at_random_points_leave_every_volume_once() {
    std::panic::set_hook(Box::new(|_| {}));
    for seed in 0..15 {
        let place = Place::new(&format!("killed-{seed}"));
        let folder = place.plan(30, 3);
        let random = Mutex::new(SeededRandom::new(seed));
        let mut kills = 0;
        // A killed worker is one whose check never returns; what it was about to write may be there in part.
        let killing = By(|_: &Item| {
            if random.lock().unwrap_or_else(|lock| lock.into_inner()).next_u64().is_multiple_of(8) {
                panic!("killed");
            }
            checked("sound")
        });
        while kills < 60 {
            match catch_unwind(AssertUnwindSafe(|| work(&folder, &killing, false))) {
                Ok(done) => {
                    done.unwrap();
                    break;
                }
                Err(_) => kills += 1,
            }
            random.clear_poison();
            let shard = (random.lock().unwrap().next_u64() % 3) as usize;
            if folder.records(shard).exists() && fs::read_dir(folder.records(shard)).unwrap().count() > 0 {
                tear(&folder, shard, &mut random.lock().unwrap());
            }
            merged(&folder);
        }
        let report = merged(&folder);
        assert_eq!(report.totals.missing, 0, "seed {seed}");
        assert!(report.totals.sound >= 25, "seed {seed}: {:?}", report.totals);
        assert!(status::status(&folder).unwrap().is_complete());
        assert!(status::incomplete(&folder, false).unwrap().is_empty());
    }
    let _ = std::panic::take_hook();
}

#[test]
fn two_workers_on_one_shard_share_it_and_no_volume_counts_twice() {
    let place = Place::new("two");
    let folder = place.plan(40, 1);
    let slow = By(|_: &Item| {
        std::thread::sleep(Duration::from_millis(4));
        checked("sound")
    });
    let written: Vec<u64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(|| work(&folder, &slow, false).unwrap())).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let report = merged(&folder);
    assert_eq!((report.totals.sound, report.totals.missing, report.totals.attempts), (40, 0, 2));
    assert_eq!(written.iter().sum::<u64>(), 40 + report.totals.duplicates);
    // They share: neither does nearly all of it, and little is done twice.
    assert!(written.iter().all(|count| *count >= 8) && report.totals.duplicates < 10, "{written:?}");
}

#[test]
fn a_zombie_worker_does_no_harm() {
    let place = Place::new("zombie");
    let folder = place.plan(5, 1);
    // A worker that is thought dead sits in the check of v0 while another one does all the work, v0 included.
    let (began, go_on) = (AtomicBool::new(false), AtomicBool::new(false));
    let zombie = By(|item: &Item| {
        began.store(true, Relaxed);
        while item.id == "v0" && !go_on.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        checked("sound")
    });
    std::thread::scope(|scope| {
        let undead = scope.spawn(|| work(&folder, &zombie, false));
        while !began.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(work(&folder, &By(|_: &Item| checked("sound")), false).unwrap(), 5);
        assert_eq!(merged(&folder).totals.duplicates, 0);
        go_on.store(true, Relaxed);
        assert_eq!(undead.join().unwrap().unwrap(), 1, "it writes its one record and finds the rest done");
    });
    let report = merged(&folder);
    assert_eq!((report.totals.sound, report.totals.duplicates), (5, 1));
}

#[test]
fn a_volume_that_kills_three_workers_is_recorded_and_the_shard_goes_on() {
    std::panic::set_hook(Box::new(|_| {}));
    let place = Place::new("kills");
    let folder = place.plan(6, 1);
    let order = Mutex::new(Vec::new());
    let killer = By(|item: &Item| {
        order.lock().unwrap_or_else(|lock| lock.into_inner()).push(item.id.clone());
        if item.id == "v2" {
            panic!("killed");
        }
        checked("sound")
    });
    let outcomes: Vec<bool> = (0..4)
        .map(|_| catch_unwind(AssertUnwindSafe(|| work(&folder, &killer, false).unwrap())).is_ok())
        .collect();
    let _ = std::panic::take_hook();
    assert_eq!(outcomes, [false, false, false, true]);
    let order = order.lock().unwrap_or_else(|lock| lock.into_inner()).clone();
    // The second worker does the others first.
    assert_eq!(order, ["v0", "v1", "v2", "v3", "v4", "v5", "v2", "v2"]);
    let report = merged(&folder);
    assert_eq!((report.totals.sound, report.totals.crashed, report.exit_code), (5, 1, 8));
    assert_eq!((report.volumes[0].id.as_str(), report.volumes[0].verdict.as_str()), ("v2", "crashed"));
    // With more memory it is checked again, and that record counts.
    assert_eq!(status::incomplete(&folder, true).unwrap(), [0]);
    assert_eq!(work(&folder, &By(|_: &Item| checked("sound")), true).unwrap(), 1);
    let report = merged(&folder);
    assert_eq!((report.totals.sound, report.totals.crashed, report.totals.duplicates), (6, 0, 1));
}

#[test]
fn a_check_that_crashes_costs_one_record_and_no_worker() {
    let place = Place::new("crash");
    let folder = place.plan(4, 1);
    let crashes = AtomicU64::new(0);
    let crashing = By(|item: &Item| match item.id.as_str() {
        "v1" => {
            crashes.fetch_add(1, Relaxed);
            Ended::Crashed("signal: 9 (SIGKILL)".to_owned())
        }
        _ => checked("sound"),
    });
    assert_eq!(work(&folder, &crashing, false).unwrap(), 4);
    assert_eq!(crashes.load(Relaxed), 3);
    assert_eq!((merged(&folder).totals.sound, merged(&folder).totals.crashed), (3, 1));
    // Still crashing: a retry gives it three more, and ends.
    assert_eq!(work(&folder, &crashing, true).unwrap(), 1);
    assert_eq!(crashes.load(Relaxed), 6);
}

#[test]
fn a_stopped_worker_blames_no_volume() {
    let place = Place::new("stopped");
    let folder = place.plan(3, 1);
    for _ in 0..5 {
        let stopped = work(&folder, &By(|_: &Item| Ended::Stopped), false);
        assert!(matches!(stopped, Err(Error::Stopped)));
    }
    assert_eq!(work(&folder, &By(|_: &Item| checked("sound")), false).unwrap(), 3);
    assert_eq!(merged(&folder).totals.sound, 3);
}

#[test]
fn an_image_that_is_gone_is_named_and_checked_again_on_request() {
    let place = Place::new("gone");
    let folder = place.plan(3, 1);
    let gone = By(|item: &Item| checked(if item.id == "v1" { "refused" } else { "sound" }));
    work(&folder, &gone, false).unwrap();
    let report = merged(&folder);
    assert_eq!((report.totals.refused, report.totals.checked, report.exit_code), (1, 2, 8));
    // Nothing is left to do for a run, unless it is asked for.
    assert!(status::incomplete(&folder, false).unwrap().is_empty());
    assert_eq!(work(&folder, &By(|_: &Item| checked("sound")), false).unwrap(), 0);
    assert_eq!(work(&folder, &By(|_: &Item| checked("sound")), true).unwrap(), 1);
    assert_eq!((merged(&folder).totals.sound, merged(&folder).exit_code), (3, 0));
}

#[test]
fn a_list_that_changes_in_mid_run_ends_the_worker() {
    let place = Place::new("changed");
    let folder = place.plan(4, 2);
    let is_usage =
        |done: Result<u64, Error>| matches!(done, Err(Error::Usage(why)) if why.contains("meantime"));
    // While a worker is at it, the folder is planned anew with another list.
    let other = Place::new("changed-other");
    let changing = By(|item: &Item| {
        if item.id == "v0" {
            let text = fs::read(other.plan(7, 2).path().join("run.json")).unwrap();
            replace(&folder.path().join("run.json"), &text).unwrap();
        }
        checked("sound")
    });
    assert!(is_usage(work(&folder, &changing, false)));
    // A shard alone is changed.
    let place = Place::new("changed-shard");
    let folder = place.plan(4, 2);
    let file = folder.path().join("shards/00001.jsonl");
    OpenOptions::new()
        .append(true)
        .open(&file)
        .unwrap()
        .write_all(b"{\"id\":\"v9\",\"target\":\"/v9\"}\n")
        .unwrap();
    assert!(is_usage(work(&folder, &By(|_: &Item| checked("sound")), false)));
    assert!(merge(&folder, None).is_err());
}

#[test]
fn a_folder_takes_one_run_and_no_other() {
    let place = Place::new("once");
    let folder = place.plan(4, 2);
    let again = |volumes: usize, shards: usize| {
        let shards = divide((0..volumes).map(item).collect(), shards);
        let facts = ListFacts { volumes: volumes as u64, ..ListFacts::default() };
        let run = Run::new("test", 2000, facts, &shards).unwrap();
        RunFolder::create(&place.0, &run, &shards).map(|(folder, is_new)| (folder.run.id, is_new))
    };
    assert_eq!(again(4, 2).unwrap(), (folder.run.id.clone(), false), "the same plan is no other run");
    assert!(matches!(again(5, 2), Err(Error::Usage(_))));
    assert!(matches!(again(4, 1), Err(Error::Usage(_))));
    // A plan that was interrupted before it was whole is made again.
    fs::remove_file(place.0.join("run.json")).unwrap();
    assert!(again(5, 2).unwrap().1);
    fs::remove_file(place.0.join("run.json")).unwrap();
    fs::write(place.0.join("thesis.txt"), "mine").unwrap();
    assert!(matches!(again(5, 2), Err(Error::Usage(why)) if why.contains("thesis.txt")));
    assert!(matches!(RunFolder::open(&place.0.join("nowhere")), Err(Error::Usage(_))));
    let other = Place::new("version");
    assert!(
        matches!(other.plan(1, 1).must_be_planned_by("9.9"), Err(Error::Usage(why)) if why.contains("9.9"))
    );
}

#[test]
fn records_of_another_run_and_lines_of_nonsense_count_for_nothing() {
    let place = Place::new("foreign");
    let folder = place.plan(2, 1);
    let foreign = r#"{"worker":{"run":"other","shard":0,"attempt":1,"node":"n","process":1,"started":1}}
{"id":"v0","node":"n","attempt":1,"started":1,"seconds":1.0,"exit":0,"verdict":"sound"}
"#;
    fs::write(folder.records(0).join("0001.jsonl"), foreign).unwrap();
    let own = foreign.replace("other", &folder.run.id).replace("v0", "v7");
    fs::write(folder.records(0).join("0002.jsonl"), own + "nonsense\n{\"id\":7}\n\u{fffd}\n").unwrap();
    fs::write(folder.records(0).join("notes.txt"), "mine").unwrap();
    let report = merged(&folder);
    assert_eq!((report.totals.missing, report.totals.unlisted, report.totals.unreadable_lines), (2, 1, 3));
    assert_eq!(work(&folder, &By(|_: &Item| checked("sound")), false).unwrap(), 2);
    assert_eq!(merged(&folder).totals.sound, 2);
}

#[test]
fn only_what_was_not_found_sound_lately_is_outdated() {
    let place = Place::new("outdated");
    let folder = place.plan(4, 1);
    let verdicts = ["sound", "damaged", "refused", "sound"];
    let by_id = |item: &Item| checked(verdicts[item.id[1..].parse::<usize>().unwrap()]);
    work(&folder, &By(by_id), false).unwrap();
    let ids = |since: u64| -> Vec<String> {
        let items = (0..6).map(item).collect();
        let due = select::outdated(items, std::slice::from_ref(&folder), since).unwrap();
        due.into_iter().map(|item| item.id).collect()
    };
    assert_eq!(ids(0), ["v1", "v2", "v4", "v5"]);
    assert_eq!(ids(1_000_000).len(), 6, "what was checked before that is due");
}

#[test]
fn reports_begin_with_the_worst_and_escape_what_volumes_are_called() {
    let place = Place::new("reports");
    let mut items: Vec<Item> = (0..5).map(item).collect();
    items[3].id = "<script>alert(1)</script>\"\\".to_owned();
    let folder = place.plan_items(items, 1);
    let problem =
        |severity: &str| json!({"code": "x.y.z", "severity": severity, "message": format!("{severity} <b>")});
    let checker = By(|item: &Item| {
        let mut document = document("damaged");
        match item.id.as_str() {
            "v0" => return checked("sound"),
            "v1" => return checked("refused"),
            "v2" => {
                document.insert("problems".to_owned(), json!([problem("minor"), problem("minor")]));
                document.insert("counts".to_owned(), json!({"ext.inode.links-mismatch": 20, "x.y.z": 5}));
            }
            "v4" => {
                // A disk with partitions: the verdict is the worst, the counts are added.
                let part =
                    json!({"verdict": "damaged", "problems": [problem("major")], "counts": {"x.y.z": 1}});
                let text = json!({"targets": [{"verdict": "sound"}, part, part]});
                return Ended::Checked { exit: 4, document: text.as_object().unwrap().clone() };
            }
            _ => {
                document.insert("problems".to_owned(), json!([problem("critical")]));
                document.insert("counts".to_owned(), json!({"x.y.z": 1}));
            }
        }
        Ended::Checked { exit: 4, document }
    });
    work(&folder, &checker, false).unwrap();
    let report = merged(&folder);
    let order: Vec<(&str, u64)> =
        report.volumes.iter().map(|volume| (volume.severity.as_str(), volume.problems)).collect();
    assert_eq!(order, [("critical", 1), ("major", 2), ("minor", 25), ("", 0)]);
    assert_eq!((report.exit_code, report.totals.problems, report.totals.damaged), (12, 28, 3));
    let code = |name: &str| report.codes.iter().find(|code| code.code == name).unwrap();
    assert_eq!((code("x.y.z").problems, code("x.y.z").volumes), (8, 3));
    assert_eq!(code("ext.inode.links-mismatch").severity, "minor");
    assert!(!code("ext.inode.links-mismatch").meaning.is_empty());
    let page = fsmend_fleet::html::page(&report).unwrap();
    assert!(page.contains("3 of 5 volumes are damaged") && page.contains("&lt;script&gt;alert"), "{page}");
    assert!(!page.contains("<script") && !page.contains(" <b></td>"), "{page}");
    let metrics = prometheus::metrics(&report, 7);
    assert!(metrics.contains("fsmend_fleet_volumes{verdict=\"damaged\"} 3\n"), "{metrics}");
    assert!(
        metrics.contains("id=\"<script>alert(1)</script>\\\"\\\\\",node=\"n\",verdict=\"damaged\"} 1\n"),
        "{metrics}"
    );
    assert!(metrics.lines().all(|line| line.starts_with("# ") || line.starts_with("fsmend_fleet_")));
}
