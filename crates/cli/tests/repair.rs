// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend repair`, `fsmend apply` and `fsmend undo`, as a user meets them.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/images.rs"]
mod images;
#[path = "support/schema.rs"]
mod schema;

use std::path::{Path, PathBuf};
use std::process::Output;

use fsmend_testkit::host;
use images::{Folder, code, debugfs, e2fsck, fsmend, have, have_root, prepared, stderr, stdout};
use schema::valid_report;

/// An image with one problem that is safe to mend.
fn damaged(folder: &Folder, name: &str) -> PathBuf {
    let image = folder.image(name, &[]);
    debugfs(&image, "sif <2> links_count 9");
    image
}

fn on(image: &Path, arguments: &[&str]) -> Output {
    let mut all = arguments.to_vec();
    all.push(image.to_str().unwrap());
    fsmend(&all)
}

fn ready(test: &str) -> bool {
    have(test, &["mke2fs", "debugfs", "e2fsck"])
}

#[test]
fn a_repair_and_its_undo() {
    if !ready("repair: a repair and its undo") {
        return;
    }
    let folder = Folder::new("repair-undo");
    let image = damaged(&folder, "x.img");
    let before = std::fs::read(&image).unwrap();
    let repaired = on(&image, &["repair", "-y"]);
    assert_eq!(code(&repaired), 1, "{}", stderr(&repaired));
    let text = stdout(&repaired);
    assert!(text.contains("ext.inode.links-mismatch") && text.contains("Nothing is lost."), "{text}");
    let undo = folder.path("x.img.fsmend-undo");
    assert!(text.contains(&format!("fsmend undo {}\n", undo.display())), "its place is printed: {text}");
    assert_eq!(code(&e2fsck("-fn", &image)), 0);
    assert_eq!(code(&on(&image, &["check", "-q"])), 0);
    let again = on(&image, &["repair", "-y"]);
    assert_eq!(code(&again), 0, "a second repair has nothing to do: {}", stdout(&again));
    let undone = fsmend(&["undo", undo.to_str().unwrap()]);
    assert_eq!(code(&undone), 0, "{}", stderr(&undone));
    assert_eq!(std::fs::read(&image).unwrap(), before, "byte for byte");
    assert_eq!(code(&fsmend(&["undo", undo.to_str().unwrap()])), 8, "there is nothing more to take back");
}

#[test]
fn a_plan_is_saved_and_carried_out() {
    if !ready("repair: a saved plan") {
        return;
    }
    let folder = Folder::new("repair-plan");
    let image = damaged(&folder, "x.img");
    let before = std::fs::read(&image).unwrap();
    let plan = folder.path("plan");
    let plan = plan.to_str().unwrap();
    let saved = on(&image, &["repair", "--plan", plan]);
    assert_eq!(code(&saved), 0, "{}", stderr(&saved));
    assert_eq!(std::fs::read(&image).unwrap(), before, "nothing was written");
    let applied = fsmend(&["apply", "--no-undo", plan]);
    assert_eq!(code(&applied), 1, "{}", stderr(&applied));
    assert_eq!(code(&e2fsck("-fn", &image)), 0);
    assert_eq!(code(&fsmend(&["apply", plan])), 0, "it has been carried out already");
    assert!(!folder.path("x.img.fsmend-undo").exists());
}

#[test]
fn a_plan_for_a_target_that_has_changed_is_refused() {
    if !ready("repair: a plan for another target") {
        return;
    }
    let folder = Folder::new("repair-other");
    let image = damaged(&folder, "x.img");
    let plan = folder.path("plan");
    assert_eq!(code(&on(&image, &["repair", "--plan", plan.to_str().unwrap()])), 0);
    debugfs(&image, "sif <2> links_count 8");
    let before = std::fs::read(&image).unwrap();
    let refused = fsmend(&["apply", plan.to_str().unwrap(), image.to_str().unwrap()]);
    assert_eq!(code(&refused), 8);
    assert!(stderr(&refused).contains("nothing was written"), "{}", stderr(&refused));
    assert_eq!(std::fs::read(&image).unwrap(), before);
    std::fs::write(&plan, "no plan").unwrap();
    assert_eq!(code(&fsmend(&["apply", plan.to_str().unwrap()])), 8);
}

#[test]
fn an_undo_does_not_destroy_what_came_later() {
    if !ready("repair: undo of what has changed since") {
        return;
    }
    let folder = Folder::new("repair-later");
    let image = damaged(&folder, "x.img");
    assert_eq!(code(&on(&image, &["repair", "-y"])), 1);
    debugfs(&image, "sif <2> mode 040700");
    let before = std::fs::read(&image).unwrap();
    let undo = folder.path("x.img.fsmend-undo");
    let refused = fsmend(&["undo", undo.to_str().unwrap()]);
    assert_eq!(code(&refused), 8);
    assert!(stderr(&refused).contains("--force"), "{}", stderr(&refused));
    assert_eq!(std::fs::read(&image).unwrap(), before);
    assert_eq!(code(&fsmend(&["undo", "--force", undo.to_str().unwrap()])), 0);
}

#[test]
fn nothing_is_written_unasked() {
    if !ready("repair: nothing is written unasked") {
        return;
    }
    let folder = Folder::new("repair-unasked");
    let image = damaged(&folder, "x.img");
    let before = std::fs::read(&image).unwrap();
    for arguments in
        [&["repair"] as &[&str], &["repair", "-n"], &["repair", "--dry-run"], &["repair", "--step"]]
    {
        let shown = on(&image, arguments);
        assert_eq!(code(&shown), 4, "{arguments:?}: {}", stderr(&shown));
        assert!(stdout(&shown).contains("nothing was written"), "{}", stdout(&shown));
        assert_eq!(std::fs::read(&image).unwrap(), before);
    }
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1, "no files are left behind");
}

#[test]
fn preening_does_what_is_safe() {
    if !ready("repair: preening") {
        return;
    }
    let folder = Folder::new("repair-preen");
    let safe = damaged(&folder, "safe.img");
    assert_eq!(code(&on(&safe, &["repair", "-p", "--no-undo"])), 1);
    let other = folder.image("other.img", &[]);
    debugfs(&other, "unlink a");
    let before = std::fs::read(&other).unwrap();
    let left = on(&other, &["repair", "-p"]);
    assert_eq!(code(&left), 4, "{}", stdout(&left));
    assert_eq!(std::fs::read(&other).unwrap(), before);
}

#[test]
fn the_document_is_valid() {
    if !ready("repair: JSON") {
        return;
    }
    let folder = Folder::new("repair-json");
    let image = damaged(&folder, "x.img");
    let planned = on(&image, &["repair", "-n", "--format", "json"]);
    assert_eq!(code(&planned), 4);
    let document = valid_report(&stdout(&planned));
    assert_eq!(document["verdict"], "damaged");
    assert_eq!(document["repair"]["outcome"], "planned");
    assert_eq!(document["repair"]["files"][0]["inode"], 2);
    assert!(!document["repair"]["blocks"].as_array().unwrap().is_empty());
    let written = valid_report(&stdout(&on(&image, &["repair", "-y", "--format", "json"])));
    assert_eq!(written["repair"]["outcome"], "written");
    assert!(Path::new(written["repair"]["undo_file"].as_str().unwrap()).exists());
    let sound = valid_report(&stdout(&on(&image, &["repair", "-y", "--format", "json"])));
    assert_eq!((&sound["verdict"], &sound["repair"]["outcome"]), (&"sound".into(), &"nothing".into()));
    let nowhere = fsmend(&["repair", "-y", "--format", "json", "/nonexistent"]);
    assert_eq!(code(&nowhere), 8);
    assert_eq!(valid_report(&stdout(&nowhere))["repair"]["outcome"], "refused");
}

#[test]
fn what_goes_to_lost_found_is_told_with_the_name_that_it_had() {
    if !ready("repair: former names") {
        return;
    }
    let folder = Folder::new("repair-names");
    let image = folder.image("x.img", &[]);
    let letter = folder.path("letter");
    std::fs::write(&letter, "dear").unwrap();
    debugfs(&image, "mkdir ann");
    debugfs(&image, &format!("write {} ann/letter", letter.display()));
    debugfs(&image, "unlink ann/letter");
    let planned = on(&image, &["repair", "-n", "--format", "json"]);
    let document = valid_report(&stdout(&planned));
    let file = document["repair"]["files"]
        .as_array()
        .unwrap()
        .iter()
        .find(|file| file.get("former_names").is_some())
        .unwrap_or_else(|| panic!("{document:#}"));
    assert_eq!(file["former_names"][0]["path"], "/ann/letter");
    assert_eq!(file["former_names"][0]["witness"], "deleted-entry");
    let number = file["inode"].as_u64().unwrap();
    let plan = folder.path("plan");
    assert_eq!(code(&on(&image, &["repair", "--plan", plan.to_str().unwrap()])), 0);
    assert!(String::from_utf8_lossy(&std::fs::read(&plan).unwrap()).contains("/ann/letter"));
    let copy = folder.path("y.img");
    std::fs::copy(&image, &copy).unwrap();
    let repaired = on(&image, &["repair", "-y", "--no-undo"]);
    let text = stdout(&repaired);
    let line = format!("#{number} was probably /ann/letter (");
    assert_eq!(code(&repaired), 1, "{text}");
    assert!(text.contains(&format!("inode {number}, which was probably /ann/letter")), "{text}");
    assert!(text.contains(&line), "{text}");
    let names = folder.path("x.img.fsmend-names.txt");
    assert!(text.contains(names.to_str().unwrap()), "{text}");
    assert!(std::fs::read_to_string(names).unwrap().contains(&line));
    assert_eq!(code(&e2fsck("-fn", &image)), 0);
    assert!(images::asked(&image, "ls lost+found").contains(&format!("#{number}")));
    // As e2fsck, too.
    let mended = images::compat("-fy", &copy);
    let text = stdout(&mended);
    assert_eq!(code(&mended), 1, "{text}{}", stderr(&mended));
    assert!(text.contains(&line) && text.contains("it was probably /ann/letter"), "{text}");
    assert!(folder.path("y.img.fsmend-names.txt").exists());
    assert_eq!(code(&e2fsck("-fn", &copy)), 0);
}

#[test]
fn undo_files_go_where_they_are_wanted() {
    if !ready("repair: places of undo files") {
        return;
    }
    let folder = Folder::new("repair-places");
    let image = damaged(&folder, "x.img");
    let place = folder.path("here");
    assert_eq!(code(&on(&image, &["repair", "-y", "--undo", place.to_str().unwrap()])), 1);
    assert!(place.exists() && !folder.path("x.img.fsmend-undo").exists());
    debugfs(&image, "sif <2> links_count 9");
    let silent = on(&image, &["repair", "-y", "--no-undo", "--format", "json"]);
    assert_eq!(code(&silent), 1);
    assert!(valid_report(&stdout(&silent))["repair"].get("undo_file").is_none());
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2);
}

#[test]
fn a_part_of_a_file_is_repaired() {
    if !ready("repair: --offset") {
        return;
    }
    let folder = Folder::new("repair-offset");
    let image = damaged(&folder, "x.img");
    let disk = folder.path("disk.img");
    let mut bytes = vec![7; 1 << 20];
    bytes.extend(std::fs::read(&image).unwrap());
    std::fs::write(&disk, &bytes).unwrap();
    let repaired = on(&disk, &["repair", "-y", "--offset", "1M"]);
    assert_eq!(code(&repaired), 1, "{}", stderr(&repaired));
    assert_eq!(code(&on(&disk, &["check", "-q", "--offset", "1M"])), 0);
    let undo = folder.path("disk.img.fsmend-undo");
    assert_eq!(code(&fsmend(&["undo", undo.to_str().unwrap()])), 0);
    assert_eq!(std::fs::read(&disk).unwrap(), bytes);
    let plan = folder.path("plan");
    let plan = plan.to_str().unwrap();
    assert_eq!(code(&on(&disk, &["repair", "--offset", "1M", "--plan", plan])), 0);
    let applied = fsmend(&["apply", plan]);
    assert_eq!(code(&applied), 1, "the plan knows where the file system starts: {}", stderr(&applied));
}

#[test]
fn a_mounted_target_is_refused() {
    if !have_root("repair: mounted", &["mke2fs", "debugfs", "mount"]) {
        return;
    }
    let folder = Folder::new("repair-mounted");
    let image = folder.image("x.img", &[]);
    let Ok(mount) = host::LoopMount::new(&image, &folder.path("mnt"), "ext4", "") else {
        return host::skip("repair: mounted", "loop mounts are not possible");
    };
    let refused = on(&image, &["repair", "-y"]);
    assert_eq!(code(&refused), 8, "{}", stdout(&refused));
    assert!(stderr(&refused).contains("mounted"), "{}", stderr(&refused));
    mount.unmount().unwrap();
}

/// Types `typed` at the program on a terminal of its own.
fn at_a_terminal(arguments: &str, image: &Path, typed: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_fsmend");
    let line =
        format!("printf '{typed}' | script -qec '{program} {arguments} {}' /dev/null", image.display());
    prepared("sh").args(["-c", &line]).output().unwrap()
}

#[test]
fn it_asks_once_or_about_every_problem() {
    if !have("repair: questions", &["mke2fs", "debugfs", "e2fsck", "script"]) {
        return;
    }
    let folder = Folder::new("repair-questions");
    let image = folder.image("x.img", &[]);
    debugfs(&image, "sif a/one links_count 7");
    debugfs(&image, "sif a/two links_count 9");
    let before = std::fs::read(&image).unwrap();
    let declined = at_a_terminal("repair", &image, "n\\n");
    assert_eq!(code(&declined), 32, "{}", stdout(&declined));
    assert_eq!(code(&at_a_terminal("repair --step", &image, "n\\nn\\n")), 32);
    assert_eq!(std::fs::read(&image).unwrap(), before);
    let partly = at_a_terminal("repair --step --no-undo", &image, "y\\nn\\n");
    assert_eq!(code(&partly), 4, "{}", stdout(&partly));
    let left = stdout(&on(&image, &["check"]));
    assert!(!left.contains("/a/one") && left.contains("/a/two"), "{left}");
    let accepted = at_a_terminal("repair", &image, "y\\n");
    assert_eq!(code(&accepted), 1, "{}", stdout(&accepted));
    assert_eq!(code(&e2fsck("-fn", &image)), 0);
    let undo = folder.path("x.img.fsmend-undo");
    assert_eq!(code(&fsmend(&["undo", undo.to_str().unwrap()])), 0);
}

#[test]
fn usage_errors_exit_16() {
    for arguments in [
        &["repair"] as &[&str],
        &["repair", "-y", "-p", "x"],
        &["repair", "-y", "-n", "x"],
        &["repair", "--plan", "f", "-y", "x"],
        &["repair", "--undo", "f", "--no-undo", "x"],
        &["repair", "--duplicates", "sell", "x"],
        &["apply"],
        &["undo"],
    ] {
        let output = prepared(env!("CARGO_BIN_EXE_fsmend")).args(arguments).output().unwrap();
        assert_eq!(code(&output), 16, "{arguments:?}");
    }
}

#[test]
fn usage_errors_are_json_for_programs_that_asked_for_json() {
    for arguments in [
        &["repair", "--format", "json"] as &[&str],
        &["check", "--format=json", "--threads", "many", "x"],
        &["check", "--nonsense", "--format", "json", "x"],
    ] {
        let output = prepared(env!("CARGO_BIN_EXE_fsmend")).args(arguments).output().unwrap();
        assert_eq!(code(&output), 16, "{arguments:?}");
        let document = valid_report(&stdout(&output));
        assert_eq!((&document["verdict"], &document["error"]["code"]), (&"refused".into(), &"usage".into()));
    }
    // What is missing, or excludes one another, is named: the parser lists it below its first line.
    for (arguments, named) in [
        (&["check", "--format", "json"] as &[&str], "<TARGET>"),
        (&["repair", "--format", "json", "--plan", "f", "-n", "-y", "x"], "--dry-run"),
    ] {
        let output = prepared(env!("CARGO_BIN_EXE_fsmend")).args(arguments).output().unwrap();
        let document = valid_report(&stdout(&output));
        let message = document["error"]["message"].as_str().unwrap();
        assert!(message.contains(named), "{message}");
    }
    let output = prepared(env!("CARGO_BIN_EXE_fsmend")).args(["check", "--", "--format=json", "x"]).output();
    assert!(!stdout(&output.unwrap()).starts_with('{'));
}

/// A log that a run was killed over: the plan of a repair, begun and not finished.
fn interrupt(image: &Path, plan: &Path) {
    interrupt_at(image, plan, Some(fsmend_device::Step::Mark));
}

/// The same, cut in the named step, or when all is written and the log is still open.
fn interrupt_at(image: &Path, plan: &Path, last: Option<fsmend_device::Step>) {
    use fsmend_device::{ApplyOptions, Control, OpenOptions, Plan, Progress, WriteError, WriteOptions};
    let whole = OpenOptions { offset: Some(0), partition: None };
    let opened =
        fsmend_device::open_writable(image, &whole, WriteOptions::default(), &fsmend::FAMILIES).unwrap();
    let log = fsmend_device::create_log(image, Path::new("/nonexistent")).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let stop_in_the_middle = |progress: Progress| {
        stop.store(Some(progress.step) == last, std::sync::atomic::Ordering::Relaxed);
    };
    let fail = |_| Err(WriteError::io(0, 1, std::io::Error::other("the power is off")));
    let control = Control { close: &fail, ..Control::new(&stop, &stop_in_the_middle) };
    let options = ApplyOptions { start: 0, keep_undo: false, control };
    let plan = Plan::load(plan, 1 << 30).unwrap();
    let error = fsmend_device::apply(&plan, &*opened.targets[0].device, &log, &options).unwrap_err();
    assert!(error.is_begun(), "{error}");
}

#[test]
fn the_next_run_finishes_what_was_interrupted() {
    if !ready("repair: interrupted") {
        return;
    }
    let folder = Folder::new("repair-interrupted");
    // As undo file may even be named what is the log yet.
    let undo = folder.path("x.img.fsmend-undo");
    let undo = undo.to_str().unwrap();
    for arguments in [
        &["repair", "-y"] as &[&str],
        &["repair", "-y", "--undo", undo],
        &["e2fsck", "-p"],
        &["e2fsck", "-fy"],
        &["repair", "-p"],
    ] {
        let image = damaged(&folder, "x.img");
        let plan = folder.path("plan");
        assert_eq!(code(&on(&image, &["repair", "--plan", plan.to_str().unwrap()])), 0);
        interrupt(&image, &plan);
        assert_ne!(code(&e2fsck("-n", &image)), 1, "the superblock says that something is going on");
        let looked = on(&image, &["e2fsck", "-n"]);
        assert!(stdout(&looked).contains("interrupted"), "{}", stdout(&looked));
        for looks in [&["repair", "-n"] as &[&str], &["check"]] {
            let looked = on(&image, looks);
            assert_eq!(code(&looked), 4, "{looks:?}");
            assert!(stderr(&looked).contains("an earlier repair was interrupted"), "{}", stderr(&looked));
            assert!(!stdout(&looked).contains("ext."), "half-written is no damage: {}", stdout(&looked));
        }
        let document = valid_report(&stdout(&on(&image, &["check", "--format", "json"])));
        assert_eq!(document["error"]["code"], "interrupted-repair");
        let finished = on(&image, arguments);
        assert_eq!(code(&finished), 1, "{arguments:?}: {}{}", stdout(&finished), stderr(&finished));
        assert!(stdout(&finished).contains("interrupted"), "{arguments:?}: {}", stdout(&finished));
        assert_eq!(code(&e2fsck("-fn", &image)), 0, "{arguments:?}");
        assert!(!folder.path("x.img.fsmend-undo").exists(), "{arguments:?}: the log is gone");
    }
    // The plan itself again: what is left of it is done, which is a repair, and nothing more.
    let (image, plan) = (damaged(&folder, "x.img"), folder.path("plan"));
    assert_eq!(code(&on(&image, &["repair", "--plan", plan.to_str().unwrap()])), 0);
    interrupt(&image, &plan);
    for (expected, lines) in [(1, 2), (0, 1)] {
        let applied = fsmend(&["apply", plan.to_str().unwrap()]);
        assert_eq!(code(&applied), expected, "{}{}", stdout(&applied), stderr(&applied));
        assert_eq!(stdout(&applied).lines().count(), lines, "{}", stdout(&applied));
    }
}

#[test]
fn the_run_that_finishes_a_repair_keeps_the_former_names() {
    use fsmend_device::Step;
    if !ready("repair: former names after an interruption") {
        return;
    }
    let folder = Folder::new("repair-names-interrupted");
    let sound = folder.image("sound.img", &[]);
    let letter = folder.path("letter");
    std::fs::write(&letter, "dear").unwrap();
    debugfs(&sound, "mkdir ann");
    debugfs(&sound, &format!("write {} ann/letter", letter.display()));
    debugfs(&sound, "unlink ann/letter");
    let (image, names) = (folder.path("x.img"), folder.path("x.img.fsmend-names.txt"));
    let (log, plan) = (folder.path("x.img.fsmend-undo"), folder.path("plan"));
    for (last, arguments) in [
        (Some(Step::Mark), &["repair", "-y"] as &[&str]),
        (Some(Step::Blocks), &["e2fsck", "-p"]),
        (None, &["repair", "-p"]),
        (None, &["e2fsck", "-fy"]),
    ] {
        std::fs::copy(&sound, &image).unwrap();
        assert_eq!(code(&on(&image, &["repair", "--plan", plan.to_str().unwrap()])), 0);
        interrupt_at(&image, &plan, last);
        assert!(!names.exists(), "nothing is told of what is not done");
        let cut = [&image, &log].map(|path| std::fs::read(path).unwrap());
        let finished = on(&image, arguments);
        assert_eq!(code(&finished), 1, "{arguments:?}: {}{}", stdout(&finished), stderr(&finished));
        assert!(stdout(&finished).contains(names.to_str().unwrap()), "{}", stdout(&finished));
        let kept = std::fs::read_to_string(&names).unwrap();
        assert!(kept.contains(" was probably /ann/letter ("), "{kept}");
        assert!(images::asked(&image, "ls lost+found").contains('#'));
        // Cut again, when the names were kept and the log was not yet closed.
        for (path, bytes) in [&image, &log].iter().zip(&cut) {
            std::fs::write(path, bytes).unwrap();
        }
        assert_eq!(code(&on(&image, arguments)), 1, "{arguments:?}");
        assert_eq!(std::fs::read_to_string(&names).unwrap(), kept, "once and no more");
        assert_eq!(code(&e2fsck("-fn", &image)), 0, "{arguments:?}");
        std::fs::remove_file(&names).unwrap();
    }
    // A plan that was saved has them, too; taking a repair back keeps none.
    std::fs::copy(&sound, &image).unwrap();
    assert_eq!(code(&on(&image, &["repair", "--plan", plan.to_str().unwrap()])), 0);
    let applied = fsmend(&["apply", plan.to_str().unwrap()]);
    assert_eq!(code(&applied), 1, "{}", stderr(&applied));
    assert!(stdout(&applied).contains(names.to_str().unwrap()), "{}", stdout(&applied));
    std::fs::remove_file(&names).unwrap();
    assert_eq!(code(&fsmend(&["undo", log.to_str().unwrap()])), 0);
    assert!(!names.exists());
}

#[test]
fn a_file_system_in_use_elsewhere_is_left_alone() {
    if !ready("repair: multiple-mount protection") {
        return;
    }
    let folder = Folder::new("repair-mmp");
    // Programs of e2fsprogs wait for seconds whenever they write such an image: it is filled before it gets the feature.
    let image = folder.image("x.img", &["-O", "^metadata_csum"]);
    debugfs(&image, "sif <2> links_count 9");
    host::run("tune2fs", ["-O", "mmp", image.to_str().unwrap()]).unwrap();
    let before = std::fs::read(&image).unwrap();
    let repaired = on(&image, &["repair", "-y"]);
    assert_eq!(code(&repaired), 1, "{}", stderr(&repaired));
    assert_eq!(code(&e2fsck("-fn", &image)), 0, "the block is at rest again");
    let undo = folder.path("x.img.fsmend-undo");
    assert_eq!(code(&fsmend(&["undo", undo.to_str().unwrap()])), 0);
    assert_eq!(std::fs::read(&image).unwrap(), before);
    let mut bytes = before;
    let at = bytes.windows(4).position(|word| word == 0x004D_4D50_u32.to_le_bytes()).unwrap();
    bytes[at + 4..at + 8].copy_from_slice(&0xE24D_4D50_u32.to_le_bytes());
    bytes[at + 0x10..at + 0x14].copy_from_slice(b"far\0");
    std::fs::write(&image, &bytes).unwrap();
    for arguments in [&["repair", "-y"] as &[&str], &["e2fsck", "-fy"]] {
        let refused = on(&image, arguments);
        assert_eq!(code(&refused), 8, "{arguments:?}: {}", stdout(&refused));
        assert!(stderr(&refused).contains("far"), "{arguments:?}: {}", stderr(&refused));
        assert_eq!(std::fs::read(&image).unwrap(), bytes);
    }
}
