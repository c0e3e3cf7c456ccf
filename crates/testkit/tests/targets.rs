// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets that are written, on a real kernel: mounted and attached ones are refused, block devices are written exclusively.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use fsmend_device::{
    ApplyOptions, Control, LogState, OpenErrorKind, OpenOptions, Plan, PlanBuilder, Recovered, Usage,
    WritableTarget, WriteOptions, apply, create_log, find_logs, open_writable, undo,
};
use fsmend_testkit::host::{find_program, is_root, run, skip, unmount};
use fsmend_testkit::image::{Built, build, matrix};
use fsmend_testkit::target_folder;

/// A folder with a private copy of a small image, removed when dropped.
struct Workshop(PathBuf);

impl Workshop {
    fn new(label: &str) -> Option<Workshop> {
        let recipe = matrix::all().into_iter().find(|recipe| recipe.name == "empty").unwrap();
        let image = match build(&recipe).unwrap() {
            Built::Image(image) if is_root() && find_program("losetup").is_some() => image,
            Built::Image(_) => return skipped(label, "needs the superuser and losetup"),
            Built::Skipped(reason) => return skipped(label, &reason),
        };
        let folder = target_folder().join(format!("targets-{label}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::copy(image, folder.join("image")).unwrap();
        Some(Workshop(folder))
    }

    fn image(&self) -> PathBuf {
        self.0.join("image")
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn skipped(label: &str, why: &str) -> Option<Workshop> {
    skip(&format!("targets: {label}"), why);
    None
}

/// A loop device, detached when dropped.
struct Loop(PathBuf);

impl Loop {
    fn new(image: &Path) -> Loop {
        let shown = run("losetup", ["--find".as_ref(), "--show".as_ref(), image.as_os_str()]).unwrap();
        Loop(PathBuf::from(String::from_utf8(shown.stdout).unwrap().trim()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run("losetup", ["--detach".as_ref(), self.0.as_os_str()]);
    }
}

fn opened(path: &Path, rights: WriteOptions) -> Result<WritableTarget, OpenErrorKind> {
    match open_writable(path, &OpenOptions::default(), rights, &fsmend::FAMILIES) {
        Ok(mut opened) => Ok(opened.targets.remove(0)),
        Err(error) => Err(error.kind),
    }
}

fn is_mounted(error: OpenErrorKind) -> bool {
    let OpenErrorKind::Busy(usage) = &error else { panic!("{error:?}") };
    usage.iter().any(|usage| matches!(usage, Usage::Mounted { .. }))
}

#[test]
fn what_is_mounted_is_not_opened() {
    let Some(workshop) = Workshop::new("mounted") else { return };
    let device = Loop::new(&workshop.image());
    assert!(matches!(opened(&workshop.image(), WriteOptions::default()), Err(OpenErrorKind::Busy(_))));
    for options in ["ro", "rw"] {
        let point = workshop.0.join("mount");
        fs::create_dir_all(&point).unwrap();
        run("mount", ["-o".as_ref(), options.as_ref(), device.0.as_os_str(), point.as_os_str()]).unwrap();
        let refused = [&device.0, &workshop.image()].map(|path| opened(path, WriteOptions::default()).err());
        let tolerated =
            opened(&device.0, WriteOptions { mounted_read_only: true, ..WriteOptions::default() })
                .map(|_| ());
        unmount(&point).unwrap();
        assert!(refused.into_iter().all(|error| is_mounted(error.unwrap())), "{options}");
        assert_eq!(tolerated.is_ok(), options == "ro", "{tolerated:?}");
    }
    let target = opened(&device.0, WriteOptions::default()).unwrap();
    let second = opened(&device.0, WriteOptions::default());
    assert!(matches!(second, Err(OpenErrorKind::Busy(_))), "it is open exclusively");
    let mounted = run("mount", [device.0.as_os_str(), workshop.0.join("mount").as_os_str()]);
    assert!(mounted.is_err(), "it cannot be mounted meanwhile");
    drop(target);
}

#[test]
fn a_block_device_is_repaired_and_taken_back() {
    let Some(workshop) = Workshop::new("device") else { return };
    let before = fs::read(workshop.image()).unwrap();
    let (device, state) = (Loop::new(&workshop.image()), workshop.0.join("state/folder"));
    let target = opened(&device.0, WriteOptions::default()).unwrap();
    let changes: Vec<(u64, Vec<u8>)> =
        (0..200).map(|number| (70_000 + number * 30_000, vec![number as u8; 5000])).collect();
    let builder =
        PlanBuilder { changes: &changes, marker: &[(1024, vec![9; 1024])], ..PlanBuilder::default() };
    let plan = Plan::make(&*target.device, &builder).unwrap();
    let log = create_log(&device.0, &state).unwrap();
    assert!(log.path().starts_with(&state), "not beside a device");
    let control = Control::unattended();
    apply(&plan, &*target.device, &log, &ApplyOptions { start: 0, keep_undo: true, control }).unwrap();
    drop(log);
    let mut wanted = before.clone();
    for (at, bytes) in &changes {
        wanted[*at as usize..*at as usize + bytes.len()].copy_from_slice(bytes);
    }
    assert!(fs::read(workshop.image()).unwrap() == wanted, "it has reached the file below");
    let mut logs = find_logs(&device.0, &state);
    assert_eq!((logs.len(), logs[0].state), (1, LogState::Applied));
    let undone = undo(&logs.remove(0).log, &*target.device, false, control);
    assert!(matches!(undone, Ok(Recovered::TakenBack { .. })), "{undone:?}");
    drop(target);
    assert!(fs::read(workshop.image()).unwrap() == before);
}
