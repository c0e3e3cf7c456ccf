// SPDX-License-Identifier: MIT OR Apache-2.0
//! External journals: replayed and emptied, in this order, under the protocol of every repair.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/images.rs"]
mod images;

use std::path::PathBuf;
use std::process::Output;

use fsmend_testkit::host::{self, LoopDevice};
use images::{Folder, code, compat, debugfs, e2fsck, fsmend, have_root, stderr, stdout};

/// A file system with its journal on another device, both as a crash left them: the log waits to be replayed.
struct Pair {
    folder: Folder,
    image: PathBuf,
    journal: PathBuf,
}

impl Pair {
    /// `None`, and a note, where it cannot be made.
    fn new(name: &str) -> Option<Pair> {
        let tools = ["mke2fs", "debugfs", "e2fsck", "losetup", "mount"];
        if !have_root(name, &tools) {
            return None;
        }
        let folder = Folder::new(name);
        let (image, journal) = (folder.path("fs.img"), folder.path("journal.img"));
        std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        std::fs::File::create(&journal).unwrap().set_len(8 << 20).unwrap();
        host::run("mke2fs", ["-q", "-F", "-O", "journal_dev", "-b", "1024", journal.to_str().unwrap()])
            .unwrap();
        let (Ok(on), Ok(beside)) = (LoopDevice::new(&image), LoopDevice::new(&journal)) else {
            host::skip(name, "loop devices are not possible");
            return None;
        };
        let place = format!("device={}", beside.path());
        host::run("mke2fs", ["-q", "-F", "-t", "ext4", "-b", "1024", "-J", &place, on.path()]).unwrap();
        let point = folder.path("mnt");
        std::fs::create_dir(&point).unwrap();
        let options = format!("journal_path={}", beside.path());
        if host::run("mount", ["-t", "ext4", "-o", &options, on.path(), point.to_str().unwrap()]).is_err() {
            host::skip(name, "it cannot be mounted");
            return None;
        }
        for number in 0..20 {
            std::fs::create_dir(point.join(format!("d{number}"))).unwrap();
            std::fs::write(point.join(format!("d{number}/file")), format!("{number}\n")).unwrap();
        }
        host::run("sync", ["-f", point.to_str().unwrap()]).unwrap();
        // What both hold just now is what a power cut leaves.
        for file in [&image, &journal] {
            std::fs::copy(file, file.with_extension("cut")).unwrap();
        }
        host::unmount(&point).unwrap();
        drop((on, beside));
        for file in [&image, &journal] {
            std::fs::rename(file.with_extension("cut"), file).unwrap();
        }
        Some(Pair { folder, image, journal })
    }

    fn bytes(&self) -> (Vec<u8>, Vec<u8>) {
        (std::fs::read(&self.image).unwrap(), std::fs::read(&self.journal).unwrap())
    }

    fn compat(&self, options: &str) -> Output {
        compat(&format!("{options} -j {}", self.journal.display()), &self.image)
    }

    fn fsmend(&self, command: &str, more: &[&str]) -> Output {
        let mut arguments = vec![command, self.image.to_str().unwrap(), "-j", self.journal.to_str().unwrap()];
        arguments.extend(more);
        fsmend(&arguments)
    }

    /// Both checkers are content, nothing waits in the journal, and the kernel mounts both.
    fn is_sound(&self) {
        let theirs = e2fsck(&format!("-fn -j {}", self.journal.display()), &self.image);
        assert_eq!(code(&theirs), 0, "{}{}", stdout(&theirs), stderr(&theirs));
        let ours = self.fsmend("check", &[]);
        assert_eq!(code(&ours), 0, "{}", stdout(&ours));
        assert!(!stdout(&ours).contains("replayed"), "{}", stdout(&ours));
        // s_start of the journal's superblock, in the second block of 1 KiB.
        assert_eq!(self.bytes().1[2048 + 28..2048 + 32], [0; 4]);
        let (image, journal) = (self.folder.path("m.img"), self.folder.path("mj.img"));
        std::fs::copy(&self.image, &image).unwrap();
        std::fs::copy(&self.journal, &journal).unwrap();
        let beside = LoopDevice::new(&journal).unwrap();
        let options = format!("journal_path={}", beside.path());
        let mount = host::LoopMount::new(&image, &self.folder.path("mnt"), "ext4", &options).unwrap();
        assert_eq!(std::fs::read_to_string(mount.path().join("d19/file")).unwrap(), "19\n");
        std::fs::write(mount.path().join("new"), "new").unwrap();
        mount.unmount().unwrap();
    }
}

#[test]
fn the_face_replays_and_empties_it_as_e2fsck_does() {
    let Some(pair) = Pair::new("journal-compat") else { return };
    let (image, journal) = (pair.folder.path("theirs.img"), pair.folder.path("theirs.journal"));
    std::fs::copy(&pair.image, &image).unwrap();
    std::fs::copy(&pair.journal, &journal).unwrap();
    let theirs = e2fsck(&format!("-p -j {}", journal.display()), &image);
    let ours = pair.compat("-p");
    assert_eq!((code(&ours), code(&theirs)), (0, 0), "{}{}", stdout(&ours), stderr(&ours));
    assert!(stdout(&ours).contains("recovering journal"), "{}", stdout(&ours));
    assert!(pair.bytes().1 == std::fs::read(&journal).unwrap(), "the journal as e2fsck leaves it");
    // Totals in the superblock lag behind after a crash, which no fast look minds.
    assert!(code(&pair.compat("-fy")) <= 1);
    pair.is_sound();
}

#[test]
fn a_repair_and_its_undo_concern_both() {
    let Some(pair) = Pair::new("journal-repair") else { return };
    // A name that leads nowhere once the journal is replayed.
    debugfs(&pair.image, "sif <2> links_count 77");
    let before = pair.bytes();
    let repaired = pair.fsmend("repair", &["-y"]);
    assert_eq!(code(&repaired), 1, "{}{}", stdout(&repaired), stderr(&repaired));
    pair.is_sound();
    let after = pair.bytes();
    let log = format!("{}.fsmend-undo", pair.image.display());
    let undone = fsmend(&["undo", &log]);
    assert_eq!(code(&undone), 0, "{}", stderr(&undone));
    assert!(pair.bytes() == before, "undo brings both back");
    let again = pair.fsmend("repair", &["-y"]);
    assert_eq!(code(&again), 1, "{}", stderr(&again));
    assert!(pair.bytes().1 == after.1);
    pair.is_sound();
}

#[test]
fn a_saved_plan_has_it_too_and_refuses_a_journal_that_was_used_since() {
    let Some(pair) = Pair::new("journal-plan") else { return };
    let plan = pair.folder.path("plan");
    let saved = pair.fsmend("repair", &["--plan", plan.to_str().unwrap()]);
    assert_eq!(code(&saved), 0, "{}", stderr(&saved));
    let before = pair.bytes();
    let mut used = before.1.clone();
    used[2048 + 27] ^= 1;
    std::fs::write(&pair.journal, &used).unwrap();
    let refused = fsmend(&["apply", plan.to_str().unwrap()]);
    assert_eq!(code(&refused), 8);
    assert!(stderr(&refused).contains("used since"), "{}", stderr(&refused));
    assert!(pair.bytes() == (before.0.clone(), used), "nothing was written");
    std::fs::write(&pair.journal, &before.1).unwrap();
    let applied = fsmend(&["apply", plan.to_str().unwrap()]);
    assert_eq!(code(&applied), 1, "{}", stderr(&applied));
    pair.is_sound();
}

#[test]
fn a_journal_in_use_and_one_that_was_not_named_keep_everything_from_being_written() {
    let Some(pair) = Pair::new("journal-busy") else { return };
    let before = pair.bytes();
    let holder = LoopDevice::new(&pair.journal).unwrap();
    for output in [pair.compat("-y"), pair.fsmend("repair", &["-y"])] {
        assert_eq!(code(&output), 8, "{}", stdout(&output));
        assert!(stderr(&output).contains("external journal"), "{}", stderr(&output));
    }
    drop(holder);
    let unnamed = compat("-y", &pair.image);
    // As e2fsck: what waits in the journal is missing.
    assert_eq!(code(&unnamed), 12, "{}", stdout(&unnamed));
    assert!(pair.bytes() == before);
}

#[test]
fn one_that_is_attached_is_found_by_its_uuid() {
    let Some(pair) = Pair::new("journal-found") else { return };
    let (image, before) = (pair.image.to_str().unwrap(), pair.bytes());
    let beside = LoopDevice::new(&pair.journal).unwrap();
    let seen = fsmend(&["check", image]);
    assert!(stdout(&seen).contains("replayed"), "{}{}", stdout(&seen), stderr(&seen));
    assert_eq!(code(&seen), code(&pair.fsmend("check", &[])));
    assert!(pair.bytes() == before, "a check writes nothing");
    let repaired = fsmend(&["repair", "-y", image]);
    assert_eq!(code(&repaired), 1, "{}{}", stdout(&repaired), stderr(&repaired));
    drop(beside);
    pair.is_sound();
    let after = pair.bytes();
    for (file, bytes) in [(&pair.image, &before.0), (&pair.journal, &before.1)] {
        std::fs::write(file, bytes).unwrap();
    }
    let beside = LoopDevice::new(&pair.journal).unwrap();
    let faced = compat("-fy", &pair.image);
    assert_eq!(code(&faced), 1, "{}{}", stdout(&faced), stderr(&faced));
    drop(beside);
    assert!(pair.bytes().1 == after.1);
    pair.is_sound();
}

#[test]
fn of_two_with_the_same_uuid_neither_is_taken() {
    let Some(pair) = Pair::new("journal-twice") else { return };
    let (before, copy) = (pair.bytes(), pair.folder.path("copy.journal"));
    std::fs::copy(&pair.journal, &copy).unwrap();
    // Not the number that the superblock knows.
    debugfs(&pair.image, "ssv journal_dev 0");
    let image = std::fs::read(&pair.image).unwrap();
    let (one, other) = (LoopDevice::new(&pair.journal).unwrap(), LoopDevice::new(&copy).unwrap());
    let repaired = fsmend(&["repair", "-y", pair.image.to_str().unwrap()]);
    for (output, expected) in [(repaired, 8), (compat("-fy", &pair.image), 12)] {
        assert_eq!(code(&output), expected, "{}{}", stdout(&output), stderr(&output));
        let said = stderr(&output);
        assert!(said.contains(one.path()) && said.contains(other.path()) && said.contains("-j"), "{said}");
    }
    let seen = fsmend(&["check", pair.image.to_str().unwrap()]);
    assert!(stderr(&seen).contains("Several devices"), "{}{}", stdout(&seen), stderr(&seen));
    assert!(pair.bytes() == (image, before.1), "nothing was written");
}
