// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::testing::TempFile;
use crate::{
    Condition, Device, OpenOptions, PlanBuilder, PlanSpill, WritableMemory, WriteOptions, open_writable,
};

/// A folder of its own for each test.
struct Folder(PathBuf);

impl Folder {
    fn new(label: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("fsmend-apply-{label}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn log(&self) -> LogOnDisk {
        create_log(&self.0.join("nothing"), &self.0).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn image(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 11) as u8).collect()
}

fn options() -> ApplyOptions<'static> {
    ApplyOptions { start: 0, keep_undo: true, control: Control::unattended() }
}

/// A plan with a marker, blocks far apart, and the odd end of the device; and the bytes it leads to.
fn plan(device: &dyn Device) -> (Plan, Vec<u8>) {
    plan_within(device, &PlanSpill::NONE)
}

fn plan_within(device: &dyn Device, spill: &PlanSpill<'_>) -> (Plan, Vec<u8>) {
    let mut changes = vec![(1030, vec![0xAA; 20]), (5000, vec![1; 9000])];
    changes.extend((10..1000).map(|block| (block * 8192 + 17, vec![block as u8; 3])));
    changes.push((device.len() - 1, vec![0x55]));
    let marker = [(1024, vec![0xEE; 1024])];
    let builder = PlanBuilder { changes: &changes, marker: &marker, ..PlanBuilder::default() };
    let plan = Plan::make_within(device, &builder, spill).unwrap();
    let mut after = vec![0; device.len() as usize];
    device.read_at(0, &mut after).unwrap();
    for (at, bytes) in changes {
        after[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
    }
    (plan, after)
}

fn trial() -> (WritableMemory, Plan, Vec<u8>) {
    let device = WritableMemory::new("target", image(9_000_100));
    let (plan, after) = plan(&device);
    (device, plan, after)
}

#[test]
fn a_plan_is_carried_out_and_taken_back_byte_for_byte() {
    let (folder, (device, plan, after)) = (Folder::new("round"), trial());
    let log = folder.log();
    let applied = apply(&plan, &device, &log, &options()).unwrap();
    assert_eq!(applied, Applied { blocks: plan.blocks().count() as u64, undo_kept: true });
    assert!(device.bytes() == after);
    assert_eq!(plan.compare(&device), Condition::Done);
    let contents = inspect_log(&log).unwrap().unwrap();
    assert_eq!((contents.state, contents.target_name.as_str()), (LogState::Applied, "target"));
    assert_eq!(contents.plan, plan);
    let control = Control::unattended();
    assert_eq!(
        recover(&log, &device, Way::AsBegun, false, control),
        Ok(Recovered::Nothing(LogState::Applied))
    );
    assert!(matches!(undo(&log, &device, false, control), Ok(Recovered::TakenBack { .. })));
    assert!(device.bytes() == image(9_000_100));
    assert_eq!(undo(&log, &device, false, control), Err(ApplyError::NothingToUndo(LogState::Undone)));
}

#[test]
fn a_plan_in_a_file_that_changes_writes_nothing_wrong() {
    let (folder, device) = (Folder::new("spilled"), WritableMemory::new("target", image(9_000_100)));
    let place = folder.0.join("plan");
    let file = File::options().read(true).write(true).create_new(true).open(&place).unwrap();
    let held = plan(&device).0;
    let spill = PlanSpill { above: 0, file: &|_| file.try_clone().ok() };
    let (plan, after) = plan_within(&device, &spill);
    assert_eq!(plan.bytes().unwrap(), held.bytes().unwrap());
    let spoil = |byte: u8| file.write_all_at(&[byte; 3], held.len() - 11).unwrap();
    // Before the log has its copy, the target stays as it is.
    let right = held.bytes().unwrap()[held.len() as usize - 11];
    spoil(!right);
    let applied = apply(&plan, &device, &folder.log(), &options());
    assert!(matches!(applied, Err(ApplyError::LogNotWritten(_))), "{applied:?}");
    assert!(device.bytes() == image(9_000_100));
    // Later, the next run finishes from the log.
    let (plan, _) = plan_within(&device, &spill);
    let stop = AtomicBool::new(false);
    let spoil_late = |progress: Progress| {
        if progress.step == Step::Mark {
            spoil(!right);
        }
    };
    let control = Control::new(&stop, &spoil_late);
    let log = folder.log();
    let applied = apply(&plan, &device, &log, &ApplyOptions { control, ..options() });
    assert!(
        matches!(&applied, Err(ApplyError::Write(error)) if error.to_string().contains("the plan")),
        "{applied:?}"
    );
    let recovered = recover(&log, &device, Way::AsBegun, false, Control::unattended());
    assert!(matches!(recovered, Ok(Recovered::Finished { .. })), "{recovered:?}");
    assert!(device.bytes() == after);
}

#[test]
fn without_undo_nothing_is_left_behind() {
    let (folder, (device, plan, after)) = (Folder::new("no-undo"), trial());
    let options = ApplyOptions { keep_undo: false, ..options() };
    apply(&plan, &device, &folder.log(), &options).unwrap();
    assert!(device.bytes() == after);
    assert!(folder.names().is_empty());
}

#[test]
fn a_closed_log_that_could_not_be_removed_any_more_goes_with_the_next_run() {
    let (folder, (device, plan, _)) = (Folder::new("closed-log"), trial());
    let target = folder.0.join("disk.img");
    std::fs::write(&target, [0]).unwrap();
    for (keep_undo, left) in [(false, vec!["disk.img"]), (true, vec!["disk.img", "disk.img.fsmend-undo"])] {
        let (log, second_name) = (create_log(&target, &folder.0).unwrap(), folder.0.join("as-if-killed"));
        std::fs::hard_link(log.path(), &second_name).unwrap();
        let place = log.path().to_owned();
        apply(&plan, &device, &log, &ApplyOptions { keep_undo, ..options() }).unwrap();
        std::fs::rename(&second_name, &place).unwrap();
        let _ = std::fs::remove_file(&second_name);
        remove_closed_logs(&target, 0, &device, &folder.0);
        assert!(folder.names().contains(&"disk.img.fsmend-undo".to_owned()), "it is still held");
        drop(log);
        remove_closed_logs(&target, 4096, &device, &folder.0);
        assert!(
            folder.names().contains(&"disk.img.fsmend-undo".to_owned()),
            "it is that of another partition"
        );
        remove_closed_logs(&target, 0, &device, &folder.0);
        assert_eq!(folder.names(), left);
        device.write_at(0, &image(9_000_100)).unwrap();
    }
}

#[test]
fn a_closed_log_of_another_target_of_the_same_name_stays() {
    let (folder, (device, plan, _)) = (Folder::new("closed-logs-of-two"), trial());
    let (target, state) = (folder.0.join("disk.img"), folder.0.join("state"));
    std::fs::write(&target, [0]).unwrap();
    let log = create_log_in(&state, &target).unwrap();
    let (place, second_name) = (log.path().to_owned(), state.join("as-if-killed"));
    std::fs::hard_link(&place, &second_name).unwrap();
    apply(&plan, &device, &log, &ApplyOptions { keep_undo: false, ..options() }).unwrap();
    drop(log);
    std::fs::rename(&second_name, &place).unwrap();
    remove_closed_logs(&target, 0, &WritableMemory::new("another target", Vec::new()), &state);
    assert!(place.exists());
    remove_closed_logs(&target, 0, &device, &state);
    assert!(!place.exists());
}

/// A log at whose first sync something happens to the target.
struct Meddling<'m> {
    log: LogOnDisk,
    meddle: &'m (dyn Fn() + Sync),
    is_done: AtomicBool,
}

impl Device for Meddling<'_> {
    fn name(&self) -> &str {
        self.log.name()
    }

    fn len(&self) -> u64 {
        self.log.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), crate::ReadError> {
        self.log.read_at(offset, buf)
    }
}

impl WritableDevice for Meddling<'_> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.log.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<(), WriteError> {
        if !self.is_done.swap(true, Ordering::Relaxed) {
            (self.meddle)();
        }
        self.log.sync()
    }
}

impl LogFile for Meddling<'_> {
    fn sync_entry(&self) -> Result<(), WriteError> {
        self.log.sync_entry()
    }

    fn remove(&self) -> Result<(), WriteError> {
        self.log.remove()
    }
}

#[test]
fn a_target_that_changes_while_the_log_is_written_is_left_alone() {
    let folder = Folder::new("meddling");
    let apply_while = |meddle: &(dyn Fn(&std::path::Path) + Sync)| {
        let path = folder.0.join("target.img");
        std::fs::write(&path, image(9_000_100)).unwrap();
        let target = crate::WritableFile::open(&path, false).unwrap();
        let (plan, _) = plan(&target);
        let meddle = || meddle(&path);
        let log = Meddling { log: folder.log(), meddle: &meddle, is_done: AtomicBool::new(false) };
        let refused = apply(&plan, &target, &log, &options()).unwrap_err();
        assert!(!refused.is_begun(), "{refused}");
        assert!(folder.names().iter().all(|name| name.starts_with("target.img")), "{:?}", folder.names());
        (refused, std::fs::read(&path).unwrap())
    };
    let set_len = |path: &std::path::Path, len| {
        std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
    };
    let (refused, left) = apply_while(&|path| set_len(path, 10_000));
    assert!(matches!(refused, ApplyError::TargetLength { found: 10_000, .. }), "{refused}");
    assert!(left == image(9_000_100)[..10_000], "and it does not grow again");
    let (refused, left) = apply_while(&|path| {
        use std::os::unix::fs::FileExt;
        std::fs::OpenOptions::new().write(true).open(path).unwrap().write_all_at(b"x", 5001).unwrap();
    });
    assert!(matches!(&refused, ApplyError::TargetChanged(found) if found.offsets == [4096]), "{refused}");
    assert_eq!(left[5001], b'x');
    let (refused, _) = apply_while(&|path| {
        std::fs::rename(path, path.with_extension("img.old")).unwrap();
        std::fs::write(path, b"another").unwrap();
    });
    assert_eq!(refused, ApplyError::TargetReplaced);
}

#[test]
fn a_target_that_has_changed_is_refused_before_anything_is_written() {
    let (folder, (device, plan, _)) = (Folder::new("changed"), trial());
    device.write_at(5000, &[0xFF]).unwrap();
    let before = device.bytes();
    let Err(ApplyError::TargetChanged(differences)) = apply(&plan, &device, &folder.log(), &options()) else {
        panic!("not refused");
    };
    assert_eq!(differences.offsets, [4096]);
    let shorter = WritableMemory::new("target", image(100));
    let refused = apply(&plan, &shorter, &folder.log(), &options());
    assert_eq!(refused, Err(ApplyError::TargetLength { planned: 9_000_100, found: 100 }));
    assert!(folder.names().is_empty() && device.bytes() == before);
}

#[test]
fn undo_does_not_destroy_what_came_after_the_repair() {
    let (folder, (device, plan, _)) = (Folder::new("since"), trial());
    let log = folder.log();
    apply(&plan, &device, &log, &options()).unwrap();
    device.write_at(4096, &[0xFF]).unwrap();
    let Err(ApplyError::ChangedSince(differences)) = undo(&log, &device, false, Control::unattended()) else {
        panic!("not refused");
    };
    assert_eq!(differences.offsets, [4096]);
    undo(&log, &device, true, Control::unattended()).unwrap();
    assert!(device.bytes() == image(9_000_100));
}

#[test]
fn a_stop_leaves_nothing_or_an_open_log() {
    let (folder, (device, plan, after)) = (Folder::new("stop"), trial());
    let stop = AtomicBool::new(true);
    let control = Control::new(&stop, &|_| {});
    let stopped = apply(&plan, &device, &folder.log(), &ApplyOptions { control, ..options() });
    assert_eq!(stopped, Err(ApplyError::Stopped { begun: false }));
    assert!(folder.names().is_empty() && device.bytes() == image(9_000_100));

    stop.store(false, Ordering::Relaxed);
    let at_blocks = |progress: Progress| {
        stop.store(progress.step == Step::Blocks && progress.done > 300, Ordering::Relaxed);
    };
    let control = Control::new(&stop, &at_blocks);
    let log = folder.log();
    let stopped = apply(&plan, &device, &log, &ApplyOptions { control, ..options() });
    assert_eq!(stopped, Err(ApplyError::Stopped { begun: true }));
    assert!(device.bytes() != after);
    assert_eq!(device.bytes()[1024], 0xEE, "it is marked");
    let control = Control::unattended();
    assert!(matches!(
        recover(&log, &device, Way::AsBegun, false, control),
        Ok(Recovered::Finished { undo_kept: true, .. })
    ));
    assert!(device.bytes() == after);
}

#[test]
fn foreign_bytes_are_not_written_over() {
    let (folder, (device, plan, after)) = (Folder::new("foreign"), trial());
    let stop = AtomicBool::new(false);
    let progress = |progress: Progress| {
        stop.fetch_or(progress.step == Step::Mark && progress.done > 0, Ordering::Relaxed);
    };
    let control = Control::new(&stop, &progress);
    let log = folder.log();
    apply(&plan, &device, &log, &ApplyOptions { control, ..options() }).unwrap_err();
    device.write_at(8200, &[0xFF]).unwrap();
    let control = Control::unattended();
    let Err(ApplyError::Foreign(foreign)) = recover(&log, &device, Way::AsBegun, false, control) else {
        panic!("not refused");
    };
    assert_eq!(foreign.offsets, [8192]);
    recover(&log, &device, Way::AsBegun, true, control).unwrap();
    assert!(device.bytes() == after);
}

#[test]
fn a_damaged_log_is_told_from_an_incomplete_one() {
    let (folder, (device, plan, _)) = (Folder::new("damaged"), trial());
    let log = folder.log();
    apply(&plan, &device, &log, &options()).unwrap();
    for at in [20, 12_300, 13_000, log.len() - 5000] {
        let mut byte = [0];
        log.read_at(at, &mut byte).unwrap();
        log.write_at(at, &[!byte[0]]).unwrap();
        let refused = undo(&log, &device, false, Control::unattended());
        assert!(matches!(refused, Err(ApplyError::LogDamaged(_))), "byte {at}: {refused:?}");
        log.write_at(at, &byte).unwrap();
    }
    for slot in [4096, 8192] {
        log.write_at(slot, &[0; 48]).unwrap();
    }
    let recovered = recover(&log, &device, Way::AsBegun, false, Control::unattended());
    assert_eq!(recovered, Ok(Recovered::Dropped));
    assert!(folder.names().is_empty());
}

#[test]
fn any_damage_to_a_log_is_survived() {
    let folder = Folder::new("hostile");
    let device = WritableMemory::new("target", image(20_000));
    let marker = [(1024, vec![0xEE; 8])];
    let builder = PlanBuilder { changes: &[(5000, vec![1; 30])], marker: &marker, ..PlanBuilder::default() };
    let plan = Plan::make(&device, &builder).unwrap();
    let log = folder.log();
    apply(&plan, &device, &log, &options()).unwrap();
    let mut bytes = vec![0; log.len() as usize];
    log.read_at(0, &mut bytes).unwrap();
    for at in (0..bytes.len()).step_by(3) {
        log.write_at(at as u64, &[!bytes[at]]).unwrap();
        if let Ok(Some(contents)) = inspect_log(&log) {
            assert!(contents.plan == plan, "byte {at} was changed and not noticed");
        }
        log.write_at(at as u64, &bytes[at..=at]).unwrap();
    }
}

#[test]
fn the_log_of_an_image_lies_beside_it_and_is_found_there() {
    let (folder, state) = (Folder::new("beside"), Folder::new("beside-state"));
    let path = folder.0.join("disk.img");
    std::fs::write(&path, image(9_000_100)).unwrap();
    let opened =
        open_writable(&path, &OpenOptions::default(), WriteOptions::default(), &crate::Whatever).unwrap();
    let device = &opened.targets[0].device;
    let (plan, after) = plan(device);
    std::fs::write(folder.0.join("disk.img.fsmend-undo"), b"somebody else's").unwrap();
    let log = create_log(&path, &state.0).unwrap();
    let stop = AtomicBool::new(false);
    let progress = |progress: Progress| {
        stop.fetch_or(progress.step == Step::Mark && progress.done > 0, Ordering::Relaxed);
    };
    let control = Control::new(&stop, &progress);
    apply(&plan, device, &log, &ApplyOptions { control, ..options() }).unwrap_err();
    assert!(find_open_log(&path, 0, device, &state.0).is_none(), "it is still held");
    drop(log);
    if rustix::process::geteuid().is_root() {
        let log = folder.0.join("disk.img.fsmend-undo.2");
        std::os::unix::fs::chown(&log, Some(12_345), None).unwrap();
        assert!(find_open_log(&path, 0, device, &state.0).is_none(), "that of another file system");
        std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
    }
    let found = find_open_log(&path, 0, device, &state.0).unwrap();
    assert_eq!(found.state, LogState::Applying);
    assert!(found.log.path().ends_with("disk.img.fsmend-undo.2"));
    recover(&found.log, device, Way::AsBegun, false, Control::unattended()).unwrap();
    drop(found);
    assert!(std::fs::read(&path).unwrap() == after);
    assert!(find_open_log(&path, 0, device, &state.0).is_none());
    assert_eq!(find_logs(&path, &state.0)[1].state, LogState::Applied);
    assert_eq!(folder.names(), ["disk.img", "disk.img.fsmend-undo", "disk.img.fsmend-undo.2"]);
    assert!(state.names().is_empty());
}

#[test]
fn in_a_state_folder_the_contents_say_whose_log_it_is() {
    let (state, file) = (Folder::new("state"), TempFile::new("state", &[]));
    let (device, plan, after) = trial();
    let stop = AtomicBool::new(false);
    let progress = |progress: Progress| {
        stop.fetch_or(progress.step == Step::Mark && progress.done > 0, Ordering::Relaxed);
    };
    let control = Control::new(&stop, &progress);
    let log = create_log(std::path::Path::new("/dev/null"), &state.0.join("new/er")).unwrap();
    apply(&plan, &device, &log, &ApplyOptions { control, ..options() }).unwrap_err();
    drop(log);
    let folder = state.0.join("new/er");
    let renamed = WritableMemory::new("another name", device.bytes());
    let copy = WritableMemory::new("another name", image(9_000_100));
    let other = WritableMemory::new("target", vec![7; 9_000_100]);
    let missing = file.path().join("missing");
    assert!(find_open_log(&missing, 0, &copy, &folder).is_none(), "a copy made before the repair");
    assert!(find_open_log(&missing, 0, &other, &folder).is_none(), "another disk of the same name");
    let found = find_open_log(&missing, 0, &renamed, &folder).unwrap();
    recover(&found.log, &renamed, Way::AsBegun, false, Control::unattended()).unwrap();
    assert!(renamed.bytes() == after);
}
