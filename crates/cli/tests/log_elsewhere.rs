// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hybridfs whose log is on another device: found by itself, or named; checked, repaired and taken back on both.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/images.rs"]
mod images;

use std::path::PathBuf;

use fsmend_testkit::host::{self, LoopDevice};
use images::{Folder, code, fsmend, have_root, stderr, stdout};

/// The superblock on the device with the data.
const SUPERBLOCK: usize = 64 << 10;

/// Both images, with a directory in the log.
struct Pair {
    folder: Folder,
    image: PathBuf,
    log: PathBuf,
}

impl Pair {
    fn new(name: &str) -> Pair {
        let folder = Folder::new(name);
        let (image, log) = (folder.path("image"), folder.path("log"));
        std::fs::File::create(&log).unwrap().set_len(8 << 20).unwrap();
        let elsewhere = format!("log-device={}", log.display());
        let made = fsmend(&[
            "mkfs",
            "-t",
            "hybridfs",
            "-L",
            "pair",
            "-E",
            &elsewhere,
            image.to_str().unwrap(),
            "32M",
        ]);
        assert_eq!(code(&made), 0, "{}", stderr(&made));
        Pair { folder, image, log }
    }

    fn image(&self) -> &str {
        self.image.to_str().unwrap()
    }

    fn log(&self) -> &str {
        self.log.to_str().unwrap()
    }

    fn bytes(&self) -> (Vec<u8>, Vec<u8>) {
        (std::fs::read(&self.image).unwrap(), std::fs::read(&self.log).unwrap())
    }

    /// Damages a superblock on the first device, and the newest inode block, which has the root, in the log.
    fn damage(&self) {
        let (mut data, mut log) = self.bytes();
        data[SUPERBLOCK + 90] ^= 4;
        // The root directory: inode 2 with a mode of 0o040755.
        let is_root =
            |at: &usize| log[at + 4..at + 12] == 2u64.to_le_bytes() && log[at + 16..at + 18] == [0xed, 0x41];
        let at = (0..log.len()).step_by(512).rfind(is_root).unwrap();
        log[at + 28] ^= 7;
        std::fs::write(&self.image, data).unwrap();
        std::fs::write(&self.log, log).unwrap();
    }

    fn is_sound(&self) {
        let checked = fsmend(&["check", "-j", self.log(), self.image()]);
        assert_eq!(code(&checked), 0, "{}", stdout(&checked));
    }
}

#[test]
fn without_the_other_one_each_says_what_it_is() {
    let pair = Pair::new("log-alone");
    for command in ["check", "repair", "inspect"] {
        let told = fsmend(&[command, pair.image()]);
        assert_eq!(code(&told), 8);
        let why = stderr(&told);
        assert!(
            why.contains("The log of the file system (\"pair\", UUID ") && why.contains("with -j"),
            "{why}"
        );
    }
    for command in ["check", "repair"] {
        let told = fsmend(&[command, pair.log()]);
        assert_eq!(code(&told), 8);
        let why = stderr(&told);
        assert!(why.contains("only the log of a hybridfs (\"pair\", UUID "), "{why}");
    }
    let told = fsmend(&["inspect", pair.log()]);
    assert!(stdout(&told).contains("kind: log of a hybridfs"), "{}{}", stdout(&told), stderr(&told));
    let told = fsmend(&["inspect", "--format", "json", "-j", pair.log(), pair.image()]);
    let told: serde_json::Value = serde_json::from_str(&stdout(&told)).unwrap();
    let described = &told["file_systems"][0];
    assert_eq!(described["data_free_extents"][0]["count"], 1, "{described}");
    assert_eq!(described["fragments_by_segment"][0]["segment"], 1, "{described}");
}

#[test]
fn a_log_of_another_file_system_is_refused() {
    let (pair, other) = (Pair::new("log-right"), Pair::new("log-wrong"));
    let before = other.bytes();
    for command in ["check", "repair"] {
        let told = fsmend(&[command, "-j", other.log(), pair.image()]);
        assert_eq!(code(&told), 8);
        assert!(stderr(&told).contains("belongs to another file system"), "{}", stderr(&told));
    }
    assert!(other.bytes() == before);
}

#[test]
fn a_repair_and_its_undo_concern_both_devices() {
    let pair = Pair::new("log-repair");
    pair.damage();
    let before = pair.bytes();
    assert_eq!(code(&fsmend(&["check", "-j", pair.log(), pair.image()])), 4);
    let repaired = fsmend(&["repair", "-y", "-j", pair.log(), pair.image()]);
    assert_eq!(code(&repaired), 1, "{}{}", stdout(&repaired), stderr(&repaired));
    pair.is_sound();
    let after = pair.bytes();
    assert!(after.0 != before.0 && after.1 != before.1);
    let again = fsmend(&["repair", "-y", "-j", pair.log(), pair.image()]);
    assert_eq!(code(&again), 0, "{}{}", stdout(&again), stderr(&again));
    assert!(pair.bytes() == after, "a second repair changes nothing");
    // The undo file knows where the log is.
    let undone = fsmend(&["undo", &format!("{}.fsmend-undo", pair.image())]);
    assert_eq!(code(&undone), 0, "{}", stderr(&undone));
    assert!(pair.bytes() == before, "both are as they were");
}

#[test]
fn a_saved_plan_is_carried_out_on_both_devices() {
    let pair = Pair::new("log-plan");
    pair.damage();
    let plan = pair.folder.path("plan");
    let plan = plan.to_str().unwrap();
    let saved = fsmend(&["repair", "-j", pair.log(), "--plan", plan, pair.image()]);
    assert_eq!(code(&saved), 0, "{}", stderr(&saved));
    let fits = fsmend(&["apply", "--dry-run", plan]);
    assert_eq!(code(&fits), 0, "{}", stderr(&fits));
    let moved = pair.folder.path("moved");
    std::fs::rename(&pair.log, &moved).unwrap();
    let refused = fsmend(&["apply", plan]);
    assert_eq!(code(&refused), 8, "the log is not where it was");
    let moved = moved.to_str().unwrap();
    for verify in [&["apply", "--dry-run", "-j", moved, plan][..], &["plan", "verify", "-j", moved, plan]] {
        let fits = fsmend(verify);
        assert_eq!(code(&fits), 0, "{}{}", stdout(&fits), stderr(&fits));
    }
    let before = std::fs::read(&pair.image).unwrap();
    let applied = fsmend(&["apply", "-j", moved, plan]);
    assert_eq!(code(&applied), 1, "{}", stderr(&applied));
    let undone = fsmend(&["undo", "-j", moved, &format!("{}.fsmend-undo", pair.image())]);
    assert_eq!(code(&undone), 0, "{}", stderr(&undone));
    assert!(std::fs::read(&pair.image).unwrap() == before);
    std::fs::rename(moved, &pair.log).unwrap();
    let applied = fsmend(&["apply", plan]);
    assert_eq!(code(&applied), 1, "{}", stderr(&applied));
    pair.is_sound();
}

#[test]
fn block_devices_find_one_another() {
    if !have_root("block_devices_find_one_another", &["losetup"]) {
        return;
    }
    let pair = Pair::new("log-found");
    pair.damage();
    let (Ok(on), Ok(beside)) = (LoopDevice::new(&pair.image), LoopDevice::new(&pair.log)) else {
        host::skip("block_devices_find_one_another", "loop devices are not possible");
        return;
    };
    assert_eq!(code(&fsmend(&["check", on.path()])), 4, "the log was found by its UUID");
    let told = fsmend(&["inspect", on.path()]);
    assert!(stdout(&told).contains("kind: hybridfs"), "{}", stderr(&told));
    let repaired = fsmend(&["repair", "-y", on.path()]);
    assert_eq!(code(&repaired), 1, "{}{}", stdout(&repaired), stderr(&repaired));
    assert_eq!(code(&fsmend(&["check", on.path()])), 0);
    let spared = fsmend(&["mkfs", "-t", "ext4", beside.path()]);
    assert_eq!(code(&spared), 8, "a log is not overwritten");
    drop((on, beside));
    pair.is_sound();
}
